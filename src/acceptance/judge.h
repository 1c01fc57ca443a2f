/*
 * judge.h - judges measurements by gates.
 */
#pragma once

#include "acceptance/confidence.h"
#include "acceptance/plan.h"
#include "acceptance/profile.h"
#include "acceptance/records.h"

enum bb_verdict { BB_PASSED, BB_WARNED, BB_SKIPPED, BB_UNJUDGED, BB_FAILED };
extern const char *const bb_verdict_names[]; /* [verdict] */

struct bb_outcome {
	int status; /* exit status; 128 + n: signal n ended it */
	bool timed_out;
	int stopped_by; /* signal that interrupted this process and ended the command; 0: none */
	double wall_s;
};

/* One run of a step. */
struct bb_step_run {
	struct bb_outcome outcome;
	struct bb_records records;
	char trouble[BB_ERROR_TEXT]; /* its message if it failed, or why its records cannot be read
				      */
};

/* What a gate needs to know what to expect. */
struct bb_gate_expectation {
	struct bb_step_run predicted; /* by the simulator */
	struct json_t *baseline;      /* owned */
};

/* All runs of a step, as many as it declares. */
struct bb_evidence {
	const struct bb_profile_step *step;
	/* NULL, or without a cluster: the step ran on real nodes. */
	const struct bb_plan_cluster *simulated;
	struct bb_step_run *runs;
	size_t nruns;
	bool unneeded;                        /* it was not run, because no earlier step failed */
	struct bb_gate_expectation *expected; /* of each gate; NULL: no gate needs one */
};

/* A position in the records of all runs of a step; zero-initialise. */
struct bb_evidence_cursor {
	size_t run; /* of the record that bb_evidence_next returned last */
	size_t next;
};
/* The next record of E; NULL after the last. */
const struct bb_read_record *bb_evidence_next(const struct bb_evidence *e,
					      struct bb_evidence_cursor *cursor);

/* One subject under one gate. */
struct bb_judgement {
	const struct bb_profile_step *step;
	const struct bb_gate *gate; /* NULL: it needs no profile */
	/* Of the gate, or its shape, else "correctness", "diagnosis", "counters", "culprit" or
	   "fault" */
	const char *metric;
	char subject[BB_SUBJECT_TEXT];
	enum bb_verdict verdict;
	size_t runs;
	/* NAN if there is none. low is the confidence bound, over several runs, on the side that
	   can fail; low, or the value of one run, must keep to limit. */
	double value, low, expected, limit;
	char *reason; /* owned, once it has a verdict */
};

struct bb_judgements { /* zero-initialise */
	struct bb_judgement *list;
	size_t n, room;
	bool failed; /* a judgement is missing: out of memory */
};

/*
 * Judge a step: its own gate first, then its gates in order, each subject by itself. Adds a warning
 * if a link of its hosts went down or made symbol errors. Appends to JUDGEMENTS. BB_EINTERNAL
 * without memory.
 */
BB_MUST bb_status bb_judge_step(const struct bb_evidence *evidence,
				struct bb_judgements *judgements, struct bb_error *error);
void bb_judgements_free(struct bb_judgements *judgements);

/* A run that passed with warnings has passed, unless STRICT. */
struct bb_totals {
	size_t of[BB_FAILED + 1];
	bb_status status; /* BB_OK, BB_EBACKEND: could not judge, BB_EDATA: below a gate */
};
struct bb_totals bb_judgements_total(const struct bb_judgements *judgements, bool strict);

/* ---- for the files that judge --------------------------------------------------------------- */

/* A judgement without numbers, which still needs a verdict: of the subject NAME under GATE (NULL:
   its metric), or without a gate of the metric NAME. */
struct bb_judgement bb_judgement_of(const struct bb_evidence *evidence, const struct bb_gate *gate,
				    const char *name);
/* Give J its verdict and the reason, in place of those that it has. */
void bb_judgement_decide(struct bb_judgement *j, enum bb_verdict verdict, const char *reason, ...)
	__attribute__((format(printf, 3, 4)));
/* Move J to the end of JUDGEMENTS, which own its reason then; without memory they have failed. */
void bb_judgements_add(struct bb_judgements *judgements, const struct bb_judgement *j);
