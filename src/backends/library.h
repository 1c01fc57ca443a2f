/*
 * library.h - the part of a backend in which a library, or a model of one, chooses algorithms.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"

#include <stdbool.h>

#define BB_CHOSEN_TEXT 32
#define BB_DIAGNOSIS_S 1.6

struct bb_context;
struct bb_group;
struct bb_rank;

struct bb_library {
	/* The library and its version; lasts as long as CONTEXT. NULL: none. */
	const char *(*name)(const struct bb_context *context);
	/*
	 * While listening is ON, which takes time, the choices of the library are recorded: chosen
	 * returns that of the last call of GROUP. The ranks of the process synchronise between
	 * listen and the calls. NULL: the library does not report its choices, and chosen is NULL
	 * too.
	 */
	void (*listen)(struct bb_group *group, bool on);
	/* TEXT = "ring:LL128"; empty if the library does not report it. */
	void (*chosen)(struct bb_group *group, char text[BB_CHOSEN_TEXT]);
	/* How the library knows the buffers of GROUP after ready: "none", "local", "symmetric", or
	   "local or symmetric" where it does not distinguish them. Lasts for ever; NULL: no
	   registration was requested. The function may be NULL. */
	const char *(*registered)(const struct bb_group *group);
	/*
	 * The library's report on a run in which nothing has moved for too long. Called again and
	 * again, by one thread while others may be stuck in the library; never waits. True: OUT has
	 * been appended to, unless there is no report; at the latest BB_DIAGNOSIS_S after the first
	 * call. The function may be NULL.
	 */
	bool (*diagnose)(struct bb_context *context, struct bb_strbuf *out);
	/* As group_open of the backend, but all ranks of the world call it at once, each with the
	   one group that it is a member of. NULL: group_open does as well. */
	bb_status (*split)(struct bb_rank *rank, const int *members, int n, struct bb_group **group,
			   struct bb_error *error);
};
