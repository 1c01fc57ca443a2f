/*
 * ds_config.c - DeepSpeed's ds_config.json.
 */
#include "models/memory/ds_config.h"
#include "core/json_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NOT_GIVEN (-1)
#define MOST (INT64_C(1) << 32)
#define MOST_ELEMENTS 1e15

struct reader {
	const char *path;
	const json_t *root;
	struct bb_error *error;
};

/* Refuse VALUE of KEY in SECTION ("": the root), where WANTED is expected. */
static bb_status refuse_setting(const struct reader *r, const char *section, const char *key,
				const json_t *value, const char *wanted)
{
	char *const text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

	bb_fail(r->error, BB_EUSAGE, "--ds-config %.200s: %s%s%s: %.60s is not %s", r->path,
		section, *section ? "." : "", key, text ? text : "?", wanted);
	free(text);
	return BB_EUSAGE;
}

static bool is_auto(const json_t *value)
{
	return json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
}

/* The object KEY of PARENT, NULL where it is missing or null. */
static bb_status read_section(const struct reader *r, const json_t *parent, const char *section,
			      const char *key, const json_t **object)
{
	const json_t *value = json_object_get(parent, key);

	*object = json_is_object(value) ? value : NULL;
	return !value || json_is_null(value) || *object
		       ? BB_OK
		       : refuse_setting(r, section, key, value, "an object");
}

/* *INTO stays unchanged if the key is missing or "auto". */
static bb_status read_setting(const struct reader *r, const json_t *parent, const char *section,
			      const char *key, int64_t min, int64_t max, int64_t *into)
{
	const json_t *value = json_object_get(parent, key);
	char wanted[80];

	if (!value || is_auto(value))
		return BB_OK;
	if (json_is_integer(value) && json_integer_value(value) >= min &&
	    json_integer_value(value) <= max) {
		*into = json_integer_value(value);
		return BB_OK;
	}
	snprintf(wanted, sizeof(wanted), "a whole number from %lld to %lld", (long long)min,
		 (long long)max);
	return refuse_setting(r, section, key, value, wanted);
}

/* *OFFLOADED: the device of KEY (offload_optimizer, offload_param) is not the GPU. */
static bb_status read_offload(const struct reader *r, const json_t *zero, const char *key,
			      bool *offloaded)
{
	static const char section[] = "zero_optimization";
	const json_t *object = NULL, *device;
	bb_status status = read_section(r, zero, section, key, &object);

	device = json_object_get(object, "device");
	if (status != BB_OK || !device)
		return status;
	*offloaded = json_is_string(device) && strcmp(json_string_value(device), "none") != 0;
	if (json_is_string(device) &&
	    (!*offloaded || strcmp(json_string_value(device), "cpu") == 0 ||
	     strcmp(json_string_value(device), "nvme") == 0))
		return BB_OK;
	return refuse_setting(r, key, "device", device, "\"none\", \"cpu\" or \"nvme\"");
}

/* A number of elements, which may be written as 5e8. *IS_AUTO: it is "auto". */
static bb_status read_elements(const struct reader *r, const json_t *zero, const char *key,
			       uint64_t *into, bool *is_automatic)
{
	const json_t *const value = json_object_get(zero, key);
	const double number = json_number_value(value);

	if (!value)
		return BB_OK;
	*is_automatic = is_auto(value);
	if (*is_automatic)
		return BB_OK;
	if (!json_is_number(value) || number < 0 || number > MOST_ELEMENTS ||
	    number != floor(number))
		return refuse_setting(r, "zero_optimization", key, value,
				      "a whole number of elements up to 1e15, such as 5e8");
	*into = (uint64_t)number;
	return BB_OK;
}

static bb_status read_buffers(const struct reader *r, const json_t *zero, struct bb_ds_config *c)
{
	struct bb_training_buffers *const b = &c->buffers;
	const json_t *const overlap = json_object_get(zero, "overlap_comm");
	bb_status status;
	bool other;

	*b = (struct bb_training_buffers){.reduce = 500000000,
					  .gather = 500000000,
					  .prefetch = 50000000,
					  .live = 1000000000,
					  .overlap = json_is_true(overlap)};
	if (overlap && !json_is_boolean(overlap) && !is_auto(overlap))
		return refuse_setting(r, "zero_optimization", "overlap_comm", overlap,
				      "true or false");
	status = read_elements(r, zero, "reduce_bucket_size", &b->reduce, &c->auto_reduce);
	BB_TRY(status, status, out);
	BB_TRY(status, read_elements(r, zero, "allgather_bucket_size", &b->gather, &other), out);
	status = read_elements(r, zero, "stage3_prefetch_bucket_size", &b->prefetch,
			       &c->auto_prefetch);
	BB_TRY(status, status, out);
	status = read_elements(r, zero, "stage3_max_live_parameters", &b->live, &other);
out:
	return status;
}

struct bb_training_buffers bb_ds_config_buffers(const struct bb_ds_config *c,
						const struct bb_model *model)
{
	const uint64_t hidden = model ? (uint64_t)model->hyper.hidden : 0;
	struct bb_training_buffers b = c->buffers;

	if (hidden > 0 && c->auto_reduce)
		b.reduce = hidden * hidden;
	if (hidden > 0 && c->auto_prefetch)
		b.prefetch = hidden * hidden * 9 / 10;
	return b;
}

static bb_status read_zero(const struct reader *r, struct bb_ds_config *c)
{
	static const char section[] = "zero_optimization";
	bool optimizer = false, parameters = false;
	const json_t *zero = NULL;
	int64_t stage = NOT_GIVEN;
	bb_status status;

	BB_TRY(status, read_section(r, r->root, "", section, &zero), out);
	if (!zero) {
		c->zero = 0;
		goto out;
	}
	BB_TRY(status, read_setting(r, zero, section, "stage", 0, BB_ZERO_STAGES - 1, &stage), out);
	BB_TRY(status, read_offload(r, zero, "offload_optimizer", &optimizer), out);
	BB_TRY(status, read_offload(r, zero, "offload_param", &parameters), out);
	BB_TRY(status, read_buffers(r, zero, c), out);
	c->zero = (int)stage;
	c->offload = parameters  ? BB_OFFLOAD_PARAMETERS
		     : optimizer ? BB_OFFLOAD_OPTIMIZER
				 : BB_OFFLOAD_NONE;
out:
	return status;
}

/* *ON: KEY ("fp16") is enabled. *GIVEN becomes false if that is "auto". */
static bb_status read_format(const struct reader *r, const char *key, bool *on, bool *given)
{
	const json_t *object = NULL, *enabled;
	bb_status status = read_section(r, r->root, "", key, &object);

	enabled = json_object_get(object, "enabled");
	*on = json_is_true(enabled);
	if (status != BB_OK || !enabled || json_is_boolean(enabled))
		return status;
	*given = false;
	return is_auto(enabled) ? BB_OK
				: refuse_setting(r, key, "enabled", enabled, "true or false");
}

static bb_status read_precision(const struct reader *r, struct bb_ds_config *c)
{
	bool fp16 = false, bf16 = false, given = true;
	bb_status status;

	BB_TRY(status, read_format(r, "fp16", &fp16, &given), out);
	BB_TRY(status, read_format(r, "bf16", &bf16, &given), out);
	if (fp16 && bf16)
		status = bb_fail(r->error, BB_EUSAGE,
				 "--ds-config %.200s: fp16.enabled and bf16.enabled are both true; "
				 "set only one",
				 r->path);
	else if (fp16 || bf16)
		c->precision = BB_MIXED;
	else if (given)
		c->precision = BB_ALL_FP32;
out:
	return status;
}

static bb_status read_optimizer(const struct reader *r, struct bb_ds_config *c)
{
	/* DeepSpeed ignores their case. */
	static const struct {
		const char *name;
		enum bb_optimizer_index index;
	} names[] = {{"adamw", BB_ADAMW}, {"adam", BB_ADAMW}, {"lamb", BB_ADAMW}, {"sgd", BB_SGD}};
	const json_t *object = NULL, *type;
	bb_status status = read_section(r, r->root, "", "optimizer", &object);

	type = json_object_get(object, "type");
	if (status != BB_OK || !type)
		return status;
	for (size_t i = 0; json_is_string(type) && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(json_string_value(type), names[i].name) == 0)
			c->optimizer = (int)names[i].index;
	return c->optimizer >= 0 ? BB_OK
				 : refuse_setting(r, "optimizer", "type", type,
						  "a known optimizer: Adam, AdamW, Lamb or SGD");
}

static bb_status read_batch(const struct reader *r, struct bb_ds_config *c)
{
	static const struct {
		const char *key;
		size_t offset;
	} rows[] = {
		{"train_micro_batch_size_per_gpu", offsetof(struct bb_ds_config, micro_batch)},
		{"gradient_accumulation_steps", offsetof(struct bb_ds_config, micro_batches)},
		{"train_batch_size", offsetof(struct bb_ds_config, batch)},
	};
	bb_status status = BB_OK;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && status == BB_OK; i++) {
		int64_t value = 0;

		status = read_setting(r, r->root, "", rows[i].key, 1, MOST, &value);
		*(uint64_t *)((char *)c + rows[i].offset) = (uint64_t)value;
	}
	return status;
}

bb_status bb_ds_config_read(const char *path, struct bb_ds_config *config, struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--ds-config", .path = path, .most = BB_JSON_FILE_BYTES};
	json_t *root = NULL;
	struct reader r = {path, NULL, error};
	bb_status status;

	*config = (struct bb_ds_config){.zero = NOT_GIVEN,
					.offload = NOT_GIVEN,
					.precision = NOT_GIVEN,
					.optimizer = NOT_GIVEN};
	BB_TRY(status, bb_json_file_open(&request, "ds_config.json", &root, error), out);
	r.root = root;
	BB_TRY(status, read_zero(&r, config), out);
	BB_TRY(status, read_precision(&r, config), out);
	BB_TRY(status, read_optimizer(&r, config), out);
	status = read_batch(&r, config);
out:
	json_decref(root);
	return status;
}

bb_status bb_ds_config_batch(struct bb_ds_config *c, const char *path, uint64_t dp,
			     struct bb_error *error)
{
	const bool whole = c->batch > 0;

	if (!c->micro_batch)
		c->micro_batch =
			whole ? c->batch / dp / (c->micro_batches ? c->micro_batches : 1) : 1;
	if (!c->micro_batches)
		c->micro_batches = whole && c->micro_batch ? c->batch / dp / c->micro_batch : 1;
	if (!whole || c->batch == dp * c->micro_batch * c->micro_batches)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "--ds-config %.200s: train_batch_size: %llu is not %llu x %llu x %llu: "
		       "train_micro_batch_size_per_gpu x gradient_accumulation_steps x --dp",
		       path, (unsigned long long)c->batch, (unsigned long long)c->micro_batch,
		       (unsigned long long)c->micro_batches, (unsigned long long)dp);
}
