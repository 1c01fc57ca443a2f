/*
 * The launch of an MPI library: a process of the run is a rank of MPI_COMM_WORLD.
 */
#include "launch/launch.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct bb_launch_kind bb_plugin_launch;

struct mpi_world {
	MPI_Comm comm; /* not the one that is measured */
	char library[MPI_MAX_LIBRARY_VERSION_STRING];
};

static bb_status status_of(int code)
{
	return code == MPI_SUCCESS ? BB_OK : BB_EBACKEND;
}

#define MOST_BYTES ((size_t)1 << 30) /* of one process */

/* The bytes of a process are one element, so counts stay below the number of processes. */
static bb_status mpi_gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			    bool everywhere)
{
	struct mpi_world *own = launch->own;
	MPI_Datatype block;

	if (bytes > MOST_BYTES)
		return BB_EINTERNAL;
	if (bytes == 0)
		return status_of(MPI_Barrier(own->comm));
	int code = MPI_Type_contiguous((int)bytes, MPI_BYTE, &block);
	if (code != MPI_SUCCESS)
		return status_of(code);
	code = MPI_Type_commit(&block);
	if (code == MPI_SUCCESS)
		code = everywhere ? MPI_Allgather(mine, 1, block, all, 1, block, own->comm)
				  : MPI_Gather(mine, 1, block, all, 1, block, 0, own->comm);
	MPI_Type_free(&block);
	return status_of(code);
}

static void mpi_close(struct bb_launch *launch)
{
	struct mpi_world *own = launch->own;

	MPI_Comm_free(&own->comm);
	MPI_Finalize();
	free(own);
}

/* NAME = "Open MPI v4.1.4", "MPICH Version: 4.0.2": the start of the library's version string, with
   single spaces. */
static void name_library(char name[MPI_MAX_LIBRARY_VERSION_STRING])
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int length, end = 0;

	if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
		snprintf(text, sizeof(text), "an MPI without a name");
	text[strcspn(text, ",\n")] = '\0';
	for (const char *c = text; *c; c++) {
		const bool blank = *c == ' ' || *c == '\t';

		if (!blank)
			name[end++] = *c;
		else if (end > 0 && name[end - 1] != ' ')
			name[end++] = ' ';
	}
	name[end] = '\0';
}

/* Without PMIx Open MPI would end the processes of srun itself, with a status of its own. */
static bb_status expect_others(const struct mpi_world *own, struct bb_error *error)
{
	const struct bb_launch_hint hint = bb_launch_hint_read();

	if (hint.nprocs <= 1 || strcmp(hint.launcher, "srun") != 0 || getenv("PMIX_NAMESPACE") ||
	    getenv("PMI_FD") || strncmp(own->library, "Open MPI", 8) != 0)
		return BB_OK;
	return bb_fail(
		error, BB_EBACKEND,
		"srun started %d processes (%s=%d), but %s cannot find them; give srun --mpi=pmix",
		hint.nprocs, hint.variable, hint.nprocs, own->library);
}

/*
 * A single caller uses MPI_THREAD_SINGLE, as MPI_Init does. MPI_THREAD_FUNNELED would announce that
 * busbench has threads which never call MPI; but libraries only take locks for it, and with Open
 * MPI 4.1 small messages take 5 to 10 percent longer at any level above the first.
 */
static const int levels[] = {
	[BB_LAUNCH_OPENER] = MPI_THREAD_SINGLE,
	[BB_LAUNCH_IN_TURN] = MPI_THREAD_SERIALIZED,
	[BB_LAUNCH_AT_ONCE] = MPI_THREAD_MULTIPLE,
};

static bb_status mpi_open(struct bb_launch *launch, const struct bb_launch_request *request,
			  struct bb_error *error)
{
	struct mpi_world *own = calloc(1, sizeof(*own));
	const int wanted = levels[request->callers];
	int provided, code;
	bb_status status;

	if (!own)
		return bb_no_memory(error, "the MPI launch");
	name_library(own->library);
	/*
	 * Defaults that the user may override; only Open MPI reads them. An algorithm can be forced
	 * later; by itself this changes no decision. A process without a launcher needs no daemon,
	 * which would outlive it if it is killed.
	 */
	setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
	setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
	BB_TRY(status, expect_others(own, error), failed);
	code = MPI_Init_thread(NULL, NULL, wanted, &provided);
	if (code != MPI_SUCCESS)
		BB_TRY(status,
		       bb_fail(error, BB_EBACKEND,
			       "%s cannot be started: MPI_Init_thread returned %d", own->library,
			       code),
		       failed);
	if (provided < wanted)
		BB_TRY(status,
		       bb_fail(error, BB_EBACKEND, "%s does not let %s call it", own->library,
			       wanted == MPI_THREAD_MULTIPLE ? "several threads at once"
							     : "one thread after another"),
		       failed);
	code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_dup(MPI_COMM_WORLD, &own->comm);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_set_errhandler(own->comm, MPI_ERRORS_RETURN);
	if (code != MPI_SUCCESS)
		BB_TRY(status,
		       bb_fail(error, BB_EBACKEND, "%s: MPI_Comm_dup of the world returned %d",
			       own->library, code),
		       failed);
	*launch = (struct bb_launch){
		.gather = mpi_gather,
		.close = mpi_close,
		.library = own->library,
		.own = own,
	};
	MPI_Comm_rank(own->comm, &launch->proc);
	MPI_Comm_size(own->comm, &launch->nprocs);
	return BB_OK;
failed:
	free(own);
	return status;
}

const struct bb_launch_kind bb_plugin_launch = {
	.abi = BB_LAUNCH_ABI,
	.name = "MPI",
	.open = mpi_open,
};
