/*
 * attend.c - what every driver does before it measures: the ranks exchange their locations and
 * compare clocks, and rank 0 begins the output.
 */
#include "harness/run/run.h"

#include "backends/virtual.h"
#include "core/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const struct bb_payload_field info_fields[] = {
	BB_PAYLOAD_FIELD("the pid", BB_PAYLOAD_SIGNED, struct bb_rank_info, location.pid,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the device", BB_PAYLOAD_SIGNED, struct bb_rank_info, location.device,
			 .low = -1, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the NUMA node", BB_PAYLOAD_SIGNED, struct bb_rank_info, location.numa,
			 .low = -1, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct bb_rank_info, location.host),
	BB_PAYLOAD_FIELD("the bus", BB_PAYLOAD_TEXT, struct bb_rank_info, location.bus),
	BB_PAYLOAD_FIELD("the UUID", BB_PAYLOAD_TEXT, struct bb_rank_info, location.uuid),
	BB_PAYLOAD_FIELD("the name", BB_PAYLOAD_TEXT, struct bb_rank_info, location.name),
	BB_PAYLOAD_FIELD("the handle", BB_PAYLOAD_TEXT, struct bb_rank_info, location.handle),
	BB_PAYLOAD_FIELD("the group", BB_PAYLOAD_ANY, struct bb_rank_info, group),
	{.name = NULL}};
static const struct bb_payload info_table = {"a location", sizeof(struct bb_rank_info), info_fields,
					     NULL};

/* Gathers the locations of all ranks; the first driver stores them for the process. */
static bb_status gather_infos(struct bb_run *run, struct bb_driver *driver,
			      int (*group_of)(const struct bb_run *run, int rank))
{
	/* Virtual ranks share a location, but each is a device of its own. */
	const bool virtual = run->options.backend->virtual;
	struct bb_rank_info mine;
	const void *all;
	bb_status status;

	memset(&mine, 0, sizeof(mine));
	run->options.backend->locate(driver->handle, &mine.location);
	status = bb_crew_gather(driver, &info_table, &mine, 1, &all);
	if (status == BB_OK && driver->local == 0) {
		memcpy(run->infos, all, (size_t)run->world.nranks * sizeof(*run->infos));
		for (int r = 0; r < run->world.nranks; r++) {
			run->infos[r].group = group_of ? group_of(run, r) : 0;
			if (virtual)
				run->infos[r].location.device = r;
		}
	}
	return status == BB_OK ? bb_crew_barrier(driver) : status;
}

/* Device numbers alone do not identify a device: processes may see different ones. */
static bool share_device(const struct bb_location *a, const struct bb_location *b)
{
	return a->device == b->device && strcmp(a->bus, b->bus) == 0 &&
	       strcmp(a->uuid, b->uuid) == 0 && strcmp(a->host, b->host) == 0;
}

bool bb_is_first_on_device(const struct bb_rank_info *infos, int rank)
{
	for (int r = 0; r < rank; r++)
		if (share_device(&infos[r].location, &infos[rank].location))
			return false;
	return true;
}

static bb_status open_world(struct bb_run *run, struct bb_driver *driver, struct bb_group **world)
{
	const int nranks = run->world.nranks;
	int *members = calloc((size_t)nranks, sizeof(*members));
	bb_status status;

	if (!members)
		return bb_no_memory(&run->error, "groups");
	for (int r = 0; r < nranks; r++)
		members[r] = r;
	status = run->options.backend->group_open(driver->handle, members, nranks, world,
						  &run->error);
	free(members);
	return status;
}

bb_status bb_run_attend(struct bb_run *run, struct bb_driver *driver,
			int (*group_of)(const struct bb_run *run, int rank),
			struct bb_group **world)
{
	bb_status status = gather_infos(run, driver, group_of);

	if (bb_driver_leads(driver))
		run->startup.attached = bb_clock_now();
	if (status == BB_OK)
		status = open_world(run, driver, world);
	if (status == BB_OK)
		driver->world = *world;
	if (bb_driver_leads(driver))
		run->startup.world = bb_clock_now();
	return status;
}

int64_t bb_memory_taken(const struct bb_run *run)
{
	const struct bb_backend *backend = run->options.backend;
	struct rusage usage;

	if (backend->gpu)
		return -(int64_t)backend->memory_available(run->context);
	return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

static int64_t known(int64_t bytes)
{
	return bytes == BB_ABSENT ? 0 : bytes;
}

bb_status bb_run_note_memory(struct bb_run *run, struct bb_driver *driver, int64_t *bytes)
{
	const struct bb_end_record *end = &run->end;
	int64_t taken;
	bb_status status = bb_crew_barrier(driver);

	if (status != BB_OK || !run->options.memory_report)
		return status;
	if (bb_driver_leads(driver)) {
		taken = bb_memory_taken(run) - run->memory_before - known(end->memory_init_bytes) -
			known(end->memory_user_bytes);
		/* On CPUs, where it is a peak, start-up may have had the highest. */
		*bytes = taken > 0 ? taken : 0;
		status = bb_error_status(&run->error);
	}
	return status == BB_OK ? bb_crew_barrier(driver) : status;
}

/* *UNCERTAINTY = the largest error, in seconds, of a comparison of two ranks' clocks. */
static bb_status compare_clocks(struct bb_run *run, struct bb_driver *driver, double *uncertainty)
{
	const struct bb_backend *backend = run->options.backend;
	double offset;
	bb_status status = BB_OK;

	*uncertainty = 0;
	if (backend->clocks)
		status = backend->clocks->offset(driver->handle, &offset, uncertainty);
	return status == BB_OK ? bb_crew_most(driver, &bb_payload_seconds, uncertainty, 1) : status;
}

/*
 * Gathers the digests of the hosts' topologies, one of each host. On rank 0 its own digest goes
 * into the record, and the hosts that differ from it into LINES.
 */
static bb_status compare_hosts(struct bb_run *run, struct bb_driver *driver,
			       struct bb_strbuf *lines)
{
	const struct bb_rank_info *infos = run->infos;
	const bool has_digest = run->topology && driver->local == 0;
	const uint64_t mine = has_digest ? bb_topology_digest(run->topology) : 0, *digests;
	const void *all;
	bb_status status = bb_crew_gather(driver, &bb_payload_number, &mine, 1, &all);

	if (status != BB_OK || !bb_driver_leads(driver))
		return status;
	digests = all;
	if (digests[0])
		snprintf(run->topology_digest, BB_DIGEST_TEXT, "%016llx",
			 (unsigned long long)digests[0]);
	for (int r = 1; r < run->world.nranks && digests[0]; r++)
		if (digests[r] && digests[r] != digests[0])
			bb_strbuf_addf(
				lines,
				"# Host %s is not like %s (%016llx, %s): see topology --diff\n",
				infos[r].location.host, infos[0].location.host,
				(unsigned long long)digests[r], run->topology_digest);
	if (!run->topology && bb_error_status(&run->topology_error) != BB_OK)
		bb_strbuf_addf(lines, "# The topology is not known: %s\n",
			       run->topology_error.text);
	return BB_OK;
}

/* Rank 0: begins the sinks with the complete run record, prints LINES and prepares the bounds. */
static bb_status begin_output(struct bb_run *run, const struct bb_strbuf *lines)
{
	const bool gpus = run->options.backend->gpu;
	bb_status status;

	run->record.topology = *run->topology_digest ? run->topology_digest : NULL;
	if (bb_link_bounds_open(&run->link_bounds, run->topology, &run->record.ranks, gpus) !=
		    BB_OK ||
	    bb_strbuf_failed(lines))
		return bb_no_memory(&run->error, "the topology");
	run->begun = true;
	status = bb_sinks_begin(&run->sinks, &run->record);
	if (status == BB_OK && lines->length > 0)
		status = bb_sinks_comment(&run->sinks, bb_strbuf_text(lines));
	return status;
}

/* Rank 0: where the time until now went, into the record and, for GPUs, LINES. */
static void divide_startup(struct bb_run *run, struct bb_strbuf *lines)
{
	struct bb_run_record *const r = &run->record;
	const double now = bb_clock_now();
	const double last = run->startup.split > 0 ? run->startup.split : run->startup.world;

	r->init_ms = 1e3 * (now - run->started);
	r->connect_ms = 1e3 * (run->startup.connected - run->started);
	r->open_ms = 1e3 * (run->startup.opened - run->startup.connected);
	r->attach_ms = 1e3 * (run->startup.attached - run->startup.opened);
	r->world_ms = 1e3 * (run->startup.world - run->startup.attached);
	if (run->startup.split > 0)
		r->split_ms = 1e3 * (run->startup.split - run->startup.world);
	if (!run->options.backend->gpu)
		return;
	bb_strbuf_addf(
		lines,
		"# Start-up %.1f ms: processes %.1f, libraries %.1f, GPUs %.1f, communicator "
		"%.1f",
		r->init_ms, r->connect_ms, r->open_ms, r->attach_ms, r->world_ms);
	if (run->startup.split > 0)
		bb_strbuf_addf(lines, ", its split %.1f", r->split_ms);
	bb_strbuf_addf(lines, ", rest %.1f\n", 1e3 * (now - last));
}

bb_status bb_run_begin(struct bb_run *run, struct bb_driver *driver, double copy_rate)
{
	struct bb_run_record *record = &run->record;
	struct bb_strbuf lines = {0};
	double uncertainty;
	bb_status status;

	BB_TRY(status, compare_clocks(run, driver, &uncertainty), out);
	BB_TRY(status, compare_hosts(run, driver, &lines), out);
	if (!bb_driver_leads(driver))
		goto out;
	if (run->launch.note)
		bb_strbuf_addf(&lines, "# Launch: %s\n", run->launch.note);
	if (run->options.backend->virtual)
		run->options.backend->virtual->explain(run->context, &lines);
	/* Ranks of a cluster have no location. */
	if (!run->options.cluster && run->world.nranks <= BB_MAX_RANKS)
		record->ranks = (struct bb_rank_infos){run->infos, (size_t)run->world.nranks};
	if (run->options.backend->has_data)
		record->copy_GBps = copy_rate / 1e9;
	record->clock_uncertainty_us = uncertainty * 1e6;
	divide_startup(run, &lines);
	status = begin_output(run, &lines);
out:
	bb_strbuf_free(&lines);
	return status;
}
