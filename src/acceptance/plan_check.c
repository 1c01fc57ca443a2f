/*
 * plan_check.c - finds mistakes of a plan before its first step is run.
 */
#include "acceptance/plan.h"

#include "core/units.h"
#include "harness/run/options_check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bb_status check_binary(const struct bb_planned *plan, const struct bb_profile_step *step,
			      struct bb_error *error)
{
	const char *const run = step->run + strspn(step->run, " \t\r\n");
	const int n = (int)strcspn(run, " \t\r\n");
	char path[1200];

	snprintf(path, sizeof(path), "%s/%.*s", plan->folder, n, run);
	if (access(path, X_OK) == 0)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE, "%s:%d: run: there is no %.*s in %s", plan->path,
		       step->line, n, run, plan->folder);
}

/* Checks that the processes of STEP have as many ranks as the profile says. */
static bb_status check_ranks(const struct bb_planned *plan, const struct bb_profile_step *step,
			     struct bb_error *error)
{
	const struct bb_plan_launch launch = bb_plan_launch(plan->profile, step);
	const int64_t per_node = step->ranks / step->nodes, nodes = bb_step_nodes(step);
	const int64_t started = launch.processes * launch.each;

	if (plan->simulated->cluster)
		return BB_OK;
	if (strcmp(launch.backend, "host") == 0 && launch.processes * nodes > 1)
		return bb_fail(
			error, BB_EUSAGE,
			"%s:%d: step %s: %s would start %lld processes, but --backend host is "
			"one; give --backend mpi, or --nodes 1",
			plan->path, step->line, step->name, launch.launcher,
			(long long)(launch.processes * nodes));
	if (strcmp(launch.backend, "mpi") == 0 && launch.each > 1)
		return bb_fail(error, BB_EUSAGE,
			       "%s:%d: step %s: -t and -g of run: are %lld ranks a process, but on "
			       "--backend mpi a rank is a process; leave them out",
			       plan->path, step->line, step->name, (long long)launch.each);
	if (!step->counted || started == per_node)
		return BB_OK;
	if (strcmp(launch.launcher, "local") == 0)
		return bb_fail(error, BB_EUSAGE,
			       "%s:%d: step %s: %lld ranks are planned, but run: starts %lld (-t x "
			       "-g); give -g {per_node}, or launcher: mpirun",
			       plan->path, step->line, step->name, (long long)per_node,
			       (long long)launch.each);
	return bb_fail(error, BB_EUSAGE,
		       "%s:%d: step %s: %lld node%s x %lld ranks = %lld ranks are planned, but %s "
		       "would start %lld process%s x %lld ranks (-t x -g) = %lld; give -g "
		       "{per_node}, or no -g for a rank a process",
		       plan->path, step->line, step->name, (long long)nodes, bb_plural(nodes),
		       (long long)per_node, (long long)(nodes * per_node), launch.launcher,
		       (long long)(nodes * launch.processes),
		       nodes * launch.processes == 1 ? "" : "es", (long long)launch.each,
		       (long long)(nodes * started));
}

/* Checks the link or cluster of GATE, if its expectation is the simulator's. */
static bb_status check_model(const struct bb_planned *plan, const struct bb_profile_step *step,
			     const struct bb_gate *gate, struct bb_error *error)
{
	struct bb_option_link link;
	struct bb_cluster *cluster = NULL;
	struct bb_error why = {0};
	bb_status st = BB_OK;

	if (gate->from->kind != BB_FROM_SIMULATOR)
		return BB_OK;
	if (gate->from->cluster)
		st = bb_cluster_open(gate->from->cluster, plan->parse, &cluster, &why);
	else if (gate->from->link && !bb_option_read_link(gate->from->link, true, &link))
		st = bb_fail(&why, BB_EUSAGE, "--link %s: not a link; give one as in 10GB/s,2us",
			     gate->from->link);
	if (st == BB_OK && cluster && step->ranks > cluster->ranks)
		st = bb_fail(&why, BB_EUSAGE, "--cluster %s has %d rank%s, the step %lld",
			     gate->from->cluster, cluster->ranks, bb_plural(cluster->ranks),
			     (long long)step->ranks);
	if (st != BB_OK)
		st = bb_fail(error, st, "%s:%d: gate of %s: from: %s", plan->path, gate->line,
			     step->name, why.text);
	bb_cluster_free(cluster);
	return st;
}

/* Ranks fill a cluster node after node, so a step must have its nodes full or be on one alone. */
static bb_status check_places(const struct bb_profile_step *step, const struct bb_cluster *cluster,
			      const char *said, struct bb_error *error)
{
	const int64_t nodes = bb_step_nodes(step), each = step->ranks / step->nodes;

	if (nodes > cluster->nodes)
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s has %d node%s; step %s needs %lld, as in NAME:%lld",
			       said, cluster->nodes, bb_plural(cluster->nodes), step->name,
			       (long long)nodes, (long long)nodes);
	if (nodes > 1 ? each != cluster->gpus : each > cluster->gpus)
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s has nodes of %d rank%s; step %s has %lld on a node",
			       said, cluster->gpus, bb_plural(cluster->gpus), step->name,
			       (long long)each);
	return BB_OK;
}

/* Sets the first rank that the fault of O affects, as ranks fill CLUSTER node after node, of a link
   both, and how many ranks a step needs to use it: a rail is used only beyond the nodes that
   NVSwitches connect. */
static void find_fault(const struct bb_options *o, const struct bb_cluster *cluster,
		       struct bb_plan_cluster *simulated)
{
	const struct bb_fault *fault = &o->fault;
	const bool rail = fault->kind == BB_FAULT_SLOW_RAIL || fault->kind == BB_FAULT_LOST_RAIL;
	const bool link =
		fault->kind == BB_FAULT_SLOW_LINK || fault->kind == BB_FAULT_FLAPPING_LINK;
	const int inside = rail ? cluster->gpus * cluster->domain : 0;
	int one = o->virtual.flawed ? 0 : fault->rank, other, last;

	while (o->virtual.flawed && one < cluster->ranks - 1 &&
	       (bb_cluster_node(cluster, one) != fault->rank ||
		(fault->to >= 0 && bb_cluster_rail(cluster, one) != fault->to)))
		one++;
	other = link ? fault->to : one;
	last = one > other ? one : other;
	simulated->ends[0] = one;
	simulated->ends[1] = other;
	simulated->faulty = 1 + (last > inside ? last : inside);
}

/* Refuses a fault that no program supports or that is not in CLUSTER. A step refuses one that its
   program does not support. */
static bb_status check_fault(struct bb_plan_cluster *simulated, const struct bb_cluster *cluster,
			     struct bb_error *error)
{
	struct bb_options o = {.backend = bb_backend_find("sim"),
			       .program = "acceptance",
			       .fault_text = simulated->fault,
			       .cluster_text = simulated->cluster};
	const struct bb_world world = {.nranks = cluster->ranks, .nprocs = 1};
	const unsigned all = ((1u << BB_NFAULTS) - 1) & ~(1u << BB_FAULT_NONE);
	bb_status st;

	BB_TRY(st, bb_options_fault(&o, all, error), out);
	o.cluster = (struct bb_cluster *)cluster;
	BB_TRY(st, bb_options_check_world(&o, &world, error), out);
	find_fault(&o, cluster, simulated);
	simulated->per_node = cluster->gpus;
out:
	return st;
}

static bb_status check_simulated(const struct bb_planned *plan, struct bb_error *error)
{
	struct bb_plan_cluster *const simulated = plan->simulated;
	struct bb_cluster *cluster = NULL;
	bb_status st = BB_OK;

	if (!simulated->cluster && simulated->fault)
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s: faults are planted in a --cluster that is simulated; "
			       "real steps have theirs in run:",
			       simulated->fault);
	if (!simulated->cluster)
		return BB_OK;
	/* Commands are split at blanks. */
	if (strpbrk(simulated->cluster, " \t\r\n") ||
	    (simulated->fault && strpbrk(simulated->fault, " \t\r\n")))
		return bb_fail(error, BB_EUSAGE, "--cluster and --fault take no blanks");
	BB_TRY(st, bb_cluster_open(simulated->cluster, plan->parse, &cluster, error), out);
	for (uint32_t i = 0; i < plan->profile->nsteps; i++)
		if (plan->profile->steps[i].mode & plan->mode)
			BB_TRY(st,
			       check_places(&plan->profile->steps[i], cluster, simulated->cluster,
					    error),
			       out);
	if (simulated->fault)
		st = check_fault(simulated, cluster, error);
out:
	bb_cluster_free(cluster);
	return st;
}

bb_status bb_plan_check(const struct bb_planned *plan, struct bb_error *error)
{
	bb_status st = BB_OK;

	for (uint32_t i = 0; i < plan->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &plan->profile->steps[i];

		if (!(step->mode & plan->mode))
			continue;
		BB_TRY(st, check_binary(plan, step, error), out);
		BB_TRY(st, check_ranks(plan, step, error), out);
		for (size_t k = 0; k < step->ngates; k++)
			BB_TRY(st, check_model(plan, step, &step->gates[k], error), out);
	}
	st = check_simulated(plan, error);
out:
	return st;
}
