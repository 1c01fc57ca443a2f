#include "core/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* The first words of splitmix64 from seed 1234567, as its authors' code gives them. */
static void test_splitmix64(void **state)
{
	static const uint64_t words[] = {6457827717110365317u, 3203168211198807973u,
					 9817491932198370423u, 4593380528125082431u,
					 16408922859458223821u};
	uint64_t seed = 1234567;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		assert_true(bb_random_next(&seed) == words[i]);
	assert_true(bb_random_uniform(0) == 0 && bb_random_uniform(UINT64_MAX) < 1);
	assert_true(bb_random_positive(0) > 0 && bb_random_positive(UINT64_MAX) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_splitmix64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
