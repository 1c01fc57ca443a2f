/*
 * Schedules: every step of every algorithm for many shapes, its costs, and what the checker says of
 * the algorithm with one step of it broken; collectives, explanations, and the choices of Open MPI.
 */
#include "sweep.h"

#include "core/random.h"
#include "schedules/checker.h"
#include "schedules/explain.h"
#include "schedules/parts.h"
#include "simulator/openmpi/openmpi.h"

#define MOST 64 /* ranks */

static const int ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 31, 33};
#define RANKS (sizeof(ranks) / sizeof(ranks[0]))

static const struct bb_algorithm *const others[] = {
	&bb_openmpi_binary_broadcast, &bb_openmpi_knomial_broadcast, &bb_openmpi_binomial_reduce,
	&bb_openmpi_neighbor,         &bb_openmpi_rabenseifner,      &bb_openmpi_butterfly,
};
#define OTHERS (sizeof(others) / sizeof(others[0]))

/* The I-th algorithm, of busbench and then of Open MPI alone. */
static const struct bb_algorithm *algorithm_at(size_t i)
{
	static size_t own;

	while (bb_algorithms[own])
		own++;
	return i < own ? bb_algorithms[i] : i < own + OTHERS ? others[i - own] : NULL;
}

static int draw(uint64_t *state, int n)
{
	return (int)((bb_random_next(state) >> 33) % (uint64_t)n);
}

/* A shape of N ranks. */
static struct bb_shape shape_of(const struct bb_collective *collective, int n, uint64_t *state)
{
	static const size_t chunks[] = {0, 0, 1, 3, 7};
	static size_t matrix[MOST * MOST];
	const size_t of_ranks = (size_t)n;
	const size_t counts[] = {0,  1,  2, of_ranks - 1, of_ranks, of_ranks + 1, 3 * of_ranks,
				 64, 100};
	struct bb_shape shape = {.nranks = n};

	shape.count = counts[draw(state, 9)];
	shape.chunk = chunks[draw(state, 5)];
	shape.in_place = draw(state, 2);
	if (collective->flags & BB_ROOTED)
		shape.root = draw(state, n);
	if (collective->flags & BB_VARIABLE) {
		shape.matrix = matrix;
		for (int i = 0; i < n * n; i++)
			matrix[i] = (size_t)draw(state, shape.chunk ? 4 : (int)shape.count + 1);
	}
	return shape;
}

static bool fits(const struct bb_algorithm *a, const struct bb_shape *shape)
{
	return (!a->refuses || !a->refuses(shape)) &&
	       (!a->collective->refuses || !a->collective->refuses(shape->nranks));
}

static uint64_t step_hash(const struct bb_step *step)
{
	const bool from = step->kind != BB_RECV, to = step->kind != BB_SEND;
	const uint64_t fields[] = {step->kind,
				   (uint64_t)step->peer,
				   (uint64_t)step->peer2,
				   (uint64_t)step->channel,
				   to && step->final,
				   from ? step->src.buffer : 0,
				   from ? step->src.offset : 0,
				   to ? step->dst.buffer : 0,
				   to ? step->dst.offset : 0,
				   step->count};
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		hash = bb_random_mix(hash + fields[i] + BB_RANDOM_STEP);
	return hash;
}

/* All steps of all ranks. */
static void steps_add(struct sweep *s, const struct bb_algorithm *a, const struct bb_shape *shape)
{
	struct bb_step steps[BB_MAX_STEPS];

	for (int rank = 0; rank < shape->nranks; rank++) {
		uint64_t hash = 0;
		struct bb_role role = {0};

		bb_algorithm_prepare(a, shape, rank, &role);
		SWEEP_ADD(s, (double)role.rounds, (double)bb_algorithm_tmp_count(a, shape, rank));
		for (size_t round = 0; round < role.rounds; round++) {
			const int n = bb_algorithm_steps(a, shape, &role, round, steps);

			for (int i = 0; i < n; i++)
				hash = bb_random_mix(hash ^ step_hash(&steps[i]));
			hash = bb_random_mix(hash + (uint64_t)n);
		}
		sweep_add(s, (double)(hash >> 40));
	}
}

static void test_steps(void **state)
{
	struct sweep s = sweep_open("schedules_steps");

	for (size_t i = 0; algorithm_at(i); i++) {
		const struct bb_algorithm *const a = algorithm_at(i);
		uint64_t seed = i;

		for (size_t k = 0; k < RANKS; k++)
			for (int times = 0; times < 7; times++) {
				const struct bb_shape shape =
					shape_of(a->collective, ranks[k], &seed);
				size_t rounds = 0, wire = 0;

				sweep_add_text(&s, a->refuses ? a->refuses(&shape) : "");
				if (!fits(a, &shape))
					continue;
				steps_add(&s, a, &shape);
				sweep_add(&s, bb_algorithm_cost(a, &shape, &rounds, &wire));
				SWEEP_ADD(&s, (double)rounds, (double)wire);
			}
		sweep_end(&s, "%s %s", a->collective->name, a->name);
	}
	sweep_close(&s);
}

/* ---- collectives ------------------------------------------------------------------------- */

static void shape_add(struct sweep *s, const struct bb_collective *c, const struct bb_shape *shape)
{
	SWEEP_ADD(s, (double)bb_size_count(c, shape), (double)bb_algbw_count(c, shape));
	for (int rank = 0; rank < shape->nranks; rank++) {
		const int segments = bb_collective_segments(c, shape, rank);

		SWEEP_ADD(s, (double)bb_collective_in(c, shape, rank),
			  (double)bb_collective_out(c, shape, rank), segments);
		if (shape->in_place)
			SWEEP_ADD(s, (double)bb_collective_at(c, shape, rank, BB_IN),
				  (double)bb_collective_at(c, shape, rank, BB_OUT));
		for (int k = 0; k < segments; k++) {
			const struct bb_segment g = bb_collective_segment(c, shape, rank, k);

			SWEEP_ADD(s, (double)g.out, (double)g.in, (double)g.count, g.source);
		}
	}
}

static void test_collectives(void **state)
{
	static const size_t bytes[] = {0, 1, 15, 16, 100, 4096, 1000001};
	struct sweep s = sweep_open("schedules_collectives");

	for (int i = 0; bb_collectives[i]; i++) {
		const struct bb_collective *const c = bb_collectives[i];
		uint64_t seed = (uint64_t)i;

		for (size_t k = 0; k < RANKS; k++) {
			const int n = ranks[k];

			sweep_add_text(&s, c->refuses ? c->refuses(n) : "");
			sweep_add(&s, c->bus_factor(n));
			for (size_t b = 0; b < 7; b++)
				for (size_t element = 1; element < 10; element += 1 + element)
					sweep_add(&s, (double)bb_count_for_size(c, bytes[b],
										element, n));
			for (int times = 0; times < 8; times++) {
				const struct bb_shape shape = shape_of(c, n, &seed);
				const struct bb_algorithm *best;

				shape_add(&s, c, &shape);
				if (c->refuses && c->refuses(n))
					continue;
				for (double round = 0; round < 1e6; round = 30 * round + 1) {
					best = bb_algorithm_cheapest(c, &shape, round, 1);
					sweep_add_text(&s, best ? best->name : NULL);
				}
			}
		}
		sweep_end(&s, "%s", c->name);
	}
	sweep_close(&s);
}

/* ---- broken schedules ---------------------------------------------------------------------- */

/* The algorithm that is broken, where, and how. */
static struct {
	const struct bb_algorithm *base;
	int rank, step, how, by;
	size_t round;
} fault;

#define WAYS 17

static void break_step(struct bb_writer *w, struct bb_step *step)
{
	switch (fault.how) {
	case 0:
		step->peer += fault.by;
		break;
	case 1:
		step->peer2 = step->peer + fault.by;
		break;
	case 2:
		step->count += (size_t)fault.by;
		break;
	case 3:
		step->channel += fault.by;
		break;
	case 4:
		step->src.offset += (size_t)fault.by;
		break;
	case 5:
		step->dst.offset += (size_t)fault.by;
		break;
	case 6:
		step->src.buffer = (enum bb_buffer)((step->src.buffer + 1) % 3);
		break;
	case 7:
		step->dst.buffer = (enum bb_buffer)((step->dst.buffer + 1) % 3);
		break;
	case 8:
		step->final = !step->final;
		break;
	case 9:
		step->kind = BB_RECV_REDUCE;
		break;
	case 10:
		step->kind = BB_COPY;
		break;
	case 11:
		step->kind = BB_SEND;
		break;
	case 12:
		*step = w->steps[--w->nsteps];
		break;
	case 13:
		step->count = 0;
		break;
	case 14:
		step->src = step->dst;
		break;
	case 15:
		step->dst = step->src;
		break;
	default:
		while (w->nsteps < BB_MAX_STEPS && fault.by-- > -2)
			w->steps[w->nsteps++] = *step;
	}
}

static void broken_round(struct bb_writer *w, size_t round)
{
	fault.base->round(w, round);
	if (w->rank == fault.rank && round == fault.round && w->nsteps > 0)
		break_step(w, &w->steps[fault.step % w->nsteps]);
}

static size_t broken_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	const size_t rounds = fault.base->prepare ? fault.base->prepare(shape, role) : role->rounds;

	return rounds + (role->rank == fault.rank && fault.step % 4 == 0);
}

static void test_broken(void **state)
{
	struct sweep s = sweep_open("schedules_broken");

	for (size_t i = 0; algorithm_at(i); i++) {
		struct bb_algorithm broken = *algorithm_at(i);
		uint64_t seed = i;

		fault.base = algorithm_at(i);
		broken.round = broken_round;
		for (int times = 0; times < 250; times++) {
			const int n = 2 + draw(&seed, 7);
			const struct bb_shape shape = shape_of(broken.collective, n, &seed);
			struct bb_role role = {0};
			struct bb_error error = {.text = ""};

			broken.flags = fault.base->flags ^ (draw(&seed, 9) == 0);
			broken.prepare = draw(&seed, 30) ? fault.base->prepare : broken_prepare;
			if (!fits(fault.base, &shape))
				continue;
			bb_algorithm_prepare(fault.base, &shape, 0, &role);
			fault.rank = draw(&seed, n);
			fault.step = draw(&seed, BB_MAX_STEPS);
			fault.how = draw(&seed, WAYS);
			fault.by = draw(&seed, 4) ? 1 : -1;
			fault.round = role.rounds ? (size_t)draw(&seed, (int)role.rounds) : 0;
			sweep_add(&s,
				  bb_check_algorithm(&broken, &shape, 1 + draw(&seed, 3), &error));
			sweep_add_text(&s, error.text);
		}
		sweep_end(&s, "%s %s", broken.collective->name, broken.name);
	}
	sweep_close(&s);
}

/* ---- explanations -------------------------------------------------------------------------- */

static void test_explained(void **state)
{
	struct sweep s = sweep_open("schedules_explained");

	for (size_t i = 0; algorithm_at(i); i++) {
		const struct bb_algorithm *const a = algorithm_at(i);
		uint64_t seed = i;

		for (int times = 0; times < 30; times++) {
			static const int few[] = {1, 2, 3, 4, 5, 8, 13, 16, 17, 20};
			const int n = few[draw(&seed, 10)];
			struct bb_shape shape = shape_of(a->collective, n, &seed);
			struct bb_explain_view view = {.round = 0};
			struct bb_strbuf out = {0};
			struct bb_error error = {.text = ""};

			view.round = (size_t)(draw(&seed, 3) ? 0 : draw(&seed, 2 * n));
			view.all = draw(&seed, 3) == 0;
			view.width = draw(&seed, 2) ? 0 : 40 + draw(&seed, 100);
			view.above = (size_t)draw(&seed, 30);
			if (!shape.matrix)
				shape.count %= 40;
			if (a->refuses && a->refuses(&shape))
				continue;
			sweep_add(&s, bb_explain(&out, a, &shape, &view, &error));
			sweep_add_text(&s, bb_strbuf_text(&out));
			sweep_add_text(&s, error.text);
			bb_strbuf_free(&out);
		}
		sweep_end(&s, "%s %s", a->collective->name, a->name);
	}
	sweep_close(&s);
}

/* ---- Open MPI ------------------------------------------------------------------------------ */

static void test_openmpi(void **state)
{
	static const int worlds[] = {1,  2,  3,  4,  5,  7,   8,   9,   16,  24,   31,   32,
				     48, 63, 64, 65, 96, 127, 128, 256, 300, 1024, 4096, 5000};
	struct sweep s = sweep_open("openmpi_choices");

	for (int i = 0; bb_collectives[i]; i++) {
		const struct bb_collective *const c = bb_collectives[i];

		for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++)
			for (size_t count = 0; count < 1 << 28; count += 1 + count / 2)
				for (size_t k = 0; k < 3; k++) {
					const struct bb_shape shape = {.nranks = worlds[w],
								       .count = count,
								       .in_place = count % 2,
								       .root = worlds[w] / 3 *
									       (k == 1)};
					const size_t element = k == 0 ? 4 : k == 1 ? 1 : 8;
					struct bb_openmpi_plan plan = {.name = ""};

					if (c->flags & BB_VARIABLE)
						continue;
					sweep_add_text(&s,
						       bb_openmpi_choose(c, &shape, element,
									 count % 5 == 4, &plan));
					sweep_add_text(&s, plan.name);
					SWEEP_ADD(&s, plan.copies, plan.phases);
					for (int p = 0; p < plan.phases; p++) {
						const struct bb_shape *own = &plan.phase[p].shape;

						sweep_add_text(&s, plan.phase[p].schedule->name);
						SWEEP_ADD(&s, own->nranks, own->root, own->in_place,
							  (double)own->count, (double)own->chunk);
					}
				}
		sweep_end(&s, "%s", c->name);
	}
	for (double bytes = 0; bytes < 1e10; bytes += 1 + bytes / 5) {
		double low = 0, high = 0;

		bb_openmpi_interval(bytes, &low, &high);
		SWEEP_ADD(&s, low, high);
	}
	sweep_end(&s, "intervals");
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),   cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_broken),  cmocka_unit_test(test_explained),
		cmocka_unit_test(test_openmpi),
	};

	return cmocka_run_group_tests_name("schedules_sweep", tests, NULL, NULL);
}
