/*
 * wire.c - what becomes of anything that another process may send: what is valid in itself and
 * within its limits, or a refusal with a reason. The first byte says on which way it comes.
 */
#include "core/version.h"
#include "harness/run/world.h"
#include "launch/control.h"
#include "launch/greet.h"
#include "p2p/pairs.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t length);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

/* What is offered as an address of process 0 leads nowhere here. */
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t length)
{
	errno = ECONNREFUSED;
	return -1;
}

static bool is_status(int status)
{
	return (status >= BB_OK && status <= BB_EUNSUPPORTED) || status == BB_EDATA;
}

/* A connection on which DATA has come, and nothing more will. */
static int open_wire(const uint8_t *data, size_t size)
{
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	CHECK(size == 0 || send(ends[1], data, size, MSG_NOSIGNAL) == (ssize_t)size);
	close(ends[1]);
	return ends[0];
}

/* ---- frames and hellos ------------------------------------------------------------------- */

static void try_frames(const uint8_t *data, size_t size)
{
	struct bb_wire wire = {.fd = open_wire(data, size)};
	enum bb_transit heard;

	while ((heard = bb_wire_receive(&wire)) == BB_COMPLETE) {
		CHECK(is_status(wire.frame.status) && wire.frame.inside <= 1);
		CHECK(wire.frame.rank >= 0);
		CHECK(wire.frame.signal == 0 || wire.frame.signal == SIGINT ||
		      wire.frame.signal == SIGTERM);
		CHECK(strlen(wire.frame.text) <= wire.frame.length);
	}
	CHECK(heard == BB_BROKEN);
	CHECK(bb_wire_receive(&wire) == BB_BROKEN); /* for good */
	CHECK(!*wire.why || strncmp(wire.why, "sent a frame in which ", 22) == 0);
	bb_wire_close(&wire);
}

static void try_hello(const uint8_t *data, size_t size, enum bb_side me,
		      const struct bb_secret *secret)
{
	const struct bb_identity identity = {
		.hello = {.proc = 1, .nprocs = 2, .version = BB_VERSION},
		.password = {"busbench, hello", "busbench, indeed"},
		.secret = secret};
	struct bb_greet greet = {.got = 0};
	const int fd = open_wire(data, size);
	int heard = bb_greet_receive(&greet, &identity, fd, me);

	if (heard > 0) {
		CHECK(greet.theirs.hello.proc >= 0 && greet.theirs.hello.nprocs > 0);
		CHECK(memchr(greet.theirs.hello.host, '\0', sizeof(greet.theirs.hello.host)));
		CHECK((greet.stage == BB_GREET_PROOF) == (secret != NULL));
	}
	/* Nobody guesses a proof. */
	if (heard > 0 && secret)
		CHECK(bb_greet_receive(&greet, &identity, fd, me) < 0);
	else
		CHECK(heard > 0 || greet.error != 0);
	close(fd);
}

static void try_news(const uint8_t *data, size_t size, int proc)
{
	struct bb_wire wires[2] = {{.fd = -1}, {.fd = -1}};
	struct bb_control control = {.proc = proc, .nwires = 2 - proc, .wires = wires};
	struct bb_wire *wire = &wires[1 - proc];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = wire};
	const struct bb_frame *news;
	int from;

	wire->fd = open_wire(data, size);
	control.epoll = epoll_create1(0);
	CHECK(epoll_ctl(control.epoll, EPOLL_CTL_ADD, wire->fd, &event) == 0);
	while ((news = bb_control_poll(&control, &from)) != NULL) {
		CHECK(is_status(news->status) && memchr(news->text, '\0', sizeof(news->text)));
		CHECK(news->kind != BB_FRAME_FAILED || (proc == 0 && news->status != BB_OK));
		CHECK(news->kind != BB_FRAME_STOP || proc == 1);
	}
	bb_wire_close(wire);
	close(control.epoll);
}

/* ---- payloads ---------------------------------------------------------------------------- */

/* Of two processes the other one gives what this one does, with edits: CALL, offset (2 bytes),
   length and bytes each. */
struct mirror {
	const uint8_t *data;
	size_t size;
	int calls;
};

static bb_status look_into_mirror(struct bb_launch *launch, const void *mine, size_t bytes,
				  void *all, bool everywhere)
{
	struct mirror *m = launch->own;
	char *other = (char *)all + (1 - launch->proc) * bytes;

	memcpy((char *)all + launch->proc * bytes, mine, bytes);
	memcpy(other, mine, bytes);
	for (size_t at = 0; at + 4 < m->size;) {
		const size_t offset = m->data[at + 1] + 256u * m->data[at + 2];
		size_t length = m->data[at + 3];

		length = length < m->size - at - 4 ? length : m->size - at - 4;
		if (m->data[at] % 8 == m->calls && offset + length <= bytes)
			memcpy(other + offset, m->data + at + 4, length);
		at += 4 + length;
	}
	m->calls++;
	return BB_OK;
}

static void try_assembly(const uint8_t *data, size_t size, int way)
{
	static char program[] = "all_reduce_perf", flag[] = "-b", value[] = "8";
	char *argv[] = {program, flag, value, NULL};
	const struct bb_environment environment = {.nccl_algo = "ring"};
	struct mirror mirror = {data, size, 0};
	struct bb_launch launch = {.nprocs = 2, .gather = look_into_mirror, .own = &mirror};
	struct bb_error error = {.text = ""};
	struct bb_assembly a = {.launch = &launch, .error = &error};
	int exit_status = BB_EDATA;
	bb_status status;

	if (way == 0)
		status = bb_assembly_compare(&a, 3, argv, &environment, &bb_backend_null);
	else if (way == 1)
		status = bb_assembly_agree(&a, BB_OK);
	else
		status = bb_assembly_end(&a, &exit_status);
	CHECK(is_status(status) && (status == BB_OK || *error.text));
	CHECK(exit_status == BB_EDATA);
	free(a.members);
}

static void try_offer(const uint8_t *data, size_t size, int proc)
{
	struct mirror mirror = {data, size, 0};
	struct bb_launch launch = {
		.proc = proc, .nprocs = 2, .gather = look_into_mirror, .own = &mirror};
	struct bb_control *control = NULL;
	struct bb_error error = {.text = ""};

	/* Nobody comes to process 0, and process 1 gets nowhere. */
	CHECK(bb_control_open(&control, &launch, NULL, 1e-4, &error) != BB_OK);
	CHECK(*error.text && !control);
}

static void try_payload(const uint8_t *data, size_t size, const struct bb_payload *table)
{
	_Alignas(8) char payload[512] = "";
	char why[BB_PAYLOAD_WHY] = "";

	CHECK(table->bytes <= sizeof(payload));
	memcpy(payload, data, size < table->bytes ? size : table->bytes);
	CHECK(bb_payload_decode(table, payload, why) == !*why);
	CHECK(!*why || strncmp(why, "sent ", 5) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bb_secret *secret = NULL;
	struct bb_error error = {.text = ""};

	if (size < 1 || size > 60000)
		return 0;
	switch (data[0] % 12) {
	case 0:
		try_frames(data + 1, size - 1);
		break;
	case 1:
	case 2:
		try_hello(data + 1, size - 1, (enum bb_side)(data[0] % 12 - 1), NULL);
		break;
	case 3:
		setenv(BB_SECRET_VARIABLE, "a secret of tests", 1);
		CHECK(bb_secret_open(&secret, &error) == BB_OK);
		try_hello(data + 1, size - 1, BB_SIDE_SERVER, secret);
		bb_secret_close(secret);
		break;
	case 4:
	case 5:
		try_news(data + 1, size - 1, data[0] % 12 - 4);
		break;
	case 6:
	case 7:
		try_offer(data + 1, size - 1, data[0] % 12 - 6);
		break;
	case 8:
		try_payload(data + 1, size - 1, &bb_pair_part_table);
		break;
	default:
		try_assembly(data + 1, size - 1, data[0] % 12 - 9);
		break;
	}
	return 0;
}
