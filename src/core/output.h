/*
 * output.h - writing where the user wants it: text to standard output, and files, each of which one
 * run has for itself.
 */
#ifndef BB_CORE_OUTPUT_H
#define BB_CORE_OUTPUT_H

#include "core/status.h"
#include "core/strbuf.h"

#include <stdio.h>

struct bb_output {
	const char *option; /* in front of errors, such as "--json"; NULL: none */
	const char *path;
	const char *folder; /* that PATH begins at and may not leave; NULL: any path */
	bool fresh;         /* the file must not be there yet */
};

/* Whether it can be written; nothing is created. BB_EUSAGE with the reason. */
BB_MUST bb_status bb_output_check(const struct bb_output *output, struct bb_error *error);

/*
 * *FILE: empty, to be closed, and locked until then, so that a second run cannot write into it.
 * BB_EUSAGE: it cannot be written, or another run does so. errno is EEXIST where a fresh one is
 * there.
 */
BB_MUST bb_status bb_output_open(const struct bb_output *output, FILE **file,
				 struct bb_error *error);

/* TEXT to PATH, or to standard output where that is "-", then without anything that a terminal
   would obey. BB_EUSAGE as above; BB_EINTERNAL: not all of it could be written, or TEXT has
   failed. */
BB_MUST bb_status bb_write_text(const char *path, struct bb_strbuf *text, struct bb_error *error);

#endif
