/*
 * claims.c - claims from records, from the JSON of nccl-tests, and records from claims.
 */
#include "acceptance/claims.h"

#include "acceptance/records.h"
#include "core/printable.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies as much of TEXT, which may be NULL, as fits into array INTO. */
#define KEEP(into, text) ((void)snprintf(into, sizeof(into), "%s", (text) ?: ""))

/* Returns the table of R: the last one if it has R's run and algorithm, else a new one. */
static struct bb_claims *table_of(struct bb_claim_file *file, const struct bb_read_record *r,
				  const json_t **run)
{
	const char *const algorithm = bb_record_string(r->json, "algorithm_asked");
	const char *const collective = bb_record_string(r->json, "collective");
	const json_t *const ranks = json_object_get(r->run, "ranks");
	const int64_t nranks = bb_record_int(r->json, "nranks");
	struct bb_claims *c = file->n > 0 ? &file->list[file->n - 1] : NULL;
	const char *before = NULL;
	size_t i;
	json_t *rank;

	if (c && *run == r->run && collective && strcmp(c->collective, collective) == 0 &&
	    strcmp(c->algorithm, algorithm ?: "") == 0)
		return c;
	c = bb_claims_add(file);
	*run = r->run;
	if (!c)
		return NULL;
	KEEP(c->collective, collective);
	KEEP(c->algorithm, algorithm);
	KEEP(c->backend, bb_record_string(r->run, "backend"));
	KEEP(c->gpu, bb_record_string(json_array_get(ranks, 0), "name"));
	c->nranks = nranks > 0 ? nranks : 0;
	c->rounding = 1e-9;
	c->simulated = bb_record_bool(r->run, "virtual_time");
	/* Ranks are sorted by host. */
	json_array_foreach(ranks, i, rank)
	{
		const char *const host = bb_record_string(rank, "host");

		c->hosts += host && (!before || strcmp(host, before) != 0);
		before = host ? host : before;
	}
	return c;
}

static bb_status read_records(const char *path, const char *text, size_t length,
			      struct bb_claim_file *file, struct bb_error *error)
{
	struct bb_records records = {.n = 0};
	const json_t *run = NULL;
	bb_status st = bb_records_read(path, text, length, &records, error);

	for (size_t i = 0; st == BB_OK && i < records.n; i++) {
		const struct bb_read_record *const r = &records.list[i];
		const int64_t size = bb_record_int(r->json, "size_bytes");
		const int64_t wrong = bb_record_int(r->json, "wrong");
		struct bb_claim claim = {.size_bytes = (uint64_t)size,
					 .in_place = bb_record_bool(r->json, "in_place"),
					 .time_us = bb_record_number(r->json, "time_us"),
					 .algbw_GBps = bb_record_number(r->json, "algbw_GBps"),
					 .busbw_GBps = bb_record_number(r->json, "busbw_GBps")};

		if (strcmp(r->kind, "result") != 0 || size <= 0)
			continue;
		struct bb_claims *const c = table_of(file, r, &run);
		if (c) {
			/* A time with unchecked or wrong data must not pass for normal. */
			c->wrong += wrong > 0;
			c->unchecked += wrong < 0;
			if (!(claim.time_us > 0) || !(claim.algbw_GBps > 0) ||
			    !(claim.busbw_GBps > 0))
				continue;
			c->percent_of_bound = bb_record_number(r->json, "percent_of_bound");
			KEEP(c->bound_source, bb_record_string(r->json, "bound_source"));
		}
		if (!c || !bb_claim_add(c, &claim))
			st = bb_fail(error, BB_EINTERNAL, "%s: more than can be kept", path);
	}
	bb_records_free(&records);
	return st;
}

/* ---- JSON of nccl-tests (-J) ---------------------------------------------------------------- */

#define MOST_RANKS 16384 /* of a list; more are told by the rows */

/* Adds what the command was, the environment of NCCL, and the list of ranks. There is a device for
   each process, which has several ranks with -t and -g. */
static void json_settings(const json_t *root, struct bb_strbuf *out)
{
	json_t *const config = json_object_get(root, "config");
	const double factor = json_number_value(json_object_get(config, "step_factor"));
	const json_int_t threads = json_integer_value(json_object_get(config, "nthreads"));
	const json_int_t gpus = json_integer_value(json_object_get(config, "ngpus"));
	const json_int_t least = json_integer_value(json_object_get(config, "minimum_bytes"));
	const json_int_t most = json_integer_value(json_object_get(config, "maximum_bytes"));
	const json_int_t step = json_integer_value(json_object_get(config, "step_bytes"));
	size_t i;
	json_t *word, *d;

	const bool several = threads > 0 && gpus > 0 && threads < 1024 && gpus < 1024;
	const int64_t each = several ? threads * gpus : 1;
	int64_t left = MOST_RANKS;

	json_array_foreach(json_object_get(root, "args"), i, word)
	{
		bb_printable_add(out, json_string_value(word) ?: "");
		bb_strbuf_add(out, " ");
	}
	bb_strbuf_add(out, "\n");
	json_array_foreach(json_object_get(root, "env"), i, word)
	{
		const char *const text = json_string_value(word);

		if (text && strncmp(text, "NCCL_", 5) == 0)
			bb_printable_line(out, "%s", text);
	}
	bb_strbuf_addf(out, "# nThread %lld nGpus %lld minBytes %lld maxBytes %lld step: ", threads,
		       gpus, least, most);
	if (factor > 1)
		bb_strbuf_addf(out, "%g(factor)\n", factor);
	else
		bb_strbuf_addf(out, "%lld(bytes)\n", step);
	json_array_foreach(json_object_get(config, "devices"), i, d)
	{
		const char *const host = bb_record_string(d, "hostname");
		const char *const bus = bb_record_string(d, "device_hex");
		const char *const name = bb_record_string(d, "device_info");
		const int64_t rank = bb_record_int(d, "rank"), device = bb_record_int(d, "device");

		for (int64_t k = 0; k < each && rank >= 0 && left-- > 0; k++)
			bb_printable_line(
				out, "# Rank %lld Group 0 Pid 0 on %s device %lld [%s] %s",
				(long long)(rank + k), host ? host : "?", (long long)(device + k),
				k == 0 && bus ? bus : "another", name ? name : "");
	}
}

/* Adds the rows, below a heading, and the footer. */
static void json_rows(const json_t *root, struct bb_strbuf *out)
{
	const json_t *const bounds = json_object_get(root, "out_of_bounds");
	const json_t *const mean = json_object_get(root, "average_bus_bandwidth");
	const char *const okay = bb_record_string(bounds, "okay");
	size_t i;
	json_t *row;

	bb_strbuf_add(out, "# size count type redop root time algbw busbw #wrong\n");
	json_array_foreach(json_object_get(root, "results"), i, row)
	{
		const char *const type = bb_record_string(row, "type");
		const char *const op = bb_record_string(row, "redop");
		struct bb_strbuf line = {0};

		bb_strbuf_addf(&line, "%lld %lld %s %s -1", (long long)bb_record_int(row, "size"),
			       (long long)bb_record_int(row, "count"), type ? type : "?",
			       op && op[0] ? op : "none");
		for (int in_place = 0; in_place < 2; in_place++) {
			const json_t *const half =
				json_object_get(row, in_place ? "in_place" : "out_of_place");
			const double time = bb_record_number(half, "time");
			const double wrong = bb_record_number(half, "nwrong");

			bb_strbuf_addf(&line, " %.9g %.9g %.9g ",
				       isnan(time) ? bb_record_number(half, "cpu_time") : time,
				       bb_record_number(half, "alg_bw"),
				       bb_record_number(half, "bus_bw"));
			if (isnan(wrong))
				bb_strbuf_add(&line, "N/A");
			else
				bb_strbuf_addf(&line, "%.9g", wrong);
		}
		bb_printable_line(out, "%s", bb_strbuf_text(&line));
		bb_strbuf_free(&line);
	}
	bb_strbuf_addf(out, "# Out of bounds values : %lld %s\n",
		       (long long)bb_record_int(bounds, "count"),
		       okay && strcmp(okay, "false") == 0 ? "FAILED" : "OK");
	bb_strbuf_addf(out, "# Avg bus bandwidth    : %g\n", bb_record_number(mean, "bandwidth"));
}

/* Reads one object of nccl-tests or several, as the text that nccl-tests prints for them. */
static bb_status read_json(const char *path, const char *text, size_t length,
			   struct bb_claim_file *file, struct bb_error *error)
{
	struct bb_strbuf out = {0};
	json_error_t where;
	size_t at = 0;
	bb_status st = BB_OK;

	while (st == BB_OK && at < length && memchr(text + at, '{', length - at)) {
		json_t *const root =
			json_loadb(text + at, length - at, JSON_DISABLE_EOF_CHECK, &where);

		if (!root) {
			st = bb_fail(error, BB_EUSAGE,
				     "%s:%d: no whole JSON of nccl-tests (-J): %s", path,
				     where.line, where.text);
			break;
		}
		at += (size_t)where.position;
		json_settings(root, &out);
		json_rows(root, &out);
		json_decref(root);
	}
	if (st == BB_OK && bb_strbuf_failed(&out))
		st = bb_no_memory(error, path);
	if (st == BB_OK)
		st = bb_claims_read_log(path, bb_strbuf_text(&out), out.length, file, error);
	/* Lines of the file instead of those of the text that was made of it; 0: unknown. */
	for (size_t i = 0; st == BB_OK && i < file->n; i++) {
		struct bb_claims *const claims = &file->list[i];

		for (size_t k = 0; k < claims->n; k++)
			claims->list[k].line = 0;
		for (int k = 0; claims->facts && k < BB_FACTS; k++) {
			struct bb_fact *const fact = &claims->facts[k];
			const char *const found =
				memmem(text, length, fact->quote, strlen(fact->quote));

			fact->line = fact->line > 0;
			for (const char *p = text; found && p < found; p++)
				fact->line += *p == '\n';
		}
	}
	bb_strbuf_free(&out);
	return st;
}

/* ---- any of these --------------------------------------------------------------------------- */

bb_status bb_claims_read(const char *path, const char *text, size_t length,
			 struct bb_claim_file *file, struct bb_error *error)
{
	bb_claims_reader *reader = bb_claims_read_log;
	size_t blanks = 0;

	while (blanks < length && strchr(" \t\r\n", text[blanks]))
		blanks++;
	if (memmem(text, length, "{\"schema\":", 10))
		reader = read_records;
	/* Docker's lines of JSON hold text instead. */
	else if (blanks < length && text[blanks] == '{' && memmem(text, length, "\"alg_bw\"", 8))
		reader = read_json;
	return bb_claims_read_by(reader, path, text, length, file, error);
}

/* ---- records of claims ----------------------------------------------------------------------- */

bool bb_claims_records(const char *path, const struct bb_claim_file *file,
		       struct bb_records *records)
{
	bool good = true;

	for (size_t i = 0; i < file->n && good; i++) {
		const struct bb_claims *const c = &file->list[i];
		char id[4096], program[32] = "";
		int64_t ranks = c->nranks, most;
		bool flagged = false;
		json_t *run, *json;

		/* The ranks as stated, or the only number that its rows allow; 0: unknown. */
		if (ranks <= 0 &&
		    (!bb_claims_ranks(c, c->collective, &ranks, &most) || ranks != most))
			ranks = 0;
		snprintf(id, sizeof(id), "%s:%zu", path, i + 1);
		if (c->collective[0])
			snprintf(program, sizeof(program), "%s_perf", c->collective);
		run = json_pack("{s:i, s:s, s:s, s:b, s:s*, s:s*, s:s*, s:s*}", "schema", 1, "kind",
				"run", "run_id", id, "virtual_time", (int)c->simulated, "program",
				program[0] ? program : NULL, "collective",
				c->collective[0] ? c->collective : NULL, "host",
				c->host[0] ? c->host : NULL, "backend",
				c->backend[0] ? c->backend : NULL);
		good = bb_records_add(records, run, NULL, "run");
		/* A footer says how many rows have wrong data, and not which. */
		for (size_t k = 0; k < c->n; k++)
			flagged |= c->list[k].wrong;
		for (size_t k = 0; k < c->n && good; k++) {
			const struct bb_claim *const row = &c->list[k];

			/* nccl-tests leaves the algorithm to the library. */
			json = json_pack(
				"{s:i, s:s, s:s, s:s, s:I, s:b, s:f, s:f, s:f, s:s, s:s*, s:o*, "
				"s:o*}",
				"schema", 1, "kind", "result", "run_id", id, "collective",
				c->collective, "size_bytes", (json_int_t)row->size_bytes,
				"in_place", (int)row->in_place, "time_us", row->time_us,
				"algbw_GBps", row->algbw_GBps, "busbw_GBps", row->busbw_GBps,
				"algorithm_asked", c->algorithm[0] ? c->algorithm : "library",
				"dtype", c->type[0] ? c->type : NULL, "nranks",
				ranks > 0 ? json_integer(ranks) : NULL, "wrong",
				(flagged ? row->wrong : k < c->wrong) ? json_integer(1) : NULL);
			good = bb_records_add(records, json, run, "result");
		}
		if (!good)
			break;
		json = json_pack("{s:i, s:s, s:s, s:s, s:i, s:I, s:I}", "schema", 1, "kind", "end",
				 "run_id", id, "verdict",
				 c->wrong > 0 ? "wrong data" : "read from a log", "exit_status",
				 c->wrong > 0 ? BB_EDATA : BB_OK, "results", (json_int_t)c->n,
				 "wrong", (json_int_t)c->wrong);
		good = bb_records_add(records, json, run, "end");
	}
	return good;
}

bb_status bb_claims_open(const char *path, struct bb_claim_file *file, struct bb_error *error)
{
	char *text = NULL;
	size_t length;
	bb_status st;

	*file = (struct bb_claim_file){.n = 0};
	BB_TRY(st, bb_read_whole(path, BB_CLAIMS_BYTES, &text, &length, error), out);
	st = bb_claims_read(path, text, length, file, error);
	free(text);
out:
	return st;
}
