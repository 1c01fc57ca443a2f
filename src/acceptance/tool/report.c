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

#define TIME_NS (UINT64_C(300) * 1000000000)

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

void bb_acceptance_report(const char *dir, struct bb_strbuf *said)
{
	char script[BB_SHARE_PATH], out[1200], err[1200], line[320];
	char *const words[] = {script, (char *)dir, NULL};
	struct bb_outcome outcome;
	struct bb_error why = {0};

	if (!bb_share_find("scripts/report.py", "scripts/report.py", script)) {
		bb_strbuf_add(said, "No report: scripts/report.py is neither installed nor beside "
				    "the build folder\n");
		return;
	}
	snprintf(out, sizeof(out), "%s/logs/report.out.txt", dir);
	snprintf(err, sizeof(err), "%s/logs/report.txt", dir);
	if (bb_command_run(&(struct bb_command){words, out, err, TIME_NS}, &outcome, &why) !=
	    BB_OK) {
		bb_strbuf_addf(said, "No report: %s\n", why.text);
	} else if (outcome.status == 0 && !outcome.timed_out) {
		bb_strbuf_addf(said, "Report: %s/report/index.html\n", dir);
	} else {
		last_line(err, line, sizeof(line));
		bb_strbuf_addf(said, "No report: %s\n", line[0] ? line : "report.py failed");
	}
}
