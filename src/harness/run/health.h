/*
 * health.h - what may have made a run slow: counters of the hosts that moved during it, and the
 * state of its GPUs before and after, as their driver reports it.
 */
#pragma once

#include "backends/gpu.h"
#include "harness/run/run.h"

/* ---- counters: one process of each host reads them, process 0 reports them ----------------- */

#define BB_COUNTER_FIELDS(FIELD)                                                                   \
	FIELD(STRING, host, "", "whose counter it is")                                             \
	FIELD(STRING, device, "",                                                                  \
	      "eth0; mlx5_0:1: port 1 of mlx5_0; tcp and cpu: of the whole host")                  \
	FIELD(STRING, counter, "",                                                                 \
	      "the kernel's or the driver's name of it; least_MHz and mean_MHz: over processors")  \
	FIELD(STRING, class, "",                                                                   \
	      "link down, symbol error, error, discard, retransmit, frequency, or traffic, which " \
	      "others are a share of")                                                             \
	FIELD(INT, before, "", "its value before the drivers started")                             \
	FIELD(INT, after, "", "its value after they ended")                                        \
	FIELD(INT, moved, "", "after - before, whoever caused it; below 0: something reset it")    \
	FIELD(BOOL, matters, "",                                                                   \
	      "the text names it: a link went down, a symbol error, or, of a run on several "      \
	      "hosts, an error, 100 discards or retransmits, of TCP at least 0.1% of the "         \
	      "segments sent")

struct bb_counter_record {
	BB_COUNTER_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_counter;

/* Read the counters, in every process before its drivers; nothing if the backend moves no data. One
   that cannot be read is no failure. */
void bb_run_counters_begin(struct bb_run *run);
/* Gather the moves at process 0 after the drivers. Collective over the processes. */
BB_MUST bb_status bb_run_counters_gather(struct bb_run *run);
/* Process 0: deliver a record for each counter that moved, and append '#' lines about those that
   matter. Without gather, only those of its own host. */
void bb_run_counters_report(struct bb_run *run, struct bb_strbuf *text);

/* ---- GPUs ---------------------------------------------------------------------------------- */

/* A state is one field of the record, a count two. */
#define BB_MEMBER_STATE(name, unit, text) BB_MEMBER(INT, name)
#define BB_MEMBER_COUNT(name, unit, text) BB_MEMBER(INT, name##_before) BB_MEMBER(INT, name)
#define BB_FIELD_ROW_STATE(name, unit, text) BB_FIELD_ROW(INT, name, unit, text ", after the run")
#define BB_FIELD_ROW_COUNT(name, unit, text)                                                       \
	BB_FIELD_ROW(INT, name##_before, unit, text ", before the run")                            \
	BB_FIELD_ROW(INT, name, unit, "the same after it")

#define BB_GPU_FIELDS(FIELD)                                                                       \
	FIELD(INT, rank, "", "whose GPU it is")                                                    \
	FIELD(STRING, host, "", "where it is")                                                     \
	FIELD(STRING, bus, "", "its place on the host")                                            \
	FIELD(STRING, driver, "", "version of the driver")                                         \
	BB_GPU_STATES(FIELD##_STATE)                                                               \
	BB_GPU_COUNTS(FIELD##_COUNT)

struct bb_gpu_record {
	BB_GPU_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_gpu;

/* *HEALTH = the state of the driver's GPU now; all zero where ranks are not GPUs. */
void bb_run_gpus_read(const struct bb_run *run, struct bb_driver *driver,
		      struct bb_gpu_health *health);
/* After the last trial: a record for each GPU whose driver answers. BEFORE is the state that
   bb_run_gpus_read gave before the first trial. Collective over the world. */
BB_MUST bb_status bb_run_gpus_report(struct bb_run *run, struct bb_driver *driver,
				     const struct bb_gpu_health *before);
