/*
 * Differences of the processes' clocks.
 */
#include "backends/mpi/mpi.h"

#include "backends/cpu/clocks.h"

#include <string.h>

#define CLOCK_TAG 1

int bb_mpi_compare_clocks(struct bb_context *context)
{
	char mine[BB_CLOCK_NAME], first[sizeof(mine)];
	const bool named = bb_clock_identify(mine);
	int same, all = 0, code;

	memcpy(first, mine, sizeof(mine));
	code = MPI_Bcast(first, sizeof(first), MPI_BYTE, 0, context->comm);
	if (code != MPI_SUCCESS)
		return code;
	same = named && memcmp(first, mine, sizeof(mine)) == 0;
	code = MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, context->comm);
	context->one_clock = all;
	return code;
}

static bb_status pass_ping(struct bb_rank *rank, bool sends, int peer, void *data, size_t bytes)
{
	struct bb_context *context = rank->context;
	const int length = (int)bytes;

	return bb_mpi_check(context, "comparing clocks",
			    sends ? MPI_Send(data, length, MPI_BYTE, peer, CLOCK_TAG, context->comm)
				  : MPI_Recv(data, length, MPI_BYTE, peer, CLOCK_TAG, context->comm,
					     MPI_STATUS_IGNORE));
}

static bb_status clock_offset(struct bb_rank *rank, double *offset, double *uncertainty)
{
	return bb_clock_compare(rank, rank->context->one_clock, pass_ping, offset, uncertainty);
}

const struct bb_clocks bb_mpi_clocks = {.offset = clock_offset};
