/*
 * claims_log.c - text of nccl-tests, as people paste it: with tags of mpirun, time stamps, colours,
 * without the '#' that a page took for a heading, parts of it, with NCCL's own log between.
 */
#include "acceptance/claims.h"

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

/* The comments so far, for the tables that follow. */
struct said {
	char collective[24], algorithm[32], gpu[64], backend[16];
	char (*hosts)[64];
	int64_t nhosts, nranks, room;
	bool table;      /* rows go on in the last table */
	bool in_place;   /* rows of one half are of this placement: the heading names no other */
	int columns;     /* of both halves of the last row that was whole; 0: unknown */
	uint64_t size;   /* of that row */
	char begun[160]; /* a row that another line cut off, up to there; "": none */
	int begun_line;
};

/* Blank out what terminals and pages put between words: colours, no-break spaces, bars. */
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

/* A quotient of 0 as printf writes it. */
static bool is_not_finite(const char *word)
{
	word += *word == '-';
	return strcmp(word, "nan") == 0 || strcmp(word, "inf") == 0;
}

/* The digits at the end of WORD, to which a tag may be glued: "<stdout>:1048576". */
static const char *digits(const char *word)
{
	const char *const colon = strrchr(word, ':');

	return colon && is_whole(colon + 1) ? colon + 1 : word;
}

/* A value of a column: a number, with an asterisk if it is an error too large, or none. */
static bool is_value(const char *word)
{
	char *end;

	if (strcmp(word, "N/A") == 0 || is_not_finite(word))
		return true;
	strtod(word, &end);
	return end != word && !is_letter(word[0]) && (!*end || strcmp(end, "*") == 0);
}

/* #wrong of a half: NAN where it was not checked. Old versions have the largest error there, which
   rounding leaves far below 1, and an asterisk where that is too large. */
static double read_wrong(const char *word)
{
	char *end;
	const double wrong = strtod(word, &end);

	return end == word || is_letter(word[0]) ? NAN : *end == '*' ? 1 : wrong;
}

/* Types by the names that nccl-tests and its like print. */
static bool is_type(const char *word)
{
	static const char *const types[] = {"int",    "uint",   "half", "float",
					    "double", "bfloat", "f8",   "fp8"};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(word, types[i], strlen(types[i])) == 0)
			return true;
	return false;
}

/* One row as it was printed: a half that was not run is not there. */
struct row {
	struct bb_claim half[2];
	double wrong[2];
	bool there[2];
	bool not_finite[2]; /* nan or inf is among its numbers */
};

static bool read_half(const struct line *line, int j, struct bb_claim *half)
{
	return number(line->words[j], &half->time_us) &&
	       number(line->words[j + 1], &half->algbw_GBps) &&
	       number(line->words[j + 2], &half->busbw_GBps);
}

/* Whether a bandwidth is that of its size and time, to what four digits of time and two of
   bandwidth leave open. */
static bool plausible(const struct bb_claim *c)
{
	const double GBps = (double)c->size_bytes / c->time_us / 1e3;

	return c->time_us > 0 && c->busbw_GBps >= 0 &&
	       fabs(GBps - c->algbw_GBps) <= 0.0051 + 2e-3 * GBps;
}

/* Whether both halves have the factor of their number of ranks, to what rounding leaves open. */
static bool same_factor(const struct bb_claim *a, const struct bb_claim *b)
{
	const double half = 0.0051;

	return (a->busbw_GBps - half) * (b->algbw_GBps - half) <=
		       (b->busbw_GBps + half) * (a->algbw_GBps + half) &&
	       (b->busbw_GBps - half) * (a->algbw_GBps - half) <=
		       (a->busbw_GBps + half) * (b->algbw_GBps + half);
}

/* Whether the LEFT values from word J on hold time, algbw and busbw of SIZE, and not where they
   were READ: one of the columns behind them is missing. */
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
 * The halves in the LEFT values of LINE from word J on, behind the root, where one comes first.
 * Returns how many columns they have; 0: fewer than a whole row, or than LEAST.
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
 * The row that begins at word I: size, count, type, then as versions have it redop and root, then
 * time, algbw, busbw, #wrong out of place and in place; with -I each has four numbers more. A half
 * that was not run has "N/A" in its columns, or is missing. Returns how many words of it there are,
 * 0: none begins there. READ: whether it is whole, with as many halves as the rows above it.
 */
static int read_row(const struct line *line, int i, struct said *said, struct row *row, bool *read)
{
	const char *const text = digits(line->words[i]);
	const uint64_t size = is_whole(text) ? strtoull(text, NULL, 10) : 0;
	const bool below = said->table && size >= said->size;
	int j = i + 3, left = 0, columns;

	*row = (struct row){.there = {false}};
	*read = false;
	if (line->n - i < 3 || size == 0 || !is_whole(line->words[i + 1]) ||
	    !is_type(line->words[i + 2]))
		return 0;
	j += j < line->n && is_letter(line->words[j][0]) && !is_value(line->words[j]);
	while (j + left < line->n && is_value(line->words[j + left]))
		left++;
	columns = read_halves(line, j, left, below ? said->columns : 0, size, said->in_place, row);
	*read = columns > 0;
	if (*read) {
		said->columns = columns;
		said->size = size;
	}
	return j + left - i;
}

static void keep(char *into, size_t room, const char *text)
{
	snprintf(into, room, "%s", text);
}

static bool add_host(struct said *said, const char *host)
{
	char(*new)[64];

	for (int64_t i = said->nhosts; i > 0; i--)
		if (strncmp(said->hosts[i - 1], host, 63) == 0)
			return true;
	if (said->nhosts == MOST_HOSTS)
		return true;
	new = BB_ARRAY_ADD(said->hosts, said->nhosts, said->room);
	if (new)
		keep(*new, sizeof(*new), host);
	return new;
}

/* "#  Rank  3 Group  0 Pid 17 on  node5 device  3 [0000:1b:00] NVIDIA H100 80GB HBM3" */
static bool take_rank(struct said *said, const struct line *line, int i)
{
	int64_t rank;
	bool device = false;

	for (int k = i; k < line->n; k++)
		device |= strcmp(line->words[k], "device") == 0;
	if (i + 1 >= line->n || !is_whole(line->words[i + 1]) || !device)
		return true;
	rank = strtoll(line->words[i + 1], NULL, 10);
	if (rank == 0) {
		said->nranks = said->nhosts = 0;
		said->table = false;
	}
	said->nranks = rank + 1 > said->nranks && rank < 1 << 24 ? rank + 1 : said->nranks;
	for (int k = i + 2; k + 1 < line->n; k++) {
		if (strcmp(line->words[k], "on") == 0 && !add_host(said, line->words[k + 1]))
			return false;
		if (line->words[k][0] == '[' && is_letter(line->words[k + 1][0])) {
			said->gpu[0] = '\0';
			for (int w = k + 1; w < line->n; w++) {
				const size_t used = strlen(said->gpu);

				snprintf(said->gpu + used, sizeof(said->gpu) - used, "%s%s",
					 used ? " " : "", line->words[w]);
			}
		}
	}
	return true;
}

/* Which halves the rows below have. */
static void take_heading(struct said *said, const struct line *line)
{
	bool in = false, out = false;

	for (int i = 0; i < line->n; i++) {
		in |= strcmp(line->words[i], "in-place") == 0;
		out |= strcmp(line->words[i], "out-of-place") == 0;
	}
	if (!in && !out)
		return;
	said->in_place = in && !out;
	said->columns = 0;
}

/* A new run, of binary NAME, begins: nothing of the last one holds for it. */
static void begin_run(struct said *said, const char *name)
{
	const char *const end = strstr(name, "_perf");

	said->nranks = said->nhosts = 0;
	said->gpu[0] = said->algorithm[0] = '\0';
	said->table = false;
	snprintf(said->collective, sizeof(said->collective), "%.*s", end ? (int)(end - name) : 23,
		 name);
}

/* A comment: what runs, where, by which algorithm. */
static bool take_comment(struct said *said, const struct line *line)
{
	take_heading(said, line);
	for (int i = 0; i < line->n; i++) {
		const char *const word = line->words[i];

		if (strncmp(word, "backend=", 8) == 0)
			keep(said->backend, sizeof(said->backend), word + 8);
		if (strcmp(word, "Rank") == 0)
			return take_rank(said, line, i);
		if (strcmp(word, "Algorithm:") == 0 && i + 1 < line->n) {
			keep(said->algorithm, sizeof(said->algorithm), line->words[i + 1]);
			said->table = false;
			return true;
		}
		if (strcmp(word, "starting:") == 0 && i + 1 < line->n) {
			begin_run(said, line->words[i + 1]);
			return true;
		}
	}
	return true;
}

/* The command line above a log, as people paste it: the name of the binary alone. */
static void take_command(struct said *said, const struct line *line)
{
	for (int i = 0; i < line->n; i++) {
		const char *const word = line->words[i], *const slash = strrchr(word, '/');
		const char *const name = slash ? slash + 1 : word;
		const char *const end = strstr(name, "_perf");
		char collective[sizeof(said->collective)];

		if (!end)
			continue;
		snprintf(collective, sizeof(collective), "%.*s", (int)(end - name), name);
		if (bb_collective_find(collective) && strcmp(collective, said->collective) != 0)
			begin_run(said, collective);
	}
}

static bool begin_table(struct bb_claim_file *file, struct said *said)
{
	struct bb_claims *const c = bb_claims_add(file);

	if (!c)
		return false;
	keep(c->collective, sizeof(c->collective), said->collective);
	keep(c->algorithm, sizeof(c->algorithm), said->algorithm);
	keep(c->gpu, sizeof(c->gpu), said->gpu);
	keep(c->backend, sizeof(c->backend), said->backend);
	c->simulated = strcmp(c->backend, "sim") == 0;
	c->nranks = said->nranks;
	c->hosts = said->nhosts;
	c->rounding = 0.0051;
	said->table = true;
	return true;
}

static bool add_row(struct bb_claim_file *file, struct said *said, const struct row *row,
		    int number)
{
	if (!row->there[0] && !row->there[1] && !row->not_finite[0] && !row->not_finite[1])
		return true;
	if (!said->table && !begin_table(file, said))
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
		/* In a row whose columns are mixed up another number may stand there. */
		c->wrong += row->wrong[half] >= 1;
		c->unchecked += isnan(row->wrong[half]);
		if (!bb_claim_add(c, &claim))
			return false;
	}
	return true;
}

/* A row of which LINE has the N words from word I on, until another line broke in. */
static void begin_row(struct bb_claim_file *file, struct said *said, const struct line *line, int i,
		      int n, int number)
{
	size_t used = 0;

	if (file->cut++ == 0)
		file->cut_line = number;
	said->begun[0] = '\0';
	for (int k = i; k < i + n && used < sizeof(said->begun); k++)
		used += (size_t)snprintf(said->begun + used, sizeof(said->begun) - used, "%s ",
					 k == i ? digits(line->words[k]) : line->words[k]);
	said->begun_line = number;
}

/* The rest of a row that was cut off, on a line of its own behind what broke in. */
static bool end_row(struct bb_claim_file *file, struct said *said, const struct line *line,
		    int number)
{
	char text[sizeof(said->begun) + 1024];
	struct row row = {.there = {false}};
	struct line whole;
	size_t used;
	bool read;
	int i = 0;

	while (i < line->n && !is_value(line->words[i]))
		i++;
	used = (size_t)snprintf(text, sizeof(text), "%s", said->begun);
	for (; i < line->n && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s ", line->words[i]);
	if (used >= sizeof(text))
		return true;
	split(text, &whole);
	read_row(&whole, 0, said, &row, &read);
	if (!read)
		return true;
	said->begun[0] = '\0';
	file->cut--;
	return add_row(file, said, &row, number);
}

/* Whether LINE is of the summary below a table, of which a page took the '#'. */
static bool is_summary(const struct line *line)
{
	for (int i = 0; i < line->n; i++)
		if (strcmp(line->words[i], "bandwidth") == 0 ||
		    strcmp(line->words[i], "bounds") == 0)
			return true;
	return false;
}

/* Behind so many lines a row that was cut off does not go on. */
#define LINES_BETWEEN 64

static bool take_line(struct bb_claim_file *file, struct said *said, char *text, int number)
{
	char *const comment = strchr(text, '#');
	struct row row = {.there = {false}};
	struct line line;
	bool read = false;
	int n = 0;

	clean(text);
	if (comment) {
		split(comment + 1, &line);
		if (!take_comment(said, &line))
			return false;
		*comment = '\0';
	}
	split(text, &line);
	for (int i = 0; i < line.n && n == 0; i++) {
		n = read_row(&line, i, said, &row, &read);
		if (n > 0 && !read)
			begin_row(file, said, &line, i, n, number);
	}
	if (read)
		return add_row(file, said, &row, number);
	if (n > 0)
		return true;
	take_command(said, &line);
	/* A comment that has lost its '#'. */
	if (!comment && !take_comment(said, &line))
		return false;
	if (number > said->begun_line + LINES_BETWEEN || is_summary(&line))
		said->begun[0] = '\0';
	return said->begun[0] ? end_row(file, said, &line, number) : true;
}

bb_status bb_claims_read_log(const char *path, const char *text, size_t length,
			     struct bb_claim_file *file, struct bb_error *error)
{
	const char *const end = text + length;
	struct said said = {.nhosts = 0};
	char copy[4096];
	bool good = true;

	for (int line = 1; good && text < end; line++) {
		const char *const newline = memchr(text, '\n', (size_t)(end - text));
		const size_t n = (size_t)((newline ? newline : end) - text);
		const size_t kept = n < sizeof(copy) - 1 ? n : sizeof(copy) - 1;

		memcpy(copy, text, kept);
		copy[kept] = '\0';
		good = take_line(file, &said, copy, line);
		text += n + (newline != NULL);
	}
	free(said.hosts);
	return good ? BB_OK : bb_fail(error, BB_EINTERNAL, "%s: more than can be kept", path);
}
