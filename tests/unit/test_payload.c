/*
 * The decoder of what another process sends: each kind of field, at and beyond its limits.
 */
#include "core/payload.h"

#include "core/status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct sample {
	char text[8];
	int64_t wide;
	double seconds;
	int32_t status;
	int16_t narrow;
	uint8_t small;
	struct {
		uint32_t rank;
		char name[4];
	} list[3];
	uint64_t bits;
};

static const struct bb_payload_field sample_fields[] = {
	BB_PAYLOAD_FIELD("the text", BB_PAYLOAD_TEXT, struct sample, text),
	BB_PAYLOAD_FIELD("the count", BB_PAYLOAD_UNSIGNED, struct sample, wide, .low = 1,
			 .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the time", BB_PAYLOAD_REAL, struct sample, seconds, .high = 9),
	BB_PAYLOAD_FIELD("the status", BB_PAYLOAD_STATUS, struct sample, status),
	BB_PAYLOAD_FIELD("the offset", BB_PAYLOAD_SIGNED, struct sample, narrow, .low = -5,
			 .high = 5),
	BB_PAYLOAD_FIELD("the mark", BB_PAYLOAD_UNSIGNED, struct sample, small, .high = 200),
	BB_PAYLOAD_EACH("a rank", BB_PAYLOAD_UNSIGNED, struct sample, list, .rank, 3, .high = 7),
	BB_PAYLOAD_EACH("a name", BB_PAYLOAD_TEXT, struct sample, list, .name, 3),
	BB_PAYLOAD_FIELD("the bits", BB_PAYLOAD_ANY, struct sample, bits),
	{.name = NULL}};

static bool sample_fits(const void *payload)
{
	return ((const struct sample *)payload)->small != 13;
}

static const struct bb_payload sample_table = {"a sample", sizeof(struct sample), sample_fields,
					       sample_fits};

static struct sample valid(void)
{
	struct sample s;

	memset(&s, 0, sizeof(s));
	s.wide = 1;
	return s;
}

static void refused(struct sample s, const char *reason)
{
	char why[BB_PAYLOAD_WHY] = "", wanted[BB_PAYLOAD_WHY];

	assert_false(bb_payload_decode(&sample_table, &s, why));
	snprintf(wanted, sizeof(wanted), "sent a sample in which %s", reason);
	assert_string_equal(why, wanted);
}

static void accepted(struct sample s)
{
	char why[BB_PAYLOAD_WHY] = "";

	if (!bb_payload_decode(&sample_table, &s, why))
		fail_msg("%s", why);
}

#define WITH(member, value)                                                                        \
	({                                                                                         \
		struct sample s_ = valid();                                                        \
		s_.member = (value);                                                               \
		s_;                                                                                \
	})

static void test_numbers(void **state)
{
	accepted(valid());
	accepted(WITH(wide, INT64_MAX));
	accepted(WITH(narrow, -5));
	accepted(WITH(small, 200));
	accepted(WITH(seconds, 9));
	accepted(WITH(list[2].rank, 7));
	accepted(WITH(bits, UINT64_MAX));
	refused(WITH(wide, 0), "the count is 0, not 1 to 9223372036854775807");
	refused(WITH(wide, -1), "the count is 18446744073709551615, not 1 to 9223372036854775807");
	refused(WITH(narrow, -6), "the offset is -6, not -5 to 5");
	refused(WITH(narrow, 6), "the offset is 6, not -5 to 5");
	refused(WITH(small, 201), "the mark is 201, not 0 to 200");
	refused(WITH(list[2].rank, 8), "a rank is 8, not 0 to 7");
	refused(WITH(list[1].rank, UINT32_MAX), "a rank is 4294967295, not 0 to 7");
	refused(WITH(seconds, -1e-9), "the time is -1e-09, not 0 to 9");
	refused(WITH(seconds, INFINITY), "the time is inf, not 0 to 9");
	refused(WITH(seconds, NAN), "the time is nan, not 0 to 9");
	refused(WITH(small, 13), "its fields do not fit each other");
}

static void test_statuses(void **state)
{
	for (int32_t s = -300; s < 300; s++) {
		const bool known = (s >= BB_OK && s <= BB_EUNSUPPORTED) || s == BB_EDATA;
		char why[BB_PAYLOAD_WHY], reason[96];

		snprintf(reason, sizeof(reason),
			 "the status is %d, which no exit status of busbench is", s);
		assert_int_equal(bb_payload_decode(&bb_payload_status, &(int32_t){s}, why), known);
		if (known)
			accepted(WITH(status, s));
		else
			refused(WITH(status, s), reason);
	}
}

static void test_text(void **state)
{
	struct sample s = valid();
	char why[BB_PAYLOAD_WHY];

	memset(s.text, 'x', sizeof(s.text));
	refused(s, "the text has no end");
	memset(s.text, 0, sizeof(s.text));
	memset(s.list[2].name, 'x', sizeof(s.list[2].name));
	refused(s, "a name has no end");
	memcpy(s.list[2].name, "\x1b[m", 4);
	memcpy(s.text, "a\nb\x7f\xc3\xa4", 7);
	assert_true(bb_payload_decode(&sample_table, &s, why));
	assert_string_equal(s.list[2].name, "?[m");
	assert_string_equal(s.text, "a?b?\xc3\xa4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
