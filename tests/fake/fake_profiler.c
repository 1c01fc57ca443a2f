/*
 * A profiler is loaded when the first communicator is made, told of each communicator and, while it
 * wants to know of them, of collectives: the library's interface of version 4.
 */
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP 1
#define COLLECTIVE 2

struct event {
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
		const char *algorithm;
		const char *protocol;
	} collective;
};

struct plugin {
	const char *name;
	ncclResult_t (*init)(void **context, int *events, const char *name, uint64_t hash,
			     int nodes, int ranks, int rank, void (*log)(void));
	ncclResult_t (*start)(void *context, void **handle, struct event *event);
	ncclResult_t (*stop)(void *handle);
	ncclResult_t (*state)(void *handle, int state, void *arguments);
	ncclResult_t (*finalize)(void *context);
};

static struct {
	pthread_once_t once;
	const struct plugin *plugin;
	int events;
} profiler = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
	const char *path = getenv("NCCL_PROFILER_PLUGIN");
	void *object = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	profiler.plugin = object ? dlsym(object, "ncclProfiler_v4") : NULL;
}

void fake_profiler_begin(ncclComm_t comm, const char *name)
{
	pthread_once(&profiler.once, load);
	if (profiler.plugin)
		profiler.plugin->init(&comm->profiler, &profiler.events, name, comm->clique->id, 1,
				      comm->clique->n, comm->rank, NULL);
}

void fake_profiler_end(ncclComm_t comm)
{
	if (profiler.plugin)
		profiler.plugin->finalize(comm->profiler);
}

/* Large messages go around a ring, small ones of all_reduce up and down a tree: if nobody says
   otherwise. */
static void choose(ncclComm_t comm, const struct fake_call *call, struct event *event)
{
	const bool small = fake_bytes(call->count, call->type) < 65536;
	const char *const asked = comm->clique->algorithm;
	const bool strays = fake_number("BUSBENCH_FAKE_STRAY", 0);

	event->collective.algorithm = small && call->kind == FAKE_ALL_REDUCE ? "TREE" : "RING";
	if (strcmp(asked, "Ring") == 0)
		event->collective.algorithm = "RING";
	else if (strcmp(asked, "Tree") == 0)
		event->collective.algorithm = "TREE";
	else if (*asked && fake_number("BUSBENCH_FAKE_LAX", 0))
		event->collective.algorithm = "RING";
	else if (strcmp(asked, "PAT") == 0)
		event->collective.algorithm = "PAT";
	else if (strcmp(asked, "NVLSTree") == 0)
		event->collective.algorithm = "NVLS_TREE";
	if (strays)
		event->collective.algorithm = "NVLS";
	event->collective.protocol = small && !strays ? "LL" : "SIMPLE";
	if (*comm->clique->protocol)
		event->collective.protocol = strcmp(comm->clique->protocol, "Simple") == 0
						     ? "SIMPLE"
						     : comm->clique->protocol;
}

void fake_profiler_tell(ncclComm_t comm, const struct fake_call *call)
{
	struct event group = {.type = GROUP, .rank = comm->rank};
	struct event event = {.type = COLLECTIVE, .rank = comm->rank};
	void *outer = NULL, *inner = NULL;

	if (!profiler.plugin ||
	    !(__atomic_load_n(&profiler.events, __ATOMIC_RELAXED) & COLLECTIVE) ||
	    call->kind > FAKE_REDUCE || comm->clique->n == 1)
		return;
	profiler.plugin->start(comm->profiler, &outer, &group);
	if (!outer)
		return;
	choose(comm, call, &event);
	profiler.plugin->start(comm->profiler, &inner, &event);
	if (inner)
		profiler.plugin->stop(inner);
	profiler.plugin->stop(outer);
}
