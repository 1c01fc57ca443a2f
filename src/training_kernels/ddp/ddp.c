/*
 * ddp.c - buckets of data-parallel training: options, record and descriptor of the benchmark, and
 * the model and its buckets as text.
 */
#include "training_kernels/ddp/ddp.h"

#include "core/table.h"
#include "core/version.h"
#include "harness/measure/algorithms.h"
#include "topology/systems.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

#define STEP_NS 50000000 /* of a batch, unless an option sets it */
#define MIB (1.0 / (1 << 20))
#define MOST_LINES 7 /* of a list of buckets, before the last one */

static const char *const overlap_names[] = {"on", "off", "both", NULL};
const char *const bb_ddp_view_names[] = {"on", "off", NULL};
const char *const bb_ddp_place_names[] = {"after", "own-queue", "comm-queue", "backward", NULL};
static const char *const gradient_dtypes[] = {"float",  "half",   "bfloat16", "double",
					      "f8e4m3", "f8e5m2", NULL};

#define BB_OPTIONS struct bb_ddp_options
static const struct bb_option ddp_rows[] = BB_OPTION_ROWS(BB_DDP_OPTIONS);

/* ---- the check ------------------------------------------------------------------------------- */

const struct bb_ddp_cap *bb_ddp_last_same(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap)
{
	size_t last = ddp->ncaps - 1;

	while (ddp->caps[last].same != cap->same)
		last--;
	return &ddp->caps[last];
}

static bool links_are_known(const struct bb_options *o)
{
	return o->link.text || o->cluster_text || o->calibrate_text;
}

/* With the time of computations and links, --predict is a run in virtual time. */
static bool ddp_simulates(const void *own, const struct bb_options *o)
{
	const struct bb_ddp_options *a = own;

	return a->predict && (a->flops_given || a->step_ns_given) && links_are_known(o);
}

/* Append a name; those beyond the most are only counted. */
static void add_algorithm(struct bb_ddp_options *a, const char *name)
{
	if (a->nalgorithms++ < BB_DDP_MOST_ALGORITHMS)
		snprintf(a->algorithms[a->nalgorithms - 1], BB_WORD, "%s", name);
}

/* What forbids the passes over memory that the options request. */
static bb_status check_memory(struct bb_ddp *ddp, const struct bb_options *o,
			      struct bb_error *error)
{
	const struct bb_ddp_options *a = &ddp->options;
	const char *const option = a->places.n > 0 ? "optimizer" : "bucket-view";
	const char *const before = a->most_norm_given ? "clip-grad-norm" : "loss-scale";
	const struct bb_system *const system =
		o->cluster ? bb_system_find(o->cluster->node->name) : NULL;

	if (a->places.n + a->views.n == 0)
		return BB_OK;
	if (a->dtype != BB_FLOAT && a->dtype != BB_HALF && a->dtype != BB_BFLOAT16)
		return bb_fail(error, BB_EUSAGE,
			       "--%s: the CPU's passes have no %s; give -d float, half or bfloat16",
			       option, bb_dtype_name(a->dtype));
	if ((a->most_norm_given && !(a->most_norm > 0)) || !(a->loss_scale > 0))
		return bb_fail(error, BB_EUSAGE, "--%s: give a number above 0", before);
	for (size_t i = 0; i < a->places.n && (a->most_norm_given || a->loss_scale_given); i++)
		if (a->places.list[i] != BB_DDP_AFTER - 1)
			return bb_fail(error, BB_EUSAGE,
				       "--optimizer %s: --%s needs all gradients before the first "
				       "update; give --optimizer after",
				       bb_ddp_place_names[a->places.list[i]], before);
	if (a->memory_rate_given)
		ddp->memory_rate = a->memory_rate.rate;
	else if (system && system->gpu)
		ddp->memory_rate = 1e9 * system->gpu->memory_GBps;
	if (o->backend->virtual && !(ddp->memory_rate > 0))
		return bb_fail(error, BB_EUSAGE,
			       "--%s in virtual time: the rate of a rank's memory is not known; "
			       "give --memory-rate, as in 1.7TB/s",
			       option);
	return BB_OK;
}

static bb_status ddp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			   const struct bb_environment *environment, struct bb_error *error)
{
	const struct bb_native *natives = o->backend->natives;
	struct bb_ddp *ddp = own;
	struct bb_ddp_options *a = &ddp->options;
	const bool all = strcmp(a->algo_text, "all") == 0;
	const char *rest = a->algo_text;
	char word[BB_WORD];
	bb_status status;

	if (a->predict && !o->shows && !o->backend->virtual)
		return bb_fail(error, BB_EUSAGE,
			       "--backend %s: --predict simulates; leave one of them out",
			       o->backend->name);
	if (!a->predict && !a->flops_given && !a->step_ns_given)
		a->step_ns = STEP_NS;
	BB_TRY(status, check_memory(ddp, o, error), out);
	BB_TRY(status, bb_algorithms_check(a->algo_text, o, &bb_all_reduce, error), out);
	for (const struct bb_native *n = natives; all && n && n->name; n++)
		if (!n->refuses || !n->refuses(n, &bb_all_reduce))
			add_algorithm(a, n->name);
	/* A name that the backend's library has too means that. */
	for (int i = 0; all && bb_algorithms[i]; i++)
		if (bb_algorithms[i]->collective == &bb_all_reduce)
			add_algorithm(a, bb_schedule_name(bb_algorithms[i], natives));
	for (bool more = !all; more; more = *rest++ == ',') {
		bb_next_word(&rest, word);
		add_algorithm(a, word);
	}
	if (a->nalgorithms > BB_DDP_MOST_ALGORITHMS)
		return bb_fail(error, BB_EUSAGE, "--algo %s: more than %d algorithms", a->algo_text,
			       BB_DDP_MOST_ALGORITHMS);
	BB_TRY(status, bb_replica_open(&ddp->replica, &BB_REPLICA_REQUEST(a), o, error), out);
	BB_TRY(status, bb_ddp_group(ddp, o, environment, error), out);
	if (a->sync_buffers) {
		if (ddp->replica.model.buffers + ddp->replica.model.counters == 0)
			BB_TRY(status,
			       bb_fail(error, BB_EUSAGE,
				       "--sync-buffers: %s has no buffers; leave it out",
				       a->model_text),
			       out);
		ddp->extras[BB_DDP_BUFFERS] = ddp->replica.model.buffers;
		ddp->extras[BB_DDP_COUNTERS] = ddp->replica.model.counters;
	}
	if (a->find_unused)
		ddp->extras[BB_DDP_USED] = ddp->replica.model.ntensors;
	if (o->shows)
		status = bb_check_outputs(o, NULL, environment->launch.proc == 0, error);
out:
	return status;
}

static void ddp_free(void *own)
{
	struct bb_ddp *ddp = own;

	for (size_t i = 0; i < ddp->ncaps; i++)
		bb_fusion_free(&ddp->caps[i].buckets);
	free(ddp->ready_s);
	free(ddp->tensors);
	bb_model_free(&ddp->replica.model);
}

/* ---- the record ------------------------------------------------------------------------------ */

static void cap_cell(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_ddp_record *r = record;
	const bool named = r->rule && strncmp(r->label, r->rule, strlen(r->rule)) == 0;

	snprintf(text, BB_CELL_TEXT, "%s", r->label + (named ? strlen(r->rule) + 1 : 0));
}

static void ddp_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_ddp_record *r = record;
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %s: %jd parameters, %.2f MiB of gradients (%s)\n", r->model,
		       r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	bb_strbuf_addf(out, "# Batch: forward %s, backward %s (%s)",
		       bb_format_duration(forward, 1e-6 * r->forward_us),
		       bb_format_duration(backward, 1e-6 * r->backward_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %jd batches per step", r->batches);
	bb_strbuf_addf(out, "\n# DDP %s", r->fit);
	if (r->inside_bytes > 0)
		bb_strbuf_addf(out,
			       "\n# Nodes of %jd ranks: by rings, a rank sends %.4g MB within its "
			       "node and %.4g MB across; one ring of all ranks sends %.4g MB",
			       r->node_ranks, 1e-6 * r->inside_bytes, 1e-6 * r->across_bytes,
			       1e-6 * (double)r->padded_bytes *
				       bb_all_reduce.bus_factor((int)r->nranks));
	else if (r->node_ranks > 0)
		bb_strbuf_addf(out,
			       "\n# Nodes of %jd ranks, the last of %jd: all gradients go by the "
			       "first rank of each node, as Horovod's do if nodes are unequal",
			       r->node_ranks, r->nranks % r->node_ranks);
	bb_strbuf_add(out, "\n# Buckets: one = a single bucket, tensor = a bucket per tensor. "
			   "Times are medians.\n");
}

#define BB_RECORD bb_ddp_record
BB_RECORD_KIND(bb_record_ddp, BB_DDP_FIELDS, "data_parallel",
	       "Data-parallel training: one size of gradient buckets.", .about = ddp_about);

void bb_ddp_describe_cap(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap, int nranks,
			 double *numbers, struct bb_ddp_record *r)
{
	const struct bb_model *m = &ddp->replica.model;
	const struct bb_buckets *b = &cap->buckets;
	double *bytes = numbers, *tensors = bytes + b->n, *ready = tensors + b->n;
	double *cycles = ready + b->n;
	const bool capped = bb_ddp_is_capped(cap), computes = ddp->replica.batch_s > 0;

	r->model = m->name;
	r->dtype = bb_dtype_name(ddp->options.dtype);
	r->nranks = nranks;
	r->batches = ddp->options.accumulate;
	r->tensors = (int64_t)m->ntensors;
	r->parameters = (int64_t)m->parameters;
	r->gradient_bytes = (int64_t)ddp->replica.bytes;
	BB_FIT_SET(r, &ddp->replica.fit);
	if (computes) {
		r->forward_us = 1e6 * ddp->replica.forward_s;
		r->backward_us = 1e6 * ddp->replica.backward_s;
	}
	for (size_t i = 0; i < b->ncycles; i++)
		cycles[i] = 1e6 * b->cycles[i];
	for (size_t i = 0; i < b->n; i++) {
		bytes[i] = (double)b->list[i].bytes;
		tensors[i] = (double)b->list[i].count;
		ready[i] = 1e6 * bb_bucket_ready(&b->list[i], ddp->ready_s);
	}
	const bool counts = bb_ddp_counts(cap);
	r->grouping = !bb_ddp_is_ddp(cap) ? cap->rule->name : capped ? "cap" : cap->name;
	r->rule = ddp->options.rules_given ? cap->rule->name : NULL;
	r->label = cap->name;
	r->cap_bytes = capped || (!bb_ddp_is_ddp(cap) && !counts) ? (int64_t)cap->bytes : BB_ABSENT;
	r->cap_count = counts ? (int64_t)cap->bytes : BB_ABSENT;
	if (cap->rule->clocked)
		r->cycle_us = 1e6 * cap->cycle_s;
	r->padded_bytes = (int64_t)b->room;
	if (ddp->options.hierarchical) {
		const struct bb_fusion_traffic t =
			bb_fusion_hierarchical(b->room, ddp->local, nranks / ddp->local);

		r->node_ranks = ddp->local;
		if (nranks % ddp->local == 0) {
			r->inside_bytes = t.inside;
			r->across_bytes = t.across;
		}
	}
	if (ddp->options.sync_buffers)
		r->buffer_bytes = (int64_t)(4 * m->buffers + 8 * m->counters);
	r->buckets = (int64_t)b->n;
	r->most_bytes = (int64_t)b->most;
	r->bucket_bytes = (struct bb_numbers){bytes, b->n};
	r->bucket_tensors = (struct bb_numbers){tensors, b->n};
	r->bucket_ready_us = (struct bb_numbers){ready, computes ? b->n : 0};
	r->cycles_us = (struct bb_numbers){cycles, computes ? b->ncycles : 0};
}

/* ---- the model and its buckets as text ------------------------------------------------------- */

/* "291.6 GFLOPs" */
static void add_flops(struct bb_strbuf *out, double flops)
{
	static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
	size_t unit = 0;

	for (; flops >= 1000 && unit < 6; unit++)
		flops /= 1000;
	bb_strbuf_addf(out, "%.4g %sFLOPs", flops, units[unit]);
}

void bb_ddp_add_model(const struct bb_ddp *ddp, struct bb_strbuf *out)
{
	const struct bb_model *m = &ddp->replica.model;
	const uint64_t bytes = ddp->replica.bytes;

	bb_strbuf_addf(out, "# ddp_bucket_perf: %s (%s), gradients in %s\n", m->name, m->family,
		       bb_dtype_name(ddp->options.dtype));
	bb_model_add_origin(out, m);
	bb_strbuf_addf(out, "# %zu tensors, %ju parameters, %ju bytes of gradients (%.2f MiB)\n# ",
		       m->ntensors, m->parameters, bytes, (double)bytes * MIB);
	add_flops(out, m->forward);
	bb_strbuf_add(out, " forward, ");
	add_flops(out, m->backward);
	if (m->hyper.seq)
		bb_strbuf_addf(out, " backward, of a sequence of %jd tokens, %s\n", m->hyper.seq,
			       bb_attention_name((enum bb_attention)ddp->options.attention));
	else
		bb_strbuf_add(out, " backward, of one sample\n");
}

/* Equal buckets share a line; the last one follows the first lines. */
static void add_list(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap,
		     const struct bb_ddp_variant *timed, struct bb_strbuf *out)
{
	static const char *const heads[] = {"bucket", "tensors", "MiB", "ready", "start", "end"};
	const struct bb_ddp_cap *last = bb_ddp_last_same(ddp, cap);
	const bool computes = ddp->replica.batch_s > 0;
	struct bb_text_table t = {.limit = bb_table_limit(stdout)};
	const size_t n = cap->buckets.n;

	while (last >= &ddp->caps[ddp->nrequested])
		last--;
	bb_strbuf_addf(out, "#\n# Buckets of %s%s%s%s%s\n", cap->name, last != cap ? " to " : "",
		       last != cap ? last->name : "",
		       computes ? ", in ms of the backward pass" : "",
		       timed && !timed->step.overlap ? ", reduced after it" : "");
	for (size_t i = 0; i < (timed ? 6 : computes ? 4 : 3); i++)
		bb_table_column(&t, heads[i], "", i == 1 ? 8 : 10);
	for (size_t k = 0, line = 0, end; k < n; k = end, line++) {
		const bool rest = line == MOST_LINES && k + 1 < n;

		if (line == MOST_LINES)
			bb_table_print(&t, out);
		if (rest)
			bb_strbuf_addf(out, "#%11s %zu more\n", "...", n - 1 - k);
		k = rest ? n - 1 : k;
		const struct bb_bucket *b = &cap->buckets.list[k];
		end = k + 1;
		while (end < n && b[end - k].bytes == b->bytes && b[end - k].count == b->count)
			end++;
		if (end - k > 1)
			bb_table_cellf(&t, "%zu-%zu", k, end - 1);
		else
			bb_table_cellf(&t, "%zu", k);
		bb_table_cellf(&t, "%zu\t%.3f", b->count, (double)b->bytes * MIB);
		if (computes)
			bb_table_cellf(&t, "%.3f", 1e3 * bb_bucket_ready(b, ddp->ready_s));
		if (timed)
			bb_table_cellf(&t, "%.3f\t%.3f", 1e3 * timed->start_s[k],
				       1e3 * timed->ends[(end - 1) * BB_ENGINE_MOST_ROUNDS +
							 (size_t)timed->rounds - 1]);
	}
	bb_table_print(&t, out);
	bb_table_free(&t);
}

void bb_ddp_add_buckets(const struct bb_ddp *ddp, const struct bb_ddp_variant *const *timed,
			struct bb_strbuf *out)
{
	static const struct bb_table_head heads[] = {
		{"cap", "", 9},           {"buckets", "", 8},  {"min", "(MiB)", 8},
		{"mean", "(MiB)", 8},     {"max", "(MiB)", 8}, {"last", "(MiB)", 8},
		{"tensors", "(mean)", 8}, {NULL, NULL, 0},
	};
	struct bb_text_table t = {.limit = bb_table_limit(stdout), .merges = 1};
	const uint64_t first = ddp->options.first_cap;
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "#\n# Buckets; the first is closed at %s\n",
		       first ? bb_format_size(size, first) : "cap");
	bb_table_columns(&t, heads, 1);
	for (size_t i = 0; i < ddp->nrequested; i++) {
		const struct bb_buckets *b = &ddp->caps[i].buckets;

		bb_table_cellf(&t, "%s\t%zu\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f", ddp->caps[i].name, b->n,
			       (double)b->least * MIB, (double)b->bytes * MIB / (double)b->n,
			       (double)b->most * MIB, (double)b->list[b->n - 1].bytes * MIB,
			       (double)ddp->replica.model.ntensors / (double)b->n);
	}
	bb_table_print(&t, out);
	bb_table_free(&t);
	for (size_t i = 0; i < ddp->nrequested; i++)
		if (ddp->caps[i].same == i)
			add_list(ddp, &ddp->caps[i], timed ? timed[i] : NULL, out);
}

/* ---- --predict without links or the time of computations ------------------------------------- */

static bb_status ddp_show(struct bb_run *run, struct bb_strbuf *out)
{
	struct bb_ddp *ddp = run->own;
	const struct bb_ddp_options *a = &ddp->options;
	const struct bb_replica *replica = &ddp->replica;
	const int nranks = bb_estimate_ranks(&run->options, &run->environment);
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT], rate[BB_UNIT_TEXT];
	double *numbers = calloc(ddp->numbers, sizeof(*numbers));
	struct bb_ddp_record r;
	bb_status status = numbers ? BB_OK : bb_no_memory(&run->error, "the buckets");

	BB_TRY(status, status, out);
	BB_TRY(status, bb_replica_judge(&ddp->replica, nranks, &run->error), out);
	BB_TRY(status, bb_estimate_open(run, &bb_record_ddp, nranks, ddp->options.algo_text), out);
	bb_strbuf_addf(out, "# busbench version %s\n", BB_VERSION);
	bb_ddp_add_model(ddp, out);
	bb_strbuf_addf(out, "# %d rank%s", nranks, bb_plural(nranks));
	if (replica->batch_s > 0)
		bb_strbuf_addf(out, ", each: forward %s, backward %s",
			       bb_format_duration(forward, replica->forward_s),
			       bb_format_duration(backward, replica->backward_s));
	if (a->flops_given)
		bb_strbuf_addf(out, " (batch %jd at %s)", a->batch,
			       bb_format_count(rate, (uint64_t)a->flops));
	if (a->accumulate > 1)
		bb_strbuf_addf(out, ", %jd batches", a->accumulate);
	if (run->options.link.text)
		bb_strbuf_addf(out, "; links of %s%s", run->options.link.text,
			       run->options.link.port ? "" : " per pair of ranks");
	bb_strbuf_addf(out, "\n# DDP %s\n", replica->fit.text);
	bb_ddp_add_buckets(ddp, NULL, out);
	if (!links_are_known(&run->options))
		bb_strbuf_add(out, "#\n# The step needs --link RATE,LATENCY, the links of ranks, "
				   "as in 10GB/s,5us, or --cluster\n");
	if (ddp->replica.batch_s == 0)
		bb_strbuf_add(out, "#\n# The step needs --flops RATE or --step-time TIME, the time "
				   "of computations\n");
	for (size_t i = 0; i < ddp->ncaps && status == BB_OK; i++) {
		bb_record_init(&bb_record_ddp, &r);
		bb_ddp_describe_cap(ddp, &ddp->caps[i], nranks, numbers, &r);
		status = bb_estimate_record(run, &bb_record_ddp, &r);
	}
	status = bb_estimate_end(run, out, status);
out:
	free(numbers);
	bb_sinks_close(&run->sinks);
	return status;
}

/* ---- the benchmark --------------------------------------------------------------------------- */

static bb_status ddp_plan(struct bb_run *run)
{
	struct bb_ddp *ddp = run->own;

	run->record.collective = bb_all_reduce.name;
	run->record.algorithms = ddp->options.algo_text;
	const struct bb_ddp_options *a = &ddp->options;
	/* Copies in buckets; three states in fp32, with 16 bits also the rounded parameters. */
	const uint64_t copies = 1 + (uint64_t)bb_ddp_any_copies(a) +
				(a->places.n == 0       ? 0
				 : a->dtype == BB_FLOAT ? 3
							: 7);
	const bb_status status = bb_replica_judge(&ddp->replica, run->world.nranks, &run->error);
	return status == BB_OK
		       ? bb_estimate_room(run, copies * ddp->room, "--model",
					  ddp->options.model_text,
					  a->places.n > 0 ? "gradients and states" : "gradients",
					  "fewer ranks, a smaller datatype, --predict or --backend "
					  "sim")
		       : status;
}

static void ddp_list(struct bb_strbuf *out)
{
	bb_model_list(out);
	bb_algorithms_list(out);
}

const struct bb_benchmark bb_ddp_benchmark = {
	.brief = "Data-parallel training: the best size of gradient buckets.",
	.examples = {"--model gpt2 --backend sim --cluster hgx-h100:16",
		     "--predict --model gpt2 -g 8 --link 25GB/s,5us"},
	.own_bytes = sizeof(struct bb_ddp),
	.options = ddp_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "the model's gradients are reduced; leave it out, --buckets "
				   "sets the sizes of buckets"}},
	.queues = true,
	.shows = "predict",
	.simulates = ddp_simulates,
	.check = ddp_check,
	.free_options = ddp_free,
	.list = ddp_list,
	.show = ddp_show,
	.text = &bb_sink_table,
	.rows = &bb_record_ddp,
	.plan = ddp_plan,
	.experiment = &bb_ddp_experiment,
};
