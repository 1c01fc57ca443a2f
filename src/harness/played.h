/*
 * played.h - what is told of results in virtual time: how they were played, and what a fault costs.
 */
#ifndef BB_HARNESS_PLAYED_H
#define BB_HARNESS_PLAYED_H

#include "core/strbuf.h"
#include "harness/record.h"

struct bb_played; /* the results so far */

BB_MUST bb_status bb_played_open(struct bb_played **played);
void bb_played_close(struct bb_played *played); /* NULL: nothing */

/* Keep what is needed of RESULT, of a real run nothing. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_played_add(struct bb_played *played, const struct bb_result_record *result);

/* Append '#' lines: by what each algorithm was played and, with FAULT (NULL: none), the times out
   of place (in place where there is no other) without it and with it. */
void bb_played_text(const struct bb_played *played, const char *fault, struct bb_strbuf *out);

#endif
