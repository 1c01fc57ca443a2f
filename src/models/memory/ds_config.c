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
#define MOST_ELEMENTS INT64_C(1000000000000000)

#define ZERO "zero_optimization"

struct reader {
	const char *path;
	json_t *root;
	struct bb_error *error;
	bb_status status; /* the first failure */
	bool is_auto;     /* the value that was read last */
};

/* Refuse VALUE of the first LENGTH bytes of KEY, where WANTED is expected. */
static void refuse_setting(struct reader *r, const char *key, size_t length, const json_t *value,
			   const char *wanted)
{
	char *const text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

	if (r->status == BB_OK)
		r->status =
			bb_fail(r->error, BB_EUSAGE, "--ds-config %.200s: %.*s: %.60s is not %s",
				r->path, (int)length, key, text ? text : "?", wanted);
	free(text);
}

/* The value of KEY, "fp16.enabled" in the object "fp16"; NULL: it is missing. */
static const json_t *find_setting(struct reader *r, const char *key)
{
	const json_t *value = r->root;
	const char *at = key;
	char member[64];

	while (json_is_object(value) && *at) {
		const size_t length = strcspn(at, ".");

		snprintf(member, sizeof(member), "%.*s", (int)length, at);
		value = json_object_get(value, member);
		at += length + (at[length] == '.');
	}
	r->is_auto = !*at && json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
	if (*at && value && !json_is_null(value))
		refuse_setting(r, key, (size_t)(at - key) - 1, value, "an object");
	return *at ? NULL : value;
}

/* A whole number, which may be written as 5e8; OTHERWISE if the key is missing or "auto". */
static int64_t read_setting(struct reader *r, const char *key, int64_t min, int64_t max,
			    int64_t otherwise)
{
	const json_t *value = find_setting(r, key);
	const double number = json_number_value(value);
	char wanted[80];

	if (!value || r->is_auto)
		return otherwise;
	snprintf(wanted, sizeof(wanted), "a whole number from %jd to %jd", min, max);
	if (!json_is_number(value) || number != floor(number) || number < (double)min ||
	    number > (double)max) {
		refuse_setting(r, key, strlen(key), value, wanted);
		return otherwise;
	}
	return (int64_t)number;
}

/* Whether KEY is true; it may be missing or "auto", too. */
static bool read_switch(struct reader *r, const char *key)
{
	const json_t *value = find_setting(r, key);

	if (value && !r->is_auto && !json_is_boolean(value))
		refuse_setting(r, key, strlen(key), value, "true or false");
	return json_is_true(value);
}

/* Whether the device of KEY is not the GPU. */
static bool read_offload(struct reader *r, const char *key)
{
	const json_t *device = find_setting(r, key);
	const char *word = json_string_value(device) ?: "";
	const bool none = strcmp(word, "none") == 0;

	if (device && !none && strcmp(word, "cpu") != 0 && strcmp(word, "nvme") != 0)
		refuse_setting(r, key, strlen(key), device, "\"none\", \"cpu\" or \"nvme\"");
	return device && !none;
}

bb_status bb_ds_config_read(const char *path, const struct bb_model *model, struct bb_ds_config *c,
			    struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--ds-config", .path = path, .most = BB_JSON_FILE_BYTES};
	/* DeepSpeed ignores their case. */
	static const struct {
		const char *name;
		enum bb_optimizer_index index;
	} names[] = {{"adamw", BB_ADAMW}, {"adam", BB_ADAMW}, {"lamb", BB_ADAMW}, {"sgd", BB_SGD}};
	struct bb_training_buffers *const b = &c->buffers;
	const uint64_t hidden = model ? (uint64_t)model->hyper.hidden : 0;
	bool optimizer, fp16, bf16, automatic;
	struct reader r = {.path = path, .error = error};

	*c = (struct bb_ds_config){.zero = NOT_GIVEN,
				   .offload = NOT_GIVEN,
				   .precision = NOT_GIVEN,
				   .optimizer = NOT_GIVEN};
	BB_TRY(r.status, bb_json_file_open(&request, "ds_config.json", &r.root, error), out);
	c->zero = (int)read_setting(&r, ZERO ".stage", 0, BB_ZERO_STAGES - 1, NOT_GIVEN);
	if (json_is_object(json_object_get(r.root, ZERO))) {
		optimizer = read_offload(&r, ZERO ".offload_optimizer.device");
		c->offload = read_offload(&r, ZERO ".offload_param.device") ? BB_OFFLOAD_PARAMETERS
			     : optimizer                                    ? BB_OFFLOAD_OPTIMIZER
									    : BB_OFFLOAD_NONE;
		b->overlap = read_switch(&r, ZERO ".overlap_comm");
		b->reduce = (uint64_t)read_setting(&r, ZERO ".reduce_bucket_size", 0, MOST_ELEMENTS,
						   500000000);
		if (r.is_auto && hidden > 0)
			b->reduce = hidden * hidden;
		b->gather = (uint64_t)read_setting(&r, ZERO ".allgather_bucket_size", 0,
						   MOST_ELEMENTS, 500000000);
		b->prefetch = (uint64_t)read_setting(&r, ZERO ".stage3_prefetch_bucket_size", 0,
						     MOST_ELEMENTS, 50000000);
		if (r.is_auto && hidden > 0)
			b->prefetch = hidden * hidden * 9 / 10;
		b->live = (uint64_t)read_setting(&r, ZERO ".stage3_max_live_parameters", 0,
						 MOST_ELEMENTS, 1000000000);
	} else {
		c->zero = 0;
	}
	fp16 = read_switch(&r, "fp16.enabled");
	automatic = r.is_auto;
	bf16 = read_switch(&r, "bf16.enabled");
	automatic |= r.is_auto;
	if (fp16 && bf16 && r.status == BB_OK)
		r.status = bb_fail(error, BB_EUSAGE,
				   "--ds-config %.200s: fp16.enabled and bf16.enabled are both "
				   "true; set only one",
				   path);
	c->precision = fp16 || bf16 ? BB_MIXED : automatic ? NOT_GIVEN : BB_ALL_FP32;
	const json_t *const type = find_setting(&r, "optimizer.type");
	for (size_t i = 0; json_is_string(type) && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(json_string_value(type), names[i].name) == 0)
			c->optimizer = (int)names[i].index;
	if (type && c->optimizer < 0)
		refuse_setting(&r, "optimizer.type", strlen("optimizer.type"), type,
			       "a known optimizer: Adam, AdamW, Lamb or SGD");
	c->micro_batch = (uint64_t)read_setting(&r, "train_micro_batch_size_per_gpu", 1, MOST, 0);
	c->micro_batches = (uint64_t)read_setting(&r, "gradient_accumulation_steps", 1, MOST, 0);
	c->batch = (uint64_t)read_setting(&r, "train_batch_size", 1, MOST, 0);
out:
	json_decref(r.root);
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
		       "--ds-config %.200s: train_batch_size: %ju is not %ju x %ju x %ju: "
		       "train_micro_batch_size_per_gpu x gradient_accumulation_steps x --dp",
		       path, c->batch, c->micro_batch, c->micro_batches, dp);
}
