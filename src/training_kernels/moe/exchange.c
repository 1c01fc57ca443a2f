#include "training_kernels/moe/exchange.h"

#include "harness/measure/engine.h"

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

static size_t row_bytes(const struct bb_moe_rows *rows)
{
	return rows->hidden * bb_dtype_size(rows->dtype);
}

size_t bb_moe_bytes_mine(const struct bb_moe_rows *rows)
{
	return (size_t)rows->load->rows_before[rows->load->form.nranks] * row_bytes(rows);
}

size_t bb_moe_bytes_theirs(const struct bb_moe_rows *rows)
{
	return (size_t)bb_moe_rows_at(rows->load, rows->place) * row_bytes(rows);
}

/* The first row from PEER at the experts. */
static char *theirs_of(const struct bb_moe_rows *rows, int peer)
{
	return rows->theirs +
	       (size_t)peer * (size_t)rows->load->rows_to[rows->place] * row_bytes(rows);
}

char *bb_moe_rows_of(const struct bb_moe_rows *rows, bool combines, const struct bb_operation *o)
{
	const int peer = (int)o->item;
	const bool experts = (o->act == BB_ACT_SEND) == combines;

	return experts ? theirs_of(rows, peer)
		       : (combines ? rows->back : rows->mine) +
				 (size_t)rows->load->rows_before[peer] * row_bytes(rows);
}

int bb_moe_rows_victims(const struct bb_moe_rows *rows, void **victims)
{
	const int peer = (rows->place + 1) % rows->load->form.nranks;
	const struct bb_operation from = {.act = BB_ACT_RECV, .item = (size_t)peer};
	int n = 0;

	for (int combines = 0; combines < 2 && peer != rows->place; combines++)
		if (rows->load->rows_to[combines ? peer : rows->place] > 0)
			victims[n++] = bb_moe_rows_of(rows, combines, &from);
	return n;
}

static int pattern_rank(const struct bb_moe_rows *rows, int place)
{
	return rows->ranks ? rows->ranks[place] : place;
}

bb_status bb_moe_rows_fill(const struct bb_moe_rows *rows, struct bb_engine *engine,
			   const struct bb_patterns *patterns)
{
	const int mine = pattern_rank(rows, rows->place);
	const size_t element = bb_dtype_size(rows->dtype);
	const size_t leave = bb_moe_bytes_mine(rows) / element;
	const size_t come = bb_moe_bytes_theirs(rows) / element;
	bb_status status;

	BB_TRY(status, bb_engine_fill(engine, rows->mine, patterns, mine, 0, leave), out);
	BB_TRY(status, bb_engine_fill(engine, rows->back, patterns, mine, 1, leave), out);
	status = bb_engine_fill(engine, rows->theirs, patterns, mine, 1, come);
out:
	return status;
}

bb_status bb_moe_rows_verify(const struct bb_moe_rows *rows, struct bb_engine *engine,
			     const struct bb_patterns *patterns, uint64_t *wrong)
{
	const struct bb_moe_load *l = rows->load;
	const int me = rows->place;
	const size_t here = (size_t)l->rows_to[me] * rows->hidden;
	const size_t before = (size_t)l->rows_before[me] * rows->hidden;
	bb_status status = BB_OK;

	for (int peer = 0; peer < l->form.nranks; peer++) {
		const size_t away = (size_t)l->rows_before[peer] * rows->hidden;

		if (peer == me)
			continue;
		BB_TRY(status,
		       bb_engine_verify(engine, theirs_of(rows, peer), patterns,
					pattern_rank(rows, peer), before, here, wrong),
		       out);
		BB_TRY(status,
		       bb_engine_verify(engine, rows->back + away * bb_dtype_size(rows->dtype),
					patterns, pattern_rank(rows, me), away,
					(size_t)l->rows_to[peer] * rows->hidden, wrong),
		       out);
	}
out:
	return status;
}
