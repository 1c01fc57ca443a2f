/*
 * Process 0 listens on all its addresses; every other process tries all of them at once and keeps
 * the first where it is answered by who knows the secret.
 */
#include "launch/control_wire.h"

#include "core/clock.h"
#include "core/strbuf.h"
#include "core/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_ADDRESSES 16
#define RETRY_S 0.1
#define STRANGERS 256     /* that may hold a connection at once and not say who they are */
#define SPARE_FILES 1024u /* beside the connections of process 0: strangers, and all else */

struct address {
	uint16_t family; /* AF_INET or AF_INET6 */
	uint16_t loopback;
	unsigned char bytes[16];
};

/* What every process tells all others before anything is connected; all but the first two fields
   is process 0's. */
struct offer {
	char host[64];
	int32_t error; /* an errno: why this process cannot take part; 0 */
	uint16_t port;
	uint16_t naddresses;
	struct address addresses[MOST_ADDRESSES];
	unsigned char secret[2][16]; /* of who comes, and of who answers */
};

/* The first words on a connection, in both directions. */
struct hello {
	uint32_t magic;
	int32_t proc; /* who speaks */
	unsigned char secret[16];
};

/* A connection that is not one yet. */
struct stranger {
	int fd; /* -1: none */
	bool greeted;
	size_t got;
	struct hello hello;
	double since; /* it is here; of a closed one: when to try again */
	int error;    /* an errno: why the latest attempt failed */
};

struct opening {
	struct bb_control *control;
	struct bb_launch *launch;
	struct offer mine, *offers; /* of all, by process */
	double timeout, end;
	int listener, epoll;        /* process 0's, as long as it listens */
	struct stranger *strangers; /* who came; elsewhere: one per address of process 0 */
	int nstrangers;
	int missing; /* processes that did not come yet */
};

/* ---- both sides ------------------------------------------------------------------------ */

static void set_option(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

static int milliseconds_left(const struct opening *o, double most)
{
	const double left = o->end - bb_clock_now();

	return left <= 0 ? 0 : (int)(1e3 * (left < most ? left : most)) + 1;
}

/* At once or not at all: nothing was sent before on this connection. */
static bool greet(const struct opening *o, int fd, int half)
{
	struct hello hello = {.magic = BB_FRAME_MAGIC, .proc = o->launch->proc};

	memcpy(hello.secret, o->offers[0].secret[half], sizeof(hello.secret));
	return send(fd, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(hello);
}

/* 1: a whole hello with that half of the secret; 0: not yet; -1: never. */
static int hear_hello(const struct opening *o, struct stranger *s, int half)
{
	const ssize_t got =
		recv(s->fd, (char *)&s->hello + s->got, sizeof(s->hello) - s->got, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	if (got <= 0) {
		s->error = got < 0 ? errno : ECONNRESET;
		return -1;
	}
	s->got += (size_t)got;
	if (s->got < sizeof(s->hello))
		return 0;
	s->error = EPROTO;
	return s->hello.magic == BB_FRAME_MAGIC &&
			       memcmp(s->hello.secret, o->offers[0].secret[half],
				      sizeof(s->hello.secret)) == 0
		       ? 1
		       : -1;
}

static void dismiss(struct stranger *s)
{
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct stranger){.fd = -1, .error = s->error, .since = bb_clock_now() + RETRY_S};
}

/* S turns out to be process PROC: the connection to it. A host that vanishes is noticed after half
   a minute. */
static int adopt(struct opening *o, struct stranger *s, int proc)
{
	struct bb_wire *wire = &o->control->wires[proc];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = wire};

	set_option(s->fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(s->fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
	set_option(s->fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
	set_option(s->fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	set_option(s->fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	if (epoll_ctl(o->control->epoll, EPOLL_CTL_ADD, s->fd, &event) < 0)
		return errno;
	wire->fd = s->fd;
	s->fd = -1;
	return 0;
}

/* ---- process 0 ------------------------------------------------------------------------- */

static void add_address(struct offer *offer, const struct ifaddrs *interface)
{
	struct address *a = &offer->addresses[offer->naddresses];
	const struct sockaddr *any = interface->ifa_addr;

	*a = (struct address){.loopback = (interface->ifa_flags & IFF_LOOPBACK) != 0};
	if (any->sa_family == AF_INET) {
		memcpy(a->bytes, &((const struct sockaddr_in *)any)->sin_addr, 4);
	} else if (any->sa_family == AF_INET6) {
		const struct in6_addr *in6 = &((const struct sockaddr_in6 *)any)->sin6_addr;

		/* What is valid on one link only has another name on each host. */
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
			    offer->naddresses < MOST_ADDRESSES)
				add_address(offer, i);
	freeifaddrs(all);
	return offer->naddresses > 0 ? 0 : EADDRNOTAVAIL;
}

/* On all addresses, of both kinds where there are both. */
static int start_listening(struct opening *o)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_in in4 = {.sin_family = AF_INET};
	socklen_t length = sizeof(in6);

	o->listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (o->listener >= 0) {
		set_option(o->listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
		if (bind(o->listener, (struct sockaddr *)&in6, sizeof(in6)) < 0) {
			close(o->listener);
			o->listener = -1;
		}
	}
	if (o->listener < 0) {
		o->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (o->listener < 0 || bind(o->listener, (struct sockaddr *)&in4, sizeof(in4)) < 0)
			return errno;
	}
	/* The port is in the same place of both. */
	if (listen(o->listener, SOMAXCONN) < 0 ||
	    getsockname(o->listener, (struct sockaddr *)&in6, &length) < 0)
		return errno;
	o->mine.port = ntohs(in6.sin6_port);
	return 0;
}

static void raise_file_limit(int nprocs)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    limit.rlim_cur >= (rlim_t)nprocs + STRANGERS + SPARE_FILES)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Who comes when all places are taken takes that of whoever has been silent for longest. */
static struct stranger *find_place(struct opening *o)
{
	struct stranger *oldest = &o->strangers[0];

	for (int i = 0; i < o->nstrangers; i++) {
		struct stranger *s = &o->strangers[i];

		if (s->fd < 0)
			return s;
		oldest = s->since < oldest->since ? s : oldest;
	}
	dismiss(oldest);
	return oldest;
}

/* Returns an errno if S is a process of this run that cannot be taken. */
static int identify(struct opening *o, struct stranger *s)
{
	const int heard = hear_hello(o, s, 0), proc = s->hello.proc;
	int error = 0;

	if (heard == 0)
		return 0;
	/* A process that got through on several addresses is answered on the first. */
	if (heard > 0 && proc > 0 && proc < o->launch->nprocs && o->control->wires[proc].fd < 0 &&
	    greet(o, s->fd, 1)) {
		epoll_ctl(o->epoll, EPOLL_CTL_DEL, s->fd, NULL);
		error = adopt(o, s, proc);
		o->missing -= error == 0;
	}
	dismiss(s);
	return error;
}

/* Returns an errno if somebody could not be let in for want of something. */
static int let_in(struct opening *o)
{
	for (;;) {
		struct epoll_event event = {.events = EPOLLIN};
		const int fd = accept4(o->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct stranger *s;
		int error;

		if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
			return errno;
		if (fd < 0)
			continue; /* it went before it was let in */
		s = find_place(o);
		*s = (struct stranger){.fd = fd, .since = bb_clock_now()};
		event.data.ptr = s;
		error = epoll_ctl(o->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? errno : 0;
		if (error)
			dismiss(s);
		else
			error = identify(o, s);
		if (error)
			return error;
	}
}

/* Until all processes have come. Returns an errno if time is over and some could not be taken. */
static int receive_all(struct opening *o)
{
	struct epoll_event events[64];
	int reason = 0;

	while (o->missing > 0 && bb_clock_now() < o->end) {
		const int n = epoll_wait(o->epoll, events, sizeof(events) / sizeof(events[0]),
					 milliseconds_left(o, 1));

		for (int i = 0; i < n; i++) {
			struct stranger *s = events[i].data.ptr;
			const int error = !s ? let_in(o) : s->fd >= 0 ? identify(o, s) : 0;

			if (!error)
				continue;
			/* The others may yet make room. */
			reason = error;
			poll(NULL, 0, 10);
		}
	}
	return o->missing > 0 ? reason : 0;
}

/* ---- the others ------------------------------------------------------------------------ */

static int start_attempt(const struct opening *o, struct stranger *s, const struct address *a)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(o->offers[0].port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = in4.sin_port};
	const struct sockaddr *to = (struct sockaddr *)&in6;
	socklen_t length = sizeof(in6);

	memcpy(&in6.sin6_addr, a->bytes, 16);
	memcpy(&in4.sin_addr, a->bytes, 4);
	if (a->family == AF_INET) {
		to = (struct sockaddr *)&in4;
		length = sizeof(in4);
	}
	s->got = 0;
	s->greeted = false;
	s->fd = socket(a->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0 || (connect(s->fd, to, length) < 0 && errno != EINPROGRESS))
		return errno;
	return 0;
}

/* Something happened to an attempt. True if it is process 0 that answered. */
static bool go_on(const struct opening *o, struct stranger *s)
{
	socklen_t length = sizeof(s->error);
	int heard;

	if (!s->greeted) {
		getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &s->error, &length);
		s->greeted = s->error == 0 && greet(o, s->fd, 0);
		if (!s->greeted)
			dismiss(s);
		return false;
	}
	heard = hear_hello(o, s, 1);
	if (heard < 0)
		dismiss(s);
	return heard > 0;
}

/* Another host's loopback is not ours. */
static bool is_worth_trying(const struct opening *o, const struct address *a)
{
	return !a->loopback || strcmp(o->mine.host, o->offers[0].host) == 0;
}

/* Try again what failed, and fill in what to wait for. */
static void attempt_all(struct opening *o, struct pollfd *fds)
{
	for (int i = 0; i < o->nstrangers; i++) {
		const struct address *a = &o->offers[0].addresses[i];
		struct stranger *s = &o->strangers[i];

		if (s->fd < 0 && bb_clock_now() >= s->since && is_worth_trying(o, a)) {
			const int error = start_attempt(o, s, a);

			if (error) {
				s->error = error;
				dismiss(s);
			}
		}
		fds[i] = (struct pollfd){.fd = s->fd, .events = s->greeted ? POLLIN : POLLOUT};
	}
}

/* Until process 0 answered. Returns an errno: why it did not, on its first address. */
static int reach_process_0(struct opening *o)
{
	struct pollfd fds[MOST_ADDRESSES];

	while (bb_clock_now() < o->end) {
		attempt_all(o, fds);
		if (poll(fds, (nfds_t)o->nstrangers, milliseconds_left(o, RETRY_S)) <= 0)
			continue;
		for (int i = 0; i < o->nstrangers; i++)
			if (fds[i].revents && go_on(o, &o->strangers[i]))
				return adopt(o, &o->strangers[i], 0);
	}
	return o->strangers[0].error ? o->strangers[0].error : ETIMEDOUT;
}

/* ---- together -------------------------------------------------------------------------- */

static int make_control(struct opening *o)
{
	const int n = o->launch->proc == 0 ? o->launch->nprocs : 1;
	struct bb_control *control = calloc(1, sizeof(*control));

	if (!control)
		return ENOMEM;
	*control = (struct bb_control){
		.proc = o->launch->proc, .nprocs = o->launch->nprocs, .epoll = -1};
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

/* Whatever can fail in this process alone; returns an errno. */
static int prepare(struct opening *o)
{
	struct epoll_event event = {.events = EPOLLIN};
	int error;

	o->nstrangers = o->launch->proc == 0 ? STRANGERS : MOST_ADDRESSES;
	o->strangers = calloc((size_t)o->nstrangers, sizeof(*o->strangers));
	if (!o->strangers)
		return ENOMEM;
	for (int i = 0; i < o->nstrangers; i++)
		o->strangers[i].fd = -1;
	error = make_control(o);
	if (error || o->launch->proc != 0)
		return error;
	raise_file_limit(o->launch->nprocs);
	if (getrandom(o->mine.secret, sizeof(o->mine.secret), 0) != sizeof(o->mine.secret))
		return errno;
	o->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (o->epoll < 0)
		return errno;
	error = list_addresses(&o->mine);
	if (!error)
		error = start_listening(o);
	if (!error && epoll_ctl(o->epoll, EPOLL_CTL_ADD, o->listener, &event) < 0)
		error = errno;
	return error;
}

static int connect_all(struct opening *o)
{
	o->end = bb_clock_now() + o->timeout;
	o->missing = o->launch->nprocs - 1;
	if (o->launch->proc == 0)
		return receive_all(o);
	o->nstrangers = o->offers[0].naddresses;
	return reach_process_0(o);
}

/* The first process with an error, and of how many; -1: none. */
static int find_failed(const int32_t *errors, int nprocs, int *nfailed)
{
	int first = -1;

	*nfailed = 0;
	for (int p = nprocs - 1; p >= 0; p--)
		if (errors[p] != 0) {
			first = p;
			++*nfailed;
		}
	return first;
}

static void say_addresses(const struct opening *o, struct bb_strbuf *out)
{
	char text[INET6_ADDRSTRLEN];

	for (int i = 0; i < o->offers[0].naddresses; i++) {
		const struct address *a = &o->offers[0].addresses[i];

		if (inet_ntop(a->family, a->bytes, text, sizeof(text)))
			bb_strbuf_addf(out, "%s%s", i ? ", " : "", text);
	}
}

/* What all processes say if one of them has an error. */
static bb_status judge(const struct opening *o, const int32_t *errors, bool connected,
		       struct bb_error *error)
{
	struct bb_strbuf others = {0}, addresses = {0};
	char text[BB_UNIT_TEXT];
	int nfailed;
	const int first = find_failed(errors, o->launch->nprocs, &nfailed);

	if (first < 0)
		return BB_OK;
	if (nfailed > 1)
		bb_strbuf_addf(&others, " and %d more", nfailed - 1);
	say_addresses(o, &addresses);
	if (first == 0 || !connected)
		bb_fail(error, BB_EBACKEND,
			"process %d (%s)%s cannot open the control connections between processes: "
			"%s",
			first, o->offers[first].host, bb_strbuf_text(&others),
			strerror(errors[first]));
	else
		bb_fail(error, BB_EBACKEND,
			"process %d (%s)%s cannot reach process 0 (%s) within %s: %s; TCP must get "
			"through to port %d of one of %s",
			first, o->offers[first].host, bb_strbuf_text(&others), o->offers[0].host,
			bb_format_duration(text, o->timeout), strerror(errors[first]),
			o->offers[0].port, bb_strbuf_text(&addresses));
	bb_strbuf_free(&others);
	bb_strbuf_free(&addresses);
	return BB_EBACKEND;
}

/* Tell everybody how it went here, and go by how it went for all. */
static bb_status agree(struct opening *o, int mine, int32_t *errors, bool connected,
		       struct bb_error *error)
{
	const int32_t number = mine;
	bb_status status = o->launch->all_gather(o->launch, &number, sizeof(number), errors);

	if (status != BB_OK)
		return bb_fail(error, status, "the processes cannot find each other");
	return judge(o, errors, connected, error);
}

static bb_status run_opening(struct opening *o, int32_t *errors, struct bb_error *error)
{
	bb_status status;

	o->mine.error = prepare(o);
	gethostname(o->mine.host, sizeof(o->mine.host) - 1);
	status = o->launch->all_gather(o->launch, &o->mine, sizeof(o->mine), o->offers);
	if (status != BB_OK)
		return bb_fail(error, status, "the processes cannot find each other");
	for (int p = 0; p < o->launch->nprocs; p++)
		errors[p] = o->offers[p].error;
	status = judge(o, errors, false, error);
	return status == BB_OK ? agree(o, connect_all(o), errors, true, error) : status;
}

bb_status bb_control_open(struct bb_control **control, struct bb_launch *launch, double timeout_s,
			  struct bb_error *error)
{
	const size_t n = (size_t)launch->nprocs;
	struct opening o = {.launch = launch, .timeout = timeout_s, .listener = -1, .epoll = -1};
	int32_t *errors = calloc(n, sizeof(*errors));
	bb_status status = BB_OK;

	*control = NULL;
	o.offers = calloc(n, sizeof(*o.offers));
	if (!errors || !o.offers)
		status = bb_fail(error, BB_EINTERNAL, "out of memory for %zu processes", n);
	else if (n > 1)
		status = run_opening(&o, errors, error);
	for (int i = 0; o.strangers && i < (launch->proc ? MOST_ADDRESSES : STRANGERS); i++)
		dismiss(&o.strangers[i]);
	if (o.listener >= 0)
		close(o.listener);
	if (o.epoll >= 0)
		close(o.epoll);
	if (status == BB_OK)
		*control = o.control;
	else
		bb_control_release(o.control);
	free(o.strangers);
	free(o.offers);
	free(errors);
	return status;
}
