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

struct report {
	struct bb_examiner *s;
	struct bb_strbuf *reasons; /* [node]; empty: none */
	const char **codes;        /* [node] */
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

/* LINES to the sinks; they are freed. */
static bb_status comment_deliver(struct bb_examiner *s, struct bb_strbuf *lines)
{
	const bb_status status = bb_strbuf_failed(lines) ? BB_EINTERNAL
							 : bb_sinks_comment(&s->engine.run->sinks,
									    bb_strbuf_text(lines));

	bb_strbuf_free(lines);
	return status;
}

/* ---- the announcement ----------------------------------------------------------------------- */

static void add_cost(const struct bb_examiner *s, const struct bb_pilot *pilot,
		     struct bb_strbuf *out)
{
	/* The 4 bytes of a step pass from rank to rank. */
	const double steps_s = (double)s->diagnose->options.steps *
			       (BB_STEP_WORK_S + s->engine.run->world.nranks * pilot->small_s);
	const double confirm_s = BB_CONFIRMING * (pilot->round_s + BB_CONFIRM_PAUSE_S);
	const double alone_s = 2 * (pilot->round_s + BB_RETEST_PAUSE_S); /* with its reference */
	/* Both ends of a link are confirmed too. */
	const double most_s = steps_s + 2 * confirm_s + BB_CONFIRMING * alone_s;
	char all[BB_UNIT_TEXT], suspect[BB_UNIT_TEXT], most[BB_UNIT_TEXT];

	bb_strbuf_addf(
		out,
		"# Cost: about %s; each suspect adds about %s, at most %s (a link that flaps), "
		"more if it is slower than the first round\n",
		bb_format_duration(all, s->survey.rounds.n * pilot->round_s + steps_s),
		bb_format_duration(suspect, confirm_s + BB_RETEST_ROUNDS * alone_s),
		bb_format_duration(most, most_s));
}

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

bb_status bb_diagnose_announce(struct bb_examiner *s, const struct bb_pilot *pilot)
{
	const struct bb_diagnose_options *a = &s->diagnose->options;
	const int nodes = s->ports.nodes, rails = s->ports.rails, rounds = s->survey.rounds.n;
	const int all = nodes * (nodes - 1) / 2, nranks = s->engine.run->world.nranks;
	const int met = rounds < bb_circle_rounds(nodes) ? rounds * (nodes / 2) : all;
	const int pairs = nodes / 2 * rails, limit = s->pairs_at_once * rails;
	const double bytes = 2.0 * (double)(a->large + 1) * (double)a->bytes * rounds * pairs;
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
	add_cost(s, pilot, &out);
	add_left_out(s, met == all, &out);
	return comment_deliver(s, &out);
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

static const char *code_of(const struct bb_diagnosis *v)
{
	return bb_diagnose_codes[v->shares ? BB_CODES - 1 : 2 * v->charge + v->flapping].code;
}

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

static void add_subject(const struct bb_examiner *s, const struct bb_diagnosis *v,
			struct bb_strbuf *out)
{
	switch (v->charge) {
	case BB_CHARGE_RAIL:
		bb_strbuf_addf(out, "rail %d of all nodes", v->rail);
		return;
	case BB_CHARGE_STRAGGLER:
		bb_strbuf_addf(out, "rank %d (%s)", v->node,
			       s->engine.run->infos[v->node].location.host);
		return;
	case BB_CHARGE_PORT:
		bb_strbuf_addf(out, "rail %d (rank %d) of ", v->rail,
			       s->ports.rank[v->node * s->ports.rails + v->rail]);
		break;
	case BB_CHARGE_LINK:
		bb_strbuf_add(out, "the link between ");
		break;
	case BB_CHARGE_NODE:
		break;
	}
	add_node(s, v->node, out);
	if (v->charge != BB_CHARGE_LINK)
		return;
	bb_strbuf_add(out, " and ");
	add_node(s, v->peer, out);
	if (v->rail >= 0)
		bb_strbuf_addf(out, " on rail %d", v->rail);
}

static void add_charge(const struct bb_examiner *s, const struct bb_diagnosis *v,
		       struct bb_strbuf *out)
{
	const char *direction = direction_of(v), *quantity = quantity_of(v);

	if (v->charge == BB_CHARGE_STRAGGLER) {
		bb_strbuf_addf(out,
			       " comes last to collectives and waits least, in %.0f%% of %d steps",
			       100 * v->share, v->measured);
		return;
	}
	bb_strbuf_addf(out,
		       v->factor < 1000 ? " takes %.3g times the typical time"
					: " takes %.0f times the typical time",
		       v->factor);
	if (v->charge == BB_CHARGE_LINK && strcmp(direction, "both") != 0)
		bb_strbuf_addf(out, " from %d to %d", v->sends ? v->node : v->peer,
			       v->sends ? v->peer : v->node);
	else if (v->charge != BB_CHARGE_RAIL && v->charge != BB_CHARGE_LINK &&
		 strcmp(direction, "both") != 0)
		bb_strbuf_addf(out, " when it %s", direction);
	bb_strbuf_addf(out, " (%s), in %.0f%% of %d measurements",
		       strcmp(quantity, "both") == 0 ? "latency and bandwidth" : quantity,
		       100 * v->share, v->measured);
	if (v->contended)
		bb_strbuf_add(out, " beside others, but is fast alone: it is not to blame");
	else if (v->shares)
		bb_strbuf_add(out, "; fast alone: it shares a NIC or link with another rail of the "
				   "node");
	else if (v->charge == BB_CHARGE_LINK)
		bb_strbuf_addf(out, "; both ends are fast with others%s",
			       v->alone ? ", and the link is as slow alone" : "");
}

/* The reason of a node is its first culprit in full, whose code is the node's, and the codes of the
   others. */
static void node_note(struct report *report, const struct bb_diagnosis *v, int node,
		      const char *text)
{
	const struct bb_examiner *s = report->s;
	struct bb_strbuf *reason = &report->reasons[node];

	if (!report->codes[node]) {
		report->codes[node] = code_of(v);
		bb_strbuf_add(reason, text);
	} else if (v->charge == BB_CHARGE_STRAGGLER) {
		bb_strbuf_addf(reason, "; and %s: rank %d", code_of(v), v->node);
	} else {
		bb_strbuf_addf(reason, "; and %s: rail %d (rank %d)", code_of(v), v->rail,
			       s->ports.rank[v->node * s->ports.rails + v->rail]);
	}
}

static bb_status report_verdict(struct report *report, const struct bb_diagnosis *v,
				struct bb_strbuf *lines)
{
	struct bb_examiner *s = report->s;
	const bool straggler = v->charge == BB_CHARGE_STRAGGLER;
	const int node = straggler ? s->ports.node[v->node] : v->node;
	const double percent = 100 * (1 - v->chance);
	struct bb_culprit_record r;
	struct bb_strbuf text = {0};
	bb_status status = BB_OK;

	/* A slow node is late for collectives too: it is reported once. */
	if (straggler && node >= 0 && report->codes[node])
		return BB_OK;
	add_subject(s, v, &text);
	add_charge(s, v, &text);
	/* "> 99.99%" where it would round to 100. */
	if (!v->contended && percent >= 99.995)
		bb_strbuf_add(&text, "; confidence > 99.99%");
	else if (!v->contended)
		bb_strbuf_addf(&text, "; confidence %.2f%%", percent);
	if (bb_strbuf_failed(&text)) {
		status = BB_EINTERNAL;
		goto out;
	}
	if (v->contended) {
		bb_strbuf_addf(lines, "# contended: %s\n", bb_strbuf_text(&text));
		goto out;
	}
	bb_record_init(&bb_record_culprit, &r);
	r.code = code_of(v);
	r.node = node >= 0 ? node : BB_ABSENT;
	r.peer = v->peer >= 0 ? v->peer : BB_ABSENT;
	r.rail = v->rail >= 0 ? v->rail : BB_ABSENT;
	if (node >= 0) {
		r.host = host_of(s, node);
		r.rank = s->ports.rank[node * s->ports.rails + (v->rail > 0 ? v->rail : 0)];
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
	if (node >= 0 && v->charge != BB_CHARGE_LINK)
		node_note(report, v, node, r.text);
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
	const struct bb_polish *fit = &s->views[quantity].fit;
	double most = -INFINITY;

	for (int k = 0; k < fit->rails; k++) {
		const double own = (sends ? fit->out : fit->in)[node * fit->rails + k];

		if (fit->base[k] + own > most)
			most = fit->base[k] + own;
		if (k == 0 || fit->base[k] < *base)
			*base = fit->base[k];
	}
	return most;
}

static void node_describe(const struct report *report, int node, struct bb_node_record *r)
{
	const struct bb_examiner *s = report->s;
	const double bytes = (double)s->diagnose->options.bytes;
	double usual = 0, sends, receives;

	bb_record_init(&bb_record_node, r);
	r->host = host_of(s, node);
	r->node = node;
	r->first_rank = s->ports.rank[node * s->ports.rails];
	r->verdict = report->codes[node] ? "BAD" : "OK";
	r->code = report->codes[node] ? report->codes[node] : "BB-OK";
	r->reason = report->codes[node] ? bb_strbuf_text(&report->reasons[node])
					: "as fast as the others";
	sends = worst_rail(s, BB_BANDWIDTH, true, node, &usual);
	receives = worst_rail(s, BB_BANDWIDTH, false, node, &usual);
	r->sends_GBps = 1e-9 * bytes / exp(sends);
	r->receives_GBps = 1e-9 * bytes / exp(receives);
	r->sends_share = exp(usual - sends);
	r->receives_share = exp(usual - receives);
	r->latency_us = 1e6 * exp(worst_rail(s, BB_LATENCY, false, node, &usual));
	r->partners = 0;
	for (int i = 0; i < s->survey.rounds.n; i++)
		r->partners += bb_rounds_partner(&s->survey.rounds, i, node) != BB_NOBODY;
}

#define MOST_HEALTHY 16 /* nodes that the text lists without -v */

static bb_status report_nodes(struct report *report)
{
	struct bb_examiner *s = report->s;
	struct bb_sinks *sinks = &s->engine.run->sinks;
	const bool all = s->ports.nodes <= MOST_HEALTHY || s->engine.run->options.verbose;
	char line[96];
	int healthy = 0;
	bb_status status = BB_OK;

	for (int i = 0; i < s->ports.nodes && status == BB_OK; i++) {
		struct bb_node_record r;

		node_describe(report, i, &r);
		s->engine.run->end.results++;
		healthy += !report->codes[i];
		status = (all || report->codes[i] ? bb_sinks_record
						  : bb_sinks_data)(sinks, &bb_record_node, &r);
	}
	if (status != BB_OK || all)
		return status;
	snprintf(line, sizeof(line), "# %d healthy node%s not listed; -v lists all nodes\n",
		 healthy, healthy == 1 ? " is" : "s are");
	return bb_sinks_comment(sinks, line);
}

/* ---- rounds of pairs
 * ------------------------------------------------------------------------------- */

static bb_status report_meetings(struct bb_examiner *s, const struct bb_diagnose_stage *stage,
				 const char *name)
{
	struct bb_pair_round_record r = {.stage = name};
	const struct bb_quantity latency = {&stage->rounds, s->ports.rails,
					    stage->log_s[BB_LATENCY], NULL};
	const struct bb_quantity bandwidth = {&stage->rounds, s->ports.rails,
					      stage->log_s[BB_BANDWIDTH], NULL};
	struct bb_measurement at = BB_BEFORE_MEASUREMENT;
	bb_status status = BB_OK;

	while (status == BB_OK && bb_quantity_next(&latency, &at)) {
		r.round = at.met.round;
		r.from = at.met.from;
		r.to = at.met.to;
		r.rail = at.rail;
		r.latency_us = 1e6 * exp(at.log_s);
		r.GBps = 1e-9 * (double)s->diagnose->options.bytes /
			 exp(bb_measured_at(&bandwidth, at.met.round, at.met.to, at.rail));
		status = bb_sinks_record(&s->engine.run->sinks, &bb_record_pair_round, &r);
	}
	return status;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void add_summary(const struct bb_examiner *s, struct bb_strbuf *lines)
{
	const struct bb_view *l = &s->views[BB_LATENCY], *b = &s->views[BB_BANDWIDTH];
	const struct bb_run *run = s->engine.run;
	double latency[BB_MOST_RAILS], bandwidth[BB_MOST_RAILS];
	const size_t rails = (size_t)s->ports.rails;

	memcpy(latency, l->fit.base, rails * sizeof(*latency));
	memcpy(bandwidth, b->fit.base, rails * sizeof(*bandwidth));
	bb_strbuf_addf(
		lines,
		"# typical: round trip of %d bytes %.3g us, bandwidth %.3g GB/s; noise %.0f%% and "
		"%.0f%%; slow from %.3g and %.3g times that time\n",
		BB_SMALL_BYTES, 1e6 * exp(bb_low_median(latency, rails)),
		1e-9 * (double)s->diagnose->options.bytes / exp(bb_low_median(bandwidth, rails)),
		100 * l->fit.noise.sigma, 100 * b->fit.noise.sigma, exp(l->limit), exp(b->limit));
	if (bb_examiner_is_crowded(s))
		bb_strbuf_addf(lines,
			       "# crowded: %d ranks share %d %s: only %d times the typical work "
			       "counts as slow\n",
			       run->world.nranks, (int)run->record.cores,
			       run->record.cores == 1 ? "processor" : "processors", BB_CROWDED);
}

/* The blocks of the network, and their distances from the largest. */
static void add_blocks(const struct bb_examiner *s, struct bb_strbuf *lines)
{
	static const char *const names[BB_QUANTITIES] = {"latency", "bandwidth"};

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

static bb_status report_all(struct report *report, struct bb_strbuf *lines)
{
	struct bb_examiner *s = report->s;
	bb_status status;

	BB_TRY(status, report_meetings(s, &s->survey, "survey"), out);
	BB_TRY(status, report_meetings(s, &s->confirm, "confirm"), out);
	for (int links = 0; links < 2; links++)
		BB_TRY(status, report_meetings(s, &s->alone[links], "alone"), out);
	/* Those of nodes first: their code is that of the node. */
	for (int straggling = 0; straggling < 2; straggling++)
		for (int i = 0; i < s->verdicts.n; i++)
			if ((s->verdicts.list[i].charge == BB_CHARGE_STRAGGLER) == straggling)
				BB_TRY(status, report_verdict(report, &s->verdicts.list[i], lines),
				       out);
	status = report_nodes(report);
out:
	return status;
}

bb_status bb_diagnose_report(struct bb_examiner *s)
{
	const size_t nodes = (size_t)s->ports.nodes;
	struct report report = {.s = s,
				.reasons = calloc(nodes, sizeof(*report.reasons)),
				.codes = calloc(nodes, sizeof(char *))};
	struct bb_strbuf lines = {0};
	size_t answer;
	bb_status status = report.reasons && report.codes ? BB_OK : BB_EINTERNAL;

	add_summary(s, &lines);
	add_blocks(s, &lines);
	answer = lines.length;
	if (status == BB_OK)
		status = report_all(&report, &lines);
	if (s->diagnose->culprits == 0)
		bb_strbuf_addf(&lines, "# culprits: none%s\n",
			       s->diagnose->unjudged ? " proven; not everybody could be judged"
						     : "");
	bb_run_answer(s->engine.run, &lines, answer);
	if (status == BB_OK)
		status = comment_deliver(s, &lines);
	bb_strbuf_free(&lines);
	for (size_t i = 0; i < nodes && report.reasons; i++)
		bb_strbuf_free(&report.reasons[i]);
	free(report.reasons);
	free((void *)report.codes);
	return status;
}
