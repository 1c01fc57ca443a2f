/*
 * config.c - the hyperparameters in a config.json of Hugging Face's transformers.
 */
#include "core/jansson/json_file.h"
#include "models/parts.h"

#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct config {
	const char *path;
	json_t *root;
	enum { ALL_KEYS, TEXT_KEYS, TOWER_KEYS } keys; /* of the root that are read */
	const char *part;                              /* "text_config"; "": the file itself */
	struct bb_strbuf *unknown;  /* "a, b": keys that may change the tensors */
	struct bb_strbuf *defaults; /* "n_layer 12, n_head 12": keys that the file lacks */
	struct bb_error *error;
};

static void add_item(struct bb_strbuf *list, const char *part, const char *key)
{
	bb_strbuf_addf(list, "%s%s%s%.60s", list->length > 0 ? ", " : "", part, *part ? "." : "",
		       key);
}

/* Refuse VALUE of KEY, quoted from the file and cut to fit into the message. The first failure
   stays in the error, where bb_config_read finds it. */
static void refuse_key(const struct config *c, const char *key, const json_t *value,
		       const char *why)
{
	char *text;

	if (bb_error_status(c->error) != BB_OK)
		return;
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	bb_fail(c->error, BB_EUSAGE, "--model %.200s: %.60s: %.60s %s", c->path, key,
		text ? text : "?", why);
	free(text);
}

/* The hyperparameter that FAMILY means by KEY; BB_NHYPERS: none. */
static int row_of_key(const struct bb_family *family, const char *key)
{
	for (size_t i = 0; i < sizeof(family->keys) / sizeof(family->keys[0]); i++)
		if (family->keys[i].key && strcmp(family->keys[i].key, key) == 0)
			return family->keys[i].row;
	for (int i = 0; i < BB_NHYPERS; i++)
		for (const char *const *k = bb_hyper_rows[i].keys; *k; k++)
			/* A key that the family does not use may mean something else there. */
			if (family->uses[i] != BB_HYPER_NONE && strcmp(*k, key) == 0)
				return i;
	return BB_NHYPERS;
}

/* Keys of transformers that change no tensor, as patterns of fnmatch. */
static const char harmless[] =
	"_attn* _name_or_path *_act *_act_fn *_dropout* *_eps *_epsilon *_id *_pdrop *_prob "
	"*_theta *_token *_token_index *tokenizer* vision_feature_* *_version *activation* "
	"*aux_loss* *dtype *initializer* *router* *softcapping alibi "
	"apply_residual_connection_post_layernorm attention_softmax_in_fp32 attn_implementation "
	"attn_scale attn_temperature_tuning auto_map dropout* encoder_stride ep_size floor_scale "
	"gradient_checkpointing id2label init_std initial_context_length is_decoder "
	"is_encoder_decoder label2id layerdrop mask_token_id masked_bias_fp32 max_sequence_length "
	"max_window_layers model_type moe_layers n_ctx n_group no_rope_layers norm_topk_prob "
	"num_channels num_mtp_layers num_nextn_predict_layers offset_alibi "
	"original_max_position_embeddings position_embedding_type prefix num_ln_in_parallel_attn "
	"pretraining_tp problem_type qk_head_dim quantization_config query_pre_attn_scalar "
	"relative_attention_max_distance return_* reorder_and_upcast_attn rope_* rotary* "
	"routed_scaling_factor scale_* scoring_func seq_aux skip_bias_add* slow_but_exact "
	"summary_* swiglu_* task_specific_params topk_* unk_token_id use_cache "
	"use_parallel_residual use_qk_norm partial_rotary_factor tf_legacy_loss output_* "
	"cache_implementation head_dim num_key_value_heads pooler_act temperature top_p do_sample";

/* "layer_types": each layer's kind of attention. Known are patterns in which each N-th one is
   global, all are or none is; in a family without local layers all are. */
static void read_layer_types(const struct config *c, const json_t *value,
			     const struct bb_family *family, struct bb_hyper *hyper)
{
	const size_t n = json_array_size(value);
	size_t every = 0;

	for (size_t i = 0; i < n; i++) {
		const char *type = json_string_value(json_array_get(value, i)) ?: "";
		const bool global = strcmp(type, "full_attention") == 0;

		every = global && every == 0 ? i + 1 : every;
		if (!global && !family->uses[BB_HYPER(global_every)])
			refuse_key(c, "layer_types", value, "has layers that this family lacks");
		else if (!global && strcmp(type, "sliding_attention") != 0 &&
			 strcmp(type, "chunked_attention") != 0)
			refuse_key(c, "layer_types", json_array_get(value, i),
				   "is not a known kind of attention");
		else if (global != (every > 0 && (i + 1) % every == 0))
			refuse_key(c, "layer_types", value,
				   "is no pattern in which each N-th layer is global");
	}
	hyper->global_every = (int64_t)every;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t length = strlen(end);

	return strlen(text) >= length && strcmp(text + strlen(text) - length, end) == 0;
}

/* Reads a key whose value is not a number. False: KEY is none. */
static bool read_special_key(const struct config *c, const char *key, const json_t *value,
			     const struct bb_family *family, struct bb_hyper *hyper)
{
	const char *class;

	if (strcmp(key, "architectures") == 0 && json_array_size(value) > 0) {
		class = json_string_value(json_array_get(value, 0));
		/* Other models than that without a head, though their names end alike. */
		if (class && (ends_with(class, "EncoderModel") || ends_with(class, "HeadsModel")))
			class = NULL;
		for (int i = 0; class && family->known[i].word; i++)
			for (int k = 0; k < 2 && family->known[i].classes[k]; k++)
				if (ends_with(class, family->known[i].classes[k])) {
					hyper->head = i;
					return true;
				}
		refuse_key(c, key, value, "has a head that is not known");
	} else if (strcmp(key, "layer_types") == 0) {
		if (!json_is_null(value))
			read_layer_types(c, value, family, hyper);
	} else if (strcmp(key, "id2label") == 0 && family->uses[BB_HYPER(labels)] &&
		   json_object_size(value) > 0) {
		hyper->labels = (int64_t)json_object_size(value);
	} else if (strcmp(key, "mlp_only_layers") == 0 && family->uses[BB_HYPER(dense)]) {
		hyper->dense = (int64_t)json_array_size(value);
		for (size_t i = 0; i < json_array_size(value); i++)
			if (json_integer_value(json_array_get(value, i)) != (json_int_t)i)
				refuse_key(c, key, value,
					   "does not begin with block 0, or leaves one out");
	} else if (strcmp(key, "feed_forward_proj") == 0 && json_is_string(value)) {
		hyper->gated = strncmp(json_string_value(value), "gated-", 6) == 0;
	} else {
		return false;
	}
	return true;
}

/* Refuse a value that changes the tensors, and note a key that may. */
static void check_key(const struct config *c, const char *key, const json_t *value,
		      const struct bb_family *family)
{
	static const struct {
		const char *key;
		json_int_t known;
	} numbers[] = {{"num_channels", 3}, {"moe_layer_freq", 1}, {"num_ln_in_parallel_attn", 2}};
	char pattern[64];
	int n;

	if (strcmp(key, "layer_norm_elementwise_affine") == 0 && json_is_true(value))
		return;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(key, numbers[i].key) == 0 && json_is_integer(value) &&
		    json_integer_value(value) != numbers[i].known)
			refuse_key(c, key, value, "is not known");
	if (strcmp(key, "layer_norm_elementwise_affine") == 0 ||
	    (strcmp(key, "is_encoder_decoder") == 0 &&
	     json_is_true(value) != (family->stacks[1].block != NULL)))
		refuse_key(c, key, value, "is not known of this family");
	/* A window is valid only with use_sliding_window, which is refused. */
	if (strcmp(key, "pooler_output_size") == 0 ||
	    (strcmp(key, "sliding_window") == 0 && !family->uses[BB_HYPER(window)]))
		return;
	/* These say that a model lacks what the key names. */
	if (json_is_null(value) || json_is_false(value) || json_is_real(value) ||
	    (json_is_array(value) && json_array_size(value) == 0) ||
	    (json_is_object(value) && json_object_size(value) == 0) ||
	    (json_is_integer(value) && json_integer_value(value) == 0))
		return;
	for (const char *at = harmless; sscanf(at, " %63s%n", pattern, &n) == 1; at += n)
		if (fnmatch(pattern, key, 0) == 0)
			return;
	add_item(c->unknown, c->part, key);
}

/* Set what HYPER lacks to the defaults of FAMILY's class. */
static void add_defaults(const struct config *c, struct bb_hyper *hyper,
			 const struct bb_family *family)
{
	char key[48];
	long long value;
	int n;

	for (const char *at = family->absent; sscanf(at, " %47[^=]=%lld%n", key, &value, &n) == 2;
	     at += n) {
		const int row = row_of_key(family, key);
		int64_t *const into = bb_hyper_at(hyper, row);

		if (*into != BB_NOT_GIVEN)
			continue;
		*into = value;
		add_item(c->defaults, c->part, key);
		if (bb_hyper_rows[row].max == 1)
			bb_strbuf_add(c->defaults, value ? " true" : " false");
		else
			bb_strbuf_addf(c->defaults, " %lld", value);
	}
	for (int i = 0; i < BB_NHYPERS; i++) {
		int64_t *const into = bb_hyper_at(hyper, i);

		*into = *into == BB_GIVEN_NULL ? BB_NOT_GIVEN : *into;
	}
}

static bb_status read_family(const struct config *c, const struct bb_family **family)
{
	const json_t *type = json_object_get(c->root, "model_type");
	/* That for decoders of other kinds. */
	const struct bb_family *const generic = bb_family_find("generic", strlen("generic"));
	struct bb_strbuf types = {0}, numbers = {0};
	const char *key;
	json_t *value;

	if (json_is_string(type))
		*family = bb_family_find(json_string_value(type), strlen(json_string_value(type)));
	if (*family && (*family)->class)
		return BB_OK;
	bb_family_config_types(&types);
	/* "layers=2,hidden=64": those of a decoder of an unknown kind, as far as the file has
	   them. */
	json_object_foreach(c->root, key, value)
	{
		const int row = row_of_key(generic, key);

		if (row < BB_NHYPERS && json_is_integer(value) &&
		    json_integer_value(value) >= bb_hyper_rows[row].min)
			bb_strbuf_addf(&numbers, "%s%s=%lld", numbers.length > 0 ? "," : "",
				       bb_hyper_rows[row].name,
				       (long long)json_integer_value(value));
	}
	if (!type)
		bb_fail(c->error, BB_EUSAGE,
			"--model %.200s: model_type is missing; expected one of %s", c->path,
			bb_strbuf_text(&types));
	else
		bb_fail(c->error, BB_EUSAGE,
			"--model %.120s: model_type: \"%.40s\" is not one of %s; if it is a "
			"decoder like llama, give --model %s:%s",
			c->path, json_is_string(type) ? json_string_value(type) : "(not a string)",
			bb_strbuf_text(&types), generic->name,
			numbers.length > 0 ? bb_strbuf_text(&numbers) : "layers=N,…");
	bb_strbuf_free(&types);
	bb_strbuf_free(&numbers);
	return BB_EUSAGE;
}

static void read_keys(const struct config *c, struct bb_hyper *hyper,
		      const struct bb_family *family)
{
	const char *first[BB_NHYPERS] = {NULL}; /* key that has set it */
	const char *key;
	json_t *value;

	json_object_foreach(c->root, key, value)
	{
		const bool text = strcmp(key, "architectures") == 0 ||
				  strcmp(key, "tie_word_embeddings") == 0;
		const bool part =
			strcmp(key, "text_config") == 0 || strcmp(key, "vision_config") == 0;
		const int i = row_of_key(family, key);
		const struct bb_hyper_row *row = &bb_hyper_rows[i < BB_NHYPERS ? i : 0];
		const bool is_bool = row->max == 1;
		int64_t *const into = bb_hyper_at(hyper, i), found;
		char why[96] = "is not true or false";

		if ((c->keys == TEXT_KEYS && !text) || (c->keys == TOWER_KEYS && (text || part)))
			continue;
		if (read_special_key(c, key, value, family, hyper))
			continue;
		if (i == BB_NHYPERS) {
			check_key(c, key, value, family);
			continue;
		}
		/* transformers writes null for a value that follows from others, or for what the
		   model does not have. */
		if (json_is_null(value)) {
			if (!first[i])
				*into = row->min == 0 && !is_bool ? 0 : BB_GIVEN_NULL;
			continue;
		}
		if (!is_bool)
			snprintf(why, sizeof(why), "is not a whole number from %jd to %jd",
				 row->min, row->max);
		found = is_bool ? json_is_true(value) : json_integer_value(value);
		if (!(is_bool ? json_is_boolean(value) : json_is_integer(value)) ||
		    found < row->min || found > row->max)
			refuse_key(c, key, value, why);
		else if (first[i] && found != *into)
			bb_fail(c->error, BB_EUSAGE,
				"--model %.200s: %s is %jd and %s is %jd, but both mean the same",
				c->path, first[i], *into, key, found);
		*into = found;
		first[i] = key;
	}
}

/* A model with vision: an object for each part, and what stands beside them, which belongs to the
   tower, but for the head and its weights. */
static void read_parts(const struct config *c, struct bb_model *model,
		       const struct bb_family *family)
{
	static const char *const names[] = {"text_config", "vision_config"};
	const struct bb_family *const families[] = {family, family->tower};
	struct bb_hyper *const hypers[] = {&model->hyper, &model->vision};
	struct config part = *c, beside = *c;

	for (int i = 0; i < 2; i++) {
		struct bb_strbuf path = {0};

		part.root = json_object_get(c->root, names[i]);
		if (!json_is_object(part.root))
			bb_fail(c->error, BB_EUSAGE, "--model %.200s: %s is missing; %s needs it",
				c->path, names[i], families[i]->name);
		bb_strbuf_addf(&path, "%.200s: %s", c->path, names[i]);
		part.path = bb_strbuf_text(&path);
		part.part = names[i];
		read_keys(&part, hypers[i], families[i]);
		bb_strbuf_free(&path);
	}
	for (int i = 0; i < 2; i++) {
		beside.keys = i == 0 ? TEXT_KEYS : TOWER_KEYS;
		read_keys(&beside, hypers[i], families[i]);
		part.part = names[i];
		add_defaults(&part, hypers[i], families[i]);
	}
}

bb_status bb_config_read(const char *path, struct bb_model *model, const struct bb_family **found,
			 struct bb_error *error)
{
	const struct bb_family *family = NULL;
	struct bb_strbuf inside = {0}, unknown = {0}, defaults = {0};
	struct stat st;
	const bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	struct config c = {.path = path,
			   .part = "",
			   .unknown = &unknown,
			   .defaults = &defaults,
			   .error = error};
	struct bb_file_request request = {.option = "--model", .most = BB_JSON_FILE_BYTES};
	const char *version;
	bb_status status;

	bb_strbuf_addf(&inside, "%s/config.json", path);
	c.path = request.path = folder ? bb_strbuf_text(&inside) : path;

	BB_TRY(status, bb_json_file_open(&request, "config.json", &c.root, error), out);
	BB_TRY(status, read_family(&c, &family), out);
	*found = family;
	if (family->tower) {
		read_parts(&c, model, family);
	} else {
		read_keys(&c, &model->hyper, family);
		add_defaults(&c, &model->hyper, family);
	}
	if (unknown.length > 0)
		bb_fail(error, BB_EUSAGE,
			"--model %.120s: not known, and may change the tensors: %s; remove those "
			"that do not",
			c.path, bb_strbuf_text(&unknown));
	BB_TRY(status, bb_error_status(error), out);
	/* Version 5 of transformers and later ones stack the experts; a file without a version is
	   older. */
	version = json_string_value(json_object_get(c.root, "transformers_version"));
	if (family->uses[BB_HYPER(fused)] != BB_HYPER_NONE)
		model->hyper.fused = version && strtol(version, NULL, 10) >= 5;
	/* "read as gemma3; keys that it lacks as in Gemma3TextConfig: num_attention_heads 8, …" */
	bb_strbuf_addf(&model->origin, "read as %s", family->name);
	if (defaults.length > 0)
		bb_strbuf_addf(&model->origin, "; keys that it lacks, by transformers' %s%s%s: %s",
			       family->class, family->tower ? " and " : "",
			       family->tower ? family->tower->class : "",
			       bb_strbuf_text(&defaults));
	const json_t *const quantised = json_object_get(c.root, "quantization_config");
	if (json_is_object(quantised))
		bb_strbuf_addf(&model->origin,
			       "; its weights are quantised (%s); sizes here are those before",
			       json_string_value(json_object_get(quantised, "quant_method"))
				       ?: "quantization_config");
out:
	json_decref(c.root);
	bb_strbuf_free(&inside);
	bb_strbuf_free(&unknown);
	bb_strbuf_free(&defaults);
	return status;
}
