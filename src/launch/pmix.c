/*
 * The launch over a launcher's PMIx, such as srun --mpi=pmix, without MPI: a process of the run is
 * a process of the job, and data is exchanged through the launcher's servers, which know the
 * processes of the job.
 *
 * libpmix is loaded at run time. The declarations from <pmix.h> and <pmix_common.h> are the same
 * from PMIx 2.0 to 5.0, whose library has kept the name libpmix.so.2.
 */
#include "launch/launch.h"

#include "launch/pmix_api.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libpmix.so.2"

struct pmix {
	struct bb_pmix_api api;
	struct bb_pmix_proc self;
	uint64_t rounds; /* exchanges so far: each has a key of its own */
	char library[64];
	char note[160];
	char cause[160];
};

/* ---- the library ----------------------------------------------------------------------- */

static bb_status pmix_load(struct pmix *own, struct bb_error *error)
{
	/* Global, because its components need its symbols; never unloaded: its threads stay. */
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
	struct bb_pmix_api *const api = &own->api;
	const char *version;

	if (!library)
		return bb_fail(error, BB_EBACKEND, "PMIx cannot be loaded: %s", dlerror());
	if (!(api->init = dlsym(library, "PMIx_Init")) ||
	    !(api->finalize = dlsym(library, "PMIx_Finalize")) ||
	    !(api->put = dlsym(library, "PMIx_Put")) ||
	    !(api->commit = dlsym(library, "PMIx_Commit")) ||
	    !(api->fence = dlsym(library, "PMIx_Fence")) ||
	    !(api->get = dlsym(library, "PMIx_Get")) ||
	    !(api->error_string = dlsym(library, "PMIx_Error_string")) ||
	    !(api->version = dlsym(library, "PMIx_Get_version")))
		return bb_fail(error, BB_EBACKEND,
			       "PMIx cannot be used: " LIBRARY " lacks a function of PMIx 2.0");
	version = own->api.version(); /* "OpenPMIx 4.2.2 (PMIx Standard: …", "OpenPMIx 3.2.3, …" */
	size_t length = strcspn(version, ",(\n");
	length -= length > 0 && version[length - 1] == ' ';
	snprintf(own->library, sizeof(own->library), "%.*s", (int)length, version);
	return BB_OK;
}

/* ---- the launch ------------------------------------------------------------------------ */

static bb_status failed(struct bb_launch *launch, const char *call, int code)
{
	struct pmix *own = launch->own;

	snprintf(own->cause, sizeof(own->cause), "%s returned %d, %s", call, code,
		 own->api.error_string(code));
	launch->cause = own->cause;
	return BB_EBACKEND;
}

/* Wait for all processes of the job; with COLLECT also for the data they put. */
static bb_status fence(struct bb_launch *launch, bool collect)
{
	struct bb_pmix_info info = {.key = BB_PMIX_COLLECT_DATA,
				    .value = {.type = BB_PMIX_BOOL, .data.flag = true}};
	const int code = ((struct pmix *)launch->own)->api.fence(NULL, 0, &info, collect ? 1 : 0);

	return code == BB_PMIX_SUCCESS ? BB_OK : failed(launch, "PMIx_Fence", code);
}

static bb_status pmix_gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			     bool everywhere)
{
	const int receives = everywhere || launch->proc == 0 ? launch->nprocs : 0;
	struct pmix *own = launch->own;
	struct bb_pmix_proc from = own->self;
	struct bb_pmix_value value = {.type = BB_PMIX_BYTE_OBJECT,
				      .data.bytes = {(char *)(uintptr_t)mine, bytes}};
	char key[BB_PMIX_KEY];

	snprintf(key, sizeof(key), "busbench.%llu", (unsigned long long)own->rounds++);
	if (bytes == 0)
		return fence(launch, false);
	int code = own->api.put(BB_PMIX_GLOBAL, key, &value);
	if (code != BB_PMIX_SUCCESS)
		return failed(launch, "PMIx_Put", code);
	code = own->api.commit();
	if (code != BB_PMIX_SUCCESS)
		return failed(launch, "PMIx_Commit", code);
	bb_status status = fence(launch, true);
	/* The bytes that each process has put under the key. */
	for (int p = 0; p < receives && status == BB_OK; p++) {
		struct bb_pmix_value *theirs = NULL;

		from.rank = (uint32_t)p;
		code = own->api.get(&from, key, NULL, 0, &theirs);
		if (code != BB_PMIX_SUCCESS)
			return failed(launch, "PMIx_Get", code);
		if (theirs->type == BB_PMIX_BYTE_OBJECT && theirs->data.bytes.size == bytes) {
			memcpy((char *)all + (size_t)p * bytes, theirs->data.bytes.at, bytes);
		} else {
			snprintf(own->cause, sizeof(own->cause),
				 "process %d sent data of another size than the %zu bytes expected",
				 p, bytes);
			launch->cause = own->cause;
			status = BB_EBACKEND;
		}
		if (theirs->type == BB_PMIX_BYTE_OBJECT)
			free(theirs->data.bytes.at);
		free(theirs);
	}
	return status;
}

static void pmix_close(struct bb_launch *launch)
{
	struct pmix *own = launch->own;

	(void)!fence(launch, false);
	own->api.finalize(NULL, 0);
	free(own);
}

/* ---- opening --------------------------------------------------------------------------- */

static bb_status pmix_open(struct bb_launch *launch, const struct bb_launch_request *request,
			   struct bb_error *error)
{
	struct pmix *own = calloc(1, sizeof(*own));
	struct bb_pmix_value *value = NULL;
	uint32_t size = 0;
	bb_status status;

	if (!own)
		return bb_no_memory(error, "the PMIx launch");
	BB_TRY(status, pmix_load(own, error), out);
	int code = own->api.init(&own->self, NULL, 0);
	if (code != BB_PMIX_SUCCESS)
		BB_TRY(status,
		       bb_fail(error, BB_EBACKEND,
			       "%s cannot be started: PMIx_Init returned %d, %s", own->library,
			       code, own->api.error_string(code)),
		       out);
	struct bb_pmix_proc job = own->self;
	job.rank = BB_PMIX_RANK_WILDCARD;
	code = own->api.get(&job, BB_PMIX_JOB_SIZE, NULL, 0, &value);
	if (code == BB_PMIX_SUCCESS && value->type == BB_PMIX_UINT32)
		size = value->data.uint32;
	if (code == BB_PMIX_SUCCESS)
		free(value);
	if (size == 0 || size > INT_MAX || own->self.rank >= size)
		BB_TRY(status,
		       bb_fail(error, BB_EBACKEND,
			       "%s does not report the number of processes of the job: %s",
			       own->library, own->api.error_string(code)),
		       out);
	snprintf(own->note, sizeof(own->note),
		 "%s, the launcher's, because the mpi backend cannot be loaded", own->library);
	*launch = (struct bb_launch){
		.proc = (int)own->self.rank,
		.nprocs = (int)size,
		.gather = pmix_gather,
		.close = pmix_close,
		.library = own->library,
		.note = own->note,
		.own = own,
	};
	return BB_OK;
out:
	free(own);
	return status;
}

bool bb_launch_pmix_is_offered(void)
{
	return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

const struct bb_launch_kind bb_launch_pmix = {
	.abi = BB_LAUNCH_ABI,
	.name = "PMIx",
	.open = pmix_open,
};
