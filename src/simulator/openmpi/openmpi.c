#include "simulator/openmpi/openmpi.h"

#include "core/embed.h"
#include "core/settings.h"
#include "core/units.h"
#include "schedules/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

BB_EMBED(bb_openmpi_data, "src/simulator/openmpi/openmpi.txt");

/* ---- rules ---------------------------------------------------------------------------- */

/* Copy the value of SECTION's first key above NUMBER to VALUE; false: there is no such section. */
static bool find_line(const char *section, int64_t number, char value[BB_SETTING_LINE])
{
	struct bb_settings s = {.name = "openmpi.txt", .rest = bb_openmpi_data, .section = section};
	struct bb_error ignored = {.text = ""};
	int64_t below;
	bool more = true;

	while (bb_settings_next(&s, &more, &ignored) == BB_OK && more)
		/* The last key is not a number. */
		if (!bb_parse_int(s.key, &below) || number < below) {
			snprintf(value, BB_SETTING_LINE, "%s", s.value);
			return true;
		}
	return false;
}

/* Set NAME to the algorithm of SECTION among N ranks, of the first rule NAME BYTES NAME … that
   holds for BYTES; false: there is no such section. */
static bool find_rule(const char *section, int n, size_t bytes, char name[32])
{
	char line[BB_SETTING_LINE], *rule = line;
	unsigned long long below;
	int length;

	if (!find_line(section, n, line))
		return false;
	while (sscanf(rule, "%31s%n", name, &length) == 1) {
		rule += length;
		if (sscanf(rule, "%llu%n", &below, &length) != 1 || bytes < below)
			break;
		rule += length;
	}
	return true;
}

void bb_openmpi_interval(double bytes, double *low, double *high)
{
	char ends[BB_SETTING_LINE] = "";

	*low = *high = NAN;
	if (find_line("interval", (int64_t)bytes, ends))
		sscanf(ends, "%lf %lf", low, high);
}

/* ---- algorithms as schedules ---------------------------------------------------------- */

static const struct way {
	const struct bb_collective *collective;
	const char *name; /* in Open MPI */
	const struct bb_algorithm *schedule;
	/* Instead of a schedule: collectives that follow each other, as the rules choose them. */
	const struct bb_collective *parts[BB_OPENMPI_PHASES];
	bool copies; /* IN to OUT first, and then works on OUT */
} ways[] = {
	{&bb_all_reduce, "basic_linear", &bb_linear_all_reduce, {NULL}, false},
	{&bb_all_reduce, "nonoverlapping", NULL, {&bb_reduce, &bb_broadcast}, false},
	{&bb_all_reduce, "recursive_doubling", &bb_doubling_all_reduce, {NULL}, true},
	{&bb_all_reduce, "ring", &bb_ring_all_reduce, {NULL}, true},
	{&bb_all_reduce, "rabenseifner", &bb_openmpi_rabenseifner, {NULL}, true},
	{&bb_all_gather, "two_proc", &bb_pairwise_all_gather, {NULL}, false},
	{&bb_all_gather, "recursive_doubling", &bb_doubling_all_gather, {NULL}, false},
	{&bb_all_gather, "bruck", &bb_bruck_all_gather, {NULL}, false},
	{&bb_all_gather, "neighbor", &bb_openmpi_neighbor, {NULL}, false},
	{&bb_all_gather, "ring", &bb_ring_all_gather, {NULL}, false},
	{&bb_reduce_scatter, "basic_linear", NULL, {&bb_reduce, &bb_scatter}, false},
	{&bb_reduce_scatter, "recursive_halving", &bb_halving_reduce_scatter, {NULL}, false},
	{&bb_reduce_scatter, "butterfly", &bb_openmpi_butterfly, {NULL}, false},
	{&bb_broadcast, "basic_linear", &bb_linear_broadcast, {NULL}, false},
	{&bb_broadcast, "pipeline", &bb_ring_broadcast, {NULL}, false},
	{&bb_broadcast, "binary_tree", &bb_openmpi_binary_broadcast, {NULL}, false},
	{&bb_broadcast, "binomial", &bb_doubling_broadcast, {NULL}, false},
	{&bb_broadcast, "knomial", &bb_openmpi_knomial_broadcast, {NULL}, false},
	{&bb_reduce, "linear", &bb_linear_reduce, {NULL}, false},
	{&bb_reduce, "pipeline", &bb_ring_reduce, {NULL}, false},
	{&bb_reduce, "binomial", &bb_openmpi_binomial_reduce, {NULL}, false},
	{&bb_gather, "basic_linear", &bb_linear_gather, {NULL}, false},
	{&bb_gather, "binomial", &bb_tree_gather, {NULL}, false},
	{&bb_scatter, "basic_linear", &bb_linear_scatter, {NULL}, false},
	{&bb_scatter, "linear_nb", &bb_linear_scatter, {NULL}, false},
	{&bb_scatter, "binomial", &bb_tree_scatter, {NULL}, false},
	{&bb_alltoall, "two_proc", &bb_pairwise_alltoall, {NULL}, false},
	{&bb_alltoall, "pairwise", &bb_pairwise_alltoall, {NULL}, false},
	{&bb_alltoall, "modified_bruck", &bb_bruck_alltoall, {NULL}, false},
	/* Without a limit to requests linear_sync posts all at once, as linear does. */
	{&bb_alltoall, "linear", &bb_naive_alltoall, {NULL}, false},
	{&bb_alltoall, "linear_sync", &bb_naive_alltoall, {NULL}, false},
	{&bb_alltoallv, "basic_linear", &bb_naive_alltoallv, {NULL}, false},
	{&bb_alltoallv, "pairwise", &bb_pairwise_alltoallv, {NULL}, false},
	{&bb_sendrecv, "MPI_Sendrecv", &bb_ring_sendrecv, {NULL}, false},
};

/* What Open MPI runs in place of NAME, which does not fit SHAPE; NAME if it fits. */
static const char *fallback_of(const struct bb_collective *collective, const char *name,
			       const struct bb_shape *shape)
{
	const struct bb_power ranks = bb_power_of(shape->nranks);

	/* Without a length of segments it is the ring. */
	if (strcmp(name, "segmented_ring") == 0)
		name = "ring";
	if (collective == &bb_all_reduce && strcmp(name, "ring") == 0)
		return shape->count < (size_t)shape->nranks ? "recursive_doubling" : name;
	if (collective == &bb_all_reduce && strcmp(name, "rabenseifner") == 0)
		return shape->count < (size_t)ranks.power ? "basic_linear" : name;
	if (collective == &bb_all_gather && strcmp(name, "recursive_doubling") == 0)
		return ranks.rest > 0 ? "bruck" : name;
	if (collective == &bb_all_gather && strcmp(name, "neighbor") == 0)
		return shape->nranks % 2 ? "ring" : name;
	return name;
}

/* ---- plans ---------------------------------------------------------------------------- */

static const char *add_phase(struct bb_openmpi_plan *plan, const struct bb_collective *collective,
			     const struct bb_shape *shape, size_t element, const char *name)
{
	const struct way *way = ways, *end = ways + sizeof(ways) / sizeof(ways[0]);
	const char *why = NULL;

	name = fallback_of(collective, name, shape);
	while (way < end && (way->collective != collective || strcmp(way->name, name) != 0))
		way++;
	if (way == end ||
	    (way->schedule && way->schedule->refuses && way->schedule->refuses(shape)))
		return "Open MPI's algorithm for this size and number of ranks has no model";
	plan->copies = way->copies && !shape->in_place;
	if (way->schedule) {
		plan->phase[plan->phases].schedule = way->schedule;
		plan->phase[plan->phases++].shape = *shape;
		return NULL;
	}
	for (int i = 0; i < BB_OPENMPI_PHASES && !why; i++) {
		const struct bb_collective *part = way->parts[i];
		struct bb_shape whole = *shape;
		char chosen[32];

		whole.root = 0;
		whole.in_place = false;
		if (collective == &bb_reduce_scatter && part == &bb_reduce)
			whole.count *= (size_t)shape->nranks;
		find_rule(part->name, shape->nranks, whole.count * element, chosen);
		why = add_phase(plan, part, &whole, element, chosen);
	}
	return why;
}

const char *bb_openmpi_choose(const struct bb_collective *collective, const struct bb_shape *shape,
			      size_t element, enum bb_openmpi_call call,
			      struct bb_openmpi_plan *plan)
{
	const bool nonblocking = call == BB_OPENMPI_NONBLOCKING;
	const size_t count =
		collective == &bb_alltoall ? bb_alltoall_count(shape, 0, 1) : shape->count;
	struct bb_shape whole = *shape;
	char section[64];

	*plan = (struct bb_openmpi_plan){.name = "MPI_Sendrecv"};
	whole.chunk = 0;
	snprintf(section, sizeof(section), "%s%s", collective->name,
		 nonblocking ? " nonblocking" : "");
	if (!find_rule(section, shape->nranks, count * element, plan->name) &&
	    (nonblocking || collective != &bb_sendrecv))
		return nonblocking ? "coll/libnbc has a model for all_reduce and broadcast alone"
				   : "Open MPI has no such collective";
	/* A binomial tree up, and one down. */
	if (strcmp(plan->name, "dissemination") == 0) {
		plan->phases = 2;
		plan->phase[0].schedule = &bb_openmpi_binomial_reduce;
		plan->phase[1].schedule = &bb_doubling_broadcast;
		plan->phase[0].shape = plan->phase[1].shape = whole;
		return NULL;
	}
	return add_phase(plan, collective, &whole, element, plan->name);
}
