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
	if (file->n >= BB_MOST_CLAIMS)
		return NULL;
	struct bb_claims *new = BB_ARRAY_ADD(file->list, file->n, file->room);
	if (new)
		*new = (struct bb_claims){.percent_of_bound = NAN};
	return new;
}

bool bb_claim_add(struct bb_claims *claims, const struct bb_claim *claim)
{
	return claims->n < BB_MOST_CLAIMS &&
	       BB_ARRAY_PUT(claims->list, claims->n, claims->room, *claim);
}

const struct bb_fact *bb_claims_fact(const struct bb_claims *claims, enum bb_fact_kind kind)
{
	return claims->facts && claims->facts[kind].line > 0 ? &claims->facts[kind] : NULL;
}

bool bb_claims_add_fact(struct bb_claims *claims, enum bb_fact_kind kind,
			const struct bb_fact *fact)
{
	if (!claims->facts)
		claims->facts = calloc(BB_FACTS, sizeof(*claims->facts));
	if (claims->facts && claims->facts[kind].line == 0)
		claims->facts[kind] = *fact;
	return claims->facts;
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

/* ---- reading -------------------------------------------------------------------------------- */

bb_status bb_claims_read_by(bb_claims_reader *reader, const char *path, const char *text,
			    size_t length, struct bb_claim_file *file, struct bb_error *error)
{
	/* The failure that ended a run of nccl-tests. */
	static const char *const failures[] = {"Test NCCL failure", "Test CUDA failure",
					       "Test failure common", "NCCL WARN "};
	const char *const cr = memchr(text, '\r', length), *found = NULL;

	*file = (struct bb_claim_file){.n = 0};
	if (memchr(text, '\0', length))
		return bb_fail(error, BB_EUSAGE,
			       "%s: holds bytes of 0, as text in UTF-16 does; iconv -f UTF-16 -t "
			       "UTF-8 converts that",
			       path);
	if (cr && cr + 1 < text + length && !memchr(text, '\n', length))
		return bb_fail(error, BB_EUSAGE,
			       "%s: its lines end in CR alone; tr '\\r' '\\n' converts them", path);
	bb_status st = reader(path, text, length, file, error);
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]) && !found; i++)
		found = memmem(text, length, failures[i], strlen(failures[i]));
	if (st == BB_OK && file->n == 0 && file->cut > 0)
		st = bb_fail(error, BB_EUSAGE,
			     "%s:%d: a row of nccl-tests ends before its numbers do, and there is "
			     "no whole one",
			     path, file->cut_line);
	else if (st == BB_OK && file->n == 0 && found) {
		size_t n = strcspn(found, "\r\n");

		n = n < (size_t)(text + length - found) ? n : (size_t)(text + length - found);
		st = bb_fail(error, BB_EUSAGE, "%s: no results; it ends with \"%.*s\"", path,
			     n < 199 ? (int)n : 199, found);
	} else if (st == BB_OK && file->n == 0)
		st = bb_fail(error, BB_EUSAGE,
			     "%s: neither results of a collective nor a table of nccl-tests: size, "
			     "count, type, redop, root, then time, algbw, busbw, #wrong twice",
			     path);
	if (st != BB_OK)
		bb_claims_free(file);
	return st;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Ranks at which a collective has the ratio R: 2(n-1)/n, or (n-1)/n. INFINITY beyond all. */
static double ranks_at(double r, bool twice)
{
	const double left = (twice ? 2 : 1) - r;

	return left > 1e-12 ? (twice ? 2 : 1) / left : INFINITY;
}

bool bb_claims_shares(const char *collective)
{
	const struct bb_collective *const c = bb_collective_find(collective);

	return c && c->bus_factor(4) == 0.75; /* all_reduce has twice that */
}

void bb_claims_complete(struct bb_claims *claims, int64_t nranks)
{
	const char *const name = claims->collective;
	const struct bb_collective *const collective = bb_collective_find(name);
	/* OSU's size of reduce_scatter is already that of all ranks. */
	const bool of_all = !bb_claims_shares(name) || strcmp(name, "reduce_scatter") == 0;
	const double factor = collective ? collective->bus_factor((int)nranks) : 1;

	if (!claims->incomplete || nranks < 2 || !name[0])
		return;
	claims->incomplete = false;
	claims->nranks = nranks;
	for (size_t i = 0; i < claims->n; i++) {
		struct bb_claim *const c = &claims->list[i];

		c->size_bytes *= of_all ? 1 : (uint64_t)nranks;
		c->algbw_GBps = (double)c->size_bytes / c->time_us / 1e3;
		c->busbw_GBps = factor * c->algbw_GBps;
	}
}

/* The interval of ratios of bandwidths that all rows allow or, with LIKE, those that allow what
   that row does. Returns how many do not. */
static size_t ratios_meet(const struct bb_claims *claims, const struct bb_claim *like, double *low,
			  double *high)
{
	const double half = claims->rounding;
	size_t apart = 0;

	*low = 0;
	*high = INFINITY;
	for (size_t i = like ? 0 : 1; i <= claims->n; i++) {
		const struct bb_claim *const c = i == 0 ? like : &claims->list[i - 1];
		const double a = c->algbw_GBps, b = c->busbw_GBps;
		const double least = (b - half) / (a + half), most = (b + half) / (a - half);

		if (a <= 100 * half)
			continue;
		if (like && (least > *high || most < *low)) {
			apart++;
			continue;
		}
		*low = fmax(*low, least);
		*high = fmin(*high, most);
	}
	return apart;
}

bool bb_claims_ranks(const struct bb_claims *claims, const char *collective, int64_t *least,
		     int64_t *most)
{
	const bool twice = strcmp(collective, "all_reduce") == 0;
	const bool known = twice || bb_claims_shares(collective);
	double low, high;

	ratios_meet(claims, NULL, &low, &high);
	/* A row, or one in ten, may be a misprint: then the others decide. */
	if (low > high && claims->n >= 4) {
		for (size_t i = claims->n; i > 0 && low > high; i--)
			if (ratios_meet(claims, &claims->list[i - 1], &low, &high) >
			    (claims->n < 20 ? 1 : claims->n / 10))
				high = low - 1;
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

void bb_claims_operand(const struct bb_claims *claims, enum bb_dtype *dtype, enum bb_op *op)
{
	*dtype = bb_dtype_named(claims->type);
	*dtype = *dtype < BB_NDTYPES ? *dtype : BB_FLOAT;
	*op = bb_op_named(claims->op);
	*op = *op < BB_NOPS ? *op : BB_SUM;
}
