/*
 * check.h - the internals of the checker of programs. Known to src/programs only.
 *
 *   check.c            each operation, and the operations of each rank
 *   serial.c           all ranks together, each one operation after another
 */
#ifndef BB_PROGRAMS_CHECK_H
#define BB_PROGRAMS_CHECK_H

#include "programs/seats.h"

struct bb_program_check {
	const struct bb_program *program;
	struct bb_seats seats;
	struct bb_error *error;
};

/* Fails with BB_EINTERNAL for OPERATION, number INDEX of RANK; the reason is FORMAT. */
bb_status bb_program_wrong(const struct bb_program_check *check, int rank, size_t index,
			   const struct bb_operation *operation, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* Checks that matching operations agree and that everything ends. Each operation has passed its own
   check. */
BB_MUST bb_status bb_program_run_serially(const struct bb_program_check *check);

#endif
