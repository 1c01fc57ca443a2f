/*
 * Routes between two ranks: messages, and access of one end to the other's memory through a window.
 * library.c finds out how the library does it within a host.
 */
#include "backends/mpi/mpi.h"

#include "core/array.h"
#include "core/clock.h"

#include <stdlib.h>
#include <string.h>

#define MOST ((size_t)1 << 30) /* bytes of one call: its count is an int */

enum route_kind { SEND, GET, PUT, MESSAGE };

static const struct bb_route routes[] = {
	[SEND] = {.name = "send",
		  .brief = "MPI_Isend and MPI_Irecv",
		  .uses = BB_ROUTE_TRANSFER,
		  .actor = BB_BY_BOTH,
		  .direct = true,
		  .switched = true,
		  .batches = true},
	[GET] = {.name = "get",
		 .brief = "MPI_Get: the target reads the source's window",
		 .uses = BB_ROUTE_TRANSFER,
		 .actor = BB_BY_TARGET,
		 .direct = true},
	[PUT] = {.name = "put",
		 .brief = "MPI_Put: the source writes the target's window",
		 .uses = BB_ROUTE_TRANSFER,
		 .actor = BB_BY_SOURCE,
		 .direct = true},
	[MESSAGE] = {.name = "message",
		     .brief = "a small message, which never uses a single copy",
		     .uses = BB_ROUTE_PING,
		     .actor = BB_BY_BOTH},
	{.name = NULL},
};

static enum route_kind route_kind_of(const struct bb_route *route)
{
	return (enum route_kind)(route - routes);
}

/* ---- windows ----------------------------------------------------------------------------- */

static bb_status route_share(struct bb_rank *rank, void *memory, size_t bytes,
			     struct bb_token *token)
{
	struct bb_mpi_shared *s = calloc(1, sizeof(*s));
	MPI_Aint address;

	if (!s)
		return bb_no_memory(rank->context->error, "a rank");
	*s = (struct bb_mpi_shared){rank->shared, memory, bytes};
	rank->shared = s;
	MPI_Get_address(memory, &address);
	memset(token, 0, sizeof(*token));
	memcpy(token->bytes, &address, sizeof(address));
	return BB_OK;
}

void bb_mpi_unshare(struct bb_rank *rank, const void *memory, size_t bytes)
{
	struct bb_mpi_shared **link = &rank->shared, *s;

	while ((s = *link) != NULL) {
		if (s->memory < (const char *)memory || s->memory >= (const char *)memory + bytes) {
			link = &s->next;
			continue;
		}
		*link = s->next;
		free(s);
	}
}

/* Open a window to all memory that this rank shares. If the library or network has none, GROUP has
   no window, on all members alike. Returns an MPI code. */
static int open_window(struct bb_group *group)
{
	MPI_Comm comm = group->port.comm;
	int mine, all = 0;
	int code = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &group->window);

	if (code != MPI_SUCCESS)
		group->window = MPI_WIN_NULL;
	else
		code = MPI_Win_set_errhandler(group->window, MPI_ERRORS_RETURN);
	for (const struct bb_mpi_shared *s = group->rank->shared; s && code == MPI_SUCCESS;
	     s = s->next)
		code = MPI_Win_attach(group->window, s->memory, (MPI_Aint)s->bytes);
	mine = code == MPI_SUCCESS;
	code = MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
	group->windowed = all;
	if (code == MPI_SUCCESS && all)
		code = MPI_Win_lock_all(MPI_MODE_NOCHECK, group->window);
	return code;
}

static void close_window(struct bb_group *group)
{
	MPI_Win_unlock_all(group->window);
	for (const struct bb_mpi_shared *s = group->rank->shared; s; s = s->next)
		MPI_Win_detach(group->window, s->memory);
	MPI_Win_free(&group->window);
}

static bb_status route_reach(struct bb_group *group, int peer, const struct bb_token *token,
			     void **theirs, struct bb_error *error)
{
	bb_status status = BB_OK;
	MPI_Aint address;

	if (group->reached++ == 0)
		status = bb_mpi_check(group->rank->context, "opening a window", open_window(group));
	memcpy(&address, token->bytes, sizeof(address));
	*theirs = group->windowed ? (void *)address : NULL;
	return status;
}

/* The last one closes the window. */
static void route_unreach(struct bb_group *group, int peer, void *theirs)
{
	if (theirs && --group->reached == 0)
		close_window(group);
}

static const char *route_refuses(struct bb_group *group, const struct bb_route *route, int peer)
{
	const enum route_kind kind = route_kind_of(route);

	if (kind == SEND || kind == MESSAGE)
		return peer == group->me ? "a rank sends no messages to itself" : NULL;
	if (group->one_host && !group->rank->context->found.p2p)
		return group->rank->context->found.why;
	return group->windowed ? NULL : "the MPI library has no dynamic window for these ranks";
}

/* ---- a slow link ------------------------------------------------------------------------- */

static double slowness(const struct bb_group *group, int from, int to)
{
	return bb_route_slowness(&group->rank->context->config, group->members[from],
				 group->members[to]);
}

/* Delay a transfer FROM … TO that began at START by the slowness of its link. */
static void slow_down(const struct bb_group *group, int from, int to, double start)
{
	const double slow = slowness(group, from, to);

	if (slow > 0)
		bb_clock_pause(slow * (bb_clock_now() - start), &group->rank->context->cpu.aborted);
}

/* ---- transfers --------------------------------------------------------------------------- */

/* Bytes of one call, from AT on. */
static int part(size_t bytes, size_t at)
{
	return (int)(bytes - at < MOST ? bytes - at : MOST);
}

/* Waits for REQUEST, or leaves that to the end of the batch. */
static bb_status complete(struct bb_group *group, MPI_Request request)
{
	struct bb_mpi_batch *batch = &group->batch;
	MPI_Request *kept;

	if (request == MPI_REQUEST_NULL)
		return BB_OK;
	if (!batch->open)
		return bb_mpi_await(&group->port, &request, MPI_STATUS_IGNORE);
	kept = BB_ARRAY_ADD(batch->requests, batch->n, batch->room);
	if (!kept)
		return bb_no_memory(group->rank->context->error, "a batch");
	*kept = request;
	return BB_OK;
}

static bb_status exchange(struct bb_group *group, int peer, const struct bb_half *out,
			  const struct bb_half *in)
{
	struct bb_mpi_port *port = &group->port;
	bb_status status = BB_OK;

	for (size_t at = 0; (at < out->bytes || at < in->bytes) && status == BB_OK; at += MOST) {
		MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
		int code = MPI_SUCCESS;

		if (at < in->bytes)
			code = MPI_Irecv((char *)in->mine + at, part(in->bytes, at), MPI_BYTE, peer,
					 0, port->comm, &requests[0]);
		if (at < out->bytes && code == MPI_SUCCESS)
			code = MPI_Isend((const char *)out->mine + at, part(out->bytes, at),
					 MPI_BYTE, peer, 0, port->comm, &requests[1]);
		status = bb_mpi_check(port->context, "MPI_Isend or MPI_Irecv", code);
		for (int i = 0; i < 2 && status == BB_OK; i++)
			status = complete(group, requests[i]);
	}
	return status;
}

/* The acting end reads or writes the other's window. */
static bb_status work_on_window(struct bb_group *group, enum route_kind kind, int peer,
				const struct bb_half *half)
{
	const MPI_Aint there = (MPI_Aint)half->theirs;
	int code = MPI_SUCCESS;

	for (size_t at = 0; at < half->bytes && code == MPI_SUCCESS; at += MOST) {
		const int n = part(half->bytes, at);
		const MPI_Aint target = MPI_Aint_add(there, (MPI_Aint)at);
		char *const mine = (char *)half->mine + at;

		code = kind == GET ? MPI_Get(mine, n, MPI_BYTE, peer, target, n, MPI_BYTE,
					     group->window)
				   : MPI_Put(mine, n, MPI_BYTE, peer, target, n, MPI_BYTE,
					     group->window);
	}
	if (code == MPI_SUCCESS)
		code = MPI_Win_flush(peer, group->window);
	return bb_mpi_check(group->rank->context, kind == GET ? "MPI_Get" : "MPI_Put", code);
}

static bb_status route_transfer(struct bb_group *group, const struct bb_route *route, int peer,
				const struct bb_half *out, const struct bb_half *in)
{
	const enum route_kind kind = route_kind_of(route);
	const double start = bb_clock_now();
	bb_status status;

	if (kind == SEND)
		status = exchange(group, peer, out, in);
	else
		status = work_on_window(group, kind, peer, kind == GET ? in : out);
	if (kind != PUT && in->bytes > 0)
		slow_down(group, peer, group->me, start);
	if (kind == PUT && out->bytes > 0)
		slow_down(group, group->me, peer, start);
	return status;
}

static bb_status route_batch(struct bb_group *group, const struct bb_route *route, bool end)
{
	struct bb_mpi_batch *batch = &group->batch;
	bb_status status = BB_OK;

	batch->open = !end;
	for (size_t i = 0; i < batch->n && status == BB_OK; i++)
		status = bb_mpi_await(&group->port, &batch->requests[i], MPI_STATUS_IGNORE);
	batch->n = 0;
	return status;
}

/* ---- words ------------------------------------------------------------------------------- */

static bb_status route_ping(struct bb_group *group, const struct bb_route *route, int peer,
			    bool first, size_t rounds)
{
	static const struct bb_half nothing = {.bytes = 0};
	uint64_t word = 0;
	const struct bb_half half = {.mine = &word, .bytes = sizeof(word)};
	const double start = bb_clock_now();
	bb_status status = BB_OK;
	double one_way;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			status = exchange(group, peer, &half, &nothing);
		if (status == BB_OK)
			status = exchange(group, peer, &nothing, &half);
		if (status == BB_OK && !first)
			status = exchange(group, peer, &half, &nothing);
	}
	one_way = 0.5 * (bb_clock_now() - start);
	bb_clock_pause((slowness(group, group->me, peer) + slowness(group, peer, group->me)) *
			       one_way,
		       &group->rank->context->cpu.aborted);
	return status;
}

const struct bb_routes bb_mpi_routes = {
	.list = routes,
	.library = &bb_mpi_route_switch,
	.refuses = route_refuses,
	.share = route_share,
	.reach = route_reach,
	.unreach = route_unreach,
	.transfer = route_transfer,
	.batch = route_batch,
	.ping = route_ping,
};
