/*
 * standard.h - standard input, output and error, which a parent may have closed.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>

/*
 * The first call of every program. It opens descriptors 0 to 2 where they are closed, so that no
 * file gets one of their numbers, and their data. Reading or writing such a stand-in fails; only
 * text for standard error is lost. Afterwards a write beyond the limit of a file's size fails, too,
 * instead of ending the process. False: there is no /dev/null.
 */
BB_MUST bool bb_standard_open(void);

/* BB_EUSAGE where standard output was closed. */
BB_MUST bb_status bb_standard_output(struct bb_error *error);

/* "PROGRAM: SENTENCE" on standard error, without control characters. */
void bb_say(const char *program, const char *format, ...) __attribute__((format(printf, 2, 3)));
