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

/* Since the start: slots filled by the source and emptied by the target, in pieces; barriers at
   which the source has arrived. */
struct counts {
	_Alignas(64) atomic_ullong filled;
	_Alignas(64) atomic_ullong emptied;
	_Alignas(64) atomic_ullong arrived;
};

_Static_assert(sizeof(struct counts) <= HEAD_BYTES, "a ring's head has no room");

/* From a rank to another, at least one of them in this process. */
struct bb_nccl_lane {
	struct counts within;
	struct counts *counts; /* WITHIN, or those in shared memory */
	char *slots;           /* BB_NCCL_SLOTS pieces */
	bool shared;           /* with another process; then slots are mapped, behind the counts */
	cudaEvent_t full[BB_NCCL_SLOTS], empty[BB_NCCL_SLOTS]; /* the source's, the target's */
	bool source_open, target_open;
	unsigned long long sent, got; /* pieces whose copies the source, the target has issued */
	unsigned long long awaited;   /* barriers at which the target has awaited the source */
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

static bb_status open_events(struct bb_rank *rank, cudaEvent_t events[BB_NCCL_SLOTS])
{
	bb_status status = BB_OK;

	for (int i = 0; i < BB_NCCL_SLOTS && status == BB_OK; i++)
		status =
			BB_CUDA(rank, cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
	return status;
}

static void close_events(struct bb_rank *rank, cudaEvent_t events[BB_NCCL_SLOTS])
{
	for (int i = 0; i < BB_NCCL_SLOTS; i++)
		if (events[i])
			bb_nccl_ignore(BB_CUDA(rank, cudaEventDestroy(events[i])));
}

void bb_nccl_lanes_close(struct bb_rank *rank)
{
	const struct bb_world *w = &rank->context->world;

	for (int r = w->first_rank; r < w->first_rank + w->nlocal; r++) {
		struct bb_nccl_lane *out = lane_within(rank->context, rank->rank, r);

		close_events(rank, out->full);
		close_events(rank, lane_within(rank->context, r, rank->rank)->empty);
		if (out->slots)
			BB_CUDA_FREE(rank, cudaFreeHost(out->slots));
	}
	for (int r = 0; r < w->nranks; r++) {
		struct bb_nccl_lane *lanes = rank->peers[r].lanes;

		for (int i = 0; lanes && i < 2; i++) {
			close_events(rank, i == 0 ? lanes[i].full : lanes[i].empty);
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

/* A descriptor of the memory that STAGING names; -1: it cannot be opened. */
static int open_staging(const struct bb_nccl_staging *staging)
{
	char path[64];
	struct stat file;
	int number;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)staging->pid, (int)staging->number);
	number = open(path, O_RDWR | O_CLOEXEC);
	/* In another PID namespace the same PID is another process. */
	if (number >= 0 && (fstat(number, &file) != 0 || file.st_ino != staging->file)) {
		close(number);
		number = -1;
	}
	return number;
}

/* Map the lane to rank TO in STAGING; returns the reason if it cannot be. */
static const char *map_lane(const struct bb_nccl_staging *staging, int to,
			    struct bb_nccl_lane *lane)
{
	const int number = open_staging(staging);
	char *at = MAP_FAILED;

	if (number >= 0) {
		at = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, number,
			  (off_t)((size_t)to * SHARED_BYTES));
		close(number);
	}
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

/* *COUNT = how many of the ISSUED pieces are complete, by their EVENTS. */
static bb_status publish(struct bb_rank *rank, cudaEvent_t events[BB_NCCL_SLOTS],
			 atomic_ullong *count, unsigned long long issued)
{
	unsigned long long number = atomic_load_explicit(count, memory_order_relaxed);
	cudaError_t result = cudaSuccess;

	while (number < issued &&
	       (result = cudaEventQuery(events[number % BB_NCCL_SLOTS])) == cudaSuccess)
		atomic_store_explicit(count, ++number, memory_order_release);
	return result == cudaErrorNotReady
		       ? BB_OK
		       : bb_cuda_check(rank, result, "cudaEventQuery", __FILE__, __LINE__);
}

static bb_status publish_all(const struct staging *s)
{
	bb_status status = BB_OK;

	if (s->forth->shared)
		status =
			publish(s->rank, s->forth->full, &s->forth->counts->filled, s->forth->sent);
	if (s->back->shared && status == BB_OK)
		status = publish(s->rank, s->back->empty, &s->back->counts->emptied, s->back->got);
	return status;
}

/* Wait until *COUNT is at least NUMBER. */
static bb_status count_await(const struct staging *s, atomic_ullong *count,
			     unsigned long long number)
{
	bb_status status = BB_OK;

	while (atomic_load_explicit(count, memory_order_acquire) < number && status == BB_OK) {
		if (bb_nccl_aborted(s->rank->context))
			return BB_ETIMEOUT;
		status = publish_all(s);
		sched_yield();
	}
	return status;
}

static bb_status open_source(struct bb_rank *rank, struct bb_nccl_lane *lane)
{
	bb_status status;

	lane->source_open = true;
	BB_TRY(status, open_events(rank, lane->full), out);
	if (!lane->shared)
		status = BB_CUDA(rank, cudaMallocHost((void **)&lane->slots, RING_BYTES));
out:
	return status;
}

/* Issue the copy of the next piece, BYTES at SRC, into its slot once that is empty. */
static bb_status slot_fill(const struct staging *s, const char *src, size_t bytes)
{
	struct bb_rank *rank = s->rank;
	struct bb_nccl_lane *lane = s->forth;
	const unsigned long long number = lane->sent;
	const int i = (int)(number % BB_NCCL_SLOTS);
	bb_status status = BB_OK;

	if (!lane->source_open)
		BB_TRY(status, open_source(rank, lane), out);
	if (number >= BB_NCCL_SLOTS)
		BB_TRY(status, count_await(s, &lane->counts->emptied, number - BB_NCCL_SLOTS + 1),
		       out);
	if (number >= BB_NCCL_SLOTS && !lane->shared)
		BB_TRY(status, BB_CUDA(rank, cudaStreamWaitEvent(rank->main, lane->empty[i], 0)),
		       out);
	BB_TRY(status,
	       BB_CUDA(rank, cudaMemcpyAsync(lane->slots + (size_t)i * PIECE, src, bytes,
					     cudaMemcpyDeviceToHost, rank->main)),
	       out);
	BB_TRY(status, BB_CUDA(rank, cudaEventRecord(lane->full[i], rank->main)), out);
	lane->sent++;
	if (!lane->shared)
		atomic_store_explicit(&lane->counts->filled, lane->sent, memory_order_release);
out:
	return status;
}

static bb_status slot_empty(const struct staging *s, char *dst, size_t bytes)
{
	struct bb_rank *rank = s->rank;
	struct bb_nccl_lane *lane = s->back;
	const unsigned long long number = lane->got;
	const int i = (int)(number % BB_NCCL_SLOTS);
	bb_status status = BB_OK;

	if (!lane->target_open) {
		lane->target_open = true;
		BB_TRY(status, open_events(rank, lane->empty), out);
	}
	BB_TRY(status, count_await(s, &lane->counts->filled, number + 1), out);
	if (!lane->shared)
		BB_TRY(status, BB_CUDA(rank, cudaStreamWaitEvent(rank->main, lane->full[i], 0)),
		       out);
	BB_TRY(status,
	       BB_CUDA(rank, cudaMemcpyAsync(dst, lane->slots + (size_t)i * PIECE, bytes,
					     cudaMemcpyHostToDevice, rank->main)),
	       out);
	BB_TRY(status, BB_CUDA(rank, cudaEventRecord(lane->empty[i], rank->main)), out);
	lane->got++;
	if (!lane->shared)
		atomic_store_explicit(&lane->counts->emptied, lane->got, memory_order_release);
out:
	return status;
}

static size_t piece(size_t bytes, size_t done)
{
	return bytes - done < PIECE ? bytes - done : PIECE;
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
			status = slot_fill(&s, (const char *)out->mine + at, piece(out->bytes, at));
		if (at < in->bytes && status == BB_OK)
			status = slot_empty(&s, (char *)in->mine + at, piece(in->bytes, at));
	}
	/* The target waits for the last pieces now; the source needs the last emptied slots only in
	   the next transfer. */
	if (s.forth->shared && status == BB_OK)
		status = count_await(&s, &s.forth->counts->filled, s.forth->sent);
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

		atomic_fetch_add_explicit(&s.forth->counts->arrived, 1, memory_order_release);
		status = count_await(&s, &s.back->counts->arrived, ++s.back->awaited);
	}
	return status;
}
