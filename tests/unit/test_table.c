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
	bb_table_cellf(&t, "%.2f\t%s", 3.14159, "ring");
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
	struct bb_text_table t = {.limit = 12, .mark = "#"};
	struct bb_strbuf out = {0};

	make_columns(&t);
	assert_true(bb_table_is_wide(&t));
	for (int row = 0; row < 2; row++) {
		bb_table_cellf(&t, "%d", row);
		bb_table_cellf(&t, "%d.5", row);
		bb_table_cell(&t, row ? "ring" : "tree");
	}
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "# size time\n"
						  "#  (B) (us)\n"
						  "#    0  0.5\n"
						  "#    1  1.5\n"
						  "#\n"
						  "# size name\n"
						  "#  (B)\n"
						  "#    0 tree\n"
						  "#    1 ring\n");
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

static void add_rows(struct bb_text_table *t, const char *const cells[][4], int n)
{
	bb_table_column(t, "dp", "", 0);
	bb_table_column(t, "stage", "", 0);
	bb_table_key(t);
	bb_table_column(t, "size", "(GB)", 8);
	bb_table_column(t, "why", "", -3);
	for (int row = 0; row < n; row++)
		for (int c = 0; c < 4; c++)
			bb_table_cell(t, cells[row][c]);
}

/* A wide table loses what is empty, then what is equal in every row, and names it. */
static void test_dropped(void **state)
{
	static const char *const cells[][4] = {{"8", "1", "7.5", "-"}, {"8", "2", "7.5", ""}};
	struct bb_text_table t = {.limit = 17};
	struct bb_strbuf out = {0};

	add_rows(&t, cells, 2);
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "# Empty: why\n"
						  "# dp stage size\n"
						  "#          (GB)\n"
						  "   8     1  7.5\n"
						  "   8     2  7.5\n");
	/* Rows that follow may have what these lacked. */
	bb_strbuf_clear(&out);
	bb_table_cellf(&t, "8\t3\t7.5\tx");
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "# dp stage size\n"
						  "#          (GB)\n"
						  "   8     3  7.5\n"
						  "#\n"
						  "# dp stage why\n"
						  "   8     3 x\n");
	bb_table_clear(&t);
	bb_strbuf_clear(&out);
	t.limit = 14;
	add_rows(&t, cells, 2);
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "# Empty: why\n"
						  "# In every\n"
						  "#   row: dp 8\n"
						  "# stage size\n"
						  "#       (GB)\n"
						  "      1  7.5\n"
						  "      2  7.5\n");
	/* A single row keeps its cells. */
	bb_table_clear(&t);
	bb_strbuf_clear(&out);
	t.limit = 14;
	add_rows(&t, cells, 1);
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "# Empty: why\n"
						  "# dp stage size\n"
						  "#          (GB)\n"
						  "   8     1  7.5\n");
	bb_strbuf_free(&out);
	bb_table_free(&t);
}

/* Rows that differ in the merging column alone share one; prose wraps below itself. */
static void test_merged(void **state)
{
	static const char *const cells[][4] = {
		{"8", "1", "7.5", "\xc2\xb5"},
		{"8", "2", "7.5", "\xc2\xb5"},
		{"8", "3", "7.5", "\xc2\xb5"},
		{"4", "4", "7.5", "one two three four five six seven"}};
	struct bb_text_table t = {.limit = 46, .merges = 2};
	struct bb_strbuf out = {0};

	add_rows(&t, cells, 4);
	bb_table_print(&t, &out);
	assert_string_equal(bb_strbuf_text(&out), "# dp stage     size why\n"
						  "#              (GB)\n"
						  "   8   1-3      7.5 \xc2\xb5\n"
						  "   4     4      7.5 one two three four five\n"
						  "                    six seven\n");
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
		cmocka_unit_test(test_rows),    cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_dropped), cmocka_unit_test(test_merged),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
