/*
 * harness.h - main() of the perf programs: options, plan, run, records, sinks.
 *
 *   benchmark.h   the descriptor that each program supplies
 *   options.h     the options, parsed and checked
 *   plugin.h      backends and launches that are loaded at run time
 *   run.h         one run, from start-up to exit status
 *   world.h       what the processes of a run agree on
 *   record.h      what is known about the run and about each finished case
 *   sink.h        where records go: text, CSV, JSON lines
 */
#ifndef BB_HARNESS_RUN_HARNESS_H
#define BB_HARNESS_RUN_HARNESS_H

#include "core/version.h"
#include "schedules/schedule.h"

struct bb_benchmark;

/* main() of a perf program. Returns the exit status (see status.h). */
int bb_main(int argc, char **argv, const struct bb_benchmark *benchmark);

#endif
