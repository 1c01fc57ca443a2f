/*
 * Finding NCCL: by the dynamic linker, then in NCCL_HOME, CUDA's folders and Python's packages. The
 * first file that loads is used, and stays loaded until the process ends. CUDA's driver is where
 * the dynamic linker looks.
 */
#include "backends/nccl/nccl.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BB_NCCL_FILE
#define BB_NCCL_FILE "libnccl.so.2" /* tests define a name that no machine has */
#endif
#define DRIVER_FILE "libcuda.so.1"
#define CUDA_FOLDERS "/usr/local/cuda*"
#define SHOWN 80 /* characters of a path that an error shows */

struct search {
	void *handle;     /* of the first file that loads; NULL: none yet */
	char broken[240]; /* dlerror of the first file that does not load */
};

/* ---- candidates ------------------------------------------------------------------------ */

static void open_file(struct search *search, const char *file)
{
	if (search->handle)
		return;
	search->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!search->handle && !search->broken[0])
		snprintf(search->broken, sizeof(search->broken), "%s", dlerror());
}

/* FORMAT and its arguments make a path, which may have wildcards. */
__attribute__((format(printf, 2, 3))) static void search_files(struct search *search,
							       const char *format, ...)
{
	char pattern[PATH_MAX];
	glob_t found;
	va_list args;

	va_start(args, format);
	vsnprintf(pattern, sizeof(pattern), format, args);
	va_end(args);
	if (search->handle || glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		open_file(search, found.gl_pathv[i]);
	globfree(&found);
}

/* Below HOME, the installation folder of NCCL or CUDA; NULL or empty: nowhere. */
static void search_home(struct search *search, const char *home)
{
	static const char *const folders[] = {"lib64", "lib", "targets/x86_64-linux/lib"};

	for (size_t i = 0; home && *home && i < sizeof(folders) / sizeof(folders[0]); i++)
		search_files(search, "%s/%s/" BB_NCCL_FILE, home, folders[i]);
}

/* In the packages of a Python installed in PREFIX; NULL or empty: nowhere. */
static void search_packages(struct search *search, const char *prefix)
{
	if (prefix && *prefix)
		search_files(search, "%s/lib/python3*/*-packages/nvidia/*/lib/" BB_NCCL_FILE,
			     prefix);
}

static void search_pythons(struct search *search)
{
	static const char *const prefixes[] = {"/usr", "/usr/local", "/opt/*", "/opt/*/.venv",
					       "/opt/*/*"};
	const char *const home = getenv("HOME"), *folder = getenv("PATH");
	char local[PATH_MAX], program[PATH_MAX], prefix[PATH_MAX + 16], real[PATH_MAX];

	search_packages(search, getenv("VIRTUAL_ENV"));
	search_packages(search, getenv("CONDA_PREFIX"));
	/* The installation of the first python3 in PATH, by its path there and by the target of its
	   links. */
	for (; folder && *folder; folder += *folder == ':') {
		const int length = (int)strcspn(folder, ":");

		snprintf(program, sizeof(program), "%.*s/python3", length, folder);
		if (realpath(program, real)) {
			snprintf(prefix, sizeof(prefix), "%.*s/..", length, folder);
			search_packages(search, prefix);
			snprintf(prefix, sizeof(prefix), "%.*s/..",
				 (int)(strrchr(real, '/') - real), real);
			search_packages(search, prefix);
			break;
		}
		folder += length;
	}
	snprintf(local, sizeof(local), "%s/.local", home ? home : "");
	search_packages(search, home ? local : NULL);
	snprintf(local, sizeof(local), "%s/.pyenv/versions/*", home ? home : "");
	search_packages(search, home ? local : NULL);
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		search_packages(search, prefixes[i]);
}

/* ---- the library ------------------------------------------------------------------------- */

bb_status bb_nccl_library_find(struct bb_nccl_library *library, struct bb_error *error)
{
	const char *const given = getenv("CUDA_HOME"), *const nccl = getenv("NCCL_HOME");
	const char *const cuda = given && *given ? given : CUDA_FOLDERS;
	struct search search = {.handle = NULL};

	open_file(&search, BB_NCCL_FILE);
	/* That the dynamic linker finds no file is not reported as a broken one. */
	if (strncmp(search.broken, BB_NCCL_FILE ": cannot open", strlen(BB_NCCL_FILE) + 13) == 0)
		search.broken[0] = '\0';
	search_home(&search, nccl);
	search_home(&search, cuda);
	search_pythons(&search);
	if (!search.handle)
		return bb_fail(error, BB_EBACKEND,
			       "the nccl backend needs NCCL 2.18 or newer; " BB_NCCL_FILE
			       " is neither where the dynamic linker looks nor in NCCL_HOME "
			       "(%.*s), CUDA's "
			       "folders (%.*s) or Python's packages%s%.*s; set NCCL_HOME, or put "
			       "the folder "
			       "of the library into LD_LIBRARY_PATH",
			       SHOWN, nccl && *nccl ? nccl : "not set", SHOWN, cuda,
			       search.broken[0] ? "; one does not load: " : "", SHOWN,
			       search.broken);
#define RESOLVE(since, name) library->name = dlsym(search.handle, #name);
	BB_NCCL_FUNCTIONS(RESOLVE)
#undef RESOLVE
	if (!library->ncclGetVersion || !library->ncclGetErrorString)
		return bb_fail(error, BB_EBACKEND,
			       "the " BB_NCCL_FILE " that was found is not NCCL: it lacks "
			       "ncclGetVersion or ncclGetErrorString");
	return BB_OK;
}

bool bb_nccl_driver_find(struct bb_nccl_driver *driver)
{
	void *const handle = dlopen(DRIVER_FILE, RTLD_NOW | RTLD_LOCAL);
	bool complete = handle != NULL;

#define RESOLVE(name) complete = complete && (driver->name = dlsym(handle, #name));
	BB_NCCL_DRIVER_FUNCTIONS(RESOLVE)
#undef RESOLVE
	return complete;
}
