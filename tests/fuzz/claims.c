/*
 * claims.c - what becomes of anything that is pasted as a log or given as records: tables whose
 * numbers are numbers, judged in words, or an error.
 */
#include "acceptance/claims.h"
#include "acceptance/normal.h"
#include "topology/cards.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void check(const struct bb_claims *c)
{
	/* The table is the same every time. */
	struct bb_reference row = {.id = "a",
				   .card = bb_card_find("H100"),
				   .collective = "all_reduce",
				   .nranks = 8,
				   .size_bytes = 1 << 20,
				   .busbw_GBps = 400,
				   .kind = "measured"};
	const struct bb_references references = {.rows = &row, .n = 1};
	const struct bb_circumstances said = {.gpu = "H100"};
	struct bb_strbuf out = {0};
	struct bb_error error = {0};
	enum bb_normality n;

	for (size_t i = 0; i < c->n; i++)
		CHECK(c->list[i].time_us > 0 && isfinite(c->list[i].algbw_GBps) &&
		      isfinite(c->list[i].busbw_GBps) && c->list[i].size_bytes > 0);
	CHECK(isfinite(c->average_GBps) && (c->n > 0 || c->average_GBps >= 0) && c->hosts >= 0);
	for (int kind = 0; kind < BB_FACTS; kind++) {
		const struct bb_fact *const f = bb_claims_fact(c, kind);

		CHECK(!f || (f->line > 0 && f->value >= 0));
		CHECK(!f || strnlen(f->quote, sizeof(f->quote)) < sizeof(f->quote));
		CHECK(!f || strnlen(f->text, sizeof(f->text)) < sizeof(f->text));
	}
	CHECK(bb_normal(c, &references, &said, &n, &out, &error) != BB_OK || n <= BB_WRONG);
	CHECK(out.length > 0);
	bb_strbuf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bb_error error = {0};
	struct bb_claim_file file;

	if (bb_claims_read("log", (const char *)data, size, &file, &error) == BB_OK) {
		for (size_t i = 0; i < file.n; i++)
			check(&file.list[i]);
		bb_claims_free(&file);
	} else {
		CHECK(error.text[0]);
	}
	return 0;
}
