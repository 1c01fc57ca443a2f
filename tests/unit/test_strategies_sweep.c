/*
 * The small model, trained by every strategy: all ranks in one thread, one operation of a rank at a
 * time. Pinned are all numbers of all ranks, and what the programs are, hold and send.
 */
#include "draws.h"

#include "training_kernels/data_parallel/data_parallel.h"

#define MOST 8 /* ranks */

/* ---- ranks in one thread --------------------------------------------------------------------- */

struct trainer {
	struct bb_driver driver;
	struct bb_kernel kernel;
	struct bb_dp_variant variant;
	struct bb_trial trial;
	struct bb_operation operation; /* that it is at, */
	size_t next, length;           /* its number, and how many there are */
	int sources[1000];             /* [index]: of receives from any */
};

struct world {
	struct bb_run run;
	struct bb_dp dp;
	struct bb_taped taped;
	struct trainer ranks[MOST];
	int n;
};

static bb_status give_memory(struct bb_rank *rank, size_t bytes, void **memory)
{
	*memory = malloc(bytes);
	return *memory ? BB_OK : BB_EINTERNAL;
}

static void take_memory(struct bb_rank *rank, void *memory, size_t bytes)
{
	free(memory);
}

static bb_status copy(struct bb_rank *rank, void *to, const void *from, size_t bytes)
{
	memmove(to, from, bytes);
	return BB_OK;
}

static const struct bb_backend backend = {
	.alloc = give_memory, .release = take_memory, .copy = copy};

/* A process alone has what it gave. */
static bb_status gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			bool everywhere)
{
	memcpy(all, mine, bytes);
	return BB_OK;
}

static void buffers_of(struct world *w, int rank, void **in, void **out)
{
	struct trainer *t = &w->ranks[rank];

	t->trial.workload.buffers(&t->variant, rank, &t->operation, in, out);
}

static void go_on(struct world *w, int rank)
{
	struct trainer *t = &w->ranks[rank];

	if (++t->next < t->length)
		t->operation = bb_program_at(&w->taped.program, rank, t->next);
}

static bool is_at(const struct world *w, int rank, enum bb_act act)
{
	return w->ranks[rank].next < w->ranks[rank].length && w->ranks[rank].operation.act == act;
}

/* The rank that sends what RANK waits for; -1: none yet. */
static int sender_to(const struct world *w, int rank)
{
	const struct bb_operation *wanted = &w->ranks[rank].operation;

	for (int i = 0; i < w->n; i++) {
		const struct trainer *from = &w->ranks[i];
		const struct bb_operation *o = &from->operation;
		const int peer = o->peer == BB_NO_PEER ? from->sources[o->answers] : o->peer;

		if (is_at(w, i, BB_ACT_SEND) && peer == rank && o->lane == wanted->lane &&
		    (wanted->act == BB_ACT_RECV_ANY || wanted->peer == i))
			return i;
	}
	return -1;
}

static bool receive(struct world *w, int rank)
{
	struct trainer *to = &w->ranks[rank];
	const int from = sender_to(w, rank);
	void *in, *out, *other;

	if (from < 0)
		return false;
	buffers_of(w, from, &in, &other);
	buffers_of(w, rank, &other, &out);
	memmove(out, in, bb_operation_bytes(&to->operation));
	to->sources[to->next] = from;
	go_on(w, from);
	go_on(w, rank);
	return true;
}

/* The collective of all members, once they are all at it. */
static bool meet(struct world *w)
{
	const struct bb_operation *o = &w->ranks[0].operation;
	const int n = w->taped.members;
	const bool scatters = o->collective == &bb_reduce_scatter;
	const bool gathers = o->collective == &bb_all_gather;
	const size_t count = o->count, all = scatters || gathers ? (size_t)n * count : count;
	double *const result = calloc(all + 1, sizeof(*result));
	void *in, *out;

	for (int rank = 0; rank < n; rank++)
		if (!is_at(w, rank, BB_ACT_COLLECTIVE)) {
			free(result);
			return false;
		}
	for (int rank = 0; rank < n; rank++) {
		double *const to = result + (gathers ? (size_t)rank * count : 0);

		buffers_of(w, rank, &in, &out);
		for (size_t i = 0; i < (gathers ? count : all); i++)
			to[i] += ((const double *)in)[i];
	}
	for (int rank = 0; rank < n; rank++) {
		buffers_of(w, rank, &in, &out);
		memcpy(out, result + (scatters ? (size_t)rank * count : 0),
		       (scatters ? count : all) * sizeof(*result));
		go_on(w, rank);
	}
	free(result);
	return true;
}

static bool step_of(struct world *w, int rank)
{
	struct trainer *t = &w->ranks[rank];

	if (t->next == t->length)
		return false;
	switch (t->operation.act) {
	case BB_ACT_SEND:
		return false;
	case BB_ACT_RECV:
	case BB_ACT_RECV_ANY:
		return receive(w, rank);
	case BB_ACT_COLLECTIVE:
		return meet(w);
	case BB_ACT_COMPUTE:
		t->trial.workload.compute(&t->variant, rank, &t->operation);
		break;
	default:
		break;
	}
	go_on(w, rank);
	return true;
}

static void run_program(struct world *w)
{
	bool moved = true;

	for (int rank = 0; rank < w->n; rank++) {
		struct trainer *t = &w->ranks[rank];

		t->length = w->taped.program.length(&w->taped.program, rank);
		assert_true(t->length < sizeof(t->sources) / sizeof(t->sources[0]));
		t->next = (size_t)-1;
		go_on(w, rank);
	}
	while (moved) {
		moved = false;
		for (int rank = 0; rank < w->n; rank++)
			moved |= step_of(w, rank);
	}
	for (int rank = 0; rank < w->n; rank++)
		assert_int_equal(w->ranks[rank].next, w->ranks[rank].length);
}

/* ---- training -------------------------------------------------------------------------------- */

static void rank_open(struct world *w, int rank, const struct bb_strategy_setting *setting)
{
	struct trainer *t = &w->ranks[rank];

	t->driver.rank = rank;
	t->kernel.engine = (struct bb_engine){.run = &w->run,
					      .driver = &t->driver,
					      .options = &w->run.options,
					      .backend = &backend};
	t->variant.variant.kernel = &t->kernel;
	t->variant.setting = *setting;
	assert_int_equal(bb_dp_train_begin(&t->variant, &t->trial), BB_OK);
}

/* The values, and with them the gradients and sums, which follow them in memory: what the first
   computation of a rank finds there. */
static void numbers_add(struct sweep *s, struct world *w)
{
	for (int rank = 0; rank < w->n; rank++) {
		struct trainer *t = &w->ranks[rank];
		const struct bb_operation pull = {.act = BB_ACT_SEND, .work = BB_STRATEGY_PULL};
		const struct bb_operation push = {.act = BB_ACT_SEND, .work = BB_STRATEGY_PUSH};
		void *values, *gradient, *other;

		t->operation = pull;
		buffers_of(w, rank, &values, &other);
		t->operation = push;
		buffers_of(w, rank, &gradient, &other);
		for (int i = 0; i < BB_TRAIN_ELEMENTS; i++)
			SWEEP_ADD(s, ((double *)values)[i], ((double *)gradient)[i]);
	}
}

/* What each rank finds wrong, as if it were alone; one of them may be corrupted. */
static void comparison_add(struct sweep *s, struct world *w, uint64_t seed)
{
	struct bb_launch launch = {.nprocs = 1, .gather = gather};
	const struct bb_world alone = {.nranks = 1, .nprocs = 1, .nlocal = 1};
	struct bb_error error = {.text = ""};
	const struct bb_drivers_config config = {
		.launch = &launch, .world = &alone, .backend = &backend, .error = &error};
	struct bb_drivers drivers = {.config = &config,
				     .lock = PTHREAD_MUTEX_INITIALIZER,
				     .changed = PTHREAD_COND_INITIALIZER};

	w->run.world.nranks = 1;
	w->run.options.fault =
		(struct bb_fault){.kind = drawn(seed, 3, 3) ? BB_FAULT_NONE : BB_FAULT_CORRUPT,
				  .rank = drawn(seed, 4, w->n)};
	for (int rank = 0; rank < w->n; rank++) {
		struct trainer *t = &w->ranks[rank];

		t->driver.drivers = &drivers;
		t->trial.wrong = BB_ABSENT;
		t->kernel.engine.trials = &t->trial;
		sweep_add(s, bb_dp_train_compare(&t->variant));
		SWEEP_ADD(s, (double)t->trial.wrong, t->variant.loss, t->variant.apart);
	}
	free(drivers.gathered);
}

static void setting_add(struct sweep *s, const struct bb_strategy_setting *setting, uint64_t seed)
{
	static struct world w;
	struct bb_error error = {.text = ""};
	const char *const refusal = bb_strategy_refuses(setting);

	sweep_add_text(s, refusal);
	if (refusal)
		return;
	memset(&w, 0, sizeof(w));
	w.n = setting->nranks;
	w.run.own = &w.dp;
	w.run.options.seed = (int64_t)seed;
	w.run.world.nlocal = 1;
	w.dp.options.samples = 1 + drawn(seed, 1, 90);
	w.dp.options.train = (int64_t)bb_strategy_steps(setting) * (1 + drawn(seed, 2, 3));
	assert_int_equal(bb_strategy_write(&w.taped, setting, "ring", &error), BB_OK);
	sweep_add(s, bb_program_check(&w.taped.program, &error));
	for (int rank = 0; rank < w.n; rank++)
		rank_open(&w, rank, setting);
	const struct bb_strategy_memory memory = bb_strategy_memory(setting);

	SWEEP_ADD(s, (double)memory.most, (double)memory.worker, (double)w.ranks[0].trial.steps,
		  w.ranks[0].trial.timing, bb_strategy_wire(&w.taped, setting, "ring"),
		  (double)w.run.end.memory_user_bytes);
	for (size_t i = 0; i < w.ranks[0].trial.steps; i++) {
		run_program(&w);
		numbers_add(s, &w);
	}
	comparison_add(s, &w, seed);
	for (int rank = 0; rank < w.n; rank++) {
		struct bb_engine *e = &w.ranks[rank].kernel.engine;
		void *values = NULL, *out;

		w.ranks[rank].operation = (struct bb_operation){.act = BB_ACT_COLLECTIVE,
								.work = BB_STRATEGY_AVERAGE,
								.collective = &bb_all_reduce};
		buffers_of(&w, rank, &values, &out);
		bb_engine_release(e, values);
		assert_null(e->memory);
		bb_kernel_close(e);
	}
	bb_taped_free(&w.taped);
}

static void test_strategies(void **state)
{
	struct sweep s = sweep_open("strategies");
	uint64_t seed = 1;

	for (const struct bb_strategy *strategy = bb_strategies; strategy->name; strategy++)
		for (int n = 1; n <= MOST; n++) {
			for (int i = 0; i < 12; i++, seed++) {
				const int active = 1 + drawn(seed, 10, n);
				const bool colocated = drawn(seed, 11, 3) == 0;
				const struct bb_strategy_setting setting = {
					.strategy = strategy,
					.nranks = n,
					.active = i % 2 ? n : active,
					.elements = BB_TRAIN_ELEMENTS,
					.dtype = BB_DOUBLE,
					.batches = (size_t)(1 + drawn(seed, 12, 3)),
					.every = (size_t)(1 + drawn(seed, 13, 3)),
					.steps = (size_t)(1 + drawn(seed, 14, 3)),
					.servers = colocated ? i % 2 ? n : active
							     : 1 + drawn(seed, 15, 3),
					.colocated = colocated,
					.updates = drawn(seed, 16, 2),
					.real = true};

				setting_add(&s, &setting, seed);
			}
			sweep_end(&s, "%s, %d ranks", strategy->name, n);
		}
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_strategies)};

	return cmocka_run_group_tests_name("strategies_sweep", tests, NULL, NULL);
}
