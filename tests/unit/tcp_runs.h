/*
 * tcp_runs.h - the processes of a tcp launch for tests.
 */
#ifndef BB_TESTS_TCP_RUNS_H
#define BB_TESTS_TCP_RUNS_H

#include "launch/secret.h"
#include "launch/tcp.h"
#include "processes.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>

#include <cmocka.h>

#define SECRET "a secret of tests"

static const char *const variables[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK",
					"MASTER_ADDR", "MASTER_PORT", "BUSBENCH_PORT"};

static inline void clear_environment(void)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
}

#define PATIENCE_S 300.0

static inline void set_number(const char *name, int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", number);
	setenv(name, text, 1);
}

/* A port that was free a moment ago. */
static inline int free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t length = sizeof(at);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&at, length) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &length) < 0)
		abort();
	close(fd);
	return ntohs(at.sin_port);
}

/* What the parent says to all before they begin. */
static inline void set_run(int nprocs, int port)
{
	clear_environment();
	set_number("WORLD_SIZE", nprocs);
	set_number("BUSBENCH_PORT", port);
	setenv("MASTER_ADDR", "localhost", 1);
}

static inline bb_status open_as(struct bb_launch *launch, int proc, double timeout_s,
				struct bb_error *error)
{
	struct bb_secret *secret;
	bb_status status = bb_secret_open(&secret, error);

	set_number("RANK", proc);
	if (status == BB_OK)
		status = bb_launch_tcp.open(
			launch,
			&(struct bb_launch_request){.timeout_s = timeout_s, .secret = secret},
			error);
	bb_secret_close(secret);
	return status;
}

static inline struct bb_launch join(struct process *me)
{
	struct bb_launch launch = {0};
	struct bb_error error = {0};
	const bb_status status = open_as(&launch, me->launch.proc, PATIENCE_S, &error);

	CHECK(me->meeting, status == BB_OK);
	if (status != BB_OK) {
		fprintf(stderr, "process %d: %s\n", me->launch.proc, error.text);
		_exit(1);
	}
	CHECK(me->meeting, launch.proc == me->launch.proc && launch.nprocs == me->meeting->n);
	return launch;
}

/* N processes that run RUN to their end; KILLED is killed by then, -1: none. */
static inline void run_all(int n, void (*run)(struct process *me), void *argument, int killed)
{
	struct process all[MOST_PROCESSES];
	struct meeting *m;

	set_run(n, free_port());
	m = start_forks(all, n, run, argument);
	for (int p = 0; p < n; p++)
		assert_int_equal(await_fork(&all[p]), p == killed ? 256 + SIGKILL : 0);
	assert_int_equal(meeting_close(m), 0);
}

static inline int knock(const void *said, size_t length)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)atoi(getenv("BUSBENCH_PORT"))),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const double end = bb_clock_now() + PATIENCE_S;

	while (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0) {
		if (bb_clock_now() > end)
			abort();
		nap_ms(2);
	}
	send(fd, said, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	return fd;
}

#endif
