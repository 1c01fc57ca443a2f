#include "core/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void make_columns(struct bb_text_table *t)
{
	bb_table_column(t, "size", "(B)", 6);
	bb_table_key(t);
	bb_table_column(t, "time", "(us)", 8);
	bb_table_column(t, "name", "", -5);
}

static void test_rows(void **state)
{
	struct bb_text_table t = {.limit = 0};
	struct bb_strbuf out = {0};

	make_columns(&t);
	assert_false(bb_table_is_wide(&t));
	bb_table_cell(&t, "64K");
	bb_table_cellf(&t, "%.2f", 3.14159);
	bb_table_cell(&t, "ring");
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "#   size     time name\n"
						  "#    (B)     (us)\n"
						  "     64K     3.14 ring\n");
	/* More rows need no further heads; what is not known is a dash. */
	bb_strbuf_clear(&out);
	bb_table_cell(&t, "1M");
	bb_table_cell(&t, NULL);
	bb_table_cell(&t, "a long name");
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "      1M        - a long name\n");
	bb_strbuf_free(&out);
	bb_table_free(&t);
}

/* What is too wide becomes several tables, each with the columns that name a row. */
static void test_blocks(void **state)
{
	struct bb_text_table t = {.limit = 18, .mark = "#"};
	struct bb_strbuf out = {0};

	make_columns(&t);
	assert_true(bb_table_is_wide(&t));
	for (int row = 0; row < 2; row++) {
		bb_table_cellf(&t, "%d", row);
		bb_table_cell(&t, "2.5");
		bb_table_cell(&t, "tree");
	}
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "#   size     time\n"
						  "#    (B)     (us)\n"
						  "#      0      2.5\n"
						  "#      1      2.5\n"
						  "#\n"
						  "#   size name\n"
						  "#    (B)\n"
						  "#      0 tree\n"
						  "#      1 tree\n");
	/* Another table takes its place. */
	bb_strbuf_clear(&out);
	bb_table_clear(&t);
	bb_table_column(&t, "a column that alone is wider than all", "", 0);
	bb_table_cell(&t, "x");
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "# a column that alone is wider than all\n"
						  "#                                     x\n");
	bb_strbuf_free(&out);
	bb_table_free(&t);
}

static void test_limit(void **state)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	assert_int_equal(bb_table_limit(file), BB_TABLE_LIMIT);
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
