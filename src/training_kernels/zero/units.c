#include "training_kernels/zero/units.h"

#include "models/memory/training.h"

#include <math.h>
#include <stdlib.h>

static bb_status make_units(struct bb_zero_units *units, size_t n, size_t rows, size_t runs,
			    struct bb_error *error)
{
	*units = (struct bb_zero_units){.n = n, .list = calloc(n, sizeof(*units->list))};
	units->rows = calloc(rows, sizeof(*units->rows));
	units->runs = calloc(runs, sizeof(*units->runs));
	units->order[0] = calloc(2 * n, sizeof(*units->order[0]));
	if (!units->list || !units->rows || !units->runs || !units->order[0])
		return bb_no_memory(error, "the layers of a model");
	units->order[1] = units->order[0] + n;
	return BB_OK;
}

/* Whether a pass enters U before V; units around others come first. */
static bool enters_before(const struct bb_zero_unit *u, const struct bb_zero_unit *v, bool backward)
{
	const bool earlier = u->enter < v->enter;
	const bool outlasts = u->leave > v->leave;

	return backward ? outlasts || (u->leave == v->leave && earlier)
			: earlier || (u->enter == v->enter && outlasts);
}

static void order_units(struct bb_zero_units *units)
{
	for (int pass = 0; pass < 2; pass++) {
		size_t *const order = units->order[pass];

		for (size_t u = 0, at; u < units->n; order[at] = u++)
			for (at = u; at > 0 && enters_before(&units->list[u],
							     &units->list[order[at - 1]], pass);
			     at--)
				order[at] = order[at - 1];
	}
}

/* Divide the works of MODEL into runs. A work without tensors belongs to the unit before it; RUN_OF
   has a place for each work. */
static void set_runs(struct bb_zero_units *units, const struct bb_fsdp_units *fsdp,
		     const struct bb_model *model, size_t *run_of)
{
	for (size_t w = 0; w < model->nworks; w++)
		run_of[w] = SIZE_MAX;
	for (size_t t = model->ntensors; t-- > 0;)
		run_of[model->tensors[t].work] = fsdp->of[t];
	for (size_t w = 0, u = fsdp->of[0]; w < model->nworks; w++) {
		const struct bb_work *work = &model->works[w];
		const double forward = work->forward / model->forward;
		const double backward = (work->input + work->weights) / model->backward;

		u = run_of[w] == SIZE_MAX ? u : run_of[w];
		/* What takes no time belongs to the run before it, unless the unit has none. */
		if (units->nruns == 0 || (units->runs[units->nruns - 1].unit != u &&
					  (forward > 0 || units->list[u].enter == SIZE_MAX))) {
			units->list[u].enter = 0;
			units->runs[units->nruns++].unit = u;
		}
		run_of[w] = units->nruns - 1;
		units->runs[run_of[w]].share[0] += forward;
		units->runs[run_of[w]].share[1] += backward;
	}
	for (size_t u = 0; u < units->n; u++) {
		struct bb_zero_unit *const unit = &units->list[u];

		unit->enter = SIZE_MAX;
		for (size_t t = fsdp->list[u].begin; t < fsdp->list[u].end; t++) {
			const size_t run = run_of[model->tensors[t].work];

			unit->enter = run < unit->enter ? run : unit->enter;
			unit->leave = run > unit->leave ? run : unit->leave;
		}
	}
}

bb_status bb_zero_units_of_model(struct bb_zero_units *units, const struct bb_model *model,
				 enum bb_unit_division division, uint64_t least,
				 enum bb_zero_padding padding, struct bb_error *error)
{
	struct bb_fsdp_units fsdp;
	size_t *run_of = calloc(model->nworks, sizeof(*run_of));
	bb_status status = bb_units_divide(&fsdp, model, division, least, error);

	*units = (struct bb_zero_units){NULL};
	BB_TRY(status, status, out);
	if (!run_of)
		BB_TRY(status, bb_no_memory(error, "the layers of a model"), out);
	BB_TRY(status, make_units(units, fsdp.n, model->ntensors, model->nworks, error), out);
	for (size_t u = 0, nrows = 0; u < units->n; u++) {
		const struct bb_fsdp_unit *const of = &fsdp.list[u];
		struct bb_zero_unit *const unit = &units->list[u];

		*unit = (struct bb_zero_unit){units->elements, of->elements, nrows,
					      .enter = SIZE_MAX,
					      .kept = !*of->name && division != BB_UNITS_BY_LAYER};
		if (padding == BB_ZERO_FLAT)
			units->rows[nrows++] =
				(struct bb_zero_rows){unit->first, unit->elements, 1};
		for (size_t t = of->begin; t < of->end; t++) {
			const struct bb_tensor *const tensor = &model->tensors[t];
			const uint64_t rows = bb_units_rows(tensor);

			if (fsdp.of[t] != u)
				continue;
			if (padding == BB_ZERO_PARAMETER)
				units->rows[nrows++] = (struct bb_zero_rows){
					units->elements, rows, tensor->elements / rows};
			units->elements += tensor->elements;
		}
		unit->nrows = nrows - unit->rows;
	}
	set_runs(units, &fsdp, model, run_of);
	order_units(units);
out:
	free(run_of);
	bb_units_free(&fsdp);
	return status;
}

bb_status bb_zero_units_of_size(struct bb_zero_units *units, size_t most, uint64_t elements,
				struct bb_error *error)
{
	const size_t n = elements < most ? (size_t)elements : most;
	const double share = 1.0 / (double)n;
	const bb_status status = make_units(units, n, n, n, error);

	if (status != BB_OK)
		return status;
	for (size_t u = 0; u < n; u++) {
		const uint64_t first = units->elements, own = elements / n + (u < elements % n);

		units->list[u] = (struct bb_zero_unit){first, own, u, 1, u, u, false};
		units->rows[u] = (struct bb_zero_rows){first, own, 1};
		units->runs[units->nruns++] = (struct bb_zero_run){u, {share, share}};
		units->elements += own;
	}
	order_units(units);
	return BB_OK;
}

void bb_zero_units_free(struct bb_zero_units *units)
{
	free(units->list);
	free(units->rows);
	free(units->runs);
	free(units->order[0]);
	*units = (struct bb_zero_units){NULL};
}

/* ---- places ---------------------------------------------------------------------------------- */

struct bb_zero_piece bb_zero_piece(const struct bb_zero_rows *rows, uint64_t ranks, uint64_t rank)
{
	const uint64_t each = bb_partition(rows->rows, ranks);
	const uint64_t skip = rank * each < rows->rows ? rank * each : rows->rows;
	const uint64_t left = rows->rows - skip;

	return (struct bb_zero_piece){rows->first + skip * rows->width,
				      (left < each ? left : each) * rows->width,
				      each * rows->width};
}

uint64_t bb_zero_part(const struct bb_zero_units *units, size_t u, uint64_t ranks)
{
	const struct bb_zero_unit *unit = &units->list[u];
	const uint64_t multiple = units->multiple > 0 && ranks > 1 ? units->multiple : 1;
	uint64_t part = 0;

	for (size_t i = unit->rows; i < unit->rows + unit->nrows; i++)
		part += bb_zero_piece(&units->rows[i], ranks, 0).padded;
	return bb_partition(part, multiple) * multiple;
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

		p->part = bb_zero_part(units, u, n);
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

/* ---- codes --------------------------------------------------------------------------------- */

struct bb_coded_form bb_zero_coded_form(const struct bb_zero_units *units, size_t u, int nranks,
					int local)
{
	const size_t part = (size_t)bb_zero_part(units, u, (uint64_t)nranks);

	return (struct bb_coded_form){
		.scheme = &bb_coded_schemes[local ? BB_CODED_TWO_HOPS : BB_CODED_ALLTOALL],
		.coding = bb_coding_named(local ? "ds-int4" : "ds-int8"),
		.block = part / bb_coding_qwz_blocks(part),
		.count = part * (size_t)nranks,
		.nranks = nranks,
		.local = local,
		.only_gathers = !local,
		.only_reduces = local,
	};
}

struct bb_coded_form bb_zero_sign_form(const struct bb_zero_units *units, size_t u, int nranks)
{
	return (struct bb_coded_form){
		.scheme = &bb_coded_schemes[BB_CODED_ALLTOALL],
		.coding = bb_coding_named("sign"),
		.count = (size_t)units->list[u].elements,
		.nranks = nranks,
		.local = nranks,
		.feedback = true,
	};
}

/* ---- time of a pass ------------------------------------------------------------------------ */

/* Issue gathers at time AT until UNTIL of them are. */
static void issue_gathers(const struct bb_zero_pace *p, double at, size_t until, size_t *issued,
			  double *queue, double *gathered)
{
	for (; *issued < until && *issued < p->units; (*issued)++) {
		*queue = fmax(*queue, at) + p->gather;
		gathered[*issued % (BB_ZERO_MOST_DEPTH + 1)] = *queue;
	}
}

double bb_zero_pass_seconds(const struct bb_zero_pace *p)
{
	const size_t depth = p->prefetch == BB_ZERO_NONE ? 0 : p->depth;
	/* Ends of the last computation, of gathers that are ahead, and of both queues. */
	double at = 0, gathered[BB_ZERO_MOST_DEPTH + 1] = {0}, queues[2] = {0, 0}, reduced = 0;
	size_t issued = p->kept;

	for (size_t i = 0; i < p->units; i++) {
		issue_gathers(p, at, i + 1, &issued, queues, gathered);
		at = fmax(at, gathered[i % (BB_ZERO_MOST_DEPTH + 1)]);
		if (p->prefetch == BB_ZERO_PRE)
			issue_gathers(p, at, i + 1 + depth, &issued, queues, gathered);
		at += p->compute;
		issue_gathers(p, at, i + 1 + depth, &issued, queues, gathered);
		if (p->reduce == 0)
			continue;
		/* A single bucket is reduced beside the computation. */
		at = fmax(at, reduced);
		reduced = queues[p->separate] = fmax(queues[p->separate], at) + p->reduce;
	}
	return fmax(at, fmax(queues[0], queues[1]));
}
