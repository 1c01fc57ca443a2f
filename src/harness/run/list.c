/*
 * list.c - the text of --list.
 */
#include "backends/gpu.h"
#include "harness/measure/plan.h"

#include <stdlib.h>
#include <string.h>

static const struct bb_native *shadow(const struct bb_native *natives, const char *name)
{
	const struct bb_native *native;

	for (native = natives; native && native->name; native++) {
		if (strcmp(native->name, name) == 0)
			return native;
	}
	return NULL;
}

static bool has(const struct bb_native *native, const struct bb_collective *collective)
{
	return !native->refuses || !native->refuses(native, collective);
}

static void list_algorithms(struct bb_strbuf *out, const struct bb_native *natives,
			    const struct bb_collective *collective)
{
	const struct bb_native *native;
	int i;

	bb_strbuf_addf(out, "    %-15s", collective->name);
	for (i = 0; bb_algorithms[i]; i++) {
		if (bb_algorithms[i]->collective != collective)
			continue;
		/* What the library has of that name goes first; busbench's own can be had too. */
		native = shadow(natives, bb_algorithms[i]->name);
		bb_strbuf_addf(out, " %s%s", native ? BB_OWN : "", bb_algorithms[i]->name);
	}
	for (native = natives; native && native->name; native++) {
		if (has(native, collective))
			bb_strbuf_addf(out, " %s", native->name);
	}
	bb_strbuf_add(out, " auto\n");
}

static void list_types(struct bb_strbuf *out)
{
	int op, dtype;

	bb_strbuf_add(out, "operations (-o) and the datatypes (-d) that they take\n");
	for (op = 0; op < BB_NOPS; op++) {
		bb_strbuf_addf(out, "    %-15s", bb_op_name((enum bb_op)op));
		for (dtype = 0; dtype < BB_NDTYPES; dtype++) {
			if (bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
				bb_strbuf_addf(out, " %s", bb_dtype_name((enum bb_dtype)dtype));
		}
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
