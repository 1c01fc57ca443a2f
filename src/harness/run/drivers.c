/*
 * drivers.c - the drivers of a process, their exchanges, and the watch over them.
 */
#include "harness/run/drivers.h"

#include "backends/library.h"
#include "backends/virtual.h"
#include "core/clock.h"
#include "core/ranges.h"
#include "core/signals.h"
#include "core/units.h"
#include "harness/run/guard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- exchanges ----------------------------------------------------------- */

/*
 * A barrier of the local drivers. True for the last one to arrive: the others wait until it calls
 * let_go. The lock is not held meanwhile, because it may wait for other processes for ever, and the
 * watch needs the lock. *STATUS = BB_ETIMEOUT once the run is abandoned.
 */
static bool meet(struct bb_drivers *drivers, bb_status *status)
{
	bool last;

	pthread_mutex_lock(&drivers->lock);
	const unsigned passed = drivers->passed;
	/* Once the run is abandoned, other processes may never arrive. */
	last = !atomic_load(&drivers->stop) && ++drivers->waiting == drivers->config->world->nlocal;
	while (!last && drivers->passed == passed && !atomic_load(&drivers->stop))
		bb_clock_wait_moment(&drivers->changed, &drivers->lock);
	*status = last || drivers->passed != passed ? BB_OK : BB_ETIMEOUT;
	pthread_mutex_unlock(&drivers->lock);
	return last;
}

/* Let the others go on, with the STATUS of what the last one did. */
static void let_go(struct bb_drivers *drivers, bb_status status)
{
	const struct bb_launch *launch = drivers->config->launch;

	drivers->exchanged = status;
	if (status != BB_OK)
		bb_fail(drivers->config->error, status,
			"rank %d cannot exchange results with the other processes through %s%s%s",
			drivers->config->world->first_rank,
			launch->library ? launch->library : "its launch", launch->cause ? ": " : "",
			launch->cause ? launch->cause : "");
	pthread_mutex_lock(&drivers->lock);
	drivers->waiting = 0;
	drivers->passed++;
	pthread_cond_broadcast(&drivers->changed);
	pthread_mutex_unlock(&drivers->lock);
}

bb_status bb_driver_barrier(struct bb_driver *driver)
{
	struct bb_drivers *drivers = driver->drivers;
	struct bb_launch *launch = drivers->config->launch;
	bb_status status;

	if (meet(drivers, &status))
		let_go(drivers, bb_launch_barrier(launch));
	return status == BB_OK ? drivers->exchanged : status;
}

/* EVERYWHERE: else only process 0 receives the payloads. */
static bb_status exchange(struct bb_driver *driver, const struct bb_payload *table,
			  const void *mine, size_t count, bool everywhere, const void **all)
{
	struct bb_drivers *drivers = driver->drivers;
	const struct bb_world *world = drivers->config->world;
	const size_t bytes = count * table->bytes, nlocal = (size_t)world->nlocal;
	const size_t n = everywhere || world->proc == 0 ? (size_t)world->nranks : 0;
	const size_t room = bytes * (n + nlocal);
	bb_status status;

	if (meet(drivers, &status)) {
		if (room > drivers->capacity) {
			free(drivers->gathered);
			drivers->gathered = malloc(room);
			drivers->capacity = drivers->gathered ? room : 0;
		}
		drivers->given = drivers->gathered ? drivers->gathered + bytes * n : NULL;
		let_go(drivers,
		       drivers->gathered ? BB_OK : bb_no_memory(drivers->config->error, "results"));
	}
	if (status != BB_OK || drivers->exchanged != BB_OK)
		return status != BB_OK ? status : drivers->exchanged;
	memcpy(drivers->given + bytes * (size_t)driver->local, mine, bytes);
	if (meet(drivers, &status)) {
		const bb_status sent =
			bb_launch_gather(drivers->config->launch, table, drivers->given,
					 count * nlocal, everywhere, drivers->gathered);

		/* The driven rank stands for the virtual ranks that nobody drives. */
		for (size_t r = nlocal * (size_t)world->nprocs; r < n; r++)
			memcpy(drivers->gathered + r * bytes, drivers->gathered, bytes);
		let_go(drivers, sent);
	}
	*all = n > 0 ? drivers->gathered : NULL;
	return status != BB_OK ? status : drivers->exchanged;
}

bb_status bb_driver_gather(struct bb_driver *driver, const struct bb_payload *table,
			   const void *mine, size_t count, const void **all)
{
	return exchange(driver, table, mine, count, true, all);
}

bb_status bb_driver_collect(struct bb_driver *driver, const struct bb_payload *table,
			    const void *mine, size_t count, const void **all)
{
	return exchange(driver, table, mine, count, false, all);
}

bb_status bb_driver_most(struct bb_driver *driver, const struct bb_payload *table, double *values,
			 size_t n)
{
	const void *all;
	const bb_status status = bb_driver_gather(driver, table, values, n, &all);

	for (int r = 0; r < driver->drivers->config->world->nranks && status == BB_OK; r++)
		for (size_t i = 0; i < n; i++)
			values[i] = fmax(values[i], ((const double *)all)[(size_t)r * n + i]);
	return status;
}

static const struct bb_payload_field objection_fields[] =
	BB_PAYLOAD_ONE("the objection", BB_PAYLOAD_TEXT, char[BB_OBJECTION_TEXT]);
static const struct bb_payload objection_table = {"an objection", BB_OBJECTION_TEXT,
						  objection_fields, NULL};

bb_status bb_driver_share_objection(struct bb_driver *driver, char objection[BB_OBJECTION_TEXT])
{
	const void *all;
	const bb_status status = bb_driver_gather(driver, &objection_table, objection, 1, &all);
	const char(*objections)[BB_OBJECTION_TEXT] = all;
	int r = 0;

	if (status != BB_OK)
		return status;
	while (r + 1 < driver->drivers->config->world->nranks && !objections[r][0])
		r++;
	memcpy(objection, objections[r], BB_OBJECTION_TEXT);
	return BB_OK;
}

bb_status bb_drivers_exchange(void *own, int local, const struct bb_payload *table,
			      const void *mine, void *all)
{
	struct bb_drivers *drivers = *(struct bb_drivers *const *)own;
	const void *gathered;
	bb_status status = bb_driver_gather(&drivers->list[local], table, mine, 1, &gathered);

	if (status == BB_OK)
		memcpy(all, gathered, (size_t)drivers->config->world->nranks * table->bytes);
	return status;
}

void bb_driver_abandon(struct bb_driver *driver)
{
	const struct bb_drivers_config *config = driver->drivers->config;
	int none = 0;

	/* Only the first one counts: the others end because of it. */
	atomic_compare_exchange_strong(&driver->drivers->quitter, &none, 1 + driver->local);
	config->backend->abort(config->context);
}

bb_status bb_driver_finish(struct bb_driver *driver, bb_status status)
{
	if (status == BB_OK)
		status = bb_driver_barrier(driver);
	if (status != BB_OK)
		bb_driver_abandon(driver);
	return status;
}

void bb_driver_delay(struct bb_driver *driver, double seconds)
{
	const struct bb_virtual *virtual = driver->drivers->config->backend->virtual;

	if (virtual)
		virtual->delay(driver->handle, seconds);
	else
		bb_clock_pause(seconds, &driver->drivers->stop);
}

bool bb_driver_is_stopping(const struct bb_driver *driver)
{
	return atomic_load_explicit(&driver->drivers->stop, memory_order_relaxed) ||
	       atomic_load_explicit(&driver->drivers->quitter, memory_order_relaxed) != 0;
}

void bb_driver_deadline(struct bb_driver *driver, const char *what)
{
	struct bb_drivers *drivers = driver->drivers;
	const uint64_t timeout = drivers->config->timeout_ns;

	if (driver->local != 0)
		return;
	pthread_mutex_lock(&drivers->lock);
	drivers->deadline_began = bb_clock_now();
	drivers->deadline = timeout ? drivers->deadline_began + 1e-9 * (double)timeout : 0;
	snprintf(drivers->what, sizeof(drivers->what), "%s", what);
	pthread_mutex_unlock(&drivers->lock);
}

/* ---- the watch: its time limits -------------------------------------------------------- */

/*
 * Every 20 ms the thread of the watch checks whether the run is over and why, and tells the other
 * processes. Process 0 alone decides for all. A signal or a lost process may be the consequence of
 * a failure whose report is still on its way, because a launcher that loses a process ends the
 * others. So the watch waits a moment before it takes such a sign for the cause.
 *
 * The time limits. Each starts once, at a moment that struct watch holds:
 *
 *   start      limit      waits for                            afterwards
 *   troubled   SETTLE     the true cause of a sign             the sign is the cause (settle)
 *   expired    ANSWER     the others' progress, at process 0   it reports it (check_deadline)
 *   expired    DIAGNOSIS  the library's diagnosis, likewise    it reports it (check_deadline)
 *   deadline   STOP       process 0's report, at the others    each ends by itself
 *   told       RECEIPT    process 0 to end the failed run      it counts as lost (is_over)
 *   stopped    GRACE      the drivers to return                the process leaves (is_over)
 *   stopped    LINGER     process 0 to leave first             the process leaves (is_over)
 *   signalled  GRACE_…    both, but shorter: SIGKILL follows SIGTERM soon
 *
 * With several processes GRACE is short: they may be stuck in a library for ever, and a launcher
 * soon kills those that remain. Open MPI does so 1.7 s after it lost a process, and 0.7 s after the
 * SIGTERM that it sends meanwhile. DIAGNOSIS is of a library that has one (backends/library.h); the
 * others' STOP is then later by as much.
 */
#define SETTLE_S 0.3
#define ANSWER_S 0.8
#define STOP_S 1.2
#define RECEIPT_S 1.
#define GRACE_S 2.5
#define GRACE_SEVERAL_S 0.7
#define LINGER_S 1.5
#define GRACE_SIGNALLED_S 0.5
#define GRACE_LEADER_S 0.35 /* of process 0, which then writes the end of the output */

/* ---- the report when a deadline has passed ------------------------------------------- */

/* Appends the ranks that have arrived at the last collective, which is number MOST, or not, or are
   still INSIDE it; returns how many there are. */
static int name_ranks(const struct bb_drivers *drivers, unsigned long long most, bool arrived,
		      bool inside, struct bb_strbuf *out)
{
	struct bb_ranges named = {.out = out};

	for (int r = 0; r < drivers->config->world->nranks; r++) {
		const struct bb_rank_progress *rank = &drivers->ranks[r];

		if (rank->known && (rank->entered == most) == arrived && (rank->inside || !inside))
			bb_ranges_add(&named, r);
	}
	bb_ranges_end(&named);
	return named.n;
}

/* Writes to config->error that WHAT exceeded its time, which of the ranks whose progress is known
   had arrived at the last collective, which had not, which processes did not answer, and the
   library's DIAGNOSIS (empty: none). */
static void report_deadline(const struct bb_drivers *drivers, const char *what,
			    const char *diagnosis)
{
	const struct bb_drivers_config *config = drivers->config;
	const int nlocal = config->world->nlocal, nranks = config->world->nranks;
	const char *before = "; no answer from: ";
	struct bb_strbuf known = {0}, inside = {0};
	unsigned long long most = 0;
	int arrived = 0, late = 0, still = 0;
	char text[BB_UNIT_TEXT];

	for (int r = 0; r < nranks; r++)
		if (drivers->ranks[r].known && drivers->ranks[r].entered > most)
			most = drivers->ranks[r].entered;
	if (most == 0) {
		bb_strbuf_add(&known, "no rank had entered a collective yet");
	} else {
		bb_strbuf_add(&known, "ranks that had arrived at the last collective: ");
		arrived = name_ranks(drivers, most, true, false, &known);
		bb_strbuf_add(&known, "; had not: ");
		late = name_ranks(drivers, most, false, false, &known);
		still = name_ranks(drivers, most, true, true, &inside);
		bb_strbuf_add(&known, late > 0 ? "" : "none");
	}
	if (most > 0 && late == 0 && still > 0 && still < arrived)
		bb_strbuf_addf(&known, ", but still inside it: %s", bb_strbuf_text(&inside));
	else if (most > 0 && late == 0 && arrived == nranks)
		bb_strbuf_add(&known, ", all are inside it or wait for another");
	for (int proc = 0; proc < config->world->nprocs; proc++) {
		int answers = 0;

		for (int i = 0; i < nlocal; i++)
			answers += drivers->ranks[proc * nlocal + i].known;
		if (answers == nlocal)
			continue;
		bb_strbuf_add(&known, before);
		config->name(config->argument, proc, &known);
		before = ", ";
	}
	bb_fail(config->error, BB_ETIMEOUT, "%s did not end within %s (-T); %s%s%s", what,
		bb_format_duration(text, 1e-9 * (double)config->timeout_ns), bb_strbuf_text(&known),
		*diagnosis ? "; " : "", diagnosis);
	bb_strbuf_free(&known);
	bb_strbuf_free(&inside);
}

/* ---- the watch's state ------------------------------------------------------------------ */

struct watch {
	struct bb_drivers *drivers;
	const struct bb_drivers_config *config;
	int proc;
	double now, pause; /* of this turn, and before it (bb_guard_pause) */
	/* Moments, each the first of its kind; 0: not yet. */
	double troubled;  /* any sign of a failure */
	double signalled; /* this process got a signal */
	double expired;   /* process 0: the deadline passed, and the others were asked */
	double told;      /* process 0 was told of a failure here */
	double stopped;   /* the run was abandoned, and its cause is known */
	int signal;       /* the signal that ended the run; 0: none */
	int gone, left;   /* the first process that is lost, that left by a signal; -1: none */
	int left_signal;
	int culprit; /* process 0: the process whose failure is the cause; -1: none */
	bool late;   /* process 0: the culprit no longer waits and reports its failure itself */
	bool obeyed; /* process 0 ended the run */
	bool common; /* every process but 0 sees the same cause */
	bool gone_reported;
	char gone_why[BB_FRAME_TEXT]; /* why its last message is not valid; empty: it sent none */
	char what[BB_WHAT_TEXT];      /* the case whose deadline expired */
	bool diagnosed;               /* process 0: the library has said all, which is in */
	struct bb_strbuf diagnosis;
};

static void note(double *first, double now)
{
	if (*first == 0)
		*first = now;
}

static bool failed(const struct watch *w)
{
	return bb_error_status(w->config->error) != BB_OK;
}

/* ---- the end --------------------------------------------------------------------------- */

static void name_gone(const struct watch *w, struct bb_strbuf *out)
{
	w->config->name(w->config->argument, w->gone, out);
	bb_strbuf_addf(out, " %s", *w->gone_why ? w->gone_why : BB_FRAME_GONE_WHY);
}

/* Adds the lost process to the error even if another cause was found first: it may be the reason.
 */
static void report_gone(struct watch *w)
{
	struct bb_error *error = w->config->error;
	struct bb_strbuf name = {0};

	if (w->gone < 0 || w->gone_reported || w->stopped == 0 || !failed(w) || w->obeyed)
		return;
	w->gone_reported = true;
	name_gone(w, &name);
	const size_t length = strlen(error->text);
	snprintf(error->text + length, sizeof(error->text) - length, "; %s", bb_strbuf_text(&name));
	bb_strbuf_free(&name);
}

/* Ends the run on all processes. The cause is in config->error, or it is w->signal. */
static void end(struct watch *w, bb_status status)
{
	if (failed(w) && !w->obeyed) {
		status = bb_error_status(w->config->error);
		w->signal = 0;
	}
	note(&w->troubled, w->now);
	w->stopped = w->now;
	atomic_store(&w->drivers->stop, true);
	if (w->proc == 0)
		bb_control_send(w->config->control,
				&(struct bb_frame){.kind = BB_FRAME_STOP,
						   .status = (int32_t)status,
						   .signal = w->signal},
				"");
	w->config->backend->abort(w->config->context);
	report_gone(w);
}

/* Sends config->error to the other processes. */
static void tell_failure(const struct bb_drivers_config *config)
{
	const bool leads = config->world->proc == 0;
	struct bb_frame failure = {.kind = leads ? BB_FRAME_STOP : BB_FRAME_FAILED,
				   .status = (int32_t)bb_error_status(config->error)};

	bb_control_send(config->control, &failure, leads ? "" : config->error->text);
}

/* Ends the run for a cause found in this process; process 0 reports it. */
static void end_and_tell(struct watch *w)
{
	if (w->proc != 0) {
		tell_failure(w->config);
		w->told = w->now;
	}
	end(w, bb_error_status(w->config->error));
}

/* ---- messages of other processes ----------------------------------------------------------- */

static struct bb_rank_progress local_progress(const struct bb_drivers *drivers, int local)
{
	const struct bb_progress *p = &drivers->progress[local];

	return (struct bb_rank_progress){.known = true,
					 .inside = atomic_load(&p->phase) == BB_PHASE_INSIDE,
					 .entered = atomic_load(&p->entered)};
}

/* True if TEXT names a rank of process PROC. */
static bool names_rank(const struct watch *w, int proc, const char *text)
{
	while ((text = strstr(text, "rank ")) != NULL) {
		char *behind;
		const long rank = strtol(text += 5, &behind, 10);

		if (behind != text && rank >= 0 && rank / w->config->world->nlocal == proc)
			return true;
	}
	return false;
}

static void receive_messages(struct watch *w)
{
	const struct bb_drivers_config *config = w->config;
	const struct bb_world *world = config->world;
	const struct bb_frame *m;
	struct bb_strbuf name;
	int proc;

	while ((m = bb_control_poll(config->control, &proc)) != NULL) {
		switch (m->kind) {
		case BB_FRAME_FAILED:
			if (w->stopped != 0 || failed(w))
				break;
			w->culprit = proc;
			name = (struct bb_strbuf){0};
			if (!names_rank(w, proc, m->text)) {
				config->name(config->argument, proc, &name);
				bb_strbuf_add(&name, ": ");
			}
			bb_fail(config->error, (bb_status)m->status, "%s%s", bb_strbuf_text(&name),
				m->text);
			bb_strbuf_free(&name);
			break;
		case BB_FRAME_LEFT:
			note(&w->troubled, w->now);
			if (w->left < 0) {
				w->left = proc;
				w->left_signal = m->signal;
			}
			break;
		case BB_FRAME_PROGRESS:
			if (m->rank < world->nranks && m->rank / world->nlocal == proc)
				w->drivers->ranks[m->rank] =
					(struct bb_rank_progress){true, m->inside, m->entered};
			break;
		case BB_FRAME_STOP:
			/* Process 0 ends the run. */
			w->obeyed = true;
			if (w->stopped != 0)
				break;
			w->signal = m->signal;
			if (!m->signal)
				bb_fail(config->error, (bb_status)m->status,
					"process 0 ended the run");
			end(w, (bb_status)m->status);
			break;
		case BB_FRAME_REQUEST:
			for (int i = 0; i < world->nlocal; i++) {
				const struct bb_rank_progress p = local_progress(w->drivers, i);

				bb_control_send(config->control,
						&(struct bb_frame){.kind = BB_FRAME_PROGRESS,
								   .rank = world->first_rank + i,
								   .entered = p.entered,
								   .inside = p.inside},
						"");
			}
			break;
		case BB_FRAME_GONE:
			note(&w->troubled, w->now);
			if (w->gone < 0) {
				w->gone = proc;
				snprintf(w->gone_why, sizeof(w->gone_why), "%s", m->text);
			}
			w->common = w->common || w->proc != 0;
			w->culprit = w->culprit == proc ? -1 : w->culprit;
			/* Processes that go later do so because the run is over. */
			if (w->now < w->troubled + SETTLE_S)
				report_gone(w);
			break;
		default:
			break;
		}
	}
}

/* ---- this process ----------------------------------------------------------------- */

/* Ends the run if a driver failed or ended without finishing, or if another process failed. */
static void check_failures(struct watch *w)
{
	struct bb_drivers *drivers = w->drivers;
	const int quitter = atomic_load(&drivers->quitter);

	if (w->stopped != 0)
		return;
	for (int i = 0; i < w->config->world->nlocal; i++) {
		const struct bb_progress *p = &drivers->progress[i];

		/* The others end because of the one that quit first. */
		if ((!quitter || i == quitter - 1) && atomic_load(&p->phase) == BB_PHASE_ENDED &&
		    !atomic_load(&p->finished))
			bb_fail(w->config->error, BB_EBACKEND,
				"rank %d ended before the run was over", drivers->list[i].rank);
	}
	if (!failed(w))
		return;
	w->late = w->culprit >= 0 && !bb_control_reaches(w->config->control, w->culprit);
	end_and_tell(w);
}

/* After its deadline, process 0 asks all ranks for their progress and the library for its
   diagnosis, and reports both once they are known. */
static void check_deadline(struct watch *w)
{
	struct bb_drivers *drivers = w->drivers;
	const struct bb_world *world = w->config->world;
	const struct bb_library *library = w->config->backend->library;
	const bool diagnoses = library && library->diagnose;
	const double stop = STOP_S + (diagnoses ? BB_DIAGNOSIS_S : 0);
	bool known = true; /* the progress of all */
	double deadline;
	char what[BB_WHAT_TEXT];

	if (w->stopped != 0)
		return;
	pthread_mutex_lock(&drivers->lock);
	/* Not a deadline that a driver began after the pause: nothing begins within one, so its
	   middle decides. */
	if (drivers->deadline != 0 && drivers->deadline_began < w->now - w->pause / 2)
		drivers->deadline += w->pause;
	deadline = drivers->deadline;
	memcpy(what, drivers->what, sizeof(what));
	pthread_mutex_unlock(&drivers->lock);
	if (w->expired == 0 && deadline != 0 && w->now > deadline && w->proc == 0) {
		w->expired = w->now;
		memcpy(w->what, what, sizeof(w->what));
		note(&w->troubled, w->now);
		bb_control_send(w->config->control, &(struct bb_frame){.kind = BB_FRAME_REQUEST},
				"");
	} else if (deadline != 0 && w->now > deadline + stop && w->proc != 0) {
		w->common = true;
		bb_fail(w->config->error, BB_ETIMEOUT,
			"%s did not end in its time (-T), and process 0 does not respond", what);
		end_and_tell(w);
	}
	if (w->expired == 0)
		return;
	for (int i = 0; i < world->nlocal; i++)
		drivers->ranks[world->first_rank + i] = local_progress(drivers, i);
	for (int r = 0; r < world->nranks; r++)
		known &= drivers->ranks[r].known;
	if (!w->diagnosed)
		w->diagnosed = !diagnoses || library->diagnose(w->config->context, &w->diagnosis);
	if (((!known && w->now < w->expired + ANSWER_S) || !w->diagnosed) && w->signalled == 0)
		return;
	report_deadline(drivers, w->what, bb_strbuf_text(&w->diagnosis));
	end(w, BB_ETIMEOUT);
}

/* Takes a sign for the cause once SETTLE is over. */
static void settle(struct watch *w)
{
	const double settled = w->troubled + (w->config->control ? SETTLE_S : 0);
	struct bb_strbuf name = {0};

	if (w->stopped != 0 || w->troubled == 0 || w->now < settled || w->expired != 0)
		return;
	if (w->gone >= 0) {
		name_gone(w, &name);
		w->gone_reported = true;
		bb_fail(w->config->error, BB_EBACKEND, "%s", bb_strbuf_text(&name));
	} else if (!w->signal) {
		w->config->name(w->config->argument, w->left, &name);
		bb_fail(w->config->error, BB_EBACKEND, "%s was ended by signal %d",
			bb_strbuf_text(&name), w->left_signal);
	}
	bb_strbuf_free(&name);
	end(w, w->gone < 0 && w->signal ? BB_ETIMEOUT : BB_EBACKEND);
}

/* ---- the watch ------------------------------------------------------------------------- */

/* True if this process waits for process 0 to end the run. */
static bool awaits_stop(const struct watch *w)
{
	return w->told != 0 && w->gone < 0 && !w->obeyed;
}

/* True if, after that, it waits for process 0 to leave. */
static bool lingers(const struct watch *w)
{
	return w->obeyed && bb_control_reaches(w->config->control, 0);
}

/* True if the watch ends. ENDED: all drivers had ended before this round of checks. */
static bool is_over(const struct watch *w, bool ended)
{
	const double grace = w->proc == 0 ? GRACE_LEADER_S : GRACE_SIGNALLED_S;
	/* When this process leaves a stopped run, whatever it still waits for. */
	double until = w->stopped + (w->config->control ? GRACE_SEVERAL_S : GRACE_S);

	if (w->stopped == 0)
		return ended && w->troubled == 0;
	if (awaits_stop(w))
		until = w->told + RECEIPT_S;
	if (lingers(w))
		until = w->stopped + LINGER_S;
	if (w->config->control && w->signalled != 0)
		until = fmin(until, w->signalled + grace);
	if (w->now > until)
		return true;
	if (!ended || awaits_stop(w) || lingers(w))
		return false;
	/* A late message may still name a lost process. */
	return !w->config->control || w->obeyed || w->now > w->troubled + SETTLE_S;
}

static void *watch_main(void *argument)
{
	struct bb_drivers *drivers = argument;
	struct watch w = {
		.drivers = drivers,
		.config = drivers->config,
		.proc = drivers->config->world->proc,
		.now = bb_clock_now(),
		.gone = -1,
		.left = -1,
		.culprit = -1,
	};
	bool ended, silent = false;

	do {
		const int signal = bb_guard_wait(true);

		w.pause = bb_guard_pause(&w.now);
		ended = true;
		for (int i = 0; i < drivers->config->world->nlocal; i++)
			ended &= atomic_load(&drivers->progress[i].phase) == BB_PHASE_ENDED;
		if (signal > 0)
			note(&w.signalled, w.now);
		if (signal > 0 && !w.signal && w.stopped == 0) {
			note(&w.troubled, w.now);
			w.signal = signal;
			if (w.proc != 0)
				bb_control_send(
					w.config->control,
					&(struct bb_frame){.kind = BB_FRAME_LEFT, .signal = signal},
					"");
		}
		receive_messages(&w);
		check_failures(&w);
		check_deadline(&w);
		settle(&w);
	} while (!is_over(&w, ended));
	bb_strbuf_free(&w.diagnosis);
	if (w.proc == 0)
		silent = w.late;
	else
		silent = w.obeyed || w.signal || (w.common && !drivers->config->speaks_for_host);
	drivers->outcome = (struct bb_drivers_outcome){w.signal, !ended, silent};
	if (drivers->outcome.stuck)
		drivers->config->leave(drivers->config->argument, &drivers->outcome);
	return NULL;
}

/* ---- the drivers --------------------------------------------------------------------- */

static void *driver_main(void *argument)
{
	struct bb_driver *driver = argument;
	const struct bb_drivers_config *config = driver->drivers->config;
	bb_status status = config->backend->attach(config->context, driver->local, &driver->handle,
						   &driver->location, config->error);

	if (status == BB_OK) {
		status = config->drive(driver, config->argument);
		config->backend->detach(driver->handle);
	}
	/* Drivers that finished end together, unless releasing their resources failed. */
	if (status == BB_OK)
		status = bb_error_status(config->error);
	if (status == BB_OK && atomic_load(&driver->progress->finished))
		status = bb_driver_barrier(driver);
	/* BB_ETIMEOUT is no cause: the watch reports a driver that ended early. */
	if (status != BB_OK && status != BB_ETIMEOUT)
		bb_fail(config->error, status, "rank %d failed", driver->rank);
	atomic_store(&driver->progress->phase, BB_PHASE_ENDED);
	return NULL;
}

struct bb_drivers_outcome bb_drivers_run(const struct bb_drivers_config *config)
{
	struct bb_drivers drivers = {.config = config};
	const size_t n = (size_t)config->world->nlocal;
	const char *missing = "out of memory for its threads";
	sigset_t signals, before;
	size_t started = 1;
	pthread_t watch;

	pthread_mutex_init(&drivers.lock, NULL);
	bb_clock_open_moment(&drivers.changed);
	drivers.list = calloc(n, sizeof(*drivers.list));
	drivers.progress = aligned_alloc(64, n * sizeof(*drivers.progress));
	drivers.ranks = calloc((size_t)config->world->nranks, sizeof(*drivers.ranks));
	if (!drivers.list || !drivers.progress || !drivers.ranks)
		goto out;
	memset(drivers.progress, 0, n * sizeof(*drivers.progress));
	for (size_t i = 0; i < n; i++)
		drivers.list[i] = (struct bb_driver){
			.drivers = &drivers,
			.local = (int)i,
			.rank = config->world->first_rank + (int)i,
			.progress = &drivers.progress[i],
		};
	if (config->drivers)
		*config->drivers = &drivers;
	bb_driver_deadline(&drivers.list[0], "start-up");
	bb_signals_fill(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, &before);
	missing = "the system gives no thread to watch over it";
	if (pthread_create(&watch, NULL, watch_main, &drivers) != 0)
		goto unwatched;
	missing = NULL;
	/* The first driver runs on this thread. */
	while (started < n && pthread_create(&drivers.list[started].thread, NULL, driver_main,
					     &drivers.list[started]) == 0)
		started++;
	if (started < n)
		bb_fail(config->error, BB_EINTERNAL, "the system gives no thread for rank %d",
			drivers.list[started].rank);
	for (size_t i = started; i < n; i++)
		atomic_store(&drivers.progress[i].phase, BB_PHASE_ENDED);
	driver_main(&drivers.list[0]);
	for (size_t i = 1; i < started; i++)
		pthread_join(drivers.list[i].thread, NULL);
	bb_guard_wake(watch);
	pthread_join(watch, NULL);
unwatched:
	pthread_sigmask(SIG_SETMASK, &before, NULL);
out:
	if (missing) {
		bb_fail(config->error, BB_EINTERNAL, "rank %d: %s", config->world->first_rank,
			missing);
		tell_failure(config);
	}
	pthread_cond_destroy(&drivers.changed);
	pthread_mutex_destroy(&drivers.lock);
	free(drivers.gathered);
	free(drivers.list);
	free(drivers.progress);
	free(drivers.ranks);
	return drivers.outcome;
}
