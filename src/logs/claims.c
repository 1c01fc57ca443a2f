/*
 * claims.c - tables of claims, and the number of ranks by the ratio of bandwidths.
 */
#include "logs/claims.h"

#include "schedules/schedule.h"
#include "core/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bb_claims *bb_claims_add(struct bb_claim_file *file)
{
	struct bb_claims *new;

	if (file->n >= BB_MOST_CLAIMS)
		return NULL;
	new = BB_ARRAY_ADD(file->list, file->n, file->room);
	if (new)
		*new = (struct bb_claims){.percent_of_bound = NAN};
	return new;
}

bool bb_claim_add(struct bb_claims *claims, const struct bb_claim *claim)
{
	struct bb_claim *new;

	if (claims->n >= BB_MOST_CLAIMS)
		return false;
	new = BB_ARRAY_ADD(claims->list, claims->n, claims->room);
	if (new)
		*new = *claim;
	return new;
}

void bb_claims_free(struct bb_claim_file *file)
{
	for (size_t i = 0; i < file->n; i++) {
		free(file->list[i].list);
		free(file->list[i].facts);
	}
	free(file->list);
	*file = (struct bb_claim_file){.n = 0};
}

/* ---- reading -----------------------------------------------------------------------------------
 */

/* Refuses UTF-16 and lines that end in CR alone. */
static bb_status check_text(const char *path, const char *text, size_t length,
			    struct bb_error *error)
{
	const char *const cr = memchr(text, '\r', length);

	if (memchr(text, '\0', length))
		return bb_fail(error, BB_EUSAGE,
			       "%s: holds bytes of 0, as text in UTF-16 does; iconv -f UTF-16 -t "
			       "UTF-8 converts that",
			       path);
	if (cr && cr + 1 < text + length && !memchr(text, '\n', length))
		return bb_fail(error, BB_EUSAGE,
			       "%s: its lines end in CR alone; tr '\\r' '\\n' converts them", path);
	return BB_OK;
}

bb_status bb_claims_read_by(bb_claims_reader *reader, const char *path, const char *text,
			    size_t length, struct bb_claim_file *file, struct bb_error *error)
{
	bb_status st;

	*file = (struct bb_claim_file){.n = 0};
	st = check_text(path, text, length, error);
	if (st != BB_OK)
		return st;
	st = reader(path, text, length, file, error);
	if (st == BB_OK && file->n == 0 && file->cut > 0)
		st = bb_fail(error, BB_EUSAGE,
			     "%s:%d: a row of nccl-tests ends before its numbers do, and there is "
			     "no whole one",
			     path, file->cut_line);
	else if (st == BB_OK && file->n == 0)
		st = bb_fail(error, BB_EUSAGE,
			     "%s: neither results of a collective nor a table of nccl-tests: size, "
			     "count, type, redop, root, then time, algbw, busbw, #wrong twice",
			     path);
	if (st != BB_OK)
		bb_claims_free(file);
	return st;
}

/* ---- ranks ------------------------------------------------------------------------------------
 */

/* Ranks at which a collective has the ratio R: 2(n-1)/n, or (n-1)/n. INFINITY beyond all. */
static double ranks_at(double r, bool twice)
{
	const double left = (twice ? 2 : 1) - r;

	return left > 1e-12 ? (twice ? 2 : 1) / left : INFINITY;
}

bool bb_claims_ranks(const struct bb_claims *claims, const char *collective, int64_t *least,
		     int64_t *most)
{
	static const char *const once[] = {"all_gather", "reduce_scatter", "alltoall",
					   "alltoallv",  "gather",         "scatter"};
	const bool twice = strcmp(collective, "all_reduce") == 0;
	double low = 0, high = INFINITY;
	bool known = twice;

	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
		known |= strcmp(collective, once[i]) == 0;
	for (size_t i = 0; i < claims->n; i++) {
		const double a = claims->list[i].algbw_GBps, b = claims->list[i].busbw_GBps;
		const double half = claims->rounding;

		if (a <= 100 * half)
			continue;
		low = fmax(low, (b - half) / (a + half));
		high = fmin(high, (b + half) / (a - half));
	}
	*least = 1;
	*most = 0;
	if (isinf(high))
		return false;
	/* Broadcast and its like have equal bandwidths; the ratios of others stay below 2, or 1. */
	if (known ? low >= (twice ? 2 : 1)
		  : bb_collective_find(collective) && (low > 1 || high < 1))
		*least = 2;
	if (!known || *least == 2)
		return false;
	low = ceil(ranks_at(low, twice) - 1e-6);
	high = floor(ranks_at(high, twice) + 1e-6);
	*least = low < 1e9 ? (int64_t)low : (int64_t)1e9;
	*most = high < 1e9 ? (int64_t)high : (int64_t)1e9;
	return *least <= *most;
}
