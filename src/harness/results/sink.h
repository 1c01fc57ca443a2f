/*
 * sink.h - where records go.
 *
 * A sink writes a record completely and flushes it before the call returns, so that a crash
 * loses nothing already measured.
 */
#pragma once

#include "harness/run/options.h"
#include "harness/results/record.h"

#include <stdio.h>

struct bb_sink; /* one open sink; each kind embeds it */

/* A kind of sink: what it does with each record; NULL: nothing. All return BB_OK or a failure,
   which bb_sinks reports once for all kinds. */
struct bb_sink_ops {
	size_t bytes; /* of the struct that embeds its struct bb_sink */
	bool folds;   /* its '#' lines are folded to the width of a terminal */
	/* BEGIN or END NULL: RECORD gets the record of the run, or of its end. */
	bb_status (*begin)(struct bb_sink *sink, const struct bb_run_record *run);
	/* RECORD is a struct of KIND; a sink ignores kinds that it does not know. */
	bb_status (*record)(struct bb_sink *sink, const struct bb_record_kind *kind,
			    const void *record);
	bb_status (*comment)(struct bb_sink *sink, const char *lines);
	bb_status (*end)(struct bb_sink *sink, const struct bb_end_record *end);
	/* For bb_text_comment and bb_text_end: appends to OUT the rows that are not printed yet. */
	void (*flush)(struct bb_sink *sink);
	void (*release)(struct bb_sink *sink); /* frees what the kind owns, not the sink or file */
};

struct bb_sink {
	const struct bb_sink_ops *ops;
	const struct bb_run_record *run;   /* borrowed between begin and end */
	const struct bb_record_kind *rows; /* kind of the rows of --csv */
	FILE *file;
	const char *path;     /* for reports */
	struct bb_strbuf out; /* text that is not written yet */
	int width;            /* of its '#' lines, which are folded to it; 0: as long as they are */
	bool owns_file;
	bool failed; /* nothing more is written: a failure was reported, or a stuck thread has FILE
		      */
};

extern const struct bb_sink_ops bb_sink_csv, bb_sink_jsonl;
/* Text: a head that says what ran, for each kind with columns a table, comments, and how it ended.
   For benchmarks whose results are rows. */
extern const struct bb_sink_ops bb_sink_table;

/* A sink of the kind OPS on FILE; NULL without memory. */
struct bb_sink *bb_sink_open(const struct bb_sink_ops *ops, FILE *file, const char *path);
void bb_sink_close(struct bb_sink *sink); /* NULL: nothing */

/* For the kinds: write TEXT to the file without control characters, its '#' lines folded, flush it,
   and empty TEXT. What could be written only in part is cut off again. */
bb_status bb_sink_write(struct bb_sink *sink, struct bb_strbuf *text);
/* Append "  precision: …  fault: …  link: …  noise: …", those that are set. */
void bb_sink_add_settings(struct bb_strbuf *out, const struct bb_run_record *run);
/* Append what virtual time is simulated with; nothing for real runs. */
void bb_sink_add_virtual(struct bb_strbuf *out, const struct bb_run_record *run);

/* For text without nccl-tests' layout, append '#' lines: what ran, where and how; a skipped case,
   with COLLECTIVE unless that is NULL. */
void bb_sink_add_head(struct bb_strbuf *out, const struct bb_run_record *run);
void bb_sink_add_skip(struct bb_strbuf *out, const char *collective,
		      const struct bb_skip_record *skip);
/* The same as functions of struct bb_sink_ops. */
bb_status bb_text_begin(struct bb_sink *sink, const struct bb_run_record *run);
bb_status bb_text_comment(struct bb_sink *sink, const char *lines);
bb_status bb_text_end(struct bb_sink *sink, const struct bb_end_record *end);

/* All sinks of a run. One thread at a time. */
#define BB_MAX_SINKS 4
struct bb_sinks { /* zero-initialise */
	struct bb_sink *list[BB_MAX_SINKS];
	int n;
	const struct bb_record_kind *rows;
	const char *folder;     /* of the files; NULL: anywhere; borrowed */
	char *new_path;         /* the file of bb_sinks_add_new */
	struct bb_error *error; /* borrowed; gets the first write error */
	bb_status status;
};

/*
 * Open the sinks that OPTIONS request: text on TEXT, of the kind OPS (NULL: none), unless stdout
 * carries something else, CSV with a row for each record of kind ROWS, JSON lines. A file that
 * cannot be opened is BB_EUSAGE. To be called in one process of the world only.
 */
BB_MUST bb_status bb_sinks_open(struct bb_sinks *sinks, const struct bb_options *options,
				const struct bb_sink_ops *ops, const struct bb_record_kind *rows,
				FILE *text, struct bb_error *error);
/* Add a sink of the kind OPS on a new file. An existing one is kept: .0, .1, … is appended to the
   name. PATH NULL: nothing. */
BB_MUST bb_status bb_sinks_add_new(struct bb_sinks *sinks, const struct bb_sink_ops *ops,
				   const char *path);
void bb_sinks_close(struct bb_sinks *sinks); /* also after a failed open */

/*
 * Hand a record to every sink. A sink that cannot write is reported once into the error given to
 * bb_sinks_open as BB_EINTERNAL with its path, and left alone from then on; the others go on.
 * Every later call returns that status too, so it cannot be lost.
 */
bb_status bb_sinks_begin(struct bb_sinks *sinks, const struct bb_run_record *run);
bb_status bb_sinks_record(struct bb_sinks *sinks, const struct bb_record_kind *kind,
			  const void *record);
/* A record that the text leaves out. */
bb_status bb_sinks_data(struct bb_sinks *sinks, const struct bb_record_kind *kind,
			const void *record);
/* Whole lines beginning with '#', for the text only. */
bb_status bb_sinks_comment(struct bb_sinks *sinks, const char *lines);
/* A DRAWING for the text only, with its colours and without foreign words. It is emptied. */
bb_status bb_sinks_draw(struct bb_sinks *sinks, struct bb_strbuf *drawing);
/* The end record: once for the data, then for the text, whose reader may be slow. */
bb_status bb_sinks_end_data(struct bb_sinks *sinks, const struct bb_end_record *end);
bb_status bb_sinks_end_text(struct bb_sinks *sinks, const struct bb_end_record *end);

/*
 * Give up the sinks that another thread, stuck in a record, holds, and keep it from the others. The
 * process must then end with _exit, which closes nothing.
 */
void bb_sinks_seize(struct bb_sinks *sinks);

/* TEXT = VALUE right-aligned in WIDTH with as many decimals (2, 1, 0) as fit, else in exponent
   form; NAN is "N/A". Returns TEXT. */
#define BB_NUMBER_TEXT 16
const char *bb_format_fit(char text[BB_NUMBER_TEXT], double value, int width);
