#include "topology/files/formats.h"

#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

/* Expat 2.9 deprecates this name for one of a fixed width. */
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
#define XML_GetCurrentLineNumber XML_GetCurrentLineNumber64
#endif

struct parse {
	XML_Parser parser;
	struct bb_xml_document *document;
	struct bb_xml *open; /* the innermost element that has begun */
	int depth, elements;
	const char *problem; /* why parsing stopped */
};

static void stop(struct parse *p, const char *problem)
{
	if (!p->problem)
		p->problem = problem;
	XML_StopParser(p->parser, XML_FALSE);
}

static void on_start(void *context, const char *name, const char **attributes)
{
	struct parse *p = context;
	struct bb_xml *const parent = p->open, *x;
	size_t n = 0, bytes = strlen(name) + 1;
	const char **list;

	if (p->problem)
		return;
	for (; attributes[n]; n++)
		bytes += strlen(attributes[n]) + 1;
	x = calloc(1, sizeof(*x) + (n + 1) * sizeof(*list) + bytes);
	if (p->depth == BB_XML_DEPTH || ++p->elements > BB_XML_ELEMENTS || !x) {
		stop(p, p->depth == BB_XML_DEPTH ? "elements nest too deep"
			: x                      ? "too many elements"
						 : "out of memory");
		free(x);
		return;
	}
	list = (const char **)(x + 1);
	char *at = (char *)(list + n + 1);
	*x = (struct bb_xml){.name = at,
			     .attributes = list,
			     .line = (int)XML_GetCurrentLineNumber(p->parser),
			     .error = &p->document->error,
			     .parent = parent,
			     .older = p->document->newest};
	at = stpcpy(at, name) + 1;
	for (size_t i = 0; i < n; i++) {
		list[i] = at;
		at = stpcpy(at, attributes[i]) + 1;
	}
	if (!parent)
		p->document->root = x;
	else if (parent->last)
		parent->last->next = x;
	else
		parent->child = x;
	if (parent)
		parent->last = x;
	p->open = p->document->newest = x;
	p->depth++;
}

static void on_text(void *context, const char *text, int length)
{
	struct parse *p = context;

	if (!p->problem && p->open)
		bb_strbuf_add_bytes(&p->open->text, text, (size_t)length);
}

static void on_end(void *context, const char *name)
{
	struct parse *p = context;
	struct bb_xml *const x = p->open;

	if (p->problem || !x)
		return;
	const char *const text = bb_strbuf_text(&x->text);
	if (bb_strbuf_failed(&x->text))
		stop(p, "out of memory");
	else if (!text[strspn(text, " \t\r\n")])
		bb_strbuf_free(&x->text);
	p->open = x->parent;
	p->depth--;
}

/* Entities can make a small file huge, and no topology needs them. */
static void on_entity(void *context, const char *name, int is_parameter, const char *value,
		      int length, const char *base, const char *system, const char *public,
		      const char *notation)
{
	stop(context, "it declares entities");
}

bb_status bb_xml_open(const char *text, size_t length, struct bb_xml_document *document,
		      struct bb_error *error)
{
	struct parse p = {.document = document};
	bb_status st = BB_OK;

	if (length > INT32_MAX)
		return bb_fail(error, BB_EUSAGE, "too large");
	p.parser = XML_ParserCreate(NULL);
	if (!p.parser)
		return bb_no_memory(error, "XML");
	XML_SetUserData(p.parser, &p);
	XML_SetElementHandler(p.parser, on_start, on_end);
	XML_SetCharacterDataHandler(p.parser, on_text);
	XML_SetEntityDeclHandler(p.parser, on_entity);
	if (XML_Parse(p.parser, text, (int)length, XML_TRUE) != XML_STATUS_OK && !p.problem)
		p.problem = XML_ErrorString(XML_GetErrorCode(p.parser));
	if (p.problem)
		st = bb_fail(error, BB_EUSAGE, "line %lu: %s",
			     (unsigned long)XML_GetCurrentLineNumber(p.parser), p.problem);
	XML_ParserFree(p.parser);
	return st;
}

void bb_xml_close(struct bb_xml_document *document)
{
	for (struct bb_xml *x = document->newest, *older; x; x = older) {
		older = x->older;
		bb_strbuf_free(&x->text);
		free(x);
	}
}

const char *bb_xml_text(const struct bb_xml *x, const char *name)
{
	for (const char *const *a = x->attributes; *a; a += 2)
		if (strcmp(a[0], name) == 0)
			return a[1];
	return "";
}

const struct bb_xml *bb_xml_child(const struct bb_xml *x, const char *name)
{
	const struct bb_xml *c = x->child;

	while (c && !bb_xml_is(c, name))
		c = c->next;
	return c;
}

bool bb_xml_is(const struct bb_xml *x, const char *name)
{
	return strcmp(x->name, name) == 0;
}

int64_t bb_xml_number(const struct bb_xml *x, const char *name, int64_t low, int64_t high,
		      int64_t otherwise)
{
	const char *const text = bb_xml_text(x, name);
	char *end;

	if (!*text)
		return otherwise;
	errno = 0;
	const long long value = strtoll(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
	if (end != text && !*end && errno == 0 && value >= low && value <= high)
		return value;
	bb_fail(x->error, BB_EUSAGE, "line %d: %s=\"%.32s\" is not a number from %lld to %lld",
		x->line, name, text, (long long)low, (long long)high);
	return otherwise;
}
