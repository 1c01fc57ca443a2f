#include "training_kernels/zero/units.h"

#include "models/memory/training.h"

#include <stdlib.h>

static bb_status make_list(struct bb_zero_units *units, size_t n, struct bb_error *error)
{
	*units = (struct bb_zero_units){.list = calloc(n, sizeof(*units->list)), .n = n};
	return units->list ? BB_OK : bb_no_memory(error, "the layers of a model");
}

bb_status bb_zero_units_of_model(struct bb_zero_units *units, const struct bb_model *model,
				 struct bb_error *error)
{
	size_t layers = 1;

	for (size_t t = 1; t < model->ntensors; t++)
		layers += model->tensors[t].layer != model->tensors[t - 1].layer;
	const bb_status status = make_list(units, layers, error);
	if (status != BB_OK)
		return status;
	struct bb_zero_unit *unit = units->list;
	/* Until FLOPs are divided, FIRST is the index of the first tensor. */
	for (size_t t = 0; t < model->ntensors; t++) {
		if (t > 0 && model->tensors[t].layer != model->tensors[t - 1].layer)
			(++unit)->first = t;
		unit->elements += model->tensors[t].elements;
	}
	/* The FLOPs of a layer belong to the unit that begins with one of its tensors, or to the
	   last one. */
	for (size_t w = 0; w < model->nworks; w++) {
		const struct bb_work *work = &model->works[w];
		size_t u = 0;

		while (u + 1 < units->n &&
		       model->tensors[units->list[u].first].layer != work->layer)
			u++;
		units->list[u].forward += work->forward / model->forward;
		units->list[u].backward += (work->input + work->weights) / model->backward;
	}
	for (size_t u = 0; u < units->n; u++) {
		units->list[u].first = units->elements;
		units->elements += units->list[u].elements;
	}
	return BB_OK;
}

bb_status bb_zero_units_of_size(struct bb_zero_units *units, uint64_t elements,
				struct bb_error *error)
{
	const size_t n = elements < BB_ZERO_SIZE_UNITS ? (size_t)elements : BB_ZERO_SIZE_UNITS;
	const bb_status status = make_list(units, n, error);

	for (size_t u = 0; u < n && status == BB_OK; u++) {
		units->list[u] = (struct bb_zero_unit){
			.first = units->elements,
			.elements = elements / n + (u < elements % n),
			.forward = 1.0 / (double)n,
			.backward = 1.0 / (double)n,
		};
		units->elements += units->list[u].elements;
	}
	return status;
}

void bb_zero_units_free(struct bb_zero_units *units)
{
	free(units->list);
	*units = (struct bb_zero_units){0};
}

bb_status bb_zero_places_make(struct bb_zero_places *places, const struct bb_zero_units *units,
			      int stage, int nranks, int rank, struct bb_error *error)
{
	*places = (struct bb_zero_places){.list = calloc(units->n, sizeof(*places->list))};
	if (!places->list)
		return bb_no_memory(error, "the layers of a model");
	for (size_t u = 0; u < units->n; u++) {
		struct bb_zero_place *p = &places->list[u];
		const uint64_t n = stage == 0 ? 1 : (uint64_t)nranks;

		p->part = bb_partition(units->list[u].elements, n);
		p->padded = n * p->part;
		p->mine = stage == 0 ? 0 : p->part * (uint64_t)rank;
		p->at = places->whole;
		p->part_at = places->divided;
		places->whole += p->padded;
		places->divided += p->part;
	}
	return BB_OK;
}

void bb_zero_places_free(struct bb_zero_places *places)
{
	free(places->list);
	*places = (struct bb_zero_places){0};
}
