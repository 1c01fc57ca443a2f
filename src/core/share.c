#include "core/share.h"

#include "core/array.h"
#include "core/option.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct bb_shelf bb_shelf_profiles = {"profile", "profiles", "ci/profiles", ".yaml"};
const struct bb_shelf bb_shelf_clusters = {"cluster", "clusters", "reports/reference/clusters",
					   ".txt"};

#define FOLDERS 2 /* of a shelf, beside the working directory */

bool bb_own_folder(char *folder, size_t room)
{
	const ssize_t n = readlink("/proc/self/exe", folder, room);

	if (n <= 0 || (size_t)n >= room)
		return false;
	folder[n] = '\0';
	*strrchr(folder, '/') = '\0';
	return true;
}

bool bb_share_find(const char *installed, const char *source, char path[BB_SHARE_PATH])
{
	char own[PATH_MAX], real[PATH_MAX] = "";

	if (!bb_own_folder(own, sizeof(own)))
		return false;
	snprintf(path, BB_SHARE_PATH, "%s/../share/busbench/%s", own, installed);
	bool found = realpath(path, real);
	if (!found) {
		snprintf(path, BB_SHARE_PATH, "%s/../%s", own, source);
		found = realpath(path, real);
	}
	snprintf(path, BB_SHARE_PATH, "%s", real);
	return found;
}

/* ---- shelves ------------------------------------------------------------------------------- */

static int list_folders(const struct bb_shelf *shelf, char paths[FOLDERS][BB_SHARE_PATH])
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = 0;

	/* XDG's rule: a variable that is empty or relative is ignored. */
	if (config && config[0] == '/')
		n += snprintf(paths[n], BB_SHARE_PATH, "%s/busbench/%s", config, shelf->folder) <
		     PATH_MAX;
	else if (home && home[0] == '/')
		n += snprintf(paths[n], BB_SHARE_PATH, "%s/.config/busbench/%s", home,
			      shelf->folder) < PATH_MAX;
	n += bb_share_find(shelf->folder, shelf->source, paths[n]);
	return n;
}

/* Set PATH to NAME in FOLDER, with or without the ending. */
static bool find_in(const struct bb_shelf *shelf, const char *folder, const char *name,
		    char path[BB_SHARE_PATH])
{
	const char *const endings[] = {"", shelf->ending};
	const char *const slash = *folder ? "/" : "";
	struct stat file;

	for (int i = 0; i < 2; i++)
		if (snprintf(path, BB_SHARE_PATH, "%s%s%s%s", folder, slash, name, endings[i]) <
			    BB_SHARE_PATH &&
		    stat(path, &file) == 0 && !S_ISDIR(file.st_mode))
			return true;
	return false;
}

bool bb_shelf_find(const struct bb_shelf *shelf, const char *name, char path[BB_SHARE_PATH])
{
	char folders[FOLDERS][BB_SHARE_PATH];
	const int n = strchr(name, '/') || !*name ? 0 : list_folders(shelf, folders);

	if (!*name)
		return false;
	if (find_in(shelf, "", name, path))
		return true;
	for (int i = 0; i < n; i++)
		if (find_in(shelf, folders[i], name, path))
			return true;
	return false;
}

void bb_shelf_list(const struct bb_shelf *shelf, struct bb_strbuf *out)
{
	char folders[FOLDERS][BB_SHARE_PATH];
	const int nfolders = list_folders(shelf, folders);
	const size_t ending = strlen(shelf->ending);

	for (int f = 0; f < nfolders; f++) {
		struct dirent **entries = NULL;
		const int n = scandir(folders[f], &entries, NULL, alphasort);

		for (int i = 0; i < n; i++) {
			const char *file = entries[i]->d_name;
			const size_t length = strlen(file);

			if (length > ending && strcmp(file + length - ending, shelf->ending) == 0)
				bb_strbuf_addf(out, "%.*s %s/%s\n", (int)(length - ending), file,
					       folders[f], file);
			free(entries[i]);
		}
		free(entries);
	}
}

/* The first words of the lines of LIST, which is divided, and NULL behind them; to be freed. NULL:
   no memory. */
static const char **split_names(char *list)
{
	const char **names = NULL;
	size_t n = 0, room = 0;
	char *rest, *line = strtok_r(list, "\n", &rest);

	while (BB_ARRAY_PUT(names, n, room, line)) {
		if (!line)
			return names;
		line[strcspn(line, " ")] = '\0';
		line = strtok_r(NULL, "\n", &rest);
	}
	free(names);
	return NULL;
}

void bb_shelf_explain(const struct bb_shelf *shelf, const char *name, struct bb_strbuf *out)
{
	char folders[FOLDERS][BB_SHARE_PATH];
	const int n = list_folders(shelf, folders);
	const char **names = NULL, *near = NULL;
	struct bb_strbuf list = {0};

	bb_shelf_list(shelf, &list);
	bb_strbuf_addf(out, "%s: no such %s in the working directory", name, shelf->noun);
	for (int i = 0; i < n; i++)
		bb_strbuf_addf(out, "%s%s", i + 1 < n ? ", " : " or ", folders[i]);
	if (list.length > 0)
		names = split_names(list.text);
	if (names)
		near = bb_nearest(name, names);
	if (near)
		bb_strbuf_addf(out, "; did you mean %s?", near);
	for (size_t i = 0; names && !near && names[i]; i++)
		bb_strbuf_addf(out, "%s%s", i ? ", " : "; there are ", names[i]);
	free(names);
	out->failed |= list.failed;
	bb_strbuf_free(&list);
}
