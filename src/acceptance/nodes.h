/*
 * nodes.h - which node is to blame, as far as the records of collectives tell.
 */
#ifndef BB_ACCEPTANCE_NODES_H
#define BB_ACCEPTANCE_NODES_H

#include "acceptance/judge.h"

enum bb_node_verdict { BB_NODE_OK, BB_NODE_SUSPECT, BB_NODE_UNKNOWN, BB_NODE_BAD };
/* "OK", "SUSPECT", "UNKNOWN", "BAD" */
const char *bb_node_verdict_name(enum bb_node_verdict verdict);

struct bb_node {
	char host[64];
	enum bb_node_verdict verdict;
	char code[24];    /* BB-OK, BB-STRAGGLER, BB-WRONG-DATA, BB-BELOW-GATE, BB-NOT-JUDGED, or
			     diagnose's */
	char reason[320]; /* names the step and, where known, the rank and its device */
};

struct bb_nodes {
	struct bb_node *list;
	size_t n;
};

/*
 * What the evidence of N steps says of each host that took part, the worst of all steps; JUDGEMENTS
 * are those of all. A straggler is blamed if it entered last in most operations and most of the
 * time that these took was waiting for it; where gates failed and nobody stands out, all are
 * unknown, unless there was one host alone. BB_EINTERNAL without memory; NODES are to be freed.
 */
BB_MUST bb_status bb_nodes_judge(const struct bb_evidence *evidence, size_t n,
				 const struct bb_judgements *judgements, struct bb_nodes *nodes,
				 struct bb_error *error);
void bb_nodes_free(struct bb_nodes *nodes);

#endif
