/*
 * The nccl backend: a rank is a GPU, its driver a thread, its main queue a stream.
 */
#include "backends/nccl/nccl.h"

#include "backends/cpu/context.h"
#include "core/file.h"
#include "core/units.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- queues -------------------------------------------------------------------------- */

/*
 * Streams, events and graphs. The main queue is a stream like the others.
 */

#define QUERIES 64 /* of a stream, between two of the communicators' errors */

struct bb_queue {
	struct bb_rank *rank;
	cudaStream_t stream;
	bb_status status; /* of the first operation that failed */
};

struct bb_event {
	struct bb_rank *rank;
	cudaEvent_t event;
};

struct bb_graph {
	struct bb_rank *rank;
	cudaGraph_t graph;
	cudaGraphExec_t ready;
};

cudaStream_t bb_nccl_stream(const struct bb_rank *rank, const struct bb_queue *queue)
{
	return queue ? queue->stream : rank->main;
}

/* ---- waiting ------------------------------------------------------------------------- */

static bb_status check_communicators(struct bb_rank *rank)
{
	ncclResult_t result;
	bb_status status = BB_OK;

	for (struct bb_group *g = rank->groups; g && status == BB_OK; g = g->next) {
		if (!g->comm)
			continue;
		BB_TRY(status, BB_NCCL(rank, ncclCommGetAsyncError(g->comm, &result)), out);
		status = BB_NCCL_RESULT(rank, result, "ncclCommGetAsyncError");
	}
out:
	return status;
}

bb_status bb_nccl_wait(struct bb_rank *rank, cudaStream_t stream)
{
	cudaError_t result = cudaErrorNotReady;
	bb_status status = BB_OK;

	for (unsigned queries = 1; result == cudaErrorNotReady && status == BB_OK; queries++) {
		result = cudaStreamQuery(stream);
		if (bb_nccl_aborted(rank->context))
			status = BB_ETIMEOUT;
		else if (result != cudaErrorNotReady)
			status = BB_CUDA_RESULT(rank, result, "cudaStreamQuery");
		else if (queries % QUERIES == 0)
			status = check_communicators(rank);
		if (result == cudaErrorNotReady)
			sched_yield();
	}
	if (status != BB_OK && rank->halt)
		atomic_store(rank->halt, 1);
	return status;
}

/* Record STATUS in QUEUE, unless an error precedes it; returns the first error. */
static bb_status queue_keep(struct bb_queue *queue, bb_status status)
{
	if (queue && queue->status == BB_OK)
		queue->status = status;
	return queue ? queue->status : status;
}

/* The first error of QUEUE, after CALL; CALL is not made if an error precedes it. */
#define IN_QUEUE(queue, call)                                                                      \
	((queue) && (queue)->status != BB_OK ? (queue)->status : queue_keep(queue, call))

static bb_status nccl_finish(struct bb_rank *rank, struct bb_queue *queue)
{
	return IN_QUEUE(queue, bb_nccl_wait(rank, bb_nccl_stream(rank, queue)));
}

/* ---- queues -------------------------------------------------------------------------- */

static bb_status nccl_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				 struct bb_error *error)
{
	struct bb_queue *q = calloc(1, sizeof(*q));
	bb_status status;

	if (!q)
		return bb_no_memory(error, "a queue");
	q->rank = rank;
	status = BB_CUDA(rank, cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking));
	if (status == BB_OK)
		*queue = q;
	else
		free(q);
	return status;
}

static void nccl_queue_close(struct bb_queue *queue)
{
	if (!queue)
		return;
	bb_nccl_ignore(nccl_finish(queue->rank, queue));
	bb_nccl_ignore(BB_CUDA(queue->rank, cudaStreamDestroy(queue->stream)));
	free(queue);
}

static bb_status nccl_compute(struct bb_rank *rank, struct bb_queue *queue,
			      void (*function)(void *argument), void *argument)
{
	return IN_QUEUE(queue, BB_CUDA(rank, cudaLaunchHostFunc(bb_nccl_stream(rank, queue),
								function, argument)));
}

static bb_status nccl_spin(struct bb_rank *rank, struct bb_queue *queue, double seconds)
{
	const struct bb_gpu_lane lane = bb_nccl_lane(rank, bb_nccl_stream(rank, queue));

	return IN_QUEUE(queue, BB_CUDA(rank, bb_gpu_spin(lane, (uint64_t)(1e9 * seconds),
							 (const unsigned *)rank->halt)));
}

static bb_status nccl_gemm(struct bb_rank *rank, struct bb_queue *queue, double flops,
			   struct bb_error *error)
{
	const cudaStream_t stream = bb_nccl_stream(rank, queue);

	return IN_QUEUE(queue, bb_nccl_multiply(rank, stream, flops, error));
}

/* ---- collectives ------------------------------------------------------------------- */

bb_status bb_nccl_group_end(struct bb_rank *rank)
{
	if (!rank->grouping)
		return BB_OK;
	rank->grouping = false;
	return BB_NCCL(rank, ncclGroupEnd());
}

static bb_status nccl_batch(struct bb_rank *rank, bool end)
{
	rank->batched = !end;
	return end ? bb_nccl_group_end(rank) : BB_OK;
}

/*
 * In a batch NCCL issues the calls of a group together, when it ends. A call with an order of its
 * own (rounds of a schedule, a copy before messages) cannot be part of one.
 */
static bb_status nccl_collective(struct bb_group *group, struct bb_queue *queue,
				 const struct bb_call *call)
{
	struct bb_rank *rank = group->rank;
	const cudaStream_t stream = bb_nccl_stream(rank, queue);
	bb_status status = queue ? queue->status : BB_OK;

	if (status != BB_OK)
		return status;
	if (!group->comm || (call->native && call->native != group->made))
		BB_TRY(status,
		       bb_fail(rank->context->error, BB_EINTERNAL,
			       "rank %d calls a group that is not ready for this algorithm",
			       rank->rank),
		       out);
	if (bb_nccl_aborted(rank->context))
		BB_TRY(status, BB_ETIMEOUT, out);
	if (!queue && (call->schedule || bb_nccl_kernel(call->native) > 0 ||
		       bb_nccl_native_tmp_bytes(call, group->me) > 0)) {
		BB_TRY(status, bb_nccl_group_end(rank), out);
	} else if (!queue && rank->batched && !rank->grouping) {
		BB_TRY(status, BB_NCCL(rank, ncclGroupStart()), out);
		rank->grouping = true;
	}
	status = call->schedule ? bb_nccl_schedule(group, stream, call)
				: bb_nccl_native(group, stream, call);
out:
	return queue_keep(queue, status);
}

/* ---- messages ------------------------------------------------------------------------ */

/* NCCL runs the operations of a communicator in order of issue, even on different streams. */
static bb_status message_pass(struct bb_queue *queue, const struct bb_message *m)
{
	const struct bb_rank *rank = m->group->rank;
	const cudaStream_t stream = bb_nccl_stream(rank, queue);
	const ncclComm_t comm = m->group->comm;
	bb_status status = queue ? queue->status : BB_OK;

	if (status != BB_OK)
		return status;
	if (!comm)
		status = bb_fail(rank->context->error, BB_EINTERNAL,
				 "rank %d sends messages in a group that is not ready", rank->rank);
	else if (bb_nccl_aborted(rank->context))
		status = BB_ETIMEOUT;
	else if (m->kind == BB_MESSAGE_SEND)
		status = BB_NCCL(rank, ncclSend(m->out, m->bytes, ncclInt8, *m->to, comm, stream));
	else
		status = BB_NCCL(rank, ncclRecv(m->in, m->bytes, ncclInt8, m->from, comm, stream));
	return queue_keep(queue, status);
}

/* ---- events -------------------------------------------------------------------------- */

static bb_status nccl_event_open(struct bb_rank *rank, struct bb_event **event,
				 struct bb_error *error)
{
	struct bb_event *e = calloc(1, sizeof(*e));

	if (!e)
		return bb_no_memory(error, "an event");
	e->rank = rank;
	bb_status status = BB_CUDA(rank, cudaEventCreateWithFlags(&e->event, cudaEventDefault));
	if (status == BB_OK)
		*event = e;
	else
		free(e);
	return status;
}

static void nccl_event_close(struct bb_event *event)
{
	if (!event)
		return;
	bb_nccl_ignore(BB_CUDA(event->rank, cudaEventDestroy(event->event)));
	free(event);
}

static bb_status nccl_event_record(struct bb_rank *rank, struct bb_queue *queue,
				   struct bb_event *event)
{
	return IN_QUEUE(queue,
			BB_CUDA(rank, cudaEventRecord(event->event, bb_nccl_stream(rank, queue))));
}

static bb_status nccl_event_wait(struct bb_rank *rank, struct bb_queue *queue,
				 struct bb_event *event)
{
	return IN_QUEUE(queue, BB_CUDA(rank, cudaStreamWaitEvent(bb_nccl_stream(rank, queue),
								 event->event, 0)));
}

static bb_status nccl_elapsed(struct bb_rank *rank, struct bb_event *from, struct bb_event *to,
			      double *seconds)
{
	float ms = 0;
	bb_status status = BB_CUDA(rank, cudaEventElapsedTime(&ms, from->event, to->event));

	*seconds = 1e-3 * (double)ms;
	return status;
}

/* ---- graphs -------------------------------------------------------------------------- */

static void graph_close(struct bb_graph *graph)
{
	if (!graph)
		return;
	if (graph->ready)
		bb_nccl_ignore(BB_CUDA(graph->rank, cudaGraphExecDestroy(graph->ready)));
	if (graph->graph)
		bb_nccl_ignore(BB_CUDA(graph->rank, cudaGraphDestroy(graph->graph)));
	free(graph);
}

static bb_status graph_begin(struct bb_rank *rank, struct bb_queue *queue)
{
	/* Other threads may call functions that a global capture would forbid. */
	return BB_CUDA(rank, cudaStreamBeginCapture(bb_nccl_stream(rank, queue),
						    cudaStreamCaptureModeThreadLocal));
}

static bb_status graph_end(struct bb_rank *rank, struct bb_queue *queue, struct bb_graph **graph)
{
	const cudaStream_t stream = bb_nccl_stream(rank, queue);
	struct bb_graph *g = calloc(1, sizeof(*g));
	bb_status status;

	if (!g)
		return bb_no_memory(rank->context->error, "a graph");
	g->rank = rank;
	BB_TRY(status, BB_CUDA(rank, cudaStreamEndCapture(stream, &g->graph)), failed);
	BB_TRY(status, BB_CUDA(rank, cudaGraphInstantiateWithFlags(&g->ready, g->graph, 0)),
	       failed);
	/* Otherwise the first launch would upload it, perhaps within a timed region. */
	BB_TRY(status, BB_CUDA(rank, cudaGraphUpload(g->ready, stream)), failed);
	BB_TRY(status, bb_nccl_wait(rank, stream), failed);
	*graph = g;
	return BB_OK;
failed:
	graph_close(g);
	return status;
}

static bb_status graph_launch(struct bb_rank *rank, struct bb_queue *queue, struct bb_graph *graph)
{
	return queue_keep(
		queue, BB_CUDA(rank, cudaGraphLaunch(graph->ready, bb_nccl_stream(rank, queue))));
}

static const struct bb_graphs nccl_graphs = {
	.begin = graph_begin,
	.end = graph_end,
	.launch = graph_launch,
	.close = graph_close,
};

#define CHUNK_BYTES ((size_t)4 << 20)
/* Costs by which choose compares schedules; only their ratio matters. */
#define ROUND_SECONDS 10e-6
#define BYTES_PER_SECOND 100e9
#define RANKS_PER_ROOT 128

/* ---- devices ------------------------------------------------------------------------- */

int bb_nccl_device(const struct bb_context *context, int local)
{
	return (context->first_device + local) % context->devices;
}

static bool is_set(const char *name)
{
	const char *const value = getenv(name);

	return value && *value;
}

bool bb_nccl_may_share(void)
{
	const char *const value = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

	return value && strcmp(value, "1") == 0;
}

/*
 * NCCL_TESTS_DEVICE is the device of a process's first rank, as in nccl-tests. Else ranks of a host
 * take its devices in order, across processes, unless the launcher shows each
 * process only its own. Ranks may share a device only where NCCL permits it (bb_nccl_may_share).
 */
static bb_status place_ranks(struct bb_context *c, struct bb_error *error)
{
	const char *const given = getenv("NCCL_TESTS_DEVICE");
	const int before = c->config.ranks_before, mine = c->world.nlocal;
	bb_status status = BB_OK;

	if (given && *given)
		status =
			bb_parse_rank(given, &c->first_device) && c->first_device < c->devices
				? BB_OK
				: bb_fail(error, BB_EUSAGE,
					  "NCCL_TESTS_DEVICE=%s: expected the number of one of the "
					  "%d GPUs that this process sees, from 0 on",
					  given, c->devices);
	else if (before + mine <= c->devices || mine != c->devices)
		c->first_device = before;
	if (status != BB_OK || bb_nccl_may_share())
		return status;
	if (c->first_device + mine > c->devices)
		return bb_fail(error, BB_EUSAGE,
			       "%d GPUs are requested on this host, but only %d exist%s",
			       c->first_device + mine, c->devices,
			       given && *given ? " (NCCL_TESTS_DEVICE counts)" : "");
	return BB_OK;
}

static bb_status count_devices(int *devices, struct bb_error *error)
{
	int driver;

	/*
	 * Before the first call of CUDA, which reads the variable. Ranks of a process that share a
	 * GPU share a CUDA context. Lazy loading of a kernel may wait until that context is idle,
	 * and would deadlock if a running kernel of another rank waits for this rank.
	 */
	if (bb_nccl_may_share() && setenv("CUDA_MODULE_LOADING", "EAGER", 0) != 0)
		return bb_no_memory(error, "the nccl backend");
	const cudaError_t result = cudaGetDeviceCount(devices);
	const char *why = cudaGetErrorString(result);
	if (result == cudaSuccess && *devices > 0)
		return BB_OK;
	if (result == cudaSuccess)
		why = "CUDA has no device";
	/* CUDA reports a missing driver as one that is too old. */
	else if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
		why = "no NVIDIA driver is loaded";
	return bb_fail(error, BB_EBACKEND, "the nccl backend finds no GPU: %s (%s)", why,
		       cudaGetErrorName(result));
}

static bb_status nccl_usable(struct bb_error *error)
{
	int devices = 0;

	return count_devices(&devices, error);
}

/* ---- opening ------------------------------------------------------------------------- */

static bb_status library_text(struct bb_context *c, struct bb_error *error)
{
	int runtime = 0, driver = 0;
	char version[BB_NCCL_VERSION_TEXT];
	bb_status status;

	BB_TRY(status, BB_CUDA_PROCESS(error, cudaRuntimeGetVersion(&runtime)), out);
	BB_TRY(status, BB_CUDA_PROCESS(error, cudaDriverGetVersion(&driver)), out);
	bb_nccl_version_text(c->nccl.version, version);
	snprintf(c->library, sizeof(c->library), "NCCL%s %s, CUDA %d.%d, driver's %d.%d",
		 c->nccl.version > 0 ? "" : ": not",
		 c->nccl.version > 0      ? version
		 : c->nccl.ncclGetVersion ? "usable"
					  : "found",
		 runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
out:
	return status;
}

static const char *nccl_library(const struct bb_context *context)
{
	return context->library;
}

/* Requested features that not every version of NCCL has. */
static bb_status check_features(const struct bb_backend_config *config,
				const struct bb_nccl_library *library, struct bb_error *error)
{
	const struct {
		bool requested;
		int since;
		const char *option, *name;
	} features[] = {
		{config->registration == BB_REGISTER_LOCAL, BB_NCCL_SINCE_REGISTRATION, "-R 1",
		 "registration of buffers"},
		{config->registration == BB_REGISTER_SYMMETRIC, BB_NCCL_SINCE_WINDOWS, "-R 2",
		 "registration as symmetric windows"},
		{config->cta_policy == 1, BB_NCCL_SINCE_POLICIES, "-x 1", "a thread block policy"},
		{config->cta_policy == 2, BB_NCCL_SINCE_POLICY_ZERO, "-x 2",
		 "the policy of no thread blocks"},
	};
	bb_status status = BB_OK;

	for (size_t i = 0; i < sizeof(features) / sizeof(*features) && status == BB_OK; i++)
		if (features[i].requested)
			status = bb_nccl_require(library, features[i].since, features[i].option,
						 features[i].name, error);
	return status;
}

static void nccl_close(struct bb_context *context)
{
	bb_nccl_profiler_unset(context);
	bb_nccl_diagnose_end(context);
	free(context->lanes);
	free(context);
}

static bb_status nccl_open(struct bb_context **context, const struct bb_world *world,
			   const struct bb_backend_config *config, struct bb_error *error)
{
	const char *const roots = getenv("TORCH_NCCL_RANKS_PER_ROOT");
	const int mine = world->nlocal;

	if (!config->exchange.gather)
		return bb_fail(error, BB_EINTERNAL, "the nccl backend was given no exchange");
	struct bb_context *c = calloc(1, sizeof(*c));
	if (!c)
		return bb_no_memory(error, "the nccl backend");
	c->world = *world;
	c->config = *config;
	c->error = error;
	bb_status status = bb_nccl_library_open(&c->nccl, &c->unusable);
	/* Where NCCL is optional, busbench's own routes and kernels work without it. */
	if (status != BB_OK && !config->library_optional)
		BB_TRY(status, bb_fail(error, status, "%s", c->unusable.text), failed);
	BB_TRY(status, check_features(config, &c->nccl, error), failed);
	BB_TRY(status, count_devices(&c->devices, error), failed);
	BB_TRY(status, library_text(c, error), failed);
	BB_TRY(status, place_ranks(c, error), failed);
	/* A thread that sets no device uses GPU 0, and would create a context there even if the GPU
	   belongs to another process. Drivers set theirs when they attach. */
	BB_TRY(status, BB_CUDA_PROCESS(error, cudaSetDevice(bb_nccl_device(c, 0))), failed);
	/* PyTorch's variable, and its default (ProcessGroupNCCL.cpp). */
	c->ranks_per_root = RANKS_PER_ROOT;
	if (roots && *roots && !(bb_parse_rank(roots, &c->ranks_per_root) && c->ranks_per_root > 0))
		BB_TRY(status,
		       bb_fail(error, BB_EUSAGE,
			       "TORCH_NCCL_RANKS_PER_ROOT=%s: expected a number from 1 on", roots),
		       failed);
	c->ras_address = bb_nccl_ras_address(&c->nccl);
	/* An upper bound. Whether processes that may share a device see the same one is not known
	   yet, so all ranks of the host count. */
	int here = config->ranks_here > mine ? config->ranks_here : mine;
	if (!bb_nccl_may_share() && !is_set("NCCL_HOSTID"))
		here = mine;
	c->ranks_per_device = is_set("NCCL_TESTS_DEVICE")
				      ? (mine + c->devices - 1) / c->devices * (here / mine)
				      : (here + c->devices - 1) / c->devices;
	BB_TRY(status, bb_nccl_lanes_open(c), failed);
	BB_TRY(status, bb_nccl_profiler_set(c, error), failed);
	*context = c;
	return BB_OK;
failed:
	nccl_close(c);
	return status;
}

static void nccl_abort(struct bb_context *context)
{
	atomic_store(&context->aborted, 1);
}

/* ---- ranks ------------------------------------------------------------------------- */

static void nccl_detach(struct bb_rank *rank)
{
	if (!rank)
		return;
	while (rank->memories)
		bb_nccl_release(rank, rank->memories->base, 0);
	bb_nccl_gemm_close(rank);
	bb_nccl_routes_close(rank);
	if (rank->halt)
		BB_CUDA_FREE(rank, cudaFreeHost((void *)rank->halt));
	rank->halt = NULL;
	bb_nccl_health_close(rank);
	if (rank->scratch)
		bb_nccl_device_free(rank, rank->scratch, rank->scratch_bytes);
	free(rank->fabric);
	if (rank->main && !rank->context->config.default_stream)
		bb_nccl_ignore(BB_CUDA(rank, cudaStreamDestroy(rank->main)));
	free(rank);
}

static bb_status read_device(struct bb_rank *rank)
{
	struct bb_location *const here = &rank->location;
	struct cudaDeviceProp properties;
	char bus[32], path[96], line[32];
	bb_status status;

	bb_location_here(here);
	here->device = rank->device;
	BB_TRY(status, BB_CUDA(rank, cudaDeviceGetPCIBusId(bus, sizeof(bus), rank->device)), out);
	BB_TRY(status, BB_CUDA(rank, cudaGetDeviceProperties(&properties, rank->device)), out);
	for (char *p = bus; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", bus);
	if (!bb_kernel_line(path, line, sizeof(line)) || sscanf(line, "%d", &here->numa) != 1)
		here->numa = -1;
	here->cache = (uint64_t)properties.l2CacheSize;
	/* "0000:3b:00.0"; the function is always 0. */
	bus[strcspn(bus, ".")] = '\0';
	snprintf(here->bus, sizeof(here->bus), "%.15s", bus);
	snprintf(here->name, sizeof(here->name), "%.63s", properties.name);
	memcpy(rank->uuid, &properties.uuid, sizeof(rank->uuid));
	for (size_t i = 0; i < sizeof(rank->uuid); i++)
		snprintf(here->uuid + 2 * i, 3, "%02x", rank->uuid[i]);
	rank->capability = 10 * properties.major + properties.minor;
	rank->blocks = bb_gpu_blocks(properties.multiProcessorCount,
				     properties.maxThreadsPerMultiProcessor);
out:
	return status;
}

static bb_status nccl_attach(struct bb_context *context, int local, struct bb_rank **rank,
			     struct bb_location *location, struct bb_error *error)
{
	struct bb_rank *r =
		calloc(1, sizeof(*r) + (size_t)context->world.nranks * sizeof(*r->peers));
	bb_status status;

	if (!r)
		return bb_no_memory(error, "a rank");
	r->context = context;
	r->rank = context->world.first_rank + local;
	r->local = local;
	r->device = bb_nccl_device(context, local);
	r->nccl = &context->nccl;
	r->version = context->nccl.version;
	r->ranks_per_root = context->ranks_per_root;
	BB_TRY(status, BB_CUDA(r, cudaSetDevice(r->device)), failed);
	BB_TRY(status, read_device(r), failed);
	bb_nccl_health_open(r);
	BB_TRY(status, bb_nccl_fabric_open(r), failed);
	if (context->config.reached && context->world.nprocs > 1 &&
	    (r->fabric || context->config.handles != BB_HANDLES_FABRIC))
		snprintf(r->location.handle, sizeof(r->location.handle), "%s",
			 r->fabric ? "fabric" : "ipc");
	if (!context->config.default_stream)
		BB_TRY(status,
		       BB_CUDA(r, cudaStreamCreateWithFlags(&r->main, cudaStreamNonBlocking)),
		       failed);
	/* Later, beside a kernel that waits for another rank, neither might ever end: CUDA may pin
	   memory, and load a kernel such as that which takes time, only while the device is idle.
	 */
	BB_TRY(status, BB_CUDA(r, cudaMallocHost((void **)&r->halt, sizeof(*r->halt))), failed);
	atomic_init(r->halt, 0);
	BB_TRY(status, nccl_spin(r, NULL, 1e-9), failed);
	r->scratch_bytes =
		bb_nccl_scratch_flags(context) + (size_t)context->world.nranks * BB_SCRATCH_FLAG;
	BB_TRY(status, bb_nccl_device_alloc(r, &r->scratch_bytes, (void **)&r->scratch), failed);
	BB_TRY(status, BB_CUDA(r, cudaMemsetAsync(r->scratch, 0, r->scratch_bytes, r->main)),
	       failed);
	*rank = r;
	*location = r->location;
	return BB_OK;
failed:
	nccl_detach(r);
	return status;
}

/* ---- calls ------------------------------------------------------------------------- */

static bb_status nccl_choose(struct bb_group *group, struct bb_call *call)
{
	call->schedule = NULL;
	call->native = &bb_nccl_auto;
	if (!bb_nccl_native_limits(group, call))
		return BB_OK;
	call->native = NULL;
	/* The cheapest schedule, for calls that NCCL cannot make. */
	call->schedule =
		bb_algorithm_cheapest(call->collective, &call->shape, ROUND_SECONDS,
				      (double)bb_dtype_size(call->dtype) / BYTES_PER_SECOND);
	return call->schedule ? BB_OK : BB_EUNSUPPORTED;
}

static bb_status nccl_tune(struct bb_group *group, struct bb_call *call)
{
	call->shape.chunk = CHUNK_BYTES / bb_dtype_size(call->dtype);
	return BB_OK;
}

static const char *nccl_refuses(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_call *const p = &group->probed;
	const char *const limit = call->native ? bb_nccl_native_limits(group, call) : NULL;

	if (call->schedule || limit)
		return limit;
	/* Is the call like the last one given to ready? */
	return group->refusal[0] && p->collective == call->collective &&
			       p->native == call->native && p->dtype == call->dtype &&
			       p->op == call->op
		       ? group->refusal
		       : NULL;
}

static size_t nccl_tmp_bytes(struct bb_group *group, const struct bb_call *call)
{
	return call->schedule ? bb_nccl_schedule_tmp_bytes(call, group->me)
			      : bb_nccl_native_tmp_bytes(call, group->me);
}

/* busbench cannot know how many bytes NCCL moves within memory. */
static double nccl_cost_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

static const struct bb_gpu gpu = {
	.usable = nccl_usable,
	.list = bb_nccl_list,
	.elapsed = nccl_elapsed,
	.spin = nccl_spin,
	.gemm = nccl_gemm,
	.ready = bb_nccl_ready,
	.batch = nccl_batch,
	.health = bb_nccl_health,
	.throttled = bb_nccl_throttled,
};

static const struct bb_library library = {
	.name = nccl_library,
	.listen = bb_nccl_listen,
	.chosen = bb_nccl_chosen,
	.registered = bb_nccl_registered,
	.split = bb_nccl_split,
	.diagnose = bb_nccl_diagnose,
};

extern const struct bb_backend bb_plugin_backend;

const struct bb_backend bb_plugin_backend = {
	.abi = BB_BACKEND_ABI,
	.name = "nccl",
	.brief = "ranks are GPUs, over NCCL",
	.has_data = true,
	.in_processes = true,
	.natives = bb_nccl_natives,
	.open = nccl_open,
	.close = nccl_close,
	.abort = nccl_abort,
	.max_local = BB_NCCL_MAX_LOCAL,
	.memory_available = bb_nccl_memory_available,
	.attach = nccl_attach,
	.detach = nccl_detach,
	.alloc = bb_nccl_alloc,
	.release = bb_nccl_release,
	.copy = bb_nccl_copy,
	.fill = bb_nccl_fill,
	.verify = bb_nccl_verify,
	.group_open = bb_nccl_group_open,
	.group_close = bb_nccl_group_close,
	.barrier = bb_nccl_barrier,
	.choose = nccl_choose,
	.tune = nccl_tune,
	.refuses = nccl_refuses,
	.tmp_bytes = nccl_tmp_bytes,
	.cost_bytes = nccl_cost_bytes,
	.queue_open = nccl_queue_open,
	.queue_close = nccl_queue_close,
	.event_open = nccl_event_open,
	.event_close = nccl_event_close,
	.event_record = nccl_event_record,
	.event_wait = nccl_event_wait,
	.compute = nccl_compute,
	.collective = nccl_collective,
	.finish = nccl_finish,
	.now = bb_cpu_now,
	.clocks = &bb_nccl_clocks,
	.messages = &(const struct bb_messages){.pass = message_pass},
	.gpu = &gpu,
	.library = &library,
	.routes = &bb_nccl_routes,
	.spaces = &bb_nccl_spaces,
	.graphs = &nccl_graphs,
};
