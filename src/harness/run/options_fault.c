/*
 * options_fault.c - reads --fault.
 */
#include "core/units.h"
#include "harness/run/options_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FACTOR 1e6 /* of a slow link */

/* FIELDS are the words behind the name, a letter each: see fault_read. */
static const struct {
	const char *name, *fields, *form;
} faults[] = {
	[BB_FAULT_CORRUPT] = {"corrupt", "R", "corrupt:RANK"},
	[BB_FAULT_SLOW] = {"slow", "RD", "slow:RANK:TIME (slow:2:5ms)"},
	[BB_FAULT_DIE] = {"die", "R", "die:RANK"},
	[BB_FAULT_SLOW_LINK] = {"slow_link", "RPF", "slow_link:FROM:TO:FACTOR (slow_link:0:1:1.5)"},
	[BB_FAULT_SWAP] = {"swap", "R", "swap:RANK"},
	[BB_FAULT_SLOW_NODE] = {"slow_node", "RF", "slow_node:NODE:FACTOR (slow_node:3:2)"},
	[BB_FAULT_SLOW_RAIL] = {"slow_rail", "RTF", "slow_rail:NODE:RAIL:FACTOR (slow_rail:3:0:2)"},
	[BB_FAULT_LOST_RAIL] = {"lost_rail", "RT", "lost_rail:NODE:RAIL (lost_rail:3:0)"},
	[BB_FAULT_LATE] = {"late", "RD", "late:RANK:TIME (late:2:5ms)"},
};

/* The kinds that a cluster simulates for every benchmark. */
#define OF_CLUSTERS                                                                                \
	(1u << BB_FAULT_SLOW_NODE | 1u << BB_FAULT_SLOW_RAIL | 1u << BB_FAULT_LOST_RAIL |          \
	 1u << BB_FAULT_SLOW_LINK)

static void add_kinds(struct bb_strbuf *out, unsigned kinds)
{
	for (int k = BB_FAULT_NONE + 1; k < BB_NFAULTS; k++)
		if (kinds >> k & 1)
			bb_strbuf_addf(out, "      %s\n", faults[k].form);
}

void bb_options_fault_help(unsigned known, struct bb_strbuf *out)
{
	if (known) {
		bb_strbuf_add(out, "\nKinds of --fault:\n");
		add_kinds(out, known);
	}
	bb_strbuf_add(out, "\nMore kinds of --fault with --backend sim --cluster:\n");
	add_kinds(out, OF_CLUSTERS & ~known);
}

/* What the field FIELD of a fault must be. */
static const char *field_is(char field)
{
	switch (field) {
	case 'R':
		return "a rank or node";
	case 'P':
		return "another rank";
	case 'T':
		return "a rail";
	case 'F':
		return "a factor above 1 and at most 1000000";
	default:
		return "a time";
	}
}

static bb_status unknown_fault(const struct bb_options *o, unsigned known, const char *name,
			       struct bb_error *error)
{
	const char *forms[BB_NFAULTS], *names[BB_NFAULTS], *near;
	int n = 0, k;
	char list[640] = "";

	for (k = BB_FAULT_NONE + 1; k < BB_NFAULTS; k++) {
		if (!(known >> k & 1))
			continue;
		names[n] = faults[k].name;
		forms[n++] = faults[k].form;
	}
	names[n] = NULL;
	if (n == 0)
		return bb_fail(error, BB_EUSAGE, "--fault %s: %s supports no faults; leave it out",
			       o->fault_text, o->program);
	near = bb_nearest(name, names);
	for (k = 0; k < n; k++)
		if (!near || names[k] == near)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
				 !*list       ? ""
				 : k == n - 1 ? " or "
					      : ", ",
				 forms[k]);
	return bb_fail(error, BB_EUSAGE, "--fault %s: \"%s\" is not a fault here; %s %s%s",
		       o->fault_text, name, near ? "did you mean" : "give", list, near ? "?" : "");
}

/* Reads WORD as a number above LOW, at most HIGH. */
static bool number_read(const char *word, double low, double high, double *value)
{
	char *end;

	*value = strtod(word, &end);
	return end != word && !*end && *value > low && *value <= high;
}

static bool fault_read(struct bb_fault *fault, char field, const char *word)
{
	uint64_t ns;

	switch (field) {
	case 'R': /* a rank or node */
		return bb_parse_rank(word, &fault->rank);
	case 'P': /* its peer, another rank */
		return bb_parse_rank(word, &fault->to) && fault->to != fault->rank;
	case 'T': /* a rail */
		return bb_parse_rank(word, &fault->to);
	case 'F': /* a factor */
		return number_read(word, 1, MOST_FACTOR, &fault->factor);
	default: /* a duration */
		if (!bb_parse_duration(word, &ns))
			return false;
		fault->seconds = (double)ns * 1e-9;
		return true;
	}
}

/* Copies into the configuration of the backend, or of virtual time, what it simulates. */
static void configure(struct bb_options *o)
{
	const struct bb_fault *fault = &o->fault;

	switch (fault->kind) {
	case BB_FAULT_SLOW_LINK:
		o->config.slow_link.from = fault->rank;
		o->config.slow_link.to = fault->to;
		o->config.slow_link.factor = fault->factor;
		break;
	case BB_FAULT_SLOW:
		o->virtual.slow_rank.rank = fault->rank;
		o->virtual.slow_rank.seconds = fault->seconds;
		break;
	case BB_FAULT_SLOW_NODE:
	case BB_FAULT_SLOW_RAIL:
	case BB_FAULT_LOST_RAIL:
		o->virtual.flawed = o->cluster_text != NULL;
		o->virtual.flaw = (struct bb_fabric_flaw){fault->rank, fault->to, fault->factor};
		break;
	default:
		break;
	}
}

/* Reads what follows the name, REST, as the fields of o->fault; NULL: nothing follows. */
static bb_status fields_read(struct bb_options *o, char *rest, struct bb_error *error)
{
	const char *form = faults[o->fault.kind].form, *word;

	for (const char *field = faults[o->fault.kind].fields; *field; field++) {
		word = strsep(&rest, ":");
		if (!word)
			return bb_fail(error, BB_EUSAGE, "--fault %s: incomplete; give %s",
				       o->fault_text, form);
		if (!fault_read(&o->fault, *field, word))
			return bb_fail(error, BB_EUSAGE, "--fault %s: \"%s\" is not %s; give %s",
				       o->fault_text, word, field_is(*field), form);
	}
	if (rest)
		return bb_fail(error, BB_EUSAGE, "--fault %s: \"%s\" is too much; give %s",
			       o->fault_text, rest, form);
	return BB_OK;
}

bb_status bb_options_fault(struct bb_options *o, unsigned known, struct bb_error *error)
{
	char copy[64], *rest = copy, *name;
	int kind = BB_FAULT_NONE + 1;
	bb_status st;

	if (!o->fault_text)
		return BB_OK;
	if (o->backend->virtual)
		known |= 1u << BB_FAULT_SLOW_LINK;
	if (o->cluster_text)
		known |= OF_CLUSTERS;
	snprintf(copy, sizeof(copy), "%s", o->fault_text);
	name = strsep(&rest, ":");
	while (kind < BB_NFAULTS && (!(known >> kind & 1) || strcmp(name, faults[kind].name) != 0))
		kind++;
	if (kind == BB_NFAULTS)
		return unknown_fault(o, known, name, error);
	if (strlen(o->fault_text) >= sizeof(copy))
		return bb_fail(error, BB_EUSAGE, "--fault %s: too long; give %s", o->fault_text,
			       faults[kind].form);
	o->fault = (struct bb_fault){.kind = (enum bb_fault_kind)kind, .to = -1};
	BB_TRY(st, fields_read(o, rest, error), out);
	configure(o);
out:
	return st;
}
