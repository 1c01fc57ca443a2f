/*
 * compare.h - two runs of the same measurements: differences beyond their noise.
 */
#ifndef BB_ACCEPTANCE_COMPARE_H
#define BB_ACCEPTANCE_COMPARE_H

#include "acceptance/records.h"

/*
 * The least share of the results of BEFORE that must be judged for the answer "not slower": what is
 * slow often is slow in one of few algorithms or sizes, and one of five must not hide among those
 * that could not be judged.
 */
#define BB_COMPARE_SHARE 0.8

/* One quantity that both runs measured. */
struct bb_difference {
	char subject[BB_SUBJECT_TEXT];
	const char *unit;
	size_t nbefore, nafter; /* measurements of it */
	double before, after;   /* their geometric means, in UNIT */
	double change;          /* of speed, as a fraction: below 0 it is slower now */
	double low, high;       /* 95% interval of that; NAN: the noise is unknown */
	bool within_runs;       /* the interval is of the iterations of one run on each side */
};

struct bb_differences { /* zero-initialise */
	struct bb_difference *list;
	size_t n;
	size_t only_before, only_after; /* subjects of one side alone */
	size_t wrong;                   /* results of AFTER with wrong data */
};

/*
 * Compare AFTER with BEFORE, records of the same subject (bb_record_subject). The list is sorted by
 * change, the slowest first. The interval follows from the spread between runs if both sides have
 * several (Welch's t of logarithms), else from the intervals of medians within one run, which do
 * not include the variation between runs. Virtual time without noise is exact: the interval is the
 * change. BB_EINTERNAL without memory. Free OUT whatever comes back.
 */
BB_MUST bb_status bb_compare(const struct bb_records *before, const struct bb_records *after,
			     struct bb_differences *out, struct bb_error *error);
void bb_differences_free(struct bb_differences *d);

#endif
