/*
 * Messages of schedules and queues, on a communicator of their own; a channel is a tag. Waits are
 * loops of tests, so that they notice an abandoned run. With open queues, which share the process's
 * cores, they sleep between tests.
 */
#include "backends/mpi/mpi.h"

#include "backends/cpu/port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Pieces of a message that is reduced: on one host some of them stay in the cache; where processes
 * share cores each piece may wait until its sender runs, and over a network short pieces cost too
 * much. Other messages are cut only at the limit of MPI's counts.
 */
#define PIECE_BYTES ((size_t)128 << 10)
#define CROWDED_PIECE_BYTES ((size_t)256 << 10)
#define FAR_PIECE_BYTES ((size_t)512 << 10)
#define MOST ((size_t)1 << 30) /* bytes of one call: its count is an int */

#define TESTS 1000 /* between two checks for an abandoned run */
/* Where queues are open, between two tests; longer where processes share cores. */
#define NAP_NS 20000L
#define CROWDED_NAP_NS 100000L

_Static_assert(sizeof(MPI_Request) <= sizeof(union bb_request), "a request of MPI fits");

static size_t piece_of(const struct bb_group *group, const struct bb_call *call)
{
	if (!(call->collective->flags & BB_REDUCES))
		return MOST;
	if (!group->port.one_host)
		return FAR_PIECE_BYTES;
	return group->crowded ? CROWDED_PIECE_BYTES : PIECE_BYTES;
}

/* With MPI_Isend a message of a queue would be done once the library has buffered it. */
static bb_status message_start(struct bb_group *group, bool sends, int peer, int channel,
			       void *data, size_t bytes, union bb_request *request)
{
	struct bb_context *context = group->port.rank->context;
	MPI_Request *const started = (MPI_Request *)request;
	const int n = (int)bytes, source = peer == BB_PORT_ANY ? MPI_ANY_SOURCE : peer;

	if (bytes > INT_MAX)
		return bb_fail(context->cpu.error, BB_EUNSUPPORTED,
			       "a piece of a message has %zu bytes, more than MPI can count",
			       bytes);
	const int code =
		!sends ? MPI_Irecv(data, n, MPI_BYTE, source, channel, group->messages, started)
		: channel == BB_PORT_QUEUES
			? MPI_Issend(data, n, MPI_BYTE, peer, channel, group->messages, started)
			: MPI_Isend(data, n, MPI_BYTE, peer, channel, group->messages, started);
	return bb_mpi_check(context, sends ? "MPI_Isend" : "MPI_Irecv", code);
}

static bb_status message_wait(struct bb_group *group, bool sends, union bb_request *request,
			      size_t bytes, int *peer)
{
	struct bb_context *context = group->port.rank->context;
	const struct timespec nap = {.tv_nsec = context->cpu.crowded ? CROWDED_NAP_NS : NAP_NS};
	MPI_Status message;
	int done, length;

	for (unsigned i = 1;; i++) {
		const int code = MPI_Test((MPI_Request *)request, &done, &message);

		if (code != MPI_SUCCESS)
			return bb_mpi_check(context, "MPI_Test", code);
		if (done)
			break;
		if (i % TESTS == 0 && bb_cpu_aborted(&context->cpu))
			return BB_ETIMEOUT;
		if (i >= TESTS &&
		    atomic_load_explicit(&context->cpu.queues, memory_order_relaxed) > 0)
			nanosleep(&nap, NULL);
	}
	if (sends)
		return BB_OK;
	if (peer)
		*peer = message.MPI_SOURCE;
	if (MPI_Get_count(&message, MPI_BYTE, &length) == MPI_SUCCESS && (size_t)length == bytes)
		return BB_OK;
	return bb_fail(context->cpu.error, BB_EINTERNAL,
		       "rank %d: expected a message of %zu bytes, received another length",
		       context->cpu.world.proc, bytes);
}

const struct bb_port_calls bb_mpi_port_calls = {
	.start = message_start,
	.wait = message_wait,
	.piece = piece_of,
	.native = bb_mpi_native,
	.native_tmp_bytes = bb_mpi_native_tmp_bytes,
};

/* ---- routes -------------------------------------------------------------------------- */

/*
 * Routes between two ranks: messages, and access of one end to the other's memory through a window.
 * forced.c finds out how the library does it within a host.
 */

enum { SEND, GET, PUT, MESSAGE };

static const struct bb_route routes[] = {
	[SEND] = {"send", "MPI_Isend and MPI_Irecv", BB_ROUTE_TRANSFER, BB_BY_BOTH, .direct = true,
		  .switched = true, .batches = true},
	[GET] = {"get", "MPI_Get: the target reads the source's window", BB_ROUTE_TRANSFER,
		 BB_BY_TARGET, .direct = true},
	[PUT] = {"put", "MPI_Put: the source writes the target's window", BB_ROUTE_TRANSFER,
		 BB_BY_SOURCE, .direct = true},
	[MESSAGE] = {"message", "a small message, which never uses a single copy", BB_ROUTE_PING,
		     BB_BY_BOTH, .direct = false},
	{.name = NULL},
};

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
	if (!theirs || --group->reached > 0)
		return;
	MPI_Win_unlock_all(group->window);
	for (const struct bb_mpi_shared *s = group->port.rank->shared; s; s = s->next)
		MPI_Win_detach(group->window, s->memory);
	MPI_Win_free(&group->window);
}

static const char *route_refuses(struct bb_group *group, const struct bb_route *route, int peer)
{
	if (route == &routes[SEND] || route == &routes[MESSAGE])
		return peer == group->port.me ? "a rank sends no messages to itself" : NULL;
	if (group->port.one_host && !group->port.rank->context->found.p2p)
		return group->port.rank->context->found.why;
	return group->windowed ? NULL : "the MPI library has no dynamic window for these ranks";
}

/* ---- transfers --------------------------------------------------------------------------- */

/* Over a window the acting end reads or writes the other's memory. */
static bb_status route_transfer(struct bb_group *group, const struct bb_route *route, int peer,
				const struct bb_half *out, const struct bb_half *in)
{
	const bool gets = route == &routes[GET];
	const struct bb_half *half = gets ? in : out;
	int code = MPI_SUCCESS;

	if (route == &routes[SEND])
		return bb_port_transfer(group, route, peer, out, in);
	for (size_t at = 0; at < half->bytes && code == MPI_SUCCESS; at += MOST) {
		const int n = (int)(half->bytes - at < MOST ? half->bytes - at : MOST);
		const MPI_Aint there = MPI_Aint_add((MPI_Aint)half->theirs, (MPI_Aint)at);
		char *const mine = (char *)half->mine + at;

		code = gets ? MPI_Get(mine, n, MPI_BYTE, peer, there, n, MPI_BYTE, group->window)
			    : MPI_Put(mine, n, MPI_BYTE, peer, there, n, MPI_BYTE, group->window);
	}
	if (code == MPI_SUCCESS)
		code = MPI_Win_flush(peer, group->window);
	return bb_mpi_check(group->port.rank->context, gets ? "MPI_Get" : "MPI_Put", code);
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

/* ---- clocks -------------------------------------------------------------------------- */

/*
 * Differences of the processes' clocks.
 */

#define CLOCK_TAG 1

int bb_mpi_compare_clocks(struct bb_context *context)
{
	char mine[BB_CLOCK_NAME], first[sizeof(mine)];
	const bool named = bb_clock_identify(mine);
	int same, all = 0, code;

	memcpy(first, mine, sizeof(mine));
	BB_TRY(code, MPI_Bcast(first, sizeof(first), MPI_BYTE, 0, context->comm), out);
	same = named && memcmp(first, mine, sizeof(mine)) == 0;
	code = MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, context->comm);
	context->one_clock = all;
out:
	return code;
}

static bb_status pass_ping(struct bb_rank *rank, bool sends, int peer, void *data, size_t bytes)
{
	struct bb_context *context = rank->context;
	const int length = (int)bytes;

	return bb_mpi_check(context, "comparing clocks",
			    sends ? MPI_Send(data, length, MPI_BYTE, peer, CLOCK_TAG, context->comm)
				  : MPI_Recv(data, length, MPI_BYTE, peer, CLOCK_TAG, context->comm,
					     MPI_STATUS_IGNORE));
}

static bb_status clock_offset(struct bb_rank *rank, double *offset, double *uncertainty)
{
	return bb_clock_compare(rank, rank->context->one_clock, pass_ping, offset, uncertainty);
}

const struct bb_clocks bb_mpi_clocks = {.offset = clock_offset};
