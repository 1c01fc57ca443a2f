/*
 * Logs of nccl-tests and their verdicts: every log of tests/logs as it is, and changed line by
 * line.
 */
#include "changed_text.h"
#include "sweep.h"

#include "acceptance/normal.h"

#include <dirent.h>

#define MOST_BYTES (1 << 20)
#define PARSED 150 /* changed logs of each kind that are read, at most, */
#define JUDGED 3   /* and whose verdict is asked for */

static void fact_add(struct sweep *s, const struct bb_fact *f)
{
	SWEEP_ADD(s, f->line, (double)f->value);
	sweep_add_text(s, f->text);
	sweep_add_text(s, f->quote);
}

static void claims_add(struct sweep *s, const struct bb_claims *c)
{
	const char *const texts[] = {c->collective, c->algorithm, c->gpu,  c->backend,
				     c->type,       c->op,        c->host, c->root};
	enum bb_dtype dtype;
	enum bb_op op;
	int64_t least = 0, most = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		sweep_add_text(s, texts[i]);
	SWEEP_ADD(s, (double)c->unchecked_in_place, (double)c->nranks, (double)c->hosts,
		  (double)c->runs, c->incomplete, c->average_GBps, c->factor,
		  (double)c->least_bytes, (double)c->most_bytes, (double)c->step_bytes, c->rounding,
		  (double)c->implausible, (double)c->not_finite, c->simulated, (double)c->wrong,
		  (double)c->unchecked);
	for (int kind = 0; kind < BB_FACTS; kind++)
		if (bb_claims_fact(c, kind))
			fact_add(s, bb_claims_fact(c, kind));
	for (size_t i = 0; i < c->n; i++)
		SWEEP_ADD(s, (double)c->list[i].size_bytes, c->list[i].in_place, c->list[i].wrong,
			  c->list[i].time_us, c->list[i].algbw_GBps, c->list[i].busbw_GBps,
			  c->list[i].line);
	bb_claims_operand(c, &dtype, &op);
	sweep_add(s, bb_claims_ranks(c, c->collective, &least, &most));
	SWEEP_ADD(s, dtype, op, (double)least, (double)most);
}

/* The verdict on each table of FILE, as the log says and as a user may complete it. */
static void verdicts_add(struct sweep *s, const struct bb_claim_file *file,
			 const struct bb_references *references)
{
	static const struct bb_circumstances given[] = {
		{NULL, NULL, NULL, 0, 0, 0, 0},
		{"H100", NULL, NULL, 2, 0, 4, 200000},
		{NULL, "all_gather", "hgx-a100:4", 0, 16, 0, 0},
	};

	for (size_t i = 0; i < file->n && i < 4; i++)
		for (size_t k = 0; k < sizeof(given) / sizeof(given[0]); k++) {
			enum bb_normality verdict = BB_UNKNOWN;
			struct bb_error error = {.text = ""};
			struct bb_strbuf out = {0};

			sweep_add(s, bb_normal(&file->list[i], references, &given[k], &verdict,
					       &out, &error));
			sweep_add(s, verdict);
			sweep_add_numbers(s, bb_strbuf_text(&out));
			sweep_add_numbers(s, error.text);
			bb_strbuf_free(&out);
		}
}

static void log_add(struct sweep *s, const char *path, const struct bb_references *references)
{
	char *const text = calloc(1, MOST_BYTES);
	FILE *const file = fopen(path, "r");
	long lines = 0;

	assert_non_null(text);
	assert_non_null(file);
	assert_true(fread(text, 1, MOST_BYTES - 1, file) > 0);
	fclose(file);
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	for (enum change change = 0; change < CHANGES; change++) {
		const long step = lines / PARSED + 1, judged = lines / JUDGED + 1;
		long number = 0;

		for (const char *at = text; *at; number++) {
			const size_t length = strcspn(at, "\n");

			if (number % step == 0 && (change != AS_IT_IS || number == 0)) {
				char *const now = changed(text, at, length, change);
				struct bb_claim_file found = {.n = 0};
				struct bb_error error = {.text = ""};

				sweep_add(s,
					  bb_claims_read("log", now, strlen(now), &found, &error));
				sweep_add_numbers(s, error.text);
				SWEEP_ADD(s, (double)found.n, (double)found.cut, found.cut_line);
				for (size_t i = 0; i < found.n; i++)
					claims_add(s, &found.list[i]);
				if (number % judged < step)
					verdicts_add(s, &found, references);
				bb_claims_free(&found);
				free(now);
			}
			at += length + (at[length] == '\n');
		}
		sweep_end(s, "%s %s", path, change_names[change]);
	}
	free(text);
}

static int is_log(const struct dirent *entry)
{
	return strstr(entry->d_name, ".txt") != NULL;
}

static void test_logs(void **state)
{
	static const char *const folders[] = {"tests/logs", "tests/logs/field"};
	struct sweep s = sweep_open("logs");
	struct bb_references references;
	struct bb_error error = {.text = ""};

	assert_int_equal(bb_references_own(&references, &error), BB_OK);
	for (size_t f = 0; f < sizeof(folders) / sizeof(folders[0]); f++) {
		struct dirent **entries = NULL;
		const int n = scandir(folders[f], &entries, is_log, alphasort);

		assert_true(n > 0);
		for (int i = 0; i < n; i++) {
			char path[512];

			snprintf(path, sizeof(path), "%s/%s", folders[f], entries[i]->d_name);
			log_add(&s, path, &references);
			free(entries[i]);
		}
		free(entries);
	}
	free(references.rows);
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_logs)};

	return cmocka_run_group_tests_name("logs_sweep", tests, NULL, NULL);
}
