/*
 * harness.h - the way through a run: options -> plan -> run loop -> records -> sinks.
 *
 *   benchmark.h   what makes a program out of this: a descriptor
 *   options.h     what was asked for, checked
 *   collective.h  the benchmark of a collective
 *   plugin.h   backends and launches that are loaded at run time
 *   run.h      one run, from start-up to exit status
 *   world.h    what the processes of a run agree on
 *   plan.h     the ordered list of cases that a request makes
 *   record.h   what is known about the run and about each case once it is done
 *   sink.h     where records go: text, CSV, JSON lines, nccl-tests' JSON
 *   compare.h  several algorithms side by side
 */
#ifndef BB_HARNESS_RUN_HARNESS_H
#define BB_HARNESS_RUN_HARNESS_H

#include "core/version.h"
#include "schedules/schedule.h"

struct bb_benchmark;

/* The whole of a perf binary. Returns the exit status (see status.h). */
int bb_main(int argc, char **argv, const struct bb_benchmark *benchmark);
int bb_collective_main(int argc, char **argv, const struct bb_collective *collective);

#endif
