/*
 * main.c - the program topology: a machine is printed, exported or compared.
 */
#include "core/about.h"
#include "core/output.h"
#include "core/standard.h"
#include "core/table.h"
#include "topology/build.h"
#include "topology/files/files.h"
#include "topology/systems.h"
#include "topology_tool/print.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BRIEF                                                                                      \
	"devices and links of this machine, a known system or a captured one, and the speed of "   \
	"light of its links"
#define MOST_NODES 1000000
#define NARROWEST 80

enum print_choice { PRINT_ALL, PRINT_TREE, PRINT_MATRIX, PRINT_NUMA, PRINT_FINDINGS, PRINT_BOUNDS };
static const char *const print_words[] = {"all",      "tree",   "matrix", "numa",
					  "findings", "bounds", NULL};

#define OPTIONS(OPTION, COMMON)                                                                    \
	OPTION(STRING, topology, "topology", 0, NULL,                                              \
	       "machine from hwloc (lstopo), NCCL (NCCL_TOPO_DUMP_FILE), nvidia-smi topo -m or "   \
	       "--export (default: this machine)",                                                 \
	       .argument = "FILE", .section = "Machine", .usual = true,                            \
	       .excludes = {{"system", "only one machine is shown"}})                              \
	OPTION(STRING, system, "system", 0, NULL, "known system to show instead of this machine",  \
	       .argument = "NAME", .usual = true)                                                  \
	OPTION(INT, nodes, "nodes", 0, "0",                                                        \
	       "number of such machines, joined by their NICs; 0: as many as the source names",    \
	       .min = 0, .max = MOST_NODES, .usual = true)                                         \
	OPTION(STRING, ranks, "ranks", 0, NULL,                                                    \
	       "GPUs of each node for the speed of light, such as 0-3,6 (default: all)",           \
	       .argument = "LIST")                                                                 \
	OPTION(FLAG, list_systems, "list-systems", 0, NULL, "list of known systems")               \
	OPTION(CHOICE, print, "print", 0, "all", "part to print", .argument = "PART",              \
	       .choices = print_words, .section = "Output", .usual = true)                         \
	OPTION(STRING, json, "json", 0, NULL,                                                      \
	       "everything as JSON; -: to standard output instead of text", .argument = "FILE|-",  \
	       .usual = true)                                                                      \
	OPTION(STRING, xml, "export", 0, NULL,                                                     \
	       "XML that NCCL (NCCL_TOPO_FILE) and --topology read", .argument = "FILE.xml|-")     \
	OPTION(STRING, diff, "diff", 0, NULL,                                                      \
	       "differences between A and B, each a file, a known system or here; exit status 7 "  \
	       "if there are any",                                                                 \
	       .argument = "A [B]", .section = "Comparison", .usual = true)                        \
	OPTION(STRING, with, "with", 0, "here", "second machine of --diff", .argument = "B",       \
	       .needs = {{"diff"}})

struct options {
	BB_OPTION_MEMBERS(OPTIONS)
	struct bb_about about;
};

#define BB_OPTIONS struct options
static const struct bb_option rows[] = BB_OPTION_ROWS(OPTIONS);

/* ---- sources --------------------------------------------------------------------------------- */

/* Open WHAT: "here", a known system or a file. */
static bb_status open_any(const char *what, struct bb_topology **t, struct bb_error *error)
{
	if (strcmp(what, "here") == 0)
		return bb_topology_here(t, error);
	return bb_system_find(what) ? bb_topology_system(what, t, error)
				    : bb_topology_load(what, t, error);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Set *RANKS to the chosen GPUs of every node or, without GPUs, to one rank on each host. */
static bb_status choose_ranks(const struct options *o, const struct bb_topology *t,
			      struct bb_rank_place **ranks, int *n, struct bb_error *error)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	uint64_t bits = 0;
	int each = 0, chosen[BB_MOST_GPUS + 1] = {BB_ON_HOST};
	bool is_list = true;

	/* A list such as "0-3,6". */
	for (const char *at = o->ranks; at && is_list;) {
		char *end;
		long first = strtol(at, &end, 10), last = first;

		is_list = isdigit((unsigned char)*at);
		if (is_list && *end == '-' && isdigit((unsigned char)end[1]))
			last = strtol(end + 1, &end, 10);
		is_list = is_list && last >= first && last < gpus && (!*end || *end == ',');
		for (long i = first; i <= last && is_list; i++)
			bits |= 1ull << i;
		at = *end ? end + 1 : NULL;
	}
	if (!is_list)
		return bb_fail(error, BB_EUSAGE,
			       "--ranks %s: not a list of GPUs of this machine, which has %d; "
			       "expected such as 0-3,6",
			       o->ranks, gpus);
	for (int i = 0; i < gpus; i++)
		if (!o->ranks || bits >> i & 1)
			chosen[each++] = i;
	each = each > 0 ? each : 1;
	*n = t->nodes * each;
	*ranks = calloc((size_t)*n, sizeof(**ranks));
	if (!*ranks)
		return bb_no_memory(error, "ranks");
	for (int i = 0; i < *n; i++)
		(*ranks)[i] = (struct bb_rank_place){i / each, chosen[i % each]};
	return BB_OK;
}

/* ---- actions --------------------------------------------------------------------------------- */

static int terminal_width(void)
{
	const int width = bb_terminal_limit(stdout, INT_MAX);

	return width > NARROWEST && width < INT_MAX ? width : NARROWEST;
}

/* Write the text, unless standard output gets JSON or XML, and those files that O names. */
static bb_status show_machine(const struct options *o, struct bb_error *error)
{
	static void (*const parts[])(const struct bb_printer *) = {
		[PRINT_TREE] = bb_print_tree,     [PRINT_MATRIX] = bb_print_matrix,
		[PRINT_NUMA] = bb_print_numas,    [PRINT_FINDINGS] = bb_print_findings,
		[PRINT_BOUNDS] = bb_print_bounds,
	};
	struct bb_topology *t = NULL;
	struct bb_rank_place *ranks = NULL;
	struct bb_strbuf out = {0};
	struct bb_printer p = {.width = terminal_width(), .out = &out};
	const bool to_json = o->json && strcmp(o->json, "-") == 0;
	const bool to_xml = o->xml && strcmp(o->xml, "-") == 0;

	bb_status st = o->topology_given ? bb_topology_load(o->topology, &t, error)
		       : o->system_given ? bb_topology_system(o->system, &t, error)
					 : bb_topology_here(&t, error);
	if (st != BB_OK)
		goto out;
	if (o->nodes > 0)
		t->nodes = (int)o->nodes;
	if (t->nvlink_nodes > t->nodes)
		t->nvlink_nodes = t->nodes;
	BB_TRY(st, choose_ranks(o, t, &ranks, &p.nranks, error), out);
	p.t = t;
	p.ranks = ranks;
	if (o->json && o->xml && bb_output_is_same(o->json, o->xml))
		BB_TRY(st,
		       bb_fail(error, BB_EUSAGE,
			       "--json and --export both write %.200s; give two files", o->xml),
		       out);
	if (o->json) {
		bb_print_json(&p);
		BB_TRY(st, bb_write_text(o->json, &out, error), out);
	}
	if (o->xml) {
		bb_strbuf_clear(&out);
		bb_topology_export(t, &out);
		BB_TRY(st, bb_write_text(o->xml, &out, error), out);
	}
	if (!to_json && !to_xml) {
		bb_strbuf_clear(&out);
		for (int part = PRINT_TREE; part <= PRINT_BOUNDS; part++)
			if (o->print == PRINT_ALL || o->print == part)
				parts[part](&p);
		/* Every part ends with an empty line; drop the last one. */
		if (out.length > 1 && strcmp(out.text + out.length - 2, "\n\n") == 0)
			out.text[--out.length] = '\0';
		st = bb_write_text("-", &out, error);
	}
out:
	bb_strbuf_free(&out);
	free(ranks);
	bb_topology_free(t);
	return st;
}

/* BB_EDATA, without a message, if the machines differ. */
static bb_status compare_machines(const struct options *o, struct bb_error *error)
{
	struct bb_topology *a = NULL, *b = NULL;
	struct bb_strbuf out = {0};
	bb_status st;

	BB_TRY(st, open_any(o->diff, &a, error), out);
	BB_TRY(st, open_any(o->with, &b, error), out);
	bb_strbuf_addf(&out, "%s and %s differ:\n", o->diff, o->with);
	const int n = bb_print_diff(a, b, o->diff, o->with, terminal_width(), &out);
	if (n == 0) {
		bb_strbuf_clear(&out);
		bb_strbuf_addf(&out, "%s and %s are alike\n", o->diff, o->with);
	}
	BB_TRY(st, bb_write_text("-", &out, error), out);
	st = n > 0 ? BB_EDATA : BB_OK;
out:
	bb_strbuf_free(&out);
	bb_topology_free(a);
	bb_topology_free(b);
	return st;
}

/* Write the B of "--diff A B" as "--with=B", since an option has one argument. *WORD = that word,
   or NULL; the caller frees it. False without memory. */
static bool name_operand(int argc, char **argv, char **word)
{
	*word = NULL;
	for (int i = 1; i < argc && !*word; i++) {
		const int operand = strcmp(argv[i], "--diff") == 0        ? i + 2
				    : strncmp(argv[i], "--diff=", 7) == 0 ? i + 1
									  : argc;

		if (operand >= argc || argv[operand][0] == '-')
			continue;
		if (asprintf(word, "--with=%s", argv[operand]) < 0)
			return false;
		argv[operand] = *word;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct options o;
	const struct bb_option_table tables[] = {
		{rows, &o, NULL}, {bb_about_rows, &o.about, NULL}, {NULL, NULL, NULL}};
	const struct bb_about_program program = {
		.name = "topology",
		.brief = BRIEF,
		.tables = tables,
		.examples = {"--print tree", "--system hgx-h100 --nodes 4"},
	};
	struct bb_error error = {0};
	struct bb_strbuf out = {0};
	char *word = NULL;
	bb_status st;

	if (!bb_standard_open())
		return BB_EINTERNAL;
	if (!name_operand(argc, argv, &word))
		BB_TRY(st, bb_no_memory(&error, "options"), out);
	BB_TRY(st, bb_options_parse(tables, argc, argv, &error), out);
	if (bb_about_requested(&o.about)) {
		bb_about_add(&o.about, &program, &out);
		st = bb_write_text("-", &out, &error);
	} else if (o.list_systems) {
		for (int i = 0; bb_system_at(i); i++) {
			const struct bb_system *const s = bb_system_at(i);

			bb_strbuf_addf(&out, "%-17s %s%s%s\n", s->name, s->brief,
				       s->alias ? "; also " : "", s->alias ? s->alias : "");
		}
		st = bb_write_text("-", &out, &error);
	} else {
		BB_TRY(st, bb_options_check_rules(tables, &error), out);
		st = o.diff ? compare_machines(&o, &error) : show_machine(&o, &error);
	}
out:
	if (bb_error_status(&error) != BB_OK)
		bb_say("topology", "%s", error.text);
	bb_strbuf_free(&out);
	free(word);
	return (int)st;
}
