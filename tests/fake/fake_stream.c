/*
 * Streams are threads with a list of tasks. While one is captured, its tasks are kept in a graph.
 */
#include "fake.h"

#include "core/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUERY_NS 1000000 /* that a query of a busy stream waits at most */

struct task {
	struct task *next;
	struct fake_task what;
	_Alignas(16) char payload[];
};

struct list {
	struct task *first;
	struct task **last;
};

struct CUgraph_st {
	struct list tasks;
};

struct CUgraphExec_st {
	struct list tasks;
	bool uploaded;
};

struct CUstream_st {
	struct CUstream_st *next; /* of all */
	int device;
	pthread_t worker;
	pthread_mutex_t lock;
	pthread_cond_t work; /* for the worker: a task, or the end */
	pthread_cond_t idle; /* for all others: no task is left */
	struct list tasks;
	bool busy;
	bool closing;
	bool abandoned; /* nobody joins its worker, which lets go of it */
	cudaError_t error;
	struct CUgraph_st *captured; /* NULL: it is not */
};

struct CUevent_st {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int refs; /* the handle, and tasks */
	unsigned long recorded, reached;
	double time;
};

/* ---- tasks --------------------------------------------------------------------------- */

static void list_init(struct list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static void append(struct list *list, const struct fake_task *what)
{
	struct task *task = aligned_alloc(16, (sizeof(*task) + what->bytes + 15) & ~(size_t)15);

	if (!task)
		abort();
	task->next = NULL;
	task->what = *what;
	memcpy(task->payload, what->payload, what->bytes);
	task->what.payload = task->payload;
	if (what->hold)
		what->hold(task->payload);
	*list->last = task;
	list->last = &task->next;
}

static void task_free(struct task *task)
{
	if (task->what.drop)
		task->what.drop(task->payload);
	free(task);
}

static struct task *take_first(struct list *list)
{
	struct task *task = list->first;

	if (!task)
		return NULL;
	list->first = task->next;
	if (!list->first)
		list->last = &list->first;
	return task;
}

static void list_free(struct list *list)
{
	struct task *task;

	while ((task = take_first(list)) != NULL)
		task_free(task);
}

/* ---- streams ------------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	struct CUstream_st *first;
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void stream_free(struct CUstream_st *s)
{
	struct CUstream_st **link = &streams.first;

	pthread_mutex_lock(&streams.lock);
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	pthread_mutex_unlock(&streams.lock);
	if (s->captured) {
		list_free(&s->captured->tasks);
		free(s->captured);
	}
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->idle);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void *work_off(void *argument)
{
	struct CUstream_st *s = argument;
	struct task *task;
	bool abandoned;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		cudaError_t error = s->error;

		task = take_first(&s->tasks);
		if (!task && s->closing)
			break;
		if (!task) {
			pthread_cond_wait(&s->work, &s->lock);
			continue;
		}
		s->busy = true;
		pthread_mutex_unlock(&s->lock);
		if (error == cudaSuccess)
			error = task->what.run(task->payload);
		task_free(task);
		pthread_mutex_lock(&s->lock);
		s->error = error;
		s->busy = false;
		if (!s->tasks.first)
			pthread_cond_broadcast(&s->idle);
	}
	abandoned = s->abandoned;
	pthread_mutex_unlock(&s->lock);
	if (abandoned)
		stream_free(s);
	return NULL;
}

static struct CUstream_st *new_stream(void)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	list_init(&s->tasks);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	bb_clock_open_moment(&s->idle);
	s->device = fake_device();
	pthread_mutex_lock(&streams.lock);
	s->next = streams.first;
	streams.first = s;
	pthread_mutex_unlock(&streams.lock);
	if (pthread_create(&s->worker, NULL, work_off, s) != 0)
		abort();
	return s;
}

static bool is_busy(struct CUstream_st *s)
{
	bool busy;

	pthread_mutex_lock(&s->lock);
	busy = s->busy || s->tasks.first;
	pthread_mutex_unlock(&s->lock);
	return busy;
}

/* Wait until no stream is in the way. */
static void settle(bool (*is_in_the_way)(struct CUstream_st *s))
{
	const struct timespec moment = {.tv_nsec = 100000};
	bool wait = true;

	while (wait) {
		wait = false;
		pthread_mutex_lock(&streams.lock);
		for (struct CUstream_st *s = streams.first; s && !wait; s = s->next)
			wait = is_in_the_way(s);
		pthread_mutex_unlock(&streams.lock);
		if (wait)
			nanosleep(&moment, NULL);
	}
}

static bool works_here(struct CUstream_st *s)
{
	return s->device == fake_device() && is_busy(s);
}

static bool is_ending(struct CUstream_st *s)
{
	bool closing;

	pthread_mutex_lock(&s->lock);
	closing = s->closing;
	pthread_mutex_unlock(&s->lock);
	return closing;
}

void fake_settle(void)
{
	settle(works_here);
}

void fake_settle_ended(void)
{
	settle(is_ending);
}

/* Without waiting for its work, as CUDA does, unless JOINED. */
static void end_stream(struct CUstream_st *s, bool joined)
{
	const pthread_t worker = s->worker;

	pthread_mutex_lock(&s->lock);
	s->closing = true;
	s->abandoned = !joined;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
	if (joined) {
		pthread_join(worker, NULL);
		stream_free(s);
	} else {
		pthread_detach(worker);
	}
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	FAKE_CUDA();
	*stream = new_stream();
	fake_made(FAKE_STREAM);
	return cudaSuccess;
}

/* The default stream of a device, made when it is first used and closed with the process. */
static struct CUstream_st *defaults[FAKE_MOST_RANKS];

static struct CUstream_st *named(cudaStream_t stream)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct CUstream_st **s = &defaults[fake_device()];

	if (stream)
		return stream;
	pthread_mutex_lock(&lock);
	if (!*s)
		*s = new_stream();
	pthread_mutex_unlock(&lock);
	return *s;
}

__attribute__((destructor)) static void close_defaults(void)
{
	for (int i = 0; i < FAKE_MOST_RANKS; i++)
		if (defaults[i])
			end_stream(defaults[i], true);
}

/* It is gone even where the call is to fail: nobody could let go of it a second time. */
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	const bool fails = fake_enter(__func__);

	end_stream(s, false);
	fake_let_go(FAKE_STREAM);
	return fails ? cudaErrorUnknown : cudaSuccess;
}

cudaError_t fake_issue(cudaStream_t stream, const struct fake_task *task)
{
	struct CUstream_st *const s = named(stream);
	cudaError_t error;

	pthread_mutex_lock(&s->lock);
	append(s->captured ? &s->captured->tasks : &s->tasks, task);
	error = s->error;
	pthread_mutex_unlock(&s->lock);
	pthread_cond_signal(&s->work);
	return error;
}

bool fake_is_capturing(cudaStream_t stream)
{
	struct CUstream_st *const s = named(stream);
	bool captured;

	pthread_mutex_lock(&s->lock);
	captured = s->captured != NULL;
	pthread_mutex_unlock(&s->lock);
	return captured;
}

/* Without a device there is nothing to poll: whoever asks leaves the core to the stream's thread
   until it is idle, for a moment at most. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	struct CUstream_st *const s = named(stream);
	struct timespec end;
	cudaError_t error;

	FAKE_CUDA();
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += QUERY_NS;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&s->lock);
	if (!s->captured && s->error == cudaSuccess && (s->busy || s->tasks.first))
		pthread_cond_timedwait(&s->idle, &s->lock, &end);
	error = s->captured                 ? cudaErrorStreamCaptureUnsupported
		: s->error != cudaSuccess   ? s->error
		: s->busy || s->tasks.first ? cudaErrorNotReady
					    : cudaSuccess;
	pthread_mutex_unlock(&s->lock);
	return error;
}

cudaError_t fake_drain(cudaStream_t stream)
{
	struct CUstream_st *const s = named(stream);
	cudaError_t error;

	pthread_mutex_lock(&s->lock);
	while (s->busy || s->tasks.first)
		pthread_cond_wait(&s->idle, &s->lock);
	error = s->error;
	pthread_mutex_unlock(&s->lock);
	return error;
}

/* ---- events ------------------------------------------------------------------------ */

struct mark {
	cudaEvent_t event;
	unsigned long number;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	struct CUevent_st *e;

	FAKE_CUDA();
	e = calloc(1, sizeof(*e));
	if (!e)
		abort();
	pthread_mutex_init(&e->lock, NULL);
	bb_clock_open_moment(&e->changed);
	e->refs = 1;
	fake_made(FAKE_EVENT);
	*event = e;
	return cudaSuccess;
}

static void hold_event(void *payload)
{
	cudaEvent_t e = ((struct mark *)payload)->event;

	pthread_mutex_lock(&e->lock);
	e->refs++;
	pthread_mutex_unlock(&e->lock);
}

static void event_free(cudaEvent_t e)
{
	bool last;

	pthread_mutex_lock(&e->lock);
	last = --e->refs == 0;
	pthread_mutex_unlock(&e->lock);
	if (!last)
		return;
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static void drop_event(void *payload)
{
	event_free(((struct mark *)payload)->event);
}

static cudaError_t issue_mark(cudaStream_t stream, const struct mark *m,
			      cudaError_t (*run)(void *payload))
{
	return fake_issue(stream, &(struct fake_task){.run = run,
						      .hold = hold_event,
						      .drop = drop_event,
						      .bytes = sizeof(*m),
						      .payload = m});
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	const bool fails = fake_enter(__func__);

	event_free(e);
	fake_let_go(FAKE_EVENT);
	return fails ? cudaErrorUnknown : cudaSuccess;
}

static cudaError_t reach(void *payload)
{
	const struct mark *m = payload;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&m->event->lock);
	if (m->event->reached < m->number)
		m->event->reached = m->number;
	m->event->time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
	pthread_cond_broadcast(&m->event->changed);
	pthread_mutex_unlock(&m->event->lock);
	return cudaSuccess;
}

static cudaError_t await(void *payload)
{
	const struct mark *m = payload;

	pthread_mutex_lock(&m->event->lock);
	while (m->event->reached < m->number && !fake_has_failed())
		fake_wait(&m->event->changed, &m->event->lock);
	pthread_mutex_unlock(&m->event->lock);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct mark m = {.event = event};

	FAKE_CUDA();
	pthread_mutex_lock(&event->lock);
	m.number = ++event->recorded;
	pthread_mutex_unlock(&event->lock);
	return issue_mark(stream, &m, reach);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	struct mark m = {.event = event};

	FAKE_CUDA();
	pthread_mutex_lock(&event->lock);
	m.number = event->recorded;
	pthread_mutex_unlock(&event->lock);
	return issue_mark(stream, &m, await);
}

static bool time_of(cudaEvent_t event, double *time)
{
	bool reached;

	pthread_mutex_lock(&event->lock);
	reached = event->recorded > 0 && event->reached == event->recorded;
	*time = event->time;
	pthread_mutex_unlock(&event->lock);
	return reached;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	double time;

	FAKE_CUDA();
	return time_of(event, &time) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	double began, ended;

	FAKE_CUDA();
	if (!time_of(from, &began) || !time_of(to, &ended))
		return cudaErrorNotReady;
	*ms = (float)(1e3 * (ended - began));
	return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------ */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
	FAKE_CUDA();
	if (!s || mode != cudaStreamCaptureModeThreadLocal)
		return cudaErrorStreamCaptureUnsupported;
	pthread_mutex_lock(&s->lock);
	s->captured = calloc(1, sizeof(*s->captured));
	if (!s->captured)
		abort();
	list_init(&s->captured->tasks);
	pthread_mutex_unlock(&s->lock);
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
	FAKE_CUDA();
	pthread_mutex_lock(&s->lock);
	*graph = s->captured;
	s->captured = NULL;
	pthread_mutex_unlock(&s->lock);
	if (!*graph)
		return cudaErrorIllegalState;
	fake_made(FAKE_GRAPH);
	return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
					  unsigned long long flags)
{
	struct CUgraphExec_st *e;

	FAKE_CUDA();
	e = calloc(1, sizeof(*e));
	if (!e)
		abort();
	list_init(&e->tasks);
	for (const struct task *t = graph->tasks.first; t; t = t->next)
		append(&e->tasks, &t->what);
	fake_made(FAKE_GRAPH);
	*exec = e;
	return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	FAKE_CUDA();
	exec->uploaded = true;
	return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	cudaError_t error = cudaSuccess;

	FAKE_CUDA();
	if (!exec->uploaded)
		fake_misused("a graph is launched before it is uploaded");
	for (const struct task *t = exec->tasks.first; t && error == cudaSuccess; t = t->next)
		error = fake_issue(stream, &t->what);
	return error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	const bool fails = fake_enter(__func__);

	list_free(&exec->tasks);
	free(exec);
	fake_let_go(FAKE_GRAPH);
	return fails ? cudaErrorUnknown : cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	const bool fails = fake_enter(__func__);

	list_free(&graph->tasks);
	free(graph);
	fake_let_go(FAKE_GRAPH);
	return fails ? cudaErrorUnknown : cudaSuccess;
}
