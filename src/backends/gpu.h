/*
 * gpu.h - the part of a backend whose ranks are GPUs.
 *
 * Memory and queues are the GPU's; the main queue also runs beside the driver. Work of fill,
 * collective and copies within GPU memory is done in issue order, and is complete once finish has
 * returned. verify and copies from or to host memory wait for all earlier work and are done when
 * they return.
 */
#ifndef BB_BACKENDS_GPU_H
#define BB_BACKENDS_GPU_H

#include "core/status.h"
#include "core/strbuf.h"

struct bb_call;
struct bb_event;
struct bb_group;
struct bb_queue;
struct bb_rank;

struct bb_gpu {
	/* BB_EBACKEND with the reason unless there are usable GPUs. Needs no open backend. */
	bb_status (*usable)(struct bb_error *error);
	/* For --list: append lines about the library for GPUs that was found, and about its unused
	   features. Needs no open backend. */
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
	 * its algorithm, registered buffers. refuses says afterwards whether that succeeded.
	 * Collective over the world: every rank passes the group that makes the call, and all use
	 * the same algorithm. Collective over the group alone if all its calls so far use a
	 * schedule or the algorithm that choose set.
	 */
	bb_status (*ready)(struct bb_group *group, const struct bb_call *call);
	/* Between begin and end, collectives of the main queue are issued to the library as one. */
	bb_status (*batch_begin)(struct bb_rank *rank);
	bb_status (*batch_end)(struct bb_rank *rank);
};

#endif
