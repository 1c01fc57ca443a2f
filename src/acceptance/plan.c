/*
 * plan.c - commands from templates, and mistakes of a plan that are found before its first step is
 * run.
 */
#include "acceptance/plan.h"

#include "core/printable.h"
#include "core/units.h"
#include "harness/run/options.h"
#include "harness/run/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Placeholders for paths, which may have blanks. The folder comes first, so that run: can neither
   take it for the value of another option nor give a second one. */
#define BINARY "\x01"
#define OUTPUTS "\x02"
#define COMMAND BINARY " --output-folder " OUTPUTS " "

void bb_words_free(struct bb_words_list *words)
{
	free(words->words);
	free(words->text);
	*words = (struct bb_words_list){.n = 0};
}

/* Appends TEXT with its {words} replaced, for NODES nodes of STEP. */
static void substitute(struct bb_strbuf *out, const char *text, const struct bb_profile_step *step,
		       int64_t nodes)
{
	const struct {
		const char *word;
		int64_t value;
	} known[] = {{"{ranks}", nodes * (step->ranks / step->nodes)},
		     {"{nodes}", nodes},
		     {"{per_node}", step->ranks / step->nodes}};

	while (*text) {
		size_t i = 0;

		while (i < 3 && strncmp(text, known[i].word, strlen(known[i].word)) != 0)
			i++;
		if (i < 3) {
			bb_strbuf_addf(out, "%lld", (long long)known[i].value);
			text += strlen(known[i].word);
		} else {
			bb_strbuf_add_bytes(out, text++, 1);
		}
	}
}

/* Splits TEXT, which it takes over, into WORDS; the binary is that of STEP. */
static bb_status split_words(struct bb_strbuf *text, const struct bb_profile_step *step,
			     const struct bb_places *places, struct bb_words_list *words,
			     struct bb_error *error)
{
	const size_t length = text->length;
	size_t n = 0, outputs;

	*words = (struct bb_words_list){.n = 0};
	bb_strbuf_add_bytes(text, "\0", 1);
	bb_strbuf_addf(text, "%s/%s", places->binaries, step->binary);
	bb_strbuf_add_bytes(text, "\0", 1);
	outputs = text->length;
	bb_strbuf_add(text, places->outputs);
	const bool good = !bb_strbuf_failed(text);
	words->text = text->text;
	words->words = good ? calloc(length / 2 + 2, sizeof(char *)) : NULL;
	if (!words->words) {
		bb_words_free(words);
		return bb_no_memory(error, "a command");
	}
	for (char *rest = words->text, *word; (word = strtok_r(rest, BB_BLANKS, &rest));)
		words->words[n++] = strcmp(word, BINARY) == 0    ? words->text + length + 1
				    : strcmp(word, OUTPUTS) == 0 ? words->text + outputs
								 : word;
	words->n = n;
	return BB_OK;
}

/*
 * The processes of a step that is not simulated, on each of its nodes: as many as -t and -g of run:
 * leave, so that ranks = nodes x PROCESSES x EACH; a rank a process without them.
 */
struct launch {
	const char *launcher;       /* "local", "mpirun", "srun" */
	long long processes;        /* of a node */
	long long each;             /* ranks of a process: -t x -g */
	char backend[BB_STEP_WORD]; /* as run: names it; "": it does not */
};

/* Returns the value of an option as a number; 1, the default, where it is none: the program reports
 * it. */
static int64_t number_of(const char *text, const char *name, char letter)
{
	char word[BB_STEP_WORD];
	int64_t value;

	bb_step_option(text, name, letter, word);
	return bb_parse_int(word, &value) && value > 0 && value <= 1 << 20 ? value : 1;
}

static struct launch launch_of(const struct bb_profile *profile, const struct bb_profile_step *step)
{
	const char *const own = step->launcher ? step->launcher : profile->all.launcher;
	const long long per_node = step->ranks / step->nodes;
	struct launch launch = {.launcher = own ? own : "local", .processes = 1};
	struct bb_strbuf text = {0};

	/* A step of several nodes without a launcher has that of the profile, or of other steps. */
	if (strcmp(launch.launcher, "local") == 0 && bb_step_nodes(step) > 1) {
		launch.launcher =
			profile->all.launcher && strcmp(profile->all.launcher, "srun") == 0
				? "srun"
				: "mpirun";
		for (size_t i = profile->ndeclared; i > 0; i--)
			if (profile->declared[i - 1].launcher &&
			    strcmp(profile->declared[i - 1].launcher, "local") != 0)
				launch.launcher = profile->declared[i - 1].launcher;
	}
	substitute(&text, step->arguments, step, step->nodes);
	launch.each = number_of(bb_strbuf_text(&text), "nthreads", 't') *
		      number_of(bb_strbuf_text(&text), "ngpus", 'g');
	bb_step_option(bb_strbuf_text(&text), "backend", '\0', launch.backend);
	bb_strbuf_free(&text);
	if (strcmp(launch.launcher, "local") != 0 && per_node > launch.each)
		launch.processes = per_node / launch.each;
	return launch;
}

static int64_t group_of(const struct bb_profile_step *step, int rank)
{
	const int64_t node = rank / (step->ranks / step->nodes);

	return (node + step->shift) % bb_step_nodes(step) / step->nodes;
}

int64_t bb_plan_faulty_group(const struct bb_plan_cluster *simulated,
			     const struct bb_profile_step *step)
{
	if (!simulated || !simulated->fault)
		return -1;
	/* Without a number of ranks all ranks of the cluster take part. */
	if (step->ranks <= 1)
		return 0;
	const int64_t group = group_of(step, simulated->ends[0]);
	return bb_step_all_ranks(step) >= simulated->faulty && group < bb_step_groups(step) &&
			       group == group_of(step, simulated->ends[1])
		       ? group
		       : -1;
}

int64_t bb_plan_nodes(const struct bb_plan_cluster *simulated, const struct bb_profile_step *step)
{
	const bool is_virtual = simulated && simulated->cluster;

	return is_virtual && !bb_plan_has_fault(simulated, step) ? step->groups * step->nodes
								 : bb_step_nodes(step);
}

bb_status bb_plan_command(const struct bb_profile *profile, const struct bb_profile_step *step,
			  const struct bb_plan_cluster *simulated, const struct bb_gate *gate,
			  const struct bb_places *places, struct bb_words_list *words,
			  struct bb_error *error)
{
	const long long nodes = gate ? step->nodes : bb_plan_nodes(simulated, step);
	const long long per_node = step->ranks / step->nodes;
	const bool split = !gate && bb_step_is_split(step), is_virtual = gate || simulated->cluster;
	const struct bb_source *const from = gate ? &gate->from : NULL;
	struct bb_strbuf text = {0};

	/* The groups are those of nccl-tests' NCCL_TESTS_SPLIT, which srun passes on by itself. */
	if (split) {
		bb_strbuf_add(&text, "env NCCL_TESTS_SPLIT=");
		if (step->shift > 0)
			bb_strbuf_addf(&text, "+%lld%%%lld", (step->shift * per_node),
				       (nodes * per_node));
		bb_strbuf_addf(&text, "/%lld ", step->ranks);
	}
	if (!is_virtual) {
		const struct launch launch = launch_of(profile, step);
		const char *const more =
			step->launcher_args ? step->launcher_args : profile->all.launcher_args;
		const long long all = nodes * launch.processes;

		if (strcmp(launch.launcher, "mpirun") == 0)
			bb_strbuf_addf(&text, "mpirun -np %lld -N %lld %s", all, launch.processes,
				       split ? "-x NCCL_TESTS_SPLIT " : "");
		else if (strcmp(launch.launcher, "srun") == 0)
			/* Without --ntasks-per-node Slurm fills the first node. */
			bb_strbuf_addf(
				&text,
				"srun --mpi=pmix -K1 -N %lld -n %lld --ntasks-per-node=%lld ",
				nodes, all, launch.processes);
		if (strcmp(launch.launcher, "local") != 0 && more)
			substitute(&text, more, step, nodes);
	}
	bb_strbuf_add(&text, " " COMMAND);
	substitute(&text, step->arguments, step, step->nodes);
	if (is_virtual) {
		/* Of an option given twice the last value counts. */
		bb_strbuf_add(&text, " --backend sim");
		if (step->ranks > 1)
			bb_strbuf_addf(&text, " -t 1 -g %lld", nodes * per_node);
		bb_strbuf_addf(&text, " %s %s", from && from->link ? "--link" : "--cluster",
			       !from ? simulated->cluster : from->link ?: from->cluster);
	}
	if (!gate && bb_plan_has_fault(simulated, step))
		bb_strbuf_addf(&text, " --fault %s", simulated->fault);
	bb_strbuf_add(&text, " --json -");
	return split_words(&text, step, places, words, error);
}

void bb_plan_add_line(struct bb_strbuf *out, const struct bb_words_list *words)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";

	for (size_t i = 0; i < words->n; i++) {
		const char *const w = words->words[i];
		bool shown = true;

		for (size_t at = 0, n; w[at] && shown; at += n) {
			n = bb_printable_character(w + at);
			shown = n > 0;
		}
		bb_strbuf_add(out, i > 0 ? " " : "");
		if (w[strspn(w, plain)] == '\0') {
			bb_strbuf_add(out, w);
			continue;
		}
		/* With the escapes of bash and zsh, so that no terminal obeys its bytes. */
		bb_strbuf_add(out, shown ? "'" : "$'");
		for (size_t at = 0, n; w[at]; at += n ? n : 1) {
			n = bb_printable_character(w + at);
			if (n == 0)
				bb_strbuf_addf(out, "\\x%02x", (unsigned char)w[at]);
			else if (w[at] == '\'')
				bb_strbuf_add(out, shown ? "'\\''" : "\\'");
			else if (w[at] == '\\' && !shown)
				bb_strbuf_add(out, "\\\\");
			else
				bb_strbuf_add_bytes(out, w + at, n);
		}
		bb_strbuf_add(out, "'");
	}
}

void bb_plan_add_gate(struct bb_strbuf *out, const struct bb_gate *g)
{
	const struct bb_where *const w = &g->where;
	const struct bb_source *const s = &g->from;
	const char *const words[] = {w->kind, w->collective, w->algorithm, w->dtype,    w->op,
				     w->size, w->placement,  w->route,     w->direction};

	if (g->kind == BB_GATE_CROSSOVER)
		bb_strbuf_addf(out, "%s overtakes %s within %s", g->second, g->first, g->window);
	else
		bb_strbuf_add(out, g->metric ? g->metric : "busbw");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i])
			bb_strbuf_addf(out, " %s", words[i]);
	if (w->ranks)
		bb_strbuf_addf(out, " %s ranks", w->ranks);
	if (g->kind == BB_GATE_NO_DIP)
		bb_strbuf_addf(out, " dips by at most %s as size grows", g->down);
	if (g->kind == BB_GATE_VALUE)
		bb_strbuf_addf(out,
			       g->measure->more_is_better ? ", at most %.4g%% below"
							  : ", at most %.4g%% above",
			       100 * (g->measure->more_is_better ? g->lower : g->upper));
	bb_strbuf_add(out, ": ");
	if (s->kind == BB_FROM_TOPOLOGY)
		bb_strbuf_addf(out, "%.4g%% of the %s", 100 * s->percent, s->origin);
	else if (s->kind < BB_FROM_TOPOLOGY)
		bb_strbuf_add(out, s->origin);
	else
		bb_strbuf_addf(out, "%s %s", bb_source_names[s->kind], s->origin);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Checks that the processes of STEP have as many ranks as the profile says. */
static bb_status check_ranks(const struct bb_profile *profile, const struct bb_profile_step *step,
			     const char *path, struct bb_error *error)
{
	const struct launch launch = launch_of(profile, step);
	const long long per_node = step->ranks / step->nodes, nodes = bb_step_nodes(step);
	const long long started = launch.processes * launch.each;

	if (strcmp(launch.backend, "host") == 0 && launch.processes * nodes > 1)
		return bb_fail(error, BB_EUSAGE,
			       "%s:%d: step %s: %s would start %lld processes, but --backend host "
			       "is one; give --backend mpi, or --nodes 1",
			       path, step->line, step->name, launch.launcher,
			       (launch.processes * nodes));
	if (strcmp(launch.backend, "mpi") == 0 && launch.each > 1)
		return bb_fail(error, BB_EUSAGE,
			       "%s:%d: step %s: -t and -g of run: are %lld ranks a process, but on "
			       "--backend mpi a rank is a process; leave them out",
			       path, step->line, step->name, launch.each);
	if (!step->counted || started == per_node)
		return BB_OK;
	if (strcmp(launch.launcher, "local") == 0)
		return bb_fail(error, BB_EUSAGE,
			       "%s:%d: step %s: %lld ranks are planned, but run: starts %lld (-t x "
			       "-g); give -g {per_node}, or launcher: mpirun",
			       path, step->line, step->name, per_node, launch.each);
	return bb_fail(error, BB_EUSAGE,
		       "%s:%d: step %s: %lld node%s x %lld ranks = %lld ranks are planned, but %s "
		       "would start %lld process%s x %lld ranks (-t x -g) = %lld; give -g "
		       "{per_node}, or no -g for a rank a process",
		       path, step->line, step->name, nodes, bb_plural(nodes), per_node,
		       (nodes * per_node), launch.launcher, (nodes * launch.processes),
		       nodes * launch.processes == 1 ? "" : "es", launch.each, (nodes * started));
}

/* Checks the link or cluster of GATE, if its expectation is the simulator's. */
static bb_status check_model(const struct bb_profile_step *step, const struct bb_gate *gate,
			     const char *path, struct bb_error *error)
{
	struct bb_option_link link;
	struct bb_cluster *cluster = NULL;
	struct bb_error why = {0};
	bb_status st = BB_OK;

	if (gate->from.kind != BB_FROM_SIMULATOR)
		return BB_OK;
	if (gate->from.cluster)
		st = bb_cluster_open(gate->from.cluster, bb_plugin_parse_topology, &cluster, &why);
	else if (gate->from.link && !bb_option_read_link(gate->from.link, true, &link))
		st = bb_fail(&why, BB_EUSAGE, "--link %s: not a link; give one as in 10GB/s,2us",
			     gate->from.link);
	if (st == BB_OK && cluster && step->ranks > cluster->ranks)
		st = bb_fail(&why, BB_EUSAGE, "--cluster %s has %d rank%s, the step %lld",
			     gate->from.cluster, cluster->ranks, bb_plural(cluster->ranks),
			     step->ranks);
	if (st != BB_OK)
		st = bb_fail(error, st, "%s:%d: gate of %s: from: %s", path, gate->line, step->name,
			     why.text);
	bb_cluster_free(cluster);
	return st;
}

/* Checks the fault of SIMULATED on CLUSTER, and sets the first rank that it affects, as ranks fill
   CLUSTER node after node, of a link both, and how many ranks a step needs to use it: a rail is
   used only beyond the nodes that NVSwitches connect. */
static bb_status check_fault(struct bb_cluster *cluster, struct bb_plan_cluster *simulated,
			     struct bb_error *error)
{
	/* A step refuses a fault that its program does not support. */
	struct bb_options o = {.backend = bb_backend_find("sim"),
			       .program = "acceptance",
			       .fault_text = simulated->fault,
			       .cluster_text = simulated->cluster};
	const struct bb_world world = {.nranks = cluster->ranks, .nprocs = 1};
	const struct bb_fault *const fault = &o.fault;
	bb_status st;

	BB_TRY(st, bb_options_fault(&o, ((1u << BB_NFAULTS) - 1) & ~(1u << BB_FAULT_NONE), error),
	       out);
	o.cluster = cluster;
	BB_TRY(st, bb_options_check_world(&o, &world, error), out);
	int one = o.virtual.flawed ? 0 : fault->rank;
	while (o.virtual.flawed && one < cluster->ranks - 1 &&
	       (bb_cluster_node(cluster, one) != fault->rank ||
		(fault->to >= 0 && bb_cluster_rail(cluster, one) != fault->to)))
		one++;
	const bool rail = fault->kind == BB_FAULT_SLOW_RAIL || fault->kind == BB_FAULT_LOST_RAIL;
	const int inside = rail ? cluster->gpus * cluster->domain : 0;
	const int other = fault->kind == BB_FAULT_SLOW_LINK ? fault->to : one;
	const int last = one > other ? one : other;
	simulated->ends[0] = one;
	simulated->ends[1] = other;
	simulated->faulty = 1 + (last > inside ? last : inside);
	simulated->per_node = cluster->gpus;
out:
	return st;
}

/* Ranks fill CLUSTER node after node, so STEP must have its nodes full or be on one alone. */
static bb_status check_room(const struct bb_cluster *cluster, const char *name,
			    const struct bb_profile_step *step, struct bb_error *error)
{
	const long long nodes = bb_step_nodes(step), each = step->ranks / step->nodes;

	if (nodes > cluster->nodes)
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s has %d node%s; step %s needs %lld, as in NAME:%lld",
			       name, cluster->nodes, bb_plural(cluster->nodes), step->name, nodes,
			       nodes);
	if (nodes > 1 ? each != cluster->gpus : each > cluster->gpus)
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s has nodes of %d rank%s; step %s has %lld on a node",
			       name, cluster->gpus, bb_plural(cluster->gpus), step->name, each);
	return BB_OK;
}

bb_status bb_plan_check(const struct bb_profile *profile, const char *path, const char *folder,
			enum bb_mode mode, struct bb_plan_cluster *simulated,
			struct bb_error *error)
{
	struct bb_cluster *cluster = NULL;
	bb_status st = BB_OK;

	if (!simulated->cluster && simulated->fault)
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s: faults are planted in a --cluster that is simulated; "
			       "real steps have theirs in run:",
			       simulated->fault);
	/* Commands are split at blanks. */
	if (simulated->cluster && (strpbrk(simulated->cluster, BB_BLANKS) ||
				   (simulated->fault && strpbrk(simulated->fault, BB_BLANKS))))
		return bb_fail(error, BB_EUSAGE, "--cluster and --fault take no blanks");
	if (simulated->cluster)
		BB_TRY(st,
		       bb_cluster_open(simulated->cluster, bb_plugin_parse_topology, &cluster,
				       error),
		       out);
	for (uint32_t i = 0; i < profile->nsteps; i++) {
		const struct bb_profile_step *const step = &profile->steps[i];
		char binary[1200];

		if (!(step->mode & mode))
			continue;
		snprintf(binary, sizeof(binary), "%s/%s", folder, step->binary);
		if (access(binary, X_OK) != 0)
			BB_TRY(st,
			       bb_fail(error, BB_EUSAGE, "%s:%d: run: there is no %s in %s", path,
				       step->line, step->binary, folder),
			       out);
		BB_TRY(st,
		       cluster ? check_room(cluster, simulated->cluster, step, error)
			       : check_ranks(profile, step, path, error),
		       out);
		for (size_t k = 0; k < step->ngates; k++)
			BB_TRY(st, check_model(step, &step->gates[k], path, error), out);
	}
	if (simulated->fault)
		st = check_fault(cluster, simulated, error);
out:
	bb_cluster_free(cluster);
	return st;
}
