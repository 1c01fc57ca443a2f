/*
 * report.c - the results: records of nodes, culprits and rounds of pairs, and sentences.
 */
#include "diagnose/diagnose.h"

#include "core/ranges.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the fields of the records -------------------------------------------------------------- */

#define BB_RECORD bb_node_record
BB_RECORD_KIND(bb_record_node, BB_NODE_FIELDS, "node", "Diagnosis: a node and its verdict.");

#undef BB_RECORD
#define BB_RECORD bb_culprit_record
BB_RECORD_KIND(bb_record_culprit, BB_CULPRIT_FIELDS, "culprit", "Diagnosis: a culprit.");

#undef BB_RECORD
#define BB_RECORD bb_pair_round_record
BB_RECORD_KIND(bb_record_pair_round, BB_PAIR_ROUND_FIELDS, "pair_round",
	       "Diagnosis: two nodes in one round.");

/* ---- names ---------------------------------------------------------------------------------- */

/* What is wrong with a node. */
struct note {
	const char *code; /* NULL: nothing */
	struct bb_strbuf reason;
};

static const char *host_of(const struct bb_examiner *s, int node)
{
	return s->engine.run->infos[s->ports.rank[node * s->ports.rails]].location.host;
}

/* "node 3 (h4)", or by its rank where nodes are ranks. */
static void add_node(const struct bb_examiner *s, int node, struct bb_strbuf *out)
{
	const int *ranks = &s->ports.rank[node * s->ports.rails];
	struct bb_ranges shown = {.out = out};

	bb_strbuf_addf(out, "node %d (%s, rank%s ", node, host_of(s, node),
		       bb_plural(s->ports.rails));
	for (int k = 0; k < s->ports.rails; k++)
		bb_ranges_add(&shown, ranks[k]);
	bb_ranges_end(&shown);
	bb_strbuf_add(out, ")");
}

/* ---- the announcement ----------------------------------------------------------------------- */

/* Could a rank that comes late to each of STEPS be blamed among RANKS? */
static bool can_judge_lateness(int steps, int ranks)
{
	return steps > 0 &&
	       ranks * bb_chance(steps, steps, 0, steps * (ranks - 1)) <= BB_FALSE_BLAME;
}

/* What is not measured or judged. */
static void add_left_out(const struct bb_examiner *s, bool all_met, struct bb_strbuf *out)
{
	const struct bb_options *o = &s->engine.run->options;
	const struct bb_fault *f = &o->fault;
	const struct bb_ports *p = &s->ports;
	const int ranks = s->engine.run->world.nranks, steps = (int)s->diagnose->options.steps;
	int enough = 1;

	if (!all_met)
		bb_strbuf_add(out,
			      "# Links between nodes that do not meet are not measured: --full "
			      "measures all pairs\n");
	/* A planted link whose ends never meet cannot be found. */
	if (f->kind == BB_FAULT_SLOW_LINK && p->node[f->rank] >= 0 && p->node[f->to] >= 0) {
		if (p->node[f->rank] == p->node[f->to])
			bb_strbuf_addf(out, "# --fault %s is within node %d and is not measured\n",
				       o->fault_text, p->node[f->rank]);
		else if (p->rail[f->rank] != p->rail[f->to])
			bb_strbuf_addf(
				out,
				"# --fault %s joins rails %d and %d, which never meet, and is not "
				"measured\n",
				o->fault_text, p->rail[f->rank], p->rail[f->to]);
	}
	if (can_judge_lateness(steps, ranks))
		return;
	while (!can_judge_lateness(enough, ranks))
		enough++;
	bb_strbuf_addf(out,
		       "# Stragglers are not judged: %d %s too few for %d ranks; give --steps %d\n",
		       steps, steps == 1 ? "step is" : "steps are", ranks, enough);
}

bb_status bb_diagnose_announce(struct bb_examiner *s, double round_s, double small_s)
{
	const struct bb_diagnose_options *a = &s->diagnose->options;
	const int nodes = s->ports.nodes, rails = s->ports.rails, rounds = s->survey.rounds.n;
	const int all = nodes * (nodes - 1) / 2, nranks = s->engine.run->world.nranks;
	const int met = rounds < bb_circle_rounds(nodes) ? rounds * (nodes / 2) : all;
	const int pairs = nodes / 2 * rails, limit = s->pairs_at_once * rails;
	const double bytes = 2.0 * (double)(a->large + 1) * (double)a->bytes * rounds * pairs;
	/* The 4 bytes of a step pass from rank to rank. */
	const double steps_s = (double)a->steps * (BB_STEP_WORK_S + nranks * small_s);
	const double confirm_s = BB_CONFIRMING * (round_s + BB_CONFIRM_PAUSE_S);
	const double alone_s = 2 * (round_s + BB_RETEST_PAUSE_S); /* with its reference */
	/* Both ends of a link are confirmed too. */
	const double most_s = steps_s + 2 * confirm_s + BB_CONFIRMING * alone_s;
	char whole[BB_UNIT_TEXT], suspect[BB_UNIT_TEXT], most[BB_UNIT_TEXT];
	struct bb_strbuf out = {0};

	bb_strbuf_addf(&out, "# %d nodes of %d %s: %d of %d pairs, %d rounds of ", nodes, rails,
		       rails == 1 ? "rail" : "rails", met, all, rounds);
	bb_strbuf_addf(&out, pairs == 1 ? "one pair" : "%d pairs", pairs);
	if (pairs > 1)
		bb_strbuf_addf(&out, ", %d at a time", limit > 0 && limit < pairs ? limit : pairs);
	bb_strbuf_addf(&out, ", %.3g GB; %lld steps\n", 1e-9 * bytes, (long long)a->steps);
	if (nodes * rails < nranks)
		bb_strbuf_addf(
			&out,
			"# %d of %d ranks are measured in the steps alone: the smallest node has "
			"%d %s; --node-ranks makes nodes of consecutive ranks\n",
			nranks - nodes * rails, nranks, rails, rails == 1 ? "rank" : "ranks");
	bb_strbuf_addf(&out,
		       "# Cost: about %s; each suspect adds about %s, at most %s (a link that "
		       "flaps), more if it is slower than the first round\n",
		       bb_format_duration(whole, rounds * round_s + steps_s),
		       bb_format_duration(suspect, confirm_s + BB_RETEST_ROUNDS * alone_s),
		       bb_format_duration(most, most_s));
	add_left_out(s, met == all, &out);
	return bb_engine_comment_lines(&s->engine, &out);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

const struct bb_diagnose_code bb_diagnose_codes[BB_CODES] = {
	[2 * BB_CHARGE_NODE] = {"BB-SLOW-NODE", "most of its rails are slow, whomever it meets"},
	{"BB-FLAPPING-NODE", "the same now and then"},
	[2 * BB_CHARGE_PORT] = {"BB-SLOW-RAIL", "a rail of one node"},
	{"BB-FLAPPING-RAIL", "the same now and then"},
	[2 * BB_CHARGE_RAIL] = {"BB-SLOW-RAIL-EVERYWHERE", "a rail of all nodes"},
	{"BB-FLAPPING-RAIL-EVERYWHERE", "the same now and then"},
	[2 * BB_CHARGE_LINK] = {"BB-SLOW-LINK",
				"the link between two nodes that are fast with others"},
	{"BB-FLAPPING-LINK", "the same now and then"},
	[2 * BB_CHARGE_STRAGGLER] = {"BB-STRAGGLER",
				     "comes last to collectives, though its messages are fast"},
	{"BB-FLAPPING-STRAGGLER", "the same now and then"},
	{"BB-SHARED-RAIL", "rails of one node that are slow together and fast alone"},
};

static const char *quantity_of(const struct bb_diagnosis *v)
{
	if (v->charge == BB_CHARGE_STRAGGLER)
		return "arrival";
	if (v->slow[BB_LATENCY] && v->slow[BB_BANDWIDTH])
		return "both";
	return v->slow[BB_LATENCY] ? "latency" : "bandwidth";
}

static const char *direction_of(const struct bb_diagnosis *v)
{
	const bool link = v->charge == BB_CHARGE_LINK;

	if (v->charge == BB_CHARGE_STRAGGLER)
		return NULL;
	if (v->sends && v->receives)
		return "both";
	return v->sends ? (link ? "there" : "sends") : (link ? "back" : "receives");
}

/* "the link between node 1 (h2, rank 1) and node 3 (h4, rank 3) takes 2.5 times the typical time
   from 1 to 3 (bandwidth), in 100% of 32 measurements; both ends are fast with others; confidence
   > 99.99%" */
static void verdict_describe(const struct bb_examiner *s, const struct bb_diagnosis *v,
			     struct bb_strbuf *out)
{
	const bool link = v->charge == BB_CHARGE_LINK, both_ways = v->sends && v->receives;
	const char *quantity = quantity_of(v);
	const double percent = 100 * (1 - v->chance);

	if (v->charge == BB_CHARGE_RAIL)
		bb_strbuf_addf(out, "rail %d of all nodes", v->rail);
	else if (v->charge == BB_CHARGE_STRAGGLER)
		bb_strbuf_addf(out,
			       "rank %d (%s) comes last to collectives and waits least, in %.0f%% "
			       "of %d steps",
			       v->node, s->engine.run->infos[v->node].location.host, 100 * v->share,
			       v->measured);
	else if (v->charge == BB_CHARGE_PORT)
		bb_strbuf_addf(out, "rail %d (rank %d) of ", v->rail,
			       s->ports.rank[v->node * s->ports.rails + v->rail]);
	else if (link)
		bb_strbuf_add(out, "the link between ");
	if (v->charge != BB_CHARGE_RAIL && v->charge != BB_CHARGE_STRAGGLER)
		add_node(s, v->node, out);
	if (link) {
		bb_strbuf_add(out, " and ");
		add_node(s, v->peer, out);
		if (v->rail >= 0)
			bb_strbuf_addf(out, " on rail %d", v->rail);
	}
	if (v->charge != BB_CHARGE_STRAGGLER) {
		bb_strbuf_addf(out,
			       v->factor < 1000 ? " takes %.3g times the typical time"
						: " takes %.0f times the typical time",
			       v->factor);
		if (link && !both_ways)
			bb_strbuf_addf(out, " from %d to %d", v->sends ? v->node : v->peer,
				       v->sends ? v->peer : v->node);
		else if (v->charge != BB_CHARGE_RAIL && !both_ways)
			bb_strbuf_addf(out, " when it %s", direction_of(v));
		bb_strbuf_addf(out, " (%s), in %.0f%% of %d measurements",
			       strcmp(quantity, "both") == 0 ? "latency and bandwidth" : quantity,
			       100 * v->share, v->measured);
	}
	if (v->contended)
		bb_strbuf_add(out, " beside others, but is fast alone: it is not to blame");
	else if (v->shares)
		bb_strbuf_add(out, "; fast alone: it shares a NIC or link with another rail of the "
				   "node");
	else if (link)
		bb_strbuf_addf(out, "; both ends are fast with others%s",
			       v->alone ? ", and the link is as slow alone" : "");
	/* "> 99.99%" where it would round to 100. */
	if (!v->contended && percent >= 99.995)
		bb_strbuf_add(out, "; confidence > 99.99%");
	else if (!v->contended)
		bb_strbuf_addf(out, "; confidence %.2f%%", percent);
}

/* Deliver V with its line, and note it at its node: the reason of a node is its first culprit in
   full, whose code is the node's, and the codes of the others. */
static bb_status report_verdict(struct bb_examiner *s, struct note *notes,
				const struct bb_diagnosis *v, struct bb_strbuf *lines)
{
	const bool straggler = v->charge == BB_CHARGE_STRAGGLER;
	const int node = straggler ? s->ports.node[v->node] : v->node;
	const int *ranks = node >= 0 ? &s->ports.rank[node * s->ports.rails] : NULL;
	struct note *note = node >= 0 && v->charge != BB_CHARGE_LINK ? &notes[node] : NULL;
	struct bb_culprit_record r;
	struct bb_strbuf text = {0};
	bb_status status = BB_OK;

	/* A slow node is late for collectives too: it is reported once. */
	if (straggler && note && note->code)
		return BB_OK;
	verdict_describe(s, v, &text);
	if (bb_strbuf_failed(&text)) {
		status = BB_EINTERNAL;
		goto out;
	}
	if (v->contended) {
		bb_strbuf_addf(lines, "# contended: %s\n", bb_strbuf_text(&text));
		goto out;
	}
	bb_record_init(&bb_record_culprit, &r);
	r.code = bb_diagnose_codes[v->shares ? BB_CODES - 1 : 2 * v->charge + v->flapping].code;
	r.node = node >= 0 ? node : BB_ABSENT;
	r.peer = v->peer >= 0 ? v->peer : BB_ABSENT;
	r.rail = v->rail >= 0 ? v->rail : BB_ABSENT;
	if (ranks) {
		r.host = host_of(s, node);
		r.rank = ranks[v->rail > 0 ? v->rail : 0];
	}
	if (straggler)
		r.rank = v->node;
	if (v->peer >= 0)
		r.peer_host = host_of(s, v->peer);
	r.direction = direction_of(v);
	r.quantity = quantity_of(v);
	r.factor = v->factor;
	r.share = v->share;
	r.measured = v->measured;
	r.confidence = 1 - v->chance;
	r.flapping = v->flapping;
	r.text = bb_strbuf_text(&text);
	s->diagnose->culprits++;
	if (note && note->code)
		bb_strbuf_addf(&note->reason, "; and %s: rail %d (rank %d)", r.code, v->rail,
			       ranks[v->rail]);
	else if (note)
		bb_strbuf_add(&note->reason, r.text);
	if (note && !note->code)
		note->code = r.code;
	bb_strbuf_addf(lines, "# culprit: %s: %s\n", r.code, r.text);
	status = bb_sinks_record(&s->engine.run->sinks, &bb_record_culprit, &r);
out:
	bb_strbuf_free(&text);
	return status;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Returns the logarithm of the time of NODE over its slowest rail; *BASE = the typical time of the
   fastest rail. */
static double worst_rail(const struct bb_examiner *s, int quantity, bool sends, int node,
			 double *base)
{
	const struct bb_view *v = &s->views[quantity];
	const double *own = &(sends ? v->out : v->in)[node * s->ports.rails];
	double most = -INFINITY;

	*base = INFINITY;
	for (int k = 0; k < s->ports.rails; k++) {
		most = fmax(most, v->base[k] + own[k]);
		*base = fmin(*base, v->base[k]);
	}
	return most;
}

#define MOST_HEALTHY 16 /* nodes that the text lists without -v */

static bb_status report_nodes(struct bb_examiner *s, const struct note *notes)
{
	struct bb_sinks *sinks = &s->engine.run->sinks;
	const bool all = s->ports.nodes <= MOST_HEALTHY || s->engine.run->options.verbose;
	const double GB = 1e-9 * (double)s->diagnose->options.bytes;
	int healthy = 0;
	bb_status status = BB_OK;

	for (int i = 0; i < s->ports.nodes && status == BB_OK; i++) {
		const char *code = notes[i].code;
		struct bb_node_record r;
		double usual = 0, sends, receives;

		bb_record_init(&bb_record_node, &r);
		r.host = host_of(s, i);
		r.node = i;
		r.first_rank = s->ports.rank[i * s->ports.rails];
		r.verdict = code ? "BAD" : "OK";
		r.code = code ? code : "BB-OK";
		r.reason = code ? bb_strbuf_text(&notes[i].reason) : "as fast as the others";
		sends = worst_rail(s, BB_BANDWIDTH, true, i, &usual);
		receives = worst_rail(s, BB_BANDWIDTH, false, i, &usual);
		r.sends_GBps = GB / exp(sends);
		r.receives_GBps = GB / exp(receives);
		r.sends_share = exp(usual - sends);
		r.receives_share = exp(usual - receives);
		r.latency_us = 1e6 * exp(worst_rail(s, BB_LATENCY, false, i, &usual));
		r.partners = 0;
		for (int k = 0; k < s->survey.rounds.n; k++)
			r.partners += bb_rounds_partner(&s->survey.rounds, k, i) != BB_NOBODY;
		s->engine.run->end.results++;
		healthy += !code;
		status =
			(all || code ? bb_sinks_record : bb_sinks_data)(sinks, &bb_record_node, &r);
	}
	if (status != BB_OK || all)
		return status;
	return bb_engine_comment(&s->engine, "# %d healthy node%s not listed; -v lists all nodes\n",
				 healthy, healthy == 1 ? " is" : "s are");
}

/* ---- rounds of pairs ------------------------------------------------------------------------ */

static bb_status report_meetings(struct bb_examiner *s, const struct bb_diagnose_stage *stage,
				 const char *name)
{
	struct bb_pair_round_record r = {.stage = name};
	struct bb_measurement at = BB_BEFORE_MEASUREMENT;
	bb_status status = BB_OK;

	while (status == BB_OK && stage->rounds.n > 0 &&
	       bb_quantity_next(&stage->raw[BB_LATENCY], &at)) {
		r.round = at.met.round;
		r.from = at.met.from;
		r.to = at.met.to;
		r.rail = at.rail;
		r.latency_us = 1e6 * exp(at.log_s);
		r.GBps = 1e-9 * (double)s->diagnose->options.bytes /
			 exp(bb_measured_at(&stage->raw[BB_BANDWIDTH], at.met.round, at.met.to,
					    at.rail));
		status = bb_sinks_record(&s->engine.run->sinks, &bb_record_pair_round, &r);
	}
	return status;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* What is typical, and the blocks of the network with their distances from the largest. */
static void add_summary(const struct bb_examiner *s, struct bb_strbuf *lines)
{
	static const char *const names[BB_QUANTITIES] = {"latency", "bandwidth"};
	const struct bb_view *l = &s->views[BB_LATENCY], *b = &s->views[BB_BANDWIDTH];
	const struct bb_run *run = s->engine.run;
	const int rails = s->ports.rails;

	bb_strbuf_addf(
		lines,
		"# typical: round trip of %d bytes %.3g us, bandwidth %.3g GB/s; noise %.0f%% and "
		"%.0f%%; slow from %.3g and %.3g times that time\n",
		BB_SMALL_BYTES, 1e6 * exp(bb_typical_base(l->base, rails)),
		1e-9 * (double)s->diagnose->options.bytes / exp(bb_typical_base(b->base, rails)),
		100 * l->noise.sigma, 100 * b->noise.sigma, exp(l->limit), exp(b->limit));
	if (s->crowded)
		bb_strbuf_addf(lines,
			       "# crowded: %d ranks share %d %s: only %d times the typical work "
			       "counts as slow\n",
			       run->world.nranks, (int)run->record.cores,
			       run->record.cores == 1 ? "processor" : "processors", BB_CROWDED);
	for (int i = BB_QUANTITIES; i < BB_QUANTITIES * BB_MOST_BLOCKS; i++) {
		const int block = i / BB_QUANTITIES, q = i % BB_QUANTITIES;
		const struct bb_block_map *p = &s->blocks[q];
		int first = 0, last = s->ports.nodes - 1;

		if (block >= p->n)
			continue;
		while (p->of[first] != block)
			first++;
		while (p->of[last] != block)
			last--;
		bb_strbuf_addf(
			lines,
			"# block of the network: %d nodes, from node %d (%s) to node %d (%s): "
			"%.3g times the time (%s) to the %d nodes of the largest block; nobody is "
			"blamed for that\n",
			p->size[block], first, host_of(s, first), last, host_of(s, last),
			exp(p->level[block][0] - p->level[0][0]), names[q], p->size[0]);
	}
}

bb_status bb_diagnose_report(struct bb_examiner *s)
{
	const size_t nodes = (size_t)s->ports.nodes;
	struct note *notes = calloc(nodes, sizeof(*notes));
	struct bb_strbuf summary = {0}, answer = {0};
	bb_status status = BB_EINTERNAL;

	if (!notes)
		goto out;
	add_summary(s, &summary);
	BB_TRY(status, report_meetings(s, &s->survey, "survey"), out);
	BB_TRY(status, report_meetings(s, &s->confirm, "confirm"), out);
	for (int links = 0; links < 2; links++)
		BB_TRY(status, report_meetings(s, &s->alone[links], "alone"), out);
	/* Those of nodes first: their code is that of the node. */
	for (int straggling = 0; straggling < 2; straggling++)
		for (int i = 0; i < s->verdicts.n; i++)
			if ((s->verdicts.list[i].charge == BB_CHARGE_STRAGGLER) == straggling)
				BB_TRY(status,
				       report_verdict(s, notes, &s->verdicts.list[i], &answer),
				       out);
	BB_TRY(status, report_nodes(s, notes), out);
	if (s->diagnose->culprits == 0)
		bb_strbuf_addf(&answer, "# culprits: none%s\n",
			       s->diagnose->unjudged ? " proven; not everybody could be judged"
						     : "");
	BB_TRY(status, bb_engine_comment_lines(&s->engine, &summary), out);
	status = bb_engine_answer(&s->engine, &answer);
out:
	bb_strbuf_free(&summary);
	bb_strbuf_free(&answer);
	for (size_t i = 0; notes && i < nodes; i++)
		bb_strbuf_free(&notes[i].reason);
	free(notes);
	return status;
}
