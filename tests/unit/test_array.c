#include "core/array.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void test_grows(void **state)
{
	struct pair {
		size_t number;
		char tag;
	} *list = NULL;
	size_t n = 0, room = 0;

	for (size_t i = 0; i < 1000; i++) {
		struct pair *new = BB_ARRAY_ADD(list, n, room);

		assert_non_null(new);
		assert_ptr_equal(new, &list[i]);
		assert_true(n == i + 1 && room >= n && room <= 2 * n + 16);
		*new = (struct pair){i, 'x'};
	}
	for (size_t i = 0; i < n; i++)
		assert_true(list[i].number == i && list[i].tag == 'x');
	free(list);
}

/* Numbers of another type, and a list that shrinks in between. */
static void test_shrinks(void **state)
{
	char(*names)[8] = NULL;
	int n = 0, room = 0;

	for (int i = 0; i < 100; i++) {
		char(*new)[8] = BB_ARRAY_ADD(names, n, room);

		assert_non_null(new);
		(*new)[0] = (char)i;
		if (n == 20)
			n = 3;
	}
	assert_int_equal(room, 32);
	assert_int_equal(names[0][0], 0);
	free(names);
}

static void test_no_memory(void **state)
{
	char(*list)[1 << 20] = malloc(sizeof(*list));
	size_t room = SIZE_MAX >> 20;

	assert_non_null(list);
	assert_null(bb_array_fit(list, room, &room, sizeof(*list)));
	assert_true(room == SIZE_MAX >> 20);
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grows),
		cmocka_unit_test(test_shrinks),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
