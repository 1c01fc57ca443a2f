/*
 * log_rows.c - one row of a table of nccl-tests.
 */
#include "logs/log_parts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool number(const char *word, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(word, &end);
	return end != word && !*end && errno == 0 && isfinite(*value) && !is_letter(word[0]);
}

/* True for "nan" and "inf", a quotient of 0. */
static bool is_not_finite(const char *word)
{
	word += *word == '-';
	return strcmp(word, "nan") == 0 || strcmp(word, "inf") == 0;
}

const char *bb_log_digits(const char *word)
{
	const char *const colon = strrchr(word, ':');

	return colon && bb_log_is_whole(colon + 1) ? colon + 1 : word;
}

/* A number, with an asterisk if an error is too large, or N/A. */
bool bb_log_is_value(const char *word)
{
	char *end;

	if (strcmp(word, "N/A") == 0 || is_not_finite(word))
		return true;
	strtod(word, &end);
	return end != word && !is_letter(word[0]) && (!*end || strcmp(end, "*") == 0);
}

/* Returns #wrong of a half; NAN: not checked. Old versions print the largest error there, which
   rounding leaves far below 1, with an asterisk if it is too large. */
static double read_wrong(const char *word)
{
	char *end;
	const double wrong = strtod(word, &end);

	return end == word || is_letter(word[0]) ? NAN : *end == '*' ? 1 : wrong;
}

static const struct {
	const char *prefix;
	uint64_t bytes;
} types[] = {
	{"int8", 1},  {"uint8", 1},  {"int16", 2},  {"uint16", 2},  {"int64", 8},  {"uint64", 8},
	{"int", 4},   {"uint", 4},   {"half", 2},   {"float16", 2}, {"float8", 1}, {"float64", 8},
	{"float", 4}, {"double", 8}, {"bfloat", 2}, {"f8", 1},      {"fp8", 1},
};

/* Returns the index of TYPE as nccl-tests and its like print it; -1: none. */
static int type_of(const char *type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(type, types[i].prefix, strlen(types[i].prefix)) == 0)
			return (int)i;
	return -1;
}

uint64_t bb_log_type_bytes(const char *type)
{
	const int i = type_of(type);

	return i >= 0 ? types[i].bytes : 0;
}

static bool read_half(const struct bb_log_words *words, int j, struct bb_claim *half)
{
	const bool read = number(words->at[j], &half->time_us) &&
			  number(words->at[j + 1], &half->algbw_GBps) &&
			  number(words->at[j + 2], &half->busbw_GBps);
	const double time = (double)half->size_bytes / half->algbw_GBps / 1e3;

	/* "1.1e+07": long times have two digits alone. */
	if (read && strchr(words->at[j], 'e') && half->algbw_GBps > 0 &&
	    fabs(time / half->time_us - 1) < 0.06)
		half->time_us = time;
	return read;
}

bool bb_log_plausible(const struct bb_claim *c)
{
	const double GBps = (double)c->size_bytes / c->time_us / 1e3;

	return c->time_us > 0 && c->busbw_GBps >= 0 &&
	       fabs(GBps - c->algbw_GBps) <= 0.0051 + (2e-3 + 0.0051 / c->time_us) * GBps;
}

bool bb_log_same_factor(const struct bb_claim *a, const struct bb_claim *b)
{
	const double half = 0.0051;

	return (a->busbw_GBps - half) * (b->algbw_GBps - half) <=
		       (b->busbw_GBps + half) * (a->algbw_GBps + half) &&
	       (b->busbw_GBps - half) * (a->algbw_GBps - half) <=
		       (a->busbw_GBps + half) * (b->algbw_GBps + half);
}

/* True if the LEFT values from word J on hold time, algbw and busbw of SIZE, but READ has other
   ones: then a column behind them is missing. */
static bool begins_at(const struct bb_log_words *words, int j, int left, int width, uint64_t size,
		      const struct bb_log_row *read)
{
	struct bb_claim half = {.size_bytes = size};

	for (int k = 0; k < 2; k++)
		if (read->there[k] && bb_log_plausible(&read->half[k]))
			return false;
	for (int k = 0; k < 2 && k * width + 3 <= left; k++)
		if (read_half(words, j + k * width, &half) && bb_log_plausible(&half))
			return true;
	return false;
}

/*
 * Reads the halves of a row from the LEFT values of WORDS at word J, the first of which may be the
 * root. Returns their columns; 0: fewer than a whole row or than LEAST.
 */
static int read_halves(const struct bb_log_words *words, int j, int left, int least, uint64_t size,
		       const struct bb_log_shape *shape, struct bb_log_row *row)
{
	const int width = left >= 16 ? 8 : 4;
	const int halves = left >= 2 * width ? 2 : 1;
	const int root = left - halves * width;

	if (root < 0 || root > 1 || halves * width < least)
		return 0;
	if (root == 1)
		snprintf(row->root, sizeof(row->root), "%s", words->at[j]);
	for (int k = 0; k < halves; k++) {
		const int half = halves == 1 ? shape->in_place : k, at = j + root + k * width;

		row->half[half].size_bytes = size;
		row->half[half].in_place = half == 1;
		row->there[half] = read_half(words, at, &row->half[half]);
		row->wrong[half] = read_wrong(words->at[at + 3]);
		/* How large an error may be depends on the type: only an asterisk tells. */
		row->doubtful[half] = shape->last != BB_LOG_WRONG && row->wrong[half] >= 1 &&
				      !strchr(words->at[at + 3], '*');
		if (shape->last == BB_LOG_ERROR && row->doubtful[half])
			row->wrong[half] = NAN;
		for (int w = at; w < at + 3; w++)
			row->not_finite[half] |= is_not_finite(words->at[w]);
	}
	return begins_at(words, j + 1 - root, left - 1 + root, width, size, row) ? 0
										 : halves * width;
}

void bb_log_row_clean(char *text)
{
	for (char *c = text; *c; c++) {
		const char *const end = *c == '['   ? strchr(c, ']')
					: *c == '<' ? strchr(c, '>')
						    : NULL;

		if (end && end - c < BB_LOG_TAG && !memchr(c, ' ', (size_t)(end - c)))
			memset(c, ' ', (size_t)(end - c) + 1 + (end[1] == ':'));
		else if (*c == ',')
			*c = c > text && is_digit(c[-1]) && is_digit(c[1]) ? '.' : ' ';
	}
}

int bb_log_row_find(const struct bb_log_words *words)
{
	for (int i = 0; i + 2 < words->n; i++) {
		const char *const size = bb_log_digits(words->at[i]);

		if (bb_log_is_whole(size) && bb_log_is_whole(words->at[i + 1]) &&
		    type_of(words->at[i + 2]) >= 0 && strtoull(size, NULL, 10) > 0)
			return i;
	}
	return -1;
}

void bb_log_row_read(const struct bb_log_words *words, int i, struct bb_log_shape *shape,
		     struct bb_log_row *row)
{
	const uint64_t size = strtoull(bb_log_digits(words->at[i]), NULL, 10);
	const int least = shape->size > 0 && size >= shape->size ? shape->columns : 0;
	int j = i + 3, left = 0, columns;

	*row = (struct bb_log_row){.count = strtoull(words->at[i + 1], NULL, 10)};
	snprintf(row->type, sizeof(row->type), "%s", words->at[i + 2]);
	if (j < words->n && is_letter(words->at[j][0]) && !bb_log_is_value(words->at[j]))
		snprintf(row->op, sizeof(row->op), "%s", words->at[j++]);
	while (j + left < words->n && bb_log_is_value(words->at[j + left]))
		left++;
	columns = read_halves(words, j, left, least, size, shape, row);
	row->n = j + left - i;
	row->whole = columns > 0;
	if (row->whole) {
		shape->columns = columns;
		shape->size = size;
	}
}
