#include "topology_tool/print.h"

#include "core/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define SCHEMA 1

static void add_string(struct bb_json *j, const char *key, const char *value)
{
	bb_json_add_string(j, key, value && *value ? value : NULL);
}

/* 0 becomes null. */
static void add_known_rate(struct bb_json *j, const char *key, double GBps)
{
	bb_json_add_double(j, key, GBps > 0 ? GBps : NAN);
}

/* Matrices of all NUMA nodes, devices or GPUs. */
enum matrix { DISTANCES, PATHS, ACCESS, PAIR_BOUNDS };

/* Write an array of N arrays of N values each. */
static void write_matrix(struct bb_json *j, const char *key, int n, const struct bb_topology *t,
			 enum matrix matrix)
{
	/* As nvidia-smi topo -p2p abbreviates it; null if unknown. */
	static const char *const access[] = {"OK", "CNS", "GNS", "TNS", "DR", "NS", NULL};

	bb_json_add_array(j, key);
	for (int i = 0; i < n * n; i++) {
		const int a = i / n, b = i % n;
		const struct bb_rank_place pair[] = {{0, a}, {0, b}};
		char text[BB_PATH_TEXT];
		enum bb_path path;
		double GBps;
		int links;

		if (b == 0)
			bb_json_add_array(j, NULL);
		switch (matrix) {
		case DISTANCES:
			bb_json_add_int(j, NULL, t->host.distances[i]);
			break;
		case PATHS:
			path = bb_topology_path(t, a, b, &links);
			bb_json_add_string(j, NULL, bb_topology_path_text(text, path, links));
			break;
		case ACCESS:
			bb_json_add_string(j, NULL, access[bb_topology_p2p(t, a, b)]);
			break;
		case PAIR_BOUNDS: /* null if unknown, and of a GPU to itself */
			if (a == b ||
			    bb_speed_of_light(t, pair, 2, BB_BOUND_PAIR, &GBps, NULL) != BB_OK)
				GBps = NAN;
			bb_json_add_double(j, NULL, GBps);
			break;
		}
		if (b == n - 1)
			bb_json_end(j);
	}
	bb_json_end(j);
}

/* ---- the host ------------------------------------------------------------------------------- */

static void write_host(struct bb_json *j, const struct bb_topology *t)
{
	const struct bb_host *const h = &t->host;

	add_string(j, "architecture", h->arch);
	bb_json_add_array(j, "packages");
	for (int i = 0; i < h->npackages; i++) {
		bb_json_add_object(j, NULL);
		add_string(j, "model", h->packages[i].model);
		add_string(j, "vendor", h->packages[i].vendor);
		bb_json_add_known(j, "family", h->packages[i].family, 0);
		bb_json_add_known(j, "number", h->packages[i].number, 0);
		bb_json_end(j);
	}
	bb_json_end(j);
	bb_json_add_known(j, "cores", h->ncores, 0);
	bb_json_add_known(j, "threads", h->nthreads, 0);
	bb_json_add_array(j, "caches");
	for (int i = 0; i < h->ncaches; i++) {
		bb_json_add_object(j, NULL);
		bb_json_add_known(j, "level", h->caches[i].level, 0);
		bb_json_add_known(j, "bytes", h->caches[i].bytes, 0);
		bb_json_add_known(j, "count", h->caches[i].count, 0);
		bb_json_end(j);
	}
	bb_json_end(j);
	bb_json_add_array(j, "numa_nodes");
	for (int i = 0; i < h->nnumas; i++) {
		bb_json_add_object(j, NULL);
		bb_json_add_known(j, "number", h->numas[i].os, -1);
		bb_json_add_known(j, "package", h->numas[i].package, -1);
		bb_json_add_known(j, "memory_bytes", h->numas[i].bytes, 0);
		add_string(j, "cpus", h->numas[i].cpus);
		bb_json_end(j);
	}
	bb_json_end(j);
	if (h->distances)
		write_matrix(j, "numa_distances", h->nnumas, t, DISTANCES);
	else
		bb_json_add_string(j, "numa_distances", NULL);
}

/* ---- devices -------------------------------------------------------------------------------- */

static void write_pcie(struct bb_json *j, const char *key, const struct bb_pcie *link)
{
	bb_json_add_object(j, key);
	bb_json_add_known(j, "generation", link->gen, 0);
	bb_json_add_known(j, "width", link->width, 0);
	add_known_rate(j, "GBps", link->GBps);
	bb_json_end(j);
}

static void write_pcis(struct bb_json *j, const struct bb_topology *t)
{
	static const char *const roles[] = {"endpoint", "root port", "switch", "switch port"};
	static const char *const acs[] = {NULL, "off", "redirect"};
	char code[16];

	bb_json_add_array(j, "pci");
	for (int i = 0; i < t->npcis; i++) {
		const struct bb_pci *p = &t->pcis[i];

		bb_json_add_object(j, NULL);
		add_string(j, "id", p->id);
		snprintf(code, sizeof(code), "%04x", p->class_code);
		add_string(j, "class", code);
		snprintf(code, sizeof(code), "%04x:%04x", p->vendor, p->device);
		add_string(j, "model", code);
		add_string(j, "role", roles[p->role]);
		bb_json_add_known(j, "parent", p->parent, -1);
		bb_json_add_known(j, "host_bridge", p->root, -1);
		bb_json_add_known(j, "numa_node", bb_numa_number(t, p->numa), -1);
		write_pcie(j, "now", &p->now);
		write_pcie(j, "most", &p->most);
		add_string(j, "acs", acs[p->acs]);
		bb_json_end(j);
	}
	bb_json_end(j);
}

static void write_devices(struct bb_json *j, const struct bb_topology *t)
{
	static const char *const kinds[] = {"gpu", "nic", "nvme"};
	static const char *const states[] = {NULL, "up", "down"};
	static const char *const gdr[] = {NULL, "off", "on"};

	bb_json_add_array(j, "devices");
	for (int i = 0; i < t->ndevices; i++) {
		const struct bb_device *d = &t->devices[i];

		bb_json_add_object(j, NULL);
		add_string(j, "kind", kinds[d->kind]);
		add_string(j, "name", d->name);
		add_string(j, "model", d->model);
		bb_json_add_known(j, "pci", d->pci, -1);
		bb_json_add_known(j, "numa_node", bb_numa_number(t, d->numa), -1);
		if (d->kind == BB_GPU) {
			bb_json_add_known(j, "memory_bytes", d->bytes, 0);
			bb_json_add_known(j, "sm", d->sm, 0);
		} else if (d->kind == BB_NIC) {
			bb_json_add_known(j, "rate_Mbps", d->rate_Mbps, 0);
			add_string(j, "layer", bb_nic_layer_name(d->layer));
			add_string(j, "state", states[d->state]);
			add_string(j, "interface", d->port);
		}
		add_string(j, "gpudirect_rdma", gdr[d->gdr]);
		bb_json_end(j);
	}
	bb_json_end(j);
}

static void write_links(struct bb_json *j, const struct bb_topology *t)
{
	bb_json_add_array(j, "links");
	for (int i = 0; i < t->nlinks; i++) {
		const struct bb_link *l = &t->links[i];

		bb_json_add_object(j, NULL);
		add_string(j, "kind", l->kind == BB_C2C ? "c2c" : "nvlink");
		add_string(j, "from", t->devices[l->device].name);
		add_string(j, "to",
			   l->peer >= 0                ? t->devices[l->peer].name
			   : l->peer == BB_PEER_SWITCH ? "switch"
						       : "cpu");
		bb_json_add_known(j, "version", l->version, 0);
		bb_json_add_known(j, "count", l->count, -1);
		bb_json_add_known(j, "down", l->down, -1);
		add_known_rate(j, "link_GBps", l->GBps);
		bb_json_end(j);
	}
	bb_json_end(j);
}

/* ---- conclusions ----------------------------------------------------------------------------- */

static void add_json_finding(void *context, const char *text)
{
	bb_json_add_string(context, NULL, text);
}

void bb_print_json(const struct bb_printer *p)
{
	const struct bb_topology *const t = p->t;
	const int gpus = bb_topology_count(t, BB_GPU);
	struct bb_json j;
	char digest[20];

	bb_json_init(&j, p->out, true);
	bb_json_add_object(&j, NULL);
	bb_json_add_known(&j, "schema", SCHEMA, -1);
	add_string(&j, "kind", "topology");
	add_string(&j, "name", t->name);
	add_string(&j, "source", t->source);
	snprintf(digest, sizeof(digest), "%016" PRIx64, bb_topology_digest(t));
	add_string(&j, "digest", digest);
	add_string(&j, "driver", t->driver);
	bb_json_add_known(&j, "nodes", t->nodes, -1);
	bb_json_add_known(&j, "nvlink_nodes", t->nvlink_nodes, -1);
	bb_json_add_known(&j, "nvswitches", t->nvswitches, -1);
	bb_json_add_known(&j, "hidden_gpus", t->hidden_gpus, -1);
	bb_json_add_bool(&j, "links_unknown", t->links_unknown);
	write_host(&j, t);
	write_pcis(&j, t);
	write_devices(&j, t);
	write_links(&j, t);
	bb_json_add_object(&j, "paths");
	bb_json_add_array(&j, "names");
	for (int d = 0; d < t->ndevices; d++)
		bb_json_add_string(&j, NULL, t->devices[d].name);
	bb_json_end(&j);
	write_matrix(&j, "classes", t->ndevices, t, PATHS);
	bb_json_end(&j);
	write_matrix(&j, "p2p", gpus, t, ACCESS);
	write_matrix(&j, "pair_GBps", gpus, t, PAIR_BOUNDS);
	bb_json_add_object(&j, "bounds");
	bb_json_add_known(&j, "ranks", p->nranks, -1);
	for (enum bb_bound what = BB_BOUND_RING; what < BB_BOUNDS && p->nranks > 1; what++) {
		struct bb_strbuf why = {0};
		double GBps;
		const bb_status st = bb_speed_of_light(t, p->ranks, p->nranks, what, &GBps, &why);

		bb_json_add_object(&j, bb_bound_name(what));
		add_known_rate(&j, "GBps", st == BB_OK ? GBps : 0);
		add_string(&j, "why", bb_strbuf_text(&why));
		bb_json_end(&j);
		bb_strbuf_free(&why);
	}
	bb_json_end(&j);
	bb_json_add_array(&j, "findings");
	bb_topology_findings(t, add_json_finding, &j);
	bb_json_end(&j);
	bb_json_end(&j);
	bb_strbuf_add(p->out, "\n");
}
