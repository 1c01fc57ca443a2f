/*
 * families.c - hyperparameters of the families, presets, and the text of --model.
 */
#include "core/option.h"
#include "core/units.h"
#include "models/parts.h"

#include <stdio.h>
#include <string.h>

#define NOT_GIVEN (-1)
#define ITEM 64 /* bytes of a NAME=NUMBER in the text, with its end */

enum {
	LAYERS,
	HIDDEN,
	HEADS,
	VOCAB,
	SEQ,
	KV_HEADS,
	HEAD_DIM,
	FFN,
	POSITIONS,
	TYPES,
	EXPERTS,
	TOP_K,
	FUSED,
	TIED
};

#define AT(field) offsetof(struct bb_hyper, field)

/* Limits far beyond any built model; products of three fit into 64 bits. */
const struct bb_hyper_row bb_hyper_rows[BB_NHYPERS] = {
	[LAYERS] = {"layers", AT(layers), 1, 4096, .keys = {"num_hidden_layers", "n_layer"}},
	[HIDDEN] = {"hidden", AT(hidden), 1, 1 << 20, .keys = {"hidden_size", "n_embd", "n_embed"}},
	[HEADS] = {"heads", AT(heads), 1, 1 << 14, .keys = {"num_attention_heads", "n_head"}},
	[VOCAB] = {"vocab", AT(vocab), 1, 1 << 28, .keys = {"vocab_size"}},
	[SEQ] = {"seq", AT(seq), 1, 1 << 28,
		 .keys = {"max_position_embeddings", "n_positions", "seq_length"}},
	[KV_HEADS] = {"kv", AT(kv_heads), 1, 1 << 14, .keys = {"num_key_value_heads"}},
	[HEAD_DIM] = {"head_dim", AT(head_dim), 1, 1 << 14, .keys = {"head_dim"}},
	[FFN] = {"ffn", AT(ffn), 1, 1 << 24, .keys = {"intermediate_size", "n_inner"}},
	[POSITIONS] = {"positions", AT(positions), 1, 1 << 28, .keys = {NULL}},
	[TYPES] = {"types", AT(types), 1, 1 << 20, .keys = {"type_vocab_size"}},
	[EXPERTS] = {"experts", AT(experts), 1, 4096, .keys = {"num_local_experts"}},
	[TOP_K] = {"top_k", AT(top_k), 1, 4096, .keys = {"num_experts_per_tok"}},
	[FUSED] = {"fused", AT(fused), 0, 1, .keys = {NULL}},
	[TIED] = {"tied", AT(tied), 0, 1, .keys = {"tie_word_embeddings"}, .is_bool = true},
};

#define NEED(row) [row] = BB_HYPER_NEEDED
#define MAY(row) [row] = BB_HYPER_OPTIONAL
#define TRANSFORMER NEED(LAYERS), NEED(HIDDEN), NEED(HEADS), NEED(VOCAB), NEED(SEQ)
#define LLAMA TRANSFORMER, NEED(FFN), MAY(KV_HEADS), MAY(HEAD_DIM), MAY(TIED)

static const struct bb_family families[] = {
	{"gpt2",
	 "decoder with learned positions; kv and head width follow from heads",
	 bb_build_gpt2,
	 {TRANSFORMER, MAY(FFN), MAY(POSITIONS), MAY(TIED)},
	 .tied = 1},
	{"bloom",
	 "decoder with ALiBi and a norm behind the embedding",
	 bb_build_bloom,
	 {TRANSFORMER, MAY(FFN), MAY(TIED)},
	 .tied = 1,
	 /* ALiBi has no limit, and transformers saves none; BLOOM was trained with 2048 (BigScience
	    2022). */
	 .seq = 2048},
	{"bert",
	 "encoder with a pooler",
	 bb_build_bert,
	 {TRANSFORMER, MAY(FFN), MAY(POSITIONS), MAY(TYPES)},
	 .tied = 0},
	{"llama", "decoder, gated, grouped keys and values", bb_build_llama, {LLAMA}, .tied = 0},
	{"mistral", "the same tensors as llama", bb_build_llama, {LLAMA}, .tied = 0},
	{"mixtral",
	 "llama with experts, a module each as in transformers 4; fused=1: stacked as in 5",
	 bb_build_llama,
	 {LLAMA, NEED(EXPERTS), NEED(TOP_K), MAY(FUSED)},
	 .tied = 0},
	{"resnet",
	 "resnet:50; 18, 34, 50, 101 or 152 layers",
	 bb_build_resnet,
	 {NEED(LAYERS)},
	 .tied = 0},
	{"linear",
	 "linear:20x2000; that many linear layers of that width, with bias",
	 bb_build_linear,
	 {NEED(LAYERS), NEED(HIDDEN)},
	 .tied = 0},
	{.name = NULL},
};

#define NFAMILIES (sizeof(families) / sizeof(families[0]) - 1)

static const struct preset {
	const char *name, *text, *source;
} presets[] = {
	{"resnet50", "resnet:50", "He et al. 2015, table 1; torchvision"},
	{"gpt2", "gpt2:layers=12,hidden=768,heads=12,vocab=50257,seq=1024",
	 "Radford et al. 2019, table 2; config.json of gpt2"},
	{"gpt2-xl", "gpt2:layers=48,hidden=1600,heads=25,vocab=50257,seq=1024",
	 "Radford et al. 2019, table 2; config.json of gpt2-xl"},
	{"bert-large", "bert:layers=24,hidden=1024,heads=16,vocab=30522,seq=512",
	 "Devlin et al. 2018, section 3; config.json of bert-large-uncased"},
	{"llama2-7b", "llama:layers=32,hidden=4096,heads=32,vocab=32000,seq=4096,ffn=11008",
	 "Touvron et al. 2023; config.json of Llama-2-7b"},
	{"llama2-70b", "llama:layers=80,hidden=8192,heads=64,vocab=32000,seq=4096,ffn=28672,kv=8",
	 "Touvron et al. 2023; config.json of Llama-2-70b"},
	{"gpt3-175b", "gpt2:layers=96,hidden=12288,heads=96,vocab=50257,seq=2048",
	 "Brown et al. 2020, table 2.1"},
	{"bloom-176b", "bloom:layers=70,hidden=14336,heads=112,vocab=250880,seq=2048",
	 "BigScience 2022; config.json of bloom"},
	{"mixtral-8x7b",
	 "mixtral:layers=32,hidden=4096,heads=32,vocab=32000,seq=32768,ffn=14336,kv=8,experts=8,"
	 "top_k=2",
	 "Jiang et al. 2024, table 1; config.json of Mixtral-8x7B"},
};

#define NPRESETS (sizeof(presets) / sizeof(presets[0]))

int64_t *bb_hyper_at(struct bb_hyper *hyper, const struct bb_hyper_row *row)
{
	return (int64_t *)((char *)hyper + row->offset);
}

static const struct bb_family *find_family(const char *name, size_t length)
{
	const struct bb_family *f = families;

	while (f->name && (strncmp(f->name, name, length) != 0 || f->name[length]))
		f++;
	return f->name ? f : NULL;
}

/* ---- families with a config.json ---------------------------------------------------- */

static bool has_config(const struct bb_family *family)
{
	return family->uses[HEADS] != BB_HYPER_NONE;
}

const struct bb_family *bb_family_of_config(const char *model_type)
{
	const struct bb_family *f = find_family(model_type, strlen(model_type));

	return f && has_config(f) ? f : NULL;
}

void bb_family_config_types(struct bb_strbuf *out)
{
	for (const struct bb_family *f = families; f->name; f++)
		if (has_config(f))
			bb_strbuf_addf(out, "%s%s", f == families ? "" : ", ", f->name);
}

/* ---- given and default hyperparameters ------------------------------------------------ */

static void add_needed(struct bb_strbuf *out, const struct bb_family *family)
{
	bb_strbuf_addf(out, "%s:", family->name);
	for (int i = 0, n = 0; i < BB_NHYPERS; i++)
		if (family->uses[i] == BB_HYPER_NEEDED)
			bb_strbuf_addf(out, "%s%s=N", n++ ? "," : "", bb_hyper_rows[i].name);
}

static bb_status refuse_missing(struct bb_builder *b, const struct bb_family *family,
				const struct bb_hyper_row *row)
{
	struct bb_strbuf form = {0};

	if (b->from_file)
		return bb_fail(b->error, BB_EUSAGE, "--model %s: %s is missing; %s needs it",
			       b->model->name, row->keys[0], family->name);
	add_needed(&form, family);
	bb_fail(b->error, BB_EUSAGE, "--model %s: %s is missing; give %s", b->model->name,
		row->name, bb_strbuf_text(&form));
	bb_strbuf_free(&form);
	return BB_EUSAGE;
}

/* Check that all hyperparameters which the family needs are given; set those that it lacks to 0. */
static bb_status check_given(struct bb_builder *b, const struct bb_family *family)
{
	for (int i = 0; i < BB_NHYPERS; i++) {
		const struct bb_hyper_row *row = &bb_hyper_rows[i];
		int64_t *value = bb_hyper_at(&b->model->hyper, row);

		if (i == SEQ && *value == NOT_GIVEN && b->from_file && family->seq > 0)
			*value = family->seq;
		if (*value == NOT_GIVEN && family->uses[i] == BB_HYPER_NEEDED)
			return refuse_missing(b, family, row);
		if (family->uses[i] == BB_HYPER_NONE)
			*value = 0;
	}
	return BB_OK;
}

static void set_default(int64_t *value, int64_t otherwise)
{
	if (*value == NOT_GIVEN)
		*value = otherwise;
}

static bb_status check_heads(struct bb_builder *b)
{
	struct bb_hyper *h = &b->model->hyper;

	if (h->head_dim <= 0) {
		if (h->hidden % h->heads)
			return bb_fail(b->error, BB_EUSAGE,
				       "--model %s: %lld heads do not divide a width of %lld; give "
				       "a divisor, or head_dim if the family has it",
				       b->model->name, (long long)h->heads, (long long)h->hidden);
		h->head_dim = h->hidden / h->heads;
	}
	set_default(&h->kv_heads, h->heads);
	if (h->kv_heads == 0)
		h->kv_heads = h->heads;
	if (h->heads % h->kv_heads)
		return bb_fail(b->error, BB_EUSAGE,
			       "--model %s: %lld heads cannot share %lld heads of keys and values; "
			       "give a divisor",
			       b->model->name, (long long)h->heads, (long long)h->kv_heads);
	return BB_OK;
}

static bb_status complete_hyper(struct bb_builder *b, const struct bb_family *family, int64_t seq)
{
	struct bb_hyper *h = &b->model->hyper;
	bb_status status = check_given(b, family);

	if (status != BB_OK)
		return status;
	if (h->heads == 0)
		return seq == 0 ? BB_OK
				: bb_fail(b->error, BB_EUSAGE,
					  "--seq %lld: %s has no sequence; leave it out",
					  (long long)seq, b->model->name);
	BB_TRY(status, check_heads(b), out);
	set_default(&h->ffn, 4 * h->hidden);
	set_default(&h->positions, h->seq);
	set_default(&h->types, 2);
	set_default(&h->fused, 0);
	set_default(&h->tied, family->tied);
	h->seq = seq ? seq : h->seq;
	if (h->positions && h->seq > h->positions)
		return bb_fail(
			b->error, BB_EUSAGE,
			"--seq %lld: %s has embeddings for only %lld positions; give fewer tokens",
			(long long)h->seq, b->model->name, (long long)h->positions);
	if (h->top_k > h->experts)
		return bb_fail(b->error, BB_EUSAGE,
			       "--model %s: top_k=%lld exceeds the %lld experts", b->model->name,
			       (long long)h->top_k, (long long)h->experts);
out:
	return status;
}

/* ---- the text of --model -------------------------------------------------------------- */

static bb_status read_hyper_value(struct bb_builder *b, const struct bb_hyper_row *row,
				  const char *text)
{
	int64_t *value = bb_hyper_at(&b->model->hyper, row);

	if (*value != NOT_GIVEN)
		return bb_fail(b->error, BB_EUSAGE, "--model %s: %s is given twice", b->model->name,
			       row->name);
	if (!bb_parse_int(text, value) || *value < row->min || *value > row->max)
		return bb_fail(b->error, BB_EUSAGE,
			       "--model %s: %s: \"%s\" is not a number from %lld to %lld",
			       b->model->name, row->name, text, (long long)row->min,
			       (long long)row->max);
	return BB_OK;
}

static bb_status read_named(struct bb_builder *b, const struct bb_family *family, char *item)
{
	const char *names[BB_NHYPERS + 1] = {NULL}, *near;
	char *const equals = strchr(item, '=');
	int n = 0;

	*equals = '\0';
	for (int i = 0; i < BB_NHYPERS; i++) {
		if (family->uses[i] == BB_HYPER_NONE)
			continue;
		if (strcmp(bb_hyper_rows[i].name, item) == 0)
			return read_hyper_value(b, &bb_hyper_rows[i], equals + 1);
		names[n++] = bb_hyper_rows[i].name;
	}
	near = bb_nearest(item, names);
	return bb_fail(b->error, BB_EUSAGE,
		       "--model %s: \"%s\" is not a hyperparameter of %s%s%s%s (see --list)",
		       b->model->name, item, family->name, near ? "; did you mean \"" : "",
		       near ? near : "", near ? "\"?" : "");
}

/* "20x2000": the needed hyperparameters of the family, in order. */
static bb_status read_ordered(struct bb_builder *b, const struct bb_family *family,
			      const char *item)
{
	char value[ITEM];
	bb_status status = BB_OK;

	for (int i = 0; i < BB_NHYPERS && status == BB_OK && *item; i++) {
		const size_t length = strcspn(item, "x");

		if (family->uses[i] != BB_HYPER_NEEDED)
			continue;
		snprintf(value, sizeof(value), "%.*s", (int)length, item);
		status = read_hyper_value(b, &bb_hyper_rows[i], value);
		item += length + (item[length] == 'x');
	}
	if (status == BB_OK && *item)
		return bb_fail(b->error, BB_EUSAGE, "--model %s: unexpected \"%s\" (see --list)",
			       b->model->name, item);
	return status;
}

static bb_status read_items(struct bb_builder *b, const struct bb_family *family, const char *list)
{
	char item[ITEM];
	bb_status status = BB_OK;

	do {
		const size_t length = strcspn(list, ",");

		snprintf(item, sizeof(item), "%.*s", (int)length, list);
		if (length == 0 || length >= sizeof(item))
			return bb_fail(b->error, BB_EUSAGE,
				       "--model %s: \"%s\" is not of the form NAME=NUMBER",
				       b->model->name, item);
		status = strchr(item, '=') ? read_named(b, family, item)
					   : read_ordered(b, family, item);
		list += length;
	} while (status == BB_OK && *list++ == ',');
	return status;
}

static bool is_path(const char *text)
{
	const size_t length = strlen(text);

	return strchr(text, '/') || (length > 5 && strcmp(text + length - 5, ".json") == 0);
}

static bb_status refuse_unknown(const char *name, struct bb_error *error)
{
	const size_t length = strcspn(name, ":");
	const struct bb_family *family = find_family(name, length);
	const char *names[NPRESETS + NFAMILIES + 1] = {NULL}, *near;
	struct bb_strbuf text = {0};

	if (family) {
		add_needed(&text, family);
		bb_fail(error, BB_EUSAGE, "--model %s is a family; give its hyperparameters: %s",
			name, bb_strbuf_text(&text));
		bb_strbuf_free(&text);
		return BB_EUSAGE;
	}
	for (size_t i = 0; i < NPRESETS; i++)
		names[i] = presets[i].name;
	for (size_t i = 0; i < NFAMILIES; i++)
		names[NPRESETS + i] = families[i].name;
	bb_strbuf_add_bytes(&text, name, length);
	near = bb_nearest(bb_strbuf_text(&text), names);
	bb_fail(error, BB_EUSAGE,
		"--model: \"%.200s\" is not a model%s%s%s (see --list; the path of a file has a / "
		"or ends with .json)",
		bb_strbuf_text(&text), near ? "; did you mean \"" : "", near ? near : "",
		near ? "\"?" : "");
	bb_strbuf_free(&text);
	return BB_EUSAGE;
}

/* The hyperparameters that NAME gives, without defaults. */
static bb_status read_hyper(struct bb_builder *b, const char *name, const struct bb_family **family)
{
	const char *text = name, *colon;

	for (size_t i = 0; i < NPRESETS; i++)
		if (strcmp(presets[i].name, name) == 0)
			text = presets[i].text;
	b->from_file = text == name && is_path(name);
	if (b->from_file)
		return bb_config_read(name, &b->model->hyper, family, b->error);
	colon = strchr(text, ':');
	*family = colon ? find_family(text, (size_t)(colon - text)) : NULL;
	return *family ? read_items(b, *family, colon + 1) : refuse_unknown(name, b->error);
}

bb_status bb_model_open(struct bb_model *model, const char *text, int64_t seq,
			struct bb_error *error)
{
	struct bb_builder b = {.model = model, .error = error, .layer = BB_LAYER_BEFORE};
	const struct bb_family *family = NULL;
	bb_status status;

	*model = (struct bb_model){.name = text};
	for (int i = 0; i < BB_NHYPERS; i++)
		*bb_hyper_at(&model->hyper, &bb_hyper_rows[i]) = NOT_GIVEN;
	BB_TRY(status, read_hyper(&b, text, &family), out);
	model->family = family->name;
	BB_TRY(status, complete_hyper(&b, family, seq), out);
	family->build(&b);
	status = bb_build_finish(&b);
out:
	return status;
}

/* ---- --list -------------------------------------------------------------------------- */

void bb_model_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "models (--model)\n");
	for (size_t i = 0; i < NPRESETS; i++)
		bb_strbuf_addf(out, "    %-13s %s\n    %-13s   from %s\n", presets[i].name,
			       presets[i].text, "", presets[i].source);
	bb_strbuf_add(out, "or a family and its hyperparameters; those in [] are optional\n");
	for (const struct bb_family *f = families; f->name; f++) {
		bb_strbuf_addf(out, "    %-13s %s\n    %-13s  ", f->name, f->brief, "");
		for (int i = 0; i < BB_NHYPERS; i++)
			if (f->uses[i] != BB_HYPER_NONE)
				bb_strbuf_addf(out, " %s%s%s",
					       f->uses[i] == BB_HYPER_OPTIONAL ? "[" : "",
					       bb_hyper_rows[i].name,
					       f->uses[i] == BB_HYPER_OPTIONAL ? "]" : "");
		bb_strbuf_add(out, "\n");
	}
	bb_strbuf_add(out, "or a config.json of Hugging Face with model_type ");
	bb_family_config_types(out);
	bb_strbuf_add(out, "\n");
}
