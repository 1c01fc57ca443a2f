#include "core/units.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A decimal number kept exact: (whole + part / scale). */
struct decimal {
	uint64_t whole, part, scale;
};

static bool fail(int why)
{
	errno = why;
	return false;
}

/* Digits at *TEXT into *VALUE; moves *TEXT behind them. At least one digit. */
static bool read_digits(const char **text, uint64_t *value)
{
	const char *p = *text;

	*value = 0;
	if (!isdigit((unsigned char)*p))
		return fail(EINVAL);
	for (; isdigit((unsigned char)*p); p++)
		if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(*p - '0'), value))
			return fail(ERANGE);
	*text = p;
	return true;
}

/* "1.5", "20", or ".377", as bc and awk print it. */
static bool read_decimal(const char **text, struct decimal *d)
{
	*d = (struct decimal){.scale = 1};
	if (**text != '.' && !read_digits(text, &d->whole))
		return false;
	if (**text != '.')
		return true;
	const char *start = ++*text;
	if (!read_digits(text, &d->part))
		return false;
	if (*text - start > 18)
		return fail(ERANGE);
	for (; start < *text; start++)
		d->scale *= 10;
	return true;
}

static double to_double(const struct decimal *d)
{
	uint64_t digits;

	/* One division of two exact numbers rounds once. */
	if (!__builtin_mul_overflow(d->whole, d->scale, &digits) &&
	    !__builtin_add_overflow(digits, d->part, &digits))
		return (double)digits / (double)d->scale;
	return (double)d->whole + (double)d->part / (double)d->scale;
}

/* D times UNIT, cut to a whole number; a fraction of the smallest unit is refused. */
static bool multiply(const struct decimal *d, uint64_t unit, uint64_t *value)
{
	uint64_t product, rest = (uint64_t)((unsigned __int128)d->part * unit / d->scale);

	if (unit == 1 && d->part)
		return fail(EINVAL);
	if (__builtin_mul_overflow(d->whole, unit, &product) ||
	    __builtin_add_overflow(product, rest, &product))
		return fail(ERANGE);
	*value = product;
	return true;
}

/* The power of the prefix letter at *TEXT (K = 1 to T = 4), 0 if there is none. */
static int read_prefix(const char **text)
{
	static const char letters[] = "KMGT";
	const char *at = **text ? strchr(letters, toupper((unsigned char)**text)) : NULL;

	if (!at)
		return 0;
	++*text;
	return (int)(at - letters) + 1;
}

bool bb_parse_size(const char *text, uint64_t *bytes)
{
	struct decimal d;
	uint64_t unit = 1;

	if (!read_decimal(&text, &d))
		return false;
	int power = read_prefix(&text);
	if (power && !strcasecmp(text, "B")) {
		for (; power > 0; power--)
			unit *= 1000;
		return multiply(&d, unit, bytes);
	}
	if (*text && strcasecmp(text, "B") && !(power && !strcasecmp(text, "iB")))
		return fail(EINVAL);
	return multiply(&d, unit << (10 * power), bytes);
}

static const struct count_unit {
	char letter;
	uint64_t times;
} counts[] = {
	{'T', 1000000000000},
	{'B', 1000000000},
	{'M', 1000000},
	{'K', 1000},
};

#define MOST_TENTHS 99999 /* that are easier to read than the number itself */
#define NCOUNTS (sizeof(counts) / sizeof(counts[0]))

bool bb_parse_count(const char *text, uint64_t *count)
{
	struct decimal d;
	uint64_t times = 1;

	if (!read_decimal(&text, &d))
		return false;
	for (size_t i = 0; *text && i < NCOUNTS; i++)
		if (toupper((unsigned char)*text) == counts[i].letter)
			times = counts[i].times;
	if (*text && (times == 1 || text[1]))
		return fail(EINVAL);
	return multiply(&d, times, count);
}

const char *bb_format_count(char text[BB_UNIT_TEXT], uint64_t count)
{
	for (size_t i = 0; i < NCOUNTS; i++) {
		const uint64_t tenths = count / (counts[i].times / 10);

		if (count < counts[i].times || count % (counts[i].times / 10) ||
		    tenths > MOST_TENTHS)
			continue;
		snprintf(text, BB_UNIT_TEXT, tenths % 10 ? "%.1f%c" : "%.0f%c", (double)tenths / 10,
			 counts[i].letter);
		return text;
	}
	snprintf(text, BB_UNIT_TEXT, "%llu", (unsigned long long)count);
	return text;
}

bool bb_parse_int(const char *text, int64_t *value)
{
	bool negative = *text == '-';
	uint64_t magnitude;

	text += negative;
	if (!read_digits(&text, &magnitude)) {
		/* Garbage behind too many digits is still garbage. */
		if (errno == ERANGE && text[strspn(text, "0123456789")])
			errno = EINVAL;
		return false;
	}
	if (*text)
		return fail(EINVAL);
	if (magnitude > (uint64_t)INT64_MAX + negative)
		return fail(ERANGE);
	*value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	return true;
}

bool bb_parse_rank(const char *text, int *rank)
{
	int64_t value;

	if (!bb_parse_int(text, &value))
		return false;
	if (value < 0 || value > INT_MAX)
		return fail(value < 0 ? EINVAL : ERANGE);
	*rank = (int)value;
	return true;
}

bool bb_parse_duration(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1},        {"us", 1000},       {"ms", 1000000},      {"s", 1000000000},
		{"", 1000000000}, {"m", 60000000000}, {"h", 3600000000000},
	};
	struct decimal d;

	if (!read_decimal(&text, &d))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(text, units[i].name))
			return multiply(&d, units[i].ns, ns);
	return fail(EINVAL);
}

/* A number with a decimal prefix, of which P counts only if PETA; moves *TEXT behind them. *BARE:
   there is no prefix. */
static bool read_scaled(const char **text, bool peta, double *value, bool *bare)
{
	struct decimal d;

	if (!read_decimal(text, &d))
		return false;
	int power = peta && toupper((unsigned char)**text) == 'P' ? 5 : 0;
	*text += power != 0;
	if (power == 0)
		power = read_prefix(text);
	*bare = power == 0;
	for (*value = to_double(&d); power; power--)
		*value *= 1000;
	return true;
}

bool bb_parse_rate(const char *text, double *bytes_per_second)
{
	double rate, bits = 1;
	bool bare;

	if (!read_scaled(&text, false, &rate, &bare))
		return false;
	if (*text == 'B' || *text == 'b') {
		bits = *text++ == 'b' ? 8 : 1;
		bare = false;
	}
	/* A bare number probably lacks its unit; 0 is out of range in any unit. */
	if ((*text && strcmp(text, "/s")) || (bare && (*text || rate > 0)))
		return fail(EINVAL);
	if (rate <= 0)
		return fail(ERANGE);
	*bytes_per_second = rate / bits;
	return true;
}

bool bb_parse_flops(const char *text, double *per_second)
{
	double rate;
	bool bare;

	if (!read_scaled(&text, true, &rate, &bare))
		return false;
	/* As in bb_parse_rate. */
	if ((*text && strcasecmp(text, "FLOPS") && strcasecmp(text, "FLOP/s")) ||
	    (bare && !*text && rate > 0))
		return fail(EINVAL);
	if (rate <= 0)
		return fail(ERANGE);
	*per_second = rate;
	return true;
}

bool bb_parse_percent(const char *text, double *fraction)
{
	struct decimal d;

	if (!read_decimal(&text, &d))
		return false;
	if (strcmp(text, "%"))
		return fail(EINVAL);
	if (d.scale <= 10000000000000000 && d.whole < 100000000) {
		d.scale *= 100;
		d.part += d.whole % 100 * (d.scale / 100);
		d.whole /= 100;
		*fraction = to_double(&d);
	} else {
		*fraction = to_double(&d) / 100;
	}
	return true;
}

const char *bb_format_size(char text[BB_UNIT_TEXT], uint64_t bytes)
{
	static const char *const suffix[] = {"", "K", "M", "G", "T"};
	size_t power = 0;

	while (bytes && bytes % 1024 == 0 && power < 4) {
		bytes /= 1024;
		power++;
	}
	snprintf(text, BB_UNIT_TEXT, "%llu%s", (unsigned long long)bytes, suffix[power]);
	return text;
}

/* VALUE in the first of N NAMES, each a thousand times the one before, in which it has at most
   three digits; the last one may have more. */
static const char *format_scaled(char text[BB_UNIT_TEXT], double value, const char *const names[],
				 size_t n)
{
	double size = fabs(value);
	size_t unit = 0;

	/* Compare with what will be printed, so that 999.7 ns becomes 1.00 us, not 1000 ns. */
	for (; size >= 999.5 && unit + 1 < n; unit++) {
		size /= 1000;
		value /= 1000;
	}
	const int decimals = size == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
	snprintf(text, BB_UNIT_TEXT, "%.*f %s", decimals, value, names[unit]);
	return text;
}

const char *bb_format_duration(char text[BB_UNIT_TEXT], double seconds)
{
	static const char *const names[] = {"ns", "us", "ms", "s"};

	if (!isfinite(seconds) || fabs(seconds * 1e9) >= 1e24) {
		snprintf(text, BB_UNIT_TEXT, "%.3g s", seconds);
		return text;
	}
	return format_scaled(text, seconds * 1e9, names, 4);
}

const char *bb_format_bytes(char text[BB_UNIT_TEXT], uint64_t bytes)
{
	static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};

	if (bytes < 1000) {
		snprintf(text, BB_UNIT_TEXT, "%llu B", (unsigned long long)bytes);
		return text;
	}
	return format_scaled(text, (double)bytes, names, 7);
}

const char *bb_plural(long long n)
{
	return n == 1 ? "" : "s";
}
