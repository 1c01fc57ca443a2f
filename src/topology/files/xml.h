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
	const char *text; /* directly in the element, joined; empty if none */
	int nattributes;
	const struct bb_xml_attribute *attributes;
	const struct bb_xml *child, *next; /* first child, next sibling */
	int line;
	struct bb_error *error; /* of the document: its first malformed number */
};

struct bb_xml_document; /* owns the tree */

/*
 * Parse LENGTH bytes of TEXT. BB_EUSAGE with the line where TEXT is malformed, exceeds a limit
 * above, or declares entities. The tree is valid until bb_xml_close.
 */
BB_MUST bb_status bb_xml_open(const char *text, size_t length, struct bb_xml_document **document,
			      struct bb_error *error);
void bb_xml_close(struct bb_xml_document *document); /* NULL: nothing */
const struct bb_xml *bb_xml_root(const struct bb_xml_document *document);
/* BB_EUSAGE with the first malformed number that bb_xml_number found, and its line. */
BB_MUST bb_status bb_xml_check(const struct bb_xml_document *document, struct bb_error *error);

/* The first child element NAME; NULL: none. */
const struct bb_xml *bb_xml_child(const struct bb_xml *x, const char *name);
/* The value of the attribute NAME, or an empty string. */
const char *bb_xml_text(const struct bb_xml *x, const char *name);
/* Whether X is an element NAME. */
bool bb_xml_is(const struct bb_xml *x, const char *name);

/* The attribute NAME as a number, decimal, or hexadecimal after 0x; OTHERWISE if it is missing or
   empty. Anything but a number in LOW to HIGH also gives OTHERWISE, and bb_xml_check then fails. */
int64_t bb_xml_number(const struct bb_xml *x, const char *name, int64_t low, int64_t high,
		      int64_t otherwise);

#endif
