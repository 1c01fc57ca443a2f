/*
 * Opening at process 0: all other processes connect to it.
 *
 * Without a secret a process of the run and a stranger that claims to be one look the same.
 * Therefore no peer ends the wait: one that does not fit is rejected, and named if a process is
 * missing in the end. With a secret every peer belongs to the run, and a peer that does not fit
 * ends the run at once.
 */
#include "launch/tcp_opening.h"

#include "core/ranges.h"
#include "core/clock.h"
#include "core/strbuf.h"
#include "core/units.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define CHECK_S 0.2 /* between two checks for lost processes */
#define LATE_S 1.0  /* for processes that arrive after the run has failed */

/* ---- peers ------------------------------------------------------------------------- */

/* Processes that arrive late are informed as well. */
static void fail_all(struct bb_opening *o, bb_status status)
{
	const double end = bb_clock_now() + LATE_S;

	o->failed = status;
	o->star.end = end < o->star.end ? end : o->star.end;
}

/* A peer does not fit, for the cause in ERROR: with a secret that ends the run. */
static void note_misfit(struct bb_opening *o, const struct bb_error *error)
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
static void lose(struct bb_opening *o, int p)
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

static void check_for_lost(struct bb_opening *o)
{
	o->next_check = bb_clock_now() + CHECK_S;
	for (int p = 1; p < o->tcp->nprocs && o->failed == BB_OK; p++)
		if (is_gone(o->tcp, p))
			lose(o, p);
}

static bb_status check_peer(struct bb_opening *o, const struct bb_hello *hello,
			    struct bb_error *error)
{
	char name[112], first[112];
	bb_status status = bb_opening_compare(o, hello, error);

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
static int reject_peer(struct bb_opening *o, int fd, bb_status status, const char *why)
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
	struct bb_opening *o = star->own;
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

/* ---- listening ------------------------------------------------------------------ */

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

static bb_status cannot_listen(struct bb_opening *o, int reason)
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
static bb_status open_port(struct bb_opening *o)
{
	struct bb_address addresses[BB_STAR_ADDRESSES];
	uint16_t port = o->environment->port;
	const char *why;
	int n = 0, reason;

	if (!o->star.identity.secret) {
		n = bb_opening_resolve(o, addresses, &why);
		if (n == 0)
			return bb_fail(
				o->error, BB_EBACKEND,
				"process 0 cannot resolve its own address, MASTER_ADDR=%.80s: %s",
				o->environment->master, why);
	}
	reason = bb_star_listen(&o->star, addresses, n, &port);
	return reason ? cannot_listen(o, reason) : BB_OK;
}

/* ---- all of them ----------------------------------------------------------------------- */

static void add_dropped(struct bb_opening *o, struct bb_strbuf *out)
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

static bb_status report_missing(struct bb_opening *o, int reason)
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
static void start_all(struct bb_opening *o)
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

bb_status bb_opening_gather(struct bb_opening *o)
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
