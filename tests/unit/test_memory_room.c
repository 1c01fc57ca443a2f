/*
 * How much memory is left, in trees of files as the kernel shows them: of cgroups of version 1 and
 * 2, in and out of containers, and under Slurm.
 */
#include "topology/probes/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#define MiB (UINT64_C(1) << 20)
#define HOST (1000 * MiB)
#define V2 "25 20 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
#define V1_CPU "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"

struct tree {
	char root[32];
};

/* TEXT into PATH below the tree, whose folders are made. */
static void put(const struct tree *t, const char *path, const char *text)
{
	char whole[512];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s%s", t->root, path);
	for (char *at = whole + strlen(t->root) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(whole, 0700);
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void put_MiB(const struct tree *t, const char *folder, const char *name, unsigned value)
{
	char path[256], text[64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)(value * MiB));
	put(t, path, text);
}

/* A group of version 2 and one of version 1 in FOLDER; a LIMIT of 0 is none. */
static void put_group(const struct tree *t, const char *folder, unsigned limit, unsigned usage)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/memory.max", folder);
	if (limit)
		put_MiB(t, folder, "memory.max", limit);
	else
		put(t, path, "max\n");
	put_MiB(t, folder, "memory.current", usage);
}

static void put_old_group(const struct tree *t, const char *folder, unsigned limit, unsigned usage)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", folder);
	if (limit)
		put_MiB(t, folder, "memory.limit_in_bytes", limit);
	else
		put(t, path, "9223372036854771712\n");
	put_MiB(t, folder, "memory.usage_in_bytes", usage);
}

static int set_up(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	if (!t)
		return -1;
	snprintf(t->root, sizeof(t->root), "/tmp/busbench_room_XXXXXX");
	if (!mkdtemp(t->root))
		return -1;
	put(t, "/proc/meminfo",
	    "MemTotal:        2048000 kB\nMemFree:           10000 kB\nMemAvailable:    1024000 "
	    "kB\n");
	put(t, "/proc/self/status", "Name:\tx\nVmHWM:\t    9999 kB\nVmRSS:\t    2048 kB\n");
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct tree *t = *state;
	char command[64];
	int left;

	snprintf(command, sizeof(command), "rm -r %s", t->root);
	left = system(command);
	free(t);
	return left;
}

static const char *no_variable(const char *name)
{
	return NULL;
}

/* What is left with these files, in MiB. */
static uint64_t room(const struct tree *t, const char *mounts, const char *cgroup)
{
	put(t, "/proc/self/mountinfo", mounts);
	put(t, "/proc/self/cgroup", cgroup);
	return bb_available_room(&(struct bb_available_source){t->root, no_variable}) / MiB;
}

static void test_host_alone(void **state)
{
	const struct tree *t = *state;

	assert_int_equal(room(t, "", ""), HOST / MiB);
	assert_int_equal(room(t, "garbage\n1 2 - - -\n - cgroup2 x rw\n", "x\n::\n"), HOST / MiB);
	assert_int_equal(room(t, V1_CPU V2 V1, "4:cpu:/a\n"), HOST / MiB);
}

/* Of the group of this process and all above it the one that leaves least counts. */
static void test_every_ancestor(void **state)
{
	static const char *const folders[] = {"", "/user", "/user/job", "/user/job/step"};
	const struct tree *t = *state;
	char path[128];

	for (int tight = 0; tight < 4; tight++) {
		for (int i = 0; i < 4; i++) {
			snprintf(path, sizeof(path), "/sys/fs/cgroup%s", folders[i]);
			put_group(t, path, i == tight ? 300 : 0, 100);
			snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s", folders[i]);
			put_old_group(t, path, i == tight ? 250 : 0, 100);
		}
		assert_int_equal(room(t, V2, "0::/user/job/step\n"), 200);
		assert_int_equal(room(t, V1_CPU V1, "7:cpu:/\n4:memory:/user/job/step\n"), 150);
		assert_int_equal(room(t, V2 V1, "4:cpu,memory:/user/job/step\n0::/\n"), 150);
	}
	put_group(t, "/sys/fs/cgroup/other", 1, 1);
	assert_int_equal(room(t, V2, "0::/user/job/step\n"), 200);
	put_MiB(t, "/sys/fs/cgroup/user/job", "memory.high", 180);
	assert_int_equal(room(t, V2, "0::/user/job/step\n"), 80);
	put_group(t, "/sys/fs/cgroup/user/job", 90, 100);
	assert_int_equal(room(t, V2, "0::/user/job/step\n"), 0);
}

/* What the kernel would give back is free. */
static void test_file_cache(void **state)
{
	const struct tree *t = *state;

	put_group(t, "/sys/fs/cgroup/a", 300, 280);
	put(t, "/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 104857600\nactive_file 9\n");
	assert_int_equal(room(t, V2, "0::/a\n"), 120);
	put_old_group(t, "/sys/fs/cgroup/memory/a", 300, 280);
	put(t, "/sys/fs/cgroup/memory/a/memory.stat",
	    "inactive_file 1\ntotal_inactive_file 52428800\n");
	assert_int_equal(room(t, V1, "4:memory:/a\n"), 70);
}

/* A mount may show a part of the hierarchy alone, and a namespace paths of its own. */
static void test_containers(void **state)
{
	const struct tree *t = *state;

	put_group(t, "/sys/fs/cgroup", 400, 100);
	put_group(t, "/sys/fs/cgroup/sub", 350, 100);
	assert_int_equal(room(t, V2, "0::/\n"), 300);
	assert_int_equal(room(t, V2, "0::/../other/sub\n"), 300);
	assert_int_equal(room(t, V2, ""), 300);
	assert_int_equal(
		room(t, "1 2 0:3 /docker/ab /sys/fs/cgroup ro - cgroup2 c rw\n", "0::/docker/ab\n"),
		300);
	assert_int_equal(room(t, "1 2 0:3 /docker/ab /sys/fs/cgroup ro - cgroup2 c rw\n",
			      "0::/docker/ab/sub\n"),
			 250);
	assert_int_equal(room(t, "1 2 0:3 /docker/ab /sys/fs/cgroup ro - cgroup2 c rw\n",
			      "0::/docker/abc/sub\n"),
			 300);
	put_group(t, "/mnt/a b", 200, 100);
	assert_int_equal(room(t, "1 2 0:3 / /mnt/a\\040b ro master:1 - cgroup2 c rw\n", "0::/x\n"),
			 100);
}

static const char *per_node(const char *name)
{
	return strcmp(name, "SLURM_MEM_PER_NODE") == 0 ? "500" : NULL;
}

static const char *per_cpu(const char *name)
{
	return strcmp(name, "SLURM_MEM_PER_CPU") == 0    ? "100"
	       : strcmp(name, "SLURM_CPUS_ON_NODE") == 0 ? "4"
							 : NULL;
}

static const char *all_of_node(const char *name)
{
	return "0";
}

static const char *nonsense(const char *name)
{
	return "-3K";
}

static void test_slurm(void **state)
{
	const struct tree *t = *state;
	const struct {
		const char *(*variable)(const char *name);
		uint64_t left;
	} jobs[] = {{per_node, 498}, {per_cpu, 398}, {all_of_node, 1000}, {nonsense, 1000}};

	for (int i = 0; i < 4; i++) {
		const struct bb_available_source source = {t->root, jobs[i].variable};

		assert_int_equal(bb_available_room(&source) / MiB, jobs[i].left);
	}
}

static void test_here(void **state)
{
	assert_true(bb_available_memory() > MiB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_host_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_every_ancestor, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_file_cache, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_containers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_slurm, set_up, tear_down),
		cmocka_unit_test(test_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
