/*
 * options.c - the options of all programs. Reads them, resolves backend, launch, cluster,
 * calibration and fault, and checks what the rows cannot declare.
 */
#include "backends/gpu.h"
#include "backends/library.h"
#include "backends/virtual.h"
#include "core/units.h"
#include "harness/run/benchmark.h"
#include "harness/run/options.h"
#include "topology/probes/machine.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows ------------------------------------------- */

#define MAX_SAMPLES 1000000 /* the sample of each timed iteration is stored */

/* auto, then the backends of the program, then those that it loads. */
static const char *backend_name(int index)
{
	int i = 1;

	if (index == 0)
		return "auto";
	for (int b = 0; bb_backends[b]; b++, i++)
		if (i == index)
			return bb_backends[b]->name;
	for (const struct bb_loadable *l = bb_loadables; l->name; l++, i++)
		if (i == index)
			return l->name;
	return NULL;
}

#define BB_OPTIONS struct bb_options
const struct bb_option bb_size_rows[] = BB_OPTION_ROWS(BB_SIZE_OPTIONS);

const struct bb_option bb_option_rows[] = BB_OPTION_ROWS(BB_RUN_OPTIONS);

/* ---- environment and backend ------------------------------------------------------- */

#define NAME(name, field) name,
const char *const bb_environment_names[BB_NENVIRONMENT] = {BB_ENVIRONMENT(NAME)};

struct bb_environment bb_environment_read(void)
{
	struct bb_environment e = {.launch = bb_launch_hint_read()};

	for (int i = 0; i < BB_NENVIRONMENT; i++)
		e.values[i] = getenv(bb_environment_names[i]);
	e.secret = e.secret ? "set" : NULL;
	return e;
}

/* Loads what a launcher's process needs, although no option names it. */
static bb_status load_for_launcher(struct bb_plugin *plugin, const struct bb_launch_hint *launch,
				   struct bb_error *error)
{
	struct bb_error cause = {.text = ""};
	bb_status st = bb_plugin_load(plugin, bb_loadable_find(BB_LAUNCHER), &cause);

	if (st == BB_OK && plugin->launch)
		return BB_OK;
	if (st == BB_OK)
		st = bb_fail(&cause, BB_EBACKEND,
			     "the " BB_LAUNCHER " backend cannot connect processes; rebuild it");
	if (launch->nprocs > 1)
		return bb_fail(error, st, "%s started %d processes: %s%s", launch->launcher,
			       launch->nprocs, cause.text,
			       bb_launch_pmix_is_offered() ? "; --backend " BB_CPUS
							     " needs no MPI here"
							   : "");
	return bb_fail(error, st,
		       "%s started this, so the backend is " BB_LAUNCHER
		       " (unless --backend host is given): %s",
		       launch->launcher, cause.text);
}

/* Chooses GPUs if there are any, else the processes of MPI's launcher; else Gloo if torchrun's
   variables announce several processes and it was built, else threads. */
static bb_status choose_backend(struct bb_options *o, struct bb_plugin *plugin,
				const struct bb_launch_hint *launch, struct bb_error *error)
{
	const struct bb_loadable *loadable = bb_loadable_find(BB_GPUS);
	const bool by_mpi = launch->launcher && !launch->kind;
	const bool several = launch->kind && launch->nprocs > 1;
	struct bb_error why = {.text = ""}, no_cpus = {.text = ""};
	bb_status st = bb_plugin_load(plugin, loadable, &why);

	if (st == BB_OK && plugin->backend && plugin->backend->gpu)
		st = plugin->backend->gpu->usable(&why);
	else if (st == BB_OK && !plugin->backend)
		st = bb_fail(&why, BB_EBACKEND,
			     "the " BB_GPUS " backend has no backend; rebuild it");
	if (st == BB_EUSAGE)
		return bb_fail(error, st, "%s", why.text);
	if (st == BB_OK) {
		snprintf(o->backend_reason, BB_REASON_TEXT, "there are GPUs");
		return BB_OK;
	}
	const char *const gpus = plugin->missing ? "no " BB_GPUS " backend was built" : why.text;
	const int present = bb_gpus_present();
	/* Measurements of a CPU must not pass for those of the GPUs that are here. */
	if (present > 0)
		return bb_fail(error, BB_EBACKEND,
			       "%d GPU%s here (/dev/nvidia*), but %s%s%s%s; to measure the CPU, "
			       "give --backend %s",
			       present, present == 1 ? " is" : "s are", gpus,
			       plugin->missing ? " (build it with " : "",
			       plugin->missing ? loadable->remedy : "", plugin->missing ? ")" : "",
			       by_mpi ? BB_LAUNCHER : "host");
	*plugin = (struct bb_plugin){.backend = NULL};
	if (by_mpi) {
		snprintf(o->backend_reason, BB_REASON_TEXT, "%s started this, and %s",
			 launch->launcher, gpus);
		return load_for_launcher(plugin, launch, error);
	}
	st = several ? bb_plugin_load(plugin, bb_loadable_find(BB_CPUS), &no_cpus) : BB_OK;
	if (st != BB_OK && !plugin->missing)
		return bb_fail(error, st, "%s", no_cpus.text);
	if (plugin->backend) {
		snprintf(o->backend_reason, BB_REASON_TEXT, "%s started %d processes, and %s",
			 launch->launcher, launch->nprocs, gpus);
		return BB_OK;
	}
	snprintf(o->backend_reason, BB_REASON_TEXT, "%s, %sand no launcher of MPI started this",
		 gpus, several ? "no " BB_CPUS " backend was built, " : "");
	plugin->backend = bb_backend_find("host");
	return BB_OK;
}

static bb_status resolve_backend(struct bb_options *o, const struct bb_launch_hint *launch,
				 struct bb_error *error)
{
	const struct bb_loadable *loadable = bb_loadable_find(o->backend_text);
	const char *const only_sim = o->cluster_text     ? "--cluster"
				     : o->calibrate_text ? "--calibrate"
				     : o->noise != 0     ? "--noise"
				     : o->simulates      ? "--predict"
							 : NULL;
	const bool chosen = strcmp(o->backend_text, "auto") == 0;
	const char *names[16] = {NULL};
	char hint[BB_SUGGESTION];
	struct bb_plugin plugin = {.backend = NULL};
	bb_status st = BB_OK;

	if (chosen && only_sim) {
		plugin.backend = bb_backend_find("sim");
		snprintf(o->backend_reason, BB_REASON_TEXT, "only sim has %s", only_sim);
	} else if (chosen && o->shows) {
		plugin.backend = bb_backend_find("host"); /* nothing is measured */
	} else if (chosen && o->predicts) {
		/* Nothing is measured, but MPI's launcher may have started several processes. */
		if (launch->launcher && !launch->kind)
			st = load_for_launcher(&plugin, launch, error);
		plugin.backend = &bb_backend_null;
	} else if (chosen)
		st = choose_backend(o, &plugin, launch, error);
	else if (loadable)
		st = bb_plugin_load(&plugin, loadable, error);
	else
		plugin.backend = bb_backend_find(o->backend_text);
	o->backend = plugin.backend;
	o->launch = plugin.launch;
	if (st != BB_OK || o->backend)
		return st;
	if (o->launch)
		return bb_fail(
			error, BB_EBACKEND,
			"the %s backend can connect processes, but has no backend; rebuild it",
			loadable ? loadable->name : BB_LAUNCHER);
	for (int i = 0; backend_name(i) && i < 15; i++)
		names[i] = backend_name(i);
	return bb_fail(error, BB_EUSAGE, "--backend: there is no backend \"%s\"%s (see --list)",
		       o->backend_text, bb_suggest(hint, o->backend_text, names));
}

/* Several processes need a launch, whatever the backend. */
static bb_status resolve_launch(struct bb_options *o, const struct bb_launch_hint *launch,
				struct bb_error *error)
{
	const bool automatic = *o->backend_reason != '\0';
	struct bb_plugin plugin;
	struct bb_error why = {.text = ""};

	if (o->launch || o->shows)
		return BB_OK;
	bb_status st = launch->kind && launch->kind->check ? launch->kind->check(error) : BB_OK;
	if (st != BB_OK || launch->nprocs <= 1)
		return st;
	/* A backend of one process that a launcher has started several times. */
	if (!o->backend->in_processes)
		return bb_fail(error, BB_EUSAGE,
			       "the %s backend is one process, and %s started %d (%s=%d); start "
			       "one, or %s--backend " BB_LAUNCHER "%s%s%s",
			       o->backend->name, launch->launcher, launch->nprocs, launch->variable,
			       launch->nprocs,
			       launch->kind ? "give --backend " BB_CPUS ", or " BB_GPUS
					      " where there are GPUs, or use mpirun and "
					    : "give ",
			       automatic ? " (" : "", o->backend_reason, automatic ? ")" : "");
	o->launch = launch->kind;
	if (o->launch)
		return BB_OK;
	st = load_for_launcher(&plugin, launch, &why);
	o->launch = st == BB_OK ? plugin.launch : &bb_launch_pmix;
	if (st == BB_OK || bb_launch_pmix_is_offered())
		return BB_OK;
	return bb_fail(error, st,
		       "%s; no mpi backend is needed where the launcher brings PMIx (srun "
		       "--mpi=pmix)",
		       why.text);
}

/* Without -g all ranks of a cluster take part. A benchmark that simulates only MESSAGES needs no
   model of a library. */
static bb_status resolve_cluster(struct bb_options *o, bool messages, struct bb_error *error)
{
	bb_status st;

	if (!o->cluster_text || !o->backend->virtual)
		return BB_OK;
	BB_TRY(st, bb_cluster_open(o->cluster_text, bb_plugin_parse_topology, &o->cluster, error),
	       out);
	o->virtual.cluster = o->cluster;
	if (o->cluster->inside == BB_INSIDE_MEMORY && !messages)
		o->backend = o->backend->virtual->over_cpus;
	else if (bb_cluster_has_gpus(o->cluster) && !messages)
		o->backend = o->backend->virtual->over_gpus;
	if (!o->gpus_given && !o->threads_given)
		o->gpus = o->cluster->ranks;
	if (o->calibrate_text && !bb_cluster_has_gpus(o->cluster))
		st = bb_fail(error, BB_EUSAGE,
			     "--calibrate %s: --cluster %s has no GPUs; records of schedules are "
			     "fitted without --cluster",
			     o->calibrate_text, o->cluster_text);
	else if (o->threads * o->gpus > o->cluster->ranks)
		st = bb_fail(error, BB_EUSAGE,
			     "%lld ranks are more than the %d of --cluster %s; give more nodes",
			     (long long)(o->threads * o->gpus), o->cluster->ranks, o->cluster_text);
out:
	return st;
}

/* ---- faults ----------------------------------------------------------------------------- */

#define MOST_FACTOR 1e6 /* of a slow link */

/* FIELDS are the words behind the name, a letter each: see fields_read. */
static const struct {
	const char *name, *fields, *form;
} faults[] = {
	[BB_FAULT_CORRUPT] = {"corrupt", "R", "corrupt:RANK"},
	[BB_FAULT_SLOW] = {"slow", "RD", "slow:RANK:TIME (slow:2:5ms)"},
	[BB_FAULT_DIE] = {"die", "R", "die:RANK"},
	[BB_FAULT_SLOW_LINK] = {"slow_link", "RPF", "slow_link:FROM:TO:FACTOR (slow_link:0:1:1.5)"},
	[BB_FAULT_SWAP] = {"swap", "R", "swap:RANK"},
	[BB_FAULT_SLOW_NODE] = {"slow_node", "RF", "slow_node:NODE:FACTOR (slow_node:3:2)"},
	[BB_FAULT_SLOW_RAIL] = {"slow_rail", "RTF", "slow_rail:NODE:RAIL:FACTOR (slow_rail:3:0:2)"},
	[BB_FAULT_LOST_RAIL] = {"lost_rail", "RT", "lost_rail:NODE:RAIL (lost_rail:3:0)"},
	[BB_FAULT_LATE] = {"late", "RD", "late:RANK:TIME (late:2:5ms)"},
};

/* The kinds that a cluster simulates for every benchmark. */
#define OF_CLUSTERS                                                                                \
	(1u << BB_FAULT_SLOW_NODE | 1u << BB_FAULT_SLOW_RAIL | 1u << BB_FAULT_LOST_RAIL |          \
	 1u << BB_FAULT_SLOW_LINK)

static void add_kinds(struct bb_strbuf *out, unsigned kinds)
{
	for (int k = BB_FAULT_NONE + 1; k < BB_NFAULTS; k++)
		if (kinds >> k & 1)
			bb_strbuf_addf(out, "      %s\n", faults[k].form);
}

void bb_options_fault_help(unsigned known, struct bb_strbuf *out)
{
	if (known) {
		bb_strbuf_add(out, "\nKinds of --fault:\n");
		add_kinds(out, known);
	}
	bb_strbuf_add(out, "\nMore kinds of --fault with --backend sim --cluster:\n");
	add_kinds(out, OF_CLUSTERS & ~known);
}

static bb_status unknown_fault(const struct bb_options *o, unsigned known, const char *name,
			       struct bb_error *error)
{
	const char *forms[BB_NFAULTS], *names[BB_NFAULTS], *near;
	int n = 0, k;
	char list[640] = "";

	for (k = BB_FAULT_NONE + 1; k < BB_NFAULTS; k++) {
		if (!(known >> k & 1))
			continue;
		names[n] = faults[k].name;
		forms[n++] = faults[k].form;
	}
	names[n] = NULL;
	if (n == 0)
		return bb_fail(error, BB_EUSAGE, "--fault %s: %s supports no faults; leave it out",
			       o->fault_text, o->program);
	near = bb_nearest(name, names);
	for (k = 0; k < n; k++)
		if (!near || names[k] == near)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
				 !*list       ? ""
				 : k == n - 1 ? " or "
					      : ", ",
				 forms[k]);
	return bb_fail(error, BB_EUSAGE, "--fault %s: \"%s\" is not a fault here; %s %s%s",
		       o->fault_text, name, near ? "did you mean" : "give", list, near ? "?" : "");
}

/* Reads what follows the name, REST, as the fields of o->fault; NULL: nothing follows. */
static bb_status fields_read(struct bb_options *o, char *rest, struct bb_error *error)
{
	struct bb_fault *fault = &o->fault;
	const char *form = faults[fault->kind].form;

	for (const char *field = faults[fault->kind].fields; *field; field++) {
		const char *word = strsep(&rest, ":"), *expected = NULL;
		uint64_t ns = 0;
		char *end;

		if (!word)
			return bb_fail(error, BB_EUSAGE, "--fault %s: incomplete; give %s",
				       o->fault_text, form);
		switch (*field) {
		case 'R':
			expected = bb_parse_rank(word, &fault->rank) ? NULL : "a rank or node";
			break;
		case 'P':
			if (!bb_parse_rank(word, &fault->to) || fault->to == fault->rank)
				expected = "another rank";
			break;
		case 'T':
			expected = bb_parse_rank(word, &fault->to) ? NULL : "a rail";
			break;
		case 'F':
			fault->factor = strtod(word, &end);
			if (end == word || *end || !(fault->factor > 1) ||
			    fault->factor > MOST_FACTOR)
				expected = "a factor above 1 and at most 1000000";
			break;
		default: /* D */
			expected = bb_parse_duration(word, &ns) ? NULL : "a time";
			fault->seconds = (double)ns * 1e-9;
			break;
		}
		if (expected)
			return bb_fail(error, BB_EUSAGE, "--fault %s: \"%s\" is not %s; give %s",
				       o->fault_text, word, expected, form);
	}
	if (rest)
		return bb_fail(error, BB_EUSAGE, "--fault %s: \"%s\" is too much; give %s",
			       o->fault_text, rest, form);
	return BB_OK;
}

bb_status bb_options_fault(struct bb_options *o, unsigned known, struct bb_error *error)
{
	char copy[64], *rest = copy, *name;
	int kind = BB_FAULT_NONE + 1;
	bb_status st;

	if (!o->fault_text)
		return BB_OK;
	if (o->backend->virtual)
		known |= 1u << BB_FAULT_SLOW_LINK;
	if (o->cluster_text)
		known |= OF_CLUSTERS;
	snprintf(copy, sizeof(copy), "%s", o->fault_text);
	name = strsep(&rest, ":");
	while (kind < BB_NFAULTS && (!(known >> kind & 1) || strcmp(name, faults[kind].name) != 0))
		kind++;
	if (kind == BB_NFAULTS)
		return unknown_fault(o, known, name, error);
	if (strlen(o->fault_text) >= sizeof(copy))
		return bb_fail(error, BB_EUSAGE, "--fault %s: too long; give %s", o->fault_text,
			       faults[kind].form);
	o->fault = (struct bb_fault){.kind = (enum bb_fault_kind)kind, .to = -1};
	BB_TRY(st, fields_read(o, rest, error), out);
	/* What the backend, or virtual time, simulates. */
	if (kind == BB_FAULT_SLOW_LINK) {
		o->virtual.slow_link = (struct bb_slow_link){o->fault.rank, o->fault.to,
							     o->fault.factor};
	} else if (kind == BB_FAULT_SLOW) {
		o->virtual.slow_rank.rank = o->fault.rank;
		o->virtual.slow_rank.seconds = o->fault.seconds;
	} else if (o->cluster_text && (OF_CLUSTERS >> kind & 1)) {
		o->virtual.flawed = true;
		o->virtual.flaw = (struct bb_fabric_flaw){o->fault.rank, o->fault.to,
							  o->fault.factor};
	}
out:
	return st;
}

/* ---- words -------------------------------------------------------------------------------- */

bool bb_next_word(const char **list, char word[BB_WORD])
{
	size_t length = strcspn(*list, ",");

	snprintf(word, BB_WORD, "%.*s", (int)(length < BB_WORD ? length : BB_WORD - 1), *list);
	*list += length;
	return length > 0 && length < BB_WORD;
}

/* ---- conflicts ------------------------------------------------------------ */

static bb_status check_ranks(const struct bb_options *o, const struct bb_launch_hint *launch,
			     struct bb_error *error)
{
	const int64_t local = o->threads * o->gpus;
	const int most = o->shows && o->backend->max_local < BB_MAX_RANKS ? BB_MAX_RANKS
									  : o->backend->max_local;
	const int nprocs = launch->nprocs > 1 ? launch->nprocs : 1;
	char ranks[64];

	if (local <= most)
		return BB_OK;
	if (o->threads == 1)
		snprintf(ranks, sizeof(ranks), "-g %lld", (long long)o->gpus);
	else if (o->gpus == 1)
		snprintf(ranks, sizeof(ranks), "-t %lld", (long long)o->threads);
	else
		snprintf(ranks, sizeof(ranks), "-t %lld times -g %lld", (long long)o->threads,
			 (long long)o->gpus);
	if (most > 1)
		return bb_fail(
			error, BB_EUSAGE,
			"%s is more than %d ranks in one process, the most of the %s backend",
			ranks, most, o->backend->name);
	return bb_fail(error, BB_EUSAGE,
		       "%s: on %s a rank is a process; start %lld of them: %s %lld %s …%s", ranks,
		       o->backend->name, (long long)(local * nprocs),
		       launch->start ? launch->start : "mpirun -np", (long long)(local * nprocs),
		       o->program, nprocs > 1 ? "" : " (or give --backend host)");
}

/* Sizes that ascend, and links to simulate. */
static bb_status check_sizes(const struct bb_options *o, struct bb_error *error)
{
	char low[BB_UNIT_TEXT], high[BB_UNIT_TEXT];

	bb_format_size(low, o->min_bytes);
	bb_format_size(high, o->max_bytes);
	if (o->min_bytes > o->max_bytes)
		return bb_fail(error, BB_EUSAGE, "-b %s%s is above -e %s%s; give sizes that ascend",
			       low, o->min_bytes_given ? "" : " (the default)", high,
			       o->max_bytes_given ? "" : " (the default)");
	if (o->step_factor == 1 && !o->step_bytes_given && o->min_bytes < o->max_bytes)
		return bb_fail(error, BB_EUSAGE,
			       "-f 1 never gets from -b %s to -e %s; give a factor of at least 2, "
			       "or -i SIZE",
			       low, high);
	if (o->backend->virtual && !o->link.text && !o->cluster_text && !o->calibrate_text)
		return bb_fail(error, BB_EUSAGE,
			       "the %s backend needs links to simulate; give --link RATE,LATENCY, "
			       "as in --link 25GB/s,5us, or --cluster NAME:NODES, as in --cluster "
			       "hgx-h100:16, or --calibrate FILE",
			       o->backend->name);
	return BB_OK;
}

bb_status bb_check_outputs(const struct bb_options *o, const struct bb_output more[BB_MORE_OUTPUTS],
			   bool writes, struct bb_error *error)
{
	struct bb_output files[2 + BB_MORE_OUTPUTS] = {
		{"--csv", o->csv_file, o->output_folder, false},
		{"--json", o->json_file, o->output_folder, false}};
	bb_status st = BB_OK;

	if (more)
		memcpy(files + 2, more, BB_MORE_OUTPUTS * sizeof(*more));
	for (int i = 0; i < 2 + BB_MORE_OUTPUTS; i++) {
		if (!files[i].path)
			continue;
		if (writes)
			BB_TRY(st, bb_output_check(&files[i], error), out);
		for (int k = 0; k < i; k++) {
			if (files[k].path && bb_output_is_same(files[i].path, files[k].path))
				return bb_fail(error, BB_EUSAGE,
					       "%s and %s both write %s; give two files",
					       files[k].option, files[i].option, files[i].path);
		}
	}
out:
	return st;
}

bb_status bb_check_rank(const char *flag, const char *text, int rank, int nranks, const char *where,
			struct bb_error *error)
{
	char number[16], valid[24] = "0";

	if (rank < nranks)
		return BB_OK;
	snprintf(number, sizeof(number), "%d", rank);
	if (nranks > 1)
		snprintf(valid, sizeof(valid), "0 to %d", nranks - 1);
	return bb_fail(error, BB_EUSAGE, "%s %s: there is no rank %d %s %d rank%s; give %s", flag,
		       text ? text : number, rank, where, nranks, bb_plural(nranks), valid);
}

bb_status bb_options_check_world(const struct bb_options *o, const struct bb_world *world,
				 struct bb_error *error)
{
	const struct bb_cluster *c = o->cluster;
	const bool link = o->fault.kind == BB_FAULT_SLOW_LINK;
	const int most = link && o->fault.to > o->fault.rank ? o->fault.to : o->fault.rank;

	if (o->fault.kind == BB_FAULT_NONE)
		return BB_OK;
	if (o->virtual.flawed && (o->fault.rank >= c->nodes || o->fault.to >= c->rails))
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s: --cluster %s has nodes 0 to %d with rails 0 to %d",
			       o->fault_text, o->cluster_text, c->nodes - 1, c->rails - 1);
	if (o->fault.kind == BB_FAULT_LOST_RAIL && c->rails == 1)
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s: the nodes of --cluster %s have but one rail; without "
			       "it nothing ends",
			       o->fault_text, o->cluster_text);
	if (o->virtual.flawed)
		return BB_OK;
	return bb_check_rank("--fault", o->fault_text, most, world->nranks, "among", error);
}

/* ---- all of it --------------------------------------------------------------------------- */

/* Refuses rows that the backend does not have. */
static bb_status check_features(const struct bb_option_table *tables, const struct bb_options *o,
				struct bb_error *error)
{
	const struct bb_backend *b = o->backend;
	const bool listens = b->library && b->library->listen;
	/* What is only shown may be about any machine. */
	const unsigned features =
		o->shows ? ~(b->virtual ? 0u : BB_ON_SIM)
			 : (b->gpu ? BB_ON_GPUS : BB_ON_CPUS) |
				   (b->virtual ? BB_ON_SIM : BB_ON_CLOCK) |
				   (b->has_data ? BB_ON_DATA : 0u) |
				   (b->in_processes && b->has_data ? 0u : BB_ON_LINKS) |
				   (listens ? BB_ON_LIBRARY : 0u);
	char whose[64], chosen[BB_REASON_TEXT + 32] = "";

	snprintf(whose, sizeof(whose), "the %s backend", b->name);
	if (*o->backend_reason)
		snprintf(chosen, sizeof(chosen), " (it was chosen because %s)", o->backend_reason);
	return bb_options_check_features(tables, features, whose, chosen, error);
}

/* Is the option NAME of BENCHMARK, read into OWN, given? NULL is not. */
static bool is_given(const struct bb_benchmark *benchmark, const void *own, const char *name)
{
	const struct bb_option *row = benchmark->options;

	if (!name)
		return false;
	while (strcmp(row->name, name) != 0)
		row++;
	return *(const bool *)((const char *)own + row->given);
}

bb_status bb_options_read(struct bb_options *o, const struct bb_benchmark *benchmark, void *own,
			  int argc, char **argv, const struct bb_environment *environment,
			  struct bb_error *error)
{
	const struct bb_option_table tables[] = {{benchmark->options, own, benchmark->refuses},
						 {bb_size_rows, o, benchmark->refuses},
						 {bb_option_rows, o, benchmark->refuses},
						 {bb_about_rows, &o->about, NULL},
						 {NULL, NULL, NULL}};
	const struct bb_launch_hint *launch = &environment->launch;
	bb_status st;

	memset(o, 0, sizeof(*o));
	o->program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	BB_TRY(st, bb_options_parse(tables, argc, argv, error), out);
	if (bb_about_requested(&o->about) || o->list)
		goto out;
	BB_TRY(st, bb_options_check_rules(tables, error), out);
	if (o->step_bytes_given && !o->step_factor_given)
		o->step_factor = 1;
	o->simulates = benchmark->simulates && benchmark->simulates(own, o);
	o->shows = is_given(benchmark, own, benchmark->shows) && !o->simulates;
	o->predicts = is_given(benchmark, own, benchmark->predicts);
	BB_TRY(st, resolve_backend(o, launch, error), out);
	BB_TRY(st, bb_options_fault(o, benchmark->faults, error), out);
	o->config.link_rate = o->link.rate;
	o->config.link_latency = o->link.latency;
	o->config.link_port = o->link.port;
	BB_TRY(st, resolve_cluster(o, benchmark->programs, error), out);
	o->virtual.calibrate = o->calibrate_text;
	st = check_features(tables, o, error);
	o->refused = st == BB_EUNSUPPORTED && !*o->backend_reason;
	BB_TRY(st, st, out);
	/* Without noise all iterations are equal, and none needs a warm-up. */
	o->exact = o->backend->virtual && o->noise == 0;
	o->virtual.noise = o->noise;
	o->virtual.seed = (uint64_t)o->seed;
	if (o->exact && !o->iters_given)
		o->iters = 1;
	if (o->exact && !o->warmup_iters_given)
		o->warmup_iters = 0;
	if (benchmark->check)
		BB_TRY(st, benchmark->check(benchmark, own, o, environment, error), out);
	BB_TRY(st, check_ranks(o, launch, error), out);
	if (!o->shows) {
		BB_TRY(st, check_sizes(o, error), out);
		BB_TRY(st, bb_check_outputs(o, NULL, launch->proc == 0, error), out);
	}
	st = resolve_launch(o, launch, error);
out:
	return st;
}

uint64_t bb_options_next_size(const struct bb_options *o, uint64_t bytes)
{
	uint64_t factor = (uint64_t)o->step_factor;

	if (factor > 1)
		return bytes > o->max_bytes / factor ? 0 : bytes * factor;
	if (o->step_bytes == 0 || bytes >= o->max_bytes || o->max_bytes - bytes < o->step_bytes)
		return 0;
	return bytes + o->step_bytes;
}

bool bb_options_stdout_taken(const struct bb_options *o)
{
	return (o->csv_file && strcmp(o->csv_file, "-") == 0) ||
	       (o->json_file && strcmp(o->json_file, "-") == 0);
}
