#include "diagnose/diagnose.h"

/* The faults that are in the programs themselves. */
#define PLANTED                                                                                    \
	(1u << BB_FAULT_SLOW | 1u << BB_FAULT_SLOW_LINK | 1u << BB_FAULT_SLOW_NODE |               \
	 1u << BB_FAULT_LATE)

#define BB_OPTIONS struct bb_diagnose_options
const struct bb_option bb_diagnose_rows[] = BB_OPTION_ROWS(BB_DIAGNOSE_OPTIONS);

static bb_status check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	const struct bb_diagnose_options *a = own;

	if (a->quick && a->full)
		return bb_fail(error, BB_EUSAGE, "--quick and --full: give one of them");
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

/* --node-ranks leaves ranks over: name those that do not. */
static bb_status refuse_nodes(struct bb_run *run, int64_t node_ranks)
{
	struct bb_strbuf fit = {0};
	bb_status status;

	for (int n = 1; n <= BB_MOST_RAILS && n <= run->world.nranks; n++)
		if (run->world.nranks % n == 0)
			bb_strbuf_addf(&fit, n == 1 ? "%d" : ", %d", n);
	status = bb_fail(&run->error, BB_EUSAGE,
			 "--node-ranks %lld: it does not divide %d ranks; these divide them: %s",
			 (long long)node_ranks, run->world.nranks, bb_strbuf_text(&fit));
	bb_strbuf_free(&fit);
	return status;
}

static bb_status plan(struct bb_run *run)
{
	const struct bb_diagnose *d = run->own;
	const int64_t node_ranks = d->options.node_ranks;

	if (node_ranks > 0 && run->world.nranks % node_ranks != 0)
		return refuse_nodes(run, node_ranks);

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
	.options = bb_diagnose_rows,
	.refuses = {{BB_ALL_SIZES, "large messages have one size, that of -b; leave it out"}},
	.faults = PLANTED | 1u << BB_FAULT_DIE,
	.queues = true,
	.check = check,
	.list = list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_node,
	.plan = plan,
	.experiment = &bb_diagnose_experiment,
	.judge = judge,
};
