/*
 * sweep.h - all values of a function over a wide range of inputs, pinned:
 * tests/unit/sweeps/NAME.txt has a line for each case, with the number of values and their sum, in
 * which each has a weight of its own. A sweep does not say that a value is right, as tests of
 * single values do, but that none has changed. UPDATE_GOLDEN=1 writes the file anew.
 */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SWEEP_CLOSE 1e-12 /* relative: rounding differs with the compiler */
#define SWEEP_LINE 256

struct sweep {
	FILE *file; /* to compare with, or to write */
	char name[SWEEP_LINE];
	bool writes;
	int line;
	double sum;
	long n;
};

/* Begin the sweep NAME. Tests run in the root of the source tree. */
static inline struct sweep sweep_open(const char *name)
{
	struct sweep s = {.writes = getenv("UPDATE_GOLDEN")};

	snprintf(s.name, sizeof(s.name), "tests/unit/sweeps/%s.txt", name);
	s.file = fopen(s.name, s.writes ? "w" : "r");
	if (!s.file)
		fail_msg("%s cannot be opened in the working directory", s.name);
	return s;
}

/* Add VALUE to the case. Infinities and what is no number count, too. */
static inline void sweep_add(struct sweep *s, double value)
{
	const double weight = 1 + fmod(0.6180339887498949 * (double)++s->n, 1);

	s->sum += weight * (isnan(value)   ? 1.7e-3
			    : isinf(value) ? copysign(2.3e3, value)
					   : copysign(log1p(fabs(value) * 1e9), value));
}

static inline void sweep_add_text(struct sweep *s, const char *text)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (; text && *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211u;
	sweep_add(s, text ? (double)(hash >> 40) : -1);
}

/* End the case that FORMAT names: its line must be the next one of the file. */
__attribute__((format(printf, 2, 3))) static inline void sweep_end(struct sweep *s,
								   const char *format, ...)
{
	char name[SWEEP_LINE], line[2 * SWEEP_LINE] = "";
	double sum = NAN;
	long n = -1;
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	s->line++;
	if (s->writes) {
		fprintf(s->file, "%s: %ld %.15g\n", name, s->n, s->sum);
	} else {
		if (!fgets(line, sizeof(line), s->file) || strncmp(line, name, strlen(name)) != 0 ||
		    sscanf(line + strlen(name), ": %ld %lf", &n, &sum) != 2 || n != s->n ||
		    !(fabs(sum - s->sum) <= SWEEP_CLOSE * fabs(sum)))
			fail_msg("%s:%d: %s: %ld values, %.15g; the file has %s", s->name, s->line,
				 name, s->n, s->sum, line);
	}
	s->sum = 0;
	s->n = 0;
}

/* End the sweep: the file has no further line. */
static inline void sweep_close(struct sweep *s)
{
	char line[SWEEP_LINE];

	if (!s->writes && fgets(line, sizeof(line), s->file))
		fail_msg("%s:%d: no case is left for %s", s->name, s->line + 1, line);
	fclose(s->file);
}

/* Add every number that stands in TEXT, without its words. */
static inline void sweep_add_numbers(struct sweep *s, const char *text)
{
	char *end;

	while (text && *text) {
		const double value = strtod(text, &end);

		/* Neither "inf" nor "nan" of a word, nor the digits of a name. */
		if (end > text && strspn(text, "-+.0123456789") > 0)
			sweep_add(s, value);
		text = end > text ? end : text + 1;
	}
}

/* Add the members of a struct by their values. */
#define SWEEP_ADD(s, ...)                                                                          \
	do {                                                                                       \
		const double sweep_values[] = {__VA_ARGS__};                                       \
                                                                                                   \
		for (size_t sweep_i = 0; sweep_i < sizeof(sweep_values) / sizeof(sweep_values[0]); \
		     sweep_i++)                                                                    \
			sweep_add(s, sweep_values[sweep_i]);                                       \
	} while (0)

/* ---- outputs that are texts: a sweep of their numbers, and one of their words ---------------- */

struct sweep_texts {
	struct sweep numbers, words;
};

/* Begin the sweeps NAME and NAME_words. */
static inline struct sweep_texts sweep_texts_open(const char *name)
{
	char words[64];

	snprintf(words, sizeof(words), "%s_words", name);
	return (struct sweep_texts){sweep_open(name), sweep_open(words)};
}

static inline void sweep_texts_add(struct sweep_texts *s, const char *text)
{
	sweep_add_numbers(&s->numbers, text);
	sweep_add_text(&s->words, text);
}

/* End the case NAME with this number, in both. */
static inline void sweep_texts_end(struct sweep_texts *s, const char *name, int number)
{
	sweep_end(&s->numbers, "%s %d", name, number);
	sweep_end(&s->words, "%s %d", name, number);
}

static inline void sweep_texts_close(struct sweep_texts *s)
{
	sweep_close(&s->numbers);
	sweep_close(&s->words);
}
