/*
 * ds_config.c - DeepSpeed's ds_config.json.
 */
#include "models/memory/ds_config.h"
#include "core/jansson/json_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NOT_GIVEN (-1)
#define MOST (INT64_C(1) << 32)
#define MOST_ELEMENTS 1e15

#define ZERO "zero_optimization"

struct reader {
	const char *path;
	const json_t *root;
	struct bb_error *error;
	bb_status status; /* the first failure */
};

/* Refuse VALUE of KEY in SECTION ("": the root), where WANTED is expected. */
static void refuse_setting(struct reader *r, const char *section, const char *key,
			   const json_t *value, const char *wanted)
{
	char *const text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

	if (r->status == BB_OK)
		r->status = bb_fail(r->error, BB_EUSAGE,
				    "--ds-config %.200s: %s%s%s: %.60s is not %s", r->path, section,
				    *section ? "." : "", key, text ? text : "?", wanted);
	free(text);
}

static bool is_auto(const json_t *value)
{
	return json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
}

/* The object KEY of PARENT, NULL where it is missing or null. */
static const json_t *read_section(struct reader *r, const json_t *parent, const char *section,
				  const char *key)
{
	const json_t *value = json_object_get(parent, key);

	if (value && !json_is_null(value) && !json_is_object(value))
		refuse_setting(r, section, key, value, "an object");
	return json_is_object(value) ? value : NULL;
}

/* A whole number; OTHERWISE if the key is missing or "auto". */
static int64_t read_setting(struct reader *r, const json_t *parent, const char *section,
			    const char *key, int64_t min, int64_t max, int64_t otherwise)
{
	const json_t *value = json_object_get(parent, key);
	const int64_t number = json_integer_value(value);
	char wanted[80];

	if (!value || is_auto(value))
		return otherwise;
	snprintf(wanted, sizeof(wanted), "a whole number from %lld to %lld", (long long)min,
		 (long long)max);
	if (!json_is_integer(value) || number < min || number > max)
		refuse_setting(r, section, key, value, wanted);
	return number;
}

/* Whether KEY of OBJECT is true; it may be missing or "auto", too. */
static bool read_switch(struct reader *r, const json_t *object, const char *section,
			const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (value && !json_is_boolean(value) && !is_auto(value))
		refuse_setting(r, section, key, value, "true or false");
	return json_is_true(value);
}

/* Whether the device of KEY (offload_optimizer, offload_param) is not the GPU. */
static bool read_offload(struct reader *r, const json_t *zero, const char *key)
{
	const json_t *device = json_object_get(read_section(r, zero, ZERO, key), "device");
	const char *word = json_string_value(device) ?: "";
	const bool none = strcmp(word, "none") == 0;

	if (device && !none && strcmp(word, "cpu") != 0 && strcmp(word, "nvme") != 0)
		refuse_setting(r, key, "device", device, "\"none\", \"cpu\" or \"nvme\"");
	return device && !none;
}

/* Sets *INTO to a number of elements, which may be written as 5e8, if it is given. Returns whether
   it is "auto". */
static bool read_elements(struct reader *r, const json_t *zero, const char *key, uint64_t *into)
{
	const json_t *const value = json_object_get(zero, key);
	const double number = json_number_value(value);

	if (!value || is_auto(value))
		return value;
	if (!json_is_number(value) || number < 0 || number > MOST_ELEMENTS ||
	    number != floor(number))
		refuse_setting(r, ZERO, key, value,
			       "a whole number of elements up to 1e15, such as 5e8");
	else
		*into = (uint64_t)number;
	return false;
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

static void read_zero(struct reader *r, struct bb_ds_config *c)
{
	const json_t *zero = read_section(r, r->root, "", ZERO);
	struct bb_training_buffers *const b = &c->buffers;
	bool optimizer;

	if (!zero) {
		c->zero = 0;
		return;
	}
	c->zero = (int)read_setting(r, zero, ZERO, "stage", 0, BB_ZERO_STAGES - 1, NOT_GIVEN);
	optimizer = read_offload(r, zero, "offload_optimizer");
	c->offload = read_offload(r, zero, "offload_param") ? BB_OFFLOAD_PARAMETERS
		     : optimizer                            ? BB_OFFLOAD_OPTIMIZER
							    : BB_OFFLOAD_NONE;
	*b = (struct bb_training_buffers){.reduce = 500000000,
					  .gather = 500000000,
					  .prefetch = 50000000,
					  .live = 1000000000,
					  .overlap = read_switch(r, zero, ZERO, "overlap_comm")};
	c->auto_reduce = read_elements(r, zero, "reduce_bucket_size", &b->reduce);
	read_elements(r, zero, "allgather_bucket_size", &b->gather);
	c->auto_prefetch = read_elements(r, zero, "stage3_prefetch_bucket_size", &b->prefetch);
	read_elements(r, zero, "stage3_max_live_parameters", &b->live);
}

/* Whether KEY ("fp16") is enabled; *AUTOMATIC: that is "auto". */
static bool read_format(struct reader *r, const char *key, bool *automatic)
{
	const json_t *object = read_section(r, r->root, "", key);

	*automatic |= is_auto(json_object_get(object, "enabled"));
	return read_switch(r, object, key, "enabled");
}

static uint64_t read_sequences(struct reader *r, const char *key)
{
	return (uint64_t)read_setting(r, r->root, "", key, 1, MOST, 0);
}

bb_status bb_ds_config_read(const char *path, struct bb_ds_config *c, struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--ds-config", .path = path, .most = BB_JSON_FILE_BYTES};
	/* DeepSpeed ignores their case. */
	static const struct {
		const char *name;
		enum bb_optimizer_index index;
	} names[] = {{"adamw", BB_ADAMW}, {"adam", BB_ADAMW}, {"lamb", BB_ADAMW}, {"sgd", BB_SGD}};
	bool fp16, bf16, automatic = false;
	const json_t *type;
	json_t *root = NULL;
	struct reader r = {.path = path, .error = error};

	*c = (struct bb_ds_config){.zero = NOT_GIVEN,
				   .offload = NOT_GIVEN,
				   .precision = NOT_GIVEN,
				   .optimizer = NOT_GIVEN};
	BB_TRY(r.status, bb_json_file_open(&request, "ds_config.json", &root, error), out);
	r.root = root;
	read_zero(&r, c);
	fp16 = read_format(&r, "fp16", &automatic);
	bf16 = read_format(&r, "bf16", &automatic);
	if (fp16 && bf16 && r.status == BB_OK)
		r.status = bb_fail(error, BB_EUSAGE,
				   "--ds-config %.200s: fp16.enabled and bf16.enabled are both "
				   "true; set only one",
				   path);
	c->precision = fp16 || bf16 ? BB_MIXED : automatic ? NOT_GIVEN : BB_ALL_FP32;
	type = json_object_get(read_section(&r, root, "", "optimizer"), "type");
	for (size_t i = 0; json_is_string(type) && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(json_string_value(type), names[i].name) == 0)
			c->optimizer = (int)names[i].index;
	if (type && c->optimizer < 0)
		refuse_setting(&r, "optimizer", "type", type,
			       "a known optimizer: Adam, AdamW, Lamb or SGD");
	c->micro_batch = read_sequences(&r, "train_micro_batch_size_per_gpu");
	c->micro_batches = read_sequences(&r, "gradient_accumulation_steps");
	c->batch = read_sequences(&r, "train_batch_size");
out:
	json_decref(root);
	return r.status;
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
