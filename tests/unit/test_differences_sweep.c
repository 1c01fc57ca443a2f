/*
 * acceptance compare on made-up records of two sides: what became slower, within noise or beyond
 * it, what cannot be compared, and the verdict.
 */
#include "draws.h"

#include "acceptance/tool/tool.h"

#include <sys/mman.h>
#include <unistd.h>

#define FIRST_FILE 400 /* so that names of files are the same in every run */
#define SAID 402
#define OUTPUT 403

/* One quantity of one side: its record, once for each run. */
static void quantity_draw(int which, double speed, struct bb_strbuf *out)
{
	const double us = 1e3 / speed;

	bb_strbuf_addf(out,
		       "{\"schema\":1,\"kind\":\"%s\",\"collective\":\"all_reduce\","
		       "\"size_bytes\":%d",
		       which % 7 == 6 ? "pair" : "result", 1024 << which);
	if (which % 5 == 4)
		bb_strbuf_addf(out, ",\"step_us\":%.17g", us);
	else if (which % 5 == 3)
		bb_strbuf_addf(out, ",\"p50_us\":%.17g", us);
	else if (!RARELY(12))
		bb_strbuf_addf(out, ",\"busbw_GBps\":%.17g", speed);
	if (RARELY(2))
		bb_strbuf_addf(out, ",\"time_us\":%.17g", us);
	if (!RARELY(3)) {
		const double spread = DRAW(0.001, 0.01, 0.1, -0.02, 1);

		bb_strbuf_addf(out, ",\"%s\":%.17g,\"%s\":%.17g",
			       which % 2 ? "ci_low_us" : "low_us", us * (1 - spread),
			       which % 2 ? "ci_high_us" : "high_us", us * (1 + spread));
	}
	bb_strbuf_addf(out, ",\"wrong\":%d}\n", RARELY(150));
}

static void run_draw(bool virtual, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":%s",
		       virtual ? "true" : "false");
	if (RARELY(2))
		bb_strbuf_addf(out, ",\"link_noise\":%g", DRAW(0, 0.1));
	if (!RARELY(3))
		bb_strbuf_addf(out, ",\"host\":\"%s\",\"start_time\":\"12:00\"",
			       DRAW_TEXT("h0", "h0", "h1"));
	if (!RARELY(3))
		bb_strbuf_addf(out, ",\"backend\":\"%s\"", DRAW_TEXT("mpi", "mpi", "nccl"));
	if (RARELY(3))
		bb_strbuf_addf(out, ",\"link\":\"%s\",\"os\":\"o\"", DRAW_TEXT("10GB/s", "1GB/s"));
	bb_strbuf_add(out, "}\n");
}

static void side_draw(int side, int runs, int quantities, double change, double noise, bool virtual,
		      struct bb_strbuf *out)
{
	for (int run = 0; run < runs; run++) {
		run_draw(virtual, out);
		for (int i = 0; i < quantities; i++) {
			const double factor = side ? DRAW(1, 1, change) : 1;

			if (!RARELY(25))
				quantity_draw(i, 10 * (i + 1) * factor * DRAW_WITHIN(1, 1 + noise),
					      out);
		}
		for (int i = 0; i < 2 && RARELY(3); i++)
			bb_strbuf_addf(out,
				       "{\"schema\":1,\"kind\":\"counter\",\"host\":\"h%d\","
				       "\"device\":\"d\",\"counter\":\"c%d\",\"class\":\"%s\","
				       "\"moved\":%d}\n",
				       (int)DRAW_BELOW(2), i, DRAW_TEXT("error", "link down"),
				       1 + (int)DRAW_BELOW(3));
	}
}

static void file_put(int number, const char *text)
{
	const int file = memfd_create("records", 0);

	assert_true(file >= 0);
	assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(dup2(file, number), number);
	close(file);
}

/* Compare the files, and add what is printed. */
static void job_add(struct sweep_texts *s, struct bb_acceptance_job *job)
{
	static char said[1 << 16];
	struct bb_error error = {.text = ""};
	bb_status st;

	fflush(stdout);
	file_put(SAID, "");
	assert_int_equal(dup2(STDOUT_FILENO, OUTPUT), OUTPUT);
	assert_int_equal(dup2(SAID, STDOUT_FILENO), STDOUT_FILENO);
	st = bb_acceptance_compare(job, &error);
	fflush(stdout);
	assert_int_equal(dup2(OUTPUT, STDOUT_FILENO), STDOUT_FILENO);
	const ssize_t length = pread(SAID, said, sizeof(said) - 1, 0);
	assert_true(length >= 0 && length < (ssize_t)sizeof(said) - 1);
	said[length] = '\0';
	sweep_add(&s->numbers, st);
	sweep_texts_add(s, error.text);
	sweep_texts_add(s, said);
	close(SAID);
	close(OUTPUT);
}

static void test_differences(void **none)
{
	struct sweep_texts s = sweep_texts_open("differences");
	char before[] = "/proc/self/fd/400", after[] = "/proc/self/fd/401";
	char log[] = "tests/logs/a100.txt", other[] = "tests/logs/h100.txt";
	char folder[] = "tests/unit/sweeps", *logs[] = {log, other, other, folder, before};
	char *paths[] = {before, after, before};

	for (int i = 1; i <= 1500; i++) {
		struct bb_acceptance_options o = {.tolerance = 0};
		struct bb_acceptance_job job = {.o = &o, .operands = paths};

		drawn_begin((uint64_t)i);
		if (RARELY(20))
			job.operands = logs + DRAW_BELOW(4);
		const int quantities = (int)DRAW(0, 1, 3, 7, 7, 13);
		const double change = DRAW(0.5, 0.93, 0.97, 1.1), noise = DRAW(1e-4, 0.01, 0.1);
		const bool virtual = RARELY(5);
		o.tolerance = DRAW(0.05, 0.05, 0.01, 0.2);
		o.all = RARELY(2);
		job.noperands = RARELY(30) ? 1 + 2 * RARELY(2) : 2;
		for (int side = 0; side < 2; side++) {
			struct bb_strbuf text = {0};

			side_draw(side, (int)DRAW(1, 1, 2, 4), quantities, change, noise,
				  virtual != RARELY(25), &text);
			if (RARELY(40))
				bb_strbuf_clear(&text);
			if (RARELY(40))
				bb_strbuf_add(&text, "no table\n");
			if (RARELY(40))
				bb_strbuf_add(&text, "no record\n{\"schema\":1,\"kind\":\n");
			file_put(FIRST_FILE + side, bb_strbuf_text(&text));
			bb_strbuf_free(&text);
		}
		job_add(&s, &job);
		close(FIRST_FILE);
		close(FIRST_FILE + 1);
		if (i % 75 == 0)
			sweep_texts_end(&s, "comparisons", i);
	}
	sweep_texts_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_differences)};

	return cmocka_run_group_tests_name("differences_sweep", tests, NULL, NULL);
}
