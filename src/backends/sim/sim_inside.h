/*
 * sim_inside.h - shared by the files of the sim backend.
 *
 *   sim.c          the table: opening, groups, clocks, calls of collectives, also those of programs
 *   sim_nccl.c     the model of NCCL: its names of algorithms, their limits and times
 *   sim_openmpi.c  the model of Open MPI: its choice among schedules
 */
#pragma once

#include "backends/library.h"
#include "backends/backend.h"
#include "backends/virtual.h"
#include "simulator/nccl/model.h"

#include <stdatomic.h>

#define BB_SIM_LIBRARY_TEXT 128

/* One evaluation of the world: a clock of each rank, over the links, with or without a fault. */
struct bb_scenario {
	struct bb_link_model links;
	struct bb_fabric fabric; /* of LINKS, with a cluster */
	struct bb_crowds crowds; /* on it */
	double *clocks;          /* [rank], seconds */
	int slow_rank;
	double late; /* seconds by which SLOW_RANK enters each collective later */
};

enum { BB_SIM_NCCL_OTHERS = 2 };

struct bb_rank {
	struct bb_context *context;
};

struct bb_context {
	struct bb_world world;
	/* The first is reported; the second, where a fault was requested, has no fault. Choices are
	   made on the last, as NCCL does not know of the fault. */
	struct bb_scenario scenarios[2];
	int nscenarios;
	const struct bb_cluster *cluster;
	struct bb_calibration *calibration; /* of NCCL on the cluster, or of schedules, or NULL */
	struct bb_nccl_constants nccl;      /* of a cluster of GPUs */
	struct bb_nccl_constants others[BB_SIM_NCCL_OTHERS]; /* of other versions */
	int nothers;
	const struct bb_sim_library *library;   /* whose names algorithms have; NULL: none */
	char library_text[BB_SIM_LIBRARY_TEXT]; /* its description for records */
	struct bb_choices choices;
	struct bb_sim_count *counts; /* how collectives were evaluated so far */
	size_t ncounts, count_room;
	struct bb_error *error;
	uint64_t calls, programs; /* so far: each draws its own noise */
	struct bb_listener listener;
	struct bb_timeline_pace pace; /* whose owner is the context */
	atomic_bool aborted;          /* every call ends with BB_ETIMEOUT soon */
	struct bb_rank driver;        /* of all ranks */
};

struct bb_group {
	struct bb_context *context;
	int n;
	int *members;
	bool first_ranks;                   /* its members are 0, 1, … */
	double *crowds[2];                  /* by scenario: links.crowd (timeline.h); owned */
	struct bb_nccl_machine machines[2]; /* by scenario: the group as NCCL would detect it */
	char chosen[BB_CHOSEN_TEXT];        /* by NCCL for the last call */
	struct bb_evaluation last;          /* of the last call */
	double times[];                     /* [member], for one call */
};

/* A modelled library of collectives. */
struct bb_sim_library {
	const struct bb_native *natives; /* ends with name NULL */
	const struct bb_native *choice;  /* its own choice, auto */
	const char *unnamed;             /* its algorithm where it has no name for it */
	/* A call begins when the last member has arrived and ends on all members at once; there are
	   no links between two ranks. */
	bool is_whole;
	/* Set what CONTEXT, whose cluster is known, has of the library. */
	bb_status (*open)(struct bb_context *context, struct bb_error *error);
	/* NULL, or why CALL, which is native, cannot run. */
	const char *(*refuses)(const struct bb_group *group, const struct bb_call *call);
	/* NULL, or why it can, but not with the fault. NULL itself: all faults can be timed. */
	const char *(*refuses_fault)(const struct bb_group *group, const struct bb_call *call);
	/* Evaluate CALL, which is native, on LINKS, those of SCENARIO and GROUP. TIMES has one
	   entry for each member: on entry when it reaches CALL, on return when it is done;
	   INFINITY: not known yet. NUMBER numbers the calls. Sets group->last and chosen. */
	bb_status (*time)(struct bb_group *group, int scenario, const struct bb_link_model *links,
			  const struct bb_call *call, uint64_t number, double *times,
			  struct bb_error *error);
};

extern const struct bb_sim_library bb_sim_nccl, bb_sim_openmpi;

/* The libraries' algorithms; each ends with name NULL. */
extern const struct bb_native bb_sim_nccl_natives[], bb_sim_openmpi_natives[];

/* Set TIMES, when each member of GROUP arrives, to SECONDS after the last one. */
void bb_sim_time_whole(struct bb_group *group, double seconds, double *times);
