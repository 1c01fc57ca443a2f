#include "harness/measure/runner.h"

#include "backends/gpu.h"
#include "backends/messages.h"
#include "backends/virtual.h"
#include "core/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONGEST_NAP 0.02 /* seconds between two checks of whether to go on */

const char *const bb_stand_in_names[] = {"sleep", "spin", "gemm", NULL};

/* A queue, and its own memory where the workload gives no buffers. */
struct bb_runner_queue {
	struct bb_queue *handle;
	struct bb_arena arena;
	double due; /* when its work so far would be done if sleepers did not wake late */
};

/* An operation of this rank. */
struct bb_item {
	struct bb_runner *runner;
	struct bb_operation operation;
	size_t index;
	int source;   /* RECV_ANY: rank that sent it */
	bool chained; /* a computation that begins when its queue is due */
	struct bb_event
		*event; /* recorded on the device when it is done; NULL: stamped by the CPU */
	double begin, end;
};

struct bb_runner {
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_rank *rank; /* the backend's, of this driver */
	const struct bb_workload *workload;
	const struct bb_program *program;
	struct bb_item *items;
	size_t nitems;
	struct bb_item **order; /* the items by their ends, for the watch */
	struct bb_runner_queue queues[BB_PROGRAM_QUEUES];
	struct bb_event **events; /* [event] */
	/* [event]: due time of the queue when it was recorded; NULL: not passed between queues. */
	double *dues;
	struct bb_calls calls;
	struct bb_event *origin; /* start of the items' events; NULL: not watched yet */
	bool failed;             /* buffers stay, because others may still read them */
	atomic_bool over;        /* host functions that queues still reach return at once */
	atomic_int inside;       /* host functions of queues that are running */
};

/* True if the workload performs the computation O, false if a stand-in does. */
static bool performs(const struct bb_runner *runner, const struct bb_operation *o)
{
	return runner->workload->compute && !(runner->workload->stands_in && o->seconds > 0);
}

static bb_status no_memory(const struct bb_runner *p)
{
	return bb_no_memory(&p->run->error, "a program");
}

/* ---- what cannot be done ----------------------------------------------------------------- */

/* Returns BB_EUNSUPPORTED on all ranks, with the first objection in REFUSAL, if any rank has one.
   Collective over the world. */
static bb_status share_objections(struct bb_runner *p, struct bb_error *refusal)
{
	const bb_status status = bb_driver_share_objection(p->driver, p->calls.objection);

	if (status == BB_OK && p->calls.objection[0])
		return bb_fail(refusal, BB_EUNSUPPORTED, "%s", p->calls.objection);
	return status;
}

/* STATUS of a call that the backend may not have, which is an objection; CAUSE says why. */
static bb_status object_or_fail(struct bb_runner *p, bb_status status, const struct bb_error *cause)
{
	if (status == BB_OK)
		return BB_OK;
	if (status != BB_EUNSUPPORTED)
		return bb_fail(&p->run->error, status, "%s", cause->text);
	bb_calls_object(&p->calls, "%s", cause->text);
	return BB_OK;
}

static void judge_operation(struct bb_runner *p, const struct bb_operation *o)
{
	const struct bb_backend *backend = p->backend;
	const bool is_message =
		o->act == BB_ACT_SEND || o->act == BB_ACT_RECV || o->act == BB_ACT_RECV_ANY;
	const bool multiplies =
		o->act == BB_ACT_COMPUTE && !performs(p, o) && p->workload->stand_in == BB_GEMM;

	if (multiplies && !backend->gpu)
		bb_calls_object(
			&p->calls,
			"the %s backend multiplies no matrices; give --compute sleep or spin",
			backend->name);
	else if (multiplies && o->flops == 0 && o->seconds > 0)
		bb_calls_object(&p->calls,
				"the FLOPs of its computations are not known, so matrices cannot "
				"stand in for them");
	else if (is_message && !backend->messages && backend->has_data)
		bb_calls_object(&p->calls, "the %s backend passes no messages", backend->name);
	else if (o->act == BB_ACT_RECV_ANY && backend->messages && !backend->messages->from_any)
		bb_calls_object(&p->calls, "the %s backend cannot receive from any rank",
				backend->name);
}

/* Multiplies each size once. Only that shows whether the library is there, and it loads its kernels
   at their first use, which might never end beside a message that waits for this rank. */
static bb_status try_gemm(struct bb_runner *p)
{
	struct bb_error cause = {0};
	bb_status status = BB_OK;

	if (p->calls.objection[0] || p->workload->stand_in != BB_GEMM)
		return BB_OK;
	for (size_t i = 0; i < p->nitems && status == BB_OK; i++) {
		const struct bb_operation *o = &p->items[i].operation;
		size_t first = 0; /* computation with these FLOPs */

		if (o->act != BB_ACT_COMPUTE || o->flops <= 0 || performs(p, o))
			continue;
		while (p->items[first].operation.act != BB_ACT_COMPUTE ||
		       p->items[first].operation.flops != o->flops)
			first++;
		if (first == i)
			status = p->backend->gpu->gemm(p->rank, NULL, o->flops, &cause);
	}
	if (status == BB_OK)
		status = p->backend->finish(p->rank, NULL);
	return object_or_fail(p, status, &cause);
}

/* ---- opening ----------------------------------------------------------------------------- */

static bb_status read_items(struct bb_runner *p)
{
	const struct bb_program *program = p->program;
	const int rank = p->driver->rank;
	bool computed[BB_PROGRAM_QUEUES] = {false}; /* last in the queue, but for records */

	/* Where queues are threads, events pass due times from queue to queue. Not on a GPU: there
	   a sleeper occupies the host thread that every other host function would need. */
	if (!p->workload->compute && p->workload->stand_in == BB_SLEEP && !p->backend->gpu) {
		p->dues = calloc((size_t)program->events + 1, sizeof(*p->dues));
		if (!p->dues)
			return no_memory(p);
	}
	p->nitems = program->length(program, rank);
	p->items = calloc(p->nitems + 1, sizeof(*p->items));
	p->order = calloc(p->nitems + 1, sizeof(struct bb_item *));
	if (!p->items || !p->order)
		return no_memory(p);
	for (size_t i = 0; i < p->nitems; i++) {
		struct bb_item *item = &p->items[i];

		*item = (struct bb_item){.runner = p,
					 .operation = bb_program_at(program, rank, i),
					 .index = i,
					 .source = BB_NO_PEER};
		const struct bb_operation *const o = &item->operation;
		/* Records between two computations take no time. */
		item->chained = p->dues || (computed[o->queue] && o->act == BB_ACT_COMPUTE);
		if (o->act != BB_ACT_RECORD)
			computed[o->queue] = o->act == BB_ACT_COMPUTE;
		judge_operation(p, o);
	}
	return BB_OK;
}

static bb_status open_queues(struct bb_runner *p)
{
	const struct bb_program *program = p->program;
	struct bb_error cause = {0};
	bb_status status = BB_OK;

	p->events = calloc((size_t)program->events + 1, sizeof(struct bb_event *));
	if (!p->events)
		return no_memory(p);
	for (int q = 0; q < program->queues && status == BB_OK; q++)
		status = p->backend->queue_open(p->rank, &p->queues[q].handle, &cause);
	status = object_or_fail(p, status, &cause);
	for (int e = 0; e < program->events && status == BB_OK && !p->calls.objection[0]; e++)
		status = p->backend->event_open(p->rank, &p->events[e], &p->run->error);
	return status;
}

static bb_status open_arenas(struct bb_runner *p)
{
	uint64_t all = 0;
	bb_status status = BB_OK;

	for (size_t i = 0; i < p->nitems; i++) {
		const struct bb_operation *o = &p->items[i].operation;
		const bool own = !p->workload->buffers; /* the queue's memory, not the workload's */
		struct bb_arena *arena = &p->queues[o->queue].arena;
		const struct bb_settled *s = o->act == BB_ACT_COLLECTIVE ? p->calls.of[i] : NULL;
		size_t bytes = 0;

		if (s)
			bytes = s->layout.sets_at + (own ? s->layout.set_bytes : 0);
		else if (own && (o->act == BB_ACT_SEND || o->act == BB_ACT_RECV ||
				 o->act == BB_ACT_RECV_ANY))
			bytes = bb_operation_bytes(o);
		arena->bytes = bytes > arena->bytes ? bytes : arena->bytes;
	}
	for (int q = 0; q < p->program->queues; q++)
		all += p->queues[q].arena.bytes;
	if (all > p->run->memory / (uint64_t)p->run->world.nlocal)
		bb_calls_object(&p->calls, "rank %d: its buffers do not fit into memory",
				p->driver->rank);
	for (int q = 0; q < p->program->queues && status == BB_OK && !p->calls.objection[0]; q++) {
		struct bb_arena *arena = &p->queues[q].arena;

		if (!arena->bytes)
			continue;
		status = p->backend->alloc(p->rank, arena->bytes, (void **)&arena->memory);
		if (status != BB_OK)
			return bb_fail(&p->run->error, status, "rank %d cannot allocate %zu bytes",
				       p->driver->rank, arena->bytes);
	}
	return status;
}

bb_status bb_runner_open(struct bb_runner **runner, struct bb_run *run, struct bb_driver *driver,
			 const struct bb_workload *workload, struct bb_error *refusal)
{
	struct bb_runner *p = calloc(1, sizeof(*p));
	struct bb_error cause = {0};

	if (!p)
		return bb_no_memory(&run->error, "a program");
	p->run = run;
	p->driver = driver;
	p->backend = run->options.backend;
	p->rank = driver->handle;
	p->workload = workload;
	p->program = workload->program;
	p->calls = (struct bb_calls){
		.run = run, .driver = driver, .backend = p->backend, .program = p->program};
	/* Rank 0 checks the program for all. */
	bb_status status = bb_driver_leads(driver) ? bb_program_check(p->program, &cause) : BB_OK;
	BB_TRY(status, object_or_fail(p, status, &cause), failed);
	if (!p->backend->virtual) {
		BB_TRY(status, read_items(p), failed);
		BB_TRY(status, try_gemm(p), failed);
		BB_TRY(status, share_objections(p, refusal), failed);
		BB_TRY(status, open_queues(p), failed);
		BB_TRY(status, share_objections(p, refusal), failed);
	}
	BB_TRY(status, bb_calls_open(&p->calls), failed);
	if (!p->backend->virtual) {
		BB_TRY(status, open_arenas(p), failed);
		BB_TRY(status, bb_calls_ready(&p->calls), failed);
	}
	BB_TRY(status, share_objections(p, refusal), failed);
	*runner = p;
	return BB_OK;
failed:
	if (status != BB_EUNSUPPORTED) {
		p->failed = true;
		bb_driver_abandon(driver);
	}
	bb_runner_close(p);
	return status;
}

void bb_runner_close(struct bb_runner *p)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	if (!p)
		return;
	/* After a failure a device goes on. Running host functions are awaited; later ones find
	   OVER set in the runner, which stays until the process ends. */
	atomic_store(&p->over, p->failed);
	for (int q = 0; q < BB_PROGRAM_QUEUES; q++)
		p->backend->queue_close(p->queues[q].handle);
	while (p->failed && atomic_load(&p->inside) > 0)
		nanosleep(&moment, NULL);
	for (int e = 0; e < p->program->events && p->events; e++)
		p->backend->event_close(p->events[e]);
	for (size_t i = 0; i < p->nitems && p->items; i++)
		p->backend->event_close(p->items[i].event);
	p->backend->event_close(p->origin);
	for (int q = 0; q < BB_PROGRAM_QUEUES && !p->failed; q++)
		if (p->queues[q].arena.memory)
			p->backend->release(p->rank, p->queues[q].arena.memory,
					    p->queues[q].arena.bytes);
	bb_calls_close(&p->calls);
	free(p->events);
	free(p->order);
	if (p->failed && p->backend->gpu)
		return;
	free(p->dues);
	free(p->items);
	free(p);
}

/* ---- times of the operations ----------------------------------------------------------- */

static int by_end(const void *a, const void *b)
{
	const struct bb_item *x = *(struct bb_item *const *)a, *y = *(struct bb_item *const *)b;

	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

/* Gives WATCH the items by their ends, in seconds since START; each begins when the item before it
   in the queue has ended. */
static bb_status report_items(struct bb_runner *p, const struct bb_timeline_watch *watch,
			      double start)
{
	double done[BB_PROGRAM_QUEUES] = {0};
	bb_status status = BB_OK;

	for (size_t i = 0; i < p->nitems && status == BB_OK; i++) {
		struct bb_item *item = &p->items[i];
		const int q = item->operation.queue;

		p->order[i] = item;
		item->begin = done[q];
		item->end -= start;
		if (item->event)
			status = p->backend->gpu->elapsed(p->rank, p->origin, item->event,
							  &item->end);
		if (item->operation.act == BB_ACT_RECORD || item->end < item->begin)
			item->end = item->begin;
		done[q] = item->end;
	}
	if (status != BB_OK)
		return bb_fail(&p->run->error, status, "rank %d: its events cannot be read",
			       p->driver->rank);
	qsort(p->order, p->nitems, sizeof(struct bb_item *), by_end);
	for (size_t i = 0; i < p->nitems; i++) {
		const struct bb_item *item = p->order[i];
		const struct bb_operation *o = &item->operation;
		const int source = o->act == BB_ACT_RECV ? o->peer : item->source;

		watch->done(watch->own, p->driver->rank, item->index, o, item->begin, item->end,
			    source);
	}
	return BB_OK;
}

/* ---- in the queue, on any thread ---------------------------------------------------- */

static struct bb_runner_queue *queue_of(const struct bb_item *item)
{
	return &item->runner->queues[item->operation.queue];
}

/* Every host function begins here. After a failure a device's queue may still reach one: then it
   returns false, and the function does nothing. */
static bool enter(struct bb_runner *p)
{
	atomic_fetch_add(&p->inside, 1);
	if (!atomic_load(&p->over))
		return true;
	atomic_fetch_sub(&p->inside, 1);
	return false;
}

static void leave(struct bb_runner *p)
{
	atomic_fetch_sub(&p->inside, 1);
}

static bool is_over(const struct bb_runner *p)
{
	return atomic_load_explicit(&p->over, memory_order_relaxed) ||
	       bb_driver_is_stopping(p->driver);
}

/*
 * Sleepers wake late, on a busy machine very late. So that these delays do not add up, a sleep ends
 * at the due time of its queue: the sum of the durations so far, or the due time of the event that
 * the queue waited for, however late it woke.
 */
static void sleep_on(void *argument)
{
	const struct bb_item *item = argument;
	struct bb_runner_queue *queue = queue_of(item);
	double now;

	if (!enter(item->runner))
		return;
	queue->due = (item->chained ? queue->due : bb_clock_now()) + item->operation.seconds;
	while ((now = bb_clock_now()) < queue->due && !is_over(item->runner)) {
		const double until = fmin(queue->due, now + LONGEST_NAP), whole = floor(until);
		const struct timespec t = {.tv_sec = (time_t)whole,
					   .tv_nsec = (long)((until - whole) * 1e9)};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
	leave(item->runner);
}

/* Spins for CPU time: while another thread has the core, nothing is computed. */
static void spin_on(void *argument)
{
	const struct bb_item *item = argument;
	const double end = bb_clock_thread() + item->operation.seconds;

	if (!enter(item->runner))
		return;
	while (bb_clock_thread() < end && !is_over(item->runner))
		;
	leave(item->runner);
}

static void compute(void *argument)
{
	const struct bb_item *item = argument;
	struct bb_runner *p = item->runner;

	const double begin = bb_clock_now();

	if (!enter(p))
		return;
	p->workload->compute(p->workload->own, p->driver->rank, &item->operation);
	queue_of(item)->due += bb_clock_now() - begin;
	leave(p);
}

/* Before an event is recorded: passes on the due time of its queue. */
static void record_due(void *argument)
{
	const struct bb_item *item = argument;

	item->runner->dues[item->operation.event] = queue_of(item)->due;
}

/* After anything but a computation or a record: a message or collective is done now, a wait when
   its event was due. */
static void update_due(void *argument)
{
	const struct bb_item *item = argument;
	struct bb_runner_queue *queue = queue_of(item);

	if (item->operation.act != BB_ACT_WAIT)
		queue->due = bb_clock_now();
	else
		queue->due = fmax(queue->due, item->runner->dues[item->operation.event]);
}

static void stamp(void *argument)
{
	struct bb_item *item = argument;

	if (!enter(item->runner))
		return;
	item->end = item->runner->backend->now(item->runner->rank);
	leave(item->runner);
}

/* ---- by the driver ----------------------------------------------------------------------- */

static bb_status issue_computation(struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	const struct bb_backend *backend = p->backend;
	struct bb_rank *rank = p->rank;
	struct bb_queue *queue = queue_of(item)->handle;
	bb_status status;

	if (performs(p, &item->operation) && !backend->gpu)
		return backend->compute(rank, queue, compute, item);
	/* A function in a device's queue must not call the device, whose memory COMPUTE reads. Its
	   copies within the device are in the rank's main queue, for which no other queue waits. */
	if (performs(p, &item->operation)) {
		BB_TRY(status, backend->finish(rank, queue), out);
		compute(item);
		status = backend->finish(rank, NULL);
		goto out;
	}
	if (p->workload->stand_in == BB_GEMM && item->operation.flops == 0)
		return BB_OK; /* its seconds are 0 as well: see judge_operation */
	if (p->workload->stand_in == BB_GEMM)
		return backend->gpu->gemm(rank, queue, item->operation.flops, &p->run->error);
	if (p->workload->stand_in == BB_SPIN && backend->gpu)
		return backend->gpu->spin(rank, queue, item->operation.seconds);
	status = backend->compute(rank, queue,
				  p->workload->stand_in == BB_SPIN ? spin_on : sleep_on, item);
out:
	return status;
}

/* Returns the workload's buffers, or part of the queue's own memory. */
static struct bb_buffers buffers_of(const struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	const struct bb_arena *arena = &queue_of(item)->arena;
	struct bb_buffers b = {arena->memory, arena->memory};

	if (p->workload->buffers)
		p->workload->buffers(p->workload->own, p->driver->rank, &item->operation, &b.in,
				     &b.out);
	else if (item->operation.act == BB_ACT_COLLECTIVE)
		b = bb_arena_set(arena, &p->calls.of[item->index]->layout, 0);
	return b;
}

static bb_status issue_message(struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	const struct bb_operation *o = &item->operation;
	const struct bb_buffers b = buffers_of(item);
	const struct bb_message message = {
		.kind = o->act == BB_ACT_SEND   ? BB_MESSAGE_SEND
			: o->act == BB_ACT_RECV ? BB_MESSAGE_RECV
						: BB_MESSAGE_RECV_ANY,
		.group = p->calls.lanes[o->lane],
		.to = o->peer == BB_NO_PEER ? &p->items[o->answers].source : &o->peer,
		.from = o->peer,
		.source = &item->source,
		.out = b.in,
		.in = b.out,
		.bytes = bb_operation_bytes(o),
	};

	if (p->backend->messages)
		return p->backend->messages->pass(queue_of(item)->handle, &message);
	item->source = 0; /* a backend without data: any rank may be the source */
	return BB_OK;
}

static bb_status issue_operation(struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	const struct bb_operation *o = &item->operation;
	struct bb_queue *queue = queue_of(item)->handle;
	struct bb_buffers b;
	struct bb_call call;

	switch (o->act) {
	case BB_ACT_COMPUTE:
		return issue_computation(item);
	case BB_ACT_COLLECTIVE:
		if (!p->calls.of[item->index])
			return BB_OK;
		b = buffers_of(item);
		call = p->calls.of[item->index]->call;
		call.in = b.in;
		call.out = b.out;
		call.tmp = queue_of(item)->arena.memory;
		return p->backend->collective(p->calls.groups[o->group].handle, queue, &call);
	case BB_ACT_SEND:
	case BB_ACT_RECV:
	case BB_ACT_RECV_ANY:
		return issue_message(item);
	case BB_ACT_RECORD:
		return p->backend->event_record(p->rank, queue, p->events[o->event]);
	case BB_ACT_WAIT:
		break;
	}
	return p->backend->event_wait(p->rank, queue, p->events[o->event]);
}

static bb_status run_in_queue(struct bb_item *item, void (*function)(void *argument))
{
	const struct bb_runner *p = item->runner;

	return p->backend->compute(p->rank, queue_of(item)->handle, function, item);
}

/* A record takes no time and has no stamp: a stamp behind it could be later than what waited for
   the event. */
static bb_status issue(struct bb_item *item, bool watched)
{
	const struct bb_runner *p = item->runner;
	const bool records = item->operation.act == BB_ACT_RECORD;
	bb_status status = BB_OK;

	if (p->dues && records)
		BB_TRY(status, run_in_queue(item, record_due), out);
	BB_TRY(status, issue_operation(item), out);
	if (records)
		goto out;
	if (p->dues && item->operation.act != BB_ACT_COMPUTE)
		BB_TRY(status, run_in_queue(item, update_due), out);
	if (watched)
		status = item->event ? p->backend->event_record(p->rank, queue_of(item)->handle,
								item->event)
				     : run_in_queue(item, stamp);
out:
	return status;
}

/* ---- one run ----------------------------------------------------------------------------- */

static bb_status runner_run_real(struct bb_runner *p, const struct bb_timeline_watch *watch,
				 double *end)
{
	const struct bb_backend *backend = p->backend;
	struct bb_progress *progress = p->driver->progress;
	int queues;
	bb_status status;

	/* On a device, events record the end of each item; elsewhere the queues read the clock. */
	for (size_t i = 0; watch && backend->gpu && !p->origin && i < p->nitems; i++)
		if (p->items[i].operation.act != BB_ACT_RECORD && !p->items[i].event)
			BB_TRY(status,
			       backend->event_open(p->rank, &p->items[i].event, &p->run->error),
			       out);
	if (watch && backend->gpu && !p->origin)
		BB_TRY(status, backend->event_open(p->rank, &p->origin, &p->run->error), out);
	BB_TRY(status, backend->barrier(p->driver->world), out);
	const double start = backend->now(p->rank);
	for (int q = 0; q < p->program->queues; q++)
		p->queues[q].due = bb_clock_now();
	if (watch && p->origin) {
		BB_TRY(status, backend->event_record(p->rank, NULL, p->origin), out);
		BB_TRY(status, backend->finish(p->rank, NULL), out);
	}
	atomic_store_explicit(&progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	atomic_fetch_add_explicit(&progress->entered, 1, memory_order_relaxed);
	for (size_t i = 0; i < p->nitems && status == BB_OK; i++) {
		p->items[i].end = start;
		status = issue(&p->items[i], watch);
	}
	/* The first error of any queue. BB_ETIMEOUT, by which queues only notice that the run is
	   abandoned, counts last. */
	queues = status == BB_OK ? p->program->queues : 0;
	for (int q = 0; q < queues; q++) {
		const bb_status one = backend->finish(p->rank, p->queues[q].handle);

		if (status == BB_OK || (status == BB_ETIMEOUT && one != BB_OK))
			status = one;
	}
	*end = backend->now(p->rank) - start;
	atomic_store_explicit(&progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	if (status == BB_OK && watch)
		status = report_items(p, watch, start);
out:
	return status;
}

static bb_status runner_run_virtual(struct bb_runner *p, const struct bb_timeline_watch *watch,
				    double *end)
{
	const struct bb_virtual *virtual = p->backend->virtual;
	struct bb_end_record *sum = &p->run->end;
	bb_status status = p->backend->barrier(p->driver->world);

	if (status != BB_OK)
		return status;
	/* The clock without the fault; NAN: there is none. */
	const double before = virtual->evaluated(p->driver->world)->faultless;
	status = virtual->evaluate(p->rank, p->program, watch, end, &p->run->error);
	if (status != BB_OK)
		return status;
	const double faultless = virtual->evaluated(p->driver->world)->faultless - before;
	/* The program itself contains the delays of --fault slow. */
	if (p->run->options.fault.kind != BB_FAULT_SLOW && !isnan(faultless)) {
		sum->faulty_s = (isnan(sum->faulty_s) ? 0 : sum->faulty_s) + *end;
		sum->faultless_s = (isnan(sum->faultless_s) ? 0 : sum->faultless_s) + faultless;
	}
	return BB_OK;
}

bb_status bb_runner_run(struct bb_runner *p, const struct bb_timeline_watch *watch, double *end)
{
	const bb_status status = p->backend->virtual ? runner_run_virtual(p, watch, end)
						     : runner_run_real(p, watch, end);

	p->failed |= status != BB_OK;
	return status;
}

bb_status bb_runner_count(struct bb_runner *p, int rank, int work, struct bb_sent *sent)
{
	return bb_calls_count(&p->calls, rank, work, sent);
}
