/*
 * claims.c - claims from records, and the number of ranks by the ratio of bandwidths.
 */
#include "acceptance/claims.h"

#include "acceptance/records.h"
#include "schedules/schedule.h"
#include "core/array.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
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
	for (size_t i = 0; i < file->n; i++)
		free(file->list[i].list);
	free(file->list);
	*file = (struct bb_claim_file){.n = 0};
}

/* ---- from records -----------------------------------------------------------------------------
 */

static void keep(char *into, size_t room, const char *text)
{
	snprintf(into, room, "%s", text ? text : "");
}

/* Returns the number of hosts of RANKS, which are sorted by host. */
static int64_t count_hosts(const json_t *ranks)
{
	const char *before = NULL;
	int64_t n = 0;
	size_t i;
	json_t *rank;

	json_array_foreach(ranks, i, rank)
	{
		const char *const host = bb_record_string(rank, "host");

		n += host && (!before || strcmp(host, before) != 0);
		before = host ? host : before;
	}
	return n;
}

static void claims_describe(struct bb_claims *c, const struct bb_read_record *r)
{
	const json_t *const ranks = json_object_get(r->run, "ranks");
	const int64_t n = bb_record_int(r->json, "nranks");

	keep(c->collective, sizeof(c->collective), bb_record_string(r->json, "collective"));
	keep(c->algorithm, sizeof(c->algorithm), bb_record_string(r->json, "algorithm_asked"));
	keep(c->backend, sizeof(c->backend), bb_record_string(r->run, "backend"));
	keep(c->gpu, sizeof(c->gpu), bb_record_string(json_array_get(ranks, 0), "name"));
	c->nranks = n > 0 ? n : 0;
	c->hosts = count_hosts(ranks);
	c->rounding = 1e-9;
	c->simulated = bb_record_bool(r->run, "virtual_time");
}

/* Returns the table of R: the last one if it has R's run and algorithm, else a new one. */
static struct bb_claims *table_of(struct bb_claim_file *file, const struct bb_read_record *r,
				  const json_t **run)
{
	const char *const algorithm = bb_record_string(r->json, "algorithm_asked");
	const char *const collective = bb_record_string(r->json, "collective");
	struct bb_claims *c = file->n > 0 ? &file->list[file->n - 1] : NULL;

	if (c && *run == r->run && collective && strcmp(c->collective, collective) == 0 &&
	    strcmp(c->algorithm, algorithm ? algorithm : "") == 0)
		return c;
	c = bb_claims_add(file);
	if (c)
		claims_describe(c, r);
	*run = r->run;
	return c;
}

static bool record_add(struct bb_claim_file *file, const struct bb_read_record *r,
		       const json_t **run)
{
	const int64_t size = bb_record_int(r->json, "size_bytes");
	const int64_t wrong = bb_record_int(r->json, "wrong");
	struct bb_claim claim = {.line = 0};
	struct bb_claims *c;

	if (strcmp(r->kind, "result") != 0 || size <= 0)
		return true;
	c = table_of(file, r, run);
	if (!c)
		return false;
	/* A time with unchecked or wrong data must not pass for normal. */
	c->wrong += wrong > 0;
	c->unchecked += wrong < 0;
	claim.size_bytes = (uint64_t)size;
	claim.in_place = bb_record_bool(r->json, "in_place");
	claim.time_us = bb_record_number(r->json, "time_us");
	claim.algbw_GBps = bb_record_number(r->json, "algbw_GBps");
	claim.busbw_GBps = bb_record_number(r->json, "busbw_GBps");
	if (!(claim.time_us > 0) || !(claim.algbw_GBps > 0) || !(claim.busbw_GBps > 0))
		return true;
	c->percent_of_bound = bb_record_number(r->json, "percent_of_bound");
	keep(c->bound_source, sizeof(c->bound_source), bb_record_string(r->json, "bound_source"));
	return bb_claim_add(c, &claim);
}

static bb_status read_records(const char *path, const char *text, size_t length,
			      struct bb_claim_file *file, struct bb_error *error)
{
	struct bb_records records;
	const json_t *run = NULL;
	bool good = true;
	bb_status st = bb_records_read(path, text, length, &records, error);

	for (size_t i = 0; st == BB_OK && good && i < records.n; i++)
		good = record_add(file, &records.list[i], &run);
	bb_records_free(&records);
	return good ? st : bb_fail(error, BB_EINTERNAL, "%s: more than can be kept", path);
}

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

bb_status bb_claims_read(const char *path, const char *text, size_t length,
			 struct bb_claim_file *file, struct bb_error *error)
{
	const bool records = memmem(text, length, "{\"schema\":", 10) != NULL;
	bb_status st;

	*file = (struct bb_claim_file){.n = 0};
	st = check_text(path, text, length, error);
	if (st != BB_OK)
		return st;
	st = records ? read_records(path, text, length, file, error)
		     : bb_claims_read_log(path, text, length, file, error);
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
