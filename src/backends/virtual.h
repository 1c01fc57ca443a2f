/*
 * virtual.h - the part of a backend whose time is virtual.
 *
 * One driver, rank 0's, drives all ranks of the world. Its calls apply to all ranks, its clock is
 * the latest of theirs, and programs are evaluated instead of performed.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"
#include "simulator/calibration/calibration.h"
#include "simulator/nccl/model.h"
#include "simulator/timeline/timeline.h"

struct bb_backend;
struct bb_context;
struct bb_group;
struct bb_rank;

/* Receives the progress of long computations. */
struct bb_listener {
	/* DONE of ALL rounds of SCHEDULE (NULL: operations of a program) are evaluated; ALL 0: the
	   computation is over. Called often, on the thread that called the backend. NULL: no
	   listener. */
	void (*progress)(void *own, const struct bb_algorithm *schedule, size_t done, size_t all);
	void *own;
};

/* The configuration of virtual time, beside that of all backends. All zeros: the default. */
struct bb_virtual_config {
	const struct bb_cluster *cluster; /* that connects the ranks; NULL: the links of all */
	const char *calibrate;            /* file of records to fit times to; NULL: none */
	double noise;                     /* as in struct bb_link_model, like the seed */
	uint64_t seed;
	struct bb_slow_link slow_link;
	struct {
		int rank;       /* enters each collective late */
		double seconds; /* 0: none does */
	} slow_rank;
	bool flawed; /* the cluster has a fault: */
	struct bb_fabric_flaw flaw;
	struct bb_listener listener;
};

enum { BB_OTHERWISE_TEXT = 96 };

/* How a collective was evaluated. */
struct bb_evaluation {
	const char *evaluator; /* bb_evaluator_name */
	double faultless;      /* this rank's clock without the planted fault; NAN: there is none */
	/* Of its time by a model of a library. */
	struct bb_calibrated support;
	char basis[BB_NCCL_BASIS_TEXT];    /* of the interval, by measurements; empty: none */
	char otherwise[BB_OTHERWISE_TEXT]; /* the choice of other versions in wide use; empty: the
					      same */
};

struct bb_virtual {
	/* The same backend for collectives over a cluster of GPUs, and of nodes without; its
	   algorithms have the names that the library there uses. */
	const struct bb_backend *over_gpus, *over_cpus;
	/* Append lines that begin with "# " and name the source of the times; none if the options
	   name it. */
	void (*explain)(const struct bb_context *context, struct bb_strbuf *out);
	/* Advance the clocks of all ranks by SECONDS. */
	void (*delay)(struct bb_rank *rank, double seconds);
	/* Evaluate PROGRAM, which has passed its check, on all ranks, starting now. WATCH, which
	   may be NULL, receives its operations, and *END is when all ranks end, in seconds since
	   the start. */
	bb_status (*evaluate)(struct bb_rank *rank, const struct bb_program *program,
			      const struct bb_timeline_watch *watch, double *end,
			      struct bb_error *error);
	/* Returns how the last collective of GROUP was evaluated, valid until its next one. */
	const struct bb_evaluation *(*evaluated)(struct bb_group *group);
	/*
	 * Append how collectives were evaluated since open, including those of programs:
	 * "all_reduce among 16: nvlstree:Simple model, busbench:ring alike"; nothing without
	 * collectives. True: some by a model of the library, which ignores contention.
	 */
	bool (*summarize)(const struct bb_context *context, struct bb_strbuf *out);
};
