/*
 * fake_device.h - NCCL's device API, as far as kernels on the CPU have it: windows, and barriers
 * between the ranks of a process or several. Nothing is taken from NCCL's own headers, which
 * describe it in C++ alone and in other files from 2.32 on.
 */
#ifndef BB_TESTS_FAKE_DEVICE_H
#define BB_TESTS_FAKE_DEVICE_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_MOST_RANKS 16

/* The memory that all ranks registered together; of all processes. */
struct ncclWindow_vidmem {
	char *base[FAKE_MOST_RANKS];
	int refs;
};

struct ncclDevComm {
	int rank, nRanks, lsaRank, lsaSize;
	void *comm;                   /* of the rank */
	unsigned long long *arrivals; /* of all ranks at barriers */
	/* Wait for all ranks, or until a call has failed or the communicator was aborted. */
	void (*barrier)(const struct ncclDevComm *device);
};

/* What a communicator's device part is made for. */
struct ncclDevCommRequirements {
	bool lsaMultimem;
	int barrierCount, lsaBarrierCount;
	int ginSignalCount;
};

#endif
