/*
 * sim.c - the backend with virtual time: no byte moves, and each rank has a clock that the model of
 * the links advances (simulator/timeline/timeline.h). One driver stands for all ranks.
 */
#include "backends/sim/sim_inside.h"

#include "backends/dataless.h"
#include "backends/routes.h"
#include "core/array.h"
#include "core/random.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT_TEXT 64
#define BY_TEXT 80

/* The latest of N times, at least 0. */
static double latest_of(const double *times, int n)
{
	double latest = 0;

	for (int i = 0; i < n; i++)
		latest = times[i] > latest ? times[i] : latest;
	return latest;
}

/* The latest clock of SCENARIO. */
static double scenario_now(const struct bb_context *c, const struct bb_scenario *scenario)
{
	return latest_of(scenario->clocks, c->world.nranks);
}

/* Report to the listener that an evaluation has ended. */
static void progress_done(const struct bb_context *c)
{
	if (c->listener.progress)
		c->listener.progress(c->listener.own, NULL, 0, 0);
}

/* ---- the process ---------------------------------------------------------------------- */

static void sim_close(struct bb_context *context)
{
	bb_choices_free(&context->choices);
	free(context->counts);
	bb_calibration_free(context->calibration);
	for (int i = 0; i < context->nscenarios; i++) {
		bb_crowds_free(&context->scenarios[i].crowds);
		free(context->scenarios[i].clocks);
	}
	free(context);
}

static bool open_scenario(struct bb_context *c, const struct bb_backend_config *config, bool faulty)
{
	const struct bb_virtual_config *virtual = config->virtual;
	struct bb_scenario *scenario = &c->scenarios[c->nscenarios++];

	*scenario = (struct bb_scenario){
		.links = {.rate = config->link_rate,
			  .latency = config->link_latency,
			  .port = config->link_port,
			  .noise = virtual->noise,
			  .seed = virtual->seed,
			  .choices = faulty ? NULL : &c->choices, /* no fault is known to them */
			  .pace = &c->pace},
		.clocks = calloc((size_t)c->world.nranks, sizeof(*scenario->clocks)),
	};
	if (faulty) {
		scenario->links.slow_link = virtual->slow_link;
		scenario->slow_rank = virtual->slow_rank.rank;
		scenario->late = virtual->slow_rank.seconds;
	}
	if (!virtual->cluster)
		return scenario->clocks;
	scenario->fabric = virtual->cluster->fabric;
	scenario->fabric.flawed = faulty && virtual->flawed;
	scenario->fabric.flaw = virtual->flaw;
	scenario->links.fabric = &scenario->fabric;
	return bb_crowds_open(&scenario->crowds, &scenario->fabric, c->world.nranks) &&
	       scenario->clocks;
}

/* An evaluation ends when the run is aborted. */
static bool report_progress(void *own, const struct bb_algorithm *schedule, size_t done, size_t all)
{
	const struct bb_context *c = own;

	if (c->listener.progress)
		c->listener.progress(c->listener.own, schedule, done, all);
	return !atomic_load(&c->aborted);
}

/* Open with the model of LIBRARY (NULL: none). */
static bb_status open_with(const struct bb_sim_library *library, struct bb_context **context,
			   const struct bb_world *world, const struct bb_backend_config *config,
			   struct bb_error *error)
{
	const struct bb_virtual_config *virtual = config->virtual;
	const bool faulty = virtual->flawed || virtual->slow_link.factor > 0 ||
			    virtual->slow_rank.seconds > 0;
	struct bb_context *c = malloc(sizeof(*c));
	bb_status st = BB_OK;

	if (!c)
		return bb_no_memory(error, "the clocks of all ranks");
	*c = (struct bb_context){.world = *world,
				 .cluster = virtual->cluster,
				 .library = library,
				 .error = error,
				 .listener = virtual->listener,
				 .pace = {report_progress, c},
				 .driver = {c}};
	if ((faulty && !open_scenario(c, config, true)) || !open_scenario(c, config, false)) {
		st = bb_no_memory(error, "the clocks of all ranks");
		goto out;
	}
	if (library)
		BB_TRY(st, library->open(c, error), out);
	if (virtual->calibrate)
		st = bb_calibration_read(&c->calibration, virtual->calibrate, virtual->cluster,
					 &c->nccl, error);
out:
	if (st != BB_OK)
		sim_close(c);
	else
		*context = c;
	return st;
}

static bb_status sim_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	return open_with(NULL, context, world, config, error);
}

static bb_status gpu_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	return open_with(&bb_sim_nccl, context, world, config, error);
}

static bb_status cpu_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	return open_with(&bb_sim_openmpi, context, world, config, error);
}

static void sim_explain(const struct bb_context *context, struct bb_strbuf *out)
{
	if (context->calibration)
		bb_calibration_describe(context->calibration, out);
}

static void sim_abort(struct bb_context *context)
{
	atomic_store(&context->aborted, true);
}

static bb_status sim_attach(struct bb_context *context, int local, struct bb_rank **rank,
			    struct bb_location *location, struct bb_error *error)
{
	*rank = &context->driver;
	bb_location_here(location);
	location->numa = -1;
	snprintf(location->name, sizeof(location->name), "virtual");
	return BB_OK;
}

/* ---- groups --------------------------------------------------------------------------- */

static void sim_group_close(struct bb_group *group)
{
	if (!group)
		return;
	for (int i = 0; i < group->context->nscenarios; i++)
		free(group->crowds[i]);
	free(group->members);
	free(group);
}

static bb_status sim_group_open(struct bb_rank *rank, const int *members, int n,
				struct bb_group **group, struct bb_error *error)
{
	struct bb_context *c = rank->context;
	struct bb_group *g = calloc(1, sizeof(*g) + (size_t)n * sizeof(*g->times));

	if (!g)
		goto fail;
	g->context = c;
	g->n = n;
	g->members = malloc((size_t)n * sizeof(*g->members));
	if (!g->members)
		goto fail;
	g->first_ranks = true;
	for (int i = 0; i < n; i++) {
		g->members[i] = members[i];
		g->first_ranks = g->first_ranks && members[i] == i;
	}
	for (int i = 0; i < c->nscenarios && c->cluster; i++) {
		const struct bb_link_model *const links = &c->scenarios[i].links;

		if (!bb_crowds_find(&c->scenarios[i].crowds, members, n, &g->crowds[i]))
			goto fail;
		if (c->cluster->inside == BB_INSIDE_MEMORY) {
			/* The members are sorted. */
			for (int k = 0; k < n; k++)
				g->machines[i].nodes +=
					k == 0 ||
					bb_cluster_node(c->cluster, members[k]) !=
						bb_cluster_node(c->cluster, members[k - 1]);
			continue;
		}
		if (!bb_nccl_shape_make(&g->machines[i], c->cluster, c->world.nranks, members, n))
			goto fail;
		if (c->calibration)
			bb_calibration_adjust(c->calibration, &g->machines[i]);
		bb_nccl_shape_apply_flaw(&g->machines[i], c->cluster,
					 links->fabric->flawed ? &links->fabric->flaw : NULL,
					 c->world.nranks, members, n);
		if (links->slow_link.factor > 0 &&
		    !bb_nccl_shape_apply_slow_path(&g->machines[i], c->cluster,
						   links->slow_link.factor, links->slow_link.from,
						   links->slow_link.to, members, n))
			goto fail;
	}
	*group = g;
	return BB_OK;
fail:
	sim_group_close(g);
	return bb_no_memory(error, "a group");
}

static bb_status sim_barrier(struct bb_group *group)
{
	struct bb_context *c = group->context;

	for (int k = 0; k < c->nscenarios; k++) {
		double *clocks = c->scenarios[k].clocks, latest = 0;

		for (int i = 0; i < group->n; i++)
			if (clocks[group->members[i]] > latest)
				latest = clocks[group->members[i]];
		for (int i = 0; i < group->n; i++)
			clocks[group->members[i]] = latest;
	}
	return atomic_load(&c->aborted) ? BB_ETIMEOUT : BB_OK;
}

/* ---- choosing an algorithm ------------------------------------------------------------ */

/* Do times of schedules come from a calibration, not from links? */
static bool fits_schedules(const struct bb_context *c)
{
	return c->calibration && !c->cluster;
}

/* The library's algorithm NAME, or NULL. */
static const struct bb_native *native_named(const struct bb_context *c, const char *name)
{
	for (const struct bb_native *n = c->library ? c->library->natives : NULL; n && n->name; n++)
		if (strcmp(n->name, name) == 0)
			return n;
	return NULL;
}

/* The links of SCENARIO, of ALL ranks, as the group's members see them. A group of the first ranks
   needs no list. */
static struct bb_link_model links_of(const struct bb_group *group, int scenario,
				     const struct bb_link_model *all)
{
	struct bb_link_model links = *all;

	if (!group->first_ranks)
		links.members = group->members;
	links.crowd = group->crowds[scenario];
	return links;
}

/* Set CALL's schedule to NAME or (NULL) the fastest, and its chunk. */
static bb_status resolve_schedule(struct bb_group *group, const char *name, struct bb_call *call,
				  struct bb_error *error)
{
	struct bb_context *c = group->context;
	struct bb_shape shape = bb_call_scheduled_shape(call);
	const size_t element = bb_dtype_size(call->dtype);
	const struct bb_link_model links =
		links_of(group, c->nscenarios - 1, &c->scenarios[c->nscenarios - 1].links);
	struct bb_error reason = {.text = ""};

	if (!fits_schedules(c)) {
		call->schedule = bb_timeline_choose(&links, name, call->collective, &shape, element,
						    &reason);
		progress_done(c);
	} else if (call->collective->flags & BB_VARIABLE) {
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--calibrate does not model messages of several sizes");
	} else {
		call->schedule = bb_calibration_choose(c->calibration, name, call->collective,
						       &shape, element);
		if (!call->schedule)
			(void)bb_fail(&reason, BB_EUNSUPPORTED, "%s has no schedule for this call",
				      call->collective->name);
	}
	if (!call->schedule && bb_error_status(&reason) == BB_ETIMEOUT)
		return BB_ETIMEOUT;
	if (!call->schedule)
		return bb_fail(error, bb_error_status(&reason), "%s", reason.text);
	call->shape.chunk = shape.chunk;
	return BB_OK;
}

/* The library's choice; the fastest schedule where it has none, and where there is no library. A
   fault changes no choice. RCCL's choice is refused. */
static bb_status choose_algorithm(struct bb_group *group, struct bb_call *call,
				  struct bb_error *error)
{
	const struct bb_sim_library *library = group->context->library;

	call->schedule = NULL;
	call->instead = NULL;
	if (library && group->n > 1 && bb_topology_is_amd(group->context->cluster->node, 0))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "%s by auto among %d ranks: AMD GPUs run RCCL, of which there is no "
			       "model; name a schedule, as in --algo busbench:ring",
			       call->collective->name, group->n);
	/* A rank alone sends nothing. */
	if (library && (group->n > 1 || library->is_whole)) {
		call->native = library->choice;
		call->instead = library->refuses(group, call);
		if (!call->instead)
			return BB_OK;
	}
	call->native = NULL;
	return resolve_schedule(group, NULL, call, error);
}

static bb_status sim_choose(struct bb_group *group, struct bb_call *call)
{
	return choose_algorithm(group, call, group->context->error);
}

static const char *sim_refuses(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *c = group->context;

	if (fits_schedules(c) && c->scenarios[0].links.slow_link.factor > 0)
		return "a model has no links between two ranks: slow_link needs a schedule over "
		       "--link or --cluster";
	if (!call->native)
		return NULL;
	const char *const why = c->library->refuses(group, call);
	return why || !c->library->refuses_fault ? why : c->library->refuses_fault(group, call);
}

/* A call that cannot run is refused later. */
static bb_status sim_tune(struct bb_group *group, struct bb_call *call)
{
	if (call->native || sim_refuses(group, call))
		return BB_OK;
	return resolve_schedule(group, call->schedule->name, call, group->context->error);
}

void bb_sim_time_whole(struct bb_group *group, double seconds, double *times)
{
	const double start = latest_of(times, group->n);

	for (int i = 0; i < group->n; i++)
		times[i] = start + seconds;
	group->last.evaluator = "model";
}

/* ---- how calls were evaluated --------------------------------------------------------- */

struct bb_sim_count {
	char what[WHAT_TEXT];  /* "all_reduce among 16 on 2 nodes" */
	char by[BY_TEXT];      /* "ring:LL model" */
	const char *instead;   /* of struct bb_call */
	bool native, modelled; /* MODELLED: by a model of the library */
};

/* Remember how GROUP evaluated CALL. BB_EINTERNAL: out of memory. */
static bb_status count_call(const struct bb_group *group, const struct bb_call *call,
			    struct bb_error *error)
{
	struct bb_context *c = group->context;
	const int nodes = group->machines[0].nodes; /* of a cluster; 0: there is none */
	struct bb_sim_count count = {.native = call->native != NULL,
				     .modelled = call->native && c->library->is_whole,
				     .instead = call->instead};
	size_t at = c->ncounts; /* those of the same collective and groups stay together */
	int length;

	if (group->n == 1) /* sends nothing */
		return BB_OK;
	length = snprintf(count.what, WHAT_TEXT, "%s among %d", call->collective->name, group->n);
	if (nodes > 0)
		snprintf(count.what + length, WHAT_TEXT - (size_t)length, " on %d node%s", nodes,
			 bb_plural(nodes));
	/* A schedule is called busbench:NAME if the library has an algorithm of this name. */
	if (call->native)
		snprintf(count.by, BY_TEXT, "%s %s",
			 *group->chosen ? group->chosen : c->library->unnamed,
			 group->last.evaluator);
	else
		snprintf(count.by, BY_TEXT, "%s%s %s",
			 native_named(c, call->schedule->name) ? BB_OWN : "", call->schedule->name,
			 group->last.evaluator);
	for (size_t i = 0; i < c->ncounts; i++) {
		if (strcmp(c->counts[i].what, count.what) != 0)
			continue;
		if (c->counts[i].native == count.native && strcmp(c->counts[i].by, count.by) == 0)
			return BB_OK;
		at = i + 1;
	}
	if (!BB_ARRAY_ADD(c->counts, c->ncounts, c->count_room))
		return bb_no_memory(error, "the list of collectives");
	memmove(&c->counts[at + 1], &c->counts[at], (c->ncounts - 1 - at) * sizeof(count));
	c->counts[at] = count;
	return BB_OK;
}

static bool sim_summarize(const struct bb_context *c, struct bb_strbuf *out)
{
	bool modelled = false;

	for (size_t i = 0; i < c->ncounts; i++) {
		const struct bb_sim_count *count = &c->counts[i];
		const bool goes_on = i > 0 && strcmp(count[-1].what, count->what) == 0;
		bool repeated = false; /* a later one replaces the library likewise */

		modelled = modelled || count->modelled;
		for (size_t k = i + 1; k < c->ncounts; k++)
			repeated = repeated || (c->counts[k].instead == count->instead &&
						strcmp(c->counts[k].what, count->what) == 0);
		if (!goes_on)
			bb_strbuf_addf(out, "%s%s: ", i ? "; " : "", count->what);
		bb_strbuf_addf(out, "%s%s", goes_on ? ", " : "", count->by);
		if (count->instead && !repeated)
			bb_strbuf_addf(out, " (%s)", count->instead);
	}
	return modelled;
}

/* ---- times ---------------------------------------------------------------------------- */

/* Evaluate CALL, as the library's time does. */
static bb_status time_call(struct bb_group *group, int scenario, const struct bb_link_model *all,
			   const struct bb_call *call, uint64_t number, double *times,
			   struct bb_error *error)
{
	const struct bb_context *c = group->context;
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	const struct bb_link_model links = links_of(group, scenario, all);
	const size_t element = bb_dtype_size(call->dtype);
	bb_status status = BB_OK;

	group->last = (struct bb_evaluation){.evaluator = group->last.evaluator,
					     .support = {NAN, NAN, NAN, NAN, NAN, NAN}};
	if (call->native) {
		status = c->library->time(group, scenario, &links, call, number, times, error);
	} else if (fits_schedules(c)) {
		bb_sim_time_whole(group,
				  bb_calibration_time(c->calibration, call->schedule, &shape,
						      element, &group->last.support) *
					  bb_timeline_noise(all, number),
				  times);
	} else {
		group->last.evaluator = bb_evaluator_name(
			bb_timeline_evaluator(&links, call->schedule, &shape), &links);
		status = bb_timeline_collective_known(&links, call->schedule, &shape, element,
						      number, times);
		if (status == BB_EINTERNAL)
			(void)bb_no_memory(error, "the messages of a collective");
	}
	/* Scenario 0 is the one that is reported. */
	return status == BB_OK && scenario == 0 ? count_call(group, call, error) : status;
}

static bb_status sim_collective(struct bb_group *group, struct bb_queue *queue,
				const struct bb_call *call)
{
	struct bb_context *c = group->context;
	const uint64_t number = c->calls++;
	bb_status status = BB_OK;

	if (atomic_load(&c->aborted))
		return BB_ETIMEOUT;
	/* Scenario 0 comes last, as it is the one that is reported. */
	for (int i = c->nscenarios - 1; i >= 0 && status == BB_OK; i--) {
		struct bb_scenario *scenario = &c->scenarios[i];

		for (int m = 0; m < group->n; m++) {
			group->times[m] = scenario->clocks[group->members[m]];
			if (scenario->late > 0 && group->members[m] == scenario->slow_rank)
				group->times[m] += scenario->late;
		}
		status =
			time_call(group, i, &scenario->links, call, number, group->times, c->error);
		for (int m = 0; m < group->n; m++)
			scenario->clocks[group->members[m]] = group->times[m];
	}
	progress_done(c);
	return status;
}

/* ---- programs ------------------------------------------------------------------------- */

/* The evaluation of a program on one scenario. */
struct evaluation {
	struct bb_rank *rank;
	const struct bb_program *program;
	struct bb_group **groups; /* [group]: NULL: no collective of it has come yet */
	struct bb_link_model links;
	int scenario;
};

static bb_status program_perform(void *own, const struct bb_operation *o, const int *members, int n,
				 uint64_t number, double *times, bool *whole,
				 struct bb_error *error)
{
	const struct evaluation *p = own;
	const char *const name = p->program->algorithm, *reason;
	struct bb_group **group = &p->groups[o->group];
	struct bb_call call = {
		.collective = o->collective,
		.dtype = o->dtype,
		.op = o->op,
		.shape = {.nranks = n, .root = o->root, .in_place = o->in_place, .count = o->count},
	};
	bb_status status = BB_OK;

	if (!*group)
		BB_TRY(status, sim_group_open(p->rank, members, n, group, error), out);
	/* The program's algorithm, as --algo sets it; one rank has nothing to choose from. */
	if (!name || strcmp(name, "auto") == 0 || n == 1)
		BB_TRY(status, choose_algorithm(*group, &call, error), out);
	else if (!(call.native = native_named((*group)->context, name)))
		BB_TRY(status, resolve_schedule(*group, name, &call, error), out);
	reason = call.native ? sim_refuses(*group, &call) : NULL;
	if (reason)
		BB_TRY(status,
		       bb_fail(error, BB_EUNSUPPORTED, "%s by %s among %d ranks: %s",
			       o->collective->name, name ? name : "auto", n, reason),
		       out);
	*whole = call.native && (*group)->context->library->is_whole;
	status = time_call(*group, p->scenario, &p->links, &call, number, times, error);
out:
	return status;
}

static bb_status sim_evaluate(struct bb_rank *rank, const struct bb_program *program,
			      const struct bb_timeline_watch *watch, double *end,
			      struct bb_error *error)
{
	struct bb_context *c = rank->context;
	bb_status status = BB_OK;

	if (atomic_load(&c->aborted))
		return BB_ETIMEOUT;
	if (fits_schedules(c))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--calibrate is for collectives; give --link or --cluster");
	*end = 0;
	/* Scenario 0 comes last, as it is the one that is reported. */
	for (int i = c->nscenarios - 1; i >= 0 && status == BB_OK; i--) {
		const double start = scenario_now(c, &c->scenarios[i]);
		struct evaluation p = {
			.rank = rank,
			.program = program,
			.groups = calloc((size_t)program->groups + 1, sizeof(struct bb_group *)),
			.links = c->scenarios[i].links,
			.scenario = i,
		};
		const struct bb_timeline_performer performer = {program_perform, &p};

		if (!p.groups)
			return bb_no_memory(error, "the groups of a program");
		p.links.seed += c->programs * BB_RANDOM_STEP;
		status = bb_timeline_program_by(&performer, &p.links, program,
						i == 0 ? watch : NULL, end, error);
		for (int g = 0; g < program->groups; g++)
			sim_group_close(p.groups[g]);
		free(p.groups);
		for (int r = 0; r < c->world.nranks; r++)
			c->scenarios[i].clocks[r] = start + *end;
	}
	c->programs++;
	progress_done(c);
	return status;
}

/* ---- modelled libraries: NCCL over GPUs, Open MPI over ranks on CPUs ------------------ */

static const char *library_name(const struct bb_context *context)
{
	return *context->library_text ? context->library_text : NULL;
}

static void library_listen(struct bb_group *group, bool on)
{
}

static void library_chosen(struct bb_group *group, char text[BB_CHOSEN_TEXT])
{
	snprintf(text, BB_CHOSEN_TEXT, "%s", group->chosen);
}

/* ---- queues: of programs, which are evaluated as a whole ------------------------------ */

static bb_status sim_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				struct bb_error *error)
{
	return bb_fail(error, BB_EUNSUPPORTED, "sim has queues only in programs");
}

static bb_status sim_event_open(struct bb_rank *rank, struct bb_event **event,
				struct bb_error *error)
{
	return bb_fail(error, BB_EUNSUPPORTED, "sim has events only in programs");
}

static bb_status sim_compute(struct bb_rank *rank, struct bb_queue *queue,
			     void (*function)(void *argument), void *argument)
{
	return BB_EUNSUPPORTED;
}

/* ---- time ----------------------------------------------------------------------------- */

static double sim_now(struct bb_rank *rank)
{
	return scenario_now(rank->context, &rank->context->scenarios[0]);
}

static void sim_delay(struct bb_rank *rank, double seconds)
{
	const struct bb_context *c = rank->context;

	for (int i = 0; i < c->nscenarios; i++)
		for (int r = 0; r < c->world.nranks; r++)
			c->scenarios[i].clocks[r] += seconds;
}

static const struct bb_evaluation *sim_evaluated(struct bb_group *group)
{
	const struct bb_context *c = group->context;

	group->last.faultless = c->nscenarios > 1 ? scenario_now(c, &c->scenarios[1]) : NAN;
	return &group->last;
}

/* The messages that pairs of ranks send each other. */
static const struct bb_route route_list[] = {
	{.name = "send",
	 .brief = "a message over the modelled link",
	 .uses = BB_ROUTE_TRANSFER,
	 .actor = BB_BY_BOTH,
	 .direct = true},
	{.name = "word",
	 .brief = "a message of 8 bytes, there and back",
	 .uses = BB_ROUTE_PING,
	 .actor = BB_BY_BOTH,
	 .direct = true},
	{.name = NULL},
};

static const struct bb_routes sim_routes = {.list = route_list};

static const struct bb_backend over_gpus, over_cpus;

static const struct bb_virtual sim_virtual = {
	.over_gpus = &over_gpus,
	.over_cpus = &over_cpus,
	.explain = sim_explain,
	.delay = sim_delay,
	.evaluate = sim_evaluate,
	.evaluated = sim_evaluated,
	.summarize = sim_summarize,
};

/* Members of both tables. */
#define SIM                                                                                        \
	BB_DATALESS_ENTRIES,                                                                       \
		.abi = BB_BACKEND_ABI, .name = "sim",                                              \
		.brief = "ranks are virtual: times are computed from --link, --cluster or "        \
			 "--calibrate",                                                            \
		.close = sim_close, .abort = sim_abort, .max_local = BB_CLUSTER_MOST_RANKS,        \
		.attach = sim_attach, .group_open = sim_group_open,                                \
		.group_close = sim_group_close, .barrier = sim_barrier, .choose = sim_choose,      \
		.tune = sim_tune, .refuses = sim_refuses, .queue_open = sim_queue_open,            \
		.event_open = sim_event_open, .compute = sim_compute,                              \
		.collective = sim_collective, .now = sim_now, .virtual = &sim_virtual,             \
		.routes = &sim_routes

static const struct bb_library modelled = {
	.name = library_name,
	.listen = library_listen,
	.chosen = library_chosen,
};

static const struct bb_backend over_gpus = {
	SIM,
	.natives = bb_sim_nccl_natives,
	.open = gpu_open,
	.library = &modelled,
};

static const struct bb_backend over_cpus = {
	SIM,
	.natives = bb_sim_openmpi_natives,
	.open = cpu_open,
	.library = &modelled,
};

const struct bb_backend bb_backend_sim = {
	SIM,
	.natives = &(const struct bb_native){.name = NULL},
	.open = sim_open,
};
