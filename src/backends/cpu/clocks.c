#include "backends/cpu/clocks.h"

#include "core/clock.h"
#include "core/file.h"

#include <math.h>
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
		const bool answers = me < bit && me + bit < n, asks = me >= bit && me < 2 * bit;
		struct answer answer = {.offset = *offset, .uncertainty = *uncertainty};
		double fastest = INFINITY;

		for (int i = 0; i < PINGS && answers; i++) {
			BB_TRY(status, pass(rank, false, me + bit, NULL, 0), out);
			answer.now = bb_clock_now();
			BB_TRY(status, pass(rank, true, me + bit, &answer, sizeof(answer)), out);
		}
		/* The fastest ping is the most precise: the other rank read its clock between its
		   two ends. */
		for (int i = 0; i < PINGS && asks; i++) {
			const double begin = bb_clock_now();
			double end;

			BB_TRY(status, pass(rank, true, me - bit, NULL, 0), out);
			BB_TRY(status, pass(rank, false, me - bit, &answer, sizeof(answer)), out);
			end = bb_clock_now();
			if (end - begin >= fastest)
				continue;
			fastest = end - begin;
			*offset = (begin + end) / 2 - answer.now + answer.offset;
			*uncertainty = fastest / 2 + answer.uncertainty;
		}
	}
out:
	return status;
}
