/*
 * The gloo backend: ranks are threads of any number of processes, messages and collectives are
 * Gloo's, over TCP even within a host. Nothing is pinned: each rank has a thread of Gloo beside it.
 *
 * wrapper.cc is Gloo as plain C.
 */
#include "backends/cpu/port.h"
#include "backends/cpu/queue.h"
#include "backends/gloo/wrapper.h"
#include "backends/library.h"
#include "core/clock.h"
#include "core/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_LOCAL 64
/* For the watch to report the rank whose end broke the connections: it knows, Gloo does not. */
#define CAUSE_S 1.0
#define CHUNK_BYTES ((size_t)512 << 10)
#define HOST_ADDRESS 80 /* bytes of "fe80::1%eth0" */
#define VARIABLE "GLOO_SOCKET_IFNAME"
#define ANY_PORT "9" /* no packet is sent there */

extern const struct bb_backend bb_plugin_backend;

/* ---- the address of a rank ---------------------------------------------------------------- */

/* An address of this host, numeric, and why it was chosen. Names are resolved here, because Gloo of
   2022 crashes on a name that does not resolve. */
struct choice {
	char address[HOST_ADDRESS];
	int family; /* AF_INET or AF_INET6 */
	bool is_loopback;
	char reason[96]; /* "GLOO_SOCKET_IFNAME=eth0" */
};

/* *CHOICE = ADDRESS; false if it is neither IPv4 nor IPv6. */
static bool address_take(struct choice *choice, const struct sockaddr *address)
{
	const struct sockaddr_in *const four = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *const six = (const struct sockaddr_in6 *)address;
	const bool is_four = address->sa_family == AF_INET;

	if (!is_four && address->sa_family != AF_INET6)
		return false;
	choice->family = address->sa_family;
	choice->is_loopback = is_four ? ntohl(four->sin_addr.s_addr) >> 24 == 127
				      : IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
	return getnameinfo(address, is_four ? sizeof(*four) : sizeof(*six), choice->address,
			   sizeof(choice->address), NULL, 0, NI_NUMERICHOST) == 0;
}

/* The first IPv4 address of interface NAME, else its first IPv6 one. */
static bb_status choose_interface(struct choice *choice, const char *name, struct bb_error *error)
{
	static const int families[] = {AF_INET, AF_INET6};
	struct ifaddrs *all = NULL;
	bool found = false;

	if (strchr(name, ','))
		return bb_fail(error, BB_EUSAGE,
			       VARIABLE "=%s names several interfaces; busbench uses one, so name "
					"only one",
			       name);
	snprintf(choice->reason, sizeof(choice->reason), VARIABLE "=%.60s", name);
	if (getifaddrs(&all) != 0)
		all = NULL;
	for (int f = 0; f < 2; f++)
		for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
			if (i->ifa_addr && i->ifa_addr->sa_family == families[f] &&
			    strcmp(i->ifa_name, name) == 0)
				found = address_take(choice, i->ifa_addr);
	freeifaddrs(all);
	if (found)
		return BB_OK;
	if (if_nametoindex(name) == 0)
		return bb_fail(error, BB_EUSAGE,
			       VARIABLE "=%s: this host has no interface of that name (Gloo knows "
					"no prefixes and no ^; ip -brief address lists interfaces)",
			       name);
	return bb_fail(error, BB_EUSAGE, VARIABLE "=%s: this interface has no address", name);
}

/* The first of NAME's addresses to which a socket can be bound; or, with ROUTE, the local end of a
   socket to one, which the kernel chooses without sending anything. */
static bool find_address(struct choice *choice, const char *name, bool route)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	bool found = false;

	if (getaddrinfo(name, route ? ANY_PORT : NULL, &hints, &all) != 0)
		return false;
	for (const struct addrinfo *a = all; a && !found; a = a->ai_next) {
		const int fd =
			socket(a->ai_family, (route ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
		struct sockaddr_storage here;
		socklen_t bytes = sizeof(here);

		if (fd < 0)
			continue;
		found = (route ? connect : bind)(fd, a->ai_addr, a->ai_addrlen) == 0 &&
			getsockname(fd, (struct sockaddr *)&here, &bytes) == 0 &&
			address_take(choice, (struct sockaddr *)&here);
		close(fd);
	}
	freeaddrinfo(all);
	return found;
}

/*
 * Choose the address as PyTorch does: that of the interface GLOO_SOCKET_IFNAME; else, unlike
 * PyTorch, the one that leads to MASTER_ADDR; else that of the host's name if it is an address of
 * this host; else the loopback address. BB_EUSAGE if the variable names no usable interface.
 */
static bb_status choose_address(struct choice *choice, struct bb_error *error)
{
	const char *const name = getenv(VARIABLE), *const master = getenv("MASTER_ADDR");
	char host[64] = "";

	if (name && *name)
		return choose_interface(choice, name, error);
	snprintf(choice->reason, sizeof(choice->reason), "route to MASTER_ADDR=%.60s",
		 master ? master : "");
	if (master && *master && find_address(choice, master, true))
		return BB_OK;
	gethostname(host, sizeof(host) - 1);
	snprintf(choice->reason, sizeof(choice->reason), "this host's name");
	if (*host && find_address(choice, host, false))
		return BB_OK;
	snprintf(choice->reason, sizeof(choice->reason),
		 "loopback: the host's name has no local address");
	if (find_address(choice, "127.0.0.1", false))
		return BB_OK;
	return bb_fail(error, BB_EBACKEND, "this host has no address that Gloo could use: %s",
		       strerror(errno));
}

/* ---- the process ------------------------------------------------------------------------- */

struct bb_context {
	struct bb_cpu_context cpu;
	struct choice choice;
	char name[BB_GLOO_NAME + sizeof(struct choice)]; /* Gloo, and its address */
	/* [local]: of the ranks that are attached, for the watchdog, which aborts their meshes. */
	struct bb_gloo_device *devices[MAX_LOCAL];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t watchdog;
	bool has_watchdog, closing;
};

struct bb_rank {
	struct bb_context *context;
	int rank; /* in the world */
	int local;
	struct bb_gloo_device *device;
	struct bb_gloo_mesh *world; /* to all ranks, for what opens groups and compares clocks */
	bool one_clock;             /* all ranks of the world read the same */
	int hosts[];                /* [rank]: the lowest rank of its host */
};

struct bb_group {
	struct bb_port port;
	struct bb_gloo_mesh *mesh; /* NULL: a group of one */
	int64_t counts[];          /* 2 n, for alltoallv */
};

BB_PORT_STRUCTS_FIT;

/* Channels of a mesh beside those of a port. */
enum { OPENING_CHANNEL = BB_PORT_QUEUES + 1, PING_CHANNEL };

/* Gloo's collectives take slots below. */
static inline uint64_t slot_of(int channel)
{
	return (uint64_t)0x10 << 56 | (uint32_t)channel;
}

/* Report that RANK's ACT failed because of WHY, unless the run is abandoned for another cause,
   which this waits for: then BB_ETIMEOUT. */
static bb_status gloo_failed(const struct bb_rank *rank, const char *act, const char *why)
{
	struct bb_context *context = rank->context;
	const double end = bb_clock_now() + CAUSE_S;

	while (!bb_cpu_aborted(&context->cpu) && bb_clock_now() < end)
		poll(NULL, 0, 10);
	if (bb_cpu_aborted(&context->cpu))
		return BB_ETIMEOUT;
	return bb_fail(context->cpu.error, BB_EBACKEND, "rank %d: %s: %s", rank->rank, act, why);
}

/* ---- Gloo's collectives ------------------------------------------------------------------ */

/* TMP replaces a buffer where Gloo cannot work in place, and at ranks without an output into which
   Gloo's reduce writes all the same. */

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
	return strcmp(native->name, "native") != 0;
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

static const struct bb_native natives[] = {
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

static bb_status gloo_choose(struct bb_group *group, struct bb_call *call)
{
	const bool has_native = row_of(call->collective) && group->port.n > 1;

	call->native = has_native ? &natives[0] : NULL;
	call->schedule = has_native ? NULL : bb_algorithm_find(call->collective, "ring");
	call->instead = NULL;
	if (!has_native && !call->schedule) /* a collective that is an algorithm of its own */
		call->schedule = bb_algorithm_find(call->collective, call->collective->name);
	if (!has_native && group->port.n > 1)
		call->instead = "Gloo has no such collective";
	return call->native || call->schedule ? BB_OK : BB_EUNSUPPORTED;
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

static size_t native_tmp_bytes(const struct bb_group *group, const struct bb_call *call)
{
	return copied_bytes(group, call) +
	       (lacks_output(group, call) ? call->shape.count * bb_dtype_size(call->dtype) : 0);
}

/* ---- running ----------------------------------------------------------------------------- */

static void call_reduce(const void *own, void *result, const void *a, const void *b, size_t count)
{
	bb_reduce_fn *const *const reduce = own;
	const struct bb_reduce_args args = {.stream = false};

	(*reduce)(&result, 1, (const void *[]){a, b}, 2, count, &args);
}

static bb_status native_run(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_kernels *kernels = group->port.rank->context->cpu.kernels;
	const struct row *row = row_of(call->collective);
	const int n = group->port.n;
	const bool copies = copies_input(group, call), lacks = lacks_output(group, call);
	const bool roots_alone = call->collective == &bb_gather || call->collective == &bb_scatter;
	bb_reduce_fn *const reduce = bb_cpu_reduction(kernels, call);
	struct bb_gloo_collective collective = {
		.function = is_bcube(call->native) ? BB_GLOO_ALL_REDUCE_BCUBE : row->function,
		.element = bb_dtype_size(call->dtype),
		.count = call->shape.count,
		.root = call->shape.root,
		.in = copies                                           ? call->tmp
		      : call->shape.in_place && !roots_alone && !lacks ? NULL
								       : call->in,
		.out = lacks ? (char *)call->tmp + copied_bytes(group, call) : call->out,
		.sent = group->counts,
		.received = group->counts + n,
		.reduce = call_reduce,
		.own = &reduce};
	char why[BB_GLOO_WHY];

	if (bb_call_weighs(call, group->port.me))
		bb_cpu_weigh(kernels, call, group->port.me, call->tmp);
	else if (copies)
		bb_cpu_copy(group->port.rank, call->tmp, call->in,
			    bb_call_in_bytes(call, group->port.me));
	for (int r = 0; r < n && call->collective == &bb_alltoallv; r++) {
		group->counts[r] = (int64_t)bb_alltoall_count(&call->shape, group->port.me, r);
		group->counts[n + r] = (int64_t)bb_alltoall_count(&call->shape, r, group->port.me);
	}
	if ((call->collective == &bb_alltoallv || call->shape.count > 0) &&
	    !bb_gloo_run(group->mesh, &collective, why))
		return gloo_failed(group->port.rank, row->name, why);
	if (bb_call_divides(call) && !lacks)
		bb_cpu_divide(kernels, call, group->port.me);
	return BB_OK;
}

/* ---- messages ------------------------------------------------------------------------ */

/*
 * Messages over Gloo's unbound buffers. Each is a rendezvous: its data leaves once the peer has
 * posted the receive.
 */

/* Data to be reduced comes in pieces: one is reduced while the next is in flight. Each piece is a
   rendezvous of its own, so other messages are not cut. */
#define PIECE_BYTES ((size_t)512 << 10)
#define WHOLE_BYTES ((size_t)1 << 40)

static size_t piece_of(const struct bb_group *group, const struct bb_call *call)
{
	return call->collective->flags & BB_REDUCES ? PIECE_BYTES : WHOLE_BYTES;
}

/* Report that a message to or from PEER failed; negative: from any member. */
static bb_status message_failed(const struct bb_group *group, bool sends, int peer, const char *why)
{
	char act[64] = "receiving";

	if (peer >= 0)
		snprintf(act, sizeof(act), "%s rank %d", sends ? "sending to" : "receiving from",
			 group->port.members[peer]);
	return gloo_failed(group->port.rank, act, why);
}

static bb_status message_start(struct bb_group *group, bool sends, int peer, int channel,
			       void *data, size_t bytes, union bb_request *request)
{
	struct bb_gloo_request *started = NULL;
	char why[BB_GLOO_WHY];

	if (!bb_gloo_start(group->mesh, sends, peer, slot_of(channel), data, bytes, &started, why))
		return message_failed(group, sends, peer, why);
	request->handle = started;
	return BB_OK;
}

static bb_status message_wait(struct bb_group *group, bool sends, union bb_request *request,
			      size_t bytes, int *peer)
{
	char why[BB_GLOO_WHY];
	int other;

	if (!bb_gloo_wait(request->handle, &other, why))
		return message_failed(group, sends, other, why);
	if (peer)
		*peer = other;
	return BB_OK;
}

static const struct bb_port_calls gloo_port_calls = {
	.start = message_start,
	.wait = message_wait,
	.piece = piece_of,
	.native = native_run,
	.native_tmp_bytes = native_tmp_bytes,
};

/* ---- clocks ------------------------------------------------------------------------------ */

static bb_status pass_ping(struct bb_rank *rank, bool sends, int peer, void *data, size_t bytes)
{
	struct bb_gloo_request *request;
	char why[BB_GLOO_WHY];

	return bb_gloo_start(rank->world, sends, peer, slot_of(PING_CHANNEL), data, bytes, &request,
			     why) &&
			       bb_gloo_wait(request, NULL, why)
		       ? BB_OK
		       : gloo_failed(rank, "comparing clocks", why);
}

static bb_status clock_offset(struct bb_rank *rank, double *offset, double *uncertainty)
{
	return bb_clock_compare(rank, rank->one_clock, pass_ping, offset, uncertainty);
}

/* ---- routes -------------------------------------------------------------------------- */

/*
 * The route between two ranks: messages of Gloo.
 */

static const struct bb_route routes[] = {
	{"message", "messages of Gloo over TCP, also within a host",
	 BB_ROUTE_TRANSFER | BB_ROUTE_PING, BB_BY_BOTH, .batches = true},
	{.name = NULL},
};

static const char *route_refuses(struct bb_group *group, const struct bb_route *route, int peer)
{
	return peer == group->port.me ? "a rank sends no messages to itself" : NULL;
}

static const struct bb_routes gloo_routes = {
	.list = routes,
	.refuses = route_refuses,
	.transfer = bb_port_transfer,
	.batch = bb_port_batch,
	.ping = bb_port_ping,
};

/* ---- the watchdog ------------------------------------------------------------------------ */

static void *watchdog_run(void *argument)
{
	struct bb_context *context = argument;

	pthread_mutex_lock(&context->lock);
	while (!context->closing) {
		if (bb_cpu_aborted(&context->cpu))
			for (int i = 0; i < MAX_LOCAL; i++)
				bb_gloo_device_abort(context->devices[i]);
		bb_clock_wait_moment(&context->changed, &context->lock);
	}
	pthread_mutex_unlock(&context->lock);
	return NULL;
}

/* The watchdog sees the rank's device, NULL: no longer. */
static void watchdog_tell(struct bb_rank *rank, struct bb_gloo_device *device)
{
	pthread_mutex_lock(&rank->context->lock);
	rank->context->devices[rank->local] = device;
	pthread_mutex_unlock(&rank->context->lock);
}

/* ---- meeting ------------------------------------------------------------------------- */

/*
 * Ranks exchange their places, their clocks and the ends of their connections before they are
 * connected.
 */

#define IDENTITY 192 /* bytes: a host's name, its boot and its network */
#define PART (IDENTITY / 3)

struct place {
	char host[PART]; /* its name */
	char identity[IDENTITY];
	char clock[BB_CLOCK_NAME];
	bool has_clock;
	char address[HOST_ADDRESS];
	int family;
	bool is_loopback;
};

static const struct bb_payload_field place_fields[] = {
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct place, host),
	BB_PAYLOAD_FIELD("the host's identity", BB_PAYLOAD_ANY, struct place, identity),
	BB_PAYLOAD_FIELD("the clock", BB_PAYLOAD_ANY, struct place, clock),
	BB_PAYLOAD_FIELD("the mark of a clock", BB_PAYLOAD_UNSIGNED, struct place, has_clock,
			 .high = 1),
	BB_PAYLOAD_FIELD("the address", BB_PAYLOAD_TEXT, struct place, address),
	BB_PAYLOAD_FIELD("the address family", BB_PAYLOAD_SIGNED, struct place, family,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the mark of loopback", BB_PAYLOAD_UNSIGNED, struct place, is_loopback,
			 .high = 1),
	{.name = NULL}};
static const struct bb_payload place_table = {"a place", sizeof(struct place), place_fields, NULL};

static bb_status ranks_gather(struct bb_rank *rank, const struct bb_payload *table,
			      const void *mine, void *all)
{
	const struct bb_exchange *exchange = &rank->context->cpu.config.exchange;

	return exchange->gather(exchange->own, rank->local, table, mine, all);
}

/* Can the addresses of all ranks reach each other, as far as they show? */
static bb_status check_places(const struct bb_rank *rank, const struct place *all)
{
	struct bb_error *const error = rank->context->cpu.error;
	const int n = rank->context->cpu.world.nranks;

	for (int r = 1; r < n; r++)
		if (all[r].family != all[0].family)
			return bb_fail(error, BB_EUSAGE,
				       "Gloo's ranks 0 (%s, %s) and %d (%s, %s) announce addresses "
				       "of different families; set GLOO_SOCKET_IFNAME to an "
				       "interface that has the same family on all hosts",
				       all[0].host, all[0].address, r, all[r].host, all[r].address);
	for (int r = 0; r < n; r++)
		for (int o = 0; o < n && all[r].is_loopback; o++)
			if (rank->hosts[o] != rank->hosts[r])
				return bb_fail(
					error, BB_EUSAGE,
					"rank %d (%s) announces the loopback address %s, which "
					"rank %d (%s) cannot reach; set GLOO_SOCKET_IFNAME to the "
					"interface between the hosts",
					r, all[r].host, all[r].address, o, all[o].host);
	return BB_OK;
}

static bb_status exchange_places(struct bb_rank *rank)
{
	const int n = rank->context->cpu.world.nranks;
	const struct choice *choice = &rank->context->choice;
	struct place *all = calloc((size_t)n, sizeof(*all)), mine;
	struct bb_location here;

	if (!all)
		return bb_no_memory(rank->context->cpu.error, "a rank");
	memset(&mine, 0, sizeof(mine)); /* padding is sent, too */
	bb_location_here(&here);
	snprintf(mine.host, sizeof(mine.host), "%s", here.host);
	memcpy(mine.identity, mine.host, PART);
	bb_kernel_read("/proc/sys/kernel/random/boot_id", mine.identity + PART, PART);
	/* Network namespaces of one host have loopback addresses of their own. */
	if (readlink("/proc/self/ns/net", mine.identity + 2 * PART, PART) < 0)
		mine.identity[2 * PART] = '\0';
	mine.has_clock = bb_clock_identify(mine.clock);
	snprintf(mine.address, sizeof(mine.address), "%s", choice->address);
	mine.family = choice->family;
	mine.is_loopback = choice->is_loopback;
	bb_status status = ranks_gather(rank, &place_table, &mine, all);
	rank->one_clock = mine.has_clock;
	for (int r = 0; r < n && status == BB_OK; r++) {
		while (memcmp(all[rank->hosts[r]].identity, all[r].identity, IDENTITY) != 0)
			rank->hosts[r]++;
		rank->one_clock &=
			all[r].has_clock && memcmp(all[r].clock, all[0].clock, BB_CLOCK_NAME) == 0;
	}
	if (status == BB_OK)
		status = check_places(rank, all);
	free(all);
	return status;
}

/* MINE[i] is the end for rank i. It is replaced by the end that rank i made for this rank. */
static bb_status exchange_ends(struct bb_rank *rank, struct bb_gloo_address *mine)
{
	const size_t n = (size_t)rank->context->cpu.world.nranks;
	const struct bb_payload_field fields[] = {
		{.name = "the length of an address",
		 .kind = BB_PAYLOAD_UNSIGNED,
		 .offset = offsetof(struct bb_gloo_address, bytes),
		 .bytes = sizeof(mine->bytes),
		 .count = n,
		 .stride = sizeof(*mine),
		 .high = BB_GLOO_ADDRESS},
		{.name = NULL}};
	const struct bb_payload table = {"addresses", n * sizeof(*mine), fields, NULL};
	struct bb_gloo_address *all = calloc(n * n, sizeof(*all));

	if (!all)
		return bb_no_memory(rank->context->cpu.error, "addresses");
	const bb_status status = ranks_gather(rank, &table, mine, all);
	for (size_t r = 0; r < n && status == BB_OK; r++)
		mine[r] = all[r * n + (size_t)rank->rank];
	free(all);
	return status;
}

/* ---- groups ------------------------------------------------------------------------------ */

/* Send ENDS[i] to member i and replace it by what that member sends, by messages of the world. */
static bb_status swap_ends(const struct bb_group *g, struct bb_gloo_address *ends)
{
	const uint64_t slot = slot_of(OPENING_CHANNEL);
	struct bb_gloo_mesh *const world = g->port.rank->world;
	struct bb_gloo_address theirs;
	struct bb_gloo_request *sent, *received;
	char why[BB_GLOO_WHY];

	for (int i = 0; i < g->port.n; i++) {
		const int peer = g->port.members[i];

		if (i == g->port.me)
			continue;
		if (!bb_gloo_start(world, false, peer, slot, &theirs, sizeof(theirs), &received,
				   why) ||
		    !bb_gloo_start(world, true, peer, slot, &ends[i], sizeof(ends[i]), &sent,
				   why) ||
		    !bb_gloo_wait(received, NULL, why) || !bb_gloo_wait(sent, NULL, why))
			return gloo_failed(g->port.rank, "opening a group", why);
		if (theirs.bytes > sizeof(theirs.data))
			return gloo_failed(g->port.rank, "opening a group",
					   "a member sent no address");
		ends[i] = theirs;
	}
	return BB_OK;
}

/* *MESH = RANK's connections to the members of G; NULL: to all ranks of the world. */
static bb_status connect_members(struct bb_rank *rank, const struct bb_group *g,
				 struct bb_gloo_mesh **mesh)
{
	const int n = g ? g->port.n : rank->context->cpu.world.nranks;
	struct bb_gloo_address *ends = calloc((size_t)n, sizeof(*ends));
	char why[BB_GLOO_WHY], act[64];
	bb_status status = BB_OK;

	if (!ends)
		return bb_no_memory(rank->context->cpu.error, "addresses");
	if (!bb_gloo_mesh_open(rank->device, g ? g->port.me : rank->rank, n, ends, mesh, why))
		BB_TRY(status, gloo_failed(rank, "opening connections", why), out);
	BB_TRY(status, g ? swap_ends(g, ends) : exchange_ends(rank, ends), out);
	/* ENDS[i] is now the end that member i made for this rank. */
	for (int i = 0; i < n && status == BB_OK; i++) {
		const int peer = g ? g->port.members[i] : i;

		if (peer == rank->rank || bb_gloo_mesh_connect(*mesh, i, &ends[i], why))
			continue;
		snprintf(act, sizeof(act), "connecting to rank %d", peer);
		status = gloo_failed(rank, act, why);
	}
out:
	free(ends);
	return status;
}

static void gloo_group_close(struct bb_group *group)
{
	if (!group)
		return;
	bb_gloo_mesh_close(group->mesh);
	bb_port_close(&group->port);
	free(group);
}

static bb_status gloo_group_open(struct bb_rank *rank, const int *members, int n,
				 struct bb_group **group, struct bb_error *error)
{
	struct bb_group *g = calloc(1, sizeof(*g) + 2 * (size_t)n * sizeof(*g->counts));

	if (!g)
		return bb_no_memory(error, "a group");
	bb_status status =
		bb_port_open(&g->port, &gloo_port_calls, rank, rank->hosts, members, n, error);
	if (status == BB_OK && n > 1)
		status = connect_members(rank, g, &g->mesh);
	if (status == BB_OK)
		*group = g;
	else
		gloo_group_close(g);
	return status;
}

static bb_status gloo_barrier(struct bb_group *group)
{
	char why[BB_GLOO_WHY];

	if (bb_cpu_aborted(&group->port.rank->context->cpu))
		return BB_ETIMEOUT;
	if (group->port.n == 1 || bb_gloo_barrier(group->mesh, why))
		return BB_OK;
	return gloo_failed(group->port.rank, "Gloo's barrier", why);
}

/* ---- opening ---------------------------------------------------------------------------- */

static void gloo_close(struct bb_context *context)
{
	if (context->has_watchdog) {
		pthread_mutex_lock(&context->lock);
		context->closing = true;
		pthread_cond_broadcast(&context->changed);
		pthread_mutex_unlock(&context->lock);
		pthread_join(context->watchdog, NULL);
	}
	pthread_cond_destroy(&context->changed);
	pthread_mutex_destroy(&context->lock);
	bb_cpu_close(&context->cpu);
	free(context);
}

static bb_status gloo_open(struct bb_context **context, const struct bb_world *world,
			   const struct bb_backend_config *config, struct bb_error *error)
{
	char gloo[BB_GLOO_NAME];
	bb_status status;

	struct bb_context *c = calloc(1, sizeof(*c));
	if (!c)
		return bb_no_memory(error, "the gloo backend");
	c->cpu.run = bb_port_run;
	c->cpu.pass = bb_port_pass;
	pthread_mutex_init(&c->lock, NULL);
	bb_clock_open_moment(&c->changed);
	/* Gloo writes to sockets without MSG_NOSIGNAL: a peer's death would end this process. */
	signal(SIGPIPE, SIG_IGN);
	/* Each rank has connections to all others in each of its groups. */
	bb_file_limit_raise(UINT64_MAX);
	BB_TRY(status, choose_address(&c->choice, error), failed);
	bb_gloo_name(gloo);
	snprintf(c->name, sizeof(c->name), "%s at %s (%s)", gloo, c->choice.address,
		 c->choice.reason);
	BB_TRY(status, bb_cpu_open(&c->cpu, world, config, error), failed);
	c->has_watchdog = pthread_create(&c->watchdog, NULL, watchdog_run, c) == 0;
	if (!c->has_watchdog)
		BB_TRY(status,
		       bb_fail(error, BB_EINTERNAL, "cannot start a thread of the gloo backend"),
		       failed);
	*context = c;
	return BB_OK;
failed:
	gloo_close(c);
	return status;
}

static const char *gloo_name(const struct bb_context *context)
{
	return context->name;
}

/* ---- ranks and their memory ------------------------------------------------------------- */

static void gloo_detach(struct bb_rank *rank)
{
	if (!rank)
		return;
	bb_gloo_mesh_close(rank->world);
	watchdog_tell(rank, NULL);
	bb_gloo_device_close(rank->device);
	free(rank);
}

/* Ranks are assumed to spread over the cores. */
static bb_status gloo_attach(struct bb_context *context, int local, struct bb_rank **rank,
			     struct bb_location *location, struct bb_error *error)
{
	const struct bb_cpu_context *c = &context->cpu;
	const int place = c->config.ranks_before + local;
	struct bb_rank *r = calloc(1, sizeof(*r) + (size_t)c->world.nranks * sizeof(*r->hosts));
	char why[BB_GLOO_WHY];
	bb_status status;

	if (!r)
		return bb_no_memory(error, "a rank");
	r->context = context;
	r->rank = c->world.first_rank + local;
	r->local = local;
	bb_cpu_locate(c, c->crowded ? (int)((int64_t)place * c->cores / c->ranks) : place,
		      c->cores == 1 ? "" : " (not bound)", location);
	if (bb_gloo_device_open(context->choice.address, &r->device, why)) {
		watchdog_tell(r, r->device);
		status = exchange_places(r);
	} else {
		status = bb_fail(error, BB_EBACKEND,
				 "rank %d: Gloo cannot use the address %s (%s): %s", r->rank,
				 context->choice.address, context->choice.reason, why);
	}
	if (status == BB_OK && c->world.nranks > 1)
		status = connect_members(r, NULL, &r->world);
	if (status == BB_OK)
		*rank = r;
	else
		gloo_detach(r);
	return status;
}

/* ---- calls ------------------------------------------------------------------------------ */

static bb_status gloo_tune(struct bb_group *group, struct bb_call *call)
{
	call->shape.chunk = CHUNK_BYTES / bb_dtype_size(call->dtype);
	return BB_OK;
}

const struct bb_backend bb_plugin_backend = {
	BB_CPU_ENTRIES,
	.abi = BB_BACKEND_ABI,
	.name = "gloo",
	.brief = "ranks are processes or threads, over Gloo's TCP connections",
	.has_data = true,
	.in_processes = true,
	.natives = natives,
	.open = gloo_open,
	.close = gloo_close,
	.max_local = MAX_LOCAL,
	.attach = gloo_attach,
	.detach = gloo_detach,
	.release = bb_cpu_release,
	.group_open = gloo_group_open,
	.group_close = gloo_group_close,
	.barrier = gloo_barrier,
	.choose = gloo_choose,
	.tune = gloo_tune,
	.refuses = bb_backend_accept,
	.tmp_bytes = bb_port_tmp_bytes,
	.cost_bytes = bb_port_cost_bytes,
	.queue_open = bb_cpu_queue_open,
	.clocks = &(const struct bb_clocks){.offset = clock_offset},
	.routes = &gloo_routes,
	.library = &(const struct bb_library){.name = gloo_name},
};
