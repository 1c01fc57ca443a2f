#include "backends/sim/calibration_calls.h"

bb_status bb_calibration_resolve(const struct bb_calibration *c, const char *name,
				 struct bb_call *call, struct bb_error *error)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const size_t element = bb_dtype_size(call->dtype);

	if (call->collective->flags & BB_VARIABLE)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--calibrate does not model messages of several sizes");
	call->schedule = name ? bb_algorithm_find(call->collective, name)
			      : bb_calibration_choose(c, call->collective, &shape, element);
	if (!call->schedule)
		return bb_fail(error, BB_EUNSUPPORTED, "%s has no schedule for this call",
			       call->collective->name);
	call->shape.chunk = bb_calibration_chunk(c, call->schedule, &shape, element);
	return BB_OK;
}

double bb_calibration_call_time(const struct bb_calibration *c, const struct bb_call *call)
{
	const struct bb_shape shape = bb_call_scheduled_shape(call);

	return bb_calibration_time(c, call->schedule, &shape, bb_dtype_size(call->dtype));
}
