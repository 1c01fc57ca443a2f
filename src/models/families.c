/*
 * families.c - hyperparameters, and the text of --model.
 */
#include "core/option.h"
#include "core/units.h"
#include "models/parts.h"

#include <stdio.h>
#include <string.h>

#define MOST_NAMES 128 /* of presets and families */
#define ITEM 64        /* bytes of a NAME=NUMBER in the text, with its end */

#define AT(field) [BB_HYPER(field)]
#define SWITCH .is_bool = true

/* Limits far beyond any built model; products of three fit into 64 bits. */
const struct bb_hyper_row bb_hyper_rows[BB_NHYPERS] = {
	AT(layers) = {"layers", 1, 4096, .keys = {"num_hidden_layers", "n_layer", "num_layers"}},
	AT(hidden) = {"hidden", 1, 1 << 20,
		      .keys = {"hidden_size", "n_embd", "n_embed", "d_model"}},
	AT(heads) = {"heads", 1, 1 << 14, .keys = {"num_attention_heads", "n_head", "num_heads"}},
	AT(vocab) = {"vocab", 1, 1 << 28, .keys = {"vocab_size"}},
	AT(seq) = {"seq", 1, 1 << 28,
		   .keys = {"max_position_embeddings", "n_positions", "seq_length"}},
	AT(kv_heads) = {"kv", 1, 1 << 14, .keys = {"num_key_value_heads", "num_kv_heads"}},
	AT(head_dim) = {"head_dim", 1, 1 << 14, .keys = {"head_dim", "d_kv"}},
	AT(ffn) = {"ffn", 1, 1 << 24,
		   .keys = {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff"}},
	AT(positions) = {"positions", 1, 1 << 28, .keys = {NULL}},
	AT(types) = {"types", 1, 1 << 20, .keys = {"type_vocab_size"}},
	AT(experts) = {"experts", 1, 4096,
		       .keys = {"num_local_experts", "num_experts", "n_routed_experts"}},
	AT(top_k) = {"top_k", 1, 4096, .keys = {"num_experts_per_tok", "experts_per_token"}},
	AT(fused) = {"fused", 0, 1, .trait = BB_HAS_FUSED},
	AT(tied) = {"tied", 0, 1, .keys = {"tie_word_embeddings"}, SWITCH, .trait = BB_HAS_TIED},
	AT(expert_ffn) = {"expert_ffn", 1, 1 << 24, .keys = {"moe_intermediate_size"}},
	AT(shared) = {"shared", 0, 4096, .keys = {"n_shared_experts"}},
	AT(shared_ffn) = {"shared_ffn", 0, 1 << 24, .keys = {"shared_expert_intermediate_size"},
			  .trait = BB_HAS_SHARED},
	AT(dense) = {"dense", 0, 4096, .keys = {"first_k_dense_replace"}},
	AT(moe_every) = {"moe_every", 1, 4096,
			 .keys = {"decoder_sparse_step", "interleave_moe_layer_step",
				  "moe_layer_freq"}},
	AT(q_lora) = {"q_lora", 0, 1 << 20, .keys = {"q_lora_rank"}, .trait = BB_HAS_Q_LORA},
	AT(kv_lora) = {"kv_lora", 1, 1 << 20, .keys = {"kv_lora_rank"}, .trait = BB_HAS_MLA},
	AT(nope) = {"nope", 1, 1 << 13, .keys = {"qk_nope_head_dim"}},
	AT(rope) = {"rope", 1, 1 << 13, .keys = {"qk_rope_head_dim"}},
	AT(value_dim) = {"value_dim", 1, 1 << 14, .keys = {"v_head_dim"}},
	AT(window) = {"window", 0, 1 << 28, .keys = {"sliding_window", "attention_chunk_size"}},
	AT(global_every) = {"global_every", 0, 4096,
			    .keys = {"sliding_window_pattern", "_sliding_window_pattern",
				     "no_rope_layer_interval"}},
	AT(bias) = {"bias", 0, 1, .keys = {"attention_bias", "qkv_bias", "enable_bias", "bias"},
		    SWITCH, .trait = BB_HAS_BIAS},
	AT(mlp_bias) = {"mlp_bias", 0, 1, .keys = {"mlp_bias"}, SWITCH, .trait = BB_HAS_MLP_BIAS},
	AT(qk_norm) = {"qk_norm", 0, 1, .trait = BB_HAS_QK_NORM},
	AT(gated) = {"gated", 0, 1, .keys = {"is_gated_act"}, SWITCH, .trait = BB_HAS_GATE},
	AT(decoders) = {"decoders", 1, 4096, .keys = {"num_decoder_layers"}},
	AT(embedding) = {"embedding", 1, 1 << 20, .keys = {"word_embed_proj_dim"}},
	AT(pre_norm) = {"pre_norm", 0, 1, .keys = {"do_layer_norm_before"}, SWITCH,
			.trait = BB_HAS_PRE_NORM},
	AT(multi_query) = {"multi_query", 0, 1, .keys = {"multi_query"}, SWITCH},
	AT(parallel) = {"parallel", 0, 1, .keys = {"parallel_attn"}, SWITCH,
			.trait = BB_HAS_PARALLEL},
	AT(two_norms) = {"two_norms", 0, 1, .keys = {"new_decoder_architecture"}, SWITCH,
			 .trait = BB_HAS_TWO_NORMS},
	AT(buckets) = {"buckets", 1, 1 << 20, .keys = {"relative_attention_num_buckets"}},
	AT(image) = {"image", 1, 1 << 14, .keys = {"image_size"}},
	AT(patch) = {"patch", 1, 1 << 14, .keys = {"patch_size"}},
	AT(pooled) = {"pooled", 1, 1 << 20, .keys = {"mm_tokens_per_image"}},
	AT(adapter) = {"adapter", 1, 1 << 20, .keys = {"projector_input_dim"}},
	AT(adapter_out) = {"adapter_out", 1, 1 << 20, .keys = {"projector_output_dim"}},
	AT(vision_out) = {"vision_out", 1, 1 << 20, .keys = {"vision_output_dim"}},
	AT(vision_head) = {"vision_head", 0, 1, .keys = {"vision_use_head"}, SWITCH,
			   .trait = BB_HAS_POOLER},
	AT(labels) = {"labels", 1, 1 << 20, .keys = {"num_labels"}},
	AT(head) = {"head", 0, 15, .keys = {NULL}},
};

int64_t *bb_hyper_at(struct bb_hyper *hyper, const struct bb_hyper_row *row)
{
	return (int64_t *)hyper + (row - bb_hyper_rows);
}

static const struct bb_family *find_family(const char *name, size_t length)
{
	const struct bb_family *f = bb_families;

	while (f->name && (strncmp(f->name, name, length) != 0 || f->name[length]))
		f++;
	return f->name ? f : NULL;
}

/* ---- families with a config.json ---------------------------------------------------- */

#define GENERIC "generic"

const struct bb_family *bb_family_generic(void)
{
	return find_family(GENERIC, strlen(GENERIC));
}

static bool has_config(const struct bb_family *family)
{
	return family->stacks[0].block && strcmp(family->name, GENERIC) != 0;
}

const struct bb_family *bb_family_of_config(const char *model_type)
{
	const struct bb_family *f = find_family(model_type, strlen(model_type));

	return f && has_config(f) ? f : NULL;
}

void bb_family_config_types(struct bb_strbuf *out)
{
	for (const struct bb_family *f = bb_families; f->name; f++)
		if (has_config(f))
			bb_strbuf_addf(out, "%s%s", f == bb_families ? "" : ", ", f->name);
}

/* ---- given and default hyperparameters ------------------------------------------------ */

static void add_needed(struct bb_strbuf *out, const struct bb_family *family)
{
	bb_strbuf_addf(out, "%s:", family->name);
	for (int i = 0, n = 0; i < BB_NHYPERS; i++)
		if (family->uses[i] == BB_HYPER_NEEDED)
			bb_strbuf_addf(out, "%s%s=N", n++ ? "," : "", bb_hyper_rows[i].name);
}

static void set_default(int64_t *value, int64_t otherwise)
{
	if (*value == BB_NOT_GIVEN)
		*value = otherwise;
}

/* Set the family's defaults, those that the text must give only for a config.json. Check that all
   hyperparameters which the family needs are given; set those that it lacks to 0. */
static bb_status check_given(struct bb_builder *b, const struct bb_family *family)
{
	struct bb_hyper defaults = family->defaults;
	struct bb_strbuf form = {0};

	for (int i = 0; i < BB_NHYPERS; i++) {
		const struct bb_hyper_row *row = &bb_hyper_rows[i];
		const int64_t otherwise = *bb_hyper_at(&defaults, row);
		int64_t *value = bb_hyper_at(&b->model->hyper, row);

		if (otherwise != 0 && (b->from_file || family->uses[i] != BB_HYPER_NEEDED))
			set_default(value, otherwise);
		if (family->uses[i] == BB_HYPER_NONE)
			*value = 0;
		if (*value != BB_NOT_GIVEN || family->uses[i] != BB_HYPER_NEEDED)
			continue;
		if (b->from_file)
			return bb_fail(b->error, BB_EUSAGE,
				       "--model %s: %s is missing; %s needs it", b->model->name,
				       row->keys[0], family->name);
		add_needed(&form, family);
		bb_fail(b->error, BB_EUSAGE, "--model %s: %s is missing; give %s", b->model->name,
			row->name, bb_strbuf_text(&form));
		bb_strbuf_free(&form);
		return BB_EUSAGE;
	}
	return BB_OK;
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

/* Hyperparameters that follow from others. */
static bb_status derive_hyper(struct bb_builder *b, const struct bb_family *family)
{
	struct bb_hyper *h = &b->model->hyper;
	bb_status status;

	if (family->traits & BB_HAS_FUSED)
		h->fused = 1;
	if (h->kv_lora > 0)
		h->head_dim = h->nope + h->rope;
	if (h->multi_query == 1 && h->two_norms != 1)
		h->kv_heads = 1;
	else if (family->uses[BB_HYPER(multi_query)] && h->two_norms != 1)
		h->kv_heads = h->heads;
	status = check_heads(b);
	set_default(&h->ffn, 4 * h->hidden);
	set_default(&h->value_dim, 0);
	h->value_dim = h->value_dim > 0 ? h->value_dim : h->head_dim;
	set_default(&h->expert_ffn, h->ffn);
	h->expert_ffn = h->experts > 0 && h->expert_ffn == 0 ? h->ffn : h->expert_ffn;
	set_default(&h->shared, 0);
	set_default(&h->shared_ffn, 0);
	if (h->shared_ffn == 0)
		h->shared_ffn = h->shared * h->expert_ffn;
	h->moe_every = h->moe_every > 0 ? h->moe_every : 1;
	set_default(&h->decoders, h->layers);
	if (h->image > 0) {
		const int64_t patches = (h->image / h->patch) * (h->image / h->patch);

		h->seq = patches + ((family->traits & BB_HAS_CLASS_TOKEN) != 0);
		h->positions = h->seq;
		set_default(&h->pooled, patches / 4); /* as Llama 4 shuffles them */
	}
	set_default(&h->positions, h->seq);
	for (int i = 0; i < BB_NHYPERS; i++)
		set_default(bb_hyper_at(h, &bb_hyper_rows[i]), 0);
	return status;
}

static bb_status complete_hyper(struct bb_builder *b, const struct bb_family *family, int64_t seq)
{
	struct bb_hyper *h = &b->model->hyper;
	bb_status status = check_given(b, family);

	if (status != BB_OK)
		return status;
	if (seq > 0 && (h->heads == 0 || h->image > 0))
		return bb_fail(b->error, BB_EUSAGE, "--seq %lld: %s has no sequence; leave it out",
			       (long long)seq, b->model->name);
	if (h->heads == 0)
		return BB_OK;
	if (h->patch > h->image)
		return bb_fail(b->error, BB_EUSAGE,
			       "--model %s: a patch of %lld pixels is larger than an image of %lld",
			       b->model->name, (long long)h->patch, (long long)h->image);
	BB_TRY(status, derive_hyper(b, family), out);
	h->seq = seq ? seq : h->seq;
	if (h->positions && h->seq > h->positions)
		return bb_fail(
			b->error, BB_EUSAGE,
			"--seq %lld: %s has embeddings for only %lld positions; give fewer tokens",
			(long long)h->seq, b->model->name, (long long)h->positions);
	if (h->top_k > h->experts && h->experts > 0)
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

	if (*value != BB_NOT_GIVEN)
		return bb_fail(b->error, BB_EUSAGE, "--model %s: %s is given twice", b->model->name,
			       row->name);
	if (!bb_parse_int(text, value) || *value < row->min || *value > row->max)
		return bb_fail(b->error, BB_EUSAGE,
			       "--model %s: %s: \"%s\" is not a number from %lld to %lld",
			       b->model->name, row->name, text, (long long)row->min,
			       (long long)row->max);
	return BB_OK;
}

/* "head=masked" */
static bb_status read_head(struct bb_builder *b, const struct bb_family *family, const char *word)
{
	struct bb_strbuf words = {0};

	for (int i = 0; family->known[i].word; i++) {
		if (strcmp(family->known[i].word, word) == 0) {
			b->model->hyper.head = i;
			return BB_OK;
		}
		bb_strbuf_addf(&words, "%s%s", i > 0 ? ", " : "", family->known[i].word);
	}
	bb_fail(b->error, BB_EUSAGE, "--model %s: head: \"%s\" is not one of %s", b->model->name,
		word, bb_strbuf_text(&words));
	bb_strbuf_free(&words);
	return BB_EUSAGE;
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
		if (i == BB_HYPER(head) && strcmp(bb_hyper_rows[i].name, item) == 0)
			return read_head(b, family, equals + 1);
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

static bb_status refuse_unknown(const char *name, struct bb_error *error)
{
	const size_t length = strcspn(name, ":");
	const struct bb_family *family = find_family(name, length);
	const char *names[MOST_NAMES + 1] = {NULL}, *near;
	int n = 0;
	struct bb_strbuf text = {0};

	if (family) {
		add_needed(&text, family);
		bb_fail(error, BB_EUSAGE, "--model %s is a family; give its hyperparameters: %s",
			name, bb_strbuf_text(&text));
		bb_strbuf_free(&text);
		return BB_EUSAGE;
	}
	for (const struct bb_model_preset *p = bb_model_presets; p->name && n < MOST_NAMES; p++)
		names[n++] = p->name;
	for (const struct bb_family *f = bb_families; f->name && n < MOST_NAMES; f++)
		names[n++] = f->name;
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
	const size_t length = strlen(name);

	for (const struct bb_model_preset *p = bb_model_presets; p->name; p++)
		if (strcmp(p->name, name) == 0)
			text = p->text;
	b->from_file = text == name && (strchr(name, '/') || strcmp(name, ".") == 0 ||
					(length > 5 && strcmp(name + length - 5, ".json") == 0));
	if (b->from_file)
		return bb_config_read(name, b->model, family, b->error);
	colon = strchr(text, ':');
	*family = colon ? find_family(text, (size_t)(colon - text)) : NULL;
	if (*family && (*family)->tower)
		return bb_fail(
			b->error, BB_EUSAGE,
			"--model %s: models with vision are read from a config.json; give its "
			"path, or %s_text",
			name, (*family)->name);
	return *family ? read_items(b, *family, colon + 1) : refuse_unknown(name, b->error);
}

bb_status bb_model_open(struct bb_model *model, const char *text, int64_t seq,
			struct bb_error *error)
{
	struct bb_builder b = {.model = model, .error = error, .layer = BB_LAYER_BEFORE};
	const struct bb_family *family = NULL;
	struct bb_hyper hyper;
	bb_status status;

	*model = (struct bb_model){.name = text};
	for (int i = 0; i < BB_NHYPERS; i++)
		*bb_hyper_at(&model->hyper, &bb_hyper_rows[i]) = BB_NOT_GIVEN;
	model->vision = model->hyper;
	BB_TRY(status, read_hyper(&b, text, &family), out);
	model->family = family->name;
	BB_TRY(status, complete_hyper(&b, family, seq), out);
	hyper = model->hyper;
	model->hyper = model->vision;
	model->vision = (struct bb_hyper){.heads = 0};
	if (family->tower) {
		/* Its embedding is as wide as the blocks that read it. */
		model->hyper.embedding = hyper.hidden;
		BB_TRY(status, complete_hyper(&b, family->tower, 0), out);
		model->vision = model->hyper;
	}
	model->hyper = hyper;
	if (family->build)
		family->build(&b);
	else
		bb_build_transformer(&b, family);
	status = bb_build_finish(&b);
out:
	return status;
}

/* ---- --list -------------------------------------------------------------------------- */

void bb_model_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "models (--model)\n");
	for (const struct bb_model_preset *p = bb_model_presets; p->name; p++)
		bb_strbuf_addf(out, "    %-13s %s\n    %-13s   from %s\n", p->name, p->text, "",
			       p->source);
	bb_strbuf_add(out, "or a family and its hyperparameters; those in [] are optional\n");
	for (const struct bb_family *f = bb_families; f->name; f++) {
		bb_strbuf_addf(out, "    %-13s %s\n    %-13s  ", f->name, f->brief, "");
		for (int i = 0; i < BB_NHYPERS; i++)
			if (f->uses[i] != BB_HYPER_NONE)
				bb_strbuf_addf(out, " %s%s%s",
					       f->uses[i] == BB_HYPER_OPTIONAL ? "[" : "",
					       bb_hyper_rows[i].name,
					       f->uses[i] == BB_HYPER_OPTIONAL ? "]" : "");
		bb_strbuf_add(out, "\n");
	}
	bb_strbuf_add(out, "or a config.json of Hugging Face, or its folder, with model_type ");
	bb_family_config_types(out);
	bb_strbuf_add(out, "\n");
}
