/*
 * gpu.h - the part of a backend whose ranks are GPUs.
 *
 * Memory and queues are the GPU's; the main queue also runs beside the driver. Work of fill,
 * collective and copies within GPU memory is done in issue order, and is complete once finish has
 * returned. verify and copies from or to host memory wait for all earlier work and are done when
 * they return.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"

#include <stdint.h>

struct bb_call;
struct bb_event;
struct bb_group;
struct bb_queue;
struct bb_rank;

#define BB_GPU_UNKNOWN INT64_MIN

/* X(member, unit, meaning): state of a GPU, of which a run reports both ends. */
#define BB_GPU_STATES(X)                                                                           \
	X(sm_MHz, "MHz", "clock of its processors")                                                \
	X(sm_most_MHz, "MHz", "highest clock of its processors")                                   \
	X(memory_MHz, "MHz", "clock of its memory")                                                \
	X(memory_most_MHz, "MHz", "highest clock of its memory")                                   \
	X(temperature_C, "C", "temperature")                                                       \
	X(power_W, "W", "power drawn")                                                             \
	X(power_cap_W, "W", "limit of the power in force")                                         \
	X(power_default_W, "W", "limit of the power as delivered")                                 \
	X(persistence, "", "1: the driver stays loaded between users")                             \
	X(mig, "", "1: it is divided into parts (MIG)")                                            \
	X(throttle_reasons, "", "NVML's mask of reasons for a lower clock")                        \
	X(rows_pending, "", "1: rows are remapped at the next reset")

/* X as above: counters, of which a run reports the growth. */
#define BB_GPU_COUNTS(X)                                                                           \
	X(ecc_corrected, "", "corrected errors of memory since the driver was loaded")             \
	X(ecc_uncorrected, "", "uncorrected errors of memory since the driver was loaded")         \
	X(rows_remapped, "", "remapped rows of memory")                                            \
	X(nvlink_errors, "", "replays, recoveries and CRC errors of all NVLinks")                  \
	X(pcie_replays, "", "replays of PCIe")                                                     \
	X(power_throttled_us, "us", "time at a lower clock for power")                             \
	X(thermal_throttled_us, "us", "time at a lower clock for temperature")

/* A member is BB_GPU_UNKNOWN where the driver does not report it. */
struct bb_gpu_health {
	char driver[32]; /* version; empty: the driver reports nothing */
#define BB_GPU_MEMBER(name, unit, text) int64_t name;
	BB_GPU_STATES(BB_GPU_MEMBER) BB_GPU_COUNTS(BB_GPU_MEMBER)
#undef BB_GPU_MEMBER
};

enum bb_gpu_throttle { BB_GPU_POWER, BB_GPU_THERMAL, BB_GPU_THROTTLES };

struct bb_gpu {
	/* BB_EBACKEND with the reason unless there are usable GPUs. Needs no open backend. */
	bb_status (*usable)(struct bb_error *error);
	/* For --list: append lines about NCCL, as it was found, and about its unused features.
	   Needs no open backend. */
	void (*list)(struct bb_strbuf *out);
	/* Seconds between two events that were recorded and reached. */
	bb_status (*elapsed)(struct bb_rank *rank, struct bb_event *from, struct bb_event *to,
			     double *seconds);
	/* Keep QUEUE busy for SECONDS with a kernel of one block that reads the clock. */
	bb_status (*spin)(struct bb_rank *rank, struct bb_queue *queue, double seconds);
	/* Multiply half-precision matrices in QUEUE, with FLOPS operations, or the smallest
	   possible number. BB_EUNSUPPORTED with the reason if cuBLAS is missing. */
	bb_status (*gemm)(struct bb_rank *rank, struct bb_queue *queue, double flops,
			  struct bb_error *error);
	/*
	 * Prepare what CALL, after choose and tune, needs beyond its buffers: a communicator for
	 * its algorithm, registered buffers. Afterwards refuses returns why that failed, if it did.
	 * Collective over the world: every rank passes the group that makes the call, and all use
	 * the same algorithm. Collective over the group alone if all its calls so far use a
	 * schedule or the algorithm that choose set.
	 */
	bb_status (*ready)(struct bb_group *group, const struct bb_call *call);
	/* Begin a batch, or END it: its collectives of the main queue are issued to the library as
	   one. */
	bb_status (*batch)(struct bb_rank *rank, bool end);
	/* *HEALTH = the state and counters of the rank's GPU. Takes milliseconds. */
	void (*health)(struct bb_rank *rank, struct bb_gpu_health *health);
	/* US = microseconds that the rank's GPU has spent at a lower clock since its driver was
	   loaded, for each reason. */
	void (*throttled)(struct bb_rank *rank, int64_t us[BB_GPU_THROTTLES]);
};
