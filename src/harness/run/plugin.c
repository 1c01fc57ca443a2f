/*
 * plugin.c - finds and loads backends, launches and readers at run time.
 */
#include "harness/run/plugin.h"

#include "core/share.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECTORY "BUSBENCH_BACKEND_DIR"

const struct bb_loadable bb_loadables[] = {
	{.name = BB_GPUS, .remedy = "make CUDA=1, which needs nvcc and nccl.h", .needs = NULL},
	{.name = BB_LAUNCHER,
	 .remedy = "make MPI=1, which needs mpicc",
	 .needs = "the MPI that it was built with: put the folder of its libraries into "
		  "LD_LIBRARY_PATH"},
	{.name = BB_CPUS,
	 .remedy = "make GLOO=1, which needs g++ and libgloo-dev",
	 .needs = "the Gloo that it was built with: put the folder of its library into "
		  "LD_LIBRARY_PATH"},
	{.name = NULL},
};

const struct bb_loadable *bb_loadable_find(const char *name)
{
	for (const struct bb_loadable *l = bb_loadables; l->name; l++)
		if (strcmp(l->name, name) == 0)
			return l;
	return NULL;
}

/* What a plug-in may have: structs that begin with the number of their ABI. */
static const struct {
	const char *symbol;
	unsigned abi;
} parts[] = {{BB_BACKEND_SYMBOL, BB_BACKEND_ABI},
	     {BB_LAUNCH_SYMBOL, BB_LAUNCH_ABI},
	     {BB_READER_SYMBOL, BB_READER_ABI}};

/* Refuses a file that was cut off, on which the dynamic linker would die of SIGBUS: it has fewer
   bytes than its own headers say, up to the end of its two tables and of its mapped segments. What
   is no shared object of this machine, or cannot be read, dlopen reports. */
static bb_status check_whole(const char *name, const char *path, struct bb_error *error)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat file;
	ElfW(Ehdr) head;
	ElfW(Phdr) part;
	double needed = 0; /* bytes */

	if (fd < 0)
		return BB_OK;
	if (pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	    memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
	    head.e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
	    head.e_phentsize == sizeof(part)) {
		needed = fmax((double)head.e_phoff + 1. * head.e_phnum * head.e_phentsize,
			      (double)head.e_shoff + 1. * head.e_shnum * head.e_shentsize);
		for (int i = 0; i < head.e_phnum; i++) {
			const off_t at = (off_t)(head.e_phoff + (uint64_t)i * sizeof(part));

			if (pread(fd, &part, sizeof(part), at) == sizeof(part) &&
			    part.p_type == PT_LOAD)
				needed =
					fmax(needed, (double)part.p_offset + (double)part.p_filesz);
		}
	}
	const bool whole = fstat(fd, &file) != 0 || (double)file.st_size >= needed;
	close(fd);
	if (whole)
		return BB_OK;
	return bb_fail(error, BB_EBACKEND,
		       "the %s backend cannot be loaded from %s: the file is damaged, it has %llu "
		       "bytes and needs %.0f; build or install it anew",
		       name, path, (unsigned long long)file.st_size, needed);
}

static bb_status load(struct bb_plugin *plugin, const struct bb_loadable *what, const char *path,
		      struct bb_error *error)
{
	bb_status status = check_whole(what->name, path, error);
	const char *needs = "", *why;
	const void *found[3] = {NULL};

	if (status != BB_OK)
		return status;
	void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		why = dlerror();
		why = why ? why : "the dynamic linker does not say why";
		if (strncmp(why, path, strlen(path)) == 0 && why[strlen(path)] == ':')
			why += strlen(path) + 2;
		/* A library is missing or too old, rather than the plug-in itself. */
		if (what->needs &&
		    (strstr(why, "cannot open shared object") || strstr(why, "undefined symbol")))
			needs = what->needs;
		return bb_fail(error, BB_EBACKEND,
			       "the %s backend cannot be loaded from %s: %s%s%s", what->name, path,
			       why, *needs ? "; it needs " : "", needs);
	}
	for (int i = 0; i < 3 && status == BB_OK; i++) {
		const unsigned *const abi = found[i] = dlsym(handle, parts[i].symbol);

		if (abi && *abi != parts[i].abi)
			status = bb_fail(error, BB_EBACKEND,
					 "%s was built for another busbench (its ABI is %u, this "
					 "one's is %u); rebuild it",
					 path, *abi, parts[i].abi);
	}
	if (status == BB_OK && !found[0] && !found[1] && !found[2])
		status = bb_fail(error, BB_EBACKEND,
				 "%s is not a part of busbench: it has neither " BB_BACKEND_SYMBOL
				 " nor " BB_LAUNCH_SYMBOL " nor " BB_READER_SYMBOL,
				 path);
	if (status == BB_OK)
		*plugin = (struct bb_plugin){found[0], found[1], found[2], false};
	else
		dlclose(handle);
	return status;
}

bb_status bb_plugin_load(struct bb_plugin *plugin, const struct bb_loadable *what,
			 struct bb_error *error)
{
	const char *given = getenv(DIRECTORY);
	struct bb_strbuf looked = {0};
	char folder[PATH_MAX], path[PATH_MAX + 64];
	const bool known = bb_own_folder(folder, sizeof(folder));
	bb_status status;

	*plugin = (struct bb_plugin){.backend = NULL};
	given = given && *given ? given : NULL;
	if (given && (given[0] != '/' || strlen(given) >= PATH_MAX))
		return bb_fail(error, BB_EUSAGE,
			       DIRECTORY "=\"%s\" is not an absolute path; give one that begins "
					 "with /",
			       given);
	/* In order of preference. */
	for (int i = known ? 0 : 2; i < (given ? 3 : 2); i++) {
		const bool last = i + 1 == (given ? 3 : 2);

		snprintf(path, sizeof(path), "%s%s/%s.so", i == 2 ? given : folder,
			 i == 0   ? "/backends"
			 : i == 1 ? "/../lib/busbench"
				  : "",
			 what->name);
		if (access(path, F_OK) == 0) {
			bb_strbuf_free(&looked);
			return load(plugin, what, path, error);
		}
		bb_strbuf_addf(&looked, "%s%s", !looked.length ? "" : last ? " or " : ", ", path);
	}
	plugin->missing = true;
	status =
		bb_fail(error, BB_EBACKEND, "there is no %s backend here (build it with %s): no %s",
			what->name, what->remedy, bb_strbuf_text(&looked));
	bb_strbuf_free(&looked);
	return status;
}

bb_status bb_plugin_parse_topology(const char *text, size_t length, const char *name,
				   struct bb_topology **t, struct bb_error *error)
{
	static const struct bb_loadable what = {.name = "topology",
						.remedy = "make, which needs expat.h"};
	struct bb_error why = {.text = ""};
	struct bb_plugin plugin;
	bb_status status = bb_plugin_load(&plugin, &what, &why);

	if (status == BB_OK && plugin.reader)
		return plugin.reader->parse(text, length, name, t, error);
	if (plugin.missing)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "%s: this build reads no topologies; make does where expat.h is "
			       "(libexpat1-dev)",
			       name);
	return bb_fail(error, BB_EBACKEND, "%s: it cannot be read: %s", name, why.text);
}

void bb_plugin_list(struct bb_strbuf *out,
		    void (*list)(struct bb_strbuf *out, const struct bb_backend *backend))
{
	for (int b = 0; bb_backends[b]; b++)
		list(out, bb_backends[b]);
	for (const struct bb_loadable *l = bb_loadables; l->name; l++) {
		struct bb_error error = {.text = ""};
		struct bb_plugin plugin;

		if (bb_plugin_load(&plugin, l, &error) != BB_OK)
			bb_strbuf_addf(out, "backend %s: %s\n", l->name, error.text);
		else if (plugin.backend)
			list(out, plugin.backend);
	}
}
