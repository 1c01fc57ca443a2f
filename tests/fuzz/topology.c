/*
 * topology.c - what the readers of topology files make of any bytes: a model or an error. A model
 * then goes through everything that takes one, and through export and back.
 */
#include "topology/bound.h"
#include "topology/files/files.h"
#include "topology_tool/print.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_DEVICES 64 /* beyond, matrices take long and say nothing new */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bb_topology *again(const struct bb_topology *t)
{
	struct bb_strbuf xml = {0};
	struct bb_error error = {0};
	struct bb_topology *copy = NULL;

	bb_topology_export(t, &xml);
	if (bb_topology_parse(bb_strbuf_text(&xml), xml.length, "again", &copy, &error) != BB_OK) {
		fprintf(stderr, "%s\n%s\n", error.text, bb_strbuf_text(&xml));
		abort();
	}
	bb_strbuf_free(&xml);
	return copy;
}

/* What cannot be, such as a core in two packages, is put right by the first export; the second one
   has nothing to lose. */
static void there_and_back(const struct bb_topology *t)
{
	struct bb_topology *once = again(t), *twice = again(once);
	struct bb_strbuf lost = {0};

	if (bb_print_diff(once, twice, "once", "twice", 80, &lost) > 0 ||
	    bb_topology_digest(once) != bb_topology_digest(twice)) {
		fprintf(stderr, "lost on the way:\n%s", bb_strbuf_text(&lost));
		abort();
	}
	bb_strbuf_free(&lost);
	bb_topology_free(once);
	bb_topology_free(twice);
}

static void print_everything(const struct bb_topology *t)
{
	struct bb_strbuf out = {0};
	const int nodes = t->nodes < 3 ? t->nodes : 3;
	int n;
	struct bb_rank_place *ranks = bb_all_gpus(t, nodes, &n);
	struct bb_printer p = {
		.t = t, .width = 80, .out = &out, .ranks = ranks, .nranks = n < 16 ? n : 16};

	bb_print_tree(&p);
	bb_print_matrix(&p);
	bb_print_numas(&p);
	bb_print_findings(&p);
	bb_print_bounds(&p);
	p.nranks = n;
	bb_print_json(&p);
	bb_strbuf_free(&out);
	free(ranks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bb_topology *t = NULL;
	struct bb_error error = {0};

	if (bb_topology_parse((const char *)data, size, "input", &t, &error) != BB_OK) {
		if (!error.text[0])
			abort();
		return 0;
	}
	if (t->ndevices <= MOST_DEVICES && t->host.nnumas <= MOST_DEVICES) {
		print_everything(t);
		there_and_back(t);
	}
	bb_topology_free(t);
	return 0;
}
