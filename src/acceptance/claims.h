/*
 * claims.h - bandwidths that somebody reports: records, or a log of nccl-tests as it was pasted.
 */
#ifndef BB_ACCEPTANCE_CLAIMS_H
#define BB_ACCEPTANCE_CLAIMS_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_CLAIMS_BYTES (64 << 20)
#define BB_MOST_CLAIMS 100000 /* tables, and rows of one */

/* One size in one placement. */
struct bb_claim {
	uint64_t size_bytes;
	bool in_place;
	double time_us, algbw_GBps, busbw_GBps;
	int line;
};

/* One table: what belongs together. Texts are empty, numbers 0 where nothing is said. */
struct bb_claims {
	char collective[24], algorithm[32], gpu[64], backend[16];
	int64_t nranks, hosts;
	double rounding; /* half a digit of the bandwidths as they were printed, GB/s */
	/* Of records: how close the largest size comes to the bound of its record. NAN: unknown. */
	double percent_of_bound; /* of the last of the list */
	char bound_source[96];
	struct bb_claim *list;
	size_t n, room;
	size_t implausible;      /* left out, since their algbw is not their size over their time */
	size_t not_finite;       /* left out, since nan or inf is among their numbers */
	bool simulated;          /* in virtual time */
	size_t wrong, unchecked; /* rows with wrong data, and those whose data nobody checked */
};

struct bb_claim_file {
	struct bb_claims *list;
	size_t n, room;
	size_t cut; /* rows of a log that end before their numbers do */
	int cut_line;
};

/*
 * The tables in the LENGTH bytes of TEXT, which messages call PATH: of records if its first line
 * with a brace is one, else of nccl-tests' text with whatever a launcher or logger put before each
 * line. BB_EUSAGE: there is no table, or a record is broken. *FILE is to be freed.
 */
BB_MUST bb_status bb_claims_read(const char *path, const char *text, size_t length,
				 struct bb_claim_file *file, struct bb_error *error);
void bb_claims_free(struct bb_claim_file *file);

/*
 * How many ranks the ratios of busbw and algbw speak for, by the factor of COLLECTIVE (in
 * nccl-tests' PERFORMANCE.md): from *LEAST to *MOST, within what rounding leaves open. Returns
 * false where they speak for none: the factor does not depend on ranks, or the rows contradict each
 * other or the factor (*LEAST is above *MOST).
 */
bool bb_claims_ranks(const struct bb_claims *claims, const char *collective, int64_t *least,
		     int64_t *most);

/* ---- of claims.c's own ---- */

struct bb_claims *bb_claims_add(struct bb_claim_file *file);
bool bb_claim_add(struct bb_claims *claims, const struct bb_claim *claim);
/* nccl-tests' text: claims_log.c. */
BB_MUST bb_status bb_claims_read_log(const char *path, const char *text, size_t length,
				     struct bb_claim_file *file, struct bb_error *error);

#endif
