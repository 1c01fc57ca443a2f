/*
 * verdict.h - the verdict of an acceptance run as text, JSON and JUnit's XML.
 */
#pragma once

#include "acceptance/judge.h"
#include "acceptance/nodes.h"
#include "acceptance/session.h"

struct bb_acceptance {
	const struct bb_acceptance_session *session;
	const struct bb_judgements *judgements;
	const struct bb_nodes *nodes;
	struct bb_totals totals;
	bool strict, verbose; /* verbose: the text lists what passed or was skipped, too */
};

/* "passed", "failed", "could not judge", "interrupted" */
const char *bb_acceptance_word(const struct bb_acceptance *a);

/* Append the lines of TEXT, which is prose. On a terminal they wrap at words, and go on two blanks
   further in. */
void bb_acceptance_prose(const char *text, struct bb_strbuf *out);

/* A table of the checks with a number, the reasons of those that did not pass, a line for each node
   that is not OK, the commands that drain bad ones, which nobody runs by itself, and the
   sentences. */
void bb_acceptance_text(const struct bb_acceptance *a, struct bb_strbuf *out);
/* verdict.json: docs/acceptance.md describes it. */
void bb_acceptance_json(const struct bb_acceptance *a, struct bb_strbuf *out);
/* A test suite for each step; failure: below a gate, error: could not be judged. */
void bb_acceptance_junit(const struct bb_acceptance *a, struct bb_strbuf *out);
