/*
 * process.h - one command with a time limit, which leaves no process behind.
 */
#ifndef BB_ACCEPTANCE_PROCESS_H
#define BB_ACCEPTANCE_PROCESS_H

#include "core/status.h"

#include <stdbool.h>
#include <stdint.h>

struct bb_command {
	char *const
		*words; /* ends with NULL; the first is looked for in PATH unless it has a '/' */
	const char *out, *err; /* files for its output; written anew */
	uint64_t limit_ns;
};

struct bb_outcome {
	int status; /* exit status; 128 + n: signal n ended it */
	bool timed_out;
	int stopped_by; /* signal that interrupted this process and ended the command; 0: none */
	double wall_s;
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

#endif
