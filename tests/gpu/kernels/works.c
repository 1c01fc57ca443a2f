/*
 * Work on memory, pointer chases, and a device that is kept busy.
 */
#include "cases.h"

#include <string.h>

#define PIECE 16
#define LONG 5003 /* pieces */

static const size_t pieces_tried[] = {0, 1, 2, 255, 256, 257, LONG};
#define TRIED (sizeof(pieces_tried) / sizeof(pieces_tried[0]))

/* RUN with each number of pieces and of blocks. */
static bool for_each(struct rig *r,
		     bool (*run)(struct rig *r, struct bb_gpu_lane lane, size_t pieces))
{
	for (size_t i = 0; i < RIG_LANES * TRIED; i++)
		if (!run(r, rig_lane(r, rig_lane_blocks[i % RIG_LANES]),
			 pieces_tried[i / RIG_LANES]))
			return false;
	return true;
}

/* ---- write and triad ----------------------------------------------------------------- */

static bool write_once(struct rig *r, struct bb_gpu_lane lane, size_t pieces)
{
	char *to, *expected;

	if (!rig_batch_add(r, 0, pieces * PIECE, &to, &expected, "%zu pieces, %u blocks", pieces,
			   lane.blocks))
		return false;
	memset(expected, 1, pieces * PIECE);
	return CALL(r, bb_gpu_work_on(lane, BB_GPU_WRITE, to, NULL, NULL, pieces * PIECE, NULL));
}

static bool run_write(struct rig *r, const struct kernel_case *c)
{
	return rig_batch_open(r, BB_NDTYPES, 1) && for_each(r, write_once) && rig_batch_close(r);
}

static double number(uint64_t i)
{
	return (double)(int64_t)rig_draw(i) / 1024;
}

static bool triad_once(struct rig *r, struct bb_gpu_lane lane, size_t pieces)
{
	const size_t count = pieces * PIECE / sizeof(double);
	char *to, *expected;
	double value;

	if (!rig_batch_add(r, 0, count, &to, &expected, "%zu pieces, %u blocks", pieces,
			   lane.blocks))
		return false;
	for (size_t i = 0; i < count; i++) {
		value = number(2 * i) + 2 * number(2 * i + 1);
		memcpy(expected + i * sizeof(double), &value, sizeof(double));
	}
	return CALL(r, bb_gpu_work_on(lane, BB_GPU_TRIAD, to, r->source[0], r->source[1],
				      pieces * PIECE, NULL));
}

static bool run_triad(struct rig *r, const struct kernel_case *c)
{
	const size_t count = LONG * PIECE / sizeof(double);

	for (size_t s = 0; s < 2; s++) {
		for (size_t i = 0; i < count; i++) {
			const double value = number(2 * i + s);

			memcpy(r->host_source[s] + i * sizeof(double), &value, sizeof(double));
		}
		if (!rig_put(r, r->source[s], r->host_source[s], count * sizeof(double)))
			return false;
	}
	return rig_batch_open(r, BB_DOUBLE, sizeof(double)) && for_each(r, triad_once) &&
	       rig_batch_close(r);
}

/* ---- read ---------------------------------------------------------------------------- */

/* Zeros but for BB_GPU_READ_MARK in word WORD: found where it is in one of the first PIECES. */
static bool read_once(struct rig *r, struct bb_gpu_lane lane, size_t pieces, size_t word)
{
	const unsigned mark = BB_GPU_READ_MARK;
	const unsigned long long found = word < pieces * 4 ? mark : 0x5a5a5a5a5a5a5a5a;
	char *const at = r->source[0] + word * sizeof(mark);
	char *to, *expected;

	if (!rig_batch_add(r, 0, 1, &to, &expected, "%zu pieces, word %zu, %u blocks", pieces, word,
			   lane.blocks))
		return false;
	memcpy(expected, &found, sizeof(found));
	return rig_put(r, at, &mark, sizeof(mark)) &&
	       CALL(r, bb_gpu_work_on(lane, BB_GPU_READ, r->source[0], NULL, NULL, pieces * PIECE,
				      (unsigned long long *)to)) &&
	       CALL(r, cudaMemsetAsync(at, 0, sizeof(mark), r->lane.stream));
}

/* Every word of the first pieces, of the last one, and of the one behind it, which is not read. */
static bool read_pieces(struct rig *r, struct bb_gpu_lane lane, size_t pieces)
{
	for (size_t word = 0; word < 4; word++)
		if (!read_once(r, lane, pieces, word) ||
		    !read_once(r, lane, pieces, pieces * 4 + word) ||
		    (pieces > 0 && !read_once(r, lane, pieces, pieces * 4 - 1 - word)))
			return false;
	return true;
}

static bool run_read(struct rig *r, const struct kernel_case *c)
{
	return CALL(r, cudaMemsetAsync(r->source[0], 0, (LONG + 1) * PIECE, r->lane.stream)) &&
	       rig_batch_open(r, BB_NDTYPES, sizeof(unsigned long long)) &&
	       for_each(r, read_pieces) && rig_batch_close(r);
}

/* ---- chase --------------------------------------------------------------------------- */

#define STOPS 4096u
#define STRIDE 128u     /* bytes from one stop's memory to the next one's */
#define MOST_HOPS 10000 /* more than once round */

static bool run_chase(struct rig *r, const struct kernel_case *c)
{
	char *const way = r->host_source[0], *at = r->source[0], *to, *expected;

	for (unsigned i = 0; i < STOPS; i++) {
		/* A generator of full period: one cycle through all stops. */
		char *const next = r->source[0] + (size_t)(5 * i + 3) % STOPS * STRIDE;

		memcpy(way + (size_t)i * STRIDE, &next, sizeof(next));
	}
	if (!rig_put(r, r->source[0], way, (size_t)STOPS * STRIDE) ||
	    !rig_batch_open(r, BB_NDTYPES, sizeof(unsigned long long)))
		return false;
	for (uint64_t hops = 0; hops <= MOST_HOPS; hops++) {
		const unsigned long long end = (unsigned long long)(uintptr_t)at;

		memcpy(&at, way + (at - r->source[0]), sizeof(at));
		if (hops > 50 && hops % 997 != 0 && hops != MOST_HOPS && hops != STOPS)
			continue;
		if (!rig_batch_add(r, 0, 1, &to, &expected, "the end of %llu hops",
				   (unsigned long long)hops))
			return false;
		/* No hops: no kernel. */
		memcpy(expected, &end, sizeof(end));
		if (hops == 0)
			memset(expected, RIG_GUARD_BYTE, sizeof(end));
		if (!CALL(r, bb_gpu_chase(r->lane, r->source[0], hops, (unsigned long long *)to)))
			return false;
	}
	return rig_batch_close(r);
}

/* ---- spin ---------------------------------------------------------------------------- */

#define CLOCK_STEP 2000 /* nanoseconds by which two readings of the device's clock may be off */

static bool spin_between(struct rig *r, cudaEvent_t from, cudaEvent_t to, uint64_t ns)
{
	float ms;

	if (!CALL(r, cudaEventRecord(from, r->lane.stream)) ||
	    !CALL(r, bb_gpu_spin(r->lane, ns, &r->words[RIG_HALT])) ||
	    !CALL(r, cudaEventRecord(to, r->lane.stream)) || !rig_wait(r) ||
	    !CALL(r, cudaEventElapsedTime(&ms, from, to)))
		return false;
	if (1e6 * (double)ms + CLOCK_STEP < (double)ns && r->words[RIG_HALT] == 0)
		return rig_fail(r, "busy for %.0f ns, expected %llu", 1e6 * (double)ms,
				(unsigned long long)ns);
	return true;
}

/* At least as long as it is to be; and an hour, which ends at once where the run is over. */
static bool run_spin(struct rig *r, const struct kernel_case *c)
{
	static const uint64_t ns[] = {10000, 1000000, 20000000, 300000000};
	cudaEvent_t from, to;
	bool right = CALL(r, cudaEventCreateWithFlags(&from, cudaEventDefault)) &&
		     CALL(r, cudaEventCreateWithFlags(&to, cudaEventDefault));

	r->words[RIG_HALT] = 0;
	for (size_t i = 0; right && i < sizeof(ns) / sizeof(ns[0]); i++)
		right = spin_between(r, from, to, ns[i]);
	r->words[RIG_HALT] = 1;
	return right && spin_between(r, from, to, 3600000000000) &&
	       CALL(r, cudaEventDestroy(from)) && CALL(r, cudaEventDestroy(to));
}

void works_list(struct case_list *list)
{
	case_add(list, (struct kernel_case){.run = run_write}, "write memory");
	case_add(list, (struct kernel_case){.run = run_triad}, "triad");
	case_add(list, (struct kernel_case){.run = run_read}, "read memory");
	case_add(list, (struct kernel_case){.run = run_chase}, "chase");
	case_add(list, (struct kernel_case){.run = run_spin}, "spin");
}
