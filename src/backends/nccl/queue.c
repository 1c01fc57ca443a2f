/*
 * Streams, events and graphs. The main queue is a stream like the others.
 */
#include "backends/nccl/nccl.h"

#include <sched.h>
#include <stdlib.h>

#define QUERIES 64 /* of a stream, between two of the communicators' errors */

struct bb_queue {
	struct bb_rank *rank;
	cudaStream_t stream;
	bb_status status; /* of the first operation that failed */
};

struct bb_event {
	struct bb_rank *rank;
	cudaEvent_t event;
};

struct bb_graph {
	struct bb_rank *rank;
	cudaGraph_t graph;
	cudaGraphExec_t ready;
};

cudaStream_t bb_nccl_stream(const struct bb_rank *rank, const struct bb_queue *queue)
{
	return queue ? queue->stream : rank->main;
}

/* ---- waiting ------------------------------------------------------------------------- */

static bb_status check_communicators(struct bb_rank *rank)
{
	ncclResult_t result;
	bb_status status = BB_OK;

	for (struct bb_group *g = rank->groups; g && status == BB_OK; g = g->next) {
		if (!g->comm)
			continue;
		BB_TRY(status, BB_NCCL(rank, ncclCommGetAsyncError(g->comm, &result)), out);
		status = bb_nccl_check(rank, result, "ncclCommGetAsyncError", __FILE__, __LINE__);
	}
out:
	return status;
}

static bb_status await_stream(struct bb_rank *rank, cudaStream_t stream)
{
	bb_status status = BB_OK;

	for (unsigned queries = 1; status == BB_OK; queries++) {
		const cudaError_t result = cudaStreamQuery(stream);

		if (bb_nccl_aborted(rank->context))
			return BB_ETIMEOUT;
		if (result != cudaErrorNotReady)
			return bb_cuda_check(rank, result, "cudaStreamQuery", __FILE__, __LINE__);
		if (queries % QUERIES == 0)
			status = check_communicators(rank);
		sched_yield();
	}
	return status;
}

bb_status bb_nccl_wait(struct bb_rank *rank, cudaStream_t stream)
{
	const bb_status status = await_stream(rank, stream);

	if (status != BB_OK && rank->halt)
		atomic_store(rank->halt, 1);
	return status;
}

/* The kernel that takes time is loaded here, too. Later, beside a kernel that waits for another
   rank, either step might never end: CUDA may pin memory, and load a kernel, only while the device
   is idle. */
bb_status bb_nccl_halt_open(struct bb_rank *rank)
{
	bb_status status = BB_CUDA(rank, cudaMallocHost((void **)&rank->halt, sizeof(*rank->halt)));

	if (status != BB_OK)
		return status;
	atomic_init(rank->halt, 0);
	return bb_nccl_spin(rank, NULL, 1e-9);
}

void bb_nccl_halt_close(struct bb_rank *rank)
{
	if (rank->halt)
		BB_CUDA_FREE(rank, cudaFreeHost((void *)rank->halt));
	rank->halt = NULL;
}

/* Record STATUS in QUEUE, unless an error precedes it; returns the first error. */
static bb_status queue_keep(struct bb_queue *queue, bb_status status)
{
	if (queue && queue->status == BB_OK)
		queue->status = status;
	return queue ? queue->status : status;
}

/* The first error of QUEUE, after CALL; CALL is not made if an error precedes it. */
#define IN_QUEUE(queue, call)                                                                      \
	((queue) && (queue)->status != BB_OK ? (queue)->status : queue_keep(queue, call))

bb_status bb_nccl_finish(struct bb_rank *rank, struct bb_queue *queue)
{
	return IN_QUEUE(queue, bb_nccl_wait(rank, bb_nccl_stream(rank, queue)));
}

/* ---- queues -------------------------------------------------------------------------- */

bb_status bb_nccl_queue_open(struct bb_rank *rank, struct bb_queue **queue, struct bb_error *error)
{
	struct bb_queue *q = calloc(1, sizeof(*q));
	bb_status status;

	if (!q)
		return bb_no_memory(error, "a queue");
	q->rank = rank;
	BB_TRY(status, BB_CUDA(rank, cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking)),
	       failed);
	*queue = q;
	return BB_OK;
failed:
	free(q);
	return status;
}

void bb_nccl_queue_close(struct bb_queue *queue)
{
	if (!queue)
		return;
	bb_nccl_ignore(bb_nccl_finish(queue->rank, queue));
	bb_nccl_ignore(BB_CUDA(queue->rank, cudaStreamDestroy(queue->stream)));
	free(queue);
}

bb_status bb_nccl_compute(struct bb_rank *rank, struct bb_queue *queue,
			  void (*function)(void *argument), void *argument)
{
	return IN_QUEUE(queue, BB_CUDA(rank, cudaLaunchHostFunc(bb_nccl_stream(rank, queue),
								function, argument)));
}

bb_status bb_nccl_spin(struct bb_rank *rank, struct bb_queue *queue, double seconds)
{
	const struct bb_gpu_lane lane = bb_nccl_lane(rank, bb_nccl_stream(rank, queue));

	return IN_QUEUE(queue, BB_CUDA(rank, bb_gpu_spin(lane, (uint64_t)(1e9 * seconds),
							 (const unsigned *)rank->halt)));
}

bb_status bb_nccl_gemm(struct bb_rank *rank, struct bb_queue *queue, double flops,
		       struct bb_error *error)
{
	const cudaStream_t stream = bb_nccl_stream(rank, queue);

	return IN_QUEUE(queue, bb_nccl_multiply(rank, stream, flops, error));
}

/* ---- collectives ------------------------------------------------------------------- */

bb_status bb_nccl_group_end(struct bb_rank *rank)
{
	if (!rank->grouping)
		return BB_OK;
	rank->grouping = false;
	return BB_NCCL(rank, ncclGroupEnd());
}

bb_status bb_nccl_batch_begin(struct bb_rank *rank)
{
	rank->batched = true;
	return BB_OK;
}

bb_status bb_nccl_batch_end(struct bb_rank *rank)
{
	rank->batched = false;
	return bb_nccl_group_end(rank);
}

/*
 * NCCL issues the calls of a group together, when it ends. A call with an order of its own (rounds
 * of a schedule, a copy before messages) cannot be part of one.
 */
static bb_status batch_join(struct bb_group *group, const struct bb_call *call)
{
	struct bb_rank *rank = group->rank;
	bb_status status;

	if (call->schedule || bb_nccl_is_device(call->native) ||
	    bb_nccl_native_tmp_bytes(call, group->me) > 0)
		return bb_nccl_group_end(rank);
	if (!rank->batched || rank->grouping)
		return BB_OK;
	status = BB_NCCL(rank, ncclGroupStart());
	rank->grouping = status == BB_OK;
	return status;
}

static bb_status collective_issue(struct bb_group *group, struct bb_queue *queue,
				  const struct bb_call *call)
{
	struct bb_rank *rank = group->rank;
	const cudaStream_t stream = bb_nccl_stream(rank, queue);
	bb_status status = BB_OK;

	if (!group->comm || (call->native && call->native != group->made))
		return bb_fail(rank->context->error, BB_EINTERNAL,
			       "rank %d calls a group that is not ready for this algorithm",
			       rank->rank);
	if (bb_nccl_aborted(rank->context))
		return BB_ETIMEOUT;
	if (!queue)
		BB_TRY(status, batch_join(group, call), out);
	status = call->schedule ? bb_nccl_schedule(group, stream, call)
				: bb_nccl_native(group, stream, call);
out:
	return status;
}

bb_status bb_nccl_collective(struct bb_group *group, struct bb_queue *queue,
			     const struct bb_call *call)
{
	return IN_QUEUE(queue, collective_issue(group, queue, call));
}

/* ---- messages ------------------------------------------------------------------------ */

/* NCCL runs the operations of a communicator in order of issue, even on different streams. */
static bb_status message_issue(struct bb_group *group, struct bb_queue *queue, bool sends, int peer,
			       void *data, size_t bytes)
{
	const struct bb_rank *rank = group->rank;
	const cudaStream_t stream = bb_nccl_stream(rank, queue);

	if (!group->comm)
		return bb_fail(rank->context->error, BB_EINTERNAL,
			       "rank %d sends messages in a group that is not ready", rank->rank);
	if (bb_nccl_aborted(rank->context))
		return BB_ETIMEOUT;
	return sends ? BB_NCCL(rank, ncclSend(data, bytes, ncclInt8, peer, group->comm, stream))
		     : BB_NCCL(rank, ncclRecv(data, bytes, ncclInt8, peer, group->comm, stream));
}

static bb_status message_send(struct bb_group *group, struct bb_queue *queue, const int *peer,
			      const void *data, size_t bytes)
{
	return IN_QUEUE(queue, message_issue(group, queue, true, *peer, (void *)data, bytes));
}

static bb_status message_recv(struct bb_group *group, struct bb_queue *queue, int peer, void *data,
			      size_t bytes)
{
	return IN_QUEUE(queue, message_issue(group, queue, false, peer, data, bytes));
}

const struct bb_messages bb_nccl_messages = {.send = message_send, .recv = message_recv};

/* ---- events -------------------------------------------------------------------------- */

bb_status bb_nccl_event_open(struct bb_rank *rank, struct bb_event **event, struct bb_error *error)
{
	struct bb_event *e = calloc(1, sizeof(*e));
	bb_status status;

	if (!e)
		return bb_no_memory(error, "an event");
	e->rank = rank;
	BB_TRY(status, BB_CUDA(rank, cudaEventCreateWithFlags(&e->event, cudaEventDefault)),
	       failed);
	*event = e;
	return BB_OK;
failed:
	free(e);
	return status;
}

void bb_nccl_event_close(struct bb_event *event)
{
	if (!event)
		return;
	bb_nccl_ignore(BB_CUDA(event->rank, cudaEventDestroy(event->event)));
	free(event);
}

bb_status bb_nccl_event_record(struct bb_rank *rank, struct bb_queue *queue, struct bb_event *event)
{
	return IN_QUEUE(queue,
			BB_CUDA(rank, cudaEventRecord(event->event, bb_nccl_stream(rank, queue))));
}

bb_status bb_nccl_event_wait(struct bb_rank *rank, struct bb_queue *queue, struct bb_event *event)
{
	return IN_QUEUE(queue, BB_CUDA(rank, cudaStreamWaitEvent(bb_nccl_stream(rank, queue),
								 event->event, 0)));
}

bb_status bb_nccl_elapsed(struct bb_rank *rank, struct bb_event *from, struct bb_event *to,
			  double *seconds)
{
	float ms = 0;
	bb_status status = BB_CUDA(rank, cudaEventElapsedTime(&ms, from->event, to->event));

	*seconds = 1e-3 * (double)ms;
	return status;
}

/* ---- graphs -------------------------------------------------------------------------- */

static void graph_close(struct bb_graph *graph)
{
	if (!graph)
		return;
	if (graph->ready)
		bb_nccl_ignore(BB_CUDA(graph->rank, cudaGraphExecDestroy(graph->ready)));
	if (graph->graph)
		bb_nccl_ignore(BB_CUDA(graph->rank, cudaGraphDestroy(graph->graph)));
	free(graph);
}

static bb_status graph_begin(struct bb_rank *rank, struct bb_queue *queue)
{
	/* Other threads may call functions that a global capture would forbid. */
	return BB_CUDA(rank, cudaStreamBeginCapture(bb_nccl_stream(rank, queue),
						    cudaStreamCaptureModeThreadLocal));
}

static bb_status graph_end(struct bb_rank *rank, struct bb_queue *queue, struct bb_graph **graph)
{
	const cudaStream_t stream = bb_nccl_stream(rank, queue);
	struct bb_graph *g = calloc(1, sizeof(*g));
	bb_status status;

	if (!g)
		return bb_no_memory(rank->context->error, "a graph");
	g->rank = rank;
	BB_TRY(status, BB_CUDA(rank, cudaStreamEndCapture(stream, &g->graph)), failed);
	BB_TRY(status, BB_CUDA(rank, cudaGraphInstantiateWithFlags(&g->ready, g->graph, 0)),
	       failed);
	/* Otherwise the first launch would upload it, perhaps within a timed region. */
	BB_TRY(status, BB_CUDA(rank, cudaGraphUpload(g->ready, stream)), failed);
	BB_TRY(status, bb_nccl_wait(rank, stream), failed);
	*graph = g;
	return BB_OK;
failed:
	graph_close(g);
	return status;
}

static bb_status graph_launch(struct bb_rank *rank, struct bb_queue *queue, struct bb_graph *graph)
{
	return queue_keep(
		queue, BB_CUDA(rank, cudaGraphLaunch(graph->ready, bb_nccl_stream(rank, queue))));
}

const struct bb_graphs bb_nccl_graphs = {
	.begin = graph_begin,
	.end = graph_end,
	.launch = graph_launch,
	.close = graph_close,
};
