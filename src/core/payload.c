#include "core/payload.h"

#include "core/printable.h"
#include "core/signals.h"
#include "core/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct bb_payload_field number_fields[] = {
	{.name = "a number", .kind = BB_PAYLOAD_ANY, .bytes = sizeof(uint64_t), .count = 1},
	{.name = NULL}};
static const struct bb_payload_field real_fields[] = {{.name = "a number",
						       .kind = BB_PAYLOAD_REAL,
						       .bytes = sizeof(double),
						       .count = 1,
						       .low = -1000000000000000000,
						       .high = 1000000000000000000},
						      {.name = NULL}};
static const struct bb_payload_field seconds_fields[] = {{.name = "a time in seconds",
							  .kind = BB_PAYLOAD_REAL,
							  .bytes = sizeof(double),
							  .count = 1,
							  .low = -BB_PAYLOAD_MOST_SECONDS,
							  .high = BB_PAYLOAD_MOST_SECONDS},
							 {.name = NULL}};
static const struct bb_payload_field status_fields[] = {
	{.name = "the status", .kind = BB_PAYLOAD_STATUS, .bytes = sizeof(int32_t), .count = 1},
	{.name = NULL}};
static const struct bb_payload_field flags_fields[] = {
	{.name = "a flag", .kind = BB_PAYLOAD_ANY, .bytes = 1, .count = 1}, {.name = NULL}};

const struct bb_payload bb_payload_number = {"a number", sizeof(uint64_t), number_fields, NULL};
const struct bb_payload bb_payload_real = {"a number", sizeof(double), real_fields, NULL};
const struct bb_payload bb_payload_seconds = {"a time", sizeof(double), seconds_fields, NULL};
const struct bb_payload bb_payload_status = {"a status", sizeof(int32_t), status_fields, NULL};
const struct bb_payload bb_payload_flags = {"flags", 1, flags_fields, NULL};

/* ---- numbers --------------------------------------------------------------------------- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a short number is the low bytes");

static uint64_t read_unsigned(const char *at, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return value;
}

static int64_t read_signed(const char *at, size_t bytes)
{
	const int shift = 64 - 8 * (int)bytes;

	return (int64_t)(read_unsigned(at, bytes) << shift) >> shift;
}

static bool refuse_number(const struct bb_payload_field *f, char why[BB_PAYLOAD_WHY],
			  const char *number)
{
	snprintf(why, BB_PAYLOAD_WHY, "%s is %s, not %" PRId64 " to %" PRId64, f->name, number,
		 f->low, f->high);
	return false;
}

static bool decode_signed(const struct bb_payload_field *f, const char *at,
			  char why[BB_PAYLOAD_WHY])
{
	const int64_t value = read_signed(at, f->bytes);
	char number[24];

	if (value >= f->low && value <= f->high)
		return true;
	snprintf(number, sizeof(number), "%" PRId64, value);
	return refuse_number(f, why, number);
}

static bool decode_unsigned(const struct bb_payload_field *f, const char *at,
			    char why[BB_PAYLOAD_WHY])
{
	const uint64_t value = read_unsigned(at, f->bytes);
	char number[24];

	if (value >= (uint64_t)f->low && value <= (uint64_t)f->high)
		return true;
	snprintf(number, sizeof(number), "%" PRIu64, value);
	return refuse_number(f, why, number);
}

static bool decode_real(const struct bb_payload_field *f, const char *at, char why[BB_PAYLOAD_WHY])
{
	double value;
	char number[24];

	memcpy(&value, at, sizeof(value));
	if (value >= (double)f->low && value <= (double)f->high)
		return true;
	snprintf(number, sizeof(number), "%g", value);
	return refuse_number(f, why, number);
}

static bool is_status(int64_t value)
{
	switch (value) {
	case BB_OK:
	case BB_EINTERNAL:
	case BB_EUSAGE:
	case BB_EBACKEND:
	case BB_ETIMEOUT:
	case BB_EUNSUPPORTED:
	case BB_EDATA:
		return true;
	default:
		return false;
	}
}

static bool decode_signal(const struct bb_payload_field *f, const char *at,
			  char why[BB_PAYLOAD_WHY])
{
	const int64_t value = read_signed(at, sizeof(int32_t));

	if (value == 0 || bb_signal_ends(value))
		return true;
	snprintf(why, BB_PAYLOAD_WHY, "%s is %" PRId64 ", which ends no run", f->name, value);
	return false;
}

static bool decode_status(const struct bb_payload_field *f, const char *at,
			  char why[BB_PAYLOAD_WHY])
{
	const int64_t value = read_signed(at, sizeof(int32_t));

	if (is_status(value) || (f->kind == BB_PAYLOAD_EXIT && bb_signal_ends(value - 128)))
		return true;
	snprintf(why, BB_PAYLOAD_WHY, "%s is %" PRId64 ", which no exit status of busbench is",
		 f->name, value);
	return false;
}

/* ---- text ------------------------------------------------------------------------------ */

static bool decode_text(const struct bb_payload_field *f, char *at, char why[BB_PAYLOAD_WHY])
{
	if (memchr(at, '\0', f->bytes)) {
		bb_printable_clean(at);
		return true;
	}
	snprintf(why, BB_PAYLOAD_WHY, "%s has no end", f->name);
	return false;
}

/* ---- all of it ------------------------------------------------------------------------- */

static bool decode_field(const struct bb_payload_field *f, char *at, char why[BB_PAYLOAD_WHY])
{
	switch (f->kind) {
	case BB_PAYLOAD_ANY:
		break;
	case BB_PAYLOAD_SIGNED:
		return decode_signed(f, at, why);
	case BB_PAYLOAD_UNSIGNED:
		return decode_unsigned(f, at, why);
	case BB_PAYLOAD_REAL:
		return decode_real(f, at, why);
	case BB_PAYLOAD_TEXT:
		return decode_text(f, at, why);
	case BB_PAYLOAD_STATUS:
	case BB_PAYLOAD_EXIT:
		return decode_status(f, at, why);
	case BB_PAYLOAD_SIGNAL:
		return decode_signal(f, at, why);
	}
	return true;
}

bool bb_payload_decode(const struct bb_payload *table, void *payload, char why[BB_PAYLOAD_WHY])
{
	char reason[BB_PAYLOAD_WHY] = "its fields do not fit each other";
	bool valid = true;

	for (const struct bb_payload_field *f = table->fields; f->name && valid; f++)
		for (size_t i = 0; i < f->count && valid; i++)
			valid = decode_field(f, (char *)payload + f->offset + i * f->stride,
					     reason);
	if (valid && table->fits)
		valid = table->fits(payload);
	if (!valid)
		snprintf(why, BB_PAYLOAD_WHY, "sent %s in which %.*s", table->name,
			 BB_PAYLOAD_WHY - 64, reason);
	return valid;
}
