/*
 * nodes.c - stragglers by their arrival, and hosts by the gates of what ran on them.
 *
 * In a synchronous collective all ranks end together, so how long each took says nothing. The rank
 * that is slow enters last and waits least.
 */
#include "acceptance/nodes.h"

#include "core/array.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A straggler: of at least so many operations last in such a share, and so much of their time, and
   no less than a scheduler's moment, is waiting for it. */
#define OPERATIONS 8
#define LAST_SHARE 0.75
#define LATE_SHARE 0.2
#define LATE_US 20.0

const char *bb_node_verdict_name(enum bb_node_verdict verdict)
{
	static const char *const names[] = {"OK", "SUSPECT", "UNKNOWN", "BAD"};

	return names[verdict];
}

void bb_nodes_free(struct bb_nodes *nodes)
{
	for (size_t i = 0; i < nodes->n; i++)
		free(nodes->list[i].values);
	free(nodes->list);
	*nodes = (struct bb_nodes){.n = 0};
}

struct bb_node *bb_nodes_find(const struct bb_nodes *nodes, const char *host)
{
	for (size_t i = 0; i < nodes->n; i++)
		if (strncmp(nodes->list[i].host, host, sizeof(nodes->list[i].host) - 1) == 0)
			return &nodes->list[i];
	return NULL;
}

static struct bb_node *find_node(struct bb_nodes *nodes, const char *host)
{
	struct bb_node *node = bb_nodes_find(nodes, host);

	if (node)
		return node;
	node = BB_ARRAY_ADD(nodes->list, nodes->n, nodes->room);
	if (!node)
		return NULL;
	*node = (struct bb_node){
		.verdict = BB_NODE_OK, .code = "BB-OK", .reason = "nothing stands out"};
	snprintf(node->host, sizeof(node->host), "%s", host);
	return node;
}

size_t bb_nodes_suspected(const struct bb_nodes *nodes)
{
	size_t n = 0;

	for (size_t i = 0; i < nodes->n; i++)
		n += nodes->list[i].verdict == BB_NODE_SUSPECT;
	return n;
}

static void blame(struct bb_node *node, enum bb_node_verdict verdict, const char *code,
		  const char *reason)
{
	if (verdict <= node->verdict)
		return;
	node->verdict = verdict;
	snprintf(node->code, sizeof(node->code), "%s", code);
	snprintf(node->reason, sizeof(node->reason), "%s", reason);
}

/* The hosts that took part in E, into NODES and their indices into MINE, room for MOST. */
static bool list_hosts(const struct bb_evidence *e, struct bb_nodes *nodes, size_t *mine,
		       size_t most, size_t *n)
{
	*n = 0;
	for (size_t i = 0; i < e->nruns; i++) {
		const struct bb_read_record *const run =
			bb_records_first(&e->runs[i].records, "run");
		/* In virtual time no host is at work. */
		const bool real = run && !json_is_true(json_object_get(run->json, "virtual_time"));
		const json_t *const ranks = real ? json_object_get(run->json, "ranks") : NULL;
		size_t r;
		json_t *rank;

		json_array_foreach(ranks, r, rank)
		{
			const char *const host = bb_record_string(rank, "host");
			struct bb_node *const node = host ? find_node(nodes, host) : NULL;
			size_t k = 0;

			if (!node && host)
				return false;
			while (node && k < *n && mine[k] != (size_t)(node - nodes->list))
				k++;
			if (node && k == *n && k < most)
				mine[(*n)++] = (size_t)(node - nodes->list);
		}
	}
	return true;
}

/* How results of a step speak for one rank as the straggler. */
struct late {
	int64_t rank;
	size_t results, accused; /* that tell who was last; that accuse this rank */
	/* Means over those that do: how late, and how long the operation takes its ranks. */
	double us, time;
};

/* One result's say: the rank that it accuses, or -1. */
static int64_t accused(const struct bb_read_record *r, double *us, double *time)
{
	const int64_t rank = bb_record_int(r->json, "last_rank");
	const double last = bb_record_number(r->json, "last_share");
	const double uncertain = bb_record_number(r->json, "clock_uncertainty_us");

	*us = bb_record_number(r->json, "last_late_us");
	*time = bb_record_number(r->json, "p50_us");
	if (!(*time > 0))
		*time = bb_record_number(r->json, "time_us");
	return rank >= 0 && bb_record_int(r->json, "iterations") >= OPERATIONS &&
			       last >= LAST_SHARE && *us >= LATE_SHARE * *time && *us >= LATE_US &&
			       (isnan(uncertain) || *us > 4 * uncertain)
		       ? rank
		       : -1;
}

/* The rank that most results accuse; a majority, else none. */
static bool straggler(const struct bb_evidence *e, struct late *found)
{
	struct late best = {.rank = -1};

	for (size_t i = 0; i < e->nruns; i++) {
		for (size_t k = 0; k < e->runs[i].records.n; k++) {
			const struct bb_read_record *const r = &e->runs[i].records.list[k];
			double us, time;
			int64_t rank;

			if (strcmp(r->kind, "result") != 0 ||
			    bb_record_int(r->json, "last_rank") < 0)
				continue;
			best.results++;
			rank = accused(r, &us, &time);
			if (rank < 0)
				continue;
			/* Boyer and Moore's majority vote. */
			if (best.accused == 0) {
				best.rank = rank;
				best.accused = 1;
			} else {
				best.accused += rank == best.rank ? 1 : (size_t)-1;
			}
		}
	}
	*found = (struct late){.rank = best.rank, .results = best.results};
	for (size_t i = 0; i < e->nruns && best.rank >= 0; i++) {
		for (size_t k = 0; k < e->runs[i].records.n; k++) {
			double us, time;

			if (strcmp(e->runs[i].records.list[k].kind, "result") != 0 ||
			    accused(&e->runs[i].records.list[k], &us, &time) != best.rank)
				continue;
			found->accused++;
			found->us += us;
			found->time += time;
		}
	}
	found->us /= found->accused ? (double)found->accused : 1;
	found->time /= found->accused ? (double)found->accused : 1;
	return 2 * found->accused > found->results;
}

/* What ran as rank LATE->rank, into REASON; its host, or NULL. */
static const char *describe(const struct bb_evidence *e, const struct late *late, char *reason,
			    size_t room)
{
	const struct bb_read_record *const run = bb_records_first(&e->runs[0].records, "run");
	const json_t *const ranks = run ? json_object_get(run->json, "ranks") : NULL;
	char us[BB_UNIT_TEXT], time[BB_UNIT_TEXT];
	size_t i;
	json_t *rank;

	json_array_foreach(ranks, i, rank)
	{
		if (bb_record_int(rank, "rank") != late->rank)
			continue;
		snprintf(reason, room,
			 "%s: rank %lld (device %lld) enters last in %zu of %zu results, %s "
			 "late; the operation takes %s",
			 e->step->name, (long long)late->rank,
			 (long long)bb_record_int(rank, "device"), late->accused, late->results,
			 bb_format_duration(us, late->us / 1e6),
			 bb_format_duration(time, late->time / 1e6));
		return bb_record_string(rank, "host");
	}
	return NULL;
}

/* The worst judgement of a step. */
static const struct bb_judgement *worst_of(const struct bb_judgements *j,
					   const struct bb_profile_step *step)
{
	const struct bb_judgement *worst = NULL;

	for (size_t i = 0; i < j->n; i++)
		if (j->list[i].step == step && (!worst || j->list[i].verdict > worst->verdict))
			worst = &j->list[i];
	return worst;
}

static enum bb_node_verdict verdict_of(const char *word)
{
	for (int v = BB_NODE_OK; v < BB_NODE_BAD; v++)
		if (strcmp(word, bb_node_verdict_name(v)) == 0)
			return v;
	return BB_NODE_BAD;
}

static void blame_host(struct bb_nodes *nodes, const char *host, enum bb_node_verdict verdict,
		       const char *code, const char *reason)
{
	struct bb_node *const node = find_node(nodes, host);

	if (node)
		blame(node, verdict, code ? code : "BB-DIAGNOSE", reason);
}

/* A way within a host is that host's; of one between two either may be to blame. */
static void take_link(const struct bb_read_record *r, const char *host, struct bb_nodes *nodes)
{
	const char *const peer = bb_record_string(r->json, "peer_host");
	const char *const code = bb_record_string(r->json, "code");
	const char *const text = bb_record_string(r->json, "text");
	enum bb_node_verdict verdict;

	if (!peer || !text)
		return;
	verdict = strcmp(host, peer) == 0 ? BB_NODE_BAD : BB_NODE_SUSPECT;
	blame_host(nodes, host, verdict, code, text);
	blame_host(nodes, peer, verdict, code, text);
}

/* What a step of diagnose says of each node, and of ways between them, is taken over. Returns
   whether it says anything. */
static bool take_over(const struct bb_evidence *e, struct bb_nodes *nodes)
{
	bool any = false;

	for (size_t i = 0; i < e->nruns; i++) {
		for (size_t k = 0; k < e->runs[i].records.n; k++) {
			const struct bb_read_record *const r = &e->runs[i].records.list[k];
			const char *const host = bb_record_string(r->json, "host");
			const char *const verdict = bb_record_string(r->json, "verdict");
			const char *const code = bb_record_string(r->json, "code");
			const char *const reason = bb_record_string(r->json, "reason");
			const bool is_node = strcmp(r->kind, "node") == 0 && verdict;

			any = any || (is_node && host);
			/* In virtual time no host is at work. */
			if (!host || json_is_true(json_object_get(r->run, "virtual_time")))
				continue;
			if (strcmp(r->kind, "culprit") == 0)
				take_link(r, host, nodes);
			else if (is_node && verdict_of(verdict) != BB_NODE_OK)
				blame_host(nodes, host, verdict_of(verdict), code,
					   reason ? reason : verdict);
		}
	}
	return any;
}

/* How V of one gate is beyond its limit, into REASON. */
static void tell_value(const struct bb_evidence *e, const struct bb_node_value *v, char *reason,
		       size_t room)
{
	const struct bb_metric *const m = v->judgement->gate->measure;

	snprintf(reason, room, "%s: %s here %.4g %s, limit %.4g: %.160s", e->step->name, m->name,
		 v->value, m->unit, v->limit, v->judgement->subject);
}

/*
 * Blame those of E's N hosts MINE whose own numbers are beyond a limit. Numbers that hosts share
 * blame them while most others keep to it: he who is slow with everybody is slow. Returns whether
 * anybody is.
 */
static bool blame_values(const struct bb_evidence *e, const size_t *mine, size_t n,
			 struct bb_nodes *nodes)
{
	size_t beyond = 0, blamed = 0;
	char reason[320];

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < nodes->list[mine[i]].nvalues; k++) {
			const struct bb_node_value *const v = &nodes->list[mine[i]].values[k];

			beyond += v->judgement->step == e->step && v->shared && v->beyond;
		}
	for (size_t i = 0; i < n; i++) {
		struct bb_node *const node = &nodes->list[mine[i]];

		for (size_t k = 0; k < node->nvalues; k++) {
			const struct bb_node_value *const v = &node->values[k];
			const bool failed = v->judgement->verdict == BB_FAILED;

			if (v->judgement->step != e->step || !v->beyond ||
			    v->judgement->verdict == BB_UNJUDGED || (v->shared && 2 * beyond >= n))
				continue;
			tell_value(e, v, reason, sizeof(reason));
			blame(node, failed ? BB_NODE_BAD : BB_NODE_SUSPECT, "BB-BELOW-GATE",
			      reason);
			blamed++;
		}
	}
	return blamed > 0;
}

static void judge_hosts(const struct bb_evidence *e, const struct bb_judgement *worst,
			const size_t *mine, size_t n, struct bb_nodes *nodes)
{
	const bool failed = worst && worst->verdict == BB_FAILED;
	struct late late;
	char reason[320];
	const char *host = NULL;

	if (take_over(e, nodes))
		return;
	if (n > 0 && !(failed && !worst->gate) && straggler(e, &late))
		host = describe(e, &late, reason, sizeof(reason));
	if (host) {
		blame(find_node(nodes, host), failed ? BB_NODE_BAD : BB_NODE_SUSPECT,
		      "BB-STRAGGLER", reason);
		return;
	}
	if (n > 1 && !(failed && !worst->gate) && blame_values(e, mine, n, nodes) && failed)
		return;
	if (!worst || worst->verdict <= BB_SKIPPED)
		return;
	snprintf(reason, sizeof(reason), "%s: %.100s: %.150s%s", e->step->name, worst->subject,
		 worst->reason,
		 failed && n > 1 ? "; no rank stands out, build/diagnose tells" : "");
	for (size_t i = 0; i < n; i++)
		blame(&nodes->list[mine[i]], failed && n == 1 ? BB_NODE_BAD : BB_NODE_UNKNOWN,
		      !failed       ? "BB-NOT-JUDGED"
		      : worst->gate ? "BB-BELOW-GATE"
				    : "BB-WRONG-DATA",
		      reason);
}

#define MOST_HOSTS 65536

bb_status bb_nodes_judge(const struct bb_evidence *evidence, size_t n,
			 const struct bb_judgements *judgements, struct bb_nodes *nodes,
			 struct bb_error *error)
{
	size_t *const mine = calloc(MOST_HOSTS, sizeof(*mine));
	bb_status st = BB_OK;
	size_t hosts;

	*nodes = (struct bb_nodes){.n = 0};
	for (size_t i = 0; st == BB_OK && i < n; i++) {
		if (!mine || !list_hosts(&evidence[i], nodes, mine, MOST_HOSTS, &hosts) ||
		    !bb_node_values_find(&evidence[i], judgements, nodes,
					 hosts == 1 ? &nodes->list[mine[0]] : NULL))
			st = bb_no_memory(error, "nodes");
		else
			judge_hosts(&evidence[i], worst_of(judgements, evidence[i].step), mine,
				    hosts, nodes);
	}
	free(mine);
	return st;
}
