/*
 * list.c - the text of --list.
 */
#include "backends/gpu.h"
#include "harness/measure/plan.h"

#include <stdlib.h>

static bool has(const struct bb_native *native, const struct bb_collective *collective)
{
	return !native->refuses || !native->refuses(native, collective);
}

static void list_algorithms(struct bb_strbuf *out, const struct bb_native *natives,
			    const struct bb_collective *collective)
{
	bb_strbuf_addf(out, "    %-15s", collective->name);
	/* The library's algorithm takes the plain name; busbench's gets a prefix. */
	for (int i = 0; bb_algorithms[i]; i++)
		if (bb_algorithms[i]->collective == collective)
			bb_strbuf_addf(out, " %s%s",
				       bb_native_find(natives, bb_algorithms[i]->name) ? BB_OWN
										       : "",
				       bb_algorithms[i]->name);
	for (; natives && natives->name; natives++)
		if (has(natives, collective))
			bb_strbuf_addf(out, " %s", natives->name);
	bb_strbuf_add(out, " auto\n");
}

static void list_types(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "operations (-o) and the datatypes (-d) that they take\n");
	for (int op = 0; op < BB_NOPS; op++) {
		bb_strbuf_addf(out, "    %-15s", bb_op_name((enum bb_op)op));
		for (int dtype = 0; dtype < BB_NDTYPES; dtype++)
			if (bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
				bb_strbuf_addf(out, " %s", bb_dtype_name((enum bb_dtype)dtype));
		bb_strbuf_add(out, "\n");
	}
	bb_strbuf_add(out, "collectives that only move data take every datatype\n");
}

static void list_backend(struct bb_strbuf *out, const struct bb_backend *backend)
{
	struct bb_error error = {.text = ""};
	const struct bb_native *natives;
	struct bb_native *owned;

	bb_strbuf_addf(out, "backend %s: %s\n", backend->name, backend->brief);
	if (backend->gpu)
		backend->gpu->list(out);
	if (bb_plan_natives(&natives, &owned, backend, "all", &error) != BB_OK)
		bb_strbuf_addf(out, "  what its library has is not known: %s\n", error.text);
	bb_strbuf_add(out, "  collectives and their algorithms (--algo)\n");
	for (int c = 0; bb_collectives[c]; c++)
		list_algorithms(out, natives, bb_collectives[c]);
	free(owned);
}

void bb_plan_list(struct bb_strbuf *out)
{
	bb_plugin_list(out, list_backend);
	list_types(out);
}
