/*
 * judge.h - who is to blame. Pure: from what was measured to verdicts.
 *
 * Twice: a survey says who is suspected, and is liberal; then suspects are measured again with
 * partners that are proven good (rounds.h), and what they are charged with is judged by
 * the second measurement alone. So what was chosen because it looked bad is not judged by what it
 * was chosen for. Whoever is convicted is measured a third time, with all others silent and in turn
 * with a pair that is not suspected: what goes beside it, or shares its processors, does not count
 * against it.
 *
 * The test counts. A measurement is slow if it takes longer than what is usual by the tolerance,
 * and by four sigma of the noise. How often that happens to the healthy is counted on those who are
 * measured beside; a suspect that is slow more often than chance allows (beta-binomial; 0.05
 * percent for all charges of a run together) is guilty: steadily from 3/4 of its measurements on,
 * else flapping, if it was so at three separate times at least. No distribution of the noise is
 * assumed.
 */
#ifndef BB_DIAGNOSE_JUDGE_H
#define BB_DIAGNOSE_JUDGE_H

#include "diagnose/fit.h"

#define BB_QUANTITIES 2  /* latency, bandwidth */
#define BB_MOST_RAILS 64 /* ranks of a node */
#define BB_STEADY 0.8    /* of the measurements; below it flaps */

enum bb_charge {
	BB_CHARGE_NODE, /* all or most of its rails */
	BB_CHARGE_PORT, /* a rail of one node */
	BB_CHARGE_RAIL, /* a rail of all nodes */
	BB_CHARGE_LINK, /* the way from one node to another */
	BB_CHARGE_STRAGGLER
};

struct bb_diagnosis {
	enum bb_charge charge;
	int node;                    /* STRAGGLER: a rank; RAIL: -1 */
	int peer;                    /* LINK: where it leads; else -1 */
	int rail;                    /* -1: all, or most */
	bool sends, receives;        /* NODE, PORT: in which direction; LINK: there, and back */
	bool slow[BB_QUANTITIES];    /* in which quantity */
	double limit[BB_QUANTITIES]; /* the logarithm of the factor beyond which it was */
	double factor;               /* of the usual time, when slow */
	double share;                /* of its measurements that were slow */
	int measured;
	double chance; /* that a healthy one looks so, for all charges together */
	bool flapping;
	bool alone;     /* was it measured alone too, */
	bool contended; /* and was fast then? It is not to blame */
	bool shares;    /* PORT: nor is it slow alone, but with other rails of its node: they are */
};

struct bb_verdicts { /* zero-initialise */
	struct bb_diagnosis *list;
	int n, room;
};

void bb_verdicts_free(struct bb_verdicts *verdicts);
BB_MUST bb_status bb_verdicts_add(struct bb_verdicts *verdicts, const struct bb_diagnosis *verdict);

/* What the survey of one quantity says. */
struct bb_view { /* zero-initialise */
	struct bb_quantity measured;
	struct bb_polish fit;
	double floor; /* logarithm of the factor below which nothing is slow; set by the caller */
	double limit; /* likewise from which on a measurement is */
	int slow,
		of;  /* measurements that were, once what is the nodes' is taken off; all of them */
	double rate; /* at which that happens to the healthy */
};

/* TOLERANCE: the share of its speed that may be missing. Free VIEW by bb_polish_free of its fit. */
BB_MUST bb_status bb_view_make(struct bb_view *view, const struct bb_quantity *m, double tolerance);

/* Whom VIEWS suspect: less than half of the nodes. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_suspect(struct bb_suspects *suspects, const struct bb_view *views, int n);

/* Add verdicts on SUSPECTS by what was measured in the rounds that confirm, one of MEASURED for
   each of VIEWS: on nodes and their rails, and on rails of all nodes by both. */
BB_MUST bb_status bb_convict(struct bb_verdicts *verdicts, const struct bb_suspects *suspects,
			     const struct bb_view *views, const struct bb_quantity *measured, int n,
			     double tolerance);

/* Likewise on links; not those of a node that VERDICTS blame, alone as well. */
BB_MUST bb_status bb_convict_links(struct bb_verdicts *verdicts, const struct bb_suspects *suspects,
				   const struct bb_view *views, const struct bb_quantity *measured,
				   int n, double tolerance);

/* LIST = what is to be measured alone because of VERDICTS from number FIRST on, the first that
   there is room for. Returns how much that is. */
int bb_lone_list(const struct bb_verdicts *verdicts, int first, struct bb_lone list[BB_MOST_LONE]);

/* How often each of them is to be. */
int bb_lone_times(const struct bb_verdicts *verdicts, int first);

/*
 * What bb_rounds_alone measured of that list: whose slow measurements are likelier of those that
 * were measured in turn with it than of what it was convicted for is not to blame: what goes beside
 * it is in its way, and VERDICTS say that it is contended. Of a node that is not slow as a whole
 * its rails are blamed that are slow by themselves. Several rails of a node, but not most, that are
 * fast alone and steadily slow together share what those of other nodes have for themselves: that
 * is to blame. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_acquit(struct bb_verdicts *verdicts, int first, const struct bb_view *views,
			    const struct bb_quantity *alone, int n);

/*
 * Add verdicts on ranks that come late to collectives: WAITS[step * ranks + rank] = seconds that a
 * rank spent in a collective, of which who comes last spends least. STEP_S: what a step takes. No
 * clock is compared with another.
 */
BB_MUST bb_status bb_find_stragglers(struct bb_verdicts *verdicts, const float *waits, int steps,
				     int ranks, double step_s, double tolerance);

#endif
