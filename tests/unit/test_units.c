#include "core/units.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)
#define T ((uint64_t)1 << 40)

/* Refused by every reader. */
static const char *const garbage[] = {
	"",    " ",    "-",    "+1",   "1.5.2", "12Q", "nan", "inf", "1e400", "0x10",  " 1", "1 ",
	"1 K", "K",    ".K",   ".",    "5.",    "5.K", "1,5", "--1", "1K K",  "%",     "s",  "1KBB",
	"B",   "1e3K", "\t1s", "1%\n", "1s s",  "1%%", "1ps", "iB",  "1iB",   "1KiBs",
};

static void test_garbage(void **state)
{
	uint64_t u;
	int64_t i;
	double d;

	for (size_t k = 0; k < sizeof(garbage) / sizeof(garbage[0]); k++) {
		const char *text = garbage[k];

		if (bb_parse_size(text, &u) || bb_parse_int(text, &i) ||
		    bb_parse_duration(text, &u) || bb_parse_rate(text, &d) ||
		    bb_parse_flops(text, &d) || bb_parse_count(text, &u) ||
		    bb_parse_percent(text, &d))
			fail_msg("'%s' was accepted", text);
	}
	assert_false(bb_parse_size("-1", &u));
	assert_false(bb_parse_duration("-1s", &u));
	assert_false(bb_parse_rate("-1G", &d));
	assert_false(bb_parse_percent("-1%", &d));
}

static void test_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"4096", 4096},
		{".5K", 512},
		{"64K", 64 * K},
		{"64k", 64 * K},
		{"64KB", 64000},
		{"1.5GB", 1500000000},
		{"64KiB", 64 * K},
		{"64kib", 64 * K},
		{"12B", 12},
		{"1.5K", 1536},
		{"1.5G", 3 * G / 2},
		{"2T", 2 * T},
		{"0.0001K", 0},
		{"1.1K", 1126},
		{"007", 7},
		{"1.999999999999999999K", 2047},
		{"18446744073709551615", UINT64_MAX},
		{"16777215.999999T", UINT64_MAX - 1099511},
	};
	uint64_t u;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(bb_parse_size(good[i].text, &u));
		assert_int_equal(u, good[i].bytes);
	}
	errno = 0;
	assert_false(bb_parse_size("18446744073709551616", &u));
	assert_int_equal(errno, ERANGE);
	assert_false(bb_parse_size("16777216T", &u));
	assert_false(bb_parse_size("18014398509481984K", &u));
	assert_false(bb_parse_size("99999999999999999999999999", &u));
	assert_int_equal(errno, ERANGE);
	assert_false(bb_parse_size("1.0000000000000000001K", &u)); /* the scale would overflow */
	assert_false(bb_parse_size("1.5", &u));
	assert_false(bb_parse_size("1.5B", &u));
	assert_false(bb_parse_size("64KBB", &u));
	assert_int_equal(errno, EINVAL);
}

static void test_int(void **state)
{
	int64_t i;

	assert_true(bb_parse_int("20", &i) && i == 20);
	assert_true(bb_parse_int("-1", &i) && i == -1);
	assert_true(bb_parse_int("-0", &i) && i == 0);
	assert_true(bb_parse_int("9223372036854775807", &i) && i == INT64_MAX);
	assert_true(bb_parse_int("-9223372036854775808", &i) && i == INT64_MIN);
	errno = 0;
	assert_false(bb_parse_int("9223372036854775808", &i));
	assert_int_equal(errno, ERANGE);
	assert_false(bb_parse_int("-9223372036854775809", &i));
	assert_false(bb_parse_int("18446744073709551617", &i));
	assert_int_equal(errno, ERANGE);
	assert_false(bb_parse_int("99999999999999999999x", &i));
	assert_int_equal(errno, EINVAL);
	assert_false(bb_parse_int("1.0", &i));
	assert_false(bb_parse_int("1K", &i));
}

static void test_duration(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"10ns", 10},
		{"1.5us", 1500},
		{"3ms", 3000000},
		{"2s", 2000000000},
		{"2", 2000000000},
		{"0.1", 100000000},
		{"5m", 300000000000},
		{"1h", 3600000000000},
		{"0", 0},
		{"1.0000000019s", 1000000001},
		{".377ms", 377000},
		{".5", 500000000},
	};
	uint64_t ns;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(bb_parse_duration(good[i].text, &ns));
		assert_int_equal(ns, good[i].ns);
	}
	assert_false(bb_parse_duration("1.5ns", &ns));
	assert_false(bb_parse_duration("5M", &ns));
	assert_false(bb_parse_duration("18446744074s", &ns));
	assert_int_equal(errno, ERANGE);
}

static void test_count(void **state)
{
	static const struct {
		const char *text;
		uint64_t count;
		const char *again;
	} good[] = {
		{"7.5B", 7500000000, "7.5B"},   {"6738415616", 6738415616, "6738415616"},
		{"124m", 124000000, "124M"},    {"1T", 1000000000000, "1T"},
		{"0.5k", 500, "500"},           {"1000", 1000, "1K"},
		{"1.25B", 1250000000, "1250M"}, {"0", 0, "0"},
	};
	char text[BB_UNIT_TEXT];
	uint64_t count;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(bb_parse_count(good[i].text, &count));
		assert_true(count == good[i].count);
		assert_string_equal(bb_format_count(text, count), good[i].again);
	}
	assert_false(bb_parse_count("1G", &count));
	assert_int_equal(errno, EINVAL);
	assert_false(bb_parse_count("1.5", &count));
	assert_false(bb_parse_count("-1B", &count));
	assert_false(bb_parse_count("99999999999B", &count));
	assert_int_equal(errno, ERANGE);
}

static void test_rate(void **state)
{
	static const struct {
		const char *text;
		double rate;
	} good[] = {
		{"12.5GB/s", 12.5e9}, {"100Gb/s", 12.5e9},
		{"10G", 10e9},        {"10GB", 10e9},
		{"1000B/s", 1000},    {"8b/s", 1},
		{"1T", 1e12},         {"0.5k", 500},
		{"900GB/s", 900e9},   {"25.6Gb/s", 25.6e9 / 8},
	};
	double rate;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(bb_parse_rate(good[i].text, &rate));
		assert_true(rate == good[i].rate);
	}
	/* A number alone is no rate; no rate is 0, whatever its unit. */
	assert_false(bb_parse_rate("10", &rate));
	assert_int_equal(errno, EINVAL);
	assert_false(bb_parse_rate("10/s", &rate));
	assert_int_equal(errno, EINVAL);
	assert_false(bb_parse_rate("0", &rate));
	assert_int_equal(errno, ERANGE);
	assert_false(bb_parse_rate("0GB/s", &rate));
	assert_false(bb_parse_rate("1G/m", &rate));
	assert_false(bb_parse_rate("1GBb/s", &rate));
	assert_false(bb_parse_rate("1GB/s ", &rate));
}

static void test_flops(void **state)
{
	static const struct {
		const char *text;
		double flops;
	} good[] = {{"100T", 1e14},      {"312TFLOPS", 312e12},  {"1.5P", 1.5e15},
		    {"2pflop/s", 2e15},  {"500GFLOP/s", 500e9},  {"10M", 10e6},
		    {"1000FLOPS", 1000}, {"67.5tflops", 67.5e12}};
	double flops;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(bb_parse_flops(good[i].text, &flops));
		assert_true(flops == good[i].flops);
	}
	assert_false(bb_parse_flops("100", &flops));
	assert_int_equal(errno, EINVAL);
	assert_false(bb_parse_flops("0T", &flops));
	assert_int_equal(errno, ERANGE);
	assert_false(bb_parse_flops("100TB", &flops));
	assert_false(bb_parse_flops("100TFLOPS/s", &flops));
	assert_false(bb_parse_flops("100E", &flops));
}

static void test_percent(void **state)
{
	double f;

	assert_true(bb_parse_percent("1%", &f) && f == 0.01);
	assert_true(bb_parse_percent("0.5%", &f) && f == 0.005);
	assert_true(bb_parse_percent("0.1%", &f) && f == 0.001);
	assert_true(bb_parse_percent("12.34%", &f) && f == 0.1234);
	assert_true(bb_parse_percent("100%", &f) && f == 1);
	assert_true(bb_parse_percent("250%", &f) && f == 2.5);
	assert_true(bb_parse_percent("0%", &f) && f == 0);
	assert_false(bb_parse_percent("1", &f));
	assert_false(bb_parse_percent("1K%", &f));
}

static void test_format_size(void **state)
{
	char text[BB_UNIT_TEXT];
	uint64_t back;

	assert_string_equal(bb_format_size(text, 0), "0");
	assert_string_equal(bb_format_size(text, 1000), "1000");
	assert_string_equal(bb_format_size(text, 1023), "1023");
	assert_string_equal(bb_format_size(text, 64 * K), "64K");
	assert_string_equal(bb_format_size(text, M), "1M");
	assert_string_equal(bb_format_size(text, 1025 * K), "1025K");
	assert_string_equal(bb_format_size(text, 3 * G), "3G");
	assert_string_equal(bb_format_size(text, 2048 * T), "2048T");
	assert_string_equal(bb_format_size(text, UINT64_MAX), "18446744073709551615");
	for (uint64_t bytes = 1; bytes < T; bytes = bytes * 3 + 1) {
		assert_true(bb_parse_size(bb_format_size(text, bytes * K), &back));
		assert_int_equal(back, bytes * K);
	}
}

static void test_format_duration(void **state)
{
	static const struct {
		double seconds;
		const char *text;
	} cases[] = {
		{0, "0 ns"},
		{312e-9, "312 ns"},
		{4.61e-6, "4.61 us"},
		{22.5e-3, "22.5 ms"},
		{1.2, "1.20 s"},
		{999.7e-9, "1.00 us"},
		{999.4e-9, "999 ns"},
		{9.996e-6, "10.0 us"},
		{99.96e-6, "100 us"},
		{0.9999, "1.00 s"},
		{0.25e-9, "0.25 ns"},
		{12345, "12345 s"},
		{-4.61e-6, "-4.61 us"},
		{1e300, "1e+300 s"},
	};
	char text[BB_UNIT_TEXT];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(bb_format_duration(text, cases[i].seconds), cases[i].text);
}

static void test_format_bytes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {{0, "0 B"},
		     {999, "999 B"},
		     {1000, "1.00 kB"},
		     {4608, "4.61 kB"},
		     {1048576, "1.05 MB"},
		     {19440461414, "19.4 GB"},
		     {120000000000, "120 GB"},
		     {999600000, "1.00 GB"},
		     {UINT64_MAX, "18.4 EB"}};
	char text[BB_UNIT_TEXT];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(bb_format_bytes(text, cases[i].bytes), cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format_bytes),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_int),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_flops),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_format_size),
		cmocka_unit_test(test_format_duration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
