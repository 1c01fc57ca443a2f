/*
 * cluster.c - a cluster by its name, its file or its links, and the routes between its ranks.
 */
#include "simulator/cluster_parts.h"

#include "core/file.h"
#include "core/share.h"
#include "core/units.h"
#include "topology/systems.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MOST ((size_t)64 << 20) /* bytes of a file of figures or of a topology */

void bb_cluster_free(struct bb_cluster *c)
{
	if (!c)
		return;
	bb_topology_free(c->node);
	free(c->pairs);
	free(c);
}

/* ---- the request --------------------------------------------------------------------------- */

struct cluster_request {
	char name[BB_SETTING_LINE]; /* of a system, or a path */
	int nodes;                  /* 0: not given */
};

static bb_status request_parse(const char *text, struct cluster_request *request,
			       struct bb_error *error)
{
	const char *colon = strrchr(text, ':');
	const size_t length = colon ? (size_t)(colon - text) : strlen(text);
	int64_t nodes = 0;

	if (colon &&
	    (!bb_parse_int(colon + 1, &nodes) || nodes < 1 || nodes > BB_CLUSTER_MOST_RANKS))
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s: \"%s\" is not a number of nodes from 1 to %d; give "
			       "NAME:NODES, as in hgx-h100:128",
			       text, colon + 1, BB_CLUSTER_MOST_RANKS);
	if (length == 0 || length >= sizeof(request->name))
		return bb_fail(error, BB_EUSAGE,
			       "--cluster %s: give the name of a system or of a file, as in "
			       "hgx-h100:128",
			       text);
	snprintf(request->name, sizeof(request->name), "%.*s", (int)length, text);
	request->nodes = (int)nodes;
	return BB_OK;
}

static bb_status read_file(const char *path, char **text, size_t *length, struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--cluster", .path = path, .most = FILE_MOST};

	return bb_file_read(&request, text, length, error);
}

static bb_status parse_topology(struct bb_cluster *c, const char *path, const char *text,
				size_t length, bb_topology_parser *parse, struct bb_error *error)
{
	bb_status st;

	if (!parse)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--cluster %s: busbench was built without its XML reader; "
			       "build it with libexpat1-dev",
			       path);
	BB_TRY(st, parse(text, length, path, &c->node, error), out);
	if (c->node->links_unknown)
		st = bb_fail(
			error, BB_EUSAGE,
			"--cluster %s: the file does not show NVLinks, which its GPUs may have; "
			"give NCCL's dump (NCCL_TOPO_DUMP_FILE) or a known system",
			path);
out:
	return st;
}

static bb_status load_topology(struct bb_cluster *c, const char *path, bb_topology_parser *parse,
			       struct bb_error *error)
{
	char *text;
	size_t length;
	bb_status st;

	BB_TRY(st, read_file(path, &text, &length, error), out);
	st = parse_topology(c, path, text, length, parse, error);
	free(text);
out:
	return st;
}

/* ---- its figures --------------------------------------------------------------------------- */

static bb_status read_known(struct bb_cluster *c, const char *system, struct bb_error *error)
{
	const bb_status st = bb_figures_read_known("all", c->figures, error);

	return st == BB_OK && *system ? bb_figures_read_known(system, c->figures, error) : st;
}

/* FOUND = the file NAME, which the file PATH names: as it is, else beside PATH. */
static void find_beside(const char *path, const char *name, char found[BB_SHARE_PATH])
{
	const char *slash = strrchr(path, '/');
	const int folder = slash ? (int)(slash + 1 - path) : 0;

	snprintf(found, BB_SHARE_PATH, "%s", name);
	if (*name != '/' && access(name, R_OK) != 0)
		snprintf(found, BB_SHARE_PATH, "%.*s%s", folder, path, name);
}

/* A file of figures names a system or a topology and then overrides its figures. */
static bb_status read_figures(struct bb_cluster *c, const char *path, const char *text,
			      bb_topology_parser *parse, struct bb_error *error)
{
	const struct bb_settings in = {.name = path, .rest = text};
	struct bb_figure_head head = {.nodes = 0};
	char file[BB_SHARE_PATH];
	bb_status st;

	BB_TRY(st, bb_figures_read(&in, NULL, &head, error), out);
	if (!*head.system == !*head.topology)
		return bb_fail(error, BB_EUSAGE,
			       "%s: give one of system = NAME and topology = FILE", path);
	find_beside(path, head.topology, file);
	if (*head.system)
		st = bb_topology_system(head.system, &c->node, error);
	else
		st = load_topology(c, file, parse, error);
	if (st == BB_OK)
		BB_TRY(st, read_known(c, *head.system ? c->node->name : "", error), out);
	if (st == BB_OK)
		st = bb_figures_read(&in, c->figures, &head, error);
	c->nodes = head.nodes;
out:
	return st;
}

static bb_status read_any_file(struct bb_cluster *c, const char *path, bb_topology_parser *parse,
			       struct bb_error *error)
{
	char *text = NULL;
	size_t length;
	bb_status st;

	BB_TRY(st, read_file(path, &text, &length, error), out);
	/* The matrix of nvidia-smi topo -m names GPUs and has no keys. */
	if (text[strspn(text, " \t\r\n\xef\xbb\xbf")] == '<' ||
	    (strstr(text, "GPU0") && !strchr(text, '='))) {
		BB_TRY(st, parse_topology(c, path, text, length, parse, error), out);
		st = read_known(c, "", error);
	} else {
		st = read_figures(c, path, text, parse, error);
	}
out:
	free(text);
	return st;
}

/* A name that no system has is a file of a shelf or, with a dot or a slash, any file. */
static bb_status read_source(struct bb_cluster *c, const char *name, bb_topology_parser *parse,
			     struct bb_error *error)
{
	char path[BB_SHARE_PATH];
	bb_status st;

	if (!bb_system_find(name) && bb_shelf_find(&bb_shelf_clusters, name, path))
		return read_any_file(c, path, parse, error);
	if (!bb_system_find(name) && strpbrk(name, "./"))
		return read_any_file(c, name, parse, error);
	st = bb_topology_system(name, &c->node, error);
	return st == BB_OK ? read_known(c, c->node->name, error) : st;
}

/* ---- the pairs of a node ------------------------------------------------------------------ */

/* The package of a rank of a node without GPUs: they have equal parts of the ranks. */
static int package_of(const struct bb_cluster *c, int rank)
{
	const int packages = c->node->host.npackages > 0 ? c->node->host.npackages : 1;

	return rank / ((c->gpus + packages - 1) / packages);
}

static struct bb_cluster_route pair_route(const struct bb_cluster *c, int a, int b)
{
	const double *f = c->figures;
	struct bb_cluster_route route = {BB_CLUSTER_NVLINK, 0, c->gpu_rate,
					 f[BB_FIGURE_GPU_LATENCY]};
	int links = 0, all = 0;

	if (a == b)
		return (struct bb_cluster_route){BB_CLUSTER_SELF, 0, INFINITY, 0};
	if (bb_cluster_loops_back(c))
		return (struct bb_cluster_route){BB_CLUSTER_LEAF, 1, c->nic_rate,
						 f[BB_FIGURE_NET_LATENCY]};
	if (c->inside == BB_INSIDE_MEMORY)
		return (struct bb_cluster_route){
			BB_CLUSTER_MEMORY, 0, c->gpu_rate,
			f[package_of(c, a) == package_of(c, b) ? BB_FIGURE_CORE_LATENCY
							       : BB_FIGURE_PACKAGE_LATENCY]};
	if (c->inside == BB_INSIDE_SWITCH)
		return route;
	for (int other = 0; other < c->gpus; other++)
		all += other != a ? bb_topology_nvlinks(c->node, a, other) : 0;
	links = bb_topology_nvlinks(c->node, a, b);
	if (links > 0) {
		route.rate = c->gpu_rate * links / all;
		return route;
	}
	route.path = BB_CLUSTER_PCIE;
	route.latency = f[BB_FIGURE_PCIE_LATENCY];
	if (c->inside == BB_INSIDE_LINKS)
		route.rate = bb_cluster_pcie_rate(c->node, a, b) * f[BB_FIGURE_GPU_EFFICIENCY];
	if (!bb_cluster_reaches(c, a, b))
		route.rate *= f[BB_FIGURE_HOST_EFFICIENCY];
	return route;
}

static bb_status make_pairs(struct bb_cluster *c, struct bb_error *error)
{
	const size_t n = (size_t)c->gpus;

	c->pairs = malloc(n * n * sizeof(*c->pairs));
	if (!c->pairs)
		return bb_no_memory(error, "a cluster");
	for (size_t a = 0; a < n; a++)
		for (size_t b = 0; b < n; b++)
			c->pairs[a * n + b] = pair_route(c, (int)a, (int)b);
	return BB_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Apply CHANGE to the NICs of T that serve GPUs: as many remain, evenly spread. */
static bb_status change_nics(struct bb_topology *t, const struct bb_cluster_change *change,
			     struct bb_error *error)
{
	const struct bb_cluster_nics now = bb_cluster_nics_of(t);
	const int kept = change->nics > 0 && change->nics < now.n ? change->nics : now.n;
	const int nics = change->nics > 0 ? change->nics : now.n;
	bool serves[BB_MOST_DEVICES];

	if (change->nics == 0 && change->nic_Mbps == 0 && change->layer == BB_LAYER_UNKNOWN)
		return BB_OK;
	if (now.n == 0)
		return bb_fail(error, BB_EUSAGE, "%s has no NIC whose number or rate could differ",
			       t->name);
	for (int d = 0; d < t->ndevices; d++)
		serves[d] = bb_cluster_nic_serves(t, d);
	for (int d = 0, i = 0; d < t->ndevices; d++) {
		const int64_t each = change->nic_Mbps > 0 ? change->nic_Mbps : now.Mbps / now.n;

		if (!serves[d]) {
			/* Else the GPUs that lose theirs would take those for storage. */
			if (t->devices[d].kind == BB_NIC && kept < now.n)
				t->devices[d].state = BB_STATE_DOWN;
			continue;
		}
		if (i * kept % now.n >= kept)
			t->devices[d].state = BB_STATE_DOWN;
		t->devices[d].rate_Mbps = each * nics / kept;
		if (change->layer != BB_LAYER_UNKNOWN)
			t->devices[d].layer = change->layer;
		i++;
	}
	return BB_OK;
}

static bb_status cluster_build(struct bb_cluster *c, const struct cluster_request *request,
			       const struct bb_cluster_change *change, bb_topology_parser *parse,
			       struct bb_error *error)
{
	const double *f = c->figures;
	bb_status st;

	BB_TRY(st, read_source(c, request->name, parse, error), out);
	BB_TRY(st, bb_figures_check(request->name, f, error), out);
	if (request->nodes > 0)
		c->nodes = request->nodes;
	if (change->nodes > 0) {
		const int span = c->node->nvlink_nodes;
		const int domains = (change->nodes + span - 1) / span;

		c->nodes = change->nodes;
		c->node->nvlink_nodes = (c->nodes + domains - 1) / domains;
		c->node->nodes = c->nodes;
	}
	if (c->nodes == 0)
		c->nodes = c->node->nodes;
	BB_TRY(st, change_nics(c->node, change, error), out);
	BB_TRY(st, bb_cluster_derive(c, error), out);
	c->gpu_rate = f[BB_FIGURE_GPU_RATE] *
		      (c->inside == BB_INSIDE_MEMORY ? 1 : f[BB_FIGURE_GPU_EFFICIENCY]);
	c->nic_rate = f[BB_FIGURE_NIC_RATE] * f[BB_FIGURE_NIC_EFFICIENCY];
	st = make_pairs(c, error);
out:
	return st;
}

bb_status bb_cluster_open(const char *text, bb_topology_parser *parse, struct bb_cluster **cluster,
			  struct bb_error *error)
{
	return bb_cluster_open_changed(text, &(struct bb_cluster_change){.nodes = 0}, parse,
				       cluster, error);
}

bb_status bb_cluster_open_changed(const char *text, const struct bb_cluster_change *change,
				  bb_topology_parser *parse, struct bb_cluster **cluster,
				  struct bb_error *error)
{
	struct bb_cluster *c = calloc(1, sizeof(*c));
	struct cluster_request request;
	bb_status st;

	if (!c)
		return bb_no_memory(error, "a cluster");
	snprintf(c->name, sizeof(c->name), "%s", text);
	BB_TRY(st, request_parse(text, &request, error), out);
	st = cluster_build(c, &request, change, parse, error);
out:
	if (st == BB_OK)
		*cluster = c;
	else
		bb_cluster_free(c);
	return st;
}

/* ---- a cluster known by its links alone ---------------------------------------------------- */

static void make_equal_pairs(struct bb_cluster *c, const struct bb_cluster_link *inside)
{
	for (int i = 0; i < c->gpus * c->gpus; i++) {
		const bool self = i / c->gpus == i % c->gpus;

		c->pairs[i] = (struct bb_cluster_route){
			.path = self ? BB_CLUSTER_SELF : BB_CLUSTER_NVLINK,
			.rate = self ? INFINITY : inside->rate,
			.latency = self ? 0 : inside->latency,
		};
	}
}

bb_status bb_cluster_of_links(struct bb_cluster **cluster, int nodes, int ranks,
			      const struct bb_cluster_link *inside,
			      const struct bb_cluster_link *between, struct bb_error *error)
{
	struct bb_cluster *c = calloc(1, sizeof(*c));

	*cluster = c;
	if (!c)
		goto no_memory;
	*c = (struct bb_cluster){
		.node = calloc(1, sizeof(*c->node)),
		.nodes = nodes,
		.gpus = ranks,
		.ranks = nodes * ranks,
		.domain = 1,
		.inside = ranks > 1 ? BB_INSIDE_LINKS : BB_INSIDE_NOTHING,
		.rails = ranks,
		.gpu_rate = inside->rate,
		.nic_rate = between->rate,
		.figures = {[BB_FIGURE_GPU_EFFICIENCY] = 1,
			    [BB_FIGURE_NIC_EFFICIENCY] = 1,
			    [BB_FIGURE_GPU_LATENCY] = inside->latency,
			    [BB_FIGURE_NET_LATENCY] = between->latency,
			    [BB_FIGURE_LEAF_NODES] = nodes,
			    [BB_FIGURE_POD_NODES] = nodes,
			    [BB_FIGURE_LEAF_TAPER] = 1,
			    [BB_FIGURE_POD_TAPER] = 1},
		.pairs = calloc((size_t)ranks * (size_t)ranks, sizeof(*c->pairs)),
	};
	snprintf(c->name, sizeof(c->name), "%d nodes of %d ranks", nodes, ranks);
	for (int i = 0; i < ranks; i++) {
		c->rail_of[i] = i;
		c->rail_gpus[i] = 1;
	}
	if (c->node && c->pairs) {
		make_equal_pairs(c, inside);
		return BB_OK;
	}
no_memory:
	bb_cluster_free(c);
	*cluster = NULL;
	return bb_no_memory(error, "a cluster");
}

/* ---- routes -------------------------------------------------------------------------------- */

const char *bb_cluster_path_name(const struct bb_cluster *c, enum bb_cluster_path path)
{
	static const char *const names[BB_CLUSTER_PATHS] = {
		[BB_CLUSTER_SELF] = "self", [BB_CLUSTER_NVLINK] = "NVLink",
		[BB_CLUSTER_PCIE] = "PCIe", [BB_CLUSTER_MEMORY] = "memory",
		[BB_CLUSTER_LEAF] = "leaf", [BB_CLUSTER_POD] = "spine",
		[BB_CLUSTER_CORE] = "core",
	};

	return path == BB_CLUSTER_NVLINK && bb_topology_is_amd(c->node, 0) ? "xGMI" : names[path];
}

static enum bb_cluster_path path_between(const struct bb_cluster *c, int from, int to)
{
	const int leaf = (int)c->figures[BB_FIGURE_LEAF_NODES];
	const int pod = (int)c->figures[BB_FIGURE_POD_NODES];
	const int a = bb_cluster_node(c, from), b = bb_cluster_node(c, to);

	if (a / pod != b / pod)
		return BB_CLUSTER_CORE;
	if (a / leaf != b / leaf || bb_cluster_rail(c, from) != bb_cluster_rail(c, to))
		return BB_CLUSTER_POD;
	return BB_CLUSTER_LEAF;
}

struct bb_cluster_route bb_cluster_route(const struct bb_cluster *c, int from, int to)
{
	const int a = bb_cluster_node(c, from), b = bb_cluster_node(c, to);
	const double *f = c->figures;
	struct bb_cluster_route route = {.rate = c->nic_rate};

	if (a == b)
		return c->pairs[from % c->gpus * c->gpus + to % c->gpus];
	if (a / c->domain == b / c->domain)
		return (struct bb_cluster_route){BB_CLUSTER_NVLINK, 0, c->gpu_rate,
						 f[BB_FIGURE_GPU_LATENCY]};
	route.path = path_between(c, from, to);
	route.switches = 1 + 2 * (int)(route.path - BB_CLUSTER_LEAF);
	route.latency =
		f[BB_FIGURE_NET_LATENCY] + (route.switches - 1) * f[BB_FIGURE_SWITCH_LATENCY];
	return route;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void describe_memory(const struct bb_cluster *c, struct bb_strbuf *out)
{
	const double memory =
		c->figures[BB_FIGURE_MEMORY_RATE] * c->figures[BB_FIGURE_MEMORY_EFFICIENCY];

	if (bb_cluster_loops_back(c))
		bb_strbuf_add(out, "; messages take the NICs within a node, too");
	else
		bb_strbuf_addf(out, "; shared memory, %.4g GB/s a rank", c->gpu_rate / 1e9);
	if (memory > 0)
		bb_strbuf_addf(out, ", %.4g GB/s a package beyond %.4g MB of cache", memory / 1e9,
			       bb_cluster_cache(c) / 1e6);
}

void bb_cluster_describe(const struct bb_cluster *c, struct bb_strbuf *out)
{
	static const char *const inside[] = {[BB_INSIDE_SWITCH] = "NVSwitches",
					     [BB_INSIDE_LINKS] = "NVLinks between pairs",
					     [BB_INSIDE_PCIE] = "PCIe"};
	const int leaf = (int)c->figures[BB_FIGURE_LEAF_NODES];
	const int pod = (int)c->figures[BB_FIGURE_POD_NODES];

	bb_strbuf_addf(out, "room for %d rank%s on %d node%s of %s", c->ranks, bb_plural(c->ranks),
		       c->nodes, bb_plural(c->nodes), c->node->name);
	if (c->inside == BB_INSIDE_MEMORY)
		describe_memory(c, out);
	else if (c->inside != BB_INSIDE_NOTHING)
		bb_strbuf_addf(out, "; %s, %.4g GB/s a GPU",
			       c->inside == BB_INSIDE_LINKS && bb_topology_is_amd(c->node, 0)
				       ? "xGMI between pairs"
				       : inside[c->inside],
			       c->gpu_rate / 1e9);
	if (c->domain > 1)
		bb_strbuf_addf(out, ", shared by %d nodes", c->domain);
	if (c->nodes <= c->domain && !bb_cluster_loops_back(c))
		return;
	bb_strbuf_addf(out, "; %d rail%s of %.4g GB/s; leaves of %d node%s", c->rails,
		       bb_plural(c->rails), c->nic_rate / 1e9, leaf, bb_plural(leaf));
	if (c->nics != BB_NICS_INFINIBAND && c->figures[BB_FIGURE_NCCL_NIC_LATENCY] == 0 &&
	    bb_topology_count(c->node, BB_GPU) > 0 && !bb_topology_is_amd(c->node, 0))
		bb_strbuf_addf(out, "; nccl_nic_latency not stated%s",
			       c->nics >= BB_NICS_EFA ? ", EFA's usual one is used" : "");
	if (c->nodes > leaf)
		bb_strbuf_addf(out, ", taper %g", c->figures[BB_FIGURE_LEAF_TAPER]);
	if (c->nodes > pod)
		bb_strbuf_addf(out, "; pods of %d nodes, taper %g", pod,
			       c->figures[BB_FIGURE_POD_TAPER]);
}
