/*
 * The mpi backend: ranks are processes, messages and collectives are an MPI library's. Where its
 * processes run is the launcher's affair; nothing is pinned here.
 */
#include "backends/mpi/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct bb_backend bb_plugin_backend;

bb_status bb_mpi_check(struct bb_context *context, const char *function, int code)
{
	char text[MPI_MAX_ERROR_STRING];
	int length;

	if (code == MPI_SUCCESS)
		return BB_OK;
	if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
		snprintf(text, sizeof(text), "unknown error");
	return bb_fail(context->cpu.error, BB_EBACKEND, "rank %d: %s: %s", context->cpu.world.proc,
		       function, text);
}

/* ---- opening ---------------------------------------------------------------------------- */

/* Find the processes that share this one's cores. */
static int find_neighbours(struct bb_context *c, MPI_Comm host)
{
	const int mine = c->cpu.machine->cores[0].pu, cores = c->cpu.machine->ncores;
	int *pus = NULL, me, code, lowest = c->cpu.world.proc;

	MPI_Comm_size(host, &c->cpu.ranks);
	MPI_Comm_rank(host, &me);
	BB_TRY(code, MPI_Bcast(&lowest, 1, MPI_INT, 0, host), out);
	BB_TRY(code, MPI_Allgather(&lowest, 1, MPI_INT, c->hosts, 1, MPI_INT, c->comm), out);
	pus = calloc((size_t)c->cpu.ranks, sizeof(*pus));
	BB_TRY(code, pus ? MPI_SUCCESS : MPI_ERR_NO_MEM, out);
	BB_TRY(code, MPI_Allgather(&mine, 1, MPI_INT, pus, 1, MPI_INT, host), out);
	for (int i = 0; i < c->cpu.ranks; i++) {
		c->place += i < me && pus[i] == mine;
		c->sharing += pus[i] == mine;
	}
	c->cpu.crowded = c->sharing > cores;
	c->cpu.cores = c->cpu.crowded ? c->cpu.ranks / c->sharing * cores : c->cpu.ranks;
out:
	free(pus);
	return code;
}

/* All collective parts of opening. Returns an MPI code, which BB_TRY takes, too: MPI_SUCCESS is 0.
 */
static int open_together(struct bb_context *c)
{
	MPI_Comm host;
	int code;

	BB_TRY(code, MPI_Comm_dup(MPI_COMM_WORLD, &c->comm), out);
	BB_TRY(code, MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN), out);
	BB_TRY(code, MPI_Comm_split_type(c->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
	       out);
	code = find_neighbours(c, host);
	MPI_Comm_free(&host);
	if (code == MPI_SUCCESS)
		code = bb_mpi_compare_clocks(c);
out:
	return code;
}

static bb_status check_started(const struct bb_world *world, const struct bb_backend_config *config,
			       struct bb_error *error)
{
	int started, ended, size;

	if (config->link_rate != 0)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--link: paces only ranks that are threads; the links of the mpi "
			       "backend are real");
	if (MPI_Initialized(&started) != MPI_SUCCESS || !started ||
	    MPI_Finalized(&ended) != MPI_SUCCESS || ended)
		return bb_fail(error, BB_EBACKEND, "the mpi backend needs MPI to be running");
	if (MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || size != world->nprocs ||
	    world->nlocal != 1)
		return bb_fail(error, BB_EBACKEND,
			       "on the mpi backend a rank is a process; %d ranks cannot run in %d "
			       "processes",
			       world->nranks, world->nprocs);
	return BB_OK;
}

/* All parts of opening that are not collective. C may be NULL. */
static bb_status open_alone(struct bb_context *c, const struct bb_world *world,
			    const struct bb_backend_config *config, struct bb_error *error)
{
	int level = MPI_THREAD_SINGLE;
	bb_status status;

	if (!c)
		return bb_no_memory(error, "the mpi backend");
	c->comm = MPI_COMM_NULL;
	c->cpu.run = bb_port_run;
	c->cpu.pass = bb_mpi_message;
	BB_TRY(status, bb_cpu_open(&c->cpu, world, config, error), out);
	MPI_Query_thread(&level);
	c->threads = level == MPI_THREAD_MULTIPLE;
	c->hosts = calloc((size_t)world->nprocs, sizeof(*c->hosts));
	if (!c->hosts)
		status = bb_no_memory(error, "processes");
out:
	return status;
}

/*
 * Collective calls begin only after every process is ready. All return the status of the lowest
 * process whose MINE is not BB_OK, and report its cause unless they have one of their own.
 */
static bb_status agree(bb_status mine, const struct bb_world *world, struct bb_error *error)
{
	struct {
		bb_status status;
		char text[sizeof(error->text)];
	} cause = {.status = mine};
	int failed = mine == BB_OK ? world->nprocs : world->proc, first = world->nprocs;

	if (MPI_Allreduce(&failed, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS)
		return bb_fail(error, BB_EBACKEND, "rank %d: MPI_Allreduce failed", world->proc);
	if (first == world->nprocs)
		return BB_OK;
	if (first == world->proc)
		memcpy(cause.text, error->text, sizeof(cause.text));
	if (MPI_Bcast(&cause, (int)sizeof(cause), MPI_BYTE, first, MPI_COMM_WORLD) != MPI_SUCCESS)
		return bb_fail(error, BB_EBACKEND, "rank %d: MPI_Bcast failed", world->proc);
	return bb_fail(error, cause.status, "rank %d: %s", first, cause.text);
}

static void mpi_close(struct bb_context *context)
{
	bb_mpi_controls_close(&context->controls);
	bb_mpi_types_close(&context->types);
	bb_mpi_comm_free(context, &context->comm);
	bb_cpu_close(&context->cpu);
	free(context->hosts);
	free(context);
}

static bb_status mpi_open(struct bb_context **context, const struct bb_world *world,
			  const struct bb_backend_config *config, struct bb_error *error)
{
	struct bb_context *c = NULL;
	bb_status status;

	BB_TRY(status, check_started(world, config, error), failed);
	c = calloc(1, sizeof(*c));
	BB_TRY(status, agree(open_alone(c, world, config, error), world, error), failed);
	BB_TRY(status, bb_mpi_check(c, "comparing hosts", open_together(c)), failed);
	BB_TRY(status,
	       bb_mpi_check(c, "MPI_Op_create",
			    bb_mpi_types_open(&c->types, c->cpu.kernels, c->comm)),
	       failed);
	*context = c;
	return BB_OK;
failed:
	if (c)
		mpi_close(c);
	return status;
}

/* ---- the process and its memory --------------------------------------------------------- */

static bb_status mpi_attach(struct bb_context *context, int local, struct bb_rank **rank,
			    struct bb_error *error)
{
	struct bb_rank *r = calloc(1, sizeof(*r));

	if (!r)
		return bb_no_memory(error, "a rank");
	r->context = context;
	r->rank = context->cpu.world.first_rank;
	*rank = r;
	return BB_OK;
}

static void mpi_detach(struct bb_rank *rank)
{
	while (rank && rank->shared)
		bb_mpi_unshare(rank, rank->shared->memory, 1);
	free(rank);
}

/* A bound process is on its core; unbound ones are assumed to spread over their cores. */
static void mpi_locate(struct bb_rank *rank, struct bb_location *location)
{
	const struct bb_context *c = rank->context;
	const int cores = c->cpu.machine->ncores;
	const int place = c->cpu.crowded ? (int)((int64_t)c->place * cores / c->sharing) : c->place;

	bb_cpu_locate(&c->cpu, place, cores == 1 ? "" : " (not bound)", location);
}

static void mpi_release(struct bb_rank *rank, void *memory, size_t bytes)
{
	bb_mpi_unshare(rank, memory, bytes);
	bb_cpu_release(rank, memory, bytes);
}

static bb_status mpi_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				struct bb_error *error)
{
	if (!rank->context->threads)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "queues need an MPI with MPI_THREAD_MULTIPLE");
	return bb_cpu_queue_open(rank, queue, error);
}

const struct bb_backend bb_plugin_backend = {
	BB_CPU_ENTRIES,
	.abi = BB_BACKEND_ABI,
	.name = "mpi",
	.brief = "ranks are processes, over an MPI library",
	.has_data = true,
	.in_processes = true,
	.natives = bb_mpi_natives,
	.open = mpi_open,
	.close = mpi_close,
	.max_local = 1,
	.attach = mpi_attach,
	.detach = mpi_detach,
	.locate = mpi_locate,
	.release = mpi_release,
	.group_open = bb_mpi_group_open,
	.group_close = bb_mpi_group_close,
	.barrier = bb_mpi_barrier,
	.choose = bb_mpi_choose,
	.tune = bb_mpi_tune,
	.refuses = bb_mpi_refuses,
	.tmp_bytes = bb_port_tmp_bytes,
	.cost_bytes = bb_port_cost_bytes,
	.queue_open = mpi_queue_open,
	.clocks = &bb_mpi_clocks,
	.routes = &bb_mpi_routes,
};
