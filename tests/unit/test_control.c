/*
 * The control channel: who may join, what arrives, who is found gone, and that nobody who is slow,
 * silent or talks nonsense holds up the others.
 */
#include "launch/control.h"
#include "launch/star.h"

#include "processes.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#define PATIENCE_S 300.0

static struct bb_control *join(struct process *me)
{
	struct bb_control *control = NULL;
	struct bb_error error = {0};
	const bb_status status = bb_control_open(&control, &me->launch, NULL, PATIENCE_S, &error);

	if (status != BB_OK)
		fprintf(stderr, "process %d: %s\n", me->launch.proc, error.text);
	CHECK(me->meeting, status == BB_OK);
	CHECK(me->meeting, (control == NULL) == (me->launch.nprocs == 1));
	return control;
}

/* A message, and its sender; a goodbye if there is none. */
struct news {
	int proc;
	struct bb_frame frame;
};

static struct news hear_within(struct bb_control *control, double seconds)
{
	const double end = bb_clock_now() + seconds;
	struct news news = {.proc = 0};
	const struct bb_frame *message;

	do {
		message = bb_control_poll(control, &news.proc);
		if (message)
			news.frame = *message;
		else
			nap_ms(1);
	} while (!message && bb_clock_now() < end);
	return news;
}

static void send_stop(struct bb_control *control, bb_status status, int signal)
{
	struct bb_frame frame = {
		.kind = BB_FRAME_STOP, .status = (int32_t)status, .signal = signal};

	bb_control_send(control, &frame, "");
}

static void send_failed(struct bb_control *control, bb_status status, const char *text)
{
	struct bb_frame frame = {.kind = BB_FRAME_FAILED, .status = (int32_t)status};

	bb_control_send(control, &frame, text);
}

static void send_progress(struct bb_control *control, int rank, uint64_t entered, bool inside)
{
	struct bb_frame frame = {
		.kind = BB_FRAME_PROGRESS, .rank = rank, .entered = entered, .inside = inside};

	bb_control_send(control, &frame, "");
}

static struct news hear(struct bb_control *control)
{
	return hear_within(control, PATIENCE_S);
}

/* ---- all is well ------------------------------------------------------------------------ */

#define RANKS 3 /* of each process */

static void ask_all(struct process *me, struct bb_control *control)
{
	const int others = me->launch.nprocs - 1;
	int answers[MOST_PROCESSES] = {0};

	bb_control_send(control, &(struct bb_frame){.kind = BB_FRAME_REQUEST}, "");
	for (int i = 0; i < others * RANKS; i++) {
		const struct news news = hear(control);
		const int rank = news.proc * RANKS + answers[news.proc]++;

		CHECK(me->meeting, news.frame.kind == BB_FRAME_PROGRESS && news.frame.rank == rank);
		CHECK(me->meeting, news.frame.entered == ((uint64_t)rank << 40) + 1);
		CHECK(me->meeting, news.frame.inside == (rank % 2 == 1));
	}
	for (int p = 1; p <= others; p++)
		CHECK(me->meeting, answers[p] == RANKS);
}

static void answer(struct process *me, struct bb_control *control)
{
	const struct news news = hear(control);

	CHECK(me->meeting, news.frame.kind == BB_FRAME_REQUEST && news.proc == 0);
	for (int i = 0; i < RANKS; i++) {
		const int rank = me->launch.proc * RANKS + i;

		send_progress(control, rank, ((uint64_t)rank << 40) + 1, rank % 2 == 1);
	}
}

static void talk(struct process *me)
{
	struct bb_control *control = join(me);
	struct news news = {0};

	if (control && me->launch.proc == 0) {
		ask_all(me, control);
		send_stop(control, BB_EDATA, 0);
		send_stop(control, BB_OK, SIGTERM);
	} else if (control) {
		answer(me, control);
		news = hear(control);
		CHECK(me->meeting,
		      news.frame.kind == BB_FRAME_STOP && news.frame.status == BB_EDATA);
		CHECK(me->meeting, news.frame.signal == 0);
		news = hear(control);
		CHECK(me->meeting,
		      news.frame.kind == BB_FRAME_STOP && news.frame.signal == SIGTERM);
		bb_control_send(control,
				&(struct bb_frame){.kind = BB_FRAME_LEFT, .signal = SIGINT}, "");
	}
	for (int i = 1; i < me->launch.nprocs && me->launch.proc == 0; i++) {
		news = hear(control);
		CHECK(me->meeting, news.frame.kind == BB_FRAME_LEFT && news.frame.signal == SIGINT);
	}
	CHECK(me->meeting, bb_control_poll(control, &news.proc) == NULL);
	/* Whoever goes first, nobody misses another who said goodbye. */
	if (me->launch.proc % 2 == 1)
		bb_control_close(control);
	meet_all(&me->launch);
	if (me->launch.proc % 2 == 0) {
		CHECK(me->meeting, hear_within(control, 0.1).frame.kind == BB_FRAME_GOODBYE);
		for (int p = 1; p < me->launch.nprocs && me->launch.proc == 0; p++)
			CHECK(me->meeting, bb_control_reaches(control, p) == (p % 2 == 0));
		meet_all(&me->launch);
		bb_control_close(control);
	} else {
		meet_all(&me->launch);
	}
}

static void test_talk(void **state)
{
	const int numbers[] = {1, 2, 5, 16};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		assert_int_equal(run_threads(numbers[i], talk, NULL), 0);
}

static void say_why(struct process *me)
{
	struct bb_control *control = join(me);
	char text[2 * BB_FRAME_TEXT];
	const size_t lengths[] = {0, 1, BB_FRAME_TEXT - 1, BB_FRAME_TEXT, 2 * BB_FRAME_TEXT - 1};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const size_t most = BB_FRAME_TEXT - 1,
			     length = lengths[i] < most ? lengths[i] : most;
		struct news news;

		for (size_t c = 0; c < lengths[i]; c++)
			text[c] = (char)('a' + (c + i) % 26);
		text[lengths[i]] = '\0';
		if (me->launch.proc != 0) {
			send_failed(control, BB_EDATA, text);
			continue;
		}
		news = hear(control);
		CHECK(me->meeting, news.frame.kind == BB_FRAME_FAILED && news.proc == 1);
		CHECK(me->meeting,
		      news.frame.status == BB_EDATA && strlen(news.frame.text) == length);
		CHECK(me->meeting, memcmp(news.frame.text, text, length) == 0);
	}
	meet_all(&me->launch);
	bb_control_close(control);
}

static void test_text(void **state)
{
	assert_int_equal(run_threads(2, say_why, NULL), 0);
}

/* Process 1 never stops talking; process 2 is heard all the same. */
static void talk_much(struct process *me)
{
	struct bb_control *control = join(me);
	int before = 0;

	if (me->launch.proc == 1)
		for (int i = 0; i < 1000; i++)
			send_progress(control, 1, 1, true);
	if (me->launch.proc == 2)
		send_failed(control, BB_EDATA, "");
	meet_all(&me->launch);
	if (me->launch.proc == 0) {
		while (hear(control).frame.kind == BB_FRAME_PROGRESS)
			before++;
		CHECK(me->meeting, before < 10);
		for (; before < 1000; before++)
			CHECK(me->meeting, hear(control).frame.kind == BB_FRAME_PROGRESS);
	}
	meet_all(&me->launch);
	bb_control_close(control);
}

static void test_fairness(void **state)
{
	assert_int_equal(run_threads(3, talk_much, NULL), 0);
}

/* A program that is started later does not inherit the connections, and many are possible. */
static void look_at_files(struct process *me)
{
	struct rlimit limit = {.rlim_cur = 100, .rlim_max = 5000};
	struct bb_control *control;

	CHECK(me->meeting, setrlimit(RLIMIT_NOFILE, &limit) == 0);
	control = join(me);
	for (int i = 0; i < control->nwires; i++)
		if (control->wires[i].fd >= 0)
			CHECK(me->meeting, fcntl(control->wires[i].fd, F_GETFD) & FD_CLOEXEC);
	CHECK(me->meeting, fcntl(control->epoll, F_GETFD) & FD_CLOEXEC);
	CHECK(me->meeting, getrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(me->meeting, limit.rlim_cur == (me->launch.proc == 0 ? 5000 : 100));
	bb_control_close(control);
}

static void test_files(void **state)
{
	struct process all[2];
	struct meeting *m = start_forks(all, 2, look_at_files, NULL);

	for (int p = 0; p < 2; p++)
		assert_int_equal(await_fork(&all[p]), 0);
	assert_int_equal(meeting_close(m), 0);
}

/* ---- who does not belong here ------------------------------------------------------------ */

#define SILENT 300 /* more than may be here at once */

/* The port of the socket that this process listens on. */
static in_port_t find_port(void)
{
	for (int fd = 3; fd < 1000; fd++) {
		struct sockaddr_in6 address;
		socklen_t length = sizeof(address), size = sizeof(int);
		int listens = 0;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
		    getsockname(fd, (struct sockaddr *)&address, &length) == 0)
			return address.sin6_port;
	}
	return 0;
}

static int knock(in_port_t port, const void *words, size_t length)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -1;
	send(fd, words, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	return fd;
}

struct crowd {
	int fds[SILENT + 6];
};

/* Process 0's launch: before the others learn its port, a crowd is at its door. */
static bb_status gather_in_a_crowd(struct bb_launch *launch, const void *mine, size_t bytes,
				   void *all, bool everywhere)
{
	struct meeting *m = launch->own;
	struct crowd *crowd = (struct crowd *)m->given[MOST_PROCESSES - 1];
	const struct bb_hello hello = {.magic = BB_HELLO_PLAIN, .proc = 1}; /* without the secret */
	const in_port_t port = find_port();
	char noise[4096];
	int i;

	launch->gather = meet_gather;
	CHECK(m, port != 0);
	memset(noise, 'x', sizeof(noise));
	for (i = 0; i < SILENT; i++)
		crowd->fds[i] = knock(port, "", 0);
	crowd->fds[i++] = knock(port, noise, sizeof(noise));
	crowd->fds[i++] = knock(port, "GET / HTTP/1.1\r\n\r\n", 18);
	crowd->fds[i++] = knock(port, &hello, sizeof(hello));
	crowd->fds[i++] = knock(port, &hello, sizeof(hello) - 1);
	crowd->fds[i++] = knock(port, &hello, 1);
	crowd->fds[i] = knock(port, noise, 1);
	shutdown(crowd->fds[i], SHUT_RDWR);
	return meet_gather(launch, mine, bytes, all, everywhere);
}

static void join_through_crowd(struct process *me)
{
	struct crowd *crowd = (struct crowd *)me->meeting->given[MOST_PROCESSES - 1];
	const struct timeval patience = {.tv_sec = 5};
	struct bb_control *control;
	const double start = bb_clock_now();

	if (me->launch.proc == 0)
		me->launch.gather = gather_in_a_crowd;
	control = join(me);
	CHECK(me->meeting, bb_clock_now() - start < 5);
	for (int i = 0; i < SILENT + 6 && me->launch.proc == 0; i++) {
		char answer;

		setsockopt(crowd->fds[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		/* Sent away without a word. */
		CHECK(me->meeting, crowd->fds[i] >= 0);
		CHECK(me->meeting, recv(crowd->fds[i], &answer, 1, 0) == 0 || errno == ECONNRESET);
		close(crowd->fds[i]);
	}
	if (me->launch.proc == 1)
		send_failed(control, BB_EDATA, "me");
	if (me->launch.proc == 0)
		CHECK(me->meeting, strcmp(hear(control).frame.text, "me") == 0);
	meet_all(&me->launch);
	bb_control_close(control);
}

static void test_strangers(void **state)
{
	assert_int_equal(run_threads(4, join_through_crowd, NULL), 0);
}

/* The two halves of the secret are the last of what process 0 gives. */
static bb_status gather_wrongly(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
				size_t where)
{
	launch->gather = meet_gather;
	meet_gather(launch, mine, bytes, all, true);
	((char *)all)[bytes - where] ^= 1;
	return BB_OK;
}

static bb_status mishear_mine(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			      bool everywhere)
{
	return gather_wrongly(launch, mine, bytes, all, 17);
}

static bb_status mishear_answer(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
				bool everywhere)
{
	return gather_wrongly(launch, mine, bytes, all, 1);
}

static void fail_to_join(struct process *me)
{
	struct bb_control *control = NULL;
	struct bb_error error = {0};
	const double start = bb_clock_now();

	if (me->launch.proc == 2)
		me->launch.gather = me->argument ? mishear_answer : mishear_mine;
	CHECK(me->meeting,
	      bb_control_open(&control, &me->launch, NULL, 0.7, &error) == BB_EBACKEND);
	CHECK(me->meeting, bb_clock_now() - start < 3);
	CHECK(me->meeting, control == NULL);
	CHECK(me->meeting, strstr(error.text, "process 2 (") == error.text);
	CHECK(me->meeting, strstr(error.text, "cannot reach process 0 (") != NULL);
	CHECK(me->meeting, strstr(error.text, "let TCP pass to port ") != NULL);
	if (me->launch.proc == 0)
		strcpy(me->meeting->given[MOST_PROCESSES - 1], error.text);
	meet_all(&me->launch);
	CHECK(me->meeting, strcmp(me->meeting->given[MOST_PROCESSES - 1], error.text) == 0);
}

static void test_wrong_secret(void **state)
{
	assert_int_equal(run_threads(4, fail_to_join, NULL), 0);
	assert_int_equal(run_threads(4, fail_to_join, state), 0);
}

/* ---- who is gone ------------------------------------------------------------------------- */

/* What process 1 of 3 does as its last, on the bare connection; process 0 or it is then gone. */
struct rubbish {
	int proc; /* who sends it */
	struct bb_frame frame;
	size_t length;
	bool whole; /* enough of it to say what is wrong */
};

static const struct rubbish rubbish[] = {
	{1, {.magic = 1, .kind = BB_FRAME_FAILED, .status = 3}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = 200}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_GONE}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_STOP, .status = 3}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_REQUEST}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = 99}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = -1}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = 256}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = 6}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_LEFT, .signal = 65}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_LEFT, .signal = 16}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_PROGRESS, .rank = -1}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_LEFT}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_LEFT, .signal = -9}, BB_FRAME_HEAD, true},
	{1, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_PROGRESS, .inside = 2}, BB_FRAME_HEAD, true},
	/* Longer than any. */
	{1,
	 {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = 3, .length = BB_FRAME_TEXT},
	 sizeof(struct bb_frame),
	 true},
	{1,
	 {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = 3, .length = 65535},
	 sizeof(struct bb_frame),
	 true},
	/* Cut off, in the head and in the text. */
	{1,
	 {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = 3},
	 BB_FRAME_HEAD - 1,
	 false},
	{1,
	 {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = 3, .length = 100},
	 BB_FRAME_HEAD + 99,
	 false},
	{0, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_FAILED, .status = 3}, BB_FRAME_HEAD, true},
	{0, {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_STOP}, BB_FRAME_HEAD, true},
	{0, {.magic = 0}, BB_FRAME_HEAD, true},
};

static void talk_rubbish(struct process *me)
{
	const struct rubbish *r = me->argument;
	struct bb_control *control = join(me);
	const int proc = me->launch.proc, to = r->proc == 0 ? 1 : 0;

	if (proc == r->proc) {
		struct bb_wire *wire = &control->wires[to];

		CHECK(me->meeting,
		      send(wire->fd, &r->frame, r->length, MSG_NOSIGNAL) == (ssize_t)r->length);
		shutdown(wire->fd, SHUT_WR);
	}
	if (proc == to) {
		const struct news news = hear(control);

		CHECK(me->meeting, news.frame.kind == BB_FRAME_GONE && news.proc == r->proc);
		CHECK(me->meeting,
		      (strncmp(news.frame.text, "sent a frame ", 13) == 0) == r->whole);
		CHECK(me->meeting, hear_within(control, 0.03).frame.kind == BB_FRAME_GOODBYE);
	}
	/* The others still hear each other. */
	meet_all(&me->launch);
	if (proc == 0)
		send_stop(control, BB_EDATA, 0);
	if (proc == 2)
		CHECK(me->meeting, hear(control).frame.kind == BB_FRAME_STOP);
	meet_all(&me->launch);
	bb_control_close(control);
}

static void test_rubbish(void **state)
{
	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
		const int failures = run_threads(3, talk_rubbish, (void *)(uintptr_t)&rubbish[i]);

		if (failures > 0)
			fail_msg("row %zu", i);
	}
}

struct loss {
	int proc;       /* who is killed */
	atomic_int *up; /* how many are connected */
};

/* Process PROC is killed; each of the others hears of it once, or not at all. */
static void lose(struct process *me)
{
	const struct loss *loss = me->argument;
	const bool hears = me->launch.proc == 0 || loss->proc == 0;
	struct bb_control *control = join(me);
	struct news news;
	double start;

	atomic_fetch_add(loss->up, 1);
	if (me->launch.proc == loss->proc)
		nap_ms(100000);
	while (atomic_load(loss->up) <= 3) /* the parent adds the last */
		nap_ms(1);
	start = bb_clock_now();
	news = hear_within(control, hears ? 5 : 0.3);
	CHECK(me->meeting, news.frame.kind == (hears ? BB_FRAME_GONE : BB_FRAME_GOODBYE));
	CHECK(me->meeting, !hears || (news.proc == loss->proc && bb_clock_now() - start < 1));
	CHECK(me->meeting, hear_within(control, 0.2).frame.kind == BB_FRAME_GOODBYE);
	atomic_fetch_add(loss->up, 1);
	while (atomic_load(loss->up) < 6)
		nap_ms(1);
	/* What is told to who is gone does no harm. */
	for (int i = 0; i < 3; i++)
		me->launch.proc == 0 ? send_stop(control, BB_EDATA, 0)
				     : send_failed(control, BB_EDATA, "x");
	bb_control_close(control);
}

static void test_killed(void **state)
{
	for (int proc = 0; proc < 3; proc++) {
		atomic_int *up = mmap(NULL, sizeof(*up), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		struct loss loss = {.proc = proc, .up = up};
		struct process all[3];
		struct meeting *m = start_forks(all, 3, lose, &loss);

		while (atomic_load(up) < 3)
			nap_ms(1);
		kill(all[proc].pid, SIGKILL);
		atomic_fetch_add(up, 1);
		for (int p = 0; p < 3; p++)
			assert_int_equal(await_fork(&all[p]), p == proc ? 256 + SIGKILL : 0);
		assert_int_equal(meeting_close(m), 0);
		munmap(up, sizeof(*up));
	}
}

/* ---- who does not listen ------------------------------------------------------------------ */

#define MANY 50000
#define AHEAD 100 /* of who does listen */

struct hearing {
	atomic_int stopped, given_up; /* process 1 */
	atomic_int heard;             /* by process 2 */
};

static void tell_many(struct process *me, struct bb_control *control, struct hearing *hearing)
{
	const int small = 4096;
	double longest = 0;

	CHECK(me->meeting,
	      setsockopt(control->wires[1].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
	for (int i = 0; i < MANY; i++) {
		const double start = bb_clock_now();

		send_stop(control, BB_EDATA, 0);
		longest = bb_clock_now() - start > longest ? bb_clock_now() - start : longest;
		while (atomic_load(&hearing->heard) < i - AHEAD)
			nap_ms(1);
	}
	CHECK(me->meeting, longest < 1);
	CHECK(me->meeting, control->wires[1].mute && !control->wires[2].mute);
}

static void tell_the_deaf(struct process *me)
{
	struct hearing *hearing = me->argument;
	struct bb_control *control = join(me);

	if (me->launch.proc == 1) {
		raise(SIGSTOP);
		/* Whatever got through; then process 0 has given this one up. */
		while (hear(control).frame.kind == BB_FRAME_STOP)
			;
		CHECK(me->meeting, control->wires[0].fd < 0);
	} else if (me->launch.proc == 0) {
		while (!atomic_load(&hearing->stopped))
			nap_ms(1);
		tell_many(me, control, hearing);
		atomic_store(&hearing->given_up, 1);
	} else {
		for (int i = 0; i < MANY; i++) {
			CHECK(me->meeting, hear(control).frame.kind == BB_FRAME_STOP);
			atomic_fetch_add(&hearing->heard, 1);
		}
	}
	bb_control_close(control);
}

static void test_deaf(void **state)
{
	struct hearing *hearing = mmap(NULL, sizeof(*hearing), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct process all[3];
	struct meeting *m = start_forks(all, 3, tell_the_deaf, hearing);
	int status;

	assert_int_equal(waitpid(all[1].pid, &status, WUNTRACED), all[1].pid);
	assert_true(WIFSTOPPED(status));
	atomic_store(&hearing->stopped, 1);
	while (!atomic_load(&hearing->given_up))
		nap_ms(1);
	kill(all[1].pid, SIGCONT);
	for (int p = 0; p < 3; p++)
		assert_int_equal(await_fork(&all[p]), 0);
	assert_int_equal(meeting_close(m), 0);
	munmap(hearing, sizeof(*hearing));
}

/* A head that is no frame's breaks the wire for good, whatever follows it. */
static void test_broken_wire(void **state)
{
	char bytes[256];
	int ends[2];
	struct bb_wire wire = {.got = 0};

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(write(ends[1], bytes, sizeof(bytes)), sizeof(bytes));
	wire.fd = ends[0];
	for (int i = 0; i < 3; i++) {
		assert_int_equal(bb_wire_receive(&wire), BB_BROKEN);
		assert_non_null(strstr(wire.why, "sent a frame in which "));
	}
	assert_int_equal(wire.got, BB_FRAME_HEAD);
	bb_wire_close(&wire);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_talk),        cmocka_unit_test(test_text),
		cmocka_unit_test(test_fairness),    cmocka_unit_test(test_files),
		cmocka_unit_test(test_strangers),   cmocka_unit_test(test_wrong_secret),
		cmocka_unit_test(test_rubbish),     cmocka_unit_test(test_killed),
		cmocka_unit_test(test_broken_wire), cmocka_unit_test(test_deaf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
