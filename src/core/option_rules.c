/*
 * option_rules.c - conflicts that rows declare: what they need, what they exclude, where they
 * exist.
 */
#include "core/option_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VALUE_TEXT 96

/* A row and the struct that it is read into. */
struct setting {
	const struct bb_option *row;
	const char *target;
};

/* The row NAME[0, LENGTH) that counts, with its target; row NULL: the program has no such row. */
static struct setting setting_named(const struct bb_option_table *tables, const char *name,
				    size_t length)
{
	struct setting s = {.row = NULL};

	for (; tables->rows; tables++)
		for (const struct bb_option *row = tables->rows; row->name; row++) {
			if (strncmp(row->name, name, length) != 0 || row->name[length] ||
			    (s.row && !s.row->common))
				continue;
			if (bb_option_refused(tables, row))
				return (struct setting){.row = NULL};
			s = (struct setting){row, tables->target};
		}
	return s;
}

/* What the rules of ROW are about; its row is NULL if another one hides ROW. */
static struct setting setting_of(const struct bb_option_table *tables, const struct bb_option *row)
{
	const struct setting s = setting_named(tables, row->name, strlen(row->name));

	return s.row == row || row->common ? s : (struct setting){.row = NULL};
}

/* TEXT = the value of S as a user would write it; "" for kinds that no rule looks at. */
static const char *value_of(const struct setting *s, char text[VALUE_TEXT])
{
	const void *value = s->target + s->row->offset;
	const char *word = NULL;

	if (s->row->type == BB_OPT_STRING)
		word = *(const char *const *)value;
	else if (s->row->type == BB_OPT_LINK)
		word = ((const struct bb_option_link *)value)->text;
	else if (s->row->type == BB_OPT_CHOICE && *(const int *)value >= 0)
		word = bb_option_choice(s->row, *(const int *)value);
	else if (s->row->type == BB_OPT_DTYPE)
		word = bb_dtype_name(*(const enum bb_dtype *)value);
	if (s->row->type == BB_OPT_INT)
		snprintf(text, VALUE_TEXT, "%" PRId64, *(const int64_t *)value);
	else
		snprintf(text, VALUE_TEXT, "%s", word ? word : "");
	return text;
}

static bool has_value(const struct setting *s, const char *word, size_t length)
{
	char text[VALUE_TEXT];

	value_of(s, text);
	return strncmp(text, word, length) == 0 && (text[length] == '\0' || text[length] == ':');
}

/* Is S in effect, with VALUE unless that is NULL? A switch that is given its default 0 is off. */
static bool is_in_effect(const struct setting *s, const char *value)
{
	const struct bb_option *row = s->row;

	if (!row || !row->given || !*(const bool *)(s->target + row->given))
		return false;
	if (row->type == BB_OPT_INT && row->initial && strcmp(row->initial, "0") == 0 &&
	    has_value(s, "0", 1))
		return false;
	return !value || has_value(s, value, strlen(value));
}

/* Appends the word that the user wrote, or would write: "-G 8", "--cache rewrite", "--flops". */
static void add_word(const struct setting *s, const char *value, struct bb_strbuf *out)
{
	if (s->row->key)
		bb_strbuf_addf(out, "-%c", s->row->key);
	else
		bb_strbuf_addf(out, "--%s", s->row->name);
	if (*value)
		bb_strbuf_addf(out, " %s", value);
}

/* The next of NAMES, "NAME" or "NAME=WORD", which then point behind it. HOLDS: it is in effect, or
   has the WORD. Its row is NULL at the end. VALUE = the word, else the value it has. */
static struct setting next_name(const struct bb_option_table *tables, const char **names,
				char value[VALUE_TEXT], bool *holds)
{
	struct setting s = {.row = NULL};

	while (!s.row && **names) {
		const size_t length = strcspn(*names, " "), name = strcspn(*names, " =");

		s = setting_named(tables, *names, name);
		*value = '\0';
		if (s.row && name < length) {
			snprintf(value, VALUE_TEXT, "%.*s", (int)(length - name - 1),
				 *names + name + 1);
			*holds = has_value(&s, value, strlen(value));
		} else if (s.row) {
			*holds = is_in_effect(&s, NULL);
		}
		*names += length + ((*names)[length] == ' ');
	}
	return s;
}

static bb_status check_excludes(const struct bb_option_table *tables, const struct setting *s,
				const struct bb_option_rule *rule, struct bb_error *error)
{
	const char *names = rule->names;
	char value[VALUE_TEXT];
	struct bb_strbuf words = {0};
	struct setting other;
	bool holds = false;

	do
		other = next_name(tables, &names, value, &holds);
	while (other.row && !holds);
	if (!other.row)
		return BB_OK;
	add_word(s, value_of(s, value), &words);
	bb_strbuf_add(&words, " and ");
	add_word(&other, value_of(&other, value), &words);
	bb_fail(error, BB_EUSAGE, "%s exclude each other%s%s; leave one of them out",
		bb_strbuf_text(&words), rule->why ? ": " : "", rule->why ? rule->why : "");
	bb_strbuf_free(&words);
	return BB_EUSAGE;
}

static bb_status check_needs(const struct bb_option_table *tables, const struct setting *s,
			     const struct bb_option_rule *rule, struct bb_error *error)
{
	const char *names = rule->names;
	char value[VALUE_TEXT];
	struct bb_strbuf words = {0};
	struct setting other;
	bool holds = false;

	add_word(s, value_of(s, value), &words);
	for (int n = 0; (other = next_name(tables, &names, value, &holds)).row && !holds; n++) {
		bb_strbuf_add(&words, n > 0 ? " or " : " needs ");
		add_word(&other, value, &words);
	}
	if (!other.row)
		bb_fail(error, BB_EUSAGE, "%s%s%s; give both or neither", bb_strbuf_text(&words),
			rule->why ? ": " : "", rule->why ? rule->why : "");
	bb_strbuf_free(&words);
	return other.row ? BB_OK : BB_EUSAGE;
}

bb_status bb_options_check_rules(const struct bb_option_table *tables, struct bb_error *error)
{
	bb_status st = BB_OK;

	for (const struct bb_option_table *t = tables; t->rows; t++)
		for (const struct bb_option *row = t->rows; row->name; row++) {
			const struct setting s = setting_of(tables, row);

			for (int i = 0; i < BB_OPTION_NEEDS && row->needs[i].names; i++)
				if (is_in_effect(&s, row->needs[i].value))
					BB_TRY(st, check_needs(tables, &s, &row->needs[i], error),
					       out);
			for (int i = 0; i < BB_OPTION_EXCLUDES && row->excludes[i].names; i++)
				if (is_in_effect(&s, row->excludes[i].value))
					BB_TRY(st,
					       check_excludes(tables, &s, &row->excludes[i], error),
					       out);
		}
out:
	return st;
}

bb_status bb_options_check_features(const struct bb_option_table *tables, unsigned features,
				    const char *whose, const char *more, struct bb_error *error)
{
	for (const struct bb_option_table *t = tables; t->rows; t++)
		for (const struct bb_option *row = t->rows; row->name; row++) {
			const struct setting s = setting_of(tables, row);

			for (int i = 0; i < BB_OPTION_PLACES && row->on[i].feature; i++) {
				const struct bb_option_place *place = &row->on[i];
				struct bb_strbuf word = {0};
				char value[VALUE_TEXT];

				if ((features & place->feature) || !is_in_effect(&s, place->value))
					continue;
				add_word(&s, value_of(&s, value), &word);
				bb_fail(error, BB_EUNSUPPORTED, "%s: %s %s%s",
					bb_strbuf_text(&word), whose, place->lacks, more);
				bb_strbuf_free(&word);
				return BB_EUNSUPPORTED;
			}
		}
	return BB_OK;
}
