/*
 * normal_model.c - claims compared with the intervals of the simulator's model of NCCL.
 */
#include "acceptance/normal_inside.h"

#include "core/units.h"
#include "schedules/schedule.h"
#include "simulator/nccl_likeness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MOST_SIZES 1000 /* of a run whose average alone is known */

/* The algorithm of NAME, LENGTH bytes; BB_NCCL_ANY: NCCL has none of that name. */
static enum bb_nccl_algorithm algorithm_of(const char *name, size_t length)
{
	int a = 0;

	for (; a < BB_NCCL_ANY; a++) {
		const char *const its = bb_nccl_algorithm_name((enum bb_nccl_algorithm)a);

		if (strlen(its) == length && strncasecmp(its, name, length) == 0)
			break;
	}
	return (enum bb_nccl_algorithm)a;
}

unsigned bb_normal_algorithms(const struct bb_question *q)
{
	const struct bb_fact *const fact = bb_normal_fact(q, BB_FACT_ALGORITHM);
	const char *list = fact ? fact->text : "";
	const bool excludes = *list == '^';
	struct bb_nccl_call call = {.collective = bb_collective_find(q->collective),
				    .machine = &q->machine->nccl};
	unsigned named = 0, allowed;

	for (list += excludes; *list; list += strcspn(list, ",") + (strchr(list, ',') != NULL)) {
		const enum bb_nccl_algorithm a = algorithm_of(list, strcspn(list, ","));

		named |= a < BB_NCCL_ANY ? 1u << a : 0;
	}
	allowed = named == 0 ? BB_NORMAL_ANY : excludes ? BB_NORMAL_ANY & ~named : named;
	bb_claims_operand(q->claims, &call.dtype, &call.op);
	for (int a = BB_NCCL_NVLS; a <= BB_NCCL_NVLSTREE; a++)
		if (bb_normal_fact(q, BB_FACT_NVLS_OFF) ||
		    (call.collective && q->machine->constants.generation &&
		     q->machine->constants.nvls_share > 0 &&
		     bb_nccl_cannot_reduce(&q->machine->constants, &call,
					   (enum bb_nccl_algorithm)a)))
			allowed &= ~(1u << a);
	return allowed;
}

/* Set *ALGORITHM and *PROTOCOL of CALL to those that the claims or their log name; of several the
   one that NCCL would choose. Returns false if NCCL has no algorithm of that name. */
static bool find_algorithm(const struct bb_question *q, struct bb_nccl_call *call)
{
	const struct bb_fact *const proto = bb_normal_fact(q, BB_FACT_PROTOCOL);
	const char *const name = q->claims->algorithm[0] ? q->claims->algorithm : "auto";
	const size_t length = strcspn(name, ":");
	const char *const of = name[length] ? name + length + 1 : proto ? proto->text : "";
	const unsigned allowed = bb_normal_algorithms(q);
	enum bb_nccl_algorithm best;
	double least = INFINITY;
	int p = 0;

	while (p < BB_NCCL_ANY_PROTOCOL &&
	       strcasecmp(bb_nccl_protocol_name((enum bb_nccl_protocol)p), of) != 0)
		p++;
	call->protocol = (enum bb_nccl_protocol)p;
	call->algorithm = best = algorithm_of(name, length);
	if (best < BB_NCCL_ANY || allowed == BB_NORMAL_ANY ||
	    bb_nccl_lacks(call->collective, BB_NCCL_ANY))
		return best < BB_NCCL_ANY || strncasecmp(name, "auto", length) == 0;
	for (int a = 0; a < BB_NCCL_ALGORITHMS; a++) {
		enum bb_nccl_algorithm algorithm;
		enum bb_nccl_protocol protocol;
		double time;

		call->algorithm = (enum bb_nccl_algorithm)a;
		if (!(allowed >> a & 1) ||
		    !bb_nccl_choose(&q->machine->constants, call, &algorithm, &protocol))
			continue;
		time = bb_nccl_time(&q->machine->constants, call->machine, BB_NCCL_AS_TUNED,
				    call->collective, algorithm, protocol, call->bytes);
		best = time < least ? algorithm : best;
		least = fmin(least, time);
	}
	call->algorithm = best;
	return true;
}

/* Seconds that the model predicts for SIZE bytes. */
struct prediction {
	double time, low, high;
	/* Few published machines are alike, so the interval of a size that the bound can judge is
	   wide. A measurement inside says little, unless it lies between these too, where those of
	   known kinds lie. Not so beyond the racks that were measured: there NCCL may choose
	   otherwise than the model. */
	bool is_wide;
	double near_low, near_high;
	char choice[48];                /* "nvlstree:Simple"; empty: messages */
	char basis[BB_NCCL_BASIS_TEXT]; /* the published rows that the interval follows from */
};

/* Predicts SIZE bytes of the collective of Q. Returns false if there is no prediction. */
static bool predict(const struct bb_question *q, double size, bool in_place,
		    struct prediction *prediction)
{
	const struct bb_claimed_machine *const m = q->machine;
	const enum bb_dtype named = bb_dtype_named(q->claims->type);
	struct bb_nccl_call call = {.collective = bb_collective_find(q->collective),
				    .machine = &m->nccl,
				    .dtype = named == BB_NDTYPES ? BB_FLOAT : named,
				    .op = BB_SUM,
				    .in_place = in_place,
				    .bytes = size};
	enum bb_nccl_algorithm algorithm;
	enum bb_nccl_protocol protocol;
	const bool beyond_racks = m->nccl.wide && m->nccl.nodes > m->constants.racks_measured;
	enum bb_nccl_interval_class class;
	struct bb_nccl_basis basis;
	double low, high;

	*prediction = (struct prediction){.time = NAN};
	bb_claims_operand(q->claims, &call.dtype, &call.op);
	if (!m->cluster || !m->constants.generation || !call.collective ||
	    !find_algorithm(q, &call))
		return false;
	algorithm = call.algorithm;
	protocol = call.protocol;
	prediction->time = bb_nccl_call_time(&m->constants, &call);
	if (!isfinite(prediction->time))
		return false;
	bb_nccl_interval(&m->constants, &call, &low, &high);
	bb_nccl_basis_describe(&m->constants, &call, prediction->basis);
	class = bb_nccl_interval_class(&call);
	prediction->is_wide = class >= BB_NCCL_LARGE && !beyond_racks &&
			      bb_nccl_basis(&m->constants, &call, &basis) != BB_NCCL_ENOUGH;
	prediction->near_low = m->constants.interval_low[class] * prediction->time;
	prediction->near_high = m->constants.interval_high[class] * prediction->time;
	prediction->low = low * prediction->time;
	prediction->high = high * prediction->time;
	if (bb_nccl_choose(&m->constants, &call, &algorithm, &protocol))
		snprintf(prediction->choice, sizeof(prediction->choice), "%s:%s",
			 bb_nccl_algorithm_name(algorithm), bb_nccl_protocol_name(protocol));
	return true;
}

/* *LEAST and *MOST = the means over the sizes of a run of the busbw at both ends of their
   intervals. Returns false if the sizes are unknown, or there is no prediction, or only a wide
   interval. */
static bool predict_average(const struct bb_question *q, double factor, double *least, double *most)
{
	const struct bb_claims *const c = q->claims;
	const double span = (double)c->most_bytes - (double)c->least_bytes;
	const double step = fmax((double)c->step_bytes, span / (MOST_SIZES - 1));
	double size = (double)c->least_bytes;
	int n = 0;

	*least = *most = 0;
	while (size > 0 && size <= (double)c->most_bytes && n < MOST_SIZES) {
		struct prediction p;

		if (!predict(q, size, false, &p) || p.is_wide)
			return false;
		*least += size * factor / p.high / 1e9;
		*most += size * factor / p.low / 1e9;
		n++;
		if (c->factor <= 1 && c->step_bytes == 0)
			break;
		size = c->factor > 1 ? size * c->factor : size + step;
	}
	*least /= n;
	*most /= n;
	return n > 0;
}

static void describe_model(const struct bb_question *q, const struct prediction *p)
{
	const char *const choice = p->choice;

	bb_strbuf_addf(q->out,
		       " of %lld rank%s on %lld x %s%s%s (model of NCCL %s; interval from %s).\n",
		       (long long)q->ranks, bb_plural(q->ranks), (long long)q->nodes,
		       q->machine->name, choice[0] ? " by " : "", choice,
		       q->machine->constants.versions, p->basis[0] ? p->basis : "all sizes");
}

/* The bound of the claims; INFINITY: none is known. */
static double bound_of(const struct bb_question *q)
{
	const struct bb_normal_shape shape = bb_normal_shape_of(q, q->ranks, q->nodes);
	const double bound = bb_normal_bound_on(q->machine->cluster->node, &shape).GBps;

	return bound > 0 ? bound : INFINITY;
}

enum bb_normality bb_normal_by_model(const struct bb_question *q)
{
	const struct bb_claim row = bb_normal_largest(q->claims);
	const struct bb_collective *const collective = bb_collective_find(q->collective);
	const double factor = collective ? collective->bus_factor((int)q->ranks) : NAN;
	struct prediction p = {.time = NAN};
	double least, most;
	enum bb_normality n;

	if (row.size_bytes > 0 && predict(q, (double)row.size_bytes, row.in_place, &p)) {
		const double seconds =
			bb_normal_is_latency(q->claims)
				? row.time_us / 1e6
				: (double)row.size_bytes * factor / row.busbw_GBps / 1e9;

		if (p.is_wide && bb_normal_has_share(q->collective) && seconds >= p.low &&
		    seconds <= p.high) {
			if (seconds < p.near_low || seconds > p.near_high ||
			    p.near_high > BB_NORMAL_TELLING * p.near_low)
				return BB_UNKNOWN;
			p.low = p.near_low;
			p.high = p.near_high;
		}
		least = (double)row.size_bytes * factor / p.high / 1e9;
		most = (double)row.size_bytes * factor / p.low / 1e9;
	} else if (row.size_bytes == 0) {
		if (!predict_average(q, factor, &least, &most))
			return BB_UNKNOWN;
	} else {
		return BB_UNKNOWN;
	}
	if (!(least > 0) || least > bound_of(q))
		return BB_UNKNOWN;
	n = row.busbw_GBps < least ? BB_LOW : row.busbw_GBps > most ? BB_HIGH : BB_NORMAL;
	bb_normal_describe_row(q, &row);
	if (row.size_bytes > 0 && bb_normal_is_latency(q->claims)) {
		/* Two decimals of a small bandwidth say less than the time. */
		const double late = row.size_bytes < BB_NORMAL_SMALL ? BB_NORMAL_LATE : 1;

		n = row.time_us > 1e6 * late * p.high ? BB_LOW
		    : row.time_us < 1e6 * p.low       ? BB_HIGH
						      : BB_NORMAL;
		bb_strbuf_addf(q->out, "%s: the simulator expects %.4g to %.4g us",
			       n == BB_LOW    ? "Low (slow)"
			       : n == BB_HIGH ? "Faster than expected"
					      : "Normal",
			       1e6 * p.low, 1e6 * late * p.high);
	} else {
		bb_strbuf_addf(q->out, "%s: the simulator expects %.4g to %.4g GB/s",
			       n == BB_LOW    ? "Low"
			       : n == BB_HIGH ? "Higher than expected"
					      : "Normal",
			       least, most);
	}
	describe_model(q, &p);
	return n;
}
