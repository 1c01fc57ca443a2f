#include "gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

int gpus_here(int most)
{
	int n = 1;

	while (2 * n <= gpus_count() && 2 * n <= most)
		n *= 2;
	return n;
}

void gpus_open(struct gpus *g, int n, const struct bb_backend_config *config)
{
	struct bb_backend_config c = config ? *config : (struct bb_backend_config){0};

	meeting_open(&g->meeting, n);
	c.exchange = meeting_exchange(&g->meeting);
	ranks_open(&g->ranks, &bb_plugin_backend, n, &c);
}

void gpus_close(struct gpus *g)
{
	ranks_close(&g->ranks);
	meeting_close(&g->meeting);
	gpus_left_nothing();
}

void gpus_close_abandoned(struct gpus *g)
{
	ranks_close(&g->ranks);
	meeting_close(&g->meeting);
	gpus_forget_memory();
	gpus_left_nothing();
}

void on_gpus(int n, const struct bb_backend_config *config, ranks_job *job, void *argument)
{
	struct gpus g;
	int failures;

	gpus_open(&g, n, config);
	failures = ranks_run(&g.ranks, job, argument);
	gpus_close(&g);
	assert_int_equal(failures, 0);
}

const struct bb_native *way_named(const char *name)
{
	for (const struct bb_native *v = bb_plugin_backend.natives; v->name; v++)
		if (strcmp(v->name, name) == 0)
			return v;
	fail_msg("no way %s", name);
	return NULL;
}
