/*
 * log_command.c - command lines that start a benchmark: how many ranks, which sizes.
 */
#include "logs/log.h"

#include "schedules/schedule.h"
#include "core/units.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of a command line are foreign: at most a million of anything. */
static int64_t bounded(int64_t n)
{
	return n < 0 ? 0 : n > 1000000 ? 1000000 : n;
}

/* Returns the value of the option with one of NAMES at word I: the next word, or what follows "="
   or, for a name of two characters, the name; NULL: another option. */
static const char *value_of(const struct bb_log_words *words, int i, const char *names)
{
	const char *const word = words->at[i];

	for (size_t n; *names; names += n + (names[n] == ' ')) {
		n = strcspn(names, " ");
		if (strncmp(word, names, n) != 0)
			continue;
		if (word[n] == '\0')
			return i + 1 < words->n ? words->at[i + 1] : NULL;
		if (word[n] == '=')
			return word + n + 1;
		if (n == 2 && word[n] >= '0' && word[n] <= '9')
			return word + n;
	}
	return NULL;
}

/* Reads a list of hosts, "a:8,b:8" or "a,a,b,b". */
static void read_hosts(const char *list, struct bb_log_command *c)
{
	const char *before = "";
	size_t nbefore = 0;
	int64_t slots = 0, nodes = 0;

	/* "-H <hosts>" and "-H $HOSTS" name none. */
	if (strchr("<${[", *list))
		return;
	while (*list) {
		const size_t n = strcspn(list, ","), name = strcspn(list, ":,");

		nodes += name > 0 && (name != nbefore || strncmp(list, before, name) != 0);
		slots += list[name] == ':' ? bounded(strtol(list + name + 1, NULL, 10)) : 1;
		before = list;
		nbefore = name;
		list += n + (list[n] == ',');
	}
	if (nodes == 0)
		return;
	c->nodes = nodes;
	if (slots > nodes && slots % nodes == 0)
		c->per_node = slots / nodes;
}

/* Options by their names, and what the value is: a whole number, bytes, a factor, "2(factor)" or
   "8(bytes)", a datatype, or hosts. */
enum program { MPIRUN = 1, SRUN = 2, BENCHMARK = 4 };
static const struct option {
	const char *names;
	int of; /* enum program */
	enum { NUMBER, BYTES, FACTOR, STEP, TYPE, HOSTS } value;
	size_t at; /* of the number in struct bb_log_command */
} options[] = {
#define AT(member) offsetof(struct bb_log_command, member)
	{"-np --np -n --n --ntasks", MPIRUN | SRUN, NUMBER, AT(processes)},
	{"--ntasks-per-node -npernode --npernode -ppn --ppn", MPIRUN | SRUN, NUMBER, AT(per_node)},
	{"--nodes", MPIRUN | SRUN, NUMBER, AT(nodes)},
	{"-N", MPIRUN, NUMBER, AT(per_node)},
	{"-N", SRUN, NUMBER, AT(nodes)},
	{"-H -host --host -hosts --hosts", MPIRUN, HOSTS, 0},
	{"-t --nthreads nThread", BENCHMARK, NUMBER, AT(threads)},
	{"-g --ngpus nGpus", BENCHMARK, NUMBER, AT(gpus)},
	{"-b --minbytes minBytes", BENCHMARK, BYTES, AT(least_bytes)},
	{"-e --maxbytes maxBytes", BENCHMARK, BYTES, AT(most_bytes)},
	{"-i --stepbytes", BENCHMARK, BYTES, AT(step_bytes)},
	{"-f --stepfactor", BENCHMARK, FACTOR, AT(factor)},
	{"step:", BENCHMARK, STEP, 0},
	{"-d --datatype", BENCHMARK, TYPE, 0},
};

/* Reads word I if it is an option of OF. */
static void option_read(struct bb_log_command *c, const struct bb_log_words *words, int i,
			enum program of)
{
	for (const struct option *o = options; o < options + sizeof(options) / sizeof(*o); o++) {
		const char *const value = (o->of & of) ? value_of(words, i, o->names) : NULL;
		const size_t n = value ? strspn(value, "0123456789") : 0;
		const int64_t whole = n > 0 && n < 19 ? strtoll(value, NULL, 10) : 0;
		const bool small = n > 0 && n < 9 && value[n] != '.';
		void *const into = (char *)c + o->at;
		uint64_t bytes;

		if (!value)
			continue;
		if (o->value == NUMBER && small)
			*(int64_t *)into = whole;
		else if (o->value == BYTES && bb_parse_size(value, &bytes))
			*(uint64_t *)into = bytes;
		else if (o->value == FACTOR && small && whole > 1)
			c->factor = (double)whole;
		else if (o->value == STEP && strstr(value, "factor"))
			c->factor = (double)whole;
		else if (o->value == STEP)
			c->step_bytes = (uint64_t)whole;
		else if (o->value == TYPE && bb_log_type_bytes(value) > 0)
			BB_LOG_KEEP(c->type, value);
		else if (o->value == HOSTS)
			read_hosts(value, c);
	}
}

void bb_log_sizes_read(struct bb_log_command *sizes, const struct bb_log_words *words)
{
	*sizes = (struct bb_log_command){.threads = 1};
	for (int i = 0; i < words->n; i++)
		option_read(sizes, words, i, BENCHMARK);
}

const char *bb_log_osu(const char *word)
{
	static const char *const osu[][3] = {
		{"osu_allreduce", "Allreduce", "all_reduce"},
		{"osu_allgather", "Allgather", "all_gather"},
		{"osu_alltoall", "All-to-All", "alltoall"},
		{"osu_bcast", "Broadcast", "broadcast"},
		{"osu_reduce_scatter", "Reduce_scatter", "reduce_scatter"},
		{"osu_reduce", "Reduce", "reduce"},
		{"osu_gather", "Gather", "gather"},
		{"osu_scatter", "Scatter", "scatter"}};

	for (size_t i = 0; i < sizeof(osu) / sizeof(osu[0]); i++)
		if (strcmp(word, osu[i][0]) == 0 || strcmp(word, osu[i][1]) == 0)
			return osu[i][2];
	return NULL;
}

/* Returns the name in PATH without its folders. */
static const char *file_name(const char *path)
{
	const char *const slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void bb_log_benchmark(char name[24], const char *path)
{
	const char *const file = file_name(path), *const end = strstr(file, "_perf");

	snprintf(name, 24, "%.*s", end ? (int)(end - file) : 23, file);
}

/* COLLECTIVE = that of the binary that WORD names. Returns false if it is no benchmark. */
static bool binary_read(const char *word, char collective[24])
{
	const char *const name = file_name(word), *const end = strstr(name, "_perf");
	const char *const osu = strncmp(name, "osu_", 4) == 0 ? bb_log_osu(name) : NULL;

	bb_log_benchmark(collective, osu ? osu : name);
	/* "all_reduce_perf_mpi" is a binary, "all_reduce_perf-worker-0" a host. */
	return osu ||
	       (end && !end[5 + strspn(end + 5, "_abcdefghijklmnopqrstuvwxyz0123456789.;`'\")")] &&
		bb_collective_find(collective));
}

/* Returns what word I starts processes by: 1: mpirun and its like, 2: srun, 3: lines of sbatch; 0:
   nothing. */
static int launcher_of(const struct bb_log_words *words, int i)
{
	static const char *const names[] = {"mpirun",  "mpiexec",     "orterun",
					    "prterun", "mpirun.real", "mpiexec.hydra"};
	const char *const name = file_name(words->at[i]);
	/* "mpirun noticed that process rank 0 ..." starts none. */
	const bool starts =
		i + 1 < words->n ? strchr("-\\./$", words->at[i + 1][0]) != NULL : i == 0;

	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]) && starts; k++)
		if (strcmp(name, names[k]) == 0)
			return 1;
	if (strcmp(name, "SBATCH") == 0)
		return 3;
	return starts && strcmp(name, "srun") == 0 ? 2 : 0;
}

bool bb_log_command_read(struct bb_log_command *command, const struct bb_log_words *words,
			 bool *begins)
{
	struct bb_log_command c = *command;
	bool is_command = c.continues && words->n > 0, slurm = c.launched && c.nodes > 0;
	char collective[24];

	*begins = false;
	c.continues = words->n > 0 && strcmp(words->at[words->n - 1], "\\") == 0;
	for (int i = 0; i < words->n; i++) {
		const int launcher = launcher_of(words, i);
		const bool binary = launcher == 0 && binary_read(words->at[i], collective);

		/* A second launcher or binary is another command; srun may start after sbatch. */
		if ((launcher > 0 && c.named) ||
		    (launcher == 1 && c.launched && !command->continues) || (binary && c.named)) {
			const bool continues = c.continues;

			c = (struct bb_log_command){.continues = continues};
			*begins = true;
		}
		*begins |= (launcher > 0 || binary) && !is_command && !c.launched && !c.named;
		is_command |= launcher > 0 || binary;
		slurm = launcher > 0 ? launcher > 1 : slurm;
		c.launched |= launcher > 0;
		if (binary) {
			c.named = true;
			c.threads = c.gpus = 1;
			BB_LOG_KEEP(c.collective, collective);
		} else if (is_command && c.named) {
			option_read(&c, words, i, BENCHMARK);
		} else if (is_command && c.launched && launcher == 0) {
			const char *const ppr = strstr(words->at[i], "ppr:");

			option_read(&c, words, i, slurm ? SRUN : MPIRUN);
			if (ppr && strstr(ppr, ":node") && ppr[4] >= '0' && ppr[4] <= '9')
				c.per_node = bounded(strtol(ppr + 4, NULL, 10));
		}
	}
	if (is_command)
		*command = c;
	else
		command->continues = false;
	return is_command;
}

int64_t bb_log_command_ranks(const struct bb_log_command *c)
{
	const int64_t processes = c->processes > 0 ? c->processes
				  : c->launched    ? c->nodes * c->per_node
						   : 1;

	return c->named || c->launched
		       ? bounded(processes) * bounded(c->threads > 0 ? c->threads : 1) *
				 bounded(c->gpus > 0 ? c->gpus : 1)
		       : 0;
}

int64_t bb_log_command_nodes(const struct bb_log_command *c)
{
	if (!c->launched)
		return c->named ? 1 : 0;
	if (c->nodes > 0)
		return c->nodes;
	return c->per_node > 0 && c->processes % c->per_node == 0 ? c->processes / c->per_node : 0;
}
