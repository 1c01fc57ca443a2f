#include "launch/star.h"

#include "core/clock.h"
#include "core/file.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define RETRY_S 0.1
/* Unidentified peers that may be connected at once. Events carry their index; those of listener i
   carry STRANGERS + i. */
#define STRANGERS 256
#define LEAST_STRANGERS 4 /* however few files this process may open */
#define SPARE_FILES 1024u /* for all other files of process 0 */
#define LEAST_SPARE 32    /* of these, under a low limit */

struct bb_stranger {
	int fd; /* -1: none */
	bool greeted;
	struct bb_greet greet;
	double since; /* time of the connection; without one, of the next attempt */
	int error;    /* errno of the last failed attempt, if possible of one that connected */
	bool reached; /* an attempt connected */
};

/* ---- both sides ------------------------------------------------------------------------ */

int bb_star_resolve(const char *host, uint16_t port, bool numeric,
		    struct bb_address addresses[BB_STAR_ADDRESSES], int n, const char **why)
{
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
					.ai_flags = numeric ? AI_NUMERICHOST : 0};
	struct addrinfo *all;
	char number[8];

	snprintf(number, sizeof(number), "%d", port);
	const int error = getaddrinfo(host, number, &wanted, &all);
	*why = error ? gai_strerror(error) : "no address";
	for (const struct addrinfo *a = error ? NULL : all; a && n < BB_STAR_ADDRESSES;
	     a = a->ai_next) {
		int same = 0; /* /etc/hosts may list an address twice */

		while (same < n && (addresses[same].length != a->ai_addrlen ||
				    memcmp(&addresses[same].to, a->ai_addr, a->ai_addrlen) != 0))
			same++;
		if (same < n || a->ai_addrlen > sizeof(addresses[n].to))
			continue;
		memcpy(&addresses[n].to, a->ai_addr, a->ai_addrlen);
		addresses[n++].length = a->ai_addrlen;
	}
	if (!error)
		freeaddrinfo(all);
	return n;
}

static void set_option(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

static int milliseconds_left(const struct bb_star *star, double most)
{
	const double left = star->end - bb_clock_now();

	return left <= 0 ? 0 : (int)(1e3 * (left < most ? left : most)) + 1;
}

static void dismiss(struct bb_stranger *s)
{
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct bb_stranger){.fd = -1,
				  .error = s->error,
				  .reached = s->reached,
				  .since = bb_clock_now() + RETRY_S};
}

/* Set up a lasting connection: a host that vanishes is noticed after half a minute. */
static void keep(int fd)
{
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

int bb_star_open(struct bb_star *star)
{
	star->epoll = -1;
	star->nstrangers = star->identity.hello.proc == 0 ? STRANGERS : BB_STAR_ADDRESSES;
	star->strangers = calloc((size_t)star->nstrangers, sizeof(*star->strangers));
	if (!star->strangers)
		return ENOMEM;
	for (int i = 0; i < star->nstrangers; i++)
		star->strangers[i].fd = -1;
	return 0;
}

void bb_star_close(struct bb_star *star)
{
	if (!star->strangers)
		return;
	for (int i = 0; i < star->nstrangers; i++)
		dismiss(&star->strangers[i]);
	free(star->strangers);
	star->strangers = NULL;
	for (int i = 0; i < star->nlisteners; i++)
		close(star->listeners[i]);
	star->nlisteners = 0;
	if (star->epoll >= 0)
		close(star->epoll);
}

/* ---- process 0 ------------------------------------------------------------------------- */

/* Listen at ADDRESS too. Returns an errno. */
static int listen_at(struct bb_star *star, const struct bb_address *address)
{
	const int family = address->to.ss_family;
	const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct epoll_event event = {.events = EPOLLIN,
				    .data.u32 = STRANGERS + (uint32_t)star->nlisteners};

	if (fd < 0)
		return errno;
	if (family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->to;

		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY,
			   !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr));
	}
	/* Connections of a run that has ended do not block the port. */
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (const struct sockaddr *)&address->to, address->length) == 0 &&
	    listen(fd, SOMAXCONN) == 0 && epoll_ctl(star->epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
		star->listeners[star->nlisteners++] = fd;
		return 0;
	}
	const int error = errno;
	close(fd);
	return error;
}

int bb_star_listen(struct bb_star *star, const struct bb_address *addresses, int n, uint16_t *port)
{
	const uint64_t limit = bb_file_limit_raise((uint64_t)star->identity.hello.nprocs +
						   STRANGERS + SPARE_FILES);
	/* All IPv6 and IPv4 addresses or, without IPv6, all IPv4 addresses. */
	static const char *const wildcards[] = {"::", "0.0.0.0"};
	struct bb_address any[BB_STAR_ADDRESSES];
	struct sockaddr_in6 name;
	socklen_t length = sizeof(name);
	const char *why;
	int error = EADDRNOTAVAIL;

	star->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (star->epoll < 0)
		return errno;
	/* Strangers may use the files that the processes of the run leave. The numbers of open
	   files are below that of the newest. */
	const int64_t left = (limit < INT32_MAX ? (int64_t)limit : INT32_MAX) - star->epoll -
			     BB_STAR_ADDRESSES - star->identity.hello.nprocs - LEAST_SPARE;
	star->nstrangers = left > STRANGERS         ? STRANGERS
			   : left < LEAST_STRANGERS ? LEAST_STRANGERS
						    : (int)left;
	for (int i = 0; n == 0 && i < 2 && error && error != EADDRINUSE; i++)
		if (bb_star_resolve(wildcards[i], *port, true, any, 0, &why) > 0)
			error = listen_at(star, any);
	for (int i = 0; i < n && (!error || error == EADDRNOTAVAIL); i++)
		error = listen_at(star, &addresses[i]);
	if (star->nlisteners == 0 || (error && error != EADDRNOTAVAIL))
		return error;
	/* sin6_port and sin_port have the same offset. */
	if (getsockname(star->listeners[0], (struct sockaddr *)&name, &length) < 0)
		return errno;
	*port = ntohs(name.sin6_port);
	return 0;
}

bool bb_star_answer(struct bb_star *star)
{
	struct bb_stranger *s = star->admitted;

	return star->identity.secret
		       ? bb_greet_prove(&s->greet, &star->identity, s->fd, BB_SIDE_SERVER)
		       : bb_greet_send(&s->greet, &star->identity, s->fd, BB_SIDE_SERVER);
}

static bool is_silent(const struct bb_stranger *s)
{
	return s->greet.stage == BB_GREET_HELLO && s->greet.got == 0;
}

void bb_star_count_silent(struct bb_star *star)
{
	for (int i = 0; i < star->nstrangers; i++) {
		struct bb_stranger *s = &star->strangers[i];

		if (s->fd < 0)
			continue;
		star->dropped[is_silent(s) ? BB_DROPPED_SILENT : BB_DROPPED_NOISE]++;
		dismiss(s);
	}
}

/* A free place for a stranger, else that of the oldest silent one, else of the oldest. */
static struct bb_stranger *find_place(struct bb_star *star)
{
	struct bb_stranger *victim = &star->strangers[0];

	for (int i = 0; i < star->nstrangers; i++) {
		struct bb_stranger *s = &star->strangers[i];
		const bool alike = is_silent(s) == is_silent(victim);

		if (s->fd < 0)
			return s;
		if (alike ? s->since < victim->since : is_silent(s))
			victim = s;
	}
	star->dropped[is_silent(victim) ? BB_DROPPED_SILENT : BB_DROPPED_NOISE]++;
	dismiss(victim);
	return victim;
}

/* Returns an errno if S is a process of this run that cannot be admitted. */
static int identify(struct bb_star *star, struct bb_stranger *s)
{
	enum bb_transit transit =
		bb_greet_receive(&s->greet, &star->identity, s->fd, BB_SIDE_SERVER);
	int error;

	if (transit == BB_COMPLETE && s->greet.stage == BB_GREET_PROOF) {
		s->greeted = bb_greet_send(&s->greet, &star->identity, s->fd, BB_SIDE_SERVER);
		transit = s->greeted ? bb_greet_receive(&s->greet, &star->identity, s->fd,
							BB_SIDE_SERVER)
				     : BB_BROKEN;
	}
	if (transit == BB_BROKEN) {
		const bool unproven = !is_silent(s) &&
				      (s->greet.error == ENOKEY || s->greet.error == EKEYREJECTED);

		/* If the secrets differ, this side's hello shows the peer why. */
		if (unproven && !s->greeted)
			(void)!bb_greet_send(&s->greet, &star->identity, s->fd, BB_SIDE_SERVER);
		star->dropped[unproven       ? BB_DROPPED_UNPROVEN
			      : is_silent(s) ? BB_DROPPED_SILENT
					     : BB_DROPPED_NOISE]++;
		dismiss(s);
	}
	if (transit != BB_COMPLETE)
		return 0;
	keep(s->fd);
	epoll_ctl(star->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	star->admitted = s;
	error = star->admit(star, &s->greet.theirs.hello, s->fd);
	if (error == 0)
		s->fd = -1;
	dismiss(s);
	return error > 0 ? error : 0;
}

/* Accept all waiting peers. Returns an errno if a resource for one of them is missing. */
static int accept_all(struct bb_star *star, int listener)
{
	for (;;) {
		struct epoll_event event = {.events = EPOLLIN};
		const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
			return errno;
		if (fd < 0)
			continue; /* it disconnected before it was accepted */
		struct bb_stranger *s = find_place(star);
		*s = (struct bb_stranger){.fd = fd, .since = bb_clock_now()};
		event.data.u32 = (uint32_t)(s - star->strangers);
		int error = epoll_ctl(star->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? errno : 0;
		if (error)
			dismiss(s);
		else
			error = identify(star, s);
		if (error)
			return error;
	}
}

int bb_star_receive(struct bb_star *star)
{
	struct epoll_event events[64];
	const int n = epoll_wait(star->epoll, events, sizeof(events) / sizeof(events[0]),
				 milliseconds_left(star, 1));
	int reason = 0;

	for (int i = 0; i < n; i++) {
		const uint32_t at = events[i].data.u32;
		struct bb_stranger *s = &star->strangers[at < STRANGERS ? at : 0];
		const int error = at >= STRANGERS
					  ? accept_all(star, star->listeners[at - STRANGERS])
				  : s->fd >= 0 ? identify(star, s)
					       : 0;

		if (!error)
			continue;
		reason = error;
		poll(NULL, 0, 10);
	}
	return reason;
}

/* ---- the others ------------------------------------------------------------------------ */

/* An attempt that connected explains more than one that was refused. */
static void attempt_failed(struct bb_stranger *s, int error, bool reached)
{
	if (reached || !s->reached)
		s->error = error;
	s->reached = s->reached || reached;
	dismiss(s);
}

/* Handle an event of an attempt. True: process 0 answered. */
static bool advance_attempt(const struct bb_star *star, struct bb_stranger *s)
{
	int error = 0;
	socklen_t length = sizeof(error);
	enum bb_transit transit;

	if (!s->greeted) {
		getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &length);
		s->greeted = error == 0 &&
			     bb_greet_send(&s->greet, &star->identity, s->fd, BB_SIDE_CLIENT);
		if (!s->greeted)
			attempt_failed(s, error ? error : ECONNRESET, false);
		return false;
	}
	transit = bb_greet_receive(&s->greet, &star->identity, s->fd, BB_SIDE_CLIENT);
	if (transit == BB_COMPLETE && s->greet.stage == BB_GREET_PROOF &&
	    !bb_greet_prove(&s->greet, &star->identity, s->fd, BB_SIDE_CLIENT)) {
		s->greet.error = ECONNRESET;
		transit = BB_BROKEN;
	}
	if (transit == BB_BROKEN)
		attempt_failed(s, s->greet.error, true);
	return transit == BB_COMPLETE && s->greet.stage == BB_GREET_DONE;
}

int bb_star_reach(struct bb_star *star, const struct bb_address *addresses, int n, int *fd,
		  struct bb_hello *hello)
{
	struct pollfd fds[BB_STAR_ADDRESSES];

	while (bb_clock_now() < star->end) {
		/* Repeat failed attempts, and set the events to wait for. */
		for (int i = 0; i < n; i++) {
			struct bb_stranger *s = &star->strangers[i];
			const struct bb_address *a = &addresses[i];

			if (s->fd < 0 && bb_clock_now() >= s->since) {
				s->greet = (struct bb_greet){.got = 0};
				s->greeted = false;
				s->fd = socket(a->to.ss_family,
					       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
				if (s->fd < 0 || (connect(s->fd, (const struct sockaddr *)&a->to,
							  a->length) < 0 &&
						  errno != EINPROGRESS))
					attempt_failed(s, errno, false);
			}
			fds[i] = (struct pollfd){.fd = s->fd,
						 .events = s->greeted ? POLLIN : POLLOUT};
		}
		if (poll(fds, (nfds_t)n, milliseconds_left(star, RETRY_S)) <= 0)
			continue;
		for (int i = 0; i < n; i++) {
			struct bb_stranger *s = &star->strangers[i];

			if (!fds[i].revents || !advance_attempt(star, s)) {
				if (s->error == ENOKEY)
					return ENOKEY;
				continue;
			}
			keep(s->fd);
			*fd = s->fd;
			*hello = s->greet.theirs.hello;
			s->fd = -1;
			return 0;
		}
	}
	for (int i = 0; i < n; i++)
		if (star->strangers[i].reached)
			return star->strangers[i].error;
	return n > 0 && star->strangers[0].error ? star->strangers[0].error : ETIMEDOUT;
}
