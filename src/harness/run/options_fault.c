/*
 * options_fault.c - --fault: from words to what is wrong.
 */
#include "core/units.h"
#include "harness/run/options_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FACTOR 1e6 /* of a slow link */
#define FAULT_WORDS 5

static const struct {
	const char *word, *form;
	int words;
} faults[] = {
	[BB_FAULT_CORRUPT] = {"corrupt", "corrupt:RANK", 2},
	[BB_FAULT_SLOW] = {"slow", "slow:RANK:TIME (slow:2:5ms)", 3},
	[BB_FAULT_DIE] = {"die", "die:RANK", 2},
	[BB_FAULT_SLOW_LINK] = {"slow_link", "slow_link:FROM:TO:FACTOR (slow_link:0:1:1.5)", 4},
	[BB_FAULT_SWAP] = {"swap", "swap:RANK", 2},
	[BB_FAULT_SLOW_NODE] = {"slow_node", "slow_node:NODE:FACTOR (slow_node:3:2)", 3},
	[BB_FAULT_SLOW_RAIL] = {"slow_rail", "slow_rail:NODE:RAIL:FACTOR (slow_rail:3:0:2)", 4},
	[BB_FAULT_LOST_RAIL] = {"lost_rail", "lost_rail:NODE:RAIL (lost_rail:3:0)", 3},
	[BB_FAULT_FLAPPING_NODE] = {"flapping_node",
				    "flapping_node:NODE:FACTOR:SHARE (flapping_node:3:4:0.4)", 4},
	[BB_FAULT_FLAPPING_LINK] = {"flapping_link",
				    "flapping_link:FROM:TO:FACTOR:SHARE (flapping_link:0:1:4:0.4)",
				    5},
	[BB_FAULT_LATE] = {"late", "late:RANK:TIME (late:2:5ms)", 3},
};

/* What the backend of virtual time does on a cluster, whatever the benchmark obeys. */
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
		bb_strbuf_add(out, "\nOf --fault this program obeys:\n");
		add_kinds(out, known);
	}
	bb_strbuf_add(out, "\nOf --fault, where it runs on --backend sim with --cluster, also:\n");
	add_kinds(out, OF_CLUSTERS & ~known);
}

static bb_status unknown_fault(const struct bb_options *o, unsigned known, struct bb_error *error)
{
	const char *forms[BB_NFAULTS];
	int n = 0, k;
	char list[640] = "";

	for (k = BB_FAULT_NONE + 1; k < BB_NFAULTS; k++)
		if (known >> k & 1)
			forms[n++] = faults[k].form;
	if (n == 0)
		return bb_fail(error, BB_EUSAGE, "--fault %s: %s obeys no faults; leave it out",
			       o->fault_text, o->program);
	for (k = 0; k < n; k++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			 k == 0       ? ""
			 : k == n - 1 ? " or "
				      : ", ",
			 forms[k]);
	return bb_fail(error, BB_EUSAGE, "--fault: \"%s\" is not understood; give %s",
		       o->fault_text, list);
}

static bool read_share(double *share, const char *word)
{
	char *end;

	*share = strtod(word, &end);
	return end != word && !*end && *share > 0 && *share <= 1;
}

static bool read_factor(double *factor, const char *word)
{
	char *end;

	*factor = strtod(word, &end);
	return end != word && !*end && *factor > 1 && *factor <= MOST_FACTOR;
}

/* The words behind the kind's name. */
static bool read_fault(struct bb_fault *fault, char *const *words)
{
	uint64_t ns = 0;

	if (!bb_parse_rank(words[1], &fault->rank))
		return false;
	switch (fault->kind) {
	case BB_FAULT_SLOW:
	case BB_FAULT_LATE:
		if (!bb_parse_duration(words[2], &ns))
			return false;
		fault->seconds = (double)ns * 1e-9;
		return true;
	case BB_FAULT_SLOW_LINK:
		return bb_parse_rank(words[2], &fault->to) && fault->to != fault->rank &&
		       read_factor(&fault->factor, words[3]);
	case BB_FAULT_FLAPPING_LINK:
		return bb_parse_rank(words[2], &fault->to) && fault->to != fault->rank &&
		       read_factor(&fault->factor, words[3]) && read_share(&fault->share, words[4]);
	case BB_FAULT_FLAPPING_NODE:
		fault->to = -1;
		return read_factor(&fault->factor, words[2]) && read_share(&fault->share, words[3]);
	case BB_FAULT_SLOW_NODE:
		fault->to = -1;
		return read_factor(&fault->factor, words[2]);
	case BB_FAULT_SLOW_RAIL:
		return bb_parse_rank(words[2], &fault->to) && read_factor(&fault->factor, words[3]);
	case BB_FAULT_LOST_RAIL:
		return bb_parse_rank(words[2], &fault->to);
	default:
		return true;
	}
}

/* What the backend is to know of it. */
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
		o->config.slow_rank.rank = fault->rank;
		o->config.slow_rank.seconds = fault->seconds;
		break;
	case BB_FAULT_SLOW_NODE:
	case BB_FAULT_SLOW_RAIL:
	case BB_FAULT_LOST_RAIL:
		o->config.flawed = o->cluster_text != NULL;
		o->config.flaw = (struct bb_fabric_flaw){fault->rank, fault->to, fault->factor};
		break;
	default:
		break;
	}
}

bb_status bb_options_fault(struct bb_options *o, unsigned known, struct bb_error *error)
{
	char copy[64], *words[FAULT_WORDS + 1], *rest = NULL, *word;
	int n = 0, kind = BB_FAULT_NONE + 1;

	if (!o->fault_text)
		return BB_OK;
	if (o->backend->virtual)
		known |= 1u << BB_FAULT_SLOW_LINK;
	if (o->cluster_text)
		known |= OF_CLUSTERS;
	snprintf(copy, sizeof(copy), "%s", o->fault_text);
	for (word = copy; word && n <= FAULT_WORDS; word = rest) {
		rest = strchr(word, ':');
		if (rest)
			*rest++ = '\0';
		words[n++] = word;
	}
	while (kind < BB_NFAULTS && (!(known >> kind & 1) || strcmp(copy, faults[kind].word) != 0))
		kind++;
	o->fault.kind = kind < BB_NFAULTS ? (enum bb_fault_kind)kind : BB_FAULT_NONE;
	if (kind == BB_NFAULTS || n != faults[kind].words || word ||
	    strlen(o->fault_text) >= sizeof(copy) || !read_fault(&o->fault, words))
		return unknown_fault(o, known, error);
	configure(o);
	return BB_OK;
}
