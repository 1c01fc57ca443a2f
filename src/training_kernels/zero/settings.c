/*
 * settings.c - what options request: those of a ds_config.json, stages, and the units of a model.
 */
#include "core/units.h"
#include "models/units.h"
#include "training_kernels/zero/zero.h"

#include <stdio.h>
#include <string.h>

#define MOST_PARAMETERS UINT64_C(1000000000000000) /* their bytes fit into 64 bits */

bb_status bb_zero_apply_ds_config(struct bb_zero *zero, int node_ranks, struct bb_error *error)
{
	static const char *const used[] = {"zero_optimization.stage",
					   "zero_optimization.overlap_comm",
					   "zero_optimization.zero_quantized_weights",
					   "zero_optimization.zero_quantized_gradients",
					   "zero_optimization.zero_hpz_partition_size",
					   "fp16.enabled",
					   "fp16.loss_scale",
					   "fp16.initial_scale_power",
					   "fp16.loss_scale_window",
					   "bf16.enabled",
					   "gradient_accumulation_steps",
					   "optimizer.type",
					   "optimizer.params.lr",
					   "scheduler.params.total_num_steps",
					   NULL};
	struct bb_zero_options *a = &zero->options;
	struct bb_ds_config *c = &zero->config;
	struct bb_strbuf ignored = {0};
	bb_status status = bb_ds_config_read(a->ds_config, NULL, used, &ignored, c, error);
	const bool half = c->precision == BB_MIXED && !c->bf16, bf16 = c->bf16;
	const int64_t scale = c->loss_scale ? c->loss_scale : INT64_C(1) << c->scale_power;
	const int64_t nodes = c->hpz > 1 ? c->hpz : node_ranks;
	struct bb_ds_setting settings[] = {
		{"stages", a->stages_given, a->stages, c->zero < 0 ? -1 : 1 << c->zero},
		{"datatype", a->dtype_given, a->dtype,
		 half                ? BB_HALF
		 : bf16              ? BB_BFLOAT16
		 : c->precision >= 0 ? BB_FLOAT
				     : -1},
		{"accumulate", a->accumulate_given, a->accumulate,
		 c->micro_batches ? (int64_t)c->micro_batches : -1},
		{"loss-scale", a->scale_given, a->scale,
		 half   ? scale
		 : bf16 ? 1
			: -1},
		{"growth-interval", a->growth_given, a->growth, half ? c->scale_window : -1},
		{"overlap", a->overlap_given, a->overlap,
		 c->overlap < 0 && a->overlap_given ? -1
		 /* DeepSpeed overlaps only stage 3 unless told otherwise. */
		 : c->overlap > 0 || (c->overlap < 0 && c->zero == 3) ? BB_ZERO_OVERLAP_ON
								      : BB_ZERO_OVERLAP_OFF},
		{a->hpz_given ? "hpz" : "reshard", a->hpz_given || a->reshard_given, a->reshard,
		 c->hpz > 1 ? c->hpz : -1},
		{"qgz", a->qgz_given, a->qgz, c->qgz && !a->qgz_given ? nodes : -1},
		{"lr", a->rate_given, a->rate != c->rate, c->rate < 0 ? -1 : 0},
	};

	BB_TRY(status, status, out);
	if (c->type && strncmp(c->type, "Adam", 4) != 0 && c->onebit.kind != BB_ONEBIT_ADAM &&
	    c->onebit.kind != BB_ONEBIT_ZERO_ONE)
		status = bb_fail(error, BB_EUSAGE,
				 "--ds-config %.200s: optimizer.type: the step of %s is not known; "
				 "give Adam, AdamW, OneBitAdam or ZeroOneAdam%s",
				 a->ds_config, c->type,
				 c->onebit.kind == BB_ONEBIT_LAMB
					 ? ", or data_parallel_perf --train 100 --coded onebit-lamb"
					 : "");
	else if ((c->qwz || c->qgz || c->hpz > 1) && c->zero != 3)
		status = bb_fail(error, BB_EUSAGE,
				 "--ds-config %.200s: zero_optimization: zero_quantized_weights, "
				 "zero_quantized_gradients and zero_hpz_partition_size have no "
				 "effect before stage 3; leave them out",
				 a->ds_config);
	else if (c->qgz && !a->qgz_given && nodes == 0)
		status = bb_fail(error, BB_EUSAGE,
				 "--ds-config %.200s: zero_optimization.zero_quantized_gradients: "
				 "the ranks of a node are unknown; give --qgz",
				 a->ds_config);
	else
		status = bb_ds_config_settle(settings, sizeof(settings) / sizeof(settings[0]),
					     a->ds_config, error);
	if (status == BB_OK &&
	    (settings[3].value > 65536 || (settings[3].value & (settings[3].value - 1))))
		status = bb_fail(error, BB_EUSAGE,
				 "--ds-config %.200s: fp16: sums of gradients are exact only for a "
				 "loss scale that is a power of two up to 65536, not for %jd",
				 a->ds_config, settings[3].value);
	BB_TRY(status, status, out);
	snprintf(zero->ignored, sizeof(zero->ignored), "%s", bb_strbuf_text(&ignored));
	a->stages = (unsigned)settings[0].value;
	a->dtype = (enum bb_dtype)settings[1].value;
	a->accumulate = settings[2].value;
	a->scale = settings[3].value;
	a->growth = settings[4].value;
	a->overlap = (int)settings[5].value;
	a->reshard = settings[6].value;
	a->qgz = settings[7].value;
	a->qwz |= c->qwz;
	a->rate = c->rate < 0 ? a->rate : c->rate;
	/* In bf16 DeepSpeed neither scales the loss nor looks for overflows. */
	a->overflow = bf16 ? 0 : a->overflow;
out:
	bb_strbuf_free(&ignored);
	return status;
}

static bb_status parse_units(const char *text, enum bb_unit_division *division, uint64_t *least,
			     struct bb_error *error)
{
	*least = BB_UNITS_LEAST;
	*division = strcmp(text, "layers") == 0   ? BB_UNITS_BY_LAYER
		    : strcmp(text, "blocks") == 0 ? BB_UNITS_BY_BLOCK
						  : BB_UNITS_BY_SIZE;
	if (*division != BB_UNITS_BY_SIZE || strcmp(text, "size") == 0 ||
	    (strncmp(text, "size:", 5) == 0 && bb_parse_count(text + 5, least) && *least > 0))
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "--units %s: expected layers, blocks, size, or size:COUNT, such as size:30M",
		       text);
}

bb_status bb_zero_check_stages(const struct bb_zero_options *a, struct bb_error *error)
{
	const struct {
		const char *name;
		bool given;
		int first; /* stage that has it */
	} options[] = {{"hpz", a->hpz_given, 3},
		       {"qwz", a->qwz, 3},
		       {"qgz", a->qgz_given, 3},
		       {"prefetch", a->prefetch_given, 3},
		       {"backward-prefetch", a->backward_prefetch_given, 3},
		       {"reshard", a->reshard_given, 3},
		       {"reduce-dtype", a->reduce_dtype_given, 2}};

	if (a->qgz && a->reshard > 1 && a->reshard != a->qgz)
		return bb_fail(error, BB_EUSAGE,
			       "--qgz %jd: --%s %jd has nodes of other ranks; give the same number",
			       a->qgz, a->reshard_given ? "reshard" : "hpz", a->reshard);
	if (a->qgz && (a->separate || a->reduce_dtype_given))
		return bb_fail(error, BB_EUSAGE,
			       "--qgz %jd and --%s exclude each other: codes are exchanged "
			       "instead; leave one of them out",
			       a->qgz, a->separate ? "separate-groups" : "reduce-dtype");
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].given && !(a->stages >> options[i].first))
			return bb_fail(error, BB_EUSAGE,
				       "--%s: has no effect before stage %d; give --stages 3",
				       options[i].name, options[i].first);
	return BB_OK;
}

bb_status bb_zero_open_units(struct bb_zero *zero, struct bb_error *error)
{
	const struct bb_zero_options *a = &zero->options;
	const double given_s = 1e-9 * (double)a->step_ns;
	struct bb_model model = {0}; /* without FLOPs: a bare number of parameters */
	uint64_t count, least;
	enum bb_unit_division division;
	bb_status status = parse_units(a->units_text, &division, &least, error);

	BB_TRY(status, status, out);
	if (bb_parse_count(a->model_text, &count)) {
		if (division != BB_UNITS_BY_LAYER || a->padding == BB_ZERO_PARAMETER)
			return bb_fail(error, BB_EUSAGE,
				       "--%s: a bare number of parameters has neither modules nor "
				       "tensors; give a model",
				       a->padding == BB_ZERO_PARAMETER ? "padding parameter"
								       : "units");
		if (count == 0 || count > MOST_PARAMETERS)
			return bb_fail(error, BB_EUSAGE,
				       "--model %s: expected 1 to 1000T parameters", a->model_text);
		if (a->flops_given)
			return bb_fail(error, BB_EUSAGE,
				       "--flops: the FLOPs of a bare number of parameters are "
				       "unknown; give a model, or --step-time");
		zero->passes[0].seconds = given_s / 3;
		zero->passes[1].seconds = 2 * zero->passes[0].seconds;
		return bb_zero_units_of_size(&zero->units, BB_ZERO_SIZE_UNITS, count, error);
	}
	BB_TRY(status, bb_model_open(&model, a->model_text, a->seq, error), out);
	bb_attention_apply(&model, (enum bb_attention)a->attention);
	BB_TRY(status,
	       bb_zero_units_of_model(&zero->units, &model, division, least,
				      (enum bb_zero_padding)a->padding, error),
	       out);
	const double per_flop = a->flops_given ? (double)a->batch / a->flops
					       : given_s / (model.forward + model.backward);
	zero->passes[0] =
		(struct bb_zero_pass){model.forward * per_flop, (double)a->batch * model.forward};
	zero->passes[1] =
		(struct bb_zero_pass){model.backward * per_flop, (double)a->batch * model.backward};
out:
	bb_model_free(&model);
	return status;
}
