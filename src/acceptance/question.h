/*
 * question.h - is this table of claims normal? The table, its machine, and what is known of both.
 */
#ifndef BB_ACCEPTANCE_QUESTION_H
#define BB_ACCEPTANCE_QUESTION_H

#include "acceptance/normal.h"
#include "core/units.h"
#include "simulator/cluster/cluster.h"
#include "simulator/nccl/constants.h"
#include "topology/cards.h"

#include <string.h>

/* A machine that claims may come from. */
struct bb_claimed_machine {
	struct bb_cluster
		*cluster; /* of as many nodes as the claims have; NULL: none, or no room */
	char system[64];  /* "hgx-h100" */
	char name[96];    /* the same, or "dgx-a100 with 4 NICs of 200 Gb/s" */
	struct bb_cluster_nics nics;
	bool assumed; /* the GPU alone points to it: its NICs may be others */
	/* The model of NCCL; generation NULL: there is none. */
	struct bb_nccl_constants constants;
	struct bb_nccl_machine nccl;
};

/* A table of claims to be judged. */
struct bb_question {
	const struct bb_claims *claims;
	const struct bb_references *references;
	const struct bb_circumstances *given;
	const char *gpu;            /* its name by the user or the file; "": unknown */
	const struct bb_card *card; /* NULL: not in src/topology/cards.c */
	const char *collective;     /* "": unknown */
	long long ranks, nodes;     /* 0: unknown */
	const struct bb_claimed_machine *machine;
	struct bb_strbuf *out;
};

/* Appends to the text about Q. */
#define SAY(q, ...) bb_strbuf_addf((q)->out, __VA_ARGS__)

/* The fact of KIND of the claims, or NULL. */
const struct bb_fact *bb_normal_fact(const struct bb_question *q, enum bb_fact_kind kind);

/* The least number of nodes for RANKS. */
int64_t bb_normal_nodes(const struct bb_card *card, int64_t ranks);
/* True if NVLink connects all RANKS on NODES nodes (0: unknown). */
bool bb_normal_is_near(const struct bb_card *card, int64_t ranks, int64_t nodes);

/* ---- machines ---------------------------------------------------------------------------- */

/*
 * Open the machine of Q: that of --cluster or --topology, else the known system with the card that
 * has the NICs which the user or the log names, else the card's first. Its cluster is NULL if the
 * card or the ranks are unknown. BB_EUSAGE: the user names one that does not exist or has no room.
 * Close *MACHINE.
 */
BB_MUST bb_status bb_normal_machine_find(const struct bb_question *q,
					 struct bb_claimed_machine *machine,
					 struct bb_error *error);
/* Open SYSTEM, with NICS of its NICs or, if that is 0, as it is, for the ranks of Q. Returns false
   if it has no room for them. */
bool bb_normal_machine_open(const struct bb_question *q, const char *system, int nics,
			    struct bb_claimed_machine *machine);
void bb_normal_machine_close(struct bb_claimed_machine *machine);
/* Append "8 NICs of 400 Gb/s" with their kind. */
void bb_normal_describe_nics(const struct bb_claimed_machine *machine, struct bb_strbuf *out);

/* ---- bounds ------------------------------------------------------------------------------ */

/* A collective of so many ranks, as many on each node. */
struct bb_normal_shape {
	const char *collective, *algorithm; /* "" or "auto": any */
	int64_t ranks, nodes;
	bool by_sharp; /* the network's switches may reduce, which few systems are set up for */
};
static inline struct bb_normal_shape bb_normal_shape_of(const struct bb_question *q, int64_t ranks,
							int64_t nodes)
{
	return (struct bb_normal_shape){q->collective, q->claims->algorithm, ranks, nodes, false};
}

/* The shape of rings, or of alltoall, by whose bound shares are counted. */
static inline struct bb_normal_shape bb_normal_ring_of(const struct bb_question *q)
{
	const bool alltoall = strncmp(q->collective, "alltoall", 8) == 0;

	return (struct bb_normal_shape){q->collective, alltoall ? "" : "ring", q->ranks, q->nodes,
					false};
}

/* The highest bound of SHAPE over the algorithms of its collective, on machines like T. GBPS 0:
   there is none, or no room. */
struct bb_normal_bound {
	double GBps;
	const char *system, *algorithm; /* "hgx-h100", "NVLS" */
	char why[256];
};
struct bb_normal_bound bb_normal_bound_on(const struct bb_topology *t,
					  const struct bb_normal_shape *shape);
/* The highest one over the known systems with CARD. */
struct bb_normal_bound bb_normal_bound_of(const struct bb_card *card,
					  const struct bb_normal_shape *shape);
/* Describe the best row as a share of its bound. BB_IMPOSSIBLE: more than the links of the machine
   and of any known system with such cards can carry. */
enum bb_normality bb_normal_judge_bound(const struct bb_question *q);

/* ---- comparisons: BB_LOW, BB_NORMAL or BB_HIGH; BB_UNKNOWN: there is nothing to compare with.
   Each appends what was compared with what. ----------------------------------------------- */

enum bb_normality bb_normal_by_published(const struct bb_question *q);
/* By the interval of the simulator's model of NCCL. */
enum bb_normality bb_normal_by_model(const struct bb_question *q);
/* By the share of the bound of rings, or of alltoall, where published runs say what is usual. */
bool bb_normal_has_share(const char *collective);
enum bb_normality bb_normal_by_share(const struct bb_question *q);
/* Compare the rows with each other: BB_UNEVEN, BB_NORMAL or, without memory, BB_UNKNOWN. */
enum bb_normality bb_normal_evenness(const struct bb_question *q);
/* Whether even the largest size is bound by latency, so that no row shows a bandwidth. */
bool bb_normal_is_latency(const struct bb_claims *claims);
/* The largest row of the slower placement; a run without rows: its average, of size 0. */
struct bb_claim bb_normal_largest(const struct bb_claims *claims);
/* Append "At 8G: 196.5 GB/s. " or, if latency bounds the rows, "At 8K: 20 us. " */
void bb_normal_describe_row(const struct bb_question *q, const struct bb_claim *row);

#endif
