/*
 * records.c - reads records, selects those of a gate, and finds counters that rose.
 */
#include "acceptance/records.h"

#include "core/array.h"
#include "core/file.h"
#include "core/jansson/json_file.h"
#include "core/printable.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

bb_status bb_read_whole(const char *path, size_t most, char **text, size_t *length,
			struct bb_error *error)
{
	const struct bb_file_request request = {.path = path, .most = most, .stdin_too = true};
	char part[64 << 10], size[BB_UNIT_TEXT];
	struct bb_strbuf out = {0};
	z_stream z = {.zalloc = NULL};
	bb_status st;

	BB_TRY(st, bb_file_read(&request, text, length, error), out);
	if (*length < 2 || memcmp(*text, "\x1f\x8b", 2) != 0)
		return BB_OK;
	/* What gzip compressed: there may be several files one behind the other. */
	z.next_in = (unsigned char *)*text;
	z.avail_in = (unsigned)*length;
	int code = inflateInit2(&z, 16 + MAX_WBITS);
	while (out.length <= most && !out.failed &&
	       (code == Z_OK || (code == Z_STREAM_END && z.avail_in > 0))) {
		if (code == Z_STREAM_END)
			inflateReset(&z);
		z.next_out = (unsigned char *)part;
		z.avail_out = sizeof(part);
		code = inflate(&z, Z_NO_FLUSH);
		bb_strbuf_add_bytes(&out, part, sizeof(part) - z.avail_out);
	}
	inflateEnd(&z);
	if (bb_strbuf_failed(&out))
		st = bb_no_memory(error, path);
	else if (out.length > most)
		st = bb_fail(error, BB_EUSAGE, "%s: larger than %s once unpacked", path,
			     bb_format_size(size, most));
	else if (code != Z_STREAM_END)
		st = bb_fail(error, BB_EUSAGE, "%s: compressed by gzip, but %s", path,
			     z.avail_in == 0 ? "cut off" : "broken");
	free(*text);
	*text = out.text;
	*length = out.length;
	if (st != BB_OK) {
		free(*text);
		*text = NULL;
	}
out:
	return st;
}

bool bb_records_add(struct bb_records *records, json_t *json, const json_t *run, const char *kind)
{
	const bool added = json && BB_ARRAY_PUT(records->list, records->n, records->room,
						(struct bb_read_record){json, run, kind});

	if (!added)
		json_decref(json);
	return added;
}

bb_status bb_records_read(const char *path, const char *text, size_t length,
			  struct bb_records *records, struct bb_error *error)
{
	const char *const end = text + length, *next;
	const json_t *run = NULL;

	for (int line = 1; text < end; line++, text = next) {
		const char *const stop = memchr(text, '\n', (size_t)(end - text)) ?: end;
		const char *begin, *kind;

		next = stop < end ? stop + 1 : end;
		begin = memmem(text, (size_t)(stop - text), "{\"schema\":", 10);
		if (!begin)
			continue;
		json_t *const json = bb_json_parse(begin, (size_t)(stop - begin), NULL);
		kind = bb_record_string(json, "kind");
		if (!kind || bb_record_int(json, "schema") < 1) {
			json_decref(json);
			return bb_fail(error, BB_EUSAGE,
				       "%s:%d: a record that is cut off or broken", path, line);
		}
		if (strcmp(kind, "run") == 0)
			run = json;
		if (!bb_records_add(records, json, run, kind))
			return bb_no_memory(error, path);
	}
	return BB_OK;
}

void bb_records_free(struct bb_records *records)
{
	for (size_t i = 0; i < records->n; i++)
		json_decref(records->list[i].json);
	free(records->list);
	*records = (struct bb_records){.n = 0};
}

const char *bb_record_string(const struct json_t *record, const char *name)
{
	return json_string_value(json_object_get(record, name));
}

double bb_record_number(const struct json_t *record, const char *name)
{
	const json_t *const value = json_object_get(record, name);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

int64_t bb_record_int(const struct json_t *record, const char *name)
{
	const json_t *const value = json_object_get(record, name);

	return json_is_integer(value) ? (int64_t)json_integer_value(value) : BB_NO_NUMBER;
}

bool bb_record_bool(const struct json_t *record, const char *name)
{
	return json_is_true(json_object_get(record, name));
}

const char *bb_metric_group_field(const struct bb_metric *metric)
{
	if (!metric->median && strcmp(metric->name, "busbw") == 0)
		return "group_busbw_GBps";
	return strcmp(metric->name, "time") == 0 ? "group_time_us" : NULL;
}

int bb_group_position(const struct json_t *groups, int64_t group)
{
	size_t i;
	json_t *g;

	/* Usually the groups are numbered from 0. */
	if (group >= 0 && (size_t)group < json_array_size(groups) &&
	    json_integer_value(json_array_get(groups, (size_t)group)) == group)
		return (int)group;
	json_array_foreach(groups, i, g)
	{
		if (json_integer_value(g) == group)
			return (int)i;
	}
	return -1;
}

double bb_record_group(const struct json_t *record, const struct bb_metric *metric, int64_t group)
{
	const char *const field = bb_metric_group_field(metric);
	const int i = bb_group_position(json_object_get(record, "groups"), group);
	const json_t *const value =
		field && i >= 0 ? json_array_get(json_object_get(record, field), (size_t)i) : NULL;

	return value ? json_number_value(value) : NAN;
}

double bb_record_slowest_group(const struct json_t *record, const struct bb_metric *metric,
			       int64_t n)
{
	double slowest = NAN;

	for (int64_t g = 0; g < n; g++) {
		const double v = bb_record_group(record, metric, g);

		slowest = metric->more_is_better ? fmin(slowest, v) : fmax(slowest, v);
	}
	return isnan(slowest) ? bb_record_metric(record, metric) : slowest;
}

double bb_record_metric(const struct json_t *record, const struct bb_metric *metric)
{
	const double value = bb_record_number(record, metric->field);
	const double median = bb_record_number(record, "p50_us");

	/* A run of one sample has no median but its mean. */
	if (!metric->median || isnan(median))
		return value;
	return value * bb_record_number(record, "time_us") / median;
}

const json_t *bb_records_first(const struct bb_records *records, const char *kind)
{
	for (size_t i = 0; i < records->n; i++)
		if (strcmp(records->list[i].kind, kind) == 0)
			return records->list[i].json;
	return NULL;
}

/* ---- selection ----------------------------------------------------------------------------- */

bool bb_record_says(const struct json_t *record, const char *name, const char *wanted)
{
	const char *const word = bb_record_string(record, name);

	return !wanted || (word && strcmp(word, wanted) == 0);
}

bool bb_where_selects(const struct bb_where *w, const struct bb_read_record *record)
{
	const json_t *const r = record->json, *const in_place = json_object_get(r, "in_place");
	const int64_t size = bb_record_int(r, "size_bytes");

	if (strcmp(record->kind, w->kind ? w->kind : "result") != 0)
		return false;
	if (!bb_record_says(r, "collective", w->collective) ||
	    !bb_record_says(r, "dtype", w->dtype) || !bb_record_says(r, "op", w->op) ||
	    !bb_record_says(r, "route", w->route) || !bb_record_says(r, "direction", w->direction))
		return false;
	/* A private copy of a rank is no pair, but a reference for pairs. */
	if (strcmp(record->kind, "pair") == 0 && bb_record_int(r, "from") >= 0 &&
	    bb_record_int(r, "from") == bb_record_int(r, "to"))
		return false;
	if (w->algorithm && !bb_record_says(r, "algorithm_asked", w->algorithm) &&
	    !bb_record_says(r, "algorithm", w->algorithm))
		return false;
	if (w->in_place >= 0 && (!in_place || json_is_true(in_place) != w->in_place))
		return false;
	if (w->nranks > 0 && bb_record_int(r, "nranks") != w->nranks)
		return false;
	return !w->size ||
	       (size >= 0 && (uint64_t)size >= w->least_bytes && (uint64_t)size <= w->most_bytes);
}

/* Fields that identify a record, in the order of a subject; "way" is that of schemas before 3. */
static const char *const identity[] = {
	"collective", "quantity", "model", "schedule", "strategy", "scheme", "way", "variant",
	"mode", "part", "stage", "grouping", "cap_bytes", "overlap", "bucket_view", "optimizer",
	"servers", "stages", "microbatches", "tp", "pp", "dp", "ep", "zero", "micro_batch", "skew",
	"capacity",
	/* of collectives */
	"algorithm_asked", "algorithm", "dtype", "op", "root", "size_bytes", "in_place",
	/* of pairs and memory */
	"from", "to", "place", "memory_from", "memory_to", "workers", "route", "p2p", "actor",
	"direction", "nranks", "matrix"};

const char *bb_record_subject(char text[BB_SUBJECT_TEXT], const struct bb_read_record *record,
			      enum bb_subject_scope scope)
{
	const char *requested = bb_record_string(record->json, "algorithm_asked");
	struct bb_strbuf s = {0};
	char size[BB_UNIT_TEXT];

	for (size_t i = 0; i < sizeof(identity) / sizeof(identity[0]); i++) {
		const char *const name = identity[i];
		const json_t *const value = json_object_get(record->json, name);
		const json_int_t n = json_integer_value(value);

		/* What auto chose may change from run to run. */
		if (!value || json_is_null(value) || (strcmp(name, "root") == 0 && n < 0) ||
		    (requested && strcmp(name, "algorithm") == 0) ||
		    (scope >= BB_SUBJECT_SIZES && strcmp(name, "size_bytes") == 0) ||
		    (scope >= BB_SUBJECT_ALGORITHMS && strcmp(name, "algorithm_asked") == 0))
			continue;
		bb_strbuf_add(&s, s.length > 0 ? " " : "");
		if (strcmp(name, "in_place") == 0)
			bb_strbuf_add(&s, json_is_true(value) ? "in-place" : "out-of-place");
		else if (strcmp(name, "size_bytes") == 0)
			bb_strbuf_add(&s, bb_format_size(size, (uint64_t)n));
		else if (strcmp(name, "nranks") == 0)
			bb_strbuf_addf(&s, "%" JSON_INTEGER_FORMAT " ranks", n);
		else if (json_is_integer(value))
			bb_strbuf_addf(&s, "%s %" JSON_INTEGER_FORMAT, name, n);
		else if (json_is_real(value))
			bb_strbuf_addf(&s, "%s %g", name, json_real_value(value));
		else if (json_is_string(value))
			bb_strbuf_add(&s, json_string_value(value));
	}
	snprintf(text, BB_SUBJECT_TEXT, "%s", bb_strbuf_text(&s));
	if (s.length >= BB_SUBJECT_TEXT) { /* cut between characters */
		size_t at = BB_SUBJECT_TEXT - 2;

		while (at > 0 && (text[at] & 0xc0) == 0x80)
			at--;
		if (bb_utf8_length(text + at) == 0)
			text[at] = '\0';
	}
	bb_strbuf_free(&s);
	return text;
}

bool bb_record_is(const struct bb_read_record *record, const char *subject)
{
	char text[BB_SUBJECT_TEXT];

	return strcmp(bb_record_subject(text, record, BB_SUBJECT_ALL), subject) == 0;
}

/* ---- counters -------------------------------------------------------------------------------- */

static int compare_rises(const void *left, const void *right)
{
	const struct bb_rise *const a = left, *const b = right;
	const int hosts = strcmp(a->host, b->host), devices = strcmp(a->device, b->device);

	if (a->class != b->class)
		return a->class < b->class ? -1 : 1;
	return hosts ? hosts : devices ? devices : strcmp(a->counter, b->counter);
}

bool bb_rises_have(const struct bb_rises *rises, const struct bb_rise *one)
{
	return rises->n > 0 &&
	       bsearch(one, rises->list, rises->n, sizeof(*one), compare_rises) != NULL;
}

bool bb_rises_add(struct bb_rises *rises, const struct bb_records *records)
{
	size_t n = 0;

	for (size_t i = 0; i < records->n; i++) {
		const struct json_t *const record = records->list[i].json;
		const char *const class = bb_record_string(record, "class");
		struct bb_rise one = {.host = bb_record_string(record, "host"),
				      .device = bb_record_string(record, "device"),
				      .counter = bb_record_string(record, "counter"),
				      .by = bb_record_int(record, "moved")};

		while (class && one.class < BB_COUNTER_FREQUENCY &&
		       strcmp(class, bb_counter_class_name(one.class)) != 0)
			one.class ++;
		if (strcmp(records->list[i].kind, "counter") != 0 || !class ||
		    one.class >= BB_COUNTER_FREQUENCY || !one.host || !one.device || !one.counter ||
		    one.by <= 0)
			continue;
		if (!BB_ARRAY_PUT(rises->list, rises->n, rises->room, one))
			return false;
	}
	if (rises->n > 0)
		qsort(rises->list, rises->n, sizeof(*rises->list), compare_rises);
	/* The rises of one counter, which are neighbours, become one. */
	for (size_t i = 0; i < rises->n; i++) {
		const struct bb_rise *const rise = &rises->list[i];
		struct bb_rise *const last = n > 0 ? &rises->list[n - 1] : NULL;

		if (!last || compare_rises(last, rise) != 0)
			rises->list[n++] = *rise;
		else if (__builtin_add_overflow(last->by, rise->by, &last->by))
			last->by = INT64_MAX;
	}
	rises->n = n;
	return true;
}
