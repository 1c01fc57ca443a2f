/*
 * log.h - the reader of logs: lines, words, rows, command lines and facts.
 */
#pragma once

#include "logs/claims.h"

#include <stdio.h>

/* ---- lines --------------------------------------------------------------------------------- */

#define BB_LOG_LINE 4096 /* bytes of a line that are read */
#define BB_LOG_TAG 64

/* Words of one line. */
struct bb_log_words {
	char *at[256];
	int n;
};

/* Gets one line, without its end, which it may change. Returns false to stop. */
typedef bool bb_log_reader(void *state, char text[BB_LOG_LINE], int number);

/*
 * Calls READ for each line of TEXT: also for those within strings of JSON (Docker's "log",
 * Ansible's "stdout_lines") and for those that an escaped line break separates; they have the
 * number of the line of TEXT that holds them. Returns false once READ does, or without memory.
 */
bool bb_log_lines(const char *text, size_t length, bb_log_reader *read, void *state);

/* Blanks out colours, no-break spaces and carriage returns. */
void bb_log_clean(char *text);
/* Blanks out quotes, bars, '#', and commas that end a word. */
void bb_log_blank(char *text);
void bb_log_split(char *text, struct bb_log_words *words);

/* Returns the bytes of the tags that launchers, containers and loggers put before TEXT. */
size_t bb_log_tag_length(const char *text);
/* TAG = the first LENGTH bytes of TEXT without dates, times, bare numbers and blanks. */
void bb_log_tag(char tag[BB_LOG_TAG], const char *text, size_t length);

/* Returns the word from which on the first words are those of PHRASE; -1: none. */
int bb_log_find(const struct bb_log_words *words, const char *phrase);
bool bb_log_is_whole(const char *word);

/* ---- rows ---------------------------------------------------------------------------------- */

/* The last column of a half: #wrong, or the largest error as in old versions. */
enum bb_log_last { BB_LOG_ANY, BB_LOG_WRONG, BB_LOG_ERROR };

/* What the heading and the rows above tell of a row's columns. */
struct bb_log_shape {
	bool in_place; /* placement of rows with one half: the only one that the heading names */
	enum bb_log_last last;
	int columns;   /* of both halves of the last whole row; 0: unknown */
	uint64_t size; /* of that row; 0: there is none in this table */
};

/* One row as it was printed. */
struct bb_log_row {
	struct bb_claim half[2];
	double wrong[2];      /* NAN: not checked */
	bool there[2];        /* false: the half was not run */
	bool doubtful[2];     /* WRONG may be an error that is allowed */
	bool not_finite[2];   /* nan or inf is among its numbers */
	bool implausible[2];  /* its bandwidth is not its size over its time, or its bus factor is
				 not that of the other half */
	uint64_t count;       /* elements */
	char type[16], op[8]; /* OP: "" if the row has none */
	char root[16];        /* "" if it has none */
	int n;                /* its words */
	bool whole;           /* as many halves as the rows above it */
};

/* Blanks out what cannot belong to a row: tags in brackets. Decimal commas become points. */
void bb_log_row_clean(char *text);
/* Returns the word that a row begins with; -1: there is none. */
int bb_log_row_find(const struct bb_log_words *words);
/*
 * ROW = the row in WORDS from word I on: size, count, type, in some versions redop and root, then
 * time, algbw, busbw and #wrong out of place and in place, with -I four more numbers each. A half
 * that was not run has "N/A" in its columns or is missing.
 */
void bb_log_row_read(const struct bb_log_words *words, int i, struct bb_log_shape *shape,
		     struct bb_log_row *row);
/* True if WORD is a value of a column. */
bool bb_log_is_value(const char *word);
/* Returns the digits at the end of WORD, which may begin with a tag: "<stdout>:1048576". */
const char *bb_log_digits(const char *word);
/* Copies as much of TEXT as fits into array INTO. */
#define BB_LOG_KEEP(into, text) ((void)snprintf(into, sizeof(into), "%s", text))

/* True if both halves have the same bus factor, within rounding. */
bool bb_log_same_factor(const struct bb_claim *a, const struct bb_claim *b);
/* Returns the bytes of an element of TYPE; 0: unknown. */
uint64_t bb_log_type_bytes(const char *type);

/* ---- command lines -------------------------------------------------------------------------- */

/* What a command line asks for; 0: it does not say. */
struct bb_log_command {
	bool launched;       /* by mpirun, srun or their like */
	bool named;          /* the benchmark was named */
	bool continues;      /* in the next line */
	char collective[24]; /* "": unknown */
	char type[16];
	int64_t processes, nodes, per_node, threads, gpus;
	uint64_t least_bytes, most_bytes, step_bytes;
	double factor;
};

/*
 * Reads WORDS as a command line, or as the next line of COMMAND. Returns false if they are none.
 * *BEGINS = true if they begin a new one, which replaces COMMAND.
 */
bool bb_log_command_read(struct bb_log_command *command, const struct bb_log_words *words,
			 bool *begins);
/* The same for "nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor)". */
void bb_log_sizes_read(struct bb_log_command *sizes, const struct bb_log_words *words);
/* NAME = the collective of the benchmark at PATH: "build/all_reduce_perf_mpi". */
void bb_log_benchmark(char name[24], const char *path);
/* Returns the collective of a benchmark of OSU: of its binary, "osu_bcast", or of the word that its
   title has for it, "Broadcast"; NULL: there is none. */
const char *bb_log_osu(const char *word);
/* Returns the ranks that COMMAND starts, on *NODES nodes; 0: unknown. */
int64_t bb_log_command_ranks(const struct bb_log_command *command, int64_t *nodes);

/* ---- facts --------------------------------------------------------------------------------- */

/* The facts of one source; zero-initialise. */
struct bb_log_facts {
	struct bb_fact of[BB_FACTS];
	/* Variable whose value follows in the next line; 0: none, else its index + 1 */
	int pending;
};

/*
 * Adds what TEXT, line NUMBER, says: messages of NCCL, and variables of the environment if it is a
 * command or an assignment itself.
 */
void bb_log_facts_read(struct bb_log_facts *facts, const char *text, int number, bool is_command);
/* FACT's quote = TEXT from byte AT - 120 or before on, printable, and cut. */
void bb_log_quote(struct bb_fact *fact, const char *text, size_t at);

/*
 * Notes the GPUs that a line of prose names. *CARD: the only one so far; its line is
 * 0 if there is none, -1 if there are several.
 */
void bb_log_card_read(struct bb_fact *card, const char *text, int number);
