/*
 * baseline.h - what a healthy system measured, to be held against later.
 */
#ifndef BB_ACCEPTANCE_BASELINE_H
#define BB_ACCEPTANCE_BASELINE_H

#include "acceptance/session.h"
#include "core/strbuf.h"

#define BB_BASELINE_BYTES (64 << 20)
#define BB_BASELINE_HISTORY 100 /* former baselines in a file */

/*
 * The baseline of a session whose steps all ran: for every metric of every result the mean, the
 * spread and the number of runs, with the date, versions and the topology's digest. BB_EBACKEND: a
 * step did not run; BB_EDATA: data was wrong. Such are no baseline.
 */
BB_MUST bb_status bb_baseline_make(const struct bb_acceptance_session *session,
				   struct bb_strbuf *out, struct bb_error *error);

/*
 * *FORMER = the baseline in the file PATH, which a new one of PROFILE replaces, to be released;
 * NULL: there is no file. BB_EUSAGE: it is no baseline, or that of another profile.
 */
BB_MUST bb_status bb_baseline_former(const char *path, const char *profile, struct json_t **former,
				     struct bb_error *error);
/* TEXT, a baseline, gets a history: FORMER and then the history of that, the oldest left out where
   they are too many. */
BB_MUST bb_status bb_baseline_add_history(struct bb_strbuf *text, const struct json_t *former,
					  struct bb_error *error);

/*
 * The baselines that the gates of SESSION name, each a file beside the profile. Adds to what is
 * told of their source. *FILES (as many as the steps have gates, one after the other) is set into
 * the evidence; bb_baselines_free it. BB_EUSAGE: a file is no baseline.
 */
struct bb_baselines {
	struct json_t **files;
	size_t n;
};
BB_MUST bb_status bb_baselines_open(struct bb_acceptance_session *session,
				    struct bb_baselines *baselines, struct bb_error *error);
/* The same of one gate: *FILE is to be released. Its path begins at that of PROFILE. */
BB_MUST bb_status bb_baseline_open(const char *profile, const struct bb_gate *gate,
				   struct json_t **file, struct bb_error *error);
void bb_baselines_free(struct bb_baselines *baselines);

#endif
