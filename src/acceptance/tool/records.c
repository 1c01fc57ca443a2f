/*
 * records.c - acceptance check --records: a log of nccl-tests as records, for the report and other
 * tools.
 */
#include "acceptance/claims.h"
#include "acceptance/records.h"
#include "acceptance/tool/tool.h"
#include "core/output.h"

#include <jansson.h>
#include <stdlib.h>

static bb_status add_file(const char *path, struct bb_strbuf *out, struct bb_error *error)
{
	struct bb_records records = {.n = 0};
	struct bb_claim_file file = {.n = 0};
	bb_status st;

	BB_TRY(st, bb_claims_open(path, &file, error), out);
	for (size_t i = 0; i < file.n && st == BB_OK; i++)
		if (file.list[i].incomplete)
			st = bb_fail(
				error, BB_EUSAGE,
				"%s: OSU's times have no bandwidth without the number of ranks, "
				"which it does not name",
				path);
	if (st != BB_OK)
		goto out;
	if (!bb_claims_records(path, &file, &records))
		st = bb_no_memory(error, path);
	for (size_t i = 0; st == BB_OK && i < records.n; i++) {
		char *const line = json_dumps(records.list[i].json, JSON_COMPACT);

		if (!line)
			st = bb_fail(error, BB_EUSAGE, "%s: its text is not UTF-8", path);
		else
			bb_strbuf_addf(out, "%s\n", line);
		free(line);
	}
out:
	bb_records_free(&records);
	bb_claims_free(&file);
	return st;
}

bb_status bb_acceptance_records(struct bb_acceptance_job *job, struct bb_error *error)
{
	struct bb_strbuf out = {0};
	bb_status st = BB_OK;

	for (int i = 0; i < job->noperands && st == BB_OK; i++)
		st = add_file(job->operands[i], &out, error);
	if (st == BB_OK)
		st = bb_write_text("-", &out, error);
	bb_strbuf_free(&out);
	return st;
}
