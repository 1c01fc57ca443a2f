#include "scripts.h"

#include <string.h>

#define BUCKETS 4
#define MICROBATCHES 4
#define QUESTIONS 3
#define PASSES 10

const char *const kernel_names[] = {"ddp", "pipeline", "server", "grid", "passes", NULL};

/* ---- the program's functions ----------------------------------------------------------------- */

static const struct script *of(const struct bb_program *program)
{
	return program->own;
}

static size_t length(const struct bb_program *program, int rank)
{
	return of(program)->length[rank];
}

static void operation(const struct bb_program *program, int rank, size_t index,
		      struct bb_operation *o)
{
	*o = of(program)->operations[rank][index];
}

static int group_size(const struct bb_program *program, int group)
{
	return of(program)->groups[group].size;
}

static int member(const struct bb_program *program, int group, int i)
{
	return of(program)->groups[group].members[i];
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Append; returns its index. */
static size_t add(struct script *s, int rank, struct bb_operation o)
{
	s->operations[rank][s->length[rank]] = o;
	return s->length[rank]++;
}

static void compute(struct script *s, int rank, int queue)
{
	add(s, rank,
	    (struct bb_operation){.act = BB_ACT_COMPUTE,
				  .queue = queue,
				  .seconds = s->seconds,
				  .flops = 1e6,
				  .peer = BB_NO_PEER});
}

static void mark(struct script *s, int rank, enum bb_act act, int queue, int event)
{
	add(s, rank,
	    (struct bb_operation){.act = act, .queue = queue, .event = event, .peer = BB_NO_PEER});
}

/* What QUEUE does from here on comes after what BEFORE has done so far. */
static void order(struct script *s, int rank, int before, int queue, int event)
{
	mark(s, rank, BB_ACT_RECORD, before, event);
	mark(s, rank, BB_ACT_WAIT, queue, event);
}

static struct bb_operation collective(const struct bb_collective *c, int queue, int group,
				      int reads, int writes, size_t count)
{
	return (struct bb_operation){.act = BB_ACT_COLLECTIVE,
				     .queue = queue,
				     .group = group,
				     .collective = c,
				     .count = count,
				     .dtype = BB_INT32,
				     .op = BB_SUM,
				     .work = reads,
				     .item = (size_t)writes,
				     .peer = BB_NO_PEER};
}

static struct bb_operation message(enum bb_act act, int queue, int lane, int peer, int slot)
{
	return (struct bb_operation){.act = act,
				     .queue = queue,
				     .lane = lane,
				     .peer = peer,
				     .count = SLOT_COUNT,
				     .dtype = BB_INT32,
				     .work = slot,
				     .item = (size_t)slot};
}

static void add_group(struct script *s, int first, int step, int size)
{
	struct group *g = &s->groups[s->program.groups++];

	for (g->size = 0; g->size < size; g->size++)
		g->members[g->size] = first + g->size * step;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static size_t bucket_count(int k)
{
	return (size_t)k * 11001 + 7;
}

/* Buckets are reduced behind the computations that come after them; then a last one uses them. */
static void write_ddp(struct script *s, int n)
{
	s->program.queues = 2;
	s->program.events = BUCKETS + 1;
	add_group(s, 0, 1, n);
	for (int r = 0; r < n; r++) {
		for (int k = 0; k < BUCKETS; k++) {
			compute(s, r, 0);
			order(s, r, 0, 1, k);
			add(s, r,
			    collective(&bb_all_reduce, 1, 0, k, SLOTS / 2 + k, bucket_count(k)));
		}
		order(s, r, 1, 0, BUCKETS);
		compute(s, r, 0);
	}
}

/* A slot is handed on from rank to rank, computed upon meanwhile: by a queue that receives, one
   that computes and one that sends. */
static void hand_on(struct script *s, int rank, int from, int to, int lane, int slot)
{
	const int event = 2 * slot;

	if (from >= 0) {
		add(s, rank, message(BB_ACT_RECV, 1, lane, from, slot));
		order(s, rank, 1, 0, event);
	}
	compute(s, rank, 0);
	if (to >= 0) {
		order(s, rank, 0, 2, event + 1);
		add(s, rank, message(BB_ACT_SEND, 2, lane, to, slot));
	}
}

static void write_pipeline(struct script *s, int n)
{
	s->program.queues = 3;
	s->program.lanes = 2;
	s->program.events = 2 * SLOTS;
	for (int r = 0; r < n; r++) {
		const int next = r + 1 < n ? r + 1 : -1;

		for (int m = 0; m < MICROBATCHES; m++)
			hand_on(s, r, r - 1, next, 0, SLOTS / 2 + m);
		for (int m = 0; m < MICROBATCHES; m++)
			hand_on(s, r, next, r - 1, 1, SLOTS / 2 + MICROBATCHES + m);
	}
}

/* Rank 0 answers whoever asks, by what it was asked. */
static void write_server(struct script *s, int n)
{
	s->program.queues = 1;
	s->program.lanes = 2;
	for (int i = 0; i < QUESTIONS * (n - 1); i++) {
		const int slot = SLOTS / 2 + i % (SLOTS / 2);
		struct bb_operation answer = message(BB_ACT_SEND, 0, 1, BB_NO_PEER, slot);

		answer.answers = add(s, 0, message(BB_ACT_RECV_ANY, 0, 0, BB_NO_PEER, slot));
		add(s, 0, answer);
	}
	for (int r = 1; r < n; r++)
		for (int k = 0; k < QUESTIONS; k++) {
			compute(s, r, 0);
			add(s, r, message(BB_ACT_SEND, 0, 0, 0, k));
			add(s, r, message(BB_ACT_RECV, 0, 1, 0, SLOTS / 2 + k));
		}
}

/* Rows and columns of a grid, and groups of one: a sum along rows, of it one along columns, and
   all of it again gathered along rows; in place where there is nobody else. */
static bool write_grid(struct script *s, int n)
{
	const int width = 2, height = n / 2;

	if (n % 2)
		return false;
	s->program.queues = 2;
	s->program.events = 1;
	for (int i = 0; i < height; i++)
		add_group(s, i * width, 1, width);
	for (int i = 0; i < width; i++)
		add_group(s, i, width, height);
	for (int r = 0; r < n; r++)
		add_group(s, r, 1, 1);
	for (int r = 0; r < n; r++) {
		const int row = r / width, column = height + r % width, alone = height + width + r;
		struct bb_operation own =
			collective(&bb_all_reduce, 1, alone, SLOTS / 2, SLOTS / 2, SLOT_COUNT);

		add(s, r, collective(&bb_all_reduce, 0, row, 0, SLOTS / 2, SLOT_COUNT));
		order(s, r, 0, 1, 0);
		own.in_place = true;
		add(s, r, own);
		add(s, r,
		    collective(&bb_all_reduce, 1, column, SLOTS / 2, SLOTS / 2 + 1, SLOT_COUNT));
		add(s, r, collective(&bb_all_gather, 0, row, 1, SLOTS / 2 + 2, SLOT_COUNT / 2));
	}
	return true;
}

/* One computation after the other, with records between them. */
static void write_passes(struct script *s, int n)
{
	s->program.queues = 1;
	s->program.events = PASSES;
	for (int r = 0; r < n; r++)
		for (int k = 0; k < PASSES; k++) {
			compute(s, r, 0);
			mark(s, r, BB_ACT_RECORD, 0, k);
		}
}

bool script_write(struct script *s, enum kernel kernel, int nranks, double seconds,
		  const char *algorithm)
{
	s->kernel = kernel;
	s->seconds = seconds;
	s->program = (struct bb_program){.own = s,
					 .nranks = nranks,
					 .algorithm = algorithm,
					 .length = length,
					 .operation = operation,
					 .group_size = group_size,
					 .member = member};
	if (nranks > MOST_RANKS || (nranks == 1 && kernel != KERNEL_PASSES))
		return false;
	switch (kernel) {
	case KERNEL_DDP:
		write_ddp(s, nranks);
		return true;
	case KERNEL_PIPELINE:
		write_pipeline(s, nranks);
		return true;
	case KERNEL_SERVER:
		write_server(s, nranks);
		return true;
	case KERNEL_GRID:
		return write_grid(s, nranks);
	default:
		write_passes(s, nranks);
		return true;
	}
}

/* ---- data ------------------------------------------------------------------------------------ */

int script_reads(const struct bb_operation *operation)
{
	return operation->work;
}

int script_writes(const struct bb_operation *operation)
{
	return (int)operation->item;
}

int32_t script_before(int rank, int slot, size_t i)
{
	return (int32_t)(rank * 1000000 + slot * 10000 + (int)(i % 9973));
}

static int32_t sum_of(int first, int step, int n, int slot, size_t i)
{
	int32_t sum = 0;

	for (int k = 0; k < n; k++)
		sum += script_before(first + k * step, slot, i);
	return sum;
}

static int32_t after_grid(int n, int rank, int slot, size_t i)
{
	const size_t half = SLOT_COUNT / 2;
	const int row = rank / 2 * 2;

	switch (slot - SLOTS / 2) {
	case 0:
		return sum_of(row, 1, 2, 0, i);
	case 1:
		return sum_of(0, 1, n, 0, i);
	default:
		return script_before(row + (i >= half), 1, i % half);
	}
}

int32_t script_after(const struct script *s, int rank, int slot, size_t i)
{
	const int n = s->program.nranks, k = slot - SLOTS / 2;

	if (slot < SLOTS / 2)
		return script_before(rank, slot, i);
	switch (s->kernel) {
	case KERNEL_DDP:
		return sum_of(0, 1, n, k, i);
	case KERNEL_PIPELINE: /* there from the first stage, back from the last */
		return script_before(k < MICROBATCHES ? 0 : n - 1, slot, i);
	case KERNEL_SERVER:
		return script_before(rank, k, i);
	case KERNEL_GRID:
		return after_grid(n, rank, slot, i);
	default:
		return script_before(rank, slot, i);
	}
}

/* What the server was asked last in a slot is anybody's question. */
size_t script_count(const struct script *s, int rank, int slot)
{
	const int k = slot - SLOTS / 2;

	if (k < 0)
		return SLOT_COUNT;
	switch (s->kernel) {
	case KERNEL_DDP:
		return k < BUCKETS ? bucket_count(k) : 0;
	case KERNEL_PIPELINE:
		return k < 2 * MICROBATCHES ? SLOT_COUNT : 0;
	case KERNEL_SERVER:
		return rank > 0 && k < QUESTIONS ? SLOT_COUNT : 0;
	case KERNEL_GRID:
		return k < 3 ? SLOT_COUNT : 0;
	default:
		return 0;
	}
}
