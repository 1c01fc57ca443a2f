/*
 * grouping.c - the groupings of the gradients that the options request: rules of frameworks, each
 * with its parameters.
 */
#include "training_kernels/ddp/ddp.h"

#include <stdio.h>
#include <stdlib.h>

/* "25M", "one", "tensor", "list"; "horovod 128M 1ms", "megatron 40M elem", "mirrored 1 pack",
   "fsdp blocks" */
static void name_cap(struct bb_ddp_cap *cap)
{
	char size[BB_UNIT_TEXT], suffix[BB_UNIT_TEXT] = "", rule[BB_UNIT_TEXT] = "";
	const char *what = size;

	if (!bb_ddp_is_ddp(cap))
		snprintf(rule, sizeof(rule), "%s ", cap->rule->name);
	if (cap->rule->clocked)
		snprintf(suffix, sizeof(suffix), " %gms", 1e3 * cap->cycle_s);
	if (cap->bytes == 0)
		what = cap->rule->none;
	else if (bb_ddp_is_ddp(cap) && !bb_ddp_is_capped(cap))
		what = cap->bytes == 1 ? "tensor" : "one";
	else if (bb_ddp_counts(cap)) {
		bb_format_count(size, cap->bytes);
		snprintf(suffix, sizeof(suffix), " %s",
			 !cap->rule->cut   ? "elem"
			 : cap->bytes == 1 ? "pack"
					   : "packs");
	} else {
		bb_format_size(size, cap->bytes);
	}
	snprintf(cap->name, sizeof(cap->name), "%.10s%.10s%.7s", rule, what, suffix);
}

/* Add the grouping by RULE with its parameter BYTES, unless there is one. */
static bb_status add_cap(struct bb_ddp *ddp, enum bb_fusion_framework rule, uint64_t bytes,
			 double cycle_s, int nranks, struct bb_error *error)
{
	const struct bb_ddp_options *a = &ddp->options;
	struct bb_ddp_cap *cap = &ddp->caps[ddp->ncaps];
	const bool list = rule == BB_FUSION_DDP && bytes == 0;
	const uint64_t local = (uint64_t)ddp->local;

	if (rule == BB_FUSION_HOROVOD && nranks % ddp->local == 0)
		bytes = bb_fusion_threshold(bytes, local);
	for (size_t i = 0; i < ddp->ncaps; i++)
		if (ddp->caps[i].rule == &bb_fusion_rules[rule] && ddp->caps[i].bytes == bytes &&
		    ddp->caps[i].cycle_s == cycle_s)
			return BB_OK;
	if (ddp->ncaps == BB_DDP_MOST_CAPS)
		return bb_fail(error, BB_EUSAGE, "--fusion: more than %d groupings; give less",
			       BB_DDP_MOST_CAPS);
	*cap = (struct bb_ddp_cap){
		.rule = &bb_fusion_rules[rule], .bytes = bytes, .cycle_s = cycle_s};
	name_cap(cap);
	const uint64_t caps[] = {a->first_cap && bb_ddp_is_capped(cap) ? a->first_cap : bytes,
				 bytes};
	const struct bb_fusion_setting setting = {
		.rule = cap->rule,
		.caps = list ? a->cap_list.list : caps,
		.ncaps = list ? a->cap_list.n : 2,
		.multiple = rule == BB_FUSION_MEGATRON && a->padded
				    ? bb_fusion_megatron_multiple(nranks)
				    : 0,
		.fused_multiple = a->hierarchical && nranks % ddp->local == 0 ? local * 64 : 0,
		.round = rule == BB_FUSION_HOROVOD && a->batched ? 16 : 0,
		.cycle_s = cycle_s};
	const bb_status status = bb_fusion_make(&cap->buckets, ddp->tensors,
						ddp->replica.model.ntensors, &setting, error);
	const size_t numbers = 6 * cap->buckets.n + cap->buckets.ncycles;
	ddp->ncaps++;
	ddp->numbers = numbers > ddp->numbers ? numbers : ddp->numbers;
	ddp->words =
		cap->buckets.ncycles ? bb_fusion_words(ddp->replica.model.ntensors) : ddp->words;
	ddp->room = cap->buckets.room > ddp->room ? cap->buckets.room : ddp->room;
	ddp->replica.bytes = cap->buckets.bytes;
	while (status == BB_OK &&
	       (ddp->caps[cap->same].rule != cap->rule ||
		!bb_fusion_is_same(&ddp->caps[cap->same].buckets, &cap->buckets)))
		cap->same++;
	while (status == BB_OK &&
	       !bb_fusion_is_same(&ddp->caps[cap->program].buckets, &cap->buckets))
		cap->program++;
	return status;
}

/* What a rule with cycles needs. */
static bb_status check_clocked(const struct bb_ddp *ddp, struct bb_error *error)
{
	const struct bb_ddp_options *a = &ddp->options;

	if (ddp->replica.batch_s == 0)
		return bb_fail(error, BB_EUSAGE,
			       "--fusion horovod: its cycles need the time of a batch; give "
			       "--step-time or --flops");
	for (size_t i = 0; i < a->views.n; i++)
		if (a->views.list[i] != BB_DDP_COPIED - BB_DDP_VIEWS)
			return bb_fail(error, BB_EUSAGE,
				       "--bucket-view %s: Horovod's fusions are copies; give "
				       "--bucket-view off",
				       bb_ddp_view_names[a->views.list[i]]);
	return BB_OK;
}

bb_status bb_ddp_group(struct bb_ddp *ddp, const struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	static const uint64_t references[] = {BB_DDP_DEFAULT_CAP, BB_BUCKET_UNLIMITED, 1};
	const struct bb_ddp_options *a = &ddp->options;
	const struct bb_model *m = &ddp->replica.model;
	const int nranks = bb_estimate_ranks(o, environment);
	const uint64_t elements =
		a->bucket_elements ? a->bucket_elements : bb_fusion_megatron_cap(nranks);
	uint64_t packs[BB_OPTION_MOST];
	const struct {
		const uint64_t *list;
		size_t n;
	} parameters[] = {[BB_FUSION_DDP] = {a->caps.list, a->caps.n},
			  [BB_FUSION_HOROVOD] = {a->thresholds.list, a->thresholds.n},
			  [BB_FUSION_TF] = {a->pack_bytes.list, a->pack_bytes.n},
			  [BB_FUSION_MEGATRON] = {&elements, 1},
			  [BB_FUSION_MIRRORED] = {packs, a->packs.n},
			  [BB_FUSION_FSDP] = {&a->least, 1}};
	struct bb_fsdp_units units = {.list = NULL};
	bb_status status;

	ddp->local = a->node_ranks ? (int)a->node_ranks : o->cluster ? o->cluster->gpus : nranks;
	if (a->hierarchical && (ddp->local < 2 || ddp->local >= nranks))
		BB_TRY(status,
		       bb_fail(error, BB_EUSAGE,
			       "--hierarchical: %d ranks in nodes of %d; give --node-ranks from 2 "
			       "to %d",
			       nranks, ddp->local, nranks - 1),
		       out);
	ddp->ready_s = calloc(m->ntensors, sizeof(*ddp->ready_s));
	ddp->tensors = calloc(m->ntensors, sizeof(*ddp->tensors));
	if (!ddp->ready_s || !ddp->tensors)
		BB_TRY(status, bb_no_memory(error, "the buckets"), out);
	bb_model_ready(m, ddp->replica.backward_s, ddp->ready_s);
	BB_TRY(status,
	       bb_units_divide(&units, m, a->least ? BB_UNITS_BY_SIZE : BB_UNITS_BY_BLOCK, a->least,
			       error),
	       out);
	bb_fusion_tensors(ddp->tensors, m, a->dtype, a->vectors_given ? a->vectors : a->dtype,
			  ddp->ready_s, &units);
	for (size_t i = 0; i < a->packs.n; i++)
		packs[i] = (uint64_t)a->packs.list[i];
	for (size_t i = 0; i < a->rules.n; i++) {
		const enum bb_fusion_framework rule = (enum bb_fusion_framework)a->rules.list[i];
		const bool list = rule == BB_FUSION_DDP && a->cap_list_given;
		const bool clocked = bb_fusion_rules[rule].clocked;

		if (clocked)
			BB_TRY(status, check_clocked(ddp, error), out);
		for (size_t k = 0; k < (list ? 1 : parameters[rule].n); k++)
			for (size_t c = 0; c < (clocked ? a->cycles.n : 1); c++)
				BB_TRY(status,
				       add_cap(ddp, rule, list ? 0 : parameters[rule].list[k],
					       clocked ? 1e-3 * a->cycles.list[c] : 0, nranks,
					       error),
				       out);
	}
	ddp->nrequested = ddp->ncaps;
	for (size_t i = 0; i < 3; i++)
		BB_TRY(status, add_cap(ddp, BB_FUSION_DDP, references[i], 0, nranks, error), out);
out:
	bb_units_free(&units);
	return status;
}

const struct bb_ddp_cap *bb_ddp_find_cap(const struct bb_ddp *ddp, uint64_t bytes)
{
	const struct bb_ddp_cap *cap = ddp->caps;

	while (!bb_ddp_is_ddp(cap) || cap->bytes != bytes)
		cap++;
	return cap;
}
