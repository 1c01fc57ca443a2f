/*
 * Process 0 listens on all its addresses; every other process tries all of them (star.h).
 */
#include "launch/control_inside.h"
#include "launch/star.h"

#include "core/clock.h"
#include "core/strbuf.h"
#include "core/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- receiving --------------------------------------------------------------------- */

static bool is_for_me(const struct bb_control *control, const struct bb_frame *frame)
{
	switch ((enum bb_news_kind)frame->kind) {
	case BB_NEWS_NONE:
		return true;
	case BB_NEWS_FAILED:
	case BB_NEWS_LEFT:
	case BB_NEWS_PROGRESS:
		return control->proc == 0;
	case BB_NEWS_STOP:
	case BB_NEWS_REQUEST:
		return control->proc != 0;
	case BB_NEWS_GONE:
		break;
	}
	return false;
}

static void read_frame(const struct bb_frame *frame, struct bb_news *news)
{
	news->kind = (enum bb_news_kind)frame->kind;
	news->status = (bb_status)frame->status;
	news->signal = frame->signal;
	news->rank = frame->rank;
	news->entered = frame->entered;
	news->inside = frame->inside;
	memcpy(news->text, frame->text, (size_t)frame->length + 1);
}

/* Receive from WIRE; false: no news. */
static bool receive_from(const struct bb_control *control, struct bb_wire *wire,
			 struct bb_news *news)
{
	enum bb_received received = wire->fd < 0 ? BB_RECEIVED_NOTHING : bb_wire_receive(wire);

	if (received == BB_RECEIVED_NOTHING)
		return false;
	if (received == BB_RECEIVED_FRAME && is_for_me(control, &wire->frame))
		read_frame(&wire->frame, news);
	else
		news->kind = BB_NEWS_GONE;
	if (news->kind == BB_NEWS_GONE)
		snprintf(news->text, sizeof(news->text), "%s",
			 received == BB_RECEIVED_END ? wire->why
						     : "sent a frame of another process");
	if (news->kind == BB_NEWS_NONE || news->kind == BB_NEWS_GONE)
		bb_wire_close(wire);
	news->proc = (int)(wire - control->wires);
	return news->kind != BB_NEWS_NONE;
}

void bb_control_poll(struct bb_control *control, struct bb_news *news)
{
	const int most = sizeof(control->events) / sizeof(control->events[0]);

	memset(news, 0, sizeof(*news));
	while (control) {
		while (control->next < control->nevents)
			if (receive_from(control, control->events[control->next++].data.ptr, news))
				return;
		control->next = 0;
		control->nevents = epoll_wait(control->epoll, control->events, most, 0);
		if (control->nevents <= 0) {
			control->nevents = 0;
			return;
		}
	}
}

bool bb_control_reaches(const struct bb_control *control, int proc)
{
	return control && proc < control->nwires && control->wires[proc].fd >= 0;
}

/* ---- sending ---------------------------------------------------------------------- */

static void send_all(struct bb_control *control, struct bb_frame *frame, const char *text)
{
	if (!control)
		return;
	for (int i = 0; i < control->nwires; i++)
		bb_wire_send(&control->wires[i], frame, text, strlen(text));
}

void bb_control_send_failed(struct bb_control *control, bb_status status, const char *text)
{
	struct bb_frame frame = {.kind = BB_NEWS_FAILED, .status = (int32_t)status};

	send_all(control, &frame, text);
}

void bb_control_send_left(struct bb_control *control, int signal)
{
	struct bb_frame frame = {.kind = BB_NEWS_LEFT, .signal = signal};

	send_all(control, &frame, "");
}

void bb_control_send_progress(struct bb_control *control, int rank, uint64_t entered, bool inside)
{
	struct bb_frame frame = {
		.kind = BB_NEWS_PROGRESS, .rank = rank, .entered = entered, .inside = inside};

	send_all(control, &frame, "");
}

void bb_control_send_stop(struct bb_control *control, bb_status status, int signal)
{
	struct bb_frame frame = {.kind = BB_NEWS_STOP, .status = (int32_t)status, .signal = signal};

	send_all(control, &frame, "");
}

void bb_control_request_progress(struct bb_control *control)
{
	struct bb_frame frame = {.kind = BB_NEWS_REQUEST};

	send_all(control, &frame, "");
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

/* Closing a socket with unread data resets the connection, and the data just sent is lost. */
static void drain(const struct bb_wire *wire)
{
	char waste[4096];

	while (wire->fd >= 0 && recv(wire->fd, waste, sizeof(waste), MSG_DONTWAIT) > 0)
		;
}

void bb_control_close(struct bb_control *control)
{
	struct bb_frame frame = {.kind = BB_NEWS_NONE};

	send_all(control, &frame, "");
	for (int i = 0; control && i < control->nwires; i++)
		drain(&control->wires[i]);
	control_release(control);
}

#define MOST_ERRNO 4095

struct address {
	uint16_t family; /* AF_INET or AF_INET6 */
	uint16_t loopback;
	unsigned char bytes[16];
};

/* What every process sends to all others before any connection; all fields but the first two are
   used of process 0 only. */
struct offer {
	char host[64];
	int32_t error; /* an errno: why this process cannot take part; or 0 */
	uint16_t port;
	uint16_t naddresses;
	struct address addresses[BB_STAR_ADDRESSES];
	uint16_t secured; /* it has BUSBENCH_SECRET */
	uint16_t spare[3];
	unsigned char password[2][16]; /* of the connecting and of the answering side */
};

static const struct bb_payload_field offer_fields[] = {
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct offer, host),
	BB_PAYLOAD_FIELD("the error", BB_PAYLOAD_SIGNED, struct offer, error, .high = MOST_ERRNO),
	BB_PAYLOAD_FIELD("the port", BB_PAYLOAD_UNSIGNED, struct offer, port, .high = UINT16_MAX),
	BB_PAYLOAD_FIELD("the number of addresses", BB_PAYLOAD_UNSIGNED, struct offer, naddresses,
			 .high = BB_STAR_ADDRESSES),
	BB_PAYLOAD_EACH("an address family", BB_PAYLOAD_UNSIGNED, struct offer, addresses, .family,
			BB_STAR_ADDRESSES, .high = AF_INET6),
	BB_PAYLOAD_EACH("a loopback mark", BB_PAYLOAD_UNSIGNED, struct offer, addresses, .loopback,
			BB_STAR_ADDRESSES, .high = 1),
	BB_PAYLOAD_EACH("an address", BB_PAYLOAD_ANY, struct offer, addresses, .bytes,
			BB_STAR_ADDRESSES),
	BB_PAYLOAD_FIELD("the mark of a secret", BB_PAYLOAD_UNSIGNED, struct offer, secured,
			 .high = 1),
	BB_PAYLOAD_FIELD("the password", BB_PAYLOAD_ANY, struct offer, password),
	{.name = NULL}};

/* Each of the addresses has a known family. */
static bool offer_fits(const void *payload)
{
	const struct offer *offer = payload;

	for (int i = 0; i < offer->naddresses; i++)
		if (offer->addresses[i].family != AF_INET && offer->addresses[i].family != AF_INET6)
			return false;
	return true;
}

static const struct bb_payload offer_table = {"an offer", sizeof(struct offer), offer_fields,
					      offer_fits};

static const struct bb_payload_field error_fields[] = {{.name = "the error",
							.kind = BB_PAYLOAD_SIGNED,
							.bytes = sizeof(int32_t),
							.count = 1,
							.high = MOST_ERRNO},
						       {.name = NULL}};
static const struct bb_payload error_table = {"an error", sizeof(int32_t), error_fields, NULL};

struct opening {
	struct bb_control *control;
	struct bb_launch *launch;
	struct offer mine, *offers; /* of all, by process */
	double timeout;
	struct bb_star star;
	int missing; /* processes that have not connected */
};

/* FD is the connection to process PROC. Returns an errno. */
static int adopt(struct bb_control *control, int proc, int fd)
{
	struct bb_wire *wire = &control->wires[proc];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = wire};

	if (epoll_ctl(control->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return errno;
	wire->fd = fd;
	return 0;
}

/* ---- opening at process 0
 * ------------------------------------------------------------------------- */

static void add_address(struct offer *offer, const struct ifaddrs *interface)
{
	struct address *a = &offer->addresses[offer->naddresses];
	const struct sockaddr *any = interface->ifa_addr;

	*a = (struct address){.loopback = (interface->ifa_flags & IFF_LOOPBACK) != 0};
	if (any->sa_family == AF_INET) {
		memcpy(a->bytes, &((const struct sockaddr_in *)any)->sin_addr, 4);
	} else if (any->sa_family == AF_INET6) {
		const struct in6_addr *in6 = &((const struct sockaddr_in6 *)any)->sin6_addr;

		/* Link-local addresses differ in their scope on each host. */
		if (IN6_IS_ADDR_LINKLOCAL(in6))
			return;
		memcpy(a->bytes, in6, 16);
	} else {
		return;
	}
	a->family = any->sa_family;
	offer->naddresses++;
}

static int list_addresses(struct offer *offer)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return errno;
	for (int loopback = 0; loopback < 2; loopback++)
		for (const struct ifaddrs *i = all; i; i = i->ifa_next)
			if (i->ifa_addr && (i->ifa_flags & IFF_UP) &&
			    !(i->ifa_flags & IFF_LOOPBACK) == !loopback &&
			    offer->naddresses < BB_STAR_ADDRESSES)
				add_address(offer, i);
	freeifaddrs(all);
	return offer->naddresses > 0 ? 0 : EADDRNOTAVAIL;
}

/* A process that connects over several addresses is answered on the first. */
static int control_admit(struct bb_star *star, const struct bb_hello *hello, int fd)
{
	struct opening *o = star->own;
	int error;

	if (hello->proc <= 0 || hello->proc >= o->launch->nprocs ||
	    o->control->wires[hello->proc].fd >= 0 || !bb_star_answer(star))
		return -1;
	error = adopt(o->control, hello->proc, fd);
	o->missing -= error == 0;
	return error;
}

/* ---- opening elsewhere ------------------------------------------------------------------------
 */

/* A loopback address is valid only on the host of process 0. */
static bool is_worth_trying(const struct opening *o, const struct address *a)
{
	return !a->loopback || strcmp(o->mine.host, o->offers[0].host) == 0;
}

static struct bb_address to_address(const struct address *a, uint16_t port)
{
	struct bb_address address = {.length = 0};
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (a->family == AF_INET) {
		memcpy(&in4.sin_addr, a->bytes, 4);
		memcpy(&address.to, &in4, sizeof(in4));
		address.length = sizeof(in4);
	} else {
		memcpy(&in6.sin6_addr, a->bytes, 16);
		memcpy(&address.to, &in6, sizeof(in6));
		address.length = sizeof(in6);
	}
	return address;
}

/* Connect to process 0. Returns an errno: why it did not answer. */
static int reach_process_0(struct opening *o)
{
	const struct offer *there = &o->offers[0];
	struct bb_address addresses[BB_STAR_ADDRESSES];
	struct bb_hello hello;
	int n = 0, fd, error;

	for (int i = 0; i < there->naddresses; i++)
		if (is_worth_trying(o, &there->addresses[i]))
			addresses[n++] = to_address(&there->addresses[i], there->port);
	error = bb_star_reach(&o->star, addresses, n, &fd, &hello);
	if (error)
		return error;
	error = adopt(o->control, 0, fd);
	if (error)
		close(fd);
	return error;
}

/* ---- opening everywhere
 * -------------------------------------------------------------------------- */

static int make_control(struct opening *o)
{
	const int n = o->launch->proc == 0 ? o->launch->nprocs : 1;
	struct bb_control *control = calloc(1, sizeof(*control));

	if (!control)
		return ENOMEM;
	*control = (struct bb_control){.proc = o->launch->proc, .epoll = -1};
	o->control = control;
	control->wires = calloc((size_t)n, sizeof(*control->wires));
	if (!control->wires)
		return ENOMEM;
	control->nwires = n;
	for (int i = 0; i < n; i++)
		control->wires[i].fd = -1;
	control->epoll = epoll_create1(EPOLL_CLOEXEC);
	return control->epoll < 0 ? errno : 0;
}

/* Everything that can fail in this process alone; returns an errno. */
static int prepare(struct opening *o)
{
	int error = bb_star_open(&o->star);

	if (!error)
		error = make_control(o);
	if (error || o->launch->proc != 0)
		return error;
	if (getrandom(o->mine.password, sizeof(o->mine.password), 0) != sizeof(o->mine.password))
		return errno;
	error = list_addresses(&o->mine);
	return error ? error : bb_star_listen(&o->star, NULL, 0, &o->mine.port);
}

/* Returns an errno; at process 0 after the timeout if some process could not be kept. */
static int connect_all(struct opening *o)
{
	int reason = 0;

	o->star.end = bb_clock_now() + o->timeout;
	o->missing = o->launch->nprocs - 1;
	memcpy(o->star.identity.password, o->offers[0].password, sizeof(o->star.identity.password));
	if (o->launch->proc != 0)
		return reach_process_0(o);
	while (o->missing > 0 && bb_clock_now() < o->star.end) {
		const int error = bb_star_receive(&o->star);

		reason = error ? error : reason;
	}
	return o->missing > 0 ? reason : 0;
}

static void add_addresses(const struct opening *o, struct bb_strbuf *out)
{
	char text[INET6_ADDRSTRLEN];

	for (int i = 0; i < o->offers[0].naddresses; i++) {
		const struct address *a = &o->offers[0].addresses[i];

		if (inet_ntop(a->family, a->bytes, text, sizeof(text)))
			bb_strbuf_addf(out, "%s%s", i ? ", " : "", text);
	}
}

/* The failure of all processes if one of them has an error. */
static bb_status report_failed(const struct opening *o, const int32_t *errors, bool connected,
			       struct bb_error *error)
{
	struct bb_strbuf others = {0}, addresses = {0};
	char text[BB_UNIT_TEXT];
	int first = -1;

	for (int p = 0; p < o->launch->nprocs; p++)
		if (errors[p] && first < 0)
			first = p;
		else if (errors[p])
			bb_strbuf_addf(&others, ", process %d (%s)", p, o->offers[p].host);
	if (first < 0)
		return BB_OK;
	add_addresses(o, &addresses);
	if (first == 0 || !connected)
		bb_fail(error, BB_EBACKEND,
			"process %d (%s)%s cannot open the control connections between processes: "
			"%s",
			first, o->offers[first].host, bb_strbuf_text(&others),
			strerror(errors[first]));
	else
		bb_fail(error, BB_EBACKEND,
			"process %d (%s)%s cannot reach process 0 (%s) within %s: %s; let TCP pass "
			"to port %d of one of %s",
			first, o->offers[first].host, bb_strbuf_text(&others), o->offers[0].host,
			bb_format_duration(text, o->timeout), bb_greet_explain(errors[first]),
			o->offers[0].port, bb_strbuf_text(&addresses));
	bb_strbuf_free(&others);
	bb_strbuf_free(&addresses);
	return BB_EBACKEND;
}

static bb_status exchange(struct opening *o, const struct bb_payload *table, const void *mine,
			  void *all, struct bb_error *error)
{
	struct bb_launch *launch = o->launch;
	const bb_status status = bb_launch_all_gather(launch, table, mine, 1, all);

	if (status == BB_OK)
		return BB_OK;
	launch->broken = true;
	return bb_fail(error, status, "%s",
		       launch->cause ? launch->cause : "the processes cannot find each other");
}

/* Processes with and without a secret cannot connect: report that before they try. */
static bb_status compare_secrets(const struct opening *o, struct bb_error *error)
{
	for (int p = 1; p < o->launch->nprocs; p++)
		if (o->offers[p].secured != o->offers[0].secured)
			return bb_fail(error, BB_EUSAGE,
				       "process %d (%s) has %s BUSBENCH_SECRET, process 0 (%s) %s; "
				       "set the same for all",
				       p, o->offers[p].host, o->offers[p].secured ? "a" : "no",
				       o->offers[0].host,
				       o->offers[0].secured ? "has" : "has none");
	return BB_OK;
}

/* All processes claim to be connected: check that. */
static bb_status check_connections(struct opening *o, struct bb_error *error)
{
	if (o->launch->proc != 0 || o->missing == 0)
		return BB_OK;
	o->launch->broken = true;
	if (o->launch->refuse)
		o->launch->refuse(o->launch);
	return bb_fail(error, BB_EBACKEND,
		       "%d of %d processes did not open a control connection to process 0, but "
		       "reported that they did",
		       o->missing, o->launch->nprocs - 1);
}

static bb_status run_opening(struct opening *o, int32_t *errors, struct bb_error *error)
{
	int32_t mine; /* why this process could not connect */
	bb_status status;

	o->mine.error = prepare(o);
	o->mine.secured = o->star.identity.secret != NULL;
	gethostname(o->mine.host, sizeof(o->mine.host) - 1);
	status = exchange(o, &offer_table, &o->mine, o->offers, error);
	if (status != BB_OK)
		return status;
	for (int p = 0; p < o->launch->nprocs; p++)
		errors[p] = o->offers[p].error;
	status = report_failed(o, errors, false, error);
	if (status == BB_OK)
		status = compare_secrets(o, error);
	if (status != BB_OK)
		return status;
	mine = connect_all(o);
	status = exchange(o, &error_table, &mine, errors, error);
	if (status == BB_OK)
		status = report_failed(o, errors, true, error);
	return status == BB_OK ? check_connections(o, error) : status;
}

bb_status bb_control_open(struct bb_control **control, struct bb_launch *launch,
			  const struct bb_secret *secret, double timeout_s, struct bb_error *error)
{
	const size_t n = (size_t)launch->nprocs;
	struct opening o = {
		.launch = launch,
		.timeout = timeout_s,
		.star = {.identity = {.hello = {.proc = launch->proc, .nprocs = launch->nprocs},
				      .secret = secret},
			 .admit = control_admit},
	};
	int32_t *errors = calloc(n, sizeof(*errors));
	bb_status status = BB_OK;

	*control = NULL;
	o.star.own = &o;
	o.offers = calloc(n, sizeof(*o.offers));
	if (!errors || !o.offers)
		status = bb_no_memory(error, "processes");
	else if (n > 1)
		status = run_opening(&o, errors, error);
	bb_star_close(&o.star);
	if (status == BB_OK)
		*control = o.control;
	else
		control_release(o.control);
	free(o.offers);
	free(errors);
	return status;
}
