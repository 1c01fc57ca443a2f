/*
 * ticker.h - one line of progress on a terminal: the case, the number of cases and the time left,
 * and the progress of a long evaluation.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_TICKER_TEXT 160

struct bb_ticker {
	bool on;           /* stderr is a terminal */
	atomic_bool shown; /* the line is on the terminal; the watch may hide it */
	size_t total;      /* cases */
	uint64_t bytes;    /* sum over all cases, from which the time left is estimated */
	size_t done;
	uint64_t bytes_done;
	double started;
	char text[BB_TICKER_TEXT]; /* the line of the case; empty: there are no cases */
	double begun, updated;     /* start of the case, and last display of its progress */
};

/* Start TICKER, zeroed or used before, for TOTAL cases of BYTES in all. */
void bb_ticker_start(struct bb_ticker *ticker, size_t total, uint64_t bytes);
/* Show the case NAME of SIZE bytes; 0: it has no size. */
void bb_ticker_show(struct bb_ticker *ticker, const char *name, uint64_t size);
/* Show that DONE of ALL of WHAT is done; ALL 0: WHAT is over. May be called often: nothing is shown
   shortly after the start of WHAT or the last display. */
void bb_ticker_progress(struct bb_ticker *ticker, const char *what, size_t done, size_t all);
/* Count the case of SIZE bytes as done. */
void bb_ticker_step(struct bb_ticker *ticker, uint64_t size);
/* Remove the line, before other output or at the end. */
void bb_ticker_hide(struct bb_ticker *ticker);
