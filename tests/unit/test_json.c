#include "core/json.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void write_sample(struct bb_json *j)
{
	bb_json_add_object(j, NULL);
	bb_json_add_int(j, "a", INT64_MIN);
	bb_json_add_array(j, "b");
	bb_json_add_bool(j, NULL, true);
	bb_json_add_null(j, NULL);
	bb_json_add_object(j, NULL);
	bb_json_end(j);
	bb_json_add_array(j, NULL);
	bb_json_end(j);
	bb_json_end(j);
	bb_json_add_uint(j, "c", UINT64_MAX);
	bb_json_add_string(j, "d", NULL);
	bb_json_end(j);
}

static void test_nesting(void **state)
{
	struct bb_strbuf out = {0};
	struct bb_json j;

	bb_json_init(&j, &out, false);
	write_sample(&j);
	assert_int_equal(j.depth, 0);
	assert_string_equal(bb_strbuf_text(&out), "{\"a\":-9223372036854775808,"
						  "\"b\":[true,null,{},[]],"
						  "\"c\":18446744073709551615,\"d\":null}");
	bb_strbuf_clear(&out);
	bb_json_init(&j, &out, true);
	write_sample(&j);
	assert_string_equal(bb_strbuf_text(&out), "{\n"
						  "  \"a\": -9223372036854775808,\n"
						  "  \"b\": [\n"
						  "    true,\n"
						  "    null,\n"
						  "    {},\n"
						  "    []\n"
						  "  ],\n"
						  "  \"c\": 18446744073709551615,\n"
						  "  \"d\": null\n"
						  "}");
	bb_strbuf_free(&out);
}

static void test_strings(void **state)
{
#define BAD "\xef\xbf\xbd"
	static const struct {
		const char *value, *json;
	} cases[] = {
		{"", "\"\""},
		{"a\"b\\c/", "\"a\\\"b\\\\c/\""},
		{"\n\r\t\b\x1f\x7f", "\"\\n\\r\\t\\u0008\\u001f\\u007f\""},
		{"\xc2\x9b"
		 "31m\xc2\xa0",
		 "\"\\u009b31m\xc2\xa0\""},
		{"\xe2\x80\xae\xf3\xa0\x81\x81\xf0\x9f\x98\x80",
		 "\"\\u202e\\udb40\\udc41\xf0\x9f\x98\x80\""},
		{"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		 "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
		{"\xff", "\"" BAD "\""},
		{"a\x80z", "\"a" BAD "z\""},
		{"\xc0\xaf", "\"" BAD BAD "\""},                 /* overlong / */
		{"\xe0\x80\xaf", "\"" BAD BAD BAD "\""},         /* overlong */
		{"\xed\xa0\x80", "\"" BAD BAD BAD "\""},         /* surrogate */
		{"\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""}, /* beyond U+10FFFF */
		{"\xe2\x82", "\"" BAD BAD "\""},                 /* cut off */
		{"\xf0\x9f\x98\"", "\"" BAD BAD BAD "\\\"\""},   /* cut off before a quote */
	};
#undef BAD
	struct bb_strbuf out = {0};
	struct bb_json j;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bb_strbuf_clear(&out);
		bb_json_init(&j, &out, false);
		bb_json_add_string(&j, NULL, cases[i].value);
		assert_string_equal(bb_strbuf_text(&out), cases[i].json);
	}
	bb_strbuf_clear(&out);
	bb_json_init(&j, &out, false);
	bb_json_add_object(&j, NULL);
	bb_json_add_bool(&j, "\"", false);
	bb_json_end(&j);
	assert_string_equal(bb_strbuf_text(&out), "{\"\\\"\":false}");
	bb_strbuf_free(&out);
}

static const char *number(struct bb_strbuf *out, double value)
{
	struct bb_json j;

	bb_strbuf_clear(out);
	bb_json_init(&j, out, false);
	bb_json_add_double(&j, NULL, value);
	return bb_strbuf_text(out);
}

static void test_doubles(void **state)
{
	static const double values[] = {DBL_MAX, DBL_MIN,    DBL_TRUE_MIN, M_PI,      1.0 / 3,
					1e22,    123456.789, 5e-324,       0.1 + 0.2, -2.5e-7};
	struct bb_strbuf out = {0};

	assert_string_equal(number(&out, 0.1), "0.1");
	assert_string_equal(number(&out, 12.5), "12.5");
	assert_string_equal(number(&out, 3), "3");
	assert_string_equal(number(&out, 0.1 + 0.2), "0.30000000000000004");
	assert_string_equal(number(&out, 5e-324), "4.94065645841247e-324");
	assert_string_equal(number(&out, NAN), "null");
	assert_string_equal(number(&out, -INFINITY), "null");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		assert_true(strtod(number(&out, values[i]), NULL) == values[i]);
	bb_strbuf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_doubles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
