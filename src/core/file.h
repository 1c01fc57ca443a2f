/*
 * file.h - reading. Every file that a user names is read by bb_file_read, every file of the kernel
 * by bb_kernel_read; nothing else in src opens a file to read it as text.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bb_file_request {
	const char *option; /* in front of errors, such as "--model"; NULL: none */
	const char *path;
	size_t most;     /* bytes; a larger file is refused */
	bool stdin_too;  /* the path "-" is standard input */
	int patience_ms; /* for the first byte of a pipe; 0: a minute */
};

/*
 * *TEXT = the LENGTH bytes of a regular file or a pipe, and a NUL behind them; to be freed. A
 * device or a folder is refused, since it might never end. BB_EUSAGE: the user can mend it;
 * BB_EINTERNAL: out of memory.
 */
BB_MUST bb_status bb_file_read(const struct bb_file_request *request, char **text, size_t *length,
			       struct bb_error *error);

/* The first ROOM - 1 bytes of a file in /proc or /sys into TEXT, and a NUL behind them. Returns
   their number; 0: the file is empty, or there is none. */
size_t bb_kernel_read(const char *path, char *text, size_t room);
/* The first line of such a file, without its end. */
bool bb_kernel_line(const char *path, char *line, size_t room);

/* Lets this process open as many files at once as its hard limit allows, unless it may open FILES
   already. Returns how many it may open. */
uint64_t bb_file_limit_raise(uint64_t files);
