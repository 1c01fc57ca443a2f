/*
 * hwloc_xml.c - XML of lstopo, of hwloc 2 and 3.
 *
 * libhwloc does not read it for two reasons: version 2 refuses files of hwloc 3, and malformed
 * files may end the process. 78 of 600 mutations of a file killed libhwloc 2.9 (SIGSEGV or a failed
 * assertion); this reader names the wrong line.
 */
#include "topology/files/formats.h"
#include "topology/build.h"
#include "topology/rates.h"
#include "core/array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CPU 65535 /* number of a hardware thread or NUMA node */
#define LEVELS 9       /* of caches */
#define MOST_ENDS 256  /* of a matrix of NVLinks: GPUs, switches and packages */

/* The object with hwloc's gp_index GP: a device, BB_PEER_SWITCH or BB_PEER_CPU. */
struct end {
	int64_t gp;
	int device;
};

struct reader {
	struct bb_topology *t;
	struct bb_error *error;
	int version;      /* of the format: 2 or 3 */
	bool nvml;        /* its hwloc had NVML, which shows NVLinks */
	struct end *ends; /* room for one per element that can be the end of an NVLink */
	int nends, room;
	int order[BB_MOST_DEVICES];             /* of devices: the driver's number of a GPU */
	struct bb_cpu_cache caches[LEVELS + 1]; /* by level */
};

/* Surroundings of an element. */
struct place {
	int package;
	int numa; /* number of the NUMA node of the innermost object with processors, -1 several */
	int port, root;
	int device; /* of the PCI device, -1 none */
};

static const char *info_of(const struct bb_xml *x, const char *name)
{
	for (const struct bb_xml *c = x->child; c; c = c->next)
		if (bb_xml_is(c, "info") && strcmp(bb_xml_text(c, "name"), name) == 0)
			return bb_xml_text(c, "value");
	return "";
}

/* The first hardware thread or NUMA node in MASK, or the ONLY one; -1: none. */
static int first_in(const char *mask, bool only)
{
	hwloc_bitmap_t set = bb_read_mask(mask);
	const int first =
		set && !(only && hwloc_bitmap_weight(set) != 1) ? hwloc_bitmap_first(set) : -1;

	hwloc_bitmap_free(set);
	return first;
}

/* ---- the host ---------------------------------------------------------------------------- */

static bb_status read_numa(struct reader *r, const struct bb_xml *x, int package)
{
	struct bb_numa n = {
		.os = (int)bb_xml_number(x, "os_index", 0, MOST_CPU, -1),
		.package = package,
		.bytes = bb_xml_number(x, "local_memory", 0, INT64_MAX / BB_MOST_NUMAS, 0),
	};
	char *cpus = bb_cpu_list(bb_xml_text(x, "cpuset"));
	bb_status st;

	if (n.os < 0)
		st = bb_fail(r->error, BB_EUSAGE, "line %d: a NUMANode without os_index", x->line);
	else
		st = bb_add_numa(r->t, &n, cpus, NULL, r->error);
	free(cpus);
	return st;
}

static void read_cache(struct reader *r, const struct bb_xml *x)
{
	const int level = (int)bb_xml_number(x, "depth", 1, LEVELS, 0);
	struct bb_cpu_cache *const c = &r->caches[level];

	/* Caches of instructions (2) do not count. */
	if (level == 0 || bb_xml_number(x, "cache_type", 0, 2, 0) == 2)
		return;
	if (c->count++ == 0)
		c->bytes = bb_xml_number(x, "cache_size", 0, INT64_MAX, 0);
	c->level = level;
}

/* ---- PCI and devices --------------------------------------------------------------------- */

static bb_status keep_end(struct reader *r, const struct bb_xml *x, int device)
{
	const int64_t gp = bb_xml_number(x, "gp_index", 0, INT64_MAX, -1);

	if (gp >= 0 && !BB_ARRAY_PUT(r->ends, r->nends, r->room, (struct end){gp, device}))
		return bb_no_memory(r->error, "devices");
	return BB_OK;
}

/* Read what Bridge and PCIDev have in common. */
static bb_status read_pci(struct reader *r, const struct bb_xml *x, struct place *at,
			  enum bb_pci_role role)
{
	struct bb_pci p = {.role = role, .parent = at->port, .root = at->root, .numa = at->numa};
	const double GBps = strtod(bb_xml_text(x, "pci_link_speed"), NULL);
	const char *const id = bb_xml_text(x, "pci_busid"), *const type =
								    bb_xml_text(x, "pci_type");

	if (!bb_pci_id(p.id, id))
		return bb_fail(r->error, BB_EUSAGE, "line %d: \"%.32s\" is not a PCI bus id",
			       x->line, id);
	if (sscanf(type, "%4x [%4x:%4x]", &p.class_code, &p.vendor, &p.device) < 1)
		return bb_fail(r->error, BB_EUSAGE, "line %d: \"%.32s\" is not a PCI type", x->line,
			       type);
	p.now.GBps = GBps > 0 && GBps < 10000 ? GBps : 0;
	return bb_add_pci(r->t, &p, &at->port, r->error);
}

static bb_status read_pci_device(struct reader *r, const struct bb_xml *x, struct place *at)
{
	bb_status st;

	BB_TRY(st, read_pci(r, x, at, BB_PCI_ENDPOINT), out);
	const enum bb_device_kind kind = bb_pci_kind(&r->t->pcis[at->port]);
	/* Some NVSwitches show only by their class. */
	if (r->t->pcis[at->port].class_code == 0x0680 ||
	    strcmp(bb_xml_text(x, "subtype"), "NVSwitch") == 0) {
		r->t->nvswitches++;
		return keep_end(r, x, BB_PEER_SWITCH);
	}
	if (kind == BB_DEVICE_KINDS)
		return BB_OK;
	struct bb_device d = bb_device_of(r->t, at->port, kind);
	BB_TRY(st, bb_add_device(r->t, &d, &at->device, r->error), out);
	r->order[at->device] = at->device;
	st = keep_end(r, x, at->device);
out:
	return st;
}

/* Read X, what the operating system or a driver calls DEVICE. */
static bb_status read_os_device(struct reader *r, const struct bb_xml *x, int device)
{
	struct bb_device *const d = &r->t->devices[device];
	const char *const name = bb_xml_text(x, "name"), *const model = info_of(x, "GPUModel"),
			  *const state = info_of(x, "Port1State");
	const int64_t type = bb_xml_number(x, "osdev_type", 0, 255, 0);
	const bool is_rdma = r->version >= 3 ? type & 32 : type == 3;
	const bool is_network = r->version >= 3 ? type & 16 : type == 2;
	int number;

	if (d->kind == BB_GPU) {
		if (*model) {
			snprintf(d->model, sizeof(d->model), "%s",
				 strncmp(model, "NVIDIA ", 7) == 0 ? model + 7 : model);
			d->sm = d->sm ? d->sm : bb_gpu_sm(model);
		}
		if (sscanf(name, "nvml%4d", &number) == 1 && number >= 0)
			r->order[device] = number;
		r->nvml = r->nvml || strncmp(name, "nvml", 4) == 0;
	} else if (d->kind == BB_NVME) {
		snprintf(d->name, sizeof(d->name), "%s", name);
	} else if (is_rdma) {
		if (!d->port[0])
			snprintf(d->port, sizeof(d->port), "%s", d->name);
		snprintf(d->name, sizeof(d->name), "%s", name);
		if (*state)
			d->state = strtol(state, NULL, 10) == 4 ? BB_STATE_UP : BB_STATE_DOWN;
	} else if (is_network) {
		snprintf(d->name[0] ? d->port : d->name, sizeof(d->name), "%s", name);
	}
	return keep_end(r, x, device);
}

/* ---- the tree ---------------------------------------------------------------------------- */

static int count_objects(const struct bb_xml *x, const char *type)
{
	int n = strcmp(bb_xml_text(x, "type"), type) == 0;

	for (const struct bb_xml *c = x->child; c; c = c->next)
		if (bb_xml_is(c, "object"))
			n += count_objects(c, type);
	return n;
}

/* Read X, an object at AT, and all below it. Objects of type CORE are the cores. */
static bb_status read_object(struct reader *r, const struct bb_xml *x, struct place at,
			     const char *core)
{
	const char *type = bb_xml_text(x, "type");
	struct bb_package p = {.family = 0};
	bb_status st = BB_OK;

	if (strcmp(type, "NUMANode") == 0)
		BB_TRY(st, read_numa(r, x, at.package), out);
	else if (*bb_xml_text(x, "nodeset"))
		at.numa = first_in(bb_xml_text(x, "nodeset"), true);
	if (strcmp(type, "Package") == 0) {
		p.family = (int)(strtol(info_of(x, "CPUFamilyNumber"), NULL, 10) & 0xffff);
		p.number = (int)(strtol(info_of(x, "CPUModelNumber"), NULL, 10) & 0xffff);
		snprintf(p.model, sizeof(p.model), "%s", info_of(x, "CPUModel"));
		snprintf(p.vendor, sizeof(p.vendor), "%s", info_of(x, "CPUVendor"));
		BB_TRY(st, bb_add_package(r->t, &p, &at.package, r->error), out);
		BB_TRY(st, keep_end(r, x, BB_PEER_CPU), out);
	} else if (strcmp(type, "Bridge") == 0) {
		if (bb_xml_text(x, "bridge_type")[0] == '1')
			BB_TRY(st, read_pci(r, x, &at, bb_port_role(r->t, at.port)), out);
		else
			at.root = r->t->npcis; /* a host bridge: a unique number */
	} else if (strcmp(type, "PCIDev") == 0) {
		BB_TRY(st, read_pci_device(r, x, &at), out);
	} else if (strcmp(type, "OSDev") == 0 && at.device >= 0) {
		BB_TRY(st, read_os_device(r, x, at.device), out);
	} else if (type[0] == 'L' && type[1] >= '1' && type[1] <= '9' &&
		   strcmp(type + 2, "Cache") == 0) {
		read_cache(r, x);
	}
	if (strcmp(type, core) == 0) {
		const struct bb_core c = {.pu = first_in(bb_xml_text(x, "cpuset"), false),
					  .package = at.package,
					  .numa = at.numa};

		BB_TRY(st, bb_add_core(r->t, &c, r->error), out);
	}
	for (const struct bb_xml *c = x->child; c; c = c->next)
		if (bb_xml_is(c, "object"))
			BB_TRY(st, read_object(r, c, at, core), out);
out:
	return st;
}

/* ---- after the tree ---------------------------------------------------------------------- */

/* Turn numbers of NUMA nodes into indices, once all nodes are known, and place cores, NUMA nodes
   that span several packages, in the first of them, and GPUs in their driver's order. A core is at
   the first NUMA node that has its processor, and in its own package or else that of the node; one
   without a node, or with the processor of another core, is dropped. */
static bb_status place_all(struct reader *r)
{
	struct bb_topology *const t = r->t;
	struct bb_host *const h = &t->host;
	hwloc_bitmap_t left = hwloc_bitmap_alloc();
	int moved[BB_MOST_DEVICES], n = 0;

	for (int p = 0; p < t->npcis; p++)
		t->pcis[p].numa = bb_host_numa(h, t->pcis[p].numa);
	for (int d = 0; d < t->ndevices; d++)
		t->devices[d].numa = bb_host_numa(h, t->devices[d].numa);
	for (int c = 0; c < h->ncores; c++)
		h->cores[c].numa = -1;
	for (int i = 0; left && i < h->nnumas; i++) {
		hwloc_bitmap_zero(left);
		if (h->numas[i].cpus)
			hwloc_bitmap_list_sscanf(left, h->numas[i].cpus);
		for (struct bb_core *core = h->cores; core < h->cores + h->ncores; core++) {
			if (core->pu < 0 || core->numa >= 0 ||
			    !hwloc_bitmap_isset(left, (unsigned)core->pu))
				continue;
			hwloc_bitmap_clr(left, (unsigned)core->pu);
			core->numa = h->numas[i].os;
			core->package = core->package < 0 ? h->numas[i].package : core->package;
		}
	}
	hwloc_bitmap_free(left);
	for (int c = 0; c < h->ncores; c++)
		if (h->cores[c].numa >= 0)
			h->cores[n++] = h->cores[c];
	h->ncores = n;
	for (int i = 0; i < h->nnumas; i++)
		for (int c = 0; c < h->ncores && h->numas[i].package < 0; c++)
			if (h->cores[c].numa == h->numas[i].os)
				h->numas[i].package = h->cores[c].package;
	if (!bb_sort_devices(t, r->order, moved))
		return bb_no_memory(r->error, "devices");
	for (int i = 0; i < r->nends; i++)
		if (r->ends[i].device >= 0)
			r->ends[i].device = moved[r->ends[i].device];
	return BB_OK;
}

/* ---- matrices ---------------------------------------------------------------------------- */

/* The words in all elements NAME of a matrix, one after the other. */
struct words {
	const struct bb_xml *element; /* the first child of the matrix */
	const char *name, *at;
};

/* The next word, up to a blank; NULL: there is none. */
static const char *next_word(struct words *w)
{
	static const char blanks[] = " \t\r\n";

	for (; w->element; w->element = w->element->next, w->at = NULL) {
		const char *const text = w->at ? w->at : bb_strbuf_text(&w->element->text);
		const char *const word = text + strspn(text, blanks);

		w->at = word + strcspn(word, blanks);
		if (*word && bb_xml_is(w->element, w->name))
			return word;
	}
	return NULL;
}

/* Matrices end where a word is no number. */
static bool is_number(const char *word)
{
	return *word >= '0' && *word <= '9';
}

static bb_status read_distances(struct reader *r, const struct bb_xml *matrix)
{
	struct bb_host *h = &r->t->host;
	const int64_t n = bb_xml_number(matrix, "nbobjs", 1, BB_MOST_NUMAS, 0);
	struct words values = {matrix->child, "u64values", NULL};
	const char *word;
	bb_status st;

	if (n != h->nnumas)
		return BB_OK;
	BB_TRY(st, bb_add_distances(r->t, r->error), out);
	for (int at = 0; at < n * n && (word = next_word(&values)) && is_number(word); at++) {
		const unsigned long long value = strtoull(word, NULL, 10);

		h->distances[at] = value < 1000000 ? (int)value : 0;
	}
out:
	return st;
}

/* Read hwloc's NVLinkBandwidth matrix: MB/s of all links between two objects, 0 none. They are
   "OSDev:802 PCIDev:449" or, where all are of one type, "802 803". */
static bb_status read_nvlinks(struct reader *r, const struct bb_xml *matrix)
{
	struct words values = {matrix->child, "u64values", NULL};
	struct words indexes = {matrix->child, "indexes", NULL};
	const struct bb_topology *const t = r->t;
	int ends[MOST_ENDS], n = 0; /* devices, BB_PEER_* or BB_PEER_MISSING */
	const char *word;
	bb_status st = BB_OK;

	while (n < MOST_ENDS && (word = next_word(&indexes))) {
		const char *const colon = word + strcspn(word, ": \t\r\n");
		const char *const number = *colon == ':' ? colon + 1 : word;
		const long long gp = is_number(number) ? strtoll(number, NULL, 10) : -1;

		ends[n] = BB_PEER_MISSING;
		for (int i = r->nends - 1; i >= 0; i--)
			if (r->ends[i].gp == gp)
				ends[n] = r->ends[i].device;
		n++;
	}
	for (int at = 0; at < n * n && (word = next_word(&values)) && is_number(word); at++) {
		const unsigned long long MBps =
			strtoull(word, NULL, 10); /* of all links from A to B */
		const int a = ends[at / n], b = ends[at % n];

		/* Larger values stand on the diagonal. */
		if (MBps == 0 || MBps >= 1000000000 || a < 0 || a == b || b == BB_PEER_MISSING ||
		    t->devices[a].kind != BB_GPU || (b >= 0 && t->devices[b].kind != BB_GPU))
			continue;
		struct bb_link l = bb_gpu_links(t, a, b, 0);
		l.count = (int)lround((double)MBps / (l.GBps > 0 ? l.GBps * 1000 : (double)MBps));
		if (l.count > 0 && l.count < 1000)
			BB_TRY(st, bb_add_link(r->t, &l, r->error), out);
	}
out:
	return st;
}

bb_status bb_read_hwloc_xml(const struct bb_xml *root, struct bb_topology *t,
			    struct bb_error *error)
{
	struct reader r = {.t = t, .error = error};
	const struct place nowhere = {-1, -1, -1, -1, -1};
	const struct bb_xml *machine = bb_xml_child(root, "object"), *about;
	const char *version = bb_xml_text(root, "version");
	bb_status st = BB_OK;

	r.version = (int)strtod(version, NULL);
	if (r.version != 2 && r.version != 3)
		return bb_fail(error, BB_EUSAGE,
			       "version %.16s of hwloc's XML; 2 and 3 are known, and lstopo of "
			       "hwloc 2 converts older ones",
			       *version ? version : "1");
	if (!machine)
		return bb_fail(error, BB_EUSAGE, "there is no object in the topology");
	/* hwloc 3 has attributes of the machine at the root. */
	about = *info_of(machine, "Architecture") ? machine : root;
	snprintf(t->host.arch, sizeof(t->host.arch), "%s", info_of(about, "Architecture"));
	snprintf(t->name, sizeof(t->name), "%s", info_of(about, "HostName"));
	snprintf(t->source, sizeof(t->source), "hwloc's XML");
	BB_TRY(st,
	       read_object(&r, machine, nowhere,
			   count_objects(machine, "Core") > 0 ? "Core" : "PU"),
	       out);
	t->host.nthreads = count_objects(machine, "PU");
	for (int level = 1; level <= LEVELS && t->host.ncaches < BB_CACHES; level++)
		if (r.caches[level].count > 0)
			t->host.caches[t->host.ncaches++] = r.caches[level];
	t->links_unknown = !r.nvml && bb_may_have_links(t);
	BB_TRY(st, place_all(&r), out);
	for (const struct bb_xml *c = root->child; c; c = c->next) {
		if (!bb_xml_is(c, "distances2") && !bb_xml_is(c, "distances2hetero"))
			continue;
		if (strcmp(bb_xml_text(c, "name"), "NUMALatency") == 0)
			BB_TRY(st, read_distances(&r, c), out);
		if (strcmp(bb_xml_text(c, "name"), "NVLinkBandwidth") == 0)
			BB_TRY(st, read_nvlinks(&r, c), out);
	}
out:
	free(r.ends);
	return st;
}
