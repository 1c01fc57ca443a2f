/*
 * Gloo's own collectives. TMP replaces a buffer where Gloo cannot work in place, and at ranks
 * without an output into which Gloo's reduce writes all the same.
 */
#include "backends/gloo/gloo.h"

#define NO_FUNCTION (-1)

static const struct {
	const struct bb_collective *collective;
	const char *name; /* Gloo's, for errors */
	int function;     /* of `native` */
	int bcube;        /* of `native:bcube` */
} rows[] = {
	{&bb_all_reduce, "Gloo's allreduce", BB_GLOO_ALL_REDUCE, BB_GLOO_ALL_REDUCE_BCUBE},
	{&bb_all_gather, "Gloo's allgather", BB_GLOO_ALL_GATHER, NO_FUNCTION},
	{&bb_broadcast, "Gloo's broadcast", BB_GLOO_BROADCAST, NO_FUNCTION},
	{&bb_reduce, "Gloo's reduce", BB_GLOO_REDUCE, NO_FUNCTION},
	{&bb_gather, "Gloo's gather", BB_GLOO_GATHER, NO_FUNCTION},
	{&bb_scatter, "Gloo's scatter", BB_GLOO_SCATTER, NO_FUNCTION},
	{&bb_alltoall, "Gloo's alltoall", BB_GLOO_ALLTOALL, NO_FUNCTION},
	{&bb_alltoallv, "Gloo's alltoallv", BB_GLOO_ALLTOALLV, NO_FUNCTION},
};

/* Row of COLLECTIVE; -1: Gloo has none. */
static int row_of(const struct bb_collective *collective)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].collective == collective)
			return (int)i;
	return -1;
}

static bool is_bcube(const struct bb_native *native)
{
	return native == &bb_gloo_natives[1];
}

static const char *native_refuses(const struct bb_native *native,
				  const struct bb_collective *collective)
{
	const int row = row_of(collective);

	if (row < 0)
		return "Gloo has no such collective";
	return is_bcube(native) && rows[row].bcube == NO_FUNCTION
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
	const bool has_native = row_of(call->collective) >= 0 && group->n > 1;

	call->native = has_native ? &bb_gloo_natives[0] : NULL;
	call->schedule = has_native ? NULL : bb_algorithm_find(call->collective, "ring");
	call->instead = NULL;
	if (!has_native && !call->schedule) /* a collective that is an algorithm of its own */
		call->schedule = bb_algorithm_find(call->collective, call->collective->name);
	if (!has_native && group->n > 1)
		call->instead = "Gloo has no such collective";
	return call->native || call->schedule ? BB_OK : BB_EUNSUPPORTED;
}

const char *bb_gloo_refuses(struct bb_group *group, const struct bb_call *call)
{
	const char *reason;

	if (!call->native)
		return call->schedule->refuses ? call->schedule->refuses(&call->shape) : NULL;
	reason = native_refuses(call->native, call->collective);
	return reason ? reason : native_refuses_group(call->native, group->n);
}

/* ---- buffers ----------------------------------------------------------------------------- */

static size_t in_bytes(const struct bb_group *group, const struct bb_call *call)
{
	return call->collective->in_count(&call->shape, group->me) * bb_dtype_size(call->dtype);
}

/* Does the call read a copy of its input in TMP? */
static bool copies_input(const struct bb_group *group, const struct bb_call *call)
{
	return bb_call_weighs(call, group->me) ||
	       (call->shape.in_place &&
		(call->collective == &bb_alltoall || call->collective == &bb_alltoallv));
}

static bool lacks_output(const struct bb_group *group, const struct bb_call *call)
{
	return call->collective == &bb_reduce && group->me != call->shape.root;
}

static size_t copied_bytes(const struct bb_group *group, const struct bb_call *call)
{
	return copies_input(group, call) ? (in_bytes(group, call) + 63) & ~(size_t)63 : 0;
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
	const struct bb_context *c = group->rank->context;
	const bool roots_alone = call->collective == &bb_gather || call->collective == &bb_scatter;

	*in = call->in;
	*out = lacks_output(group, call) ? (char *)call->tmp + copied_bytes(group, call)
					 : call->out;
	if (bb_call_weighs(call, group->me))
		bb_cpu_weigh(c->cpu.kernels, call, group->me, call->tmp);
	else if (copies_input(group, call))
		bb_cpu_copy(group->rank, call->tmp, call->in, in_bytes(group, call));
	else if (!call->shape.in_place || roots_alone || lacks_output(group, call))
		return;
	*in = copies_input(group, call) ? call->tmp : NULL;
}

/* ---- running ----------------------------------------------------------------------------- */

struct reduction {
	bb_reduce_fn *reduce;
};

static void call_reduce(const void *own, void *result, const void *a, const void *b, size_t count)
{
	const struct reduction *reduction = own;
	const struct bb_reduce_args args = {.stream = false};

	reduction->reduce(&result, 1, (const void *[]){a, b}, 2, count, &args);
}

static bool has_work(const struct bb_call *call)
{
	return call->collective == &bb_alltoallv || call->shape.count > 0;
}

bb_status bb_gloo_native(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_kernels *kernels = group->rank->context->cpu.kernels;
	const int row = row_of(call->collective), n = group->n;
	const enum bb_op op = call->op == BB_AVG || call->op == BB_MULSUM ? BB_SUM : call->op;
	const bool reduces = call->collective->flags & BB_REDUCES;
	const struct reduction reduction = {reduces ? kernels->reduce[call->dtype][op] : NULL};
	struct bb_gloo_collective collective = {
		.function = (enum bb_gloo_function)(is_bcube(call->native) ? rows[row].bcube
									   : rows[row].function),
		.element = bb_dtype_size(call->dtype),
		.count = call->shape.count,
		.root = call->shape.root,
		.sent = group->counts,
		.received = group->counts + n,
		.reduce = call_reduce,
		.own = &reduction};
	char why[BB_GLOO_WHY];

	place_buffers(group, call, &collective.in, &collective.out);
	for (int r = 0; r < n && call->collective == &bb_alltoallv; r++) {
		group->counts[r] = (int64_t)bb_alltoall_count(&call->shape, group->me, r);
		group->counts[n + r] = (int64_t)bb_alltoall_count(&call->shape, r, group->me);
	}
	if (has_work(call) && !bb_gloo_run(group->member->mesh, &collective, why))
		return bb_gloo_failed(group->rank, rows[row].name, why);
	if (bb_call_divides(call) && !lacks_output(group, call))
		bb_cpu_divide(kernels, call, group->me);
	return BB_OK;
}
