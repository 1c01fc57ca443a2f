/*
 * about.h - what every program reports of itself: --version, --help and its like.
 */
#pragma once

#include "core/option.h"

#define BB_ABOUT_OPTIONS(OPTION, COMMON)                                                           \
	OPTION(FLAG, version, "version", 0, NULL, "the version, and facts of this build",          \
	       .section = "Information")                                                           \
	OPTION(FLAG, help, "help", 'h', NULL, "the most used options")                             \
	OPTION(FLAG, help_all, "help-all", 0, NULL, "all options, by group", .usual = true)        \
	OPTION(FLAG, help_markdown, "help-markdown", 0, NULL,                                      \
	       "all options as Markdown, as in docs/")                                             \
	OPTION(FLAG, help_schema, "help-schema", 0, NULL,                                          \
	       "all options as JSON, from which man pages and completions are made")

struct bb_about {
	BB_OPTION_MEMBERS(BB_ABOUT_OPTIONS)
};

/* The rows of these options, read into a struct bb_about. They end the tables of a program. */
extern const struct bb_option bb_about_rows[];

#define BB_EXAMPLES 2

struct bb_about_program {
	const char *name;     /* with its subject, such as "acceptance run" */
	const char *operands; /* words without a dash, such as "PROFILE"; NULL: none */
	const char *brief;
	const struct bb_option_table *tables;
	const char *examples[BB_EXAMPLES]; /* command lines without NAME; NULL: none */
	const char *notes;                 /* text behind all options; NULL: none */
};

/* One of several subjects of a program, "acceptance run", with options of its own. */
#define BB_SUBJECT_LISTS 6
struct bb_subject {
	const char *name; /* NULL ends a list of them */
	const char *operands, *brief;
	const struct bb_option *rows[BB_SUBJECT_LISTS]; /* ends with NULL */
	const char *examples[BB_EXAMPLES];
};

/* TABLES = those of SUBJECT, read into OPTIONS, and that of bb_about_rows, into ABOUT. */
void bb_subject_tables(const struct bb_subject *subject, void *options, struct bb_about *about,
		       struct bb_option_table tables[BB_SUBJECT_LISTS + 1]);
/* *SUBJECT = the one of ALL that WORD names. BB_EUSAGE suggests another. */
BB_MUST bb_status bb_subject_find(const struct bb_subject *all, const char *word,
				  const struct bb_subject **subject, struct bb_error *error);
/* Append what ABOUT requests of SUBJECT of PROGRAM, as bb_about_add does. */
void bb_subject_about(const char *program, const struct bb_subject *subject,
		      const struct bb_about *about, struct bb_strbuf *out);

/* True if ABOUT, as parsed, requests what bb_about_add appends. */
bool bb_about_requested(const struct bb_about *about);

/*
 * Append what ABOUT requests of PROGRAM: its usual options or all, both with examples; Markdown of
 * all its own tables; a line of JSON with name, operands, brief, examples, options; or its version.
 */
void bb_about_add(const struct bb_about *about, const struct bb_about_program *program,
		  struct bb_strbuf *out);
