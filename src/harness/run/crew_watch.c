/*
 * crew_watch.c - the watch over a crew. Every 20 ms its thread checks whether the run is over and
 * why, and tells the other processes.
 *
 * Process 0 alone decides for all. A signal or a lost process may be the consequence of a failure
 * whose report is still on its way, because a launcher that loses a process ends the others. So the
 * watch waits a moment before it takes such a sign for the cause.
 */
#include "harness/run/crew_watch.h"

#include "backends/library.h"
#include "core/clock.h"
#include "core/ranges.h"
#include "core/units.h"
#include "harness/run/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * The time limits. Each starts once, at a moment that struct watch holds:
 *
 *   start      limit      waits for                            afterwards
 *   troubled   SETTLE     the true cause of a sign             the sign is the cause (settle)
 *   expired    ANSWER     the others' progress, at process 0   it reports the deadline (find_out)
 *   expired    DIAGNOSIS  the library's diagnosis, likewise    it reports the deadline (find_out)
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

/* Appends the name of process PROC for the user. */
static void report_name(const struct bb_crew_config *config, int proc, struct bb_strbuf *out)
{
	if (config->name)
		config->name(config->argument, proc, out);
	else
		bb_strbuf_addf(out, "process %d", proc);
}

enum place {
	ARRIVED, /* at the last collective that any rank has entered */
	INSIDE,  /* arrived, and still in it */
	MISSING
};

static bool is_at(const struct bb_rank_progress *rank, unsigned long long most, enum place place)
{
	const bool arrived = rank->entered == most;

	if (!rank->known)
		return false;
	return place == MISSING ? !arrived : arrived && (place == ARRIVED || rank->inside);
}

/* Appends the ranks at PLACE; returns how many there are. */
static int name_ranks(const struct bb_rank_progress *ranks, int nranks, unsigned long long most,
		      enum place place, struct bb_strbuf *out)
{
	struct bb_ranges named = {.out = out};

	for (int r = 0; r < nranks; r++)
		if (is_at(&ranks[r], most, place))
			bb_ranges_add(&named, r);
	bb_ranges_end(&named);
	return named.n;
}

/* Appends the processes of which a rank did not answer. */
static void name_silent(const struct bb_crew_config *config, const struct bb_rank_progress *ranks,
			struct bb_strbuf *out)
{
	const int nlocal = config->world->nlocal;
	int silent = 0;

	for (int proc = 0; proc < config->world->nprocs; proc++) {
		bool known = true;

		for (int i = 0; i < nlocal; i++)
			known = known && ranks[proc * nlocal + i].known;
		if (known)
			continue;
		bb_strbuf_add(out, silent++ == 0 ? "; no answer from: " : ", ");
		report_name(config, proc, out);
	}
}

/* Appends "ranks that had arrived …", of the ranks whose progress is known. */
static void report_describe(const struct bb_rank_progress *ranks, int nranks, struct bb_strbuf *out)
{
	unsigned long long most = 0;
	struct bb_strbuf inside = {0};
	int arrived, still;

	for (int r = 0; r < nranks; r++)
		if (ranks[r].known && ranks[r].entered > most)
			most = ranks[r].entered;
	if (most == 0) {
		bb_strbuf_add(out, "no rank had entered a collective yet");
		return;
	}
	bb_strbuf_add(out, "ranks that had arrived at the last collective: ");
	arrived = name_ranks(ranks, nranks, most, ARRIVED, out);
	bb_strbuf_add(out, "; had not: ");
	if (name_ranks(ranks, nranks, most, MISSING, out) > 0)
		return;
	bb_strbuf_add(out, "none");
	still = name_ranks(ranks, nranks, most, INSIDE, &inside);
	if (still > 0 && still < arrived)
		bb_strbuf_addf(out, ", but still inside it: %s", bb_strbuf_text(&inside));
	else if (arrived == nranks)
		bb_strbuf_add(out, ", all are inside it or wait for another");
	bb_strbuf_free(&inside);
}

/* Writes to config->error that WHAT exceeded its time, which RANKS of the world had arrived at the
   last collective, which had not, which processes did not answer, and the library's DIAGNOSIS
   (empty: none). */
static void report_deadline(const struct bb_crew_config *config, const char *what,
			    const struct bb_rank_progress *ranks, const char *diagnosis)
{
	struct bb_strbuf known = {0}, silent = {0};
	char text[BB_UNIT_TEXT];

	report_describe(ranks, config->world->nranks, &known);
	name_silent(config, ranks, &silent);
	bb_fail(config->error, BB_ETIMEOUT, "%s did not end within %s (-T); %s%s%s%s", what,
		bb_format_duration(text, 1e-9 * (double)config->timeout_ns), bb_strbuf_text(&known),
		bb_strbuf_text(&silent), *diagnosis ? "; " : "", diagnosis);
	bb_strbuf_free(&known);
	bb_strbuf_free(&silent);
}

/* ---- the watch's state ------------------------------------------------------------------ */

struct watch {
	struct bb_crew *crew;
	const struct bb_crew_config *config;
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
	char gone_why[BB_NEWS_TEXT]; /* why its last message is not valid; empty: it sent none */
	char what[BB_WHAT_TEXT];     /* the case whose deadline expired */
	bool diagnosed;              /* process 0: the library has said all, which is in */
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
	report_name(w->config, w->gone, out);
	bb_strbuf_addf(out, " %s", *w->gone_why ? w->gone_why : BB_NEWS_GONE_WHY);
}

/* Adds the lost process to the error even if another cause was found first: it may be the reason.
 */
static void report_gone(struct watch *w)
{
	struct bb_error *error = w->config->error;
	struct bb_strbuf name = {0};
	size_t length;

	if (w->gone < 0 || w->gone_reported || w->stopped == 0 || !failed(w) || w->obeyed)
		return;
	w->gone_reported = true;
	name_gone(w, &name);
	length = strlen(error->text);
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
	atomic_store(&w->crew->stop, true);
	if (w->proc == 0)
		bb_control_send_stop(w->config->control, status, w->signal);
	w->config->backend->abort(w->config->context);
	report_gone(w);
}

void bb_watch_tell(const struct bb_crew_config *config)
{
	const bb_status status = bb_error_status(config->error);

	if (config->world->proc == 0)
		bb_control_send_stop(config->control, status, 0);
	else
		bb_control_send_failed(config->control, status, config->error->text);
}

/* Ends the run for a cause found in this process; process 0 reports it. */
static void end_and_tell(struct watch *w)
{
	if (w->proc != 0) {
		bb_watch_tell(w->config);
		w->told = w->now;
	}
	end(w, bb_error_status(w->config->error));
}

/* ---- messages of other processes ----------------------------------------------------------- */

/* True if TEXT names a rank of process PROC. */
static bool names_rank(const struct watch *w, int proc, const char *text)
{
	const int nlocal = w->config->world->nlocal;

	while ((text = strstr(text, "rank ")) != NULL) {
		char *behind;
		const long rank = strtol(text + 5, &behind, 10);

		if (behind != text + 5 && rank >= 0 && rank / nlocal == proc)
			return true;
		text += 5;
	}
	return false;
}

static void hear_failed(struct watch *w, const struct bb_news *news)
{
	struct bb_strbuf name = {0};

	if (w->stopped != 0 || failed(w))
		return;
	w->culprit = news->proc;
	if (!names_rank(w, news->proc, news->text)) {
		report_name(w->config, news->proc, &name);
		bb_strbuf_add(&name, ": ");
	}
	bb_fail(w->config->error, news->status, "%s%s", bb_strbuf_text(&name), news->text);
	bb_strbuf_free(&name);
}

static void hear_answer(struct watch *w, const struct bb_news *news)
{
	const struct bb_world *world = w->config->world;

	if (news->rank >= 0 && news->rank < world->nranks &&
	    news->rank / world->nlocal == news->proc)
		w->crew->ranks[news->rank] = (struct bb_rank_progress){
			.known = true, .inside = news->inside, .entered = news->entered};
}

static void receive_stop(struct watch *w, const struct bb_news *news)
{
	w->obeyed = true;
	if (w->stopped != 0)
		return;
	w->signal = news->signal;
	if (!news->signal)
		bb_fail(w->config->error, news->status, "process 0 ended the run");
	end(w, news->status);
}

static struct bb_rank_progress local_progress(const struct watch *w, int local)
{
	const struct bb_progress *p = &w->crew->progress[local];

	return (struct bb_rank_progress){.known = true,
					 .inside = atomic_load(&p->phase) == BB_PHASE_INSIDE,
					 .entered = atomic_load(&p->entered)};
}

/* Sends the progress of this process's ranks to process 0. */
static void send_answer(const struct watch *w)
{
	for (int i = 0; i < w->config->world->nlocal; i++) {
		const struct bb_rank_progress p = local_progress(w, i);

		bb_control_send_progress(w->config->control, w->config->world->first_rank + i,
					 p.entered, p.inside);
	}
}

static void hear_gone(struct watch *w, const struct bb_news *news)
{
	const int proc = news->proc;

	note(&w->troubled, w->now);
	if (w->gone < 0) {
		w->gone = proc;
		memcpy(w->gone_why, news->text, sizeof(w->gone_why));
	}
	w->common = w->common || w->proc != 0;
	w->culprit = w->culprit == proc ? -1 : w->culprit;
	/* Processes that go later do so because the run is over. */
	if (w->now < w->troubled + SETTLE_S)
		report_gone(w);
}

static void hear(struct watch *w)
{
	struct bb_news news;

	for (;;) {
		bb_control_poll(w->config->control, &news);
		switch (news.kind) {
		case BB_NEWS_NONE:
			return;
		case BB_NEWS_FAILED:
			hear_failed(w, &news);
			break;
		case BB_NEWS_LEFT:
			note(&w->troubled, w->now);
			if (w->left < 0) {
				w->left = news.proc;
				w->left_signal = news.signal;
			}
			break;
		case BB_NEWS_PROGRESS:
			hear_answer(w, &news);
			break;
		case BB_NEWS_STOP:
			receive_stop(w, &news);
			break;
		case BB_NEWS_REQUEST:
			send_answer(w);
			break;
		case BB_NEWS_GONE:
			hear_gone(w, &news);
			break;
		}
	}
}

/* ---- this process ----------------------------------------------------------------- */

static void catch_signal(struct watch *w, int signal)
{
	note(&w->signalled, w->now);
	if (w->signal || w->stopped != 0)
		return;
	note(&w->troubled, w->now);
	w->signal = signal;
	if (w->proc != 0)
		bb_control_send_left(w->config->control, signal);
}

static bool ended_unfinished(const struct bb_driver *driver)
{
	return atomic_load(&driver->progress->phase) == BB_PHASE_ENDED &&
	       !atomic_load(&driver->progress->finished);
}

/* Returns the first driver that ended without finishing; NULL: none. */
static const struct bb_driver *find_unfinished(const struct bb_crew *crew)
{
	const int quitter = atomic_load(&crew->quitter);
	const struct bb_driver *d = quitter ? &crew->drivers[quitter - 1] : crew->drivers;
	const struct bb_driver *end = quitter ? d + 1 : d + crew->config->world->nlocal;

	while (d < end && !ended_unfinished(d))
		d++;
	return d < end ? d : NULL;
}

/* Ends the run if a driver failed or ended early, or if another process failed. */
static void check_failures(struct watch *w)
{
	const struct bb_driver *gone;

	if (w->stopped != 0)
		return;
	gone = find_unfinished(w->crew);
	if (gone)
		bb_fail(w->config->error, BB_EBACKEND, "rank %d ended before the run was over",
			gone->rank);
	if (!failed(w))
		return;
	w->late = w->culprit >= 0 && !bb_control_reaches(w->config->control, w->culprit);
	end_and_tell(w);
}

static bool all_known(const struct watch *w)
{
	for (int r = 0; r < w->config->world->nranks; r++)
		if (!w->crew->ranks[r].known)
			return false;
	return true;
}

static bool has_diagnosis(const struct watch *w)
{
	return w->config->backend->library && w->config->backend->library->diagnose;
}

/* Process 0, after its deadline: reports the progress of all ranks, and what the library says, once
   that is known. */
static void find_out(struct watch *w)
{
	const struct bb_world *world = w->config->world;

	for (int i = 0; i < world->nlocal; i++)
		w->crew->ranks[world->first_rank + i] = local_progress(w, i);
	if (!w->diagnosed)
		w->diagnosed = !has_diagnosis(w) || w->config->backend->library->diagnose(
							    w->config->context, &w->diagnosis);
	if (((!all_known(w) && w->now < w->expired + ANSWER_S) || !w->diagnosed) &&
	    w->signalled == 0)
		return;
	report_deadline(w->config, w->what, w->crew->ranks, bb_strbuf_text(&w->diagnosis));
	end(w, BB_ETIMEOUT);
}

static void check_deadline(struct watch *w)
{
	struct bb_crew *crew = w->crew;
	const double stop = STOP_S + (has_diagnosis(w) ? BB_DIAGNOSIS_S : 0);
	double deadline;
	char what[BB_WHAT_TEXT];

	if (w->stopped != 0)
		return;
	pthread_mutex_lock(&crew->lock);
	/* Not a deadline that a driver began after the pause: nothing begins within one, so its
	   middle decides. */
	if (crew->deadline != 0 && crew->deadline_began < w->now - w->pause / 2)
		crew->deadline += w->pause;
	deadline = crew->deadline;
	memcpy(what, crew->what, sizeof(what));
	pthread_mutex_unlock(&crew->lock);
	if (w->expired == 0 && deadline != 0 && w->now > deadline && w->proc == 0) {
		w->expired = w->now;
		memcpy(w->what, what, sizeof(w->what));
		note(&w->troubled, w->now);
		bb_control_request_progress(w->config->control);
	} else if (deadline != 0 && w->now > deadline + stop && w->proc != 0) {
		w->common = true;
		bb_fail(w->config->error, BB_ETIMEOUT,
			"%s did not end in its time (-T), and process 0 does not respond", what);
		end_and_tell(w);
	}
	if (w->expired != 0)
		find_out(w);
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
		report_name(w->config, w->left, &name);
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

/* Returns when this process leaves a stopped run, whatever it still waits for. */
static double last_moment(const struct watch *w)
{
	const double grace = w->proc == 0 ? GRACE_LEADER_S : GRACE_SIGNALLED_S;
	double until = w->stopped + GRACE_SEVERAL_S;

	if (!w->config->control)
		return w->stopped + GRACE_S;
	if (awaits_stop(w))
		until = w->told + RECEIPT_S;
	if (lingers(w))
		until = w->stopped + LINGER_S;
	if (w->signalled != 0 && w->signalled + grace < until)
		until = w->signalled + grace;
	return until;
}

/* True if the watch ends. ENDED: all drivers had ended before this round of checks. */
static bool is_over(const struct watch *w, bool ended)
{
	if (w->stopped == 0)
		return ended && w->troubled == 0;
	if (w->now > last_moment(w))
		return true;
	if (!ended || awaits_stop(w) || lingers(w))
		return false;
	/* A late message may still name a lost process. */
	return !w->config->control || w->obeyed || w->now > w->troubled + SETTLE_S;
}

static bool is_silent(const struct watch *w, bool speaks_for_host)
{
	if (w->proc == 0)
		return w->late;
	if (w->obeyed || w->signal)
		return true;
	return w->common && !speaks_for_host;
}

struct bb_crew_outcome bb_watch_run(struct bb_crew *crew)
{
	struct watch w = {
		.crew = crew,
		.config = crew->config,
		.proc = crew->config->world->proc,
		.now = bb_clock_now(),
		.gone = -1,
		.left = -1,
		.culprit = -1,
	};
	bool ended;

	do {
		const int signal = bb_guard_wait(true);

		w.pause = bb_guard_pause(&w.now);
		ended = bb_crew_ended(crew);
		if (signal > 0)
			catch_signal(&w, signal);
		hear(&w);
		check_failures(&w);
		check_deadline(&w);
		settle(&w);
	} while (!is_over(&w, ended));
	bb_strbuf_free(&w.diagnosis);
	return (struct bb_crew_outcome){
		.caught = w.signal,
		.stuck = !ended,
		.silent = is_silent(&w, crew->config->speaks_for_host),
	};
}
