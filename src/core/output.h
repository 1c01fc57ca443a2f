/*
 * output.h - a text as a whole to where the user wants it.
 */
#ifndef BB_CORE_OUTPUT_H
#define BB_CORE_OUTPUT_H

#include "core/status.h"
#include "core/strbuf.h"

/* TEXT to PATH, or to standard output where that is "-". BB_EUSAGE: PATH cannot be opened;
   BB_EINTERNAL: not all of it could be written, or TEXT has failed. */
BB_MUST bb_status bb_write_text(const char *path, const struct bb_strbuf *text,
				struct bb_error *error);

#endif
