/*
 * The watch over a crew: its thread looks around every 20 ms, decides when the run is over and
 * why, and tells the other processes.
 *
 * Process 0 alone decides for all. A signal or a process that is gone may be the consequence of
 * something that is still on its way here, because a launcher that loses a process ends the others:
 * before such a sign becomes the cause, the watch waits for a moment.
 */
#include "harness/run/crew_watch.h"

#include "core/clock.h"
#include "harness/run/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Which clock rules when. Each runs from a moment that is noted in struct watch, once:
 *
 *   from       for        what is waited for, and what comes then
 *   troubled   SETTLE     the true cause of a sign; then the sign is the cause (settle)
 *   expired    ANSWER     process 0 has asked the others how far they are; then it reports who has
 *                         not come (find_out)
 *   deadline   WORD       the others wait for process 0 to do so; then each ends by itself
 *   told       RECEIPT    process 0 ends the run because of a failure here; then it is taken to be
 *                         gone (is_over)
 *   stopped    GRACE      the drivers let go; then the process leaves without them (is_over)
 *   stopped    LINGER     process 0 leaves first, having ended the run: it must be able to speak
 *   signalled  GRACE_…    both of the former, cut short: who sends SIGTERM soon sends SIGKILL
 *
 * With several processes GRACE is short, as they may be stuck in a library for ever and a launcher
 * soon kills whoever is still there: Open MPI's 1.7 s after it lost a process, and 0.7 s after the
 * SIGTERM that it sends meanwhile.
 */
#define SETTLE_S 0.3
#define ANSWER_S 0.8
#define WORD_S 1.2
#define RECEIPT_S 1.
#define GRACE_S 2.5
#define GRACE_SEVERAL_S 0.7
#define LINGER_S 1.5
#define GRACE_SIGNALLED_S 0.5
#define GRACE_LEADER_S 0.35 /* of process 0, which has much to write then */

struct watch {
	struct bb_crew *crew;
	const struct bb_crew_config *config;
	int proc;
	double now;
	/* When something happened first; 0: it did not. */
	double troubled;  /* any sign that the run will not end well */
	double signalled; /* this process was */
	double expired;   /* process 0: its deadline; the others are asked */
	double told;      /* process 0 was told of a failure here */
	double stopped;   /* the run was abandoned, its cause is known */
	int signal;       /* that came, or that process 0 ended the run because of */
	int gone, left;   /* the first process that is gone, that left because of a signal; -1 */
	int left_signal;
	int culprit; /* process 0: whose failure is the cause; -1 */
	bool late;   /* it has not waited for process 0, which was held up, but spoken itself */
	bool obeyed; /* process 0 ended the run */
	bool common; /* the cause is one that every process but 0 sees */
	bool gone_said;
	char gone_why[BB_NEWS_TEXT]; /* what it sent last that is not valid; else empty */
	char what[BB_WHAT_TEXT];     /* expired */
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
	bb_report_name(w->config, w->gone, out);
	bb_strbuf_addf(out, " %s", *w->gone_why ? w->gone_why : BB_NEWS_GONE_WHY);
}

/* Who is gone is told even where something else came to light first: it may be why. */
static void say_gone(struct watch *w)
{
	struct bb_error *error = w->config->error;
	struct bb_strbuf name = {0};
	size_t length;

	if (w->gone < 0 || w->gone_said || w->stopped == 0 || !failed(w) || w->obeyed)
		return;
	w->gone_said = true;
	name_gone(w, &name);
	length = strlen(error->text);
	snprintf(error->text + length, sizeof(error->text) - length, "; %s", bb_strbuf_text(&name));
	bb_strbuf_free(&name);
}

/* The cause is in config->error, or it is w->signal: the run is over on all processes. */
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
	say_gone(w);
}

void bb_watch_tell(const struct bb_crew_config *config)
{
	const bb_status status = bb_error_status(config->error);

	if (config->world->proc == 0)
		bb_control_send_stop(config->control, status, 0);
	else
		bb_control_send_failed(config->control, status, config->error->text);
}

/* The cause was found in this process; process 0 shall tell it. */
static void end_and_tell(struct watch *w)
{
	if (w->proc != 0) {
		bb_watch_tell(w->config);
		w->told = w->now;
	}
	end(w, bb_error_status(w->config->error));
}

/* ---- what others have to say ----------------------------------------------------------- */

/* Does TEXT say which rank of process PROC it is about? */
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
		bb_report_name(w->config, news->proc, &name);
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

static void answer(const struct watch *w)
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
	/* Who goes later goes because the run is over. */
	if (w->now < w->troubled + SETTLE_S)
		say_gone(w);
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
			answer(w);
			break;
		case BB_NEWS_GONE:
			hear_gone(w, &news);
			break;
		}
	}
}

/* ---- what happens here ----------------------------------------------------------------- */

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

/* The driver that ended first of those that did not finish, NULL: none. */
static const struct bb_driver *find_unfinished(const struct bb_crew *crew)
{
	const int quitter = atomic_load(&crew->quitter);
	const struct bb_driver *d = quitter ? &crew->drivers[quitter - 1] : crew->drivers;
	const struct bb_driver *end = quitter ? d + 1 : d + crew->config->world->nlocal;

	while (d < end && !ended_unfinished(d))
		d++;
	return d < end ? d : NULL;
}

/* Has a driver failed or gone without finishing, or did another process fail? */
static void look_at_failures(struct watch *w)
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

/* Process 0: its deadline has passed; how far is everybody? */
static void find_out(struct watch *w)
{
	const struct bb_world *world = w->config->world;

	for (int i = 0; i < world->nlocal; i++)
		w->crew->ranks[world->first_rank + i] = local_progress(w, i);
	if (!all_known(w) && w->now < w->expired + ANSWER_S && w->signalled == 0)
		return;
	bb_report_deadline(w->config, w->what, w->crew->ranks);
	end(w, BB_ETIMEOUT);
}

static void look_at_clock(struct watch *w)
{
	struct bb_crew *crew = w->crew;
	double deadline;
	char what[BB_WHAT_TEXT];

	if (w->stopped != 0)
		return;
	pthread_mutex_lock(&crew->lock);
	deadline = crew->deadline;
	memcpy(what, crew->what, sizeof(what));
	pthread_mutex_unlock(&crew->lock);
	if (w->expired == 0 && deadline != 0 && w->now > deadline && w->proc == 0) {
		w->expired = w->now;
		memcpy(w->what, what, sizeof(w->what));
		note(&w->troubled, w->now);
		bb_control_request_progress(w->config->control);
	} else if (deadline != 0 && w->now > deadline + WORD_S && w->proc != 0) {
		w->common = true;
		bb_fail(w->config->error, BB_ETIMEOUT,
			"%s did not end in its time (-T), and process 0 says nothing", what);
		end_and_tell(w);
	}
	if (w->expired != 0)
		find_out(w);
}

/* Signs that had their time become the cause. */
static void settle(struct watch *w)
{
	const double settled = w->troubled + (w->config->control ? SETTLE_S : 0);
	struct bb_strbuf name = {0};

	if (w->stopped != 0 || w->troubled == 0 || w->now < settled || w->expired != 0)
		return;
	if (w->gone >= 0) {
		name_gone(w, &name);
		w->gone_said = true;
		bb_fail(w->config->error, BB_EBACKEND, "%s", bb_strbuf_text(&name));
	} else if (!w->signal) {
		bb_report_name(w->config, w->left, &name);
		bb_fail(w->config->error, BB_EBACKEND, "%s was ended by signal %d",
			bb_strbuf_text(&name), w->left_signal);
	}
	bb_strbuf_free(&name);
	end(w, w->gone < 0 && w->signal ? BB_ETIMEOUT : BB_EBACKEND);
}

/* ---- the watch ------------------------------------------------------------------------- */

/* Does this process wait for process 0 to end the run? */
static bool awaits_word(const struct watch *w)
{
	return w->told != 0 && w->gone < 0 && !w->obeyed;
}

/* Or, after that, to leave? */
static bool lingers(const struct watch *w)
{
	return w->obeyed && bb_control_reaches(w->config->control, 0);
}

/* When this process leaves, whoever has not let go or not spoken; the run is stopped. */
static double last_moment(const struct watch *w)
{
	const double grace = w->proc == 0 ? GRACE_LEADER_S : GRACE_SIGNALLED_S;
	double until = w->stopped + GRACE_SEVERAL_S;

	if (!w->config->control)
		return w->stopped + GRACE_S;
	if (awaits_word(w))
		until = w->told + RECEIPT_S;
	if (lingers(w))
		until = w->stopped + LINGER_S;
	if (w->signalled != 0 && w->signalled + grace < until)
		until = w->signalled + grace;
	return until;
}

/* ENDED: all drivers had, before anything else was looked at. */
static bool is_over(const struct watch *w, bool ended)
{
	if (w->stopped == 0)
		return ended && w->troubled == 0;
	if (w->now > last_moment(w))
		return true;
	if (!ended || awaits_word(w) || lingers(w))
		return false;
	/* A sign that comes late may still say who is gone. */
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
		.gone = -1,
		.left = -1,
		.culprit = -1,
	};
	bool ended;

	do {
		const int signal = bb_guard_wait(true);

		w.now = bb_clock_now();
		ended = bb_crew_ended(crew);
		if (signal > 0)
			catch_signal(&w, signal);
		hear(&w);
		look_at_failures(&w);
		look_at_clock(&w);
		settle(&w);
	} while (!is_over(&w, ended));
	return (struct bb_crew_outcome){
		.caught = w.signal,
		.stuck = !ended,
		.silent = is_silent(&w, crew->config->speaks_for_host),
	};
}
