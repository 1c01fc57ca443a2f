/*
 * report.c - makes the report of a run by scripts/report.py.
 */
#include "acceptance/process.h"
#include "acceptance/tool/tool.h"
#include "acceptance/verdict.h"
#include "core/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RECORDS 200 /* files: a page of more is unreadable */
#define TIME_NS (UINT64_C(300) * 1000000000)

/* Words of the command, whose texts lie one after the other in TEXT, with NULs between. */
static void add_words(const struct bb_acceptance_session *s, const char *script,
		      struct bb_strbuf *text)
{
	size_t n = 0;

	bb_strbuf_add(text, script);
	for (size_t i = 0; i < s->n; i++) {
		for (size_t k = 0; k < s->evidence[i].nruns && n < MOST_RECORDS; k++) {
			if (s->evidence[i].runs[k].records.n == 0)
				continue;
			n++;
			bb_strbuf_add_bytes(text, "\0", 1);
			bb_strbuf_addf(text, "%s/records/%s.%zu.jsonl", s->dir,
				       s->evidence[i].step->name, k + 1);
		}
	}
	bb_strbuf_add_bytes(text, "\0", 1);
	bb_strbuf_addf(text, "%s/verdict.json", s->dir);
	bb_strbuf_add_bytes(text, "\0-o\0", 4);
	bb_strbuf_addf(text, "%s/report/", s->dir);
}

/* The last line of PATH, into LINE. */
static void last_line(const char *path, char *line, size_t room)
{
	struct bb_error ignored = {0};
	char *text, *rest, *word;
	size_t length;

	line[0] = '\0';
	if (bb_read_whole(path, 1 << 20, &text, &length, &ignored) != BB_OK)
		return;
	for (word = strtok_r(text, "\n", &rest); word; word = strtok_r(NULL, "\n", &rest))
		snprintf(line, room, "%.300s", word);
	free(text);
}

static bb_status make(const struct bb_acceptance_session *s, const char *script,
		      struct bb_strbuf *said, struct bb_error *error)
{
	char *words[MOST_RECORDS + 8], out[1200], err[1200], line[320];
	struct bb_strbuf text = {0};
	struct bb_outcome outcome;
	struct bb_error why = {0};
	bb_status st;
	size_t n = 0;

	add_words(s, script, &text);
	if (bb_strbuf_failed(&text)) {
		bb_strbuf_free(&text);
		return bb_no_memory(error, "the report");
	}
	for (char *w = text.text; w <= text.text + text.length; w += strlen(w) + 1)
		words[n++] = w;
	words[n] = NULL;
	snprintf(out, sizeof(out), "%s/logs/report.out.txt", s->dir);
	snprintf(err, sizeof(err), "%s/logs/report.txt", s->dir);
	st = bb_command_run(&(struct bb_command){words, out, err, TIME_NS}, &outcome, &why);
	bb_strbuf_free(&text);
	if (st != BB_OK) {
		bb_strbuf_addf(said, "No report: %s\n", why.text);
		return BB_OK;
	}
	if (outcome.status == 0 && !outcome.timed_out) {
		bb_strbuf_addf(said, "Report: %s/report/index.html\n", s->dir);
		return BB_OK;
	}
	last_line(err, line, sizeof(line));
	bb_strbuf_addf(said, "No report: %s\n", line[0] ? line : "report.py failed");
	return BB_OK;
}

bb_status bb_acceptance_report(const struct bb_acceptance_session *s, struct bb_strbuf *said,
			       struct bb_error *error)
{
	char script[BB_SHARE_PATH];

	if (bb_share_find("scripts/report.py", "scripts/report.py", script))
		return make(s, script, said, error);
	bb_strbuf_add(said,
		      "No report: scripts/report.py is neither installed nor beside the build "
		      "folder\n");
	return BB_OK;
}
