#include "launch/launch.h"

#include "core/units.h"

#include <limits.h>
#include <stdlib.h>

/*
 * Where a launcher says how many processes it started; the first that is set counts. Those that
 * others run under come last: mpirun within a batch job sees the job's variables too.
 */
static const struct {
	const char *launcher;
	const char *only_with; /* variable that must be set too; NULL: none */
	const char *nprocs;
	const char *proc;
	const char *start;
} launchers[] = {
	{"mpirun", NULL, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun -np"},
	{"mpirun", NULL, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "mpirun -np"},
	{"mpiexec", NULL, "PMI_SIZE", "PMI_RANK", "mpiexec -n"},
	{"jsrun", NULL, "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "jsrun -n"},
	/* Without a task, or a step, this is a batch script, which nobody started several times. */
	{"flux run", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux run -n"},
	{"srun", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun -n"},
};

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);
	int64_t value;

	return text && bb_parse_int(text, &value) && value >= 0 && value <= INT_MAX ? (int)value
										    : otherwise;
}

struct bb_launch_hint bb_launch_hint_read(void)
{
	struct bb_launch_hint hint = {.nprocs = 1};

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (!getenv(launchers[i].nprocs) ||
		    (launchers[i].only_with && !getenv(launchers[i].only_with)))
			continue;
		hint.launcher = launchers[i].launcher;
		hint.variable = launchers[i].nprocs;
		hint.start = launchers[i].start;
		hint.nprocs = number(launchers[i].nprocs, 1);
		hint.proc = number(launchers[i].proc, 0);
		break;
	}
	return hint;
}

bb_status bb_launch_check(const struct bb_launch *launch, const struct bb_launch_hint *hint,
			  struct bb_error *error)
{
	if (launch->nprocs > 1 || hint->nprocs <= 1)
		return BB_OK;
	return bb_fail(error, BB_EBACKEND,
		       "%s started %d processes (%s=%d), but each is alone in its MPI world, as if "
		       "it had been run %d times; start it with the launcher of %s (srun perhaps "
		       "needs --mpi=pmix or --mpi=pmi2)",
		       hint->launcher, hint->nprocs, hint->variable, hint->nprocs, hint->nprocs,
		       launch->library ? launch->library : "the MPI it was built with");
}
