/*
 * compare_tuner.c - the loss of the library's own choice against the fastest forced algorithm, and
 * the rows by which its tuner chooses that one, in the format of NCCL's example tuner
 * (plugins/tuner/example, README.md and plugin.c).
 */
#include "harness/results/compare_inside.h"

#include <string.h>

/* A name in the library's reports and in the tuner's file. */
struct tuner_name {
	const char *reported, *tuner;
};

static const struct tuner_name collectives[] = {{"all_reduce", "allreduce"},
						{"all_gather", "allgather"},
						{"reduce_scatter", "reducescatter"},
						{"broadcast", "broadcast"},
						{"reduce", "reduce"},
						{NULL, NULL}};
static const struct tuner_name algorithms[] = {{"ring", "ring"},
					       {"tree", "tree"},
					       {"collnetdirect", "collnet_direct"},
					       {"collnetchain", "collnet_chain"},
					       {"nvls", "nvls"},
					       {"nvlstree", "nvls_tree"},
					       {"pat", "pat"},
					       {NULL, NULL}};
static const struct tuner_name protocols[] = {
	{"LL", "ll"}, {"LL128", "ll128"}, {"Simple", "simple"}, {NULL, NULL}};

/* The tuner's name of the first LENGTH characters of TEXT; NULL: it has none. */
static const char *tuner_name(const struct tuner_name *names, const char *text, size_t length)
{
	for (; names->reported; names++)
		if (strlen(names->reported) == length &&
		    strncmp(names->reported, text, length) == 0)
			return names->tuner;
	return NULL;
}

bool bb_compare_is_tunable(const char *collective)
{
	return tuner_name(collectives, collective, strlen(collective));
}

/* What the library ran. */
struct setting {
	const char *algorithm, *protocol; /* the tuner's names; NULL: not known */
	double time;
};

/* Is it known what the library ran as ALGORITHM at size number SIZE? */
static bool find_setting(const struct bb_compare_table *t, size_t size, int algorithm,
			 struct setting *s)
{
	const struct bb_compare_run *const run = bb_compare_at(t, size, algorithm);
	const char *ran, *colon;

	if (!run || isnan(run->time))
		return false;
	ran = run->chosen[0] ? run->chosen : t->all->names[algorithm];
	colon = strchr(ran, ':');
	if (!colon)
		return false;
	s->algorithm = tuner_name(algorithms, ran, (size_t)(colon - ran));
	s->protocol = tuner_name(protocols, colon + 1, strlen(colon + 1));
	s->time = run->time;
	return s->algorithm && s->protocol;
}

/* *BEST = the fastest known at size number SIZE, of auto too if WITH_AUTO. False: none is. */
static bool find_best(const struct bb_compare_table *t, size_t size, bool with_auto,
		      struct setting *best)
{
	struct setting s;
	bool found = false;

	for (int i = 0; i < t->norder; i++) {
		if ((!with_auto && bb_compare_is_auto(t, t->order[i])) ||
		    !find_setting(t, size, t->order[i], &s) || (found && s.time >= best->time))
			continue;
		*best = s;
		found = true;
	}
	return found;
}

static int find_auto(const struct bb_compare_table *t)
{
	for (int i = 0; i < t->norder; i++)
		if (bb_compare_is_auto(t, t->order[i]))
			return t->order[i];
	return -1;
}

double bb_compare_auto_behind(const struct bb_compare_table *t, size_t size, const char **algorithm,
			      const char **protocol)
{
	const int chosen = find_auto(t);
	struct setting best;

	if (chosen < 0 || !find_best(t, size, false, &best))
		return NAN;
	*algorithm = best.algorithm;
	*protocol = best.protocol;
	return 100 * (bb_compare_time(t, size, chosen) / best.time - 1);
}

/* ---- the tuner's rows ---------------------------------------------------------------------- */

static bool is_same(const struct setting *a, const struct setting *b)
{
	return strcmp(a->algorithm, b->algorithm) == 0 && strcmp(a->protocol, b->protocol) == 0;
}

/* A row for the sizes from LEAST to MOST. */
static void add_row(struct bb_strbuf *out, const struct bb_compare_table *t,
		    const struct bb_tuner_place *place, const struct setting *s, uint64_t least,
		    uint64_t most)
{
	const char *const collective = t->first->collective;

	bb_strbuf_addf(out, "%s,%llu,%llu,%s,%s,0,%d,%d,-1,-1\n",
		       tuner_name(collectives, collective, strlen(collective)),
		       (unsigned long long)least, (unsigned long long)most, s->algorithm,
		       s->protocol, place->nodes, place->ranks);
}

/* Between two sizes each row covers its half, by logarithms; the first and the last row cover all
   sizes beyond, since the tuner runs a size without a row as a ring on one channel. */
static int add_rows(struct bb_strbuf *out, const struct bb_compare_table *t,
		    const struct bb_tuner_place *place)
{
	struct setting now, before = {NULL, NULL, 0};
	uint64_t least = 0, last = 0;
	int rows = 0;

	for (size_t size = 0; size < t->nsizes; size++) {
		if (!find_best(t, size, true, &now))
			continue;
		if (before.algorithm && !is_same(&before, &now)) {
			const uint64_t most = (uint64_t)sqrt((double)last * (double)t->sizes[size]);

			add_row(out, t, place, &before, least, most);
			least = most + 1;
			rows++;
		}
		before = now;
		last = (uint64_t)t->sizes[size];
	}
	if (!before.algorithm)
		return 0;
	add_row(out, t, place, &before, least, UINT64_MAX);
	return rows + 1;
}

bb_status bb_compare_tuner(const struct bb_compare *compare, const struct bb_tuner_place *place,
			   struct bb_strbuf *out, int *rows)
{
	struct bb_compare_table t;
	bb_status status;

	*rows = 0;
	bb_strbuf_add(
		out,
		"# For NCCL's example tuner, by NCCL_TUNER_CONFIG_FILE. 0 channels leave their "
		"number to NCCL.\n"
		"# The tuner runs a collective without a row as a ring on one channel: put the "
		"rows of all collectives into one file.\n"
		"# collective,least bytes,most bytes,algorithm,protocol,channels,nodes,ranks,"
		"operations in a pipeline,registered\n");
	if (compare->ncells == 0)
		return BB_OK;
	status = bb_compare_table(&t, compare, &compare->cells[0]);
	if (status == BB_OK) {
		bb_strbuf_addf(out, "# measured: %s %s %s\n", t.first->collective, t.first->dtype,
			       t.first->op);
		*rows = add_rows(out, &t, place);
	}
	bb_compare_table_free(&t);
	return status;
}
