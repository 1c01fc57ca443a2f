/*
 * Messages in queues of the host backend: what arrives and in which order, from whom, how long a
 * paced link takes, and what happens to who waits when the run is abandoned.
 */
#include "backends/backend.h"
#include "backends/messages.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define LONGEST 5000 /* bytes of a message */
#define MESSAGES 60

static void nap(int us)
{
	const struct timespec t = {.tv_nsec = us * 1000L};

	nanosleep(&t, NULL);
}

static struct bb_queue *open_queue(struct one *me)
{
	struct bb_error error = {0};
	struct bb_queue *queue = NULL;

	CHECK(me, me->backend->queue_open(me->handle, &queue, &error) == BB_OK);
	return queue;
}

/* Byte I of message K from SOURCE to TARGET. */
static unsigned char byte_of(int source, int target, int k, size_t i)
{
	return (unsigned char)(source * 37 + target * 11 + k * 5 + (int)i);
}

static void write_message(unsigned char *data, size_t bytes, int source, int target, int k)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = byte_of(source, target, k, i);
}

static bool is_message(const unsigned char *data, size_t bytes, int source, int target, int k)
{
	for (size_t i = 0; i < bytes; i++)
		if (data[i] != byte_of(source, target, k, i))
			return false;
	return true;
}

/* From none to more than a slot holds; a prime's distance apart. */
static size_t length_of(int k)
{
	return (size_t)k * 1009 % LONGEST;
}

static bb_status send_to(struct one *me, struct bb_queue *queue, const int *to, const void *out,
			 size_t bytes)
{
	const struct bb_message m = {BB_MESSAGE_SEND, me->world, .to = to, .out = out,
				     .bytes = bytes};

	return me->backend->messages->pass(queue, &m);
}

static bb_status recv_from(struct one *me, struct bb_queue *queue, int from, void *in, size_t bytes)
{
	const struct bb_message m = {BB_MESSAGE_RECV, me->world, .from = from, .in = in,
				     .bytes = bytes};

	return me->backend->messages->pass(queue, &m);
}

static bb_status recv_any(struct one *me, struct bb_queue *queue, void *in, size_t bytes,
			  int *source)
{
	const struct bb_message m = {BB_MESSAGE_RECV_ANY, me->world, .source = source, .in = in,
				     .bytes = bytes};

	return me->backend->messages->pass(queue, &m);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* All ranks send to the right on one queue and receive from the left on another; then the two
   queues change sides. */
static void pass_on(struct one *me, void *argument)
{
	struct bb_queue *queues[2] = {open_queue(me), open_queue(me)};
	const int right = (me->rank + 1) % me->n, left = (me->rank + me->n - 1) % me->n;
	unsigned char *out = malloc((size_t)2 * MESSAGES * LONGEST);
	unsigned char *in = out + (size_t)MESSAGES * LONGEST;

	CHECK(me, out != NULL);
	for (int turn = 0; turn < 2; turn++) {
		for (int k = 0; k < MESSAGES; k++) {
			unsigned char *from = out + (size_t)k * LONGEST;
			unsigned char *to = in + (size_t)k * LONGEST;
			const size_t bytes = length_of(k);

			write_message(from, bytes, me->rank, right, k + turn);
			memset(to, 0, LONGEST);
			CHECK(me, send_to(me, queues[turn], &right, from, bytes) == BB_OK);
			CHECK(me, recv_from(me, queues[!turn], left, to, bytes) == BB_OK);
		}
		for (int q = 0; q < 2; q++)
			CHECK(me, me->backend->finish(me->handle, queues[q]) == BB_OK);
		for (int k = 0; k < MESSAGES; k++)
			CHECK(me, is_message(in + (size_t)k * LONGEST, length_of(k), left, me->rank,
					     k + turn));
	}
	for (int q = 0; q < 2; q++)
		me->backend->queue_close(queues[q]);
	free(out);
}

static void raise_flag(void *flag)
{
	atomic_store((atomic_int *)flag, 1);
}

/* A send is done when the peer has it, not before; on the main queue the call itself waits. */
static void wait_for_peer(struct one *me, void *argument)
{
	atomic_int *received = argument;
	struct bb_queue *queue = open_queue(me);
	const int peer = !me->rank;
	char data[8] = "message";

	if (me->rank == 0) {
		CHECK(me, send_to(me, queue, &peer, data, 8) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
		CHECK(me, atomic_load(received) == 1);
		CHECK(me, recv_from(me, NULL, peer, data, 8) == BB_OK);
		CHECK(me, strcmp(data, "answer!") == 0);
	} else {
		nap(30000);
		raise_flag(received);
		CHECK(me, recv_from(me, NULL, peer, data, 8) == BB_OK);
		CHECK(me, strcmp(data, "message") == 0);
		CHECK(me, send_to(me, queue, &peer, "answer!", 8) == BB_OK);
	}
	me->backend->queue_close(queue);
}

static void test_order(void **state)
{
	for (int crowded = 0; crowded < 2; crowded++) {
		atomic_int received = 0;

		ranks_host(2, crowded, pass_on, NULL);
		ranks_host(5, crowded, pass_on, NULL);
		ranks_host(2, crowded, wait_for_peer, &received);
	}
}

/* ---- from whoever is first ------------------------------------------------------------------ */

#define ROUNDS_OF_ALL 20

/* Rank 0 answers whoever asks, with the question: to a rank that it knows only once it has heard.
 */
static void serve(struct one *me, struct bb_queue *queue)
{
	const int questions = ROUNDS_OF_ALL * (me->n - 1);
	unsigned char *data = malloc((size_t)questions * LONGEST);
	int *sources = calloc((size_t)questions, sizeof(*sources));
	int *heard = calloc((size_t)me->n, sizeof(*heard));

	CHECK(me, data && sources && heard);
	for (int k = 0; k < questions; k++) {
		unsigned char *at = data + (size_t)k * LONGEST;

		CHECK(me, recv_any(me, queue, at, LONGEST, &sources[k]) == BB_OK);
		CHECK(me, send_to(me, queue, &sources[k], at, LONGEST) == BB_OK);
	}
	CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
	for (int k = 0; k < questions; k++) {
		const int source = sources[k];

		CHECK(me, source > 0 && source < me->n);
		CHECK(me,
		      is_message(data + (size_t)k * LONGEST, LONGEST, source, 0, heard[source]++));
	}
	for (int r = 1; r < me->n; r++)
		CHECK(me, heard[r] == ROUNDS_OF_ALL);
	free(heard);
	free(sources);
	free(data);
}

static void ask(struct one *me, struct bb_queue *queue)
{
	const int server = 0;
	unsigned char out[LONGEST], in[LONGEST];

	for (int k = 0; k < ROUNDS_OF_ALL; k++) {
		write_message(out, LONGEST, me->rank, 0, k);
		if ((k + me->rank) % 5 == 0)
			nap(200);
		CHECK(me, send_to(me, queue, &server, out, LONGEST) == BB_OK);
		CHECK(me, recv_from(me, queue, server, in, LONGEST) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
		CHECK(me, is_message(in, LONGEST, me->rank, 0, k));
	}
}

static void ask_and_serve(struct one *me, void *argument)
{
	struct bb_queue *queue = open_queue(me);

	if (me->rank == 0)
		serve(me, queue);
	else
		ask(me, queue);
	me->backend->queue_close(queue);
}

static void test_any(void **state)
{
	for (int crowded = 0; crowded < 2; crowded++) {
		ranks_host(2, crowded, ask_and_serve, NULL);
		ranks_host(6, crowded, ask_and_serve, NULL);
	}
}

/* ---- pacing ---------------------------------------------------------------------------------- */

#define RATE 1e6 /* bytes per second: LONGEST take 5 ms */
#define LATENCY 10e-3

/* Never faster than the link: each message enters it behind the one before, and is there when it
   has crossed. */
static void keep_pace(struct one *me, void *argument)
{
	struct bb_queue *queue = open_queue(me);
	const double least = LONGEST / RATE + LATENCY;
	unsigned char data[LONGEST];
	const int target = 1;
	/* Neither rank begins to count after the first is sent. */
	double start = me->backend->now(me->handle);
	int source = -1;

	write_message(data, LONGEST, 0, 1, 0);
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	if (me->rank == 0)
		start = me->backend->now(me->handle);
	for (int k = 0; k < 2; k++) {
		if (me->rank == 0)
			CHECK(me, send_to(me, queue, &target, data, LONGEST) == BB_OK);
		else if (k == 0)
			CHECK(me, recv_from(me, queue, 0, data, LONGEST) == BB_OK);
		else
			CHECK(me, recv_any(me, queue, data, LONGEST, &source) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
		CHECK(me, me->backend->now(me->handle) - start >= (k + 1) * least - 1e-3);
	}
	CHECK(me, me->rank == 0 || (source == 0 && is_message(data, LONGEST, 0, 1, 0)));
	me->backend->queue_close(queue);
}

static void test_pace(void **state)
{
	const struct bb_backend_config config = {.link_rate = RATE, .link_latency = LATENCY};
	struct ranks ranks;
	int failures;

	ranks_open(&ranks, &bb_backend_host, 2, &config);
	failures = ranks_run(&ranks, keep_pace, NULL);
	ranks_close(&ranks);
	assert_int_equal(failures, 0);
}

/* ---- errors and aborts ----------------------------------------------------------------------- */

/* Rank 1 expects more than rank 0 sends; the message that its queue then does not send fails the
   world, else rank 0 would wait for ever. */
static void poison(struct one *me, void *argument)
{
	struct bb_queue *queue = open_queue(me);
	const int peer = !me->rank;
	char data[100] = {0};

	if (me->rank == 0) {
		CHECK(me, send_to(me, queue, &peer, data, 50) == BB_OK);
		CHECK(me, recv_from(me, queue, peer, data, 60) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_ETIMEOUT);
	} else {
		CHECK(me, recv_from(me, queue, peer, data, 60) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_EINTERNAL);
		CHECK(me, send_to(me, queue, &peer, data, 60) == BB_EINTERNAL);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_EINTERNAL);
	}
	me->backend->queue_close(queue);
}

enum wait { ON_SEND, ON_RECV, ON_ANY, ON_LINK, WAITS };

/* Rank 1 aborts while rank 0's queue waits for what never comes, or for a link that is too slow. */
static void be_aborted(struct one *me, void *argument)
{
	const enum wait wait = *(const enum wait *)argument;
	struct bb_queue *queue = open_queue(me);
	const double start = me->backend->now(me->handle);
	const int peer = !me->rank;
	char data[100] = {0};
	int source = -1;

	if (me->rank == 1) {
		if (wait == ON_LINK)
			CHECK(me, send_to(me, queue, &peer, data, 100) == BB_OK);
		nap(30000);
		me->backend->abort(me->context);
	} else {
		if (wait == ON_SEND)
			CHECK(me, send_to(me, queue, &peer, data, 100) == BB_OK);
		else if (wait == ON_RECV)
			CHECK(me, recv_from(me, queue, peer, data, 100) == BB_OK);
		else
			CHECK(me, recv_any(me, queue, data, 100, &source) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_ETIMEOUT);
		CHECK(me, source == -1);
	}
	me->backend->queue_close(queue);
	CHECK(me, me->backend->now(me->handle) - start < 30);
}

static void abort_on(enum wait wait)
{
	const struct bb_backend_config slow = {.link_rate = 1, .link_latency = 0};
	struct ranks ranks;
	int failures;

	ranks_open(&ranks, &bb_backend_host, 2, wait == ON_LINK ? &slow : NULL);
	failures = ranks_run(&ranks, be_aborted, &wait);
	ranks_close(&ranks);
	assert_int_equal(failures, 0);
}

static void test_failures(void **state)
{
	for (int crowded = 0; crowded < 2; crowded++)
		ranks_host(2, crowded, poison, NULL);
	for (enum wait wait = 0; wait < WAITS; wait++)
		abort_on(wait);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_any),
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_failures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
