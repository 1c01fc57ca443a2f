#include "core/option.h"
#include "core/option_text.h"
#include "core/units.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits of links: a value beyond them is a typing error. */
#define LEAST_RATE 1e3
#define MOST_RATE 1e15
#define MOST_LATENCY_NS UINT64_C(60000000000)

#define FIRST_VALUE 0x100 /* what getopt_long returns for row i is this plus i; below are keys */

/* A row, and what it is read into. */
struct place {
	const struct bb_option *row;
	char *target;
	bool *given;         /* NULL: not needed */
	const char *refused; /* why the row is refused; NULL: it is not */
};

/* All rows, and their form for getopt_long. */
struct tables {
	struct place *places; /* ends with row NULL */
	struct option *longs;
	const char **names;
	char *shorts;
};

/* The word of argv that is being parsed, and getopt_long's result. */
struct cursor {
	struct tables tables;
	char **argv;
	const char *word;
	int result;
	char item[BB_OPTION_WORD]; /* the wrong item of a list */
};

static struct place place_of(const struct bb_option_table *table, const struct bb_option *row)
{
	const struct bb_option *home = row;
	char *target = table->target;

	for (const struct bb_option_table *t = table + 1; row->common && home == row && t->rows;
	     t++)
		for (const struct bb_option *r = t->rows; r->name && home == row; r++)
			if (strcmp(r->name, row->name) == 0) {
				home = r;
				target = t->target;
			}
	return (struct place){
		.row = row,
		.target = target + home->offset,
		.given = home->given ? (bool *)(target + home->given) : NULL,
		.refused = bb_option_refused(table, row),
	};
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
				places[n] = place_of(t, row);
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
		return bb_no_memory(error, "options");
	}
	list_rows(tables, t->places);
	s = t->shorts;
	*s++ = '+'; /* stop at the first operand */
	*s++ = ':'; /* distinguish a missing argument from an unknown option */
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

static bool read_number(const struct bb_option *row, const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end || !isfinite(*value))
		return fail(EINVAL);
	if ((bb_option_has_min(row) && *value < (double)row->min) ||
	    (bb_option_has_max(row) && *value > (double)row->max))
		return fail(ERANGE);
	return true;
}

static bool read_size(const struct bb_option *row, const char *text, uint64_t *bytes)
{
	*bytes = 0;
	if (row->zero && strcmp(row->zero, text) == 0)
		return true;
	return bb_parse_size(text, bytes) && within_unsigned(row, *bytes);
}

static bool read_choice(const struct bb_option *row, const char *text, int *index)
{
	for (int i = 0; bb_option_choice(row, i); i++) {
		if (!strcmp(bb_option_choice(row, i), text)) {
			*index = i;
			return true;
		}
	}
	return fail(EINVAL);
}

/* What follows the rate: LATENCY, "port", or both. */
static bool read_link_rest(const char *rest, bool port, struct bb_option_link *link)
{
	const size_t length = strcspn(rest, ",");
	char latency[BB_OPTION_WORD];
	uint64_t ns;

	link->port = port && strcmp(rest, "port") == 0;
	if (link->port)
		return true;
	link->port = port && strcmp(rest + length, ",port") == 0;
	if (length >= sizeof(latency) || (rest[length] && !link->port))
		return fail(EINVAL);
	snprintf(latency, sizeof(latency), "%.*s", (int)length, rest);
	if (!bb_parse_duration(latency, &ns))
		return false;
	if (ns > 0 && !isalpha((unsigned char)latency[length - 1]))
		return fail(EINVAL); /* seconds, which nobody means */
	link->latency = (double)ns * 1e-9;
	return ns <= MOST_LATENCY_NS ? true : fail(ERANGE);
}

bool bb_option_read_link(const char *text, bool port, struct bb_option_link *link)
{
	const size_t length = strcspn(text, ",");
	char rate[BB_OPTION_WORD];

	*link = (struct bb_option_link){.text = text};
	if (length >= sizeof(rate))
		return fail(EINVAL);
	snprintf(rate, sizeof(rate), "%.*s", (int)length, text);
	if (!bb_parse_rate(rate, &link->rate))
		return false;
	if (text[length] && !read_link_rest(text + length + 1, port, link))
		return false;
	return link->rate >= LEAST_RATE && link->rate <= MOST_RATE ? true : fail(ERANGE);
}

static bool read_rank(const char *text, int *rank)
{
	const bool all = strcmp(text, "all") == 0 || strcmp(text, "-1") == 0;

	*rank = -1;
	return all || bb_parse_rank(text, rank) || fail(EINVAL);
}

static bool read_dtype(const struct bb_option *row, const char *text, enum bb_dtype *dtype)
{
	int index;

	if (!read_choice(row, text, &index))
		return false;
	*dtype = bb_dtype_named(text);
	return true;
}

static bool add_index(struct bb_option_indices *indices, int index, bool once)
{
	for (size_t i = 0; once && i < indices->n; i++)
		if (indices->list[i] == index)
			return fail(EEXIST);
	indices->list[indices->n++] = index;
	return true;
}

/* Append ITEM to the list TARGET, which has room for it. */
static bool read_item(const struct bb_option *row, const char *item, void *target)
{
	struct bb_option_sizes *sizes = target;
	struct bb_option_numbers *numbers = target;
	int64_t value;
	int index;

	switch (row->type) {
	case BB_OPT_SIZES:
		return read_size(row, item, &sizes->list[sizes->n++]);
	case BB_OPT_NUMBERS:
		return read_number(row, item, &numbers->list[numbers->n++]);
	case BB_OPT_INTS:
		return bb_parse_int(item, &value) && within(row, value) &&
		       add_index(target, (int)value, false);
	case BB_OPT_CHOICES:
		return read_choice(row, item, &index) && add_index(target, index, true);
	default: /* BB_OPT_SET */
		if (!read_choice(row, item, &index))
			return false;
		*(unsigned *)target |= 1u << index;
		return true;
	}
}

/* Read TEXT, a list or, with choices, "all". ITEM = the last item that was read. */
static bool read_list(const struct bb_option *row, const char *text, void *target,
		      char item[BB_OPTION_WORD])
{
	const bool all = bb_option_has_choices(row) && strcmp(text, "all") == 0;

	memset(target, 0, bb_option_kinds[row->type].bytes);
	for (int i = 0; all && bb_option_choice(row, i); i++)
		if (!read_item(row, bb_option_choice(row, i), target))
			return false;
	for (int n = 0; !all; n++, text++) {
		const size_t length = strcspn(text, ",");

		snprintf(item, BB_OPTION_WORD, "%.*s", (int)length, text);
		if (n == BB_OPTION_MOST)
			return fail(E2BIG);
		if (length >= BB_OPTION_WORD)
			return fail(EINVAL);
		if (!read_item(row, item, target))
			return false;
		text += length;
		if (!*text)
			break;
	}
	return true;
}

/* Read TEXT into the row's TARGET. On failure errno says why, ITEM is the wrong item of a list, and
   TARGET is undefined. */
static bool read_value(const struct bb_option *row, const char *text, void *target,
		       char item[BB_OPTION_WORD])
{
	double *fraction = target;

	switch (row->type) {
	case BB_OPT_FLAG:
		*(bool *)target = true;
		return true;
	case BB_OPT_INT:
		return bb_parse_int(text, target) && within(row, *(int64_t *)target);
	case BB_OPT_SIZE:
		return read_size(row, text, target);
	case BB_OPT_COUNT:
		return bb_parse_count(text, target) && within_unsigned(row, *(uint64_t *)target);
	case BB_OPT_DURATION:
		return bb_parse_duration(text, target) && within_unsigned(row, *(uint64_t *)target);
	case BB_OPT_PERCENT:
		if (!bb_parse_percent(text, fraction))
			return false;
		return *fraction > 0 && *fraction <= 1 ? true : fail(ERANGE);
	case BB_OPT_NUMBER:
		return read_number(row, text, target);
	case BB_OPT_FLOPS:
		return bb_parse_flops(text, target);
	case BB_OPT_LINK:
		return bb_option_read_link(text, row->port, target);
	case BB_OPT_RANK:
		return read_rank(text, target);
	case BB_OPT_CHOICE:
		return read_choice(row, text, target);
	case BB_OPT_DTYPE:
		return read_dtype(row, text, target);
	case BB_OPT_STRING:
		*(const char **)target = text;
		return true;
	default:
		return read_list(row, text, target, item);
	}
}

/* In two passes, so that an alias without a default keeps that of the row it stands for. */
static bb_status set_defaults(const struct place *places, struct bb_error *error)
{
	char item[BB_OPTION_WORD];

	for (const struct place *p = places; p->row; p++) {
		memset(p->target, 0, bb_option_kinds[p->row->type].bytes);
		if (p->row->type == BB_OPT_CHOICE)
			*(int *)p->target = -1;
		if (p->given)
			*p->given = false;
	}
	for (const struct place *p = places; p->row; p++)
		if (p->row->initial && p->row->type != BB_OPT_FLAG &&
		    !read_value(p->row, p->row->initial, p->target, item))
			return bb_fail(error, BB_EINTERNAL, "--%s: its default %s is not valid",
				       p->row->name, p->row->initial);
	return BB_OK;
}

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

/* The choice of ROW that is near to WORD; NULL: none is. */
static const char *near_choice(const struct bb_option *row, const char *word)
{
	const char *names[64] = {bb_option_is_list(row) ? "all" : NULL}, *near;
	int n = names[0] != NULL;

	for (int i = 0; n < 63 && bb_option_choice(row, i); i++)
		names[n++] = bb_option_choice(row, i);
	names[n] = NULL;
	near = bb_nearest(word, names);
	return near && strcmp(near, word) != 0 ? near : NULL; /* all, within a list */
}

/* What is wrong with a value of KIND, for the end of "--option value: ". */
static void add_cause(struct bb_strbuf *out, const struct bb_option_kind *kind, int why)
{
	if (why == ERANGE)
		bb_strbuf_add(out, "out of range");
	else if (why == EEXIST)
		bb_strbuf_add(out, "given twice");
	else if (why == E2BIG)
		bb_strbuf_addf(out, "more than the %d items that a list may have", BB_OPTION_MOST);
	else
		bb_strbuf_addf(out, "not %s", kind->is);
}

static bb_status fail_value(const struct cursor *c, const struct bb_option *row, const char *text,
			    int why, struct bb_error *error)
{
	const struct bb_option_kind *kind = &bb_option_kinds[row->type];
	bool apart = text == c->argv[optind - 1] && text != c->word;
	const char *meant = apart ? NULL : single_dash(c), *dashes = meant ? "--" : "";
	const bool of_list = bb_option_is_list(row) && strcmp(c->item, text) != 0;
	struct bb_strbuf cause = {0}, range = {0};

	if (!meant && why == EINVAL && bb_option_has_choices(row))
		meant = near_choice(row, bb_option_is_list(row) ? c->item : text);
	if (of_list && !*c->item) {
		bb_strbuf_add(&cause, "the list has an empty item");
	} else {
		if (of_list)
			bb_strbuf_addf(&cause, "\"%s\" is ", c->item);
		add_cause(&cause, kind, why);
	}
	bb_option_add_expected(row, &range);
	bb_fail(error, BB_EUSAGE, "%s%s%s: %s%s%s%s%s; expected %s", c->word, apart ? " " : "",
		apart ? text : "", bb_strbuf_text(&cause), meant ? " (did you mean " : "",
		meant ? dashes : "", meant ? meant : "", meant ? "?)" : "", bb_strbuf_text(&range));
	bb_strbuf_free(&cause);
	bb_strbuf_free(&range);
	return BB_EUSAGE;
}

/* A long option that matches no name, or several. */
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

/* The place of what getopt_long returned as VALUE; its row is NULL if there is none. */
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
			       bb_option_argument(row));
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

static bb_status read_option(struct cursor *c, struct bb_error *error)
{
	struct place p = {.row = NULL};

	if (c->result != '?' && c->result != ':')
		p = find(c, c->result);
	if (!p.row)
		return fail_option(c, error);
	if (p.refused && p.row->key)
		return bb_fail(error, BB_EUSAGE, "-%c: %s", p.row->key, p.refused);
	if (p.refused)
		return bb_fail(error, BB_EUSAGE, "--%s: %s", p.row->name, p.refused);
	if (p.row->once && *p.given)
		return bb_fail(error, BB_EUSAGE, "--%s %s: given twice; %s", p.row->name, optarg,
			       p.row->once);
	if (!read_value(p.row, optarg, p.target, c->item))
		return fail_value(c, p.row, optarg, errno, error);
	if (p.given)
		*p.given = true;
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
		BB_TRY(st, read_option(&c, error), free_tables);
	}
	if (optind < argc)
		st = bb_fail(error, BB_EUSAGE, "%s: not an option; options start with a dash",
			     argv[optind]);
free_tables:
	tables_free(&c.tables);
out:
	return st;
}
