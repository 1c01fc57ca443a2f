/*
 * The launch over TCP: all other processes connect to process 0.
 *
 * Without a secret a process of the run and a stranger that claims to be one look the same.
 * Therefore no peer ends the wait: one that does not fit is rejected, and named if a process is
 * missing in the end. With a secret every peer belongs to the run, and a peer that does not fit
 * ends the run at once.
 */
#include "launch/tcp.h"

#include "core/clock.h"
#include "core/ranges.h"
#include "core/strbuf.h"
#include "core/units.h"
#include "core/version.h"
#include "launch/star.h"
#include "launch/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_PORT 65535
#define RESOLVE_MS 300 /* between two attempts to resolve the address of process 0 */
#define CHECK_S 0.2    /* between two checks for lost processes */
#define LATE_S 1.0     /* for processes that arrive after the run has failed */
#define GONE_S 1.0     /* for the control channel to report the lost process and the cause */
#define NAME_TEXT 112  /* of a process */

/* Of the connecting and of the answering side; another program at that port sends other data. */
static const unsigned char passwords[2][16] = {"busbench, hello", "busbench, indeed"};

/* A transfer between this process and another, after a frame that holds its length. */
struct transfer {
	char *data;
	size_t bytes, done; /* of the data; a sender counts the head in DONE */
	bool headed;        /* the head has arrived */
	struct bb_frame head;
};

/* A process that this one has a connection to. */
struct peer {
	struct bb_wire wire; /* none of process 0 to itself */
	struct bb_hello hello;
	struct transfer transfer;
	atomic_bool awaited; /* the transfer is not complete. Another thread may read it. */
};

/* One process of an open launch. */
struct tcp {
	int npeers;         /* all processes at process 0, else 1 */
	struct peer *peers; /* process i */
	struct pollfd *fds; /* of each */
	bool secured;       /* at process 0: every process proved that it knows the secret */
	bool reports; /* elsewhere than at process 0: reports for its host if process 0 cannot */
	char note[400];
	char cause[NAME_TEXT + BB_PAYLOAD_WHY];
};

/* A process, in words. */
struct name {
	char text[NAME_TEXT];
};

static struct name hello_name(const struct bb_hello *hello)
{
	struct name name;

	snprintf(name.text, NAME_TEXT, "process %d (%s, pid %d)", hello->proc, hello->host,
		 hello->pid);
	return name;
}

/* At process 0: tell all connected processes that the run is over, with STATUS. Never waits. */
static void send_stop(struct tcp *tcp, bb_status status)
{
	for (int i = 0; i < tcp->npeers; i++)
		bb_wire_send(&tcp->peers[i].wire,
			     &(struct bb_frame){.kind = BB_FRAME_STOP, .status = (int32_t)status},
			     "");
}

static void tcp_release(struct tcp *tcp)
{
	if (!tcp)
		return;
	for (int i = 0; i < tcp->npeers; i++)
		bb_wire_close(&tcp->peers[i].wire);
	free(tcp->peers);
	free(tcp->fds);
	free(tcp);
}

/* ---- one transfer ---------------------------------------------------------------------- */

static enum bb_transit push(struct bb_wire *wire, struct transfer *t)
{
	const size_t head = BB_FRAME_HEAD;

	while (t->done < head + t->bytes) {
		const size_t skip = t->done < head ? t->done : head, sent = t->done - skip;
		struct iovec pieces[] = {
			{.iov_base = (char *)&t->head + skip, .iov_len = head - skip},
			{.iov_base = t->data + sent, .iov_len = t->bytes - sent},
		};
		const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = t->bytes ? 2 : 1};
		const ssize_t moved = sendmsg(wire->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return BB_UNDER_WAY;
		if (moved <= 0)
			return BB_BROKEN;
		t->done += (size_t)moved;
	}
	return BB_COMPLETE;
}

/* Broken also by any frame that is not the head of this transfer, which is then in WIRE->frame. */
static enum bb_transit pull(struct bb_wire *wire, struct transfer *t)
{
	const struct bb_frame *head = &wire->frame;

	if (!t->headed) {
		const enum bb_transit transit = bb_wire_receive(wire);

		if (transit != BB_COMPLETE)
			return transit;
		t->headed = head->kind == BB_FRAME_DATA && head->entered == t->bytes;
		if (head->kind != BB_FRAME_DATA)
			snprintf(wire->why, sizeof(wire->why),
				 "sent a frame of kind %d instead of data", head->kind);
		else if (!t->headed)
			snprintf(wire->why, sizeof(wire->why),
				 "sent %" PRIu64 " bytes where %zu are expected", head->entered,
				 t->bytes);
		if (!t->headed)
			return BB_BROKEN;
	}
	return bb_wire_fill(wire->fd, t->data, t->bytes, &t->done);
}

/* ---- all of them ----------------------------------------------------------------------- */

static bool is_stop(const struct bb_wire *wire)
{
	return wire->frame.kind == BB_FRAME_STOP && wire->frame.status != BB_OK;
}

/*
 * Elsewhere than at process 0: does process 0 say within SECONDS that the run is over? The frame
 * may have arrived while this process was sending.
 */
static bool receive_stop(struct bb_wire *wire, double seconds)
{
	if (wire->got == 0 && is_stop(wire))
		return true;
	return bb_wire_await(wire, bb_clock_now() + seconds) == BB_COMPLETE && is_stop(wire);
}

/* The connection to process I is broken, or it sent invalid data. */
static bb_status lose(struct bb_launch *launch, int i)
{
	struct tcp *tcp = launch->own;
	struct bb_wire *wire = &tcp->peers[i].wire;
	const double end = bb_clock_now() + GONE_S;

	snprintf(tcp->cause, sizeof(tcp->cause), "%s %s", hello_name(&tcp->peers[i].hello).text,
		 *wire->why ? wire->why : BB_FRAME_GONE_WHY);
	if (launch->proc != 0 && receive_stop(wire, GONE_S)) {
		launch->silent = true;
		return (bb_status)wire->frame.status;
	}
	while (bb_clock_now() < end)
		poll(NULL, 0, 50);
	if (launch->proc == 0)
		send_stop(tcp, BB_EBACKEND);
	launch->silent = launch->proc != 0 && !tcp->reports;
	launch->cause = tcp->cause;
	return BB_EBACKEND;
}

static void tcp_refuse(struct bb_launch *launch)
{
	struct tcp *tcp = launch->own;

	if (launch->proc == 0)
		send_stop(tcp, BB_EBACKEND);
	else
		launch->silent = receive_stop(&tcp->peers[0].wire, GONE_S) || !tcp->reports;
}

/* Transfer BYTES with each peer: send the same DATA to all, or receive those of peer i at DATA + i
 * BYTES. */
static bb_status carry(struct bb_launch *launch, bool sends, void *data, size_t bytes)
{
	struct tcp *tcp = launch->own;
	const short event = sends ? POLLOUT : POLLIN;
	int left = 0;

	for (int i = 0; i < tcp->npeers; i++) {
		struct peer *peer = &tcp->peers[i];
		const size_t at = sends ? 0 : (size_t)i * bytes;

		peer->transfer = (struct transfer){
			.data = bytes ? (char *)data + at : NULL,
			.bytes = bytes,
			.head = {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_DATA, .entered = bytes},
		};
		tcp->fds[i] =
			(struct pollfd){.fd = peer->wire.fd, .events = event, .revents = event};
		atomic_store(&peer->awaited, peer->wire.fd >= 0);
		left += peer->wire.fd >= 0;
	}
	for (;;) {
		for (int i = 0; i < tcp->npeers; i++) {
			struct peer *peer = &tcp->peers[i];
			enum bb_transit transit;

			if (tcp->fds[i].fd < 0 || !tcp->fds[i].revents)
				continue;
			transit = (sends ? push : pull)(&peer->wire, &peer->transfer);
			if (transit == BB_BROKEN)
				return lose(launch, i);
			if (transit == BB_UNDER_WAY)
				continue;
			tcp->fds[i].fd = -1;
			atomic_store(&peer->awaited, false);
			left--;
		}
		if (left == 0)
			return BB_OK;
		poll(tcp->fds, (nfds_t)tcp->npeers, -1);
	}
}

/* The bytes of all processes go to process 0, and from there ALL, or nothing, to all others. */
static bb_status tcp_gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			    bool everywhere)
{
	const size_t back = everywhere ? bytes * (size_t)launch->nprocs : 0;
	const bool hub = launch->proc == 0;

	if (hub && bytes > 0)
		memcpy(all, mine, bytes);
	const bb_status status = carry(launch, !hub, hub ? all : (void *)(uintptr_t)mine, bytes);
	return status == BB_OK ? carry(launch, hub, all, back) : status;
}

/* ---- the launch ------------------------------------------------------------------------ */

static bool tcp_abandon(struct bb_launch *launch, char awaited[BB_LAUNCH_AWAITED])
{
	struct tcp *tcp = launch->own;
	struct bb_strbuf who = {0};
	int n = 0;

	for (int i = 0; launch->proc == 0 && i < tcp->npeers; i++) {
		const struct peer *peer = &tcp->peers[i];
		struct sockaddr_storage from;
		socklen_t length = sizeof(from);
		char host[NI_MAXHOST], port[NI_MAXSERV];

		if (!atomic_load(&peer->awaited) || n++ > 0)
			continue;
		/* With the address that it is connected from. */
		bb_strbuf_add(&who, hello_name(&peer->hello).text);
		if (getpeername(peer->wire.fd, (struct sockaddr *)&from, &length) == 0 &&
		    getnameinfo((struct sockaddr *)&from, length, host, sizeof(host), port,
				sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
			bb_strbuf_addf(&who, " at %s, port %s", host, port);
	}
	if (n > 1)
		bb_strbuf_addf(&who, " and %d more", n - 1);
	if (n > 0)
		bb_strbuf_addf(&who, " %s not answer%s", n > 1 ? "do" : "does",
			       tcp->secured ? ""
					    : "; a stranger can claim a rank unless "
					      "" BB_SECRET_VARIABLE " is set");
	snprintf(awaited, BB_LAUNCH_AWAITED, "%s", bb_strbuf_text(&who));
	bb_strbuf_free(&who);
	if (launch->proc == 0)
		send_stop(tcp, BB_ETIMEOUT);
	return launch->proc == 0 || tcp->reports;
}

/* A process that does not reach this barrier misses nothing. */
static void tcp_close(struct bb_launch *launch)
{
	(void)!bb_launch_barrier(launch);
	tcp_release(launch->own);
}

/* A launch that is being opened. */
struct opening {
	struct tcp *tcp;
	const struct bb_tcp_environment *environment;
	const struct bb_launch_request *request;
	struct bb_star star;
	struct bb_error *error;
	/* Process 0's: */
	bb_status failed; /* the run will not start */
	int missing;      /* processes that have not arrived */
	/* The first process that was rejected because it does not fit the run. */
	struct bb_error misfit;
};

/* ---- the environment ------------------------------------------------------------------- */

static bb_status is_missing(const char *name, struct bb_error *error)
{
	return bb_fail(error, BB_EUSAGE,
		       "%s is not set: several processes need RANK, WORLD_SIZE, MASTER_ADDR and "
		       "MASTER_PORT, as torchrun sets them; for a single process unset RANK, "
		       "WORLD_SIZE and MASTER_ADDR",
		       name);
}

/* The number in variable NAME, from LOW to HIGH. */
static bb_status read_number(const char *name, int low, int high, int *number,
			     struct bb_error *error)
{
	const char *text = getenv(name);
	int64_t value;

	if (!text)
		return is_missing(name, error);
	if (!bb_parse_int(text, &value) || value < low || value > high)
		return bb_fail(error, BB_EUSAGE, "%s=\"%.40s\" is not a number from %d to %d", name,
			       text, low, high);
	*number = (int)value;
	return BB_OK;
}

bb_status bb_tcp_environment_read(struct bb_tcp_environment *e, struct bb_error *error)
{
	const bool given = getenv("BUSBENCH_PORT") != NULL;
	int port;
	bb_status status;

	*e = (struct bb_tcp_environment){.local = -1};
	BB_TRY(status, read_number("WORLD_SIZE", 1, BB_TCP_MOST_PROCESSES, &e->nprocs, error), out);
	BB_TRY(status, read_number("RANK", 0, BB_TCP_MOST_PROCESSES - 1, &e->proc, error), out);
	if (e->proc >= e->nprocs) {
		status = bb_fail(error, BB_EUSAGE, "RANK=%d: with WORLD_SIZE=%d ranks are 0 to %d",
				 e->proc, e->nprocs, e->nprocs - 1);
		goto out;
	}
	if (getenv("LOCAL_RANK"))
		BB_TRY(status, read_number("LOCAL_RANK", 0, e->nprocs - 1, &e->local, error), out);
	if (e->nprocs == 1)
		goto out;
	e->master = getenv("MASTER_ADDR");
	if (!e->master || !*e->master)
		BB_TRY(status, is_missing("MASTER_ADDR", error), out);
	BB_TRY(status,
	       read_number(given ? "BUSBENCH_PORT" : "MASTER_PORT", 1, MOST_PORT, &port, error),
	       out);
	if (!given && port == MOST_PORT)
		status = bb_fail(error, BB_EUSAGE,
				 "MASTER_PORT=%d: no port is above it; set BUSBENCH_PORT", port);
	e->port = (uint16_t)(given ? port : port + 1);
	e->source = given ? "BUSBENCH_PORT" : "MASTER_PORT + 1";
out:
	return status;
}

/* ---- both sides ------------------------------------------------------------------------ */

/* Checks of both sides of a connection: a difference to HELLO goes into ERROR. */
static bb_status compare_hello(const struct opening *o, const struct bb_hello *hello,
			       struct bb_error *error)
{
	const struct bb_hello *mine = &o->star.identity.hello;

	if (strcmp(hello->version, mine->version) != 0)
		return bb_fail(error, BB_EBACKEND,
			       "%s has busbench %s, %s has %s; install one version everywhere",
			       hello_name(hello).text, hello->version, hello_name(mine).text,
			       mine->version);
	if (hello->nprocs != mine->nprocs)
		return bb_fail(
			error, BB_EUSAGE, "%s has WORLD_SIZE %d, %s has %d; set the same for all",
			hello_name(hello).text, hello->nprocs, hello_name(mine).text, mine->nprocs);
	return BB_OK;
}

/* Resolve MASTER_ADDR; returns the number of ADDRESSES, or, after the timeout, 0 and *WHY. */
static int resolve_master(const struct opening *o, struct bb_address *addresses, const char **why)
{
	int n;

	/* A name may resolve only once its host has started. */
	while ((n = bb_star_resolve(o->environment->master, o->environment->port, false, addresses,
				    0, why)) == 0 &&
	       bb_clock_now() < o->star.end)
		poll(NULL, 0, RESOLVE_MS);
	return n;
}

/* ---- peers of process 0 --------------------------------------------------------------------- */

/* A peer does not fit, for the cause in ERROR: with a secret that ends the run. */
static void note_misfit(struct opening *o, const struct bb_error *error)
{
	const bb_status status = bb_error_status(error);

	if (!o->star.identity.secret) {
		o->star.dropped[BB_DROPPED_MISFIT]++;
		bb_fail(&o->misfit, status, "%s", error->text);
	} else if (o->failed == BB_OK) {
		/* Processes that arrive late are informed as well. */
		o->star.end = fmin(o->star.end, bb_clock_now() + LATE_S);
		o->failed = bb_fail(o->error, status, "%s", error->text);
	}
}

static bool is_gone(const struct tcp *tcp, int p)
{
	const int fd = tcp->peers[p].wire.fd;
	char any;

	/* No process sends anything before all have arrived. */
	return fd >= 0 && (recv(fd, &any, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
			   (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR));
}

/* Process P arrived, and is gone before all others have. */
static void lose_peer(struct opening *o, int p)
{
	struct bb_error error = {.text = ""};

	bb_fail(&error, BB_EBACKEND, "%s " BB_FRAME_GONE_WHY,
		hello_name(&o->tcp->peers[p].hello).text);
	note_misfit(o, &error);
	if (o->failed != BB_OK)
		return;
	bb_wire_close(&o->tcp->peers[p].wire);
	memset(&o->tcp->peers[p].hello, 0, sizeof(o->tcp->peers[p].hello));
	o->missing++;
}

/* A peer with the right password. */
static int tcp_admit(struct bb_star *star, const struct bb_hello *hello, int fd)
{
	struct opening *o = star->own;
	const bool fits = hello->proc < o->tcp->npeers;
	struct peer *const peer = &o->tcp->peers[fits ? hello->proc : 0];
	struct bb_error error = {.text = ""};
	bb_status status = o->failed;

	/* The same process has connected over another address, or this one is broken. */
	if ((fits && peer->hello.nonce == hello->nonce) || !bb_star_answer(star))
		return -1;
	if (status == BB_OK)
		status = compare_hello(o, hello, &error);
	if (status == BB_OK && !fits)
		status = bb_fail(&error, BB_EUSAGE, "%s: with WORLD_SIZE=%d ranks are 0 to %d",
				 hello_name(hello).text, o->tcp->npeers, o->tcp->npeers - 1);
	if (status == BB_OK) {
		if (hello->proc != 0 && is_gone(o->tcp, hello->proc))
			lose_peer(o, hello->proc);
		status = o->failed;
		if (hello->proc == 0 || peer->wire.fd >= 0)
			status = bb_fail(&error, BB_EUSAGE,
					 "%s and %s have the same RANK; give each its own",
					 hello_name(hello).text, hello_name(&peer->hello).text);
	}
	if (bb_error_status(&error) != BB_OK)
		note_misfit(o, &error);
	if (status != BB_OK) {
		struct bb_frame stop = {.kind = BB_FRAME_STOP, .status = (int32_t)status};

		/* The peer gets the cause, unless process 0 will report it. */
		bb_wire_send(&(struct bb_wire){.fd = fd}, &stop,
			     o->failed == BB_OK ? error.text : "");
		o->missing -= o->failed != BB_OK;
		return -1;
	}
	peer->wire.fd = fd;
	peer->hello = *hello;
	o->missing--;
	return 0;
}

/* ---- process 0 listens ------------------------------------------------------------------ */

static void add_listeners(const struct bb_star *star, struct bb_strbuf *out)
{
	if (star->identity.secret) {
		bb_strbuf_add(out, "all addresses");
		return;
	}
	for (int i = 0; i < star->nlisteners; i++) {
		struct sockaddr_storage at;
		socklen_t length = sizeof(at);
		char text[NI_MAXHOST];

		if (getsockname(star->listeners[i], (struct sockaddr *)&at, &length) == 0 &&
		    getnameinfo((struct sockaddr *)&at, length, text, sizeof(text), NULL, 0,
				NI_NUMERICHOST) == 0)
			bb_strbuf_addf(out, "%s%s", i ? " and " : "", text);
	}
}

/* Without a secret everybody who reaches the port can join: listen only where necessary. */
static bb_status open_port(struct opening *o)
{
	const struct bb_tcp_environment *e = o->environment;
	struct bb_address addresses[BB_STAR_ADDRESSES];
	uint16_t port = e->port;
	const char *why;
	int n = 0, reason;

	if (!o->star.identity.secret) {
		n = resolve_master(o, addresses, &why);
		if (n == 0)
			return bb_fail(
				o->error, BB_EBACKEND,
				"process 0 cannot resolve its own address, MASTER_ADDR=%.80s: %s",
				e->master, why);
	}
	reason = bb_star_listen(&o->star, addresses, n, &port);
	if (reason == EADDRNOTAVAIL)
		return bb_fail(o->error, BB_EBACKEND,
			       "process 0 cannot listen: MASTER_ADDR=%.80s names no address of its "
			       "host %s; name one, or set " BB_SECRET_VARIABLE
			       ", with which it listens on all",
			       e->master, o->star.identity.hello.host);
	if (reason)
		return bb_fail(o->error, BB_EBACKEND,
			       "process 0 cannot listen on port %d (%s): %s; if no other process "
			       "has RANK=0, set BUSBENCH_PORT to a free port, the same for all",
			       e->port, e->source, strerror(reason));
	return BB_OK;
}

/* ---- process 0 waits for all ---------------------------------------------------------------- */

static void add_dropped(struct opening *o, struct bb_strbuf *out)
{
	static const char *const kinds[BB_DROPPED_KINDS] = {
		[BB_DROPPED_SILENT] = "silent",
		[BB_DROPPED_NOISE] = "not from busbench",
		[BB_DROPPED_UNPROVEN] = "without the right BUSBENCH_SECRET",
		[BB_DROPPED_MISFIT] = "not fitting this run"};
	const char *before = "";
	int all = 0;

	bb_star_count_silent(&o->star);
	for (int k = 0; k < BB_DROPPED_KINDS; k++)
		all += o->star.dropped[k];
	if (all == 0)
		return;
	bb_strbuf_addf(out, "; %d connection%s closed: ", all, bb_plural(all));
	for (int k = 0; k < BB_DROPPED_KINDS; k++) {
		if (o->star.dropped[k] > 0)
			bb_strbuf_addf(out, "%s%d %s", before, o->star.dropped[k], kinds[k]);
		before = o->star.dropped[k] > 0 ? ", " : before;
	}
}

static bb_status report_missing(struct opening *o, int reason)
{
	const bb_status misfit = bb_error_status(&o->misfit);
	struct bb_strbuf who = {0};
	char time[BB_UNIT_TEXT];
	struct bb_ranges missing = {.out = &who};

	for (int p = 1; p < o->tcp->npeers; p++)
		if (o->tcp->peers[p].wire.fd < 0)
			bb_ranges_add(&missing, p);
	bb_ranges_end(&missing);
	if (reason)
		bb_strbuf_addf(&who, " (%s)", strerror(reason));
	if (misfit != BB_OK)
		bb_strbuf_addf(&who, "; %s", o->misfit.text);
	add_dropped(o, &who);
	if (!o->star.identity.secret) {
		bb_strbuf_add(&who,
			      "; without " BB_SECRET_VARIABLE " it listens on no address but ");
		add_listeners(&o->star, &who);
	}
	bb_fail(o->error, misfit != BB_OK ? misfit : BB_ETIMEOUT,
		"%d of the %d processes (WORLD_SIZE) did not connect to port %d (%s) of %s within "
		"%s, half of -T: RANK %s",
		o->missing, o->tcp->npeers, o->environment->port, o->environment->source,
		o->star.identity.hello.host, bb_format_duration(time, o->request->timeout_s),
		bb_strbuf_text(&who));
	bb_strbuf_free(&who);
	return bb_error_status(o->error);
}

/* Waits for all processes, and starts them. */
static bb_status gather_all(struct opening *o)
{
	struct tcp *const tcp = o->tcp;
	struct bb_strbuf note = {0};
	double next_check = 0;
	int reason = 0;
	const bb_status status = open_port(o);

	if (status != BB_OK)
		return status;
	o->missing = tcp->npeers - 1;
	tcp->peers[0].hello = o->star.identity.hello;
	while (o->missing > 0 && bb_clock_now() < o->star.end) {
		const int error = bb_star_receive(&o->star);

		reason = error ? error : reason;
		if (o->missing > 0 && bb_clock_now() < next_check)
			continue;
		next_check = bb_clock_now() + CHECK_S;
		for (int p = 1; p < tcp->npeers && o->failed == BB_OK; p++)
			if (is_gone(tcp, p))
				lose_peer(o, p);
	}
	if (o->failed == BB_OK && o->missing > 0)
		o->failed = report_missing(o, reason);
	if (o->failed != BB_OK) {
		send_stop(tcp, o->failed);
		return o->failed;
	}
	tcp->secured = o->star.identity.secret != NULL;
	for (int p = 1; p < tcp->npeers; p++) {
		struct bb_frame frame = {.kind = BB_FRAME_DATA};
		int lowest = 1; /* of its host, process 0 aside */

		while (strcmp(tcp->peers[lowest].hello.host, tcp->peers[p].hello.host) != 0)
			lowest++;
		frame.inside = lowest == p;
		bb_wire_send(&tcp->peers[p].wire, &frame, "");
	}
	bb_strbuf_addf(&note, "TCP; process 0 listened on ");
	add_listeners(&o->star, &note);
	bb_strbuf_addf(&note, ", port %d; %s", o->environment->port,
		       tcp->secured ? "all processes proved that they know " BB_SECRET_VARIABLE
				    : "no " BB_SECRET_VARIABLE
				      ": no process proved that it belongs to the run");
	add_dropped(o, &note);
	snprintf(tcp->note, sizeof(tcp->note), "%s", bb_strbuf_text(&note));
	bb_strbuf_free(&note);
	return BB_OK;
}

/* ---- the others ------------------------------------------------------------------------ */

/* All processes of a host see the same failure; one of them reports it. */
static bool reports_for_host(const struct bb_tcp_environment *e)
{
	return e->local <= 0 || (e->local == 1 && e->proc == 1);
}

static bb_status cannot_reach(struct opening *o, const char *why, int reason,
			      struct bb_launch *launch)
{
	const struct bb_tcp_environment *e = o->environment;
	char time[BB_UNIT_TEXT], within[BB_UNIT_TEXT + 32] = "";

	launch->silent = !reports_for_host(e);
	if (reason != ENOKEY)
		snprintf(within, sizeof(within), " within %s, half of -T",
			 bb_format_duration(time, o->request->timeout_s));
	return bb_fail(o->error,
		       reason == ENOKEY         ? BB_EUSAGE
		       : reason == EKEYREJECTED ? BB_EBACKEND
						: BB_ETIMEOUT,
		       "%s cannot reach process 0 at %s, port %d (MASTER_ADDR, %s)%s: %s",
		       hello_name(&o->star.identity.hello).text, e->master, e->port, e->source,
		       within, why);
}

/* Connects to process 0, and waits until it starts the run. */
static bb_status join_process_0(struct opening *o, struct bb_launch *launch)
{
	struct bb_address addresses[BB_STAR_ADDRESSES];
	struct bb_hello *const there = &o->tcp->peers[0].hello;
	struct bb_wire *const wire = &o->tcp->peers[0].wire;
	const struct bb_frame *const frame = &wire->frame;
	const char *why;
	int error, n = resolve_master(o, addresses, &why);

	if (n == 0)
		return cannot_reach(o, why, 0, launch);
	error = bb_star_reach(&o->star, addresses, n, &wire->fd, there);
	if (error)
		return cannot_reach(o, bb_greet_explain(error), error, launch);
	const bb_status status = compare_hello(o, there, o->error);
	if (status != BB_OK) {
		/* With a secret process 0 reports it and ends the run; else only this process ends.
		 */
		launch->silent = o->star.identity.secret != NULL;
		return status;
	}
	/* Process 0 says whether the run starts; until then it waits for other processes. It does
	   not wait longer than this process has waited for it, and ends before -T does. */
	enum bb_transit transit = bb_wire_await(wire, o->star.end + 0.9 * o->request->timeout_s);
	const bool told = transit == BB_COMPLETE;
	const struct name name = hello_name(there);
	o->tcp->reports = told && frame->inside;
	if (told && frame->kind == BB_FRAME_DATA)
		return BB_OK;
	launch->silent = told || !reports_for_host(o->environment);
	if (told && frame->status != BB_OK && frame->length > 0) {
		launch->silent = false;
		return bb_fail(o->error, (bb_status)frame->status, "%s rejected this process: %s",
			       name.text, frame->text);
	}
	if (told && frame->status != BB_OK)
		return bb_fail(o->error, (bb_status)frame->status, "process 0 ended the run");
	if (transit == BB_UNDER_WAY)
		return bb_fail(o->error, BB_ETIMEOUT,
			       "%s did not report within -T whether all processes have arrived",
			       name.text);
	return bb_fail(o->error, BB_EBACKEND, "%s %s", name.text,
		       *wire->why ? wire->why : BB_FRAME_GONE_WHY);
}

/* ---- the launch ------------------------------------------------------------------------ */

static bb_status tcp_check(struct bb_error *error)
{
	struct bb_tcp_environment e;
	const bb_status status = bb_tcp_environment_read(&e, error);

	return status == BB_OK ? bb_secret_check(error) : status;
}

static bb_status tcp_open(struct bb_launch *launch, const struct bb_launch_request *request,
			  struct bb_error *error)
{
	struct bb_tcp_environment e;
	struct opening o = {.environment = &e, .request = request, .error = error};
	struct bb_hello *const mine = &o.star.identity.hello;
	struct tcp *const tcp = o.tcp = calloc(1, sizeof(*tcp));
	int reason = 0;
	bb_status status;

	BB_TRY(status, bb_tcp_environment_read(&e, error), failed);
	const int npeers = e.proc == 0 ? e.nprocs : 1;
	if (tcp) {
		tcp->peers = calloc((size_t)npeers, sizeof(*tcp->peers));
		tcp->fds = calloc((size_t)npeers, sizeof(*tcp->fds));
	}
	if (!tcp || !tcp->peers || !tcp->fds)
		BB_TRY(status, bb_no_memory(error, "processes"), failed);
	for (; tcp->npeers < npeers; tcp->npeers++)
		tcp->peers[tcp->npeers].wire.fd = -1;
	*mine = (struct bb_hello){.proc = e.proc,
				  .nprocs = e.nprocs,
				  .pid = (int32_t)getpid(),
				  .version = BB_VERSION};
	memcpy(o.star.identity.password, passwords, sizeof(passwords));
	o.star.identity.secret = request->secret;
	o.star.admit = tcp_admit;
	o.star.own = &o;
	o.star.end = request->timeout_s > 0 ? bb_clock_now() + request->timeout_s : INFINITY;
	if (gethostname(mine->host, sizeof(mine->host) - 1) != 0)
		snprintf(mine->host, sizeof(mine->host), "an unknown host");
	if (e.nprocs > 1)
		reason = bb_star_open(&o.star);
	/* Zero marks a process that has not arrived. */
	while (!reason && mine->nonce == 0)
		if (getrandom(&mine->nonce, sizeof(mine->nonce), 0) != sizeof(mine->nonce))
			reason = errno;
	if (reason)
		status = bb_fail(error, BB_EINTERNAL, "process %d cannot connect to the others: %s",
				 e.proc, strerror(reason));
	else if (e.nprocs > 1)
		status = e.proc == 0 ? gather_all(&o) : join_process_0(&o, launch);
	BB_TRY(status, status, failed);
	bb_star_close(&o.star);
	*launch = (struct bb_launch){
		.proc = e.proc,
		.nprocs = e.nprocs,
		.gather = tcp_gather,
		.note = *tcp->note ? tcp->note : NULL,
		.close = tcp_close,
		.abandon = tcp_abandon,
		.refuse = tcp_refuse,
		.own = tcp,
	};
	return BB_OK;
failed:
	bb_star_close(&o.star);
	tcp_release(tcp);
	return status;
}

const struct bb_launch_kind bb_launch_tcp = {
	.abi = BB_LAUNCH_ABI,
	.name = "TCP",
	.check = tcp_check,
	.open = tcp_open,
};
