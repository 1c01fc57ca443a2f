/*
 * claims.h - reported bandwidths, and the reader of a log of nccl-tests as it was pasted.
 */
#pragma once

#include "core/datatype.h"
#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_CLAIMS_BYTES (64 << 20)
#define BB_MOST_CLAIMS 100000 /* tables, and rows of one */

/* One size in one placement. */
struct bb_claim {
	uint64_t size_bytes;
	bool in_place, wrong; /* WRONG: its data is; a footer alone does not say of which rows */
	double time_us, algbw_GBps, busbw_GBps;
	int line;
};

/* What a log says of the machine and of the settings beside its tables. */
enum bb_fact_kind {
	BB_FACT_CARD,       /* a GPU named in prose; TEXT: its name in topology/cards.h */
	BB_FACT_NICS,       /* VALUE: NICs of a node that NCCL uses */
	BB_FACT_NIC_RATE,   /* VALUE: Gb/s of each */
	BB_FACT_INFINIBAND, /* the network; ROCE, EFA and SOCKET likewise */
	BB_FACT_ROCE,
	BB_FACT_EFA,
	BB_FACT_SOCKET,
	BB_FACT_CHANNELS,  /* VALUE: channels of collectives */
	BB_FACT_ALGORITHM, /* TEXT: value of NCCL_ALGO; PROTOCOL likewise */
	BB_FACT_PROTOCOL,
	BB_FACT_SHARP,   /* in-network reduction is switched on */
	BB_FACT_GDR_OFF, /* GPUDirect RDMA is off */
	BB_FACT_P2P_OFF, /* off by the user or the platform; SHM, NVLS and MNNVL likewise */
	BB_FACT_SHM_OFF,
	BB_FACT_NVLS_OFF,
	BB_FACT_MNNVL_OFF,
	BB_FACT_SHARED_GPU, /* VALUE: ranks on the GPU that most ranks share */
	BB_FACT_ERROR,      /* a warning of NCCL or CUDA that explains a slow run */
	BB_FACTS
};

/* LINE: 1 is the first of the file, 0: nothing says it. QUOTE: that line, without the launcher's
   tag, cut with "…". OBSERVED: NCCL reports it; false: somebody asks for it. BY, for the reader of
   logs: the environment variable that states it; -1: none. */
struct bb_fact {
	int line, by;
	bool observed;
	int64_t value;
	char text[32], quote[160];
};

/* One table of a run. Texts are empty and numbers 0 if they are unknown. */
struct bb_claims {
	char collective[24], algorithm[32], gpu[64], backend[16];
	char type[16], op[8], host[64]; /* datatype, reduction; the host of rank 0 */
	char root[16];                  /* as the rows have it, "-1": none; empty: no column */
	size_t unchecked_in_place;      /* of the unchecked rows */
	int64_t nranks, hosts;
	struct bb_fact
		*facts; /* of each kind: what NCCL reports, else what is asked for; NULL: none */
	/* Runs that this table stands for: copies of one rank each, as nccl-tests without MPI=1
	   prints under mpirun, or runs whose rows nothing tells apart. 0 or 1: one. */
	int64_t runs;
	/* The rows are of OSU's benchmarks: sizes are a rank's message, and bandwidths are 0, until
	   bb_claims_complete names the ranks. */
	bool incomplete;
	/* "Avg bus bandwidth" of a run without rows, and its sizes; 0: there are rows, or unknown.
	   Sizes grow by FACTOR or, if that is 0, by STEP_BYTES. */
	double average_GBps, factor;
	uint64_t least_bytes, most_bytes, step_bytes;
	double rounding; /* half a unit of the last printed digit of bandwidths, GB/s */
	/* Of records: the largest size as a percentage of its bound. NAN: unknown. */
	double percent_of_bound;
	char bound_source[96];
	struct bb_claim *list;
	size_t n, room;
	size_t implausible;      /* left out: algbw is not size over time */
	size_t not_finite;       /* left out: nan or inf is among the numbers */
	bool simulated;          /* in virtual time */
	size_t wrong, unchecked; /* rows with wrong data, and with unchecked data */
};

struct bb_claim_file {
	struct bb_claims *list;
	size_t n, room;
	size_t cut; /* rows of a log that end before their last number */
	int cut_line;
};

/* Appends the tables in the LENGTH bytes of TEXT, which messages call PATH, to FILE. */
typedef bb_status bb_claims_reader(const char *path, const char *text, size_t length,
				   struct bb_claim_file *file, struct bb_error *error);

/* Reads text of nccl-tests and of OSU's collectives, with any prefix that a launcher or logger put
   before its lines, and within strings of JSON. */
BB_MUST bb_status bb_claims_read_log(const char *path, const char *text, size_t length,
				     struct bb_claim_file *file, struct bb_error *error);

/*
 * *FILE = the tables that READER finds in the LENGTH bytes of TEXT, which messages call PATH.
 * BB_EUSAGE: there is no table, or it is no text, or READER refuses it. Free *FILE.
 */
BB_MUST bb_status bb_claims_read_by(bb_claims_reader *reader, const char *path, const char *text,
				    size_t length, struct bb_claim_file *file,
				    struct bb_error *error);
void bb_claims_free(struct bb_claim_file *file);

/*
 * The numbers of ranks, *LEAST to *MOST, that the ratios of busbw and algbw allow within rounding,
 * by the factor of COLLECTIVE (nccl-tests' PERFORMANCE.md). Returns false if they allow none:
 * *LEAST is 1 and *MOST 0 if the factor is unknown or independent of ranks; else *LEAST is above
 * *MOST, and the rows contradict each other or the factor.
 */
bool bb_claims_ranks(const struct bb_claims *claims, const char *collective, int64_t *least,
		     int64_t *most);

/* The fact of KIND; NULL: the log does not state it. */
const struct bb_fact *bb_claims_fact(const struct bb_claims *claims, enum bb_fact_kind kind);

/* True if each rank has a share of COLLECTIVE's size: its bus bandwidth is (n-1)/n of the
   algorithm's, and nccl-tests prints the count of a share. */
bool bb_claims_shares(const char *collective);
/* Sets the ranks of an incomplete table, and with them the sizes and bandwidths of nccl-tests. */
void bb_claims_complete(struct bb_claims *claims, int64_t nranks);

/* The datatype and reduction of CLAIMS; unless they are known, nccl-tests' defaults: float, sum. */
void bb_claims_operand(const struct bb_claims *claims, enum bb_dtype *dtype, enum bb_op *op);

/* ---- for readers --------------------------------------------------------------------------- */

struct bb_claims *bb_claims_add(struct bb_claim_file *file);
/* Adds FACT of KIND unless there is one. Returns false without memory. */
bool bb_claims_add_fact(struct bb_claims *claims, enum bb_fact_kind kind,
			const struct bb_fact *fact);
bool bb_claim_add(struct bb_claims *claims, const struct bb_claim *claim);
