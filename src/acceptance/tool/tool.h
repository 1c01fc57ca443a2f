/*
 * tool.h - the binary acceptance: run a profile, make a baseline, judge numbers, compare runs.
 */
#ifndef BB_ACCEPTANCE_TOOL_TOOL_H
#define BB_ACCEPTANCE_TOOL_TOOL_H

#include "acceptance/session.h"
#include "core/option.h"

struct bb_acceptance_options {
	const char *output, *into, *resume, *cluster, *fault, *gpu, *collective;
	double tolerance;
	bool all, quick, full, strict, dry_run, no_report, quiet, help, help_markdown, version;
	int64_t repeats, nodes, ranks;
};

extern const struct bb_option bb_acceptance_run_rows[], bb_acceptance_baseline_rows[];
extern const struct bb_option bb_acceptance_check_rows[], bb_acceptance_compare_rows[];
extern const struct bb_option bb_acceptance_about_rows[];

/* Subjects: operands are the words without a dash. What is wrong is in ERROR; a status other than
   BB_OK without one is a verdict. *SIGNAL: what interrupted it, 0: nothing. */
struct bb_acceptance_job {
	const struct bb_acceptance_options *o;
	char *const *operands;
	int noperands;
	int signal;
};
BB_MUST bb_status bb_acceptance_run(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_baseline(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_check(struct bb_acceptance_job *job, struct bb_error *error);
BB_MUST bb_status bb_acceptance_compare(struct bb_acceptance_job *job, struct bb_error *error);

/* The page of a run whose verdict is written, by scripts/report.py of the source tree that the
   binary was built in. SAID gets its path, or why there is none. */
BB_MUST bb_status bb_acceptance_report(const struct bb_acceptance_session *session,
				       struct bb_strbuf *said, struct bb_error *error);

#endif
