#include "launch/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const variables[] = {
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_RANK",
	"MV2_COMM_WORLD_SIZE",
	"MV2_COMM_WORLD_RANK",
	"PMI_SIZE",
	"PMI_RANK",
	"JSM_NAMESPACE_SIZE",
	"JSM_NAMESPACE_RANK",
	"FLUX_JOB_SIZE",
	"FLUX_TASK_RANK",
	"SLURM_STEP_ID",
	"SLURM_STEP_NUM_TASKS",
	"SLURM_PROCID",
	"RANK",
	"WORLD_SIZE",
	"MASTER_ADDR",
};

/* What is read of an environment with these variables alone: names and values, NULL at the end. */
static struct bb_launch_hint read_with(const char *const *pairs)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
	for (; pairs[0]; pairs += 2)
		setenv(pairs[0], pairs[1], 1);
	return bb_launch_hint_read();
}

#define READ(...) read_with((const char *const[]){__VA_ARGS__, NULL})

static void expect_hint(struct bb_launch_hint hint, const char *launcher, int nprocs, int proc)
{
	assert_string_equal(hint.launcher, launcher);
	assert_int_equal(hint.nprocs, nprocs);
	assert_int_equal(hint.proc, proc);
}

static void test_none(void **state)
{
	struct bb_launch_hint hint = READ(NULL);

	assert_null(hint.launcher);
	assert_int_equal(hint.nprocs, 1);
	assert_int_equal(hint.proc, 0);
	/* A rank alone says nothing, nor does a batch script, which is no step. */
	assert_null(READ("PMI_RANK", "3").launcher);
	assert_null(READ("SLURM_STEP_NUM_TASKS", "4", "SLURM_PROCID", "1").launcher);
	assert_null(READ("FLUX_JOB_SIZE", "4").launcher);
}

static void test_launchers(void **state)
{
	struct bb_launch_hint hint = READ("OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "3");

	expect_hint(hint, "mpirun", 4, 3);
	assert_string_equal(hint.variable, "OMPI_COMM_WORLD_SIZE");
	assert_string_equal(hint.start, "mpirun -np");
	expect_hint(READ("MV2_COMM_WORLD_SIZE", "2", "MV2_COMM_WORLD_RANK", "1"), "mpirun", 2, 1);
	expect_hint(READ("PMI_SIZE", "8", "PMI_RANK", "7"), "mpiexec", 8, 7);
	expect_hint(READ("JSM_NAMESPACE_SIZE", "8", "JSM_NAMESPACE_RANK", "7"), "jsrun", 8, 7);
	expect_hint(READ("FLUX_JOB_SIZE", "8", "FLUX_TASK_RANK", "7"), "flux run", 8, 7);
	hint = READ("SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "3", "SLURM_PROCID", "2");
	expect_hint(hint, "srun", 3, 2);
	assert_string_equal(hint.start, "srun -n");
	/* One process under a launcher is under a launcher. */
	expect_hint(READ("OMPI_COMM_WORLD_SIZE", "1", "OMPI_COMM_WORLD_RANK", "0"), "mpirun", 1, 0);
}

/* mpirun in a job of Slurm; mpiexec in a step of it. */
static void test_nested(void **state)
{
	expect_hint(READ("OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "3", "SLURM_STEP_ID",
			 "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_PROCID", "1"),
		    "mpirun", 4, 3);
	expect_hint(READ("PMI_SIZE", "4", "PMI_RANK", "3", "SLURM_STEP_ID", "0",
			 "SLURM_STEP_NUM_TASKS", "2"),
		    "mpiexec", 4, 3);
}

#define SRUN "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_PROCID", "1"
#define TORCHRUN "WORLD_SIZE", "8", "MASTER_ADDR", "h1"

static void test_torchrun(void **state)
{
	struct bb_launch_hint hint = READ("RANK", "7", TORCHRUN);

	expect_hint(hint, "torchrun", 8, 7);
	assert_string_equal(hint.variable, "WORLD_SIZE");
	assert_ptr_equal(hint.kind, &bb_launch_tcp);
	/* Two of them are enough to miss the third. */
	assert_ptr_equal(READ("RANK", "7", "WORLD_SIZE", "8").kind, &bb_launch_tcp);
	assert_ptr_equal(READ("RANK", "7", "MASTER_ADDR", "h1").kind, &bb_launch_tcp);
	assert_ptr_equal(READ(TORCHRUN).kind, &bb_launch_tcp);
	assert_null(READ("RANK", "7").launcher);
	assert_null(READ("WORLD_SIZE", "8").launcher);
	assert_null(READ("MASTER_ADDR", "h1").launcher);
	/* MPI's launchers go first; others do unless RANK is set. */
	hint = READ("RANK", "7", TORCHRUN, "OMPI_COMM_WORLD_SIZE", "4");
	expect_hint(hint, "mpirun", 4, 0);
	assert_null(hint.kind);
	expect_hint(READ("RANK", "7", TORCHRUN, "PMI_SIZE", "4"), "mpiexec", 4, 0);
	expect_hint(READ("RANK", "7", TORCHRUN, SRUN), "torchrun", 8, 7);
	expect_hint(READ(TORCHRUN, SRUN), "srun", 2, 1);
}

/* What is no number is as good as nothing. */
static void test_garbage(void **state)
{
	expect_hint(READ("PMI_SIZE", "many", "PMI_RANK", "-1"), "mpiexec", 1, 0);
	expect_hint(READ("PMI_SIZE", "-4", "PMI_RANK", "1x"), "mpiexec", 1, 0);
	expect_hint(READ("PMI_SIZE", "99999999999", "PMI_RANK", ""), "mpiexec", 1, 0);
	expect_hint(READ("PMI_SIZE", "0"), "mpiexec", 0, 0);
}

static void test_alone(void **state)
{
	struct bb_launch launch = bb_launch_single();
	struct bb_launch_hint hint = READ("PMI_SIZE", "2", "PMI_RANK", "1");
	struct bb_error error = {0};

	assert_int_equal(bb_launch_check(&launch, &hint, &error), BB_EBACKEND);
	assert_non_null(strstr(error.text, "mpiexec started 2 processes (PMI_SIZE=2)"));
	assert_non_null(strstr(error.text, "alone"));
	launch.nprocs = 2;
	assert_int_equal(bb_launch_check(&launch, &hint, &error), BB_OK);
	launch.nprocs = 1;
	hint = READ("PMI_SIZE", "1", "PMI_RANK", "0");
	assert_int_equal(bb_launch_check(&launch, &hint, &error), BB_OK);
	hint = READ(NULL);
	assert_int_equal(bb_launch_check(&launch, &hint, &error), BB_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),   cmocka_unit_test(test_launchers),
		cmocka_unit_test(test_nested), cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_alone),  cmocka_unit_test(test_torchrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
