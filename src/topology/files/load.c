#include "topology/files/formats.h"
#include "core/file.h"
#include "topology/build.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
