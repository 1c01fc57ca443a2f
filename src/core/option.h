/*
 * option.h - an option is declared once; from its declaration come the member that it is read
 * into, parsing, --help, the option reference in docs/ and the configuration that records carry.
 * Defaults go through the same parser as the user's words, so the help cannot lie.
 *
 * The options of a program are a list, a macro that calls OPTION for each:
 *
 *   #define BB_MOE_OPTIONS(OPTION, COMMON)                                                       \
 *           OPTION(INT, top_k, "top-k", 0, "2", "experts that a token goes through",            \
 *                  .min = 1, .max = 1024)                                                       \
 *           COMMON("iters", 'n', "10", "timed steps", .min = 1, .max = 1000000)
 *   struct bb_moe_options { BB_OPTION_MEMBERS(BB_MOE_OPTIONS) };
 *   #define BB_OPTIONS struct bb_moe_options
 *   const struct bb_option bb_moe_rows[] = BB_OPTION_ROWS(BB_MOE_OPTIONS);
 *
 * The struct above has the members "int64_t top_k; bool top_k_given;".
 *
 * OPTION has a kind, the member, the long and the short name (0: none), the default as a user
 * would write it (NULL: zero, or as the kind says), the help and members of struct bb_option.
 * COMMON gives an INT of a later table, into whose target it is read, another default.
 *
 * A row declares its conflicts, which bb_options_check_rules and bb_options_check_features hold:
 *
 *   OPTION(INT, cudagraph, "cudagraph", 'G', "0", "launches of a captured graph",
 *          .excludes = {{"per_iter_timing", "a graph is timed as a whole"},
 *                       {"cache=rewrite", "nothing is rewritten within a graph"}},
 *          .on = {{BB_ON_GPUS, "has no captured graphs"}})
 *   OPTION(CHOICE, stand_in, "compute", 0, "sleep", "stand-in for computations",
 *          .needs = {{"flops step-time", "passes take no time"},
 *                    {"flops", "it multiplies matrices", .value = "gemm"}})
 */
#pragma once

#include "core/datatype.h"
#include "core/json.h"
#include "core/status.h"
#include "core/strbuf.h"

#include <stddef.h>
#include <stdint.h>

#define BB_OPTION_MOST 32 /* items of a list */

/* Common limits. */
#define BB_MOST_BYTES (INT64_C(1) << 60)
#define BB_MOST_COUNT INT64_C(1000000000)
#define BB_YEAR_NS (INT64_C(8760) * 3600000000000)

struct bb_option_sizes {
	uint64_t list[BB_OPTION_MOST];
	size_t n;
};

struct bb_option_numbers {
	double list[BB_OPTION_MOST];
	size_t n;
};

struct bb_option_indices {
	int list[BB_OPTION_MOST];
	size_t n;
};

struct bb_option_link {
	const char *text;     /* as given, borrowed as a STRING is; NULL: none */
	double rate, latency; /* bytes per second, seconds; 0 where not given */
	bool port;            /* all transfers of a rank share it */
};

/*
 * KIND(name, type of the member, argument in the help, noun for "not …" in errors, expected value,
 * examples). Lists are words separated by commas; "all" stands for every choice.
 */
#define BB_OPTION_KINDS(KIND)                                                                      \
	/* No argument. Its default is false. */                                                   \
	KIND(FLAG, bool, "", "", "", "")                                                           \
	KIND(INT, int64_t, "N", "an integer", "an integer", "")                                    \
	/* Bytes; or 0, which row->zero stands for. */                                             \
	KIND(SIZE, uint64_t, "SIZE", "a size", "a size", ", such as 8, 64K or 1.5G")               \
	/* A decimal count. */                                                                     \
	KIND(COUNT, uint64_t, "COUNT", "a count", "a count", ", such as 7.5B, 124M or 4096")       \
	/* Nanoseconds. */                                                                         \
	KIND(DURATION, uint64_t, "TIME", "a duration", "a duration",                               \
	     ", such as 500us, 1.5s or 2m")                                                        \
	/* A fraction above 0, up to 1. */                                                         \
	KIND(PERCENT, double, "PERCENT", "a percentage", "a percentage", ", such as 0.5% or 10%")  \
	KIND(NUMBER, double, "NUMBER", "a number", "a number", "")                                 \
	/* FLOPs per second. */                                                                    \
	KIND(FLOPS, double, "RATE", "a rate", "FLOPs per second with a unit",                      \
	     ", such as 100T or 1.5PFLOPS")                                                        \
	/* The rate of a link and its latency; with row->port ",port" may follow. */               \
	KIND(LINK, struct bb_option_link, "RATE[,LATENCY]", "a link",                              \
	     "a rate from 1KB/s to 1000TB/s and perhaps a latency up to 1m, with units",           \
	     ", such as 10GB/s or 100Gb/s,2us")                                                    \
	/* A rank, or -1: all. */                                                                  \
	KIND(RANK, int, "RANK|all", "a rank", "a rank from 0, or all", "")                         \
	/* The index of a choice; -1 without a default. */                                         \
	KIND(CHOICE, int, "WORD", "a valid choice", "one of:", "")                                 \
	/* One of the choices, which are names of datatypes. */                                    \
	KIND(DTYPE, enum bb_dtype, "TYPE", "a datatype of this option", "one of:", "")             \
	/* Borrowed from argv or the row's default. */                                             \
	KIND(STRING, const char *, "TEXT", "", "", "")                                             \
	KIND(SIZES, struct bb_option_sizes, "LIST", "a size", "a list of sizes", "")               \
	KIND(NUMBERS, struct bb_option_numbers, "LIST", "a number", "a list of numbers", "")       \
	KIND(INTS, struct bb_option_indices, "LIST", "an integer", "a list of integers", "")       \
	/* Indices of choices, none twice, in the order of the list. */                            \
	KIND(CHOICES, struct bb_option_indices, "LIST|all", "a valid choice",                      \
	     "all or a list of:", "")                                                              \
	/* A bit for each choice. */                                                               \
	KIND(SET, unsigned, "LIST|all", "a valid choice", "all or a list of:", "")

#define BB_OPTION_KIND_ENUM(kind, ...) BB_OPT_##kind,
enum bb_option_type { BB_OPTION_KINDS(BB_OPTION_KIND_ENUM) BB_NOPTION_TYPES };

#define BB_OPTION_KIND_TYPE(kind, type, ...) typedef type bb_option_##kind;
BB_OPTION_KINDS(BB_OPTION_KIND_TYPE)

/* A row that is in effect (given, and not as the 0 that is its default) needs others, or excludes
   them. */
struct bb_option_rule {
	/* Long names of any table, a space between. NAME=WORD: with this value, one that begins with
	   "WORD:", or a list of choices that has it, be it the default. */
	const char *names;
	const char *why;   /* and what to give instead; NULL: evident */
	const char *value; /* the rule holds for this value of the row, as in NAME=WORD; NULL: for
			      all */
};

/* A row that is in effect exists only where the run has FEATURE, a bit of the caller's. */
struct bb_option_place {
	unsigned feature;
	const char *lacks; /* what a run without it does, behind "the host backend" */
	const char *value; /* as above */
};

#define BB_OPTION_NEEDS 3
#define BB_OPTION_EXCLUDES 7
#define BB_OPTION_PLACES 3

struct bb_option {
	const char *name; /* long name without dashes */
	char key;         /* short name, 0 if none */
	enum bb_option_type type;
	size_t offset;        /* of the target in the caller's struct */
	size_t given;         /* offset of a bool that is set when the user gave it; 0: none */
	const char *initial;  /* default, as the user would write it; NULL: zero */
	const char *argument; /* "SIZE"; NULL: that of the type */
	const char *help;     /* one line */
	/* Limits of a number or of a list's items. Both 0: none; max below min: no upper limit. */
	int64_t min, max;
	/* CHOICE, DTYPE, CHOICES, SET: ends with NULL; or the same as a function of the index.
	   STRING: known values for completion, among others. */
	const char *const *choices;
	const char *(*choice)(int index);
	const char *zero;    /* SIZE: the word for 0 */
	bool port;           /* LINK: may end with ",port", where a rank's transfers share it */
	const char *once;    /* needs given: why a second one is refused; NULL: the last counts */
	const char *section; /* heading in the help, set on the first row of a section */
	/* Of the names of a NEEDS one suffices; an EXCLUDES has none of them. */
	struct bb_option_rule needs[BB_OPTION_NEEDS], excludes[BB_OPTION_EXCLUDES];
	struct bb_option_place on[BB_OPTION_PLACES];
	bool common;   /* a later table says where it is read into */
	bool usual;    /* one of the few that --help shows; --help-all shows all */
	bool gpu_only; /* has an effect on GPUs alone; such rows are listed last */
};

/* The members of a list. */
#define BB_OPTION_MEMBERS(LIST) LIST(BB_OPTION_MEMBER, BB_OPTION_NO_MEMBER)
#define BB_OPTION_MEMBER(kind, field, ...)                                                         \
	bb_option_##kind field;                                                                    \
	bool field##_given;
#define BB_OPTION_NO_MEMBER(...)

/* Its rows. BB_OPTIONS is the struct with these members. */
#define BB_OPTION_ROWS(LIST)                                                                       \
	{                                                                                          \
		LIST(BB_OPTION_ROW, BB_OPTION_COMMON)                                              \
		{                                                                                  \
			.name = NULL                                                               \
		}                                                                                  \
	}
#define BB_OPTION_ROW(kind, field, word, letter, otherwise, text, ...)                             \
	{.name = word,                                                                             \
	 .key = letter,                                                                            \
	 .type = BB_OPT_##kind,                                                                    \
	 .offset = offsetof(BB_OPTIONS, field),                                                    \
	 .given = offsetof(BB_OPTIONS, field##_given),                                             \
	 .initial = otherwise,                                                                     \
	 .help = text,                                                                             \
	 __VA_ARGS__},
#define BB_OPTION_COMMON(word, letter, otherwise, text, ...)                                       \
	{.name = word,                                                                             \
	 .key = letter,                                                                            \
	 .type = BB_OPT_INT,                                                                       \
	 .common = true,                                                                           \
	 .initial = otherwise,                                                                     \
	 .help = text,                                                                             \
	 __VA_ARGS__},

/* Options of another table that a program refuses. */
struct bb_option_refusal {
	const char *names; /* long names, a space between */
	const char *why;   /* and what to give instead */
};

/* Rows (ending with name NULL) and what they are read into. */
struct bb_option_table {
	const struct bb_option *rows;
	void *target; /* NULL: only to be shown */
	/* Those of the rows that are not shown, and refused with the reason; ends with names NULL.
	   NULL: none. */
	const struct bb_option_refusal *refused;
};

/*
 * Parse argv over TABLES (ends with rows NULL) through getopt_long. Every target is set to its
 * default first. BB_EUSAGE with ERROR naming the offending word, what would be right, and for an
 * unknown option or choice the nearest valid one. Operands (words without a dash) are refused. An
 * option given twice: the last one counts, as in nccl-tests. Of two rows of a name that of the
 * earlier table counts, and the target of the other is left alone, unless the earlier one is
 * common. Two rows may share a target (an alias); the one without a default keeps that of the
 * other. Not reentrant: getopt is not.
 */
BB_MUST bb_status bb_options_parse(const struct bb_option_table *tables, int argc, char **argv,
				   struct bb_error *error);
/* The same, but OPERANDS, with room for ARGC, gets the N operands. */
BB_MUST bb_status bb_options_parse_operands(const struct bb_option_table *tables, int argc,
					    char **argv, char **operands, int *n,
					    struct bb_error *error);

/*
 * Check NEEDS and EXCLUDES of the rows of TABLES, which have been parsed. BB_EUSAGE with ERROR
 * naming both words and why they conflict.
 */
BB_MUST bb_status bb_options_check_rules(const struct bb_option_table *tables,
					 struct bb_error *error);

/*
 * Check that each row that is in effect exists where FEATURES are. BB_EUNSUPPORTED with ERROR
 * naming the word, WHOSE ("the host backend"), what it lacks, and MORE, which may be empty.
 */
BB_MUST bb_status bb_options_check_features(const struct bb_option_table *tables, unsigned features,
					    const char *whose, const char *more,
					    struct bb_error *error);

/* TEXT as options of kind LINK have it, which LINK then borrows. False, with errno EINVAL or
   ERANGE, where it is none. */
bool bb_option_read_link(const char *text, bool port, struct bb_option_link *link);

/* Append the options of TABLES as text: ALL of them, section by section, or only the usual ones. */
void bb_options_help(const struct bb_option_table *tables, bool all, struct bb_strbuf *out);
/* Append all options of one TABLE as Markdown, section by section. */
void bb_options_markdown(const struct bb_option_table *table, struct bb_strbuf *out);
/* Add to the array that is open in JSON an object for each option of TABLES. */
void bb_options_json(const struct bb_option_table *tables, struct bb_json *json);

/* ---- a row, for option.c and option_text.c ------------------------------------------------ */

#define BB_OPTION_WORD 64 /* longest word of a list, with its end */

/* By enum bb_option_type: bytes of the target, and words. */
struct bb_option_kind {
	size_t bytes;
	const char *argument, *is, *expected, *examples;
};
extern const struct bb_option_kind bb_option_kinds[BB_NOPTION_TYPES];

static inline bool bb_option_is_list(const struct bb_option *row)
{
	return row->type >= BB_OPT_SIZES;
}

static inline bool bb_option_has_choices(const struct bb_option *row)
{
	return row->choices || row->choice;
}

/* The argument in the help, such as "SIZE"; of a FLAG "". */
const char *bb_option_argument(const struct bb_option *row);

/* Choice INDEX, which may be the number of choices: NULL. */
const char *bb_option_choice(const struct bb_option *row, int index);

/* Is ROW of table AT hidden by a row of the same name in an earlier one of TABLES? That is how a
   program changes the default of a common option. */
bool bb_option_hidden(const struct bb_option_table *tables, const struct bb_option_table *at,
		      const struct bb_option *row);
/* Why TABLE refuses its ROW; NULL: it does not. */
const char *bb_option_refused(const struct bb_option_table *table, const struct bb_option *row);

/* Whether the row has a limit below or above; see min and max in option.h. */
bool bb_option_has_min(const struct bb_option *row);
bool bb_option_has_max(const struct bb_option *row);

/* Append what a value of ROW must be, for the end of an error: "a size from 4 to 1T, such as 8,
   64K or 1.5G". */
void bb_option_add_expected(const struct bb_option *row, struct bb_strbuf *out);

/* ---- near words -------------------------------------------------------------------------- */

/* The word of WORDS (ends with NULL) nearest to WORD by edit distance, or NULL if none is near. */
const char *bb_nearest(const char *word, const char *const *words);

/* TEXT = "; did you mean "X"?" for the one of WORDS nearest to WORD, else "; expected X, Y or
   Z", or "" if that is too long. Returns TEXT. */
#define BB_SUGGESTION 160
const char *bb_suggest(char text[BB_SUGGESTION], const char *word, const char *const *words);
