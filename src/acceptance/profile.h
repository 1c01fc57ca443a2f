/*
 * profile.h - steps to run and gates that they must pass: a file of YAML.
 *
 * A profile is checked when it is read: every gate must name the source of its expectation, be able
 * to fail, and refer to something that exists. docs/acceptance.md describes the keys.
 */
#pragma once

#include "core/status.h"
#include "topology/bound.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BB_PROFILE_BYTES (1 << 20) /* the largest file that is read */
#define BB_MOST_STEPS 256
#define BB_MOST_GATES 256 /* of a step */
#define BB_MOST_REPEATS 1000
#define BB_STEP_NAME 96 /* 60 letters, and "@GROUP+SHIFT" */

/* Keys of a profile whose values are texts; ROUTE and DIRECTION are of pairs. */
#define BB_WHERE_TEXTS(TEXT)                                                                       \
	TEXT(kind)                                                                                 \
	TEXT(collective)                                                                           \
	TEXT(algorithm)                                                                            \
	TEXT(dtype) TEXT(op) TEXT(size) TEXT(placement) TEXT(route) TEXT(direction) TEXT(ranks)
#define BB_SOURCE_TEXTS(TEXT)                                                                      \
	TEXT(copy, COPY)                                                                           \
	TEXT(bound, BOUND)                                                                         \
	TEXT(topology, TOPOLOGY)                                                                   \
	TEXT(cluster, SIMULATOR)                                                                   \
	TEXT(link, SIMULATOR) TEXT(reference, REFERENCE) TEXT(baseline, BASELINE) TEXT(rule, RULE)
#define BB_GATE_TEXTS(TEXT)                                                                        \
	TEXT(metric) TEXT(shape) TEXT(between) TEXT(window) TEXT(down) TEXT(up) TEXT(warn)
#define BB_PROFILE_TEXT(key, ...) char *key;

/* The records of a step that a gate selects. NULL: any. */
struct bb_where {
	BB_WHERE_TEXTS(BB_PROFILE_TEXT)
	/* Read from them: */
	uint64_t least_bytes, most_bytes;
	int64_t nranks; /* 0: any */
	int in_place;   /* -1: either */
};

enum bb_source_kind {
	BB_FROM_COPY,      /* percent of the copy speed of the same run */
	BB_FROM_BOUND,     /* percent of the bound that the record carries */
	BB_FROM_TOPOLOGY,  /* percent of the speed of light of a known system */
	BB_FROM_SIMULATOR, /* the same command in virtual time */
	BB_FROM_REFERENCE, /* a published measurement */
	BB_FROM_BASELINE,  /* measured before */
	BB_FROM_RULE,      /* a sentence; of gates on shapes alone */
	BB_SOURCES
};

/* The source of an expectation: one of these. */
struct bb_source {
	BB_SOURCE_TEXTS(BB_PROFILE_TEXT)
	/* Read from it: */
	enum bb_source_kind kind;
	double percent;   /* of copy, bound or topology, as a fraction */
	double GBps;      /* of topology and reference: the expectation */
	char origin[512]; /* as a sentence, with source and date if known */
};

enum bb_gate_kind { BB_GATE_VALUE, BB_GATE_NO_DIP, BB_GATE_CROSSOVER };

struct bb_gate {
	BB_GATE_TEXTS(BB_PROFILE_TEXT)
	struct bb_where where;
	struct bb_source from;
	/* Read from them: */
	int line;
	enum bb_gate_kind kind;
	const struct bb_metric *measure;
	double lower, upper, warning; /* fractions; NAN: no limit on that side */
	char first[32], second[32];   /* of a crossover: faster below it, and above it */
	uint64_t least_bytes, most_bytes;
};

struct bb_profile_step {
	char *name, *run, *modes, *when, *launcher, *launcher_args;
	struct bb_gate *gates;
	size_t ngates;
	int line;
	/* Read from them: */
	char binary[64];       /* the first word of run */
	const char *arguments; /* the others */
	unsigned mode;         /* bits of enum bb_mode; 0: it needs --nodes */
	bool after_failure;    /* it runs only if an earlier step has not passed */
	/* Of a group; groups of as many nodes run at the same time. A step has one but with
	   --nodes. LEFT: nodes of one more group, which has fewer. */
	long long ranks, nodes, groups, left;
	long long shift; /* nodes by which the groups are shifted round all nodes */
	long long repeats;
	bool counted;                /* the profile or step gives the number of ranks */
	uint64_t limit_ns, takes_ns; /* takes_ns: of a run on a healthy system; 0: unknown */
	/* Of a step that the profile does not declare: the step whose groups it replaces. With
	   after_failure it narrows down those that failed, else it tests a node left over. */
	const struct bb_profile_step *narrows;
	char own_name[BB_STEP_NAME];
};

/* The nodes of all groups. */
static inline long long bb_step_nodes(const struct bb_profile_step *step)
{
	return step->groups * step->nodes + step->left;
}
/* The ranks of all groups. */
static inline long long bb_step_all_ranks(const struct bb_profile_step *step)
{
	return bb_step_nodes(step) * (step->ranks / step->nodes);
}
static inline bool bb_step_is_split(const struct bb_profile_step *step)
{
	return bb_step_nodes(step) > step->nodes;
}
/* The groups that gates judge: a node alone is none among groups of several. */
static inline long long bb_step_groups(const struct bb_profile_step *step)
{
	return step->groups + (step->left > 1);
}
/* The step that the profile declares. */
static inline const struct bb_profile_step *bb_step_declared(const struct bb_profile_step *step)
{
	return step->narrows ? step->narrows : step;
}
/* Returns the node at position I of GROUP of STEP. */
static inline long long bb_step_node(const struct bb_profile_step *step, int64_t group, int64_t i)
{
	const int64_t all = bb_step_nodes(step);

	return (group * step->nodes + i + all - step->shift) % all;
}

enum bb_mode { BB_QUICK = 1, BB_FULL = 2 };
static inline const char *bb_mode_name(enum bb_mode mode)
{
	return mode == BB_QUICK ? "quick" : "full";
}

struct bb_profile {
	char *name, *about, *system;
	struct bb_profile_step all; /* what steps inherit: launcher, numbers and times */
	struct bb_profile_step *declared;
	size_t ndeclared;
	/* Those declared, each followed by the steps that narrow it. They share its texts and
	 * gates. */
	struct bb_profile_step *steps;
	uint32_t nsteps;
};

/* What a gate may judge. */
struct bb_metric {
	const char *name, *field; /* as in profiles, as in records */
	const char *unit;
	bool more_is_better;
	bool median; /* at the median sample instead of the mean: single samples, slow because
			others share the machine or fast by chance, do not move it */
};
extern const struct bb_metric bb_metrics[]; /* ends with name NULL */

/*
 * What a profile is run on: so many nodes (0: those that each step names), and ranks of a node (0:
 * as the profile has them).
 */
struct bb_scale {
	long long nodes, per_node;
};

/*
 * The profile in the LENGTH bytes of TEXT, which messages call PATH, for the nodes of SCALE: a step
 * of k nodes is run by as many groups of k nodes as there are, one of "all" nodes by one group. For
 * each declared step that runs in groups on three nodes or more, steps are added:
 *
 * NAME@K+1  the same groups of K nodes shifted by a node, if one is left over: not judged alone
 * NAME@K    groups of about half as many nodes each time, down to pairs, and
 * NAME@2+1  pairs with the other neighbour, if a group has failed: they find the culprit by
 *           log2(K) runs
 *
 * BB_EUSAGE with the line and what would be right. *PROFILE is to be freed; NULL on failure.
 */
BB_MUST bb_status bb_profile_read(const char *path, const char *text, size_t length,
				  const struct bb_scale *scale, struct bb_profile **profile,
				  struct bb_error *error);
void bb_profile_free(struct bb_profile *profile); /* NULL: nothing */

/* True if STEP runs diagnose, which fails by a culprit. */
static inline bool bb_step_diagnoses(const struct bb_profile_step *step)
{
	return strcmp(step->binary, "diagnose") == 0;
}

#define BB_BLANKS " \t\r\n" /* between the words of a command */
/* WORD = what TEXT gives to the option --NAME, or a beginning of it, or -LETTER; "" without it. Of
   several the last one counts. */
#define BB_STEP_WORD 32
void bb_step_option(const char *text, const char *name, char letter, char word[BB_STEP_WORD]);

/* The names of sources in verdicts: "copy", "reference". */
extern const char *const bb_source_names[BB_SOURCES];
