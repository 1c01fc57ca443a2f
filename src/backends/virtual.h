/*
 * virtual.h - the part of a backend whose time is virtual.
 *
 * One driver, rank 0's, stands for all ranks of the world. What it calls happens to all of them,
 * its clock is the latest of theirs; programs are evaluated.
 */
#ifndef BB_BACKENDS_VIRTUAL_H
#define BB_BACKENDS_VIRTUAL_H

#include "core/status.h"
#include "core/strbuf.h"
#include "simulator/timeline.h"

struct bb_backend;
struct bb_context;
struct bb_group;
struct bb_rank;

struct bb_virtual {
	/* The same backend for collectives over a cluster of GPUs, whose algorithms are called as
	   their library calls them. */
	const struct bb_backend *over_gpus;
	/* Lines that begin with "# ": what its times come from; nothing where the options say it.
	 */
	void (*explain)(const struct bb_context *context, struct bb_strbuf *out);
	/* Let SECONDS pass on all ranks. */
	void (*delay)(struct bb_rank *rank, double seconds);
	/* PROGRAM, which has passed its check, from now on, on all ranks. WATCH, which may be NULL,
	   hears of its operations on this rank's clock. *END = when all was done. */
	bb_status (*evaluate)(struct bb_rank *rank, const struct bb_program *program,
			      const struct bb_timeline_watch *watch, double *end,
			      struct bb_error *error);
	/* How the last collective of GROUP was evaluated (bb_evaluator_name), and what this rank's
	   clock would say now had nothing been wrong; NAN: nothing is. */
	void (*played)(struct bb_group *group, const char **evaluator, double *faultless);
	/*
	 * Append what collectives were done by since open, those of programs too: "all_reduce among
	 * 16: nvlstree:Simple model, busbench:ring alike"; nothing of none. True: some by a model
	 * of the library's, which has each of them alone.
	 */
	bool (*recount)(const struct bb_context *context, struct bb_strbuf *out);
};

#endif
