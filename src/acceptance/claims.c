/*
 * claims.c - claims from records.
 */
#include "acceptance/claims.h"

#include "acceptance/records.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

bb_status bb_claims_read(const char *path, const char *text, size_t length,
			 struct bb_claim_file *file, struct bb_error *error)
{
	const bool records = memmem(text, length, "{\"schema\":", 10) != NULL;

	return bb_claims_read_by(records ? read_records : bb_claims_read_log, path, text, length,
				 file, error);
}
