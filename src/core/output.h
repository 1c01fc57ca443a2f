/*
 * output.h - writes text to standard output, and files that one run at a time may write.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"

#include <stdio.h>

struct bb_output {
	const char *option; /* in front of errors, such as "--json"; NULL: none */
	const char *path;
	const char *folder; /* that contains PATH; NULL: any path */
	bool fresh;         /* the file must not be there yet */
};

/* Of a write that failed because of CAUSE, an errno: BB_EINTERNAL if the disk is full or broken,
   which no other command line mends; else BB_EUSAGE. */
BB_MUST bb_status bb_output_status(int cause);

/* After a failed write: drop what FILE buffers and, in a regular file, what is behind its first
   WHOLE bytes. Leaves errno. */
void bb_output_cut(FILE *file, long whole);

/* Whether it can be written; nothing is created. BB_EUSAGE with the reason. */
BB_MUST bb_status bb_output_check(const struct bb_output *output, struct bb_error *error);

/* True if A and B are one regular file, or will be; /dev/null may be given twice. */
bool bb_output_is_same(const char *a, const char *b);

/*
 * *FILE = the file, empty and locked until it is closed, so that a second run cannot write into it.
 * BB_EUSAGE: it cannot be written, or another run writes it; errno is EEXIST if a fresh one exists.
 * BB_EINTERNAL: the disk is full.
 */
BB_MUST bb_status bb_output_open(const struct bb_output *output, FILE **file,
				 struct bb_error *error);

/* Write TEXT to PATH or, if that is "-", to standard output, there without control characters.
   BB_EUSAGE as above; BB_EINTERNAL: not all of it could be written, and the file is empty, or TEXT
   has failed. */
BB_MUST bb_status bb_write_text(const char *path, struct bb_strbuf *text, struct bb_error *error);

/* The same to OUTPUT. */
BB_MUST bb_status bb_output_write(const struct bb_output *output, struct bb_strbuf *text,
				  struct bb_error *error);
