/*
 * mpi_speed - what an MPI library's own collectives cost, measured as host_speed measures.
 *
 *   mpirun -np RANKS mpi_speed MIN MAX FACTOR
 */
#include "speed.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Seconds of one repetition, on every rank the same. */
static double repeat(float *in, float *out, size_t bytes)
{
	const int inner = speed_inner(bytes);
	double mine[2], first, last;

	speed_rewrite(in, bytes, 1);
	speed_rewrite(out, bytes, 2);
	MPI_Barrier(MPI_COMM_WORLD);
	mine[0] = speed_now();
	for (int i = 0; i < inner; i++) {
		if (inner > 1)
			speed_rewrite(in, bytes, (float)i);
		MPI_Allreduce(in, out, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	}
	mine[1] = speed_now();
	MPI_Allreduce(&mine[0], &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&mine[1], &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return (last - first) / inner;
}

int main(int argc, char **argv)
{
	double samples[MOST_REPEATS];
	size_t min, max, factor;
	float *in, *out;
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	min = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	max = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	factor = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	in = malloc(max + 4096);
	out = malloc(max + 4096);
	if (min < 8 || max < min || factor < 2 || !in || !out) {
		fprintf(stderr, "usage: mpi_speed MIN MAX FACTOR (bytes)\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (size_t bytes = min; bytes <= max; bytes *= factor) {
		const int repeats = speed_repeats(bytes);

		for (int i = -1; i < repeats; i++) {
			double seconds = repeat(in, out, bytes);

			if (i >= 0)
				samples[i] = seconds;
		}
		qsort(samples, (size_t)repeats, sizeof(*samples), compare);
		if (rank == 0)
			printf("{\"ranks\":%d,\"size\":%zu,\"what\":\"MPI_Allreduce\",\"us\":%.4f}"
			       "\n",
			       ranks, bytes, 1e6 * samples[repeats / 2]);
		fflush(stdout);
	}
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}
