/*
 * gunzip.h - files that gzip compressed.
 */
#ifndef BB_ACCEPTANCE_GUNZIP_H
#define BB_ACCEPTANCE_GUNZIP_H

#include "core/status.h"

#include <stddef.h>

/*
 * Replaces *TEXT, *LENGTH bytes of the file PATH, by what gzip compressed to them, at most MOST
 * bytes with a NUL behind them; without gzip's mark they stay. BB_EUSAGE: broken, cut off or
 * larger; BB_EINTERNAL: no memory. *TEXT is still the caller's to free.
 */
BB_MUST bb_status bb_gunzip(const char *path, size_t most, char **text, size_t *length,
			    struct bb_error *error);

#endif
