/*
 * duration.h - how long a plan takes.
 */
#ifndef BB_ACCEPTANCE_DURATION_H
#define BB_ACCEPTANCE_DURATION_H

#include "acceptance/session.h"
#include "core/strbuf.h"

/* Times of runs that were measured before: those of the steps in a folder of acceptance run. */
struct bb_durations {
	const char *dir; /* NULL: none */
	struct json_t *verdict;
};
/* Read DIR (NULL: none). BB_EUSAGE: it holds no verdict, or one of virtual time. Free DURATIONS. */
BB_MUST bb_status bb_durations_open(const char *dir, struct bb_durations *durations,
				    struct bb_error *error);
void bb_durations_free(struct bb_durations *durations);

/* Returns the seconds of a run of STEP on a healthy system: the mean of those measured, else what
   the profile says of the step, for narrower groups of the step that they replace. 0: unknown. */
double bb_duration_of(const struct bb_durations *durations, const struct bb_profile_step *step);

/* Append "10 min 30 s". */
void bb_duration_add(double seconds, struct bb_strbuf *out);
/* Append two lines: how many runs, and how long the steps of S take on real nodes while nothing
   fails, what a failure adds, and where these times come from. */
void bb_durations_add_total(const struct bb_durations *durations,
			    const struct bb_acceptance_session *s, struct bb_strbuf *out);

#endif
