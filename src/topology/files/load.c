#include "core/file.h"
#include "topology/build.h"
#include "topology/files/formats.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- masks ---------------------------------------------------------------------------------- */

/* Sets of processors and NUMA nodes in comma-separated hexadecimal words of 32 bits, the highest
   first. hwloc's own reader ends the process on some malformed ones. */

#define WORDS 2048 /* 65536 processors */
#define ULONG_BITS (8 * sizeof(unsigned long))

hwloc_bitmap_t bb_read_mask(const char *mask)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	int words = 1;

	for (const char *c = mask; *c && words <= WORDS; c++)
		words += *c == ',';
	while (set && words-- > 0 && words < WORDS) {
		/* An empty word is 0. */
		const char *const at = mask + (strncmp(mask, "0x", 2) == 0 ? 2 : 0);
		const size_t digits = strspn(at, "0123456789abcdefABCDEF");
		const unsigned long word = digits > 0 ? strtoul(at, NULL, 16) : 0;

		if (digits > 8 || (at[digits] != ',' && at[digits] != '\0'))
			break;
		for (unsigned bit = 0; bit < 32; bit++)
			if (word >> bit & 1)
				hwloc_bitmap_set(set, 32 * (unsigned)words + bit);
		mask = at + digits + (at[digits] == ',');
	}
	if (set && (words >= 0 || hwloc_bitmap_iszero(set))) {
		hwloc_bitmap_free(set);
		set = NULL;
	}
	return set;
}

char *bb_cpu_list(const char *mask)
{
	hwloc_bitmap_t set = bb_read_mask(mask);
	char *list = NULL;

	if (set && hwloc_bitmap_list_asprintf(&list, set) < 0)
		list = NULL;
	hwloc_bitmap_free(set);
	return list;
}

char *bb_cpu_mask(const char *list)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	struct bb_strbuf mask = {0};

	if (set && hwloc_bitmap_list_sscanf(set, list) == 0)
		for (int i = hwloc_bitmap_last(set) / 32; i >= 0; i--) {
			const unsigned long pair =
				hwloc_bitmap_to_ith_ulong(set, (unsigned)i * 32 / ULONG_BITS);

			bb_strbuf_addf(&mask, "%s%08lx", mask.length > 0 ? "," : "",
				       pair >> (unsigned)i * 32 % ULONG_BITS & 0xffffffff);
		}
	hwloc_bitmap_free(set);
	return mask.text;
}

/* ---- files ---------------------------------------------------------------------------------- */

bb_status bb_topology_parse(const char *text, size_t length, const char *name,
			    struct bb_topology **out, struct bb_error *error)
{
	struct bb_error cause = {0};
	struct bb_xml_document document = {0};
	struct bb_topology *t = bb_topology_new();
	const char *slash = strrchr(name, '/');
	size_t begin = 0;
	bool is_smi = false;
	bb_status st;

	if (!t)
		BB_TRY(st, bb_no_memory(&cause, "a topology"), out);
	while (begin < length && isspace((unsigned char)text[begin]))
		begin++;
	if (begin < length && text[begin] != '<')
		BB_TRY(st, bb_read_nvidia_smi(text, length, t, &is_smi, &cause), out);
	if (!is_smi) {
		BB_TRY(st, bb_xml_open(text, length, &document, &cause), out);
		if (bb_xml_is(document.root, "topology"))
			BB_TRY(st, bb_read_hwloc_xml(document.root, t, &cause), out);
		else if (bb_xml_is(document.root, "system"))
			BB_TRY(st, bb_read_nccl_xml(document.root, t, &cause), out);
		else
			BB_TRY(st,
			       bb_fail(&cause, BB_EUSAGE,
				       "the outermost element is %.32s; expected topology (hwloc) "
				       "or system (NCCL)",
				       document.root->name),
			       out);
		st = bb_error_status(&document.error);
		if (st != BB_OK)
			BB_TRY(st, bb_fail(&cause, st, "%s", document.error.text), out);
	}
	if (!t->name[0])
		snprintf(t->name, sizeof(t->name), "%s", slash ? slash + 1 : name);
	st = bb_topology_finish(t, &cause);
out:
	bb_xml_close(&document);
	if (st == BB_OK) {
		*out = t;
		return BB_OK;
	}
	bb_topology_free(t);
	return bb_fail(error, st, "%s: %s", name, cause.text);
}

bb_status bb_topology_load(const char *path, struct bb_topology **t, struct bb_error *error)
{
	const struct bb_file_request request = {.path = path, .most = BB_FILE_MOST};
	char *text;
	size_t length;
	bb_status st;

	BB_TRY(st, bb_file_read(&request, &text, &length, error), out);
	st = bb_topology_parse(text, length, path, t, error);
	free(text);
out:
	return st;
}
