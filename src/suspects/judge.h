/*
 * judge.h - who is to blame: from measurements to verdicts. Pure.
 *
 * A survey suspects liberally. Suspects are measured again with partners that are proven good
 * (rounds.h), and the charges are judged by the second measurement alone, so nothing is judged by
 * what made it a suspect. Nodes, rails and links that are convicted are measured a third time, with
 * all others silent and in turn with a pair that is not suspected: what communicates beside them,
 * or shares their processors, does not count against them.
 *
 * The test counts. A measurement is slow if it takes longer than is typical by the tolerance and by
 * four sigma of the noise. How often that happens to the healthy is counted on those that are
 * measured at the same time. A suspect that is slow more often than chance allows (beta-binomial;
 * BB_FALSE_BLAME for all charges of a run together) is guilty: steadily if the share BB_STEADY of
 * its measurements is at least half as far off, else flapping, if it was slow BB_LEAST_TIMES
 * separate times. No distribution of the noise is assumed.
 */
#pragma once

#include "suspects/fit.h"

enum bb_charge {
	BB_CHARGE_NODE, /* all or most of its rails */
	BB_CHARGE_PORT, /* a rail of one node */
	BB_CHARGE_RAIL, /* a rail of all nodes */
	BB_CHARGE_LINK, /* from one node to another */
	BB_CHARGE_STRAGGLER
};

struct bb_diagnosis {
	enum bb_charge charge;
	int node;                    /* STRAGGLER: a rank; RAIL: -1 */
	int peer;                    /* LINK: where it leads; else -1 */
	int rail;                    /* -1: all, or most */
	bool sends, receives;        /* slow in this direction; LINK: there, and back */
	bool slow[BB_QUANTITIES];    /* in this quantity */
	double limit[BB_QUANTITIES]; /* logarithm of the factor from which on it was slow */
	double factor;               /* of the typical time, when slow */
	double share;                /* of its measurements that were slow */
	int measured;
	double chance; /* that a healthy one looks so, for all charges together */
	bool flapping;
	bool alone;     /* measured alone too */
	bool contended; /* and was fast then: it is not to blame */
	bool shares;    /* PORT: fast alone, slow together with other rails of its node */
};

struct bb_verdicts { /* zero-initialise; free the list */
	struct bb_diagnosis *list;
	int n, room;
	bool unjudged; /* a suspect has no reference: it is neither guilty nor cleared */
};

BB_MUST bb_status bb_verdicts_add(struct bb_verdicts *verdicts, const struct bb_diagnosis *verdict);

/* The rounds of a survey of NODES, at least 3, after which one is suspected that was slow in
   BB_STEADY of its measurements, while a quarter of the others' were slow by chance. */
int bb_survey_least(int nodes);

/* SUSPECTS = the nodes, fewer than half, and links that one of N VIEWS suspects. BB_EINTERNAL
   without memory. */
BB_MUST bb_status bb_suspect(struct bb_suspects *suspects, const struct bb_view *views, int n);

enum bb_accused { BB_ACCUSED_NODES, BB_ACCUSED_LINKS };

/* Add verdicts on the suspected nodes and their rails, and on rails of all nodes; or on suspected
   links, but for those of a node that VERDICTS blame. MEASURED has the rounds that confirm. VIEWS
   and MEASURED are of each quantity. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_convict(struct bb_verdicts *verdicts, enum bb_accused accused,
			     const struct bb_suspects *suspects, const struct bb_view *views,
			     const struct bb_quantity *measured, double tolerance);

/* PLAN = the nodes, rails and links of VERDICTS from number FIRST on that are to be measured alone,
   as many as it has room for, and how often. */
void bb_lone_plan_make(struct bb_lone_plan *plan, const struct bb_verdicts *verdicts, int first);

/*
 * Judge the convicted of that plan by what bb_rounds_alone measured. If the slow measurements of
 * one fit its reference better than the share for which it was convicted, it is contended and not
 * to blame. Several rails of a node that are fast alone and steadily slow together share a NIC or a
 * link: they are to blame. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_acquit(struct bb_verdicts *verdicts, int first, const struct bb_view *views,
			    const struct bb_quantity *alone);

/*
 * Add verdicts on ranks that come late to collectives. WAITS[rank * steps + step] = seconds that a
 * rank spent in the collective; the last to come spends the least. STEP_S: seconds of a step. No
 * clock is compared with another. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_find_stragglers(struct bb_verdicts *verdicts, const float *waits, int steps,
				     int ranks, double step_s, double tolerance);
