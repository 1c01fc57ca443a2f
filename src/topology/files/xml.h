/*
 * xml.h - an XML document as a tree, with bounds on its size.
 */
#ifndef BB_TOPOLOGY_FILES_XML_H
#define BB_TOPOLOGY_FILES_XML_H

#include "core/status.h"
#include "core/strbuf.h"

#include <stdint.h>

#define BB_XML_DEPTH 256
#define BB_XML_ELEMENTS 500000

struct bb_xml {
	const char *name;
	const char *const *attributes;     /* a name, its value and so on; ends with NULL */
	struct bb_strbuf text;             /* directly in the element, joined; empty if all blank */
	const struct bb_xml *child, *next; /* first child, next sibling */
	int line;
	struct bb_error *error;               /* of the document: its first malformed number */
	struct bb_xml *parent, *last, *older; /* last child so far; element that began before */
};

struct bb_xml_document {
	const struct bb_xml *root;
	struct bb_error
		error; /* the first malformed number that bb_xml_number found, and its line */
	struct bb_xml *newest; /* element that began last */
};

/* Parse LENGTH bytes of TEXT into DOCUMENT, which is zeroed. BB_EUSAGE with the line where TEXT is
   malformed, exceeds a limit above, or declares entities. The caller closes DOCUMENT, whatever is
   returned. */
BB_MUST bb_status bb_xml_open(const char *text, size_t length, struct bb_xml_document *document,
			      struct bb_error *error);
void bb_xml_close(struct bb_xml_document *document);

/* The first child element NAME; NULL: none. */
const struct bb_xml *bb_xml_child(const struct bb_xml *x, const char *name);
/* The value of the attribute NAME, or an empty string. */
const char *bb_xml_text(const struct bb_xml *x, const char *name);
/* Whether X is an element NAME. */
bool bb_xml_is(const struct bb_xml *x, const char *name);

/* The attribute NAME as a number, decimal, or hexadecimal after 0x; OTHERWISE if it is missing or
   empty. Anything but a number in LOW to HIGH also gives OTHERWISE, and an error of the document.
 */
int64_t bb_xml_number(const struct bb_xml *x, const char *name, int64_t low, int64_t high,
		      int64_t otherwise);

#endif
