/*
 * The host backend's memory, patterns, places, and what it refuses to open.
 */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void use_memory(struct one *me, void *argument)
{
	const struct bb_backend *host = me->backend;
	const size_t sizes[] = {0, 1, 4096, 4097, (size_t)2 << 20, ((size_t)5 << 20) + 1};
	char *a, *b;

	for (int i = 0; i < 6; i++) {
		CHECK(me, host->alloc(me->handle, sizes[i], (void **)&a) == BB_OK);
		CHECK(me, host->alloc(me->handle, sizes[i], (void **)&b) == BB_OK);
		CHECK(me, (uintptr_t)a % 4096 == 0 && (uintptr_t)b % 4096 == 0 && a != b);
		memset(a, i + 1, sizes[i]);
		memset(b, 0, sizes[i]);
		CHECK(me, host->copy(me->handle, b, a, sizes[i]) == BB_OK);
		CHECK(me, memcmp(a, b, sizes[i]) == 0);
		host->release(me->handle, a, sizes[i]);
		host->release(me->handle, b, sizes[i]);
	}
	host->release(me->handle, NULL, 10);
	CHECK(me, host->memory_available(me->context) > (uint64_t)10 << 20);
}

static void use_pattern(struct one *me, void *argument)
{
	float table[2 * 101], got[700];
	struct bb_pattern pattern = {
		.table = table, .period = 101, .element_size = sizeof(float), .seed = 7};
	uint64_t wrong = 5;

	for (int i = 0; i < 2 * 101; i++)
		table[i] = (float)(i % 101 + 1);
	CHECK(me, me->backend->fill(me->handle, got, &pattern, 37, 700) == BB_OK);
	for (size_t i = 0; i < 700; i++) {
		const size_t at = 37 + i;
		const size_t rotation = bb_pattern_rotation(&pattern, at / 101);

		CHECK(me, got[i] == (float)((at % 101 + rotation) % 101 + 1));
	}
	got[0] += 1;
	got[699] = __builtin_nextafterf(got[699], 1e9f);
	CHECK(me, me->backend->verify(me->handle, got, &pattern, 37, 700, BB_FLOAT, 0, &wrong) ==
			  BB_OK);
	CHECK(me, wrong == 7);
	CHECK(me, me->backend->verify(me->handle, got, &pattern, 37, 700, BB_FLOAT, 1, &wrong) ==
			  BB_OK);
	CHECK(me, wrong == 8);
}

static void test_memory(void **state)
{
	ranks_host(2, false, use_memory, NULL);
	ranks_host(2, false, use_pattern, NULL);
}

static void open_foreign(struct one *me, void *argument)
{
	const int others[] = {(me->rank + 1) % 3, (me->rank + 2) % 3};
	struct bb_error error = {0};
	struct bb_group *group;

	CHECK(me, me->backend->group_open(me->handle, others, 2, &group, &error) == BB_EINTERNAL);
	CHECK(me, strstr(error.text, "no member") != NULL);
	CHECK(me, me->location.pid > 0 && me->location.host[0] && me->location.name[0]);
}

static void test_refused(void **state)
{
	const struct bb_world world = {.nranks = 4, .nprocs = 2, .nlocal = 2};
	const struct bb_backend_config config = {0};
	struct bb_error error = {0};
	struct bb_context *context;

	assert_int_equal(bb_backend_host.open(&context, &world, &config, &error), BB_EBACKEND);
	assert_non_null(strstr(error.text, "one process, not 2"));
	ranks_host(3, true, open_foreign, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
