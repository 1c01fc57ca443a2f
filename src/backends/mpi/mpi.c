/*
 * The mpi backend: ranks are processes, messages and collectives are an MPI library's. Where its
 * processes run is the launcher's affair; nothing is pinned here.
 */
#include "backends/mpi/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct bb_backend bb_plugin_backend;

bb_status bb_mpi_check(struct bb_context *context, const char *function, int code)
{
	char text[MPI_MAX_ERROR_STRING];
	int length;

	if (code == MPI_SUCCESS)
		return BB_OK;
	if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
		snprintf(text, sizeof(text), "unknown error");
	return bb_fail(context->cpu.error, BB_EBACKEND, "rank %d: %s: %s", context->cpu.world.proc,
		       function, text);
}

/* ---- the library's collectives ------------------------------------------------------- */

/*
 * The library's own collectives. TMP replaces a buffer where MPI defines "in place" differently, or
 * where a buffer would be read and written at once.
 */

#define SENDRECV_TAG 0
#define NO_FUNCTION BB_MPI_FUNCTIONS

/* One piece of a call, in terms of the library. */
struct work {
	struct bb_group *group;
	const struct bb_call *call;
	const void *in; /* this and the next from the piece on */
	void *out;
	bool in_place; /* and OUT holds the input where MPI expects it */
	int root, me;
	size_t unit;       /* elements that one count stands for */
	bb_mpi_count n;    /* units */
	MPI_Datatype type; /* of a unit */
	MPI_Op op;
	MPI_Comm comm;
};

struct bb_mpi_row {
	const struct bb_collective *collective;
	const char *name; /* the library's, for errors */
	/* Functions with selectable algorithms; the first that has the requested one is used. */
	enum bb_mpi_function functions[2];
	const char *lacks; /* why an algorithm cannot be forced */
	/* Do the piece; returns an MPI code. Only rows without MOST get several pieces. */
	int (*run)(const struct work *work);
	/* Largest number of elements behind one count; NULL: the call may be cut into pieces. */
	size_t (*most)(const struct bb_shape *shape, int rank);
};

/* ---- reductions and broadcast ----------------------------------------------------------- */

/* Copy N elements of SRC into OUT. */
static void copy_out(const struct work *w, const void *src, bb_mpi_count n)
{
	bb_cpu_copy(w->group->port.rank, w->out, src, (size_t)n * bb_dtype_size(w->call->dtype));
}

static int all_reduce(const struct work *w)
{
	return BB_MPI(Allreduce)(w->in_place ? MPI_IN_PLACE : w->in, w->out, w->n, w->type, w->op,
				 w->comm);
}

static int reduce(const struct work *w)
{
	const bool at_root = w->me == w->root;

	return BB_MPI(Reduce)(w->in_place && at_root ? MPI_IN_PLACE : w->in,
			      at_root ? w->out : NULL, w->n, w->type, w->op, w->root, w->comm);
}

/* MPI has a single buffer: at the root it is IN. */
static int broadcast(const struct work *w)
{
	const bool at_root = w->me == w->root;
	const int code =
		BB_MPI(Bcast)(at_root ? (void *)w->in : w->out, w->n, w->type, w->root, w->comm);

	if (code == MPI_SUCCESS && at_root && w->in != w->out)
		copy_out(w, w->in, w->n);
	return code;
}

/* In place the result belongs into this rank's block, but MPI writes it into the first one. It goes
   through TMP, unless TMP holds the input. */
static int reduce_scatter(const struct work *w)
{
	const struct bb_mpi_prepared *prepared = w->call->prepared;
	const bool by_counts = prepared->function == BB_MPI_REDUCE_SCATTER;
	void *result = w->in_place ? w->call->tmp : w->out;

	for (int r = 0; by_counts && r < w->group->port.n; r++)
		w->group->counts[r] = w->n;
	const int code = by_counts ? BB_MPI(Reduce_scatter)(w->in, result, w->group->counts,
							    w->type, w->op, w->comm)
				   : BB_MPI(Reduce_scatter_block)(w->in, result, w->n, w->type,
								  w->op, w->comm);
	if (code == MPI_SUCCESS && w->in_place)
		copy_out(w, result, w->n);
	return code;
}

static size_t whole(const struct bb_shape *shape, int rank)
{
	return shape->count;
}

/* ---- moving data ------------------------------------------------------------------------ */

static int all_gather(const struct work *w)
{
	return BB_MPI(Allgather)(w->in_place ? MPI_IN_PLACE : w->in, w->n, w->type, w->out, w->n,
				 w->type, w->comm);
}

static int gather(const struct work *w)
{
	return BB_MPI(Gather)(w->in_place && w->me == w->root ? MPI_IN_PLACE : w->in, w->n, w->type,
			      w->out, w->n, w->type, w->root, w->comm);
}

static int scatter(const struct work *w)
{
	return BB_MPI(Scatter)(w->in, w->n, w->type,
			       w->in_place && w->me == w->root ? MPI_IN_PLACE : w->out, w->n,
			       w->type, w->root, w->comm);
}

static int alltoall(const struct work *w)
{
	return BB_MPI(Alltoall)(w->in_place ? MPI_IN_PLACE : w->in, w->n, w->type, w->out, w->n,
				w->type, w->comm);
}

/* In place MPI requires that a rank receives from each peer as much as it sends: the input is
   copied to TMP instead. */
static int alltoallv(const struct work *w)
{
	const struct bb_shape *shape = &w->call->shape;
	const struct bb_group *g = w->group;
	bb_mpi_count *sent = g->counts, *received = sent + g->port.n;
	bb_mpi_offset *from = g->offsets, *to = from + g->port.n;
	size_t in_at = 0, out_at = 0;

	for (int r = 0; r < g->port.n; r++) {
		const size_t out = bb_alltoall_count(shape, w->me, r) / w->unit;
		const size_t back = bb_alltoall_count(shape, r, w->me) / w->unit;

		sent[r] = (bb_mpi_count)out;
		received[r] = (bb_mpi_count)back;
		from[r] = (bb_mpi_offset)in_at;
		to[r] = (bb_mpi_offset)out_at;
		in_at += out;
		out_at += back;
	}
	if (w->in_place)
		bb_cpu_copy(g->port.rank, w->call->tmp, w->in,
			    in_at * w->unit * bb_dtype_size(w->call->dtype));
	return BB_MPI(Alltoallv)(w->in_place ? w->call->tmp : w->in, sent, from, w->type, w->out,
				 received, to, w->type, w->comm);
}

static size_t row_or_column(const struct bb_shape *shape, int rank)
{
	const size_t row = bb_alltoall_in(shape, rank, shape->nranks);
	const size_t column = bb_alltoall_out(shape, shape->nranks, rank);

	return row > column ? row : column;
}

static int sendrecv(const struct work *w)
{
	const int next = w->me + 1 == w->group->port.n ? 0 : w->me + 1;
	const int previous = (w->me ? w->me : w->group->port.n) - 1;

	if (w->in_place)
		return BB_MPI(Sendrecv_replace)(w->out, w->n, w->type, next, SENDRECV_TAG, previous,
						SENDRECV_TAG, w->comm, MPI_STATUS_IGNORE);
	return BB_MPI(Sendrecv)(w->in, w->n, w->type, next, SENDRECV_TAG, w->out, w->n, w->type,
				previous, SENDRECV_TAG, w->comm, MPI_STATUS_IGNORE);
}

/* ---- the table ------------------------------------------------------------------------- */

#define ROW(collective, name, run, most, ...)                                                      \
	{                                                                                          \
		&bb_##collective, name, {__VA_ARGS__},                                             \
			"the MPI library has no algorithm of that name for " #collective, run,     \
			most                                                                       \
	}

static const struct bb_mpi_row rows[] = {
	ROW(all_reduce, "MPI_Allreduce", all_reduce, NULL, BB_MPI_ALLREDUCE, NO_FUNCTION),
	ROW(all_gather, "MPI_Allgather", all_gather, whole, BB_MPI_ALLGATHER, NO_FUNCTION),
	ROW(reduce_scatter, "MPI_Reduce_scatter_block", reduce_scatter, whole,
	    BB_MPI_REDUCE_SCATTER_BLOCK, BB_MPI_REDUCE_SCATTER),
	ROW(broadcast, "MPI_Bcast", broadcast, NULL, BB_MPI_BCAST, NO_FUNCTION),
	ROW(reduce, "MPI_Reduce", reduce, NULL, BB_MPI_REDUCE, NO_FUNCTION),
	ROW(gather, "MPI_Gather", gather, whole, BB_MPI_GATHER, NO_FUNCTION),
	ROW(scatter, "MPI_Scatter", scatter, whole, BB_MPI_SCATTER, NO_FUNCTION),
	ROW(alltoall, "MPI_Alltoall", alltoall, whole, BB_MPI_ALLTOALL, NO_FUNCTION),
	ROW(alltoallv, "MPI_Alltoallv", alltoallv, row_or_column, BB_MPI_ALLTOALLV, NO_FUNCTION),
	ROW(sendrecv, "MPI_Sendrecv", sendrecv, whole, NO_FUNCTION, NO_FUNCTION),
};

/* The row of COLLECTIVE; NULL: the library has no such function. */
static const struct bb_mpi_row *mpi_row_find(const struct bb_collective *collective)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].collective == collective)
			return &rows[i];
	return NULL;
}

/* Value that forces NATIVE on *FUNCTION of ROW. 0: nothing is forced, and *FUNCTION is the one that
   ROW prefers. */
static int mpi_native_forces(const struct bb_native *native, const struct bb_mpi_row *row,
			     enum bb_mpi_function *function)
{
	const struct bb_mpi_forced *forced = native->own;

	for (int i = 0; forced && i < 2 && row->functions[i] != NO_FUNCTION; i++) {
		*function = row->functions[i];
		if (forced->value[*function] != 0)
			return forced->value[*function];
	}
	*function = row->functions[0];
	return 0;
}

static const char *mpi_native_refuses(const struct bb_native *native,
				      const struct bb_collective *collective)
{
	const struct bb_mpi_row *row = mpi_row_find(collective);
	enum bb_mpi_function function;

	if (!row)
		return "hypercube is an algorithm of its own; all_gather has native";
	if (native->own && !mpi_native_forces(native, row, &function))
		return row->lacks;
	return NULL;
}

static const char *mpi_native_refuses_group(const struct bb_native *native, int nranks)
{
	const struct bb_mpi_forced *forced = native->own;

	if (!forced)
		return NULL;
	if (nranks == 1)
		return "the MPI library uses no algorithm for a single rank";
	return forced->only_pairs && nranks != 2 ? "two_proc is for groups of two ranks" : NULL;
}

const struct bb_native bb_mpi_natives[] = {
	{.name = "native",
	 .brief = "the MPI library's own collective",
	 .refuses = mpi_native_refuses,
	 .refuses_group = mpi_native_refuses_group,
	 .discover = bb_mpi_discover},
	{.name = NULL},
};

/* ---- limits ----------------------------------------------------------------------------- */

/* Elements of a unit, so that the library's counts can express MOST elements. */
static size_t unit_for(size_t most)
{
	size_t unit = 1;

	while (most > unit * BB_MPI_MOST)
		unit *= 2;
	return unit;
}

/* ---- running ---------------------------------------------------------------------------- */

size_t bb_mpi_native_tmp_bytes(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_collective *c = call->collective;
	const int rank = group->port.me;

	if (bb_call_weighs(call, rank))
		return bb_call_in_bytes(call, rank);
	if (!call->shape.in_place)
		return 0;
	if (c == &bb_reduce_scatter)
		return call->shape.count * bb_dtype_size(call->dtype);
	return c == &bb_alltoallv ? bb_call_in_bytes(call, rank) : 0;
}

#define PIECE ((size_t)1 << 30)

bb_status bb_mpi_native(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_mpi_types *types = &group->port.rank->context->types;
	const struct bb_kernels *kernels = group->port.rank->context->cpu.kernels;
	const struct bb_mpi_prepared *prepared = call->prepared;
	const struct bb_mpi_row *row = prepared->row;
	const int me = group->port.me;
	const size_t element = bb_dtype_size(call->dtype);
	struct work w = {.group = group,
			 .call = call,
			 .in = call->in,
			 .out = call->out,
			 .in_place = call->shape.in_place,
			 .root = call->shape.root,
			 .me = me,
			 .unit = row->most ? unit_for(row->most(&call->shape, me)) : 1,
			 .type = types->type[call->dtype],
			 .op = types->op[call->dtype][call->op],
			 .comm = prepared->comm};
	size_t left = call->shape.count, n;
	bb_status status;
	int code = MPI_SUCCESS;

	if (bb_call_weighs(call, me)) {
		bb_cpu_weigh(kernels, call, me, call->tmp);
		w.in = call->tmp;
		w.in_place = false;
	}
	if (w.unit > 1) {
		BB_TRY(code, MPI_Type_contiguous((int)w.unit, w.type, &w.type), ran);
		code = MPI_Type_commit(&w.type);
	}
	while (code == MPI_SUCCESS) { /* in pieces, if the row may be cut */
		n = !row->most && left > BB_MPI_MOST ? PIECE : left;
		w.n = (bb_mpi_count)(n / w.unit);
		code = row->run(&w);
		left -= n;
		if (left == 0)
			break;
		w.in = (const char *)w.in + n * element;
		w.out = (char *)w.out + n * element;
	}
	if (w.unit > 1)
		MPI_Type_free(&w.type);
ran:
	status = bb_mpi_check(group->port.rank->context, row->name, code);
	if (status == BB_OK && bb_call_divides(call))
		bb_cpu_divide(kernels, call, me);
	return status;
}

#define CREATE_TAG 0
#define CHUNK_BYTES ((size_t)512 << 10)

/* ---- groups ------------------------------------------------------------------------------- */

/* A group has a communicator for the library's collectives, one for messages, and one more for each
   forced algorithm. */

static void mpi_comm_free(const struct bb_context *context, MPI_Comm *comm)
{
	const bool healthy =
		!bb_cpu_aborted(&context->cpu) && bb_error_status(context->cpu.error) == BB_OK;

	if (*comm != MPI_COMM_NULL && healthy)
		MPI_Comm_free(comm);
}

static void mpi_group_close(struct bb_group *group)
{
	struct bb_mpi_prepared *p, *next;

	if (!group)
		return;
	for (p = group->prepared; p; p = next) {
		next = p->next;
		mpi_comm_free(group->port.rank->context, &p->forced);
		free(p);
	}
	mpi_comm_free(group->port.rank->context, &group->messages);
	mpi_comm_free(group->port.rank->context, &group->comm);
	bb_port_close(&group->port);
	free(group->counts);
	free(group->offsets);
	free(group);
}

static bb_status mpi_group_open(struct bb_rank *rank, const int *members, int n,
				struct bb_group **group, struct bb_error *error)
{
	struct bb_context *context = rank->context;
	struct bb_group *g = calloc(1, sizeof(*g));
	MPI_Group world = MPI_GROUP_NULL, mine = MPI_GROUP_NULL;
	int code;
	bb_status status;

	if (!g)
		return bb_no_memory(error, "a group");
	g->comm = g->messages = MPI_COMM_NULL;
	g->window = MPI_WIN_NULL;
	g->counts = calloc(2 * (size_t)n, sizeof(*g->counts));
	g->offsets = calloc(2 * (size_t)n, sizeof(*g->offsets));
	BB_TRY(status,
	       bb_port_open(&g->port, &bb_mpi_port_calls, rank, context->hosts, members, n, error),
	       failed);
	if (!g->counts || !g->offsets)
		BB_TRY(status, bb_no_memory(error, "a group"), failed);
	g->crowded = context->cpu.crowded;
	BB_TRY(code, MPI_Comm_group(context->comm, &world), made);
	BB_TRY(code, MPI_Group_incl(world, n, members, &mine), made);
	BB_TRY(code, MPI_Comm_create_group(context->comm, mine, CREATE_TAG, &g->comm), made);
	BB_TRY(code, MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN), made);
	BB_TRY(code, MPI_Allreduce(MPI_IN_PLACE, &g->crowded, 1, MPI_INT, MPI_MAX, g->comm), made);
	code = MPI_Comm_dup(g->comm, &g->messages);
made:
	if (mine != MPI_GROUP_NULL)
		MPI_Group_free(&mine);
	if (world != MPI_GROUP_NULL)
		MPI_Group_free(&world);
	BB_TRY(status, bb_mpi_check(context, "MPI_Comm_create_group", code), failed);
	*group = g;
	return BB_OK;
failed:
	mpi_group_close(g);
	return status;
}

/* Uses the communicator of messages, which no collective of a queue uses. */
static bb_status mpi_barrier(struct bb_group *group)
{
	struct bb_context *context = group->port.rank->context;

	if (bb_cpu_aborted(&context->cpu))
		return BB_ETIMEOUT;
	return bb_mpi_check(context, "MPI_Barrier", MPI_Barrier(group->messages));
}

/* ---- preparing calls ----------------------------------------------------------------- */

static bb_status mpi_choose(struct bb_group *group, struct bb_call *call)
{
	call->native = NULL;
	call->schedule = NULL;
	if (!mpi_native_refuses(&bb_mpi_natives[0], call->collective))
		call->native = &bb_mpi_natives[0];
	else /* a collective that is an algorithm of its own */
		call->schedule = bb_algorithm_find(call->collective, call->collective->name);
	return call->native || call->schedule ? BB_OK : BB_EUNSUPPORTED;
}

static bb_status mpi_tune(struct bb_group *group, struct bb_call *call)
{
	struct bb_context *context = group->port.rank->context;
	const struct bb_native *native = call->native;
	const struct bb_mpi_row *row = mpi_row_find(call->collective);
	struct bb_mpi_prepared *p = group->prepared;
	int value, code = MPI_SUCCESS;

	call->shape.chunk = CHUNK_BYTES / bb_dtype_size(call->dtype);
	if (!native || !row)
		return BB_OK;
	while (p && (p->native != native || p->row != row))
		p = p->next;
	call->prepared = p;
	if (p)
		return BB_OK;
	call->prepared = p = calloc(1, sizeof(*p));
	if (!p)
		return bb_no_memory(context->cpu.error, "an algorithm");
	*p = (struct bb_mpi_prepared){.next = group->prepared,
				      .native = native,
				      .row = row,
				      .forced = MPI_COMM_NULL,
				      .comm = group->comm};
	group->prepared = p;
	value = mpi_native_forces(native, row, &p->function);
	if (value) {
		code = bb_mpi_force(&context->controls, group->comm, p->function, value, &p->forced,
				    &p->reason);
		p->comm = p->forced;
	}
	return bb_mpi_check(context, "MPI_Comm_dup", code);
}

static const char *mpi_refuses(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_mpi_prepared *p = call->prepared;
	const struct bb_shape *shape = &call->shape;
	const int n = shape->nranks;
	size_t most = 0, rest;

	if (!call->native)
		return NULL;
	if (!p || p->reason)
		return p ? p->reason : "tune was not called";
	if (!BB_MPI_REDUCES_IN_PLACE_ANYWHERE && call->collective == &bb_reduce &&
	    shape->in_place && shape->root != 0 && call->op != BB_MULSUM)
		return "MPICH before 4.1.2 crashes with MPI_IN_PLACE at a root other than 0";
	for (int r = 0; p->row->most && r < (shape->matrix ? n : 1); r++)
		most = p->row->most(shape, r) > most ? p->row->most(shape, r) : most;
	if (most <= BB_MPI_MOST)
		return NULL;
	if (call->collective->flags & BB_REDUCES)
		return "this MPI counts in ints: at most 2147483647 elements per rank";
	rest = shape->matrix ? 0 : shape->count % unit_for(most);
	for (int r = 0; shape->matrix && r < n; r++)
		for (int s = 0; s < n; s++)
			rest |= bb_alltoall_count(shape, r, s) % unit_for(most);
	if (rest != 0)
		return "this MPI counts in ints: more than 2147483647 elements must divide into "
		       "equal units";
	return NULL;
}

/* ---- opening ---------------------------------------------------------------------------- */

/* All collective parts of opening: clocks, hosts, and the processes that share this one's cores.
   Returns an MPI code, which BB_TRY takes, too: MPI_SUCCESS is 0. */
static int open_together(struct bb_context *c)
{
	const int mine = c->cpu.machine->cores[0].pu, cores = c->cpu.machine->ncores;
	int *pus = NULL, me, code, lowest = c->cpu.world.proc;
	MPI_Comm host = MPI_COMM_NULL;

	BB_TRY(code, MPI_Comm_dup(MPI_COMM_WORLD, &c->comm), out);
	BB_TRY(code, MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN), out);
	BB_TRY(code, MPI_Comm_split_type(c->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
	       out);
	MPI_Comm_size(host, &c->cpu.ranks);
	MPI_Comm_rank(host, &me);
	BB_TRY(code, MPI_Bcast(&lowest, 1, MPI_INT, 0, host), out);
	BB_TRY(code, MPI_Allgather(&lowest, 1, MPI_INT, c->hosts, 1, MPI_INT, c->comm), out);
	pus = calloc((size_t)c->cpu.ranks, sizeof(*pus));
	BB_TRY(code, pus ? MPI_SUCCESS : MPI_ERR_NO_MEM, out);
	BB_TRY(code, MPI_Allgather(&mine, 1, MPI_INT, pus, 1, MPI_INT, host), out);
	for (int i = 0; i < c->cpu.ranks; i++) {
		c->place += i < me && pus[i] == mine;
		c->sharing += pus[i] == mine;
	}
	c->cpu.crowded = c->sharing > cores;
	c->cpu.cores = c->cpu.crowded ? c->cpu.ranks / c->sharing * cores : c->cpu.ranks;
	code = bb_mpi_compare_clocks(c);
out:
	free(pus);
	if (host != MPI_COMM_NULL)
		MPI_Comm_free(&host);
	return code;
}

/* All parts of opening that are not collective. C may be NULL. */
static bb_status open_alone(struct bb_context *c, const struct bb_world *world,
			    const struct bb_backend_config *config, struct bb_error *error)
{
	int level = MPI_THREAD_SINGLE;
	bb_status status;

	if (!c)
		return bb_no_memory(error, "the mpi backend");
	c->comm = MPI_COMM_NULL;
	c->cpu.run = bb_port_run;
	c->cpu.pass = bb_port_pass;
	BB_TRY(status, bb_cpu_open(&c->cpu, world, config, error), out);
	MPI_Query_thread(&level);
	c->threads = level == MPI_THREAD_MULTIPLE;
	c->hosts = calloc((size_t)world->nprocs, sizeof(*c->hosts));
	if (!c->hosts)
		status = bb_no_memory(error, "processes");
out:
	return status;
}

/*
 * Collective calls begin only after every process is ready. All return the status of the lowest
 * process whose MINE is not BB_OK, and report its cause unless they have one of their own.
 */
static bb_status agree(bb_status mine, const struct bb_world *world, struct bb_error *error)
{
	struct {
		bb_status status;
		char text[sizeof(error->text)];
	} cause = {.status = mine};
	int failed = mine == BB_OK ? world->nprocs : world->proc, first = world->nprocs;

	if (MPI_Allreduce(&failed, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS)
		return bb_fail(error, BB_EBACKEND, "rank %d: MPI_Allreduce failed", world->proc);
	if (first == world->nprocs)
		return BB_OK;
	if (first == world->proc)
		memcpy(cause.text, error->text, sizeof(cause.text));
	if (MPI_Bcast(&cause, (int)sizeof(cause), MPI_BYTE, first, MPI_COMM_WORLD) != MPI_SUCCESS)
		return bb_fail(error, BB_EBACKEND, "rank %d: MPI_Bcast failed", world->proc);
	return bb_fail(error, cause.status, "rank %d: %s", first, cause.text);
}

static void mpi_close(struct bb_context *context)
{
	bb_mpi_controls_close(&context->controls);
	bb_mpi_types_close(&context->types);
	mpi_comm_free(context, &context->comm);
	bb_cpu_close(&context->cpu);
	free(context->hosts);
	free(context);
}

static bb_status mpi_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	int started, ended, size;
	bb_status status;

	if (MPI_Initialized(&started) != MPI_SUCCESS || !started ||
	    MPI_Finalized(&ended) != MPI_SUCCESS || ended)
		return bb_fail(error, BB_EBACKEND, "the mpi backend needs MPI to be running");
	if (MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || size != world->nprocs ||
	    world->nlocal != 1)
		return bb_fail(error, BB_EBACKEND,
			       "on the mpi backend a rank is a process; %d ranks cannot run in %d "
			       "processes",
			       world->nranks, world->nprocs);
	struct bb_context *c = calloc(1, sizeof(*c));
	BB_TRY(status, agree(open_alone(c, world, config, error), world, error), failed);
	BB_TRY(status, bb_mpi_check(c, "comparing hosts", open_together(c)), failed);
	BB_TRY(status,
	       bb_mpi_check(c, "MPI_Op_create",
			    bb_mpi_types_open(&c->types, c->cpu.kernels, c->comm)),
	       failed);
	*context = c;
	return BB_OK;
failed:
	if (c)
		mpi_close(c);
	return status;
}

/* ---- the process and its memory --------------------------------------------------------- */

/* A bound process is on its core; unbound ones are assumed to spread over their cores. */
static bb_status mpi_attach(struct bb_context *context, int local, struct bb_rank **rank,
			    struct bb_location *location, struct bb_error *error)
{
	const struct bb_context *c = context;
	const int cores = c->cpu.machine->ncores;
	const int place = c->cpu.crowded ? (int)((int64_t)c->place * cores / c->sharing) : c->place;
	struct bb_rank *r = calloc(1, sizeof(*r));

	if (!r)
		return bb_no_memory(error, "a rank");
	r->context = context;
	r->rank = context->cpu.world.first_rank;
	bb_cpu_locate(&c->cpu, place, cores == 1 ? "" : " (not bound)", location);
	*rank = r;
	return BB_OK;
}

static void mpi_detach(struct bb_rank *rank)
{
	while (rank && rank->shared)
		bb_mpi_unshare(rank, rank->shared->memory, 1);
	free(rank);
}

static void mpi_release(struct bb_rank *rank, void *memory, size_t bytes)
{
	bb_mpi_unshare(rank, memory, bytes);
	bb_cpu_release(rank, memory, bytes);
}

static bb_status mpi_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				struct bb_error *error)
{
	if (!rank->context->threads)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "queues need an MPI with MPI_THREAD_MULTIPLE");
	return bb_cpu_queue_open(rank, queue, error);
}

const struct bb_backend bb_plugin_backend = {
	BB_CPU_ENTRIES,
	.abi = BB_BACKEND_ABI,
	.name = "mpi",
	.brief = "ranks are processes, over an MPI library",
	.has_data = true,
	.in_processes = true,
	.natives = bb_mpi_natives,
	.open = mpi_open,
	.close = mpi_close,
	.max_local = 1,
	.attach = mpi_attach,
	.detach = mpi_detach,
	.release = mpi_release,
	.group_open = mpi_group_open,
	.group_close = mpi_group_close,
	.barrier = mpi_barrier,
	.choose = mpi_choose,
	.tune = mpi_tune,
	.refuses = mpi_refuses,
	.tmp_bytes = bb_port_tmp_bytes,
	.cost_bytes = bb_port_cost_bytes,
	.queue_open = mpi_queue_open,
	.clocks = &bb_mpi_clocks,
	.routes = &bb_mpi_routes,
};
