/*
 * log_command.c - command lines that start a benchmark: how many ranks, which sizes.
 */
#include "logs/log_parts.h"

#include "schedules/schedule.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of a command line are foreign: at most a million of anything. */
static int64_t bounded(int64_t n)
{
	return n < 0 ? 0 : n > 1000000 ? 1000000 : n;
}

/* Returns the value of option NAME at word I: the next word, or what follows "=" or, for a name of
   two characters, the name; NULL: another option. */
static const char *value_of(const struct bb_log_words *words, int i, const char *name)
{
	const char *const word = words->at[i];
	const size_t n = strlen(name);

	if (strncmp(word, name, n) != 0)
		return NULL;
	if (word[n] == '\0')
		return i + 1 < words->n ? words->at[i + 1] : NULL;
	if (word[n] == '=')
		return word + n + 1;
	return n == 2 && word[n] >= '0' && word[n] <= '9' ? word + n : NULL;
}

static void read_whole(const char *value, int64_t *into)
{
	const size_t n = value ? strspn(value, "0123456789") : 0;

	if (n > 0 && n < 9 && value[n] != '.')
		*into = strtoll(value, NULL, 10);
}

/* Reads a list of hosts, "a:8,b:8" or "a,a,b,b". */
static void read_hosts(const char *list, struct bb_log_command *c)
{
	const char *before = "";
	size_t nbefore = 0;
	int64_t slots = 0, nodes = 0;

	/* "-H <hosts>" and "-H $HOSTS" name none. */
	if (!list || strchr("<${[", *list))
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

static void launcher_read(struct bb_log_command *c, const struct bb_log_words *words, int i,
			  bool slurm)
{
	static const char *const processes[] = {"-np", "--np", "-n", "--n", "--ntasks"};
	static const char *const hosts[] = {"-H", "-host", "--host", "-hosts", "--hosts"};
	static const char *const per_node[] = {"--ntasks-per-node", "-npernode", "--npernode",
					       "-ppn", "--ppn"};
	const char *ppr;

	for (size_t k = 0; k < 5; k++) {
		read_whole(value_of(words, i, processes[k]), &c->processes);
		if (!slurm)
			read_hosts(value_of(words, i, hosts[k]), c);
		read_whole(value_of(words, i, per_node[k]), &c->per_node);
	}
	read_whole(value_of(words, i, "-N"), slurm ? &c->nodes : &c->per_node);
	read_whole(value_of(words, i, "--nodes"), &c->nodes);
	ppr = strstr(words->at[i], "ppr:");
	if (ppr && strstr(ppr, ":node"))
		read_whole(ppr + 4, &c->per_node);
}

static void read_bytes(const char *value, uint64_t *into)
{
	uint64_t bytes;

	if (value && bb_parse_size(value, &bytes))
		*into = bytes;
}

static void benchmark_read(struct bb_log_command *c, const struct bb_log_words *words, int i)
{
	static const struct {
		const char *brief, *name;
	} options[] = {{"-t", "--nthreads"}, {"-g", "--ngpus"},     {"-b", "--minbytes"},
		       {"-e", "--maxbytes"}, {"-i", "--stepbytes"}, {"-f", "--stepfactor"},
		       {"-d", "--datatype"}};
	const char *value[7];
	int64_t factor = 0;

	for (int k = 0; k < 7; k++) {
		value[k] = value_of(words, i, options[k].brief);
		value[k] = value[k] ? value[k] : value_of(words, i, options[k].name);
	}
	read_whole(value[0], &c->threads);
	read_whole(value[1], &c->gpus);
	read_bytes(value[2], &c->least_bytes);
	read_bytes(value[3], &c->most_bytes);
	read_bytes(value[4], &c->step_bytes);
	read_whole(value[5], &factor);
	c->factor = factor > 1 ? (double)factor : c->factor;
	if (value[6] && bb_log_type_bytes(value[6]) > 0)
		snprintf(c->type, sizeof(c->type), "%s", value[6]);
}

/* COLLECTIVE = that of the binary that WORD names; "": the binary of another benchmark. Returns
   false if it is no benchmark. */
static bool binary_read(const char *word, char collective[24])
{
	static const char *const osu[][2] = {{"osu_allreduce", "all_reduce"},
					     {"osu_allgather", "all_gather"},
					     {"osu_alltoall", "alltoall"},
					     {"osu_bcast", "broadcast"},
					     {"osu_reduce_scatter", "reduce_scatter"},
					     {"osu_reduce", "reduce"},
					     {"osu_gather", "gather"},
					     {"osu_scatter", "scatter"}};
	const char *const slash = strrchr(word, '/');
	const char *const name = slash ? slash + 1 : word;
	const char *const end = strstr(name, "_perf");

	for (size_t i = 0; i < sizeof(osu) / sizeof(osu[0]); i++) {
		if (strcmp(name, osu[i][0]) != 0)
			continue;
		snprintf(collective, 24, "%s", osu[i][1]);
		return true;
	}
	/* "all_reduce_perf_mpi" is a binary, "all_reduce_perf-worker-0" a host. */
	if (!end || end[5 + strspn(end + 5, "_abcdefghijklmnopqrstuvwxyz0123456789.;`'\")")])
		return false;
	snprintf(collective, 24, "%.*s", (int)(end - name), name);
	return bb_collective_find(collective);
}

/* Returns what word I starts processes by: 1: mpirun and its like, 2: srun, 3: lines of sbatch; 0:
   nothing. */
static int launcher_of(const struct bb_log_words *words, int i)
{
	static const char *const names[] = {"mpirun",  "mpiexec",     "orterun",
					    "prterun", "mpirun.real", "mpiexec.hydra"};
	const char *const slash = strrchr(words->at[i], '/');
	const char *const name = slash ? slash + 1 : words->at[i];
	/* "mpirun noticed that process rank 0 ..." starts none. */
	const bool options =
		i + 1 < words->n ? strchr("-\\./$", words->at[i + 1][0]) != NULL : i == 0;

	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]) && options; k++)
		if (strcmp(name, names[k]) == 0)
			return 1;
	if (strcmp(name, "SBATCH") == 0)
		return 3;
	return options && strcmp(name, "srun") == 0 ? 2 : 0;
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
			snprintf(c.collective, sizeof(c.collective), "%s", collective);
		} else if (is_command && c.named) {
			benchmark_read(&c, words, i);
		} else if (is_command && c.launched && launcher == 0) {
			launcher_read(&c, words, i, slurm);
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
