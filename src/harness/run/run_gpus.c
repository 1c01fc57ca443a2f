#include "harness/run/run_gpus.h"

#include "harness/run/run.h"

#include <string.h>

_Static_assert(BB_GPU_UNKNOWN == BB_ABSENT, "what the driver does not say is absent");

#define BB_RECORD bb_gpu_record
BB_RECORD_KIND(bb_record_gpu, BB_GPU_FIELDS, "gpu",
	       "Before the end, for each rank whose GPU's driver answers: what may make it slow.");

struct change {
	struct bb_gpu_health before, after;
};

#define CHANGE(name, ...)                                                                          \
	BB_PAYLOAD_FIELD(#name, BB_PAYLOAD_ANY, struct change, before.name),                       \
		BB_PAYLOAD_FIELD(#name, BB_PAYLOAD_ANY, struct change, after.name),
static const struct bb_payload_field change_fields[] = {
	BB_PAYLOAD_FIELD("the driver", BB_PAYLOAD_TEXT, struct change, before.driver),
	BB_PAYLOAD_FIELD("the driver", BB_PAYLOAD_TEXT, struct change, after.driver),
	BB_GPU_STATES(CHANGE) BB_GPU_COUNTS(CHANGE){.name = NULL}};
static const struct bb_payload change_table = {"a GPU", sizeof(struct change), change_fields, NULL};

void bb_run_gpus_read(const struct bb_run *run, struct bb_driver *driver,
		      struct bb_gpu_health *health)
{
	memset(health, 0, sizeof(*health));
	if (run->options.backend->gpu)
		run->options.backend->gpu->health(driver->handle, health);
}

static bb_status report_gpu(struct bb_run *run, int rank, const struct change *c)
{
	const struct bb_location *const at = &run->infos[rank].location;
	const struct bb_gpu_record record = {.rank = rank,
					     .host = at->host,
					     .bus = at->bus,
					     .driver = c->after.driver,
#define STATE(member, ...) .member = c->after.member,
#define COUNT(member, ...) .member##_before = c->before.member, .member = c->after.member,
					     BB_GPU_STATES(STATE) BB_GPU_COUNTS(COUNT)};

	return bb_sinks_record(&run->sinks, &bb_record_gpu, &record);
}

bb_status bb_run_gpus_report(struct bb_run *run, struct bb_driver *driver,
			     const struct bb_gpu_health *before)
{
	struct change mine = {.before = *before};
	const void *all = NULL;
	bb_status status;

	if (!run->options.backend->gpu)
		return BB_OK;
	bb_run_gpus_read(run, driver, &mine.after);
	status = bb_crew_collect(driver, &change_table, &mine, 1, &all);
	if (!bb_driver_leads(driver))
		return status;
	for (int r = 0; r < run->world.nranks && status == BB_OK; r++) {
		const struct change *const c = (const struct change *)all + r;

		if (c->after.driver[0])
			status = report_gpu(run, r, c);
	}
	return status;
}
