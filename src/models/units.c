#include "models/units.h"

#include "core/array.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct wrapper {
	const struct bb_model *model;
	struct bb_fsdp_units *units;
	size_t room;
	uint64_t least;
	bool failed; /* no memory */
};

/* The module of tensors BEGIN to END-1 becomes a unit. Its name is the first LENGTH bytes of
   theirs, without the point. */
static void wrap_module(struct wrapper *w, size_t begin, size_t end, size_t length)
{
	struct bb_fsdp_unit unit = {.begin = begin, .end = end};

	if (length > 0)
		memcpy(unit.name, w->model->tensors[begin].name, length - 1);
	w->failed |= !BB_ARRAY_PUT(w->units->list, w->units->n, w->room, unit);
}

/* Whether modules of a list are the children of the module whose name is the first LENGTH bytes of
   NAME. torchvision's numbered modules, and linear layers, are in an nn.Sequential instead. */
static bool is_module_list(const struct wrapper *w, const char *name, size_t length)
{
	return isdigit((unsigned char)name[length]) && w->model->hyper.heads > 0;
}

/* Find the units in the module of tensors BEGIN to END-1, whose names begin with the LENGTH bytes
   of its own name and a point. Returns the number of elements in them. */
static uint64_t wrap_by_size(struct wrapper *w, size_t begin, size_t end, size_t length)
{
	const struct bb_tensor *tensors = w->model->tensors;
	const char *const name = tensors[begin].name;
	uint64_t elements = 0, wrapped = 0;

	for (size_t t = begin; t < end; t++)
		elements += tensors[t].elements;
	if (elements < w->least || strcmp(name + length, "in_proj_weight") == 0)
		return 0;
	for (size_t t = begin, next; t < end; t = next) {
		const char *const child = tensors[t].name + length, *const dot = strchr(child, '.');
		const size_t bytes = dot ? (size_t)(dot + 1 - child) : 0;

		next = t + 1;
		while (next < end && dot && strncmp(tensors[next].name + length, child, bytes) == 0)
			next++;
		wrapped += dot ? wrap_by_size(w, t, next, length + bytes) : 0;
	}
	/* The root keeps the rest in any case. */
	if (length == 0 || elements - wrapped < w->least || is_module_list(w, name, length))
		return wrapped;
	wrap_module(w, begin, end, length);
	return elements;
}

static int compare_units(const void *a, const void *b)
{
	const struct bb_fsdp_unit *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return strcmp(x->name, y->name); /* the root first */
}

/* Each layer is a unit; OUTSIDE: so are those outside all blocks. Returns as wrap_by_size. */
static uint64_t wrap_layers(struct wrapper *w, bool outside)
{
	const struct bb_model *model = w->model;
	const struct bb_tensor *tensors = model->tensors;
	uint64_t wrapped = 0;

	for (size_t begin = 0, end; begin < model->ntensors; begin = end) {
		const struct bb_tensor *const first = &tensors[begin];
		/* Up to the last point that the names of all its tensors have in common. */
		size_t length = strlen(first->name);
		uint64_t elements = 0;

		for (end = begin; end < model->ntensors && tensors[end].layer == first->layer;
		     elements += tensors[end++].elements)
			while (length > 0 && (first->name[length - 1] != '.' ||
					      strncmp(first->name, tensors[end].name, length) != 0))
				length--;
		if (!outside && (first->layer < 0 || first->layer >= model->blocks))
			continue;
		wrap_module(w, begin, end, length);
		wrapped += elements;
	}
	return wrapped;
}

bb_status bb_units_divide(struct bb_fsdp_units *units, const struct bb_model *model,
			  enum bb_unit_division division, uint64_t least, struct bb_error *error)
{
	struct wrapper w = {.model = model, .units = units, .least = least};

	*units = (struct bb_fsdp_units){.of = calloc(model->ntensors, sizeof(*units->of))};
	const uint64_t wrapped = division == BB_UNITS_BY_SIZE
					 ? wrap_by_size(&w, 0, model->ntensors, 0)
					 : wrap_layers(&w, division == BB_UNITS_BY_LAYER);
	if (wrapped < model->parameters)
		wrap_module(&w, 0, model->ntensors, 0);
	if (w.failed || !units->of)
		return bb_no_memory(error, "the units of a model");
	qsort(units->list, units->n, sizeof(*units->list), compare_units);
	/* The innermost unit around a tensor comes last. */
	for (size_t u = 0; u < units->n; u++)
		for (size_t t = units->list[u].begin; t < units->list[u].end; t++)
			units->of[t] = u;
	for (size_t t = 0; t < model->ntensors; t++)
		units->list[units->of[t]].elements += model->tensors[t].elements;
	return BB_OK;
}

void bb_units_free(struct bb_fsdp_units *units)
{
	free(units->list);
	free(units->of);
	*units = (struct bb_fsdp_units){NULL, 0, NULL};
}

uint64_t bb_units_rows(const struct bb_tensor *tensor)
{
	return tensor->matrices > 1 ? tensor->matrices : tensor->rows;
}
