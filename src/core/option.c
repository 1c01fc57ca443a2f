#include "core/option.h"
#include "core/option_text.h"
#include "core/units.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_VALUE 0x100 /* what getopt_long returns for row i is this plus i; below are keys */

/* A row, and the target of its table. */
struct place {
	const struct bb_option *row;
	char *target;
};

/* All rows, and what getopt_long wants to know of them. */
struct tables {
	struct place *places; /* ends with row NULL */
	struct option *longs;
	const char **names;
	char *shorts;
};

/* One look at argv: the word that is being parsed and what came of it. */
struct cursor {
	struct tables tables;
	char **argv;
	const char *word;
	int result;
};

bool bb_option_hidden(const struct bb_option_table *tables, const struct bb_option_table *at,
		      const struct bb_option *row)
{
	for (; tables != at; tables++)
		for (const struct bb_option *r = tables->rows; r->name; r++)
			if (strcmp(r->name, row->name) == 0)
				return true;
	return false;
}

/* The rows of all tables that are not hidden into PLACES, if that is not NULL. Returns how many. */
static size_t list_rows(const struct bb_option_table *tables, struct place *places)
{
	size_t n = 0;

	for (const struct bb_option_table *t = tables; t->rows; t++)
		for (const struct bb_option *row = t->rows; row->name; row++) {
			if (bb_option_hidden(tables, t, row))
				continue;
			if (places)
				places[n] = (struct place){row, t->target};
			n++;
		}
	return n;
}

static void tables_free(struct tables *t)
{
	free(t->places);
	free(t->longs);
	free(t->names);
	free(t->shorts);
}

static bb_status tables_make(const struct bb_option_table *tables, struct tables *t,
			     struct bb_error *error)
{
	size_t n = list_rows(tables, NULL);
	char *s;

	*t = (struct tables){
		.places = calloc(n + 1, sizeof(*t->places)),
		.longs = calloc(n + 1, sizeof(*t->longs)),
		.names = calloc(n + 1, sizeof(*t->names)),
		.shorts = malloc(2 * n + 3),
	};
	if (!t->places || !t->longs || !t->names || !t->shorts) {
		tables_free(t);
		return bb_fail(error, BB_EINTERNAL, "out of memory while parsing options");
	}
	list_rows(tables, t->places);
	s = t->shorts;
	*s++ = '+'; /* stop at the first operand */
	*s++ = ':'; /* tell a missing argument from an unknown option */
	for (size_t i = 0; i < n; i++) {
		const struct bb_option *row = t->places[i].row;
		bool takes = row->type != BB_OPT_FLAG;

		t->names[i] = row->name;
		t->longs[i] = (struct option){
			.name = row->name,
			.has_arg = takes ? required_argument : no_argument,
			.val = FIRST_VALUE + (int)i,
		};
		if (row->key)
			*s++ = row->key;
		if (row->key && takes)
			*s++ = ':';
	}
	*s = '\0';
	return BB_OK;
}

static bool fail(int why)
{
	errno = why;
	return false;
}

static bool within(const struct bb_option *row, int64_t value)
{
	if ((bb_option_has_min(row) && value < row->min) ||
	    (bb_option_has_max(row) && value > row->max))
		return fail(ERANGE);
	return true;
}

static bool within_unsigned(const struct bb_option *row, uint64_t value)
{
	if (value > INT64_MAX)
		return bb_option_has_max(row) ? fail(ERANGE) : true;
	return within(row, (int64_t)value);
}

static bool read_choice(const struct bb_option *row, const char *text, int *index)
{
	for (int i = 0; row->choices[i]; i++) {
		if (!strcmp(row->choices[i], text)) {
			*index = i;
			return true;
		}
	}
	return fail(EINVAL);
}

/* TEXT into the row's TARGET; on failure errno is EINVAL or ERANGE and TARGET is anything. */
static bool read_value(const struct bb_option *row, const char *text, void *target)
{
	double *fraction = target;

	switch (row->type) {
	case BB_OPT_FLAG:
		*(bool *)target = true;
		return true;
	case BB_OPT_INT:
		return bb_parse_int(text, target) && within(row, *(int64_t *)target);
	case BB_OPT_SIZE:
		return bb_parse_size(text, target) && within_unsigned(row, *(uint64_t *)target);
	case BB_OPT_COUNT:
		return bb_parse_count(text, target) && within_unsigned(row, *(uint64_t *)target);
	case BB_OPT_DURATION:
		return bb_parse_duration(text, target) && within_unsigned(row, *(uint64_t *)target);
	case BB_OPT_PERCENT:
		if (!bb_parse_percent(text, fraction))
			return false;
		return *fraction > 0 && *fraction <= 1 ? true : fail(ERANGE);
	case BB_OPT_CHOICE:
		return read_choice(row, text, target);
	case BB_OPT_STRING:
		*(const char **)target = text;
		return true;
	}
	return fail(EINVAL);
}

static void set_zero(const struct bb_option *row, char *target)
{
	static const size_t sizes[] = {
		[BB_OPT_FLAG] = sizeof(bool),         [BB_OPT_INT] = sizeof(int64_t),
		[BB_OPT_SIZE] = sizeof(uint64_t),     [BB_OPT_COUNT] = sizeof(uint64_t),
		[BB_OPT_DURATION] = sizeof(uint64_t), [BB_OPT_PERCENT] = sizeof(double),
		[BB_OPT_CHOICE] = sizeof(int),        [BB_OPT_STRING] = sizeof(char *),
	};

	memset(target + row->offset, 0, sizes[row->type]);
	if (row->given)
		*(bool *)(target + row->given) = false;
}

/* In two passes, so that an alias without a default keeps that of the row it stands for. */
static bb_status set_defaults(const struct place *places, struct bb_error *error)
{
	for (const struct place *p = places; p->row; p++)
		set_zero(p->row, p->target);
	for (const struct place *p = places; p->row; p++)
		if (p->row->initial && p->row->type != BB_OPT_FLAG &&
		    !read_value(p->row, p->row->initial, p->target + p->row->offset))
			return bb_fail(error, BB_EINTERNAL, "--%s: its default %s is not valid",
				       p->row->name, p->row->initial);
	return BB_OK;
}

static const struct {
	const char *is, *expected, *examples;
} words[] = {
	[BB_OPT_FLAG] = {"", "", ""},
	[BB_OPT_INT] = {"not an integer", "an integer", ""},
	[BB_OPT_SIZE] = {"not a size", "a size", ", such as 8, 64K or 1.5G"},
	[BB_OPT_COUNT] = {"not a count", "a count", ", such as 7.5B, 124M or 4096"},
	[BB_OPT_DURATION] = {"not a duration", "a duration", ", such as 500us, 1.5s or 2m"},
	[BB_OPT_PERCENT] = {"not a percentage", "a percentage", ", such as 0.5% or 10%"},
	[BB_OPT_CHOICE] = {"not a valid choice", "one of:", ""},
	[BB_OPT_STRING] = {"", "", ""},
};

/* The long option that was meant by a word like -minbytes, or NULL. */
static const char *single_dash(const struct cursor *c)
{
	size_t length = strcspn(c->word, "=");

	if (c->word[1] == '-' || length < 4)
		return NULL;
	for (const char **name = c->tables.names; *name; name++)
		if (!strncmp(*name, c->word + 1, length - 1) && !(*name)[length - 1])
			return *name;
	return NULL;
}

static bb_status fail_value(const struct cursor *c, const struct bb_option *row, const char *text,
			    int why, struct bb_error *error)
{
	bool apart = text == c->argv[optind - 1] && text != c->word;
	const char *meant = apart ? NULL : single_dash(c), *dashes = meant ? "--" : "";
	struct bb_strbuf range = {0};

	if (!meant && row->type == BB_OPT_CHOICE)
		meant = bb_nearest(text, row->choices);
	bb_option_add_range(row, &range);
	bb_fail(error, BB_EUSAGE, "%s%s%s: %s%s%s%s%s; expected %s%s%s%s", c->word,
		apart ? " " : "", apart ? text : "",
		why == ERANGE ? "out of range" : words[row->type].is,
		meant ? " (did you mean " : "", meant ? dashes : "", meant ? meant : "",
		meant ? "?)" : "", words[row->type].expected,
		bb_option_has_max(row) && bb_option_has_min(row) ? " from "
		: range.length                                   ? " "
								 : "",
		bb_strbuf_text(&range), words[row->type].examples);
	bb_strbuf_free(&range);
	return BB_EUSAGE;
}

/* A long option that matches nothing, or too much. */
static bb_status fail_long(const struct cursor *c, struct bb_error *error)
{
	const char *name = c->word + 2, *nearest = NULL;
	size_t length = strcspn(name, "="), candidates = 0;
	struct bb_strbuf list = {0};
	char *plain;

	for (const char **n = c->tables.names; length && *n; n++)
		if (!strncmp(*n, name, length))
			bb_strbuf_addf(&list, "%s--%s", candidates++ ? ", " : "", *n);
	if (candidates) {
		bb_fail(error, BB_EUSAGE, "%s: ambiguous; it could be %s", c->word,
			bb_strbuf_text(&list));
	} else {
		plain = strndup(name, length);
		if (plain)
			nearest = bb_nearest(plain, c->tables.names);
		bb_fail(error, BB_EUSAGE, "%s: unknown option%s%s%s", c->word,
			nearest ? "; did you mean --" : "; see --help", nearest ? nearest : "",
			nearest ? "?" : "");
		free(plain);
	}
	bb_strbuf_free(&list);
	return BB_EUSAGE;
}

/* Its row is NULL where there is none. */
static struct place find(const struct cursor *c, int value)
{
	const struct place *p = c->tables.places;

	if (value >= FIRST_VALUE)
		return p[value - FIRST_VALUE];
	while (p->row && (!value || (unsigned char)p->row->key != value))
		p++;
	return *p;
}

static bb_status fail_option(const struct cursor *c, struct bb_error *error)
{
	const struct bb_option *row = find(c, optopt).row;
	const char *meant;

	if (c->result == ':')
		return bb_fail(error, BB_EUSAGE, "%s: needs a value: %s", c->word,
			       row && row->argument ? row->argument : "see --help");
	if (row && optopt >= FIRST_VALUE)
		return bb_fail(error, BB_EUSAGE, "%s: --%s takes no value", c->word, row->name);
	if (!strncmp(c->word, "--", 2))
		return fail_long(c, error);
	meant = single_dash(c);
	if (meant)
		return bb_fail(error, BB_EUSAGE, "%s: unknown option -%c; did you mean --%s?",
			       c->word, optopt, meant);
	return bb_fail(error, BB_EUSAGE, "%s: unknown option -%c; see --help", c->word, optopt);
}

static bb_status take(const struct cursor *c, struct bb_error *error)
{
	struct place p = {.row = NULL};

	if (c->result != '?' && c->result != ':')
		p = find(c, c->result);
	if (!p.row)
		return fail_option(c, error);
	if (p.row->once && *(bool *)(p.target + p.row->given))
		return bb_fail(error, BB_EUSAGE, "--%s %s: given twice; %s", p.row->name, optarg,
			       p.row->once);
	if (!read_value(p.row, optarg, p.target + p.row->offset))
		return fail_value(c, p.row, optarg, errno, error);
	if (p.row->given)
		*(bool *)(p.target + p.row->given) = true;
	return BB_OK;
}

bb_status bb_options_parse(const struct bb_option_table *tables, int argc, char **argv,
			   struct bb_error *error)
{
	struct cursor c = {.argv = argv};
	bb_status st;

	BB_TRY(st, tables_make(tables, &c.tables, error), out);
	BB_TRY(st, set_defaults(c.tables.places, error), free_tables);
	opterr = 0;
	optind = 0; /* glibc: forget everything about an earlier argv */
	for (;;) {
		int at = optind ? optind : 1;

		c.word = at < argc ? argv[at] : "";
		c.result = getopt_long(argc, argv, c.tables.shorts, c.tables.longs, NULL);
		if (c.result == -1)
			break;
		BB_TRY(st, take(&c, error), free_tables);
	}
	if (optind < argc)
		st = bb_fail(error, BB_EUSAGE, "%s: not an option; options start with a dash",
			     argv[optind]);
free_tables:
	tables_free(&c.tables);
out:
	return st;
}
