/*
 * split.h - splits a world into groups that run at the same time, by NCCL_TESTS_SPLIT.
 */
#ifndef BB_COLLECTIVES_SPLIT_H
#define BB_COLLECTIVES_SPLIT_H

#include "core/status.h"

enum bb_split_kind { BB_SPLIT_NONE, BB_SPLIT_AND, BB_SPLIT_OR, BB_SPLIT_MOD, BB_SPLIT_DIV };

struct bb_split_rule {
	enum bb_split_kind kind;
	int operand;       /* > 0 for MOD and DIV, >= 0 for the others */
	int shift, nranks; /* added to ranks before, round the world of NRANKS; 0: no shift */
};

/*
 * SPLIT is the value of NCCL_TESTS_SPLIT: AND, OR, MOD or DIV (any case) or & | % /, then a
 * decimal, 0x or 0b number ("AND 0x7", "%2"). "+S%N" may go before it, which nccl-tests does not
 * know: rank r counts as (r + S) % N, so that "+8%32/16" makes groups of 16 that begin with the
 * last 8 of 32 ranks. MASK is that of NCCL_TESTS_SPLIT_MASK: a hexadecimal number to AND with; it
 * goes before SPLIT, as in nccl-tests. NULL or empty: not set. BB_EUSAGE naming the variable.
 */
BB_MUST bb_status bb_split_parse(struct bb_split_rule *rule, const char *split, const char *mask,
				 struct bb_error *error);

/* The group RANK belongs to: ranks of one color form one group, ordered by rank. */
int bb_split_color(const struct bb_split_rule *rule, int rank);

#endif
