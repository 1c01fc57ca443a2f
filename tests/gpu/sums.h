/*
 * sums.h - an all_reduce of numbers whose sums are easy to know.
 */
#ifndef BB_TESTS_SUMS_H
#define BB_TESTS_SUMS_H

#include "ranks.h"

#define COUNT 1000

struct sums {
	int32_t *in, *out;
	char *tmp;
	struct bb_call call;
};

void sums_open(struct one *me, struct sums *s);
void sums_close(struct one *me, struct sums *s);
/* Make OUT zero. */
void sums_forget(struct one *me, const struct sums *s);
/* Is OUT the sum over the ranks of MEMBERS, of which there are N, or over all? */
bool sums_are_of(struct one *me, const struct sums *s, const int *members, int n);
bool sums_are_of_all(struct one *me, const struct sums *s);

#endif
