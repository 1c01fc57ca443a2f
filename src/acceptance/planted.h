/*
 * planted.h - whether a planted fault was in the way of anything: a run that passes with a fault
 * that no step touched says nothing.
 */
#ifndef BB_ACCEPTANCE_PLANTED_H
#define BB_ACCEPTANCE_PLANTED_H

#include "acceptance/session.h"

/*
 * If --fault was planted in the steps of S and changed none of their times, append a judgement
 * "fault" that could not be judged: it names the steps that would see it. BB_EINTERNAL without
 * memory.
 */
BB_MUST bb_status bb_planted_judge(const struct bb_acceptance_session *s,
				   struct bb_judgements *judgements, struct bb_error *error);

#endif
