/*
 * The checker of programs: what keeps the rules passes, each broken rule is named.
 */
#include "script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void passes(struct script *s)
{
	struct bb_error error = {0};

	if (bb_program_check(&s->program, &error) != BB_OK)
		fail_msg("%s", error.text);
	script_close(s);
}

/* The check says each of WORDS, which end with NULL. */
static void fails_with(struct script *s, bb_status status, const char *const *words)
{
	struct bb_error error = {0};

	assert_int_equal(bb_program_check(&s->program, &error), status);
	for (; *words; words++)
		if (!strstr(error.text, *words))
			fail_msg("\"%s\" is not in \"%s\"", *words, error.text);
	script_close(s);
}

#define FAILS(script, ...)                                                                         \
	fails_with(script, BB_EINTERNAL, (const char *const[]){__VA_ARGS__, NULL})

static void test_passes(void **state)
{
	struct script s;

	script_open(&s, 3);
	passes(&s);
	for (int stages = 1; stages <= 6; stages++)
		for (int i = 0; i < 2; i++) {
			script_pipeline(&s, stages, 2 * stages + 1, i, 1, 2);
			passes(&s);
		}
}

/* ---- single operations --------------------------------------------------------------- */

static void test_ranges(void **state)
{
	struct script s;

	script_open(&s, 2);
	script_compute(&s, 1, 0, 1);
	script_compute(&s, 1, 9, 1);
	FAILS(&s, "1 to 8 queues, not 10");

	script_open(&s, 2);
	script_compute(&s, 1, 0, 1);
	script_compute(&s, 1, -1, 1);
	FAILS(&s, "rank 1, operation 1 (compute 1)", "queue -1 is not within 0 to 0");

	script_open(&s, 2);
	script_compute(&s, 0, 0, -1);
	FAILS(&s, "rank 0, operation 0", "its cost is impossible: -1 s");

	script_open(&s, 2);
	script_send(&s, 0, 0, 0, 2, 1);
	FAILS(&s, "(send 0)", "peer 2 is not one of the 2 ranks");

	script_open(&s, 2);
	script_recv(&s, 0, 0, 0, 0, 1);
	FAILS(&s, "(receive 0)", "its peer is the rank itself");

	script_open(&s, 2);
	script_recv(&s, 0, 0, 8, 1, 1);
	FAILS(&s, "at most 8 lanes, not 9");
}

static void test_describes(void **state)
{
	struct script s;

	script_open(&s, 1);
	script_compute(&s, 0, 0, -1);
	FAILS(&s, "rank 0, operation 0 (compute 0): its cost is impossible");
	script_open(&s, 1);
	script_wait(&s, 0, 0, 0);
	FAILS(&s, "rank 0, operation 0 (wait for event 0): event 0 is waited for before");
}

static void test_events(void **state)
{
	struct script s;

	script_open(&s, 1);
	script_wait(&s, 0, 1, 0);
	script_record(&s, 0, 0, 0);
	FAILS(&s, "operation 0 (wait for event 0)", "event 0 is waited for before it is recorded");

	script_open(&s, 1);
	script_record(&s, 0, 0, 0);
	script_record(&s, 0, 0, 0);
	FAILS(&s, "operation 1 (record of event 0)", "event 0 is recorded a second time");

	script_open(&s, 2); /* an event is a rank's own */
	script_record(&s, 0, 0, 0);
	script_wait(&s, 1, 0, 0);
	FAILS(&s, "rank 1, operation 0", "before it is recorded");
}

/* ---- collectives --------------------------------------------------------------------- */

/* Groups 1 and 2 are ranks 0 and 1 both. */
static void open_groups(struct script *s)
{
	script_open(s, 2);
	s->program.groups = 3;
	for (int group = 1; group < 3; group++) {
		s->sizes[group] = 2;
		s->members[group][1] = 1;
	}
}

static void test_groups(void **state)
{
	struct script s;

	open_groups(&s);
	s.members[2][1] = 0;
	FAILS(&s, "rank 0 is twice in group 2");

	open_groups(&s);
	s.members[2][1] = 2;
	FAILS(&s, "member 1 of group 2 is rank 2 of 2");

	open_groups(&s);
	s.sizes[1] = 0;
	FAILS(&s, "group 1 has no members");

	open_groups(&s);
	s.sizes[1] = 1;
	script_all_reduce(&s, 1, 0, 1, 1);
	FAILS(&s, "(all_reduce 0)", "the rank is not a member of group 1");

	open_groups(&s);
	script_all_reduce(&s, 0, 0, 1, 1);
	script_all_reduce(&s, 0, 1, 1, 1);
	FAILS(&s, "operation 1", "queue 1, but collectives of group 1 are on queue 0");
}

static void test_collectives(void **state)
{
	struct script s;

	script_open(&s, 2);
	script_all_reduce(&s, 0, 0, 0, 4);
	script_all_reduce(&s, 1, 0, 0, 5);
	FAILS(&s, "it does not match operation 0 (all_reduce 0) of rank");

	script_open(&s, 2);
	script_all_reduce(&s, 0, 0, 0, 4);
	s.operations[0][0].op = BB_BAND;
	FAILS(&s, "its operator does not accept its datatype");

	script_open(&s, 2);
	script_all_reduce(&s, 0, 0, 0, 4);
	s.operations[0][0].root = 2;
	FAILS(&s, "root 2 is not one of the 2 members");

	for (int wrong = 0; wrong < 6; wrong++) {
		static const char *const why[] = {
			"group -1 is not within 0 to",         "group 4000 is not within 0 to",
			"root -1 is not one of the 2 members", "it names no collective",
			"its operator does not accept",        "its operator does not accept"};

		script_open(&s, 2);
		script_all_reduce(&s, 0, 0, 0, 4);
		struct bb_operation *const o = &s.operations[0][0];

		o->group = wrong == 0 ? -1 : wrong == 1 ? 4000 : o->group;
		o->root = wrong == 2 ? -1 : 0;
		o->collective = wrong == 3 ? NULL : o->collective;
		o->op = wrong == 4 ? (enum bb_op) - 1 : wrong == 5 ? BB_NOPS : o->op;
		FAILS(&s, why[wrong]);
	}

	script_open(&s, 3);
	script_all_reduce(&s, 0, 0, 0, 4);
	s.operations[0][0].collective = &bb_hypercube;
	fails_with(&s, BB_EUNSUPPORTED, (const char *const[]){"hypercube among 3 ranks", NULL});
}

static void test_crossed_groups(void **state)
{
	struct script s;

	open_groups(&s);
	script_all_reduce(&s, 0, 0, 1, 4);
	script_all_reduce(&s, 0, 0, 2, 4);
	script_all_reduce(&s, 1, 0, 2, 4);
	script_all_reduce(&s, 1, 0, 1, 4);
	FAILS(&s, "never ends", "rank 0, operation 0 (all_reduce 0) waits for rank 1",
	      "rank 1, operation 0 (all_reduce 0) waits for rank 0");

	/* Queues of their own would not help a library that does one thing at a time. */
	open_groups(&s);
	script_all_reduce(&s, 0, 0, 1, 4);
	script_all_reduce(&s, 0, 1, 2, 4);
	script_all_reduce(&s, 1, 1, 2, 4);
	script_all_reduce(&s, 1, 0, 1, 4);
	FAILS(&s, "never ends");

	script_open(&s, 2);
	script_all_reduce(&s, 0, 0, 0, 4);
	FAILS(&s, "rank 0, operation 0 (all_reduce 0) waits for rank 1, which has done all");
}

/* ---- messages ------------------------------------------------------------------------ */

static void test_messages(void **state)
{
	struct script s;

	script_open(&s, 2);
	script_send(&s, 0, 0, 0, 1, 4);
	script_recv(&s, 1, 0, 0, 0, 5);
	FAILS(&s, "rank 1, operation 0 (receive 0)", "its length differs from that of operation 0");

	script_open(&s, 2); /* a missing receive */
	script_send(&s, 0, 0, 0, 1, 4);
	FAILS(&s, "rank 0, operation 0 (send 0) waits for rank 1, which has done all");

	script_open(&s, 2); /* a missing send */
	script_recv(&s, 0, 0, 0, 1, 4);
	FAILS(&s, "rank 0, operation 0 (receive 0) waits for rank 1, which has done all");

	script_open(&s, 2);
	script_recv_any(&s, 0, 0, 0, 4);
	FAILS(&s, "rank 0, operation 0 (receive from any 0) waits for a message from any");

	script_open(&s, 2); /* both send first */
	for (int rank = 0; rank < 2; rank++) {
		script_send(&s, rank, 0, 0, 1 - rank, 4);
		script_recv(&s, rank, 1, 0, 1 - rank, 4);
	}
	FAILS(&s, "rank 0, operation 0 (send 0) waits for rank 1; rank 1, operation 0 (send 0)");

	script_open(&s, 2); /* lanes crossed */
	for (int lane = 0; lane < 2; lane++) {
		script_send(&s, 0, lane, lane, 1, 4);
		script_recv(&s, 1, lane, 1 - lane, 0, 4);
	}
	FAILS(&s, "never ends");
}

static void test_lanes(void **state)
{
	struct script s;

	script_open(&s, 2);
	script_send(&s, 0, 0, 0, 1, 4);
	script_send(&s, 0, 1, 0, 1, 4);
	FAILS(&s, "queue 1, but messages of lane 0 to rank 1 are on queue 0");

	script_open(&s, 3);
	script_recv(&s, 0, 0, 0, 1, 4);
	script_recv(&s, 0, 1, 0, 2, 4);
	FAILS(&s, "queue 1, but lane 0 is received into queue 0");

	script_open(&s, 3);
	script_recv(&s, 0, 0, 0, 1, 4);
	script_recv_any(&s, 0, 0, 0, 4);
	FAILS(&s, "lane 0 is received from any and from a named peer");

	script_open(&s, 3);
	script_recv_any(&s, 0, 0, 0, 4);
	script_recv_any(&s, 0, 0, 0, 8);
	FAILS(&s, "32 bytes, but other receives from any on lane 0 take 16");
}

/* The lanes of a rank are its own: each one may use the lane with another queue, whichever rank is
   the first to use it. */
static void test_lanes_of_ranks(void **state)
{
	struct script s;

	for (int first = 0; first < 3; first++)
		for (int queue = 0; queue < 3; queue++) {
			script_open(&s, 5);
			script_compute(&s, 4, 2, 0); /* three queues, whichever are used */
			script_send(&s, first, queue, 0, first + 1, 4);
			script_recv(&s, first + 1, (queue + 1) % 3, 0, first, 4);
			script_send(&s, first + 1, queue, 0, first, 4);
			script_recv(&s, first, (queue + 2) % 3, 0, first + 1, 4);
			passes(&s);
			script_open(&s, 5);
			script_compute(&s, 4, 2, 0);
			script_recv(&s, first + 1, (queue + 1) % 3, 0, first, 4);
			script_send(&s, first, queue, 0, first + 1, 4);
			passes(&s);
		}
}

static void test_posted_together(void **state)
{
	struct script s;

	script_open(&s, 3);
	script_recv(&s, 0, 0, 0, 1, 4);
	script_recv(&s, 0, 0, 1, 2, 4);
	s.operations[0][1].together = true;
	FAILS(&s, "operation 1 (receive 1)",
	      "posted together with an operation that is not a receive of lane 1");

	script_open(&s, 3);
	script_recv(&s, 0, 0, 0, 1, 4);
	script_compute(&s, 0, 0, 1);
	script_recv(&s, 0, 0, 0, 2, 4);
	s.operations[0][2].together = true;
	FAILS(&s, "posted together with an operation that is not a receive of lane 0");

	script_open(&s, 3);
	script_recv(&s, 0, 0, 0, 1, 4);
	script_recv(&s, 0, 0, 0, 2, 4);
	script_recv(&s, 0, 0, 0, 1, 4);
	s.operations[0][1].together = s.operations[0][2].together = true;
	FAILS(&s, "posted together with another receive from rank 1");
}

static void test_swapped_passes(void **state)
{
	struct script s;
	struct bb_operation receive;
	size_t i = 0;

	/* Stage 1 asks for its first gradient before it gives its first activation. */
	script_pipeline(&s, 3, 4, true, 1, 1);
	while (s.operations[1][i].queue != 1 || s.operations[1][i].act != BB_ACT_SEND)
		i++;
	receive = s.operations[1][i];
	receive.act = BB_ACT_RECV;
	receive.queue = 4;
	receive.lane = 1;
	s.operations[1][i] = receive;
	FAILS(&s, "never ends", "waits for rank 2",
	      "rank 2, operation 0 (receive 0) waits for rank 1");
}

/* ---- answers ------------------------------------------------------------------------- */

/* Workers 1 and 2 ask rank 0, which answers whoever it heard from. */
static void open_server(struct script *s)
{
	script_open(s, 3);
	for (int worker = 1; worker < 3; worker++) {
		script_send(s, worker, 0, 0, 0, 4);
		script_recv(s, worker, 0, 1, 0, 2);
	}
	for (int i = 0; i < 2; i++) {
		script_recv_any(s, 0, 0, 0, 4);
		script_send(s, 0, 0, 1, BB_NO_PEER, 2);
		s->operations[0][2 * i + 1].answers = (size_t)(2 * i);
	}
}

static void test_answers(void **state)
{
	struct script s;

	open_server(&s);
	passes(&s);

	open_server(&s);
	s.operations[0][1].answers = 2;
	FAILS(&s, "rank 0, operation 1 (send 1)", "answers operation 2, which is not before it");

	open_server(&s);
	s.operations[0][3].answers = 1;
	FAILS(&s, "answers operation 1, which does not receive from any");

	open_server(&s); /* nothing orders the queues */
	s.program.queues = 2;
	s.operations[0][1].queue = s.operations[0][3].queue = 1;
	FAILS(&s, "answers operation 0, which may not be done by then");

	open_server(&s); /* worker 1 or 2 gets both answers */
	s.operations[0][3].answers = 0;
	FAILS(&s, "never ends");

	open_server(&s);
	s.operations[0][1].count = 3;
	FAILS(&s, "its length differs from that of operation 1 (send 1) of rank 0");
}

static void test_answers_across_queues(void **state)
{
	struct script s;

	script_open(&s, 2);
	script_send(&s, 1, 0, 0, 0, 4);
	script_recv(&s, 1, 0, 1, 0, 2);
	script_recv_any(&s, 0, 0, 0, 4);
	script_record(&s, 0, 0, 0);
	script_wait(&s, 0, 1, 0);
	script_send(&s, 0, 1, 1, BB_NO_PEER, 2);
	passes(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_describes),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_crossed_groups),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_posted_together),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_lanes_of_ranks),
		cmocka_unit_test(test_swapped_passes),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_answers_across_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
