#include "launch/tcp.h"

#include "core/clock.h"
#include "core/strbuf.h"
#include "core/units.h"
#include "core/version.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LOOK_S 0.2     /* between two looks at who has come and is gone since */
#define LATE_S 1.0     /* that those have who come when it is clear that there will be no run */
#define RESOLVE_MS 300 /* between two attempts to find the address of process 0 */
#define NAMED 8        /* of the processes that did not come */

/* Of who comes and of who answers; whoever else listens at that port says something else. */
static const unsigned char words[2][16] = {"busbench, hello", "busbench, indeed"};

struct opening {
	struct bb_tcp *tcp;
	const struct bb_tcp_environment *environment;
	const struct bb_launch_request *request;
	struct bb_star star;
	struct bb_error *error;
	bb_status failed; /* process 0: there will be no run */
	int missing;      /* processes that did not come yet */
	double look;      /* process 0: when to look next at who is gone */
};

/* ---- process 0 ------------------------------------------------------------------------- */

/* Those who are still on their way shall be told as well. */
static void fail_all(struct opening *o, bb_status status)
{
	const double end = bb_clock_now() + LATE_S;

	o->failed = status;
	o->star.end = end < o->star.end ? end : o->star.end;
}

static bb_status differ(struct opening *o, const struct bb_hello *hello, bb_status status,
			const char *what, const char *theirs, const char *ours, const char *remedy)
{
	char name[112], mine[112];

	return bb_fail(o->error, status, "%s has %s %s, %s has %s; %s", bb_tcp_name(name, hello),
		       what, theirs, bb_tcp_name(mine, &o->star.hello), ours, remedy);
}

/* What both sides of a connection judge alike. */
static bb_status compare(struct opening *o, const struct bb_hello *hello)
{
	char theirs[16], ours[16];

	if (strcmp(hello->version, o->star.hello.version) != 0)
		return differ(o, hello, BB_EBACKEND, "busbench", hello->version,
			      o->star.hello.version, "install one version everywhere");
	if (hello->nprocs == o->star.hello.nprocs)
		return BB_OK;
	snprintf(theirs, sizeof(theirs), "%d", hello->nprocs);
	snprintf(ours, sizeof(ours), "%d", o->star.hello.nprocs);
	return differ(o, hello, BB_EUSAGE, "WORLD_SIZE", theirs, ours, "give all the same");
}

static bb_status judge(struct opening *o, const struct bb_hello *hello)
{
	char name[112], first[112];
	bb_status status = compare(o, hello);

	if (status != BB_OK)
		return status;
	if (hello->proc < 0 || hello->proc >= o->tcp->nprocs)
		return bb_fail(o->error, BB_EUSAGE, "%s: with WORLD_SIZE=%d there is only 0 … %d",
			       bb_tcp_name(name, hello), o->tcp->nprocs, o->tcp->nprocs - 1);
	if (hello->proc != 0 && o->tcp->wires[hello->proc].fd < 0)
		return BB_OK;
	bb_tcp_name(first, &o->tcp->hello[hello->proc]);
	return bb_fail(o->error, BB_EUSAGE, "%s and %s have the same RANK; give each its own",
		       bb_tcp_name(name, hello), first);
}

/* Somebody of the run, or who takes itself for that. */
static int take(struct bb_star *star, const struct bb_hello *hello, int fd)
{
	struct opening *o = star->own;
	struct bb_wire wire = {.fd = fd};
	struct bb_frame stop = {.kind = BB_NEWS_STOP};
	bb_status status = o->failed;

	/* The same process on another of its ways. */
	if (hello->proc >= 0 && hello->proc < o->tcp->nprocs &&
	    o->tcp->hello[hello->proc].nonce == hello->nonce)
		return -1;
	if (!bb_star_answer(star, fd))
		return -1;
	if (status == BB_OK)
		status = judge(o, hello);
	if (status != BB_OK) {
		if (o->failed == BB_OK)
			fail_all(o, status);
		stop.status = (int32_t)status;
		bb_wire_send(&wire, &stop, "", 0);
		o->missing--;
		return -1;
	}
	o->tcp->wires[hello->proc].fd = fd;
	o->tcp->hello[hello->proc] = *hello;
	o->missing--;
	return 0;
}

/* Nobody says anything before all are there. */
static void look_for_gone(struct opening *o)
{
	char name[112], any;

	if (o->failed != BB_OK || bb_clock_now() < o->look)
		return;
	o->look = bb_clock_now() + LOOK_S;
	for (int p = 1; p < o->tcp->nprocs; p++) {
		const int fd = o->tcp->wires[p].fd;

		if (fd < 0 || (recv(fd, &any, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
			       (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)))
			continue;
		fail_all(o, bb_fail(o->error, BB_EBACKEND,
				    "%s is gone: its process ended without a word",
				    bb_tcp_name(name, &o->tcp->hello[p])));
		return;
	}
}

static bb_status miss(struct opening *o, int reason)
{
	struct bb_strbuf who = {0};
	char time[BB_UNIT_TEXT];
	int named = 0;

	for (int p = 1; p < o->tcp->nprocs && named < NAMED; p++)
		if (o->tcp->wires[p].fd < 0)
			bb_strbuf_addf(&who, "%s%d", named++ ? ", " : "", p);
	if (o->missing > named)
		bb_strbuf_addf(&who, " and %d more", o->missing - named);
	if (reason)
		bb_strbuf_addf(&who, " (%s)", strerror(reason));
	bb_fail(o->error, BB_ETIMEOUT,
		"%d of the %d processes (WORLD_SIZE) did not come to port %d (%s) of %s within %s, "
		"half of -T: RANK %s",
		o->missing, o->tcp->nprocs, o->environment->port, o->environment->source,
		o->star.hello.host, bb_format_duration(time, o->request->timeout_s),
		bb_strbuf_text(&who));
	bb_strbuf_free(&who);
	return BB_ETIMEOUT;
}

/* Is process P the lowest but 0 of its host? */
static bool speaks(const struct bb_tcp *tcp, int p)
{
	for (int q = 1; q < p; q++)
		if (strcmp(tcp->hello[q].host, tcp->hello[p].host) == 0)
			return false;
	return true;
}

/* All have come: they may go on. */
static void welcome(struct bb_tcp *tcp)
{
	for (int p = 1; p < tcp->nprocs; p++) {
		struct bb_frame frame = {.kind = BB_FRAME_DATA, .inside = speaks(tcp, p)};

		bb_wire_send(&tcp->wires[p], &frame, "", 0);
	}
}

static bb_status gather_all(struct opening *o)
{
	const struct bb_tcp_environment *e = o->environment;
	uint16_t port = e->port;
	int reason = bb_star_listen(&o->star, &port);

	if (reason)
		return bb_fail(
			o->error, BB_EBACKEND,
			"process 0 cannot listen on port %d (%s): %s; if no other process has "
			"RANK=0, name a free port with BUSBENCH_PORT, the same for all",
			e->port, e->source, strerror(reason));
	o->missing = o->tcp->nprocs - 1;
	o->tcp->hello[0] = o->star.hello;
	while (o->missing > 0 && bb_clock_now() < o->star.end) {
		const int error = bb_star_receive(&o->star);

		reason = error ? error : reason;
		look_for_gone(o);
	}
	if (o->failed == BB_OK && o->missing > 0)
		o->failed = miss(o, reason);
	if (o->failed == BB_OK)
		welcome(o->tcp);
	else
		bb_tcp_tell_stop(o->tcp, o->failed);
	return o->failed;
}

/* ---- the others ------------------------------------------------------------------------ */

/* The addresses of MASTER_ADDR: how many there are, or 0 and why in *WHY. */
static int resolve(const struct bb_tcp_environment *e, struct bb_address *addresses,
		   const char **why)
{
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	char port[8];
	int n = 0, error;

	snprintf(port, sizeof(port), "%d", e->port);
	error = getaddrinfo(e->master, port, &wanted, &all);
	*why = error ? gai_strerror(error) : "no address";
	if (error)
		return 0;
	for (const struct addrinfo *a = all; a && n < BB_STAR_ADDRESSES; a = a->ai_next) {
		if (a->ai_addrlen > sizeof(addresses[n].to))
			continue;
		memcpy(&addresses[n].to, a->ai_addr, a->ai_addrlen);
		addresses[n++].length = a->ai_addrlen;
	}
	freeaddrinfo(all);
	return n;
}

/* All processes of a host have the same trouble; one that is not there cannot tell. */
static bool speaks_unasked(const struct bb_tcp_environment *e)
{
	return e->local <= 0 || (e->local == 1 && e->proc == 1);
}

static bb_status cannot_reach(struct opening *o, const char *why, struct bb_launch *launch)
{
	const struct bb_tcp_environment *e = o->environment;
	char name[112], time[BB_UNIT_TEXT];

	launch->silent = !speaks_unasked(e);
	return bb_fail(o->error, BB_ETIMEOUT,
		       "%s cannot reach process 0 at %s, port %d (MASTER_ADDR, %s) within %s, half "
		       "of -T: %s",
		       bb_tcp_name(name, &o->star.hello), e->master, e->port, e->source,
		       bb_format_duration(time, o->request->timeout_s), why);
}

/*
 * Process 0 says whether there will be a run; as long as it does not, it waits for others. It does
 * not wait for longer than this process has waited for it, and comes to its end before -T does.
 */
static enum bb_heard hear_process_0(struct opening *o)
{
	struct bb_wire *wire = &o->tcp->wires[0];
	const double end = o->star.end + 0.9 * o->request->timeout_s;
	enum bb_heard heard;

	while ((heard = bb_wire_receive(wire)) == BB_HEARD_NOTHING && bb_clock_now() < end)
		poll(&(struct pollfd){.fd = wire->fd, .events = POLLIN}, 1, 100);
	return heard;
}

static bb_status await_welcome(struct opening *o, struct bb_launch *launch)
{
	const struct bb_frame *frame = &o->tcp->wires[0].frame;
	const enum bb_heard heard = hear_process_0(o);
	char name[112];

	o->tcp->speaks = heard == BB_HEARD_FRAME && frame->inside;
	if (heard == BB_HEARD_FRAME && frame->kind == BB_FRAME_DATA)
		return BB_OK;
	launch->silent = heard == BB_HEARD_FRAME || !speaks_unasked(o->environment);
	bb_tcp_name(name, &o->tcp->hello[0]);
	if (heard == BB_HEARD_FRAME && frame->status != BB_OK)
		return bb_fail(o->error, (bb_status)frame->status, "process 0 ended the run");
	if (heard == BB_HEARD_NOTHING)
		return bb_fail(o->error, BB_ETIMEOUT,
			       "%s did not say within its time (-T) whether all have come", name);
	return bb_fail(o->error, BB_EBACKEND, "%s is gone: its process ended without a word", name);
}

static bb_status join(struct opening *o, struct bb_launch *launch)
{
	struct bb_address addresses[BB_STAR_ADDRESSES];
	struct bb_hello *there = &o->tcp->hello[0];
	const char *why;
	bb_status status;
	int error, n;

	while ((n = resolve(o->environment, addresses, &why)) == 0) {
		/* A name may become known only when its host starts. */
		if (bb_clock_now() > o->star.end)
			return cannot_reach(o, why, launch);
		poll(NULL, 0, RESOLVE_MS);
	}
	error = bb_star_reach(&o->star, addresses, n, &o->tcp->wires[0].fd, there);
	if (error)
		return cannot_reach(o, strerror(error), launch);
	status = compare(o, there);
	if (status == BB_OK)
		return await_welcome(o, launch);
	launch->silent = true; /* process 0 sees the same, and says so */
	return status;
}

/* ---- both ------------------------------------------------------------------------------ */

static int introduce(struct bb_star *star, const struct bb_tcp_environment *e)
{
	struct bb_hello *hello = &star->hello;

	hello->proc = e->proc;
	hello->nprocs = e->nprocs;
	hello->pid = (int32_t)getpid();
	snprintf(hello->version, sizeof(hello->version), "%s", BB_VERSION);
	if (gethostname(hello->host, sizeof(hello->host) - 1) != 0)
		snprintf(hello->host, sizeof(hello->host), "an unknown host");
	memcpy(star->secret, words, sizeof(words));
	/* Zero is of who has not come. */
	do
		if (getrandom(&hello->nonce, sizeof(hello->nonce), 0) != sizeof(hello->nonce))
			return errno;
	while (hello->nonce == 0);
	return bb_star_open(star);
}

static bb_status connect_all(struct bb_tcp *tcp, const struct bb_tcp_environment *e,
			     struct bb_launch *launch, const struct bb_launch_request *request,
			     struct bb_error *error)
{
	struct opening o = {
		.tcp = tcp,
		.environment = e,
		.request = request,
		.star = {.take = take, .own = &o},
		.error = error,
	};
	const int reason = introduce(&o.star, e);
	bb_status status;

	o.star.end = request->timeout_s > 0 ? bb_clock_now() + request->timeout_s : INFINITY;
	if (reason)
		status = bb_fail(error, BB_EINTERNAL, "process %d cannot look for the others: %s",
				 e->proc, strerror(reason));
	else
		status = e->proc == 0 ? gather_all(&o) : join(&o, launch);
	bb_star_close(&o.star);
	return status;
}

static bb_status tcp_check(struct bb_error *error)
{
	struct bb_tcp_environment e;

	return bb_tcp_environment_read(&e, error);
}

static bb_status tcp_open(struct bb_launch *launch, const struct bb_launch_request *request,
			  struct bb_error *error)
{
	struct bb_tcp_environment e;
	struct bb_tcp *tcp = NULL;
	bb_status status = bb_tcp_environment_read(&e, error);

	if (status != BB_OK)
		return status;
	tcp = bb_tcp_new(e.proc, e.nprocs);
	if (!tcp)
		return bb_fail(error, BB_EINTERNAL, "out of memory for %d processes", e.nprocs);
	if (e.nprocs > 1)
		status = connect_all(tcp, &e, launch, request, error);
	if (status == BB_OK)
		*launch = bb_tcp_launch(tcp);
	else
		bb_tcp_release(tcp);
	return status;
}

const struct bb_launch_kind bb_launch_tcp = {
	.abi = BB_LAUNCH_ABI,
	.name = "TCP",
	.check = tcp_check,
	.open = tcp_open,
};
