/*
 * nodes.h - finds the node to blame in the records of steps.
 */
#pragma once

#include "acceptance/judge.h"
#include "suspects/fit.h"

enum bb_node_verdict { BB_NODE_OK, BB_NODE_SUSPECT, BB_NODE_UNKNOWN, BB_NODE_BAD };
extern const char *const bb_node_verdict_names[]; /* [verdict] */

/* The number of a gate on one host. */
struct bb_node_value {
	const struct bb_judgement *judgement;
	double value;
	double excess; /* above 0 it is beyond the limit */
	bool shared;   /* measured between this host and others: the best of these */
	bool grouped;  /* and of a group of several hosts, of which any may be to blame */
};

struct bb_node {
	const char *host; /* of the records */
	enum bb_node_verdict verdict;
	char code[32]; /* BB-OK, BB-STRAGGLER, BB-WRONG-DATA, BB-BELOW-GATE, BB-NOT-JUDGED, or
			     diagnose's */
	char *reason;  /* owned: names the step and, where known, the rank and its device */
	struct bb_node_value *values; /* one for each gate, or two: its own, and shared */
	size_t nvalues, room;
	/* While it is judged: */
	bool present;              /* took part in the step */
	struct bb_tally groups[2]; /* values of those on this host, and on several */
};

struct bb_nodes {
	struct bb_node *list;
	size_t n, room;
	bool failed; /* a node or value is missing: out of memory */
};

/*
 * NODES = the worst verdict of N steps on each host that took part; JUDGEMENTS, those of all steps,
 * get one more, "culprit", for each declared step whose culprits were found by narrower groups. A
 * straggler is blamed if it entered last in most operations and most of the time that these took
 * was waiting for it. If a gate failed and its numbers differ between hosts, the hosts beyond its
 * limit are blamed. If nobody stands out, all are unknown, unless there was one host alone.
 * BB_EINTERNAL without memory; free NODES.
 */
BB_MUST bb_status bb_nodes_judge(const struct bb_evidence *evidence, size_t n,
				 struct bb_judgements *judgements, struct bb_nodes *nodes,
				 struct bb_error *error);
void bb_nodes_free(struct bb_nodes *nodes);

/* The node of that host, or NULL. */
struct bb_node *bb_nodes_find(const struct bb_nodes *nodes, const char *host);
/* How many nodes stand out without proof: a warning, which --strict fails. */
size_t bb_nodes_suspected(const struct bb_nodes *nodes);

/* ---- culprits in groups of all nodes that get smaller step by step ------------------------- */

/* Nodes to blame: one, or a group that is slow although no smaller group of it is. */
struct bb_culprit {
	const struct bb_evidence *evidence; /* the step that shows it */
	int64_t group;                      /* of that step, beyond the limit */
	int64_t node;                       /* the node of that pair; -1: the whole group */
	const struct bb_metric *measure;
	double limit, value; /* VALUE: of the group */
	double excess;       /* above 0 the value is beyond the limit; NAN: not measured */
	bool cleared; /* of a whole group: its first node keeps to the limit in another one */
	bool met_one; /* NODE has met no other node, so that the path between them may be slow */
};

struct bb_bisection { /* zero-initialise; free the list */
	struct bb_culprit *list;
	size_t n, room;
	bool any, last; /* a group is beyond a limit: of any step, of the narrowest measured */
	bool ran;       /* narrower groups were measured */
	bool failed;    /* out of memory */
};

/*
 * The culprits of the declared STEP, by its evidence and that of the steps that narrow it, among
 * the N steps of EVIDENCE; their values are compared with the limits of JUDGEMENTS. A node is a
 * culprit if its pair is beyond a limit that its partner keeps to with another node.
 */
struct bb_bisection bb_bisect(const struct bb_evidence *evidence, size_t n,
			      const struct bb_profile_step *step,
			      const struct bb_judgements *judgements);

/* Append a sentence: "h3: busbw 1.2 GB/s with h4, limit 8; h4 keeps to it with another node", "h3
   or its path to h4: …". */
void bb_culprit_add_text(const struct bb_culprit *c, struct bb_strbuf *out);
