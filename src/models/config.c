/*
 * config.c - the hyperparameters in a config.json of Hugging Face's transformers.
 */
#include "core/json_file.h"
#include "models/parts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct config {
	const char *path;
	json_t *root;
	struct bb_error *error;
};

/* Refuse VALUE, quoted from the file and cut to fit into the message. */
static bb_status refuse_value(const struct config *c, const char *key, const json_t *value,
			      const struct bb_hyper_row *row)
{
	char *const text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	char expected[80] = "true or false";

	if (!row->is_bool)
		snprintf(expected, sizeof(expected), "a whole number from %lld to %lld",
			 (long long)row->min, (long long)row->max);
	bb_fail(c->error, BB_EUSAGE, "--model %.200s: %s: %.60s is not %s", c->path, key,
		text ? text : "?", expected);
	free(text);
	return BB_EUSAGE;
}

static bb_status read_json_value(const struct config *c, const char *key, const json_t *value,
				 const struct bb_hyper_row *row, int64_t *into)
{
	if (row->is_bool ? !json_is_boolean(value) : !json_is_integer(value))
		return refuse_value(c, key, value, row);
	*into = row->is_bool ? json_is_true(value) : json_integer_value(value);
	return *into < row->min || *into > row->max ? refuse_value(c, key, value, row) : BB_OK;
}

/* transformers writes null for a value that follows from others. */
static bb_status read_hyper_row(const struct config *c, const struct bb_hyper_row *row,
				int64_t *into)
{
	const char *first = NULL;

	for (const char *const *key = row->keys; *key; key++) {
		const json_t *value = json_object_get(c->root, *key);
		int64_t found = 0;
		bb_status status;

		if (!value || json_is_null(value))
			continue;
		status = read_json_value(c, *key, value, row, &found);
		if (status != BB_OK)
			return status;
		if (first && found != *into)
			return bb_fail(
				c->error, BB_EUSAGE,
				"--model %.200s: %s is %lld and %s is %lld, but both mean the same",
				c->path, first, (long long)*into, *key, (long long)found);
		*into = found;
		first = *key;
	}
	return BB_OK;
}

/* Refuse settings that change the tensors in an unknown way. */
static bb_status refuse_variants(const struct config *c)
{
	static const char *const keys[] = {"attention_bias", "mlp_bias", "add_cross_attention",
					   "is_encoder_decoder"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_is_true(json_object_get(c->root, keys[i])))
			return bb_fail(
				c->error, BB_EUSAGE,
				"--model %.200s: %s is true; only models without it are known",
				c->path, keys[i]);
	return BB_OK;
}

static bb_status read_family(const struct config *c, const struct bb_family **family)
{
	const json_t *type = json_object_get(c->root, "model_type");
	struct bb_strbuf types = {0};

	if (json_is_string(type))
		*family = bb_family_of_config(json_string_value(type));
	if (*family)
		return BB_OK;
	bb_family_config_types(&types);
	if (!type)
		bb_fail(c->error, BB_EUSAGE,
			"--model %.200s: model_type is missing; expected one of %s", c->path,
			bb_strbuf_text(&types));
	else
		bb_fail(c->error, BB_EUSAGE,
			"--model %.200s: model_type: \"%.60s\" is not one of %s", c->path,
			json_is_string(type) ? json_string_value(type) : "(not a string)",
			bb_strbuf_text(&types));
	bb_strbuf_free(&types);
	return BB_EUSAGE;
}

/* Version 5 of transformers and later ones stack the experts; a file without a version is older. */
static void read_version(const struct config *c, struct bb_hyper *hyper)
{
	const char *version = json_string_value(json_object_get(c->root, "transformers_version"));

	hyper->fused = version && strtol(version, NULL, 10) >= 5;
}

bb_status bb_config_read(const char *path, struct bb_hyper *hyper, const struct bb_family **family,
			 struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--model", .path = path, .most = BB_JSON_FILE_BYTES};
	struct config c = {path, NULL, error};
	bb_status status;

	BB_TRY(status, bb_json_file_open(&request, "config.json", &c.root, error), out);
	BB_TRY(status, read_family(&c, family), out);
	BB_TRY(status, refuse_variants(&c), out);
	for (int i = 0; i < BB_NHYPERS; i++) {
		const struct bb_hyper_row *row = &bb_hyper_rows[i];

		/* A key that the family does not use may mean something else there. */
		if ((*family)->uses[i] != BB_HYPER_NONE)
			BB_TRY(status, read_hyper_row(&c, row, bb_hyper_at(hyper, row)), out);
	}
	read_version(&c, hyper);
out:
	json_decref(c.root);
	return status;
}
