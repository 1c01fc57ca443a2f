#include "far.h"

#define NEEDED ((size_t)16000000000)

bool far_open(struct rig *r)
{
	size_t left, total;

	if (r->far[1])
		return true;
	if (!CALL(r, cudaMemGetInfo(&left, &total)))
		return false;
	if (left < NEEDED)
		return rig_skip(r, "needs %.0f GB of free memory, %.1f GB are free",
				(double)NEEDED / 1e9, (double)left / 1e9);
	return CALL(r, cudaMalloc((void **)&r->far[0], FAR_BYTES)) &&
	       CALL(r, cudaMalloc((void **)&r->far[1], FAR_BYTES));
}

void far_close(struct rig *r)
{
	for (int i = 0; i < 2; i++)
		CALL(r, cudaFree(r->far[i]));
}

struct bb_gpu_lane far_lane(const struct rig *r)
{
	return r->lane;
}
