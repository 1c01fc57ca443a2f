/*
 * normal_cause.c - what a low or uneven number equals, its causes in the log, and what to do next.
 */
#include "acceptance/normal_inside.h"

#include "topology/bound.h"

#include <math.h>
#include <string.h>

/* ---- as if -----------------------------------------------------------------------------------
 */

/* A number between these shares of what so many NICs carry equals them. */
#define EQUAL_LEAST 0.93
#define EQUAL_MOST 1.005

/* Is the number normal on SYSTEM with NICS of its NICs (0: as it is)? If so, *MACHINE is open. */
static bool is_normal_on(const struct bb_question *q, const char *system, int nics,
			 struct bb_claimed_machine *machine)
{
	struct bb_strbuf unread = {0};
	struct bb_question other = *q;
	bool is_normal;

	other.machine = machine;
	other.out = &unread;
	if (!bb_normal_machine_open(q, system, nics, machine))
		return false;
	is_normal = bb_normal_compare(&other) == BB_NORMAL;
	if (!is_normal)
		bb_normal_machine_close(machine);
	bb_strbuf_free(&unread);
	return is_normal;
}

/* The machine carries what K of its NICs do. Ring and alltoall load all NICs of a node evenly; over
   two nodes trees do not, and their number is no whole one. */
static void describe_nics(const struct bb_question *q, enum bb_normality n)
{
	const double busbw = bb_normal_largest(q->claims).busbw_GBps;
	const struct bb_claimed_machine *const m = q->machine;
	const bool alltoall = strncmp(q->collective, "alltoall", 8) == 0;
	const struct bb_normal_shape shape = {q->collective, alltoall ? "" : "ring", q->ranks,
					      q->nodes, false};
	const double bound = bb_normal_bound_on(m->cluster->node, &shape).GBps;
	const double equal = bound > 0 ? fmin(m->nics.n * busbw / bound, 1e6) : 0;
	const int k = (int)ceil(equal / EQUAL_MOST);
	struct bb_claimed_machine fewer;

	if (!(bound > 0) || m->nics.n < 2 || k < 1 || k >= m->nics.n || equal < EQUAL_LEAST * k ||
	    q->ranks / q->nodes < m->nics.n)
		return;
	bb_strbuf_addf(q->out, "  %.4g GB/s equals %d NIC%s of %.4g Gb/s (%.3g GB/s each): as if ",
		       busbw, k, k == 1 ? "" : "s", (double)m->nics.Mbps / m->nics.n / 1e3,
		       busbw / k);
	if (2 * k == m->nics.n)
		bb_strbuf_addf(q->out, "half of %d work.", m->nics.n);
	else
		bb_strbuf_addf(q->out, "%d of %d work.", k, m->nics.n);
	if (m->assumed && n != BB_LOW) {
		bb_strbuf_addf(q->out, " If a node has %d, that is all they carry: --nics %d.", k,
			       k);
	} else if (m->assumed && is_normal_on(q, m->system, k, &fewer)) {
		bb_strbuf_addf(q->out, " If a node has %d, that is normal: --nics %d.", k, k);
		bb_normal_machine_close(&fewer);
	} else if (m->assumed) {
		bb_strbuf_addf(q->out, " If a node has %d, --nics %d compares with those.", k, k);
	}
	bb_strbuf_add(q->out, "\n");
}

/* Names the other known systems with such cards on which the number would be normal. */
static void describe_others(const struct bb_question *q)
{
	int found = 0;

	for (int i = 0; q->card && bb_card_system(q->card, i); i++) {
		struct bb_claimed_machine machine;

		if (strcmp(bb_card_system(q->card, i), q->machine->system) == 0 ||
		    !is_normal_on(q, bb_card_system(q->card, i), 0, &machine))
			continue;
		bb_strbuf_addf(q->out, "%s %s (", found++ ? "," : "  Normal on", machine.name);
		bb_normal_describe_nics(&machine, q->out);
		bb_strbuf_add(q->out, ")");
		bb_normal_machine_close(&machine);
	}
	if (found > 0)
		bb_strbuf_addf(q->out, ": on %s nothing is wrong; --cluster judges by it.\n",
			       found == 1 ? "that" : "one of these");
}

/* ---- causes ----------------------------------------------------------------------------------
 */

#define FEW_CHANNELS 4 /* fewer than NCCL's search finds over NVLink or several NICs */

static const struct cause {
	enum bb_fact_kind kind;
	enum { ANYWHERE, IN_A_NODE, OVER_NODES } where;
	const char *text;
} causes[] = {
	{BB_FACT_SHARED_GPU, ANYWHERE,
	 "ranks share a GPU, and so its memory and links; NCCL then takes them for ranks of "
	 "different hosts, which communicate over sockets or NICs"},
	{BB_FACT_P2P_OFF, IN_A_NODE,
	 "P2P is off, so data goes through host memory instead of NVLink or PCIe"},
	{BB_FACT_SHM_OFF, IN_A_NODE, "shared memory is off, so ranks without P2P use the network"},
	{BB_FACT_SOCKET, ANYWHERE, "NCCL communicates over sockets (TCP), without RDMA"},
	{BB_FACT_GDR_OFF, OVER_NODES,
	 "GPUDirect RDMA is off, so data to and from the NICs goes through host memory; "
	 "nvidia-peermem "
	 "or DMA-BUF is missing, or ACS forbids it"},
	{BB_FACT_MNNVL_OFF, OVER_NODES, "NVLink between nodes is off, so they use the NICs"},
	{BB_FACT_NVLS_OFF, ANYWHERE, "NVLS is off, so NVSwitches do not reduce"},
	{BB_FACT_CHANNELS, ANYWHERE, "NCCL has few channels, of which each moves a bounded rate"},
	{BB_FACT_ALGORITHM, ANYWHERE, "the algorithm is prescribed, not NCCL's choice"},
	{BB_FACT_PROTOCOL, ANYWHERE, "the protocol is prescribed, not NCCL's choice"},
	{BB_FACT_ERROR, ANYWHERE, "a warning"},
};

/* Is there NVLS on the machine, or is the machine unknown? */
static bool has_nvls(const struct bb_question *q)
{
	const struct bb_normal_shape shape = {"all_reduce", "NVLS", q->ranks, q->nodes, false};

	return !q->machine->cluster ||
	       bb_normal_bound_on(q->machine->cluster->node, &shape).GBps > 0;
}

/* Quotes the causes in the log. Returns how many there are. */
static int describe_causes(const struct bb_question *q)
{
	const bool one_node = q->nodes == 1;
	int n = 0;

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		const struct bb_fact *const fact = bb_normal_fact(q, causes[i].kind);

		if (!fact || (fact->kind == BB_FACT_CHANNELS && fact->value > FEW_CHANNELS) ||
		    (causes[i].kind == BB_FACT_NVLS_OFF && !has_nvls(q)) ||
		    (causes[i].where == IN_A_NODE && q->nodes > 0 && q->ranks <= q->nodes) ||
		    (causes[i].where == OVER_NODES && one_node))
			continue;
		bb_strbuf_addf(q->out, "  %s: %s. Line %d: %s\n", n++ ? "Also" : "Cause",
			       causes[i].text, fact->line, fact->quote);
	}
	return n;
}

static void describe_next(const struct bb_question *q, enum bb_normality n)
{
	if (n == BB_UNEVEN)
		bb_strbuf_add(
			q->out,
			"  Next: repeat it (another job may use the nodes or the network); check "
			"clocks and power limits; try NCCL_ALGO=Ring (a change of algorithm "
			"may cause it).\n");
	else if (!q->card)
		bb_strbuf_add(q->out,
			      "  Next: is the machine idle? build/topology shows its hardware, "
			      "build/mem_bandwidth_perf its memory bandwidth.\n");
	else if (bb_normal_is_near(q->card, q->ranks, q->nodes) || q->nodes == 1)
		bb_strbuf_addf(q->out,
			       "  Next: build/topology (NVLinks that are down, GPUs without P2P); "
			       "build/p2p_bandwidth_perf (which pair is slow); NCCL_DEBUG=INFO "
			       "(%sis P2P or "
			       "SHM disabled?); clocks and power limits.\n",
			       has_nvls(q) ? "is NVLS used, " : "");
	else
		bb_strbuf_add(
			q->out,
			"  Next: build/topology (are a node's NICs as many and as fast as above?); "
			"NCCL_DEBUG=INFO (are all used, with GPUDirect RDMA and the network "
			"plugin, "
			"not sockets?); in virtual machines ACS and ATS, without which data goes "
			"through the CPU; the same on one node alone; build/diagnose (which node "
			"or "
			"link is slow).\n");
}

static void add_finding(void *context, const char *text)
{
	bb_strbuf_addf(context, "  Finding in its topology: %s\n", text);
}

void bb_normal_explain(const struct bb_question *q, enum bb_normality n)
{
	const bool is_near = q->card && bb_normal_is_near(q->card, q->ranks, q->nodes);
	int found = 0;

	if (q->machine->cluster && !is_near && q->nodes > 1 &&
	    (n == BB_LOW ||
	     ((n == BB_NORMAL || n == BB_UNEVEN) && strncmp(q->collective, "alltoall", 8) != 0))) {
		describe_nics(q, n);
		if (q->machine->assumed && n == BB_LOW)
			describe_others(q);
	}
	if (n != BB_LOW && n != BB_UNEVEN) {
		const struct bb_fact *const error = bb_normal_fact(q, BB_FACT_ERROR);

		if (error)
			bb_strbuf_addf(q->out, "  The log reports an error. Line %d: %s\n",
				       error->line, error->quote);
		return;
	}
	if (n == BB_LOW && q->machine->cluster && q->nodes == 1 && !q->given->machine)
		bb_strbuf_addf(q->out,
			       "  The machine is assumed from its GPU: %s. --topology or --cluster "
			       "names another.\n",
			       q->machine->name);
	if (q->given->machine && q->machine->cluster)
		found = bb_topology_findings(q->machine->cluster->node, add_finding, q->out);
	if (describe_causes(q) == 0 && found == 0)
		describe_next(q, n);
}
