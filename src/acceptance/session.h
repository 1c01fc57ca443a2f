/*
 * session.h - the runs of a profile, in a folder from which an interrupted session resumes.
 *
 *   DIR/profile.yaml          the profile, as it was read
 *   DIR/runs.jsonl            a line when the session begins, and one for each run that has ended
 *   DIR/records/STEP.N.jsonl  records of run N of a step; of the simulator: STEP.simG.jsonl
 *   DIR/logs/STEP.N.txt       its standard error
 *   DIR/files/                files that run: names with --csv or -J
 */
#pragma once

#include "acceptance/judge.h"
#include "acceptance/plan.h"
#include "acceptance/profile.h"
#include "core/share.h"

struct bb_acceptance_session { /* zero-initialise */
	struct bb_profile *profile;
	char profile_path[BB_SHARE_PATH], *text; /* as it was read; owned */
	struct json_t *before; /* owned: the run that is resumed without a profile; NULL: none */
	char dir[1024];        /* of the results */
	struct bb_places places;
	enum bb_mode mode;
	struct bb_scale scale;
	int64_t repeats; /* of each step; 0: as it declares */
	struct bb_plan_cluster simulated;
	bool resume, quiet;
	bool healthy; /* no step is run because an earlier one failed */
	/* Filled: */
	char run_id[40], start_time[40];
	struct bb_evidence *evidence; /* of the steps of this mode, in order */
	size_t n;
	int stopped_by; /* a signal; 0: none */
	bool cut_off;   /* runs.jsonl ends within a line */
};

/* The number of runs of STEP. */
int64_t bb_session_repeats(const struct bb_acceptance_session *s,
			   const struct bb_profile_step *step);

/* Make room for the runs of all steps of its mode. BB_EUSAGE: none belongs to it. */
BB_MUST bb_status bb_session_prepare(struct bb_acceptance_session *s, struct bb_error *error);
/* Make DIR, or read the runs of a session that is resumed. BB_EUSAGE: DIR holds another session, or
   holds one already. */
BB_MUST bb_status bb_session_open(struct bb_acceptance_session *s, struct bb_error *error);

/*
 * Run the runs that are missing, with progress on standard error, and read all records. A step that
 * fails does not keep the others from running. BB_OK also if SIGHUP, SIGINT or SIGTERM stopped it:
 * see stopped_by.
 */
BB_MUST bb_status bb_session_run(struct bb_acceptance_session *s, struct bb_error *error);
void bb_session_free(struct bb_acceptance_session *s); /* with its profile */

/* ---- a command with a time limit, which leaves no process behind ----------------------------- */

struct bb_command {
	char *const
		*words; /* ends with NULL; the first is looked for in PATH unless it has a '/' */
	const char *out, *err; /* files for its output; written anew */
	uint64_t limit_ns;
};

/*
 * Make this process wait for SIGHUP, SIGINT and SIGTERM instead of ending by them, and adopt
 * processes that its commands leave behind. Call it first.
 */
BB_MUST bb_status bb_commands_prepare(struct bb_error *error);

/*
 * Run COMMAND until it ends, its time is over, or SIGHUP, SIGINT or SIGTERM comes. Then everything
 * that it started is ended too, in its process group or not. BB_EUSAGE: it could not be started.
 */
BB_MUST bb_status bb_command_run(const struct bb_command *command, struct bb_outcome *outcome,
				 struct bb_error *error);
