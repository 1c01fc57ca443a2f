/*
 * mpi_bare - a bare loop around MPI_Allreduce: what busbench's own loop is held against.
 *
 *   mpirun -np RANKS mpi_bare ITERATIONS SIZE...
 *
 * One clock reading before and one after the loop, floats, sums, one pair of buffers laid out as
 * busbench lays out a set. Prints the mean time of one call, mean over the ranks.
 */
#include "speed.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define APART ((size_t)33 * 64)
#define WARM_UPS 5

static char *allocate(size_t bytes)
{
	const size_t size = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	char *memory = aligned_alloc(HUGE_PAGE, size);

	if (!memory)
		MPI_Abort(MPI_COMM_WORLD, 1);
	madvise(memory, size, MADV_HUGEPAGE);
	memset(memory, 0, size);
	return memory;
}

/* Seconds of one call, mean over the ranks. */
static double loop(const char *in, char *out, int count, long iterations)
{
	double start, mine, sum;
	int ranks;

	for (int i = 0; i < WARM_UPS; i++)
		MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	start = speed_now();
	for (long i = 0; i < iterations; i++)
		MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	mine = (speed_now() - start) / (double)iterations;
	MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	return sum / ranks;
}

int main(int argc, char **argv)
{
	const long iterations = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (iterations < 1) {
		fprintf(stderr, "usage: mpi_bare ITERATIONS SIZE...\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int i = 2; i < argc; i++) {
		const size_t bytes = strtoul(argv[i], NULL, 10);
		char *memory = allocate(2 * (bytes + 4 * APART));
		const size_t out = (bytes + 63) / 64 * 64 + APART;
		double seconds = loop(memory, memory + out, (int)(bytes / 4), iterations);

		if (rank == 0)
			printf("{\"size\":%zu,\"what\":\"bare\",\"us\":%.5f}\n", bytes,
			       1e6 * seconds);
		fflush(stdout);
		free(memory);
	}
	MPI_Finalize();
	return 0;
}
