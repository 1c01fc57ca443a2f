/*
 * algorithms.c - the algorithms that --algo may name.
 */
#include "harness/measure/algorithms.h"

#include "backends/gpu.h"
#include "backends/virtual.h"

#include <stdlib.h>
#include <string.h>

static const struct bb_choice auto_choice = {.name = "auto"};

/* ---- what there is --------------------------------------------------------------------- */

bb_status bb_algorithms_natives(const struct bb_native **natives, struct bb_native **owned,
				const struct bb_backend *backend, const char *algorithms,
				struct bb_error *error)
{
	/* What a library reports is called "native:NAME". */
	const bool all = strchr(algorithms, ':') || strcmp(algorithms, "all") == 0;
	bb_status st = BB_OK;

	*owned = NULL;
	for (const struct bb_native *n = backend->natives; all && n->name && !*owned; n++)
		if (n->discover)
			BB_TRY(st, n->discover(owned, error), out);
out:
	*natives = *owned ? *owned : backend->natives;
	return st;
}

const struct bb_native *bb_native_find(const struct bb_native *natives, const char *name)
{
	for (; natives && natives->name; natives++)
		if (strcmp(natives->name, name) == 0)
			return natives;
	return NULL;
}

const char *bb_schedule_name(const struct bb_algorithm *schedule, const struct bb_native *natives)
{
	return schedule->own && bb_native_find(natives, schedule->name) ? schedule->own
									: schedule->name;
}

const char *bb_choice_find(struct bb_choice *choice, const struct bb_native *natives,
			   const struct bb_collective *collective, int nranks, const char *given)
{
	const char *name = bb_algorithm_own(given), *reason = NULL;
	const struct bb_native *native = name == given ? bb_native_find(natives, name) : NULL;
	const struct bb_algorithm *schedule = bb_algorithm_find(collective, name);

	if (strcmp(name, auto_choice.name) == 0) {
		*choice = auto_choice;
		return NULL;
	}
	*choice = (struct bb_choice){.name = NULL};
	if (!native && !schedule)
		return "not an algorithm of this collective";
	if (native && native->refuses)
		reason = native->refuses(native, collective);
	if (native && !reason && native->refuses_group)
		reason = native->refuses_group(native, nranks);
	if (native && !(reason && schedule))
		*choice = (struct bb_choice){
			.name = native->name, .native = native, .stand_in = schedule};
	else
		*choice = (struct bb_choice){.name = schedule->name,
					     .schedule = schedule,
					     .instead_of = native,
					     .reason = reason};
	return choice->native ? reason : NULL;
}

/* ---- what --algo names ------------------------------------------------------------------- */

static bool has(const struct bb_native *native, const struct bb_collective *collective)
{
	return !native->refuses || !native->refuses(native, collective);
}

/* True if WORD is one of BACKEND's own algorithms or "NAME:VARIANT" of one. */
static bool has_own(const struct bb_backend *backend, const char *word)
{
	for (const struct bb_native *native = backend->natives; native && native->name; native++) {
		const size_t length = strlen(native->name);

		if (strcmp(native->name, word) == 0 ||
		    (native->discover && strncmp(native->name, word, length) == 0 &&
		     word[length] == ':' && word[length + 1]))
			return true;
	}
	return false;
}

bb_status bb_algorithms_unknown(const struct bb_backend *backend, const struct bb_native *natives,
				const struct bb_collective *collective, const char *word,
				struct bb_error *error)
{
	const struct bb_virtual *virtual = backend->virtual;
	const bool of_gpus = virtual && has_own(virtual->over_gpus, word);
	const char *names[64] = {"auto", "all"};
	char hint[BB_SUGGESTION];
	int n = 2;

	if (of_gpus || (virtual && has_own(virtual->over_cpus, word)))
		return bb_fail(error, BB_EUSAGE,
			       "--algo: %s is %s own, and %s has a model of it only over a "
			       "--cluster of %s; everything else runs busbench's schedules "
			       "(see --list)",
			       word, of_gpus ? "NCCL's" : "Open MPI's", backend->name,
			       of_gpus ? "GPUs" : "nodes without GPUs");
	for (int i = 0; bb_algorithms[i] && n < 63; i++)
		if (bb_algorithms[i]->collective == collective)
			names[n++] = bb_algorithms[i]->name;
	for (; natives && natives->name && n < 63; natives++)
		if (has(natives, collective))
			names[n++] = natives->name;
	names[n] = NULL;
	return bb_fail(error, BB_EUSAGE,
		       "--algo: the %s backend has no algorithm \"%s\"%s (see --list)",
		       backend->name, word, bb_suggest(hint, word, names));
}

bb_status bb_algorithms_check(const char *list, const struct bb_options *o,
			      const struct bb_collective *collective, struct bb_error *error)
{
	char word[BB_WORD];
	const char *rest = list;

	do {
		const bool whole = bb_next_word(&rest, word);
		const char *schedule = bb_algorithm_own(word);
		bool known = strcmp(word, "auto") == 0 || strcmp(word, "all") == 0 ||
			     has_own(o->backend, word);

		/* A schedule may be of any collective. */
		for (int i = 0; bb_algorithms[i] && !known; i++)
			known = strcmp(bb_algorithms[i]->name, schedule) == 0;
		if (!*word)
			return bb_fail(error, BB_EUSAGE,
				       "--algo %s: there is an empty name in the list", list);
		if (!whole || !known)
			return bb_algorithms_unknown(o->backend, o->backend->natives, collective,
						     word, error);
		if (strcmp(word, "all") == 0 && strcmp(list, "all") != 0)
			return bb_fail(error, BB_EUSAGE,
				       "--algo %s: all stands alone, not in a list", list);
	} while (*rest++ == ',');
	return BB_OK;
}

bb_status bb_algorithms_check_one(const char *name, const struct bb_options *o,
				  struct bb_error *error)
{
	if (strchr(name, ',') || strcmp(name, "all") == 0)
		return bb_fail(error, BB_EUSAGE, "--algo %s: one algorithm at a time, as in ring",
			       name);
	return bb_algorithms_check(name, o, &bb_all_reduce, error);
}

/* ---- --list ------------------------------------------------------------------------------ */

static void list_backend(struct bb_strbuf *out, const struct bb_backend *backend)
{
	struct bb_error error = {.text = ""};
	const struct bb_native *natives;
	struct bb_native *owned;

	bb_strbuf_addf(out, "backend %s: %s\n", backend->name, backend->brief);
	if (backend->gpu)
		backend->gpu->list(out);
	if (bb_algorithms_natives(&natives, &owned, backend, "all", &error) != BB_OK)
		bb_strbuf_addf(out, "  what its library has is not known: %s\n", error.text);
	bb_strbuf_add(out, "  collectives and their algorithms (--algo)\n");
	for (int c = 0; bb_collectives[c]; c++) {
		bb_strbuf_addf(out, "    %-15s", bb_collectives[c]->name);
		/* The library's algorithm takes the plain name; busbench's gets a prefix. */
		for (const struct bb_algorithm *const *a = bb_algorithms; *a; a++)
			if ((*a)->collective == bb_collectives[c])
				bb_strbuf_addf(out, " %s", bb_schedule_name(*a, natives));
		for (const struct bb_native *n = natives; n && n->name; n++)
			if (has(n, bb_collectives[c]))
				bb_strbuf_addf(out, " %s", n->name);
		bb_strbuf_add(out, " auto\n");
	}
	free(owned);
}

void bb_algorithms_list(struct bb_strbuf *out)
{
	bb_plugin_list(out, list_backend);
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
