#include "topology/probes/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bb_status bb_machine_open(struct bb_machine **machine, struct bb_error *error)
{
	struct bb_machine *m = calloc(1, sizeof(*m));
	hwloc_bitmap_t usable = NULL;
	hwloc_obj_type_t type;
	const char *name;
	bb_status st;

	if (!m || hwloc_topology_init(&m->topology) != 0) {
		free(m);
		return bb_no_memory(error, "the topology of the machine");
	}
	if (hwloc_topology_load(m->topology) != 0)
		BB_TRY(st,
		       bb_fail(error, BB_EBACKEND, "hwloc could not read this machine's topology"),
		       failed);
	BB_TRY(st, bb_host_read(m->topology, &m->host, error), failed);
	m->cores = calloc((size_t)m->host.ncores + 1, sizeof(*m->cores));
	usable = hwloc_bitmap_alloc();
	if (!m->cores || !usable)
		BB_TRY(st, bb_no_memory(error, "the topology of the machine"), failed);
	if (hwloc_get_cpubind(m->topology, usable, HWLOC_CPUBIND_THREAD) != 0)
		hwloc_bitmap_fill(usable);
	/* hwloc has the cores in the host's order. */
	type = hwloc_get_nbobjs_by_type(m->topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE
									 : HWLOC_OBJ_PU;
	for (int i = 0; i < m->host.ncores; i++) {
		hwloc_obj_t core = hwloc_get_obj_by_type(m->topology, type, (unsigned)i);
		struct bb_core c = m->host.cores[i];

		while (c.pu >= 0 && !hwloc_bitmap_isset(usable, (unsigned)c.pu))
			c.pu = hwloc_bitmap_next(core->cpuset, c.pu);
		if (c.pu >= 0)
			m->cores[m->ncores++] = c;
	}
	hwloc_bitmap_free(usable);
	m->ncores = m->ncores > 0 ? m->ncores : 1;
	m->l2 = (size_t)1 << 20;
	m->l3 = (size_t)32 << 20;
	for (int i = 0; i < m->host.ncaches; i++) {
		const struct bb_cpu_cache *const c = &m->host.caches[i];

		if (c->level == 2 && c->bytes > 0)
			m->l2 = (size_t)c->bytes;
		else if (c->level == 3 && c->bytes > 0)
			m->l3 = (size_t)c->bytes * (size_t)c->count;
	}
	name = m->host.npackages > 0 ? m->host.packages[0].model : "";
	snprintf(m->cpu, sizeof(m->cpu), "%s", *name ? name : "unknown CPU");
	*machine = m;
	return BB_OK;
failed:
	hwloc_bitmap_free(usable);
	bb_machine_close(m);
	return st;
}

void bb_machine_close(struct bb_machine *machine)
{
	if (!machine)
		return;
	hwloc_topology_destroy(machine->topology);
	bb_host_free(&machine->host);
	free(machine->cores);
	free(machine);
}

bool bb_machine_pin(const struct bb_machine *machine, int core)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	bool pinned;

	if (!set)
		return false;
	hwloc_bitmap_only(set, (unsigned)machine->cores[core].pu);
	pinned = hwloc_set_cpubind(machine->topology, set, HWLOC_CPUBIND_THREAD) == 0;
	hwloc_bitmap_free(set);
	return pinned;
}

int bb_gpus_present(void)
{
	const char *const given = getenv("BUSBENCH_DEVICE_FOLDER");
	const char *const list = getenv("CUDA_VISIBLE_DEVICES");
	/* CUDA ignores its list from the first item on that is neither a number nor an identifier.
	 */
	const bool hidden = list && !isdigit((unsigned char)*list) &&
			    strncmp(list, "GPU-", 4) != 0 && strncmp(list, "MIG-", 4) != 0;
	DIR *folder = hidden ? NULL : opendir(given ? given : "/dev");
	const struct dirent *file;
	int n = 0;

	if (!folder)
		return 0;
	/* access checks the cgroup too; opening would wake the GPU. */
	while ((file = readdir(folder)) != NULL) {
		const size_t prefix = strlen("nvidia");
		const size_t digits = strncmp(file->d_name, "nvidia", prefix) == 0
					      ? strspn(file->d_name + prefix, "0123456789")
					      : 0;

		n += digits > 0 && file->d_name[prefix + digits] == '\0' &&
		     faccessat(dirfd(folder), file->d_name, R_OK | W_OK, 0) == 0;
	}
	closedir(folder);
	return n;
}
