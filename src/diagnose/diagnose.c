#include "diagnose/diagnose.h"

#include <stdlib.h>

/* The faults that are in the programs themselves. */
#define PLANTED                                                                                    \
	(1u << BB_FAULT_SLOW | 1u << BB_FAULT_SLOW_LINK | 1u << BB_FAULT_SLOW_NODE |               \
	 1u << BB_FAULT_LATE)

#define BB_OPTIONS struct bb_diagnose_options
static const struct bb_option diagnose_rows[] = BB_OPTION_ROWS(BB_DIAGNOSE_OPTIONS);

static bb_status check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	const struct bb_diagnose_options *a = own;

	if (a->tolerance >= 1)
		return bb_fail(
			error, BB_EUSAGE,
			"--tolerance %g%%: a loss of speed is less than 100%%; give one such "
			"as 20%%",
			100 * a->tolerance);
	if (o->fault.factor > 0 && o->config.link_rate == 0 && !o->virtual.flawed &&
	    !(o->cluster_text && o->fault.kind == BB_FAULT_SLOW_LINK))
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s: the factor multiplies the time of --link; give --link "
			       "RATE,LATENCY too, as in --link 1GB/s,50us",
			       o->fault_text);
	if (!o->backend->messages && !o->backend->virtual)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "the %s backend has no messages between two ranks to diagnose",
			       o->backend->name);
	return BB_OK;
}

static bb_status plan(struct bb_run *run)
{
	const struct bb_diagnose *d = run->own;
	const int64_t node_ranks = d->options.node_ranks;

	if (node_ranks > 0 && run->world.nranks % node_ranks != 0) {
		struct bb_strbuf fit = {0};

		for (int n = 1; n <= BB_MOST_RAILS && n <= run->world.nranks; n++)
			if (run->world.nranks % n == 0)
				bb_strbuf_addf(&fit, n == 1 ? "%d" : ", %d", n);
		const bb_status status = bb_fail(
			&run->error, BB_EUSAGE,
			"--node-ranks %lld: it does not divide %d ranks; these divide them: %s",
			(long long)node_ranks, run->world.nranks, bb_strbuf_text(&fit));
		bb_strbuf_free(&fit);
		return status;
	}
	run->record.iters = d->options.large;
	run->record.warmup_iters = 1;
	run->record.check = BB_ABSENT;
	if (d->options.bytes > run->memory / (uint64_t)run->world.nlocal)
		return bb_fail(&run->error, BB_EUSAGE,
			       "-b: messages of that size do not fit into the memory of %d ranks",
			       run->world.nlocal);
	return BB_OK;
}

static bb_status judge(struct bb_run *run, const char **verdict)
{
	const struct bb_diagnose *d = run->own;

	*verdict = "culprit found";
	if (d->culprits > 0)
		return BB_EDATA;
	return d->unjudged ? bb_fail(&run->error, BB_EBACKEND, "%s", d->unjudged) : BB_OK;
}

static void list(struct bb_strbuf *out)
{
	for (int i = 0; i < BB_CODES; i++)
		bb_strbuf_addf(out, "    %-26s %s\n", bb_diagnose_codes[i].code,
			       bb_diagnose_codes[i].brief);
}

const struct bb_benchmark bb_diagnose_benchmark = {
	.brief = "When something is slow: which node, rail or link it is, and which rank comes "
		 "last.",
	.examples = {"--backend sim --cluster hgx-h100:16 --fault lost_rail:2:1",
		     "--backend sim -g 64 --link 25GB/s,5us --noise 5% --fault slow_node:3:2"},
	.own_bytes = sizeof(struct bb_diagnose),
	.options = diagnose_rows,
	.refuses = {{"maxbytes stepbytes stepfactor",
		     "large messages have one size, that of -b; leave it out"}},
	.faults = PLANTED | 1u << BB_FAULT_DIE,
	.queues = true,
	.check = check,
	.list = list,
	.text = &bb_sink_table,
	.rows = &bb_record_node,
	.plan = plan,
	.experiment = &bb_diagnose_experiment,
	.judge = judge,
};

/* ---- which rank is which rail of which node ------------------------------------------------- */

#define LEAST_NODES 3

bb_status bb_ports_find(struct bb_ports *ports, const struct bb_run *run, int64_t node_ranks,
			struct bb_error *error)
{
	const int nranks = run->world.nranks;
	int hosts = 0;

	ports->rank = calloc(4 * (size_t)nranks, sizeof(*ports->rank));
	if (!ports->rank)
		return bb_no_memory(error, "the ports of nodes");
	ports->node = ports->rank + nranks;
	ports->rail = ports->node + nranks;
	int *const counts = ports->rail + nranks; /* [node]: its ranks */
	for (int r = 0; r < nranks; r++) {
		ports->node[r] = run->infos[r].node;
		hosts = ports->node[r] < hosts ? hosts : ports->node[r] + 1;
	}
	ports->nodes = hosts;
	if (node_ranks == 0 && (run->options.cluster || hosts == 1 || hosts == nranks))
		node_ranks = run->options.cluster ? run->options.cluster->gpus : 1;
	for (int r = 0; r < nranks && node_ranks > 0; r++) {
		ports->node[r] = r / (int)node_ranks;
		ports->nodes = ports->node[r] + 1;
	}
	/* The rails of a node are its ranks in their order; there are as many as the smallest node
	   has. */
	for (int r = 0; r < nranks; r++)
		ports->rail[r] = counts[ports->node[r]]++;
	ports->rails = BB_MOST_RAILS;
	for (int i = 0; i < ports->nodes; i++)
		ports->rails = counts[i] < ports->rails ? counts[i] : ports->rails;
	for (int r = 0; r < nranks; r++) {
		if (ports->rail[r] >= ports->rails)
			ports->node[r] = -1;
		else
			ports->rank[ports->node[r] * ports->rails + ports->rail[r]] = r;
	}
	if (ports->nodes < LEAST_NODES)
		return bb_fail(error, BB_EBACKEND,
			       "%d %s: blaming one takes two others to compare with; give at least "
			       "%d nodes",
			       ports->nodes, ports->nodes == 1 ? "node" : "nodes", LEAST_NODES);
	return BB_OK;
}
