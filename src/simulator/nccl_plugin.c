/*
 * nccl_plugin.c - what network plug-ins add to NCCL's times, and the intervals of predictions,
 * which allow for unknown plug-ins.
 */
#include "simulator/nccl_likeness.h"

#include <math.h>

double bb_nccl_plugin(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine)
{
	if (machine->nic_latency > 0)
		return machine->nic_latency;
	return machine->nics >= BB_NICS_EFA ? c->efa[machine->nics - BB_NICS_EFA] : 0;
}

/* In steps of a tenth, above 2 of a half: a plug-in that nothing is known of needs no more. */
static double rounded_up(double multiple)
{
	const double steps = multiple < 2 ? 10 : 2;

	return ceil(multiple * steps) / steps;
}

double bb_nccl_slow_plugin(const struct bb_nccl_constants *c, const struct bb_nccl_call *call)
{
	struct bb_nccl_machine slow = *call->machine;
	struct bb_nccl_call slower = *call;

	if (slow.nodes == 1 || slow.nics == BB_NICS_INFINIBAND || slow.nic_latency > 0)
		return 1;
	slow.nic_latency = c->interval_plugin;
	slower.machine = &slow;
	return fmax(1, bb_nccl_call_time(c, &slower) / bb_nccl_call_time(c, call));
}

enum bb_nccl_interval_class bb_nccl_interval_class(const struct bb_nccl_call *call)
{
	if (call->bytes < 0x1p28)
		return call->bytes < 0x1p20 ? BB_NCCL_SMALL : BB_NCCL_MEDIUM;
	return call->machine->nodes > 1 && bb_nccl_lacks(call->collective, BB_NCCL_ANY)
		       ? BB_NCCL_LARGE_MESSAGES
		       : BB_NCCL_LARGE;
}

double bb_nccl_fast_host(const struct bb_nccl_constants *c, const struct bb_nccl_call *call)
{
	struct bb_nccl_machine fast = *call->machine;
	struct bb_nccl_call faster = *call;

	if (!fast.through_host && !fast.staged)
		return 1;
	fast.through_host = fast.staged = false;
	faster.machine = &fast;
	return fmin(1, bb_nccl_call_time(c, &faster) / bb_nccl_call_time(c, call));
}

/* More racks than were measured: NCCL may have chosen otherwise than the model does. */
static bool is_beyond_racks(const struct bb_nccl_constants *c, const struct bb_nccl_machine *m)
{
	return m->wide && m->nodes > c->racks_measured;
}

void bb_nccl_interval(const struct bb_nccl_constants *c, const struct bb_nccl_call *call,
		      double *low, double *high)
{
	const enum bb_nccl_interval_class class = bb_nccl_interval_class(call);
	const double slow = bb_nccl_slow_plugin(c, call);
	struct bb_nccl_basis basis;
	const bool alike = bb_nccl_basis(c, call, &basis) == BB_NCCL_ENOUGH;

	*low = alike ? c->interval_low[class]
		     : fmin(c->unlike_low[class], bb_nccl_fast_host(c, call));
	*high = alike ? c->interval_high[class] : c->unlike_high[class];
	for (int i = 0; i < BB_NCCL_INTERVAL_CLASSES && is_beyond_racks(c, call->machine); i++) {
		*low = fmin(*low, c->unlike_low[i]);
		*high = fmax(*high, c->unlike_high[i]);
	}
	if (slow > 1)
		*high = rounded_up(*high * slow);
}
