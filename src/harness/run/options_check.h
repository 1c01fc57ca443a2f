/*
 * options_check.h - conflicts between parsed options, and tools for checks.
 */
#ifndef BB_HARNESS_RUN_OPTIONS_CHECK_H
#define BB_HARNESS_RUN_OPTIONS_CHECK_H

#include "core/output.h"
#include "harness/run/options.h"

/* Copy the word at *LIST and move *LIST to the comma or end behind it. False: empty or too long. */
#define BB_WORD 64 /* longest name in a list, with its end */
bool bb_next_word(const char **list, char word[BB_WORD]);

/* Check that RANK, named by FLAG TEXT (NULL: the number), is one of NRANKS. WHERE, "among" for all
   ranks, precedes their number in the message. */
BB_MUST bb_status bb_check_rank(const char *flag, const char *text, int rank, int nranks,
				const char *where, struct bb_error *error);

/* Check that the output files of OPTIONS and those of MORE (NULL: none; their path may be NULL)
   differ and, if this process WRITES them, that they can be written. Only process 0 does; the hosts
   of others may not have the folder. */
#define BB_MORE_OUTPUTS 2
BB_MUST bb_status bb_check_outputs(const struct bb_options *options,
				   const struct bb_output more[BB_MORE_OUTPUTS], bool writes,
				   struct bb_error *error);

/* Read --fault. KNOWN has a bit for each kind that the benchmark supports; virtual time supports
   some more. BB_EUSAGE lists the forms of all kinds that are supported. */
BB_MUST bb_status bb_options_fault(struct bb_options *options, unsigned known,
				   struct bb_error *error);
/* Append the list of these kinds, for the end of --help. */
void bb_options_fault_help(unsigned known, struct bb_strbuf *out);

#endif
