/*
 * xml.h - an XML document as a tree, with bounds on its size.
 */
#ifndef BB_TOPOLOGY_FILES_XML_H
#define BB_TOPOLOGY_FILES_XML_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_XML_DEPTH 256
#define BB_XML_ELEMENTS 500000

struct bb_xml_attribute {
	const char *name, *value;
};

struct bb_xml {
	const char *name;
	const char *text; /* directly in it, all pieces together; empty if none */
	int nattributes;
	const struct bb_xml_attribute *attributes;
	const struct bb_xml *child, *next; /* first child, next of the same parent */
	int line;
	struct bb_error *error; /* of the document: its first number that is none */
};

struct bb_xml_document; /* owns all of it */

/*
 * Parse LENGTH bytes. BB_EDATA with the line where it is no XML, ends early, nests deeper or has
 * more elements than the limits, or declares entities. The tree lives until bb_xml_close.
 */
BB_MUST bb_status bb_xml_open(const char *text, size_t length, struct bb_xml_document **document,
			      struct bb_error *error);
void bb_xml_close(struct bb_xml_document *document); /* NULL: nothing */
const struct bb_xml *bb_xml_root(const struct bb_xml_document *document);
/* BB_EDATA where bb_xml_number has found a number that is none, with its line. */
BB_MUST bb_status bb_xml_check(const struct bb_xml_document *document, struct bb_error *error);

/* The first child called NAME; NULL: none. */
const struct bb_xml *bb_xml_child(const struct bb_xml *x, const char *name);
/* The value of an attribute, or an empty string. */
const char *bb_xml_text(const struct bb_xml *x, const char *name);
bool bb_xml_is(const struct bb_xml *x, const char *name);

/* An attribute as a number, base 10, or 16 after 0x; OTHERWISE if it is missing or empty. Anything
   else than a number within LOW … HIGH gives OTHERWISE, too, and bb_xml_check reports it. */
int64_t bb_xml_number(const struct bb_xml *x, const char *name, int64_t low, int64_t high,
		      int64_t otherwise);

#endif
