/*
 * Routes between two ranks: messages, and access of one end to the other's memory through a window.
 * library.c finds out how the library does it within a host.
 */
#include "backends/mpi/mpi.h"

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
		return bb_no_memory(rank->context->cpu.error, "a rank");
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
	MPI_Comm comm = group->messages;
	int mine, all = 0;
	int code = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &group->window);

	if (code != MPI_SUCCESS)
		group->window = MPI_WIN_NULL;
	else
		code = MPI_Win_set_errhandler(group->window, MPI_ERRORS_RETURN);
	for (const struct bb_mpi_shared *s = group->port.rank->shared; s && code == MPI_SUCCESS;
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
	for (const struct bb_mpi_shared *s = group->port.rank->shared; s; s = s->next)
		MPI_Win_detach(group->window, s->memory);
	MPI_Win_free(&group->window);
}

static bb_status route_reach(struct bb_group *group, int peer, const struct bb_token *token,
			     void **theirs, struct bb_error *error)
{
	bb_status status = BB_OK;
	MPI_Aint address;

	if (group->reached++ == 0)
		status = bb_mpi_check(group->port.rank->context, "opening a window",
				      open_window(group));
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
		return peer == group->port.me ? "a rank sends no messages to itself" : NULL;
	if (group->port.one_host && !group->port.rank->context->found.p2p)
		return group->port.rank->context->found.why;
	return group->windowed ? NULL : "the MPI library has no dynamic window for these ranks";
}

/* ---- transfers --------------------------------------------------------------------------- */

/* The acting end reads or writes the other's window. */
static bb_status work_on_window(struct bb_group *group, enum route_kind kind, int peer,
				const struct bb_half *half)
{
	const MPI_Aint there = (MPI_Aint)half->theirs;
	int code = MPI_SUCCESS;

	for (size_t at = 0; at < half->bytes && code == MPI_SUCCESS; at += MOST) {
		const size_t left = half->bytes - at;
		const int n = (int)(left < MOST ? left : MOST);
		const MPI_Aint target = MPI_Aint_add(there, (MPI_Aint)at);
		char *const mine = (char *)half->mine + at;

		code = kind == GET ? MPI_Get(mine, n, MPI_BYTE, peer, target, n, MPI_BYTE,
					     group->window)
				   : MPI_Put(mine, n, MPI_BYTE, peer, target, n, MPI_BYTE,
					     group->window);
	}
	if (code == MPI_SUCCESS)
		code = MPI_Win_flush(peer, group->window);
	return bb_mpi_check(group->port.rank->context, kind == GET ? "MPI_Get" : "MPI_Put", code);
}

static bb_status route_transfer(struct bb_group *group, const struct bb_route *route, int peer,
				const struct bb_half *out, const struct bb_half *in)
{
	const enum route_kind kind = route_kind_of(route);
	const struct bb_half *half = kind == GET ? in : out;
	const int me = group->port.me;
	const double start = bb_clock_now();
	bb_status status;

	if (kind == SEND)
		return bb_port_transfer(group, route, peer, out, in);
	status = work_on_window(group, kind, peer, half);
	if (half->bytes > 0)
		bb_port_slow_down(group, kind == GET ? peer : me, kind == GET ? me : peer, start);
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
	.batch = bb_port_batch,
	.ping = bb_port_ping,
};
