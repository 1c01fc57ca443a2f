/*
 * Differences of the processes' clocks. Processes in one time namespace of one booted kernel read
 * the same clock.
 */
#include "backends/mpi/mpi.h"

#include "core/clock.h"
#include "core/file.h"

#include <string.h>
#include <unistd.h>

#define PINGS 10
#define CLOCK_TAG 1

#define BOOT_BYTES 64
#define SPACE_BYTES 64

/* NAME = identity of the clock; false if unknown. A kernel without time namespaces has only its
   boot ID. */
static bool name_clock(char name[BOOT_BYTES + SPACE_BYTES])
{
	memset(name, 0, BOOT_BYTES + SPACE_BYTES);
	return bb_kernel_read("/proc/sys/kernel/random/boot_id", name, BOOT_BYTES) > 0 &&
	       (readlink("/proc/self/ns/time", name + BOOT_BYTES, SPACE_BYTES) > 0 ||
		access("/proc/self/ns", R_OK) == 0);
}

int bb_mpi_compare_clocks(struct bb_context *context)
{
	char mine[BOOT_BYTES + SPACE_BYTES], first[sizeof(mine)];
	const bool named = name_clock(mine);
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

/* Answer of a rank that knows its offset. */
struct answer {
	double now;
	double offset;
	double uncertainty;
};

#define ANSWER_DOUBLES ((int)(sizeof(struct answer) / sizeof(double)))

static int answer_pings(MPI_Comm comm, int child, double offset, double uncertainty)
{
	int code = MPI_SUCCESS;

	for (int i = 0; i < PINGS && code == MPI_SUCCESS; i++) {
		struct answer answer = {.offset = offset, .uncertainty = uncertainty};

		code = MPI_Recv(NULL, 0, MPI_BYTE, child, CLOCK_TAG, comm, MPI_STATUS_IGNORE);
		answer.now = bb_clock_now();
		if (code == MPI_SUCCESS)
			code = MPI_Send(&answer, ANSWER_DOUBLES, MPI_DOUBLE, child, CLOCK_TAG,
					comm);
	}
	return code;
}

/* The fastest ping is the most precise: the parent read its clock between its two ends. */
static int ping(MPI_Comm comm, int parent, double *offset, double *uncertainty)
{
	double fastest = 0;
	int code = MPI_SUCCESS;

	for (int i = 0; i < PINGS && code == MPI_SUCCESS; i++) {
		const double begin = bb_clock_now();
		struct answer answer;
		double end;

		code = MPI_Send(NULL, 0, MPI_BYTE, parent, CLOCK_TAG, comm);
		if (code == MPI_SUCCESS)
			code = MPI_Recv(&answer, ANSWER_DOUBLES, MPI_DOUBLE, parent, CLOCK_TAG,
					comm, MPI_STATUS_IGNORE);
		end = bb_clock_now();
		if (i > 0 && end - begin >= fastest)
			continue;
		fastest = end - begin;
		*offset = (begin + end) / 2 - answer.now + answer.offset;
		*uncertainty = fastest / 2 + answer.uncertainty;
	}
	return code;
}

static bb_status clock_offset(struct bb_rank *rank, double *offset, double *uncertainty)
{
	struct bb_context *context = rank->context;
	const int me = context->world.proc, n = context->world.nprocs;
	int code = MPI_SUCCESS;

	*offset = *uncertainty = 0;
	if (bb_mpi_aborted(context))
		return BB_ETIMEOUT;
	if (context->one_clock)
		return BB_OK;
	/* Ranks below BIT know their offset; each determines that of one more. */
	for (int bit = 1; bit < n && code == MPI_SUCCESS; bit *= 2) {
		if (me < bit && me + bit < n)
			code = answer_pings(context->comm, me + bit, *offset, *uncertainty);
		else if (me >= bit && me < 2 * bit)
			code = ping(context->comm, me - bit, offset, uncertainty);
	}
	return bb_mpi_check(context, "comparing clocks", code);
}

const struct bb_clocks bb_mpi_clocks = {.offset = clock_offset};
