#include "launch/launch.h"

#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gathering ----------------------------------------------------------------------- */

bb_status bb_launch_gather(struct bb_launch *launch, const struct bb_payload *table,
			   const void *mine, size_t count, bool everywhere, void *all)
{
	const size_t bytes = count * table->bytes;
	const bb_status status = launch->gather(launch, mine, bytes, all, everywhere);
	char why[BB_PAYLOAD_WHY];

	if (status != BB_OK || (!everywhere && launch->proc != 0))
		return status;
	/* This process's own payloads may have travelled to another process and back. */
	if (bytes > 0)
		memmove((char *)all + (size_t)launch->proc * bytes, mine, bytes);
	for (int p = 0; p < launch->nprocs; p++)
		for (size_t i = 0; i < count && p != launch->proc; i++) {
			char *payload = (char *)all + (size_t)p * bytes + i * table->bytes;

			if (bb_payload_decode(table, payload, why))
				continue;
			snprintf(launch->refused, sizeof(launch->refused), "process %d %s", p, why);
			launch->cause = launch->refused;
			if (launch->refuse)
				launch->refuse(launch);
			return BB_EBACKEND;
		}
	return BB_OK;
}

bb_status bb_launch_barrier(struct bb_launch *launch)
{
	char nothing = 0;

	return launch->gather(launch, &nothing, 0, &nothing, true);
}

/* ---- one process --------------------------------------------------------------------- */

static bb_status single_gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			       bool everywhere)
{
	memcpy(all, mine, bytes);
	return BB_OK;
}

struct bb_launch bb_launch_single(void)
{
	return (struct bb_launch){.nprocs = 1, .gather = single_gather};
}

/* ---- the launcher ---------------------------------------------------------------------- */

#define MPIRUN "mpirun", "mpirun -np", NULL
#define SIZED(variable) variable, NULL, variable /* known by the number of processes alone */
#define TORCHRUN "torchrun", "torchrun --no-python --nproc-per-node", &bb_launch_tcp

/*
 * Variables in which launchers report the number of processes. The first row whose KNOWN_BY and
 * AND_BY are set counts. Launchers that start other launchers come last: mpirun within a
 * batch job sees the variables of the job too. Scripts export torchrun's variables for anything
 * they start, except RANK, which differs in each process: with RANK they mean this program, without
 * it any other launcher has priority.
 */
static const struct {
	const char *launcher, *start;
	const struct bb_launch_kind *kind;
	const char *known_by, *and_by; /* the second may be NULL */
	const char *nprocs, *proc;
	bool reports;
} launchers[] = {
	{MPIRUN, SIZED("OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_RANK", false},
	{MPIRUN, SIZED("MV2_COMM_WORLD_SIZE"), "MV2_COMM_WORLD_RANK", false},
	{"mpiexec", "mpiexec -n", NULL, SIZED("PMI_SIZE"), "PMI_RANK", false},
	{"jsrun", "jsrun -n", NULL, SIZED("JSM_NAMESPACE_SIZE"), "JSM_NAMESPACE_RANK", false},
	{TORCHRUN, "RANK", "WORLD_SIZE", "WORLD_SIZE", "RANK", false},
	{TORCHRUN, "RANK", "MASTER_ADDR", "WORLD_SIZE", "RANK", false},
	/* Without a task or a step this is a batch script, which runs once. */
	{"flux run", "flux run -n", NULL, "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "FLUX_JOB_SIZE",
	 "FLUX_TASK_RANK", false},
	{"srun", "srun -n", NULL, "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS",
	 "SLURM_PROCID", true},
	{TORCHRUN, "WORLD_SIZE", "MASTER_ADDR", "WORLD_SIZE", "RANK", false},
};

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);
	int value;

	return text && bb_parse_rank(text, &value) ? value : otherwise;
}

struct bb_launch_hint bb_launch_hint_read(void)
{
	struct bb_launch_hint hint = {.nprocs = 1};

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (!getenv(launchers[i].known_by) ||
		    (launchers[i].and_by && !getenv(launchers[i].and_by)))
			continue;
		hint.launcher = launchers[i].launcher;
		hint.variable = launchers[i].nprocs;
		hint.start = launchers[i].start;
		hint.kind = launchers[i].kind;
		hint.reports = launchers[i].reports;
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
		       "started %d times; start it with the launcher of %s (srun may need "
		       "--mpi=pmix or --mpi=pmi2)",
		       hint->launcher, hint->nprocs, hint->variable, hint->nprocs, hint->nprocs,
		       launch->library ? launch->library : "the MPI it was built with");
}
