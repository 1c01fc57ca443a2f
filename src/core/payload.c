#include "core/payload.h"

#include "core/printable.h"
#include "core/signals.h"
#include "core/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_REAL 1000000000000000000

static const struct bb_payload_field number_fields[] =
	BB_PAYLOAD_ONE("a number", BB_PAYLOAD_ANY, uint64_t);
static const struct bb_payload_field real_fields[] =
	BB_PAYLOAD_ONE("a number", BB_PAYLOAD_REAL, double, .low = -MOST_REAL, .high = MOST_REAL);
static const struct bb_payload_field seconds_fields[] =
	BB_PAYLOAD_ONE("a time in seconds", BB_PAYLOAD_REAL, double,
		       .low = -BB_PAYLOAD_MOST_SECONDS, .high = BB_PAYLOAD_MOST_SECONDS);
static const struct bb_payload_field status_fields[] =
	BB_PAYLOAD_ONE("the status", BB_PAYLOAD_STATUS, int32_t);
static const struct bb_payload_field flags_fields[] =
	BB_PAYLOAD_ONE("a flag", BB_PAYLOAD_ANY, unsigned char);

const struct bb_payload bb_payload_number = {"a number", sizeof(uint64_t), number_fields, NULL};
const struct bb_payload bb_payload_real = {"a number", sizeof(double), real_fields, NULL};
const struct bb_payload bb_payload_seconds = {"a time", sizeof(double), seconds_fields, NULL};
const struct bb_payload bb_payload_status = {"a status", sizeof(int32_t), status_fields, NULL};
const struct bb_payload bb_payload_flags = {"flags", 1, flags_fields, NULL};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a short number is the low bytes");

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

static bool decode_field(const struct bb_payload_field *f, char *at, char why[BB_PAYLOAD_WHY])
{
	const int shift = 64 - 8 * (int)f->bytes;
	const bool is_number = f->kind == BB_PAYLOAD_SIGNED || f->kind == BB_PAYLOAD_UNSIGNED ||
			       f->kind == BB_PAYLOAD_REAL;
	char number[24];
	uint64_t bits = 0;
	int64_t value = 0; /* of a number with a sign */
	double real;
	bool valid = true;

	if (f->kind == BB_PAYLOAD_ANY)
		return true;
	if (f->kind == BB_PAYLOAD_TEXT) {
		valid = memchr(at, '\0', f->bytes) != NULL;
		if (valid)
			bb_printable_clean(at);
		else
			snprintf(why, BB_PAYLOAD_WHY, "%s has no end", f->name);
		return valid;
	}
	memcpy(&bits, at, f->bytes);
	memcpy(&real, &bits, sizeof(real));
	value = (int64_t)(bits << shift) >> shift;
	snprintf(number, sizeof(number), "%" PRId64, value);
	if (f->kind == BB_PAYLOAD_UNSIGNED)
		snprintf(number, sizeof(number), "%" PRIu64, bits);
	if (f->kind == BB_PAYLOAD_REAL)
		snprintf(number, sizeof(number), "%g", real);
	if (f->kind == BB_PAYLOAD_SIGNED)
		valid = value >= f->low && value <= f->high;
	else if (f->kind == BB_PAYLOAD_UNSIGNED)
		valid = bits >= (uint64_t)f->low && bits <= (uint64_t)f->high;
	else if (f->kind == BB_PAYLOAD_REAL)
		valid = real >= (double)f->low && real <= (double)f->high;
	else if (f->kind == BB_PAYLOAD_SIGNAL)
		valid = value == 0 || bb_signal_ends(value);
	else
		valid = is_status(value) ||
			(f->kind == BB_PAYLOAD_EXIT && bb_signal_ends(value - 128));
	if (!valid && is_number)
		snprintf(why, BB_PAYLOAD_WHY, "%s is %s, not %" PRId64 " to %" PRId64, f->name,
			 number, f->low, f->high);
	else if (!valid)
		snprintf(why, BB_PAYLOAD_WHY, "%s is %s, which %s", f->name, number,
			 f->kind == BB_PAYLOAD_SIGNAL ? "ends no run"
						      : "no exit status of busbench is");
	return valid;
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
