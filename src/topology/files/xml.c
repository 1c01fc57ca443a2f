#include "topology/files/xml.h"
#include "core/strbuf.h"

#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

/* Expat 2.9 deprecates this name for one of a fixed width. */
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
#define XML_GetCurrentLineNumber XML_GetCurrentLineNumber64
#endif

#define BLOCK ((size_t)64 << 10)

/* Memory that is freed at once. */
struct block {
	struct block *before;
	char bytes[];
};

struct bb_xml_document {
	struct block *blocks;
	size_t used, room; /* of the newest block */
	struct bb_xml *root;
	int elements;
	struct bb_error error; /* first malformed number */
};

/* An element before its end. */
struct open_element {
	struct bb_xml *element, *last_child;
	struct bb_strbuf text;
};

struct parse {
	struct bb_xml_document *document;
	XML_Parser parser;
	struct open_element open[BB_XML_DEPTH];
	int depth;
	const char *problem; /* why parsing stopped */
};

static void *allocate(struct bb_xml_document *d, size_t size)
{
	struct block *block;
	void *at;

	size = (size + 15) & ~(size_t)15;
	if (!d->blocks || d->room - d->used < size) {
		d->room = size > BLOCK ? size : BLOCK;
		block = malloc(sizeof(*block) + d->room);
		if (!block)
			return NULL;
		block->before = d->blocks;
		d->blocks = block;
		d->used = 0;
	}
	at = d->blocks->bytes + d->used;
	d->used += size;
	return memset(at, 0, size);
}

static char *copy_text(struct bb_xml_document *d, const char *text)
{
	size_t length = strlen(text) + 1;
	char *at = allocate(d, length);

	return at ? memcpy(at, text, length) : NULL;
}

static void stop(struct parse *p, const char *problem)
{
	if (!p->problem)
		p->problem = problem;
	XML_StopParser(p->parser, XML_FALSE);
}

static void on_start(void *context, const char *name, const char **attributes)
{
	struct parse *p = context;
	struct bb_xml_document *d = p->document;
	struct bb_xml *x;
	struct bb_xml_attribute *list;
	bool lacks_memory;
	int n;
	struct open_element *parent = p->depth > 0 ? &p->open[p->depth - 1] : NULL;

	if (p->problem)
		return;
	if (p->depth == BB_XML_DEPTH || ++d->elements > BB_XML_ELEMENTS) {
		stop(p, p->depth == BB_XML_DEPTH ? "elements nest too deep" : "too many elements");
		return;
	}
	x = allocate(d, sizeof(*x));
	for (n = 0; attributes[2 * n];)
		n++;
	list = allocate(d, (size_t)(n + 1) * sizeof(*list));
	lacks_memory = !x || !list || !(x->name = copy_text(d, name));
	for (int i = 0; i < n && !lacks_memory; i++) {
		list[i].name = copy_text(d, attributes[2 * i]);
		list[i].value = copy_text(d, attributes[2 * i + 1]);
		lacks_memory = !list[i].name || !list[i].value;
	}
	if (lacks_memory) {
		stop(p, "out of memory");
		return;
	}
	x->attributes = list;
	x->nattributes = n;
	x->text = "";
	x->line = (int)XML_GetCurrentLineNumber(p->parser);
	x->error = &d->error;
	if (!parent)
		d->root = x;
	else if (parent->last_child)
		parent->last_child->next = x;
	else
		parent->element->child = x;
	if (parent)
		parent->last_child = x;
	p->open[p->depth++] = (struct open_element){.element = x};
}

static void on_text(void *context, const char *text, int length)
{
	struct parse *p = context;

	if (!p->problem && p->depth > 0)
		bb_strbuf_add_bytes(&p->open[p->depth - 1].text, text, (size_t)length);
}

static void on_end(void *context, const char *name)
{
	struct parse *p = context;
	struct open_element *o;
	const char *text;

	if (p->problem || p->depth == 0)
		return;
	o = &p->open[--p->depth];
	text = bb_strbuf_text(&o->text);
	if (bb_strbuf_failed(&o->text))
		stop(p, "out of memory");
	else if (text[strspn(text, " \t\r\n")])
		o->element->text = copy_text(p->document, text);
	if (!o->element->text)
		stop(p, "out of memory");
	bb_strbuf_free(&o->text);
}

/* Entities can make a small file huge, and no topology needs them. */
static void on_entity(void *context, const char *name, int is_parameter, const char *value,
		      int length, const char *base, const char *system, const char *public,
		      const char *notation)
{
	stop(context, "it declares entities");
}

static bb_status parse_text(struct parse *p, const char *text, size_t length,
			    struct bb_error *error)
{
	enum XML_Status status;
	const char *problem;

	XML_SetUserData(p->parser, p);
	XML_SetElementHandler(p->parser, on_start, on_end);
	XML_SetCharacterDataHandler(p->parser, on_text);
	XML_SetEntityDeclHandler(p->parser, on_entity);
	status = XML_Parse(p->parser, text, (int)length, XML_TRUE);
	if (status == XML_STATUS_OK && !p->problem)
		return BB_OK;
	problem = p->problem ? p->problem : XML_ErrorString(XML_GetErrorCode(p->parser));
	return bb_fail(error, BB_EUSAGE, "line %lu: %s",
		       (unsigned long)XML_GetCurrentLineNumber(p->parser), problem);
}

bb_status bb_xml_open(const char *text, size_t length, struct bb_xml_document **document,
		      struct bb_error *error)
{
	struct parse p = {.depth = 0};
	bb_status st;

	if (length > INT32_MAX)
		return bb_fail(error, BB_EUSAGE, "too large");
	p.document = calloc(1, sizeof(*p.document));
	p.parser = XML_ParserCreate(NULL);
	if (!p.document || !p.parser)
		st = bb_no_memory(error, "XML");
	else
		st = parse_text(&p, text, length, error);
	while (p.depth > 0)
		bb_strbuf_free(&p.open[--p.depth].text);
	XML_ParserFree(p.parser);
	if (st == BB_OK)
		*document = p.document;
	else
		bb_xml_close(p.document);
	return st;
}

void bb_xml_close(struct bb_xml_document *document)
{
	struct block *before;

	if (!document)
		return;
	for (struct block *block = document->blocks; block; block = before) {
		before = block->before;
		free(block);
	}
	free(document);
}

const struct bb_xml *bb_xml_root(const struct bb_xml_document *document)
{
	return document->root;
}

bb_status bb_xml_check(const struct bb_xml_document *document, struct bb_error *error)
{
	const bb_status st = bb_error_status(&document->error);

	return st == BB_OK ? BB_OK : bb_fail(error, st, "%s", document->error.text);
}

static const char *find_attribute(const struct bb_xml *x, const char *name)
{
	for (int i = 0; i < x->nattributes; i++)
		if (strcmp(x->attributes[i].name, name) == 0)
			return x->attributes[i].value;
	return NULL;
}

const char *bb_xml_text(const struct bb_xml *x, const char *name)
{
	const char *value = find_attribute(x, name);

	return value ? value : "";
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
	const char *text = find_attribute(x, name);
	long long value;
	char *end;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	value = strtoll(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
	if (end != text && !*end && errno == 0 && value >= low && value <= high)
		return value;
	bb_fail(x->error, BB_EUSAGE, "line %d: %s=\"%.32s\" is not a number from %lld to %lld",
		x->line, name, text, (long long)low, (long long)high);
	return otherwise;
}
