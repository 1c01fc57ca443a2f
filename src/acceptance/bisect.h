/*
 * bisect.h - the node, or the nodes, that make groups slow.
 */
#ifndef BB_ACCEPTANCE_BISECT_H
#define BB_ACCEPTANCE_BISECT_H

#include "acceptance/judge.h"
#include "core/strbuf.h"

/* Nodes to blame: one, or a group that is slow although no smaller group of it is. */
struct bb_culprit {
	const struct bb_evidence *evidence; /* the step that shows it */
	int64_t group;                      /* of that step, beyond the limit */
	int64_t node;                       /* the node of that pair; -1: the whole group */
	const struct bb_judgement *judgement;
	double value; /* of the group */
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

/* Append the name of NODE: its host, or "node 5" where no host is known. */
void bb_culprit_add_node(const struct bb_evidence *e, int64_t node, struct bb_strbuf *out);
/* Append a sentence: "h3: busbw 1.2 GB/s with h4, limit 8; h4 keeps to it with another node", "h3
   or its path to h4: …". */
void bb_culprit_add_text(const struct bb_culprit *c, struct bb_strbuf *out);

/* Append a judgement "culprit" for each declared step that was narrowed. BB_EINTERNAL without
   memory. */
BB_MUST bb_status bb_bisections_judge(const struct bb_evidence *evidence, size_t n,
				      struct bb_judgements *judgements, struct bb_error *error);

#endif
