/*
 * Messages for the executor, on a communicator of their own; a channel is a tag. Waits are loops of
 * tests, so that they notice an abandoned run. With open queues, which share the process's cores,
 * they sleep between tests.
 */
#include "backends/mpi/mpi.h"

#include "backends/cpu/clocks.h"
#include "core/clock.h"

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

/* Wait until REQUEST is done; BB_ETIMEOUT once the run is being abandoned. */
static bb_status mpi_await(struct bb_context *context, MPI_Request *request, MPI_Status *message)
{
	const struct timespec nap = {.tv_nsec = context->cpu.crowded ? CROWDED_NAP_NS : NAP_NS};
	int done, code;

	for (unsigned i = 1;; i++) {
		code = MPI_Test(request, &done, message);
		if (code != MPI_SUCCESS)
			return bb_mpi_check(context, "MPI_Test", code);
		if (done)
			return BB_OK;
		if (i % TESTS == 0 && bb_cpu_aborted(&context->cpu))
			return BB_ETIMEOUT;
		if (i >= TESTS &&
		    atomic_load_explicit(&context->cpu.queues, memory_order_relaxed) > 0)
			nanosleep(&nap, NULL);
	}
}

static size_t piece_of(const struct bb_group *group, const struct bb_call *call)
{
	if (!(call->collective->flags & BB_REDUCES))
		return MOST;
	if (!group->port.one_host)
		return FAR_PIECE_BYTES;
	return group->crowded ? CROWDED_PIECE_BYTES : PIECE_BYTES;
}

static bb_status start_message(struct bb_group *group, bool sends, int peer, int channel,
			       void *data, size_t bytes, union bb_request *request)
{
	struct bb_context *context = group->port.rank->context;

	if (bytes > INT_MAX)
		return bb_fail(context->cpu.error, BB_EUNSUPPORTED,
			       "a piece of a message has %zu bytes, more than MPI can count",
			       bytes);
	return bb_mpi_check(context, sends ? "MPI_Isend" : "MPI_Irecv",
			    sends ? MPI_Isend(data, (int)bytes, MPI_BYTE, peer, channel,
					      group->messages, (MPI_Request *)request)
				  : MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, channel,
					      group->messages, (MPI_Request *)request));
}

static bool is_taken(struct bb_group *group, union bb_request *request)
{
	int done;

	return MPI_Test((MPI_Request *)request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
}

static bb_status wait_message(struct bb_group *group, bool sends, union bb_request *request,
			      size_t bytes)
{
	MPI_Status message;
	int length;
	bb_status status = mpi_await(group->port.rank->context, (MPI_Request *)request, &message);

	if (status == BB_OK && !sends &&
	    (MPI_Get_count(&message, MPI_BYTE, &length) != MPI_SUCCESS || (size_t)length != bytes))
		status = BB_EINTERNAL;
	return status;
}

const struct bb_port_calls bb_mpi_port_calls = {
	.start = start_message,
	.taken = is_taken,
	.wait = wait_message,
	.piece = piece_of,
	.native = bb_mpi_native,
	.native_tmp_bytes = bb_mpi_native_tmp_bytes,
};

/* ---- messages of queues -------------------------------------------------------------- */

/*
 * Messages of queues. A message too long for MPI's int counts is sent in pieces, one after the
 * other. A message is done when the peer has begun to receive its last piece (MPI_Issend); with
 * MPI_Isend it would be done once the library has buffered it.
 */

#define TAG 0
static int piece(size_t bytes, size_t at)
{
	return (int)(bytes - at < MOST ? bytes - at : MOST);
}

/* Pass one piece from or to *PEER; *PEER becomes the actual sender. */
static bb_status pass_piece(const struct bb_message *m, size_t at, int *peer)
{
	struct bb_context *context = m->group->port.rank->context;
	const int length = piece(m->bytes, at);
	const bool sends = m->kind == BB_MESSAGE_SEND;
	MPI_Comm comm = m->group->messages;
	MPI_Request request;
	MPI_Status got;
	bb_status status;
	int code, came;

	code = sends ? MPI_Issend((const char *)m->out + at, length, MPI_BYTE, *peer, TAG, comm,
				  &request)
		     : MPI_Irecv((char *)m->in + at, length, MPI_BYTE, *peer, TAG, comm, &request);
	status = bb_mpi_check(context, sends ? "MPI_Issend" : "MPI_Irecv", code);
	if (status == BB_OK)
		status = mpi_await(context, &request, &got);
	if (status != BB_OK || sends)
		return status;
	*peer = got.MPI_SOURCE;
	if (MPI_Get_count(&got, MPI_BYTE, &came) != MPI_SUCCESS || came != length)
		return bb_fail(context->cpu.error, BB_EINTERNAL,
			       "rank %d: expected a message of %zu bytes, received another length",
			       context->cpu.world.proc, m->bytes);
	return BB_OK;
}

bb_status bb_mpi_message(const struct bb_message *message)
{
	size_t at = 0;
	int peer = message->from;
	bb_status status;

	if (bb_cpu_aborted(&message->group->port.rank->context->cpu))
		return BB_ETIMEOUT;
	if (message->kind == BB_MESSAGE_SEND)
		peer = *message->to;
	else if (message->kind == BB_MESSAGE_RECV_ANY)
		peer = MPI_ANY_SOURCE;
	do /* one without bytes is a message too */
		status = pass_piece(message, at, &peer);
	while (status == BB_OK && (at += MOST) < message->bytes);
	if (status == BB_OK && message->kind == BB_MESSAGE_RECV_ANY)
		*message->source = peer;
	return status;
}

/* ---- routes -------------------------------------------------------------------------- */

/*
 * Routes between two ranks: messages, and access of one end to the other's memory through a window.
 * forced.c finds out how the library does it within a host.
 */

enum route_kind { SEND, GET, PUT, MESSAGE };

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
		const int n = piece(half->bytes, at);
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
