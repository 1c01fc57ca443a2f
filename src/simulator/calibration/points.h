/*
 * points.h - the measured points and what is fitted to them, for this folder alone.
 */
#pragma once

#include "simulator/calibration/calibration.h"
#include "logs/claims.h"
#include "simulator/nccl/model.h"

#define BB_MOST_KNOTS 24
#define BB_MOST_COUNTS 8
#define BB_MOST_VALUES (BB_MOST_COUNTS + BB_MOST_KNOTS)

/* The cost of one call. */
struct bb_cost {
	int nranks;
	double rounds;
	double moved; /* bytes copied by all ranks, as bb_algorithm_cost counts */
	double size;  /* bytes of all ranks' inputs, which may fit into caches */
};

struct bb_point {
	/* Of a schedule, its collective, placement and size. Of NCCL, without its machine. */
	struct bb_nccl_call call;
	struct bb_nccl_machine machine;      /* of NCCL, on the cluster as it is described */
	const struct bb_algorithm *schedule; /* NULL: of NCCL */
	int nodes;                           /* as NCCL counts; 0: of a schedule */
	size_t chunk;                        /* bytes; 0: not cut */
	double time;                         /* seconds, measured */
	bool median;                         /* of several samples; else that of the only one */
	double least, p95;                   /* seconds, of these samples */
	struct bb_cost cost;                 /* of NCCL: its number of ranks alone */
	double left;                         /* logarithm of measured over modelled time */
	double left_out;                     /* seconds predicted without its size; 0: unknown */
};

/* The part common to all series. */
struct bb_cost_model {
	int cores;
	int ncounts, counts[BB_MOST_COUNTS]; /* numbers of ranks */
	int nknots;                          /* from 2^FIRST bytes on, every two octaves */
	int first;
	/* Seconds of a round among each number of ranks, and then of a byte at each knot. */
	double values[BB_MOST_VALUES];
};

/* The figures of a cluster that a run of NCCL reveals: shares, and seconds. */
enum bb_site_figure {
	BB_SITE_GPU_EFFICIENCY,
	BB_SITE_NIC_EFFICIENCY,
	BB_SITE_NIC_LATENCY,
	BB_SITE_TREE_FILL,
	BB_SITE_ISSUE,
	BB_SITE_FIGURES
};

enum bb_site_state {
	BB_SITE_FITTED,
	BB_SITE_AS_DESCRIBED,
	BB_SITE_ONE_NODE,
	BB_SITE_NO_PLATEAU,
	BB_SITE_FEW_SIZES
};

struct bb_site {
	double described[BB_SITE_FIGURES], fitted[BB_SITE_FIGURES];
	enum bb_site_state state[BB_SITE_FIGURES];
};

/* Points that differ only in their size. */
struct bb_calibration_series {
	const struct bb_point *first;
	size_t n;
};

/* How a prediction follows from the measured points. */
enum bb_cross_kind {
	BB_CROSS_BETWEEN,    /* between measured sizes of its series */
	BB_CROSS_BEYOND,     /* beyond them */
	BB_CROSS_RANKS,      /* its algorithm was measured among other numbers of ranks alone */
	BB_CROSS_ALGORITHM,  /* other schedules of its collective were measured */
	BB_CROSS_COLLECTIVE, /* its collective was not */
	BB_CROSS_KINDS
};

/* The error of a prediction that was made without the point. */
struct bb_cross_error {
	const struct bb_point
		*of; /* among the points; its placement has the larger error of both */
	enum bb_cross_kind kind;
	double beyond; /* octaves above the measured sizes; negative: below */
	double error;  /* logarithm of measured over predicted time */
};

#define BB_FEWEST_POINTS 3 /* to fit anything to */

struct bb_calibration {
	const char *path;                 /* while it is read */
	const struct bb_cluster *cluster; /* NULL: schedules are fitted, else NCCL; not owned */
	const struct bb_nccl_constants *constants; /* with a cluster; not owned */
	struct bb_site site;
	struct bb_point *points; /* series by series, by size in each */
	size_t n, room;
	struct bb_calibration_series *series;
	size_t nseries, series_room;
	struct bb_cross_error *errors;
	size_t nerrors, error_room;
	size_t others;        /* results of what is not fitted */
	bool is_table;        /* of nccl-tests, not records */
	struct bb_claims run; /* of the records being read: what all of their results share */
	size_t cut, far;      /* rows that end before their numbers; times far from the model */
	size_t unlike;        /* results outside the interval of unseen machines */
	int cut_line;         /* of the first */
	size_t implausible;   /* rows whose algbw is not size over time */
	size_t wrong;         /* rows with wrong data */
	bool simulated;       /* in virtual time */
	bool names_gpu;       /* which is the cluster's */
	struct bb_cost_model model;
};

/* ---- fit.c ---------------------------------------------------------------------------- */

#define BB_CROSS_MOST 10000 /* results; more are not cross-validated */
/* Set ERRORS, with room for all, to the relative errors of KIND, of the series of OF in both
   placements (NULL: of all), at most BB_CROSS_BEYOND_MOST octaves beyond the measured sizes.
   Returns their number. */
#define BB_CROSS_BEYOND_MOST 2
size_t bb_cross_select(const struct bb_calibration *c, enum bb_cross_kind kind,
		       const struct bb_point *of, double *errors);

/* Seconds of P, of NCCL, by the model with the fitted figures. */
double bb_site_time(const struct bb_calibration *c, const struct bb_point *p);
/* The name of FIGURE and its unit in clusters.txt. */
const struct bb_figure_row *bb_site_row(enum bb_site_figure figure);

/* ---- results.c ------------------------------------------------------------------------ */

/* The cost of SCHEDULE for SHAPE with elements of ELEMENT bytes. */
struct bb_cost bb_cost_of(const struct bb_algorithm *schedule, const struct bb_shape *shape,
			  size_t element);
/* Add the results in the records TEXT, which is cut in place, as points: of schedules or, with a
   cluster, of NCCL. */
BB_MUST bb_status bb_calibration_lines(struct bb_calibration *c, char *text,
				       struct bb_error *error);
/* Add the rows of the LENGTH bytes of nccl-tests' TEXT. BB_EUSAGE: there is none, or they are of
   another machine than the cluster. */
BB_MUST bb_status bb_calibration_tables(struct bb_calibration *c, const char *text, size_t length,
					struct bb_error *error);
