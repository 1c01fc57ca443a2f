#include "topology/probes/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <hwloc.h>
#include <hwloc/distances.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void bb_host_free(struct bb_host *host)
{
	for (int i = 0; i < host->nnumas; i++)
		free(host->numas[i].cpus);
	free(host->packages);
	free(host->numas);
	free(host->cores);
	free(host->distances);
	memset(host, 0, sizeof(*host));
}

int bb_host_numa(const struct bb_host *host, int os)
{
	for (int i = 0; i < host->nnumas; i++)
		if (host->numas[i].os == os)
			return i;
	return -1;
}

int64_t bb_host_memory(const struct bb_host *host)
{
	int64_t bytes = 0;

	for (int i = 0; i < host->nnumas; i++)
		bytes += host->numas[i].bytes;
	return bytes;
}

/* ---- by hwloc, without PCI, for a quick start ----------------------------------------------- */

static const char *object_info(hwloc_obj_t obj, const char *name)
{
	const char *value = hwloc_obj_get_info_by_name(obj, name);

	return value ? value : "";
}

static int count_type(hwloc_topology_t topology, hwloc_obj_type_t type)
{
	int n = hwloc_get_nbobjs_by_type(topology, type);

	return n > 0 ? n : 0;
}

/* The package that contains OBJ or, as a NUMA node may span several, the first one inside it. */
static int package_of(hwloc_topology_t topology, hwloc_obj_t obj)
{
	hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, obj);

	if (!package && obj->cpuset)
		package = hwloc_get_next_obj_covering_cpuset_by_type(topology, obj->cpuset,
								     HWLOC_OBJ_PACKAGE, NULL);
	if (!package && obj->cpuset)
		package = hwloc_get_obj_inside_cpuset_by_type(topology, obj->cpuset,
							      HWLOC_OBJ_PACKAGE, 0);
	return package ? (int)package->logical_index : -1;
}

int bb_host_numa_of(const struct bb_host *host, hwloc_topology_t topology, hwloc_obj_t obj)
{
	const int first = obj->nodeset ? hwloc_bitmap_first(obj->nodeset) : -1;

	if (first < 0)
		return -1;
	const hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology, (unsigned)first);
	if (!node || !hwloc_bitmap_isincluded(obj->cpuset, node->cpuset))
		return -1;
	return bb_host_numa(host, first);
}

static void read_cores(hwloc_topology_t topology, struct bb_host *host)
{
	hwloc_obj_t obj = NULL;
	hwloc_obj_type_t type = HWLOC_OBJ_CORE;

	host->nthreads = count_type(topology, HWLOC_OBJ_PU);
	if (count_type(topology, type) == 0)
		type = HWLOC_OBJ_PU;
	while ((obj = hwloc_get_next_obj_by_type(topology, type, obj)) != NULL) {
		int numa = bb_host_numa_of(host, topology, obj);

		host->cores[host->ncores++] = (struct bb_core){
			.pu = hwloc_bitmap_first(obj->cpuset),
			.package = package_of(topology, obj),
			.numa = numa >= 0 ? host->numas[numa].os : -1,
		};
	}
}

static bool read_distances(hwloc_topology_t topology, struct bb_host *host)
{
	struct hwloc_distances_s *d = NULL;
	unsigned n = 1;

	if (hwloc_distances_get_by_name(topology, "NUMALatency", &n, &d, 0) != 0 || n == 0)
		return true;
	host->distances =
		calloc((size_t)host->nnumas * (size_t)host->nnumas, sizeof(*host->distances));
	for (unsigned i = 0; host->distances && i < d->nbobjs * d->nbobjs; i++) {
		const int row = bb_host_numa(host, (int)d->objs[i / d->nbobjs]->os_index);
		const int column = bb_host_numa(host, (int)d->objs[i % d->nbobjs]->os_index);

		if (row >= 0 && column >= 0)
			host->distances[row * host->nnumas + column] = (int)d->values[i];
	}
	hwloc_distances_release(topology, d);
	return host->distances;
}

bb_status bb_host_read(hwloc_topology_t topology, struct bb_host *host, struct bb_error *error)
{
	static const hwloc_obj_type_t types[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
						 HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE};
	const char *arch = object_info(hwloc_get_root_obj(topology), "Architecture");
	hwloc_obj_t obj = NULL;

	memset(host, 0, sizeof(*host));
	host->packages = calloc((size_t)count_type(topology, HWLOC_OBJ_PACKAGE) + 1,
				sizeof(*host->packages));
	host->numas =
		calloc((size_t)count_type(topology, HWLOC_OBJ_NUMANODE) + 1, sizeof(*host->numas));
	host->cores = calloc((size_t)count_type(topology, HWLOC_OBJ_PU) + 1, sizeof(*host->cores));
	if (!host->packages || !host->numas || !host->cores)
		goto no_memory;
	snprintf(host->arch, sizeof(host->arch), "%s", arch);
	while ((obj = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, obj)) != NULL) {
		struct bb_package *p = &host->packages[host->npackages++];

		snprintf(p->model, sizeof(p->model), "%s", object_info(obj, "CPUModel"));
		snprintf(p->vendor, sizeof(p->vendor), "%s", object_info(obj, "CPUVendor"));
		p->family = (int)strtol(object_info(obj, "CPUFamilyNumber"), NULL, 10);
		p->number = (int)strtol(object_info(obj, "CPUModelNumber"), NULL, 10);
	}
	while ((obj = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, obj)) != NULL) {
		struct bb_numa *n = &host->numas[host->nnumas++];

		n->os = (int)obj->os_index;
		n->package = package_of(topology, obj);
		n->bytes = (int64_t)obj->attr->numanode.local_memory;
		if (obj->cpuset && !hwloc_bitmap_iszero(obj->cpuset) &&
		    hwloc_bitmap_list_asprintf(&n->cpus, obj->cpuset) < 0)
			goto no_memory;
	}
	read_cores(topology, host);
	for (int level = 1; level <= 4; level++) {
		obj = hwloc_get_obj_by_type(topology, types[level - 1], 0);
		if (obj)
			host->caches[host->ncaches++] = (struct bb_cpu_cache){
				.level = level,
				.bytes = (int64_t)obj->attr->cache.size,
				.count = count_type(topology, types[level - 1]),
			};
	}
	if (!read_distances(topology, host))
		goto no_memory;
	return BB_OK;
no_memory:
	return bb_no_memory(error, "the topology of the machine");
}

bb_status bb_machine_open(struct bb_machine **machine, struct bb_error *error)
{
	struct bb_machine *m = calloc(1, sizeof(*m));
	hwloc_bitmap_t usable = NULL;
	hwloc_obj_type_t type;
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
	const char *const name = m->host.npackages > 0 ? m->host.packages[0].model : "";
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

	if (!set)
		return false;
	hwloc_bitmap_only(set, (unsigned)machine->cores[core].pu);
	const bool pinned = hwloc_set_cpubind(machine->topology, set, HWLOC_CPUBIND_THREAD) == 0;
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
