/*
 * baseline.h - measurements of a healthy system, for later runs to be compared with.
 */
#ifndef BB_ACCEPTANCE_BASELINE_H
#define BB_ACCEPTANCE_BASELINE_H

#include "acceptance/session.h"
#include "core/strbuf.h"

#define BB_BASELINE_BYTES (64 << 20)
#define BB_BASELINE_HISTORY 100 /* former baselines in a file */

/*
 * Append to OUT the baseline of a session whose steps have all run: mean, spread and number of runs
 * of every metric of every result, with date, versions and the topology's digest; as its history
 * FORMER (NULL: none), then the history of FORMER, without the oldest if they are too many.
 * BB_EBACKEND: a step did not run; BB_EDATA: data was wrong.
 */
BB_MUST bb_status bb_baseline_make(const struct bb_acceptance_session *session,
				   const struct json_t *former, struct bb_strbuf *out,
				   struct bb_error *error);

/*
 * *FORMER = the baseline in the file PATH, which a new one of PROFILE replaces; the caller releases
 * it. NULL: there is no file. BB_EUSAGE: it holds no baseline, or that of another profile.
 */
BB_MUST bb_status bb_baseline_former(const char *path, const char *profile, struct json_t **former,
				     struct bb_error *error);

/*
 * Open those that the gates of SESSION name, each a file beside the profile, and set them into the
 * evidence. Their origin is added to the source of the gate. BB_EUSAGE: a file is no baseline.
 */
BB_MUST bb_status bb_baselines_open(struct bb_acceptance_session *session, struct bb_error *error);

#endif
