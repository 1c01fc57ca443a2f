#include "topology/files/formats.h"
#include "core/file.h"
#include "topology/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bb_status parse(const char *text, size_t length, const char *name, struct bb_topology **out,
		       struct bb_error *error)
{
	struct bb_xml_document *document = NULL;
	struct bb_topology *t = bb_topology_new();
	const struct bb_xml *root;
	const char *slash;
	bb_status st;

	if (!t) {
		st = bb_no_memory(error, "a topology");
		goto out;
	}
	if (bb_is_nvidia_smi(text, length)) {
		BB_TRY(st, bb_read_nvidia_smi(text, length, t, error), out);
	} else {
		BB_TRY(st, bb_xml_open(text, length, &document, error), out);
		root = bb_xml_root(document);
		if (bb_xml_is(root, "topology"))
			BB_TRY(st, bb_read_hwloc_xml(root, t, error), out);
		else if (bb_xml_is(root, "system"))
			BB_TRY(st, bb_read_nccl_xml(root, t, error), out);
		else
			BB_TRY(st,
			       bb_fail(error, BB_EUSAGE,
				       "the outermost element is %.32s; expected topology (hwloc) "
				       "or system (NCCL)",
				       root->name),
			       out);
		BB_TRY(st, bb_xml_check(document, error), out);
	}
	slash = strrchr(name, '/');
	if (!t->name[0])
		snprintf(t->name, sizeof(t->name), "%s", slash ? slash + 1 : name);
	BB_TRY(st, bb_topology_finish(t, error), out);
	*out = t;
	t = NULL;
out:
	bb_topology_free(t);
	bb_xml_close(document);
	return st;
}

bb_status bb_topology_parse(const char *text, size_t length, const char *name,
			    struct bb_topology **t, struct bb_error *error)
{
	struct bb_error cause = {0};
	bb_status st = parse(text, length, name, t, &cause);

	return st == BB_OK ? BB_OK : bb_fail(error, st, "%s: %s", name, cause.text);
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
