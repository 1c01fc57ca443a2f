#include "training_kernels/moe/exchange.h"

#include "training_kernels/kernel/kernel.h"

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
		bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_SEND,
							.queue = x->sends,
							.item = k,
							.lane = x->lane + combines,
							.peer = BB_NO_PEER,
							.count = x->hidden,
							.dtype = x->dtype});
	if (joins) {
		const int sent = bb_tape_record(tape, x->sends);
		const int received = bb_tape_record(tape, receives);

		bb_tape_wait(tape, x->computes, sent);
		bb_tape_wait(tape, x->computes, received);
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

char *bb_moe_rows_of(const struct bb_moe_rows *rows, bool combines, const struct bb_operation *o)
{
	const int peer = (int)o->item;
	const bool experts = (o->act == BB_ACT_SEND) == combines;

	return experts ? theirs_of(rows, peer)
		       : mine_of(rows, combines ? rows->back : rows->mine, peer);
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
