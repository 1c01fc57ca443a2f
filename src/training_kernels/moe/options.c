/*
 * options.c - what can be asked of expert parallelism.
 */
#include "harness/run/options_check.h"
#include "harness/measure/play.h"
#include "training_kernels/moe/moe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BB_TARGET struct bb_moe_options
#include "harness/measure/step_rows.h"

#define MOST_SKEW 16
#define MOST_CAPACITY 1e6

const struct bb_moe_preset bb_moe_presets[] = {
	{"mixtral-8x7b", "Jiang et al. 2024, table 1; config.json of Mixtral-8x7B", 8, 2, 4096},
	{"deepseek-v3", "DeepSeek-AI 2024, section 4.2; config.json of DeepSeek-V3", 256, 8, 7168},
	{.name = NULL},
};

const struct bb_option bb_moe_rows[] = {
	{STRING("preset", 0, preset_text, NULL, "NAME",
		"experts, top-k and hidden of a published model (see --list)"),
	 .section = "Experts"},
	{INT("experts", 0, experts, NULL, "N", 1, 65536,
	     "of the layer, as many on each rank; without it two on each"),
	 GIVEN(experts_given)},
	{INT("top-k", 0, top_k, "2", "N", 1, 1024, "experts that a token goes through"),
	 GIVEN(top_k_given)},
	{INT("hidden", 0, hidden, "1024", "N", 1, 1 << 20, "numbers of a token"),
	 GIVEN(hidden_given)},
	{INT("tokens", 0, tokens, "512", "N", 1, 1 << 24, "of each rank")},
	{STRING("datatype", 'd', dtype_text, "bfloat16", "TYPE",
		"of tokens: bfloat16, half, float, f8e4m3 or f8e5m2")},
	{STRING("skew", 0, skew_text, "0,0.5,1", "LIST",
		"exponents of Zipf's law that shares of the experts follow, each tried by itself; "
		"0: even loads"),
	 .section = "Load"},
	{STRING("capacity", 0, capacity_text, "0", "FACTOR",
		"an expert takes at most so many times its even share of a rank's rows, as in "
		"1.25, "
		"and drops the others; 0: nothing is dropped")},
	{DURATION("expert-time", 0, expert_ns, "0", 0,
		  "what the experts of a rank compute under an even load"),
	 .section = "Time"},
	{CHOICE("compute", stand_in, "sleep", "WORD", bb_stand_in_names,
		"how computations are stood in for: sleep, spin (a busy core, or part of the "
		"GPU)")},
	{ITERS_ROW("10", "timed steps of each kind"), GIVEN(iters_given)},
	{.name = NULL},
};

static bb_status take_preset(struct bb_moe_options *a, struct bb_error *error)
{
	const char *names[8] = {NULL};
	const struct bb_moe_preset *p = bb_moe_presets;
	char hint[64];

	for (int i = 0; p->name && strcmp(p->name, a->preset_text) != 0; i++)
		names[i] = p++->name;
	if (!p->name)
		return bb_fail(error, BB_EUSAGE, "--preset: \"%s\" is not a preset%s (see --list)",
			       a->preset_text, bb_suggest(hint, a->preset_text, names));
	a->experts = a->experts_given ? a->experts : p->experts;
	a->top_k = a->top_k_given ? a->top_k : p->top_k;
	a->hidden = a->hidden_given ? a->hidden : p->hidden;
	return BB_OK;
}

static bb_status read_dtype(struct bb_moe_options *a, struct bb_error *error)
{
	static const char *const names[] = {"bfloat16", "half", "float", "f8e4m3", "f8e5m2", NULL};
	char hint[64];

	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], a->dtype_text) == 0) {
			a->dtype = bb_dtype_named(names[i]);
			return BB_OK;
		}
	return bb_fail(error, BB_EUSAGE,
		       "-d: \"%s\" is not a datatype of tokens%s (bfloat16, half, float, f8e4m3, "
		       "f8e5m2)",
		       a->dtype_text, bb_suggest(hint, a->dtype_text, names));
}

/* A number from 0 to MOST, and nothing else. */
static bool read_number(const char *text, double most, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && *end == '\0' && *value >= 0 && *value <= most;
}

static bb_status read_skews(struct bb_moe_options *a, struct bb_error *error)
{
	const char *rest = a->skew_text;
	char word[BB_WORD];

	do {
		const bool whole = bb_next_word(&rest, word);

		if (a->nskews == BB_MOE_MOST_SKEWS)
			return bb_fail(error, BB_EUSAGE, "--skew: more than %d exponents",
				       BB_MOE_MOST_SKEWS);
		if (!whole || !read_number(word, MOST_SKEW, &a->skews[a->nskews++]))
			return bb_fail(error, BB_EUSAGE,
				       "--skew: \"%s\" is not an exponent from 0 to %d; give a "
				       "list as 0,0.5,1",
				       word, MOST_SKEW);
	} while (*rest++ == ',');
	return BB_OK;
}

static bb_status refuse_sizes(const struct bb_options *o, struct bb_error *error)
{
	const char *given = bb_options_size_given(o);

	if (!given)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s: what is sent are tokens; leave it out, --tokens and --hidden say how "
		       "much that is",
		       given);
}

bb_status bb_moe_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_moe_options *a = &((struct bb_moe *)own)->asked;
	bb_status status;

	bb_options_set_iters(o, a->iters, a->iters_given);
	BB_TRY(status, refuse_sizes(o, error), out);
	if (a->preset_text)
		BB_TRY(status, take_preset(a, error), out);
	BB_TRY(status, read_dtype(a, error), out);
	BB_TRY(status, read_skews(a, error), out);
	if (!read_number(a->capacity_text, MOST_CAPACITY, &a->capacity))
		return bb_fail(error, BB_EUSAGE,
			       "--capacity: \"%s\" is not a factor; give one, as in 1.25, or 0",
			       a->capacity_text);
	if (a->stand_in == BB_GEMM)
		return bb_fail(error, BB_EUSAGE,
			       "--compute gemm: FLOPs of experts are not known here; give sleep or "
			       "spin");
out:
	return status;
}
