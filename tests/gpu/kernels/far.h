/*
 * far.h - buffers longer than 2^32 bytes. On a device they are real memory. On the CPU the same few
 * pages are mapped again and again, except in the windows, which alone are compared.
 */
#ifndef BB_TESTS_KERNELS_FAR_H
#define BB_TESTS_KERNELS_FAR_H

#include "rig.h"

#define FAR_BYTES ((size_t)4197 << 20)
#define FAR_WINDOW ((size_t)1 << 20)
#define FAR_WINDOWS 4

/* The first byte of a window: the buffer's begin, around 2^31 and 2^32, and the buffer's end. */
static inline size_t far_window(int i)
{
	const size_t starts[FAR_WINDOWS] = {0, ((size_t)1 << 31) - FAR_WINDOW / 2,
					    ((size_t)1 << 32) - FAR_WINDOW / 2,
					    FAR_BYTES - FAR_WINDOW};

	return starts[i];
}

/* Two buffers in r->far, unless they are there. */
bool far_open(struct rig *r);
void far_close(struct rig *r);
/* How kernels on them are launched. */
struct bb_gpu_lane far_lane(const struct rig *r);

#endif
