#include "backends/cpu/clocks.h"

#include "core/clock.h"
#include "core/file.h"

#include <string.h>
#include <unistd.h>

#define PINGS 10

bool bb_clock_identify(char name[BB_CLOCK_NAME])
{
	char *const space = name + BB_CLOCK_NAME / 2;

	memset(name, 0, BB_CLOCK_NAME);
	return bb_kernel_read("/proc/sys/kernel/random/boot_id", name, BB_CLOCK_NAME / 2) > 0 &&
	       (readlink("/proc/self/ns/time", space, BB_CLOCK_NAME / 2) > 0 ||
		access("/proc/self/ns", R_OK) == 0);
}

/* Answer of a rank that knows its offset. */
struct answer {
	double now;
	double offset;
	double uncertainty;
};

static bb_status answer_pings(struct bb_rank *rank, bb_clock_pass *pass, int child, double offset,
			      double uncertainty)
{
	bb_status status = BB_OK;

	for (int i = 0; i < PINGS && status == BB_OK; i++) {
		struct answer answer = {.offset = offset, .uncertainty = uncertainty};

		status = pass(rank, false, child, NULL, 0);
		answer.now = bb_clock_now();
		if (status == BB_OK)
			status = pass(rank, true, child, &answer, sizeof(answer));
	}
	return status;
}

/* The fastest ping is the most precise: the parent read its clock between its two ends. */
static bb_status ping(struct bb_rank *rank, bb_clock_pass *pass, int parent, double *offset,
		      double *uncertainty)
{
	double fastest = 0;
	bb_status status = BB_OK;

	for (int i = 0; i < PINGS && status == BB_OK; i++) {
		const double begin = bb_clock_now();
		struct answer answer;
		double end;

		status = pass(rank, true, parent, NULL, 0);
		if (status == BB_OK)
			status = pass(rank, false, parent, &answer, sizeof(answer));
		end = bb_clock_now();
		if (status != BB_OK || (i > 0 && end - begin >= fastest))
			continue;
		fastest = end - begin;
		*offset = (begin + end) / 2 - answer.now + answer.offset;
		*uncertainty = fastest / 2 + answer.uncertainty;
	}
	return status;
}

bb_status bb_clock_compare(struct bb_rank *rank, bool one_clock, bb_clock_pass *pass,
			   double *offset, double *uncertainty)
{
	const struct bb_cpu_context *context = bb_cpu_of(rank);
	const int n = one_clock ? 1 : context->world.nranks;
	const int me = ((const struct bb_cpu_rank *)rank)->rank;
	bb_status status = bb_cpu_aborted(context) ? BB_ETIMEOUT : BB_OK;

	*offset = *uncertainty = 0;
	/* Ranks below BIT know their offset; each determines that of one more. */
	for (int bit = 1; bit < n && status == BB_OK; bit *= 2) {
		if (me < bit && me + bit < n)
			status = answer_pings(rank, pass, me + bit, *offset, *uncertainty);
		else if (me >= bit && me < 2 * bit)
			status = ping(rank, pass, me - bit, offset, uncertainty);
	}
	return status;
}
