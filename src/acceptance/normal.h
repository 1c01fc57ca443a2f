/*
 * normal.h - is my number normal? Claims compared with published measurements and bounds.
 */
#ifndef BB_ACCEPTANCE_NORMAL_H
#define BB_ACCEPTANCE_NORMAL_H

#include "acceptance/claims.h"
#include "acceptance/reference.h"
#include "core/strbuf.h"

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

#endif
