/*
 * status.h - the outcome of a call, and the first cause of a failure.
 *
 * A status is the exit code it leads to, the same in every binary.
 */
#pragma once

#include <stdatomic.h>

typedef enum bb_status {
	BB_OK = 0,
	BB_EINTERNAL = 1,    /* a defect or an exhausted resource of busbench itself */
	BB_EUSAGE = 2,       /* the request makes no sense */
	BB_EBACKEND = 3,     /* the backend, the hardware or another rank is not usable */
	BB_ETIMEOUT = 4,     /* something did not happen in time */
	BB_EUNSUPPORTED = 5, /* nothing of the request can be done here */
	BB_EDATA = 7         /* wrong data, or below a gate */
} bb_status;

#define BB_MUST __attribute__((warn_unused_result))

/* Run CALL, keep its status in ST, and leave for LABEL unless it is BB_OK. */
#define BB_TRY(st, call, label)                                                                    \
	do {                                                                                       \
		if (((st) = (call)) != BB_OK)                                                      \
			goto label;                                                                \
	} while (0)

/*
 * The first cause of a failure, in words for the user. Zero-initialise it.
 * Several threads may report into one; the first wins and the others are dropped.
 */
#define BB_ERROR_TEXT 4096 /* has room for the names of many nodes */

struct bb_error {
	atomic_int claimed;
	atomic_int status;        /* bb_status; set after the text is complete */
	char text[BB_ERROR_TEXT]; /* ends in " ..." if it was longer */
};

/* Record STATUS and the sentence unless a cause is already there. Returns STATUS. */
bb_status bb_fail(struct bb_error *error, bb_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Record BB_EINTERNAL: out of memory for WHAT, such as "verdicts". */
bb_status bb_no_memory(struct bb_error *error, const char *what);

/* The status of the recorded cause, BB_OK if there is none. */
bb_status bb_error_status(const struct bb_error *error);
