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
		      "# formula: Higham's random walk over the roundings of the steps; #wrong: of "
		      "a call, bits that its steps do not give,\n"
		      "# or, where they are unknown, errors beyond his bound for any order; N/A: "
		      "no call, only steps\n"
		      "# A step adds what 1 or 2 peers sent, 16- and 8-bit numbers in fp32, and "
		      "rounds once; direct rounds the whole sum once\n");
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

			if (r->nranks != most || r->size_bytes != list[n - 1].size_bytes ||
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
static double drawn(const struct bb_session *s, int rank, size_t i)
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

/*
 * TALLY = the errors of RANK's OUT, of which VALUES are what the steps compute, against EXACT. OUT
 * NULL: the errors of VALUES. VALUES NULL: wrong is an error above (n-1) u / (1 - (n-1) u) times
 * the sum of magnitudes, the bound of any order of additions (Higham, section 4.2).
 */
static void take_errors(const struct bb_session *s, const struct bb_shape *shape, int rank,
			const struct exact *exact, const struct bb_value *values, const char *out,
			double tally[TALLIES])
{
	const double most = (shape->nranks - 1) * bb_scalar_spacing(s->c->dtype, 1) / 2;
	const double bound = most < 1 ? most / (1 - most) : INFINITY;
	const struct bb_collective *collective = s->call.collective;
	const size_t size = bb_dtype_size(s->c->dtype);
	uint64_t digest = BB_RANDOM_HASH, bits = 0;

	memset(tally, 0, TALLIES * sizeof(*tally));
	for (int k = 0; k < bb_collective_segments(collective, shape, rank); k++) {
		const struct bb_segment seg = bb_collective_segment(collective, shape, rank, k);

		for (size_t i = 0; i < seg.count; i++) {
			const struct exact *e = &exact[seg.in + i];
			const char *at = out ? out + (seg.out + i) * size : (const char *)&bits;

			if (values)
				bb_scalar_encode(s->c->dtype, values[seg.out + i].number, &bits);
			const double off =
				(double)fabsl(bb_scalar_decode(s->c->dtype, at) - e->sum);
			digest = bb_random_hash(digest, at, size);
			tally[WRONG] += values ? memcmp(at, &bits, size) != 0
					       : !(off <= bound * e->magnitude);
			tally[EXACT] += (double)(e->sum * e->sum);
			tally[ELEMENTS]++;
			tally[OVERFLOWS] += !isfinite(off);
			tally[SQUARES] += isfinite(off) ? off * off : 0;
			tally[MOST] = isfinite(off) ? fmax(tally[MOST], off) : tally[MOST];
		}
	}
	if (values && tally[ELEMENTS] > 0)
		tally[EXPECTED] = bb_values_expected(s->c->dtype, values);
	tally[DIGEST] = (double)(uint32_t)digest;
}

/* TALLIES of N ranks from FIRST on, of whose results OUT is that of FIRST (NULL: the values). */
static bb_status examine(const struct bb_session *s, const struct bb_shape *shape, int first, int n,
			 const char *out, double *tallies, struct bb_error *error)
{
	const struct bb_algorithm *schedule = s->call.schedule;
	const size_t elements = bb_collective_in(s->call.collective, shape, 0);
	struct exact *exact = calloc(elements, sizeof(*exact));
	struct bb_values v = {.ranks = NULL};
	bb_status status = exact ? BB_OK : bb_no_memory(error, "exact sums");

	if (status == BB_OK && schedule)
		status = bb_values_open(&v, schedule, shape, s->c->dtype, error);
	for (int rank = 0; rank < shape->nranks && status == BB_OK; rank++) {
		struct bb_value *in = schedule ? bb_values_at(&v, rank, BB_IN) : NULL;

		for (size_t i = 0; i < elements; i++) {
			const double number = drawn(s, rank, i);

			exact[i].sum += number;
			exact[i].magnitude += fabs(number);
			if (in)
				in[i] = (struct bb_value){number, 1, 0};
		}
	}
	if (status == BB_OK && schedule)
		status = bb_values_perform(&v, error);
	for (int rank = first; rank < first + n && status == BB_OK; rank++)
		take_errors(s, shape, rank, exact, schedule ? bb_values_at(&v, rank, BB_OUT) : NULL,
			    out, tallies + (size_t)(rank - first) * TALLIES);
	bb_values_close(&v);
	free(exact);
	return status;
}

/* Rank 0: deliver the row of all ranks' TALLIES, of a RUN or of steps. */
static bb_status deliver(struct bb_session *s, const struct bb_shape *shape, const double *tallies,
			 bool run)
{
	const struct bb_call *call = &s->call;
	const enum bb_dtype dtype = s->c->dtype;
	struct bb_bench *bench = s->bench;
	struct bb_accuracy_record r;
	double all[TALLIES] = {0};
	bool agree = true;

	for (const double *t = tallies; t < tallies + shape->nranks * TALLIES; t += TALLIES) {
		for (int k = 0; k < DIGEST; k++)
			all[k] = k < MOST ? all[k] + t[k] : fmax(all[k], t[k]);
		agree &= t[DIGEST] == tallies[DIGEST];
	}
	const double rms = sqrt(all[EXACT] / all[ELEMENTS]);
	const double error = sqrt(all[SQUARES] / (all[ELEMENTS] - all[OVERFLOWS]));
	const double ulp = bb_scalar_spacing(dtype, rms);
	bb_record_init(&bb_record_accuracy, &r);
	r.collective = call->collective->name;
	r.dtype = bb_dtype_name(dtype);
	r.algorithm_asked = s->c->choice->name;
	r.algorithm = call->schedule ? bb_schedule_name(call->schedule, bench->plan.natives)
				     : call->native->name;
	if (s->c->root != BB_NO_ROOT)
		r.root = s->c->root;
	r.nranks = shape->nranks;
	r.by = run ? "run" : "steps";
	r.size_bytes = (int64_t)s->c->size_bytes;
	r.count = (int64_t)shape->count;
	r.sum_rms = rms;
	r.rms_error = error / rms;
	r.max_error = all[MOST] / rms;
	r.rms_ulps = error / ulp;
	r.max_ulps = all[MOST] / ulp;
	r.expected_rms_error = call->schedule ? all[EXPECTED] : NAN;
	r.overflows = (int64_t)all[OVERFLOWS];
	if (call->collective->flags & BB_SAME_OUTPUT)
		r.ranks_agree = agree ? "yes" : "no";
	if (run && bb_engine_checks(&s->engine))
		r.wrong = (int64_t)all[WRONG];
	if (!BB_ARRAY_PUT(bench->accuracies, bench->naccuracies, bench->accuracy_room, r))
		return bb_no_memory(&s->engine.run->error, "results");
	return bb_engine_deliver(&s->engine, &bb_record_accuracy, &r, r.wrong);
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* The row of a real call. Collective. */
static bb_status examine_call(struct bb_session *s)
{
	const struct bb_backend *backend = s->engine.backend;
	struct bb_rank *me = s->engine.rank;
	const struct bb_layout *l = &s->layout;
	const struct bb_buffers b = bb_arena_set(&s->arena, l, 0);
	const size_t size = bb_dtype_size(s->c->dtype);
	char *host = malloc(l->in_bytes + l->out_bytes), *middle = (char *)b.out + l->out_bytes / 2;
	double tally[TALLIES];
	const void *all;
	bb_status status;

	if (!host)
		return bb_no_memory(&s->engine.run->error, "results");
	memset(host, -1, l->out_bytes);
	BB_TRY(status, backend->copy(me, b.out, host, l->out_bytes), out);
	for (size_t i = 0; i < l->in_bytes / size; i++)
		bb_scalar_encode(s->c->dtype, drawn(s, s->me, i), host + i * size);
	BB_TRY(status, backend->copy(me, b.in, host, l->in_bytes), out);
	BB_TRY(status, backend->finish(me, NULL), out);
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	BB_TRY(status, bb_measure_once(s), out);
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	BB_TRY(status, bb_engine_corrupt(&s->engine, l->out_bytes > 0 ? middle : NULL), out);
	BB_TRY(status, backend->copy(me, host, b.out, l->out_bytes), out);
	BB_TRY(status, backend->finish(me, NULL), out);
	/* One after the other, as each needs the memory of all. */
	for (int turn = 0; turn < s->n; turn++) {
		if (turn == s->me)
			BB_TRY(status,
			       examine(s, &s->call.shape, turn, 1, host, tally,
				       &s->engine.run->error),
			       out);
		BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	}
	BB_TRY(status, bb_driver_gather(s->engine.driver, &bb_payload_real, tally, TALLIES, &all),
	       out);
	if (bb_engine_leads(&s->engine))
		status = deliver(s, &s->call.shape, all, true);
out:
	free(host);
	return status;
}

/* Rank 0: the row of the algorithm among N ranks. */
static bb_status examine_steps(struct bb_session *s, int n)
{
	const struct bb_shape shape = {.nranks = n,
				       .root = s->call.shape.root % n,
				       .in_place = true,
				       .count = bb_count_for_size(s->call.collective,
								  s->c->size_bytes,
								  bb_dtype_size(s->c->dtype), n)};
	double *tallies = calloc((size_t)n * TALLIES, sizeof(*tallies));
	struct bb_error error = {.status = BB_OK};
	bb_status status = tallies ? BB_OK : bb_no_memory(&error, "results");

	if (status == BB_OK && shape.count == 0)
		status = bb_fail(&error, BB_EUNSUPPORTED,
				 "%d ranks have fewer elements than ranks; give a larger -b", n);
	if (status == BB_OK)
		status = examine(s, &shape, 0, n, NULL, tallies, &error);
	if (status == BB_OK)
		status = deliver(s, &shape, tallies, false);
	else if (status == BB_EUNSUPPORTED)
		status = bb_engine_skip_subject(&s->engine, s->call.collective->name,
						s->c->choice->name, bb_dtype_name(s->c->dtype),
						error.text);
	else
		bb_fail(&s->engine.run->error, status, "%s", error.text);
	free(tallies);
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
			 "its steps are not known, as those of " BB_OWN
			 "ring are, and no call moves data here");
	if (calls)
		status = examine_call(s);
	for (size_t i = 0; i < ranks->n && steps && bb_engine_leads(&s->engine); i++)
		if (status == BB_OK && !(calls && ranks->list[i] == s->n))
			status = examine_steps(s, ranks->list[i]);
	return status;
}
