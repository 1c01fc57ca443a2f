/*
 * list.c - the text of --list.
 */
#include "harness/plan.h"

#include <string.h>

static bool shadowed(const struct bb_backend *backend, const char *name)
{
	const struct bb_native *native;

	for (native = backend->natives; native && native->name; native++) {
		if (strcmp(native->name, name) == 0)
			return true;
	}
	return false;
}

static void list_algorithms(struct bb_strbuf *out, const struct bb_backend *backend,
			    const struct bb_collective *collective)
{
	const struct bb_native *native;
	int i;

	bb_strbuf_addf(out, "    %-15s", collective->name);
	for (i = 0; bb_algorithms[i]; i++) {
		if (bb_algorithms[i]->collective == collective &&
		    !shadowed(backend, bb_algorithms[i]->name))
			bb_strbuf_addf(out, " %s", bb_algorithms[i]->name);
	}
	for (native = backend->natives; native && native->name; native++) {
		if (!native->refuses || !native->refuses(native, collective))
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

void bb_plan_list(struct bb_strbuf *out)
{
	int b, c;

	for (b = 0; bb_backends[b]; b++) {
		bb_strbuf_addf(out, "backend %s: %s\n", bb_backends[b]->name,
			       bb_backends[b]->brief);
		bb_strbuf_add(out, "  collectives and their algorithms (--algo)\n");
		for (c = 0; bb_collectives[c]; c++)
			list_algorithms(out, bb_backends[b], bb_collectives[c]);
	}
	list_types(out);
}
