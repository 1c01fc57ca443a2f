/*
 * planted.h - checks that a planted fault could be noticed: passing with a fault that no step
 * touches proves nothing.
 */
#ifndef BB_ACCEPTANCE_PLANTED_H
#define BB_ACCEPTANCE_PLANTED_H

#include "acceptance/session.h"

/*
 * If --fault was planted in the steps of S and changed none of their times, append a judgement
 * "fault" that could not be judged: it names the steps that would see it.
 */
void bb_planted_judge(const struct bb_acceptance_session *s, struct bb_judgements *judgements);

#endif
