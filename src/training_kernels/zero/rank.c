/*
 * rank.c - a rank under a stage: what it computes with its memory, and how it opens.
 */
#include "training_kernels/zero/zero.h"

#include "core/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- access of the CPU ----------------------------------------------------------------------- */

/* Memory of the CPU needs no backend, whose calls belong to the driver's thread. */
static void copy_bytes(struct bb_zero_rank *z, void *to, const void *from, size_t bytes)
{
	const struct bb_engine *e = bb_zero_engine(z);

	if (!e->backend->gpu)
		memcpy(to, from, bytes);
	else if (z->status == BB_OK)
		z->status = e->backend->copy(e->rank, to, from, bytes);
}

/* Call WORK as bb_zero_each does, for N elements of which the first is element FIRST of the model.
 */
static void each_block(struct bb_zero_rank *z, const struct bb_zero_array *arrays, int narrays,
		       uint64_t first, uint64_t n, bb_zero_block *work, void *own)
{
	const bool direct = !bb_zero_engine(z)->backend->gpu;
	void *seen[BB_ZERO_ARRAYS];

	for (size_t at = 0, b; at < n && z->status == BB_OK; at += b) {
		b = n - at < BB_ZERO_BLOCK ? (size_t)n - at : BB_ZERO_BLOCK;
		for (int i = 0; i < narrays; i++) {
			char *const memory = arrays[i].at + at * arrays[i].size;

			seen[i] = direct || arrays[i].host ? (void *)memory : z->blocks[i];
			if (seen[i] != memory)
				copy_bytes(z, seen[i], memory, b * arrays[i].size);
		}
		work(z, own, first + at, b, seen);
		for (int i = 0; i < narrays; i++) {
			char *const memory = arrays[i].at + at * arrays[i].size;

			if (seen[i] != memory && arrays[i].written)
				copy_bytes(z, memory, seen[i], b * arrays[i].size);
		}
	}
}

void bb_zero_each(struct bb_zero_rank *z, const struct bb_zero_array *arrays, int narrays, size_t u,
		  bool mine, bb_zero_block *work, void *own)
{
	const struct bb_zero_units *units = &z->zero->units;
	const struct bb_zero_unit *unit = &units->list[u];
	const uint64_t ranks = z->stage == 0 ? 1 : (uint64_t)z->zero->nranks;
	const uint64_t first = mine && z->stage > 0 ? (uint64_t)z->rank : 0;
	struct bb_zero_array part[BB_ZERO_ARRAYS];

	for (uint64_t r = first; r < (mine ? first + 1 : ranks); r++) {
		uint64_t at = (r - first) * z->places.list[u].part;

		for (size_t i = unit->rows; i < unit->rows + unit->nrows; i++) {
			const struct bb_zero_piece p = bb_zero_piece(&units->rows[i], ranks, r);

			for (int a = 0; a < narrays; a++) {
				part[a] = arrays[a];
				part[a].at += at * part[a].size;
			}
			each_block(z, part, narrays, p.first, p.count, work, own);
			at += p.padded;
		}
	}
}

/* ---- blocks of elements ---------------------------------------------------------------------- */

/* OWN, a struct bb_zero_work, on the arrays that each action names. */
static void work_block(struct bb_zero_rank *z, void *own, uint64_t first, size_t n,
		       void *const *seen)
{
	const struct bb_zero_work *w = own;
	const enum bb_dtype dtype = z->zero->options.dtype;
	const struct bb_zero_batch batch = {z->step, w->microbatch, z->rank, z->forward,
					    z->scale.scale};
	const float unscale =
		1.0f / (z->scale.scale * (float)(z->zero->nranks * z->zero->options.accumulate));
	const struct bb_onebit *onebit = &z->zero->config.onebit;
	float *const wide = z->blocks[5], *const other = z->blocks[6];
	const float times = w->how & BB_ZERO_FROM_MEAN ? (float)z->zero->nranks : 1;
	float *master;

	switch (w->action) {
	case BB_ZERO_BEGIN: /* parameters */
		bb_zero_initial(dtype, first, n, seen[0]);
		break;
	case BB_ZERO_SUM: /* parameters */
		z->forward += bb_zero_sum(dtype, first, n, seen[0]);
		break;
	case BB_ZERO_DRAW: /* parameters, gradients */
		z->flushing += bb_zero_gradients(&z->zero->data, &batch, first, n, seen[0], seen[1],
						 z->stage < 2 && w->microbatch > 0);
		break;
	case BB_ZERO_CLEAR: /* gradients */
		memset(seen[0], 0, n * bb_zero_size(z));
		break;
	case BB_ZERO_MOVE: /* those that are moved, their places */
		bb_adam_widen(w->how & BB_ZERO_FROM_FP32 ? BB_FLOAT : dtype, seen[0], wide, n);
		if (w->how & BB_ZERO_ADD)
			bb_adam_widen(dtype, seen[1], other, n);
		for (size_t i = 0; i < n; i++)
			wide[i] = (w->how & BB_ZERO_ADD ? other[i] : 0) + wide[i] * times;
		bb_adam_narrow(w->how & BB_ZERO_TO_FP32 ? BB_FLOAT : dtype, wide, seen[1], n);
		break;
	case BB_ZERO_INSPECT: /* gradients */
		z->overflowed |= bb_adam_overflowed(dtype, seen[0], n);
		break;
	case BB_ZERO_UPDATE: /* gradients, parameters, moments, master copy */
		master = bb_zero_has_master(z) ? seen[4] : other;
		bb_adam_widen(dtype, seen[0], wide, n);
		if (!bb_zero_has_master(z))
			bb_adam_widen(dtype, seen[1], master, n);
		if (onebit->kind != BB_ONEBIT_NONE && !z->compressed)
			bb_onebit_moments(onebit, unscale, wide, seen[2], seen[3], n);
		if (onebit->kind != BB_ONEBIT_NONE)
			bb_onebit_apply(onebit, 1, seen[2], seen[3], master, NULL, n);
		else
			bb_adam_step_by(z->zero->data.rate, z->taken, unscale, wide, master,
					seen[2], seen[3], n);
		if (z->zero->data.bare)
			z->unchanged +=
				bb_zero_round(&z->zero->data, z->taken, first, n, master, seen[1]);
		else
			bb_adam_narrow(dtype, master, seen[1], n);
		break;
	default:
		break;
	}
}

/* Arrays of this rank's part of a unit, as bits. */
enum { GRADIENTS = 1, PARAMETERS = 2, MOMENTS = 4 + 8, MASTER = 16 };

/* WORK on all blocks of this rank's parts of all units, in the arrays WHICH, in the order of the
   bits. */
static void each_part(struct bb_zero_rank *z, unsigned which, struct bb_zero_work work)
{
	const size_t size = bb_zero_size(z), wide = sizeof(float);
	const bool host = z->zero->options.offload;
	const struct bb_zero_array all[BB_ZERO_ARRAYS] = {
		{z->gradients.memory, size, false, false},
		{z->parameters.memory, size, false, work.action == BB_ZERO_UPDATE},
		{z->moment1.memory, wide, host, true},
		{z->moment2.memory, wide, host, true},
		{z->master.memory, wide, host, true},
	};
	const bool divided[BB_ZERO_ARRAYS] = {z->stage >= 2, z->stage == 3, true, true, true};

	for (size_t u = 0; u < z->zero->units.n && z->data && z->status == BB_OK; u++) {
		const struct bb_zero_place *p = &z->places.list[u];
		struct bb_zero_array arrays[BB_ZERO_ARRAYS];
		int n = 0;

		for (int i = 0; i < BB_ZERO_ARRAYS; i++) {
			if (!(which >> i & 1))
				continue;
			arrays[n] = all[i];
			arrays[n++].at += all[i].size * (divided[i] ? p->part_at : p->at + p->mine);
		}
		bb_zero_each(z, arrays, n, u, true, work_block, &work);
	}
}

/* ---- the workload ---------------------------------------------------------------------------- */

/* Whether a gradient of any rank overflows, after the call that asks. */
static bool learn_overflow(struct bb_zero_rank *z)
{
	int32_t flag = z->overflowed;

	if (z->flag.memory)
		copy_bytes(z, &flag, z->flag.memory, sizeof(flag));
	return z->overflowed = flag;
}

static float *momentum_of(const struct bb_zero_rank *z, size_t unit)
{
	return (float *)(void *)z->moment1.memory + z->places.list[unit].at;
}

static void give_gradients(struct bb_zero_rank *z, size_t unit)
{
	const struct bb_zero_options *a = &z->zero->options;
	const struct bb_coded *c = &z->exchanges[unit];
	const size_t n = (size_t)z->zero->units.list[unit].elements;

	bb_adam_widen(a->dtype, z->gradients.memory + z->places.list[unit].at * bb_zero_size(z),
		      c->x, n);
	memset(c->x + n, 0, (bb_coded_padded(c->form) - n) * sizeof(*c->x));
	bb_onebit_give(&z->zero->config.onebit, 1.0f / (z->scale.scale * (float)a->accumulate),
		       momentum_of(z, unit), c->x, n);
}

static void take_momentum(struct bb_zero_rank *z, size_t unit)
{
	const struct bb_zero_unit *u = &z->zero->units.list[unit];
	const struct bb_coded *c = &z->exchanges[unit];

	bb_onebit_take(&z->zero->config.onebit, z->has_peers ? c->result : c->x,
		       momentum_of(z, unit), (size_t)u->elements);
	if (z->has_peers)
		bb_coded_round(c, u->first, &z->balance);
}

static void zero_compute(void *own, int rank, const struct bb_operation *o)
{
	struct bb_zero_rank *z = own;
	struct bb_zero_work *w = &z->works[o->item], clear = {.action = BB_ZERO_CLEAR};
	const size_t size = bb_zero_size(z);
	struct bb_zero_array from = {.at = w->from, .size = size};
	struct bb_zero_array to = {.at = w->to, .size = size, .written = true};
	const size_t first = z->zero->units.order[0][0];
	uint64_t padded;
	int32_t flag;
	bool overflowed;

	/* In the queue of the collectives: it touches nothing of the others. A step that is skipped
	   keeps its errors. */
	if (w->action == BB_ZERO_CODE && !(z->compressed && z->overflowed))
		bb_coded_compute(&z->exchanges[w->exchange], w->count);
	if (w->action == BB_ZERO_CODE || z->status != BB_OK)
		return;
	switch (w->action) {
	case BB_ZERO_SUM:
		if (w->unit == first && w->microbatch == 0) {
			z->step++;
			z->skipped = z->scale.skipped;
		}
		if (w->unit == first)
			z->forward = 0;
		bb_zero_each(z, &from, 1, w->unit, false, work_block, w);
		break;
	case BB_ZERO_DRAW:
		/* A bucket is padded with zeros. */
		padded = z->places.list[w->unit].padded;
		if (z->stage >= 2 && padded > z->zero->units.list[w->unit].elements)
			each_block(z, &to, 1, 0, padded, work_block, &clear);
		bb_zero_each(z, (struct bb_zero_array[]){from, to}, 2, w->unit, false, work_block,
			     w);
		break;
	case BB_ZERO_MOVE:
		from.size = w->how & BB_ZERO_FROM_FP32 ? sizeof(float) : size;
		to.size = w->how & BB_ZERO_TO_FP32 ? sizeof(float) : size;
		if (w->how)
			each_block(z, (struct bb_zero_array[]){from, to}, 2, 0, w->count,
				   work_block, w);
		else
			copy_bytes(z, w->to, w->from, w->count * size);
		break;
	case BB_ZERO_INSPECT:
		z->overflowed = false;
		each_part(z, GRADIENTS, *w);
		flag = z->overflowed;
		if (z->flag.memory)
			copy_bytes(z, z->flag.memory, &flag, sizeof(flag));
		break;
	case BB_ZERO_UPDATE:
		overflowed = learn_overflow(z);
		z->taken += z->status == BB_OK && !overflowed;
		z->flushed += overflowed ? 0 : z->flushing;
		z->flushing = 0;
		if (!overflowed)
			each_part(z,
				  GRADIENTS | PARAMETERS | MOMENTS |
					  (bb_zero_has_master(z) ? MASTER : 0),
				  *w);
		if (z->status == BB_OK)
			bb_zero_scale_update(&z->scale, overflowed);
		break;
	case BB_ZERO_GIVE:
		if (!learn_overflow(z))
			give_gradients(z, w->unit);
		break;
	case BB_ZERO_GET:
		if (!z->overflowed)
			take_momentum(z, w->unit);
		break;
	default: /* a call, or part of another action */
		break;
	}
}

static void zero_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct bb_zero_rank *z = own;
	const struct bb_program *program = &z->variant.taped.program;
	const struct bb_zero_work *w = &z->works[o->item];

	if (w->action == BB_ZERO_CODE) {
		*in = z->exchanges[w->exchange].sent;
		*out = z->exchanges[w->exchange].comes;
	} else {
		bb_kernel_in_place(o, z->rank % program->group_size(program, o->group), w->to, in,
				   out);
	}
}

/* Add an operation in the computing queue of rank 0 to the times of its phase. */
static void zero_observe(void *own, int rank, size_t index, const struct bb_operation *o,
			 double from, double to, int source)
{
	struct bb_zero_rank *z = own;
	double *const collectives = &z->times[2 * BB_ZERO_PHASES];

	if (rank == 0 && o->queue != BB_ZERO_COMPUTING && o->work <= BB_ZERO_IN_BACKWARD &&
	    (o->act == BB_ACT_COLLECTIVE || o->act == BB_ACT_COMPUTE))
		collectives[z->works[o->item].unit] += to - from;
	if (rank != 0 || o->queue != BB_ZERO_COMPUTING)
		return;
	z->times[o->work] += to - z->last;
	if (o->act == BB_ACT_WAIT)
		z->times[BB_ZERO_PHASES + o->work] += to - z->last;
	z->last = to;
}

/* Count temporary memory as held from the first moment after the model on. */
static void hold_tmp(struct bb_usage *usage, size_t bytes)
{
	usage->holds[BB_HOLD_COMMUNICATION] += bytes;
	usage->reserved += bb_ledger_rounded(bytes);
}

/* What the collectives of a step send, and the temporary memory of them. */
static bb_status zero_opened(void *own, struct bb_runner *runner)
{
	struct bb_zero_rank *z = own;
	struct bb_sent sent;
	bb_status status = BB_OK;

	for (int phase = 0; phase < BB_ZERO_PHASES && z->has_peers; phase++) {
		BB_TRY(status,
		       bb_runner_count(runner, bb_zero_engine(z)->driver->rank, phase, &sent), out);
		z->wire += phase == BB_ZERO_IN_OPTIMIZER ? 0 : (uint64_t)sent.bytes;
		z->tmp_bytes = sent.tmp_bytes > z->tmp_bytes ? sent.tmp_bytes : z->tmp_bytes;
	}
	hold_tmp(&z->ledger.now, z->tmp_bytes);
	hold_tmp(&z->ledger.peak, z->tmp_bytes);
	for (size_t i = 1; i < z->nmoments; i++) {
		hold_tmp(&z->moments[i].now, z->tmp_bytes);
		z->moments[i].peak += z->tmp_bytes;
	}
out:
	return status;
}

void bb_zero_rank_trial(struct bb_zero_rank *z, struct bb_trial *trial)
{
	trial->workload = (struct bb_workload){
		.program = &z->variant.taped.program,
		.stand_in = (enum bb_stand_in)z->zero->options.stand_in,
		.compute = z->data ? zero_compute : NULL,
		.stands_in = true,
		.buffers = zero_buffers,
		.own = z,
	};
	trial->timing = BB_TIMING_STEPS;
	trial->opened = zero_opened;
	trial->watch = (struct bb_timeline_watch){zero_observe, z};
}

/* ---- opening --------------------------------------------------------------------------------- */

static const struct bb_zero_rank *rank_of(const struct bb_program *program)
{
	return ((const struct bb_taped *)program->own)->own;
}

/* The groups are all ranks, those of nodes and across nodes, and, last, all for reductions. */
static int coded_group(const struct bb_program *program, int group)
{
	return rank_of(program)->zero->options.separate && group == program->groups - 1 ? 0 : group;
}

static int zero_group_size(const struct bb_program *program, int group)
{
	return bb_coded_group_size(&rank_of(program)->nodes, coded_group(program, group));
}

static int zero_member(const struct bb_program *program, int group, int i)
{
	return bb_coded_member(&rank_of(program)->nodes, coded_group(program, group), i);
}

static void zero_complete(const void *own, int rank, struct bb_operation *o)
{
	const struct bb_zero_rank *z = own;

	if (o->act == BB_ACT_COLLECTIVE && o->group == BB_ZERO_REDUCERS)
		o->group = z->variant.taped.program.groups - 1;
	else
		bb_coded_complete(&z->nodes, rank, o);
}

/* Set queues and groups, and which exchanges are of codes. */
static void set_groups(struct bb_zero_rank *z)
{
	const struct bb_zero_options *a = &z->zero->options;
	struct bb_taped *taped = &z->variant.taped;
	const int n = z->zero->nranks;

	z->reshard = z->stage == 3 ? (int)a->reshard : 0;
	z->gathers_codes = z->stage == 3 && a->qwz && z->has_peers;
	z->reduces_codes = z->stage == 3 && a->qgz && z->has_peers;
	z->nodes = (struct bb_coded_form){.nranks = n,
					  .local = z->reduces_codes ? (int)a->qgz
						   : z->reshard > 1 ? z->reshard
								    : n};
	for (size_t u = 0; u < z->zero->units.n; u++) {
		struct bb_coded_form *const forms = z->live[u].forms;

		if (z->gathers_codes)
			forms[0] = bb_zero_coded_form(&z->zero->units, u, n, 0);
		if (z->reduces_codes)
			forms[1] = bb_zero_coded_form(&z->zero->units, u, n, (int)a->qgz);
		else if (z->compressed)
			forms[1] = bb_zero_sign_form(&z->zero->units, u, n);
	}
	taped->own = z;
	taped->program.queues = a->separate ? BB_ZERO_REDUCING + 1 : BB_ZERO_REDUCING;
	taped->program.groups = z->has_peers * (1 + a->separate);
	taped->program.group_size = zero_group_size;
	taped->program.member = zero_member;
	taped->complete = zero_complete;
	if (z->has_peers && z->nodes.local < n)
		taped->program.groups += n / z->nodes.local;
	if (z->reduces_codes)
		taped->program.groups += z->nodes.local;
}

/* Z goes on where OLD ended. */
static void continue_from(struct bb_zero_rank *z, const struct bb_zero_rank *old)
{
	const struct bb_held *const from[] = {&old->parameters, &old->master, &old->moment1,
					      &old->moment2};
	const struct bb_held *const to[] = {&z->parameters, &z->master, &z->moment1, &z->moment2};

	for (size_t i = 0; i < sizeof(to) / sizeof(to[0]) && z->data; i++)
		if (to[i]->memory)
			memcpy(to[i]->memory, from[i]->memory, to[i]->bytes);
	z->step = old->step;
	z->taken = old->taken;
	z->scale = old->scale;
}

bb_status bb_zero_rank_open(struct bb_zero_rank *z, int64_t steps,
			    const struct bb_zero_rank *before)
{
	const struct bb_zero *zero = z->zero;
	const struct bb_engine *e = bb_zero_engine(z);
	const bool divided = z->stage == 3; /* parameters are */
	const size_t size = bb_zero_size(z);
	struct bb_zero_work begin = {.action = BB_ZERO_BEGIN};
	struct bb_run *run = e->run;
	struct bb_usage first;
	bb_status status;

	z->ledger =
		(struct bb_ledger){.backend = e->backend, .rank = e->rank, .error = &run->error};
	z->data = bb_zero_trains(zero, run);
	z->has_peers = !zero->alone && zero->nranks > 1;
	z->scale = zero->scale;
	z->reducing = SIZE_MAX;
	z->live = calloc(zero->units.n, sizeof(*z->live));
	if (!z->live)
		BB_TRY(status, bb_no_memory(&run->error, "the layers of a model"), out);
	for (size_t u = 0; u < zero->units.n; u++)
		z->live[u].gathered = z->live[u].sent = BB_ZERO_NO_EVENT;
	BB_TRY(status,
	       bb_zero_places_make(&z->places, &zero->units, z->stage, zero->nranks, z->rank,
				   &run->error),
	       out);
	BB_TRY(status,
	       bb_taped_begin(&z->variant.taped, zero->alone ? 1 : zero->nranks, 1, 1, &run->error),
	       out);
	set_groups(z);
	/* A ring would send what an all-to-all sends several times. */
	if (strcmp(zero->options.algo_text, "auto") != 0 &&
	    (!z->compressed || zero->options.algo_text_given))
		z->variant.taped.program.algorithm = zero->options.algo_text;
	bb_zero_acquire(z, BB_HOLD_PARAMETERS,
			(divided ? z->places.divided : z->places.whole) * size, false,
			&z->parameters);
	for (size_t i = 0; i < zero->units.n && z->data && z->status == BB_OK; i++) {
		const struct bb_zero_place *p = &z->places.list[i];
		const struct bb_zero_array array = {.at = z->parameters.memory +
							  (divided ? p->part_at : p->at) * size,
						    .size = size,
						    .written = true};

		bb_zero_each(z, &array, 1, i, divided, work_block, &begin);
	}
	if (z->reshard > 1)
		bb_zero_acquire(z, BB_HOLD_PARAMETERS,
				z->places.whole / (uint64_t)z->reshard * size, false, &z->second);
	bb_zero_note(z, BB_ZERO_MODEL, 0);
	if (z->has_peers && (z->stage > 0 || z->compressed))
		bb_zero_acquire(z, BB_HOLD_COMMUNICATION, sizeof(int32_t), false, &z->flag);
	bb_zero_note(z, BB_ZERO_WRAPPED, 0);
	bb_zero_write_step(z);
	if (bb_zero_has_master(z))
		each_part(z, PARAMETERS | MASTER,
			  (struct bb_zero_work){.action = BB_ZERO_MOVE, .how = BB_ZERO_TO_FP32});
	first = z->ledger.peak;
	/* The program of the second step: only then no array of the optimizer has memory that the
	   step released before. */
	bb_zero_write_step(z);
	if (steps == 1)
		z->ledger.peak = first;
	BB_TRY(status, z->status, out);
	if (before)
		continue_from(z, before);
	status = bb_taped_end(&z->variant.taped, "a step", &run->error);
out:
	return status;
}

void bb_zero_rank_close(struct bb_variant *variant)
{
	struct bb_zero_rank *z = (struct bb_zero_rank *)variant;

	bb_taped_free(&z->variant.taped);
	bb_ledger_close(&z->ledger);
	bb_zero_places_free(&z->places);
	free(z->works);
	free(z->moments);
	free(z->live);
	free(z->exchanges);
	z->live = NULL;
	z->exchanges = NULL;
	z->works = NULL;
	z->moments = NULL;
}
