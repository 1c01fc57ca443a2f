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
			const struct bb_zero_rows *rows = &units->rows[i];
			const uint64_t each = bb_partition(rows->rows, ranks);
			const uint64_t skip = r * each < rows->rows ? r * each : rows->rows;
			const uint64_t left = rows->rows - skip;

			for (int a = 0; a < narrays; a++) {
				part[a] = arrays[a];
				part[a].at += at * part[a].size;
			}
			each_block(z, part, narrays, rows->first + skip * rows->width,
				   (left < each ? left : each) * rows->width, work, own);
			at += each * rows->width;
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
	float *const wide = z->blocks[5], *const other = z->blocks[6];
	float *master;

	switch (w->action) {
	case BB_ZERO_BEGIN: /* parameters */
		bb_zero_initial(dtype, first, n, seen[0]);
		break;
	case BB_ZERO_WIDEN: /* parameters, master copy */
		bb_adam_widen(dtype, seen[0], seen[1], n);
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
	case BB_ZERO_ADD:  /* gradients, those that are added */
	case BB_ZERO_COPY: /* that replace them */
		bb_adam_widen(dtype, seen[0], wide, n);
		bb_adam_widen(w->factor > 0 ? BB_FLOAT : dtype, seen[1], other, n);
		for (size_t i = 0; i < n; i++)
			wide[i] = (w->action == BB_ZERO_ADD ? wide[i] : 0) +
				  other[i] * (w->factor > 0 ? w->factor : 1);
		bb_adam_narrow(dtype, wide, seen[0], n);
		break;
	case BB_ZERO_INSPECT: /* gradients */
		z->overflowed |= bb_adam_overflowed(dtype, seen[0], n);
		break;
	case BB_ZERO_UPDATE: /* gradients, parameters, moments, master copy */
		master = bb_zero_has_master(z) ? seen[4] : other;
		bb_adam_widen(dtype, seen[0], wide, n);
		if (!bb_zero_has_master(z))
			bb_adam_widen(dtype, seen[1], master, n);
		if (z->zero->config.onebit.kind == BB_ONEBIT_NONE)
			bb_adam_step_by(z->zero->data.rate, z->taken, unscale, wide, master,
					seen[2], seen[3], n);
		else
			bb_zero_onebit(&z->zero->config.onebit, unscale,
				       z->compressed ? NULL : wide, master, seen[2], seen[3], n);
		if (z->zero->data.bare)
			z->unchanged +=
				bb_zero_round(&z->zero->data, z->taken, first, n, master, seen[1]);
		else
			bb_adam_narrow(dtype, master, seen[1], n);
		break;
	case BB_ZERO_GIVE:
	case BB_ZERO_SIGN:
	case BB_ZERO_GET:
	case BB_ZERO_CALL:
	case BB_ZERO_CODE:
		break;
	}
}

/* Arrays of this rank's part of a unit, as bits. */
enum { GRADIENTS = 1, PARAMETERS = 2, MOMENTS = 4 + 8, MASTER = 16 };

/* ACTION on all blocks of this rank's parts of all units, in the arrays WHICH, in the order of the
   bits. */
static void each_part(struct bb_zero_rank *z, unsigned which, enum bb_zero_action action)
{
	struct bb_zero_work work = {.action = action};
	const size_t size = bb_zero_size(z), wide = sizeof(float);
	const bool host = z->zero->options.offload;
	const struct bb_zero_array all[BB_ZERO_ARRAYS] = {
		{z->gradients.memory, size, false, false},
		{z->parameters.memory, size, false, action == BB_ZERO_UPDATE},
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

static void zero_compute(void *own, int rank, const struct bb_operation *o)
{
	struct bb_zero_rank *z = own;
	struct bb_zero_work *w = &z->works[o->item], clear = {.action = BB_ZERO_CLEAR};
	const size_t size = bb_zero_size(z);
	struct bb_zero_array from = {.at = w->from, .size = size};
	struct bb_zero_array to = {.at = w->to, .size = size, .written = true};
	const size_t first = z->zero->units.order[0][0];
	const struct bb_zero_place *p = &z->places.list[w->unit];
	int32_t flag;

	/* In the queue of the collectives: it touches nothing of the others. */
	if (w->action == BB_ZERO_CODE)
		bb_coded_compute(&z->exchanges[w->microbatch], w->count);
	if (w->action == BB_ZERO_CODE || z->status != BB_OK)
		return;
	flag = z->overflowed;
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
		if (z->stage >= 2 && p->padded > z->zero->units.list[w->unit].elements)
			each_block(z, &to, 1, 0, p->padded, work_block, &clear);
		bb_zero_each(z, (struct bb_zero_array[]){from, to}, 2, w->unit, false, work_block,
			     w);
		break;
	case BB_ZERO_WIDEN:
		to.size = sizeof(float);
		each_block(z, (struct bb_zero_array[]){from, to}, 2, 0, w->count, work_block, w);
		break;
	case BB_ZERO_COPY:
		if (w->factor == 0) {
			copy_bytes(z, w->to, w->from, w->count * size);
			break;
		}
		/* fall through */
	case BB_ZERO_ADD:
		from.size = w->factor > 0 ? sizeof(float) : size;
		each_block(z, (struct bb_zero_array[]){to, from}, 2, 0, w->count, work_block, w);
		break;
	case BB_ZERO_INSPECT:
		z->overflowed = false;
		each_part(z, GRADIENTS, BB_ZERO_INSPECT);
		flag = z->overflowed;
		if (z->flag.memory)
			copy_bytes(z, z->flag.memory, &flag, sizeof(flag));
		break;
	case BB_ZERO_UPDATE: /* the flag is that of all ranks by now */
		if (z->flag.memory)
			copy_bytes(z, &flag, z->flag.memory, sizeof(flag));
		z->taken += z->status == BB_OK && !flag;
		z->flushed += flag ? 0 : z->flushing;
		z->flushing = 0;
		if (!flag)
			each_part(z,
				  GRADIENTS | PARAMETERS | MOMENTS |
					  (bb_zero_has_master(z) ? MASTER : 0),
				  BB_ZERO_UPDATE);
		if (z->status == BB_OK)
			bb_zero_scale_update(&z->scale, flag);
		break;
	case BB_ZERO_GIVE:
	case BB_ZERO_SIGN:
	case BB_ZERO_GET:
		if (z->flag.memory)
			copy_bytes(z, &flag, z->flag.memory, sizeof(flag));
		if (!flag)
			bb_zero_compress(z, w);
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

	if (w->action == BB_ZERO_SIGN) {
		*in = w->from;
		*out = w->to;
		return;
	}
	if (w->action == BB_ZERO_CODE) {
		*in = z->exchanges[w->microbatch].sent;
		*out = z->exchanges[w->microbatch].comes;
		return;
	}
	bb_kernel_in_place(o, z->rank % program->group_size(program, o->group), w->to, in, out);
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
	z->reduces_codes = z->stage == 3 && a->qgz_given;
	z->nodes = (struct bb_coded_form){.nranks = n,
					  .local = z->reduces_codes ? (int)a->qgz
						   : z->reshard > 1 ? z->reshard
								    : n};
	for (size_t u = 0; u < z->zero->units.n && (z->gathers_codes || z->reduces_codes); u++)
		for (int i = 0; i < 2; i++)
			z->live[u].forms[i] =
				bb_zero_coded_form(&z->zero->units, u, n, i ? z->nodes.local : 0);
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

bb_status bb_zero_rank_open(struct bb_zero_rank *z, int64_t steps)
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
	if (z->compressed)
		BB_TRY(status,
		       bb_zero_exchange_make(&z->exchange, &zero->units, zero->nranks, &run->error),
		       out);
	if (z->has_peers && (z->stage > 0 || z->compressed))
		bb_zero_acquire(z, BB_HOLD_COMMUNICATION, sizeof(int32_t), false, &z->flag);
	bb_zero_note(z, BB_ZERO_WRAPPED, 0);
	bb_zero_write_step(z);
	if (bb_zero_has_master(z))
		each_part(z, PARAMETERS | MASTER, BB_ZERO_WIDEN);
	first = z->ledger.peak;
	/* The program of the second step: only then no array of the optimizer has memory that the
	   step released before. */
	bb_zero_write_step(z);
	if (steps == 1)
		z->ledger.peak = first;
	status = z->status == BB_OK ? bb_taped_end(&z->variant.taped, "a step", &run->error)
				    : z->status;
out:
	return status;
}

void bb_zero_rank_close(struct bb_variant *variant)
{
	struct bb_zero_rank *z = (struct bb_zero_rank *)variant;

	bb_taped_free(&z->variant.taped);
	bb_ledger_close(&z->ledger);
	bb_zero_places_free(&z->places);
	bb_zero_exchange_free(&z->exchange);
	free(z->works);
	free(z->moments);
	free(z->live);
	free(z->exchanges);
	z->live = NULL;
	z->exchanges = NULL;
	z->works = NULL;
	z->moments = NULL;
}
