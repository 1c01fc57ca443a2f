/*
 * config.c - the hyperparameters in a config.json of Hugging Face's transformers.
 */
#include "training_kernels/models/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)1 << 20) /* a config.json has a few KB */

struct config {
	const char *path;
	json_t *root;
	struct bb_error *error;
};

/* ---- the file ------------------------------------------------------------------------ */

static bb_status read_all(int file, const char *path, char *text, size_t *length,
			  struct bb_error *error)
{
	ssize_t got;

	for (*length = 0; *length <= MOST_BYTES; *length += (size_t)got) {
		got = read(file, text + *length, MOST_BYTES + 1 - *length);
		if (got == 0)
			return BB_OK;
		if (got < 0)
			return bb_fail(error, BB_EUSAGE, "--model %.200s: cannot be read: %s", path,
				       strerror(errno));
	}
	return bb_fail(error, BB_EUSAGE,
		       "--model %.200s: larger than 1M, which no config.json is; weights are not "
		       "needed",
		       path);
}

/* Nothing that could block or never end is read. */
static bb_status open_file(const char *path, int *file, struct bb_error *error)
{
	struct stat st;

	*file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (*file < 0)
		return bb_fail(error, BB_EUSAGE, "--model %.200s: %s", path, strerror(errno));
	if (fstat(*file, &st) == 0 && S_ISREG(st.st_mode))
		return BB_OK;
	close(*file);
	return bb_fail(error, BB_EUSAGE,
		       "--model %.200s: not a regular file; give a config.json of Hugging Face",
		       path);
}

static bb_status load(struct config *c)
{
	char *text = malloc(MOST_BYTES + 1);
	size_t length = 0;
	json_error_t problem;
	bb_status status;
	int file;

	if (!text)
		return bb_fail(c->error, BB_EINTERNAL, "out of memory for %s", c->path);
	BB_TRY(status, open_file(c->path, &file, c->error), out);
	status = read_all(file, c->path, text, &length, c->error);
	close(file);
	if (status != BB_OK)
		goto out;
	c->root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
	if (!c->root)
		status = bb_fail(c->error, BB_EUSAGE, "--model %.200s: not JSON: line %d: %s",
				 c->path, problem.line, problem.text);
	else if (!json_is_object(c->root))
		status = bb_fail(c->error, BB_EUSAGE,
				 "--model %.200s: not a JSON object, as a config.json is", c->path);
out:
	free(text);
	return status;
}

/* ---- its keys ------------------------------------------------------------------------ */

/* VALUE as it stands in the file, cut to what a sentence can hold. */
static bb_status wrong(const struct config *c, const char *key, const json_t *value,
		       const struct bb_hyper_row *row)
{
	char *const text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	bb_status status;

	if (row->is_bool)
		status = bb_fail(c->error, BB_EUSAGE,
				 "--model %.200s: %s: %.60s is not true or false", c->path, key,
				 text ? text : "?");
	else
		status = bb_fail(
			c->error, BB_EUSAGE,
			"--model %.200s: %s: %.60s is not a whole number from %lld to %lld",
			c->path, key, text ? text : "?", (long long)row->min, (long long)row->max);
	free(text);
	return status;
}

static bb_status read_value(const struct config *c, const char *key, const json_t *value,
			    const struct bb_hyper_row *row, int64_t *into)
{
	if (row->is_bool ? !json_is_boolean(value) : !json_is_integer(value))
		return wrong(c, key, value, row);
	*into = row->is_bool ? json_is_true(value) : json_integer_value(value);
	return *into < row->min || *into > row->max ? wrong(c, key, value, row) : BB_OK;
}

/* null is what transformers writes for what follows from the others. */
static bb_status read_row(const struct config *c, const struct bb_hyper_row *row, int64_t *into)
{
	const char *by = NULL;

	for (const char *const *key = row->keys; *key; key++) {
		const json_t *value = json_object_get(c->root, *key);
		int64_t found = 0;
		bb_status status;

		if (!value || json_is_null(value))
			continue;
		status = read_value(c, *key, value, row, &found);
		if (status != BB_OK)
			return status;
		if (by && found != *into)
			return bb_fail(
				c->error, BB_EUSAGE,
				"--model %.200s: %s is %lld and %s is %lld; they mean the same",
				c->path, by, (long long)*into, *key, (long long)found);
		*into = found;
		by = *key;
	}
	return BB_OK;
}

/* What would change the tensors and is not known here. */
static bb_status refuse_variants(const struct config *c)
{
	static const char *const keys[] = {"attention_bias", "mlp_bias", "add_cross_attention",
					   "is_encoder_decoder"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_is_true(json_object_get(c->root, keys[i])))
			return bb_fail(
				c->error, BB_EUSAGE,
				"--model %.200s: %s is true; its tensors are not known here, "
				"only those without",
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
		bb_fail(c->error, BB_EUSAGE, "--model %.200s: model_type is missing; one of %s",
			c->path, bb_strbuf_text(&types));
	else
		bb_fail(c->error, BB_EUSAGE,
			"--model %.200s: model_type: \"%.60s\" is not one of %s", c->path,
			json_is_string(type) ? json_string_value(type) : "(no text)",
			bb_strbuf_text(&types));
	bb_strbuf_free(&types);
	return BB_EUSAGE;
}

bb_status bb_config_read(const char *path, struct bb_hyper *hyper, const struct bb_family **family,
			 struct bb_error *error)
{
	struct config c = {path, NULL, error};
	bb_status status;

	BB_TRY(status, load(&c), out);
	BB_TRY(status, read_family(&c, family), out);
	BB_TRY(status, refuse_variants(&c), out);
	for (int i = 0; i < BB_NHYPERS; i++) {
		const struct bb_hyper_row *row = &bb_hyper_rows[i];

		/* There may be keys that mean something else in another family. */
		if ((*family)->uses[i] != BB_HYPER_NONE)
			BB_TRY(status, read_row(&c, row, bb_hyper_at(hyper, row)), out);
	}
out:
	json_decref(c.root);
	return status;
}
