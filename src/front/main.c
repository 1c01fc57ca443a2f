/*
 * main.c - the program busbench: lists the tools, and becomes the one that is named.
 */
#include "core/about.h"
#include "core/file.h"
#include "core/output.h"
#include "core/printable.h"
#include "core/share.h"
#include "core/standard.h"
#include "core/version.h"
#include "schedules/schedule.h"
#include "topology/systems.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX "_perf" /* of the programs that measure; a user may leave it out */
#define INDENT 19
#define MOST_NAMES 64
#define MOST_BYTES (1 << 20) /* of a profile or cluster */

/* Completions take the first word of each line without '#'. */
static void add_name(const char *name, const char *brief, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "%-*s ", INDENT, name);
	bb_printable_add(out, brief);
	bb_strbuf_add(out, "\n");
}

/* Adds NAME with what the file at PATH says of itself: "about: TEXT", else the first sentence of a
   comment in its first line; else its path. */
static void add_file(const char *name, const char *path, struct bb_strbuf *out)
{
	struct bb_error unread = {0};
	char *text = NULL, *about;
	size_t length;
	const struct bb_file_request request = {.path = path, .most = MOST_BYTES};

	if (bb_file_read(&request, &text, &length, &unread) != BB_OK) {
		add_name(name, path, out);
		return;
	}
	about = strstr(text, "\nabout: ");
	about = about ? about + strlen("\nabout: ") : strncmp(text, "# ", 2) == 0 ? text + 2 : NULL;
	if (about)
		about[strcspn(about, "\r\n")] = '\0';
	/* One sentence. */
	if (about && strstr(about, ". "))
		*strstr(about, ". ") = '\0';
	add_name(name, about ? about : path, out);
	free(text);
}

/* Adds the names on SHELF; before those of clusters, the systems that need no file. */
static void list_names(const struct bb_shelf *shelf, struct bb_strbuf *out)
{
	const bool clusters = shelf == &bb_shelf_clusters;
	struct bb_strbuf list = {0}, folders = {0};
	const char *before = "";
	char *rest, *line;

	for (int i = 0; clusters && bb_system_at(i); i++)
		add_name(bb_system_at(i)->name, bb_system_at(i)->brief, out);
	bb_shelf_list(shelf, &list);
	for (line = list.text ? strtok_r(list.text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *const blank = strchr(line, ' ');
		const int folder = (int)(strrchr(blank, '/') - blank);

		*blank = '\0';
		/* A system of that name comes first; the file is found by its path alone. */
		if (!clusters || !bb_system_find(line))
			add_file(line, blank + 1, out);
		if (strncmp(before, blank + 1, (size_t)folder) != 0)
			bb_strbuf_addf(&folders, "# files: %.*s*%s\n", folder, blank + 1,
				       shelf->ending);
		before = blank + 1;
	}
	bb_strbuf_add(out, bb_strbuf_text(&folders));
	out->failed |= bb_strbuf_failed(&list) || bb_strbuf_failed(&folders);
	bb_strbuf_free(&folders);
	bb_strbuf_free(&list);
}

/* Beside the collectives. */
static const struct tool {
	char name[32];
	const char *brief;
	const char *group;            /* heading above it; NULL: that of the tool before it */
	const char *script;           /* in share/busbench and the source tree; NULL: no script */
	const struct bb_shelf *shelf; /* whose names this program prints; NULL: none */
} tools[] = {
	{.name = "barrier_perf", .brief = "latency of barriers"},
	{.name = "p2p_bandwidth_perf",
	 .brief = "bandwidth between any two ranks, with P2P on and off",
	 .group = "Pairs and memory"},
	{.name = "p2p_latency_perf", .brief = "latency between any two ranks"},
	{.name = "mem_bandwidth_perf", .brief = "bandwidth and latency of memory"},
	{.name = "ddp_bucket_perf",
	 .brief = "data parallelism: the best size of gradient buckets",
	 .group = "Training"},
	{.name = "data_parallel_perf",
	 .brief = "all-reduce, parameter servers, ZeRO and averaging compared"},
	{.name = "pipeline_perf", .brief = "bubbles of pipeline schedules"},
	{.name = "tensor_parallel_perf", .brief = "a transformer layer split over ranks"},
	{.name = "hybrid_parallel_perf", .brief = "the best division of a model among ranks"},
	{.name = "moe_alltoall_perf", .brief = "dispatch and combine of experts under any load"},
	{.name = "quantised_all_reduce_perf",
	 .brief = "gradients in fewer bits: cost, error, break-even link"},
	{.name = "zero_perf", .brief = "memory, traffic and time of each stage of ZeRO"},
	{.name = "model_memory", .brief = "memory of training and inference, calculated"},
	{.name = "topology",
	 .brief = "devices and links of a machine, and their bounds",
	 .group = "Machines and verdicts"},
	{.name = "diagnose", .brief = "the slow node, rail or link, and the rank that comes last"},
	{.name = "acceptance", .brief = "pass or fail of a machine; is a number normal?"},
	{.name = "report",
	 .brief = "a page of any number of runs, or single pictures",
	 .script = "scripts/report.py"},
	{.name = "profiles",
	 .brief = "list of the profiles that acceptance finds by name",
	 .group = "Names",
	 .shelf = &bb_shelf_profiles},
	{.name = "clusters",
	 .brief = "list of the clusters that --cluster finds by name",
	 .shelf = &bb_shelf_clusters},
};

/* *TOOL = number I, the collectives first. False: there are fewer. */
static bool tool_at(size_t i, struct tool *tool)
{
	size_t collectives = 0;

	while (bb_collectives[collectives])
		collectives++;
	if (i >= collectives + sizeof(tools) / sizeof(tools[0]))
		return false;
	if (i >= collectives) {
		*tool = tools[i - collectives];
		return true;
	}
	*tool = (struct tool){.brief = bb_collectives[i]->brief,
			      .group = i == 0 ? "Collectives" : NULL};
	snprintf(tool->name, sizeof(tool->name), "%s" SUFFIX, bb_collectives[i]->name);
	return true;
}

static const char usage[] = "Usage: busbench TOOL [ARGUMENT]...\n"
			    "Measures and diagnoses the communication of distributed training.\n";
static const char hint[] =
	"\nbusbench TOOL --help shows the options of a tool. Those that measure are also\n"
	"commands of their own, TOOL" SUFFIX ", as are model_memory, topology, diagnose and\n"
	"acceptance.\n"
	"\nExamples:\n"
	"  busbench all_reduce -g 4 --algo ring,tree\n"
	"  busbench acceptance run this-machine -o out\n";

/* ---- the list ------------------------------------------------------------------------------ */

/* The length of NAME without SUFFIX. */
static int short_length(const char *name)
{
	const size_t length = strlen(name), suffix = strlen(SUFFIX);

	return (int)(length > suffix && strcmp(name + length - suffix, SUFFIX) == 0
			     ? length - suffix
			     : length);
}

/* ---- a tool -------------------------------------------------------------------------------- */

/* Becomes the program of TOOL with ARGV, whose first word is the tool. Returns only on failure. */
static bb_status run_program(const struct tool *tool, char **argv, struct bb_error *error)
{
	char folder[PATH_MAX], path[BB_SHARE_PATH];
	const bool known = bb_own_folder(folder, sizeof(folder));

	if (!tool->script && !known)
		return bb_fail(error, BB_EINTERNAL, "/proc/self/exe cannot be read");
	if (tool->script && !bb_share_find(tool->script, tool->script, path))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "%s: %s is neither installed nor beside the build folder",
			       tool->name, tool->script);
	/* A report reads logs by the acceptance beside this program. */
	if (tool->script && known)
		setenv("BUSBENCH_FOLDER", folder, 1);
	if (!tool->script)
		snprintf(path, sizeof(path), "%s/%s", folder, tool->name);
	if (access(path, F_OK) != 0)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "%s: not in this build, which lacks a library that it needs; there "
			       "is no %s",
			       argv[0], path);
	argv[0] = path;
	execv(path, argv);
	return bb_fail(error, BB_EBACKEND, "%s cannot be run: %s", path, strerror(errno));
}

/* A user may leave SUFFIX out. */
static bb_status run_tool(int argc, char **argv, struct bb_error *error)
{
	const char *names[MOST_NAMES + 1] = {NULL}, *near;
	struct bb_strbuf out = {0};
	struct tool tool;
	char words[MOST_NAMES][sizeof(tool.name)];
	bb_status st;

	for (size_t i = 0; i < MOST_NAMES && tool_at(i, &tool); i++) {
		snprintf(words[i], sizeof(words[i]), "%.*s", short_length(tool.name), tool.name);
		names[i] = words[i];
		if (strcmp(argv[0], tool.name) != 0 && strcmp(argv[0], words[i]) != 0)
			continue;
		if (!tool.shelf)
			return run_program(&tool, argv, error);
		if (argc > 1)
			return bb_fail(error, BB_EUSAGE, "%s: %s takes no arguments", argv[1],
				       tool.name);
		list_names(tool.shelf, &out);
		st = bb_write_text("-", &out, error);
		bb_strbuf_free(&out);
		return st;
	}
	near = bb_nearest(argv[0], names);
	return bb_fail(error, BB_EUSAGE, "%s: no such tool%s%s%s", argv[0],
		       near ? "; did you mean " : "; busbench alone lists them", near ? near : "",
		       near ? "?" : "");
}

static bb_status inform(int argc, char **argv, struct bb_error *error)
{
	struct bb_about about = {.help = true};
	const struct bb_option_table tables[] = {{bb_about_rows, &about, NULL}, {NULL, NULL, NULL}};
	struct bb_strbuf out = {0};
	struct bb_json j;
	struct tool tool;
	char name[sizeof(tool.name)];
	bb_status st = BB_OK;

	if (argc > 1)
		BB_TRY(st, bb_options_parse(tables, argc, argv, error), out);
	if (about.help_schema) {
		/* For man pages and completions: each tool, and its command if it is one. */
		bb_json_init(&j, &out, false);
		bb_json_add_array(&j, NULL);
		for (size_t i = 0; tool_at(i, &tool); i++) {
			snprintf(name, sizeof(name), "%.*s", short_length(tool.name), tool.name);
			bb_json_add_object(&j, NULL);
			bb_json_add_string(&j, "name", name);
			bb_json_add_string(&j, "command",
					   tool.script || tool.shelf ? NULL : tool.name);
			bb_json_add_string(&j, "brief", tool.brief);
			bb_json_end(&j);
		}
		bb_json_end(&j);
		bb_strbuf_add(&out, "\n");
	} else if (about.version) {
		bb_strbuf_addf(&out, "busbench %s\n%s", BB_VERSION, bb_build_facts);
	} else {
		bb_strbuf_add(&out, usage);
		for (size_t i = 0; tool_at(i, &tool); i++) {
			if (tool.group)
				bb_strbuf_addf(&out, "\n%s:\n", tool.group);
			bb_strbuf_addf(&out, "  %-*.*s %s\n", INDENT - 3, short_length(tool.name),
				       tool.name, tool.brief);
		}
		bb_strbuf_add(&out, hint);
	}
	st = bb_write_text("-", &out, error);
	bb_strbuf_free(&out);
out:
	return st;
}

int main(int argc, char **argv)
{
	struct bb_error error = {0};

	if (!bb_standard_open())
		return BB_EINTERNAL;
	const bb_status st = argc > 1 && argv[1][0] != '-' ? run_tool(argc - 1, argv + 1, &error)
							   : inform(argc, argv, &error);
	if (bb_error_status(&error) != BB_OK)
		bb_say("busbench", "%s", error.text);
	return (int)st;
}
