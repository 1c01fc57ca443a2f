/*
 * bare_pairs - what pairs are held against, without busbench: memcpy within one thread's memory,
 * and a word to and fro between two threads. On the first two CPUs that this process may use.
 *
 *   bare_pairs MIN MAX FACTOR
 *
 * One JSON line per size: {"size", "what": "memcpy", "us"}, and one of size 0 for "pingpong", one
 * way. Medians.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SAMPLES 201
#define PATIENCE 10000
#define ROUNDS 50 /* as many to a sample as p2p_latency_perf takes */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *samples)
{
	qsort(samples, SAMPLES, sizeof(*samples), compare);
	return samples[SAMPLES / 2];
}

/* To the NUMBERth CPU of those in ALL. */
static void pin(const cpu_set_t *all, int number)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, all) && number-- == 0)
			CPU_SET(cpu, &one);
	if (CPU_COUNT(&one) != 1 || sched_setaffinity(0, sizeof(one), &one) != 0)
		fprintf(stderr, "bare_pairs: cannot have two CPUs\n");
}

static char *get(size_t bytes)
{
	const size_t huge = (size_t)2 << 20, size = (bytes + huge - 1) / huge * huge;
	char *p = aligned_alloc(huge, size);

	if (!p)
		exit(1);
	madvise(p, size, MADV_HUGEPAGE);
	return memset(p, 1, size);
}

static void copies(size_t bytes)
{
	const size_t loops = bytes < 262144 ? 262144 / bytes : 1;
	char *from = get(bytes), *to = get(bytes + 4096);
	double samples[SAMPLES];

	for (int i = -1; i < SAMPLES; i++) {
		const double start = now();

		for (size_t k = 0; k < loops; k++) {
			memcpy(to, from, bytes);
			__asm__ volatile("" ::: "memory");
		}
		if (i >= 0)
			samples[i] = (now() - start) / (double)loops;
	}
	printf("{\"size\":%zu,\"what\":\"memcpy\",\"us\":%.4f}\n", bytes, 1e6 * median(samples));
	free(from);
	free(to);
}

static struct words {
	_Alignas(64) atomic_uint ping;
	_Alignas(64) atomic_uint pong;
} words;

/* A thread that has the other's core for once gives it back. */
static void await(const atomic_uint *word, unsigned target)
{
	for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) != target;
	     spins++)
		if (spins % PATIENCE == 0)
			sched_yield();
}

static void *answer(void *cpus)
{
	pin(cpus, 1);
	for (unsigned i = 1; i <= (SAMPLES + 1U) * ROUNDS; i++) {
		await(&words.ping, i);
		atomic_store_explicit(&words.pong, i, memory_order_release);
	}
	return NULL;
}

static void pingpong(cpu_set_t *cpus)
{
	double samples[SAMPLES];
	pthread_t other;
	unsigned word = 0;

	if (pthread_create(&other, NULL, answer, cpus) != 0)
		exit(1);
	for (int i = -1; i < SAMPLES; i++) {
		const double start = now();

		for (int k = 0; k < ROUNDS; k++) {
			atomic_store_explicit(&words.ping, ++word, memory_order_release);
			await(&words.pong, word);
		}
		if (i >= 0)
			samples[i] = (now() - start) / (2 * ROUNDS);
	}
	pthread_join(other, NULL);
	printf("{\"size\":0,\"what\":\"pingpong\",\"us\":%.5f}\n", 1e6 * median(samples));
}

int main(int argc, char **argv)
{
	const size_t low = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	const size_t high = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	const size_t factor = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;

	cpu_set_t cpus;

	if (low < 1 || factor < 2) {
		fprintf(stderr, "usage: bare_pairs MIN MAX FACTOR\n");
		return 2;
	}
	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		return 1;
	pin(&cpus, 0);
	for (size_t bytes = low; bytes <= high; bytes *= factor)
		copies(bytes);
	pingpong(&cpus);
	return 0;
}
