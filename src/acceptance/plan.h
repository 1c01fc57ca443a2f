/*
 * plan.h - the commands of a profile.
 */
#pragma once

#include "acceptance/profile.h"
#include "core/strbuf.h"
#include "simulator/cluster/cluster.h"

/* The words of a command, followed by NULL; zero-initialise. */
struct bb_words_list {
	char **words;
	size_t n;
	char *text; /* that holds them */
};
void bb_words_free(struct bb_words_list *words);

/* A cluster on which steps are simulated instead of being run. */
struct bb_plan_cluster {
	const char *cluster, *fault; /* as in the options of perf binaries; NULL: none */
	int faulty;                  /* ranks that a step needs to include the fault */
	int ends[2];                 /* ranks of the fault: of a link both, else one twice */
	int per_node;                /* ranks of a node of the cluster */
};

/* The group of STEP that is judged and has the fault; -1: none has, and STEP is simulated without
   it. SIMULATED may be NULL. */
int64_t bb_plan_faulty_group(const struct bb_plan_cluster *simulated,
			     const struct bb_profile_step *step);
static inline bool bb_plan_has_fault(const struct bb_plan_cluster *simulated,
				     const struct bb_profile_step *step)
{
	return bb_plan_faulty_group(simulated, step) >= 0;
}
/* The nodes on which STEP is run. In virtual time without a fault those left over are not among
   them, because the simulator needs groups of one size. */
int64_t bb_plan_nodes(const struct bb_plan_cluster *simulated, const struct bb_profile_step *step);
/* Folders of the binaries and, for all files that a step names in run:, of outputs. */
struct bb_places {
	char binaries[1024], outputs[1200];
};

/*
 * WORDS = the command of STEP: the launcher's words, the binary, --output-folder, the words of
 * run:, and --json -. {ranks}, {nodes} and {per_node} are replaced; words are split at blanks, and
 * nothing else is special, since no shell runs. If SIMULATED has a cluster, or for a GATE (NULL:
 * none) whose expectation is the simulator's: in virtual time on this machine, without a launcher.
 * BB_EINTERNAL without memory. Free WORDS.
 */
BB_MUST bb_status bb_plan_command(const struct bb_profile *profile,
				  const struct bb_profile_step *step,
				  const struct bb_plan_cluster *simulated,
				  const struct bb_gate *gate, const struct bb_places *places,
				  struct bb_words_list *words, struct bb_error *error);
/*
 * Check the steps of MODE before any is run. BB_EUSAGE: a binary is not in FOLDER; a
 * step that is not simulated would start another number of ranks than the profile has, or processes
 * that its backend refuses; a gate of the profile at PATH expects from a link or cluster that is
 * none; the cluster of SIMULATED, whose faulty and per_node are set, is none, or too small or of
 * other nodes than those of a step, or lacks its fault.
 */
BB_MUST bb_status bb_plan_check(const struct bb_profile *profile, const char *path,
				const char *folder, enum bb_mode mode,
				struct bb_plan_cluster *simulated, struct bb_error *error);

/* Append WORDS as a line for a shell. */
void bb_plan_add_line(struct bb_strbuf *out, const struct bb_words_list *words);
/* Append the demand of a gate: "busbw all_reduce 8G, at most 10% below: reference …". */
void bb_plan_add_gate(struct bb_strbuf *out, const struct bb_gate *gate);
