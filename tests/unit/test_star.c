/*
 * Process 0 among connections, one at a time: whom it keeps, whom it drops and counts as what,
 * which place a flood takes; and why nobody is reached.
 */
#include "launch/star.h"

#include "core/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

struct host {
	struct bb_star star;
	uint16_t port;
	int reply; /* of admit */
	int admitted, fd, proc;
};

static struct bb_identity identity_of(int proc, int nprocs)
{
	struct bb_identity identity = {.secret = NULL};

	identity.hello = (struct bb_hello){.proc = proc, .nprocs = nprocs, .pid = 7, .nonce = 1};
	strcpy(identity.hello.version, "1.0");
	strcpy(identity.hello.host, "h");
	memset(identity.password[BB_SIDE_CLIENT], 'c', 16);
	memset(identity.password[BB_SIDE_SERVER], 's', 16);
	return identity;
}

static int admit(struct bb_star *star, const struct bb_hello *hello, int fd)
{
	struct host *const h = star->own;

	h->admitted++;
	h->fd = fd;
	h->proc = hello->proc;
	if (h->reply == 0)
		assert_true(bb_star_answer(star));
	return h->reply;
}

static struct bb_address loopback(uint16_t port)
{
	const struct sockaddr_in in = {.sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct bb_address a = {.length = sizeof(in)};

	memcpy(&a.to, &in, sizeof(in));
	return a;
}

static void host_open(struct host *h)
{
	memset(h, 0, sizeof(*h));
	h->star = (struct bb_star){.identity = identity_of(0, 4),
				   .end = bb_clock_now() + 20,
				   .admit = admit,
				   .own = h};
	assert_int_equal(bb_star_open(&h->star), 0);
	assert_int_equal(bb_star_listen(&h->star, NULL, 0, &h->port), 0);
	assert_int_equal(h->star.nlisteners, 1);
	assert_int_not_equal(h->port, 0);
}

/* Connects, and lets process 0 accept. */
static int come(struct host *h)
{
	const struct bb_address a = loopback(h->port);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&a.to, a.length), 0);
	assert_int_equal(bb_star_receive(&h->star), 0);
	return fd;
}

static void say(struct host *h, int fd, const void *data, size_t bytes)
{
	assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
	assert_int_equal(bb_star_receive(&h->star), 0);
}

static void say_hello(struct host *h, int fd, int proc)
{
	const struct bb_identity identity = identity_of(proc, 4);
	struct bb_greet greet = {.got = 0};

	assert_true(bb_greet_send(&greet, &identity, fd, BB_SIDE_CLIENT));
}

/* Has process 0 closed the connection? */
static bool is_closed(int fd)
{
	char byte;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void expect_dropped(const struct host *h, int silent, int noise, int unproven)
{
	assert_int_equal(h->star.dropped[BB_DROPPED_SILENT], silent);
	assert_int_equal(h->star.dropped[BB_DROPPED_NOISE], noise);
	assert_int_equal(h->star.dropped[BB_DROPPED_UNPROVEN], unproven);
	assert_int_equal(h->star.dropped[BB_DROPPED_MISFIT], 0);
}

/* Of a flood the oldest silent one goes, else the oldest. */
static void test_flood(void **state)
{
	struct host h;
	int fd[8];

	host_open(&h);
	assert_true(h.star.nstrangers >= 4 && h.star.nstrangers <= 256);
	h.star.nstrangers = 3;
	for (int i = 0; i < 3; i++)
		fd[i] = come(&h);
	expect_dropped(&h, 0, 0, 0);
	/* 0 is the oldest, then 1; their places are taken in turn. */
	fd[3] = come(&h);
	expect_dropped(&h, 1, 0, 0);
	assert_true(is_closed(fd[0]));
	assert_false(is_closed(fd[1]));
	/* 1 talks, so that 2 is the oldest silent one. */
	say(&h, fd[1], "x", 1);
	fd[4] = come(&h);
	expect_dropped(&h, 2, 0, 0);
	assert_true(is_closed(fd[2]));
	assert_false(is_closed(fd[1]));
	/* 4 is newer than all, but silent. */
	say(&h, fd[3], "x", 1);
	fd[5] = come(&h);
	expect_dropped(&h, 3, 0, 0);
	assert_true(is_closed(fd[4]));
	/* All talk: 1 is the oldest. */
	say(&h, fd[5], "x", 1);
	fd[6] = come(&h);
	expect_dropped(&h, 3, 1, 0);
	assert_true(is_closed(fd[1]));
	assert_false(is_closed(fd[3]));
	assert_false(is_closed(fd[5]));
	/* 3 and 5 have said something, 6 nothing. */
	bb_star_count_silent(&h.star);
	expect_dropped(&h, 4, 3, 0);
	assert_true(is_closed(fd[3]) && is_closed(fd[5]) && is_closed(fd[6]));
	bb_star_count_silent(&h.star);
	expect_dropped(&h, 4, 3, 0);
	/* There is room again. */
	fd[7] = come(&h);
	assert_false(is_closed(fd[7]));
	for (int i = 0; i < 8; i++)
		close(fd[i]);
	bb_star_close(&h.star);
}

/* A hello of the run is admitted, whole or in pieces, and its connection is kept alive. */
static void test_admitted(void **state)
{
	static const struct {
		int level, option, value;
	} options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
		       {IPPROTO_TCP, TCP_KEEPIDLE, 15},
		       {IPPROTO_TCP, TCP_KEEPINTVL, 5},
		       {IPPROTO_TCP, TCP_KEEPCNT, 3},
		       {SOL_SOCKET, SO_KEEPALIVE, 1}};
	struct bb_identity client = identity_of(2, 4);
	struct bb_greet greet = {.got = 0};
	struct host h;
	int fd, value;
	socklen_t length = sizeof(value);

	host_open(&h);
	fd = come(&h);
	say_hello(&h, fd, 2);
	assert_int_equal(bb_star_receive(&h.star), 0);
	assert_int_equal(h.admitted, 1);
	assert_int_equal(h.proc, 2);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		assert_int_equal(
			getsockopt(h.fd, options[i].level, options[i].option, &value, &length), 0);
		assert_int_equal(value, options[i].value);
	}
	/* the answer is process 0's */
	assert_int_equal(bb_greet_receive(&greet, &client, fd, BB_SIDE_CLIENT), BB_COMPLETE);
	assert_int_equal(greet.theirs.hello.proc, 0);
	close(h.fd);
	close(fd);
	/* one that is sent away */
	h.reply = -1;
	fd = come(&h);
	say_hello(&h, fd, 3);
	assert_int_equal(bb_star_receive(&h.star), 0);
	assert_int_equal(h.admitted, 2);
	assert_true(is_closed(fd));
	close(fd);
	/* one for which something is missing */
	h.reply = ENOMEM;
	fd = come(&h);
	say_hello(&h, fd, 3);
	assert_int_equal(bb_star_receive(&h.star), ENOMEM);
	assert_int_equal(h.admitted, 3);
	assert_true(is_closed(fd));
	close(fd);
	expect_dropped(&h, 0, 0, 0);
	bb_star_close(&h.star);
}

/* Who is no process of the run. */
static void test_dropped(void **state)
{
	struct bb_identity other = identity_of(1, 4);
	struct bb_greet greet = {.got = 0};
	char noise[4096];
	struct host h;
	int fd;

	memset(noise, 'x', sizeof(noise));
	host_open(&h);
	fd = come(&h);
	say(&h, fd, noise, sizeof(struct bb_hello));
	assert_true(is_closed(fd));
	expect_dropped(&h, 0, 1, 0);
	close(fd);
	/* closed without a word, and with one */
	fd = come(&h);
	close(fd);
	assert_int_equal(bb_star_receive(&h.star), 0);
	expect_dropped(&h, 1, 1, 0);
	fd = come(&h);
	say(&h, fd, noise, 5);
	expect_dropped(&h, 1, 1, 0);
	close(fd);
	assert_int_equal(bb_star_receive(&h.star), 0);
	expect_dropped(&h, 1, 2, 0);
	/* another password */
	other.password[BB_SIDE_CLIENT][15] = 'd';
	fd = come(&h);
	assert_true(bb_greet_send(&greet, &other, fd, BB_SIDE_CLIENT));
	assert_int_equal(bb_star_receive(&h.star), 0);
	expect_dropped(&h, 1, 3, 0);
	assert_true(is_closed(fd));
	close(fd);
	/* A secret that this side has not: its hello shows why. */
	fd = come(&h);
	{
		struct bb_greeting secured = {.hello = identity_of(1, 4).hello};

		secured.hello.magic = BB_HELLO_SECURED;
		memset(secured.hello.password, 'c', 16);
		say(&h, fd, &secured, sizeof(secured));
	}
	expect_dropped(&h, 1, 3, 1);
	assert_int_equal(recv(fd, noise, sizeof(noise), 0), sizeof(struct bb_hello));
	assert_true(is_closed(fd));
	close(fd);
	assert_int_equal(h.admitted, 0);
	bb_star_close(&h.star);
	bb_star_close(&h.star); /* again: nothing */
}

static void test_addresses(void **state)
{
	struct bb_address a[BB_STAR_ADDRESSES];
	const char *why = NULL;
	char text[32];
	int n;

	n = bb_star_resolve("127.0.0.1", 80, true, a, 0, &why);
	assert_int_equal(n, 1);
	assert_int_equal(ntohs(((struct sockaddr_in *)&a[0].to)->sin_port), 80);
	assert_int_equal(a[0].length, sizeof(struct sockaddr_in));
	assert_int_equal(bb_star_resolve("127.0.0.1", 80, true, a, n, &why), 1);
	assert_int_equal(bb_star_resolve("127.0.0.1", 81, true, a, n, &why), 2);
	assert_int_equal(bb_star_resolve("localhost", 80, true, a, 2, &why), 2);
	assert_non_null(why);
	for (int i = 2; i < 20; i++) {
		snprintf(text, sizeof(text), "127.0.0.%d", i);
		n = bb_star_resolve(text, 80, true, a, i < 17 ? i : BB_STAR_ADDRESSES, &why);
		assert_int_equal(n, i < BB_STAR_ADDRESSES ? i + 1 : BB_STAR_ADDRESSES);
	}
}

/* Listens on those addresses that are this host's. */
static void test_listening(void **state)
{
	struct bb_address a[3] = {loopback(0), loopback(0)};
	struct sockaddr_in *const second = (struct sockaddr_in *)&a[1].to;
	struct bb_star star = {.identity = identity_of(0, 2)};
	struct host h;
	uint16_t port = 0;

	second->sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1, of nobody */
	assert_int_equal(bb_star_open(&star), 0);
	assert_int_equal(bb_star_listen(&star, &a[1], 1, &port), EADDRNOTAVAIL);
	assert_int_equal(star.nlisteners, 0);
	bb_star_close(&star);
	star = (struct bb_star){.identity = identity_of(0, 2)};
	assert_int_equal(bb_star_open(&star), 0);
	a[2] = a[0];
	a[0] = a[1];
	a[1] = a[2];
	assert_int_equal(bb_star_listen(&star, a, 2, &port), 0);
	assert_int_equal(star.nlisteners, 1);
	assert_int_not_equal(port, 0);
	bb_star_close(&star);
	assert_int_equal(star.nlisteners, 0);
	/* A port that somebody has. */
	host_open(&h);
	star = (struct bb_star){.identity = identity_of(0, 2)};
	assert_int_equal(bb_star_open(&star), 0);
	port = h.port;
	assert_int_equal(bb_star_listen(&star, NULL, 0, &port), EADDRINUSE);
	assert_int_equal(port, h.port);
	bb_star_close(&star);
	star = (struct bb_star){.identity = identity_of(0, 2)};
	assert_int_equal(bb_star_open(&star), 0);
	a[0] = loopback(h.port);
	assert_int_equal(bb_star_listen(&star, a, 1, &port), EADDRINUSE);
	bb_star_close(&star);
	bb_star_close(&h.star);
}

/* Of failures, one that connected tells more than one that was refused. */
static void test_reaching_nobody(void **state)
{
	const struct bb_address nowhere = loopback(1);
	const int door = socket(AF_INET, SOCK_STREAM, 0);
	struct bb_address a[2] = {nowhere, nowhere};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	struct bb_hello hello;
	int fd = -1;

	for (int how = 0; how < 4; how++) {
		static const int errors[] = {ETIMEDOUT, ECONNREFUSED, ETIMEDOUT, ECONNRESET};
		struct bb_star star = {.identity = identity_of(1, 2),
				       .end = bb_clock_now() + (how == 2 ? -1 : 0.15)};
		pid_t listener = -1;

		if (how == 3) {
			assert_int_equal(bind(door, (struct sockaddr *)&at, length), 0);
			assert_int_equal(listen(door, 10), 0);
			assert_int_equal(getsockname(door, (struct sockaddr *)&at, &length), 0);
			a[1] = loopback(ntohs(at.sin_port));
			listener = fork();
			if (listener == 0)
				for (;;)
					close(accept(door, NULL, NULL));
		}
		assert_int_equal(bb_star_open(&star), 0);
		assert_int_equal(star.nstrangers, BB_STAR_ADDRESSES);
		assert_int_equal(bb_star_reach(&star, a,
					       how == 0   ? 0
					       : how == 3 ? 2
							  : 1,
					       &fd, &hello),
				 errors[how]);
		assert_int_equal(fd, -1);
		bb_star_close(&star);
		if (listener > 0)
			kill(listener, 9);
	}
	close(door);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flood),     cmocka_unit_test(test_admitted),
		cmocka_unit_test(test_dropped),   cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_listening), cmocka_unit_test(test_reaching_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
