#include "gpus.h"

#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void gpus_open(struct gpus *g, int n, const struct bb_backend_config *config)
{
	struct bb_backend_config c = config ? *config : (struct bb_backend_config){0};

	meeting_open(&g->meeting, n);
	c.exchange = meeting_exchange(&g->meeting);
	ranks_open(&g->ranks, &bb_plugin_backend, n, &c);
}

void gpus_left_nothing(void)
{
	char text[256];

	if (fake_leaks(text, sizeof(text)) > 0)
		fail_msg("not let go: %s", text);
	if (fake_misuse())
		fail_msg("%s", fake_misuse());
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
	fake_forget_memory();
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
