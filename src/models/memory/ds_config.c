/*
 * ds_config.c - DeepSpeed's ds_config.json.
 */
#include "models/memory/ds_config.h"
#include "core/jansson/json_file.h"
#include "core/printable.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NOT_GIVEN (-1)
#define MOST (INT64_C(1) << 32)
#define MOST_ELEMENTS INT64_C(1000000000000000)
#define MOST_STEPS INT64_C(1000000000)

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

/* ---- 1-bit optimizers ------------------------------------------------------------------------ */

#define PARAMS "optimizer.params"
#define FROZEN (1u << BB_ONEBIT_ADAM | 1u << BB_ONEBIT_LAMB)
#define LAMB (1u << BB_ONEBIT_LAMB)
#define ZERO_ONE (1u << BB_ONEBIT_ZERO_ONE)
#define ALL (FROZEN | ZERO_ONE)
#define SETTING(name) offsetof(struct bb_onebit, name)
#define NO_SETTING SIZE_MAX /* it is known, and changes nothing here */

/* The numbers among the parameters: the signatures of OnebitAdam, ZeroOneAdam and OnebitLamb. */
static const struct parameter {
	const char *name;
	unsigned kinds;
	size_t at; /* in struct bb_onebit */
	double min, max;
	bool whole;
} parameters[] = {
	{"lr", ALL, SETTING(lr), 0, HUGE_VAL, false},
	{"eps", ALL, SETTING(eps), 0, HUGE_VAL, false},
	{"weight_decay", ALL, SETTING(weight_decay), 0, HUGE_VAL, false},
	{"freeze_step", FROZEN, SETTING(freeze_step), 0, MOST, true},
	{"var_freeze_step", ZERO_ONE, SETTING(freeze_step), 0, MOST, true},
	{"var_update_scaler", ZERO_ONE, SETTING(var_update_scaler), 1, MOST, true},
	{"local_step_scaler", ZERO_ONE, SETTING(local_step_scaler), 1, MOST, true},
	{"local_step_clipper", ZERO_ONE, SETTING(local_step_clipper), 1, MOST, true},
	{"coeff_beta", LAMB, SETTING(coeff_beta), 0, 1, false},
	{"factor_max", LAMB, SETTING(factor_max), 0, HUGE_VAL, false},
	{"factor_min", LAMB, SETTING(factor_min), 0, HUGE_VAL, false},
	{"factor_threshold", LAMB, SETTING(factor_threshold), 0, 1, false},
	{"max_coeff", LAMB, SETTING(max_coeff), 0, HUGE_VAL, false},
	{"min_coeff", LAMB, SETTING(min_coeff), 0, HUGE_VAL, false},
	{"betas", ALL, NO_SETTING, 0, 0, false}, /* read on its own, as are the next ones */
	{"amsgrad", ALL, NO_SETTING, 0, 0, false},
	{"cuda_aware", ALL, NO_SETTING, 0, 0, false},
	{"comm_backend_name", ALL, NO_SETTING, 0, 0, false},
	{"bias_correction", ALL, NO_SETTING, 0, 0, false},
	{"eps_inside_sqrt", ALL, NO_SETTING, 0, 0, false},
};
#define PARAMETERS (sizeof(parameters) / sizeof(parameters[0]))

/* Refuse KEY of the reader's file. */
static void refuse_key(struct reader *r, const char *key, const char *wanted)
{
	const json_t *value = find_setting(r, key);

	if (value)
		refuse_setting(r, key, strlen(key), value, wanted);
}

static void read_parameter(struct reader *r, const char *name, const json_t *value,
			   struct bb_onebit *o)
{
	const struct parameter *p = parameters;
	const double number = json_number_value(value);
	char key[64], wanted[80];

	snprintf(key, sizeof(key), PARAMS ".%.40s", name);
	bb_printable_clean(key);
	while (p < parameters + PARAMETERS && strcmp(p->name, name) != 0)
		p++;
	if (p == parameters + PARAMETERS || !(p->kinds >> o->kind & 1)) {
		refuse_setting(r, key, strlen(key), value,
			       strcmp(name, "max_grad_norm") == 0
				       ? "a parameter; DeepSpeed wants gradient_clipping instead"
				       : "a parameter of this optimizer");
		return;
	}
	if (p->at == NO_SETTING ||
	    (json_is_string(value) && strcmp(json_string_value(value), "auto") == 0))
		return;
	if (isinf(p->max))
		snprintf(wanted, sizeof(wanted), "a number of at least %g", p->min);
	else
		snprintf(wanted, sizeof(wanted), "a %snumber from %.0f to %.0f",
			 p->whole ? "whole " : "", p->min, p->max);
	if (!json_is_number(value) || number < p->min || number > p->max ||
	    (p->whole && number != floor(number)))
		refuse_setting(r, key, strlen(key), value, wanted);
	memcpy((char *)o + p->at, &number, sizeof(number));
}

/* Read optimizer.params for KIND, and refuse what DeepSpeed refuses with it: _do_sanity_check and
   _configure_basic_optimizer of deepspeed/runtime/engine.py, and the optimizers themselves. */
static void read_onebit(struct reader *r, enum bb_onebit_kind kind, struct bb_ds_config *c)
{
	static const char *const backends[] = {"nccl", "mpi", "hccl", "compressed"};
	json_t *const params = json_object_get(json_object_get(r->root, "optimizer"), "params");
	const json_t *const betas = find_setting(r, PARAMS ".betas");
	const json_t *backend;
	struct bb_onebit *const o = &c->onebit;
	const char *name;
	json_t *value;
	bool known = false;

	*o = bb_onebit_of(kind);
	if (params && !json_is_object(params))
		refuse_key(r, PARAMS, "an object");
	json_object_foreach(params, name, value) read_parameter(r, name, value, o);
	if (betas && !r->is_auto &&
	    (json_unpack((json_t *)betas, "[F, F!]", &o->beta1, &o->beta2) != 0 ||
	     !(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1)))
		refuse_key(r, PARAMS ".betas", "two numbers from 0 to below 1");
	backend = find_setting(r, PARAMS ".comm_backend_name");
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		known |= json_is_string(backend) &&
			 strcmp(json_string_value(backend), backends[i]) == 0;
	if (!known)
		refuse_key(r, PARAMS ".comm_backend_name", "nccl, mpi, hccl or compressed");
	read_switch(r, PARAMS ".cuda_aware");
	if (read_switch(r, PARAMS ".amsgrad"))
		refuse_key(r, PARAMS ".amsgrad", "false, the only value of this optimizer");
	if (c->zero > 0)
		refuse_key(r, ZERO ".stage", "0: DeepSpeed refuses this optimizer with ZeRO");
	if (kind == BB_ONEBIT_LAMB && c->loss_scale != 0)
		refuse_key(r, "fp16.loss_scale",
			   "0: DeepSpeed refuses this optimizer without dynamic loss scaling");
}

/* ---- the file -------------------------------------------------------------------------------- */

bb_status bb_ds_config_read(const char *path, const struct bb_model *model, struct bb_ds_config *c,
			    struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--ds-config", .path = path, .most = BB_JSON_FILE_BYTES};
	/* DeepSpeed ignores their case. */
	static const struct {
		const char *name;
		enum bb_optimizer_index index;
		enum bb_onebit_kind onebit;
	} names[] = {{"adamw", BB_ADAMW, BB_ONEBIT_NONE},
		     {"adam", BB_ADAMW, BB_ONEBIT_NONE},
		     {"lamb", BB_ADAMW, BB_ONEBIT_NONE},
		     {"sgd", BB_SGD, BB_ONEBIT_NONE},
		     {"onebitadam", BB_ADAM_1BIT, BB_ONEBIT_ADAM},
		     {"zerooneadam", BB_ADAM_0_1, BB_ONEBIT_ZERO_ONE},
		     {"onebitlamb", BB_LAMB_1BIT, BB_ONEBIT_LAMB}};
	struct bb_training_buffers *const b = &c->buffers;
	const uint64_t hidden = model ? (uint64_t)model->hyper.hidden : 0;
	bool optimizer, fp16, automatic;
	struct reader r = {.path = path, .error = error};

	*c = (struct bb_ds_config){.zero = NOT_GIVEN,
				   .offload = NOT_GIVEN,
				   .precision = NOT_GIVEN,
				   .optimizer = NOT_GIVEN,
				   .overlap = NOT_GIVEN};
	BB_TRY(r.status, bb_json_file_open(&request, "ds_config.json", &r.root, error), out);
	c->zero = (int)read_setting(&r, ZERO ".stage", 0, BB_ZERO_STAGES - 1, NOT_GIVEN);
	if (json_is_object(json_object_get(r.root, ZERO))) {
		optimizer = read_offload(&r, ZERO ".offload_optimizer.device");
		c->offload = read_offload(&r, ZERO ".offload_param.device") ? BB_OFFLOAD_PARAMETERS
			     : optimizer                                    ? BB_OFFLOAD_OPTIMIZER
									    : BB_OFFLOAD_NONE;
		b->overlap = read_switch(&r, ZERO ".overlap_comm");
		if (find_setting(&r, ZERO ".overlap_comm") && !r.is_auto)
			c->overlap = b->overlap;
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
	c->bf16 = read_switch(&r, "bf16.enabled");
	automatic |= r.is_auto;
	if (fp16 && c->bf16 && r.status == BB_OK)
		r.status = bb_fail(error, BB_EUSAGE,
				   "--ds-config %.200s: fp16.enabled and bf16.enabled are both "
				   "true; set only one",
				   path);
	c->precision = fp16 || c->bf16 ? BB_MIXED : automatic ? NOT_GIVEN : BB_ALL_FP32;
	c->loss_scale = read_setting(&r, "fp16.loss_scale", 0, MOST, 0);
	c->scale_power = read_setting(&r, "fp16.initial_scale_power", 0, 32, 16);
	c->scale_window = read_setting(&r, "fp16.loss_scale_window", 1, MOST, 1000);
	c->total_steps = read_setting(&r, "scheduler.params.total_num_steps", 1, MOST_STEPS, 0);
	const json_t *const type = find_setting(&r, "optimizer.type");
	for (size_t i = 0; json_is_string(type) && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(json_string_value(type), names[i].name) == 0) {
			c->optimizer = (int)names[i].index;
			c->type = names[i].name;
			if (names[i].onebit)
				read_onebit(&r, names[i].onebit, c);
		}
	if (type && c->optimizer < 0)
		refuse_setting(&r, "optimizer.type", strlen("optimizer.type"), type,
			       "a known optimizer: Adam, AdamW, Lamb, SGD, OneBitAdam, "
			       "ZeroOneAdam or OneBitLamb");
	c->micro_batch = (uint64_t)read_setting(&r, "train_micro_batch_size_per_gpu", 1, MOST, 0);
	c->micro_batches = (uint64_t)read_setting(&r, "gradient_accumulation_steps", 1, MOST, 0);
	c->batch = (uint64_t)read_setting(&r, "train_batch_size", 1, MOST, 0);
out:
	json_decref(r.root);
	return r.status;
}

/* Append the keys of VALUE, an object at PREFIX, that are not used. */
static void others_add(const json_t *value, const char *prefix, const char *const used[],
		       struct bb_strbuf *out)
{
	const char *name;
	json_t *member;

	json_object_foreach((json_t *)value, name, member)
	{
		const char *const *u = used;
		char key[128];

		snprintf(key, sizeof(key), "%s%s%.40s", prefix, *prefix ? "." : "", name);
		bb_printable_clean(key);
		while (*u && strcmp(*u, key) != 0)
			u++;
		if (json_is_object(member) && !*u)
			others_add(member, key, used, out);
		else if (!*u)
			bb_strbuf_addf(out, "%s%s", out->length > 0 ? ", " : "", key);
	}
}

bb_status bb_ds_config_others(const char *path, const char *const used[], struct bb_strbuf *out,
			      struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--ds-config", .path = path, .most = BB_JSON_FILE_BYTES};
	json_t *root = NULL;
	const bb_status status = bb_json_file_open(&request, "ds_config.json", &root, error);

	if (status == BB_OK)
		others_add(root, "", used, out);
	json_decref(root);
	return status;
}

void bb_ds_config_add_saving(const struct bb_ds_config *c, struct bb_strbuf *out)
{
	static const char *const names[] = {NULL, "freeze_step", "var_freeze_step", "freeze_step"};
	const struct bb_onebit *const o = &c->onebit;

	if (o->kind == BB_ONEBIT_NONE)
		return;
	bb_strbuf_addf(out, "# volume: a coded exchange sends 1/16 of fp16 gradients; %s %.0f",
		       names[o->kind], o->freeze_step);
	if (c->total_steps > 0)
		bb_strbuf_addf(out, " of %jd steps: %.2f times less in all\n", c->total_steps,
			       bb_onebit_saving(o, c->total_steps));
	else
		bb_strbuf_add(out, "; scheduler.params.total_num_steps would give the total\n");
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
