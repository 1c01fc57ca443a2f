/*
 * The route through pinned memory of the host: the source's copy engine fills the slots of a ring,
 * and the target's empties them, one piece after the other.
 *
 * Between ranks of a process the streams synchronise by events. Between processes the host
 * synchronises them by counters in shared memory, because an IPC event needs a GPU that both
 * processes see, and this route also serves where they do not. The shared memory is an unnamed file
 * of its creator, which others open through /proc/PID/fd, so nothing outlives the processes.
 */
#include "backends/nccl/nccl.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20) /* takes much longer than starting a copy */
#define RING_BYTES (BB_NCCL_SLOTS * PIECE)
#define PAGE ((size_t)64 << 10) /* the largest of a host, GH200 among them */
#define HEAD_BYTES PAGE         /* the counters before a shared ring */
#define SHARED_BYTES (HEAD_BYTES + RING_BYTES)

_Static_assert(SHARED_BYTES % PAGE == 0, "mmap takes offsets of whole pages");

/* The ends of a lane. */
enum lane_side { SOURCE, TARGET };

struct count {
	_Alignas(64) atomic_ullong n;
};

/* Since the start: slots filled by the source and emptied by the target, in pieces; barriers at
   which the source has arrived. */
struct counts {
	struct count done[2], arrived;
};

_Static_assert(sizeof(struct counts) <= HEAD_BYTES, "a ring's head has no room");

/* From a rank to another, at least one of them in this process. */
struct bb_nccl_lane {
	struct counts within;
	struct counts *counts; /* WITHIN, or those in shared memory */
	char *slots;           /* BB_NCCL_SLOTS pieces */
	bool shared;           /* with another process; then slots are mapped, behind the counts */
	struct {
		bool open;
		cudaEvent_t copied[BB_NCCL_SLOTS];
		unsigned long long issued; /* pieces whose copies it has issued */
	} sides[2];
	unsigned long long awaited; /* barriers at which the target has awaited the source */
};

/* ---- lanes --------------------------------------------------------------------------- */

static struct bb_nccl_lane *lane_within(const struct bb_context *context, int from, int to)
{
	const struct bb_world *w = &context->world;

	return &context->lanes[(from - w->first_rank) * w->nlocal + to - w->first_rank];
}

static struct bb_nccl_lane *lane_of(const struct bb_rank *rank, int from, int to)
{
	const struct bb_nccl_peer *peer = &rank->peers[from == rank->rank ? to : from];

	if (peer->within)
		return lane_within(rank->context, from, to);
	return &peer->lanes[from == rank->rank ? 0 : 1];
}

/* N lanes within a process, with zero counts; NULL: out of memory. */
static struct bb_nccl_lane *make_lanes(size_t n)
{
	struct bb_nccl_lane *lanes = aligned_alloc(64, n * sizeof(*lanes));

	if (!lanes)
		return NULL;
	memset(lanes, 0, n * sizeof(*lanes));
	for (size_t i = 0; i < n; i++)
		lanes[i].counts = &lanes[i].within;
	return lanes;
}

bb_status bb_nccl_lanes_open(struct bb_context *context)
{
	const size_t n = (size_t)context->world.nlocal;

	context->lanes = make_lanes(n * n);
	return context->lanes ? BB_OK : bb_no_memory(context->error, "the nccl backend");
}

static void close_events(struct bb_rank *rank, struct bb_nccl_lane *lane, enum lane_side side)
{
	for (int i = 0; i < BB_NCCL_SLOTS; i++)
		if (lane->sides[side].copied[i])
			bb_nccl_ignore(
				BB_CUDA(rank, cudaEventDestroy(lane->sides[side].copied[i])));
}

void bb_nccl_lanes_close(struct bb_rank *rank)
{
	const struct bb_world *w = &rank->context->world;

	for (int r = w->first_rank; r < w->first_rank + w->nlocal; r++) {
		struct bb_nccl_lane *out = lane_within(rank->context, rank->rank, r);

		close_events(rank, out, SOURCE);
		close_events(rank, lane_within(rank->context, r, rank->rank), TARGET);
		if (out->slots)
			BB_CUDA_FREE(rank, cudaFreeHost(out->slots));
	}
	for (int r = 0; r < w->nranks; r++) {
		struct bb_nccl_lane *lanes = rank->peers[r].lanes;

		for (int i = 0; lanes && i < 2; i++) {
			close_events(rank, &lanes[i], i == 0 ? SOURCE : TARGET);
			if (!lanes[i].shared || bb_nccl_aborted(rank->context))
				continue; /* see BB_CUDA_FREE */
			bb_nccl_ignore(BB_CUDA(rank, cudaHostUnregister(lanes[i].slots)));
			munmap(lanes[i].counts, SHARED_BYTES);
		}
		free(lanes);
	}
	if (rank->staging.pid != 0 && rank->staging.number >= 0)
		close(rank->staging.number);
}

/* ---- lanes that processes share ------------------------------------------------------ */

void bb_nccl_staging_open(struct bb_rank *rank, struct bb_nccl_staging *staging)
{
	struct bb_nccl_staging *mine = &rank->staging;
	struct stat file;

	if (mine->pid == 0) {
		*mine = (struct bb_nccl_staging){.pid = getpid(), .number = -1};
		mine->number = memfd_create("busbench-staged", MFD_CLOEXEC);
		/* A sparse file: only written pages take memory. */
		if (mine->number >= 0 &&
		    (ftruncate(mine->number,
			       (off_t)((size_t)rank->context->world.nranks * SHARED_BYTES)) != 0 ||
		     fstat(mine->number, &file) != 0)) {
			close(mine->number);
			mine->number = -1;
		}
		if (mine->number >= 0)
			mine->file = file.st_ino;
	}
	*staging = *mine;
}

/* Map the lane to rank TO in STAGING; returns the reason if it cannot be. */
static const char *map_lane(const struct bb_nccl_staging *staging, int to,
			    struct bb_nccl_lane *lane)
{
	char path[64], *at = MAP_FAILED;
	struct stat file;
	int number;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)staging->pid, (int)staging->number);
	number = open(path, O_RDWR | O_CLOEXEC);
	/* In another PID namespace the same PID is another process. */
	if (number >= 0 && fstat(number, &file) == 0 && file.st_ino == staging->file)
		at = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, number,
			  (off_t)((size_t)to * SHARED_BYTES));
	if (number >= 0)
		close(number);
	if (at == MAP_FAILED)
		return "the processes cannot map each other's memory of the host (/proc/PID/fd)";
	if (cudaHostRegister(at + HEAD_BYTES, RING_BYTES, cudaHostRegisterDefault) != cudaSuccess) {
		cudaGetLastError(); /* clears it */
		munmap(at, SHARED_BYTES);
		return "CUDA cannot pin memory that processes share (cudaHostRegister)";
	}
	lane->shared = true;
	lane->counts = (struct counts *)at;
	lane->slots = at + HEAD_BYTES;
	return NULL;
}

bb_status bb_nccl_lanes_meet(struct bb_rank *rank, int other, const struct bb_nccl_staging *staging)
{
	struct bb_nccl_peer *peer = &rank->peers[other];

	if (peer->lanes)
		return BB_OK;
	peer->lanes = make_lanes(2);
	if (!peer->lanes)
		return bb_no_memory(rank->context->error, "a rank");
	peer->apart = map_lane(&rank->staging, other, &peer->lanes[0]);
	if (!peer->apart)
		peer->apart = map_lane(staging, rank->rank, &peer->lanes[1]);
	return BB_OK;
}

/* ---- pieces -------------------------------------------------------------------------- */

/* A rank's lanes to a peer and back. */
struct staging {
	struct bb_rank *rank;
	struct bb_nccl_lane *forth, *back;
};

/* If LANE is shared, publish how many pieces of SIDE are complete, by their events. */
static bb_status publish(struct bb_rank *rank, struct bb_nccl_lane *lane, enum lane_side side)
{
	atomic_ullong *const count = &lane->counts->done[side].n;
	unsigned long long number = atomic_load_explicit(count, memory_order_relaxed);
	cudaError_t result = cudaSuccess;

	while (lane->shared && number < lane->sides[side].issued &&
	       (result = cudaEventQuery(lane->sides[side].copied[number % BB_NCCL_SLOTS])) ==
		       cudaSuccess)
		atomic_store_explicit(count, ++number, memory_order_release);
	return result == cudaErrorNotReady ? BB_OK : BB_CUDA_RESULT(rank, result, "cudaEventQuery");
}

/* Wait until COUNT is at least NUMBER. */
static bb_status count_await(const struct staging *s, struct count *count,
			     unsigned long long number)
{
	bb_status status = BB_OK;

	while (atomic_load_explicit(&count->n, memory_order_acquire) < number && status == BB_OK) {
		if (bb_nccl_aborted(s->rank->context))
			return BB_ETIMEOUT;
		status = publish(s->rank, s->forth, SOURCE);
		if (status == BB_OK)
			status = publish(s->rank, s->back, TARGET);
		sched_yield();
	}
	return status;
}

/* Issue the copy of SIDE's next piece, HALF's from byte AT on, into its slot or out of it, once the
   other side has emptied or filled that. */
static bb_status slot_pass(const struct staging *s, enum lane_side side, const struct bb_half *half,
			   size_t at)
{
	const size_t bytes = half->bytes - at < PIECE ? half->bytes - at : PIECE;
	char *const mine = (char *)half->mine + at;
	struct bb_rank *rank = s->rank;
	struct bb_nccl_lane *lane = side == SOURCE ? s->forth : s->back;
	const enum lane_side other = side == SOURCE ? TARGET : SOURCE;
	const unsigned long long number = lane->sides[side].issued;
	const unsigned long long ahead = side == SOURCE ? BB_NCCL_SLOTS : 0; /* of the target */
	const int i = (int)(number % BB_NCCL_SLOTS);
	bb_status status = BB_OK;

	if (!lane->sides[side].open) {
		for (int k = 0; k < BB_NCCL_SLOTS; k++)
			BB_TRY(status,
			       BB_CUDA(rank, cudaEventCreateWithFlags(&lane->sides[side].copied[k],
								      cudaEventDisableTiming)),
			       out);
		if (side == SOURCE && !lane->shared)
			BB_TRY(status,
			       BB_CUDA(rank, cudaMallocHost((void **)&lane->slots, RING_BYTES)),
			       out);
		lane->sides[side].open = true;
	}
	if (number >= ahead)
		BB_TRY(status, count_await(s, &lane->counts->done[other], number + 1 - ahead), out);
	if (number >= ahead && !lane->shared)
		BB_TRY(status,
		       BB_CUDA(rank,
			       cudaStreamWaitEvent(rank->main, lane->sides[other].copied[i], 0)),
		       out);
	char *const slot = lane->slots + (size_t)i * PIECE;
	BB_TRY(status,
	       side == SOURCE ? BB_CUDA(rank, cudaMemcpyAsync(slot, mine, bytes,
							      cudaMemcpyDeviceToHost, rank->main))
			      : BB_CUDA(rank, cudaMemcpyAsync(mine, slot, bytes,
							      cudaMemcpyHostToDevice, rank->main)),
	       out);
	BB_TRY(status, BB_CUDA(rank, cudaEventRecord(lane->sides[side].copied[i], rank->main)),
	       out);
	lane->sides[side].issued++;
	if (!lane->shared)
		atomic_store_explicit(&lane->counts->done[side].n, lane->sides[side].issued,
				      memory_order_release);
out:
	return status;
}

bb_status bb_nccl_stage(struct bb_group *group, int peer, const struct bb_half *out,
			const struct bb_half *in)
{
	struct bb_rank *rank = group->rank;
	const int me = rank->rank, other = group->members[peer];
	const struct staging s = {rank, lane_of(rank, me, other), lane_of(rank, other, me)};
	bb_status status = BB_OK;

	/* The directions alternate, so that neither rank waits for a piece that the other has not
	   issued yet. */
	for (size_t at = 0; (at < out->bytes || at < in->bytes) && status == BB_OK; at += PIECE) {
		if (at < out->bytes)
			status = slot_pass(&s, SOURCE, out, at);
		if (at < in->bytes && status == BB_OK)
			status = slot_pass(&s, TARGET, in, at);
	}
	/* The target waits for the last pieces now; the source needs the last emptied slots only in
	   the next transfer. */
	if (s.forth->shared && status == BB_OK)
		status = count_await(&s, &s.forth->counts->done[SOURCE],
				     s.forth->sides[SOURCE].issued);
	return status;
}

/* ---- barriers -------------------------------------------------------------------------- */

bool bb_nccl_lanes_join(const struct bb_group *group)
{
	for (int i = 0; i < group->n; i++) {
		const struct bb_nccl_peer *peer = &group->rank->peers[group->members[i]];

		if (i != group->me && (!peer->known || peer->apart))
			return false;
	}
	return true;
}

bb_status bb_nccl_lanes_barrier(struct bb_group *group)
{
	struct bb_rank *rank = group->rank;
	const int me = rank->rank, n = group->n;
	bb_status status = bb_nccl_wait(rank, rank->main);

	for (int distance = 1; distance < n && status == BB_OK; distance *= 2) {
		const int to = group->members[(group->me + distance) % n];
		const int from = group->members[(group->me + n - distance) % n];
		const struct staging s = {rank, lane_of(rank, me, to), lane_of(rank, from, me)};

		atomic_fetch_add_explicit(&s.forth->counts->arrived.n, 1, memory_order_release);
		status = count_await(&s, &s.back->counts->arrived, ++s.back->awaited);
	}
	return status;
}
