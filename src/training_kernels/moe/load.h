/*
 * load.h - the experts of each token in a mixture of experts, and the loads of ranks that follow.
 * Pure arithmetic.
 *
 * Experts are divided equally among the ranks, in order. Each token goes through top_k different
 * experts. The share of tokens that choose expert e falls as (e + 1)^-skew (Zipf; 0: evenly), up to
 * 1; the excess goes to the other experts. Choices are evenly spaced (systematic sampling), so they
 * meet the shares as well as whole tokens can, and are the same on each rank. Real routers also
 * differ between ranks and steps.
 *
 * With a capacity factor c an expert takes at most ceil(c tokens top_k / experts) rows of each rank
 * and drops those of later tokens, as in GShard (arXiv 2006.16668) and Switch Transformer
 * (2101.03961, section 2.2).
 */
#pragma once

#include "core/status.h"

#include <stdint.h>

struct bb_moe_form {
	int nranks, experts, top_k; /* nranks divides experts; top_k <= experts */
	int64_t tokens;             /* of a rank */
	double skew, capacity;      /* capacity 0: no limit */
};

/* A row is a token for one of its experts. */
struct bb_moe_load {
	struct bb_moe_form form;
	double *shares;   /* [e]: of the tokens that choose one of the experts below e; e <= experts
			   */
	int64_t *rows;    /* [e]: of a rank's tokens, through expert e, after dropping */
	int64_t *rows_to; /* [r]: of a rank's tokens, through the experts of rank r */
	int64_t *rows_before; /* [r]: to ranks below r; one more for the end */
	int64_t dropped;      /* rows of a rank */
	int busiest;          /* the rank that receives most rows */
};

/* BB_EINTERNAL without memory. Free LOAD whatever comes back. */
BB_MUST bb_status bb_moe_load_make(struct bb_moe_load *load, const struct bb_moe_form *form,
				   struct bb_error *error);
void bb_moe_load_free(struct bb_moe_load *load);

/* Expert number SLOT (0 to top_k - 1) of TOKEN (0 to tokens - 1), on any rank, dropped or not. It
   ascends with SLOT. */
int bb_moe_choice(const struct bb_moe_load *load, int64_t token, int slot);

/* Rows at the experts of RANK, from all ranks including itself. */
int64_t bb_moe_rows_at(const struct bb_moe_load *load, int rank);
/* Those from other ranks. */
int64_t bb_moe_rows_received(const struct bb_moe_load *load, int rank);
/* Rows of the busiest rank over the mean. */
double bb_moe_imbalance(const struct bb_moe_load *load);
