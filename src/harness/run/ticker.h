/*
 * ticker.h - the one line of progress on a terminal: which case of how many, and the time left; of
 * what takes long, how far it is.
 */
#ifndef BB_HARNESS_RUN_TICKER_H
#define BB_HARNESS_RUN_TICKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_TICKER_TEXT 160

struct bb_ticker {
	bool on;           /* stderr is a terminal */
	atomic_bool shown; /* the watch may hide it, in a run that it ends without the drivers */
	size_t total;      /* cases */
	uint64_t bytes;    /* sum over all cases: what the time left is judged by */
	size_t done;
	uint64_t bytes_done;
	double started;
	char text[BB_TICKER_TEXT]; /* what is shown of the case; empty: there are no cases */
	double begun, told;        /* the case; when it was last told how far it is */
};

/* For TOTAL cases of BYTES in all; TICKER was zeros, or was started before. */
void bb_ticker_start(struct bb_ticker *ticker, size_t total, uint64_t bytes);
/* Show that NAME of SIZE bytes runs now; 0: it has no size. */
void bb_ticker_show(struct bb_ticker *ticker, const char *name, uint64_t size);
/* What takes long: DONE of ALL of WHAT is done; ALL 0: it is over. May be called often: what has
   begun a moment ago, or was told a moment ago, is not told. */
void bb_ticker_tell(struct bb_ticker *ticker, const char *what, size_t done, size_t all);
/* The case of SIZE bytes is done. */
void bb_ticker_step(struct bb_ticker *ticker, uint64_t size);
/* Take the line away: something else is about to be printed, or all is done. */
void bb_ticker_hide(struct bb_ticker *ticker);

#endif
