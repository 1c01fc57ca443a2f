/*
 * plan.h - the commands of a profile.
 */
#ifndef BB_ACCEPTANCE_PLAN_H
#define BB_ACCEPTANCE_PLAN_H

#include "acceptance/profile.h"
#include "core/strbuf.h"
#include "simulator/cluster.h"

/* Words of a command, which ends with NULL; zero-initialise. */
struct bb_words_list {
	char **words;
	size_t n;
	char *text; /* that they lie in */
};
void bb_words_free(struct bb_words_list *words);

/* A cluster on which steps are played in virtual time instead of being run, as a plan for a system
   that is not there yet asks for. */
struct bb_plan_cluster {
	const char *cluster, *fault; /* as in the options of perf binaries; NULL: none */
	int faulty;                  /* of a fault: how many ranks a step needs to have it */
	int per_node;                /* ranks of a node of the cluster */
};
/* Does STEP have the fault? Steps of fewer ranks are played without it. */
bool bb_plan_has_fault(const struct bb_plan_cluster *simulated, const struct bb_profile_step *step);

/* Folders of the binaries and, for all files that a step names in run:, of outputs. */
struct bb_places {
	const char *binaries, *outputs;
};

/*
 * The command of STEP: what the launcher needs, the binary, --output-folder, the words of run:, and
 * --json -. {ranks}, {nodes} and {per_node} are replaced; words are split at blanks, and nothing
 * else is special: no shell is between. PLAYED, if it has a cluster: in virtual time on this
 * machine, without a launcher.
 */
BB_MUST bb_status bb_plan_command(const struct bb_profile *profile,
				  const struct bb_profile_step *step,
				  const struct bb_plan_cluster *simulated,
				  const struct bb_places *places, struct bb_words_list *words,
				  struct bb_error *error);
/* What is known of the steps of MODE before any is run. BB_EUSAGE: a binary is not in FOLDER; a
   link or cluster that a gate of the profile at PATH expects from is none; the cluster of PLAYED is
   none, or too small or of other nodes than those of a step, or its fault is none of it. LOAD reads
   topologies from files. */
struct bb_planned {
	const struct bb_profile *profile;
	const char *path, *folder;
	enum bb_mode mode;
	struct bb_plan_cluster *simulated; /* its FAULTY is found */
	bb_topology_parser *parse;
};
BB_MUST bb_status bb_plan_check(const struct bb_planned *plan, struct bb_error *error);
/* The same in virtual time on this machine, for a GATE whose expectation is the simulator's. */
BB_MUST bb_status bb_plan_simulation(const struct bb_profile_step *step, const struct bb_gate *gate,
				     const struct bb_places *places, struct bb_words_list *words,
				     struct bb_error *error);

/* As a line that a shell takes. */
void bb_plan_add_line(struct bb_strbuf *out, const struct bb_words_list *words);
/* What a gate asks for, in words: "busbw of all_reduce 8G >= 98% of …". */
void bb_plan_add_gate(struct bb_strbuf *out, const struct bb_gate *gate);

#endif
