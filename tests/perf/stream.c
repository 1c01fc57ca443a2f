/*
 * STREAM's kernels (McCalpin, 1995) as bare loops: what mem_bandwidth_perf is held against.
 *
 *     stream read|write|copy|triad|plain THREADS BYTES ITERATIONS
 *
 * Thread i runs on processor i and works on its part of arrays of doubles, with stores past the
 * caches; plain is a copy with the stores that the compiler makes of the loop. Prints GB/s, read
 * and written bytes counted, of the median iteration.
 */
#include "speed.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define MOST 4096

typedef void kernel_fn(double *restrict c, const double *restrict a, const double *restrict b,
		       size_t count);

struct kernel {
	const char *name;
	kernel_fn *run;
	int arrays; /* that count */
};

struct work {
	kernel_fn *kernel;
	pthread_barrier_t *met;
	int thread, iterations;
	size_t count;
	double *seconds; /* of each iteration */
};

static double *get(size_t count)
{
	const size_t bytes = count * sizeof(double), huge = 2 << 20;
	double *memory = aligned_alloc(huge, (bytes + huge - 1) / huge * huge);

	if (!memory)
		exit(1);
	madvise(memory, bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < count; i++)
		memory[i] = 1;
	return memory;
}

#ifdef __SSE2__
typedef __m128d pair;
#define STORE(to, value) _mm_stream_pd(to, value)
#define FENCE() _mm_sfence()
#else
typedef double pair __attribute__((vector_size(16)));
#define STORE(to, value) (*(pair *)(to) = (value))
#define FENCE()
#endif
#define LOAD(from) (*(const pair *)(from))

static void copy_plain(double *restrict c, const double *restrict a, const double *restrict b,
		       size_t count)
{
	for (size_t i = 0; i < count; i++)
		c[i] = a[i];
}

static void read_all(double *restrict c, const double *restrict a, const double *restrict b,
		     size_t count)
{
	pair sums[4] = {{0}, {0}, {0}, {0}};

	for (size_t i = 0; i + 8 <= count; i += 8)
		for (size_t k = 0; k < 4; k++)
			sums[k] += LOAD(a + i + 2 * k);
	sums[0] += sums[1] + sums[2] + sums[3];
	c[0] = sums[0][0] + sums[0][1];
}

static void write_all(double *restrict c, const double *restrict a, const double *restrict b,
		      size_t count)
{
	const pair value = {1, 1};

	for (size_t i = 0; i + 2 <= count; i += 2)
		STORE(c + i, value);
	FENCE();
}

static void copy(double *restrict c, const double *restrict a, const double *restrict b,
		 size_t count)
{
	for (size_t i = 0; i + 2 <= count; i += 2)
		STORE(c + i, LOAD(a + i));
	FENCE();
}

static void triad(double *restrict c, const double *restrict a, const double *restrict b,
		  size_t count)
{
	const pair two = {2, 2};

	for (size_t i = 0; i + 2 <= count; i += 2)
		STORE(c + i, LOAD(a + i) + two * LOAD(b + i));
	FENCE();
}

static const struct kernel kernels[] = {{"read", read_all, 1},
					{"write", write_all, 1},
					{"copy", copy, 2},
					{"triad", triad, 3},
					{"plain", copy_plain, 2}};

static const struct kernel *find_kernel(const char *name)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (strcmp(kernels[i].name, name) == 0)
			return &kernels[i];
	return NULL;
}

static void *run(void *argument)
{
	struct work *w = argument;
	cpu_set_t set;
	double *a, *b, *c;

	CPU_ZERO(&set);
	CPU_SET(w->thread, &set);
	sched_setaffinity(0, sizeof(set), &set);
	a = get(w->count);
	b = get(w->count);
	c = get(w->count);
	for (int i = -1; i < w->iterations; i++) {
		double begin;

		pthread_barrier_wait(w->met);
		begin = speed_now();
		w->kernel(c, a, b, w->count);
		if (i >= 0)
			w->seconds[i] = speed_now() - begin;
		__asm__ volatile("" : : "r"(c) : "memory");
	}
	free(a);
	free(b);
	free(c);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const int threads = argc == 5 ? (int)strtol(argv[2], NULL, 10) : 0;
	const int iterations = argc == 5 ? (int)strtol(argv[4], NULL, 10) : 0;
	const size_t bytes = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
	pthread_barrier_t met;
	pthread_t ids[MOST];
	struct work works[MOST];
	const struct kernel *const kernel = argc == 5 ? find_kernel(argv[1]) : NULL;
	double *longest;

	if (!kernel || threads < 1 || threads > MOST || iterations < 1 || bytes < 4096) {
		fprintf(stderr,
			"usage: stream read|write|copy|triad|plain THREADS BYTES ITERATIONS\n");
		return 2;
	}
	pthread_barrier_init(&met, NULL, (unsigned)threads);
	longest = calloc((size_t)iterations, sizeof(*longest));
	for (int t = 0; t < threads; t++) {
		works[t] = (struct work){kernel->run,
					 &met,
					 t,
					 iterations,
					 bytes / sizeof(double) / (size_t)threads,
					 calloc((size_t)iterations, sizeof(double))};
		pthread_create(&ids[t], NULL, run, &works[t]);
	}
	for (int t = 0; t < threads; t++) {
		pthread_join(ids[t], NULL);
		for (int i = 0; i < iterations; i++)
			longest[i] =
				works[t].seconds[i] > longest[i] ? works[t].seconds[i] : longest[i];
		free(works[t].seconds);
	}
	qsort(longest, (size_t)iterations, sizeof(*longest), by_value);
	printf("%.3f\n", 1e-9 * kernel->arrays * (double)works[0].count * sizeof(double) * threads /
				 longest[iterations / 2]);
	free(longest);
	return 0;
}
