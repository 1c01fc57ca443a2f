/*
 * share.h - files that are installed beside the programs, and files that a user names without
 * folder and ending.
 *
 * An installed binary PREFIX/bin/NAME has them in PREFIX/share/busbench, one of a build folder in
 * the source tree around that.
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"

#include <limits.h>

#define BB_SHARE_PATH (PATH_MAX + 256)

/*
 * Files of one kind: in the working directory, in FOLDER of $XDG_CONFIG_HOME/busbench or
 * ~/.config/busbench, then in FOLDER of the installed files or SOURCE of the source tree.
 */
struct bb_shelf {
	const char *noun;   /* "profile" */
	const char *folder; /* "profiles" */
	const char *source; /* "ci/profiles" */
	const char *ending; /* ".yaml" */
};
extern const struct bb_shelf bb_shelf_profiles, bb_shelf_clusters;

/* Set FOLDER to that of the running binary. False: it is not known, or longer than ROOM bytes. */
BB_MUST bool bb_own_folder(char *folder, size_t room);

/* Set PATH to INSTALLED in PREFIX/share/busbench or to SOURCE in the source tree, whichever exists.
   False: neither does. */
BB_MUST bool bb_share_find(const char *installed, const char *source, char path[BB_SHARE_PATH]);

/* Set PATH to the first file of SHELF called NAME, with or without its ending. A NAME with a slash
   is a path. False: there is none. */
BB_MUST bool bb_shelf_find(const struct bb_shelf *shelf, const char *name,
			   char path[BB_SHARE_PATH]);

/* Append a line "NAME PATH" for each file of SHELF outside the working directory that
   bb_shelf_find finds, in the order of its folders and their names. */
void bb_shelf_list(const struct bb_shelf *shelf, struct bb_strbuf *out);

/* Append why there is no file NAME in SHELF: the folders, and the nearest name or all. */
void bb_shelf_explain(const struct bb_shelf *shelf, const char *name, struct bb_strbuf *out);
