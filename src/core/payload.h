/*
 * payload.h - the only decoder of data from other processes.
 *
 * All processes of a run are the same program, so a payload travels as the struct that it is. Its
 * table names each field and the values that are valid. A payload is decoded in place, before it
 * is used: a value out of range refuses it with a reason, and text is cleaned as a sentence is
 * (bb_printable_clean).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bb_payload_kind {
	BB_PAYLOAD_ANY,      /* bytes that are never used as a size, an index or text */
	BB_PAYLOAD_SIGNED,   /* an integer of 1, 2, 4 or 8 bytes, LOW to HIGH */
	BB_PAYLOAD_UNSIGNED, /* likewise */
	BB_PAYLOAD_REAL,     /* a double, LOW to HIGH, which INFINITY and NAN are not */
	BB_PAYLOAD_TEXT,     /* chars that contain a NUL */
	BB_PAYLOAD_STATUS,   /* an int32_t, one of enum bb_status */
	BB_PAYLOAD_SIGNAL,   /* an int32_t: 0, SIGHUP, SIGINT or SIGTERM, the signals that end a run
			      */
	BB_PAYLOAD_EXIT      /* an int32_t: a status, or 128 and such a signal */
};

struct bb_payload_field {
	const char *name; /* "the port" */
	enum bb_payload_kind kind;
	size_t offset, bytes; /* of the first */
	size_t count, stride; /* COUNT of them, STRIDE apart */
	int64_t low, high;
};

struct bb_payload {
	const char *name; /* "an offer" */
	size_t bytes;
	const struct bb_payload_field *fields; /* the last: {.name = NULL} */
	/* Do the fields fit each other? Each is valid by itself. NULL: they always do. */
	bool (*fits)(const void *payload);
};

/* One row of a table: MEMBER of struct TYPE. */
#define BB_PAYLOAD_FIELD(label, of, type, member, ...)                                             \
	{                                                                                          \
		.name = (label), .kind = (of), .offset = offsetof(type, member),                   \
		.bytes = sizeof(((type *)NULL)->member), .count = 1, __VA_ARGS__                   \
	}
/* Likewise of each of COUNT elements of MEMBER, an array. */
#define BB_PAYLOAD_EACH(label, of, type, member, inner, n, ...)                                    \
	{                                                                                          \
		.name = (label), .kind = (of), .offset = offsetof(type, member[0] inner),          \
		.bytes = sizeof(((type *)NULL)->member[0] inner), .count = (n),                    \
		.stride = sizeof(((type *)NULL)->member[0]), __VA_ARGS__                           \
	}

/* The table of a payload that is a single value of TYPE. */
#define BB_PAYLOAD_ONE(label, of, type, ...)                                                       \
	{                                                                                          \
		{.name = (label), .kind = (of), .bytes = sizeof(type), .count = 1, __VA_ARGS__},   \
		{                                                                                  \
			.name = NULL                                                               \
		}                                                                                  \
	}

#define BB_PAYLOAD_MOST_SECONDS 1000000000 /* 30 years: as nanoseconds, still an int64_t */

#define BB_PAYLOAD_WHY 160 /* bytes of a reason */

/*
 * Decode PAYLOAD in place. False: it is not valid, and WHY is the end of a sentence that begins
 * with who sent it: "sent an offer in which the port is 70000, not 1 to 65535".
 */
bool bb_payload_decode(const struct bb_payload *table, void *payload, char why[BB_PAYLOAD_WHY]);

/* Single numbers. */
extern const struct bb_payload bb_payload_number;  /* a double or a uint64_t of any value */
extern const struct bb_payload bb_payload_real;    /* a double, -1e18 to 1e18 */
extern const struct bb_payload bb_payload_seconds; /* a double, -1e9 to 1e9 */
extern const struct bb_payload bb_payload_status;  /* an int32_t */
extern const struct bb_payload bb_payload_flags;   /* an unsigned char, any bits */
