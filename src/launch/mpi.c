/*
 * The launch of an MPI library: a process of the run is a rank of MPI_COMM_WORLD. Part of the
 * mpi backend's shared object.
 */
#include "launch/launch.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct bb_launch_kind bb_plugin_launch;

struct own {
	MPI_Comm comm; /* apart from what is measured */
	char library[MPI_MAX_LIBRARY_VERSION_STRING];
};

static bb_status told(int code)
{
	return code == MPI_SUCCESS ? BB_OK : BB_EBACKEND;
}

/* Pieces, because counts are ints. */
#define PIECE ((size_t)1 << 30)

static bb_status collect(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			 bool everywhere)
{
	struct own *own = launch->own;
	MPI_Datatype block;
	int code;

	if (bytes > PIECE)
		return BB_EINTERNAL;
	code = MPI_Type_contiguous((int)bytes, MPI_BYTE, &block);
	if (code != MPI_SUCCESS)
		return told(code);
	code = MPI_Type_commit(&block);
	if (code == MPI_SUCCESS)
		code = everywhere ? MPI_Allgather(mine, 1, block, all, 1, block, own->comm)
				  : MPI_Gather(mine, 1, block, all, 1, block, 0, own->comm);
	MPI_Type_free(&block);
	return told(code);
}

static bb_status mpi_all_gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all)
{
	return collect(launch, mine, bytes, all, true);
}

static bb_status mpi_gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all)
{
	return collect(launch, mine, bytes, all, false);
}

static bb_status mpi_barrier(struct bb_launch *launch)
{
	return told(MPI_Barrier(((struct own *)launch->own)->comm));
}

static void mpi_close(struct bb_launch *launch)
{
	struct own *own = launch->own;

	MPI_Comm_free(&own->comm);
	MPI_Finalize();
	free(own);
}

/* "Open MPI v4.1.4": the first words of what the library says of itself. */
static void name_library(char *text)
{
	int length;

	if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
		snprintf(text, MPI_MAX_LIBRARY_VERSION_STRING, "an MPI without a name");
	text[strcspn(text, ",\n")] = '\0';
}

static bb_status mpi_open(struct bb_launch *launch, bool threads, struct bb_error *error)
{
	const int wanted = threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
	struct own *own = calloc(1, sizeof(*own));
	int provided;

	if (!own)
		return bb_fail(error, BB_EINTERNAL, "out of memory for the MPI launch");
	name_library(own->library);
	/* So that an algorithm can be forced later; by itself it changes no decision. */
	setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
	if (MPI_Init_thread(NULL, NULL, wanted, &provided) != MPI_SUCCESS)
		goto failed;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (provided < wanted) {
		bb_fail(error, BB_EBACKEND, "%s does not let several threads call it",
			own->library);
		goto failed;
	}
	if (MPI_Comm_dup(MPI_COMM_WORLD, &own->comm) != MPI_SUCCESS)
		goto failed;
	*launch = (struct bb_launch){
		.all_gather = mpi_all_gather,
		.gather = mpi_gather,
		.barrier = mpi_barrier,
		.close = mpi_close,
		.library = own->library,
		.own = own,
	};
	MPI_Comm_rank(own->comm, &launch->proc);
	MPI_Comm_size(own->comm, &launch->nprocs);
	return BB_OK;
failed:
	free(own);
	return bb_fail(error, BB_EBACKEND, "MPI cannot be started");
}

const struct bb_launch_kind bb_plugin_launch = {
	.abi = BB_LAUNCH_ABI,
	.name = "mpi",
	.open = mpi_open,
};
