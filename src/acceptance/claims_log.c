/*
 * claims_log.c - text of nccl-tests, as people paste it: with tags of mpirun, time stamps, parts of
 * it.
 */
#include "acceptance/claims.h"

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

/* What comments have said so far, for the tables that follow. */
struct said {
	char collective[24], algorithm[32], gpu[64];
	char (*hosts)[64];
	int64_t nhosts, nranks;
	bool table; /* rows go on in the last table */
};

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

/* The digits at the end of WORD, to which a tag may be glued: "<stdout>:1048576". */
static const char *digits(const char *word)
{
	const char *const colon = strrchr(word, ':');

	return colon && is_whole(colon + 1) ? colon + 1 : word;
}

/*
 * The row that begins at word I: size, count, type, then as versions have it redop and root, then
 * time, algbw, busbw, #wrong out of place and in place; with -I each has four numbers more.
 * WRONG: of each half, NAN where it was not checked. Old versions have the largest error there,
 * which rounding leaves far below 1.
 */
static bool read_row(const struct line *line, int i, struct bb_claim row[2], double wrong[2])
{
	const char *const size = digits(line->words[i]);
	int j = i + 3, left, width;

	if (line->n - i < 11 || !is_whole(size) || !is_whole(line->words[i + 1]) ||
	    !is_letter(line->words[i + 2][0]))
		return false;
	j += is_letter(line->words[j][0]);
	left = line->n - j;
	width = left >= 16 ? 8 : 4;
	if (left == 2 * width + 1)
		j++;
	else if (left != 2 * width)
		return false;
	for (int half = 0; half < 2; half++, j += width) {
		double *const into[] = {&row[half].time_us, &row[half].algbw_GBps,
					&row[half].busbw_GBps};

		row[half].size_bytes = strtoull(size, NULL, 10);
		row[half].in_place = half == 1;
		for (int k = 0; k < 3; k++)
			if (!number(line->words[j + k], into[k]))
				return false;
		if (!number(line->words[j + 3], &wrong[half]))
			wrong[half] = NAN;
	}
	return row[0].size_bytes > 0;
}

/* Whether a bandwidth is that of its size and time, to what four digits of time and two of
   bandwidth leave open. */
static bool plausible(const struct bb_claim *c)
{
	const double GBps = (double)c->size_bytes / c->time_us / 1e3;

	return c->time_us > 0 && c->busbw_GBps >= 0 &&
	       fabs(GBps - c->algbw_GBps) <= 0.0051 + 2e-3 * GBps;
}

static void keep(char *into, size_t room, const char *text)
{
	snprintf(into, room, "%s", text);
}

static bool add_host(struct said *said, const char *host)
{
	char(*hosts)[64];

	for (int64_t i = said->nhosts; i > 0; i--)
		if (strncmp(said->hosts[i - 1], host, 63) == 0)
			return true;
	if (said->nhosts == MOST_HOSTS)
		return true;
	hosts = realloc(said->hosts, (size_t)(said->nhosts + 1) * sizeof(*hosts));
	if (!hosts)
		return false;
	said->hosts = hosts;
	keep(hosts[said->nhosts++], sizeof(*hosts), host);
	return true;
}

/* "#  Rank  3 Group  0 Pid 17 on  node5 device  3 [0000:1b:00] NVIDIA H100 80GB HBM3" */
static bool take_rank(struct said *said, const struct line *line, int i)
{
	int64_t rank;

	if (i + 1 >= line->n || !is_whole(line->words[i + 1]))
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

/* A comment: what runs, where, by which algorithm. */
static bool take_comment(struct said *said, const struct line *line)
{
	for (int i = 0; i < line->n; i++) {
		const char *const word = line->words[i];

		if (strcmp(word, "Rank") == 0)
			return take_rank(said, line, i);
		if (strcmp(word, "Algorithm:") == 0 && i + 1 < line->n) {
			keep(said->algorithm, sizeof(said->algorithm), line->words[i + 1]);
			said->table = false;
			return true;
		}
		if (strcmp(word, "starting:") == 0 && i + 1 < line->n) {
			const char *const name = line->words[i + 1];

			/* A new run begins: nothing of the last one holds for it. */
			said->nranks = said->nhosts = 0;
			said->gpu[0] = said->algorithm[0] = '\0';
			said->table = false;
			snprintf(said->collective, sizeof(said->collective), "%.*s",
				 (int)(strstr(name, "_perf") ? strstr(name, "_perf") - name : 23),
				 name);
			return true;
		}
	}
	return true;
}

static bool begin_table(struct bb_claim_file *file, struct said *said)
{
	struct bb_claims *const c = bb_claims_add(file);

	if (!c)
		return false;
	keep(c->collective, sizeof(c->collective), said->collective);
	keep(c->algorithm, sizeof(c->algorithm), said->algorithm);
	keep(c->gpu, sizeof(c->gpu), said->gpu);
	c->nranks = said->nranks;
	c->hosts = said->nhosts;
	c->rounding = 0.0051;
	said->table = true;
	return true;
}

static bool take_line(struct bb_claim_file *file, struct said *said, char *text, int number_of_line)
{
	char *const comment = strchr(text, '#');
	struct bb_claim row[2] = {{.line = number_of_line}, {.line = number_of_line}};
	double wrong[2];
	struct line line;
	bool found = false;

	if (comment) {
		split(comment + 1, &line);
		if (!take_comment(said, &line))
			return false;
		*comment = '\0';
	}
	split(text, &line);
	for (int i = 0; i + 11 <= line.n && !found; i++)
		found = read_row(&line, i, row, wrong);
	if (!found)
		return true;
	if (!said->table && !begin_table(file, said))
		return false;
	for (int half = 0; half < 2; half++) {
		struct bb_claims *const c = &file->list[file->n - 1];

		c->wrong += wrong[half] >= 1;
		c->unchecked += isnan(wrong[half]);
		if (!plausible(&row[half]))
			c->implausible++;
		else if (!bb_claim_add(c, &row[half]))
			return false;
	}
	return true;
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
