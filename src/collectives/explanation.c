/*
 * explanation.c - what --explain prints and records: one algorithm after the other.
 */
#include "collectives/plan.h"

#include "core/table.h"
#include "core/units.h"
#include "harness/run/run.h"
#include "schedules/explain.h"
#include "schedules/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON 160
#define CONTENT_COLUMNS 64 /* in a record */

struct explanation {
	struct bb_strbuf *out;
	struct bb_run *run;
	const struct bb_options *options;
	const struct bb_collective_options *settings;
	const struct bb_collective *collective;
	const struct bb_native *natives;
	struct bb_shape shape;
	const char *matrix; /* its name; NULL: it has none */
	struct bb_explain_view view;
	struct bb_error *error;
	int explained;
	char reason[REASON + 40]; /* why the first one was not explained */
};

#define BB_SCHEDULE_FIELDS(FIELD)                                                                  \
	FIELD(STRING, collective, "", "what is explained")                                         \
	FIELD(STRING, algorithm, "", "algorithm of the messages that follow")                      \
	FIELD(STRING, meaning, "", "its idea in a sentence")                                       \
	FIELD(STRING, matrix, "",                                                                  \
	      "alltoallv: matrix of --matrix; null: the generated one, or none")                   \
	FIELD(BOOL, reduces, "", "ranks add up what arrives")                                      \
	FIELD(INT, nranks, "", "ranks that take part")                                             \
	FIELD(INT, root, "", "rank; null: the collective has none")                                \
	FIELD(INT, count, "elements", "count parameter of the call; 0 with --matrix")              \
	FIELD(INT, rounds, "", "rounds of the call")                                               \
	FIELD(INT, least_rounds, "", "minimum of any algorithm whose ranks send once a round")     \
	FIELD(INT, messages, "", "messages in all rounds")                                         \
	FIELD(INT, elements, "elements", "elements sent in all messages")                          \
	FIELD(INT, least_elements, "elements", "minimum of any algorithm")                         \
	FIELD(INT, busiest_elements, "elements", "elements sent by the busiest rank")              \
	FIELD(DOUBLE, traffic_elements, "elements",                                                \
	      "memory traffic in elements copied; receiving and adding one counts 1.5")

/* An algorithm for the requested ranks. */
struct bb_schedule_record {
	BB_SCHEDULE_FIELDS(BB_MEMBER)
};

#define BB_MESSAGE_FIELDS(FIELD)                                                                   \
	FIELD(STRING, collective, "", "as in the schedule")                                        \
	FIELD(STRING, algorithm, "", "as in the schedule")                                         \
	FIELD(INT, round, "", "from 1")                                                            \
	FIELD(INT, from, "", "rank that sends")                                                    \
	FIELD(INT, to, "", "rank that receives; that of from: a copy in its memory")               \
	FIELD(INT, channel, "",                                                                    \
	      "messages of a pair are in order within a channel; a double tree "                   \
	      "has one per tree")                                                                  \
	FIELD(INT, count, "elements", "length")                                                    \
	FIELD(TEXT, source, "", "where it lies at the sender, as IN[4..7]")                        \
	FIELD(TEXT, content, "", "what it is, as c0+c3=4: the sum of element 2 of ranks 0 and 3")  \
	FIELD(INT, part, "",                                                                       \
	      "number of the part of the data that it is: its first element; where nothing is "    \
	      "added, counted through the IN of all ranks")                                        \
	FIELD(BOOL, adds, "", "the receiver adds it to what it has")                               \
	FIELD(TEXT, effect, "", "what the receiver does, as OUT[2] = IN[2] + received")

/* A message of a round. */
struct bb_message_record {
	BB_MESSAGE_FIELDS(BB_MEMBER)
};

#define BB_RECORD bb_schedule_record
BB_RECORD_KIND(bb_record_schedule, BB_SCHEDULE_FIELDS, "schedule",
	       "With --explain: an algorithm for the requested ranks; its messages follow.");

#undef BB_RECORD
#define BB_RECORD bb_message_record
BB_RECORD_KIND(bb_record_message, BB_MESSAGE_FIELDS, "message",
	       "With --explain: a message of one round, or a copy within a rank.");

/* ---- records ------------------------------------------------------------------------------- */

static bb_status record_schedule(const struct explanation *l, const struct bb_trace *trace)
{
	const struct bb_algorithm *algorithm = trace->check.algorithm;
	struct bb_strbuf answer = {0};
	struct bb_schedule_record r;
	size_t steps, wire;

	bb_record_init(&bb_record_schedule, &r);
	r.collective = l->collective->name;
	r.algorithm = algorithm->name;
	r.meaning = algorithm->meaning;
	r.matrix = l->matrix;
	r.reduces = l->collective->flags & BB_REDUCES;
	r.nranks = l->shape.nranks;
	if (l->collective->flags & BB_ROOTED)
		r.root = l->shape.root;
	r.count = (int64_t)l->shape.count;
	r.traffic_elements = bb_algorithm_cost(algorithm, &l->shape, &steps, &wire);
	r.rounds = (int64_t)steps;
	r.least_rounds = bb_trace_least(trace);
	r.messages = (int64_t)trace->sent;
	r.elements = (int64_t)trace->elements;
	r.least_elements = (int64_t)bb_trace_least_elements(trace);
	r.busiest_elements = (int64_t)wire;
	bb_strbuf_addf(&answer, "%s: %zu round%s, %zu message%s", algorithm->name, steps,
		       bb_plural((long long)steps), trace->sent, bb_plural((long long)trace->sent));
	bb_run_answer(l->run, &answer, 0);
	bb_strbuf_free(&answer);
	return bb_estimate_record(l->run, &bb_record_schedule, &r);
}

static bb_status record_message(const struct explanation *l, const struct bb_trace *trace,
				const struct bb_trace_message *m)
{
	const struct bb_symbol *first = bb_trace_content(trace, m);
	struct bb_message_record r;

	bb_record_init(&bb_record_message, &r);
	r.collective = l->collective->name;
	r.algorithm = trace->check.algorithm->name;
	r.round = (int64_t)trace->round + 1;
	r.from = m->from;
	r.to = m->to;
	r.channel = m->send.channel;
	r.count = (int64_t)m->send.count;
	bb_trace_place_text(r.source, m->send.src, m->send.count);
	bb_trace_content_text(r.content, trace, m, CONTENT_COLUMNS);
	/* The first element; where nothing is added, behind those of the ranks before. */
	r.part = (int64_t)first->index;
	for (int s = 0; !(l->collective->flags & BB_REDUCES) && !(first->ranks >> s & 1); s++)
		r.part += (int64_t)bb_collective_in(l->collective, &l->shape, s);
	r.adds = m->receipt.kind == BB_RECV_REDUCE;
	bb_trace_effect_text(r.effect, m);
	return bb_estimate_record(l->run, &bb_record_message, &r);
}

/* The totals of a schedule are known at its end and stand before its messages, those of the rounds
   in view: its rounds run twice. */
static bb_status record_algorithm(const struct explanation *l, const struct bb_algorithm *algorithm)
{
	bb_status st = BB_OK;

	if (l->run->sinks.n == 0)
		return BB_OK;
	for (int pass = 0; pass < 2 && st == BB_OK; pass++) {
		struct bb_trace trace;

		st = bb_trace_open(&trace, algorithm, &l->shape, l->error);
		while (st == BB_OK && bb_trace_begin(&trace)) {
			const bool viewed = l->view.round == 0 || l->view.round == trace.round + 1;

			for (int i = 0; i < trace.n && pass == 1 && viewed && st == BB_OK; i++)
				st = record_message(l, &trace, &trace.messages[i]);
			if (st == BB_OK)
				st = bb_trace_apply(&trace);
		}
		if (st == BB_OK && pass == 0)
			st = record_schedule(l, &trace);
		bb_trace_close(&trace);
	}
	return st;
}

/* ---- which algorithms ---------------------------------------------------------------------- */

static void separate(const struct explanation *l)
{
	if (l->out->length > 0)
		bb_strbuf_add(l->out, "\n");
}

static void decline(struct explanation *l, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void decline(struct explanation *l, const char *name, const char *format, ...)
{
	char why[REASON];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	separate(l);
	bb_strbuf_addf(l->out, "%s: %s\n", name, why);
	if (!*l->reason)
		snprintf(l->reason, sizeof(l->reason), "%.31s: %s", name, why);
}

static bb_status explain(struct explanation *l, const struct bb_algorithm *algorithm)
{
	const char *reason = algorithm->refuses && !(l->collective->flags & BB_VARIABLE)
				     ? algorithm->refuses(&l->shape)
				     : NULL;
	struct bb_role role;
	bb_status st;

	if (reason) {
		decline(l, algorithm->name, "not for this request: %s", reason);
		return BB_OK;
	}
	bb_algorithm_prepare(algorithm, &l->shape, 0, &role);
	if (l->view.round > role.rounds) {
		decline(l, algorithm->name, "only %zu round%s, no round %zu (--round)", role.rounds,
			bb_plural((long long)role.rounds), l->view.round);
		return BB_OK;
	}
	separate(l);
	l->explained++;
	BB_TRY(st, bb_explain(l->out, algorithm, &l->shape, &l->view, l->error), out);
	st = record_algorithm(l, algorithm);
out:
	return st;
}

static bb_status explain_named(struct explanation *l, const char *name)
{
	const struct bb_algorithm *algorithm = bb_algorithm_find(l->collective, name);

	if (algorithm)
		return explain(l, algorithm);
	if (strcmp(name, "auto") == 0)
		decline(l, name, "no algorithm of its own, but the %s backend's choice at run time",
			l->options->backend->name);
	else if (bb_native_find(l->natives, name))
		decline(l, name, "has no schedule to explain: it is the %s backend's own",
			l->options->backend->name);
	else
		decline(l, name, "not an algorithm of %s, see --list", l->collective->name);
	return BB_OK;
}

/* The requested algorithms. The choice of auto is known only at run time; a classic algorithm is
   shown instead. */
static bb_status explain_requested(struct explanation *l)
{
	const char *const classic = l->collective == &bb_hypercube ? "hypercube" : "ring";
	const char *rest = l->settings->algorithms;
	char name[BB_WORD];
	bb_status st = BB_OK;

	if (strcmp(rest, "auto") == 0) {
		bb_strbuf_addf(l->out,
			       "auto is the backend's choice at run time; this is %s (others: "
			       "--algo NAME).\n",
			       classic);
		l->view.above = 2;
		return explain_named(l, classic);
	}
	if (strcmp(rest, "all") == 0) {
		for (int i = 0; bb_algorithms[i] && st == BB_OK; i++)
			if (bb_algorithms[i]->collective == l->collective)
				st = explain(l, bb_algorithms[i]);
		return st;
	}
	for (; st == BB_OK && bb_next_word(&rest, name); rest += *rest == ',')
		st = explain_named(l, name);
	return st;
}

bb_status bb_explanation_add(struct bb_strbuf *out, struct bb_run *run,
			     const struct bb_collective_options *settings,
			     const struct bb_native *natives)
{
	const struct bb_collective *collective = run->benchmark->subject;
	const struct bb_options *o = &run->options;
	const struct bb_matrices *m = &settings->matrices;
	const int n = settings->explained_ranks;
	const size_t ranks = (size_t)n, share = collective->flags & BB_ROUNDED ? ranks : 1;
	struct explanation l = {.out = out,
				.run = run,
				.options = o,
				.settings = settings,
				.collective = collective,
				.natives = natives,
				.shape = {.nranks = n},
				.view = {.all = settings->all, .width = bb_table_limit(stdout)},
				.error = &run->error};
	size_t *matrix = NULL;
	bb_status st = BB_OK;

	if (settings->round_given)
		l.view.round = (size_t)settings->round;
	l.shape.count =
		(o->min_bytes_given ? o->min_bytes / bb_dtype_size(BB_FLOAT) : ranks) / share;
	if (collective->flags & BB_ROOTED)
		l.shape.root = settings->root;
	if (collective->flags & BB_VARIABLE) {
		l.shape.matrix = matrix = calloc(ranks * ranks, sizeof(*matrix));
		if (!matrix)
			return bb_no_memory(l.error, "the explanation");
		/* One element could not be shared out unevenly. */
		l.shape.count = l.shape.count < 2 ? 2 : l.shape.count;
		if (m->n == 0)
			bb_alltoallv_matrix(matrix, n, l.shape.count, settings->spread);
	}
	if (m->n == 0)
		st = explain_requested(&l);
	for (size_t k = 0; k < m->n && st == BB_OK; k++) {
		l.shape.count = 0;
		l.matrix = m->names[k];
		bb_matrices_counts(m, k, n, bb_dtype_size(BB_FLOAT), matrix);
		separate(&l);
		bb_strbuf_add(out, "Matrix ");
		bb_matrices_describe(m, k, n, out);
		bb_strbuf_add(out, "\n");
		st = explain_requested(&l);
	}
	free(matrix);
	if (st == BB_OK && l.explained == 0)
		st = bb_fail(l.error, BB_EUNSUPPORTED, "%s", l.reason);
	return st;
}
