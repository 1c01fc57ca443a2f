/*
 * The launch over TCP: what the variables say, what is exchanged, and that nobody waits for who is
 * gone.
 */
#include "core/version.h"
#include "processes.h"
#include "tcp_runs.h"

/* ---- the variables ----------------------------------------------------------------------- */

struct words {
	const char *values[6]; /* of the variables above; NULL: not set */
	const char *said;      /* NULL: there is nothing wrong */
};

#define GOOD "127.0.0.1", "29500"

static const struct words environments[] = {
	{{"3", "4", "3", GOOD}, NULL},
	{{"0", "4", NULL, GOOD}, NULL},
	{{"0", "1"}, NULL},
	{{"0", "1", "0", NULL, "many"}, NULL},
	{{"0", "4", NULL, "h1", NULL, "1"}, NULL},
	{{"0", "4", NULL, "h1", "65535", "65535"}, NULL},
	{{NULL, "4", NULL, GOOD}, "RANK is not set"},
	{{"0", NULL, NULL, GOOD}, "WORLD_SIZE is not set"},
	{{"0", "4", NULL, NULL, "29500"}, "MASTER_ADDR is not set"},
	{{"0", "4", NULL, "", "29500"}, "MASTER_ADDR is not set"},
	{{"0", "4", NULL, "h1"}, "MASTER_PORT is not set"},
	{{"4", "4", NULL, GOOD}, "RANK=4: with WORLD_SIZE=4 ranks are 0 to 3"},
	{{"1", "1"}, "RANK=1: with WORLD_SIZE=1"},
	{{"-1", "4", NULL, GOOD}, "RANK=\"-1\""},
	{{"1st", "4", NULL, GOOD}, "RANK=\"1st\""},
	{{"", "4", NULL, GOOD}, "RANK=\"\""},
	{{"0", "0", NULL, GOOD}, "WORLD_SIZE=\"0\""},
	{{"0", "99999999999", NULL, GOOD}, "WORLD_SIZE=\"99999999999\""},
	{{"0", "4", "4", GOOD}, "LOCAL_RANK=\"4\" is not a number from 0 to 3"},
	{{"0", "4", NULL, "h1", "0"}, "MASTER_PORT=\"0\" is not a number from 1 to 65535"},
	{{"0", "4", NULL, "h1", "65536"}, "MASTER_PORT=\"65536\""},
	{{"0", "4", NULL, "h1", "29500x"}, "MASTER_PORT=\"29500x\""},
	{{"0", "4", NULL, "h1", "65535"}, "MASTER_PORT=65535: no port is above it"},
	{{"0", "4", NULL, GOOD, "http"}, "BUSBENCH_PORT=\"http\""},
};

static void test_environment(void **state)
{
	struct bb_tcp_environment e;

	for (size_t i = 0; i < sizeof(environments) / sizeof(environments[0]); i++) {
		const struct words *w = &environments[i];
		struct bb_error error = {0};

		clear_environment();
		for (int v = 0; v < 6; v++)
			if (w->values[v])
				setenv(variables[v], w->values[v], 1);
		assert_int_equal(bb_launch_tcp.check(&error), w->said ? BB_EUSAGE : BB_OK);
		if (w->said && !strstr(error.text, w->said))
			fail_msg("%s, not %s", error.text, w->said);
	}
	clear_environment();
	setenv("RANK", "2", 1);
	setenv("WORLD_SIZE", "4", 1);
	setenv("MASTER_ADDR", "h1", 1);
	setenv("MASTER_PORT", "100", 1);
	assert_int_equal(bb_tcp_environment_read(&e, &(struct bb_error){0}), BB_OK);
	assert_int_equal(e.port, 101);
	assert_int_equal(e.local, -1);
	assert_string_equal(e.master, "h1");
	setenv("BUSBENCH_PORT", "100", 1);
	assert_int_equal(bb_tcp_environment_read(&e, &(struct bb_error){0}), BB_OK);
	assert_int_equal(e.port, 100);
}

/* ---- what is exchanged ------------------------------------------------------------------- */

static unsigned char pattern(int proc, size_t i)
{
	return (unsigned char)((size_t)proc * 37 + i * 11 + i / 251);
}

static void check_all(struct process *me, const unsigned char *all, size_t bytes)
{
	size_t wrong = 0;

	for (int p = 0; p < me->launch.nprocs; p++)
		for (size_t i = 0; i < bytes; i++)
			wrong += all[(size_t)p * bytes + i] != pattern(p, i);
	CHECK(me->meeting, wrong == 0);
}

static void exchange(struct process *me)
{
	static const size_t sizes[] = {1, 0, 12, 100000, 3};
	const size_t most = 100000, n = (size_t)me->launch.nprocs;
	struct bb_launch launch = join(me);
	unsigned char *mine = malloc(most), *all = malloc(n * most);

	for (size_t i = 0; i < most; i++)
		mine[i] = pattern(launch.proc, i);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(all, 0, n * most);
		CHECK(me->meeting, launch.gather(&launch, mine, sizes[i], all, true) == BB_OK);
		check_all(me, all, sizes[i]);
		memset(all, 0, n * most);
		CHECK(me->meeting, launch.gather(&launch, mine, sizes[i],
						 launch.proc == 0 ? all : NULL, false) == BB_OK);
		if (launch.proc == 0)
			check_all(me, all, sizes[i]);
		CHECK(me->meeting, bb_launch_barrier(&launch) == BB_OK);
	}
	launch.close(&launch);
	free(mine);
	free(all);
}

static void test_exchange(void **state)
{
	const int numbers[] = {1, 2, 5, 16};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		run_all(numbers[i], exchange, NULL, -1);
}

/* More than any socket holds, while one does not read for a while. */
static void exchange_much(struct process *me)
{
	const size_t bytes = (size_t)16 << 20;
	struct bb_launch launch = join(me);
	unsigned char *mine = malloc(bytes), *all = malloc(3 * bytes);

	for (size_t i = 0; i < bytes; i++)
		mine[i] = pattern(launch.proc, i);
	if (launch.proc == 1)
		nap_ms(200);
	CHECK(me->meeting, launch.gather(&launch, mine, bytes, all, true) == BB_OK);
	check_all(me, all, bytes);
	launch.close(&launch);
	free(mine);
	free(all);
}

static void test_much(void **state)
{
	run_all(3, exchange_much, NULL, -1);
}

/* Nobody ends a call before all have come to it, nor the opening. */
static void arrive_late(struct process *me)
{
	atomic_int *arrived = &me->meeting->came;
	struct bb_launch launch;

	nap_ms(me->launch.proc == *(const int *)me->argument ? 300 : 0);
	atomic_fetch_add(arrived, 1);
	launch = join(me);
	CHECK(me->meeting, atomic_load(arrived) >= 3);
	for (int late = 0; late < 3; late++) {
		const int before = 3 * (late + 1);
		char mine = 0, all[3];

		nap_ms(launch.proc == late ? 100 : 0);
		atomic_fetch_add(arrived, 1);
		if (late == 1)
			CHECK(me->meeting, launch.gather(&launch, &mine, 1, all, false) == BB_OK);
		else
			CHECK(me->meeting, bb_launch_barrier(&launch) == BB_OK);
		CHECK(me->meeting, atomic_load(arrived) >= before + 3);
		CHECK(me->meeting, bb_launch_barrier(&launch) == BB_OK);
	}
	launch.close(&launch);
}

static void test_late(void **state)
{
	for (int proc = 0; proc < 3; proc++)
		run_all(3, arrive_late, &proc, -1);
}

/* ---- who does not come, and who goes ----------------------------------------------------- */

static void wait_in_vain(struct process *me)
{
	const int absent = *(const int *)me->argument;
	struct bb_launch launch = {0};
	struct bb_error error = {0};
	const double start = bb_clock_now();

	if (me->launch.proc == absent)
		return;
	set_number("LOCAL_RANK", me->launch.proc);
	CHECK(me->meeting, open_as(&launch, me->launch.proc, 1, &error) == BB_ETIMEOUT);
	CHECK(me->meeting, bb_clock_now() - start < 4);
	if (absent == 0)
		CHECK(me->meeting,
		      strstr(error.text, "cannot reach process 0 at localhost") != NULL);
	else if (me->launch.proc == 0)
		CHECK(me->meeting, strstr(error.text, ": RANK 2") != NULL);
	/* One alone tells. */
	CHECK(me->meeting, launch.silent == (me->launch.proc != (absent == 0 ? 1 : 0)));
}

static void test_absent(void **state)
{
	for (int absent = 0; absent < 3; absent += 2)
		run_all(4, wait_in_vain, &absent, -1);
}

struct death {
	int proc;     /* who is killed */
	bool opening; /* by the time that not all have come */
};

static void *kill_soon(void *argument)
{
	nap_ms(500);
	kill(getpid(), SIGKILL);
	return NULL;
}

static void lose(struct process *me)
{
	const struct death *death = me->argument;
	const bool secured = getenv(BB_SECRET_VARIABLE) != NULL;
	const double time = death->opening && !secured ? 3 : PATIENCE_S, start = bb_clock_now();
	struct bb_launch launch = {0};
	struct bb_error error = {0};
	bb_status status;
	pthread_t killer;
	char said[32];

	if (me->launch.proc == death->proc && death->opening)
		pthread_create(&killer, NULL, kill_soon, NULL);
	nap_ms(death->opening && me->launch.proc == 3 ? 1000 : 0);
	status = open_as(&launch, me->launch.proc, time, &error);
	if (status == BB_OK && me->launch.proc == death->proc) {
		nap_ms(100);
		raise(SIGKILL);
	}
	CHECK(me->meeting, (status == BB_OK) == !death->opening);
	if (status == BB_OK)
		CHECK(me->meeting, bb_launch_barrier(&launch) == BB_EBACKEND);
	CHECK(me->meeting, bb_clock_now() - start < 10);
	snprintf(said, sizeof(said), "process %d (", death->proc);
	if (!launch.silent)
		CHECK(me->meeting, strstr(death->opening ? error.text : launch.cause, said));
	CHECK(me->meeting, launch.silent == (me->launch.proc != (death->proc == 0 ? 1 : 0)));
}

static void test_killed(void **state)
{
	struct death deaths[] = {{0, false}, {2, false}};

	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++)
		run_all(4, lose, &deaths[i], deaths[i].proc);
}

/* Process 2 has come and is gone before 3 comes, which is told all the same: with a secret at once,
   else when nobody has come in its stead. */
static void test_killed_early(void **state)
{
	struct death death = {2, true};

	run_all(4, lose, &death, 2);
	setenv(BB_SECRET_VARIABLE, SECRET, 1);
	run_all(4, lose, &death, 2);
	unsetenv(BB_SECRET_VARIABLE);
}

static void *abandon(void *argument)
{
	struct bb_launch *launch = argument;

	nap_ms(300);
	char awaited[BB_LAUNCH_AWAITED];

	if (!launch->abandon(launch, awaited))
		_exit(1);
	nap_ms(300);
	_exit(0);
}

/* Process 2 is stuck, and another thread of process 0 gives up: process 1 is told. */
static void give_up(struct process *me)
{
	const double start = bb_clock_now();
	struct bb_launch launch = join(me);
	pthread_t thread;

	if (launch.proc == 2) {
		nap_ms(1500);
		/* Process 1 would speak for this host. */
		char awaited[BB_LAUNCH_AWAITED];

		CHECK(me->meeting, !launch.abandon(&launch, awaited));
		return;
	}
	if (launch.proc == 0)
		pthread_create(&thread, NULL, abandon, &launch);
	CHECK(me->meeting, bb_launch_barrier(&launch) == BB_ETIMEOUT);
	CHECK(me->meeting, launch.proc == 1 && launch.silent);
	CHECK(me->meeting, bb_clock_now() - start < 5);
}

static void test_abandon(void **state)
{
	run_all(3, give_up, NULL, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment),  cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_much),         cmocka_unit_test(test_late),
		cmocka_unit_test(test_absent),       cmocka_unit_test(test_killed),
		cmocka_unit_test(test_killed_early), cmocka_unit_test(test_abandon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
