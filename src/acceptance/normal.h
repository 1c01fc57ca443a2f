/*
 * normal.h - is my number normal? Claims compared with published measurements and bounds.
 */
#pragma once

#include "acceptance/claims.h"
#include "acceptance/reference.h"
#include "core/strbuf.h"
#include "core/units.h"
#include "simulator/cluster/cluster.h"
#include "simulator/nccl/model.h"
#include "topology/cards.h"

#include <string.h>

/* From the best to the worst. */
enum bb_normality {
	BB_NORMAL,
	BB_HIGH,
	BB_LATENCY, /* bound by latency: too small to show a bandwidth */
	BB_UNKNOWN,
	BB_IMPOSSIBLE,
	BB_DIED,   /* the run ended with an error */
	BB_UNEVEN, /* a dip, or one placement slower than the other */
	BB_LOW,
	BB_WRONG
};

/* Options of the user, which overrule the file. */
struct bb_circumstances {
	const char *gpu, *collective; /* NULL: as the file says */
	const char *machine;    /* text of --cluster, or file of --topology; NULL: by the GPU */
	int64_t nodes, ranks;   /* 0: as the file says */
	int64_t nics, nic_Mbps; /* of a node; 0: as the log or the machine says */
};

/* Low is below this share of the slowest published run, high above this share of the fastest. */
#define BB_NORMAL_LOW 0.9
#define BB_NORMAL_HIGH 1.1
/* A dip is below this share of the best at a smaller size, an uneven placement below this share of
   the other one; both from the first size on that reaches BB_NORMAL_PLATEAU of the best row. */
#define BB_NORMAL_DIP 0.9
#define BB_NORMAL_UNEVEN 0.8
#define BB_NORMAL_PLATEAU 0.5
/* In a table of so many rows a single one that is slow is no verdict. */
#define BB_NORMAL_ROWS 6
/* Latency bounds a table whose time grows over the last factor BB_LATENCY_SPAN in size by less than
   the size to the power BB_LATENCY_GROWTH, or whose only size is at most BB_LATENCY_BYTES. */
#define BB_LATENCY_SPAN 8
#define BB_LATENCY_GROWTH 0.5
#define BB_LATENCY_BYTES 32768
/* Of a machine without published runs and without a model, low is below this share of the bound of
   rings: nineteen of twenty published runs of GPUs reach more from BB_NORMAL_WIDE bytes on
   (tests/unit/test_normal.c; those that do not: 20 racks, TCPX, alltoall over two racks). Latency
   may bound smaller sizes. */
#define BB_NORMAL_SHARE 0.5
#define BB_NORMAL_WIDE ((uint64_t)256 << 20)
/* An interval whose ends differ by a larger factor tells less than that share. */
#define BB_NORMAL_TELLING 3
/* Below this size a process that drives all GPUs of a node takes up to this many times as long as
   one for each, which a log may not say. */
#define BB_NORMAL_SMALL ((uint64_t)1 << 20)
#define BB_NORMAL_LATE 2
/* Low on CPUs: below this share of the bound of the records. */
#define BB_NORMAL_BOUND 0.2
/* Rounding and clocks may put a number this far above the bound of its links. */
#define BB_NORMAL_ABOVE_LINKS 1.02
/* A number may exceed a bound that was measured by this factor. */
#define BB_NORMAL_BEYOND 1.1

/* *N = the verdict on CLAIMS. Appends to OUT what was compared with what, and what to do next.
   BB_EUSAGE: the machine of CIRCUMSTANCES does not exist or has no room for the ranks. */
BB_MUST bb_status bb_normal(const struct bb_claims *claims, const struct bb_references *references,
			    const struct bb_circumstances *circumstances, enum bb_normality *n,
			    struct bb_strbuf *out, struct bb_error *error);

/* ---- for the files that answer: the machine, the rows, and what is known of both ------------- */

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
	char gpu[BB_TEXT];          /* its name by the user or the file; "": unknown */
	const struct bb_card *card; /* NULL: not in src/topology/cards.c */
	const char *collective;     /* "": unknown */
	long long ranks, nodes;     /* 0: unknown */
	const struct bb_claimed_machine *machine;
	struct bb_claim row;   /* bb_normal_largest */
	bool is_latency;       /* bb_normal_is_latency */
	struct bb_strbuf *out; /* NULL: the verdict alone is wanted */
};

/* Appends to the text about Q. */
#define SAY(q, ...) ((q)->out ? bb_strbuf_addf((q)->out, __VA_ARGS__) : (void)0)

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
/* Open TEXT, a name or file as --cluster has it, with CHANGE but of as many nodes as Q has, whose
   ranks and nodes are known. As bb_cluster_open_changed; BB_EUSAGE also: it has no room for the
   ranks of Q. The cluster then is NULL. */
BB_MUST bb_status bb_normal_machine_open(const struct bb_question *q, const char *text,
					 struct bb_cluster_change change,
					 struct bb_claimed_machine *machine,
					 struct bb_error *error);
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
static inline struct bb_normal_shape bb_normal_shape_of(const struct bb_question *q)
{
	return (struct bb_normal_shape){q->collective, q->claims->algorithm, q->ranks, q->nodes,
					false};
}

/* The shape of rings, or of alltoall, by whose bound shares are counted. */
static inline struct bb_normal_shape bb_normal_ring_of(const struct bb_question *q)
{
	struct bb_normal_shape shape = bb_normal_shape_of(q);

	shape.algorithm = strncmp(q->collective, "alltoall", 8) == 0 ? "" : "ring";
	return shape;
}

/* The highest bound of SHAPE over the algorithms of its collective, on machines like T. GBPS 0:
   there is none, or no room. */
struct bb_normal_bound {
	double GBps;
	const char *system, *algorithm; /* "hgx-h100", "NVLS" */
	char why[256];
};
struct bb_normal_bound bb_normal_bound_on(const struct bb_topology *t,
					  struct bb_normal_shape shape);
/* The highest one over the known systems with CARD. */
struct bb_normal_bound bb_normal_bound_of(const struct bb_card *card, struct bb_normal_shape shape);
/* Describe the best row as a share of its bound. BB_IMPOSSIBLE: more than the links of the machine
   and of any known system with such cards can carry. */
enum bb_normality bb_normal_judge_bound(const struct bb_question *q);

/* ---- comparisons ------------------------------------------------------------------------- */

/* Compare Q, whose machine is open, with published runs, else with the model of NCCL, else with a
   bound: BB_LOW, BB_NORMAL, BB_HIGH or BB_LATENCY; BB_UNKNOWN: there is nothing to compare with.
   Appends what was compared with what. */
enum bb_normality bb_normal_compare(const struct bb_question *q);
/* Compare the rows with each other: BB_UNEVEN, BB_NORMAL or, without memory, BB_UNKNOWN. */
enum bb_normality bb_normal_evenness(const struct bb_question *q);
/* Whether even the largest size is bound by latency, so that no row shows a bandwidth. */
bool bb_normal_is_latency(const struct bb_claims *claims);
/* The largest row of the slower placement; a run without rows: its average, of size 0. */
struct bb_claim bb_normal_largest(const struct bb_claims *claims);
