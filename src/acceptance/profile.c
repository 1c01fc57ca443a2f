/*
 * profile.c - reads a profile by libcyaml: its keys, and messages about wrong ones.
 */
#include "acceptance/profile.h"

#include "core/strbuf.h"

#include <cyaml/cyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MOST 4096
#define TEXT(key, flags, type, member)                                                             \
	CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | (flags), type, member, 1, WORD_MOST)
#define NEED(key, type, member) TEXT(key, CYAML_FLAG_DEFAULT, type, member)
#define MAY(key, type, member) TEXT(key, CYAML_FLAG_OPTIONAL, type, member)
#define MAY_FLAGS (CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL)

static const cyaml_schema_field_t where_fields[] = {MAY("kind", struct bb_where, kind),
						    MAY("collective", struct bb_where, collective),
						    MAY("algorithm", struct bb_where, algorithm),
						    MAY("dtype", struct bb_where, dtype),
						    MAY("op", struct bb_where, op),
						    MAY("ranks", struct bb_where, ranks),
						    MAY("size", struct bb_where, size),
						    MAY("placement", struct bb_where, placement),
						    MAY("route", struct bb_where, route),
						    MAY("direction", struct bb_where, direction),
						    CYAML_FIELD_END};

static const cyaml_schema_field_t source_fields[] = {MAY("copy", struct bb_source, copy),
						     MAY("bound", struct bb_source, bound),
						     MAY("topology", struct bb_source, topology),
						     MAY("cluster", struct bb_source, cluster),
						     MAY("link", struct bb_source, link),
						     MAY("reference", struct bb_source, reference),
						     MAY("baseline", struct bb_source, baseline),
						     MAY("rule", struct bb_source, rule),
						     CYAML_FIELD_END};

static const cyaml_schema_field_t gate_fields[] = {
	MAY("metric", struct bb_gate, metric),
	MAY("shape", struct bb_gate, shape),
	MAY("between", struct bb_gate, between),
	MAY("window", struct bb_gate, window),
	MAY("down", struct bb_gate, down),
	MAY("up", struct bb_gate, up),
	MAY("warn", struct bb_gate, warn),
	CYAML_FIELD_MAPPING_PTR("where", MAY_FLAGS, struct bb_gate, where, where_fields),
	CYAML_FIELD_MAPPING_PTR("from", MAY_FLAGS, struct bb_gate, from, source_fields),
	CYAML_FIELD_END};

static const cyaml_schema_value_t gate_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct bb_gate, gate_fields)};

static const cyaml_schema_field_t step_fields[] = {
	NEED("name", struct bb_profile_step, name),
	NEED("run", struct bb_profile_step, run),
	MAY("modes", struct bb_profile_step, modes),
	MAY("when", struct bb_profile_step, when),
	MAY("launcher", struct bb_profile_step, launcher),
	MAY("launcher_args", struct bb_profile_step, launcher_args),
	MAY("ranks", struct bb_profile_step, ranks_text),
	MAY("nodes", struct bb_profile_step, nodes_text),
	MAY("repeats", struct bb_profile_step, repeats_text),
	MAY("time_limit", struct bb_profile_step, limit_text),
	MAY("takes", struct bb_profile_step, takes_text),
	CYAML_FIELD_SEQUENCE_COUNT("gates", MAY_FLAGS, struct bb_profile_step, gates, ngates,
				   &gate_schema, 0, BB_MOST_GATES),
	CYAML_FIELD_END};

static const cyaml_schema_value_t step_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct bb_profile_step, step_fields)};

static const cyaml_schema_field_t profile_fields[] = {
	NEED("name", struct bb_profile, name),
	MAY("about", struct bb_profile, about),
	MAY("launcher", struct bb_profile, launcher),
	MAY("launcher_args", struct bb_profile, launcher_args),
	MAY("system", struct bb_profile, system),
	MAY("ranks", struct bb_profile, ranks_text),
	MAY("nodes", struct bb_profile, nodes_text),
	MAY("repeats", struct bb_profile, repeats_text),
	MAY("time_limit", struct bb_profile, limit_text),
	MAY("takes", struct bb_profile, takes_text),
	CYAML_FIELD_SEQUENCE_COUNT("steps", CYAML_FLAG_POINTER, struct bb_profile, declared,
				   ndeclared, &step_schema, 1, BB_MOST_STEPS),
	CYAML_FIELD_END};

static const cyaml_schema_value_t profile_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct bb_profile, profile_fields)};

/* Messages of libcyaml about a file that it refuses: the first one, and the innermost line. */
struct messages {
	char first[200];
	int line;
};

static void listen(cyaml_log_t level, void *context, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

static void listen(cyaml_log_t level, void *context, const char *format, va_list args)
{
	struct messages *messages = context;
	char text[512];
	const char *line, *begin = text;

	vsnprintf(text, sizeof(text), format, args);
	line = strstr(text, "line: ");
	if (line && messages->line == 0)
		messages->line = (int)strtol(line + 6, NULL, 10);
	if (messages->first[0])
		return;
	if (strncmp(begin, "Load: ", 6) == 0)
		begin += 6;
	snprintf(messages->first, sizeof(messages->first), "%.*s", (int)strcspn(begin, "\n"),
		 begin);
}

static cyaml_config_t config(struct messages *messages)
{
	return (cyaml_config_t){.log_fn = listen,
				.log_ctx = messages,
				.mem_fn = cyaml_mem,
				.log_level = CYAML_LOG_ERROR,
				.flags = CYAML_CFG_NO_ALIAS};
}

void bb_profile_free(struct bb_profile *profile)
{
	struct messages messages = {.line = 0};
	const cyaml_config_t c = config(&messages);

	if (profile)
		free(profile->steps);
	cyaml_free(&c, &profile_schema, profile, 0);
}

bb_status bb_profile_read(const char *path, const char *text, size_t length,
			  const struct bb_scale *scale, struct bb_profile **profile,
			  struct bb_error *error)
{
	struct messages messages = {.line = 0};
	const cyaml_config_t c = config(&messages);
	cyaml_data_t *data = NULL;
	cyaml_err_t err;
	bb_status st;
	int second;

	*profile = NULL;
	if (length > BB_PROFILE_BYTES)
		return bb_fail(error, BB_EUSAGE, "%s: larger than any profile (%d bytes)", path,
			       BB_PROFILE_BYTES);
	err = cyaml_load_data((const uint8_t *)text, length, &c, &profile_schema, &data, NULL);
	if (err == CYAML_ERR_OOM)
		return bb_no_memory(error, path);
	if (err != CYAML_OK || !data)
		return bb_fail(error, BB_EUSAGE, "%s:%d: %s", path, messages.line,
			       messages.first[0] ? messages.first
			       : err != CYAML_OK ? cyaml_strerror(err)
						 : "empty; a profile has a name and steps");
	second = bb_profile_lines(data, text, length);
	if (second > 0)
		BB_TRY(st,
		       bb_fail(error, BB_EUSAGE,
			       "%s:%d: a second document begins; a profile is one", path, second),
		       fail);
	BB_TRY(st, bb_profile_check(data, path, scale, error), fail);
	BB_TRY(st, bb_profile_narrow(data, error), fail);
	*profile = data;
	return BB_OK;
fail:
	bb_profile_free(data);
	return st;
}
