/*
 * check.h - the checker of programs from inside. Known to program_*.c only.
 *
 *   check.c            every operation by itself, and a rank's among each other
 *   serial.c           all ranks together, each of which does one operation after the other
 */
#ifndef BB_PROGRAMS_CHECK_H
#define BB_PROGRAMS_CHECK_H

#include "programs/seats.h"

struct bb_program_check {
	const struct bb_program *program;
	struct bb_seats seats;
	struct bb_error *error;
};

/* Fail for OPERATION, which is number INDEX of RANK. */
bb_status bb_program_wrong(const struct bb_program_check *check, int rank, size_t index,
			   const struct bb_operation *operation, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* Of operations that are right by themselves: what meets is alike, and all of it ends. */
BB_MUST bb_status bb_program_run_serially(const struct bb_program_check *check);

#endif
