#include "backends/sim/nccl_calls.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- NCCL's names ------------------------------------------------------------------------ */

struct way {
	enum bb_nccl_algorithm algorithm;
	enum bb_nccl_protocol protocol;
};

static const char *refuses(const struct bb_native *native, const struct bb_collective *collective)
{
	const struct way *way = native->own;

	if (collective == &bb_hypercube)
		return "it is an algorithm of its own, not a collective of NCCL";
	return bb_nccl_lacks(collective, way->algorithm);
}

static const char *auto_refuses(const struct bb_native *native,
				const struct bb_collective *collective)
{
	return collective == &bb_hypercube
		       ? "it is an algorithm of its own, not a collective of NCCL"
		       : NULL;
}

#define WAY(text, sentence, check, algo, proto)                                                    \
	{                                                                                          \
		.name = text, .brief = sentence, .refuses = check, .own = &(const struct way)      \
		{                                                                                  \
			BB_NCCL_##algo, BB_NCCL_##proto                                            \
		}                                                                                  \
	}

const struct bb_native bb_sim_nccl_natives[] = {
	WAY("ring", "the model of NCCL_ALGO=Ring", refuses, RING, ANY_PROTOCOL),
	WAY("tree", "the model of NCCL_ALGO=Tree", refuses, TREE, ANY_PROTOCOL),
	WAY("nvls", "the model of NCCL_ALGO=NVLS: reduced by NVSwitch", refuses, NVLS,
	    ANY_PROTOCOL),
	WAY("nvlstree", "the model of NCCL_ALGO=NVLSTree: NVSwitch in a node, a tree between them",
	    refuses, NVLSTREE, ANY_PROTOCOL),
	WAY("pat", "the model of NCCL_ALGO=PAT: parallel aggregated trees", refuses, PAT,
	    ANY_PROTOCOL),
	WAY("ring:LL", "and NCCL_PROTO=LL", refuses, RING, LL),
	WAY("ring:LL128", "and NCCL_PROTO=LL128", refuses, RING, LL128),
	WAY("ring:Simple", "and NCCL_PROTO=Simple", refuses, RING, SIMPLE),
	WAY("tree:LL", "and NCCL_PROTO=LL", refuses, TREE, LL),
	WAY("tree:LL128", "and NCCL_PROTO=LL128", refuses, TREE, LL128),
	WAY("tree:Simple", "and NCCL_PROTO=Simple", refuses, TREE, SIMPLE),
	WAY("auto:LL", "NCCL's choice under NCCL_PROTO=LL", refuses, ANY, LL),
	WAY("auto:LL128", "NCCL's choice under NCCL_PROTO=LL128", refuses, ANY, LL128),
	WAY("auto:Simple", "NCCL's choice under NCCL_PROTO=Simple", refuses, ANY, SIMPLE),
	{.name = NULL},
};

const struct bb_native bb_sim_nccl_auto =
	WAY("auto", "NCCL's own choice", auto_refuses, ANY, ANY_PROTOCOL);

/* ---- what NCCL would find -------------------------------------------------------------------- */

/* Compute capability of the first GPU; 0: there is none, or it is not NVIDIA's. */
static int capability(const struct bb_cluster *cluster)
{
	const struct bb_topology *t = cluster->node;

	return bb_topology_count(t, BB_GPU) > 0 ? t->devices[bb_topology_device(t, BB_GPU, 0)].sm
						: 0;
}

bb_status bb_sim_nccl_find(struct bb_nccl_constants *c, const struct bb_cluster *cluster,
			   char text[BB_SIM_NCCL_TEXT], struct bb_error *error)
{
	const bb_status status = bb_nccl_constants_find(c, capability(cluster), error);

	text[0] = '\0';
	if (status == BB_OK && c->channels > 0)
		snprintf(text, BB_SIM_NCCL_TEXT,
			 "a model of NCCL 2.30 (%s: of its constants %d are published, %d fitted, "
			 "%d assumed)",
			 c->generation, c->published, c->fitted, c->assumed);
	return status;
}

/* NCCL takes all that share NVSwitches for one node. */
static int domain_of(const struct bb_cluster *cluster, int rank)
{
	return bb_cluster_node(cluster, rank) / cluster->domain;
}

/* Of the DOMAINS, as NCCL counts nodes, that MEMBERS are in: what the links up cost them. */
static void find_tapers(struct bb_nccl_slowdown *slowdown, const struct bb_cluster *cluster,
			const int *members, int n, int domains)
{
	static const struct {
		enum bb_figure nodes, taper;
	} levels[] = {{BB_FIGURE_LEAF_NODES, BB_FIGURE_LEAF_TAPER},
		      {BB_FIGURE_POD_NODES, BB_FIGURE_POD_TAPER}};

	for (size_t level = 0; level < sizeof(levels) / sizeof(*levels); level++) {
		const int of = (int)cluster->figures[levels[level].nodes].value / cluster->domain;
		int most = 1, here = 0, before = -1;

		/* A domain may be larger than what is below a leaf. */
		for (int i = 0; i < n && of > 1; i++) {
			const int domain = domain_of(cluster, members[i]);

			if (domain == before)
				continue;
			here = before >= 0 && domain / of == before / of ? here + 1 : 1;
			most = here > most ? here : most;
			before = domain;
		}
		bb_nccl_taper(slowdown, domains, most, cluster->figures[levels[level].taper].value);
	}
}

/* Members are counted as they come: ranks of a node follow each other in every group there is. */
static void count_nodes(const struct bb_cluster *cluster, const int *members, int n, int *nodes,
			int *domains)
{
	int node = -1, domain = -1;

	*nodes = *domains = 0;
	for (int i = 0; i < n; i++) {
		*nodes += bb_cluster_node(cluster, members[i]) != node;
		*domains += domain_of(cluster, members[i]) != domain;
		node = bb_cluster_node(cluster, members[i]);
		domain = domain_of(cluster, members[i]);
	}
}

void bb_sim_nccl_machine(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
			 const int *members, int n)
{
	const struct bb_cluster_figure *f = cluster->figures;
	const struct bb_host *host = &cluster->node->host;
	const double share = f[BB_FIGURE_GPU_EFFICIENCY].value;
	const bool one = cluster->inside == BB_INSIDE_NOTHING;
	int nodes, domains;
	double out;

	count_nodes(cluster, members, n, &nodes, &domains);
	/* A node's members leave by no more rails than they are. */
	out = fmin(cluster->rails, (double)n / nodes) * cluster->nic_rate * nodes / domains;
	*machine = (struct bb_nccl_machine){
		.ranks = n,
		.nodes = domains,
		.nvlink = cluster->inside == BB_INSIDE_SWITCH || cluster->inside == BB_INSIDE_LINKS,
		.nvswitch = cluster->inside == BB_INSIDE_SWITCH,
		.amd = host->npackages > 0 && strcmp(host->packages[0].vendor, "AuthenticAMD") == 0,
		.x86 = strcmp(host->arch, "x86_64") == 0,
		.gpu_rate = one ? INFINITY : cluster->gpu_rate / share,
		.gpu_share = share,
		.net_rate = out,
		.nic_latency = f[BB_FIGURE_NCCL_NIC_LATENCY].value,
		.net_fill = f[BB_FIGURE_NCCL_TREE_FILL].value,
		.issue = f[BB_FIGURE_NCCL_ISSUE].value,
	};
	find_tapers(&machine->taper, cluster, members, n, domains);
}

/* ---- calls ------------------------------------------------------------------------------- */

static double size_of(const struct bb_call *call)
{
	return (double)bb_size_count(call->collective, &call->shape) *
	       (double)bb_dtype_size(call->dtype);
}

static bool is_messages(const struct bb_call *call)
{
	return bb_nccl_lacks(call->collective, BB_NCCL_ANY) != NULL;
}

/* Does one of the MEMBERS leave NODE by RAIL (-1: at all)? */
static bool leaves_by(const struct bb_cluster *cluster, const int *members, int n, int node,
		      int rail)
{
	for (int i = 0; i < n; i++)
		if (bb_cluster_node(cluster, members[i]) == node &&
		    (rail < 0 || bb_cluster_rail(cluster, members[i]) == rail))
			return true;
	return false;
}

void bb_sim_nccl_mar(struct bb_nccl_machine *machine, const struct bb_cluster *cluster,
		     const struct bb_fabric_flaw *flaw, const int *members, int n)
{
	if (!flaw || !leaves_by(cluster, members, n, flaw->node, flaw->rail))
		return;
	if (flaw->factor == 0) {
		if (leaves_by(cluster, members, n, flaw->node, (flaw->rail + 1) % cluster->rails))
			machine->net_rate /= 2;
		return;
	}
	machine->net_rate /= flaw->factor;
	if (flaw->rail < 0)
		machine->gpu_rate /= flaw->factor;
}

const char *bb_sim_nccl_refuses(const struct bb_nccl_constants *c,
				const struct bb_nccl_machine *machine, const struct bb_call *call)
{
	const struct way *way = call->native->own;
	enum bb_nccl_algorithm algorithm = way->algorithm;
	enum bb_nccl_protocol protocol = way->protocol;
	const char *why = call->native->refuses(call->native, call->collective);

	if (why)
		return why;
	if (c->channels == 0)
		return "there is no model of NCCL for these GPUs";
	if ((call->collective->flags & BB_REDUCES) && call->op > BB_MULSUM)
		return "NCCL has no logical or bitwise operations, no maxloc and no minloc";
	if (is_messages(call))
		return bb_nccl_messages_time(c, machine, call->collective, 1) < INFINITY
			       ? NULL
			       : "there is no model of NCCL's messages of several sizes";
	if (algorithm != BB_NCCL_ANY && machine->ranks > 1 &&
	    (why = bb_nccl_unfit(c, machine, algorithm)))
		return why;
	return bb_nccl_choose(c, machine, call->collective, 1, &algorithm, &protocol)
		       ? NULL
		       : "NCCL does not run this protocol on such a machine";
}

double bb_sim_nccl_time(const struct bb_nccl_constants *c, const struct bb_nccl_machine *machine,
			const struct bb_call *call, char chosen[BB_CHOSEN_TEXT])
{
	const struct way *way = call->native->own;
	enum bb_nccl_algorithm algorithm = way->algorithm;
	enum bb_nccl_protocol protocol = way->protocol;
	const double bytes = size_of(call);

	if (chosen)
		chosen[0] = '\0';
	if (is_messages(call))
		return bb_nccl_messages_time(c, machine, call->collective, bytes);
	if (!bb_nccl_choose(c, machine, call->collective, bytes, &algorithm, &protocol))
		return INFINITY;
	if (chosen)
		snprintf(chosen, BB_CHOSEN_TEXT, "%s:%s", bb_nccl_algorithm_name(algorithm),
			 bb_nccl_protocol_name(protocol));
	return bb_nccl_time(c, machine, BB_NCCL_AS_MEASURED, call->collective, algorithm, protocol,
			    bytes);
}
