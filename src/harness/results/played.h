/*
 * played.h - what is told of results in virtual time: how they were played,
 * what that took, and what a fault costs.
 */
#ifndef BB_HARNESS_RESULTS_PLAYED_H
#define BB_HARNESS_RESULTS_PLAYED_H

#include "core/strbuf.h"
#include "harness/results/sink.h"

struct bb_played; /* the results so far */

BB_MUST bb_status bb_played_open(struct bb_played **played);
void bb_played_close(struct bb_played *played); /* NULL: nothing */

/* Keep what is needed of RESULT, in virtual time, and what it took: PROCESSOR seconds of
   one play, and the most MEMORY, in bytes, that the process had taken by then. BB_EINTERNAL without
   memory. */
BB_MUST bb_status bb_played_add(struct bb_played *played, const struct bb_result_record *result,
				double processor, int64_t memory);

/* A record of the cost of each result. What the sinks say. */
BB_MUST bb_status bb_played_records(const struct bb_played *played, struct bb_sinks *sinks);

/* Append '#' lines: by what each algorithm was played and, with FAULT (NULL: none), the times out
   of place (in place where there is no other) without it and with it. */
void bb_played_text(const struct bb_played *played, const char *fault, struct bb_strbuf *out);

#endif
