/*
 * accuracy.c - the rounding errors of a reduction, for --accuracy: sums of drawn numbers against
 * exact ones, by a real call, and by the steps of the algorithm among other numbers of ranks.
 */
#include "collectives/bench.h"

#include "core/array.h"
#include "core/scalar.h"
#include "core/units.h"
#include "schedules/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- records ------------------------------------------------------------------------------- */

static void add_about(const void *record, struct bb_strbuf *out)
{
	bb_strbuf_add(out,
		      "# Errors of sums of normal numbers, relative to the RMS of the exact sums; "
		      "ulp: spacing of the type there\n"
		      "# formula: Higham's random walk over the roundings of the steps; #wrong: "
		      "results that differ from the steps,\n"
		      "# or exceed Higham's bound if the steps are unknown; N/A: no call, only "
		      "steps\n"
		      "# 16- and 8-bit numbers are added in fp32: a step rounds once, after the "
		      "numbers of 1 or 2 peers, and direct after all\n");
}

#define BB_RECORD bb_accuracy_record
BB_RECORD_KIND(bb_record_accuracy, BB_ACCURACY_FIELDS, "accuracy",
	       "With --accuracy: the rounding errors of a reduction.", .about = add_about);

void bb_accuracy_text(const struct bb_bench *bench, struct bb_strbuf *out)
{
	const struct bb_accuracy_record *list = bench->accuracies, *before = NULL;
	const size_t n = bench->naccuracies;
	int64_t most = 0;

	for (size_t i = 0; i < n; i++)
		most = list[i].nranks > most ? list[i].nranks : most;
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++, before = NULL) {
		for (size_t i = 0; i < n; i++) {
			const struct bb_accuracy_record *r = &list[i];

			if (r->nranks != most ||
			    strcmp(r->dtype, bb_dtype_name((enum bb_dtype)dtype)) != 0)
				continue;
			if (!before)
				bb_strbuf_addf(out, "# %s, %jd ranks: RMS error of the sum",
					       r->dtype, r->nranks);
			bb_strbuf_addf(out, "%s %.2g%% by %s", before ? "," : "",
				       100 * r->rms_error, r->algorithm);
			before = r;
		}
		bb_strbuf_add(out, before ? "\n" : "");
	}
}

/* ---- errors -------------------------------------------------------------------------------- */

/* Of a rank's OUT: sums over its elements, maxima, and a hash of its bits. */
enum { SQUARES, EXACT, ELEMENTS, OVERFLOWS, WRONG, MOST, EXPECTED, DIGEST, TALLIES };

/* Element I of RANK's input: a standard normal number (Box and Muller), rounded. */
static double drawn_number(const struct bb_session *s, int rank, size_t i)
{
	const uint64_t seed = (uint64_t)s->engine.options->seed;
	const uint64_t word = bb_random_at(seed, (uint64_t)rank << 40 | i);
	const double radius = sqrt(-2 * log(bb_random_positive(word)));

	return bb_scalar_round(s->c->dtype,
			       radius * cos(2 * M_PI * bb_random_uniform(bb_random_mix(~word))));
}

/* Of an element: the exact sum of all ranks, and that of magnitudes. */
struct exact {
	long double sum;
	double magnitude;
};

/* The most elements of a rank's result. */
static size_t most_results(const struct bb_session *s, const struct bb_shape *shape)
{
	return bb_collective_out(s->call.collective, shape, shape->root);
}

/*
 * R = the errors of RESULTS, most_results of each rank; NULL: of the steps. Wrong are results that
 * the steps do not compute, or where these are unknown, errors above (n-1) u / (1 - (n-1) u) times
 * the sum of magnitudes, the bound of any order of additions (Higham, section 4.2).
 */
static bb_status find_errors(const struct bb_session *s, const struct bb_shape *shape,
			     const char *results, struct bb_accuracy_record *r,
			     struct bb_error *error)
{
	const struct bb_algorithm *schedule = s->call.schedule;
	const struct bb_collective *collective = s->call.collective;
	const enum bb_dtype dtype = s->c->dtype;
	const size_t size = bb_dtype_size(dtype), most = most_results(s, shape);
	const size_t inputs = bb_collective_in(collective, shape, 0);
	const double gamma = (shape->nranks - 1) * bb_scalar_spacing(dtype, 1) / 2;
	const double bound = gamma < 1 ? gamma / (1 - gamma) : INFINITY;
	struct exact *exact = NULL;
	char *steps = NULL;
	double n = 0, squares = 0, power = 0, largest = 0, roundings = 0;
	struct bb_values v = {.ranks = NULL};
	bool agree = true;
	bb_status status;

	if (schedule)
		BB_TRY(status, bb_values_open(&v, schedule, shape, dtype, error), out);
	exact = calloc(inputs, sizeof(*exact));
	steps = calloc((size_t)shape->nranks * most, size);
	BB_TRY(status, exact && steps ? BB_OK : bb_no_memory(error, "exact sums"), out);
	for (int rank = 0; rank < shape->nranks; rank++) {
		for (size_t i = 0; i < inputs; i++) {
			const double number = drawn_number(s, rank, i);

			exact[i].sum += number;
			exact[i].magnitude += fabs(number);
			if (schedule)
				bb_values_at(&v, rank, BB_IN)[i] = (struct bb_value){number, 1, 0};
		}
	}
	if (schedule)
		BB_TRY(status, bb_values_perform(&v, error), out);
	results = results ? results : steps;
	r->overflows = r->wrong = 0;
	for (int rank = 0; rank < shape->nranks; rank++) {
		const struct exact *e =
			&exact[bb_collective_segment(collective, shape, rank, 0).in];

		for (size_t i = 0; i < bb_collective_out(collective, shape, rank); i++, e++, n++) {
			const size_t at = ((size_t)rank * most + i) * size;

			if (schedule) {
				const struct bb_value *value = &bb_values_at(&v, rank, BB_OUT)[i];

				bb_scalar_encode(dtype, value->number, steps + at);
				roundings += (double)value->roundings / value->terms;
			}
			const double off =
				(double)fabsl(bb_scalar_decode(dtype, results + at) - e->sum);
			r->wrong += schedule ? memcmp(results + at, steps + at, size) != 0
					     : !(off <= bound * e->magnitude);
			agree &= memcmp(results + at, results + i * size, size) == 0;
			power += (double)(e->sum * e->sum);
			r->overflows += !isfinite(off);
			squares += isfinite(off) ? off * off : 0;
			largest = isfinite(off) ? fmax(largest, off) : largest;
		}
	}
	r->sum_rms = sqrt(power / n);
	r->rms_error = sqrt(squares / (n - (double)r->overflows)) / r->sum_rms;
	r->max_error = largest / r->sum_rms;
	r->rms_ulps = r->rms_error * r->sum_rms / bb_scalar_spacing(dtype, r->sum_rms);
	if (schedule)
		r->expected_rms_error = bb_values_expected(dtype, roundings / n);
	if (collective->flags & BB_SAME_OUTPUT)
		r->ranks_agree = agree ? "yes" : "no";
out:
	bb_values_close(&v);
	free(steps);
	free(exact);
	return status;
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Rank 0: deliver the row of a call's RESULTS; NULL: of the steps. */
static bb_status accuracy_deliver(struct bb_session *s, const struct bb_shape *shape,
				  const char *results)
{
	const struct bb_call *call = &s->call;
	const char *const dtype = bb_dtype_name(s->c->dtype);
	struct bb_bench *bench = s->bench;
	struct bb_accuracy_record r;
	struct bb_error error = {.status = BB_OK};
	bb_status status;
	size_t k = 0;

	bb_record_init(&bb_record_accuracy, &r);
	if (shape->count > 0)
		status = find_errors(s, shape, results, &r, &error);
	else
		status = bb_fail(&error, BB_EUNSUPPORTED,
				 "%d ranks have fewer elements than ranks; give a larger -b",
				 shape->nranks);
	if (status == BB_EUNSUPPORTED)
		return bb_engine_skip_subject(&s->engine, call->collective->name,
					      s->c->choice->name, dtype, error.text);
	if (status != BB_OK)
		return bb_fail(&s->engine.run->error, status, "%s", error.text);
	r.collective = call->collective->name;
	r.dtype = dtype;
	r.algorithm_asked = s->c->choice->name;
	r.algorithm = call->schedule ? bb_schedule_name(call->schedule, bench->plan.natives)
				     : call->native->name;
	if (s->c->root != BB_NO_ROOT)
		r.root = s->c->root;
	r.nranks = shape->nranks;
	r.by = results ? "run" : "steps";
	r.size_bytes = (int64_t)s->c->size_bytes;
	r.count = (int64_t)shape->count;
	if (!results || !bb_engine_checks(&s->engine))
		r.wrong = BB_ABSENT;
	/* A later size, root or cycle replaces the one before. */
	while (k < bench->naccuracies &&
	       (bench->accuracies[k].dtype != r.dtype || bench->accuracies[k].nranks != r.nranks ||
		bench->accuracies[k].algorithm_asked != r.algorithm_asked))
		k++;
	if (k < bench->naccuracies)
		bench->accuracies[k] = r;
	else if (!BB_ARRAY_PUT(bench->accuracies, bench->naccuracies, bench->accuracy_room, r))
		return bb_no_memory(&s->engine.run->error, "results");
	return bb_engine_deliver(&s->engine, &bb_record_accuracy, &r, r.wrong);
}

/* Call the case, and deliver its row. Collective. */
static bb_status examine_call(struct bb_session *s)
{
	const struct bb_backend *backend = s->engine.backend;
	struct bb_rank *me = s->engine.rank;
	const struct bb_layout *l = &s->layout;
	const struct bb_buffers b = bb_arena_set(&s->arena, l, 0);
	const size_t size = bb_dtype_size(s->c->dtype);
	const size_t inputs = l->in_bytes / size, most = most_results(s, &s->call.shape);
	char *host = calloc(inputs + most, size);
	char *const in = host + most * size;
	const void *all;
	bb_status status;

	if (!host)
		return bb_no_memory(&s->engine.run->error, "results");
	for (size_t i = 0; i < inputs; i++)
		bb_scalar_encode(s->c->dtype, drawn_number(s, s->me, i), in + i * size);
	BB_TRY(status, bb_measure_once(s, in), out);
	BB_TRY(status, bb_engine_corrupt(&s->engine, l->out_bytes > 0 ? b.out : NULL), out);
	BB_TRY(status, backend->copy(me, host, b.out, l->out_bytes), out);
	BB_TRY(status, backend->finish(me, NULL), out);
	BB_TRY(status,
	       bb_driver_collect(s->engine.driver, &bb_payload_flags, host, most * size, &all),
	       out);
	if (bb_engine_leads(&s->engine))
		status = accuracy_deliver(s, &s->call.shape, all);
out:
	free(host);
	return status;
}

bb_status bb_accuracy(struct bb_session *s, char objection[BB_OBJECTION_TEXT])
{
	const struct bb_option_indices *ranks = &s->settings->accuracy_ranks;
	const bool calls = s->engine.backend->has_data && s->n > 1;
	/* What auto chooses, and what a library does, is not known of other numbers of ranks. */
	const bool steps = s->c->choice->schedule;
	bb_status status = BB_OK;

	if (!calls && !steps)
		snprintf(objection, BB_OBJECTION_TEXT,
			 "no rounding steps are known for %s on %s; give --algo " BB_OWN "ring",
			 s->c->choice->name, s->engine.backend->name);
	if (calls)
		status = examine_call(s);
	for (size_t i = 0; i < ranks->n && steps && bb_engine_leads(&s->engine); i++) {
		const int n = ranks->list[i];
		const struct bb_shape shape = {
			.nranks = n,
			.root = s->call.shape.root % n,
			.in_place = true,
			.count = bb_count_for_size(s->call.collective, s->c->size_bytes,
						   bb_dtype_size(s->c->dtype), n)};

		if (status == BB_OK && !(calls && n == s->n))
			status = accuracy_deliver(s, &shape, NULL);
	}
	return status;
}
