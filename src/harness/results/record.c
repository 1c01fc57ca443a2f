/*
 * record.c - records as JSON lines, CSV and documentation.
 */
#include "harness/results/record.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static const void *at(const void *record, const struct bb_field *field)
{
	return (const char *)record + field->offset;
}

void bb_record_init(const struct bb_record_kind *kind, void *record)
{
	const int64_t absent = BB_ABSENT;
	const double nan = NAN;

	memset(record, 0, kind->size);
	for (const struct bb_field *field = kind->fields; field->name; field++) {
		if (field->type == BB_FIELD_DOUBLE)
			memcpy((char *)record + field->offset, &nan, sizeof(nan));
		else if (field->type == BB_FIELD_INT)
			memcpy((char *)record + field->offset, &absent, sizeof(absent));
	}
}

void bb_record_init_from(const struct bb_record_kind *kind, void *record,
			 const struct bb_record_kind *from_kind, const void *from)
{
	bb_record_init(kind, record);
	for (const struct bb_field *to = kind->fields; to->name; to++)
		for (const struct bb_field *f = from_kind->fields; f->name; f++)
			if (strcmp(to->name, f->name) == 0 && to->type == f->type)
				memcpy((char *)record + to->offset, at(from, f), f->size);
}

void bb_run_id(char text[BB_RUN_ID_TEXT])
{
	unsigned char bytes[(BB_RUN_ID_TEXT - 1) / 2];
	struct timespec now;

	_Static_assert(sizeof(uint64_t[2]) >= sizeof(bytes), "a time fills an identity");
	if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != (ssize_t)sizeof(bytes)) {
		clock_gettime(CLOCK_REALTIME, &now);
		memcpy(bytes,
		       (const uint64_t[]){(uint64_t)now.tv_sec + ((uint64_t)getpid() << 40),
					  (uint64_t)now.tv_nsec},
		       sizeof(bytes));
	}
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

void bb_time_text(char text[BB_TIME_TEXT])
{
	struct timespec now;
	struct tm utc;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	const size_t n = strftime(text, BB_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + n, BB_TIME_TEXT - n, ".%03ldZ", now.tv_nsec / 1000000);
}

/* ---- JSON -------------------------------------------------------------------------- */

void bb_numbers_json(struct bb_json *j, const char *key, const struct bb_numbers *numbers)
{
	bb_json_add_array(j, key);
	for (size_t i = 0; i < numbers->n; i++)
		bb_json_add_double(j, NULL, numbers->values[i]);
	bb_json_end(j);
}

static void json_value(struct bb_json *j, const char *key, const struct bb_field *field,
		       const void *value)
{
	const struct bb_words *words = value;
	const struct bb_rank_infos *infos = value;

	switch (field->type) {
	case BB_FIELD_STRING:
		bb_json_add_string(j, key, *(const char *const *)value);
		break;
	case BB_FIELD_TEXT:
		bb_json_add_string(j, key, value);
		break;
	case BB_FIELD_INT:
		bb_json_add_known(j, key, *(const int64_t *)value, BB_ABSENT);
		break;
	case BB_FIELD_DOUBLE:
		bb_json_add_double(j, key, *(const double *)value);
		break;
	case BB_FIELD_BOOL:
		bb_json_add_bool(j, key, *(const bool *)value);
		break;
	case BB_FIELD_NUMBERS:
		bb_numbers_json(j, key, value);
		break;
	case BB_FIELD_WORDS:
		bb_json_add_array(j, key);
		for (size_t i = 0; i < words->n; i++)
			bb_json_add_string(j, NULL, words->words[i]);
		bb_json_end(j);
		break;
	case BB_FIELD_RANKS:
		bb_json_add_array(j, key);
		for (size_t i = 0; i < infos->n; i++) {
			const struct bb_location *place = &infos->ranks[i].location;

			bb_json_add_object(j, NULL);
			bb_json_add_int(j, "rank", (int64_t)i);
			bb_json_add_int(j, "group", infos->ranks[i].group);
			bb_json_add_int(j, "pid", place->pid);
			bb_json_add_string(j, "host", place->host);
			bb_json_add_int(j, "device", place->device);
			bb_json_add_known(j, "numa", place->numa < 0 ? BB_ABSENT : place->numa,
					  BB_ABSENT);
			bb_json_add_string(j, "bus", place->bus);
			bb_json_add_string(j, "name", place->name);
			bb_json_end(j);
		}
		bb_json_end(j);
		break;
	}
}

void bb_record_json(struct bb_strbuf *out, const struct bb_record_kind *kind, const char *run_id,
		    const void *record)
{
	struct bb_json j;

	bb_json_init(&j, out, false);
	bb_json_add_object(&j, NULL);
	bb_json_add_int(&j, "schema", BB_SCHEMA);
	bb_json_add_string(&j, "kind", kind->name);
	bb_json_add_string(&j, "run_id", run_id);
	for (const struct bb_field *field = kind->fields; field->name; field++)
		json_value(&j, field->name, field, at(record, field));
	bb_json_end(&j);
}

/* ---- CSV --------------------------------------------------------------------------- */

/* RFC 4180: in quotes when it holds a comma, a quote or a line break; quotes are doubled. */
static void csv_string(struct bb_strbuf *out, const char *text)
{
	if (!text)
		return;
	if (!strpbrk(text, ",\"\r\n")) {
		bb_strbuf_add(out, text);
		return;
	}
	bb_strbuf_add(out, "\"");
	for (; *text; text++) {
		bb_strbuf_add_bytes(out, text, 1);
		if (*text == '"')
			bb_strbuf_add(out, "\"");
	}
	bb_strbuf_add(out, "\"");
}

static void csv_value(struct bb_strbuf *out, const struct bb_field *field, const void *value)
{
	const struct bb_numbers *numbers = value;
	const struct bb_words *words = value;
	struct bb_json json = {.out = out};
	struct bb_strbuf line = {0};

	switch (field->type) {
	case BB_FIELD_STRING:
		csv_string(out, *(const char *const *)value);
		break;
	case BB_FIELD_TEXT:
		csv_string(out, value);
		break;
	case BB_FIELD_NUMBERS:
		for (size_t i = 0; i < numbers->n; i++) {
			bb_strbuf_add(out, i > 0 ? ";" : "");
			if (isfinite(numbers->values[i]))
				bb_json_add_double(&json, NULL, numbers->values[i]);
		}
		break;
	case BB_FIELD_WORDS:
		for (size_t i = 0; i < words->n; i++)
			bb_strbuf_addf(&line, "%s%s", i > 0 ? " " : "", words->words[i]);
		csv_string(out, bb_strbuf_text(&line));
		break;
	case BB_FIELD_RANKS:
		bb_strbuf_addf(out, "%zu", ((const struct bb_rank_infos *)value)->n);
		break;
	default: /* as in JSON, but for what is not known */
		json_value(&(struct bb_json){.out = &line}, NULL, field, value);
		if (strcmp(bb_strbuf_text(&line), "null") != 0)
			bb_strbuf_add(out, bb_strbuf_text(&line));
		break;
	}
	out->failed |= bb_strbuf_failed(&line);
	bb_strbuf_free(&line);
}

void bb_record_csv_header(struct bb_strbuf *out, const struct bb_record_kind *kind)
{
	bb_strbuf_add(out, "schema,run_id");
	for (const struct bb_field *field = kind->fields; field->name; field++)
		bb_strbuf_addf(out, ",%s", field->name);
	bb_strbuf_add(out, "\n");
}

void bb_record_csv_row(struct bb_strbuf *out, const struct bb_record_kind *kind, const char *run_id,
		       const void *record)
{
	bb_strbuf_addf(out, "%d,", BB_SCHEMA);
	csv_string(out, run_id);
	for (const struct bb_field *field = kind->fields; field->name; field++) {
		bb_strbuf_add(out, ",");
		csv_value(out, field, at(record, field));
	}
	bb_strbuf_add(out, "\n");
}

/* ---- kinds of every benchmark ------------------------------------------------------------ */

#define BB_RECORD bb_run_record
BB_RECORD_KIND(bb_record_run, BB_RUN_FIELDS, "run",
	       "Once, first: what is needed to repeat the run.");

#undef BB_RECORD
#define BB_RECORD bb_skip_record
BB_RECORD_KIND(bb_record_skip, BB_SKIP_FIELDS, "skip",
	       "A requested case that was not run, with the reason.");

#undef BB_RECORD
#define BB_RECORD bb_end_record
BB_RECORD_KIND(bb_record_end, BB_END_FIELDS, "end", "Once, last: the verdict.");
