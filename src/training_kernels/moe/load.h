/*
 * load.h - which experts the tokens of a mixture of experts go through, and what that makes of
 * the ranks' loads. Pure arithmetic.
 *
 * Experts are divided among the ranks in order, as many on each. Each token goes through top_k
 * different experts. Expert e is chosen by a share of the tokens that falls as (e + 1)^-skew (Zipf;
 * 0: evenly), no share being above 1: what a share would have above goes to the others. Choices are
 * drawn evenly spaced (systematic sampling), so that they meet the shares as well as whole tokens
 * can, the same for the tokens of each rank. Real routers differ from rank to rank and from step
 * to step; here only what is asked for is skewed.
 *
 * With a capacity factor c an expert takes at most ceil(c tokens top_k / experts) rows of a rank,
 * and drops those of later tokens, as in GShard (arXiv 2006.16668) and Switch Transformer
 * (2101.03961, section 2.2), where each rank has its own share of an expert's capacity.
 */
#ifndef BB_TRAINING_KERNELS_MOE_LOAD_H
#define BB_TRAINING_KERNELS_MOE_LOAD_H

#include "core/status.h"

#include <stdint.h>

struct bb_moe_form {
	int nranks, experts, top_k; /* nranks divides experts; top_k <= experts */
	int64_t tokens;             /* of a rank */
	double skew, capacity;      /* capacity 0: nothing is dropped */
};

/* A row is a token on its way through one expert. */
struct bb_moe_load {
	struct bb_moe_form form;
	double *shares;   /* [e]: of the tokens that choose one of the experts below e; e <= experts
			   */
	int64_t *rows;    /* [e]: of a rank's tokens, through expert e, after dropping */
	int64_t *rows_to; /* [r]: of a rank's tokens, through the experts of rank r */
	int64_t *rows_before; /* [r]: to ranks below r; one more for the end */
	int64_t dropped;      /* rows of a rank */
	int busiest;          /* the rank that most rows come to */
};

/* BB_EINTERNAL without memory. Free LOAD whatever comes back. */
BB_MUST bb_status bb_moe_load_make(struct bb_moe_load *load, const struct bb_moe_form *form,
				   struct bb_error *error);
void bb_moe_load_free(struct bb_moe_load *load);

/* The expert that TOKEN (0 … tokens - 1) of any rank goes through as its number SLOT (0 … top_k -
   1); ascends with SLOT. Dropped or not. */
int bb_moe_choice(const struct bb_moe_load *load, int64_t token, int slot);

/* Rows that come to RANK, from all ranks, itself among them; and how many times the mean of all
   ranks the busiest one has. */
int64_t bb_moe_rows_at(const struct bb_moe_load *load, int rank);
double bb_moe_imbalance(const struct bb_moe_load *load);

#endif
