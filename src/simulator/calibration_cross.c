/*
 * calibration_cross.c - cross-validation: results are left out of the fit in turn and predicted;
 * the errors give the intervals of predictions. Each error counts for the kind of prediction that
 * it was for the fit without these results.
 */
#include "simulator/calibration_parts.h"

#include "core/array.h"

#include <math.h>
#include <stdlib.h>

/* The largest of so many errors in random order holds the next one in nine of ten cases. */
#define NEAREST 9
#define BINS 2 /* of sizes in an octave; the sizes of one are left out together */
#define FAR 1  /* octaves by which distances beyond the measured sizes may differ */

/* ---- what is left out ------------------------------------------------------------------------ */

enum aspect { OF_BIN, OF_LARGER, OF_SMALLER, OF_SERIES, OF_RANKS, OF_ALGORITHM, OF_COLLECTIVE };

/* The results that are like LIKE in one ASPECT. */
struct fold {
	enum aspect aspect;
	const struct bb_point *like;
};

static int bin_of(const struct bb_point *p)
{
	return (int)floor(BINS * log2(p->bytes) + 0.5);
}

static bool is_of(const struct fold *fold, const struct bb_point *p)
{
	const struct bb_point *like = fold->like;

	switch (fold->aspect) {
	case OF_BIN:
		return bin_of(p) == bin_of(like);
	case OF_LARGER:
		return bin_of(p) >= bin_of(like);
	case OF_SMALLER:
		return bin_of(p) <= bin_of(like);
	case OF_SERIES:
		return bb_calibration_compare(p, like, false) == 0;
	case OF_RANKS:
		return p->cost.nranks == like->cost.nranks && p->nodes == like->nodes;
	case OF_ALGORITHM:
		return bb_calibration_same_algorithm(p, like);
	default:
		return p->collective == like->collective;
	}
}

/* Whether two placements of one case were left out together: the larger error counts for both. */
static struct bb_cross_error *same_case(struct bb_calibration *c, size_t first,
					const struct bb_point *p)
{
	for (size_t i = first; i < c->nerrors; i++)
		if (c->errors[i].of->bytes == p->bytes &&
		    bb_calibration_compare(c->errors[i].of, p, false) == 0)
			return &c->errors[i];
	return NULL;
}

/* Add the error of PART, a fit without P, for P. FIRST: the first error of this fold. */
static bool add_error(struct bb_calibration *c, const struct bb_calibration *part, size_t first,
		      const struct bb_point *p)
{
	struct bb_cross_error *e = same_case(c, first, p), new = {.of = p};

	new.kind = bb_calibration_kind(part, p, &new.beyond);
	new.error = log(p->time / bb_calibration_predict(part, p));
	if (e && fabs(e->error) >= fabs(new.error))
		return true;
	if (!e)
		e = BB_ARRAY_ADD(c->errors, c->nerrors, c->error_room);
	if (e)
		*e = new;
	return e;
}

/* Fit without the results of FOLD, and predict them. False: out of memory. */
static bool fold_leave_out(struct bb_calibration *c, const struct fold *fold)
{
	struct bb_calibration part = {.cluster = c->cluster,
				      .constants = c->constants,
				      .site = c->site,
				      .model.cores = c->model.cores};
	const size_t first = c->nerrors;
	bool good = true;

	part.points = malloc(c->n * sizeof(*part.points));
	if (!part.points)
		return false;
	for (size_t i = 0; i < c->n; i++)
		if (!is_of(fold, &c->points[i]))
			part.points[part.n++] = c->points[i];
	if (part.n >= BB_FEWEST_POINTS && part.n < c->n) {
		good = bb_calibration_fit(&part);
		for (size_t i = 0; good && i < c->n; i++) {
			struct bb_point *p = &c->points[i];

			if (!is_of(fold, p))
				continue;
			good = add_error(c, &part, first, p);
			if (fold->aspect == OF_BIN)
				p->left_out = bb_calibration_predict(&part, p);
		}
	}
	free(part.series);
	free(part.points);
	return good;
}

/* Leave out, in turn, all that differ in ASPECT, each of which is that of some point. */
static bool leave_out_each(struct bb_calibration *c, enum aspect aspect)
{
	bool good = true;

	for (size_t i = 0; good && i < c->n; i++) {
		const struct fold fold = {aspect, &c->points[i]};
		const struct fold same = {
			aspect == OF_LARGER || aspect == OF_SMALLER ? OF_BIN : aspect, fold.like};
		size_t k = 0;

		while (k < i && !is_of(&same, &c->points[k]))
			k++;
		if (k == i)
			good = fold_leave_out(c, &fold);
	}
	return good;
}

bool bb_cross_validate(struct bb_calibration *c)
{
	bool good = true;

	for (int aspect = OF_BIN; good && c->n <= BB_CROSS_MOST && aspect <= OF_COLLECTIVE;
	     aspect++)
		good = leave_out_each(c, (enum aspect)aspect);
	return good;
}

/* ---- intervals ------------------------------------------------------------------------------- */

size_t bb_cross_select(const struct bb_calibration *c, enum bb_cross_kind kind,
		       const struct bb_point *of, double *errors)
{
	size_t n = 0;

	for (size_t i = 0; i < c->nerrors; i++)
		if (c->errors[i].kind == kind &&
		    fabs(c->errors[i].beyond) <= BB_CROSS_BEYOND_MOST &&
		    (!of || bb_calibration_compare(c->errors[i].of, of, false) == 0))
			errors[n++] = fabs(expm1(c->errors[i].error));
	return n;
}

/* Nearest first; among equally near ones, the larger error. */
static int compare_distances(const void *a, const void *b)
{
	const double *x = a, *y = b;

	if (x[0] != y[0])
		return x[0] < y[0] ? -1 : 1;
	return (x[1] < y[1]) - (x[1] > y[1]);
}

/* Set FOUND to the distances and errors of predictions like that of QUERY; beyond measured sizes,
   of those on the same side and at most APART octaves nearer or farther. Returns their number. */
static size_t find_alike(const struct bb_calibration *c, const struct bb_point *query, double apart,
			 double (*found)[2])
{
	double beyond;
	const enum bb_cross_kind kind = bb_calibration_kind(c, query, &beyond);
	size_t n = 0;

	for (size_t i = 0; i < c->nerrors; i++) {
		const struct bb_cross_error *e = &c->errors[i];

		if (e->kind != kind ||
		    (kind == BB_CROSS_BEYOND &&
		     (e->beyond * beyond < 0 || fabs(e->beyond - beyond) > apart)))
			continue;
		found[n][0] = fabs(log(e->of->bytes / query->bytes));
		found[n++][1] = fabs(e->error);
	}
	return n;
}

bool bb_cross_interval(const struct bb_calibration *c, const struct bb_point *query, double *low,
		       double *high)
{
	double half = 0, (*found)[2] = malloc((c->nerrors + 1) * sizeof(*found));
	size_t n;

	if (!found)
		return false;
	n = find_alike(c, query, FAR, found);
	/* Too few errors at this distance: all on this side. */
	if (n < NEAREST)
		n = find_alike(c, query, INFINITY, found);
	qsort(found, n, sizeof(*found), compare_distances);
	for (size_t i = 0; i < n && i < NEAREST; i++)
		half = fmax(half, found[i][1]);
	free(found);
	*low = floor(100 * exp(-half)) / 100;
	*high = ceil(100 * exp(half)) / 100;
	return n >= NEAREST;
}
