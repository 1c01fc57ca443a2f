#include "training_kernels/moe/exchange.h"

#include "training_kernels/kernel/kernel.h"

#include <math.h>
#include <stdlib.h>

/* ---- loads ----------------------------------------------------------------------------------- */

int bb_moe_choice(const struct bb_moe_load *load, int64_t token, int slot)
{
	const double at = slot + ((double)token + 0.5) / (double)load->form.tokens;
	int low = 0, high = load->form.experts;

	while (high - low > 1) {
		const int middle = (low + high) / 2;

		if (load->shares[middle] <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

bb_status bb_moe_load_make(struct bb_moe_load *load, const struct bb_moe_form *f,
			   struct bb_error *error)
{
	const size_t n = (size_t)f->nranks, experts = (size_t)f->experts, each = experts / n;
	const double most = ceil(f->capacity * (double)f->tokens * f->top_k / f->experts);
	double left = f->top_k, rest = 0, below = 0;

	*load = (struct bb_moe_load){
		.form = *f,
		.shares = calloc(experts + 1, sizeof(*load->shares)),
		.rows = calloc(experts, sizeof(*load->rows)),
		.rows_to = calloc(n, sizeof(*load->rows_to)),
		.rows_before = calloc(n + 1, sizeof(*load->rows_before)),
	};
	if (!load->shares || !load->rows || !load->rows_to || !load->rows_before)
		return bb_no_memory(error, "the loads of experts");
	/* Shares of TOP_K in proportion to (e + 1)^-skew, at most 1 each, as running sums. Weights
	   fall, so the shares that are cut at 1 come first. */
	for (size_t e = 0; e < experts; e++) {
		load->shares[e] = pow((double)e + 1, -f->skew);
		rest += load->shares[e];
	}
	for (size_t e = 0; e < experts; e++) {
		const double weight = load->shares[e];
		const double share = rest > 0 ? left * weight / rest : 0;
		const double mine = share < 1 ? share : 1;

		load->shares[e] = below;
		below += mine;
		/* After the last cut share, the rest stays in proportion. */
		left -= mine;
		rest -= weight;
	}
	load->shares[experts] = f->top_k;
	for (int64_t token = 0; token < f->tokens; token++)
		for (int slot = 0; slot < f->top_k; slot++)
			load->rows[bb_moe_choice(load, token, slot)]++;
	for (size_t e = 0; e < experts; e++) {
		if (f->capacity > 0 && (double)load->rows[e] > most) {
			load->dropped += load->rows[e] - (int64_t)most;
			load->rows[e] = (int64_t)most;
		}
		load->rows_to[e / each] += load->rows[e];
	}
	for (int r = 0; r < f->nranks; r++) {
		load->rows_before[r + 1] = load->rows_before[r] + load->rows_to[r];
		if (load->rows_to[r] > load->rows_to[load->busiest])
			load->busiest = r;
	}
	return BB_OK;
}

void bb_moe_load_free(struct bb_moe_load *load)
{
	free(load->shares);
	free(load->rows);
	free(load->rows_to);
	free(load->rows_before);
	*load = (struct bb_moe_load){.shares = NULL};
}

int64_t bb_moe_rows_at(const struct bb_moe_load *load, int rank)
{
	return load->form.nranks * load->rows_to[rank];
}

int64_t bb_moe_rows_received(const struct bb_moe_load *load, int rank)
{
	return (load->form.nranks - 1) * load->rows_to[rank];
}

double bb_moe_imbalance(const struct bb_moe_load *load)
{
	const int n = load->form.nranks;

	return load->rows_before[n] > 0
		       ? (double)load->rows_to[load->busiest] * n / (double)load->rows_before[n]
		       : 1;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* The greatest common divisor. */
static int divisor(int a, int b)
{
	while (b) {
		const int rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

void bb_moe_message(const struct bb_moe_load *load, int place, struct bb_operation *o)
{
	const int n = load->form.nranks, shift = (int)(o->item / 2) + 1;
	const bool sends = (o->item % 2 == 0) != (place < divisor(n, shift));
	const bool combines = o->lane % 2;
	const int peer = (sends ? place + shift : place - shift + n) % n;

	o->act = sends ? BB_ACT_SEND : BB_ACT_RECV;
	o->queue += !sends;
	o->item = (size_t)peer;
	o->peer = peer;
	o->together = !sends && shift > 1;
	/* The number of rows depends on the rank whose experts they go through. */
	o->count *= (size_t)load->rows_to[sends != combines ? peer : place];
}

void bb_moe_write(const struct bb_moe_exchange *x, struct bb_tape *tape, int work, bool combines,
		  bool forks, bool joins)
{
	const size_t begin = tape->n, messages = 2 * (size_t)(x->load->form.nranks - 1);
	const int receives = x->sends + 1;

	if (forks) {
		const int computed = bb_tape_record(tape, x->computes);

		bb_tape_wait(tape, x->sends, computed);
		bb_tape_wait(tape, receives, computed);
	}
	for (size_t k = 0; k < messages; k++)
		bb_tape_add(tape,
			    (struct bb_operation){BB_ACT_SEND, x->sends, work, k,
						  .lane = x->lane + combines, .peer = BB_NO_PEER,
						  .count = x->hidden, .dtype = x->dtype});
	if (joins) {
		bb_tape_order(tape, x->sends, x->computes);
		bb_tape_order(tape, receives, x->computes);
	}
	for (size_t i = begin; i < tape->n; i++)
		tape->list[i].work = work;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Bytes of N rows. */
static size_t row_bytes(const struct bb_moe_rows *rows, size_t n)
{
	return n * rows->hidden * bb_dtype_size(rows->dtype);
}

/* The first row from PEER at the experts; the first row for it in AT. */
static char *theirs_of(const struct bb_moe_rows *rows, int peer)
{
	return rows->theirs +
	       row_bytes(rows, (size_t)peer * (size_t)rows->load->rows_to[rows->place]);
}

static char *mine_of(const struct bb_moe_rows *rows, char *at, int peer)
{
	return at + row_bytes(rows, (size_t)rows->load->rows_before[peer]);
}

char *bb_moe_rows_of(const struct bb_moe_rows *rows, const struct bb_operation *o)
{
	const bool combines = o->lane % 2;

	if ((o->act == BB_ACT_SEND) == combines)
		return theirs_of(rows, (int)o->item);
	return mine_of(rows, combines ? rows->back : rows->mine, (int)o->item);
}

void bb_moe_rows_lay_out(struct bb_moe_rows *rows, struct bb_known *known,
			 const struct bb_patterns *patterns)
{
	const struct bb_moe_load *l = rows->load;
	const int n = l->form.nranks, me = rows->place, rank = rows->ranks ? rows->ranks[me] : me;
	const size_t leave = (size_t)l->rows_before[n] * rows->hidden;
	const size_t come = (size_t)bb_moe_rows_at(l, me) * rows->hidden;
	const size_t here = (size_t)l->rows_to[me] * rows->hidden;
	const size_t before = (size_t)l->rows_before[me] * rows->hidden;

	rows->mine = bb_known_lay_out(known, leave, rows->dtype, patterns, rank, 0);
	rows->back = bb_known_lay_out(known, leave, rows->dtype, patterns, rank, 1);
	rows->theirs = bb_known_lay_out(known, come, rows->dtype, patterns, rank, 1);
	for (int peer = 0; peer < n && known->memory; peer++) {
		const enum bb_known_use use =
			peer == (me + 1) % n ? BB_KNOWN_VICTIM : BB_KNOWN_CHECK;

		if (peer == me)
			continue;
		bb_known_add(known, use, theirs_of(rows, peer), patterns,
			     rows->ranks ? rows->ranks[peer] : peer, before, here);
		bb_known_add(known, use, mine_of(rows, rows->back, peer), patterns, rank,
			     (size_t)l->rows_before[peer] * rows->hidden,
			     (size_t)l->rows_to[peer] * rows->hidden);
	}
}
