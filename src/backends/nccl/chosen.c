/*
 * NCCL's choice for a call, received as a profiler plug-in of NCCL.
 *
 * When a process creates its first communicator NCCL loads the file that NCCL_PROFILER_PLUGIN names
 * and looks in it for the newest interface that it knows, down to ncclProfiler_v4 (from 2.27 on).
 * Here that file is nccl.so itself. A communicator's name holds the address of its group's
 * observer. Events are on only between listen(true) and listen(false), so they cost no timed call
 * anything.
 *
 * For calls on symmetric windows NCCL reports no algorithm, or one that did not run.
 */
#include "backends/nccl/nccl.h"

#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "NCCL_PROFILER_PLUGIN"
#define LONGEST_PATH 254 /* that NCCL accepts */
#define NAME_PREFIX "busbench-"

/* ---- NCCL's interface for profilers, version 4 ------------------------------------------- */

enum { GROUP_EVENT = 1, COLLECTIVE_EVENT = 2 };

/* ncclProfilerEventDescr_v4_t, of whose union only the member of collectives is declared. */
struct profiler_event {
	uint8_t type;
	void *parent;
	int rank;
	struct {
		uint64_t number;
		const char *function;
		const void *in;
		void *out;
		size_t count;
		int root;
		const char *datatype;
		uint8_t channels;
		uint8_t warps;
		const char *algorithm; /* "RING"; valid as long as NCCL is loaded, as is PROTOCOL */
		const char *protocol;  /* "LL128" */
	} collective;
};

struct profiler {
	const char *name;
	ncclResult_t (*init)(void **context, int *events, const char *name, uint64_t hash,
			     int nodes, int ranks, int rank, void (*log)(void));
	ncclResult_t (*start)(void *context, void **handle, struct profiler_event *profiler_event);
	ncclResult_t (*stop)(void *handle);
	ncclResult_t (*state)(void *handle, int state, void *arguments);
	ncclResult_t (*finalize)(void *context);
};

static ncclResult_t on_init(void **context, int *events, const char *name, uint64_t hash, int nodes,
			    int ranks, int rank, void (*log)(void))
{
	const size_t length = strlen(NAME_PREFIX);
	struct bb_nccl_observer *observer;
	char *end;

	*context = NULL; /* another user of NCCL in this process named the communicator */
	if (!name || strncmp(name, NAME_PREFIX, length) != 0)
		return ncclSuccess;
	observer = (struct bb_nccl_observer *)(uintptr_t)strtoumax(name + length, &end, 16);
	if (*end || !observer)
		return ncclSuccess;
	observer->events = events;
	*context = observer;
	return ncclSuccess;
}

/* NCCL 2.27 reports the collectives of a group of calls only if the group's event got a handle. */
static ncclResult_t on_start(void *context, void **handle, struct profiler_event *profiler_event)
{
	struct bb_nccl_observer *observer = context;

	*handle = profiler_event->type == GROUP_EVENT ? context : NULL;
	if (!observer || profiler_event->type != COLLECTIVE_EVENT)
		return ncclSuccess;
	atomic_store(&observer->algorithm, profiler_event->collective.algorithm);
	atomic_store(&observer->protocol, profiler_event->collective.protocol);
	return ncclSuccess;
}

static ncclResult_t on_stop(void *handle)
{
	return ncclSuccess;
}

static ncclResult_t on_state(void *handle, int state, void *arguments)
{
	return ncclSuccess;
}

static ncclResult_t on_finalize(void *context)
{
	struct bb_nccl_observer *observer = context;

	if (observer)
		observer->events = NULL;
	return ncclSuccess;
}

extern const struct profiler ncclProfiler_v4;

const struct profiler ncclProfiler_v4 = {
	.name = "busbench",
	.init = on_init,
	.start = on_start,
	.stop = on_stop,
	.state = on_state,
	.finalize = on_finalize,
};

/* ---- for the backend ------------------------------------------------------------------- */

/* With a path that NCCL does not accept the variable stays unset, and no choice is reported. */
bb_status bb_nccl_profiler_set(struct bb_context *context, struct bb_error *error)
{
	Dl_info here;

	if (getenv(VARIABLE) || !dladdr(&ncclProfiler_v4, &here) || here.dli_fname[0] != '/' ||
	    strlen(here.dli_fname) > LONGEST_PATH)
		return BB_OK;
	if (setenv(VARIABLE, here.dli_fname, 0) != 0)
		return bb_no_memory(error, "the nccl backend");
	context->profiler_set = true;
	return BB_OK;
}

void bb_nccl_profiler_unset(struct bb_context *context)
{
	if (context->profiler_set)
		unsetenv(VARIABLE);
}

const char *bb_nccl_observer_name(struct bb_group *group)
{
	struct bb_nccl_observer *observer = &group->observer;

	snprintf(observer->name, sizeof(observer->name), NAME_PREFIX "%" PRIxPTR,
		 (uintptr_t)observer);
	return observer->name;
}

void bb_nccl_listen(struct bb_group *group, bool on)
{
	struct bb_nccl_observer *observer = &group->observer;

	if (on) {
		atomic_store(&observer->algorithm, NULL);
		atomic_store(&observer->protocol, NULL);
	}
	if (observer->events)
		__atomic_store_n(observer->events, on ? COLLECTIVE_EVENT : 0, __ATOMIC_RELAXED);
}

/* Spelled as in NCCL_ALGO and NCCL_PROTO: "NVLS_TREE" and "SIMPLE" become "nvlstree:Simple". */
void bb_nccl_chosen(struct bb_group *group, char text[BB_CHOSEN_TEXT])
{
	const char *algorithm = atomic_load(&group->observer.algorithm);
	const char *protocol = atomic_load(&group->observer.protocol);
	const char *const registered = bb_nccl_registered(group);
	const bool symmetric = registered && strstr(registered, "symmetric");
	size_t length = 0;

	text[0] = '\0';
	if (!algorithm || !protocol || symmetric || strcmp(algorithm, "Unknown") == 0)
		return;
	for (; *algorithm && length < BB_CHOSEN_TEXT / 2; algorithm++)
		if (*algorithm != '_')
			text[length++] = (char)tolower((unsigned char)*algorithm);
	snprintf(text + length, BB_CHOSEN_TEXT - length, ":%s",
		 strcmp(protocol, "SIMPLE") == 0 ? "Simple" : protocol);
}
