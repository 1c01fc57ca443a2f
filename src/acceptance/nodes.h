/*
 * nodes.h - finds the node to blame in the records of steps.
 */
#ifndef BB_ACCEPTANCE_NODES_H
#define BB_ACCEPTANCE_NODES_H

#include "acceptance/judge.h"

enum bb_node_verdict { BB_NODE_OK, BB_NODE_SUSPECT, BB_NODE_UNKNOWN, BB_NODE_BAD };
/* "OK", "SUSPECT", "UNKNOWN", "BAD" */
const char *bb_node_verdict_name(enum bb_node_verdict verdict);

/* The number of a gate on one host. */
struct bb_node_value {
	const struct bb_judgement *judgement;
	double value, limit;
	double margin; /* value over limit, or its inverse; below 1 it is beyond the limit */
	bool shared;   /* measured between this host and others: the best of these */
	bool grouped;  /* and of a group of several hosts, of which any may be to blame */
	bool beyond;   /* the value is beyond the limit */
};

struct bb_node {
	char *host; /* owned, like the reason */
	enum bb_node_verdict verdict;
	char code[32]; /* BB-OK, BB-STRAGGLER, BB-WRONG-DATA, BB-BELOW-GATE, BB-NOT-JUDGED, or
			     diagnose's */
	char *reason;  /* names the step and, where known, the rank and its device */
	struct bb_node_value *values; /* one for each gate, or two: its own, and shared */
	size_t nvalues, room;
	bool present; /* took part in the step that is judged */
};

struct bb_nodes {
	struct bb_node *list;
	size_t n, room;
	bool failed; /* a node or value is missing: out of memory */
};

/*
 * NODES = the worst verdict of N steps on each host that took part; JUDGEMENTS are those of all
 * steps. A straggler is blamed if it entered last in most operations and most of the time that
 * these took was waiting for it. If a gate failed and its numbers differ between hosts, the hosts
 * beyond its limit are blamed. If nobody stands out, all are unknown, unless there was one host
 * alone. BB_EINTERNAL without memory; free NODES.
 */
BB_MUST bb_status bb_nodes_judge(const struct bb_evidence *evidence, size_t n,
				 const struct bb_judgements *judgements, struct bb_nodes *nodes,
				 struct bb_error *error);
void bb_nodes_free(struct bb_nodes *nodes);

/* The node of that host, or NULL. */
struct bb_node *bb_nodes_find(const struct bb_nodes *nodes, const char *host);
/* How many nodes stand out without proof: a warning, which --strict fails. */
size_t bb_nodes_suspected(const struct bb_nodes *nodes);

#endif
