/*
 * busbench's schedules over NCCL's messages, in stream order: a round is one group of messages,
 * followed by its reductions and copies. The steps of a round are independent of each other, so
 * their order does not matter.
 *
 * A message that is to be reduced arrives in the inbox, behind the schedule's part of TMP.
 */
#include "backends/nccl/nccl.h"

#define ALIGNMENT ((size_t)256)

struct run {
	struct bb_group *group;
	const struct bb_call *call;
	cudaStream_t stream;
	enum bb_op op;
	struct bb_step_buffers buffers;
	char *inbox;
};

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

/* ---- TMP holds the schedule's own part, weighted inputs and the inbox ------------------ */

static size_t own_bytes(const struct bb_call *call, int rank)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);

	return aligned(bb_algorithm_tmp_count(call->schedule, &shape, rank) *
		       bb_dtype_size(call->dtype));
}

static size_t weighted_bytes(const struct bb_call *call, int rank)
{
	return bb_call_weighs(call, rank) ? aligned(bb_call_in_bytes(call, rank)) : 0;
}

static int sources_of(const struct bb_step *step)
{
	return step->peer2 == BB_NO_PEER ? 1 : 2;
}

/* AT[i] = offset in the inbox of what step I reduces; returns the bytes of all. */
static size_t inbox_place(const struct bb_step *steps, int n, size_t element,
			  size_t at[BB_MAX_STEPS])
{
	size_t bytes = 0;

	for (int i = 0; i < n; i++) {
		at[i] = bytes;
		if (steps[i].kind == BB_RECV_REDUCE)
			bytes += (size_t)sources_of(&steps[i]) * aligned(steps[i].count * element);
	}
	return bytes;
}

size_t bb_nccl_schedule_tmp_bytes(const struct bb_call *call, int rank)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const bool reduces = call->collective->flags & BB_REDUCES;
	struct bb_step steps[BB_MAX_STEPS];
	size_t most = 0, at[BB_MAX_STEPS];
	struct bb_role role;

	bb_algorithm_prepare(call->schedule, &shape, rank, &role);
	for (size_t round = 0; round < role.rounds && reduces; round++) {
		const int n = bb_algorithm_steps(call->schedule, &shape, &role, round, steps);
		const size_t bytes = inbox_place(steps, n, bb_dtype_size(call->dtype), at);

		most = bytes > most ? bytes : most;
	}
	return own_bytes(call, rank) + weighted_bytes(call, rank) + most;
}

/* ---- a round ----------------------------------------------------------------------- */

/* Issue the messages of STEP; what is to be reduced arrives at INBOX. */
static bb_status step_issue(const struct run *run, const struct bb_step *step, char *inbox)
{
	const int peers[2] = {step->peer, step->peer2};
	const size_t bytes = step->count * run->buffers.element;
	struct bb_group *g = run->group;
	bb_status status = BB_OK;

	if (step->kind == BB_SEND)
		return BB_NCCL(g->rank, ncclSend(bb_place_address(&run->buffers, step->src), bytes,
						 ncclInt8, step->peer, g->comm, run->stream));
	for (int i = 0; i < sources_of(step) && status == BB_OK; i++) {
		char *const dst = step->kind == BB_RECV_REDUCE
					  ? inbox + (size_t)i * aligned(bytes)
					  : bb_place_address(&run->buffers, step->dst);

		status = BB_NCCL(g->rank,
				 ncclRecv(dst, bytes, ncclInt8, peers[i], g->comm, run->stream));
	}
	return status;
}

static bb_status run_round(const struct run *run, const struct bb_step *steps, int n)
{
	struct bb_rank *rank = run->group->rank;
	const struct bb_gpu_lane lane = bb_nccl_lane(rank, run->stream);
	size_t inbox[BB_MAX_STEPS];
	int messages = 0;
	bb_status status = BB_OK;

	(void)inbox_place(steps, n, run->buffers.element, inbox);
	for (int i = 0; i < n; i++)
		messages += steps[i].kind != BB_COPY;
	if (messages > 0)
		BB_TRY(status, BB_NCCL(rank, ncclGroupStart()), out);
	/* NCCL matches the messages of two ranks in order of issue and knows no channels, so both
	   sides issue channel after channel. */
	for (int channel = 0; channel < BB_CHANNELS; channel++)
		for (int i = 0; i < n && status == BB_OK; i++)
			if (steps[i].kind != BB_COPY && steps[i].channel == channel)
				status = step_issue(run, &steps[i], run->inbox + inbox[i]);
	if (messages > 0)
		status = bb_nccl_messages_end(rank, status);
	for (int i = 0; i < n && status == BB_OK; i++) {
		const size_t bytes = steps[i].count * run->buffers.element;
		const char *const src = bb_place_address(&run->buffers, steps[i].src);
		char *const dst = bb_place_address(&run->buffers, steps[i].dst);

		if (steps[i].kind == BB_RECV_REDUCE) {
			const char *const in = run->inbox + inbox[i];
			const void *const sources[3] = {src, in, in + aligned(bytes)};

			status = BB_CUDA(rank, bb_gpu_reduce(lane, run->call->dtype, run->op, dst,
							     sources, 1 + sources_of(&steps[i]),
							     steps[i].count));
		} else if (steps[i].kind == BB_COPY && dst != src) {
			status = BB_CUDA(rank,
					 cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice,
							 run->stream));
		}
	}
out:
	return status;
}

/* ---- a call -------------------------------------------------------------------------- */

bb_status bb_nccl_schedule(struct bb_group *group, cudaStream_t stream, const struct bb_call *call)
{
	struct run run = {
		.group = group,
		.call = call,
		.stream = stream,
		.op = call->op == BB_AVG || call->op == BB_MULSUM ? BB_SUM : call->op,
		.buffers = {{(char *)call->in, call->out, call->tmp}, bb_dtype_size(call->dtype)}};
	char *const weighted = (char *)call->tmp + own_bytes(call, group->me);
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	struct bb_step steps[BB_MAX_STEPS];
	struct bb_role role;
	bb_status status = BB_OK;

	run.inbox = weighted + weighted_bytes(call, group->me);
	if (bb_call_weighs(call, group->me)) { /* then the schedule reads a copy */
		run.buffers.at[BB_IN] = weighted;
		BB_TRY(status,
		       BB_CUDA(group->rank, bb_gpu_scale(bb_nccl_lane(group->rank, stream),
							 call->dtype, weighted, call->in,
							 bb_collective_in(call->collective,
									  &call->shape, group->me),
							 bb_mulsum_weight(group->me), 1)),
		       out);
	}
	bb_algorithm_prepare(call->schedule, &shape, group->me, &role);
	for (size_t round = 0; round < role.rounds && status == BB_OK; round++)
		status = run_round(&run, steps,
				   bb_algorithm_steps(call->schedule, &shape, &role, round, steps));
	if (bb_call_divides(call) && status == BB_OK)
		status = BB_CUDA(
			group->rank,
			bb_gpu_scale(bb_nccl_lane(group->rank, stream), call->dtype, call->out,
				     call->out,
				     bb_collective_out(call->collective, &call->shape, group->me),
				     1, call->shape.nranks));
out:
	return status;
}
