/*
 * Opening the launch over TCP: all other processes connect to process 0.
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

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MOST_PORT 65535
#define RESOLVE_MS 300 /* between two attempts to resolve the address of process 0 */
#define CHECK_S 0.2    /* between two checks for lost processes */
#define LATE_S 1.0     /* for processes that arrive after the run has failed */

/* Of the connecting and of the answering side; another program at that port sends other data. */
static const unsigned char passwords[2][16] = {"busbench, hello", "busbench, indeed"};

/* A launch that is being opened. */
struct opening {
	struct bb_tcp *tcp;
	const struct bb_tcp_environment *environment;
	const struct bb_launch_request *request;
	struct bb_star star;
	struct bb_error *error;
	/* Process 0's: */
	bb_status failed;  /* the run will not start */
	int missing;       /* processes that have not arrived */
	double next_check; /* time of the next check for lost processes */
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

static bb_status read_port(struct bb_tcp_environment *e, struct bb_error *error)
{
	const bool given = getenv("BUSBENCH_PORT") != NULL;
	int port;
	bb_status status =
		read_number(given ? "BUSBENCH_PORT" : "MASTER_PORT", 1, MOST_PORT, &port, error);

	if (status != BB_OK)
		return status;
	if (!given && port == MOST_PORT)
		return bb_fail(error, BB_EUSAGE,
			       "MASTER_PORT=%d: no port is above it; set BUSBENCH_PORT", port);
	e->port = (uint16_t)(given ? port : port + 1);
	e->source = given ? "BUSBENCH_PORT" : "MASTER_PORT + 1";
	return BB_OK;
}

bb_status bb_tcp_environment_read(struct bb_tcp_environment *e, struct bb_error *error)
{
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
		status = is_missing("MASTER_ADDR", error);
	else
		status = read_port(e, error);
out:
	return status;
}

/* ---- both sides ------------------------------------------------------------------------ */

static bb_status differ(const struct opening *o, const struct bb_hello *hello,
			struct bb_error *error, bb_status status, const char *what,
			const char *theirs, const char *ours, const char *remedy)
{
	char name[112], mine[112];

	return bb_fail(error, status, "%s has %s %s, %s has %s; %s", bb_tcp_name(name, hello), what,
		       theirs, bb_tcp_name(mine, &o->star.identity.hello), ours, remedy);
}

/* Checks of both sides of a connection: a difference to HELLO goes into ERROR. */
static bb_status compare_hello(const struct opening *o, const struct bb_hello *hello,
			       struct bb_error *error)
{
	const struct bb_hello *mine = &o->star.identity.hello;
	char theirs[16], ours[16];

	if (strcmp(hello->version, mine->version) != 0)
		return differ(o, hello, error, BB_EBACKEND, "busbench", hello->version,
			      mine->version, "install one version everywhere");
	if (hello->nprocs == mine->nprocs)
		return BB_OK;
	snprintf(theirs, sizeof(theirs), "%d", hello->nprocs);
	snprintf(ours, sizeof(ours), "%d", mine->nprocs);
	return differ(o, hello, error, BB_EUSAGE, "WORLD_SIZE", theirs, ours,
		      "set the same for all");
}

/* /etc/hosts may list an address twice. */
static bool is_listed(const struct bb_address *addresses, int n, const struct addrinfo *a)
{
	for (int i = 0; i < n; i++)
		if (addresses[i].length == a->ai_addrlen &&
		    memcmp(&addresses[i].to, a->ai_addr, a->ai_addrlen) == 0)
			return true;
	return false;
}

static int resolve_once(const struct bb_tcp_environment *e, struct bb_address *addresses,
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
		if (a->ai_addrlen > sizeof(addresses[n].to) || is_listed(addresses, n, a))
			continue;
		memcpy(&addresses[n].to, a->ai_addr, a->ai_addrlen);
		addresses[n++].length = a->ai_addrlen;
	}
	freeaddrinfo(all);
	return n;
}

/* Resolve MASTER_ADDR; returns the number of ADDRESSES, or, after the timeout, 0 and *WHY. */
static int resolve_master(const struct opening *o, struct bb_address *addresses, const char **why)
{
	int n;

	/* A name may resolve only once its host has started. */
	while ((n = resolve_once(o->environment, addresses, why)) == 0 &&
	       bb_clock_now() < o->star.end)
		poll(NULL, 0, RESOLVE_MS);
	return n;
}

/* ---- peers of process 0 -------------------------------------------------------------------------
 */

/* Processes that arrive late are informed as well. */
static void fail_all(struct opening *o, bb_status status)
{
	const double end = bb_clock_now() + LATE_S;

	o->failed = status;
	o->star.end = end < o->star.end ? end : o->star.end;
}

/* A peer does not fit, for the cause in ERROR: with a secret that ends the run. */
static void note_misfit(struct opening *o, const struct bb_error *error)
{
	const bb_status status = bb_error_status(error);

	if (!o->star.identity.secret) {
		o->star.dropped[BB_DROPPED_MISFIT]++;
		bb_fail(&o->misfit, status, "%s", error->text);
	} else if (o->failed == BB_OK) {
		fail_all(o, bb_fail(o->error, status, "%s", error->text));
	}
}

static bool is_gone(const struct bb_tcp *tcp, int p)
{
	const int fd = tcp->wires[p].fd;
	char any;

	/* No process sends anything before all have arrived. */
	return fd >= 0 && (recv(fd, &any, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
			   (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR));
}

/* Process P arrived, and is gone before all others have. */
static void lose(struct opening *o, int p)
{
	struct bb_error error = {.text = ""};
	char name[112];

	bb_fail(&error, BB_EBACKEND, "%s " BB_NEWS_GONE_WHY, bb_tcp_name(name, &o->tcp->hello[p]));
	note_misfit(o, &error);
	if (o->failed != BB_OK)
		return;
	bb_wire_close(&o->tcp->wires[p]);
	memset(&o->tcp->hello[p], 0, sizeof(o->tcp->hello[p]));
	o->missing++;
}

static void check_for_lost(struct opening *o)
{
	o->next_check = bb_clock_now() + CHECK_S;
	for (int p = 1; p < o->tcp->nprocs && o->failed == BB_OK; p++)
		if (is_gone(o->tcp, p))
			lose(o, p);
}

static bb_status check_peer(struct opening *o, const struct bb_hello *hello, struct bb_error *error)
{
	char name[112], first[112];
	bb_status status = compare_hello(o, hello, error);

	if (status != BB_OK)
		return status;
	if (hello->proc >= o->tcp->nprocs)
		return bb_fail(error, BB_EUSAGE, "%s: with WORLD_SIZE=%d ranks are 0 to %d",
			       bb_tcp_name(name, hello), o->tcp->nprocs, o->tcp->nprocs - 1);
	if (hello->proc != 0 && is_gone(o->tcp, hello->proc))
		lose(o, hello->proc);
	if (hello->proc != 0 && o->tcp->wires[hello->proc].fd < 0)
		return o->failed;
	bb_tcp_name(first, &o->tcp->hello[hello->proc]);
	return bb_fail(error, BB_EUSAGE, "%s and %s have the same RANK; give each its own",
		       bb_tcp_name(name, hello), first);
}

/* Send the peer the cause, unless process 0 will report it. */
static int reject_peer(struct opening *o, int fd, bb_status status, const char *why)
{
	struct bb_wire wire = {.fd = fd};
	struct bb_frame stop = {.kind = BB_NEWS_STOP, .status = (int32_t)status};

	bb_wire_send(&wire, &stop, why, strlen(why));
	if (o->failed != BB_OK)
		o->missing--;
	return -1;
}

/* A peer with the right password. */
static int tcp_admit(struct bb_star *star, const struct bb_hello *hello, int fd)
{
	struct opening *o = star->own;
	struct bb_error error = {.text = ""};
	bb_status status = o->failed;

	/* The same process has connected over another address. */
	if (hello->proc < o->tcp->nprocs && o->tcp->hello[hello->proc].nonce == hello->nonce)
		return -1;
	if (!bb_star_answer(star))
		return -1;
	if (status == BB_OK)
		status = check_peer(o, hello, &error);
	if (bb_error_status(&error) != BB_OK)
		note_misfit(o, &error);
	if (status != BB_OK)
		return reject_peer(o, fd, status, o->failed == BB_OK ? error.text : "");
	o->tcp->wires[hello->proc].fd = fd;
	o->tcp->hello[hello->proc] = *hello;
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

static bb_status cannot_listen(struct opening *o, int reason)
{
	const struct bb_tcp_environment *e = o->environment;

	if (reason == EADDRNOTAVAIL)
		return bb_fail(o->error, BB_EBACKEND,
			       "process 0 cannot listen: MASTER_ADDR=%.80s names no address of its "
			       "host %s; name one, or set " BB_SECRET_VARIABLE
			       ", with which it listens on all",
			       e->master, o->star.identity.hello.host);
	return bb_fail(o->error, BB_EBACKEND,
		       "process 0 cannot listen on port %d (%s): %s; if no other process has "
		       "RANK=0, set BUSBENCH_PORT to a free port, the same for all",
		       e->port, e->source, strerror(reason));
}

/* Without a secret everybody who reaches the port can join: listen only where necessary. */
static bb_status open_port(struct opening *o)
{
	struct bb_address addresses[BB_STAR_ADDRESSES];
	uint16_t port = o->environment->port;
	const char *why;
	int n = 0, reason;

	if (!o->star.identity.secret) {
		n = resolve_master(o, addresses, &why);
		if (n == 0)
			return bb_fail(
				o->error, BB_EBACKEND,
				"process 0 cannot resolve its own address, MASTER_ADDR=%.80s: %s",
				o->environment->master, why);
	}
	reason = bb_star_listen(&o->star, addresses, n, &port);
	return reason ? cannot_listen(o, reason) : BB_OK;
}

/* ---- process 0 waits for all
 * ----------------------------------------------------------------------- */

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
	struct bb_strbuf who = {0}, where = {0};
	char time[BB_UNIT_TEXT];
	struct bb_ranges missing = {.out = &who};

	for (int p = 1; p < o->tcp->nprocs; p++)
		if (o->tcp->wires[p].fd < 0)
			bb_ranges_add(&missing, p);
	bb_ranges_end(&missing);
	if (reason)
		bb_strbuf_addf(&who, " (%s)", strerror(reason));
	if (misfit != BB_OK)
		bb_strbuf_addf(&who, "; %s", o->misfit.text);
	add_listeners(&o->star, &where);
	add_dropped(o, &who);
	bb_fail(o->error, misfit != BB_OK ? misfit : BB_ETIMEOUT,
		"%d of the %d processes (WORLD_SIZE) did not connect to port %d (%s) of %s within "
		"%s, half of -T: RANK %s%s%s",
		o->missing, o->tcp->nprocs, o->environment->port, o->environment->source,
		o->star.identity.hello.host, bb_format_duration(time, o->request->timeout_s),
		bb_strbuf_text(&who),
		o->star.identity.secret ? ""
					: "; without " BB_SECRET_VARIABLE
					  " it listens on no address but ",
		o->star.identity.secret ? "" : bb_strbuf_text(&where));
	bb_strbuf_free(&who);
	bb_strbuf_free(&where);
	return bb_error_status(o->error);
}

/* Is process P the lowest of its host, process 0 aside? */
static bool reports(const struct bb_tcp *tcp, int p)
{
	for (int q = 1; q < p; q++)
		if (strcmp(tcp->hello[q].host, tcp->hello[p].host) == 0)
			return false;
	return true;
}

/* All processes have arrived: start them. */
static void start_all(struct opening *o)
{
	struct bb_tcp *tcp = o->tcp;
	struct bb_strbuf note = {0};

	tcp->secured = o->star.identity.secret != NULL;
	for (int p = 1; p < tcp->nprocs; p++) {
		struct bb_frame frame = {.kind = BB_FRAME_DATA, .inside = reports(tcp, p)};

		bb_wire_send(&tcp->wires[p], &frame, "", 0);
	}
	bb_strbuf_addf(&note, "TCP; process 0 listened on ");
	add_listeners(&o->star, &note);
	bb_strbuf_addf(&note, ", port %d; %s", o->environment->port,
		       o->star.identity.secret
			       ? "all processes proved that they know " BB_SECRET_VARIABLE
			       : "no " BB_SECRET_VARIABLE
				 ": no process proved that it belongs to the run");
	add_dropped(o, &note);
	snprintf(tcp->note, sizeof(tcp->note), "%s", bb_strbuf_text(&note));
	bb_strbuf_free(&note);
}

static bb_status gather_all(struct opening *o)
{
	int reason = 0;
	bb_status status;

	o->star.admit = tcp_admit;
	status = open_port(o);
	if (status != BB_OK)
		return status;
	o->missing = o->tcp->nprocs - 1;
	o->tcp->hello[0] = o->star.identity.hello;
	while (o->missing > 0 && bb_clock_now() < o->star.end) {
		const int error = bb_star_receive(&o->star);

		reason = error ? error : reason;
		if (o->failed == BB_OK && (o->missing == 0 || bb_clock_now() >= o->next_check))
			check_for_lost(o);
	}
	if (o->failed == BB_OK && o->missing > 0)
		o->failed = report_missing(o, reason);
	if (o->failed == BB_OK)
		start_all(o);
	else
		bb_tcp_send_stop(o->tcp, o->failed);
	return o->failed;
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
	const bb_status status = reason == ENOKEY         ? BB_EUSAGE
				 : reason == EKEYREJECTED ? BB_EBACKEND
							  : BB_ETIMEOUT;
	char name[112], time[BB_UNIT_TEXT];

	launch->silent = !reports_for_host(e);
	bb_tcp_name(name, &o->star.identity.hello);
	if (reason == ENOKEY)
		return bb_fail(o->error, status,
			       "%s cannot join process 0 at %s, port %d (MASTER_ADDR, %s): %s",
			       name, e->master, e->port, e->source, why);
	return bb_fail(o->error, status,
		       "%s cannot reach process 0 at %s, port %d (MASTER_ADDR, %s) within %s, half "
		       "of -T: %s",
		       name, e->master, e->port, e->source,
		       bb_format_duration(time, o->request->timeout_s), why);
}

/*
 * Process 0 says whether the run starts; until then it waits for other processes. It does not wait
 * longer than this process has waited for it, and ends before -T does.
 */
static bb_status await_start(struct opening *o, struct bb_launch *launch)
{
	const struct bb_frame *frame = &o->tcp->wires[0].frame;
	const enum bb_received received =
		bb_wire_await(&o->tcp->wires[0], o->star.end + 0.9 * o->request->timeout_s);
	char name[112];

	o->tcp->reports = received == BB_RECEIVED_FRAME && frame->inside;
	if (received == BB_RECEIVED_FRAME && frame->kind == BB_FRAME_DATA)
		return BB_OK;
	launch->silent = received == BB_RECEIVED_FRAME || !reports_for_host(o->environment);
	bb_tcp_name(name, &o->tcp->hello[0]);
	if (received == BB_RECEIVED_FRAME && frame->status != BB_OK && frame->length > 0) {
		launch->silent = false;
		return bb_fail(o->error, (bb_status)frame->status, "%s rejected this process: %s",
			       name, frame->text);
	}
	if (received == BB_RECEIVED_FRAME && frame->status != BB_OK)
		return bb_fail(o->error, (bb_status)frame->status, "process 0 ended the run");
	if (received == BB_RECEIVED_NOTHING)
		return bb_fail(o->error, BB_ETIMEOUT,
			       "%s did not report within -T whether all processes have arrived",
			       name);
	return bb_fail(o->error, BB_EBACKEND, "%s %s", name,
		       *o->tcp->wires[0].why ? o->tcp->wires[0].why : BB_NEWS_GONE_WHY);
}

static bb_status join_process_0(struct opening *o, struct bb_launch *launch)
{
	struct bb_address addresses[BB_STAR_ADDRESSES];
	struct bb_hello *there = &o->tcp->hello[0];
	const char *why;
	bb_status status;
	int error, n = resolve_master(o, addresses, &why);

	if (n == 0)
		return cannot_reach(o, why, 0, launch);
	error = bb_star_reach(&o->star, addresses, n, &o->tcp->wires[0].fd, there);
	if (error)
		return cannot_reach(o, bb_greet_explain(error), error, launch);
	status = compare_hello(o, there, o->error);
	if (status == BB_OK)
		return await_start(o, launch);
	/* With a secret process 0 reports it and ends the run; else only this process ends. */
	launch->silent = o->star.identity.secret != NULL;
	return status;
}

/* ---- the launch ------------------------------------------------------------------------ */

static int introduce(struct bb_star *star, const struct bb_tcp_environment *e)
{
	struct bb_hello *hello = &star->identity.hello;

	hello->proc = e->proc;
	hello->nprocs = e->nprocs;
	hello->pid = (int32_t)getpid();
	snprintf(hello->version, sizeof(hello->version), "%s", BB_VERSION);
	if (gethostname(hello->host, sizeof(hello->host) - 1) != 0)
		snprintf(hello->host, sizeof(hello->host), "an unknown host");
	memcpy(star->identity.password, passwords, sizeof(passwords));
	/* Zero marks a process that has not arrived. */
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
		.star = {.own = &o, .identity.secret = request->secret},
		.error = error,
	};
	const int reason = introduce(&o.star, e);
	bb_status status;

	o.star.end = request->timeout_s > 0 ? bb_clock_now() + request->timeout_s : INFINITY;
	if (reason)
		status = bb_fail(error, BB_EINTERNAL, "process %d cannot connect to the others: %s",
				 e->proc, strerror(reason));
	else
		status = e->proc == 0 ? gather_all(&o) : join_process_0(&o, launch);
	bb_star_close(&o.star);
	return status;
}

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
	struct bb_tcp *tcp = NULL;
	bb_status status = bb_tcp_environment_read(&e, error);

	if (status != BB_OK)
		return status;
	tcp = bb_tcp_new(e.proc, e.nprocs);
	if (!tcp)
		return bb_no_memory(error, "processes");
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
