/*
 * What process 0 offers before the control channel is open: what another process makes of an offer
 * that is not valid.
 */
#include "launch/control.h"

#include "processes.h"

#include <setjmp.h>

#include <cmocka.h>

/* What process 0 offers, as process 1 hears it. */
struct mishearing {
	size_t offset, length;
	const void *value;
	const char *reason;
};

static bb_status mishear_offer(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			       bool everywhere)
{
	struct meeting *m = launch->own;
	const struct mishearing *heard;

	launch->gather = meet_gather;
	meet_gather(launch, mine, bytes, all, everywhere);
	memcpy(&heard, m->given[MOST_PROCESSES - 1], sizeof(heard));
	memcpy((char *)all + heard->offset, heard->value, heard->length);
	return BB_OK;
}

static void hear_strange_offer(struct process *me)
{
	struct mishearing *heard = me->argument;
	struct bb_control *control = NULL;
	struct bb_error error = {0};

	memcpy(me->meeting->given[MOST_PROCESSES - 1], &heard, sizeof(heard));
	me->launch.gather = mishear_offer;
	CHECK(me->meeting,
	      bb_control_open(&control, &me->launch, NULL, 0.2, &error) == BB_EBACKEND);
	CHECK(me->meeting, strstr(error.text, heard->reason) != NULL);
	CHECK(me->meeting, me->launch.broken && control == NULL);
}

/* Process 1 of 2 alone is real: nobody else comes. */
static void test_strange_offers(void **state)
{
	const uint16_t many[] = {200, 17, UINT16_MAX};
	const int32_t no_errno = -1;
	char endless[64];
	struct mishearing heard[] = {
		{70, sizeof(many[0]), &many[0], "the number of addresses is 200, not 0 to 16"},
		{70, sizeof(many[0]), &many[1], "the number of addresses is 17, not 0 to 16"},
		{70, sizeof(many[0]), &many[2], "the number of addresses is 65535, not 0 to 16"},
		{64, sizeof(no_errno), &no_errno, "the error is -1, not 0 to 4095"},
		{72, 46, endless, "an address has no end"},
		{118, sizeof(many[0]), &many[0], "a loopback mark is 200, not 0 to 1"},
		{0, sizeof(endless), endless, "the host has no end"},
	};

	memset(endless, 'x', sizeof(endless));
	for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++) {
		struct meeting *m = meeting_open(1);
		struct process me = {
			.meeting = m, .launch = meeting_launch(m, 1), .argument = &heard[i]};

		me.launch.nprocs = 2;
		hear_strange_offer(&me);
		assert_int_equal(meeting_close(m), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_strange_offers)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
