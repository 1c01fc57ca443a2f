/*
 * compare.c - acceptance compare: what became slower or faster between two runs, beyond their
 * noise?
 */
#include "acceptance/claims.h"
#include "acceptance/confidence.h"
#include "acceptance/records.h"
#include "core/printable.h"
#include "acceptance/tool/tool.h"
#include "core/output.h"
#include "core/table.h"
#include "core/units.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- reading -------------------------------------------------------------------------------- */

static bb_status add_file(const char *path, struct bb_records *records, struct bb_error *error)
{
	const size_t before = records->n;
	struct bb_claim_file log = {.n = 0};
	struct bb_error none = {0};
	char *text = NULL;
	size_t length;
	bb_status st;

	BB_TRY(st, bb_read_whole(path, BB_RECORDS_BYTES, &text, &length, error), out);
	BB_TRY(st, bb_records_read(path, text, length, records, error), out);
	if (records->n > before || length == 0)
		goto out;
	/* The tables of a log of nccl-tests. */
	if (bb_claims_read(path, text, length, &log, &none) != BB_OK)
		st = bb_fail(error, BB_EUSAGE,
			     "%s has no records; compare takes what --json wrote, or logs of "
			     "nccl-tests",
			     path);
	else if (!bb_claims_records(path, &log, records))
		st = bb_no_memory(error, path);
	bb_claims_free(&log);
out:
	free(text);
	return st;
}

/* The records of a file, or of the record files of a folder: of a run of acceptance, or of any
   other. */
static bb_status read_side(const char *path, struct bb_records *records, struct bb_error *error)
{
	glob_t found = {.gl_pathc = 0};
	char pattern[4096];
	struct stat about;
	bool is_run;
	bb_status st = BB_OK;

	if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
		return add_file(path, records, error);
	snprintf(pattern, sizeof(pattern), "%s/records/*.jsonl", path);
	is_run = glob(pattern, GLOB_NOESCAPE, NULL, &found) == 0;
	snprintf(pattern, sizeof(pattern), "%s/*.jsonl", path);
	if (!is_run && glob(pattern, GLOB_NOESCAPE, NULL, &found) != 0)
		st = bb_fail(error, BB_EUSAGE, "%s: no record files (*.jsonl) in this folder",
			     path);
	for (size_t i = 0; st == BB_OK && i < found.gl_pathc; i++) {
		const char *part = strrchr(found.gl_pathv[i], '.');

		while (part > found.gl_pathv[i] && part[-1] != '.')
			part--;
		/* STEP.simN.jsonl is what a gate expects, which nobody measured. */
		if (!is_run || strncmp(part, "sim", 3) != 0)
			st = add_file(found.gl_pathv[i], records, error);
	}
	globfree(&found);
	return st;
}

/*
 * The least share of the results of BEFORE that must be judged for the answer "not slower": what is
 * slow often is slow in one of few algorithms or sizes, and one of five must not hide among those
 * that could not be judged.
 */
#define LEAST_SHARE 0.8

/* One quantity that both runs measured. */
struct difference {
	char subject[BB_SUBJECT_TEXT];
	const char *unit;
	double before, after; /* their geometric means, in UNIT */
	double change;        /* of speed, as a fraction: below 0 it is slower now */
	double low, high;     /* 95% interval of that; NAN: the noise is unknown */
	bool within_runs;     /* the interval is of the iterations of one run on each side */
};

struct differences { /* zero-initialise */
	struct difference *list;
	size_t n;
	size_t only_before, only_after; /* subjects of one side alone */
	size_t wrong;                   /* results of AFTER with wrong data */
};

/* The first of these quantities that a record has is compared; a record without any is not. */
static const struct quantity {
	const char *field, *unit;
	bool more_is_better;
} quantities[] = {
	{"busbw_GBps", "GB/s", true}, {"GBps", "GB/s", true},   {"step_us", "us", false},
	{"layer_us", "us", false},    {"time_us", "us", false}, {"p50_us", "us", false},
	{NULL, NULL, false},
};

/* ---- samples -------------------------------------------------------------------------------- */

/* One record of one side. */
struct sample {
	char subject[BB_SUBJECT_TEXT];
	const char *kind;
	bool after; /* else before */
	const struct quantity *quantity;
	double speed; /* the logarithm of speed, in any unit */
	double error; /* its standard error within the run; NAN: not known */
	bool exact;   /* virtual time without noise */
};

static const struct quantity *quantity_of(const struct json_t *record)
{
	for (const struct quantity *q = quantities; q->field; q++)
		if (bb_record_number(record, q->field) > 0)
			return q;
	return NULL;
}

static int by_subject(const void *a, const void *b)
{
	const struct sample *const x = a, *const y = b;
	const int kinds = strcmp(x->kind, y->kind), subjects = strcmp(x->subject, y->subject);

	return kinds != 0 ? kinds : subjects != 0 ? subjects : x->after - y->after;
}

/* Writes the samples of RECORDS, one SIDE, to TO. Returns how many there are. */
static size_t gather(const struct bb_records *records, bool after, struct sample *to)
{
	static const char *const ends[][2] = {{"ci_low_us", "ci_high_us"}, {"low_us", "high_us"}};
	size_t n = 0;

	for (size_t i = 0; i < records->n; i++) {
		const struct bb_read_record *const r = &records->list[i];
		const struct quantity *const q = quantity_of(r->json);
		struct sample *const sample = &to[n];
		double value;

		if (!q)
			continue;
		value = log(bb_record_number(r->json, q->field));
		bb_record_subject(sample->subject, r, BB_SUBJECT_ALL);
		sample->kind = r->kind;
		sample->after = after;
		sample->quantity = q;
		sample->speed = q->more_is_better ? value : -value;
		sample->exact = bb_record_bool(r->run, "virtual_time") &&
				!(bb_record_number(r->run, "link_noise") > 0);
		/* The interval of a median is 1.96 standard errors to each side. */
		sample->error = NAN;
		for (int e = 0; isnan(sample->error) && e < 2; e++) {
			const double low = bb_record_number(r->json, ends[e][0]);
			const double high = bb_record_number(r->json, ends[e][1]);

			if (low > 0 && high >= low)
				sample->error = log(high / low) / (2 * 1.96);
		}
		n++;
	}
	return n;
}

/* ---- one subject ---------------------------------------------------------------------------- */

struct mean {
	double value, variance; /* of the logarithm; the variance is that of the mean */
	bool exact;
};

static struct mean mean_of(const struct sample *samples, size_t n)
{
	struct mean m = {.exact = true};
	double squares = 0;

	for (size_t i = 0; i < n; i++) {
		m.value += samples[i].speed / (double)n;
		m.exact = m.exact && samples[i].exact;
	}
	for (size_t i = 0; i < n; i++)
		squares += (samples[i].speed - m.value) * (samples[i].speed - m.value);
	if (n > 1)
		m.variance = squares / (double)(n - 1) / (double)n;
	return m;
}

/* Compares the first N of SAMPLES with the MORE ones behind them. */
static struct difference compare(const struct sample *samples, size_t n, size_t more)
{
	const struct mean a = mean_of(samples, n), b = mean_of(samples + n, more);
	const double sign = samples->quantity->more_is_better ? 1 : -1;
	struct difference d = {.unit = samples->quantity->unit,
			       .before = exp(sign * a.value),
			       .after = exp(sign * b.value),
			       .change = expm1(b.value - a.value)};
	double half = NAN;

	memcpy(d.subject, samples->subject, sizeof(d.subject));
	if (a.exact && b.exact) {
		half = 0;
	} else if (n > 1 && more > 1) {
		/* Half the 95% interval of the difference of the means (Welch, 1947). */
		const double variance = a.variance + b.variance;
		const double degrees = variance * variance /
				       (a.variance * a.variance / (double)(n - 1) +
					b.variance * b.variance / (double)(more - 1));

		half = variance > 0 ? bb_student_quantile(0.975, degrees) * sqrt(variance) : 0;
	} else if (n == 1 && more == 1) {
		half = 1.96 * hypot(samples[0].error, samples[1].error);
		d.within_runs = !isnan(half);
	}
	d.low = expm1(b.value - a.value - half);
	d.high = expm1(b.value - a.value + half);
	return d;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int by_change(const void *a, const void *b)
{
	const struct difference *const x = a, *const y = b;

	return (x->change > y->change) - (x->change < y->change);
}

/*
 * Compares AFTER with BEFORE, records of the same subject (bb_record_subject). The list is sorted
 * by change, the slowest first. The interval follows from the spread between runs if both sides
 * have several (Welch's t of logarithms), else from the intervals of medians within one run, which
 * do not include the variation between runs. Virtual time without noise is exact: the interval is
 * the change. BB_EINTERNAL without memory. Free OUT's list whatever comes back.
 */
static bb_status compare_all(const struct bb_records *before, const struct bb_records *after,
			     struct differences *out, struct bb_error *error)
{
	struct sample *const all = calloc(before->n + after->n + 1, sizeof(*all));
	size_t n;

	*out = (struct differences){.list = calloc(before->n + 1, sizeof(*out->list))};
	if (!all || !out->list) {
		free(all);
		return bb_no_memory(error, "a comparison");
	}
	n = gather(before, false, all);
	n += gather(after, true, all + n);
	qsort(all, n, sizeof(*all), by_subject);
	for (size_t i = 0, of[2]; i < n; i += of[0] + of[1]) {
		const struct sample *const first = &all[i];

		of[0] = of[1] = 0;
		for (size_t k = i; k < n && strcmp(all[k].kind, first->kind) == 0 &&
				   strcmp(all[k].subject, first->subject) == 0;
		     k++)
			of[all[k].after]++;
		/* A quantity that one side lacks cannot be compared with another. */
		if (of[0] > 0 && of[1] > 0 && first[of[0]].quantity == first->quantity)
			out->list[out->n++] = compare(first, of[0], of[1]);
		out->only_before += of[1] == 0;
		out->only_after += of[0] == 0;
	}
	free(all);
	qsort(out->list, out->n, sizeof(*out->list), by_change);
	for (size_t i = 0; i < after->n; i++)
		out->wrong += quantity_of(after->list[i].json) &&
			      bb_record_number(after->list[i].json, "wrong") > 0;
	return BB_OK;
}

/* ---- what is printed ------------------------------------------------------------------------ */

static void add_side(const char *name, const char *path, const struct bb_records *records,
		     struct bb_strbuf *out)
{
	const struct bb_read_record *const first = bb_records_first(records, "run");
	const struct json_t *const run = first ? first->json : NULL;
	const char *const host = bb_record_string(run, "host");
	const char *const time = bb_record_string(run, "start_time");

	bb_printable_line(out, "# %-7s %s%s%s%s%s", name, path, host ? ", " : "", host ? host : "",
			  time ? ", " : "", time ? time : "");
}

/* Appends the values of FIELD in the runs of RECORDS, each once, in the order of the runs. */
static void add_values(const struct bb_records *records, const char *field, struct bb_strbuf *out)
{
	for (size_t i = 0; i < records->n; i++) {
		const struct bb_read_record *const r = &records->list[i];
		const char *const value = bb_record_string(r->json, field);
		bool known = strcmp(r->kind, "run") != 0;

		for (size_t k = 0; k < i && !known; k++) {
			const char *other = bb_record_string(records->list[k].json, field);

			known = strcmp(records->list[k].kind, "run") == 0 &&
				strcmp(value ? value : "none", other ? other : "none") == 0;
		}
		if (!known)
			bb_strbuf_addf(out, "%s%s", out->length > 0 ? ", " : "",
				       value ? value : "none");
	}
	if (out->length == 0)
		bb_strbuf_add(out, "none");
}

/* What was not the same on both sides, besides the numbers. */
static void add_changes(const struct bb_records *before, const struct bb_records *after,
			struct bb_strbuf *out)
{
	static const char *const names[] = {
		"version", "backend", "library", "library_p2p", "launch",   "host", "cpu",
		"os",      "link",    "cluster", "fault",       "topology", NULL};

	for (int i = 0; names[i]; i++) {
		struct bb_strbuf a = {0}, b = {0};

		add_values(before, names[i], &a);
		add_values(after, names[i], &b);
		if (strcmp(bb_strbuf_text(&a), bb_strbuf_text(&b)) != 0)
			bb_printable_line(out, "# changed: %s: %s -> %s", names[i],
					  bb_strbuf_text(&a), bb_strbuf_text(&b));
		out->failed |= bb_strbuf_failed(&a) || bb_strbuf_failed(&b);
		bb_strbuf_free(&a);
		bb_strbuf_free(&b);
	}
}

/* Counters that rose on one side alone. Returns false without memory. */
static bool add_counters(const struct bb_records *before, const struct bb_records *after,
			 struct bb_strbuf *out)
{
	struct bb_rises rises[2] = {{.n = 0}}; /* after, before */
	const bool good = bb_rises_add(&rises[0], after) && bb_rises_add(&rises[1], before);

	for (int side = 0; good && side < 2; side++)
		for (size_t i = 0; i < rises[side].n; i++) {
			const struct bb_rise *const rise = &rises[side].list[i];

			if (bb_rises_have(&rises[1 - side], rise))
				continue;
			bb_printable_line(out, "# only %s: %s %s %s rose by %lld (%s)",
					  side ? "before" : "after", rise->host, rise->device,
					  rise->counter, (long long)rise->by,
					  bb_counter_class_name(rise->class));
		}
	free(rises[0].list);
	free(rises[1].list);
	return good;
}

enum kind { SAME, FASTER, SLOWER, UNCLEAR, BEYOND };

/* BEYOND: slower by more than TOLERANCE; UNCLEAR: the noise could hide that. */
static enum kind kind_of(const struct difference *d, double tolerance)
{
	const double high = isnan(d->high) ? d->change : d->high;
	const double low = isnan(d->low) ? d->change : d->low;

	if (high < -tolerance)
		return BEYOND;
	if (low < -tolerance)
		return UNCLEAR;
	if (isnan(d->low))
		return d->change > tolerance ? FASTER : SAME;
	return high < 0 ? SLOWER : low > 0 ? FASTER : SAME;
}

struct tally {
	size_t of[BEYOND + 1];
	size_t within, single; /* intervals within runs; differences without one */
};

static struct tally add_rows(const struct differences *d, double tolerance, bool all,
			     struct bb_strbuf *out)
{
	static const struct bb_table_head heads[] = {
		{"speed", "", 7}, {"95% interval", "", 12}, {"before", "", 6}, {"after", "", 6},
		{"unit", "", -4}, {"result", "", -24},      {NULL, NULL, 0}};
	struct bb_text_table table = {.limit = bb_table_limit(stdout)};
	struct tally t = {.within = 0};

	bb_table_columns(&table, heads, 1);
	for (size_t i = 0; i < d->n; i++) {
		const struct difference *const row = &d->list[i];
		const enum kind kind = kind_of(row, tolerance);
		struct bb_strbuf subject = {0};

		t.of[kind]++;
		t.within += row->within_runs;
		t.single += isnan(row->low);
		if (!all && (kind == SAME || kind == UNCLEAR))
			continue;
		bb_printable_add(&subject, row->subject);
		bb_table_cellf(&table, "%+.1f%%", 100 * row->change);
		if (isnan(row->low))
			bb_table_cell(&table, "no interval");
		else
			bb_table_cellf(&table, "%+.1f%% to %+.1f%%", 100 * row->low,
				       100 * row->high);
		bb_table_cellf(&table, "%.4g\t%.4g\t%s", row->before, row->after, row->unit);
		bb_table_cell(&table, bb_strbuf_text(&subject));
		bb_strbuf_free(&subject);
	}
	if (table.ncells > 0)
		bb_table_print(&table, out);
	bb_table_free(&table);
	return t;
}

static void add_notes(const struct differences *d, const struct tally *t, double tolerance,
		      struct bb_strbuf *out)
{
	bb_strbuf_addf(out,
		       "# %zu compared: %zu slower by more than %g%%, %zu slower by less, %zu "
		       "faster, %zu the same\n",
		       d->n, t->of[BEYOND], 100 * tolerance, t->of[SLOWER], t->of[FASTER],
		       t->of[SAME]);
	if (t->of[UNCLEAR] > 0)
		bb_strbuf_addf(out, "# %zu too noisy to exclude %g%% slower; --all lists them\n",
			       t->of[UNCLEAR], 100 * tolerance);
	if (d->only_before + d->only_after > 0)
		bb_strbuf_addf(out, "# not compared: %zu only before, %zu only after\n",
			       d->only_before, d->only_after);
	if (t->within > 0)
		bb_strbuf_add(out, "# One run on each side: the intervals hold within these runs; "
				   "several runs on each side show what changes from run to run\n");
	if (t->single > 0)
		bb_strbuf_addf(out,
			       "# %zu without an interval are judged by their change alone: "
			       "several runs on each side, or -I 1, give one\n",
			       t->single);
	if (d->n - t->single > 20)
		bb_strbuf_addf(out,
			       "# By chance alone about %zu of %zu equal ones would look slower or "
			       "faster\n",
			       (d->n - t->single + 19) / 20, d->n - t->single);
}

/* True if some of the runs of both sides are simulated, and some are not. */
static bool are_mixed(const struct bb_records *before, const struct bb_records *after)
{
	size_t of[2] = {0};

	for (const struct bb_records *side = before;; side = after) {
		for (size_t i = 0; i < side->n; i++)
			if (strcmp(side->list[i].kind, "run") == 0)
				of[bb_record_bool(side->list[i].json, "virtual_time")]++;
		if (side == after)
			return of[0] > 0 && of[1] > 0;
	}
}

static bb_status add_verdict(const struct differences *d, const struct tally *t, double tolerance,
			     const char *objection, struct bb_strbuf *out)
{
	const size_t of = d->n + d->only_before;

	if (d->wrong > 0) {
		bb_strbuf_addf(out, "Verdict: wrong data in %zu result%s after\n", d->wrong,
			       bb_plural(d->wrong));
		return BB_EDATA;
	}
	if (d->n == 0 && !objection)
		objection = "nothing was measured on both sides";
	if (objection) {
		bb_strbuf_addf(out, "Verdict: could not judge: %s\n", objection);
		return BB_EBACKEND;
	}
	if (t->of[BEYOND] > 0) {
		bb_strbuf_addf(
			out, "Verdict: slower: %zu of %zu by more than %g%%, the worst by %.1f%%\n",
			t->of[BEYOND], d->n, 100 * tolerance, -100 * d->list[0].change);
		return BB_EDATA;
	}
	/* Too little can be judged to say that nothing became slower. */
	if ((double)(d->n - t->of[UNCLEAR]) < LEAST_SHARE * (double)of) {
		bb_strbuf_addf(out,
			       "Verdict: could not judge: %zu of %zu result%s can be judged, %g%% "
			       "are needed",
			       d->n - t->of[UNCLEAR], of, bb_plural(of), 100 * LEAST_SHARE);
		if (t->of[UNCLEAR] > 0)
			bb_strbuf_addf(out, "; %zu too noisy: repeat both sides", t->of[UNCLEAR]);
		if (d->only_before > 0)
			bb_strbuf_addf(out, "; %zu only before: measure the same afterwards",
				       d->only_before);
		bb_strbuf_add(out, "\n");
		return BB_EBACKEND;
	}
	bb_strbuf_addf(out, "Verdict: not slower by more than %g%%: %zu of %zu result%s\n",
		       100 * tolerance, d->n - t->of[UNCLEAR], d->n, bb_plural(d->n));
	return BB_OK;
}

bb_status bb_acceptance_compare(struct bb_acceptance_job *job, struct bb_error *error)
{
	const double tolerance = job->o->tolerance;
	struct bb_records before = {.n = 0}, after = {.n = 0};
	struct differences d = {.n = 0};
	struct bb_strbuf out = {0};
	struct tally tally;
	bb_status st, verdict;

	if (job->noperands != 2)
		return bb_fail(error, BB_EUSAGE,
			       "compare: it takes two files or folders, BEFORE and AFTER; %d given",
			       job->noperands);
	BB_TRY(st, read_side(job->operands[0], &before, error), out);
	BB_TRY(st, read_side(job->operands[1], &after, error), out);
	BB_TRY(st, compare_all(&before, &after, &d, error), out);
	add_side("before:", job->operands[0], &before, &out);
	add_side("after:", job->operands[1], &after, &out);
	add_changes(&before, &after, &out);
	if (!add_counters(&before, &after, &out)) {
		st = bb_no_memory(error, "counters");
		goto out;
	}
	tally = add_rows(&d, tolerance, job->o->all, &out);
	add_notes(&d, &tally, tolerance, &out);
	verdict = add_verdict(
		&d, &tally, tolerance,
		are_mixed(&before, &after) ? "simulated and measured runs are not compared" : NULL,
		&out);
	bb_strbuf_fold(&out, 0, bb_fold_limit(stdout));
	BB_TRY(st, bb_write_text("-", &out, error), out);
	st = verdict;
out:
	bb_strbuf_free(&out);
	free(d.list);
	bb_records_free(&before);
	bb_records_free(&after);
	return st;
}
