/*
 * explanation.h - what --explain prints and records: one algorithm after the other.
 */
#ifndef BB_COLLECTIVES_EXPLANATION_H
#define BB_COLLECTIVES_EXPLANATION_H

#include "core/strbuf.h"
#include "collectives/collective.h"
#include "harness/results/record.h"

#define BB_SCHEDULE_FIELDS(FIELD)                                                                  \
	FIELD(STRING, collective, "", "what is explained")                                         \
	FIELD(STRING, algorithm, "", "algorithm of the messages that follow")                      \
	FIELD(STRING, meaning, "", "its idea in a sentence")                                       \
	FIELD(STRING, matrix, "",                                                                  \
	      "alltoallv: matrix of --matrix; null: the generated one, or none")                   \
	FIELD(BOOL, reduces, "", "ranks add up what arrives")                                      \
	FIELD(INT, nranks, "", "ranks that take part")                                             \
	FIELD(INT, root, "", "rank; null: the collective has none")                                \
	FIELD(INT, count, "elements", "count parameter of the call; 0 with --matrix")              \
	FIELD(INT, rounds, "", "rounds of the call")                                               \
	FIELD(INT, least_rounds, "", "minimum of any algorithm whose ranks send once a round")     \
	FIELD(INT, messages, "", "messages in all rounds")                                         \
	FIELD(INT, elements, "elements", "elements sent in all messages")                          \
	FIELD(INT, least_elements, "elements", "minimum of any algorithm")                         \
	FIELD(INT, busiest_elements, "elements", "elements sent by the busiest rank")              \
	FIELD(DOUBLE, traffic_elements, "elements",                                                \
	      "memory traffic in elements copied; receiving and adding one counts 1.5")

/* An algorithm for the requested ranks. */
struct bb_schedule_record {
	BB_SCHEDULE_FIELDS(BB_MEMBER)
};

#define BB_MESSAGE_FIELDS(FIELD)                                                                   \
	FIELD(STRING, collective, "", "as in the schedule")                                        \
	FIELD(STRING, algorithm, "", "as in the schedule")                                         \
	FIELD(INT, round, "", "from 1")                                                            \
	FIELD(INT, from, "", "rank that sends")                                                    \
	FIELD(INT, to, "", "rank that receives; that of from: a copy in its memory")               \
	FIELD(INT, channel, "",                                                                    \
	      "messages of a pair are in order within a channel; a double tree "                   \
	      "has one per tree")                                                                  \
	FIELD(INT, count, "elements", "length")                                                    \
	FIELD(TEXT, source, "", "where it lies at the sender, as IN[4..7]")                        \
	FIELD(TEXT, content, "", "what it is, as c0+c3=4: the sum of element 2 of ranks 0 and 3")  \
	FIELD(INT, part, "",                                                                       \
	      "number of the part of the data that it is: its first element; where nothing is "    \
	      "added, counted through the IN of all ranks")                                        \
	FIELD(BOOL, adds, "", "the receiver adds it to what it has")                               \
	FIELD(TEXT, effect, "", "what the receiver does, as OUT[2] = IN[2] + received")

/* A message of a round. */
struct bb_message_record {
	BB_MESSAGE_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_schedule, bb_record_message;

struct bb_run;

/*
 * Append to OUT an explanation of every algorithm in SETTINGS, which have been checked for
 * --explain, with one element per chunk unless -b gives more, and hand its records to the sinks of
 * RUN, which bb_estimate_open has begun. An algorithm without a schedule, as those of NATIVES (the
 * backend's), gets a line with the reason. BB_EUNSUPPORTED with the first of these reasons if
 * nothing could be explained.
 */
BB_MUST bb_status bb_explanation_add(struct bb_strbuf *out, struct bb_run *run,
				     const struct bb_collective_options *settings,
				     const struct bb_native *natives);

#endif
