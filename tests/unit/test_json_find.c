#include "core/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_members(void **state)
{
	const char *object =
		"{\"a\": 1.5e3 , \"b\":{\"c\":7,\"}\":[\"]\"]},\"s\":\"x\\\"y\","
		"\"list\":[{\"c\":1},2],\"c\":-2,\"yes\":true,\"no\":false,\"none\":null}";
	double number;
	bool truth;
	char text[8];

	assert_true(bb_json_find_number(object, "a", &number));
	assert_true(number == 1500);
	assert_true(bb_json_find_number(object, "c", &number));
	assert_true(number == -2);
	assert_true(bb_json_find_bool(object, "yes", &truth) && truth);
	assert_true(bb_json_find_bool(object, "no", &truth) && !truth);
	assert_true(bb_json_find_string(object, "s", text, sizeof(text)));
	assert_string_equal(text, "x\\\"y");
	assert_false(bb_json_find_string(object, "s", text, 4));
	assert_false(bb_json_find_number(object, "none", &number));
	assert_false(bb_json_find_number(object, "s", &number));
	assert_false(bb_json_find_bool(object, "a", &truth));
	assert_false(bb_json_find_string(object, "d", text, sizeof(text)));
}

/* What is cut off anywhere gives nothing, and nothing beyond it is read (sanitizers watch). */
static void test_cut_off(void **state)
{
	const char *whole = "{\"a\":[1,{\"b\":\"\\\"\"}],\"z\":\"last\"}";
	char text[8];
	double number;

	for (size_t length = 0; length < strlen(whole) - 2; length++) {
		char *part = strndup(whole, length);

		assert_non_null(part);
		assert_false(bb_json_find_string(part, "z", text, sizeof(text)));
		assert_false(bb_json_find_number(part, "z", &number));
		free(part);
	}
	assert_true(bb_json_find_string(whole, "z", text, sizeof(text)));
	assert_false(bb_json_find_number("[1]", "a", &number));
	assert_false(bb_json_find_number("{\"a\" 1}", "a", &number));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
