/*
 * compare.c - records of two runs side by side.
 */
#include "acceptance/compare.h"

#include "acceptance/confidence.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first of these quantities that a record has is compared; a record without any is not. */
static const struct quantity {
	const char *field, *unit;
	bool more_is_better;
} quantities[] = {
	{"busbw_GBps", "GB/s", true}, {"GBps", "GB/s", true},   {"step_us", "us", false},
	{"layer_us", "us", false},    {"time_us", "us", false}, {"p50_us", "us", false},
	{NULL, NULL, false},
};

/* One record of one side. */
struct sample {
	char subject[BB_SUBJECT_TEXT];
	const char *kind;
	const struct quantity *quantity;
	double speed; /* the logarithm of speed, in any unit */
	double error; /* its standard error within the run; NAN: not known */
	bool exact;   /* virtual time without noise */
};

struct samples {
	struct sample *list;
	size_t n;
};

/* ---- samples of one side -------------------------------------------------------------------- */

static const struct quantity *quantity_of(const json_t *record)
{
	for (const struct quantity *q = quantities; q->field; q++)
		if (bb_record_number(record, q->field) > 0)
			return q;
	return NULL;
}

/* The interval of a median is 1.96 standard errors to each side. */
static double error_within(const json_t *record)
{
	static const char *const ends[][2] = {{"ci_low_us", "ci_high_us"}, {"low_us", "high_us"}};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		const double low = bb_record_number(record, ends[i][0]);
		const double high = bb_record_number(record, ends[i][1]);

		if (low > 0 && high >= low)
			return log(high / low) / (2 * 1.96);
	}
	return NAN;
}

static bool is_exact(const json_t *run)
{
	return bb_record_bool(run, "virtual_time") && !(bb_record_number(run, "link_noise") > 0);
}

static int by_subject(const void *a, const void *b)
{
	const struct sample *const x = a, *const y = b;
	const int kinds = strcmp(x->kind, y->kind);

	return kinds != 0 ? kinds : strcmp(x->subject, y->subject);
}

/* The samples of RECORDS, those of a subject beside each other. */
static bool gather(const struct bb_records *records, struct samples *s)
{
	s->list = calloc(records->n + 1, sizeof(*s->list));
	if (!s->list)
		return false;
	for (size_t i = 0; i < records->n; i++) {
		const struct bb_read_record *const r = &records->list[i];
		const struct quantity *const q = quantity_of(r->json);
		struct sample *const sample = &s->list[s->n];
		double value;

		if (!q)
			continue;
		value = log(bb_record_number(r->json, q->field));
		bb_record_subject(sample->subject, r, BB_SUBJECT_ALL);
		sample->kind = r->kind;
		sample->quantity = q;
		sample->speed = q->more_is_better ? value : -value;
		sample->error = error_within(r->json);
		sample->exact = is_exact(r->run);
		s->n++;
	}
	qsort(s->list, s->n, sizeof(*s->list), by_subject);
	return true;
}

/* How many samples from number I on are of its subject. */
static size_t alike(const struct samples *s, size_t i)
{
	size_t n = 1;

	while (i + n < s->n && by_subject(&s->list[i], &s->list[i + n]) == 0)
		n++;
	return n;
}

/* ---- one subject ---------------------------------------------------------------------------- */

struct mean {
	size_t n;
	double value, variance; /* of the logarithm; the variance is that of the mean */
	double error;           /* of the only sample, within its run */
	bool exact;
};

static struct mean mean_of(const struct sample *samples, size_t n)
{
	struct mean m = {.n = n, .error = samples[0].error, .exact = true};
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

/* Half the 95% interval of the difference of the means of several runs each (Welch, 1947). */
static double half_between(const struct mean *a, const struct mean *b)
{
	const double variance = a->variance + b->variance;
	const double degrees = variance * variance /
			       (a->variance * a->variance / (double)(a->n - 1) +
				b->variance * b->variance / (double)(b->n - 1));

	return variance > 0 ? bb_student_quantile(0.975, degrees) * sqrt(variance) : 0;
}

static struct bb_difference compare(const struct sample *before, size_t nbefore,
				    const struct sample *after, size_t nafter)
{
	const struct mean a = mean_of(before, nbefore), b = mean_of(after, nafter);
	const double sign = before->quantity->more_is_better ? 1 : -1;
	struct bb_difference d = {.unit = before->quantity->unit,
				  .nbefore = nbefore,
				  .nafter = nafter,
				  .before = exp(sign * a.value),
				  .after = exp(sign * b.value),
				  .change = expm1(b.value - a.value)};
	double half = NAN;

	memcpy(d.subject, before->subject, sizeof(d.subject));
	if (a.exact && b.exact) {
		half = 0;
	} else if (nbefore > 1 && nafter > 1) {
		half = half_between(&a, &b);
	} else if (nbefore == 1 && nafter == 1) {
		half = 1.96 * hypot(a.error, b.error);
		d.within_runs = !isnan(half);
	}
	d.low = expm1(b.value - a.value - half);
	d.high = expm1(b.value - a.value + half);
	return d;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int by_change(const void *a, const void *b)
{
	const struct bb_difference *const x = a, *const y = b;

	return (x->change > y->change) - (x->change < y->change);
}

static void merge(const struct samples *before, const struct samples *after,
		  struct bb_differences *out)
{
	for (size_t i = 0, k = 0; i < before->n || k < after->n;) {
		const size_t ni = i < before->n ? alike(before, i) : 0;
		const size_t nk = k < after->n ? alike(after, k) : 0;
		const int order = ni == 0   ? 1
				  : nk == 0 ? -1
					    : by_subject(&before->list[i], &after->list[k]);

		/* A quantity that one side lacks cannot be compared with another. */
		if (order == 0 && before->list[i].quantity == after->list[k].quantity)
			out->list[out->n++] = compare(&before->list[i], ni, &after->list[k], nk);
		out->only_before += order < 0;
		out->only_after += order > 0;
		i += order <= 0 ? ni : 0;
		k += order >= 0 ? nk : 0;
	}
}

bb_status bb_compare(const struct bb_records *before, const struct bb_records *after,
		     struct bb_differences *out, struct bb_error *error)
{
	struct samples a = {.n = 0}, b = {.n = 0};
	bool good = gather(before, &a) && gather(after, &b);

	*out = (struct bb_differences){.n = 0};
	if (good) {
		out->list = calloc(a.n + 1, sizeof(*out->list));
		good = out->list != NULL;
	}
	if (good) {
		merge(&a, &b, out);
		qsort(out->list, out->n, sizeof(*out->list), by_change);
	}
	for (size_t i = 0; i < after->n; i++)
		out->wrong += quantity_of(after->list[i].json) &&
			      bb_record_number(after->list[i].json, "wrong") > 0;
	free(a.list);
	free(b.list);
	return good ? BB_OK : bb_no_memory(error, "a comparison");
}

void bb_differences_free(struct bb_differences *d)
{
	free(d->list);
	*d = (struct bb_differences){.n = 0};
}
