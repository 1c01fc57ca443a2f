/*
 * vocabulary.c - the embedding and the loss, split by vocabulary.
 */
#include "training_kernels/tensor/math.h"
#include "training_kernels/tensor/state.h"

#include <math.h>
#include <string.h>

#define EXP_BITS 30 /* of exponentials that are summed over ranks */

/* The token at place I, the target of the one before it. */
static size_t token(const struct bb_tensor_state *s, size_t i)
{
	return (i * 2654435761u + 7) % s->size->vocab;
}

static size_t vocab_part(const struct bb_tensor_state *s)
{
	return s->size->vocab / s->t;
}

/* Does this rank have ENTRY of the vocabulary? *ROW = its row on the rank that has it. */
static bool is_mine(const struct bb_tensor_state *s, size_t entry, size_t *row)
{
	*row = entry % vocab_part(s);
	return entry / vocab_part(s) == s->rank;
}

static void embedding_look_up(struct bb_tensor_state *s)
{
	const size_t h = s->size->hidden;
	double *out =
		bb_tensor_gathers(s) ? s->slots[BB_TS_EMBEDDED] : s->slots[BB_TS_EMBEDDED_SUM];
	size_t row;

	for (size_t i = 0; i < s->size->tokens; i++) {
		if (is_mine(s, token(s, i), &row))
			memcpy(out + i * h, s->slots[BB_TS_TABLE] + row * h, h * sizeof(*out));
		else
			memset(out + i * h, 0, h * sizeof(*out));
	}
}

static void back_look_up(struct bb_tensor_state *s)
{
	const size_t h = s->size->hidden;
	const double *g =
		s->slots[bb_tensor_gathers(s) ? BB_TS_DEMBEDDED_GATHERED : BB_TS_DEMBEDDED];
	double *table = s->slots[BB_TS_DTABLE];
	size_t row;

	memset(table, 0, vocab_part(s) * h * sizeof(*table));
	for (size_t i = 0; i < s->size->tokens; i++)
		for (size_t c = 0; is_mine(s, token(s, i), &row) && c < h; c++)
			table[row * h + c] += g[i * h + c];
}

static void loss_most(struct bb_tensor_state *s)
{
	const size_t v = vocab_part(s);

	for (size_t i = 0; i < s->size->tokens; i++) {
		const double *l = s->slots[BB_TS_LOGITS] + i * v;
		double most = l[0];

		for (size_t c = 1; c < v; c++)
			most = fmax(most, l[c]);
		s->slots[BB_TS_LOGITS_MOST][i] = most;
	}
}

static double exponential(const struct bb_tensor_state *s, size_t i, double logit)
{
	return bb_tm_round(s->grid, exp(logit - s->slots[BB_TS_LOGITS_MOST][i]), EXP_BITS);
}

static void loss_exp(struct bb_tensor_state *s)
{
	const size_t v = vocab_part(s);
	size_t row;

	for (size_t i = 0; i < s->size->tokens; i++) {
		const double *l = s->slots[BB_TS_LOGITS] + i * v;
		double sum = 0;

		for (size_t c = 0; c < v; c++)
			sum += exponential(s, i, l[c]);
		s->slots[BB_TS_LOGITS_EXP][i] = sum;
		s->slots[BB_TS_TARGET][i] = is_mine(s, token(s, i + 1), &row) ? l[row] : 0;
	}
}

static void loss_end(struct bb_tensor_state *s)
{
	const size_t v = vocab_part(s);
	size_t row;

	for (size_t i = 0; i < s->size->tokens; i++) {
		const double sum = s->slots[BB_TS_LOGITS_EXP][i];
		const bool mine = is_mine(s, token(s, i + 1), &row);

		s->slots[BB_TS_LOSS][i] =
			log(sum) + s->slots[BB_TS_LOGITS_MOST][i] - s->slots[BB_TS_TARGET][i];
		for (size_t c = 0; c < v; c++)
			s->slots[BB_TS_DLOGITS][i * v + c] =
				exponential(s, i, s->slots[BB_TS_LOGITS][i * v + c]) / sum -
				(mine && c == row);
	}
}

/* All logits are here, so no all-reduce is needed. */
static void loss_whole(struct bb_tensor_state *s)
{
	const size_t v = vocab_part(s), n = s->size->tokens;

	for (size_t i = 0; i < n; i++) {
		const size_t target = token(s, i + 1);
		const double *all = s->slots[BB_TS_LOGITS_ALL] + i * v;
		double most = all[0], sum = 0;

		for (size_t w = 1; w < s->size->vocab; w++)
			most = fmax(most, all[w / v * n * v + w % v]);
		s->slots[BB_TS_LOGITS_MOST][i] = most;
		for (size_t w = 0; w < s->size->vocab; w++)
			sum += exponential(s, i, all[w / v * n * v + w % v]);
		s->slots[BB_TS_LOGITS_EXP][i] = sum;
		s->slots[BB_TS_TARGET][i] = all[target / v * n * v + target % v];
	}
	loss_end(s);
}

void bb_tensor_compute_vocabulary(struct bb_tensor_state *s, int work)
{
	static void (*const works[BB_TW_WORKS])(struct bb_tensor_state * s) = {
		[BB_TW_LOOKUP] = embedding_look_up, [BB_TW_EMBED_BACK] = back_look_up,
		[BB_TW_LOSS_MAX] = loss_most,       [BB_TW_LOSS_EXP] = loss_exp,
		[BB_TW_LOSS_END] = loss_end,        [BB_TW_LOSS_WHOLE] = loss_whole,
	};

	works[work](s);
}
