/*
 * profile_lines.c - the lines on which steps and gates begin. libcyaml does not report them, so its
 * parser reads the text once more.
 */
#include "acceptance/profile.h"

#include <string.h>
#include <yaml.h>

#define DEPTH 16 /* deeper than any profile that libcyaml accepts */

/* The position of the parser in the document. */
struct place {
	int depth;
	struct level {
		bool mapping, key_next;
		char key[16];
	} levels[DEPTH];
	int step, gate;        /* the last that has begun; -1: none */
	int documents, second; /* how many have begun, and the line of the second */
};

static const struct {
	const char *key;
	size_t offset;
} keys[] = {
#define KEY(key)                                                                                   \
	{                                                                                          \
#key, offsetof(struct bb_key_lines, key)                                           \
	}
	KEY(name), KEY(launcher), KEY(ranks), KEY(nodes), KEY(repeats), KEY(time_limit), KEY(takes),
#undef KEY
};

/* The profile's own key TEXT is on LINE. */
static void note_key(struct bb_profile *p, const char *text, int line)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(keys[i].key, text) == 0)
			*(int *)((char *)&p->at + keys[i].offset) = line;
}

static bool key_is(const struct place *at, int depth, const char *key)
{
	return at->depth > depth && strcmp(at->levels[depth].key, key) == 0;
}

/* Notes LINE, on which a mapping begins, if that is a step or gate of P. */
static void note(struct place *at, struct bb_profile *p, int line)
{
	if (at->depth == 2 && key_is(at, 0, "steps")) {
		at->step++;
		at->gate = -1;
		if (at->step < (int)p->ndeclared)
			p->declared[at->step].line = line;
	} else if (at->depth == 4 && key_is(at, 0, "steps") && key_is(at, 2, "gates")) {
		at->gate++;
		if (at->step >= 0 && at->step < (int)p->ndeclared &&
		    at->gate < (int)p->declared[at->step].ngates)
			p->declared[at->step].gates[at->gate].line = line;
	}
}

/* A value of the innermost mapping is complete: a key is next. */
static void complete(struct place *at)
{
	struct level *top = at->depth > 0 ? &at->levels[at->depth - 1] : NULL;

	if (top && top->mapping)
		top->key_next = true;
}

static void scalar(struct place *at, struct bb_profile *p, const char *text, int line)
{
	struct level *top = at->depth > 0 ? &at->levels[at->depth - 1] : NULL;

	if (!top || !top->mapping)
		return;
	if (top->key_next) {
		top->key[0] = '\0';
		strncat(top->key, text, sizeof(top->key) - 1);
		if (at->depth == 1)
			note_key(p, text, line);
	}
	top->key_next = !top->key_next;
}

/* Returns true if the document goes on. */
static bool event_read(struct place *at, struct bb_profile *p, const yaml_event_t *event)
{
	const bool mapping = event->type == YAML_MAPPING_START_EVENT;

	switch (event->type) {
	case YAML_MAPPING_START_EVENT:
	case YAML_SEQUENCE_START_EVENT:
		if (at->depth == DEPTH)
			return false;
		if (mapping)
			note(at, p, (int)event->start_mark.line + 1);
		at->levels[at->depth++] = (struct level){mapping, mapping, ""};
		return true;
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		if (at->depth > 0)
			at->depth--;
		complete(at);
		return true;
	case YAML_SCALAR_EVENT:
		scalar(at, p, (const char *)event->data.scalar.value,
		       (int)event->start_mark.line + 1);
		return true;
	case YAML_DOCUMENT_START_EVENT:
		if (at->documents++ > 0)
			at->second = (int)event->start_mark.line + 1;
		return at->second == 0;
	default:
		return event->type != YAML_STREAM_END_EVENT;
	}
}

int bb_profile_lines(struct bb_profile *p, const char *text, size_t length)
{
	struct place at = {.step = -1, .gate = -1};
	yaml_parser_t parser;
	yaml_event_t event;
	bool more = true;

	p->at = (struct bb_key_lines){1, 1, 1, 1, 1, 1, 1};
	if (!yaml_parser_initialize(&parser))
		return 0;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
	while (more && yaml_parser_parse(&parser, &event)) {
		more = event_read(&at, p, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return at.second;
}
