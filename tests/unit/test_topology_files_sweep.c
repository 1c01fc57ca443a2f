/*
 * Topologies from files: every file of a topology below tests, as it is and changed line by line.
 */
#include "changed_text.h"
#include "sweep.h"

#include "topology/bound.h"
#include "topology/build.h"
#include "topology/files/files.h"

#include <dirent.h>

#define MOST_BYTES (1 << 20)
#define PARSED 200 /* changed files of each kind that are read, at most */

static void finding_add(void *context, const char *text)
{
	sweep_add_text(context, text);
}

static void topology_add(struct sweep *s, const struct bb_topology *t)
{
	const struct bb_host *h = &t->host;

	sweep_add_text(s, t->name);
	sweep_add_text(s, t->source);
	sweep_add_text(s, t->driver);
	sweep_add_text(s, h->arch);
	SWEEP_ADD(s, t->nodes, t->nvlink_nodes, t->nvswitches, t->hidden_gpus, t->links_unknown,
		  t->npcis, t->ndevices, t->nlinks, h->npackages, h->nnumas, h->ncores, h->nthreads,
		  h->ncaches, (double)(bb_topology_digest(t) >> 24),
		  bb_topology_findings(t, finding_add, s));
	for (int i = 0; i < h->npackages; i++)
		SWEEP_ADD(s, h->packages[i].family, h->packages[i].number);
	for (int i = 0; i < h->nnumas; i++) {
		SWEEP_ADD(s, h->numas[i].os, h->numas[i].package, (double)h->numas[i].bytes);
		sweep_add_text(s, h->numas[i].cpus);
	}
	for (int i = 0; i < h->ncaches; i++)
		SWEEP_ADD(s, h->caches[i].level, (double)h->caches[i].bytes, h->caches[i].count);
	for (int p = 0; p < t->npcis; p++) {
		const struct bb_pci *v = &t->pcis[p];

		sweep_add_text(s, v->id);
		SWEEP_ADD(s, v->class_code, v->vendor, v->device, v->role, v->parent, v->root,
			  v->numa, v->now.gen, v->now.width, v->now.GBps, v->most.gen,
			  v->most.width, v->acs);
	}
	for (int d = 0; d < t->ndevices; d++) {
		const struct bb_device *v = &t->devices[d];

		sweep_add_text(s, v->name);
		sweep_add_text(s, v->model);
		sweep_add_text(s, v->port);
		SWEEP_ADD(s, v->kind, v->pci, v->numa, (double)v->bytes, v->sm,
			  (double)v->rate_Mbps, v->layer, v->state, v->gdr);
	}
	for (int l = 0; l < t->nlinks; l++) {
		const struct bb_link *v = &t->links[l];

		SWEEP_ADD(s, v->kind, v->device, v->peer, v->version, v->count, v->down, v->GBps);
	}
}

static void text_add(struct sweep *s, const char *text)
{
	struct bb_topology *t = NULL;
	struct bb_error error = {.text = ""};

	sweep_add(s, bb_topology_parse(text, strlen(text), "file", &t, &error));
	sweep_add_text(s, error.text);
	if (t)
		topology_add(s, t);
	bb_topology_free(t);
}

static void file_add(struct sweep *s, const char *path)
{
	char *const text = calloc(1, MOST_BYTES);
	FILE *const file = fopen(path, "r");
	long lines = 0;

	assert_non_null(text);
	assert_non_null(file);
	assert_true(fread(text, 1, MOST_BYTES - 1, file) > 0);
	fclose(file);
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	for (enum change change = 0; change < CHANGES; change++) {
		const long step = lines / PARSED + 1;
		long number = 0;

		for (const char *at = text; *at; number++) {
			const size_t length = strcspn(at, "\n");

			if (number % step == 0 && (change != AS_IT_IS || number == 0)) {
				char *const now = changed(text, at, length, change);

				text_add(s, now);
				free(now);
			}
			at += length + (at[length] == '\n');
		}
		sweep_end(s, "%s %s", path, change_names[change]);
	}
	free(text);
}

static int is_file(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void test_files(void **state)
{
	static const char *const folders[] = {"tests/topology/field", "tests/fuzz/seeds/topology"};
	struct sweep s = sweep_open("topology_files");

	for (size_t f = 0; f < sizeof(folders) / sizeof(folders[0]); f++) {
		struct dirent **entries = NULL;
		const int n = scandir(folders[f], &entries, is_file, alphasort);

		assert_true(n > 0);
		for (int i = 0; i < n; i++) {
			char path[512];

			snprintf(path, sizeof(path), "%s/%s", folders[f], entries[i]->d_name);
			file_add(&s, path);
			free(entries[i]);
		}
		free(entries);
	}
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};

	return cmocka_run_group_tests_name("topology_files_sweep", tests, NULL, NULL);
}
