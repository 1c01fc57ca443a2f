/*
 * check.c - acceptance check: is my number normal?
 */
#include "acceptance/normal.h"
#include "acceptance/records.h"
#include "acceptance/tool/tool.h"
#include "acceptance/verdict.h"
#include "core/output.h"
#include "core/units.h"
#include "harness/run/options_check.h"
#include "schedules/schedule.h"

#include <stdlib.h>

static bb_status check_collective(const char *name, struct bb_error *error)
{
	const char *names[32] = {NULL};
	char hint[BB_SUGGESTION];

	if (!name || bb_collective_find(name))
		return BB_OK;
	for (int i = 0; bb_collectives[i] && i < 31; i++)
		names[i] = bb_collectives[i]->name;
	return bb_fail(error, BB_EUSAGE, "--collective: there is no collective \"%s\"%s", name,
		       bb_suggest(hint, name, names));
}

static bb_status check_file(const char *path, const struct bb_references *references,
			    const struct bb_circumstances *given, enum bb_normality *worst,
			    struct bb_strbuf *out, struct bb_error *error)
{
	struct bb_claim_file file = {.n = 0};
	char *text = NULL;
	size_t length;
	bb_status st;

	BB_TRY(st, bb_read_whole(path, BB_CLAIMS_BYTES, &text, &length, error), out);
	BB_TRY(st, bb_claims_read(path, text, length, &file, error), out);
	for (size_t i = 0; i < file.n; i++) {
		enum bb_normality n;

		bb_strbuf_addf(out, "%s: ", path);
		n = bb_normal(&file.list[i], references, given, out);
		*worst = n > *worst ? n : *worst;
	}
	if (file.cut > 0)
		bb_strbuf_addf(out,
			       "%s: %zu row%s left out, the first in line %d: cut off before the "
			       "numbers end.\n",
			       path, file.cut, bb_plural((long long)file.cut), file.cut_line);
out:
	bb_claims_free(&file);
	free(text);
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
		[BB_UNEVEN] = "uneven",
		[BB_LOW] = "low",
		[BB_WRONG] = "wrong data",
	};
	const struct bb_acceptance_options *const o = job->o;
	const struct bb_circumstances given = {o->gpu, o->collective, o->nodes, o->ranks};
	struct bb_references references = {.n = 0};
	enum bb_normality worst = BB_NORMAL;
	struct bb_strbuf found = {0}, out = {0};
	bb_status st;

	BB_TRY(st, check_collective(o->collective, error), out);
	BB_TRY(st, bb_references_own(&references, error), out);
	for (int i = 0; i < job->noperands; i++)
		BB_TRY(st, check_file(job->operands[i], &references, &given, &worst, &found, error),
		       out);
	bb_acceptance_prose(bb_strbuf_text(&found), &out);
	out.failed |= bb_strbuf_failed(&found);
	bb_strbuf_addf(&out, "Verdict: %s\n", words[worst]);
	BB_TRY(st, bb_write_text("-", &out, error), out);
	st = worst >= BB_UNEVEN ? BB_EDATA : worst >= BB_LATENCY ? BB_EBACKEND : BB_OK;
out:
	bb_strbuf_free(&found);
	bb_strbuf_free(&out);
	bb_references_free(&references);
	return st;
}
