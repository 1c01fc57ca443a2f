/*
 * What a communicator knows: operations, registered memory, and the part that kernels use.
 */
#include "fake.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
				      ncclScalarResidence_t residence, ncclComm_t comm)
{
	uint64_t bits = 0;
	int i;

	FAKE_NCCL();
	if (residence != ncclScalarHostImmediate || comm->noperations == FAKE_MOST_OPERATIONS)
		return fake_complain(ncclInvalidArgument, "an operation of another kind");
	i = comm->noperations++;
	memcpy(&bits, scalar, sizeof(bits));
	comm->weights[i] = fake_is_two(type, bits) ? 2 : 1;
	comm->open[i] = true;
	*op = (ncclRedOp_t)((int)ncclNumOps + i);
	fake_made(FAKE_OPERATION);
	return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	const int i = (int)op - (int)ncclNumOps;

	FAKE_NCCL();
	if (i < 0 || i >= comm->noperations || !comm->open[i])
		return fake_complain(ncclInvalidArgument, "no such operation");
	comm->open[i] = false;
	fake_let_go(FAKE_OPERATION);
	return ncclSuccess;
}

#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_REGISTRATION

ncclResult_t ncclMemAlloc(void **at, size_t bytes)
{
	FAKE_NCCL();
	return fake_take_memory(at, bytes) ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *at)
{
	const bool fails = fake_enter(__func__), known = fake_give_memory(at);

	if (fails)
		return fake_complain(ncclSystemError, "ncclMemFree was to fail");
	return known ? ncclSuccess : fake_complain(ncclInvalidArgument, "unknown memory");
}

static void note_registration(ncclComm_t comm, const void *at, int change)
{
	comm->registrations += change;
	fake_known(at, change);
	if (change > 0)
		fake_made(FAKE_REGISTRATION);
	else
		fake_let_go(FAKE_REGISTRATION);
}

/* NULL where the user forbids it. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *at, size_t bytes, void **handle)
{
	FAKE_NCCL();
	*handle = fake_number("NCCL_LOCAL_REGISTER", 1) ? at : NULL;
	if (*handle)
		note_registration(comm, at, 1);
	return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	FAKE_NCCL();
	if (comm->registrations < 1)
		fake_misused("a buffer is deregistered that is not registered");
	note_registration(comm, handle, -1);
	return ncclSuccess;
}

#endif

#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_WINDOWS

/* All ranks come with buffers of one size. Without symmetric memory there is no window. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *at, size_t bytes, ncclWindow_t *window,
				    int flags)
{
	struct fake_clique *c = comm->clique;
	struct ncclWindow_vidmem *w;
	int round;
	bool together;

	FAKE_NCCL();
	if (flags != NCCL_WIN_COLL_SYMMETRIC)
		return fake_complain(ncclInvalidArgument, "a window of another kind");
	*window = NULL;
	if (!fake_number("NCCL_WIN_ENABLE", 1) && fake_version() >= BB_NCCL_SINCE_NULL_WINDOWS)
		return ncclSuccess;
	pthread_mutex_lock(&c->lock);
	round = c->registered;
	if (c->registering == 0) {
		c->window_bytes = bytes;
		c->window = fake_zeroed(sizeof(*c->window));
		c->window->refs = c->n;
	}
	if (c->window_bytes != bytes)
		fake_misused("a window is %zu bytes on one rank and %zu on another",
			     c->window_bytes, bytes);
	w = c->window;
	w->base[comm->rank] = at;
	if (++c->registering == c->n) {
		c->registering = 0;
		c->registered++;
	}
	pthread_cond_broadcast(&c->changed);
	while (c->registered == round && !fake_has_failed())
		fake_wait(&c->changed, &c->lock);
	together = c->registered != round;
	pthread_mutex_unlock(&c->lock);
	if (!together)
		return fake_complain(ncclRemoteError, "a rank did not come");
	note_registration(comm, at, 1);
	*window = w;
	return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	struct fake_clique *const c = comm->clique;
	bool unused;

	FAKE_NCCL();
	note_registration(comm, window->base[comm->rank], -1);
	pthread_mutex_lock(&c->lock);
	unused = --window->refs == 0;
	pthread_mutex_unlock(&c->lock);
	if (unused)
		fake_free(window, sizeof(*window));
	return ncclSuccess;
}

#endif

#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_DEVICE

static bool is_over(ncclComm_t comm)
{
	bool over;

	pthread_mutex_lock(&comm->clique->lock);
	over = fake_is_over(comm);
	pthread_mutex_unlock(&comm->clique->lock);
	return over;
}

/* Every rank comes to every barrier, so that arrivals alone tell which one is complete. */
static void device_barrier(const struct ncclDevComm *device)
{
	const ncclComm_t comm = device->comm;
	const unsigned long long n = (unsigned long long)device->nRanks;
	const unsigned long long last =
		(__atomic_fetch_add(device->arrivals, 1, __ATOMIC_ACQ_REL) / n + 1) * n;

	while (__atomic_load_n(device->arrivals, __ATOMIC_ACQUIRE) < last && !fake_has_failed() &&
	       !is_over(comm))
		sched_yield();
}

/* The ranks' memory is the host's, which no switch reduces and no network writes. */
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements *needs,
			       struct ncclDevComm *device)
{
	const long lsa = fake_number("BUSBENCH_FAKE_LSA", comm->clique->n);

	FAKE_NCCL();
	if (!fake_number("NCCL_WIN_ENABLE", 1))
		return fake_complain(ncclInvalidUsage,
				     "Communicator does not support symmetric memory!");
	if (needs->lsaMultimem)
		return fake_complain(ncclInvalidArgument, "Multicast support requested for team "
							  "but none available on system.");
	if (needs->lsaBarrierCount < 1)
		fake_misused("a device communicator has no barriers");
	if (comm->rank == 0 && fake_number("BUSBENCH_FAKE_DEVICE", 0))
		fprintf(stderr, "fake: device part for %d barriers\n", needs->lsaBarrierCount);
	*device = (struct ncclDevComm){.rank = comm->rank,
				       .nRanks = comm->clique->n,
				       .lsaRank = comm->rank,
				       .lsaSize = (int)lsa,
				       .comm = comm,
				       .arrivals = &comm->clique->device_arrivals,
				       .barrier = device_barrier};
	comm->device_comms++;
	fake_made(FAKE_DEVICE_COMM);
	return ncclSuccess;
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *device)
{
	FAKE_NCCL();
	if (device->comm != comm)
		fake_misused("a device communicator is destroyed with another communicator");
	comm->device_comms--;
	fake_let_go(FAKE_DEVICE_COMM);
	return ncclSuccess;
}

#endif
