/*
 * Every collective, algorithm, datatype, operation and number of ranks on the host backend, in
 * place and not, for several counts, chunks, roots and alignments, against an oracle that says in
 * plain loops what each collective means and does its arithmetic one element at a time.
 *
 * BUSBENCH_TEST=sample  every pair of two properties' values occurs (the default with sanitizers)
 *               default every triple occurs
 *               full    every combination
 *
 * A world stays open for all its cases, and no barrier keeps one case apart from the next.
 */
#include "backends/host/host.h"
#include "oracle.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STRENGTH (RANKS_SANITIZED ? 2 : 3)

#define GUARD 64
#define POISON 0xa5
#define REGION_BYTES (2 * GUARD + (MOST_ELEMENTS + 8) * 8)
#define TMP_BYTES (8 * MOST_ELEMENTS * 8)
#define MOST_WAYS 128
#define MOST_TYPES 128

/* ---- what varies ------------------------------------------------------------------- */

enum property { WAY, TYPE, RANKS, CROWDED, COUNT, CHUNK, PLACE, SKEW, ROOT, PROPERTIES };

struct one_case {
	uint8_t value[PROPERTIES];
};

struct way {
	const struct bb_collective *collective;
	const struct bb_algorithm *schedule; /* NULL: direct */
};

static const int ranks_of[] = {1, 2, 3, 4, 5, 8};

struct space {
	struct way ways[MOST_WAYS];
	struct type types[MOST_TYPES];
	int sizes[PROPERTIES];
};

static void list_space(struct space *s)
{
	const struct bb_native *direct = &bb_host_natives[0];
	int ways = 0, types = 0;

	for (int i = 0; bb_algorithms[i]; i++)
		s->ways[ways++] = (struct way){bb_algorithms[i]->collective, bb_algorithms[i]};
	for (int i = 0; bb_collectives[i]; i++)
		if (!direct->refuses(direct, bb_collectives[i]))
			s->ways[ways++] = (struct way){bb_collectives[i], NULL};
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++)
		for (int op = 0; op < BB_NOPS; op++)
			if (bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
				s->types[types++] =
					(struct type){(enum bb_dtype)dtype, (enum bb_op)op};
	assert_true(ways <= MOST_WAYS && types <= MOST_TYPES);
	memcpy(s->sizes, (const int[PROPERTIES]){ways, types, 6, 2, 6, 3, 2, 2, 3},
	       sizeof(s->sizes));
}

static size_t count_of(const struct one_case *c)
{
	const size_t n = (size_t)ranks_of[c->value[RANKS]];
	const size_t counts[] = {0, 1, n - 1, n + 1, 257, MOST_COUNT};

	return counts[c->value[COUNT]];
}

static int root_of(const struct one_case *c)
{
	const int n = ranks_of[c->value[RANKS]];
	const int roots[] = {0, n - 1, 1};

	return roots[c->value[ROOT]];
}

static void fill_matrix(size_t *matrix, int n, size_t count)
{
	for (int s = 0; s < n; s++)
		for (int d = 0; d < n; d++)
			matrix[s * n + d] =
				(s + 2 * d) % 3 == 0
					? 0
					: (count * (size_t)((s + d) % 4 + 1) / 3) % (count + 1);
}

static struct bb_shape shape_of(const struct one_case *c, const struct space *space, size_t *matrix)
{
	const struct bb_collective *collective = space->ways[c->value[WAY]].collective;
	struct bb_shape shape = {.nranks = ranks_of[c->value[RANKS]],
				 .root = root_of(c),
				 .in_place = c->value[PLACE],
				 .count = count_of(c)};

	if (c->value[CHUNK] == 1)
		shape.chunk = shape.count <= 40 ? 1 : 37;
	if (collective->flags & BB_VARIABLE) {
		fill_matrix(matrix, shape.nranks, shape.count);
		shape.matrix = matrix;
	}
	return shape;
}

/* Whether the combination is a call that busbench makes. */
static bool is_valid(const struct one_case *c, const struct space *space)
{
	const struct way *way = &space->ways[c->value[WAY]];
	const struct type *type = &space->types[c->value[TYPE]];
	const struct bb_collective *collective = way->collective;
	const int n = ranks_of[c->value[RANKS]];
	size_t matrix[MOST_RANKS * MOST_RANKS];
	struct bb_shape shape;

	if (!(collective->flags & BB_REDUCES) && type->op != BB_SUM && type->op != BB_MAXLOC)
		return false;
	if (c->value[ROOT] > 0 && (!(collective->flags & BB_ROOTED) || n <= (int)c->value[ROOT]))
		return false;
	if (!c->value[CROWDED] && n > 4)
		return false; /* as with a core for each, but here they would only wait */
	if (collective->refuses && collective->refuses(n))
		return false;
	if (!way->schedule || !way->schedule->refuses)
		return true;
	shape = shape_of(c, space, matrix);
	return !way->schedule->refuses(&shape);
}

/* ---- which combinations are run ------------------------------------------------------ */

struct cases {
	struct one_case *list;
	size_t n;
	size_t room;
};

/* Which tuples of STRENGTH properties' values have occurred, a table for each set of properties. */
struct covered {
	int nsets;
	unsigned sets[128]; /* bits: properties */
	uint8_t *seen[128];
};

static void covered_open(struct covered *covered, const struct space *space, int strength)
{
	covered->nsets = 0;
	for (unsigned set = 0; set < 1u << PROPERTIES; set++) {
		size_t size = 1;

		if (__builtin_popcount(set) != strength)
			continue;
		for (int p = 0; p < PROPERTIES; p++)
			size *= set >> p & 1 ? (size_t)space->sizes[p] : 1;
		covered->sets[covered->nsets] = set;
		covered->seen[covered->nsets] = calloc(size, 1);
		assert_non_null(covered->seen[covered->nsets]);
		covered->nsets++;
	}
}

static void covered_close(struct covered *covered)
{
	for (int i = 0; i < covered->nsets; i++)
		free(covered->seen[i]);
}

/* Mark all that C covers; whether any of it was new. */
static bool covers_more(struct covered *covered, const struct space *space,
			const struct one_case *c)
{
	bool more = false;

	for (int i = 0; i < covered->nsets; i++) {
		size_t at = 0;

		for (unsigned left = covered->sets[i]; left; left &= left - 1) {
			int p = __builtin_ctz(left);

			at = at * (size_t)space->sizes[p] + c->value[p];
		}
		more = more || !covered->seen[i][at];
		covered->seen[i][at] = 1;
	}
	return more;
}

static void add(struct cases *cases, const struct one_case *c)
{
	if (cases->n == cases->room) {
		cases->room = cases->room ? 2 * cases->room : 4096;
		cases->list = realloc(cases->list, cases->room * sizeof(*cases->list));
		assert_non_null(cases->list);
	}
	cases->list[cases->n++] = *c;
}

/* All combinations of one way in a scrambled order; those that cover more are kept. */
static void choose_of_way(struct cases *cases, const struct space *space, int way,
			  struct covered *covered)
{
	size_t total = 1;

	for (int p = TYPE; p < PROPERTIES; p++)
		total *= (size_t)space->sizes[p];
	for (size_t i = 0; i < total; i++) {
		struct one_case c = {{(uint8_t)way}};
		size_t rest = i * 2654435761u % total; /* a prime, and no factor of the total */

		for (int p = TYPE; p < PROPERTIES; p++) {
			c.value[p] = (uint8_t)(rest % (size_t)space->sizes[p]);
			rest /= (size_t)space->sizes[p];
		}
		if (is_valid(&c, space) && (!covered || covers_more(covered, space, &c)))
			add(cases, &c);
	}
}

static int strength_wanted(void)
{
	const char *which = getenv("BUSBENCH_TEST");

	if (!which || !*which)
		return STRENGTH;
	if (strcmp(which, "full") == 0)
		return PROPERTIES;
	return strcmp(which, "sample") == 0 ? 2 : 3;
}

static int compare_cases(const void *a, const void *b)
{
	const struct one_case *x = a, *y = b;
	const enum property order[] = {RANKS, CROWDED, TYPE};

	for (int i = 0; i < 3; i++)
		if (x->value[order[i]] != y->value[order[i]])
			return x->value[order[i]] - y->value[order[i]];
	return 0;
}

static void choose_cases(struct cases *cases, const struct space *space)
{
	const int strength = strength_wanted();
	struct covered covered;

	if (strength < PROPERTIES)
		covered_open(&covered, space, strength);
	for (int way = 0; way < space->sizes[WAY]; way++)
		choose_of_way(cases, space, way, strength < PROPERTIES ? &covered : NULL);
	if (strength < PROPERTIES)
		covered_close(&covered);
	qsort(cases->list, cases->n, sizeof(*cases->list), compare_cases);
}

/* ---- one case on one rank -------------------------------------------------------------- */

/* Memory with guards, and what all of it must look like in the end. */
struct region {
	char *memory;
	char *image;
	size_t used;
};

struct bench {
	const struct space *space;
	const struct one_case *cases;
	size_t ncases;
	struct truth *truth;
};

struct buffers {
	struct region in, out;
	char *tmp;
};

/* Poison BYTES, SKEW bytes off, and their guards; returns where they begin. */
static char *lay(struct region *region, size_t skew, size_t bytes)
{
	region->used = 2 * GUARD + skew + bytes;
	memset(region->memory, POISON, region->used);
	return region->memory + GUARD + skew;
}

static char *in_image(const struct region *region, const char *at)
{
	return region->image + (at - region->memory);
}

static void check_region(struct one *me, const struct region *region, const char *what,
			 const struct one_case *c, const struct bench *bench)
{
	const struct way *way = &bench->space->ways[c->value[WAY]];
	const struct type *type = &bench->space->types[c->value[TYPE]];
	size_t at = 0;

	if (memcmp(region->memory, region->image, region->used) == 0)
		return;
	while (region->memory[at] == region->image[at])
		at++;
	ranks_failed(me, __FILE__, __LINE__,
		     "%s:%s %s %s count %zu root %d chunk %d %s skew %d %s: %s differs at byte %zd "
		     "of %zu: %02x, not %02x",
		     way->collective->name, way->schedule ? way->schedule->name : "direct",
		     bb_dtype_name(type->dtype), bb_op_name(type->op), count_of(c), root_of(c),
		     c->value[CHUNK], c->value[PLACE] ? "in place" : "out of place", c->value[SKEW],
		     c->value[CROWDED] ? "crowded" : "roomy", what, (ssize_t)at - GUARD,
		     region->used - 2 * GUARD, region->memory[at] & 0xff, region->image[at] & 0xff);
}

static void lay_out(struct buffers *b, const struct bench *bench, struct bb_call *call,
		    const struct one_case *c, int rank)
{
	const size_t size = bb_dtype_size(call->dtype);
	const size_t skew = c->value[SKEW] ? size : 0;
	const struct meaning m = meaning_of(call->collective, &call->shape, rank);
	const size_t in_end = m.in_at + m.in, out_end = m.out_at + m.out;
	const size_t in_at = call->shape.in_place ? m.in_at : 0;
	const size_t out_at = call->shape.in_place ? m.out_at : 0;
	char *in = lay(&b->in, skew,
		       (!call->shape.in_place ? m.in
			: in_end > out_end    ? in_end
					      : out_end) *
			       size);
	char *out = lay(&b->out, 3 * skew, call->shape.in_place ? 0 : m.out * size);

	if (call->shape.in_place)
		out = in;
	in += in_at * size;
	out += out_at * size;
	memcpy(in, bench->truth->in[rank], m.in * size);
	memcpy(b->in.image, b->in.memory, b->in.used);
	memcpy(b->out.image, b->out.memory, b->out.used);
	expect(in_image(call->shape.in_place ? &b->in : &b->out, out), call->collective,
	       &call->shape, rank, bench->truth, size);
	call->in = in;
	call->out = out;
}

static bool is_intact(const char *guard)
{
	for (int i = 0; i < GUARD; i++)
		if ((unsigned char)guard[i] != POISON)
			return false;
	return true;
}

static void run_case(struct one *me, const struct bench *bench, struct buffers *b,
		     const struct one_case *c)
{
	const struct way *way = &bench->space->ways[c->value[WAY]];
	const struct type *type = &bench->space->types[c->value[TYPE]];
	size_t matrix[MOST_RANKS * MOST_RANKS], tmp_bytes;
	struct bb_call call = {.collective = way->collective,
			       .schedule = way->schedule,
			       .native = way->schedule ? NULL : &me->backend->natives[0],
			       .dtype = type->dtype,
			       .op = type->op,
			       .shape = shape_of(c, bench->space, matrix),
			       .tmp = b->tmp + GUARD};

	if (c->value[CHUNK] == 0)
		CHECK(me, me->backend->tune(me->world, &call) == BB_OK);
	CHECK(me, me->backend->refuses(me->world, &call) == NULL);
	tmp_bytes = me->backend->tmp_bytes(me->world, &call);
	CHECK(me, tmp_bytes <= TMP_BYTES);
	if (tmp_bytes > TMP_BYTES)
		return;
	memset(b->tmp, POISON, tmp_bytes + 2 * GUARD);
	lay_out(b, bench, &call, c, me->rank);
	CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
	CHECK(me, me->backend->finish(me->handle, NULL) == BB_OK);
	check_region(me, &b->in, call.shape.in_place ? "the buffer" : "IN", c, bench);
	check_region(me, &b->out, "OUT", c, bench);
	CHECK(me, is_intact(b->tmp) && is_intact(b->tmp + GUARD + tmp_bytes));
}

/* Rank 0 makes the next type's truth while the others wait. */
static void next_truth(struct one *me, struct bench *bench, int type)
{
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	if (me->rank == 0)
		make_truth(bench->truth, bench->space->types[type], me->n);
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
}

static void run_cases(struct one *me, void *argument)
{
	struct bench *bench = argument;
	struct buffers b = {0};
	int type = -1;

	CHECK(me, me->backend->alloc(me->handle, REGION_BYTES, (void **)&b.in.memory) == BB_OK);
	CHECK(me, me->backend->alloc(me->handle, REGION_BYTES, (void **)&b.out.memory) == BB_OK);
	CHECK(me, me->backend->alloc(me->handle, TMP_BYTES + 2 * GUARD, (void **)&b.tmp) == BB_OK);
	b.in.image = malloc(REGION_BYTES);
	b.out.image = malloc(REGION_BYTES);
	CHECK(me, b.in.image && b.out.image);
	for (size_t i = 0; i < bench->ncases && atomic_load(&me->all->failures) == 0; i++) {
		const struct one_case *c = &bench->cases[i];

		if (c->value[TYPE] != type)
			next_truth(me, bench, type = c->value[TYPE]);
		run_case(me, bench, &b, c);
	}
	/* A rank that found an error leaves the others waiting. */
	if (atomic_load(&me->all->failures) > 0)
		me->backend->abort(me->context);
	me->backend->release(me->handle, b.in.memory, REGION_BYTES);
	me->backend->release(me->handle, b.out.memory, REGION_BYTES);
	me->backend->release(me->handle, b.tmp, TMP_BYTES + 2 * GUARD);
	free(b.in.image);
	free(b.out.image);
}

/* ---- all cases ------------------------------------------------------------------------- */

static void test_collectives(void **state)
{
	struct space space;
	struct cases cases = {0};
	struct truth *truth = malloc(sizeof(*truth));
	size_t end;

	assert_non_null(truth);
	list_space(&space);
	choose_cases(&cases, &space);
	assert_true(cases.n > 1000);
	for (size_t i = 0; i < cases.n; i = end) {
		const uint8_t *value = cases.list[i].value;
		struct bench bench = {.space = &space, .cases = &cases.list[i], .truth = truth};
		struct ranks ranks;
		int failures;

		for (end = i; end < cases.n; end++)
			if (cases.list[end].value[RANKS] != value[RANKS] ||
			    cases.list[end].value[CROWDED] != value[CROWDED])
				break;
		bench.ncases = end - i;
		ranks_open(&ranks, &bb_backend_host, ranks_of[value[RANKS]], NULL);
		ranks.context->cpu.crowded = value[CROWDED]; /* both on any machine */
		failures = ranks_run(&ranks, run_cases, &bench);
		ranks_close(&ranks);
		assert_int_equal(failures, 0);
		print_message("%zu cases of %d ranks%s\n", bench.ncases, ranks_of[value[RANKS]],
			      value[CROWDED] ? ", crowded" : "");
	}
	free(cases.list);
	free(truth);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_collectives)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
