/*
 * records.h - records of perf binaries, read from their files.
 */
#pragma once

#include "acceptance/profile.h"
#include "core/status.h"
#include "core/strbuf.h"
#include "topology/probes/counters.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_RECORDS_BYTES (256 << 20) /* the largest file that is read */

struct json_t; /* of jansson */

struct bb_read_record {
	struct json_t *json;      /* owned by the records */
	const struct json_t *run; /* the run record before it; NULL: none */
	const char *kind;
};

struct bb_records { /* zero-initialise */
	struct bb_read_record *list;
	size_t n, room;
};

/*
 * Append to RECORDS those in the LENGTH bytes of TEXT, one a line; a launcher's prefix and its own
 * lines are skipped. BB_EUSAGE names the first line that begins as a record and is none; RECORDS
 * hold those before it.
 */
BB_MUST bb_status bb_records_read(const char *path, const char *text, size_t length,
				  struct bb_records *records, struct bb_error *error);
/* Append JSON, which is given away, a record of KIND in RUN. Returns false without memory. */
bool bb_records_add(struct bb_records *records, struct json_t *json, const struct json_t *run,
		    const char *kind);
void bb_records_free(struct bb_records *records);

/* *TEXT = the file PATH, with a NUL behind it, of at most MOST bytes, also if gzip compressed it;
   free it. BB_EUSAGE: it cannot be read. */
BB_MUST bb_status bb_read_whole(const char *path, size_t most, char **text, size_t *length,
				struct bb_error *error);

/* Members of RECORD; NULL, NAN, BB_NO_NUMBER or false if it has none of that type. */
#define BB_NO_NUMBER INT64_MIN
const char *bb_record_string(const struct json_t *record, const char *name);
/* True if member NAME of RECORD is the string WANTED, or WANTED is NULL. */
bool bb_record_says(const struct json_t *record, const char *name, const char *wanted);
double bb_record_number(const struct json_t *record, const char *name);
int64_t bb_record_int(const struct json_t *record, const char *name);
bool bb_record_bool(const struct json_t *record, const char *name);
double bb_record_metric(const struct json_t *record, const struct bb_metric *metric);
/* Returns the field with the metric of each group of a split world; NULL: none. */
const char *bb_metric_group_field(const struct bb_metric *metric);
/* Returns the index of GROUP in GROUPS, the numbers of the groups of a record; -1: none. */
int bb_group_position(const struct json_t *groups, int64_t group);
/* The metric of group GROUP in RECORD; NAN: RECORD has none. */
double bb_record_group(const struct json_t *record, const struct bb_metric *metric, int64_t group);
/* The metric of the slowest of groups 0 to N - 1 in RECORD; without groups that of RECORD. */
double bb_record_slowest_group(const struct json_t *record, const struct bb_metric *metric,
			       int64_t n);

/* True if WHERE selects RECORD. */
bool bb_where_selects(const struct bb_where *where, const struct bb_read_record *record);

/*
 * TEXT = the fields that identify RECORD within its run: "all_reduce ring float sum 1M out-of-place
 * 8 ranks"; in SCOPE, without what differs there. Returns TEXT.
 */
#define BB_SUBJECT_TEXT 320
enum bb_subject_scope {
	BB_SUBJECT_ALL,
	BB_SUBJECT_SIZES,     /* records of several sizes */
	BB_SUBJECT_ALGORITHMS /* of several sizes and algorithms */
};
const char *bb_record_subject(char text[BB_SUBJECT_TEXT], const struct bb_read_record *record,
			      enum bb_subject_scope scope);
/* Whether SUBJECT is that of RECORD, with all fields. */
bool bb_record_is(const struct bb_read_record *record, const char *subject);

/* The first record of that kind, or NULL, which has no members. */
const struct json_t *bb_records_first(const struct bb_records *records, const char *kind);

/* ---- counters of hosts that rose during runs ------------------------------------------------- */

/* A counter of a host that rose. */
struct bb_rise {
	enum bb_counter_class class;
	const char *host, *device, *counter; /* the record's */
	int64_t by;                          /* in all runs together; above 0 */
};

struct bb_rises {             /* zero-initialise; free the list */
	struct bb_rise *list; /* each counter once: the gravest class first, then by name */
	size_t n, room;
};

/* Add the counters of RECORDS that mean trouble, so neither frequencies nor traffic. Returns false
   without memory. */
BB_MUST bool bb_rises_add(struct bb_rises *rises, const struct bb_records *records);
/* Whether RISES have the counter of ONE. */
bool bb_rises_have(const struct bb_rises *rises, const struct bb_rise *one);
