/*
 * STREAM's copy kernel (McCalpin, 1995) as a bare loop: what mem_bandwidth_perf is held against.
 *
 *     stream plain|streaming THREADS BYTES ITERATIONS
 *
 * Thread i runs on processor i and copies its part of an array of doubles, with the stores that the
 * compiler makes of the loop, or with stores past the caches. Prints GB/s, read and written bytes
 * counted, of the median iteration.
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

typedef void copy_fn(double *restrict c, const double *restrict a, size_t count);

struct work {
	copy_fn *copy;
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

static void copy(double *restrict c, const double *restrict a, size_t count)
{
	for (size_t i = 0; i < count; i++)
		c[i] = a[i];
}

static void copy_streaming(double *restrict c, const double *restrict a, size_t count)
{
#ifdef __SSE2__
	for (size_t i = 0; i + 8 <= count; i += 8)
		for (size_t k = 0; k < 8; k += 2)
			_mm_stream_pd(c + i + k, _mm_load_pd(a + i + k));
	_mm_sfence();
#else
	copy(c, a, count);
#endif
}

static void *run(void *argument)
{
	struct work *w = argument;
	cpu_set_t set;
	double *a, *c;

	CPU_ZERO(&set);
	CPU_SET(w->thread, &set);
	sched_setaffinity(0, sizeof(set), &set);
	a = get(w->count);
	c = get(w->count);
	for (int i = -1; i < w->iterations; i++) {
		double begin;

		pthread_barrier_wait(w->met);
		begin = speed_now();
		w->copy(c, a, w->count);
		if (i >= 0)
			w->seconds[i] = speed_now() - begin;
		__asm__ volatile("" : : "r"(c) : "memory");
	}
	free(a);
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
	double *longest;

	if (threads < 1 || threads > MOST || iterations < 1 || bytes < 4096) {
		fprintf(stderr, "usage: stream plain|streaming THREADS BYTES ITERATIONS\n");
		return 2;
	}
	pthread_barrier_init(&met, NULL, (unsigned)threads);
	longest = calloc((size_t)iterations, sizeof(*longest));
	for (int t = 0; t < threads; t++) {
		works[t] = (struct work){strcmp(argv[1], "plain") == 0 ? copy : copy_streaming,
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
	printf("%.3f\n",
	       2e-9 * (double)works[0].count * sizeof(double) * threads / longest[iterations / 2]);
	free(longest);
	return 0;
}
