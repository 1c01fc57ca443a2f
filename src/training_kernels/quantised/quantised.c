#include "training_kernels/quantised/quantised.h"

#include "core/units.h"
#include "topology/systems.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

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

/* The state of the benchmark. */
struct quantised {
	struct bb_quantised_options options; /* first: the rows are read into it */
	size_t nsizes;
};

static bb_status quantised_check(const struct bb_benchmark *benchmark, void *own,
				 struct bb_options *o, const struct bb_environment *environment,
				 struct bb_error *error)
{
	struct quantised *q = own;
	struct bb_quantised_options *a = &q->options;
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
	for (uint64_t size = o->min_bytes; size; size = bb_options_next_size(o, size))
		q->nsizes++;
	if (!a->memory_rate_given)
		a->memory_rate.rate = gpu && gpu->memory_GBps ? 1e9 * gpu->memory_GBps : INFINITY;
	if (isinf(a->memory_rate.rate) && o->backend->virtual)
		return bb_fail(error, BB_EUSAGE,
			       "--memory-rate: missing; on sim coding takes its bytes at this "
			       "rate, such as 2TB/s, which is not known of these ranks");
	bb_estimate_set_ranks(o, environment, 4);
	return BB_OK;
}

/* ---- the record ------------------------------------------------------------------------------ */

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

/* ---- steps as programs ----------------------------------------------------------------------- */

enum part { WHOLE, CODING, EXCHANGE, PLAIN, PARTS };
enum work { CODES, BYTES };

struct quantised_state {
	struct bb_kernel kernel; /* its variants are PARTS of each setting */
	const struct quantised *own;
	/* An array and its errors, which all settings have, and what a step makes of them; NULL:
	   virtual. */
	float *x, *error;
	char *rest, *reference;
	bool computes; /* numbers are really coded */
	int node_ranks;
};

struct quantised_variant {
	struct bb_variant variant;
	struct bb_coded_form form;
	struct bb_coded coded;
	double sent;
	double rms, most, balance; /* errors of the verified step; NAN: not verified */
};

static struct quantised_state *state_of(const struct quantised_variant *v)
{
	return (struct quantised_state *)v->variant.kernel;
}

/* Settings are ordered by size, coding, scheme. */
static struct bb_coded_form quantised_form(const struct quantised_state *s, size_t setting)
{
	const struct bb_options *o = s->kernel.engine.options;
	const struct bb_quantised_options *a = &s->own->options;
	const size_t schemes = a->schemes.n, codings = a->codings.n;
	const struct bb_coding *coding = &bb_codings[a->codings.list[setting / schemes % codings]];
	uint64_t size = o->min_bytes;

	for (size_t i = setting / schemes / codings; i > 0; i--)
		size = bb_options_next_size(o, size);
	return (struct bb_coded_form){
		.scheme = &bb_coded_schemes[a->schemes.list[setting % schemes]],
		.coding = coding,
		.block = a->block_given ? (size_t)a->block : coding->block,
		.count = size / sizeof(float),
		.nranks = s->kernel.engine.run->world.nranks,
		.local = s->node_ranks,
		.feedback = a->feedback,
	};
}

static size_t quantised_first(const struct bb_kernel *k, size_t setting, int part)
{
	const struct bb_quantised_options *a = &((struct quantised_state *)k)->own->options;

	return part == PLAIN ? setting - setting % (a->schemes.n * a->codings.n) : setting;
}

static const struct bb_coded_form *form_of(const struct bb_program *program)
{
	return &((const struct quantised_variant *)((const struct bb_taped *)program->own)->own)
			->form;
}

static int quantised_group_size(const struct bb_program *program, int group)
{
	return bb_coded_group_size(form_of(program), group);
}

static int quantised_member(const struct bb_program *program, int group, int i)
{
	return bb_coded_member(form_of(program), group, i);
}

static void quantised_complete(const void *own, int rank, struct bb_operation *o)
{
	bb_coded_complete(&((const struct quantised_variant *)own)->form, rank, o);
}

static bb_status quantised_program(struct quantised_variant *v)
{
	const struct quantised_state *s = state_of(v);
	const struct bb_quantised_options *a = &s->own->options;
	struct bb_taped *taped = &v->variant.taped;
	struct bb_error *error = &s->kernel.engine.run->error;
	const bb_status status = bb_taped_begin(taped, v->form.nranks, 1, 1, error);
	struct bb_tape *tape = taped->tapes;
	size_t kept = 0;

	if (status != BB_OK)
		return status;
	taped->own = v;
	taped->program.queues = taped->program.groups = 1;
	if (v->variant.part == PLAIN) {
		bb_tape_collective(tape, 0, BYTES, 0, &bb_all_reduce, v->form.count, a->dtype,
				   BB_SUM)
			->in_place = false;
		return bb_taped_end(taped, "an all-reduce", error);
	}
	taped->complete = quantised_complete;
	taped->program.groups = bb_coded_groups(&v->form);
	taped->program.group_size = quantised_group_size;
	taped->program.member = quantised_member;
	bb_coded_write(&v->form, tape, 0, CODES, BYTES, 0, a->memory_rate.rate);
	for (size_t i = 0; i < tape->n; i++) {
		const struct bb_operation o = tape->list[i];

		tape->list[kept] = o;
		kept += v->variant.part == WHOLE ||
			(v->variant.part == CODING) == (o.work == CODES);
	}
	tape->n = kept;
	return bb_taped_end(taped, "a quantised all-reduce", error);
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
	const size_t padded = bb_coded_padded(&v->form);

	bb_quantised_draw(&v->form, seed, c->rank, false, 0, padded, c->x);
	bb_quantised_draw(&v->form, seed, c->rank, true, 0, c->errors, c->error);
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

static uint64_t differing(const float *a, const float *b, size_t n)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += memcmp(&a[i], &b[i], sizeof(*a)) != 0;
	return wrong;
}

static bb_status quantised_verify(void *own, uint64_t *wrong)
{
	struct quantised_variant *v = own;
	const struct bb_coded *c = &v->coded;
	struct bb_quantised_reference ref = {
		.seed = (uint64_t)v->variant.kernel->engine.options->seed, .rank = c->rank};
	const size_t padded = bb_coded_padded(&v->form);
	const double n = v->form.nranks;

	(void)bb_quantised_lay_out(&ref, &v->form, state_of(v)->reference);
	bb_quantised_compute(&ref);
	*wrong += differing(c->result, ref.mean, padded);
	*wrong += v->form.feedback ? differing(c->error, ref.errors, c->errors) : 0;
	v->rms = v->most = v->balance = 0;
	for (size_t i = 0; i < v->form.count; i++) {
		const double off = n * ((double)c->result[i] - ref.exact[i]);
		const double balance = fabs((double)ref.mean[i] + ref.kept[i] - ref.exact[i]);

		v->rms += off * off / (double)v->form.count;
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
	struct quantised_state *s = state_of(v);
	char size[BB_UNIT_TEXT];

	v->form = quantised_form(s, variant->setting);
	v->rms = v->most = v->balance = v->sent = NAN;
	(void)bb_coded_lay_out(&v->coded, &v->form, s->kernel.engine.driver->rank, s->rest);
	v->coded.x = s->x;
	v->coded.error = v->form.feedback ? s->error : NULL;
	if (s->computes && variant->part == WHOLE)
		(void)quantised_fill(v);
	if (variant->part != PLAIN) {
		*refusal = bb_coded_refuses(&v->form);
		variant->subject = v->form.coding->name;
		variant->algorithm = v->form.scheme->name;
		trial->opened = quantised_opened;
		trial->workload.compute = s->computes ? quantised_compute : NULL;
		trial->expects = variant->part == WHOLE ? &quantised_expectation : NULL;
	}
	trial->workload.buffers = s->x ? quantised_buffers : NULL;
	snprintf(trial->what, sizeof(trial->what), "%s%s by %s, %s", names[variant->part],
		 v->form.coding->name, v->form.scheme->name,
		 bb_format_size(size, v->form.count * sizeof(float)));
	return *refusal ? BB_OK : quantised_program(v);
}

static bb_status quantised_open(struct bb_engine *e)
{
	struct quantised_state *s = (struct quantised_state *)e;
	const struct quantised *own = s->own = e->run->own;
	const size_t settings = own->nsizes * own->options.codings.n * own->options.schemes.n;
	const struct bb_rank_info *infos = e->run->infos;
	size_t x = 0, error = 0, rest = 0, reference = 0;
	char size[BB_UNIT_TEXT];
	bb_status status;

	if (e->backend->gpu)
		return bb_fail(&e->run->error, BB_EUNSUPPORTED,
			       "the CPU codes the numbers, and cannot access the memory of GPUs; "
			       "give --backend host or mpi");
	s->node_ranks = 1;
	while (s->node_ranks < e->run->world.nranks && infos[s->node_ranks].node == infos[0].node)
		s->node_ranks++;
	if (own->options.node_ranks_given || e->options->cluster)
		s->node_ranks = own->options.node_ranks_given ? (int)own->options.node_ranks
							      : e->options->cluster->gpus;
	for (size_t i = 0; i < settings; i++) {
		const struct bb_coded_form form = quantised_form(s, i);
		struct bb_quantised_reference ref;
		struct bb_coded c;
		const size_t all = bb_coded_lay_out(&c, &form, 0, NULL);
		const size_t most =
			bb_engine_checks(e) ? bb_quantised_lay_out(&ref, &form, NULL) : 0;
		const size_t numbers = bb_coded_padded(&form) * sizeof(float);

		x = numbers > x ? numbers : x;
		error = c.errors > error ? c.errors : error;
		rest = all > rest ? all : rest;
		reference = most > reference ? most : reference;
	}
	BB_TRY(status,
	       bb_estimate_room(e->run, x + error * sizeof(float) + rest + reference, "-e",
				bb_format_size(size, e->options->max_bytes),
				"arrays, codes and a reference", "less"),
	       out);
	BB_TRY(status, bb_engine_alloc(e, x, (void **)&s->x), out);
	BB_TRY(status, bb_engine_alloc(e, error * sizeof(float), (void **)&s->error), out);
	BB_TRY(status, bb_engine_alloc(e, rest, (void **)&s->rest), out);
	s->computes = s->x && e->backend->has_data;
	if (bb_engine_checks(e)) {
		s->reference = bb_kernel_keep(&s->kernel, 1, reference);
		if (!s->reference)
			return BB_EINTERNAL;
	}
	s->kernel.first = quantised_first;
	status = bb_kernel_sweep(&s->kernel, settings, PARTS, sizeof(struct quantised_variant),
				 quantised_write);
out:
	return status;
}

static void quantised_describe(const struct bb_kernel *k, size_t setting, void *record)
{
	const struct quantised_state *s = (const struct quantised_state *)k;
	const struct bb_quantised_options *a = &s->own->options;
	const struct quantised_variant *v =
		(const struct quantised_variant *)bb_kernel_variant(k, setting, WHOLE);
	const struct bb_coded_form *f = &v->form;
	struct bb_quantised_record *r = record;
	const double n = f->nranks, bus = 2 * (n - 1) / n;
	double traffic = 0, formula = 0;

	for (int i = 0; i < bb_coded_phases(f); i++) {
		formula += (double)bb_coded_sent(f, i);
		traffic += (double)bb_coded_traffic(f, i, BB_CODED_CODE) +
			   (double)bb_coded_traffic(f, i, BB_CODED_DECODE);
	}
	r->size_bytes = (int64_t)(f->count * sizeof(float));
	r->coding = f->coding->name;
	r->scheme = f->scheme->name;
	r->block = (int64_t)f->block;
	r->feedback = feedback_names[f->feedback];
	r->nranks = f->nranks;
	r->node_ranks = f->scheme->kind == BB_CODED_TWO_HOPS ? f->local : BB_ABSENT;
	r->count = (int64_t)f->count;
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
	if (r->plain_us > r->exchange_us && r->coding_us > 0)
		r->break_even_GBps = r->plain_GBps * (r->plain_us - r->exchange_us) / r->coding_us;
	if (r->plain_bytes > v->sent && r->coding_us > 0)
		r->model_break_even_GBps =
			1e-9 * (r->plain_bytes - v->sent) /
			(isinf(a->memory_rate.rate) ? 1e-6 * r->coding_us
						    : traffic / a->memory_rate.rate);
	r->rms_error = v->rms;
	r->max_error = v->most;
	r->balance_error = v->balance;
	r->wrong = bb_kernel_trial(k, setting, WHOLE)->wrong;
}

/* The answer is the fastest at the largest size, and the link rate below which it pays. */
static bb_status quantised_deliver(struct bb_engine *engine)
{
	struct bb_kernel *k = (struct bb_kernel *)engine;
	const struct bb_quantised_options *a = &((struct quantised_state *)k)->own->options;
	const struct bb_quantised_record *best = NULL;
	struct bb_strbuf answer = {0};
	char coded[BB_UNIT_TEXT], plain[BB_UNIT_TEXT], size[BB_UNIT_TEXT];
	const bb_status status = bb_kernel_deliver(k, &bb_record_quantised, quantised_describe);

	if (status != BB_OK)
		return status;
	for (size_t i = k->settings - a->codings.n * a->schemes.n; i < k->settings; i++) {
		const struct bb_quantised_record *r = bb_kernel_variant(k, i, WHOLE)->record;

		best = r && (!best || r->coded_us < best->coded_us) ? r : best;
	}
	if (!best)
		return BB_OK;
	bb_strbuf_addf(&answer,
		       "# Fastest at %s: %s by %s, %s; the plain all-reduce of %s takes %s\n",
		       bb_format_size(size, (uint64_t)best->size_bytes), best->coding, best->scheme,
		       bb_format_duration(coded, 1e-6 * best->coded_us), best->dtype,
		       bb_format_duration(plain, 1e-6 * best->plain_us));
	if (isnan(best->break_even_GBps))
		bb_strbuf_addf(&answer,
			       "# It does not pay at any link rate: its exchange alone takes %s\n",
			       bb_format_duration(coded, 1e-6 * best->exchange_us));
	else
		bb_strbuf_addf(
			&answer, "# %s by %s pays below %.*f GB/s of link; links here: %.*f GB/s\n",
			best->coding, best->scheme, best->break_even_GBps < 10 ? 2 : 0,
			best->break_even_GBps, best->plain_GBps < 10 ? 2 : 0, best->plain_GBps);
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
	bb_strbuf_add(out,
		      "# sent, formula: bytes of a rank. coded: whole step; coding, exchange: its "
		      "parts alone\n"
		      "# link: rate of the plain all-reduce. pays below: link rate at which both "
		      "take equally long, by bytes saved and coding time\n");
}

const struct bb_benchmark bb_quantised_benchmark = {
	.brief = "Quantised all-reduces: codes of fewer bits are exchanged, with their cost, error "
		 "and break-even link rate.",
	.examples = {"-g 4 -b 1M -e 64M -f 4 --coding int8,sign --error-feedback on",
		     "--backend sim --cluster hgx-h100:16 --scheme alltoall,two-hops"},
	.own_bytes = sizeof(struct quantised),
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
