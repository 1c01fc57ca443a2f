/*
 * quantised.c - quantised all-reduces: the mean of all ranks' fp32 arrays by an exchange of codes
 * (kernel/coded.h), beside the plain all-reduce.
 */
#include "training_kernels/quantised/quantised.h"

#include "core/units.h"
#include "topology/systems.h"
#include "training_kernels/kernel/kernel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

#define BB_QUANTISED_OPTIONS(OPTION, COMMON)                                                       \
	OPTION(CHOICES, codings, "coding", 0, "int8,int4,fp8-e4m3,mxfp8-e4m3,sign",                \
	       "codings of the numbers (see --list)", .choice = coding_name, .section = "Codes",   \
	       .usual = true)                                                                      \
	OPTION(CHOICES, schemes, "scheme", 0, "alltoall", "schemes of the exchange (see --list)",  \
	       .choice = scheme_name, .usual = true)                                               \
	OPTION(INT, block, "block", 0, NULL,                                                       \
	       "numbers that share a scale, a multiple of 8; 0: one scale for each message, or "   \
	       "for the array (default: that of the coding)",                                      \
	       .min = 0, .max = 1 << 20, .usual = true)                                            \
	OPTION(CHOICE, feedback, "error-feedback", 0, "off",                                       \
	       "on: each code carries the error of the step before, as in 1-bit Adam",             \
	       .choices = feedback_names, .usual = true)                                           \
	OPTION(INT, node_ranks, "node-ranks", 0, NULL,                                             \
	       "two-hops: ranks of a node (default: as they are placed)", .min = 2,                \
	       .max = BB_CLUSTER_MOST_RANKS, .needs = {{"scheme=two-hops"}})                       \
	OPTION(DTYPE, dtype, "datatype", 'd', "float", "datatype of the plain all-reduce",         \
	       .choices = dtypes, .section = "Comparison")                                         \
	OPTION(LINK, memory_rate, "memory-rate", 0, NULL,                                          \
	       "rate at which coding reads and writes memory, for the model and on sim "           \
	       "(default: that of the GPUs of --cluster)",                                         \
	       .argument = "RATE")                                                                 \
	COMMON("iters", 'n', "10", "timed steps of each kind, over all rounds", .min = 1,          \
	       .max = 1000000, .usual = true)

struct bb_quantised_options {
	BB_OPTION_MEMBERS(BB_QUANTISED_OPTIONS)
};

static const char *const dtypes[] = {"float", "half", "bfloat16", NULL};
static const char *const feedback_names[] = {"off", "on", NULL};

static const char *coding_name(int index)
{
	return bb_codings[index].name;
}

static const char *scheme_name(int index)
{
	return bb_coded_schemes[index].name;
}

#define BB_OPTIONS struct bb_quantised_options
static const struct bb_option quantised_rows[] = BB_OPTION_ROWS(BB_QUANTISED_OPTIONS);

static bb_status quantised_check(const struct bb_benchmark *benchmark, void *own,
				 struct bb_options *o, const struct bb_environment *environment,
				 struct bb_error *error)
{
	struct bb_quantised_options *a = own;
	const struct bb_system *system = o->cluster ? bb_system_find(o->cluster->node->name) : NULL;
	const struct bb_system_gpu *gpu = system ? system->gpu : NULL;

	if (a->block % 8)
		return bb_fail(error, BB_EUSAGE,
			       "--block %jd: codes of a block fill whole bytes; give a multiple "
			       "of 8, or 0",
			       a->block);
	if (o->min_bytes < sizeof(float))
		return bb_fail(error, BB_EUSAGE, "-b %ju: an fp32 number has 4 bytes; give more",
			       o->min_bytes);
	if (!a->memory_rate_given)
		a->memory_rate.rate = gpu && gpu->memory_GBps ? 1e9 * gpu->memory_GBps : INFINITY;
	if (isinf(a->memory_rate.rate) && o->backend->virtual)
		return bb_fail(error, BB_EUSAGE,
			       "--memory-rate: missing; on sim coding takes its bytes at this "
			       "rate, such as 2TB/s, which is not known of these ranks");
	if (!o->cluster)
		bb_estimate_set_ranks(o, environment, 4);
	return BB_OK;
}

/* ---- the record ------------------------------------------------------------------------------ */

#define BB_QUANTISED_FIELDS(FIELD)                                                                 \
	FIELD(INT, size_bytes, "bytes", "fp32 array of a rank", BB_COLUMN("size", 12, 0), BB_KEY)  \
	FIELD(STRING, coding, "", "coding of the numbers", BB_COLUMN("coding", -12, 0), BB_KEY)    \
	FIELD(STRING, scheme, "", "scheme of the exchange", BB_COLUMN("scheme", -9, 0), BB_KEY)    \
	FIELD(INT, block, "", "numbers that share a scale; 0: all of a message or array")          \
	FIELD(STRING, feedback, "", "on: codes carry the error of the step before")                \
	FIELD(INT, nranks, "", "number of ranks")                                                  \
	FIELD(INT, node_ranks, "", "ranks of a node, for two-hops")                                \
	FIELD(INT, padded, "", "numbers with the zeros behind them")                               \
	FIELD(INT, sent_bytes, "bytes", "sent by a rank in a step: codes and scales, counted",     \
	      BB_COLUMN("sent", 9, 3), BB_MB)                                                      \
	FIELD(INT, formula_bytes, "bytes", "the same by the formula of the scheme",                \
	      BB_COLUMN("formula", 9, 3), BB_MB)                                                   \
	FIELD(STRING, dtype, "", "datatype of the plain all-reduce")                               \
	FIELD(DOUBLE, plain_bytes, "bytes", "sent by a rank in it: 2 (n - 1) / n of its array")    \
	FIELD(DOUBLE, plain_us, "us", "plain all-reduce: median", BB_COLUMN("plain", 10, 2))       \
	FIELD(DOUBLE, coded_us, "us", "quantised all-reduce, until the last rank ends: median",    \
	      BB_COLUMN("coded", 10, 2))                                                           \
	BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(INT, samples, "", "number of timed steps")                                           \
	FIELD(DOUBLE, coding_us, "us", "coding, decoding and sums alone: median",                  \
	      BB_COLUMN("coding", 10, 2))                                                          \
	FIELD(DOUBLE, exchange_us, "us", "exchange of codes alone: median",                        \
	      BB_COLUMN("exchange", 10, 2))                                                        \
	FIELD(DOUBLE, speedup, "", "plain_us / coded_us", BB_COLUMN("speedup", 7, 3), BB_TIMES)    \
	FIELD(DOUBLE, busbw_GBps, "GB/s",                                                          \
	      "bus bandwidth of an fp32 all-reduce that takes coded_us", BB_COLUMN("busbw", 8, 3)) \
	FIELD(DOUBLE, plain_GBps, "GB/s",                                                          \
	      "bus bandwidth of the plain all-reduce, plain_bytes / plain_us",                     \
	      BB_COLUMN("plain busbw", 8, 3))                                                      \
	FIELD(DOUBLE, break_even_GBps, "GB/s",                                                     \
	      "bus bandwidth of the plain all-reduce below which codes pay, plain_GBps (plain_us " \
	      "- exchange_us) / (coded_us - exchange_us); null: a difference is not positive",     \
	      BB_COLUMN("pays below", 10, 3))                                                      \
	FIELD(DOUBLE, model_break_even_GBps, "GB/s",                                               \
	      "bytes saved / time of coding, which reads and writes each number and code once at " \
	      "--memory-rate, else takes coding_us; null: no bytes are saved",                     \
	      BB_COLUMN("model", 8, 3))                                                            \
	FIELD(DOUBLE, rms_error, "",                                                               \
	      "root mean square of the differences from the exact sum of numbers of variance 1",   \
	      BB_COLUMN("rms error", 9, 5), .head_unit = "(sum)")                                  \
	FIELD(DOUBLE, max_error, "", "largest difference", BB_COLUMN("max error", 9, 5),           \
	      .head_unit = "(sum)")                                                                \
	FIELD(DOUBLE, balance_error, "",                                                           \
	      "largest difference between the mean of the inputs and result + errors of all "      \
	      "codes, which are equal but for rounding",                                           \
	      BB_COLUMN("balance", 8, 1), .head_unit = "(1e-9)", .scale = 1e9)                     \
	BB_WRONG_FIELD(FIELD, 0,                                                                   \
		       "numbers of results and error memories whose bits differ from those of "    \
		       "one thread, or that are out of balance; null: not verified")               \
	BB_END_FIELD(FIELD)

struct bb_quantised_record {
	BB_QUANTISED_FIELDS(BB_MEMBER)
};

static void quantised_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_quantised_record *r = record;

	bb_strbuf_addf(out,
		       "# Mean of fp32 arrays of %jd ranks by codes, error feedback %s; plain: "
		       "all-reduce of %s\n",
		       r->nranks, r->feedback, r->dtype);
}

#define BB_RECORD bb_quantised_record
BB_RECORD_KIND(bb_record_quantised, BB_QUANTISED_FIELDS, "quantised",
	       "A quantised all-reduce: one array by one coding and scheme.",
	       .about = quantised_about);

/* ---- what a step must compute ---------------------------------------------------------------- */

/*
 * TO = N numbers from FIRST on of the padded array of RANK, sums of four uniform ones with variance
 * 1; or of its ERRORS of the step before, which are smaller by 2 to the bits of a code.
 */
static void quantised_draw(const struct bb_coded_form *f, uint64_t seed, int rank, bool errors,
			   size_t first, size_t n, float *to)
{
	const float scale = ldexpf(sqrtf(3) / 0x1p16f, errors ? -(int)f->coding->bits : 0);
	const size_t at = errors ? bb_coded_padded(f) + first : first;

	seed += (uint64_t)rank * BB_RANDOM_STEP;
	for (size_t i = 0; i < n; i++) {
		const uint64_t word = bb_random_at(seed, at + i);
		const int32_t sum = (int32_t)((word & 0xffff) + (word >> 16 & 0xffff) +
					      (word >> 32 & 0xffff) + (word >> 48));

		to[i] = errors || first + i < f->count ? (float)(sum - 2 * 0xffff) * scale : 0;
	}
}

/* What a step makes of them, computed by one thread without the code of the exchange. Arrays of the
   padded numbers: */
struct reference {
	const struct bb_coded *coded; /* the exchange of a rank, whose errors are kept */
	uint64_t seed;
	double *exact;       /* mean of the inputs */
	double *kept;        /* new errors - old errors of all codes of a number, as in its mean */
	float *mean;         /* the sum, and then the result */
	float *array, *node; /* of a rank; sum of those of a node */
	float *x, *old, *back; /* temporary */
	float *errors;         /* of the rank: its new errors */
	char *codes;
};

/* The bytes of all arrays, which are placed in MEMORY unless that is NULL. */
static size_t reference_lay_out(struct reference *ref, const struct bb_coded *c, char *memory)
{
	const size_t n = bb_coded_padded(c->form);

	ref->coded = c;
	if (memory) {
		ref->exact = (double *)(void *)memory;
		ref->kept = ref->exact + n;
		ref->mean = (float *)(ref->kept + n);
		ref->array = ref->mean + n;
		ref->node = ref->array + n;
		ref->x = ref->node + n;
		ref->old = ref->x + n;
		ref->back = ref->old + n;
		ref->errors = ref->back + n;
		ref->codes = (char *)(ref->errors + c->errors);
	}
	return n * (2 * sizeof(double) + 6 * sizeof(float)) + c->errors * sizeof(float) +
	       (size_t)c->form->nranks * bb_coded_chunk_bytes(c->form);
}

/* Add N numbers of RANK from FIRST on to TO, an array. */
static void reference_load(struct reference *ref, int rank, size_t first, size_t n, float *to)
{
	const struct bb_coded_form *const f = ref->coded->form;

	quantised_draw(f, ref->seed, rank, false, first, n, ref->x);
	for (size_t i = 0; i < n; i++) {
		to[first + i] += ref->x[i];
		ref->exact[first + i] += (double)ref->x[i] / f->nranks;
	}
}

/*
 * CHUNKS of NUMBERS, FIRST and then each STRIDE further, are replaced by what RANK's codes of them
 * and its old errors, which begin at ERRORS, decode to. The mean has SHARE of them.
 */
static void reference_code(struct reference *ref, float *numbers, int rank, size_t chunks,
			   size_t first, size_t stride, size_t errors, double share)
{
	const struct bb_coded_form *const f = ref->coded->form;
	const size_t chunk = bb_coded_chunk(f), n = chunks * chunk, unit = f->block ? chunk : n;

	memset(ref->old, 0, n * sizeof(*ref->old));
	if (f->feedback)
		quantised_draw(f, ref->seed, rank, true, errors, n, ref->old);
	for (size_t i = 0; i < n; i++)
		ref->x[i] = ref->old[i] + numbers[(first + i / chunk * stride) * chunk + i % chunk];
	for (size_t i = 0; i < n; i += unit) {
		bb_coding_encode(f->coding, f->block, ref->x + i, unit, ref->codes);
		bb_coding_decode(f->coding, f->block, ref->codes, unit, ref->back + i);
	}
	for (size_t i = 0; i < n; i++) {
		const size_t at = (first + i / chunk * stride) * chunk + i % chunk;
		const float now = ref->x[i] - ref->back[i];

		numbers[at] = ref->back[i];
		ref->kept[at] += share * ((double)now - (double)ref->old[i]);
		if (f->feedback && rank == ref->coded->rank)
			ref->errors[errors + i] = now;
	}
}

static void reference_compute(struct reference *ref)
{
	const struct bb_coded_form *const f = ref->coded->form;
	const enum bb_coded_kind kind = f->scheme->kind;
	const size_t padded = bb_coded_padded(f), chunk = bb_coded_chunk(f);
	const int n = f->nranks, local = kind == BB_CODED_TWO_HOPS ? f->local : n;

	memset(ref->exact, 0, padded * sizeof(double));
	memset(ref->kept, 0, padded * sizeof(double));
	memset(ref->mean, 0, padded * sizeof(float));
	/* A ring's chunk goes from rank to rank until it gets to its own. */
	for (int hop = 0; hop < n && kind == BB_CODED_RING; hop++)
		for (int c = 0; c < n; c++) {
			if (hop > 0)
				reference_code(ref, ref->mean, (c + hop) % n, 1, (size_t)c, 1,
					       (size_t)(hop - 1) * chunk, 1.0 / n);
			reference_load(ref, (c + hop + 1) % n, (size_t)c * chunk, chunk, ref->mean);
		}
	/* Else ranks code their whole arrays, and those of a node its sums. */
	for (int rank = 0; rank < n && kind != BB_CODED_RING; rank++) {
		if (rank % local == 0)
			memset(ref->node, 0, padded * sizeof(float));
		memset(ref->array, 0, padded * sizeof(float));
		reference_load(ref, rank, 0, padded, ref->array);
		reference_code(ref, ref->array, rank, padded / chunk, 0, 1, 0, 1.0 / n);
		for (size_t i = 0; i < padded; i++)
			ref->node[i] += ref->array[i];
		if (rank % local != local - 1)
			continue;
		for (int place = 0; place < local && kind == BB_CODED_TWO_HOPS; place++)
			reference_code(ref, ref->node, rank - local + 1 + place,
				       (size_t)(n / local), (size_t)place, (size_t)local, padded,
				       1.0 / n);
		for (size_t i = 0; i < padded; i++)
			ref->mean[i] += ref->node[i];
	}
	for (size_t i = 0; i < padded; i++)
		ref->mean[i] /= (float)n;
	for (int c = 0; c < n && kind != BB_CODED_ALLGATHER; c++)
		reference_code(ref, ref->mean, c, 1, (size_t)c, 1,
			       f->feedback ? ref->coded->errors - chunk : 0, 1);
}

/* ---- steps as programs ----------------------------------------------------------------------- */

enum part { WHOLE, CODING, EXCHANGE, PLAIN, PARTS };
enum work { CODES, BYTES };

/* Memory that all settings share: numbers, their errors, what a step makes of them, a reference. */
enum place { X, ERROR, REST, REFERENCE, PLACES };

struct quantised_state {
	struct bb_kernel kernel; /* its variants are PARTS of each setting */
	const struct bb_quantised_options *options;
	struct bb_coded_form *forms; /* [setting], by size, coding, scheme */
	char *places[PLACES];        /* NULL: virtual; REFERENCE: nothing is verified */
	bool computes;               /* numbers are really coded */
};

struct quantised_variant {
	struct bb_variant variant;
	struct bb_coded coded;
	double sent;
	double rms, most, balance; /* errors of the verified step; NAN: not verified */
};

static size_t quantised_first(const struct bb_kernel *k, size_t setting, int part)
{
	const struct bb_quantised_options *a = ((const struct quantised_state *)k)->options;

	return part == PLAIN ? setting - setting % (a->schemes.n * a->codings.n) : setting;
}

static int quantised_group_size(const struct bb_program *program, int group)
{
	return bb_coded_group_size(((const struct bb_taped *)program->own)->own, group);
}

static int quantised_member(const struct bb_program *program, int group, int i)
{
	return bb_coded_member(((const struct bb_taped *)program->own)->own, group, i);
}

static bb_status quantised_opened(void *own, struct bb_runner *runner)
{
	struct quantised_variant *v = own;
	struct bb_sent sent;
	const bb_status status =
		bb_runner_count(runner, v->variant.kernel->engine.driver->rank, BYTES, &sent);

	v->sent = status == BB_OK ? sent.bytes : NAN;
	return status;
}

static void quantised_compute(void *own, int rank, const struct bb_operation *o)
{
	bb_coded_compute(&((const struct quantised_variant *)own)->coded, o->item);
}

static void quantised_buffers(void *own, int rank, const struct bb_operation *o, void **in,
			      void **out)
{
	const struct quantised_variant *v = own;

	*in = v->variant.part == PLAIN ? (void *)v->coded.x : v->coded.sent;
	*out = v->variant.part == PLAIN ? (void *)v->coded.result : v->coded.comes;
}

/* ---- data ------------------------------------------------------------------------------------ */

static bb_status quantised_fill(void *own)
{
	const struct quantised_variant *v = own;
	const struct bb_coded *c = &v->coded;
	const uint64_t seed = (uint64_t)v->variant.kernel->engine.options->seed;
	const size_t padded = bb_coded_padded(c->form);

	quantised_draw(c->form, seed, c->rank, false, 0, padded, c->x);
	quantised_draw(c->form, seed, c->rank, true, 0, c->errors, c->error);
	memset(c->result, 0xff, padded * sizeof(float));
	return BB_OK;
}

static int quantised_victims(void *own, void *victims[BB_MOST_VICTIMS])
{
	const struct bb_coded *c = &((const struct quantised_variant *)own)->coded;

	victims[0] = c->result;
	victims[1] = c->error;
	return c->error ? 2 : 1;
}

/* Rounding of numbers of variance 1: a unit in the last place of a few of them. */
#define MOST_BALANCE 1e-5

static bb_status quantised_verify(void *own, uint64_t *wrong)
{
	struct quantised_variant *v = own;
	const struct quantised_state *s = (const struct quantised_state *)v->variant.kernel;
	const struct bb_coded *c = &v->coded;
	const size_t count = c->form->count;
	struct reference ref = {.seed = (uint64_t)s->kernel.engine.options->seed};

	(void)reference_lay_out(&ref, c, s->places[REFERENCE]);
	reference_compute(&ref);
	for (size_t i = 0; i < bb_coded_padded(c->form); i++)
		*wrong += memcmp(&c->result[i], &ref.mean[i], sizeof(float)) != 0;
	for (size_t i = 0; i < c->errors; i++)
		*wrong += memcmp(&c->error[i], &ref.errors[i], sizeof(float)) != 0;
	v->rms = v->most = v->balance = 0;
	for (size_t i = 0; i < count; i++) {
		const double off = c->form->nranks * ((double)c->result[i] - ref.exact[i]);
		const double balance = fabs((double)ref.mean[i] + ref.kept[i] - ref.exact[i]);

		v->rms += off * off / (double)count;
		v->most = fmax(v->most, fabs(off));
		v->balance = fmax(v->balance, balance);
		*wrong += !(balance < MOST_BALANCE);
	}
	v->rms = sqrt(v->rms);
	return BB_OK;
}

static const struct bb_expectation quantised_expectation = {quantised_fill, quantised_victims,
							    quantised_verify};

/* ---- the experiment -------------------------------------------------------------------------- */

static bb_status quantised_write(struct bb_variant *variant, struct bb_trial *trial,
				 const char **refusal)
{
	static const char *const names[] = {"", "coding alone of ", "exchange alone of ",
					    "plain all-reduce beside "};
	struct quantised_variant *v = (struct quantised_variant *)variant;
	const struct quantised_state *s = (const struct quantised_state *)variant->kernel;
	const struct bb_coded_form *f = &s->forms[variant->setting];
	struct bb_taped *taped = &variant->taped;
	struct bb_error *error = &s->kernel.engine.run->error;
	size_t kept = 0;
	char size[BB_UNIT_TEXT];

	v->rms = v->most = v->balance = v->sent = NAN;
	(void)bb_coded_lay_out(&v->coded, f, s->kernel.engine.driver->rank, s->places[REST]);
	v->coded.x = (float *)(void *)s->places[X];
	v->coded.error = f->feedback ? (float *)(void *)s->places[ERROR] : NULL;
	if (s->computes && variant->part == WHOLE)
		(void)quantised_fill(v);
	if (variant->part != PLAIN) {
		*refusal = bb_coded_refuses(f);
		/* A scheme is skipped for all codings and sizes, and reported once. */
		if (*refusal && variant->setting < s->options->schemes.n)
			variant->subject = f->scheme->name;
		trial->opened = quantised_opened;
		trial->workload.compute = s->computes ? quantised_compute : NULL;
		trial->expects = variant->part == WHOLE ? &quantised_expectation : NULL;
	}
	trial->workload.buffers = s->places[X] ? quantised_buffers : NULL;
	snprintf(trial->what, sizeof(trial->what), "%s%s by %s, %s", names[variant->part],
		 f->coding->name, f->scheme->name, bb_format_size(size, f->count * sizeof(float)));
	if (*refusal)
		return BB_OK;
	const bb_status status = bb_taped_begin(taped, f->nranks, 1, 1, error);
	struct bb_tape *tape = taped->tapes;
	if (status != BB_OK)
		return status;
	taped->program.queues = taped->program.groups = 1;
	if (variant->part == PLAIN) {
		bb_tape_collective(tape, 0, BYTES, 0, &bb_all_reduce, f->count, s->options->dtype,
				   BB_SUM)
			->in_place = false;
	} else {
		taped->own = f;
		taped->complete = bb_coded_complete;
		taped->program.groups = bb_coded_groups(f);
		taped->program.group_size = quantised_group_size;
		taped->program.member = quantised_member;
		bb_coded_write(f, tape, 0, CODES, BYTES, 0, s->options->memory_rate.rate);
	}
	for (size_t i = 0; i < tape->n; i++) {
		const struct bb_operation o = tape->list[i];

		tape->list[kept] = o;
		kept += variant->part == WHOLE || (variant->part == CODING) == (o.work == CODES);
	}
	tape->n = kept;
	return bb_taped_end(taped, "an all-reduce", error);
}

static bb_status quantised_open(struct bb_engine *e)
{
	struct quantised_state *s = (struct quantised_state *)e;
	const struct bb_quantised_options *a = s->options = e->run->own;
	const struct bb_options *o = e->options;
	const size_t schemes = a->schemes.n, each = a->codings.n * schemes;
	const struct bb_rank_info *infos = e->run->infos;
	const int nranks = e->run->world.nranks;
	size_t sizes = 0, needs[PLACES] = {0};
	int local = 1;
	char text[BB_UNIT_TEXT];
	bb_status status = BB_OK;

	if (e->backend->gpu)
		return bb_fail(&e->run->error, BB_EUNSUPPORTED,
			       "the CPU codes the numbers, and cannot access the memory of GPUs; "
			       "give --backend host or mpi");
	while (local < nranks && infos[local].node == infos[0].node)
		local++;
	for (int i = 1; i < nranks; i++) /* all nodes are like the first, or there are none */
		if ((infos[i].node == infos[i - 1].node) != (i % local != 0))
			local = 1;
	if (a->node_ranks_given || o->cluster)
		local = a->node_ranks_given ? (int)a->node_ranks : o->cluster->gpus;
	for (uint64_t size = o->min_bytes; size; size = bb_options_next_size(o, size))
		sizes++;
	s->forms = bb_kernel_keep(&s->kernel, sizes * each, sizeof(*s->forms));
	if (!s->forms)
		return BB_EINTERNAL;
	struct bb_coded_form *f = s->forms;
	for (uint64_t size = o->min_bytes; size; size = bb_options_next_size(o, size))
		for (size_t i = 0; i < each; i++, f++) {
			const struct bb_coding *coding = &bb_codings[a->codings.list[i / schemes]];
			struct reference ref;
			struct bb_coded c;

			*f = (struct bb_coded_form){
				.scheme = &bb_coded_schemes[a->schemes.list[i % schemes]],
				.coding = coding,
				.block = a->block_given ? (size_t)a->block : coding->block,
				.count = size / sizeof(float),
				.nranks = nranks,
				.local = local,
				.feedback = a->feedback,
			};
			const size_t rest = bb_coded_lay_out(&c, f, 0, NULL);
			const size_t need[] = {
				bb_coded_padded(f) * sizeof(float), c.errors * sizeof(float), rest,
				bb_engine_checks(e) ? reference_lay_out(&ref, &c, NULL) : 0};
			for (int p = 0; p < PLACES; p++)
				needs[p] = need[p] > needs[p] ? need[p] : needs[p];
		}
	BB_TRY(status,
	       bb_estimate_room(e->run, needs[X] + needs[ERROR] + needs[REST] + needs[REFERENCE],
				"-e", bb_format_size(text, o->max_bytes),
				"arrays, codes and a reference", "less"),
	       out);
	for (int p = 0; p < REFERENCE; p++)
		BB_TRY(status, bb_engine_alloc(e, needs[p], (void **)&s->places[p]), out);
	s->computes = s->places[X] && e->backend->has_data;
	if (bb_engine_checks(e)) {
		s->places[REFERENCE] = bb_kernel_keep(&s->kernel, 1, needs[REFERENCE]);
		if (!s->places[REFERENCE])
			return BB_EINTERNAL;
	}
	s->kernel.first = quantised_first;
	status = bb_kernel_sweep(&s->kernel, sizes * each, PARTS, sizeof(struct quantised_variant),
				 quantised_write);
out:
	return status;
}

static void quantised_describe(const struct bb_kernel *k, size_t setting, void *record)
{
	const struct bb_quantised_options *a = ((const struct quantised_state *)k)->options;
	const struct quantised_variant *v =
		(const struct quantised_variant *)bb_kernel_variant(k, setting, WHOLE);
	const struct bb_coded_form *f = v->coded.form;
	const struct bb_tape *tape = v->variant.taped.tapes;
	struct bb_quantised_record *r = record;
	const double n = f->nranks, bus = 2 * (n - 1) / n;
	double coding_s = 0, formula = 0;

	for (int i = 0; i < bb_coded_phases(f); i++)
		formula += (double)bb_coded_sent(f, i);
	for (size_t i = 0; i < tape->n; i++)
		coding_s += tape->list[i].seconds;
	r->size_bytes = (int64_t)(f->count * sizeof(float));
	r->coding = f->coding->name;
	r->scheme = f->scheme->name;
	r->block = (int64_t)f->block;
	r->feedback = feedback_names[f->feedback];
	r->nranks = f->nranks;
	r->node_ranks = f->scheme->kind == BB_CODED_TWO_HOPS ? f->local : BB_ABSENT;
	r->padded = (int64_t)bb_coded_padded(f);
	r->sent_bytes = (int64_t)v->sent;
	r->formula_bytes = (int64_t)formula;
	r->dtype = bb_dtype_name(a->dtype);
	r->plain_bytes = bus * (double)(f->count * bb_dtype_size(a->dtype));
	r->plain_us = 1e6 * bb_kernel_median(k, setting, PLAIN);
	BB_TIMES_SET(r, coded_us, bb_kernel_trial(k, setting, WHOLE), 1);
	r->coding_us = 1e6 * bb_kernel_median(k, setting, CODING);
	r->exchange_us = 1e6 * bb_kernel_median(k, setting, EXCHANGE);
	if (r->coded_us > 0 && r->plain_us > 0) {
		r->speedup = r->plain_us / r->coded_us;
		r->busbw_GBps = 1e-3 * bus * (double)r->size_bytes / r->coded_us;
		r->plain_GBps = 1e-3 * r->plain_bytes / r->plain_us;
	}
	/* Above plain_GBps exactly if the speedup is above 1. */
	if (r->plain_us > r->exchange_us && r->coded_us > r->exchange_us)
		r->break_even_GBps = r->plain_GBps * (r->plain_us - r->exchange_us) /
				     (r->coded_us - r->exchange_us);
	if (r->plain_bytes > v->sent && r->coding_us > 0)
		r->model_break_even_GBps = 1e-9 * (r->plain_bytes - v->sent) /
					   (coding_s > 0 ? coding_s : 1e-6 * r->coding_us);
	r->rms_error = v->rms;
	r->max_error = v->most;
	r->balance_error = v->balance;
	r->wrong = bb_kernel_trial(k, setting, WHOLE)->wrong;
}

/* The answer is the best at the largest size, and the bus bandwidth below which codes pay. */
static bb_status quantised_deliver(struct bb_engine *engine)
{
	struct bb_kernel *k = (struct bb_kernel *)engine;
	const struct bb_quantised_options *a = ((const struct quantised_state *)k)->options;
	const struct bb_quantised_record *best = NULL;
	char subject[BB_CANDIDATE_TEXT], text[BB_UNIT_TEXT];
	struct bb_best all = {.choice = {.subject = subject,
					 .noise = bb_estimate_noise(engine->run),
					 .unit = " per step"}};
	struct bb_strbuf answer = {0};
	const bb_status status = bb_kernel_deliver(k, &bb_record_quantised, quantised_describe);

	if (status != BB_OK)
		return status;
	for (size_t i = k->settings - a->codings.n * a->schemes.n; i < k->settings; i++) {
		const struct bb_quantised_record *r = bb_kernel_variant(k, i, WHOLE)->record;

		if (!r)
			continue;
		bb_best_add(&all, bb_best_steps(bb_kernel_trial(k, i, WHOLE), 1, NULL), "%s by %s",
			    r->coding, r->scheme);
		best = !best || r->coded_us < best->coded_us ? r : best;
	}
	if (!best)
		return BB_OK;
	bb_best_add(&all, bb_best_steps(bb_kernel_trial(k, k->settings - 1, PLAIN), 1, NULL),
		    "plain all-reduce of %s", best->dtype);
	snprintf(subject, sizeof(subject), "all-reduce of %s",
		 bb_format_size(text, (uint64_t)best->size_bytes));
	bb_best_recommend(&all, &answer);
	if (!isnan(best->break_even_GBps))
		bb_strbuf_addf(&answer,
			       "# %s by %s pays where the plain all-reduce runs below %.4g GB/s of "
			       "bus bandwidth; here it runs at %.4g GB/s\n",
			       best->coding, best->scheme, best->break_even_GBps, best->plain_GBps);
	else if (best->plain_us <= best->exchange_us)
		bb_strbuf_addf(&answer, "# %s by %s never pays: its exchange alone takes %s\n",
			       best->coding, best->scheme,
			       bb_format_duration(text, 1e-6 * best->exchange_us));
	return bb_engine_answer(engine, &answer);
}

static const struct bb_experiment quantised_experiment = {
	.bytes = sizeof(struct quantised_state),
	.open = quantised_open,
	.deliver = quantised_deliver,
	.close = bb_kernel_close,
};

/* ---- the benchmark --------------------------------------------------------------------------- */

static void quantised_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "codings (--coding):\n");
	for (const struct bb_coding *c = bb_codings; c->name; c++)
		bb_strbuf_addf(out, "    %-12s %u bit%s, blocks of %zu; %s\n", c->name, c->bits,
			       bb_plural(c->bits), c->block, c->brief);
	bb_strbuf_add(out, "schemes (--scheme):\n");
	for (const struct bb_coded_scheme *s = bb_coded_schemes; s->name; s++)
		bb_strbuf_addf(out, "    %-12s %s\n", s->name, s->brief);
}

static void quantised_add_notes(struct bb_run *run, struct bb_strbuf *out)
{
	bb_strbuf_add(
		out,
		"# sent, formula: bytes of a rank. coded: whole step; coding, exchange: its "
		"parts alone\n"
		"# pays below: plain busbw at which both take equally long, as measured; model: by "
		"bytes saved and coding time\n");
}

const struct bb_benchmark bb_quantised_benchmark = {
	.brief = "Quantised all-reduces: codes of fewer bits are exchanged, with their cost, error "
		 "and break-even bus bandwidth.",
	.examples = {"-g 4 -b 1M -e 64M -f 4 --coding int8,sign --error-feedback on",
		     "--backend sim --cluster hgx-h100:16 --scheme alltoall,two-hops"},
	.own_bytes = sizeof(struct bb_quantised_options),
	.options = quantised_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.queues = true,
	.check = quantised_check,
	.list = quantised_list,
	.text = &bb_sink_table,
	.rows = &bb_record_quantised,
	.experiment = &quantised_experiment,
	.tell = quantised_add_notes,
};
