/*
 * gpu_speed - what the nccl backend's kernels cost beside the device's own copy, in one run.
 *
 *   gpu_speed MIN MAX FACTOR [CALLS]
 *
 * One line per size, kernel, datatype and operation: its time, the bytes that it reads and writes
 * per second, and that as a percentage of what a copy within the device's memory of as many bytes
 * reaches. Both are medians of repetitions that take turns, each of as many as CALLS (64) calls,
 * timed by the device's events. Sizes are bytes of one buffer. Which kernels are measured: fill and
 * verify for every size of element, verify with a tolerance for every floating-point type, reduce
 * of two and of three sources for every type and operation.
 */
#include "backends/nccl/kernels.h"
#include "core/stats.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REPEATS 7
#define PERIOD 1021u /* elements of the pattern */
#define BUFFERS 4
#define BYTES_AT_ONCE ((size_t)512 << 20) /* a repetition moves about so many, */
#define MOST_AT_ONCE 64                   /* or makes so many calls, or fewer if told */

struct rig {
	struct bb_gpu_lane lane;
	cudaEvent_t from, to;
	char *buffers[BUFFERS];
	char *table; /* as the desk of a rank has it: readable before and behind */
	unsigned long long *wrong;
	uint64_t most_at_once;
};

enum what { COPY, FILL, VERIFY, REDUCE };

/* One line. */
struct kernel {
	enum what what;
	enum bb_dtype dtype;
	enum bb_op op;
	int sources; /* of reduce */
	int ulps;    /* of verify */
	size_t bytes;
};

static void must(cudaError_t result, const char *call)
{
	if (result == cudaSuccess)
		return;
	fprintf(stderr, "gpu_speed: %s: %s\n", call, cudaGetErrorString(result));
	exit(1);
}
#define MUST(call) must(call, #call)

static void wait(const struct rig *r)
{
	cudaError_t state;

	while ((state = cudaStreamQuery(r->lane.stream)) == cudaErrorNotReady)
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	must(state, "cudaStreamQuery");
}

/* ---- the rig ------------------------------------------------------------------------- */

static void open_rig(struct rig *r, size_t bytes)
{
	const size_t table = 2 * BB_GPU_TABLE_MARGIN + 2 * PERIOD * sizeof(uint64_t);
	int processors, threads;

	MUST(cudaSetDevice(0));
	MUST(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
	MUST(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
	MUST(cudaStreamCreateWithFlags(&r->lane.stream, cudaStreamNonBlocking));
	r->lane.blocks = bb_gpu_blocks(processors, threads);
	MUST(cudaEventCreateWithFlags(&r->from, cudaEventDefault));
	MUST(cudaEventCreateWithFlags(&r->to, cudaEventDefault));
	MUST(cudaMalloc((void **)&r->table, table));
	MUST(cudaMalloc((void **)&r->wrong, sizeof(*r->wrong)));
	MUST(cudaMemsetAsync(r->table, 0, table, r->lane.stream));
	MUST(cudaMemsetAsync(r->wrong, 0, sizeof(*r->wrong), r->lane.stream));
	for (int i = 0; i < BUFFERS; i++) {
		MUST(cudaMalloc((void **)&r->buffers[i], bytes));
		MUST(cudaMemsetAsync(r->buffers[i], 0, bytes, r->lane.stream));
	}
	wait(r);
}

static void close_rig(struct rig *r)
{
	for (int i = 0; i < BUFFERS; i++)
		MUST(cudaFree(r->buffers[i]));
	MUST(cudaFree(r->wrong));
	MUST(cudaFree(r->table));
	MUST(cudaEventDestroy(r->to));
	MUST(cudaEventDestroy(r->from));
	MUST(cudaStreamDestroy(r->lane.stream));
}

/* ---- one kernel ---------------------------------------------------------------------- */

/* Bytes that it reads and writes. */
static double moved(const struct kernel *k)
{
	const int buffers = k->what == COPY ? 2 : k->what == REDUCE ? k->sources + 1 : 1;

	return (double)buffers * (double)k->bytes;
}

static cudaError_t issue(const struct rig *r, const struct kernel *k)
{
	const void *const sources[] = {r->buffers[1], r->buffers[2], r->buffers[3]};
	const size_t element = bb_dtype_size(k->dtype);
	const struct bb_gpu_pattern pattern = {
		.table = r->table + BB_GPU_TABLE_MARGIN,
		.period = PERIOD,
		.element_size = (uint32_t)element,
		.seed = 1,
	};

	switch (k->what) {
	case COPY:
		return cudaMemcpyAsync(r->buffers[0], r->buffers[1], k->bytes,
				       cudaMemcpyDeviceToDevice, r->lane.stream);
	case FILL:
		return bb_gpu_fill(r->lane, r->buffers[0], &pattern, 0, k->bytes / element);
	case VERIFY:
		return bb_gpu_verify(r->lane, r->buffers[0], &pattern, 0, k->bytes / element,
				     k->dtype, k->ulps, r->wrong);
	case REDUCE:
		return bb_gpu_reduce(r->lane, k->dtype, k->op, r->buffers[0], sources, k->sources,
				     k->bytes / element);
	}
	return cudaErrorInvalidValue;
}

/* Seconds of one call. */
static double time_once(const struct rig *r, const struct kernel *k)
{
	const size_t fit = BYTES_AT_ONCE / (k->bytes + 1) + 1;
	const int calls = (int)(fit < r->most_at_once ? fit : r->most_at_once);
	float milliseconds;

	MUST(cudaEventRecord(r->from, r->lane.stream));
	for (int i = 0; i < calls; i++)
		MUST(issue(r, k));
	MUST(cudaEventRecord(r->to, r->lane.stream));
	wait(r);
	MUST(cudaEventElapsedTime(&milliseconds, r->from, r->to));
	return milliseconds / 1e3 / calls;
}

/* All buffers hold what verify expects: the zeros of the pattern. */
static void check_nothing_wrong(const struct rig *r)
{
	unsigned long long wrong;

	MUST(cudaMemcpyAsync(&wrong, r->wrong, sizeof(wrong), cudaMemcpyDeviceToHost,
			     r->lane.stream));
	wait(r);
	if (wrong == 0)
		return;
	fprintf(stderr, "gpu_speed: verify found %llu wrong elements where there are none\n",
		wrong);
	exit(1);
}

static void measure(const struct rig *r, const struct kernel *k)
{
	static const char *const names[] = {"copy", "fill", "verify", "reduce"};
	const struct kernel copy = {.what = COPY, .bytes = k->bytes};
	double times[2][REPEATS], rates[2];
	struct bb_stats stats;
	char name[32];

	time_once(r, k); /* the first run loads the kernel */
	for (int i = 0; i < REPEATS; i++) {
		times[0][i] = time_once(r, &copy);
		times[1][i] = time_once(r, k);
	}
	bb_stats_compute(times[0], REPEATS, &stats);
	rates[0] = moved(&copy) / stats.p50;
	bb_stats_compute(times[1], REPEATS, &stats);
	rates[1] = moved(k) / stats.p50;
	snprintf(name, sizeof(name), k->what == REDUCE ? "%s%d" : "%s", names[k->what], k->sources);
	printf("%12zu  %-8s  %-9s  %-7s  %10.2f  %8.1f  %5.0f\n", k->bytes, name,
	       bb_dtype_name(k->dtype),
	       k->what == REDUCE ? bb_op_name(k->op)
	       : k->ulps         ? "2ulps"
				 : "-",
	       1e6 * stats.p50, rates[1] / 1e9, 100 * rates[1] / rates[0]);
	fflush(stdout);
}

/* ---- all of them --------------------------------------------------------------------- */

static void measure_patterns(const struct rig *r, size_t bytes)
{
	static const enum bb_dtype of_size[] = {BB_INT8, BB_HALF, BB_FLOAT, BB_DOUBLE};

	for (size_t i = 0; i < sizeof(of_size) / sizeof(of_size[0]); i++) {
		struct kernel k = {.what = FILL, .dtype = of_size[i], .bytes = bytes};

		measure(r, &k);
		k.what = VERIFY;
		measure(r, &k);
	}
	for (enum bb_dtype d = 0; d < BB_NDTYPES; d++)
		if (bb_dtype_is_float(d))
			measure(r, &(struct kernel){
					   .what = VERIFY, .dtype = d, .ulps = 2, .bytes = bytes});
	check_nothing_wrong(r);
}

/* avg and mulsum are sums on the device, see kernels.h. */
static void measure_reductions(const struct rig *r, size_t bytes)
{
	for (enum bb_dtype d = 0; d < BB_NDTYPES; d++)
		for (enum bb_op op = 0; op < BB_NOPS; op++)
			for (int n = 2; n <= 3; n++)
				if (bb_op_accepts(op, d) && op != BB_AVG && op != BB_MULSUM)
					measure(r, &(struct kernel){.what = REDUCE,
								    .dtype = d,
								    .op = op,
								    .sources = n,
								    .bytes = bytes});
}

static uint64_t number(const char *text, uint64_t least)
{
	uint64_t value;

	if (bb_parse_size(text, &value) && value >= least)
		return value;
	fprintf(stderr,
		"gpu_speed: \"%s\" is not what is expected: MIN MAX FACTOR, sizes of 64 "
		"bytes and more, as in \"16M 1G 4\"\n",
		text);
	exit(2);
}

int main(int argc, char **argv)
{
	struct cudaDeviceProp device;
	uint64_t min, max, factor;
	struct rig r = {0};

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: gpu_speed MIN MAX FACTOR [CALLS]\n");
		return 2;
	}
	min = number(argv[1], 64);
	max = number(argv[2], min);
	factor = number(argv[3], 2);
	r.most_at_once = argc > 4 ? number(argv[4], 1) : MOST_AT_ONCE;
	open_rig(&r, max);
	MUST(cudaGetDeviceProperties(&device, 0));
	printf("# %s, %u thread blocks\n", device.name, r.lane.blocks);
	printf("# %10s  %-8s  %-9s  %-7s  %10s  %8s  %5s\n", "bytes", "kernel", "type", "op", "us",
	       "GB/s", "%copy");
	for (uint64_t bytes = min; bytes <= max; bytes *= factor) {
		measure_patterns(&r, bytes & ~(uint64_t)63);
		measure_reductions(&r, bytes & ~(uint64_t)63);
	}
	close_rig(&r);
	return 0;
}
