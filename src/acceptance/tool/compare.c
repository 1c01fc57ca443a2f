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
	bb_status st = BB_OK;

	if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
		return add_file(path, records, error);
	snprintf(pattern, sizeof(pattern), "%s/records/*.jsonl", path);
	const bool is_run = glob(pattern, GLOB_NOESCAPE, NULL, &found) == 0;
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

/* BEYOND: slower by more than the tolerance; UNCLEAR: the noise could hide that. */
enum kind { SAME, FASTER, SLOWER, UNCLEAR, BEYOND, KINDS };

/* One quantity that both runs measured. */
struct difference {
	char subject[BB_SUBJECT_TEXT];
	const char *unit;
	double before, after; /* their geometric means, in UNIT */
	double change;        /* of speed, as a fraction: below 0 it is slower now */
	double low, high;     /* 95% interval of that; NAN: the noise is unknown */
	bool within_runs;     /* the interval is of the iterations of one run on each side */
	enum kind kind;
};

/* Both sides, 0: before, 1: after, and what differs; zero-initialise. */
struct comparison {
	struct bb_records records[2];
	double tolerance;
	struct difference *list; /* the slowest change first */
	size_t n, of[KINDS];
	size_t within, single; /* intervals within runs; differences without one */
	size_t only[2];        /* subjects of one side alone */
	size_t wrong;          /* results after with wrong data */
	size_t runs[2];        /* of both sides: measured, simulated */
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
	int side;
	const struct quantity *quantity;
	double speed; /* the logarithm of speed, in any unit */
	double error; /* its standard error within the run; NAN: not known */
	bool exact;   /* virtual time without noise */
};

static int by_subject(const void *a, const void *b)
{
	const struct sample *const x = a, *const y = b;
	const int kinds = strcmp(x->kind, y->kind), subjects = strcmp(x->subject, y->subject);

	return kinds != 0 ? kinds : subjects != 0 ? subjects : x->side - y->side;
}

/* Writes the samples of SIDE to TO, and counts its runs and wrong results. Returns how many there
   are. */
static size_t gather(struct comparison *c, int side, struct sample *to)
{
	static const char *const ends[][2] = {{"ci_low_us", "ci_high_us"}, {"low_us", "high_us"}};
	size_t n = 0;

	for (size_t i = 0; i < c->records[side].n; i++) {
		const struct bb_read_record *const r = &c->records[side].list[i];
		const struct quantity *q = quantities;
		struct sample *const sample = &to[n];

		if (strcmp(r->kind, "run") == 0)
			c->runs[bb_record_bool(r->json, "virtual_time")]++;
		while (q->field && !(bb_record_number(r->json, q->field) > 0))
			q++;
		if (!q->field)
			continue;
		c->wrong += side == 1 && bb_record_number(r->json, "wrong") > 0;
		const double value = log(bb_record_number(r->json, q->field));
		bb_record_subject(sample->subject, r, BB_SUBJECT_ALL);
		sample->kind = r->kind;
		sample->side = side;
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

/* Compares the first N of SAMPLES with the MORE ones behind them. */
static struct difference compare(const struct sample *samples, size_t n, size_t more,
				 double tolerance)
{
	const size_t step = sizeof(*samples) / sizeof(double);
	/* Of the logarithms. */
	const struct bb_confidence a = bb_confidence_every(&samples->speed, n, step);
	const struct bb_confidence b = bb_confidence_every(&samples[n].speed, more, step);
	const double sign = samples->quantity->more_is_better ? 1 : -1;
	struct difference d = {.unit = samples->quantity->unit,
			       .before = exp(sign * a.mean),
			       .after = exp(sign * b.mean),
			       .change = expm1(b.mean - a.mean)};
	double half = NAN, low, high;
	bool exact = true;

	memcpy(d.subject, samples->subject, sizeof(d.subject));
	for (size_t i = 0; i < n + more; i++)
		exact &= samples[i].exact;
	if (exact) {
		half = 0;
	} else if (n > 1 && more > 1) {
		/* Half the 95% interval of the difference of the means (Welch, 1947). */
		const double of_a = a.stdev * a.stdev / (double)n;
		const double of_b = b.stdev * b.stdev / (double)more;
		const double variance = of_a + of_b;
		const double degrees =
			variance * variance /
			(of_a * of_a / (double)(n - 1) + of_b * of_b / (double)(more - 1));

		half = variance > 0 ? bb_student_quantile(0.975, degrees) * sqrt(variance) : 0;
	} else if (n == 1 && more == 1) {
		half = 1.96 * hypot(samples[0].error, samples[1].error);
		d.within_runs = !isnan(half);
	}
	d.low = expm1(b.mean - a.mean - half);
	d.high = expm1(b.mean - a.mean + half);
	/* Without an interval the change alone counts. */
	low = isnan(d.low) ? d.change : d.low;
	high = isnan(d.low) ? d.change : d.high;
	d.kind = high < -tolerance  ? BEYOND
		 : low < -tolerance ? UNCLEAR
		 : isnan(d.low)     ? (d.change > tolerance ? FASTER : SAME)
		 : high < 0         ? SLOWER
		 : low > 0          ? FASTER
				    : SAME;
	return d;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int by_change(const void *a, const void *b)
{
	const struct difference *const x = a, *const y = b;

	return (x->change > y->change) - (x->change < y->change);
}

/*
 * Compares records of the same subject (bb_record_subject). The interval follows from the spread
 * between runs if both sides have several (Welch's t of logarithms), else from the intervals of
 * medians within one run, which do not include the variation between runs. Virtual time without
 * noise is exact: the interval is the change. BB_EINTERNAL without memory. The list is the
 * caller's to free whatever comes back.
 */
static bb_status compare_all(struct comparison *c, struct bb_error *error)
{
	struct sample *const all = calloc(c->records[0].n + c->records[1].n + 1, sizeof(*all));
	size_t n;

	c->list = calloc(c->records[0].n + 1, sizeof(*c->list));
	if (!all || !c->list) {
		free(all);
		return bb_no_memory(error, "a comparison");
	}
	n = gather(c, 0, all);
	n += gather(c, 1, all + n);
	qsort(all, n, sizeof(*all), by_subject);
	for (size_t i = 0, of[2]; i < n; i += of[0] + of[1]) {
		const struct sample *const first = &all[i];

		of[0] = of[1] = 0;
		for (size_t k = i; k < n && strcmp(all[k].kind, first->kind) == 0 &&
				   strcmp(all[k].subject, first->subject) == 0;
		     k++)
			of[all[k].side]++;
		c->only[0] += of[1] == 0;
		c->only[1] += of[0] == 0;
		/* A quantity that one side lacks cannot be compared with another. */
		if (of[0] > 0 && of[1] > 0 && first[of[0]].quantity == first->quantity) {
			struct difference *const d = &c->list[c->n++];

			*d = compare(first, of[0], of[1], c->tolerance);
			c->of[d->kind]++;
			c->within += d->within_runs;
			c->single += isnan(d->low);
		}
	}
	free(all);
	qsort(c->list, c->n, sizeof(*c->list), by_change);
	return BB_OK;
}

/* ---- what is printed ------------------------------------------------------------------------ */

/* Appends the values of FIELD in the runs of RECORDS, each once, in the order of the runs. */
static void add_values(const struct bb_records *records, const char *field, struct bb_strbuf *out)
{
	for (size_t i = 0; i < records->n; i++) {
		const struct bb_read_record *const r = &records->list[i];
		const char *const value = bb_record_string(r->json, field) ?: "none";
		bool known = strcmp(r->kind, "run") != 0;

		for (size_t k = 0; k < i && !known; k++)
			known = strcmp(records->list[k].kind, "run") == 0 &&
				strcmp(value, bb_record_string(records->list[k].json, field)
						      ?: "none") == 0;
		if (!known)
			bb_strbuf_addf(out, "%s%s", out->length > 0 ? ", " : "", value);
	}
	if (out->length == 0)
		bb_strbuf_add(out, "none");
}

/* The sides, and what was not the same on both besides the numbers: settings, and counters that
   rose on one side alone. Returns false without memory. */
static bool add_sides(const struct comparison *c, char *const *paths, struct bb_strbuf *out)
{
	static const char *const sides[] = {"before", "after"};
	static const char *const names[] = {
		"version", "backend", "library", "library_p2p", "launch",   "host", "cpu",
		"os",      "link",    "cluster", "fault",       "topology", NULL};
	struct bb_rises rises[2] = {{.n = 0}};
	const bool good =
		bb_rises_add(&rises[0], &c->records[0]) && bb_rises_add(&rises[1], &c->records[1]);

	for (int side = 0; side < 2; side++) {
		const struct json_t *const run = bb_records_first(&c->records[side], "run");
		const char *const host = bb_record_string(run, "host");
		const char *const time = bb_record_string(run, "start_time");

		bb_printable_line(out, "# %s:%s %s%s%s%s%s", sides[side], side ? " " : "",
				  paths[side], host ? ", " : "", host ?: "", time ? ", " : "",
				  time ?: "");
	}
	for (int i = 0; names[i]; i++) {
		struct bb_strbuf a = {0}, b = {0};

		add_values(&c->records[0], names[i], &a);
		add_values(&c->records[1], names[i], &b);
		if (strcmp(bb_strbuf_text(&a), bb_strbuf_text(&b)) != 0)
			bb_printable_line(out, "# changed: %s: %s -> %s", names[i],
					  bb_strbuf_text(&a), bb_strbuf_text(&b));
		out->failed |= bb_strbuf_failed(&a) || bb_strbuf_failed(&b);
		bb_strbuf_free(&a);
		bb_strbuf_free(&b);
	}
	for (int side = 1; good && side >= 0; side--)
		for (size_t i = 0; i < rises[side].n; i++) {
			const struct bb_rise *const rise = &rises[side].list[i];

			if (!bb_rises_have(&rises[1 - side], rise))
				bb_printable_line(out, "# only %s: %s %s %s rose by %lld (%s)",
						  sides[side], rise->host, rise->device,
						  rise->counter, (long long)rise->by,
						  bb_counter_class_name(rise->class));
		}
	free(rises[0].list);
	free(rises[1].list);
	return good;
}

static void add_rows(const struct comparison *c, bool all, struct bb_strbuf *out)
{
	static const struct bb_table_head heads[] = {
		{"speed", "", 7}, {"95% interval", "", 12}, {"before", "", 6}, {"after", "", 6},
		{"unit", "", -4}, {"result", "", -24},      {NULL, NULL, 0}};
	struct bb_text_table table = {.limit = bb_table_limit(stdout)};

	bb_table_columns(&table, heads, 1);
	for (size_t i = 0; i < c->n; i++) {
		const struct difference *const row = &c->list[i];
		struct bb_strbuf subject = {0};

		if (!all && (row->kind == SAME || row->kind == UNCLEAR))
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
}

static void add_notes(const struct comparison *c, struct bb_strbuf *out)
{
	const double percent = 100 * c->tolerance;

	bb_strbuf_addf(out,
		       "# %zu compared: %zu slower by more than %g%%, %zu slower by less, %zu "
		       "faster, %zu the same\n",
		       c->n, c->of[BEYOND], percent, c->of[SLOWER], c->of[FASTER], c->of[SAME]);
	if (c->of[UNCLEAR] > 0)
		bb_strbuf_addf(out, "# %zu too noisy to exclude %g%% slower; --all lists them\n",
			       c->of[UNCLEAR], percent);
	if (c->only[0] + c->only[1] > 0)
		bb_strbuf_addf(out, "# not compared: %zu only before, %zu only after\n", c->only[0],
			       c->only[1]);
	if (c->within > 0)
		bb_strbuf_add(out, "# One run on each side: the intervals hold within these runs; "
				   "several runs on each side show what changes from run to run\n");
	if (c->single > 0)
		bb_strbuf_addf(out,
			       "# %zu without an interval are judged by their change alone: "
			       "several runs on each side, or -I 1, give one\n",
			       c->single);
	if (c->n - c->single > 20)
		bb_strbuf_addf(out,
			       "# By chance alone about %zu of %zu equal ones would look slower or "
			       "faster\n",
			       (c->n - c->single + 19) / 20, c->n - c->single);
}

static bb_status add_verdict(const struct comparison *c, struct bb_strbuf *out)
{
	const size_t of = c->n + c->only[0], judged = c->n - c->of[UNCLEAR];

	if (c->wrong > 0) {
		bb_strbuf_addf(out, "Verdict: wrong data in %zu result%s after\n", c->wrong,
			       bb_plural(c->wrong));
		return BB_EDATA;
	}
	if (c->n == 0 || (c->runs[0] > 0 && c->runs[1] > 0)) {
		bb_strbuf_addf(out, "Verdict: could not judge: %s\n",
			       c->runs[0] > 0 && c->runs[1] > 0
				       ? "simulated and measured runs are not compared"
				       : "nothing was measured on both sides");
		return BB_EBACKEND;
	}
	if (c->of[BEYOND] > 0) {
		bb_strbuf_addf(
			out, "Verdict: slower: %zu of %zu by more than %g%%, the worst by %.1f%%\n",
			c->of[BEYOND], c->n, 100 * c->tolerance, -100 * c->list[0].change);
		return BB_EDATA;
	}
	/* Too little can be judged to say that nothing became slower. */
	if ((double)judged < LEAST_SHARE * (double)of) {
		bb_strbuf_addf(out,
			       "Verdict: could not judge: %zu of %zu result%s can be judged, %g%% "
			       "are needed",
			       judged, of, bb_plural(of), 100 * LEAST_SHARE);
		if (c->of[UNCLEAR] > 0)
			bb_strbuf_addf(out, "; %zu too noisy: repeat both sides", c->of[UNCLEAR]);
		if (c->only[0] > 0)
			bb_strbuf_addf(out, "; %zu only before: measure the same afterwards",
				       c->only[0]);
		bb_strbuf_add(out, "\n");
		return BB_EBACKEND;
	}
	bb_strbuf_addf(out, "Verdict: not slower by more than %g%%: %zu of %zu result%s\n",
		       100 * c->tolerance, judged, c->n, bb_plural(c->n));
	return BB_OK;
}

bb_status bb_acceptance_compare(struct bb_acceptance_job *job, struct bb_error *error)
{
	struct comparison c = {.tolerance = job->o->tolerance};
	struct bb_strbuf out = {0};
	bb_status st, verdict;

	if (job->noperands != 2)
		return bb_fail(error, BB_EUSAGE,
			       "compare: it takes two files or folders, BEFORE and AFTER; %d given",
			       job->noperands);
	BB_TRY(st, read_side(job->operands[0], &c.records[0], error), out);
	BB_TRY(st, read_side(job->operands[1], &c.records[1], error), out);
	BB_TRY(st, compare_all(&c, error), out);
	if (!add_sides(&c, job->operands, &out))
		BB_TRY(st, bb_no_memory(error, "counters"), out);
	add_rows(&c, job->o->all, &out);
	add_notes(&c, &out);
	verdict = add_verdict(&c, &out);
	bb_strbuf_fold(&out, 0, bb_fold_limit(stdout));
	BB_TRY(st, bb_write_text("-", &out, error), out);
	st = verdict;
out:
	bb_strbuf_free(&out);
	free(c.list);
	bb_records_free(&c.records[0]);
	bb_records_free(&c.records[1]);
	return st;
}
