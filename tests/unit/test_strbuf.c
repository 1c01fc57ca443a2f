#include "core/printable.h"
#include "core/status.h"
#include "core/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_append(void **state)
{
	struct bb_strbuf s = {0};

	assert_string_equal(bb_strbuf_text(&s), "");
	bb_strbuf_add(&s, "");
	assert_non_null(s.text);
	bb_strbuf_add(&s, "ab");
	bb_strbuf_add_bytes(&s, "cdef", 2);
	bb_strbuf_addf(&s, "%d-%s", 42, "x");
	assert_string_equal(bb_strbuf_text(&s), "abcd42-x");
	assert_int_equal(s.length, 8);
	bb_strbuf_clear(&s);
	assert_string_equal(bb_strbuf_text(&s), "");
	assert_false(bb_strbuf_failed(&s));
	bb_strbuf_free(&s);
	assert_null(s.text);
}

/* Every length around the growth of the memory, by both ways to append. */
static void test_growth(void **state)
{
	struct bb_strbuf bytes = {0}, formatted = {0};

	for (size_t i = 0; i < 1000; i++) {
		char c = (char)('a' + i % 26);

		bb_strbuf_add_bytes(&bytes, &c, 1);
		bb_strbuf_addf(&formatted, "%c", c);
		assert_int_equal(strlen(bytes.text), i + 1);
		assert_true(bytes.capacity > bytes.length);
	}
	assert_string_equal(bytes.text, formatted.text);
	assert_int_equal(bytes.text[999], 'a' + 999 % 26);
	bb_strbuf_addf(&formatted, "%5000d", 7);
	assert_int_equal(formatted.length, 6000);
	assert_int_equal(formatted.text[5999], '7');
	bb_strbuf_free(&bytes);
	bb_strbuf_free(&formatted);
}

static void test_overflow_is_sticky(void **state)
{
	struct bb_strbuf s = {0};

	bb_strbuf_add(&s, "kept");
	bb_strbuf_add_bytes(&s, "x", SIZE_MAX - 4);
	assert_true(bb_strbuf_failed(&s));
	bb_strbuf_add(&s, "dropped");
	bb_strbuf_addf(&s, "%d", 1);
	assert_string_equal(bb_strbuf_text(&s), "kept");
	bb_strbuf_clear(&s);
	bb_strbuf_add(&s, "dropped");
	assert_string_equal(bb_strbuf_text(&s), "");
	assert_true(bb_strbuf_failed(&s));
	bb_strbuf_free(&s);
	assert_false(bb_strbuf_failed(&s));
	bb_strbuf_add_bytes(&s, "x", SIZE_MAX);
	assert_true(bb_strbuf_failed(&s));
	assert_string_equal(bb_strbuf_text(&s), "");
	bb_strbuf_free(&s);
}

static void test_first_error_wins(void **state)
{
	struct bb_error error = {0};
	char big[2 * BB_ERROR_TEXT];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_int_equal(bb_error_status(&error), BB_OK);
	assert_int_equal(bb_fail(&error, BB_EDATA, "rank %d", 3), BB_EDATA);
	assert_int_equal(bb_fail(&error, BB_ETIMEOUT, "later"), BB_ETIMEOUT);
	assert_int_equal(bb_error_status(&error), BB_EDATA);
	assert_string_equal(error.text, "rank 3");
	assert_int_equal(bb_fail(NULL, BB_EUSAGE, "nobody listens"), BB_EUSAGE);

	error = (struct bb_error){0};
	assert_int_equal(bb_fail(&error, BB_EUSAGE, "%s", big), BB_EUSAGE);
	assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
	assert_string_equal(error.text + strlen(error.text) - 5, "x ...");
}

/* A value cannot begin a line, nor move a cursor; a sentence may go on in indented lines. */
static void test_printable(void **state)
{
	char sentence[] = "a\nb\n  c\t\x1b[2J\x7f\xc2\x9b \xc3\xa9\xff";
	char value[] = "a\n  b\t\xe2\x80\xae "
		       "\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xe2\x80\x8b\xf3\xa0\x81\x81\xe2\x80\xa6";
	char lines[] = "a\nb\t\r\x1b[0m\n";
	struct bb_strbuf xml = {0};
	struct bb_error error = {0};

	bb_printable_clean(value);
	assert_string_equal(value, "a?  b???? ???????????????\xe2\x80\xa6");
	bb_printable_clean_sentence(sentence);
	assert_string_equal(sentence, "a?b\n  c??[2J??? \xc3\xa9?");
	bb_printable_clean_lines(lines);
	assert_string_equal(lines, "a\nb\t??[0m\n");
	bb_printable_xml(&xml, "<a & \"b\">\xc3\xa9\x01\xff");
	assert_string_equal(bb_strbuf_text(&xml), "&lt;a &amp; &quot;b&quot;&gt;\xc3\xa9??");
	bb_strbuf_free(&xml);
	assert_int_equal(bb_fail(&error, BB_EUSAGE, "%s", "x\nverdict: ok\033"), BB_EUSAGE);
	assert_string_equal(error.text, "x?verdict: ok?");
}

/* Lines with '#' break at words, the others and what is in front of FROM stay. */
static void test_fold(void **state)
{
	struct bb_strbuf s = {0};

	bb_strbuf_fold(&s, 0, 10);
	assert_string_equal(bb_strbuf_text(&s), "");
	bb_strbuf_item(&s, 2, "name", 8, "its text");
	bb_strbuf_item(&s, 2, "", 8, "more");
	bb_strbuf_item(&s, 2, "a_long_name", 8, "text");
	assert_string_equal(bb_strbuf_text(&s), "  name  its text\n        more\n"
						"  a_long_name  text\n");
	bb_strbuf_clear(&s);
	bb_strbuf_add(&s, "# as long as it is\n");
	const size_t from = s.length;
	bb_strbuf_add(&s, "1 2 3 4 5 6 7\n# a  bc def gh\n#   averylongword i\n# short");
	bb_strbuf_fold(&s, from, 10);
	assert_string_equal(bb_strbuf_text(&s), "# as long as it is\n1 2 3 4 5 6 7\n# a  bc\n"
						"#   def gh\n#   averylongword\n#     i\n# short");
	bb_strbuf_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_append),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_overflow_is_sticky),
		cmocka_unit_test(test_first_error_wins),
		cmocka_unit_test(test_printable),
		cmocka_unit_test(test_fold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
