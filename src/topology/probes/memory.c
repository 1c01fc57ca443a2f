#include "topology/probes/memory.h"

#include "core/file.h"
#include "core/strbuf.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOUNTS_MOST ((size_t)16 << 20)
#define STAT_BYTES 8192

/* Files of a control group, by the version of its hierarchy. */
struct hierarchy {
	const char *type;       /* of the mount */
	const char *controller; /* in the mount's options and in /proc/self/cgroup; "": version 2 */
	const char *usage, *cache; /* a file, and a key in memory.stat */
	const char *limits[2];     /* beyond the second one processes slow down; NULL: none */
};

static const struct hierarchy hierarchies[] = {
	{"cgroup2", "", "memory.current", "inactive_file ", {"memory.max", "memory.high"}},
	{"cgroup",
	 "memory",
	 "memory.usage_in_bytes",
	 "total_inactive_file ",
	 {"memory.limit_in_bytes"}},
};

/* ---- numbers ------------------------------------------------------------------------------- */

/* Read the number after KEY at the start of a line in PATH. False: there is none ("max"). */
static bool read_key(const char *path, const char *key, uint64_t *value)
{
	char text[STAT_BYTES];

	bb_kernel_read(path, text, sizeof(text));
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, strlen(key)) == 0)
			return sscanf(line + strlen(key), "%" SCNu64, value) == 1;
	}
	return false;
}

static bool read_in(const char *folder, const char *name, const char *key, uint64_t *value)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
	       read_key(path, key, value);
}

/* The bytes of KEY in /proc/FILE, which are in KiB there; 0: there is none. */
static uint64_t read_kib(const struct bb_available_source *source, const char *file,
			 const char *key)
{
	char path[PATH_MAX];
	uint64_t kib;

	snprintf(path, sizeof(path), "%s/proc/%s", source->root, file);
	return read_key(path, key, &kib) ? 1024 * kib : 0;
}

static uint64_t least_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- control groups ------------------------------------------------------------------------ */

/* Free memory of the group MOUNT + PATH and of all above it, up to the mount. */
static uint64_t room_of_groups(const struct hierarchy *h, const char *mount, const char *path)
{
	char folder[PATH_MAX], *slash;
	const size_t top = strlen(mount);
	uint64_t room = UINT64_MAX;

	if (snprintf(folder, sizeof(folder), "%s%s", mount, path) >= (int)sizeof(folder))
		return room;
	do {
		uint64_t usage, limit, cache = 0;

		if (read_in(folder, h->usage, "", &usage)) {
			read_in(folder, "memory.stat", h->cache, &cache);
			usage -= least_bytes(cache, usage);
			for (int i = 0; i < 2 && h->limits[i]; i++)
				if (read_in(folder, h->limits[i], "", &limit))
					room = least_bytes(room, limit > usage ? limit - usage : 0);
		}
		slash = strrchr(folder + top, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return room;
}

/* The path of this process in H, from its line "ID:CONTROLLERS:PATH"; NULL: none. */
static char *find_path(const struct hierarchy *h, char *lines)
{
	char *rest;

	for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *const controllers = strchr(line, ':');
		char *const path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path = '\0';
		if (*h->controller ? bb_list_has(controllers + 1, ',', h->controller)
				   : !controllers[1])
			return path + 1;
	}
	return NULL;
}

/* PATH below a mount of ROOT; the mount itself ("") if a namespace hides PATH. */
static const char *below(const char *path, const char *root)
{
	const size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(path, root, length) != 0 || (path[length] != '/' && path[length]) ||
	    strncmp(path, "/..", 3) == 0 || strcmp(path + length, "/") == 0)
		return "";
	return path + length;
}

/* Replace octal escapes ("\040" is a blank) in place. */
static void unescape(char *text)
{
	char *to = text;

	for (unsigned code; *text; to++) {
		if (sscanf(text, "\\%3o", &code) == 1 && strlen(text) >= 4) {
			*to = (char)code;
			text += 4;
		} else {
			*to = *text++;
		}
	}
	*to = '\0';
}

/* Free memory by LINE of mountinfo (proc(5)): "ID PARENT DEVICE ROOT MOUNT … - TYPE SOURCE
   OPTIONS". */
static uint64_t room_of_mount(const struct bb_available_source *source, const char *line)
{
	char root[PATH_MAX], mount[PATH_MAX], type[32], options[512], lines[STAT_BYTES];
	char where[2 * PATH_MAX], file[PATH_MAX];
	const char *const tail = strstr(line, " - ");

	if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) != 2 ||
	    sscanf(tail, " - %31s %*s %511s", type, options) != 2)
		return UINT64_MAX;
	unescape(root);
	unescape(mount);
	snprintf(where, sizeof(where), "%s%s", source->root, mount);
	snprintf(file, sizeof(file), "%s/proc/self/cgroup", source->root);
	for (size_t i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]); i++) {
		const struct hierarchy *const h = &hierarchies[i];

		if (strcmp(type, h->type) != 0 ||
		    (*h->controller && !bb_list_has(options, ',', h->controller)))
			continue;
		bb_kernel_read(file, lines, sizeof(lines));
		const char *const path = find_path(h, lines);
		return room_of_groups(h, where, path ? below(path, root) : "");
	}
	return UINT64_MAX;
}

/* ---- Slurm --------------------------------------------------------------------------------- */

static uint64_t variable(const struct bb_available_source *source, const char *name)
{
	const char *const text = source->variable(name);
	char *end;
	const uint64_t value = text ? strtoull(text, &end, 10) : 0;

	return text && *text >= '0' && *text <= '9' && !*end ? value : 0;
}

/* -------------------------------------------------------------------------------------------- */

uint64_t bb_available_room(const struct bb_available_source *source)
{
	char path[PATH_MAX], *text, *rest;
	const struct bb_file_request mounts = {.path = path, .most = MOUNTS_MOST};
	const uint64_t taken = read_kib(source, "self/status", "VmSize:");
	const uint64_t resident = read_kib(source, "self/status", "VmRSS:");
	/* Slurm's limit is in MiB per node, or per CPU of the job on the node (sbatch(1)); 0 is the
	   whole node. Slurm may enforce it without a control group. */
	const uint64_t node = variable(source, "SLURM_MEM_PER_NODE");
	const uint64_t slurm = node ? node
				    : variable(source, "SLURM_MEM_PER_CPU") *
					       variable(source, "SLURM_CPUS_ON_NODE");
	uint64_t room = read_kib(source, "meminfo", "MemAvailable:");
	struct bb_error ignored = {0};
	struct rlimit limit;
	size_t length;

	if (slurm > 0 && slurm <= UINT64_MAX >> 20)
		room = least_bytes(room, (slurm << 20) - least_bytes(resident, slurm << 20));
	/* Stacks of threads that have yet to start take address space (ulimit -v) too: half is
	   theirs. */
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		room = least_bytes(room, (limit.rlim_cur - least_bytes(taken, limit.rlim_cur)) / 2);
	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", source->root);
	if (bb_file_read(&mounts, &text, &length, &ignored) != BB_OK)
		return room;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		room = least_bytes(room, room_of_mount(source, line));
	free(text);
	return room;
}

static const char *environment_variable(const char *name)
{
	return getenv(name);
}

uint64_t bb_available_memory(void)
{
	return bb_available_room(&(struct bb_available_source){"", environment_variable});
}
