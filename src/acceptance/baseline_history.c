/*
 * baseline_history.c - what a baseline was before, kept in its file.
 */
#include "acceptance/baseline.h"

#include "core/json_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DUMP (JSON_INDENT(2) | JSON_REAL_PRECISION(15))

bb_status bb_baseline_former(const char *path, const char *profile, json_t **former,
			     struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--into", .path = path, .most = BB_BASELINE_BYTES};
	struct bb_error why = {0};
	const char *kind, *name;
	bb_status st = BB_OK;

	*former = NULL;
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return BB_OK;
	if (bb_json_file_open(&request, "baseline", former, &why) != BB_OK)
		return bb_fail(error, BB_EUSAGE, "%s; give a new path or a baseline", why.text);
	kind = bb_record_string(*former, "kind");
	name = bb_record_string(*former, "profile");
	if (!kind || strcmp(kind, "acceptance_baseline") != 0)
		st = bb_fail(error, BB_EUSAGE, "--into %s: holds something else than a baseline",
			     path);
	else if (!name || strcmp(name, profile) != 0)
		st = bb_fail(error, BB_EUSAGE,
			     "--into %s: holds the baseline of profile %.60s, not of %.60s", path,
			     name ? name : "without a name", profile);
	if (st != BB_OK) {
		json_decref(*former);
		*former = NULL;
	}
	return st;
}

/* FORMER first, then its own history, as many as there is room for. NULL: no memory. */
static json_t *history_of(const json_t *former)
{
	static const char *const left_out[] = {"schema", "kind", "profile", "history"};
	const json_t *const older = json_object_get(former, "history");
	json_t *const history = json_array(), *entry = json_copy((json_t *)former);
	size_t bytes = 0;

	for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++)
		json_object_del(entry, left_out[i]);
	for (size_t i = 0; entry && i < BB_BASELINE_HISTORY; i++) {
		bytes += json_dumpb(entry, NULL, 0, DUMP);
		if (bytes > BB_BASELINE_BYTES / 2 || json_array_append(history, entry) != 0)
			break;
		json_decref(entry);
		entry = json_incref(json_array_get(older, i));
	}
	json_decref(entry);
	return history;
}

bb_status bb_baseline_add_history(struct bb_strbuf *text, const json_t *former,
				  struct bb_error *error)
{
	json_t *const baseline = json_loadb(bb_strbuf_text(text), text->length, 0, NULL);
	char *dump = NULL;

	if (baseline && json_object_set_new(baseline, "history", history_of(former)) == 0)
		dump = json_dumps(baseline, DUMP);
	json_decref(baseline);
	if (!dump)
		return bb_no_memory(error, "the history of a baseline");
	bb_strbuf_clear(text);
	bb_strbuf_addf(text, "%s\n", dump);
	free(dump);
	return BB_OK;
}
