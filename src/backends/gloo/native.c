/*
 * Gloo's own collectives. TMP replaces a buffer where Gloo cannot work in place, and at ranks
 * without an output into which Gloo's reduce writes all the same.
 */
#include "backends/gloo/gloo.h"

static const struct row {
	const struct bb_collective *collective;
	const char *name; /* Gloo's, for errors */
	enum bb_gloo_function function;
} rows[] = {
	{&bb_all_reduce, "Gloo's allreduce", BB_GLOO_ALL_REDUCE},
	{&bb_all_gather, "Gloo's allgather", BB_GLOO_ALL_GATHER},
	{&bb_broadcast, "Gloo's broadcast", BB_GLOO_BROADCAST},
	{&bb_reduce, "Gloo's reduce", BB_GLOO_REDUCE},
	{&bb_gather, "Gloo's gather", BB_GLOO_GATHER},
	{&bb_scatter, "Gloo's scatter", BB_GLOO_SCATTER},
	{&bb_alltoall, "Gloo's alltoall", BB_GLOO_ALLTOALL},
	{&bb_alltoallv, "Gloo's alltoallv", BB_GLOO_ALLTOALLV},
};

/* NULL: Gloo has no such collective. */
static const struct row *row_of(const struct bb_collective *collective)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].collective == collective)
			return &rows[i];
	return NULL;
}

static bool is_bcube(const struct bb_native *native)
{
	return native == &bb_gloo_natives[1];
}

static const char *native_refuses(const struct bb_native *native,
				  const struct bb_collective *collective)
{
	if (!row_of(collective))
		return "Gloo has no such collective";
	return is_bcube(native) && collective != &bb_all_reduce
		       ? "Gloo has this algorithm only for all_reduce"
		       : NULL;
}

static const char *native_refuses_group(const struct bb_native *native, int nranks)
{
	return nranks == 1 ? "Gloo connects at least two ranks" : NULL;
}

const struct bb_native bb_gloo_natives[] = {
	{.name = "native",
	 .brief = "Gloo's own collective",
	 .refuses = native_refuses,
	 .refuses_group = native_refuses_group},
	{.name = "native:bcube",
	 .brief = "Gloo's all_reduce by BCUBE",
	 .refuses = native_refuses,
	 .refuses_group = native_refuses_group},
	{.name = NULL},
};

bb_status bb_gloo_choose(struct bb_group *group, struct bb_call *call)
{
	const bool has_native = row_of(call->collective) && group->port.n > 1;

	call->native = has_native ? &bb_gloo_natives[0] : NULL;
	call->schedule = has_native ? NULL : bb_algorithm_find(call->collective, "ring");
	call->instead = NULL;
	if (!has_native && !call->schedule) /* a collective that is an algorithm of its own */
		call->schedule = bb_algorithm_find(call->collective, call->collective->name);
	if (!has_native && group->port.n > 1)
		call->instead = "Gloo has no such collective";
	return call->native || call->schedule ? BB_OK : BB_EUNSUPPORTED;
}

const char *bb_gloo_refuses(struct bb_group *group, const struct bb_call *call)
{
	const char *reason;

	if (!call->native)
		return call->schedule->refuses ? call->schedule->refuses(&call->shape) : NULL;
	reason = native_refuses(call->native, call->collective);
	return reason ? reason : native_refuses_group(call->native, group->port.n);
}

/* ---- buffers ----------------------------------------------------------------------------- */

/* Does the call read a copy of its input in TMP? */
static bool copies_input(const struct bb_group *group, const struct bb_call *call)
{
	return bb_call_weighs(call, group->port.me) ||
	       (call->shape.in_place &&
		(call->collective == &bb_alltoall || call->collective == &bb_alltoallv));
}

static bool lacks_output(const struct bb_group *group, const struct bb_call *call)
{
	return call->collective == &bb_reduce && group->port.me != call->shape.root;
}

static size_t copied_bytes(const struct bb_group *group, const struct bb_call *call)
{
	return copies_input(group, call)
		       ? (bb_call_in_bytes(call, group->port.me) + 63) & ~(size_t)63
		       : 0;
}

size_t bb_gloo_native_tmp_bytes(const struct bb_group *group, const struct bb_call *call)
{
	return copied_bytes(group, call) +
	       (lacks_output(group, call) ? call->shape.count * bb_dtype_size(call->dtype) : 0);
}

/* *IN, *OUT = buffers for Gloo; IN NULL: in place. */
static void place_buffers(const struct bb_group *group, const struct bb_call *call, const void **in,
			  void **out)
{
	const struct bb_context *c = group->port.rank->context;
	const bool roots_alone = call->collective == &bb_gather || call->collective == &bb_scatter;

	*in = call->in;
	*out = lacks_output(group, call) ? (char *)call->tmp + copied_bytes(group, call)
					 : call->out;
	if (bb_call_weighs(call, group->port.me))
		bb_cpu_weigh(c->cpu.kernels, call, group->port.me, call->tmp);
	else if (copies_input(group, call))
		bb_cpu_copy(group->port.rank, call->tmp, call->in,
			    bb_call_in_bytes(call, group->port.me));
	else if (!call->shape.in_place || roots_alone || lacks_output(group, call))
		return;
	*in = copies_input(group, call) ? call->tmp : NULL;
}

/* ---- running ----------------------------------------------------------------------------- */

static void call_reduce(const void *own, void *result, const void *a, const void *b, size_t count)
{
	bb_reduce_fn *const *const reduce = own;
	const struct bb_reduce_args args = {.stream = false};

	(*reduce)(&result, 1, (const void *[]){a, b}, 2, count, &args);
}

bb_status bb_gloo_native(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_kernels *kernels = group->port.rank->context->cpu.kernels;
	const struct row *row = row_of(call->collective);
	const int n = group->port.n;
	bb_reduce_fn *const reduce = bb_cpu_reduction(kernels, call);
	struct bb_gloo_collective collective = {
		.function = is_bcube(call->native) ? BB_GLOO_ALL_REDUCE_BCUBE : row->function,
		.element = bb_dtype_size(call->dtype),
		.count = call->shape.count,
		.root = call->shape.root,
		.sent = group->counts,
		.received = group->counts + n,
		.reduce = call_reduce,
		.own = &reduce};
	char why[BB_GLOO_WHY];

	place_buffers(group, call, &collective.in, &collective.out);
	for (int r = 0; r < n && call->collective == &bb_alltoallv; r++) {
		group->counts[r] = (int64_t)bb_alltoall_count(&call->shape, group->port.me, r);
		group->counts[n + r] = (int64_t)bb_alltoall_count(&call->shape, r, group->port.me);
	}
	if ((call->collective == &bb_alltoallv || call->shape.count > 0) &&
	    !bb_gloo_run(group->member->mesh, &collective, why))
		return bb_gloo_failed(group->port.rank, row->name, why);
	if (bb_call_divides(call) && !lacks_output(group, call))
		bb_cpu_divide(kernels, call, group->port.me);
	return BB_OK;
}
