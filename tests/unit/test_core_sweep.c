/* Numbers with units, statistics, elements, and text of others, over drawn values. */
#include "sweep.h"

#include "core/printable.h"
#include "core/random.h"
#include "core/recommend.h"
#include "core/scalar.h"
#include "core/stats.h"
#include "core/units.h"

#include <errno.h>

static int draw(uint64_t *state, int n)
{
	return (int)((bb_random_next(state) >> 33) % (uint64_t)n);
}

/* ---- units ------------------------------------------------------------------------------- */

static void text_add(struct sweep *s, const char *text)
{
	uint64_t size = 0, count = 0, ns = 0;
	int64_t number = 0;
	int rank = 0;
	double rate = 0, flops = 0, fraction = 0;
	bool good[8];
	int wrong = 0;

#define READ(i, call)                                                                              \
	do {                                                                                       \
		errno = 0;                                                                         \
		good[i] = (call);                                                                  \
		wrong += good[i] ? 0 : (errno == ERANGE) * 10 + (errno == EINVAL);                 \
	} while (0)
	READ(0, bb_parse_size(text, &size));
	READ(1, bb_parse_count(text, &count));
	READ(2, bb_parse_int(text, &number));
	READ(3, bb_parse_rank(text, &rank));
	READ(4, bb_parse_duration(text, &ns));
	READ(5, bb_parse_rate(text, &rate));
	READ(6, bb_parse_flops(text, &flops));
	READ(7, bb_parse_percent(text, &fraction));
	SWEEP_ADD(s, good[0] ? (double)size : -1, good[1] ? (double)count : -1,
		  good[2] ? (double)number : -1, good[3] ? rank : -1, good[4] ? (double)ns : -1,
		  good[5] ? rate : -1, good[6] ? flops : -1, good[7] ? fraction : -1, wrong);
}

static void test_units(void **state)
{
	static const char *const numbers[] = {"0",
					      "1",
					      "7",
					      "20",
					      "1000",
					      "1024",
					      "4096",
					      "1.",
					      "1.5",
					      ".25",
					      "0.001",
					      "1.1",
					      "999.9",
					      "9223372036854775807",
					      "-1",
					      "1.2.3",
					      "",
					      "+3",
					      "x",
					      "18446744073709551616",
					      "1e3",
					      " 2",
					      "1048576",
					      "2147483647",
					      "2147483648",
					      "18014398509481984",
					      "3.14159265358979"};
	static const char *const units[] = {
		"",       "B",      "K",     "KB",   "KiB",  "M",   "MB",    "MiB",    "G",
		"GB",     "GiB",    "T",     "TB",   "TiB",  "P",   "PB",    "k",      "m",
		"g",      "t",      "b",     "ns",   "us",   "ms",  "s",     "h",      "d",
		"GB/s",   "Gb/s",   "MB/s",  "kB/s", "TB/s", "b/s", "GiB/s", "TFLOPS", "TFLOP/s",
		"PFLOPS", "GFLOPS", "FLOPS", "%",    " %",   "Kx",  "sx"};
	struct sweep s = sweep_open("core_units");
	uint64_t seed = 1;

	for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
		for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
			char text[80];

			snprintf(text, sizeof(text), "%s%s", numbers[n], units[u]);
			text_add(&s, text);
		}
		sweep_end(&s, "\"%s\"", numbers[n]);
	}
	for (int bits = 0; bits < 64; bits++)
		for (int k = 0; k < 40; k++) {
			const uint64_t drawn = bb_random_next(&seed) >> bits;
			const uint64_t most = UINT64_C(1) << bits;
			const uint64_t value = k == 0   ? most
					       : k == 1 ? most - 1
					       : k == 2 ? most * 1000
					       : k == 3 ? most / 1000 * 1000
							: drawn;
			char text[BB_UNIT_TEXT];

			sweep_add_text(&s, bb_format_size(text, value));
			sweep_add_text(&s, bb_format_count(text, value));
			sweep_add_text(&s, bb_format_bytes(text, value));
			sweep_add_text(&s, bb_format_duration(text, 1e-12 * (double)value));
			sweep_add_text(&s, bb_plural((long long)(value - 1)));
		}
	sweep_end(&s, "written");
	sweep_close(&s);
}

/* ---- statistics -------------------------------------------------------------------------- */

static void test_stats(void **state)
{
	struct sweep s = sweep_open("core_stats");
	uint64_t seed = 2;

	for (size_t n = 0; n < 60; n++) {
		for (int kind = 0; kind < 6; kind++) {
			double values[60];
			struct bb_stats t;

			for (size_t i = 0; i < n; i++)
				values[i] = kind == 0   ? 0
					    : kind == 1 ? draw(&seed, 4)
					    : kind == 2 ? draw(&seed, 100) - 50
							: draw(&seed, 1 << 20) / 16.0;
			bb_stats_compute(values, n, &t);
			SWEEP_ADD(&s, (double)t.n, t.min, t.p50, t.p95, t.p99, t.max, t.mean,
				  t.stdev, t.cv, t.ci_low, t.ci_high, bb_stats_precision(&t),
				  bb_stats_median(values, n));
			for (int p = 0; n > 0 && p <= 10; p++)
				sweep_add(&s, bb_stats_quantile(values, n, p / 10.0));
		}
		sweep_end(&s, "%zu", n);
	}
	for (int percent = 80; percent < 130; percent++)
		for (int low = 80; low < 130; low++)
			for (int source = 0; source < 2; source++)
				sweep_add_text(&s, bb_bound_doubt(percent + 0.5,
								  low == 80 ? NAN : low + 0.5,
								  (enum bb_bound_source)source));
	sweep_end(&s, "doubts");
	sweep_close(&s);
}

/* ---- text -------------------------------------------------------------------------------- */

static void test_text(void **state)
{
	struct sweep s = sweep_open("core_text");

	for (uint32_t word = 0; word < 1 << 16; word++) {
		const char text[8] = {(char)(word >> 8), (char)word, (char)0x8f, (char)0xbf, 'x'};
		const char other[8] = {(char)(word >> 8), (char)word, (char)0x8f, '\n', ' ', ' '};
		struct bb_strbuf out = {0};
		char copy[8];

		if (word >> 8 == 0)
			continue;
		const size_t length = bb_utf8_length(text);
		SWEEP_ADD(&s, (double)length, (double)bb_printable_character(text),
			  length ? bb_utf8_code(text, length) : 0);
		if (word % 7 == 0) {
			memcpy(copy, other, sizeof(copy));
			bb_printable_clean(copy);
			sweep_add_text(&s, copy);
			memcpy(copy, other, sizeof(copy));
			bb_printable_clean_sentence(copy);
			sweep_add_text(&s, copy);
			memcpy(copy, other, sizeof(copy));
			bb_printable_clean_lines(copy);
			sweep_add_text(&s, copy);
			bb_printable_add(&out, text);
			bb_printable_xml(&out, other);
			bb_printable_xml(&out, text + 1);
			bb_printable_line(&out, "%s", other);
			sweep_add_text(&s, bb_strbuf_text(&out));
			bb_strbuf_free(&out);
		}
		if (word % 256 == 255)
			sweep_end(&s, "%02x", word >> 8);
	}
	sweep_close(&s);
}

/* ---- elements ---------------------------------------------------------------------------- */

static void element_add(struct sweep *s, enum bb_dtype dtype, const void *element)
{
	uint64_t bits = 0;

	memcpy(&bits, element, bb_dtype_size(dtype));
	SWEEP_ADD(s, (double)(bits >> 32), (double)(bits & 0xffffffff));
	if (bb_dtype_is_float(dtype))
		sweep_add(s, fmax(-1e280, fmin(bb_scalar_decode(dtype, element), 1e280)));
}

static void test_elements(void **state)
{
	struct sweep s = sweep_open("core_elements");
	uint64_t seed = 4;

	for (enum bb_dtype dtype = 0; dtype < BB_NDTYPES; dtype++) {
		const bool is_float = bb_dtype_is_float(dtype);

		if (bb_dtype_size(dtype) > 8)
			continue;
		for (int i = 0; i < 400; i++) {
			const uint64_t near = (uint64_t)draw(&seed, 5);
			const uint64_t word = bb_random_next(&seed) & ~(UINT64_C(0xffff) << 48);
			uint64_t a = i % 3 ? word : bb_random_next(&seed), b = a + near;
			const int factor = 1 + draw(&seed, 7);

			/* What is no number has many forms. */
			if (is_float && !isfinite(bb_scalar_decode(dtype, &a)))
				continue;
			if (is_float && !isfinite(bb_scalar_decode(dtype, &b)))
				continue;
			sweep_add(&s, (double)bb_scalar_ulps(dtype, &a, &b));
			if (is_float)
				for (int power = -40; power < 40; power++) {
					uint64_t to = 0;

					bb_scalar_encode(dtype, ldexp((double)(i - 200), power),
							 &to);
					sweep_add(&s, bb_scalar_decode(dtype, &to));
				}
			for (enum bb_op op = 0; op < BB_NOPS; op++) {
				uint64_t sum = a;

				if (!bb_op_accepts(op, dtype))
					continue;
				bb_scalar_reduce(dtype, op, &sum, &b);
				if (is_float && isnan(bb_scalar_decode(dtype, &sum)))
					continue;
				element_add(&s, dtype, &sum);
			}
			uint64_t scaled = a, divided = a;
			bb_scalar_scale(dtype, &scaled, factor);
			bb_scalar_divide(dtype, &divided, factor);
			element_add(&s, dtype, &scaled);
			element_add(&s, dtype, &divided);
		}
		sweep_end(&s, "%s", bb_dtype_name(dtype));
	}
	sweep_close(&s);
}

/* ---- recommendations ----------------------------------------------------------------------- */

static void cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		  struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "%s before %s", ahead->name, behind->name);
}

static void test_recommendations(void **state)
{
	struct sweep s = sweep_open("core_recommendations");
	uint64_t seed = 3;

	for (int i = 0; i < 3000; i++) {
		struct bb_candidate list[6];
		struct bb_recommendation r = {.subject = "it", .unit = "", .list = list};
		struct bb_strbuf out = {0};

		r.noise = draw(&seed, 2) ? "95% confidence" : NULL;
		r.cause = draw(&seed, 2) ? cause : NULL;
		r.preference = draw(&seed, 2) ? "no more memory" : NULL;
		r.n = (size_t)draw(&seed, 7);
		for (size_t k = 0; k < r.n; k++) {
			const double seconds =
				1e-3 * (1 + draw(&seed, 5) / 3.0) * (1 + 1.3e-4 * draw(&seed, 12));
			const double width = 0.01 * draw(&seed, 20);

			list[k] = (struct bb_candidate){.seconds = i % 11 ? seconds : NAN,
							.low = seconds * (1 - width),
							.high = seconds * (1 + width)};
			snprintf(list[k].name, sizeof(list[k].name), "c%zu", k);
		}
		bb_recommend(&r, &out);
		sweep_add_text(&s, bb_strbuf_text(&out));
		bb_strbuf_free(&out);
		if (i % 100 == 99)
			sweep_end(&s, "to %d", i);
	}
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_stats),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_elements),
		cmocka_unit_test(test_recommendations),
	};

	return cmocka_run_group_tests_name("core_sweep", tests, NULL, NULL);
}
