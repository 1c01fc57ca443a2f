/*
 * The gloo backend: ranks are threads of any number of processes, messages and collectives are
 * Gloo's, over TCP even within a host. Nothing is pinned: each rank has a thread of Gloo beside it.
 */
#include "backends/gloo/gloo.h"

#include "backends/library.h"
#include "core/clock.h"
#include "core/file.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_LOCAL 64
/* For the watch to report the rank whose end broke the connections: it knows, Gloo does not. */
#define CAUSE_S 1.0
#define CHUNK_BYTES ((size_t)512 << 10)

extern const struct bb_backend bb_plugin_backend;

bb_status bb_gloo_failed(const struct bb_rank *rank, const char *act, const char *why)
{
	struct bb_context *context = rank->context;
	const double end = bb_clock_now() + CAUSE_S;

	while (!bb_cpu_aborted(&context->cpu) && bb_clock_now() < end)
		poll(NULL, 0, 10);
	if (bb_cpu_aborted(&context->cpu))
		return BB_ETIMEOUT;
	return bb_fail(context->cpu.error, BB_EBACKEND, "rank %d: %s: %s", rank->rank, act, why);
}

/* ---- opening ---------------------------------------------------------------------------- */

static void gloo_close(struct bb_context *context)
{
	bb_gloo_watchdog_close(context);
	pthread_cond_destroy(&context->changed);
	pthread_mutex_destroy(&context->lock);
	bb_cpu_close(&context->cpu);
	free(context);
}

static bb_status gloo_open(struct bb_context **context, const struct bb_world *world,
			   const struct bb_backend_config *config, struct bb_error *error)
{
	struct bb_context *c;
	char gloo[BB_GLOO_NAME];
	bb_status status;

	if (config->link_rate != 0)
		return bb_fail(
			error, BB_EUNSUPPORTED,
			"--link: the links of the gloo backend are real; host paces its own");
	c = calloc(1, sizeof(*c));
	if (!c)
		return bb_no_memory(error, "the gloo backend");
	c->cpu.run = bb_port_run;
	c->cpu.pass = bb_gloo_message;
	pthread_mutex_init(&c->lock, NULL);
	bb_clock_open_moment(&c->changed);
	/* Gloo writes to sockets without MSG_NOSIGNAL: a peer's death would end this process. */
	signal(SIGPIPE, SIG_IGN);
	/* Each rank has connections to all others in each of its groups. */
	bb_file_limit_raise(UINT64_MAX);
	BB_TRY(status, bb_gloo_choose_address(&c->choice, error), failed);
	bb_gloo_name(gloo);
	snprintf(c->name, sizeof(c->name), "%s at %s (%s)", gloo, c->choice.address,
		 c->choice.reason);
	BB_TRY(status, bb_cpu_open(&c->cpu, world, config, error), failed);
	BB_TRY(status, bb_gloo_watchdog_open(c, error), failed);
	*context = c;
	return BB_OK;
failed:
	gloo_close(c);
	return status;
}

static const char *gloo_name(const struct bb_context *context)
{
	return context->name;
}

static const struct bb_library library = {.name = gloo_name};

/* ---- ranks and their memory ------------------------------------------------------------- */

static void gloo_detach(struct bb_rank *rank)
{
	if (!rank)
		return;
	bb_gloo_member_close(rank, rank->world);
	bb_gloo_device_close(rank->device);
	free(rank->hosts);
	free(rank);
}

static bb_status gloo_attach(struct bb_context *context, int local, struct bb_rank **rank,
			     struct bb_error *error)
{
	struct bb_rank *r = calloc(1, sizeof(*r));
	char why[BB_GLOO_WHY];
	bb_status status;

	if (!r)
		return bb_no_memory(error, "a rank");
	r->context = context;
	r->rank = context->cpu.world.first_rank + local;
	r->local = local;
	if (bb_gloo_device_open(context->choice.address, &r->device, why))
		status = bb_gloo_meet(r);
	else
		status = bb_fail(error, BB_EBACKEND,
				 "rank %d: Gloo cannot use the address %s (%s): %s", r->rank,
				 context->choice.address, context->choice.reason, why);
	if (status == BB_OK)
		*rank = r;
	else
		gloo_detach(r);
	return status;
}

/* Ranks are assumed to spread over the cores. */
static void gloo_locate(struct bb_rank *rank, struct bb_location *location)
{
	const struct bb_context *c = rank->context;
	const int place = c->cpu.config.ranks_before + rank->local;

	bb_cpu_locate(&c->cpu,
		      c->cpu.crowded ? (int)((int64_t)place * c->cpu.cores / c->cpu.ranks) : place,
		      c->cpu.cores == 1 ? "" : " (not bound)", location);
}

/* ---- calls ------------------------------------------------------------------------------ */

static bb_status gloo_tune(struct bb_group *group, struct bb_call *call)
{
	call->shape.chunk = CHUNK_BYTES / bb_dtype_size(call->dtype);
	return BB_OK;
}

const struct bb_backend bb_plugin_backend = {
	BB_CPU_ENTRIES,
	.abi = BB_BACKEND_ABI,
	.name = "gloo",
	.brief = "ranks are processes or threads, over Gloo's TCP connections",
	.has_data = true,
	.in_processes = true,
	.natives = bb_gloo_natives,
	.open = gloo_open,
	.close = gloo_close,
	.max_local = MAX_LOCAL,
	.attach = gloo_attach,
	.detach = gloo_detach,
	.locate = gloo_locate,
	.release = bb_cpu_release,
	.group_open = bb_gloo_group_open,
	.group_close = bb_gloo_group_close,
	.barrier = bb_gloo_group_barrier,
	.choose = bb_gloo_choose,
	.tune = gloo_tune,
	.refuses = bb_gloo_refuses,
	.tmp_bytes = bb_port_tmp_bytes,
	.cost_bytes = bb_port_cost_bytes,
	.queue_open = bb_cpu_queue_open,
	.clocks = &bb_gloo_clocks,
	.routes = &bb_gloo_routes,
	.library = &library,
};
