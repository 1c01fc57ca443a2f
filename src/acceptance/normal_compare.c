/*
 * normal_compare.c - the rows of claims compared with each other (bound by latency, dips as sizes
 * grow, one placement slower than the other), with the intervals of the simulator's model of NCCL,
 * and with published runs.
 *
 * A bandwidth is compared with runs of the same card, collective and number of ranks, over the same
 * network: as many NICs of the same rate and kind, and without switches that reduce where the
 * claims have none. Between two sizes of a run its bandwidth is interpolated. Within
 * NVLink's reach runs of up to twice or half as many ranks are compared by their share of the
 * bound: the bandwidth of 8 GPUs is little evidence about 4, but both come equally near to what
 * their links carry (tests/unit/test_normal.c).
 */
#include "acceptance/confidence.h"
#include "acceptance/normal.h"

#include "core/units.h"
#include "schedules/schedule.h"
#include "simulator/nccl/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *placement(bool in_place)
{
	return in_place ? "in place" : "out of place";
}

/* ---- latency -------------------------------------------------------------------------------- */

struct bb_claim bb_normal_largest(const struct bb_claims *claims)
{
	struct bb_claim found = {.busbw_GBps = claims->average_GBps};

	for (size_t i = 0; i < claims->n; i++) {
		const struct bb_claim *const c = &claims->list[i];

		if (c->size_bytes > found.size_bytes ||
		    (c->size_bytes == found.size_bytes && c->busbw_GBps < found.busbw_GBps))
			found = *c;
	}
	return found;
}

bool bb_normal_is_latency(const struct bb_claims *claims)
{
	const struct bb_claim last = bb_normal_largest(claims);
	const uint64_t near = last.size_bytes / BB_LATENCY_SPAN;
	/* The smallest size within a factor of BB_LATENCY_SPAN, else the next smaller one. */
	const struct bb_claim *less = NULL;

	for (size_t i = 0; i < claims->n; i++) {
		const struct bb_claim *const c = &claims->list[i];

		if (c->in_place == last.in_place && c->size_bytes < last.size_bytes &&
		    (!less || (c->size_bytes >= near && less->size_bytes >= near
				       ? c->size_bytes < less->size_bytes
				       : c->size_bytes > less->size_bytes)))
			less = c;
	}
	if (last.size_bytes == 0 || last.size_bytes >= BB_NORMAL_WIDE)
		return false;
	if (!less)
		return last.size_bytes <= BB_LATENCY_BYTES;
	return log(last.time_us / less->time_us) <
	       BB_LATENCY_GROWTH * log((double)last.size_bytes / (double)less->size_bytes);
}

/* Write SIZE into TEXT: "8G", or "16G" for 17179869120, which nobody reads. Returns TEXT. */
static const char *size_text(char text[BB_UNIT_TEXT], uint64_t size)
{
	static const char units[] = "KMGT";
	int unit = -1;
	double value = (double)size;

	if (strlen(bb_format_size(text, size)) <= 6)
		return text;
	for (; unit < 3 && value >= 1000; unit++)
		value /= 1024;
	snprintf(text, BB_UNIT_TEXT, "%.4g%.1s", value, unit >= 0 ? units + unit : "");
	return text;
}

/* Appends "At 8G: 196.5 GB/s. " or, if latency bounds the rows, "At 8K: 20 us. " */
static void describe_row(const struct bb_question *q, const struct bb_claim *row)
{
	char size[BB_UNIT_TEXT];

	if (row->size_bytes == 0)
		SAY(q, "  Average of all sizes: %.4g GB/s. ", row->busbw_GBps);
	else if (q->is_latency)
		SAY(q, "  At %s, bound by latency: %.4g us. ", size_text(size, row->size_bytes),
		    row->time_us);
	else
		SAY(q, "  At %s: %.4g GB/s. ", size_text(size, row->size_bytes), row->busbw_GBps);
}

/* ---- dips ----------------------------------------------------------------------------------- */

/* Rows by size, and of a size by placement. */
static int compare_rows(const void *a, const void *b)
{
	const struct bb_claim *const p = a, *const q = b;

	if (p->size_bytes != q->size_bytes)
		return p->size_bytes < q->size_bytes ? -1 : 1;
	return p->in_place - q->in_place;
}

/* Reports the dip of one placement. ROWS are sorted; those before the first that reaches LEAST do
   not count, because latency and changes of algorithm shape them. */
static enum bb_normality describe_dip(const struct bb_question *q, const struct bb_claim *rows,
				      size_t nrows, bool in_place, double least)
{
	struct bb_curve_point *const curve = calloc(nrows + 1, sizeof(*curve));
	struct bb_dip dip = {.ratio = {.n = 0}};
	char size[BB_UNIT_TEXT];
	double left = 0;
	size_t n = 0, best = 0, from;

	for (size_t i = 0; curve && i < nrows; i++)
		if (rows[i].in_place == in_place && (n > 0 || rows[i].busbw_GBps >= least))
			curve[n++] = (struct bb_curve_point){(double)rows[i].size_bytes,
							     rows[i].busbw_GBps, 0};
	if (n < 2 || !bb_dip_find(curve, n, 1, &dip))
		dip.ratio.n = 0;
	/* From a size on, for several sizes up to the largest, less than half of the best at a
	   smaller size is left. */
	for (size_t i = 1; i < n; i++)
		best = curve[i].busbw > curve[best].busbw ? i : best;
	for (from = n; from > best + 1 && 2 * curve[from - 1].busbw < curve[best].busbw; from--)
		left = fmax(left, curve[from - 1].busbw / curve[best].busbw);
	const uint64_t collapse = from + 1 < n ? (uint64_t)curve[from].size : 0;
	free(curve);
	if (dip.ratio.n == 0 || dip.ratio.mean >= BB_NORMAL_DIP)
		return BB_NORMAL;
	if (collapse)
		SAY(q, "  Collapse: from %s on at most %.0f%% of the best at a smaller size, %s.\n",
		    size_text(size, collapse), 100 * left, placement(in_place));
	else
		SAY(q, "  Dip: %s %s reaches %.0f%% of the best at a smaller size.\n",
		    size_text(size, (uint64_t)dip.size), placement(in_place), 100 * dip.ratio.mean);
	return BB_UNEVEN;
}

/* Judges the N ROWS, which are sorted, from the first that reaches LEAST on: reports dips, and the
   size at which one placement is slowest compared with the other. */
static enum bb_normality judge_rows(const struct bb_question *q, const struct bb_claim *rows,
				    size_t n, double least)
{
	const struct bb_claim *slow = NULL, *fast = NULL;
	enum bb_normality verdict = BB_NORMAL;
	double worst = BB_NORMAL_UNEVEN;
	char size[BB_UNIT_TEXT];

	for (int in_place = 0; in_place < 2; in_place++)
		if (describe_dip(q, rows, n, in_place == 1, least) != BB_NORMAL)
			verdict = BB_UNEVEN;
	for (size_t i = 1; i < n; i++) {
		const bool out_is_slow = rows[i - 1].busbw_GBps < rows[i].busbw_GBps;
		const struct bb_claim *const low = &rows[out_is_slow ? i - 1 : i];
		const struct bb_claim *const high = &rows[out_is_slow ? i : i - 1];

		if (low->size_bytes != high->size_bytes || low->in_place == high->in_place ||
		    high->busbw_GBps < least || low->busbw_GBps >= worst * high->busbw_GBps)
			continue;
		worst = low->busbw_GBps / high->busbw_GBps;
		slow = low;
		fast = high;
	}
	if (!slow)
		return verdict;
	SAY(q, "  Uneven: %s reaches %.4g GB/s %s, %.4g GB/s %s.\n",
	    size_text(size, slow->size_bytes), slow->busbw_GBps, placement(slow->in_place),
	    fast->busbw_GBps, placement(fast->in_place));
	return BB_UNEVEN;
}

enum bb_normality bb_normal_evenness(const struct bb_question *q)
{
	const size_t n = q->claims->n;
	struct bb_claim *const rows = calloc(n + 1, sizeof(*rows));
	struct bb_strbuf said = {0};
	struct bb_question aside = *q;
	double best = 0, worst = 1, least = 0;
	char size[BB_UNIT_TEXT];
	size_t slow = 0;

	if (!rows)
		return BB_UNKNOWN;
	for (size_t i = 0; i < n; i++) {
		rows[i] = q->claims->list[i];
		least = fmax(least, BB_NORMAL_PLATEAU * rows[i].busbw_GBps);
	}
	qsort(rows, n, sizeof(*rows), compare_rows);
	aside.out = &said;
	enum bb_normality verdict = judge_rows(&aside, rows, n, least);
	if (verdict == BB_UNEVEN && n >= BB_NORMAL_ROWS) {
		/* Without the row that is slowest compared with the best of both placements up to
		   its size. */
		for (size_t i = 0; i < n; i++) {
			const bool pair = i + 1 < n && rows[i + 1].size_bytes == rows[i].size_bytes;

			best = fmax(best, fmax(rows[i].busbw_GBps, rows[i + pair].busbw_GBps));
			if (rows[i].busbw_GBps < worst * best && best >= least) {
				worst = rows[i].busbw_GBps / best;
				slow = i;
			}
		}
		const struct bb_claim row = rows[slow];
		memmove(&rows[slow], &rows[slow + 1], (n - slow - 1) * sizeof(*rows));
		aside.out = NULL;
		verdict = judge_rows(&aside, rows, n - 1, least);
		if (verdict == BB_NORMAL)
			SAY(q,
			    "  One row alone is slow: %s %s reaches %.4g GB/s. Repeat it; one "
			    "measurement is no verdict.\n",
			    size_text(size, row.size_bytes), placement(row.in_place),
			    row.busbw_GBps);
	}
	if (verdict == BB_UNEVEN)
		SAY(q, "%s", bb_strbuf_text(&said));
	if (q->out)
		q->out->failed |= bb_strbuf_failed(&said);
	bb_strbuf_free(&said);
	free(rows);
	return verdict;
}

/* ---- the model of NCCL ----------------------------------------------------------------------- */

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

/* The algorithms of NCCL that the claims could have run, a bit for each: those of NCCL_ALGO,
   without NVLS if it is off or does not reduce their datatype and operation. */
#define ANY ((1u << BB_NCCL_ALGORITHMS) - 1)
static unsigned allowed_algorithms(const struct bb_question *q)
{
	const struct bb_fact *const fact = bb_claims_fact(q->claims, BB_FACT_ALGORITHM);
	const char *list = fact ? fact->text : "";
	const bool excludes = *list == '^';
	struct bb_nccl_call call = {.collective = bb_collective_find(q->collective),
				    .machine = &q->machine->nccl};
	unsigned named = 0, allowed;

	for (list += excludes; *list; list += strcspn(list, ",") + (strchr(list, ',') != NULL)) {
		const enum bb_nccl_algorithm a = algorithm_of(list, strcspn(list, ","));

		named |= a < BB_NCCL_ANY ? 1u << a : 0;
	}
	allowed = named == 0 ? ANY : excludes ? ANY & ~named : named;
	bb_claims_operand(q->claims, &call.dtype, &call.op);
	for (int a = BB_NCCL_NVLS; a <= BB_NCCL_NVLSTREE; a++)
		if (bb_claims_fact(q->claims, BB_FACT_NVLS_OFF) ||
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
	const struct bb_fact *const proto = bb_claims_fact(q->claims, BB_FACT_PROTOCOL);
	const char *const name = q->claims->algorithm[0] ? q->claims->algorithm : "auto";
	const size_t length = strcspn(name, ":");
	const char *const of = name[length] ? name + length + 1 : proto ? proto->text : "";
	const unsigned allowed = allowed_algorithms(q);
	double least = INFINITY;
	int p = 0;

	while (p < BB_NCCL_ANY_PROTOCOL &&
	       strcasecmp(bb_nccl_protocol_name((enum bb_nccl_protocol)p), of) != 0)
		p++;
	call->protocol = (enum bb_nccl_protocol)p;
	enum bb_nccl_algorithm best = algorithm_of(name, length);
	call->algorithm = best;
	if (best < BB_NCCL_ANY || allowed == ANY || bb_nccl_lacks(call->collective, BB_NCCL_ANY))
		return best < BB_NCCL_ANY || strncasecmp(name, "auto", length) == 0;
	for (int a = 0; a < BB_NCCL_ALGORITHMS; a++) {
		struct bb_nccl_call chosen;

		call->algorithm = (enum bb_nccl_algorithm)a;
		if (!(allowed >> a & 1) || !bb_nccl_choose(&q->machine->constants, call, &chosen))
			continue;
		const double time = bb_nccl_time(&q->machine->constants, &chosen, BB_NCCL_AS_TUNED);
		best = time < least ? chosen.algorithm : best;
		least = fmin(least, time);
	}
	call->algorithm = best;
	return true;
}

/* Seconds that the model predicts for SIZE bytes. */
struct prediction {
	double low, high;
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
	struct bb_nccl_call call = {.collective = bb_collective_find(q->collective),
				    .machine = &m->nccl,
				    .in_place = in_place,
				    .bytes = size};
	struct bb_nccl_call chosen;
	const bool beyond_racks = m->nccl.wide && m->nccl.nodes > m->constants.racks_measured;
	struct bb_nccl_basis basis;
	double low, high;

	bb_claims_operand(q->claims, &call.dtype, &call.op);
	if (!m->constants.generation || !call.collective || !find_algorithm(q, &call))
		return false;
	const double time = bb_nccl_call_time(&m->constants, &call);
	if (!isfinite(time))
		return false;
	bb_nccl_interval(&m->constants, &call, &low, &high);
	const enum bb_nccl_interval_class class = bb_nccl_interval_class(&call);
	*prediction = (struct prediction){.low = low * time,
					  .high = high * time,
					  .is_wide = class >= BB_NCCL_LARGE && !beyond_racks &&
						     bb_nccl_basis(&m->constants, &call, &basis) !=
							     BB_NCCL_ENOUGH,
					  .near_low = m->constants.interval_low[class] * time,
					  .near_high = m->constants.interval_high[class] * time};
	bb_nccl_basis_describe(&m->constants, &call, prediction->basis);
	if (bb_nccl_choose(&m->constants, &call, &chosen))
		snprintf(prediction->choice, sizeof(prediction->choice), "%s:%s",
			 bb_nccl_algorithm_name(chosen.algorithm),
			 bb_nccl_protocol_name(chosen.protocol));
	return true;
}

/* True if published runs say what share of the bound of rings, or of alltoall, is usual. */
static bool has_share(const char *collective)
{
	return strcmp(collective, "gather") != 0 && strcmp(collective, "scatter") != 0 &&
	       strcmp(collective, "hypercube") != 0;
}

/* By the interval of the simulator's model of NCCL. */
static enum bb_normality by_model(const struct bb_question *q)
{
	const struct bb_claim row = q->row;
	const struct bb_collective *const collective = bb_collective_find(q->collective);
	const double factor = collective ? collective->bus_factor((int)q->ranks) : NAN;
	/* Two decimals of a small bandwidth say less than the time. */
	const bool by_time = q->is_latency;
	struct prediction p = {.low = NAN};
	double least = 0, most = 0;

	if (row.size_bytes > 0 && predict(q, (double)row.size_bytes, row.in_place, &p)) {
		const double seconds =
			by_time ? row.time_us / 1e6
				: (double)row.size_bytes * factor / row.busbw_GBps / 1e9;

		if (p.is_wide && has_share(q->collective) && seconds >= p.low &&
		    seconds <= p.high) {
			if (seconds < p.near_low || seconds > p.near_high ||
			    p.near_high > BB_NORMAL_TELLING * p.near_low)
				return BB_UNKNOWN;
			p.low = p.near_low;
			p.high = p.near_high;
		}
		least = (double)row.size_bytes * factor / p.high / 1e9;
		most = (double)row.size_bytes * factor / p.low / 1e9;
	} else if (row.size_bytes > 0) {
		return BB_UNKNOWN;
	} else {
		/* The means over the sizes of the run, NAN of none, of both ends of their
		   intervals. */
		const struct bb_claims *const c = q->claims;
		const double span = (double)c->most_bytes - (double)c->least_bytes;
		const double step = fmax((double)c->step_bytes, span / (MOST_SIZES - 1));
		const bool one = c->factor <= 1 && c->step_bytes == 0;
		double size = (double)c->least_bytes;
		int n = 0;

		for (; size > 0 && size <= (double)c->most_bytes && n < (one ? 1 : MOST_SIZES);
		     n++) {
			struct prediction at;

			if (!predict(q, size, false, &at) || at.is_wide)
				return BB_UNKNOWN;
			least += size * factor / at.high / 1e9;
			most += size * factor / at.low / 1e9;
			size = c->factor > 1 ? size * c->factor : size + step;
		}
		least /= n;
		most /= n;
	}
	const double bound =
		bb_normal_bound_on(q->machine->cluster->node, bb_normal_shape_of(q)).GBps;
	if (!(least > 0) || (bound > 0 && least > bound))
		return BB_UNKNOWN;
	if (by_time) {
		least = 1e6 * p.low;
		most = 1e6 * p.high * (row.size_bytes < BB_NORMAL_SMALL ? BB_NORMAL_LATE : 1);
	}
	const double number = by_time ? row.time_us : row.busbw_GBps;
	const bool below = number < least;
	const bool above = number > most;
	const bool low = by_time ? above : below, high = by_time ? below : above;
	describe_row(q, &row);
	SAY(q,
	    "%s%s: the simulator expects %.4g to %.4g %s of %lld rank%s on %lld x %s%s%s (model of "
	    "NCCL %s; interval from %s).\n",
	    low       ? "Low"
	    : !high   ? "Normal"
	    : by_time ? "Faster than expected"
		      : "Higher than expected",
	    low && by_time ? " (slow)" : "", least, most, by_time ? "us" : "GB/s", q->ranks,
	    bb_plural(q->ranks), q->nodes, q->machine->name, p.choice[0] ? " by " : "", p.choice,
	    q->machine->constants.versions, p.basis[0] ? p.basis : "all sizes");
	return low ? BB_LOW : high ? BB_HIGH : BB_NORMAL;
}

/* ---- published runs -------------------------------------------------------------------------- */

/* True if the claims can be compared with R: the same card and collective, measured, large enough
   for two decimals to be precise, by an algorithm that the claims could have, and over the same
   distance: within NVLink's reach, or beyond it with the same ranks on as many nodes, over the same
   network: what two nodes reach by trees is no evidence about four. */
static bool comparable(const struct bb_question *q, const struct bb_reference *r)
{
	const bool near = bb_normal_is_near(q->card, q->ranks, q->nodes);
	const char *const name = q->claims->algorithm, *at = r->fabric;
	const bool is_named = name[0] && strcmp(name, "auto") != 0;

	if (r->card != q->card || strcmp(r->collective, q->collective) != 0 ||
	    strcmp(r->kind, "measured") != 0 || r->nranks == 0 || r->size_bytes == 0 ||
	    r->busbw_GBps < 1 || 2 * r->nranks < q->ranks || r->nranks > 2 * q->ranks ||
	    bb_normal_is_near(q->card, r->nranks, r->nodes) != near ||
	    (!near && (r->nranks != q->ranks || r->nodes != q->nodes)))
		return false;
	/* If the claims could have any algorithm, R excluded none. */
	const unsigned allowed = allowed_algorithms(q);
	bool same = is_named ? strncasecmp(r->algo, name, strlen(name)) == 0
			     : allowed == ANY && !strstr(r->algo, " off)");
	for (int a = 0; a < BB_NCCL_ALGORITHMS && !is_named && allowed != ANY; a++) {
		const char *const its = bb_nccl_algorithm_name((enum bb_nccl_algorithm)a);

		same |= allowed >> a & 1 && strncasecmp(r->algo, its, strlen(its)) == 0;
	}
	if (!same || near)
		return same;
	/* "EFA 4x100G", "IB 8x400G SHARP" */
	const struct bb_cluster_nics *const ours = &q->machine->nics;
	const bool efa = strstr(r->fabric, "EFA"), ib = strstr(r->fabric, "IB ");
	const bool sharp = strstr(r->fabric, "SHARP");
	int nics = 0, Gbps = 0;

	while (*at && sscanf(at, "%dx%dG", &nics, &Gbps) != 2)
		at++;
	/* Rates decide where nothing says whether it is InfiniBand or RoCE. */
	return *at && sharp == (bb_claims_fact(q->claims, BB_FACT_SHARP) != NULL) &&
	       efa == (ours->kind >= BB_NICS_EFA) &&
	       (efa || q->machine->assumed || ib == (ours->kind == BB_NICS_INFINIBAND)) &&
	       fabs((double)nics * Gbps * 1e3 / (double)ours->Mbps - 1) < 0.05;
}

/* ---- a size --------------------------------------------------------------------------------- */

/* A published row that the claims can be compared with. Rows are sorted: those of the nearest
   number of ranks first, then by run, of a run by size, and of a size the slowest first. */
struct row {
	const struct bb_reference *r;
	double far; /* its ranks and nodes from those in question; others are never as far */
};

static int compare_published(const void *a, const void *b)
{
	const struct row *const p = a, *const q = b;
	const int ids = strcmp(p->r->id, q->r->id), algorithms = strcmp(p->r->algo, q->r->algo);

	if (p->far != q->far)
		return p->far < q->far ? -1 : 1;
	if (ids != 0 || algorithms != 0)
		return ids != 0 ? ids : algorithms;
	if (p->r->size_bytes != q->r->size_bytes)
		return p->r->size_bytes < q->r->size_bytes ? -1 : 1;
	return (p->r->busbw_GBps > q->r->busbw_GBps) - (p->r->busbw_GBps < q->r->busbw_GBps);
}

/* The published runs of one number of ranks, at one size. */
struct published {
	uint64_t size;
	int runs;
	double least, most;
	double scale; /* bound of the ranks in question over that of these; 1: the same number */
	bool interpolated; /* a run has no row of this size */
	const struct bb_reference *example;
};

#define FARTHEST 16 /* times as large may the next row of a run be */

/* *P = the published runs at SIZE, among N ROWS, with the number of ranks nearest to that in
   question; returns false if none can be compared. A run has bandwidths there, of the slower and
   the faster placement, between its next rows or, in the plateau, up to a factor of two beyond its
   last one. */
static bool look_up(const struct bb_question *q, const struct row *rows, size_t n, uint64_t size,
		    struct published *p)
{
	*p = (struct published){.least = INFINITY, .scale = 1, .size = size};
	for (size_t i = 0, end; i < n && (p->runs == 0 || rows[i].far == rows[i - 1].far);
	     i = end) {
		/* Of the slower, and the faster placement. */
		const struct bb_reference *below[2] = {NULL}, *above[2] = {NULL};
		double part = 0, ends[2];

		for (end = i; end < n && rows[end].far == rows[i].far &&
			      strcmp(rows[end].r->id, rows[i].r->id) == 0 &&
			      strcmp(rows[end].r->algo, rows[i].r->algo) == 0;
		     end++) {
			const struct bb_reference *const r = rows[end].r;
			const struct bb_reference **const side =
				r->size_bytes <= size ? below : above;

			if (above[0] && r->size_bytes > above[0]->size_bytes)
				continue;
			if (!side[0] || side[0]->size_bytes != r->size_bytes)
				side[0] = r;
			side[1] = r;
		}
		if (!below[0])
			continue;
		if (below[0]->size_bytes == size)
			memcpy(above, below, sizeof(above));
		else if (above[0] && above[0]->size_bytes / below[0]->size_bytes <= FARTHEST)
			part = log((double)size / (double)below[0]->size_bytes) /
			       log((double)above[0]->size_bytes / (double)below[0]->size_bytes);
		else if (size <= 2 * below[0]->size_bytes && below[0]->size_bytes >= 1u << 28)
			memcpy(above, below, sizeof(above));
		else
			continue;
		for (int k = 0; k < 2; k++)
			ends[k] = pow(below[k]->busbw_GBps, 1 - part) *
				  pow(above[k]->busbw_GBps, part);
		p->interpolated |= below[0]->size_bytes != size;
		p->runs++;
		p->least = fmin(p->least, ends[0]);
		if (ends[1] > p->most) {
			p->most = ends[1];
			p->example = rows[i].r;
		}
	}
	if (p->runs > 0 && p->example->nranks != q->ranks) {
		const struct bb_topology *const t = q->machine->cluster->node;
		struct bb_normal_shape there = bb_normal_shape_of(q);

		there.ranks = p->example->nranks;
		there.nodes = p->example->nodes;
		p->scale = bb_normal_bound_on(t, bb_normal_shape_of(q)).GBps /
			   bb_normal_bound_on(t, there).GBps;
	}
	return p->runs > 0 && isfinite(p->scale) && p->scale > 0;
}

/* ---- the verdict ---------------------------------------------------------------------------- */

#define SIZES_TRIED 8 /* from the largest one on */

static enum bb_normality by_published(const struct bb_question *q)
{
	struct published best = {.size = 0};
	struct bb_claim at = {.busbw_GBps = INFINITY};
	struct row *const rows = calloc(q->references->n + 1, sizeof(*rows));
	size_t nrows = 0;
	char range[64];
	bool found = false;
	int tries = 0;

	/* Without a card there is a machine by --cluster alone, and nothing to compare with. */
	for (size_t i = 0; rows && q->card && i < q->references->n; i++) {
		const struct bb_reference *const r = &q->references->rows[i];
		const double more = (double)(r->nodes - q->nodes);

		if (!comparable(q, r))
			continue;
		/* Of two that are as far, fewer ranks and nodes are a trifle nearer. */
		rows[nrows++] = (struct row){
			r, fabs(log((double)r->nranks / (double)q->ranks)) + 1e-3 * fabs(more) +
				   1e-9 * (r->nranks > q->ranks) + 2e-9 * (more > 0)};
	}
	if (nrows > 0)
		qsort(rows, nrows, sizeof(*rows), compare_published);
	for (uint64_t below = UINT64_MAX, size = 1; size > 0 && !found && tries < SIZES_TRIED;
	     tries++) {
		size = 0;
		for (size_t i = 0; i < q->claims->n; i++)
			if (q->claims->list[i].size_bytes < below &&
			    q->claims->list[i].size_bytes > size)
				size = q->claims->list[i].size_bytes;
		below = size;
		found = size > 0 && look_up(q, rows, nrows, size, &best);
	}
	free(rows);
	/* A plateau far below the largest size says nothing of that. */
	if (!found || 4 * best.size < q->row.size_bytes)
		return BB_UNKNOWN;
	for (size_t i = 0; i < q->claims->n; i++)
		if (q->claims->list[i].size_bytes == best.size &&
		    q->claims->list[i].busbw_GBps < at.busbw_GBps)
			at = q->claims->list[i];
	const double share = at.busbw_GBps / (best.scale * best.least);
	const enum bb_normality n = share < BB_NORMAL_LOW ? BB_LOW
				    : at.busbw_GBps > BB_NORMAL_HIGH * best.scale * best.most
					    ? BB_HIGH
					    : BB_NORMAL;
	describe_row(q, &at);
	if (n == BB_LOW)
		SAY(q, "Low: %.0f%% of", 100 * share);
	else
		SAY(q, "%s", n == BB_HIGH ? "Higher than" : "Normal, beside");
	if (best.most <= 1.005 * best.least)
		snprintf(range, sizeof(range), "%.4g GB/s", best.scale * best.most);
	else
		snprintf(range, sizeof(range), "%.4g to %.4g GB/s", best.scale * best.least,
			 best.scale * best.most);
	if (best.scale != 1)
		SAY(q, " %s, the share of the bound that", range);
	SAY(q, " %d published run%s of %s on %lld rank%s", best.runs, bb_plural(best.runs),
	    q->card->name, (long long)best.example->nranks, bb_plural(best.example->nranks));
	if (best.scale != 1)
		SAY(q, " reach%s", best.runs == 1 ? "es" : "");
	else
		SAY(q, ": %s", range);
	SAY(q, " (%s%s, %s, %s).\n", best.interpolated ? "between two sizes; " : "",
	    best.example->system, best.example->fabric, best.example->source);
	return n;
}

/* ---- the share of a bound ------------------------------------------------------------------- */

/* By the share of the bound of rings, or of alltoall. */
static enum bb_normality by_share(const struct bb_question *q)
{
	const struct bb_claim *const row = &q->row;
	if (!has_share(q->collective)) {
		SAY(q,
		    "  Not judged: %s has no model on %s, and no published run says what share of "
		    "its bound is usual.\n",
		    q->collective, q->machine->name);
		return BB_UNKNOWN;
	}
	const struct bb_normal_bound bound =
		bb_normal_bound_on(q->machine->cluster->node, bb_normal_ring_of(q));
	if (!(bound.GBps > 0)) {
		SAY(q, "  No bound is known for %lld ranks on %s.\n", q->ranks, q->machine->name);
		return BB_UNKNOWN;
	}
	const double share = row->busbw_GBps / bound.GBps;
	describe_row(q, row);
	if (row->size_bytes == 0 && share < BB_NORMAL_SHARE) {
		SAY(q,
		    "Not judged: %.0f%% of the %s bound; small sizes lower an average. Its rows "
		    "can be judged.\n",
		    100 * share, bound.algorithm);
		return BB_UNKNOWN;
	}
	if (share < BB_NORMAL_SHARE && row->size_bytes > 0 && row->size_bytes < BB_NORMAL_WIDE) {
		SAY(q,
		    "Not judged: %.0f%% of the %s bound; latency may bound sizes below 256 MiB, "
		    "and %s has no model. Run it with -e 8G.\n",
		    100 * share, bound.algorithm, q->machine->name);
		return BB_UNKNOWN;
	}
	if (share > BB_NORMAL_ABOVE_LINKS) {
		SAY(q, "Higher than the %s bound of %lld x %s, %.4g GB/s.\n", bound.algorithm,
		    q->nodes, q->machine->name, bound.GBps);
		return BB_HIGH;
	}
	SAY(q,
	    "%s: %.0f%% of the %s bound of %lld x %s; nothing else compares, and healthy machines "
	    "reach %.0f%%.\n",
	    share < BB_NORMAL_SHARE ? "Low" : "Normal", 100 * share, bound.algorithm, q->nodes,
	    q->machine->name, 100 * BB_NORMAL_SHARE);
	return share < BB_NORMAL_SHARE ? BB_LOW : BB_NORMAL;
}

/* ---- the whole ------------------------------------------------------------------------------ */

enum bb_normality bb_normal_compare(const struct bb_question *q)
{
	enum bb_normality n = q->is_latency ? BB_UNKNOWN : by_published(q);

	if (n == BB_UNKNOWN)
		n = by_model(q);
	if (n == BB_UNKNOWN && q->is_latency) {
		describe_row(q, &q->row);
		SAY(q, "Bandwidth shows at larger sizes, such as -e 8G.\n");
		return BB_LATENCY;
	}
	return n == BB_UNKNOWN ? by_share(q) : n;
}
