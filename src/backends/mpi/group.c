/*
 * Groups and their communicators. A group has one for the library's collectives, one for messages,
 * and one more for each forced algorithm.
 */
#include "backends/mpi/mpi.h"

#include <stdlib.h>

#define CREATE_TAG 0
#define CHUNK_BYTES ((size_t)512 << 10)

/* ---- opening and closing ---------------------------------------------------------------- */

void bb_mpi_comm_free(const struct bb_context *context, MPI_Comm *comm)
{
	const bool healthy =
		!bb_cpu_aborted(&context->cpu) && bb_error_status(context->cpu.error) == BB_OK;

	if (*comm != MPI_COMM_NULL && healthy)
		MPI_Comm_free(comm);
}

static int make_comms(struct bb_context *context, const int *members, int n, struct bb_group *g)
{
	MPI_Group world, group;
	int code = MPI_Comm_group(context->comm, &world);

	if (code != MPI_SUCCESS)
		return code;
	code = MPI_Group_incl(world, n, members, &group);
	MPI_Group_free(&world);
	if (code != MPI_SUCCESS)
		return code;
	code = MPI_Comm_create_group(context->comm, group, CREATE_TAG, &g->comm);
	MPI_Group_free(&group);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN);
	g->crowded = context->cpu.crowded;
	if (code == MPI_SUCCESS)
		code = MPI_Allreduce(MPI_IN_PLACE, &g->crowded, 1, MPI_INT, MPI_MAX, g->comm);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_dup(g->comm, &g->messages);
	return code;
}

bb_status bb_mpi_group_open(struct bb_rank *rank, const int *members, int n,
			    struct bb_group **group, struct bb_error *error)
{
	struct bb_context *context = rank->context;
	struct bb_group *g = calloc(1, sizeof(*g));
	bb_status status;

	if (!g)
		return bb_no_memory(error, "a group");
	g->comm = g->messages = MPI_COMM_NULL;
	g->window = MPI_WIN_NULL;
	g->counts = calloc(2 * (size_t)n, sizeof(*g->counts));
	g->offsets = calloc(2 * (size_t)n, sizeof(*g->offsets));
	status =
		bb_port_open(&g->port, &bb_mpi_port_calls, rank, context->hosts, members, n, error);
	if (status == BB_OK && (!g->counts || !g->offsets))
		status = bb_no_memory(error, "a group");
	if (status == BB_OK)
		status = bb_mpi_check(context, "MPI_Comm_create_group",
				      make_comms(context, members, n, g));
	if (status == BB_OK)
		*group = g;
	else
		bb_mpi_group_close(g);
	return status;
}

void bb_mpi_group_close(struct bb_group *group)
{
	struct bb_mpi_prepared *p, *next;

	if (!group)
		return;
	for (p = group->prepared; p; p = next) {
		next = p->next;
		bb_mpi_comm_free(group->port.rank->context, &p->forced);
		free(p);
	}
	bb_mpi_comm_free(group->port.rank->context, &group->messages);
	bb_mpi_comm_free(group->port.rank->context, &group->comm);
	bb_port_close(&group->port);
	free(group->counts);
	free(group->offsets);
	free(group);
}

/* Uses the communicator of messages, which no collective of a queue uses. */
bb_status bb_mpi_barrier(struct bb_group *group)
{
	struct bb_context *context = group->port.rank->context;

	if (bb_cpu_aborted(&context->cpu))
		return BB_ETIMEOUT;
	return bb_mpi_check(context, "MPI_Barrier", MPI_Barrier(group->messages));
}

/* ---- preparing calls ----------------------------------------------------------------- */

/* Collective over the group. Returns an MPI code. */
static int force(struct bb_group *group, struct bb_mpi_prepared *p, int value)
{
	int code;

	p->reason = bb_mpi_native_refuses_group(p->native, group->port.n);
	if (p->reason)
		return MPI_SUCCESS;
	code = bb_mpi_force(&group->port.rank->context->controls, group->comm, p->function, value,
			    &p->forced, &p->reason);
	p->comm = p->forced;
	return code;
}

static bb_status add_prepared(struct bb_group *group, const struct bb_native *native,
			      const struct bb_mpi_row *row)
{
	struct bb_context *context = group->port.rank->context;
	struct bb_mpi_prepared *p = calloc(1, sizeof(*p));
	int value;

	if (!p)
		return bb_no_memory(context->cpu.error, "an algorithm");
	*p = (struct bb_mpi_prepared){.next = group->prepared,
				      .native = native,
				      .row = row,
				      .forced = MPI_COMM_NULL,
				      .comm = group->comm};
	group->prepared = p;
	value = bb_mpi_native_forces(native, row, &p->function);
	return bb_mpi_check(context, "MPI_Comm_dup", value ? force(group, p, value) : MPI_SUCCESS);
}

static const struct bb_mpi_prepared *find_prepared(const struct bb_group *group,
						   const struct bb_native *native,
						   const struct bb_mpi_row *row)
{
	const struct bb_mpi_prepared *p = group->prepared;

	while (p && (p->native != native || p->row != row))
		p = p->next;
	return p;
}

bb_status bb_mpi_choose(struct bb_group *group, struct bb_call *call)
{
	call->native = NULL;
	call->schedule = NULL;
	if (!bb_mpi_native_refuses(&bb_mpi_natives[0], call->collective))
		call->native = &bb_mpi_natives[0];
	else /* a collective that is an algorithm of its own */
		call->schedule = bb_algorithm_find(call->collective, call->collective->name);
	return call->native || call->schedule ? BB_OK : BB_EUNSUPPORTED;
}

bb_status bb_mpi_tune(struct bb_group *group, struct bb_call *call)
{
	const struct bb_mpi_row *row = bb_mpi_row_find(call->collective);
	bb_status status = BB_OK;

	call->shape.chunk = CHUNK_BYTES / bb_dtype_size(call->dtype);
	if (!call->native || !row)
		return BB_OK;
	if (!find_prepared(group, call->native, row))
		status = add_prepared(group, call->native, row);
	call->prepared = find_prepared(group, call->native, row);
	return status;
}

const char *bb_mpi_refuses(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_mpi_prepared *p = call->prepared;
	const char *reason;

	if (!call->native)
		return call->schedule->refuses ? call->schedule->refuses(&call->shape) : NULL;
	reason = bb_mpi_native_refuses(call->native, call->collective);
	if (!reason)
		reason = p ? p->reason : "tune was not called";
	return reason ? reason : bb_mpi_native_limits(call);
}
