/*
 * profile.c - what becomes of anything in a profile: gates that have a source and can fail, or an
 * error with a line.
 */
#include "acceptance/plan.h"
#include "acceptance/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void check_gate(const struct bb_gate *g)
{
	struct bb_strbuf text = {0};

	CHECK(g->line > 0 && g->from.origin[0]);
	if (g->kind == BB_GATE_VALUE && g->measure->more_is_better)
		CHECK(g->lower >= 0 && g->lower < 1);
	else if (g->kind == BB_GATE_VALUE)
		CHECK(g->upper >= 0 && g->upper <= 10);
	if (g->kind == BB_GATE_CROSSOVER)
		CHECK(g->least_bytes < g->most_bytes && g->first[0] && g->second[0]);
	bb_plan_add_gate(&text, g);
	bb_strbuf_free(&text);
}

static void check_step(const struct bb_profile *p, const struct bb_profile_step *s)
{
	static const struct bb_plan_cluster played[] = {
		{.cluster = NULL}, {.cluster = "hgx-h100:2", .fault = "lost_rail:0:2"}};
	static const struct bb_places places = {"/bin", "out dir"};
	struct bb_words_list words;
	struct bb_error error = {0};

	CHECK(s->line > 0 && s->repeats >= 1 && s->ranks >= s->nodes && s->limit_ns > 0 &&
	      s->groups >= 1);
	for (uint32_t i = 0; i < s->ngates; i++)
		check_gate(&s->gates[i]);
	for (int i = 0; i < 2; i++) {
		CHECK(bb_plan_command(p, s, &played[i], NULL, &places, &words, &error) == BB_OK);
		CHECK(words.n >= 3 && !words.words[words.n]);
		bb_words_free(&words);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* The first byte decides about --nodes. */
	const struct bb_scale scale = {size > 0 ? data[0] % 4 : 0, 0};
	struct bb_error error = {0};
	struct bb_profile *p;
	char *const text = malloc(size + 1);

	CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (bb_profile_read("profile", text, size, &scale, &p, &error) == BB_OK) {
		for (uint32_t i = 0; i < p->nsteps; i++)
			check_step(p, &p->steps[i]);
		bb_profile_free(p);
	} else {
		CHECK(error.text[0]);
	}
	free(text);
	return 0;
}
