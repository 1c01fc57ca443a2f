/*
 * claims_log.c - reads text of nccl-tests as it is pasted: with tags of mpirun, time stamps and
 * colours, without '#', in part, or mixed with NCCL's own log.
 */
#include "logs/claims.h"

#include "schedules/schedule.h"
#include "core/array.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORDS 64
#define MOST_HOSTS 4096

/* One line in words. */
struct line {
	char *words[MOST_WORDS];
	int n;
};

/* What comments have stated so far, for the tables that follow. */
struct context {
	char collective[24], algorithm[32], gpu[64], backend[16];
	char (*hosts)[64];
	int64_t nhosts, nranks, room;
	bool table;      /* rows continue the last table */
	bool in_place;   /* placement of rows with one half: the only one that the heading names */
	int columns;     /* of both halves of the last whole row; 0: unknown */
	uint64_t size;   /* of that row */
	char begun[160]; /* the begin of a row that another line interrupted; "": none */
	int begun_line;
};

/* Blanks out colours, no-break spaces and bars. */
static void clean(char *text)
{
	for (char *c = text; *c; c++) {
		size_t n = 0;

		if (c[0] == '\033' && c[1] == '[')
			n = 2 + strspn(c + 2, "0123456789;"), n += c[n] != '\0';
		else if (strncmp(c, "\xc2\xa0", 2) == 0)
			n = 2;
		else if (*c == '|')
			n = 1;
		memset(c, ' ', n);
	}
}

static void split(char *text, struct line *line)
{
	char *rest, *word = strtok_r(text, " \t\r", &rest);

	line->n = 0;
	while (word && line->n < MOST_WORDS) {
		line->words[line->n++] = word;
		word = strtok_r(NULL, " \t\r", &rest);
	}
}

static bool is_whole(const char *word)
{
	return *word && strlen(word) < 19 && word[strspn(word, "0123456789")] == '\0';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
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

/* Returns the digits at the end of WORD, which may begin with a tag: "<stdout>:1048576". */
static const char *digits(const char *word)
{
	const char *const colon = strrchr(word, ':');

	return colon && is_whole(colon + 1) ? colon + 1 : word;
}

/* True for a value of a column: a number, with an asterisk if an error is too large, or N/A. */
static bool is_value(const char *word)
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

/* True for a datatype as nccl-tests and its like print it. */
static bool is_type(const char *word)
{
	static const char *const types[] = {"int",    "uint",   "half", "float",
					    "double", "bfloat", "f8",   "fp8"};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(word, types[i], strlen(types[i])) == 0)
			return true;
	return false;
}

/* One row as it was printed. */
struct row {
	struct bb_claim half[2];
	double wrong[2];
	bool there[2];      /* false: the half was not run */
	bool not_finite[2]; /* nan or inf is among its numbers */
};

static bool read_half(const struct line *line, int j, struct bb_claim *half)
{
	return number(line->words[j], &half->time_us) &&
	       number(line->words[j + 1], &half->algbw_GBps) &&
	       number(line->words[j + 2], &half->busbw_GBps);
}

/* True if the bandwidth is that of the size and time, within the rounding of four digits of time
   and two decimals of bandwidth. */
static bool plausible(const struct bb_claim *c)
{
	const double GBps = (double)c->size_bytes / c->time_us / 1e3;

	return c->time_us > 0 && c->busbw_GBps >= 0 &&
	       fabs(GBps - c->algbw_GBps) <= 0.0051 + 2e-3 * GBps;
}

/* True if both halves have the same bus factor, within rounding. */
static bool same_factor(const struct bb_claim *a, const struct bb_claim *b)
{
	const double half = 0.0051;

	return (a->busbw_GBps - half) * (b->algbw_GBps - half) <=
		       (b->busbw_GBps + half) * (a->algbw_GBps + half) &&
	       (b->busbw_GBps - half) * (a->algbw_GBps - half) <=
		       (a->busbw_GBps + half) * (b->algbw_GBps + half);
}

/* True if the LEFT values from word J on hold time, algbw and busbw of SIZE, but READ has other
   ones: then a column behind them is missing. */
static bool begins_at(const struct line *line, int j, int left, int width, uint64_t size,
		      const struct row *read)
{
	struct bb_claim half = {.size_bytes = size};

	for (int k = 0; k < 2; k++)
		if (read->there[k] && plausible(&read->half[k]))
			return false;
	for (int k = 0; k < 2 && k * width + 3 <= left; k++)
		if (read_half(line, j + k * width, &half) && plausible(&half))
			return true;
	return false;
}

/*
 * Reads the halves of a row from the LEFT values of LINE at word J, the first of which may be the
 * root. Returns their columns; 0: fewer than a whole row or than LEAST.
 */
static int read_halves(const struct line *line, int j, int left, int least, uint64_t size,
		       bool in_place, struct row *row)
{
	const int width = left >= 16 ? 8 : 4;
	const int halves = left >= 2 * width ? 2 : 1;
	const int root = left - halves * width;

	if (root < 0 || root > 1 || halves * width < least)
		return 0;
	for (int k = 0; k < halves; k++) {
		const int half = halves == 1 ? in_place : k, at = j + root + k * width;

		row->half[half].size_bytes = size;
		row->half[half].in_place = half == 1;
		row->there[half] = read_half(line, at, &row->half[half]);
		row->wrong[half] = read_wrong(line->words[at + 3]);
		for (int w = at; w < at + 3; w++)
			row->not_finite[half] |= is_not_finite(line->words[w]);
	}
	return begins_at(line, j + 1 - root, left - 1 + root, width, size, row) ? 0
										: halves * width;
}

/*
 * Reads the row at word I: size, count, type, in some versions redop and root, then time, algbw,
 * busbw and #wrong out of place and in place, with -I four more numbers each. A half that was not
 * run has "N/A" in its columns or is missing. Returns the words of the row; 0: none begins there.
 * *READ = true if it is whole, with as many halves as the rows above it.
 */
static int read_row(const struct line *line, int i, struct context *context, struct row *row,
		    bool *read)
{
	const char *const text = digits(line->words[i]);
	const uint64_t size = is_whole(text) ? strtoull(text, NULL, 10) : 0;
	const bool below = context->table && size >= context->size;
	int j = i + 3, left = 0, columns;

	*row = (struct row){.there = {false}};
	*read = false;
	if (line->n - i < 3 || size == 0 || !is_whole(line->words[i + 1]) ||
	    !is_type(line->words[i + 2]))
		return 0;
	j += j < line->n && is_letter(line->words[j][0]) && !is_value(line->words[j]);
	while (j + left < line->n && is_value(line->words[j + left]))
		left++;
	columns = read_halves(line, j, left, below ? context->columns : 0, size, context->in_place,
			      row);
	*read = columns > 0;
	if (*read) {
		context->columns = columns;
		context->size = size;
	}
	return j + left - i;
}

static void keep(char *into, size_t room, const char *text)
{
	snprintf(into, room, "%s", text);
}

static bool add_host(struct context *context, const char *host)
{
	char(*new)[64];

	for (int64_t i = context->nhosts; i > 0; i--)
		if (strncmp(context->hosts[i - 1], host, 63) == 0)
			return true;
	if (context->nhosts == MOST_HOSTS)
		return true;
	new = BB_ARRAY_ADD(context->hosts, context->nhosts, context->room);
	if (new)
		keep(*new, sizeof(*new), host);
	return new;
}

/* "#  Rank  3 Group  0 Pid 17 on  node5 device  3 [0000:1b:00] NVIDIA H100 80GB HBM3" */
static bool rank_read(struct context *context, const struct line *line, int i)
{
	int64_t rank;
	bool device = false;

	for (int k = i; k < line->n; k++)
		device |= strcmp(line->words[k], "device") == 0;
	if (i + 1 >= line->n || !is_whole(line->words[i + 1]) || !device)
		return true;
	rank = strtoll(line->words[i + 1], NULL, 10);
	if (rank == 0) {
		context->nranks = context->nhosts = 0;
		context->table = false;
	}
	context->nranks = rank + 1 > context->nranks && rank < 1 << 24 ? rank + 1 : context->nranks;
	for (int k = i + 2; k + 1 < line->n; k++) {
		if (strcmp(line->words[k], "on") == 0 && !add_host(context, line->words[k + 1]))
			return false;
		if (line->words[k][0] == '[' && is_letter(line->words[k + 1][0])) {
			context->gpu[0] = '\0';
			for (int w = k + 1; w < line->n; w++) {
				const size_t used = strlen(context->gpu);

				snprintf(context->gpu + used, sizeof(context->gpu) - used, "%s%s",
					 used ? " " : "", line->words[w]);
			}
		}
	}
	return true;
}

/* Notes which halves the rows below have. */
static void heading_read(struct context *context, const struct line *line)
{
	bool in = false, out = false;

	for (int i = 0; i < line->n; i++) {
		in |= strcmp(line->words[i], "in-place") == 0;
		out |= strcmp(line->words[i], "out-of-place") == 0;
	}
	if (!in && !out)
		return;
	context->in_place = in && !out;
	context->columns = 0;
}

/* Begins a new run, of binary NAME, and forgets the last one. */
static void begin_run(struct context *context, const char *name)
{
	const char *const end = strstr(name, "_perf");

	context->nranks = context->nhosts = 0;
	context->gpu[0] = context->algorithm[0] = '\0';
	context->table = false;
	snprintf(context->collective, sizeof(context->collective), "%.*s",
		 end ? (int)(end - name) : 23, name);
}

/* Reads a comment: the binary, the ranks, the algorithm. Returns false without memory. */
static bool comment_read(struct context *context, const struct line *line)
{
	heading_read(context, line);
	for (int i = 0; i < line->n; i++) {
		const char *const word = line->words[i];

		if (strncmp(word, "backend=", 8) == 0)
			keep(context->backend, sizeof(context->backend), word + 8);
		if (strcmp(word, "Rank") == 0)
			return rank_read(context, line, i);
		if (strcmp(word, "Algorithm:") == 0 && i + 1 < line->n) {
			keep(context->algorithm, sizeof(context->algorithm), line->words[i + 1]);
			context->table = false;
			return true;
		}
		if (strcmp(word, "starting:") == 0 && i + 1 < line->n) {
			begin_run(context, line->words[i + 1]);
			return true;
		}
	}
	return true;
}

/* Reads a pasted command line: the name of the binary. */
static void command_read(struct context *context, const struct line *line)
{
	for (int i = 0; i < line->n; i++) {
		const char *const word = line->words[i], *const slash = strrchr(word, '/');
		const char *const name = slash ? slash + 1 : word;
		const char *const end = strstr(name, "_perf");
		char collective[sizeof(context->collective)];

		if (!end)
			continue;
		snprintf(collective, sizeof(collective), "%.*s", (int)(end - name), name);
		if (bb_collective_find(collective) && strcmp(collective, context->collective) != 0)
			begin_run(context, collective);
	}
}

static bool begin_table(struct bb_claim_file *file, struct context *context)
{
	struct bb_claims *const c = bb_claims_add(file);

	if (!c)
		return false;
	keep(c->collective, sizeof(c->collective), context->collective);
	keep(c->algorithm, sizeof(c->algorithm), context->algorithm);
	keep(c->gpu, sizeof(c->gpu), context->gpu);
	keep(c->backend, sizeof(c->backend), context->backend);
	c->simulated = strcmp(c->backend, "sim") == 0;
	c->nranks = context->nranks;
	c->hosts = context->nhosts;
	c->rounding = 0.0051;
	context->table = true;
	return true;
}

static bool add_row(struct bb_claim_file *file, struct context *context, const struct row *row,
		    int number)
{
	if (!row->there[0] && !row->there[1] && !row->not_finite[0] && !row->not_finite[1])
		return true;
	if (!context->table && !begin_table(file, context))
		return false;
	for (int half = 0; half < 2; half++) {
		struct bb_claims *const c = &file->list[file->n - 1];
		struct bb_claim claim = row->half[half];

		c->not_finite += row->not_finite[half];
		if (!row->there[half])
			continue;
		claim.line = number;
		if (!plausible(&claim) || (half == 1 && row->there[0] && plausible(&row->half[0]) &&
					   !same_factor(&row->half[0], &claim))) {
			c->implausible++;
			continue;
		}
		/* Counted only here: a row with mixed-up columns may have another number there. */
		c->wrong += row->wrong[half] >= 1;
		c->unchecked += isnan(row->wrong[half]);
		if (!bb_claim_add(c, &claim))
			return false;
	}
	return true;
}

/* Begins a row of which LINE has only the N words at word I, because another line interrupted it.
 */
static void begin_row(struct bb_claim_file *file, struct context *context, const struct line *line,
		      int i, int n, int number)
{
	size_t used = 0;

	if (file->cut++ == 0)
		file->cut_line = number;
	context->begun[0] = '\0';
	for (int k = i; k < i + n && used < sizeof(context->begun); k++)
		used += (size_t)snprintf(context->begun + used, sizeof(context->begun) - used,
					 "%s ", k == i ? digits(line->words[k]) : line->words[k]);
	context->begun_line = number;
}

/* Reads the rest of an interrupted row, which has a line of its own. */
static bool end_row(struct bb_claim_file *file, struct context *context, const struct line *line,
		    int number)
{
	char text[sizeof(context->begun) + 1024];
	struct row row = {.there = {false}};
	struct line whole;
	size_t used;
	bool read;
	int i = 0;

	while (i < line->n && !is_value(line->words[i]))
		i++;
	used = (size_t)snprintf(text, sizeof(text), "%s", context->begun);
	for (; i < line->n && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s ", line->words[i]);
	if (used >= sizeof(text))
		return true;
	split(text, &whole);
	read_row(&whole, 0, context, &row, &read);
	if (!read)
		return true;
	context->begun[0] = '\0';
	file->cut--;
	return add_row(file, context, &row, number);
}

/* True if LINE is a line, without its '#', of the summary below a table. */
static bool is_summary(const struct line *line)
{
	for (int i = 0; i < line->n; i++)
		if (strcmp(line->words[i], "bandwidth") == 0 ||
		    strcmp(line->words[i], "bounds") == 0)
			return true;
	return false;
}

/* An interrupted row continues within so many lines. */
#define LINES_BETWEEN 64

static bool line_read(struct bb_claim_file *file, struct context *context, char *text, int number)
{
	char *const comment = strchr(text, '#');
	struct row row = {.there = {false}};
	struct line line;
	bool read = false;
	int n = 0;

	clean(text);
	if (comment) {
		split(comment + 1, &line);
		if (!comment_read(context, &line))
			return false;
		*comment = '\0';
	}
	split(text, &line);
	for (int i = 0; i < line.n && n == 0; i++) {
		n = read_row(&line, i, context, &row, &read);
		if (n > 0 && !read)
			begin_row(file, context, &line, i, n, number);
	}
	if (read)
		return add_row(file, context, &row, number);
	if (n > 0)
		return true;
	command_read(context, &line);
	/* A comment that has lost its '#'. */
	if (!comment && !comment_read(context, &line))
		return false;
	if (number > context->begun_line + LINES_BETWEEN || is_summary(&line))
		context->begun[0] = '\0';
	return context->begun[0] ? end_row(file, context, &line, number) : true;
}

bb_status bb_claims_read_log(const char *path, const char *text, size_t length,
			     struct bb_claim_file *file, struct bb_error *error)
{
	const char *const end = text + length;
	struct context context = {.nhosts = 0};
	char copy[4096];
	bool good = true;

	for (int line = 1; good && text < end; line++) {
		const char *const newline = memchr(text, '\n', (size_t)(end - text));
		const size_t n = (size_t)((newline ? newline : end) - text);
		const size_t kept = n < sizeof(copy) - 1 ? n : sizeof(copy) - 1;

		memcpy(copy, text, kept);
		copy[kept] = '\0';
		good = line_read(file, &context, copy, line);
		text += n + (newline != NULL);
	}
	free(context.hosts);
	return good ? BB_OK : bb_fail(error, BB_EINTERNAL, "%s: more than can be kept", path);
}
