/*
 * log_lines.c - the lines of a log, as they were before containers and tools wrapped them, the tags
 * before them, the rows of tables of nccl-tests, and command lines that start a benchmark.
 */
#include "logs/log.h"

#include "schedules/schedule.h"
#include "core/units.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- unwrapping ----------------------------------------------------------------------------- */

static bool line_give(const char *text, size_t length, int number, bb_log_reader *read, void *state)
{
	char copy[BB_LOG_LINE];
	const size_t kept = length < sizeof(copy) - 1 ? length : sizeof(copy) - 1;

	memcpy(copy, text, kept);
	copy[kept] = '\0';
	return read(state, copy, number);
}

/* Returns the string of a logger's JSON object, "{"log":"...", cut at its end; NULL: none. */
static char *logged(char *text)
{
	static const char *const keys[] = {
		"\"log\":", "\"message\":", "\"msg\":", "\"line\":", "\"textPayload\":"};

	text += strspn(text, " \t");
	for (size_t i = 0; *text == '{' && i < sizeof(keys) / sizeof(keys[0]); i++) {
		char *begin = strstr(text, keys[i]), *end;

		if (!begin)
			continue;
		begin += strlen(keys[i]);
		begin += strspn(begin, " ");
		if (*begin++ != '"')
			continue;
		for (end = begin; *end && *end != '"'; end++)
			end += end[0] == '\\' && end[1];
		*end = '\0';
		return begin;
	}
	return NULL;
}

/* Breaks an array of lines in quotes Q, '["# nThread ...", "   1048576 ..."]', after its elements.
   Returns its first one; NULL: TEXT has none. */
static char *array_break(char *text, char q)
{
	char *first = NULL;
	bool is_array = false;

	for (int pass = 0; pass < 2; pass++) {
		for (char *c = text; (c = strchr(c, q)); c++) {
			const size_t next = c[1] == ',' ? 2 + strspn(c + 2, " ") : 0;

			if (next > 0 && c[next] == q && pass == 0)
				is_array |= c[next + 1] == '#' || c[next + 1] == ' ';
			if (pass == 0)
				continue;
			if (next > 0 && c[next] == q)
				c[1] = '\n', c[next] = ' ';
			else if (!first && c > text && c[-1] == '[')
				first = c + 1;
			else if (c[1] != ']')
				continue;
			*c = ' ';
		}
		if (!is_array)
			return NULL;
	}
	return first ? first : text;
}

/* Gives the lines within the LENGTH bytes of TEXT, which something wrapped. */
static bool wrapped_give(const char *text, size_t length, int number, bb_log_reader *read,
			 void *state)
{
	char *const copy = strndup(text, length), *at;
	bool good = true;

	if (!copy)
		return false;
	/* Ansible repeats "stdout" as "stdout_lines". */
	char *next = strstr(copy, "\"stdout_lines\":");
	char *const other = next ? strstr(copy, "\"stdout\":") : NULL;
	if (other)
		*(other < next ? next : other) = '\0';
	at = logged(copy) ?: copy;
	/* The string that has the first escaped line break. */
	next = strstr(at, "\\n");
	next = next ? memrchr(at, '"', (size_t)(next - at)) : NULL;
	if (next && (next == at || next[-1] != '\\'))
		at = next + 1;
	for (int depth = 0; depth == 0 || (depth < 3 && strstr(at, "\\n")); depth++) {
		static const char from[] = "nrt\"/\\", to[] = "\n \t\"/\\";
		char *out = at;

		for (const char *c = at; *c; c++) {
			const char *const found = c[0] == '\\' && c[1] ? strchr(from, c[1]) : NULL;

			if (found) {
				*out++ = to[found - from];
				c++;
			} else if (c[0] == '\\' && c[1] == 'u' && strnlen(c + 2, 4) == 4) {
				char digits[5] = {0}, *end;

				memcpy(digits, c + 2, 4);
				unsigned long code = strtoul(digits, &end, 16);
				code = end != digits + 4           ? '?'
				       : code == 0 || code == 0xa0 ? ' '
								   : code;
				*out++ = code < 0x80 ? (char)code : '?';
				c += 5;
			} else {
				*out++ = *c;
			}
		}
		*out = '\0';
	}
	at = array_break(at, '"') ?: array_break(at, '\'') ?: at;
	for (; good && at; at = next) {
		next = strchr(at, '\n');
		good = line_give(at, next ? (size_t)(next - at) : strlen(at), number, read, state);
		next = next && next[1] ? next + 1 : NULL;
	}
	free(copy);
	return good;
}

bool bb_log_lines(const char *text, size_t length, bb_log_reader *read, void *state)
{
	const char *const end = text + length;
	bool good = true;

	for (int number = 1; good && text < end; number++) {
		const char *const newline = memchr(text, '\n', (size_t)(end - text));
		const size_t n = (size_t)((newline ? newline : end) - text);
		const bool wrapped = memmem(text, n, "\\n", 2) || memmem(text, n, "\",", 2) ||
				     memmem(text, n, "',", 2) || memmem(text, n, "{\"", 2);

		good = wrapped ? wrapped_give(text, n, number, read, state)
			       : line_give(text, n, number, read, state);
		text += n + (newline != NULL);
	}
	return good;
}

/* ---- words ---------------------------------------------------------------------------------- */

void bb_log_clean(char *text)
{
	for (char *c = text; *c; c++) {
		size_t n = 0;

		if (c[0] == '\033' && c[1] == '[')
			n = 2 + strspn(c + 2, "0123456789;"), n += c[n] != '\0';
		else if (strncmp(c, "\xc2\xa0", 2) == 0)
			n = 2;
		else if (*c == '\r')
			n = 1;
		memset(c, ' ', n);
	}
}

void bb_log_blank(char *text)
{
	for (char *c = text; *c; c++)
		if (strchr("\"|#`", *c) || (*c == ',' && (!c[1] || strchr(" \t\"']", c[1]))))
			*c = ' ';
}

void bb_log_split(char *text, struct bb_log_words *words)
{
	const int most = (int)(sizeof(words->at) / sizeof(words->at[0]));

	words->n = 0;
	while (words->n < most && (words->at[words->n] = strtok_r(text, " \t", &text)))
		words->n++;
}

int bb_log_find(const struct bb_log_words *words, const char *phrase)
{
	for (int i = 0; i < words->n; i++) {
		const char *rest = phrase;

		for (int k = i; *rest && k < words->n; k++) {
			const size_t n = strcspn(rest, " ");

			if (strncmp(words->at[k], rest, n) != 0 || words->at[k][n])
				break;
			rest += n + (rest[n] == ' ');
		}
		if (!*rest)
			return i;
	}
	return -1;
}

bool bb_log_is_whole(const char *word)
{
	return *word && strlen(word) < 19 && word[strspn(word, "0123456789")] == '\0';
}

/* ---- tags ----------------------------------------------------------------------------------- */

/* True for a date, a time, or seconds: "2026-01-01T00:00:00.123Z", "[12:00:01]", "1234.567". */
static bool is_time(const char *word, size_t n)
{
	size_t marks = 0, points = 0, digits = 0;

	for (size_t i = 0; i < n; i++) {
		if (!strchr("0123456789:-/.TZ+,[]", word[i]))
			return false;
		marks += strchr(":-/", word[i]) != NULL;
		points += word[i] == '.';
		digits += word[i] >= '0' && word[i] <= '9';
	}
	return digits > 2 && (marks > 1 || points > 0);
}

/* Returns the bytes of one tag at the begin of TEXT. */
static size_t tag_at(const char *text)
{
	const size_t n = strcspn(text, " \t");
	const size_t blanks = strspn(text + n, " \t");
	const char *end;

	/* "value:" and "name:" are YAML's. */
	if (n == 0 || strncmp(text, "value:", 6) == 0 || strncmp(text, "name:", 5) == 0)
		return 0;
	if (strchr("[(<", *text)) {
		end = strchr(text, *text == '[' ? ']' : *text == '(' ? ')' : '>');
		if (!end || end - text >= BB_LOG_TAG ||
		    (*text == '(' && !memmem(text, (size_t)(end - text), "pid=", 4)))
			return 0;
		return (size_t)(end + 1 - text) + (end[1] == ':');
	}
	if (is_time(text, n) || text[n - 1] == ':')
		return n;
	if (text[n + blanks] == '|' && !bb_log_is_whole(text) && *text != '|')
		return n + blanks + 1;
	return strncmp(text, "stdout F ", 9) == 0 || strncmp(text, "stderr F ", 9) == 0 ? 8 : 0;
}

size_t bb_log_tag_length(const char *text)
{
	size_t at = strspn(text, " \t"), n;

	while ((n = tag_at(text + at)) > 0) {
		at += n;
		at += strspn(text + at, " \t");
	}
	return at;
}

void bb_log_tag(char tag[BB_LOG_TAG], const char *text, size_t length)
{
	size_t used = 0, n;

	for (size_t i = 0; i < length; i += n) {
		n = strcspn(text + i, " \t\"");
		n = n < length - i ? n : length - i;
		if (n == 0)
			n = 1;
		else if (!is_time(text + i, n) && strspn(text + i, "0123456789") < n)
			for (size_t k = i; k < i + n && used < BB_LOG_TAG - 1; k++)
				tag[used++] = text[k];
	}
	tag[used] = '\0';
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool number(const char *word, double *value)
{
	char *end;

	*value = strtod(word, &end);
	return end != word && !*end && isfinite(*value);
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
	return end != word && !isalpha((unsigned char)word[0]) && (!*end || strcmp(end, "*") == 0);
}

static const struct {
	const char *prefix;
	uint64_t bytes;
} types[] = {
	{"int8", 1},  {"uint8", 1},  {"int16", 2},  {"uint16", 2},  {"int64", 8},  {"uint64", 8},
	{"int", 4},   {"uint", 4},   {"half", 2},   {"float16", 2}, {"float8", 1}, {"float64", 8},
	{"float", 4}, {"double", 8}, {"bfloat", 2}, {"f8", 1},      {"fp8", 1},
};

uint64_t bb_log_type_bytes(const char *type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(type, types[i].prefix, strlen(types[i].prefix)) == 0)
			return types[i].bytes;
	return 0;
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

/* True if the bandwidth is that of the size and time, within the rounding of four digits of time
   and two decimals of bandwidth. */
static bool is_plausible(const struct bb_claim *c)
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

void bb_log_row_clean(char *text)
{
	for (char *c = text; *c; c++) {
		const char *const end = *c == '['   ? strchr(c, ']')
					: *c == '<' ? strchr(c, '>')
						    : NULL;

		if (end && end - c < BB_LOG_TAG && !memchr(c, ' ', (size_t)(end - c)))
			memset(c, ' ', (size_t)(end - c) + 1 + (end[1] == ':'));
		else if (*c == ',')
			*c = c > text && isdigit((unsigned char)c[-1]) &&
					     isdigit((unsigned char)c[1])
				     ? '.'
				     : ' ';
	}
}

int bb_log_row_find(const struct bb_log_words *words)
{
	for (int i = 0; i + 2 < words->n; i++) {
		const char *const size = bb_log_digits(words->at[i]);

		if (bb_log_is_whole(size) && bb_log_is_whole(words->at[i + 1]) &&
		    bb_log_type_bytes(words->at[i + 2]) > 0 && strtoull(size, NULL, 10) > 0)
			return i;
	}
	return -1;
}

void bb_log_row_read(const struct bb_log_words *words, int i, struct bb_log_shape *shape,
		     struct bb_log_row *row)
{
	const uint64_t size = strtoull(bb_log_digits(words->at[i]), NULL, 10);
	const int least = shape->size > 0 && size >= shape->size ? shape->columns : 0;
	struct bb_claim other = {.size_bytes = size};
	int j = i + 3, left = 0, width, halves, root;
	bool plausible = false;
	char *end;

	*row = (struct bb_log_row){.count = strtoull(words->at[i + 1], NULL, 10)};
	snprintf(row->type, sizeof(row->type), "%s", words->at[i + 2]);
	if (j < words->n && isalpha((unsigned char)words->at[j][0]) &&
	    !bb_log_is_value(words->at[j]))
		snprintf(row->op, sizeof(row->op), "%s", words->at[j++]);
	while (j + left < words->n && bb_log_is_value(words->at[j + left]))
		left++;
	row->n = j + left - i;
	/* The first value may be the root. */
	width = left >= 16 ? 8 : 4;
	halves = left >= 2 * width ? 2 : 1;
	root = left - halves * width;
	if (root < 0 || root > 1 || halves * width < least)
		return;
	if (root == 1)
		snprintf(row->root, sizeof(row->root), "%s", words->at[j]);
	for (int k = 0; k < halves; k++) {
		const int half = halves == 1 ? shape->in_place : k, at = j + root + k * width;

		row->half[half].size_bytes = size;
		row->half[half].in_place = half == 1;
		row->there[half] = read_half(words, at, &row->half[half]);
		row->implausible[half] = !is_plausible(&row->half[half]);
		plausible |= row->there[half] && !row->implausible[half];
		/* Old versions print the largest error there, which rounding leaves far below 1,
		   with an asterisk if it is too large. */
		row->wrong[half] = strtod(words->at[at + 3], &end);
		if (end == words->at[at + 3] || isalpha((unsigned char)words->at[at + 3][0]))
			row->wrong[half] = NAN;
		else if (*end == '*')
			row->wrong[half] = 1;
		/* How large an error may be depends on the type: only an asterisk tells. */
		row->doubtful[half] = shape->last != BB_LOG_WRONG && row->wrong[half] >= 1 &&
				      !strchr(words->at[at + 3], '*');
		if (shape->last == BB_LOG_ERROR && row->doubtful[half])
			row->wrong[half] = NAN;
		for (int w = at; w < at + 3; w++)
			row->not_finite[half] |= is_not_finite(words->at[w]);
	}
	/* If the values behind the first, or before it, are those of SIZE, a column is missing. */
	for (int k = 0; !plausible && k < 2 && k * width + 3 <= left - 1 + root; k++)
		if (read_half(words, j + 1 - root + k * width, &other) && is_plausible(&other))
			return;
	if (row->there[0] && !row->implausible[0])
		row->implausible[1] |= !bb_log_same_factor(&row->half[0], &row->half[1]);
	row->whole = true;
	shape->columns = halves * width;
	shape->size = size;
}

/* ---- command lines --------------------------------------------------------------------------- */

/* Numbers of a command line are foreign: at most a million of anything. */
static int64_t bounded(int64_t n)
{
	return n < 0 ? 0 : n > 1000000 ? 1000000 : n;
}

/* Returns the value of the option with one of NAMES at word I: the next word, or what follows "="
   or, for a name of two characters, the name; NULL: another option. */
static const char *value_of(const struct bb_log_words *words, int i, const char *names)
{
	const char *const word = words->at[i];

	for (size_t n; *names; names += n + (names[n] == ' ')) {
		n = strcspn(names, " ");
		if (strncmp(word, names, n) != 0)
			continue;
		if (word[n] == '\0')
			return i + 1 < words->n ? words->at[i + 1] : NULL;
		if (word[n] == '=')
			return word + n + 1;
		if (n == 2 && word[n] >= '0' && word[n] <= '9')
			return word + n;
	}
	return NULL;
}

/* Reads a list of hosts, "a:8,b:8" or "a,a,b,b". */
static void read_hosts(const char *list, struct bb_log_command *c)
{
	const char *before = "";
	size_t nbefore = 0;
	int64_t slots = 0, nodes = 0;

	/* "-H <hosts>" and "-H $HOSTS" name none. */
	if (strchr("<${[", *list))
		return;
	while (*list) {
		const size_t n = strcspn(list, ","), name = strcspn(list, ":,");

		nodes += name > 0 && (name != nbefore || strncmp(list, before, name) != 0);
		slots += list[name] == ':' ? bounded(strtol(list + name + 1, NULL, 10)) : 1;
		before = list;
		nbefore = name;
		list += n + (list[n] == ',');
	}
	if (nodes == 0)
		return;
	c->nodes = nodes;
	if (slots > nodes && slots % nodes == 0)
		c->per_node = slots / nodes;
}

/* Options by their names, and what the value is: a whole number, bytes, a factor, "2(factor)" or
   "8(bytes)", a datatype, or hosts. */
enum program { NO_PROGRAM, MPIRUN = 1, SRUN = 2, BENCHMARK = 4, SBATCH = 8 };
static const struct option {
	const char *names;
	int of; /* enum program */
	enum { NUMBER, BYTES, FACTOR, STEP, TYPE, HOSTS } value;
	size_t at; /* of the number in struct bb_log_command */
} options[] = {
#define AT(member) offsetof(struct bb_log_command, member)
	{"-np --np -n --n --ntasks", MPIRUN | SRUN, NUMBER, AT(processes)},
	{"--ntasks-per-node -npernode --npernode -ppn --ppn", MPIRUN | SRUN, NUMBER, AT(per_node)},
	{"--nodes", MPIRUN | SRUN, NUMBER, AT(nodes)},
	{"-N", MPIRUN, NUMBER, AT(per_node)},
	{"-N", SRUN, NUMBER, AT(nodes)},
	{"-H -host --host -hosts --hosts", MPIRUN, HOSTS, 0},
	{"-t --nthreads nThread", BENCHMARK, NUMBER, AT(threads)},
	{"-g --ngpus nGpus", BENCHMARK, NUMBER, AT(gpus)},
	{"-b --minbytes minBytes", BENCHMARK, BYTES, AT(least_bytes)},
	{"-e --maxbytes maxBytes", BENCHMARK, BYTES, AT(most_bytes)},
	{"-i --stepbytes", BENCHMARK, BYTES, AT(step_bytes)},
	{"-f --stepfactor", BENCHMARK, FACTOR, AT(factor)},
	{"step:", BENCHMARK, STEP, 0},
	{"-d --datatype", BENCHMARK, TYPE, 0},
};

/* Reads word I if it is an option of OF. */
static void option_read(struct bb_log_command *c, const struct bb_log_words *words, int i,
			enum program of)
{
	for (const struct option *o = options; o < options + sizeof(options) / sizeof(*o); o++) {
		const char *const value = (o->of & of) ? value_of(words, i, o->names) : NULL;
		const size_t n = value ? strspn(value, "0123456789") : 0;
		const int64_t whole = n > 0 && n < 19 ? strtoll(value, NULL, 10) : 0;
		const bool small = n > 0 && n < 9 && value[n] != '.';
		void *const into = (char *)c + o->at;
		uint64_t bytes;

		if (!value)
			continue;
		if (o->value == NUMBER && small)
			*(int64_t *)into = whole;
		else if (o->value == BYTES && bb_parse_size(value, &bytes))
			*(uint64_t *)into = bytes;
		else if (o->value == FACTOR && small && whole > 1)
			c->factor = (double)whole;
		else if (o->value == STEP && strstr(value, "factor"))
			c->factor = (double)whole;
		else if (o->value == STEP)
			c->step_bytes = (uint64_t)whole;
		else if (o->value == TYPE && bb_log_type_bytes(value) > 0)
			BB_LOG_KEEP(c->type, value);
		else if (o->value == HOSTS)
			read_hosts(value, c);
	}
}

void bb_log_sizes_read(struct bb_log_command *sizes, const struct bb_log_words *words)
{
	*sizes = (struct bb_log_command){.threads = 1};
	for (int i = 0; i < words->n; i++)
		option_read(sizes, words, i, BENCHMARK);
}

const char *bb_log_osu(const char *word)
{
	static const char *const osu[][3] = {
		{"osu_allreduce", "Allreduce", "all_reduce"},
		{"osu_allgather", "Allgather", "all_gather"},
		{"osu_alltoall", "All-to-All", "alltoall"},
		{"osu_bcast", "Broadcast", "broadcast"},
		{"osu_reduce_scatter", "Reduce_scatter", "reduce_scatter"},
		{"osu_reduce", "Reduce", "reduce"},
		{"osu_gather", "Gather", "gather"},
		{"osu_scatter", "Scatter", "scatter"}};

	for (size_t i = 0; i < sizeof(osu) / sizeof(osu[0]); i++)
		if (strcmp(word, osu[i][0]) == 0 || strcmp(word, osu[i][1]) == 0)
			return osu[i][2];
	return NULL;
}

void bb_log_benchmark(char name[24], const char *path)
{
	const char *const file = basename(path), *const end = strstr(file, "_perf");

	snprintf(name, 24, "%.*s", end ? (int)(end - file) : 23, file);
}

/* Returns the program that word I names: MPIRUN also for its like, SBATCH for its lines; COLLECTIVE
   = that of a benchmark. */
static enum program program_of(const struct bb_log_words *words, int i, char collective[24])
{
	static const char *const names[] = {"mpirun",  "mpiexec",     "orterun",
					    "prterun", "mpirun.real", "mpiexec.hydra"};
	const char *const name = basename(words->at[i]), *const end = strstr(name, "_perf");
	const char *const osu = strncmp(name, "osu_", 4) == 0 ? bb_log_osu(name) : NULL;
	/* "mpirun noticed that process rank 0 ..." starts none. */
	const bool starts =
		i + 1 < words->n ? strchr("-\\./$", words->at[i + 1][0]) != NULL : i == 0;

	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]) && starts; k++)
		if (strcmp(name, names[k]) == 0)
			return MPIRUN;
	if (strcmp(name, "SBATCH") == 0)
		return SBATCH;
	if (starts && strcmp(name, "srun") == 0)
		return SRUN;
	bb_log_benchmark(collective, osu ? osu : name);
	/* "all_reduce_perf_mpi" is a binary, "all_reduce_perf-worker-0" a host. */
	return osu || (end &&
		       !end[5 + strspn(end + 5, "_abcdefghijklmnopqrstuvwxyz0123456789.;`'\")")] &&
		       bb_collective_find(collective))
		       ? BENCHMARK
		       : NO_PROGRAM;
}

bool bb_log_command_read(struct bb_log_command *command, const struct bb_log_words *words,
			 bool *begins)
{
	struct bb_log_command c = *command;
	bool is_command = c.continues && words->n > 0, slurm = c.launched && c.nodes > 0;
	char collective[24];

	*begins = false;
	c.continues = words->n > 0 && strcmp(words->at[words->n - 1], "\\") == 0;
	for (int i = 0; i < words->n; i++) {
		const enum program program = program_of(words, i, collective);
		const bool launcher = program != NO_PROGRAM && program != BENCHMARK;

		/* A second launcher or binary is another command; srun may start after sbatch. */
		if ((program != NO_PROGRAM && c.named) ||
		    (program == MPIRUN && c.launched && !command->continues)) {
			const bool continues = c.continues;

			c = (struct bb_log_command){.continues = continues};
			*begins = true;
		}
		*begins |= program != NO_PROGRAM && !is_command && !c.launched && !c.named;
		is_command |= program != NO_PROGRAM;
		slurm = launcher ? program != MPIRUN : slurm;
		c.launched |= launcher;
		if (program == BENCHMARK) {
			c.named = true;
			c.threads = c.gpus = 1;
			BB_LOG_KEEP(c.collective, collective);
		} else if (is_command && c.named) {
			option_read(&c, words, i, BENCHMARK);
		} else if (is_command && c.launched && !launcher) {
			const char *const ppr = strstr(words->at[i], "ppr:");

			option_read(&c, words, i, slurm ? SRUN : MPIRUN);
			if (ppr && strstr(ppr, ":node") && ppr[4] >= '0' && ppr[4] <= '9')
				c.per_node = bounded(strtol(ppr + 4, NULL, 10));
		}
	}
	if (is_command)
		*command = c;
	else
		command->continues = false;
	return is_command;
}

int64_t bb_log_command_ranks(const struct bb_log_command *c, int64_t *nodes)
{
	const int64_t processes = c->processes > 0 ? c->processes
				  : c->launched    ? c->nodes * c->per_node
						   : 1;

	*nodes = c->launched ? c->nodes : c->named;
	if (*nodes <= 0 && c->per_node > 0 && c->processes % c->per_node == 0 && c->launched)
		*nodes = c->processes / c->per_node;
	return c->named || c->launched
		       ? bounded(processes) * bounded(c->threads > 0 ? c->threads : 1) *
				 bounded(c->gpus > 0 ? c->gpus : 1)
		       : 0;
}
