/*
 * predict.c - the model of NCCL with other constants than nccl.txt's, for
 * studies/validate/left_out.py, which fits them anew many times. Reads lines
 *
 *   set SECTION KEY VALUE                       a constant of nccl.txt, from now on
 *   ask COLLECTIVE CLUSTER RANKS ALGORITHM BYTES
 *
 *   slow COLLECTIVE CLUSTER RANKS ALGORITHM BYTES
 *   fast COLLECTIVE CLUSTER RANKS ALGORITHM BYTES
 *   class COLLECTIVE CLUSTER RANKS ALGORITHM BYTES
 *   kind COLLECTIVE CLUSTER RANKS ALGORITHM BYTES
 *
 * and answers each "ask" with a line: microseconds of one collective; each "slow" with how many
 * times as long it takes by a slow plug-in of the network, each "fast" with that by the fastest
 * host; each "class" with the number of its
 * interval in nccl.txt, from 0; each "kind" with the name of its kind of machine and its nodes, as
 * NCCL counts them.
 */
#include "harness/run/plugin.h"
#include "simulator/nccl/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 64, GROUPS = 256 };

struct set {
	char section[64], key[64], value[64];
};

/* The first RANKS of a cluster, as NCCL would detect them. */
struct group {
	char cluster[512];
	int ranks;
	struct bb_nccl_machine machine;
	struct bb_nccl_constants constants;
};

struct state {
	struct set sets[SETS];
	struct group groups[GROUPS];
	int nsets, ngroups;
};

static void check(bb_status status, const struct bb_error *error)
{
	if (status == BB_OK)
		return;
	fprintf(stderr, "predict: %s\n", error->text);
	exit(1);
}

static void need(bool holds, const char *what)
{
	struct bb_error error = {.text = ""};

	if (!holds)
		check(bb_fail(&error, BB_EUSAGE, "%s", what), &error);
}

static void open_group(struct group *g, const char *name, int ranks)
{
	struct bb_error error = {.text = ""};
	struct bb_cluster *cluster;
	int *members = calloc((size_t)ranks, sizeof(*members));
	const struct bb_topology *t;

	need(members, "out of memory");
	snprintf(g->cluster, sizeof(g->cluster), "%s", name);
	g->ranks = ranks;
	check(bb_cluster_open(name, bb_plugin_parse_topology, &cluster, &error), &error);
	for (int i = 0; i < ranks; i++)
		members[i] = i;
	need(bb_nccl_shape_make(&g->machine, cluster, ranks, members, ranks), "out of memory");
	t = cluster->node;
	check(bb_nccl_constants_find(&g->constants, t->devices[bb_topology_device(t, BB_GPU, 0)].sm,
				     &error),
	      &error);
	bb_cluster_free(cluster);
	free(members);
}

static const struct group *find_group(struct state *s, const char *name, int ranks)
{
	for (int i = 0; i < s->ngroups; i++)
		if (s->groups[i].ranks == ranks && strcmp(s->groups[i].cluster, name) == 0)
			return &s->groups[i];
	need(s->ngroups < GROUPS, "too many clusters");
	open_group(&s->groups[s->ngroups], name, ranks);
	return &s->groups[s->ngroups++];
}

static void set(struct state *s, const char section[64], const char key[64], const char value[64])
{
	struct set *at = s->sets;

	while (at < s->sets + s->nsets && (strcmp(at->section, section) || strcmp(at->key, key)))
		at++;
	need(at < s->sets + SETS, "too many constants");
	s->nsets += at == s->sets + s->nsets;
	memcpy(at->section, section, sizeof(at->section));
	memcpy(at->key, key, sizeof(at->key));
	memcpy(at->value, value, sizeof(at->value));
}

static void change(const struct state *s, struct bb_nccl_constants *c)
{
	for (int i = 0; i < s->nsets; i++) {
		char value[sizeof(s->sets[i].value)];

		if (strcmp(s->sets[i].section, "nccl") != 0 &&
		    strcmp(s->sets[i].section, c->generation) != 0)
			continue;
		memcpy(value, s->sets[i].value, sizeof(value));
		need(bb_nccl_constants_set(c, s->sets[i].key, value), s->sets[i].key);
	}
}

static double ask(struct state *s, const char *verb, const char *collective, const char *cluster,
		  int ranks, const char *name, double bytes)
{
	const struct bb_collective *of = bb_collective_find(collective);
	const struct group *g = find_group(s, cluster, ranks);
	struct bb_nccl_constants c = g->constants;
	struct bb_nccl_call call = {.collective = of,
				    .algorithm = BB_NCCL_RING,
				    .protocol = BB_NCCL_ANY_PROTOCOL,
				    .machine = &g->machine,
				    .dtype = BB_FLOAT,
				    .bytes = bytes};
	double time;

	need(of, collective);
	change(s, &c);
	while (call.algorithm < BB_NCCL_ANY &&
	       strcmp(bb_nccl_algorithm_name(call.algorithm), name) != 0)
		call.algorithm++;
	time = bb_nccl_call_time(&c, &call);
	need(time < INFINITY, name);
	if (strcmp(verb, "class") == 0)
		return bb_nccl_interval_class(&call);
	if (strcmp(verb, "fast") == 0)
		return bb_nccl_fast_host(&c, &call);
	return strcmp(verb, "slow") == 0 ? bb_nccl_slow_plugin(&c, &call) : 1e6 * time;
}

static void print_kind(const struct bb_nccl_machine *machine)
{
	char name[BB_NCCL_KIND_TEXT];

	bb_nccl_kind_name(bb_nccl_kind(machine), name);
	printf("%s %d\n", name, machine->nodes);
}

int main(void)
{
	static struct state s;
	char line[1024], a[64] = "", key[64] = "", cluster[512], c[64] = "";
	double bytes;
	int ranks;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "set %63s %63s %63s", a, key, c) == 3) {
			set(&s, a, key, c);
			continue;
		}
		need(sscanf(line, "%63s %63s %511s %d %63s %lf", key, a, cluster, &ranks, c,
			    &bytes) == 6,
		     line);
		if (strcmp(key, "kind") == 0)
			print_kind(&find_group(&s, cluster, ranks)->machine);
		else
			printf("%.9g\n", ask(&s, key, a, cluster, ranks, c, bytes));
		fflush(stdout);
	}
	return 0;
}
