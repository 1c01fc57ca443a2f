/*
 * check.c - acceptance check: is my number normal?
 */
#include "acceptance/fleet.h"
#include "acceptance/normal.h"
#include "acceptance/records.h"
#include "acceptance/tool/tool.h"
#include "acceptance/verdict.h"
#include "core/array.h"
#include "core/output.h"
#include "core/printable.h"
#include "core/units.h"
#include "harness/run/options.h"
#include "schedules/schedule.h"
#include "topology/cards.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ----------------------------------------------------------------------------------- */

/* "400", "400G" or "400Gb/s". */
static bb_status parse_rate(const char *text, int64_t *Mbps, struct bb_error *error)
{
	static const char *const units[] = {"", "G", "Gb/s", "Gbit/s", "Gbps"};
	char *end = NULL;
	const double Gbps = text ? strtod(text, &end) : 0;

	*Mbps = 0;
	if (!text)
		return BB_OK;
	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i]) == 0 && Gbps >= 0.001 && Gbps <= 1e6)
			*Mbps = (int64_t)(1000 * Gbps + 0.5);
	if (*Mbps > 0)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "--nic-rate %s: not a rate in Gb/s, such as 400 or 200Gb/s", text);
}

/* Judge --value as a table of one row. */
static bb_status check_value(const struct bb_acceptance_options *o,
			     const struct bb_references *references,
			     const struct bb_circumstances *given, enum bb_normality *worst,
			     struct bb_strbuf *out, struct bb_error *error)
{
	const struct bb_collective *const collective =
		o->collective ? bb_collective_find(o->collective) : NULL;
	const struct bb_card *const card = o->gpu ? bb_card_find(o->gpu) : NULL;
	int64_t nodes = o->nodes > 0 ? o->nodes : 1;
	int64_t ranks = o->ranks > 0 ? o->ranks : card ? nodes * card->of_node : 0;
	struct bb_claim row = {.size_bytes = o->size, .busbw_GBps = o->value};
	struct bb_claims claims = {.nranks = ranks,
				   .hosts = nodes,
				   .rounding = 1e-9,
				   .percent_of_bound = NAN,
				   .list = &row,
				   .n = 1};

	if (!collective)
		return bb_fail(error, BB_EUSAGE,
			       "--value: needs --collective, by whose factor bandwidth is counted");
	if (!o->gpu && !given->machine)
		return bb_fail(error, BB_EUSAGE, "--value: needs --gpu or --cluster");
	if (o->size == 0)
		return bb_fail(error, BB_EUSAGE, "--size 0: a message has a byte at least");
	if (ranks < 2)
		return bb_fail(error, BB_EUSAGE, "--value: needs --ranks, at least 2");
	snprintf(claims.collective, sizeof(claims.collective), "%s", o->collective);
	row.algbw_GBps = o->value / collective->bus_factor((int)ranks);
	row.time_us = (double)o->size / row.algbw_GBps / 1e3;
	bb_strbuf_add(out, "--value: ");
	return bb_normal(&claims, references, given, worst, out, error);
}

static bb_status check_all(struct bb_acceptance_job *job, const struct bb_circumstances *given,
			   enum bb_normality *worst, int *slow, struct bb_strbuf *found,
			   struct bb_error *error)
{
	struct bb_references references = {.n = 0};
	struct bb_claim_file *const files = calloc((size_t)job->noperands + 1, sizeof(*files));
	struct bb_fleet_run *runs = NULL; /* of all tables */
	size_t nruns = 0, room = 0;
	int unread = 0;
	bb_status st;

	*slow = 0;
	if (!files)
		return bb_no_memory(error, "the files");
	BB_TRY(st, bb_references_own(&references, error), out);
	if (job->o->value > 0)
		BB_TRY(st, check_value(job->o, &references, given, worst, found, error), out);
	for (int n = 0; n < job->noperands; n++) {
		const char *const path = job->operands[n];
		struct bb_claim_file *const file = &files[n];
		const size_t before = nruns;
		struct bb_error one = {0};

		st = bb_claims_open(path, file, &one);
		for (size_t i = 0; st == BB_OK && i < file->n; i++) {
			enum bb_normality is;

			bb_strbuf_addf(found, "%s: ", path);
			st = bb_normal(&file->list[i], &references, given, &is, found, &one);
			*worst = st == BB_OK && is > *worst ? is : *worst;
			if (!BB_ARRAY_PUT(runs, nruns, room,
					  (struct bb_fleet_run){path, &file->list[i]}))
				st = bb_no_memory(&one, "the runs");
		}
		if (st == BB_OK && file->cut > 0)
			bb_strbuf_addf(found,
				       "%s: %zu row%s left out, the first in line %d: cut off "
				       "before the numbers end.\n",
				       path, file->cut, bb_plural(file->cut), file->cut_line);
		if (st == BB_OK)
			continue;
		/* A run that crashed must not hide the others. */
		nruns = before;
		if (job->noperands == 1 || bb_error_status(&one) != BB_EUSAGE) {
			*error = one;
			goto out;
		}
		bb_strbuf_addf(found, "%s\n", one.text);
		*worst = *worst > BB_UNKNOWN ? *worst : BB_UNKNOWN;
		unread++;
	}
	if (unread == job->noperands && unread > 0) {
		st = bb_fail(error, BB_EUSAGE, "none of %d files has results; the first: %s",
			     unread, bb_strbuf_text(found));
		goto out;
	}
	*slow = bb_fleet_judge(runs, nruns, found);
	st = *slow < 0 ? bb_no_memory(error, "the runs") : BB_OK;
out:
	for (int i = 0; i < job->noperands; i++)
		bb_claims_free(&files[i]);
	free(files);
	free(runs);
	free(references.rows);
	return st;
}

/* check --records: logs as records, for the report and other tools. */
static bb_status records_print(const struct bb_acceptance_job *job, struct bb_error *error)
{
	struct bb_strbuf out = {0};
	bb_status st = BB_OK;

	for (int k = 0; k < job->noperands && st == BB_OK; k++) {
		const char *const path = job->operands[k];
		struct bb_records records = {.n = 0};
		struct bb_claim_file file = {.n = 0};

		BB_TRY(st, bb_claims_open(path, &file, error), out);
		for (size_t i = 0; i < file.n && st == BB_OK; i++)
			if (file.list[i].incomplete)
				st = bb_fail(error, BB_EUSAGE,
					     "%s: OSU's times have no bandwidth without the number "
					     "of ranks, which it does not name",
					     path);
		if (st == BB_OK && !bb_claims_records(path, &file, &records))
			st = bb_no_memory(error, path);
		for (size_t i = 0; st == BB_OK && i < records.n; i++) {
			char *const line = json_dumps(records.list[i].json, JSON_COMPACT);

			if (line)
				bb_strbuf_addf(&out, "%s\n", line);
			else
				st = bb_fail(error, BB_EUSAGE, "%s: its text is not UTF-8", path);
			free(line);
		}
		bb_records_free(&records);
		bb_claims_free(&file);
	}
	if (st == BB_OK)
		st = bb_write_text("-", &out, error);
out:
	bb_strbuf_free(&out);
	return st;
}

bb_status bb_acceptance_check(struct bb_acceptance_job *job, struct bb_error *error)
{
	static const char *const words[] = {
		[BB_NORMAL] = "normal",
		[BB_HIGH] = "higher than what it was compared with",
		[BB_LATENCY] = "could not judge: bound by latency",
		[BB_UNKNOWN] = "could not judge: nothing to compare with",
		[BB_IMPOSSIBLE] = "could not judge: the numbers cannot be right",
		[BB_DIED] = "failed: the run ended with an error",
		[BB_UNEVEN] = "uneven",
		[BB_LOW] = "low",
		[BB_WRONG] = "wrong data",
	};
	const struct bb_acceptance_options *const o = job->o;
	struct bb_circumstances given = {.gpu = o->gpu,
					 .collective = o->collective,
					 .machine = o->topology ? o->topology : o->of_cluster,
					 .nodes = o->nodes,
					 .ranks = o->ranks,
					 .nics = o->nics};
	const char *names[32] = {NULL};
	char hint[BB_SUGGESTION];
	enum bb_normality worst = BB_NORMAL;
	struct bb_strbuf found = {0}, out = {0};
	int slow = 0;
	bb_status st;

	if (o->records)
		return records_print(job, error);
	if (o->collective && !bb_collective_find(o->collective)) {
		for (int i = 0; bb_collectives[i] && i < 31; i++)
			names[i] = bb_collectives[i]->name;
		return bb_fail(error, BB_EUSAGE, "--collective: there is no collective \"%s\"%s",
			       o->collective, bb_suggest(hint, o->collective, names));
	}
	BB_TRY(st, parse_rate(o->nic_rate, &given.nic_Mbps, error), out);
	BB_TRY(st, check_all(job, &given, &worst, &slow, &found, error), out);
	bb_acceptance_prose(bb_strbuf_text(&found), &out);
	out.failed |= bb_strbuf_failed(&found);
	if (slow > 0 && worst < BB_LOW)
		bb_strbuf_addf(&out, "Verdict: %d outlier%s among equals\n", slow, bb_plural(slow));
	else
		bb_strbuf_addf(&out, "Verdict: %s\n", words[worst]);
	BB_TRY(st, bb_write_text("-", &out, error), out);
	if (worst == BB_UNKNOWN && o->gpu && !bb_card_find(o->gpu)) {
		const char *const near = bb_card_suggest(o->gpu);

		st = bb_fail(error, BB_EBACKEND, "--gpu %.60s: no such card is known%s%s%s", o->gpu,
			     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
		goto out;
	}
	st = worst >= BB_DIED || slow > 0 ? BB_EDATA : worst >= BB_LATENCY ? BB_EBACKEND : BB_OK;
out:
	bb_strbuf_free(&found);
	bb_strbuf_free(&out);
	return st;
}
