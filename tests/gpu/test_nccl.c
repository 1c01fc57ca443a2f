/*
 * The nccl backend: every collective, way and schedule on several numbers of GPUs, in place and
 * not, all datatypes and operations among them, against the oracle.
 */
#include "backends/gpu.h"
#include "core/scalar.h"
#include "gpus.h"
#include "oracle.h"
#include "ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARD 64
#define POISON 0xa5
#define REGION (2 * GUARD + (MOST_ELEMENTS + 8) * 8)
#define TMP_BYTES (8 * MOST_ELEMENTS * 8)
#define MOST_WAYS 128
#define MOST_TYPES 128
#define TYPES_EACH (RANKS_SANITIZED ? 2 : 10) /* of a way */

/* ---- every collective ---------------------------------------------------------------- */

struct way {
	const struct bb_collective *collective;
	const struct bb_algorithm *schedule;
	const struct bb_native *native; /* both NULL: auto */
};

struct job {
	struct way ways[MOST_WAYS];
	int nways;
	struct type types[MOST_TYPES];
	int ntypes;
	struct truth *truth;
	atomic_int calls, skipped;
};

static void list_ways(struct job *job)
{
	const struct bb_native *natives = bb_plugin_backend.natives;

	for (int i = 0; bb_collectives[i]; i++) {
		job->ways[job->nways++] = (struct way){.collective = bb_collectives[i]};
		for (const struct bb_native *v = natives; v->name; v++)
			if (!v->refuses(v, bb_collectives[i]) && !strchr(v->name, ':'))
				job->ways[job->nways++] = (struct way){bb_collectives[i], NULL, v};
	}
	for (int i = 0; bb_algorithms[i]; i++)
		job->ways[job->nways++] =
			(struct way){bb_algorithms[i]->collective, bb_algorithms[i], NULL};
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++)
		for (int op = 0; op < BB_NOPS; op++)
			if (bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
				job->types[job->ntypes++] =
					(struct type){(enum bb_dtype)dtype, (enum bb_op)op};
	assert_true(job->nways <= MOST_WAYS && job->ntypes <= MOST_TYPES);
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

/* Memory of the host that is what the device's should be, and the device's. */
struct region {
	char *device;
	char *image, *got;
	size_t used;
};

struct buffers {
	struct region in, out;
	char *tmp;
	char guard[GUARD];
};

static void region_open(struct one *me, struct region *r)
{
	CHECK(me, me->backend->alloc(me->handle, REGION, (void **)&r->device) == BB_OK);
	r->image = malloc(REGION);
	r->got = malloc(REGION);
	CHECK(me, r->image && r->got);
}

static void region_close(struct one *me, struct region *r)
{
	me->backend->release(me->handle, r->device, REGION);
	free(r->image);
	free(r->got);
}

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Poison both regions and lay IN into its place; afterwards the images hold what shall come of it.
 */
static void lay_out(struct one *me, struct buffers *b, const struct job *job, struct bb_call *call,
		    size_t skew)
{
	const size_t size = bb_dtype_size(call->dtype);
	const struct meaning m = meaning_of(call->collective, &call->shape, me->rank);
	const bool in_place = call->shape.in_place;
	const size_t in_at = GUARD + skew + (in_place ? m.in_at : 0) * size;
	const size_t out_at = GUARD + skew + (in_place ? m.out_at : 0) * size;
	struct region *const out = in_place ? &b->in : &b->out;

	b->in.used = 2 * GUARD + skew +
		     (in_place ? most(m.in_at + m.in, m.out_at + m.out) : m.in) * size;
	b->out.used = 2 * GUARD + skew + (in_place ? 0 : m.out) * size;
	memset(b->in.image, POISON, b->in.used);
	memset(b->out.image, POISON, b->out.used);
	memcpy(b->in.image + in_at, job->truth->in[me->rank], m.in * size);
	CHECK(me, me->backend->copy(me->handle, b->in.device, b->in.image, b->in.used) == BB_OK);
	CHECK(me, me->backend->copy(me->handle, b->out.device, b->out.image, b->out.used) == BB_OK);
	expect(out->image + out_at, call->collective, &call->shape, me->rank, job->truth, size);
	call->in = b->in.device + in_at;
	call->out = out->device + out_at;
	call->tmp = b->tmp;
}

/* NCCL divides floats before it adds them; then only the size of the error can be told. */
static bool is_near(const struct bb_call *call, const char *got, const char *wanted, size_t bytes)
{
	static const double precision[BB_NDTYPES] = {
		[BB_HALF] = 0x1p-10,    [BB_FLOAT] = 0x1p-23, [BB_DOUBLE] = 0x1p-52,
		[BB_BFLOAT16] = 0x1p-7, [BB_F8E4M3] = 0x1p-3, [BB_F8E5M2] = 0x1p-2,
	};
	const size_t size = bb_dtype_size(call->dtype);

	for (size_t at = 0; at < bytes; at += size) {
		const double a = bb_scalar_decode(call->dtype, got + at);
		const double b = bb_scalar_decode(call->dtype, wanted + at);

		if (fabs(a - b) > 8 * call->shape.nranks * precision[call->dtype])
			return false;
	}
	return true;
}

static bool is_right(struct region *r, const struct bb_call *call)
{
	if (memcmp(r->got, r->image, r->used) == 0)
		return true;
	if (!call->native || call->op != BB_AVG || !bb_dtype_is_float(call->dtype) ||
	    !(call->collective->flags & BB_REDUCES))
		return false;
	return memcmp(r->got, r->image, GUARD) == 0 &&
	       memcmp(r->got + r->used - GUARD, r->image + r->used - GUARD, GUARD) == 0 &&
	       is_near(call, r->got + GUARD, r->image + GUARD, r->used - 2 * GUARD);
}

static void check_region(struct one *me, struct region *r, const struct bb_call *call,
			 const char *what)
{
	CHECK(me, me->backend->copy(me->handle, r->got, r->device, r->used) == BB_OK);
	if (!is_right(r, call))
		ranks_failed(
			me, __FILE__, __LINE__, "%s by %s %s %s count %zu root %d %s: %s is wrong",
			call->collective->name,
			call->schedule ? call->schedule->name : call->native->name,
			bb_dtype_name(call->dtype), bb_op_name(call->op), call->shape.count,
			call->shape.root, call->shape.in_place ? "in place" : "out of place", what);
}

static struct bb_call call_of(const struct one *me, const struct way *way, struct type type,
			      bool in_place, size_t count, size_t *matrix)
{
	struct bb_call call = {.collective = way->collective,
			       .schedule = way->schedule,
			       .native = way->native,
			       .dtype = type.dtype,
			       .op = type.op,
			       .shape = {.nranks = me->n, .count = count, .in_place = in_place}};

	if (way->collective->flags & BB_ROOTED)
		call.shape.root = (int)(count % (size_t)me->n);
	if (way->collective->flags & BB_VARIABLE) {
		fill_matrix(matrix, me->n, count);
		call.shape.matrix = matrix;
	}
	return call;
}

/* Settle CALL; false if it cannot be made. */
static bool settle(struct one *me, struct bb_call *call)
{
	const struct bb_backend *b = me->backend;

	if (!call->schedule && !call->native && b->choose(me->world, call) != BB_OK)
		return false;
	if (call->schedule && call->schedule->refuses && call->schedule->refuses(&call->shape))
		return false;
	CHECK(me, b->tune(me->world, call) == BB_OK);
	if (call->shape.count % 3 == 1)
		call->shape.chunk = call->shape.count <= 40 ? 1 : 37;
	CHECK(me, b->gpu->ready(me->world, call) == BB_OK);
	return b->refuses(me->world, call) == NULL;
}

/* What lies behind TMP is not for the call. */
static void guard_tmp(struct one *me, struct buffers *b, size_t bytes)
{
	memset(b->guard, POISON, GUARD);
	CHECK(me, bytes <= TMP_BYTES);
	if (bytes <= TMP_BYTES)
		CHECK(me, me->backend->copy(me->handle, b->tmp + bytes, b->guard, GUARD) == BB_OK);
}

static void check_tmp(struct one *me, struct buffers *b, size_t bytes)
{
	char found[GUARD];

	CHECK(me, me->backend->copy(me->handle, found, b->tmp + bytes, GUARD) == BB_OK);
	CHECK(me, memcmp(found, b->guard, GUARD) == 0);
}

static void make_call(struct one *me, struct job *job, struct buffers *b, struct bb_call call,
		      size_t skew)
{
	size_t tmp_bytes;

	if (!settle(me, &call)) {
		atomic_fetch_add(&job->skipped, 1);
		return;
	}
	atomic_fetch_add(&job->calls, 1);
	tmp_bytes = me->backend->tmp_bytes(me->world, &call);
	guard_tmp(me, b, tmp_bytes);
	lay_out(me, b, job, &call, skew);
	CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_OK);
	CHECK(me, me->backend->finish(me->handle, NULL) == BB_OK);
	if (!call.shape.in_place)
		check_region(me, &b->in, &call, "IN");
	check_region(me, call.shape.in_place ? &b->in : &b->out, &call, "OUT");
	check_tmp(me, b, tmp_bytes);
}

static void next_truth(struct one *me, struct job *job, struct type type)
{
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	if (me->rank == 0)
		make_truth(job->truth, type, me->n);
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
}

static void try_type(struct one *me, struct job *job, struct buffers *b, const struct way *way,
		     int nth)
{
	const size_t counts[] = {257, 1, 0, (size_t)me->n + 1, MOST_COUNT};
	size_t matrix[MOST_RANKS * MOST_RANKS];
	struct type type = job->types[nth % job->ntypes];

	/* What is only moved has no operation: all datatypes, under any name. */
	if (!(way->collective->flags & BB_REDUCES))
		type = (struct type){(enum bb_dtype)(nth % BB_NDTYPES), BB_SUM};
	if (type.dtype == BB_FLOAT_INT)
		type.op = type.op == BB_MINLOC ? BB_MINLOC : BB_MAXLOC;
	next_truth(me, job, type);
	for (int place = 0; place < 2; place++)
		for (int i = 0; i < 2; i++) {
			const size_t count = counts[(nth + place + 2 * i) % 5];

			make_call(me, job, b, call_of(me, way, type, place, count, matrix),
				  i * bb_dtype_size(type.dtype));
		}
}

static void try_ways(struct one *me, void *argument)
{
	struct job *job = argument;
	struct buffers b = {0};
	int nth = me->n * 7;

	region_open(me, &b.in);
	region_open(me, &b.out);
	CHECK(me, me->backend->alloc(me->handle, TMP_BYTES + GUARD, (void **)&b.tmp) == BB_OK);
	for (int w = 0; w < job->nways && atomic_load(&me->all->failures) == 0; w++) {
		const struct way *way = &job->ways[w];
		struct bb_shape shape = {.nranks = me->n, .count = 1000};
		size_t matrix[MOST_RANKS * MOST_RANKS];

		fill_matrix(matrix, me->n, 1000);
		shape.matrix = way->collective->flags & BB_VARIABLE ? matrix : NULL;
		if ((way->collective->refuses && way->collective->refuses(me->n)) ||
		    (way->schedule && way->schedule->refuses && way->schedule->refuses(&shape)))
			continue;
		for (int i = 0; i < TYPES_EACH; i++, nth++)
			try_type(me, job, &b, way, nth);
	}
	/* A rank that found an error leaves the others waiting. */
	if (atomic_load(&me->all->failures) > 0)
		me->backend->abort(me->context);
	me->backend->release(me->handle, b.tmp, TMP_BYTES);
	region_close(me, &b.in);
	region_close(me, &b.out);
}

static void test_collectives(void **state)
{
	static const int sizes[] = {1, 2, 3, 8};
	int worlds = 0;
	struct job *job = calloc(1, sizeof(*job));

	assert_non_null(job);
	job->truth = malloc(sizeof(*job->truth));
	assert_non_null(job->truth);
	list_ways(job);
	for (int i = 0; i < 4 && sizes[i] <= gpus_count(); i++, worlds++)
		on_gpus(sizes[i], NULL, try_ways, job);
	print_message("%d calls, %d refused\n", atomic_load(&job->calls),
		      atomic_load(&job->skipped));
	assert_true(atomic_load(&job->calls) > 500 * worlds);
	assert_true(atomic_load(&job->skipped) < atomic_load(&job->calls) / 4);
	free(job->truth);
	free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_collectives)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
