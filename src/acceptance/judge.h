/*
 * judge.h - what was measured held against gates.
 */
#ifndef BB_ACCEPTANCE_JUDGE_H
#define BB_ACCEPTANCE_JUDGE_H

#include "acceptance/confidence.h"
#include "acceptance/plan.h"
#include "acceptance/process.h"
#include "acceptance/profile.h"
#include "acceptance/records.h"

enum bb_verdict { BB_PASSED, BB_WARNED, BB_SKIPPED, BB_UNJUDGED, BB_FAILED };
/* "passed", "warning", "skipped", "could not judge", "failed" */
const char *bb_verdict_name(enum bb_verdict verdict);

/* One run of a step. */
struct bb_step_run {
	struct bb_outcome outcome;
	struct bb_records records;
	char trouble[256]; /* what it said where it failed, or why its records cannot be read */
};

/* All runs of a step, as many as it declares. */
struct bb_evidence {
	const struct bb_profile_step *step;
	const struct bb_plan_cluster *played; /* NULL, or without a cluster: it ran for real */
	struct bb_step_run *runs;
	size_t nruns;
	/* For gates that need it: */
	struct bb_step_run *predicted;         /* by the simulator, one for each gate; or NULL */
	const struct json_t *const *baselines; /* one for each gate; or NULL */
};

/* One subject under one gate. */
struct bb_judgement {
	const struct bb_profile_step *step;
	const struct bb_gate *gate; /* NULL: one that no profile asks for, OWN */
	const char *own;            /* bb_own_gate, "counters" or "fault" */
	char subject[BB_SUBJECT_TEXT];
	enum bb_verdict verdict;
	size_t runs;
	/* NAN where there is none. low is the confidence bound on the side that can fail, of
	   several runs; limit is what that, or the value of one run, must keep to. */
	double value, low, expected, limit;
	char reason[360];
};

struct bb_judgements {
	struct bb_judgement *list;
	size_t n, room;
};

/* What no profile needs to ask of STEP: correctness, of diagnose its diagnosis. */
const char *bb_own_gate(const struct bb_profile_step *step);

/*
 * Judge a step: its own gate first, then its gates in order, each subject by itself, and a warning
 * where a link of its hosts went down or made symbol errors. Appends to JUDGEMENTS, which is to be
 * freed. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_judge_step(const struct bb_evidence *evidence,
				struct bb_judgements *judgements, struct bb_error *error);
void bb_judgements_free(struct bb_judgements *judgements);

/* Passed with warnings is passed, unless STRICT. */
struct bb_totals {
	size_t of[BB_FAILED + 1];
	bb_status status; /* BB_OK, BB_EBACKEND: could not judge, BB_EDATA: below a gate */
};
struct bb_totals bb_judgements_total(const struct bb_judgements *judgements, bool strict);

/* ---- of judge.c's own ---- */

/* The next judgement, with what is known of it already; NULL without memory. */
struct bb_judgement *bb_judgement_add(struct bb_judgements *judgements,
				      const struct bb_evidence *evidence,
				      const struct bb_gate *gate);
/* What a gate expects of RECORD: NAN, and WHY. */
double bb_expected(const struct bb_evidence *evidence, const struct bb_gate *gate,
		   const struct bb_read_record *record, const char **why);
BB_MUST bb_status bb_judge_value(const struct bb_evidence *evidence, const struct bb_gate *gate,
				 struct bb_judgements *judgements, struct bb_error *error);
BB_MUST bb_status bb_judge_shape(const struct bb_evidence *evidence, const struct bb_gate *gate,
				 struct bb_judgements *judgements, struct bb_error *error);
BB_MUST bb_status bb_judge_counters(const struct bb_evidence *evidence,
				    struct bb_judgements *judgements, struct bb_error *error);

#endif
