/*
 * speed.h - how the speed programs measure, the same for busbench and for its peer.
 *
 * Before each repetition every rank writes its IN and OUT anew, so that each buffer is in its
 * owner's cache and nowhere else. A repetition takes from the first rank's start to the last rank's
 * end on the one clock of the machine. Small operations run several times back to back within a
 * repetition, IN written anew before each: that time counts, for both sides alike.
 */
#ifndef BB_TESTS_PERF_SPEED_H
#define BB_TESTS_PERF_SPEED_H

#include <stddef.h>
#include <string.h>
#include <time.h>

#define MOST_REPEATS 200
#define SMALL_BYTES 4096

static inline double speed_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int speed_repeats(size_t bytes)
{
	size_t n = ((size_t)256 << 20) / (bytes + 4096);

	return n < 7 ? 7 : n > MOST_REPEATS ? MOST_REPEATS : (int)n;
}

static inline int speed_inner(size_t bytes)
{
	return bytes <= SMALL_BYTES ? 50 : 1;
}

/* Plain stores of a value that sums stay finite with. */
static inline void speed_rewrite(float *buffer, size_t bytes, float value)
{
	for (size_t i = 0; i < bytes / sizeof(*buffer); i++)
		buffer[i] = value;
}

#endif
