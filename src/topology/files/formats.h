/*
 * formats.h - readers of the formats of files into a model, and the XML that two of them are.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"
#include "topology/files/files.h"

#include <hwloc/bitmap.h>
#include <stdint.h>

/* ---- an XML document as a tree, with bounds on its size ------------------------------------- */

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

/* ---- formats -------------------------------------------------------------------------------- */

/* Add the machine under ROOT to T, which is empty and not finished afterwards. BB_EUSAGE: ROOT is
   of another format, or describes an impossible machine. */
BB_MUST bb_status bb_read_hwloc_xml(const struct bb_xml *root, struct bb_topology *t,
				    struct bb_error *error);
BB_MUST bb_status bb_read_nccl_xml(const struct bb_xml *root, struct bb_topology *t,
				   struct bb_error *error);

/* The same from the output of nvidia-smi (topo -m, nvlink -s, -L). *FOUND is false if TEXT is
   another's. BB_EUSAGE also: the matrix of topo -m is missing or cut off. */
BB_MUST bb_status bb_read_nvidia_smi(const char *text, size_t length, struct bb_topology *t,
				     bool *found, struct bb_error *error);

/* The bits of a mask in hexadecimal words ("0x000000ff,0xffffffff"). NULL: it is malformed,
   infinite or empty. */
hwloc_bitmap_t bb_read_mask(const char *mask);
/* The same as a list: "0-3,8"; NULL as above. The caller frees it. */
char *bb_cpu_list(const char *mask);

/* The mask of a list, as NCCL writes it ("000000ff,ffffffff"); NULL without memory. The caller
   frees it. */
char *bb_cpu_mask(const char *list);
