/*
 * Process 0 listens on all its addresses; every other process tries all of them (star.h).
 */
#include "launch/control.h"
#include "launch/star.h"

#include "core/clock.h"
#include "core/strbuf.h"
#include "core/units.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- messages ---------------------------------------------------------------------------- */

/* The kinds that process 0 receives, and the others. */
#define TO_PROCESS_0                                                                               \
	(1u << BB_FRAME_GOODBYE | 1u << BB_FRAME_FAILED | 1u << BB_FRAME_LEFT |                    \
	 1u << BB_FRAME_PROGRESS)
#define TO_OTHERS (1u << BB_FRAME_GOODBYE | 1u << BB_FRAME_STOP | 1u << BB_FRAME_REQUEST)

const struct bb_frame *bb_control_poll(struct bb_control *control, int *proc)
{
	const int most = sizeof(control->events) / sizeof(control->events[0]);
	const unsigned kinds = control && control->proc == 0 ? TO_PROCESS_0 : TO_OTHERS;

	while (control) {
		while (control->next < control->nevents) {
			struct bb_wire *wire = control->events[control->next++].data.ptr;
			const enum bb_transit transit =
				wire->fd < 0 ? BB_UNDER_WAY : bb_wire_receive(wire);
			const bool valid = transit == BB_COMPLETE && kinds >> wire->frame.kind & 1;

			*proc = (int)(wire - control->wires);
			if (transit == BB_UNDER_WAY)
				continue;
			if (valid && wire->frame.kind != BB_FRAME_GOODBYE)
				return &wire->frame;
			bb_wire_close(wire);
			if (valid)
				continue;
			wire->frame = (struct bb_frame){.kind = BB_FRAME_GONE};
			snprintf(wire->frame.text, BB_FRAME_TEXT, "%s",
				 transit == BB_BROKEN ? wire->why
						      : "sent a frame of another process");
			return &wire->frame;
		}
		control->next = 0;
		control->nevents = epoll_wait(control->epoll, control->events, most, 0);
		if (control->nevents <= 0)
			break;
	}
	return NULL;
}

bool bb_control_reaches(const struct bb_control *control, int proc)
{
	return control && proc < control->nwires && control->wires[proc].fd >= 0;
}

void bb_control_send(struct bb_control *control, struct bb_frame *message, const char *text)
{
	for (int i = 0; control && i < control->nwires; i++)
		bb_wire_send(&control->wires[i], message, text);
}

/* ---- closing --------------------------------------------------------------------------- */

/* Free CONTROL and close its connections without a goodbye. NULL: nothing. */
static void control_release(struct bb_control *control)
{
	if (!control)
		return;
	for (int i = 0; i < control->nwires; i++)
		bb_wire_close(&control->wires[i]);
	if (control->epoll >= 0)
		close(control->epoll);
	free(control->wires);
	free(control);
}

void bb_control_close(struct bb_control *control)
{
	char waste[4096];

	bb_control_send(control, &(struct bb_frame){.kind = BB_FRAME_GOODBYE}, "");
	/* Closing a socket with unread data resets the connection, and the data just sent is lost.
	 */
	for (int i = 0; control && i < control->nwires; i++)
		while (control->wires[i].fd >= 0 &&
		       recv(control->wires[i].fd, waste, sizeof(waste), MSG_DONTWAIT) > 0)
			;
	control_release(control);
}

/* ---- what the processes tell each other before they connect ------------------------------ */

#define MOST_ERRNO 4095

struct address {
	char text[46]; /* IPv4 or IPv6, as numbers */
	uint16_t loopback;
};

/* What every process sends to all others before any connection; all fields but the first two are
   used of process 0 only. */
struct offer {
	char host[64];
	int32_t error; /* an errno: why this process cannot take part; or 0 */
	uint16_t port;
	uint16_t naddresses;
	struct address addresses[BB_STAR_ADDRESSES];
	unsigned char password[2][16]; /* of the connecting and of the answering side */
};

static const struct bb_payload_field offer_fields[] = {
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct offer, host),
	BB_PAYLOAD_FIELD("the error", BB_PAYLOAD_SIGNED, struct offer, error, .high = MOST_ERRNO),
	BB_PAYLOAD_FIELD("the port", BB_PAYLOAD_UNSIGNED, struct offer, port, .high = UINT16_MAX),
	BB_PAYLOAD_FIELD("the number of addresses", BB_PAYLOAD_UNSIGNED, struct offer, naddresses,
			 .high = BB_STAR_ADDRESSES),
	BB_PAYLOAD_EACH("an address", BB_PAYLOAD_TEXT, struct offer, addresses, .text,
			BB_STAR_ADDRESSES),
	BB_PAYLOAD_EACH("a loopback mark", BB_PAYLOAD_UNSIGNED, struct offer, addresses, .loopback,
			BB_STAR_ADDRESSES, .high = 1),
	BB_PAYLOAD_FIELD("the password", BB_PAYLOAD_ANY, struct offer, password),
	{.name = NULL}};

static const struct bb_payload offer_table = {"an offer", sizeof(struct offer), offer_fields, NULL};

static const struct bb_payload_field error_fields[] =
	BB_PAYLOAD_ONE("the error", BB_PAYLOAD_SIGNED, int32_t, .high = MOST_ERRNO);
static const struct bb_payload error_table = {"an error", sizeof(int32_t), error_fields, NULL};

struct control_opening {
	struct bb_control *control;
	struct bb_launch *launch;
	struct offer mine, *offers; /* of all, by process */
	double timeout;
	struct bb_star star;
	int missing; /* processes that have not connected */
};

/* ---- opening -------------------------------------------------------------------------------- */

/* A process that connects over several addresses is answered on the first. */
static int control_admit(struct bb_star *star, const struct bb_hello *hello, int fd)
{
	struct control_opening *o = star->own;

	if (hello->proc <= 0 || hello->proc >= o->launch->nprocs ||
	    o->control->wires[hello->proc].fd >= 0 || !bb_star_answer(star))
		return -1;
	o->control->wires[hello->proc].fd = fd;
	o->missing--;
	return 0;
}

/* Everything that can fail in this process alone; returns an errno. */
static int prepare(struct control_opening *o)
{
	const int n = o->launch->proc == 0 ? o->launch->nprocs : 1;
	struct bb_control *control = o->control = calloc(1, sizeof(*control));
	struct offer *const mine = &o->mine;
	struct ifaddrs *all;

	if (!control)
		return ENOMEM;
	control->proc = o->launch->proc;
	control->epoll = -1;
	const int error = bb_star_open(&o->star);
	if (error)
		return error;
	control->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (control->epoll < 0)
		return errno;
	control->wires = calloc((size_t)n, sizeof(*control->wires));
	if (!control->wires)
		return ENOMEM;
	for (; control->nwires < n; control->nwires++)
		control->wires[control->nwires].fd = -1;
	if (o->launch->proc != 0)
		return 0;
	if (getrandom(mine->password, sizeof(mine->password), 0) != sizeof(mine->password) ||
	    getifaddrs(&all) < 0)
		return errno;
	/* Addresses of the interfaces that are up, loopback ones last. */
	for (int loopback = 0; loopback < 2; loopback++)
		for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
			const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)i->ifa_addr;
			const bool is_6 = in6 && in6->sin6_family == AF_INET6;
			struct address *a = &mine->addresses[mine->naddresses];

			/* Link-local addresses differ in their scope on each host. */
			if (!in6 || !(i->ifa_flags & IFF_UP) ||
			    mine->naddresses == BB_STAR_ADDRESSES ||
			    ((i->ifa_flags & IFF_LOOPBACK) != 0) != loopback ||
			    (is_6 ? IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)
				  : in6->sin6_family != AF_INET))
				continue;
			a->loopback = (uint16_t)loopback;
			mine->naddresses +=
				getnameinfo(i->ifa_addr,
					    is_6 ? sizeof(*in6) : sizeof(struct sockaddr_in),
					    a->text, sizeof(a->text), NULL, 0, NI_NUMERICHOST) == 0;
		}
	freeifaddrs(all);
	return mine->naddresses > 0 ? bb_star_listen(&o->star, NULL, 0, &mine->port)
				    : EADDRNOTAVAIL;
}

/* Process 0 waits for all others, which connect to it. Returns an errno: at process 0 after the
   timeout if some process could not be kept, elsewhere why it did not answer. */
static int connect_all(struct control_opening *o)
{
	const struct offer *there = &o->offers[0];
	const bool here = strcmp(o->mine.host, there->host) == 0;
	struct bb_address addresses[BB_STAR_ADDRESSES];
	struct bb_control *const control = o->control;
	struct bb_hello hello;
	const char *why;
	int n = 0, error = 0;

	o->star.end = bb_clock_now() + o->timeout;
	o->missing = o->launch->nprocs - 1;
	memcpy(o->star.identity.password, there->password, sizeof(o->star.identity.password));
	while (control->proc == 0 && o->missing > 0 && bb_clock_now() < o->star.end) {
		const int reason = bb_star_receive(&o->star);

		error = o->missing == 0 ? 0 : reason ? reason : error;
	}
	for (int i = 0; i < there->naddresses && control->proc != 0; i++)
		/* A loopback address is valid only on the host of process 0. */
		if (here || !there->addresses[i].loopback)
			n = bb_star_resolve(there->addresses[i].text, there->port, true, addresses,
					    n, &why);
	if (control->proc != 0)
		error = bb_star_reach(&o->star, addresses, n, &control->wires[0].fd, &hello);
	for (int i = 0; i < control->nwires && !error; i++) {
		struct bb_wire *wire = &control->wires[i];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = wire};

		if (wire->fd >= 0 && epoll_ctl(control->epoll, EPOLL_CTL_ADD, wire->fd, &event) < 0)
			error = errno;
	}
	return error;
}

/* The failure of all processes if one of them has an error. */
static bb_status report_failed(const struct control_opening *o, const int32_t *errors,
			       bool connected, struct bb_error *error)
{
	struct bb_strbuf others = {0};
	char text[BB_UNIT_TEXT];
	int first = -1;

	for (int p = 0; p < o->launch->nprocs; p++)
		if (errors[p] && first < 0)
			first = p;
		else if (errors[p])
			bb_strbuf_addf(&others, ", process %d (%s)", p, o->offers[p].host);
	if (first < 0)
		return BB_OK;
	if (first == 0 || !connected)
		bb_strbuf_addf(&others,
			       " cannot open the control connections between processes: %s",
			       strerror(errors[first]));
	else
		bb_strbuf_addf(&others,
			       " cannot reach process 0 (%s) within %s: %s; let TCP pass to port "
			       "%d of one of ",
			       o->offers[0].host, bb_format_duration(text, o->timeout),
			       bb_greet_explain(errors[first]), o->offers[0].port);
	for (int i = 0; i < o->offers[0].naddresses && first > 0 && connected; i++)
		bb_strbuf_addf(&others, "%s%s", i ? ", " : "", o->offers[0].addresses[i].text);
	bb_fail(error, BB_EBACKEND, "process %d (%s)%s", first, o->offers[first].host,
		bb_strbuf_text(&others));
	bb_strbuf_free(&others);
	return BB_EBACKEND;
}

static bb_status exchange(struct control_opening *o, const struct bb_payload *table,
			  const void *mine, void *all, struct bb_error *error)
{
	struct bb_launch *launch = o->launch;
	const bb_status status = bb_launch_gather(launch, table, mine, 1, true, all);

	if (status == BB_OK)
		return BB_OK;
	launch->broken = true;
	return bb_fail(error, status, "%s",
		       launch->cause ? launch->cause : "the processes cannot find each other");
}

bb_status bb_control_open(struct bb_control **control, struct bb_launch *launch,
			  const struct bb_secret *secret, double timeout_s, struct bb_error *error)
{
	const size_t n = (size_t)launch->nprocs;
	struct control_opening own = {
		.launch = launch,
		.timeout = timeout_s,
		.offers = calloc(n, sizeof(*own.offers)),
		.star = {.identity = {.hello = {.proc = launch->proc, .nprocs = launch->nprocs},
				      .secret = secret},
			 .admit = control_admit},
	};
	struct control_opening *const o = &own;
	int32_t *const errors = calloc(n, sizeof(*errors));
	int32_t mine; /* why this process could not connect */
	bb_status status = BB_OK;

	*control = NULL;
	o->star.own = o;
	if (!errors || !o->offers)
		BB_TRY(status, bb_no_memory(error, "processes"), out);
	if (n == 1)
		goto out;
	o->mine.error = prepare(o);
	gethostname(o->mine.host, sizeof(o->mine.host) - 1);
	BB_TRY(status, exchange(o, &offer_table, &o->mine, o->offers, error), out);
	for (int p = 0; p < launch->nprocs; p++)
		errors[p] = o->offers[p].error;
	BB_TRY(status, report_failed(o, errors, false, error), out);
	mine = connect_all(o);
	BB_TRY(status, exchange(o, &error_table, &mine, errors, error), out);
	BB_TRY(status, report_failed(o, errors, true, error), out);
	if (launch->proc != 0 || o->missing == 0)
		goto out;
	/* All processes claim to be connected. */
	launch->broken = true;
	if (launch->refuse)
		launch->refuse(launch);
	status = bb_fail(error, BB_EBACKEND,
			 "%d of %d processes did not open a control connection to process 0, but "
			 "reported that they did",
			 o->missing, launch->nprocs - 1);
out:
	bb_star_close(&o->star);
	if (status == BB_OK)
		*control = o->control;
	else
		control_release(o->control);
	free(o->offers);
	free(errors);
	return status;
}
