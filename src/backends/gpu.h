/*
 * gpu.h - the part of a backend whose ranks are GPUs.
 *
 * Its memory and its queues are the GPU's: the main queue, too, runs beside the driver. What fill,
 * collective and copies within its memory issue is done in their order, and known to be once finish
 * has returned. verify and copies from or to host memory wait for all before them, and are done
 * when they return.
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
	/* BB_EBACKEND with the reason unless there are GPUs that can be used. Needs no open
	   backend. */
	bb_status (*usable)(struct bb_error *error);
	/* For --list: append lines about the GPUs' library that was found, and what of it is not
	   used. Needs no open backend. */
	void (*list)(struct bb_strbuf *out);
	/* Seconds between two events that were recorded and reached. */
	bb_status (*elapsed)(struct bb_rank *rank, struct bb_event *from, struct bb_event *to,
			     double *seconds);
	/* QUEUE is busy for SECONDS with a kernel: one block, which looks at the clock. */
	bb_status (*spin)(struct bb_rank *rank, struct bb_queue *queue, double seconds);
	/* QUEUE multiplies matrices of half precision, FLOPS operations or the least that makes
	   sense. BB_EUNSUPPORTED with the reason where the library that does it is missing. */
	bb_status (*gemm)(struct bb_rank *rank, struct bb_queue *queue, double flops,
			  struct bb_error *error);
	/*
	 * Make ready what CALL, settled by choose and tune, needs beyond its buffers: a
	 * communicator of its algorithm, buffers registered. Whether it came about refuses says
	 * afterwards. Collective over the world: every rank comes with the group that makes the
	 * call, and all with the same algorithm. Over the group alone where all calls of the group
	 * so far were settled by choose or are by a schedule.
	 */
	bb_status (*ready)(struct bb_group *group, const struct bb_call *call);
	/* Between the two, collectives of the main queue are issued to the library as one. */
	bb_status (*batch_begin)(struct bb_rank *rank);
	bb_status (*batch_end)(struct bb_rank *rank);
};

#endif
