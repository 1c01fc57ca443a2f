/*
 * In the place of src/backends/nccl/library.c: the library is the stand-in, or missing.
 */
#include "backends/nccl/nccl.h"
#include "fake.h"

/* Those that the headers lack are missing here, too. */
#define MAY_LACK(since, name) extern __typeof__(name) name __attribute__((weak));
BB_NCCL_FUNCTIONS(MAY_LACK)
#undef MAY_LACK

bb_status bb_nccl_library_find(struct bb_nccl_library *library, struct bb_error *error)
{
	if (fake_number("BUSBENCH_FAKE_NCCL", 1) == 0)
		return bb_fail(error, BB_EBACKEND,
			       "the nccl backend needs NCCL 2.18 or newer; there is no stand-in "
			       "for libnccl.so.2");
#define TAKE(since, name) library->name = name;
	BB_NCCL_FUNCTIONS(TAKE)
#undef TAKE
	return BB_OK;
}

bool bb_nccl_driver_find(struct bb_nccl_driver *driver)
{
#define TAKE(name) driver->name = name;
	BB_NCCL_DRIVER_FUNCTIONS(TAKE)
#undef TAKE
	return true;
}
