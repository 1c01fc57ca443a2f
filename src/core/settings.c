#include "core/settings.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TEXT without blanks around it, cut in place. */
static char *trim(char *text)
{
	text += strspn(text, " \t\r");
	size_t length = strlen(text);
	while (length > 0 && strchr(" \t\r", text[length - 1]))
		text[--length] = '\0';
	return text;
}

bb_status bb_settings_next(struct bb_settings *s, bool *more, struct bb_error *error)
{
	for (*more = true; *s->rest;) {
		const size_t length = strcspn(s->rest, "\n");
		const bool fits = length < sizeof(s->text);
		char *line, *hash, *equals;

		snprintf(s->text, sizeof(s->text), "%.*s", fits ? (int)length : 0, s->rest);
		s->rest += length + (s->rest[length] == '\n');
		s->line++;
		line = trim(s->text);
		if (s->section && *line == '[') {
			line[strcspn(line, "]")] = '\0';
			s->here = strcmp(line + 1, s->section) == 0;
			continue;
		}
		if ((s->section && !s->here) || (fits && (!*line || *line == '#')))
			continue;
		hash = strchr(line, '#');
		if (hash)
			*hash = '\0';
		s->source = hash ? trim(hash + 1) : NULL;
		equals = strchr(line, '=');
		if (equals)
			*equals = '\0';
		s->key = trim(line);
		s->value = equals ? trim(equals + 1) : s->key + strlen(s->key);
		if (fits && *s->key && *s->value)
			return BB_OK;
		return bb_fail(error, BB_EUSAGE,
			       "%s: line %d: expected KEY = VALUE, as in net_latency = 2.7us",
			       s->name, s->line);
	}
	*more = false;
	return BB_OK;
}

static bool read_number(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && !*end;
}

bool bb_setting_read(enum bb_setting_unit unit, const char *text, double *value)
{
	uint64_t whole = 0;
	int64_t count = 0;
	bool is_good = false;
	double of;
	char *end;

	switch (unit) {
	case BB_SETTING_RATE:
		return bb_parse_rate(text, value);
	case BB_SETTING_SHARE:
		if (!bb_parse_percent(text, value)) {
			*value = strtod(text, &end);
			if (end == text || *end != '/' || !read_number(end + 1, &of))
				return false;
			*value /= of;
		}
		return *value > 0 && *value <= 1;
	case BB_SETTING_NUMBER:
		return read_number(text, value);
	case BB_SETTING_YES:
		*value = strcmp(text, "yes") == 0 ? 1 : -1;
		return *value > 0 || strcmp(text, "no") == 0;
	case BB_SETTING_TIME:
		is_good = bb_parse_duration(text, &whole);
		*value = (double)whole * 1e-9;
		break;
	case BB_SETTING_SIZE:
		is_good = bb_parse_size(text, &whole);
		*value = (double)whole;
		break;
	case BB_SETTING_COUNT:
		is_good = bb_parse_int(text, &count);
		*value = (double)count;
		break;
	}
	return is_good;
}
