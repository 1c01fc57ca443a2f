/*
 * hwloc_xml.c - XML of lstopo, of hwloc 2 and 3.
 *
 * libhwloc does not read it for two reasons: version 2 refuses files of hwloc 3, and malformed
 * files may end the process. 78 of 600 mutations of tests/fuzz/seeds/topology/own.xml killed
 * libhwloc 2.9 (SIGSEGV or a failed assertion); this reader names the wrong line.
 */
#include "topology/files/formats.h"
#include "topology/build.h"
#include "topology/rates.h"
#include "core/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CPU 65536 /* hardware threads, by number */

struct reader {
	struct bb_topology *t;
	struct bb_error *error;
	int version;       /* of the format: 2 or 3 */
	bool nvml;         /* its hwloc had NVML, which shows NVLinks */
	struct bb_gp *gps; /* room for one per element that can be the end of an NVLink */
	int ngps, room;
	int order[BB_MOST_DEVICES]; /* of devices: the driver's number of a GPU */
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

/* ---- sets of hardware threads and NUMA nodes --------------------------------------------- */

static int first_in(const char *mask)
{
	hwloc_bitmap_t set = bb_read_mask(mask);
	int first = set ? hwloc_bitmap_first(set) : -1;

	hwloc_bitmap_free(set);
	return first;
}

/* The only NUMA node in MASK, or -1. */
static int only_numa(const char *mask)
{
	hwloc_bitmap_t set = bb_read_mask(mask);
	int numa = -1;

	if (set && hwloc_bitmap_weight(set) == 1)
		numa = hwloc_bitmap_first(set);
	hwloc_bitmap_free(set);
	return numa;
}

/* ---- the host ---------------------------------------------------------------------------- */

static bb_status read_package(struct reader *r, const struct bb_xml *x, int *package)
{
	struct bb_package p = {0};

	snprintf(p.model, sizeof(p.model), "%s", info_of(x, "CPUModel"));
	snprintf(p.vendor, sizeof(p.vendor), "%s", info_of(x, "CPUVendor"));
	p.family = (int)(strtol(info_of(x, "CPUFamilyNumber"), NULL, 10) & 0xffff);
	p.number = (int)(strtol(info_of(x, "CPUModelNumber"), NULL, 10) & 0xffff);
	return bb_add_package(r->t, &p, package, r->error);
}

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

static bb_status read_core(struct reader *r, const struct bb_xml *x, const struct place *at)
{
	struct bb_core core = {
		.pu = first_in(bb_xml_text(x, "cpuset")), .package = at->package, .numa = at->numa};
	return bb_add_core(r->t, &core, r->error);
}

static void read_cache(struct reader *r, const struct bb_xml *x)
{
	struct bb_host *h = &r->t->host;
	const int level = (int)bb_xml_number(x, "depth", 1, 9, 0);
	int i = 0;

	/* Caches of instructions (2) do not count. */
	if (level == 0 || bb_xml_number(x, "cache_type", 0, 2, 0) == 2)
		return;
	while (i < h->ncaches && h->caches[i].level < level)
		i++;
	if (i == h->ncaches || h->caches[i].level != level) {
		if (h->ncaches == BB_CACHES)
			return;
		memmove(&h->caches[i + 1], &h->caches[i],
			(size_t)(h->ncaches++ - i) * sizeof(h->caches[0]));
		h->caches[i] = (struct bb_cpu_cache){
			.level = level,
			.bytes = bb_xml_number(x, "cache_size", 0, INT64_MAX, 0),
		};
	}
	h->caches[i].count++;
}

/* ---- PCI and devices --------------------------------------------------------------------- */

static bb_status keep_gp(struct reader *r, const struct bb_xml *x, int device)
{
	const int64_t gp = bb_xml_number(x, "gp_index", 0, INT64_MAX, -1);
	struct bb_gp *new;

	if (gp < 0)
		return BB_OK;
	new = BB_ARRAY_ADD(r->gps, r->ngps, r->room);
	if (!new)
		return bb_no_memory(r->error, "devices");
	*new = (struct bb_gp){gp, device};
	return BB_OK;
}

static void read_own_pci(const struct bb_xml *x, struct bb_pci *p)
{
	int role, root, acs, gen, width, most_gen, most_width;

	if (sscanf(info_of(x, BB_INFO_PCI), "%d %d %d", &role, &root, &acs) == 3 &&
	    role >= BB_PCI_ENDPOINT && role <= BB_PCI_SWITCH_DOWN && acs >= BB_ACS_UNKNOWN &&
	    acs <= BB_ACS_REDIRECT) {
		p->role = (enum bb_pci_role)role;
		p->root = root;
		p->acs = (enum bb_acs)acs;
	}
	if (sscanf(info_of(x, BB_INFO_LINK), "%d %d %d %d", &gen, &width, &most_gen, &most_width) ==
	    4) {
		p->most = bb_pcie(most_gen, most_width);
		if (gen > 0)
			p->now = bb_pcie(gen, width);
	}
}

/* Read what Bridge and PCIDev have in common. */
static bb_status read_pci(struct reader *r, const struct bb_xml *x, struct place *at, bool bridge)
{
	struct bb_pci p = {.parent = at->port, .root = at->root, .numa = at->numa};
	unsigned class_code = 0, vendor = 0, device = 0;
	double GBps = strtod(bb_xml_text(x, "pci_link_speed"), NULL);

	if (!bb_pci_id(p.id, bb_xml_text(x, "pci_busid")))
		return bb_fail(r->error, BB_EUSAGE, "line %d: \"%.32s\" is not a PCI bus id",
			       x->line, bb_xml_text(x, "pci_busid"));
	if (sscanf(bb_xml_text(x, "pci_type"), "%4x [%4x:%4x]", &class_code, &vendor, &device) < 1)
		return bb_fail(r->error, BB_EUSAGE, "line %d: \"%.32s\" is not a PCI type", x->line,
			       bb_xml_text(x, "pci_type"));
	p.class_code = class_code;
	p.vendor = vendor;
	p.device = device;
	p.role = bridge ? bb_port_role(r->t, at->port) : BB_PCI_ENDPOINT;
	p.now.GBps = GBps > 0 && GBps < 10000 ? GBps : 0;
	read_own_pci(x, &p);
	at->root = p.root;
	return bb_add_pci(r->t, &p, &at->port, r->error);
}

static bb_status read_bridge(struct reader *r, const struct bb_xml *x, struct place *at)
{
	if (bb_xml_text(x, "bridge_type")[0] != '1') {
		at->root = r->t->npcis; /* unique */
		return BB_OK;
	}
	return read_pci(r, x, at, true);
}

static bool has_own_device(const struct bb_xml *x)
{
	for (const struct bb_xml *c = x->child; c; c = c->next)
		if (bb_xml_is(c, "object") && *info_of(c, BB_INFO_DEVICE))
			return true;
	return false;
}

static bb_status read_pci_device(struct reader *r, const struct bb_xml *x, struct place *at)
{
	enum bb_device_kind kind;
	struct bb_device d;
	bb_status st;

	BB_TRY(st, read_pci(r, x, at, false), out);
	if (has_own_device(x))
		return BB_OK;
	kind = bb_pci_kind(&r->t->pcis[at->port]);
	/* Some NVSwitches show only by their class. */
	if (r->t->pcis[at->port].class_code == 0x0680 ||
	    strcmp(bb_xml_text(x, "subtype"), "NVSwitch") == 0) {
		r->t->nvswitches++;
		return keep_gp(r, x, BB_PEER_SWITCH);
	}
	if (kind == BB_DEVICE_KINDS)
		return BB_OK;
	d = bb_device_of(r->t, at->port, kind);
	BB_TRY(st, bb_add_device(r->t, &d, &at->device, r->error), out);
	r->order[at->device] = at->device;
	st = keep_gp(r, x, at->device);
out:
	return st;
}

/* Whether X has the type BIT of hwloc 3, or NUMBER of hwloc 2. */
static bool is_type(const struct reader *r, const struct bb_xml *x, int bit, int number)
{
	const int64_t type = bb_xml_number(x, "osdev_type", 0, 255, 0);

	return r->version >= 3 ? type & bit : type == number;
}

static void read_gpu_names(struct reader *r, const struct bb_xml *x, int device)
{
	struct bb_device *d = &r->t->devices[device];
	const char *model = info_of(x, "GPUModel"), *name = bb_xml_text(x, "name");
	int number;

	if (*model) {
		snprintf(d->model, sizeof(d->model), "%s",
			 strncmp(model, "NVIDIA ", 7) == 0 ? model + 7 : model);
		d->sm = d->sm ? d->sm : bb_gpu_sm(model);
	}
	if (sscanf(name, "nvml%4d", &number) == 1 && number >= 0)
		r->order[device] = number;
	r->nvml = r->nvml || strncmp(name, "nvml", 4) == 0;
}

static void read_nic_names(struct reader *r, const struct bb_xml *x, struct bb_device *d)
{
	const char *name = bb_xml_text(x, "name");

	if (is_type(r, x, 32, 3)) {
		if (!d->port[0])
			snprintf(d->port, sizeof(d->port), "%s", d->name);
		snprintf(d->name, sizeof(d->name), "%s", name);
		if (*info_of(x, "Port1State"))
			d->state = strtol(info_of(x, "Port1State"), NULL, 10) == 4 ? BB_STATE_UP
										   : BB_STATE_DOWN;
	} else if (is_type(r, x, 16, 2)) {
		snprintf(d->name[0] ? d->port : d->name, sizeof(d->name), "%s", name);
	}
}

/* Read a device of busbench's own files, which is complete without its surroundings. */
static bb_status read_own_device(struct reader *r, const struct bb_xml *x, const struct place *at)
{
	struct bb_device d = {.pci = at->port, .numa = at->numa};
	long long bytes, rate;
	int kind, order, layer, state, gdr = BB_GDR_UNKNOWN, index;
	bb_status st;

	if (sscanf(info_of(x, BB_INFO_DEVICE), "%d %d %lld %d %lld %d %d %d", &kind, &order, &bytes,
		   &d.sm, &rate, &layer, &state, &gdr) < 7 ||
	    kind < 0 || kind >= BB_DEVICE_KINDS || order < 0 || order >= BB_MOST_DEVICES ||
	    bytes < 0 || d.sm < 0 || d.sm > 999 || rate < 0 || rate > 100000000 || layer < 0 ||
	    layer > BB_ETHERNET || state < 0 || state > BB_STATE_DOWN || gdr < 0 || gdr > BB_GDR_ON)
		return bb_fail(r->error, BB_EUSAGE, "line %d: \"%.40s\" describes no device",
			       x->line, info_of(x, BB_INFO_DEVICE));
	d.kind = (enum bb_device_kind)kind;
	d.bytes = bytes;
	d.rate_Mbps = rate;
	d.layer = (enum bb_nic_layer)layer;
	d.state = (enum bb_nic_state)state;
	d.gdr = (enum bb_gdr)gdr;
	snprintf(d.name, sizeof(d.name), "%s", bb_xml_text(x, "name"));
	snprintf(d.port, sizeof(d.port), "%s", info_of(x, BB_INFO_PORT));
	snprintf(d.model, sizeof(d.model), "%s", info_of(x, kind == BB_GPU ? "GPUModel" : "Model"));
	BB_TRY(st, bb_add_device(r->t, &d, &index, r->error), out);
	r->order[index] = order;
	st = keep_gp(r, x, index);
out:
	return st;
}

static bb_status read_os_device(struct reader *r, const struct bb_xml *x, const struct place *at)
{
	struct bb_device *d = at->device >= 0 ? &r->t->devices[at->device] : NULL;

	if (*info_of(x, BB_INFO_DEVICE))
		return read_own_device(r, x, at);
	if (!d)
		return BB_OK;
	if (d->kind == BB_GPU)
		read_gpu_names(r, x, at->device);
	else if (d->kind == BB_NIC)
		read_nic_names(r, x, d);
	else
		snprintf(d->name, sizeof(d->name), "%s", bb_xml_text(x, "name"));
	return keep_gp(r, x, at->device);
}

/* ---- the tree ---------------------------------------------------------------------------- */

static bool is_cache(const char *type)
{
	return type[0] == 'L' && type[1] >= '1' && type[1] <= '9' && strcmp(type + 2, "Cache") == 0;
}

static int count_objects(const struct bb_xml *x, const char *type)
{
	int n = strcmp(bb_xml_text(x, "type"), type) == 0;

	for (const struct bb_xml *c = x->child; c; c = c->next)
		if (bb_xml_is(c, "object"))
			n += count_objects(c, type);
	return n;
}

static bb_status read_object(struct reader *r, const struct bb_xml *x, struct place at,
			     const char *core)
{
	const char *type = bb_xml_text(x, "type");
	bb_status st = BB_OK;

	if (strcmp(type, "NUMANode") == 0)
		st = read_numa(r, x, at.package);
	else if (*bb_xml_text(x, "nodeset"))
		at.numa = only_numa(bb_xml_text(x, "nodeset"));
	if (st == BB_OK && strcmp(type, "Package") == 0)
		BB_TRY(st, read_package(r, x, &at.package), out);
	if (strcmp(type, "Package") == 0)
		BB_TRY(st, keep_gp(r, x, BB_PEER_CPU), out);
	else if (strcmp(type, "Bridge") == 0)
		BB_TRY(st, read_bridge(r, x, &at), out);
	else if (strcmp(type, "PCIDev") == 0)
		BB_TRY(st, read_pci_device(r, x, &at), out);
	else if (strcmp(type, "OSDev") == 0)
		BB_TRY(st, read_os_device(r, x, &at), out);
	else if (is_cache(type))
		read_cache(r, x);
	if (st == BB_OK && strcmp(type, core) == 0)
		BB_TRY(st, read_core(r, x, &at), out);
	for (const struct bb_xml *c = x->child; c; c = c->next)
		if (bb_xml_is(c, "object"))
			BB_TRY(st, read_object(r, c, at, core), out);
out:
	return st;
}

/* ---- after the tree ---------------------------------------------------------------------- */

/* Turn numbers of NUMA nodes into indices, once all nodes are known. */
static void find_numas(struct bb_topology *t)
{
	for (int p = 0; p < t->npcis; p++)
		t->pcis[p].numa = bb_host_numa(&t->host, t->pcis[p].numa);
	for (int d = 0; d < t->ndevices; d++)
		t->devices[d].numa = bb_host_numa(&t->host, t->devices[d].numa);
}

/* Place each core at the first NUMA node that has its processor, and in its own package or else
   that of the node. Drop cores without a node, or with the processor of another core. */
static void place_cores(struct bb_host *h)
{
	hwloc_bitmap_t left = hwloc_bitmap_alloc();
	int n = 0;

	for (int i = 0; i < h->ncores; i++)
		h->cores[i].numa = -1;
	for (int i = 0; left && i < h->nnumas; i++) {
		hwloc_bitmap_zero(left);
		if (h->numas[i].cpus)
			hwloc_bitmap_list_sscanf(left, h->numas[i].cpus);
		for (int c = 0; c < h->ncores; c++) {
			struct bb_core *core = &h->cores[c];

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
}

/* A NUMA node that spans several packages is placed in the first of them. */
static void place_numas(struct bb_topology *t)
{
	for (int i = 0; i < t->host.nnumas; i++)
		for (int c = 0; c < t->host.ncores && t->host.numas[i].package < 0; c++)
			if (t->host.cores[c].numa == t->host.numas[i].os)
				t->host.numas[i].package = t->host.cores[c].package;
}

static bb_status order_gpus(struct reader *r)
{
	int moved[BB_MOST_DEVICES];

	if (!bb_sort_devices(r->t, r->order, moved))
		return bb_no_memory(r->error, "devices");
	for (int i = 0; i < r->ngps; i++)
		if (r->gps[i].device >= 0)
			r->gps[i].device = moved[r->gps[i].device];
	return BB_OK;
}

static bb_status read_distances(struct reader *r, const struct bb_xml *x)
{
	struct bb_host *h = &r->t->host;
	const int64_t n = bb_xml_number(x, "nbobjs", 1, BB_MOST_NUMAS, 0);
	int at = 0;
	bb_status st;

	if (n != h->nnumas)
		return BB_OK;
	BB_TRY(st, bb_add_distances(r->t, r->error), out);
	for (const struct bb_xml *c = x->child; c; c = c->next) {
		const char *text = bb_xml_is(c, "u64values") ? c->text : "";
		char *end;

		for (;; text = end) {
			unsigned long value = strtoul(text, &end, 10);

			if (end == text || at == n * n)
				break;
			h->distances[at++] = value < 1000000 ? (int)value : 0;
		}
	}
out:
	return st;
}

static void read_machine(struct reader *r, const struct bb_xml *root, const struct bb_xml *machine)
{
	struct bb_topology *t = r->t;
	/* hwloc 3 has attributes of the machine at the root. */
	const struct bb_xml *of = *info_of(machine, "Architecture") ? machine : root;

	snprintf(t->host.arch, sizeof(t->host.arch), "%s", info_of(of, "Architecture"));
	snprintf(t->name, sizeof(t->name), "%s", info_of(of, "HostName"));
	snprintf(t->source, sizeof(t->source), "hwloc's XML");
}

static void read_own_caches(struct bb_host *h, const char *text)
{
	int level, count, length = 0;
	long long bytes;

	if (*text)
		h->ncaches = 0;
	while (h->ncaches < BB_CACHES &&
	       sscanf(text, "%d %lld %d%n", &level, &bytes, &count, &length) == 3) {
		h->caches[h->ncaches++] = (struct bb_cpu_cache){
			.level = level & 0xf,
			.bytes = bytes > 0 ? bytes : 0,
			.count = count > 0 && count <= BB_TOPOLOGY_MOST ? count : 0,
		};
		text += length;
	}
}

/* Attributes of the machine in busbench's own files replace those from the tree. */
static void read_own_machine(struct bb_topology *t, const struct bb_xml *machine)
{
	int nodes, shared, switches, hidden, cores, made_up, unknown = 0;

	if (sscanf(info_of(machine, BB_INFO_MODEL), "%d %d %d %d %d %d %d", &nodes, &shared,
		   &switches, &hidden, &cores, &made_up, &unknown) < 6)
		return;
	t->nodes = nodes > 0 && nodes <= 1000000 ? nodes : 1;
	t->nvlink_nodes = shared > 0 && shared <= t->nodes ? shared : 1;
	t->nvswitches = switches > 0 && switches < BB_MOST_DEVICES ? switches : 0;
	t->links_unknown = unknown != 0;
	t->hidden_gpus = hidden > 0 && hidden < BB_MOST_DEVICES ? hidden : 0;
	if (cores == 0)
		t->host.ncores = t->host.nthreads = 0;
	if (made_up && t->host.nnumas > 0) {
		free(t->host.numas[0].cpus);
		t->host.numas[0].cpus = NULL;
	}
	read_own_caches(&t->host, info_of(machine, BB_INFO_CACHES));
	snprintf(t->name, sizeof(t->name), "%s", info_of(machine, BB_INFO_NAME));
	snprintf(t->source, sizeof(t->source), "%s", info_of(machine, BB_INFO_SOURCE));
	snprintf(t->driver, sizeof(t->driver), "%s", info_of(machine, BB_INFO_DRIVER));
}

static bb_status read_matrices(struct reader *r, const struct bb_xml *root)
{
	const bool has_links = r->t->nlinks > 0; /* of busbench's own files, which say more */
	bb_status st = BB_OK;

	for (const struct bb_xml *c = root->child; c; c = c->next) {
		if (!bb_xml_is(c, "distances2") && !bb_xml_is(c, "distances2hetero"))
			continue;
		if (strcmp(bb_xml_text(c, "name"), "NUMALatency") == 0)
			BB_TRY(st, read_distances(r, c), out);
		if (!has_links && strcmp(bb_xml_text(c, "name"), "NVLinkBandwidth") == 0)
			BB_TRY(st, bb_read_hwloc_nvlinks(r->gps, r->ngps, c, r->t, r->error), out);
	}
out:
	return st;
}

bb_status bb_read_hwloc_xml(const struct bb_xml *root, struct bb_topology *t,
			    struct bb_error *error)
{
	struct reader r = {.t = t, .error = error};
	const struct place nowhere = {-1, -1, -1, -1, -1};
	const struct bb_xml *machine = bb_xml_child(root, "object");
	bb_status st = BB_OK;

	r.version = (int)strtod(bb_xml_text(root, "version"), NULL);
	if (r.version != 2 && r.version != 3)
		return bb_fail(error, BB_EUSAGE,
			       "version %.16s of hwloc's XML; 2 and 3 are known, and lstopo of "
			       "hwloc 2 converts older ones",
			       *bb_xml_text(root, "version") ? bb_xml_text(root, "version") : "1");
	if (!machine)
		return bb_fail(error, BB_EUSAGE, "there is no object in the topology");
	read_machine(&r, root, machine);
	BB_TRY(st,
	       read_object(&r, machine, nowhere,
			   count_objects(machine, "Core") > 0 ? "Core" : "PU"),
	       out);
	t->host.nthreads = count_objects(machine, "PU");
	find_numas(t);
	place_cores(&t->host);
	place_numas(t);
	t->links_unknown = !r.nvml && bb_may_have_links(t);
	read_own_machine(t, machine);
	BB_TRY(st, order_gpus(&r), out);
	BB_TRY(st, bb_read_own_links(r.gps, r.ngps, machine, t, error), out);
	st = read_matrices(&r, root);
out:
	free(r.gps);
	return st;
}
