/*
 * option.c - parses options, and checks the conflicts that their rows declare: what they need, what
 * they exclude, where they exist.
 */
#include "core/option.h"

#include "core/array.h"
#include "core/units.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits of links: a value beyond them is a typing error. */
#define LEAST_RATE 1e3
#define MOST_RATE 1e15
#define MOST_LATENCY_NS UINT64_C(60000000000)

#define FIRST_VALUE 0x100 /* what getopt_long returns for row i is this plus i; below are keys */
#define VALUE_TEXT 96

/* ---- rows ------------------------------------------------------------------------------ */

#define KIND(kind, type, argument, is, expected, examples)                                         \
	[BB_OPT_##kind] = {sizeof(type), argument, is, expected, examples},
const struct bb_option_kind bb_option_kinds[BB_NOPTION_TYPES] = {BB_OPTION_KINDS(KIND)};

const char *bb_option_choice(const struct bb_option *row, int index)
{
	return row->choice ? row->choice(index) : row->choices[index];
}

bool bb_option_hidden(const struct bb_option_table *tables, const struct bb_option_table *at,
		      const struct bb_option *row)
{
	for (; tables != at; tables++)
		for (const struct bb_option *r = tables->rows; r->name; r++)
			if (strcmp(r->name, row->name) == 0)
				return true;
	return false;
}

const char *bb_option_refused(const struct bb_option_table *table, const struct bb_option *row)
{
	for (const struct bb_option_refusal *r = table->refused; r && r->names; r++)
		if (bb_list_has(r->names, ' ', row->name))
			return r->why;
	return NULL;
}

/* Are its values, or the items of its list, numbers with limits? */
static bool has_limits(const struct bb_option *row)
{
	return !bb_option_has_choices(row) && (row->min || row->max);
}

bool bb_option_has_min(const struct bb_option *row)
{
	const bool is_signed = row->type == BB_OPT_INT || row->type == BB_OPT_NUMBER ||
			       row->type == BB_OPT_INTS || row->type == BB_OPT_NUMBERS;

	return has_limits(row) && (is_signed || row->min > 0 || row->max > 0);
}

bool bb_option_has_max(const struct bb_option *row)
{
	return has_limits(row) && row->max >= row->min && row->max < INT64_MAX;
}

/* A row, and what it is read into. */
struct place {
	const struct bb_option *row;
	const struct bb_option *home; /* where a common row is read into; else ROW */
	char *target;
	bool *given;         /* NULL: not needed */
	const char *refused; /* why the row is refused; NULL: it is not */
};

/* *PLACES = the rows of all tables that are not hidden, behind them one whose row is NULL; to be
   freed. */
static bb_status places_make(const struct bb_option_table *tables, struct place **places, size_t *n,
			     struct bb_error *error)
{
	size_t room = 0;

	*places = NULL;
	*n = 0;
	for (const struct bb_option_table *t = tables; t->rows; t++)
		for (const struct bb_option *row = t->rows; row->name; row++) {
			const struct bb_option *home = row;
			char *target = t->target;

			if (bb_option_hidden(tables, t, row))
				continue;
			for (const struct bb_option_table *u = t + 1;
			     row->common && home == row && u->rows; u++)
				for (const struct bb_option *r = u->rows; r->name; r++)
					if (strcmp(r->name, row->name) == 0) {
						home = r;
						target = u->target;
					}
			const struct place place = {
				.row = row,
				.home = home,
				.target = target + home->offset,
				.given = home->given ? (bool *)(target + home->given) : NULL,
				.refused = bb_option_refused(t, row),
			};
			if (!BB_ARRAY_PUT(*places, *n, room, place))
				return bb_no_memory(error, "options");
		}
	if (!BB_ARRAY_PUT(*places, *n, room, (struct place){.row = NULL}))
		return bb_no_memory(error, "options");
	--*n;
	return BB_OK;
}

/* ---- values ---------------------------------------------------------------------------- */

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

bool bb_option_read_link(const char *text, bool port, struct bb_option_link *link)
{
	const size_t length = strlen(text), rate = strcspn(text, ",");
	const bool ported = port && length >= 5 && strcmp(text + length - 5, ",port") == 0;
	const size_t end = ported ? length - 5 : length; /* of the rate and the latency */
	char word[BB_OPTION_WORD];
	uint64_t ns = 0;

	*link = (struct bb_option_link){.text = text, .port = ported};
	if (rate >= sizeof(word) || end - rate > sizeof(word))
		return fail(EINVAL);
	snprintf(word, sizeof(word), "%.*s", (int)rate, text);
	if (!bb_parse_rate(word, &link->rate))
		return false;
	if (end > rate) {
		snprintf(word, sizeof(word), "%.*s", (int)(end - rate - 1), text + rate + 1);
		if (!bb_parse_duration(word, &ns))
			return false;
		if (ns > 0 && !isalpha((unsigned char)word[strlen(word) - 1]))
			return fail(EINVAL); /* seconds, which nobody means */
		link->latency = (double)ns * 1e-9;
	}
	return link->rate >= LEAST_RATE && link->rate <= MOST_RATE && ns <= MOST_LATENCY_NS
		       ? true
		       : fail(ERANGE);
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
	int index;

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
		*(int *)target = -1;
		return strcmp(text, "all") == 0 || strcmp(text, "-1") == 0 ||
		       bb_parse_rank(text, target) || fail(EINVAL);
	case BB_OPT_CHOICE:
		return read_choice(row, text, target);
	case BB_OPT_DTYPE:
		if (!read_choice(row, text, &index))
			return false;
		*(enum bb_dtype *)target = bb_dtype_named(text);
		return true;
	case BB_OPT_STRING:
		*(const char **)target = text;
		return true;
	default:
		return read_list(row, text, target, item);
	}
}

/* ---- parsing ----------------------------------------------------------------------------- */

/* All rows in their form for getopt_long, the word of argv that is being parsed, and its result. */
struct parser {
	struct place *places;
	size_t n;
	struct option *longs;
	const char **names;
	char *shorts;
	char **argv;
	const char *word;
	int result;
	char item[BB_OPTION_WORD]; /* the wrong item of a list */
};

/* Sets all defaults, too: in two passes, so that an alias without one keeps that of the row it
   stands for. */
static bb_status parser_open(struct parser *p, const struct bb_option_table *tables,
			     struct bb_error *error)
{
	const bb_status st = places_make(tables, &p->places, &p->n, error);
	char *s;

	if (st != BB_OK)
		return st;
	p->longs = calloc(p->n + 1, sizeof(*p->longs));
	p->names = calloc(p->n + 1, sizeof(*p->names));
	p->shorts = s = malloc(2 * p->n + 3);
	if (!p->longs || !p->names || !p->shorts)
		return bb_no_memory(error, "options");
	*s++ = '-'; /* an operand is the value of option 1 */
	*s++ = ':'; /* distinguish a missing argument from an unknown option */
	for (size_t i = 0; i < p->n; i++) {
		const struct place *place = &p->places[i];
		const struct bb_option *row = place->row;
		const bool takes = row->type != BB_OPT_FLAG;

		memset(place->target, 0, bb_option_kinds[row->type].bytes);
		if (row->type == BB_OPT_CHOICE)
			*(int *)place->target = -1;
		if (place->given)
			*place->given = false;
		p->names[i] = row->name;
		p->longs[i] = (struct option){
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
	for (const struct place *place = p->places; place->row; place++)
		if (place->row->initial && place->row->type != BB_OPT_FLAG &&
		    !read_value(place->row, place->row->initial, place->target, p->item))
			return bb_fail(error, BB_EINTERNAL, "--%s: its default %s is not valid",
				       place->row->name, place->row->initial);
	return BB_OK;
}

/* The long option that was meant by a word like -minbytes, or NULL. */
static const char *single_dash(const struct parser *c)
{
	size_t length = strcspn(c->word, "=");

	if (c->word[1] == '-' || length < 4)
		return NULL;
	for (const char **name = c->names; *name; name++)
		if (!strncmp(*name, c->word + 1, length - 1) && !(*name)[length - 1])
			return *name;
	return NULL;
}

static bb_status fail_value(const struct parser *c, const struct bb_option *row, const char *text,
			    int why, struct bb_error *error)
{
	bool apart = text == c->argv[optind - 1] && text != c->word;
	const char *meant = apart ? NULL : single_dash(c), *dashes = meant ? "--" : "";
	const bool is_list = bb_option_is_list(row),
		   of_list = is_list && strcmp(c->item, text) != 0;
	const char *word = is_list ? c->item : text, *names[64] = {is_list ? "all" : NULL};
	struct bb_strbuf cause = {0}, range = {0};

	if (!meant && why == EINVAL && bb_option_has_choices(row)) {
		for (int i = 0; i + is_list < 63 && bb_option_choice(row, i); i++)
			names[i + is_list] = bb_option_choice(row, i);
		meant = bb_nearest(word, names);
		meant = meant && strcmp(meant, word) != 0 ? meant : NULL; /* all, within a list */
	}
	if (of_list && *c->item)
		bb_strbuf_addf(&cause, "\"%s\" is ", c->item);
	if (of_list && !*c->item)
		bb_strbuf_add(&cause, "the list has an empty item");
	else if (why == E2BIG)
		bb_strbuf_addf(&cause, "more than the %d items that a list may have",
			       BB_OPTION_MOST);
	else
		bb_strbuf_addf(&cause, "%s%s",
			       why == ERANGE   ? "out of range"
			       : why == EEXIST ? "given twice"
					       : "not ",
			       why == ERANGE || why == EEXIST ? "" : bb_option_kinds[row->type].is);
	bb_option_add_expected(row, &range);
	bb_fail(error, BB_EUSAGE, "%s%s%s: %s%s%s%s%s; expected %s", c->word, apart ? " " : "",
		apart ? text : "", bb_strbuf_text(&cause), meant ? " (did you mean " : "",
		meant ? dashes : "", meant ? meant : "", meant ? "?)" : "", bb_strbuf_text(&range));
	bb_strbuf_free(&cause);
	bb_strbuf_free(&range);
	return BB_EUSAGE;
}

/* The place of what getopt_long returned as VALUE; its row is NULL if there is none. */
static struct place find(const struct parser *c, int value)
{
	const struct place *p = c->places;

	if (value >= FIRST_VALUE)
		return p[value - FIRST_VALUE];
	while (p->row && (!value || (unsigned char)p->row->key != value))
		p++;
	return *p;
}

static bb_status fail_option(const struct parser *c, struct bb_error *error)
{
	const struct bb_option *row = find(c, optopt).row;
	const char *meant = single_dash(c), *name;
	struct bb_strbuf candidates = {0};
	char *plain;

	if (c->result == ':')
		return bb_fail(error, BB_EUSAGE, "%s: needs a value: %s", c->word,
			       bb_option_argument(row));
	if (row && optopt >= FIRST_VALUE)
		return bb_fail(error, BB_EUSAGE, "%s: --%s takes no value", c->word, row->name);
	if (strncmp(c->word, "--", 2) != 0 && meant)
		return bb_fail(error, BB_EUSAGE, "%s: unknown option -%c; did you mean --%s?",
			       c->word, optopt, meant);
	if (strncmp(c->word, "--", 2) != 0)
		return bb_fail(error, BB_EUSAGE, "%s: unknown option -%c; see --help", c->word,
			       optopt);
	/* A long option that matches no name, or several. */
	name = c->word + 2;
	const size_t length = strcspn(name, "=");
	for (const char **n = c->names; length && *n; n++)
		if (!strncmp(*n, name, length))
			bb_strbuf_addf(&candidates, "%s--%s", candidates.length ? ", " : "", *n);
	if (candidates.length) {
		bb_fail(error, BB_EUSAGE, "%s: ambiguous; it could be %s", c->word,
			bb_strbuf_text(&candidates));
	} else {
		plain = strndup(name, length);
		meant = plain ? bb_nearest(plain, c->names) : NULL;
		bb_fail(error, BB_EUSAGE, "%s: unknown option%s%s%s", c->word,
			meant ? "; did you mean --" : "; see --help", meant ? meant : "",
			meant ? "?" : "");
		free(plain);
	}
	bb_strbuf_free(&candidates);
	return BB_EUSAGE;
}

static bb_status read_option(struct parser *c, struct bb_error *error)
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

/* OPERANDS NULL: refuses WORD. */
static bb_status read_operand(char *word, char **operands, int *n, struct bb_error *error)
{
	if (!operands)
		return bb_fail(error, BB_EUSAGE, "%s: not an option; options start with a dash",
			       word);
	operands[(*n)++] = word;
	return BB_OK;
}

bb_status bb_options_parse_operands(const struct bb_option_table *tables, int argc, char **argv,
				    char **operands, int *n, struct bb_error *error)
{
	struct parser c = {.argv = argv};
	bb_status st;

	*n = 0;
	BB_TRY(st, parser_open(&c, tables, error), out);
	opterr = 0;
	optind = 0; /* glibc: forget everything about an earlier argv */
	for (;;) {
		int at = optind ? optind : 1;

		c.word = at < argc ? argv[at] : "";
		c.result = getopt_long(argc, argv, c.shorts, c.longs, NULL);
		if (c.result == -1)
			break;
		BB_TRY(st,
		       c.result == 1 ? read_operand(optarg, operands, n, error)
				     : read_option(&c, error),
		       out);
	}
	while (optind < argc) /* behind "--" */
		BB_TRY(st, read_operand(argv[optind++], operands, n, error), out);
out:
	free(c.places);
	free(c.longs);
	free(c.names);
	free(c.shorts);
	return st;
}

bb_status bb_options_parse(const struct bb_option_table *tables, int argc, char **argv,
			   struct bb_error *error)
{
	return bb_options_parse_operands(tables, argc, argv, NULL, &(int){0}, error);
}

/* ---- conflicts --------------------------------------------------------------------------- */

/* TEXT = the value of P as a user would write it; "" for kinds that no rule looks at. */
static const char *value_of(const struct place *p, char text[VALUE_TEXT])
{
	const void *value = p->target;
	const char *word = NULL;

	if (p->home->type == BB_OPT_STRING)
		word = *(const char *const *)value;
	else if (p->home->type == BB_OPT_LINK)
		word = ((const struct bb_option_link *)value)->text;
	else if (p->home->type == BB_OPT_CHOICE && *(const int *)value >= 0)
		word = bb_option_choice(p->home, *(const int *)value);
	else if (p->home->type == BB_OPT_DTYPE)
		word = bb_dtype_name(*(const enum bb_dtype *)value);
	if (p->home->type == BB_OPT_INT)
		snprintf(text, VALUE_TEXT, "%" PRId64, *(const int64_t *)value);
	else
		snprintf(text, VALUE_TEXT, "%s", word ? word : "");
	return text;
}

static bool has_value(const struct place *p, const char *word, size_t length)
{
	const struct bb_option_indices *list = (const void *)p->target;
	char text[VALUE_TEXT];

	for (size_t i = 0; p->home->type == BB_OPT_CHOICES && i < list->n; i++)
		if (strcmp(bb_option_choice(p->home, list->list[i]), word) == 0)
			return true;
	value_of(p, text);
	return strncmp(text, word, length) == 0 && (text[length] == '\0' || text[length] == ':');
}

/* Is P in effect, with VALUE unless that is NULL? A switch that is given its default 0 is off. */
static bool is_in_effect(const struct place *p, const char *value)
{
	const struct bb_option *row = p->home;

	if (p->refused || !p->given || !*p->given)
		return false;
	if (row->type == BB_OPT_INT && row->initial && strcmp(row->initial, "0") == 0 &&
	    has_value(p, "0", 1))
		return false;
	return !value || has_value(p, value, strlen(value));
}

/* Appends the word that the user wrote, or would write: "-G 8", "--cache rewrite", "--flops". */
static void add_word(const struct place *p, const char *value, struct bb_strbuf *out)
{
	if (p->row->key)
		bb_strbuf_addf(out, "-%c", p->row->key);
	else
		bb_strbuf_addf(out, "--%s", p->row->name);
	if (*value)
		bb_strbuf_addf(out, " %s", value);
}

/* The next of NAMES, "NAME" or "NAME=WORD", which then point behind it; NULL at the end. HOLDS: it
   is in effect, or has the WORD. VALUE = the word. */
static const struct place *next_name(const struct place *places, const char **names,
				     char value[VALUE_TEXT], bool *holds)
{
	const struct place *p = NULL;

	while (!p && **names) {
		const size_t length = strcspn(*names, " "), name = strcspn(*names, " =");

		for (p = places; p->row; p++)
			if (strncmp(p->row->name, *names, name) == 0 && !p->row->name[name])
				break;
		p = p->row && !p->refused ? p : NULL;
		*value = '\0';
		if (p && name < length) {
			snprintf(value, VALUE_TEXT, "%.*s", (int)(length - name - 1),
				 *names + name + 1);
			*holds = has_value(p, value, strlen(value));
		} else if (p) {
			*holds = is_in_effect(p, NULL);
		}
		*names += length + ((*names)[length] == ' ');
	}
	return p;
}

/* P needs one of the names of RULE, or EXCLUDES all of them. */
static bb_status check_rule(const struct place *places, const struct place *p,
			    const struct bb_option_rule *rule, bool excludes,
			    struct bb_error *error)
{
	const char *names = rule->names, *before = " needs ";
	const char *colon = rule->why ? ": " : "", *why = rule->why ? rule->why : "";
	char value[VALUE_TEXT];
	struct bb_strbuf words = {0};
	const struct place *other;
	bool holds = false, broken;

	if (!names || !is_in_effect(p, rule->value))
		return BB_OK;
	add_word(p, value_of(p, value), &words);
	while ((other = next_name(places, &names, value, &holds)) && !holds) {
		if (excludes)
			continue;
		bb_strbuf_add(&words, before);
		add_word(other, value, &words);
		before = " or ";
	}
	broken = excludes == (other != NULL);
	if (broken && excludes) {
		bb_strbuf_add(&words, " and ");
		add_word(other, value_of(other, value), &words);
	}
	if (broken)
		bb_fail(error, BB_EUSAGE,
			excludes ? "%s exclude each other%s%s; leave one of them out"
				 : "%s%s%s; give both or neither",
			bb_strbuf_text(&words), colon, why);
	bb_strbuf_free(&words);
	return broken ? BB_EUSAGE : BB_OK;
}

bb_status bb_options_check_rules(const struct bb_option_table *tables, struct bb_error *error)
{
	struct place *places;
	size_t n;
	bb_status st;

	BB_TRY(st, places_make(tables, &places, &n, error), out);
	for (const struct place *p = places; p->row; p++)
		for (const struct bb_option *row = p->row; row;
		     row = row == p->home ? NULL : p->home) {
			for (int i = 0; i < BB_OPTION_NEEDS; i++)
				BB_TRY(st, check_rule(places, p, &row->needs[i], false, error),
				       out);
			for (int i = 0; i < BB_OPTION_EXCLUDES; i++)
				BB_TRY(st, check_rule(places, p, &row->excludes[i], true, error),
				       out);
		}
out:
	free(places);
	return st;
}

bb_status bb_options_check_features(const struct bb_option_table *tables, unsigned features,
				    const char *whose, const char *more, struct bb_error *error)
{
	struct bb_strbuf word = {0};
	char value[VALUE_TEXT];
	struct place *places;
	size_t n;
	bb_status st = places_make(tables, &places, &n, error);

	for (const struct place *p = places; st == BB_OK && p->row; p++)
		for (int i = 0; i < 2 * BB_OPTION_PLACES && st == BB_OK; i++) {
			const struct bb_option *row = i < BB_OPTION_PLACES ? p->row : p->home;
			const struct bb_option_place *place = &row->on[i % BB_OPTION_PLACES];

			if (!place->feature || (features & place->feature) ||
			    !is_in_effect(p, place->value))
				continue;
			add_word(p, value_of(p, value), &word);
			st = bb_fail(error, BB_EUNSUPPORTED, "%s: %s %s%s", bb_strbuf_text(&word),
				     whose, place->lacks, more);
		}
	bb_strbuf_free(&word);
	free(places);
	return st;
}
