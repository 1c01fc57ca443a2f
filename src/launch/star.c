#include "launch/star.h"

#include "core/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define RETRY_S 0.1
#define STRANGERS 256     /* that may hold a connection at once and not say who they are */
#define SPARE_FILES 1024u /* beside the connections of process 0: strangers, and all else */

struct bb_stranger {
	int fd; /* -1: none */
	bool greeted;
	size_t got;
	struct bb_hello hello;
	double since; /* it is here; of a closed one: when to try again */
	int error;    /* an errno: why the latest attempt failed */
};

/* ---- both sides ------------------------------------------------------------------------ */

static void set_option(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

static int milliseconds_left(const struct bb_star *star, double most)
{
	const double left = star->end - bb_clock_now();

	return left <= 0 ? 0 : (int)(1e3 * (left < most ? left : most)) + 1;
}

/* At once or not at all: nothing was sent before on this connection. */
static bool greet(const struct bb_star *star, int fd, int half)
{
	struct bb_hello hello = star->hello;

	hello.magic = BB_HELLO_MAGIC;
	memcpy(hello.secret, star->secret[half], sizeof(hello.secret));
	return send(fd, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(hello);
}

/* 1: a whole hello with that half of the secret; 0: not yet; -1: never. */
static int hear_hello(const struct bb_star *star, struct bb_stranger *s, int half)
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
	s->hello.version[sizeof(s->hello.version) - 1] = '\0';
	s->hello.host[sizeof(s->hello.host) - 1] = '\0';
	return s->hello.magic == BB_HELLO_MAGIC && memcmp(s->hello.secret, star->secret[half],
							  sizeof(s->hello.secret)) == 0
		       ? 1
		       : -1;
}

static void dismiss(struct bb_stranger *s)
{
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct bb_stranger){.fd = -1, .error = s->error, .since = bb_clock_now() + RETRY_S};
}

/* Of a connection that stays: a host that vanishes is noticed after half a minute. */
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
	star->listener = star->epoll = -1;
	star->nstrangers = star->hello.proc == 0 ? STRANGERS : BB_STAR_ADDRESSES;
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
	if (star->listener >= 0)
		close(star->listener);
	if (star->epoll >= 0)
		close(star->epoll);
}

/* ---- process 0 ------------------------------------------------------------------------- */

static void raise_file_limit(int nprocs)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    limit.rlim_cur >= (rlim_t)nprocs + STRANGERS + SPARE_FILES)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* A listener of FAMILY, or -1 with errno set. PORT is in the same place of both kinds of address.
 */
static int listen_on(int family, uint16_t port)
{
	const struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	const struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	const struct sockaddr *at = (const struct sockaddr *)&in6;
	socklen_t length = sizeof(in6);
	const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -1;
	if (family == AF_INET) {
		at = (const struct sockaddr *)&in4;
		length = sizeof(in4);
	} else {
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	}
	/* What is left of a run that has ended does not keep the port. */
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, at, length) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

int bb_star_listen(struct bb_star *star, uint16_t *port)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct sockaddr_in6 name;
	socklen_t length = sizeof(name);

	raise_file_limit(star->hello.nprocs);
	star->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (star->epoll < 0)
		return errno;
	star->listener = listen_on(AF_INET6, *port);
	if (star->listener < 0 && errno != EADDRINUSE)
		star->listener = listen_on(AF_INET, *port);
	if (star->listener < 0 ||
	    getsockname(star->listener, (struct sockaddr *)&name, &length) < 0 ||
	    epoll_ctl(star->epoll, EPOLL_CTL_ADD, star->listener, &event) < 0)
		return errno;
	*port = ntohs(name.sin6_port);
	return 0;
}

bool bb_star_answer(struct bb_star *star, int fd)
{
	return greet(star, fd, 1);
}

/* Who comes when all places are taken takes that of whoever has been silent for longest. */
static struct bb_stranger *find_place(struct bb_star *star)
{
	struct bb_stranger *oldest = &star->strangers[0];

	for (int i = 0; i < star->nstrangers; i++) {
		struct bb_stranger *s = &star->strangers[i];

		if (s->fd < 0)
			return s;
		oldest = s->since < oldest->since ? s : oldest;
	}
	dismiss(oldest);
	return oldest;
}

/* Returns an errno if S is a process of this run that cannot be taken. */
static int identify(struct bb_star *star, struct bb_stranger *s)
{
	const int heard = hear_hello(star, s, 0);
	int error = -1;

	if (heard == 0)
		return 0;
	if (heard > 0) {
		keep(s->fd);
		epoll_ctl(star->epoll, EPOLL_CTL_DEL, s->fd, NULL);
		error = star->take(star, &s->hello, s->fd);
		if (error == 0)
			s->fd = -1;
	}
	dismiss(s);
	return error > 0 ? error : 0;
}

/* Returns an errno if somebody could not be let in for want of something. */
static int let_in(struct bb_star *star)
{
	for (;;) {
		struct epoll_event event = {.events = EPOLLIN};
		const int fd = accept4(star->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct bb_stranger *s;
		int error;

		if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
			return errno;
		if (fd < 0)
			continue; /* it went before it was let in */
		s = find_place(star);
		*s = (struct bb_stranger){.fd = fd, .since = bb_clock_now()};
		event.data.ptr = s;
		error = epoll_ctl(star->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? errno : 0;
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
		struct bb_stranger *s = events[i].data.ptr;
		const int error = !s ? let_in(star) : s->fd >= 0 ? identify(star, s) : 0;

		if (!error)
			continue;
		reason = error;
		poll(NULL, 0, 10);
	}
	return reason;
}

/* ---- the others ------------------------------------------------------------------------ */

static int start_attempt(struct bb_stranger *s, const struct bb_address *a)
{
	s->got = 0;
	s->greeted = false;
	s->fd = socket(a->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0 || (connect(s->fd, (const struct sockaddr *)&a->to, a->length) < 0 &&
			  errno != EINPROGRESS))
		return errno;
	return 0;
}

/* Something happened to an attempt. True if it is process 0 that answered. */
static bool go_on(const struct bb_star *star, struct bb_stranger *s)
{
	socklen_t length = sizeof(s->error);
	int heard;

	if (!s->greeted) {
		getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &s->error, &length);
		s->greeted = s->error == 0 && greet(star, s->fd, 0);
		if (!s->greeted)
			dismiss(s);
		return false;
	}
	heard = hear_hello(star, s, 1);
	if (heard < 0)
		dismiss(s);
	return heard > 0;
}

/* Try again what failed, and fill in what to wait for. */
static void attempt_all(struct bb_star *star, const struct bb_address *addresses, int n,
			struct pollfd *fds)
{
	for (int i = 0; i < n; i++) {
		struct bb_stranger *s = &star->strangers[i];

		if (s->fd < 0 && bb_clock_now() >= s->since) {
			const int error = start_attempt(s, &addresses[i]);

			if (error) {
				s->error = error;
				dismiss(s);
			}
		}
		fds[i] = (struct pollfd){.fd = s->fd, .events = s->greeted ? POLLIN : POLLOUT};
	}
}

int bb_star_reach(struct bb_star *star, const struct bb_address *addresses, int n, int *fd,
		  struct bb_hello *hello)
{
	struct pollfd fds[BB_STAR_ADDRESSES];

	while (bb_clock_now() < star->end) {
		attempt_all(star, addresses, n, fds);
		if (poll(fds, (nfds_t)n, milliseconds_left(star, RETRY_S)) <= 0)
			continue;
		for (int i = 0; i < n; i++) {
			struct bb_stranger *s = &star->strangers[i];

			if (!fds[i].revents || !go_on(star, s))
				continue;
			keep(s->fd);
			*fd = s->fd;
			*hello = s->hello;
			s->fd = -1;
			return 0;
		}
	}
	return n > 0 && star->strangers[0].error ? star->strangers[0].error : ETIMEDOUT;
}
