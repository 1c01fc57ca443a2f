/*
 * Reading files: what may be read, how much of it, and what is said of the rest.
 */
#include "core/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define MOST 100000

struct place {
	char folder[64], path[96];
};

static int set_up(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	snprintf(p->folder, sizeof(p->folder), "/tmp/busbench_file_XXXXXX");
	if (!p || !mkdtemp(p->folder))
		return -1;
	snprintf(p->path, sizeof(p->path), "%s/f", p->folder);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;

	unlink(p->path);
	rmdir(p->folder);
	free(p);
	return 0;
}

static bb_status read_path(const char *path, char **text, size_t *length, struct bb_error *error)
{
	const struct bb_file_request r = {
		.option = "--model", .path = path, .most = MOST, .patience_ms = 1};

	return bb_file_read(&r, text, length, error);
}

static void refused(const char *path, const char *why)
{
	struct bb_error error = {0};
	char *text = (char *)"";
	size_t length;

	assert_int_equal(read_path(path, &text, &length, &error), BB_EUSAGE);
	assert_null(text);
	if (!strstr(error.text, why) || !strstr(error.text, path) || !strstr(error.text, "--model"))
		fail_msg("%s: %s", path, error.text);
}

/* LENGTH bytes are read as they are, by a regular file and by a pipe. */
static void check_bytes(const struct place *p, size_t length, bool pipe)
{
	char *const bytes = malloc(length + 1), *text = NULL;
	struct bb_error error = {0};
	int file, writer = -1;
	size_t got;

	for (size_t i = 0; i < length; i++)
		bytes[i] = (char)(i % 251);
	assert_int_equal(pipe ? mkfifo(p->path, 0600) : 0, 0);
	file = open(p->path, pipe ? O_RDWR : O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(file, bytes, length), (ssize_t)length);
	if (pipe) /* what is in it stays while there is a reader */
		writer = open(p->path, O_RDONLY | O_NONBLOCK);
	if (pipe)
		close(file);
	assert_int_equal(read_path(p->path, &text, &got, &error), BB_OK);
	assert_int_equal(got, length);
	assert_memory_equal(text, bytes, length);
	assert_int_equal(text[length], 0);
	close(pipe ? writer : file);
	unlink(p->path);
	free(text);
	free(bytes);
}

static void test_reads(void **state)
{
	static const size_t lengths[] = {0, 1, 16382, 16383, 16384, 16385, 65535, MOST - 1, MOST};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		check_bytes(*state, lengths[i], false);
	check_bytes(*state, 1, true);
	check_bytes(*state, 60000, true);
}

static void test_refuses(void **state)
{
	const struct place *p = *state;
	int file;

	refused("/dev/zero", "not a regular file or a pipe");
	refused("/dev/tty", ": "); /* without a terminal it cannot be opened */
	refused(p->folder, "a folder, not a file");
	refused(p->path, "cannot be opened: No such file");
	assert_int_equal(mkfifo(p->path, 0600), 0);
	refused(p->path, "no data in this pipe");
	unlink(p->path);
	file = open(p->path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(ftruncate(file, MOST + 1), 0);
	refused(p->path, "larger than 100000");
	/* Nothing of it is read: it has no end that could be reached. */
	assert_int_equal(ftruncate(file, (off_t)1 << 42), 0);
	refused(p->path, "larger than 100000");
	close(file);
}

/* A pipe's size is known only once it has been read. */
static void test_refuses_long_pipe(void **state)
{
	const struct place *p = *state;
	const struct bb_file_request r = {.path = p->path, .most = MOST};
	static const char block[4096];
	struct bb_error error = {0};
	size_t length;
	char *text;
	pid_t child;

	assert_int_equal(mkfifo(p->path, 0600), 0);
	child = fork();
	if (child == 0) {
		const int file = open(p->path, O_RDWR); /* waits for no reader, and fills up */

		while (write(file, block, sizeof(block)) > 0)
			;
		_exit(0);
	}
	assert_int_equal(bb_file_read(&r, &text, &length, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "larger than 100000"));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void test_standard_input(void **state)
{
	const struct place *p = *state;
	struct bb_file_request r = {.path = "-", .most = 10};
	struct bb_error error = {0}, other = {0};
	const int kept = dup(STDIN_FILENO), file = open(p->path, O_RDWR | O_CREAT, 0600);
	char *text;
	size_t length;

	assert_int_equal(write(file, "0123456789", 10), 10);
	assert_int_equal(lseek(file, 0, SEEK_SET), 0);
	dup2(file, STDIN_FILENO);
	assert_int_equal(bb_file_read(&r, &text, &length, &error), BB_EUSAGE); /* a name */
	r.stdin_too = true;
	assert_int_equal(bb_file_read(&r, &text, &length, &other), BB_OK);
	assert_string_equal(text, "0123456789");
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD) >= 0, 1);
	dup2(kept, STDIN_FILENO);
	close(kept);
	close(file);
	free(text);
}

static void test_kernel(void **state)
{
	char text[256], line[8];

	assert_true(bb_kernel_read("/proc/self/stat", text, sizeof(text)) > 0);
	assert_int_equal(atoi(text), getpid());
	assert_int_equal(bb_kernel_read("/proc/self/none", text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_true(bb_kernel_line("/proc/self/status", line, sizeof(line)));
	assert_memory_equal(line, "Name:\t", 6); /* then of an emulator its own */
	assert_false(bb_kernel_line("/proc/self/none", line, sizeof(line)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reads, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refuses_long_pipe, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_standard_input, set_up, tear_down),
		cmocka_unit_test(test_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
