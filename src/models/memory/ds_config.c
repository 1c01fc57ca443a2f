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
#define MOST 0x1p32

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
	char *const text =
		json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));

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

/* A number, a whole one possibly written as 5e8; OTHERWISE if the key is missing or "auto". */
static double read_number(struct reader *r, const char *key, double min, double max, bool whole,
			  double otherwise)
{
	const json_t *value = find_setting(r, key);
	const double number = json_number_value(value);
	char wanted[80];

	if (!value || r->is_auto)
		return otherwise;
	if (json_is_number(value) && number >= min && number <= max &&
	    (!whole || number == floor(number)))
		return number;
	if (isinf(max))
		snprintf(wanted, sizeof(wanted), "a number of at least %.0f", min);
	else
		snprintf(wanted, sizeof(wanted), "a %snumber from %.0f to %.0f",
			 whole ? "whole " : "", min, max);
	refuse_setting(r, key, strlen(key), value, wanted);
	return otherwise;
}

/* Whether KEY is true; it may be missing or "auto", too. */
static bool read_switch(struct reader *r, const char *key)
{
	const json_t *value = find_setting(r, key);

	if (value && !r->is_auto && !json_is_boolean(value))
		refuse_setting(r, key, strlen(key), value, "true or false");
	return json_is_true(value);
}

/* The index of the word of KEY among WORDS, which end with NULL; -1 if the key is missing. */
static int read_word(struct reader *r, const char *key, const char *const words[],
		     int (*compare)(const char *, const char *), const char *wanted)
{
	const json_t *value = find_setting(r, key);
	int i = 0;

	while (words[i] && compare(json_string_value(value) ?: "", words[i]) != 0)
		i++;
	if (words[i])
		return i;
	if (value)
		refuse_setting(r, key, strlen(key), value, wanted);
	return NOT_GIVEN;
}

/* ---- 1-bit optimizers ------------------------------------------------------------------------ */

#define PARAMS "optimizer.params"

/* Refuse KEY of the reader's file. */
static void refuse_key(struct reader *r, const char *key, const char *wanted)
{
	const json_t *value = find_setting(r, key);

	if (value)
		refuse_setting(r, key, strlen(key), value, wanted);
}

/* Read optimizer.params of the kind of C, and refuse what DeepSpeed refuses with it:
   _do_sanity_check and _configure_basic_optimizer of deepspeed/runtime/engine.py, and the
   optimizers themselves. */
static void read_onebit(struct reader *r, struct bb_ds_config *c)
{
	static const char *const backends[] = {"nccl", "mpi", "hccl", "compressed", NULL};
	static const char *const others[] = {"betas",           "amsgrad",
					     "cuda_aware",      "comm_backend_name",
					     "bias_correction", "eps_inside_sqrt"};
	json_t *const params = json_object_get(json_object_get(r->root, "optimizer"), "params");
	struct bb_onebit *const o = &c->onebit;
	const char *name;
	json_t *value;

	json_object_foreach(params, name, value)
	{
		const struct bb_onebit_parameter *p = bb_onebit_parameters;
		bool known = false;
		char key[64];

		snprintf(key, sizeof(key), PARAMS ".%.40s", name);
		bb_printable_clean(key);
		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			known |= strcmp(name, others[i]) == 0;
		while (p->name && !(strcmp(p->name, name) == 0 && p->kinds >> o->kind & 1))
			p++;
		if (p->name)
			*(double *)(void *)((char *)o + p->at) =
				read_number(r, key, p->min, p->max, p->whole, p->otherwise);
		else if (!known)
			refuse_setting(r, key, strlen(key), value,
				       strcmp(name, "max_grad_norm") == 0
					       ? "a parameter; DeepSpeed wants gradient_clipping "
						 "instead"
					       : "a parameter of this optimizer");
	}
	value = (json_t *)find_setting(r, PARAMS ".betas");
	if (value && !r->is_auto &&
	    (json_unpack(value, "[F, F!]", &o->beta1, &o->beta2) != 0 ||
	     !(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1)))
		refuse_key(r, PARAMS ".betas", "two numbers from 0 to below 1");
	read_word(r, PARAMS ".comm_backend_name", backends, strcmp,
		  "nccl, mpi, hccl or compressed");
	read_switch(r, PARAMS ".cuda_aware");
	if (read_switch(r, PARAMS ".amsgrad"))
		refuse_key(r, PARAMS ".amsgrad", "false, the only value of this optimizer");
	if (c->zero > 0)
		refuse_key(r, ZERO ".stage", "0: DeepSpeed refuses this optimizer with ZeRO");
}

/* ---- the file -------------------------------------------------------------------------------- */

#define AT(name) offsetof(struct bb_ds_config, name)

/* Whole numbers. */
static const struct {
	const char *key;
	size_t at; /* of 64 bits in struct bb_ds_config */
	double min, max, otherwise;
	double squares; /* of the model's width: "auto"; 0: otherwise */
} numbers[] = {
	{ZERO ".stage", AT(zero), 0, BB_ZERO_STAGES - 1, NOT_GIVEN, 0},
	{ZERO ".reduce_bucket_size", AT(buffers.reduce), 0, 1e15, 5e8, 1},
	{ZERO ".allgather_bucket_size", AT(buffers.gather), 0, 1e15, 5e8, 0},
	{ZERO ".stage3_prefetch_bucket_size", AT(buffers.prefetch), 0, 1e15, 5e7, 0.9},
	{ZERO ".stage3_max_live_parameters", AT(buffers.live), 0, 1e15, 1e9, 0},
	{ZERO ".zero_hpz_partition_size", AT(hpz), 0, MOST, 0, 0},
	{"fp16.loss_scale", AT(loss_scale), 0, MOST, 0, 0},
	{"fp16.initial_scale_power", AT(scale_power), 0, 32, 16, 0},
	{"fp16.loss_scale_window", AT(scale_window), 1, MOST, 1000, 0},
	{"scheduler.params.total_num_steps", AT(total_steps), 1, 1e8, 0, 0},
	{"train_micro_batch_size_per_gpu", AT(micro_batch), 1, MOST, 0, 0},
	{"gradient_accumulation_steps", AT(micro_batches), 1, MOST, 0, 0},
	{"train_batch_size", AT(batch), 1, MOST, 0, 0},
};

/* Append the keys of VALUE, an object at PREFIX, that are not used. */
static void others_add(const json_t *value, const char *prefix, const char *const used[],
		       const struct bb_ds_config *c, struct bb_strbuf *out)
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
		if (*u || (c->onebit.kind != BB_ONEBIT_NONE && strcmp(key, PARAMS) == 0))
			continue;
		if (json_is_object(member))
			others_add(member, key, used, c, out);
		else
			bb_strbuf_addf(out, "%s%s", out->length > 0 ? ", " : "", key);
	}
}

bb_status bb_ds_config_read(const char *path, const struct bb_model *model,
			    const char *const used[], struct bb_strbuf *others,
			    struct bb_ds_config *c, struct bb_error *error)
{
	static const char *const devices[] = {"none", "cpu", "nvme", NULL};
	/* DeepSpeed ignores their case. */
	static const char *const types[] = {"AdamW",      "Adam",        "Lamb",       "SGD",
					    "OneBitAdam", "ZeroOneAdam", "OneBitLamb", NULL};
	static const enum bb_optimizer_index optimizers[] = {
		BB_ADAMW, BB_ADAMW, BB_ADAMW, BB_SGD, BB_ADAM_1BIT, BB_ADAM_0_1, BB_LAMB_1BIT};
	const struct bb_file_request request = {
		.option = "--ds-config", .path = path, .most = BB_JSON_FILE_BYTES};
	const double hidden = model ? (double)model->hyper.hidden : 0;
	struct reader r = {.path = path, .error = error};

	*c = (struct bb_ds_config){.offload = NOT_GIVEN,
				   .optimizer = NOT_GIVEN,
				   .rate = NOT_GIVEN,
				   .overlap = NOT_GIVEN};
	BB_TRY(r.status, bb_json_file_open(&request, "ds_config.json", &r.root, error), out);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		double number = read_number(&r, numbers[i].key, numbers[i].min, numbers[i].max,
					    true, numbers[i].otherwise);

		if (r.is_auto && hidden * numbers[i].squares > 0)
			number = hidden * hidden * numbers[i].squares;
		*(int64_t *)(void *)((char *)c + numbers[i].at) = (int64_t)number;
	}
	if (json_is_object(json_object_get(r.root, ZERO))) {
		static const char wanted[] = "\"none\", \"cpu\" or \"nvme\"";
		const int optimizer =
			read_word(&r, ZERO ".offload_optimizer.device", devices, strcmp, wanted);

		c->offload =
			read_word(&r, ZERO ".offload_param.device", devices, strcmp, wanted) > 0
				? BB_OFFLOAD_PARAMETERS
			: optimizer > 0 ? BB_OFFLOAD_OPTIMIZER
					: BB_OFFLOAD_NONE;
		c->qwz = read_switch(&r, ZERO ".zero_quantized_weights");
		c->qgz = read_switch(&r, ZERO ".zero_quantized_gradients");
		c->buffers.overlap = read_switch(&r, ZERO ".overlap_comm");
		if (find_setting(&r, ZERO ".overlap_comm") && !r.is_auto)
			c->overlap = c->buffers.overlap;
	} else {
		c->zero = 0;
		c->buffers = (struct bb_training_buffers){0};
	}
	const bool fp16 = read_switch(&r, "fp16.enabled");
	bool automatic = r.is_auto;

	c->bf16 = read_switch(&r, "bf16.enabled");
	automatic |= r.is_auto;
	if (fp16 && c->bf16 && r.status == BB_OK)
		r.status = bb_fail(error, BB_EUSAGE,
				   "--ds-config %.200s: fp16.enabled and bf16.enabled are both "
				   "true; set only one",
				   path);
	c->precision = fp16 || c->bf16 ? BB_MIXED : automatic ? NOT_GIVEN : BB_ALL_FP32;
	const int type = read_word(&r, "optimizer.type", types, strcasecmp,
				   "a known optimizer: Adam, AdamW, Lamb, SGD, OneBitAdam, "
				   "ZeroOneAdam or OneBitLamb");
	if (type >= 0) {
		c->type = types[type];
		c->optimizer = (int)optimizers[type];
		c->onebit = bb_onebit_of(bb_optimizers[c->optimizer].onebit);
	}
	if (c->onebit.kind != BB_ONEBIT_NONE)
		read_onebit(&r, c);
	else if (c->optimizer == BB_ADAMW && strcmp(c->type, "Lamb") != 0)
		c->rate = read_number(&r, PARAMS ".lr", 0, 1, false, NOT_GIVEN);
	if (c->loss_scale != 0 && c->type && strstr(c->type, "Lamb"))
		refuse_key(&r, "fp16.loss_scale",
			   "0: DeepSpeed refuses this optimizer without dynamic loss scaling");
	if (others)
		others_add(r.root, "", used, c, others);
out:
	json_decref(r.root);
	return r.status;
}

bb_status bb_ds_config_settle(struct bb_ds_setting *settings, size_t n, const char *path,
			      struct bb_error *error)
{
	for (struct bb_ds_setting *s = settings; s < settings + n; s++) {
		if (s->in_file < 0)
			continue;
		if (s->given && s->value != s->in_file)
			return bb_fail(error, BB_EUSAGE,
				       "--%s: contradicts --ds-config %.200s; leave one of them "
				       "out",
				       s->option, path);
		s->value = s->in_file;
	}
	return BB_OK;
}

void bb_ds_config_add_saving(const struct bb_ds_config *c, int bits, struct bb_strbuf *out)
{
	const struct bb_onebit *const o = &c->onebit;

	if (o->kind == BB_ONEBIT_NONE)
		return;
	bb_strbuf_addf(
		out,
		"# volume: a coded exchange sends 1/%d of %d-bit gradients; %sfreeze_step %.0f",
		bits, bits, o->kind == BB_ONEBIT_ZERO_ONE ? "var_" : "", o->freeze_step);
	const double saving = c->total_steps > 0 ? bb_onebit_saving(o, bits, c->total_steps) : 0;
	if (saving > 1)
		bb_strbuf_addf(out, " of %jd steps: %.2f times less in all\n", c->total_steps,
			       saving);
	else if (saving > 0)
		bb_strbuf_addf(out, " of %jd steps: the compressed stage never begins\n",
			       c->total_steps);
	else
		bb_strbuf_add(out, "; total saving unknown: no scheduler.params.total_num_steps\n");
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
