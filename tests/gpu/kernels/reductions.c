/*
 * Reductions and scaling: of every datatype and operation.
 */
#include "cases.h"

#include "core/scalar.h"

#include <stdio.h>
#include <string.h>

#define MOST 50 /* elements that are tried one by one: no piece, and up to three */
#define LONG 65557
#define PAIRS_16 131101 /* of 16-bit numbers: each of them twice */

/* One source: scaled. */
struct reduction {
	enum bb_dtype dtype;
	enum bb_op op;
	int nsrc;
	int factor, divisor;
	char name[24];
};

static cudaError_t issue(const struct reduction *k, struct bb_gpu_lane lane, char *to,
			 const void *const *from, size_t count)
{
	if (k->nsrc > 1)
		return bb_gpu_reduce(lane, k->dtype, k->op, to, from, k->nsrc, count);
	return bb_gpu_scale(lane, k->dtype, to, from[0], count, k->factor, k->divisor);
}

/* ---- what the result is to be --------------------------------------------------------- */

/* Floating-point types below 32 bits are computed in float and rounded once. */
static void expect_small_float(const struct reduction *k, const char *const *from, char *result)
{
	float value = (float)bb_scalar_decode(k->dtype, from[0]);

	if (k->nsrc == 1)
		value = k->divisor == 1 ? value * (float)k->factor : value / (float)k->divisor;
	for (int s = 1; s < k->nsrc; s++) {
		const float other = (float)bb_scalar_decode(k->dtype, from[s]);

		value = k->op == BB_SUM    ? value + other
			: k->op == BB_PROD ? value * other
			: k->op == BB_MIN  ? (other < value ? other : value)
					   : (value < other ? other : value);
	}
	bb_scalar_encode(k->dtype, (double)value, result);
}

static void expect_element(const struct reduction *k, const char *const *from, char *result)
{
	const size_t size = bb_dtype_size(k->dtype);

	if (bb_dtype_is_float(k->dtype) && size < 4) {
		expect_small_float(k, from, result);
		return;
	}
	memcpy(result, from[0], size);
	for (int s = 1; s < k->nsrc; s++)
		bb_scalar_reduce(k->dtype, k->op, result, from[s]);
	if (k->nsrc == 1 && k->divisor == 1)
		bb_scalar_scale(k->dtype, result, k->factor);
	else if (k->nsrc == 1)
		bb_scalar_divide(k->dtype, result, k->divisor);
}

/* ---- operands ------------------------------------------------------------------------ */

/* Values at which operations differ: zeros, ones, the ends of the range, infinities, no number. */
static uint64_t special_bits(enum bb_dtype dtype, uint64_t i)
{
	const size_t size = bb_dtype_size(dtype);
	const uint64_t top = (uint64_t)1 << (8 * size - 1);
	const uint64_t whole[] = {0, 1, ~(uint64_t)0, top, top - 1, 2};
	static const double numbers[] = {0, 1, -1, 1e300, 1e-300, -1e300, 0.0 / 0.0, 448, 57344};
	uint64_t bits = 0;

	if (i % 2 || !bb_dtype_is_float(dtype))
		return whole[i / 2 % 6];
	bb_scalar_encode(dtype, numbers[i / 2 % 9], &bits);
	return bits;
}

/* Element I of source S: a special value, any bits, a number of moderate size, or one near to the
   other sources'. */
static uint64_t operand_bits(enum bb_dtype dtype, uint64_t i, uint64_t s)
{
	const uint64_t noise = rig_draw(3 * i + s);
	uint64_t bits = 0;

	switch (noise >> 50 & 3) {
	case 0:
		return special_bits(dtype, noise >> 8);
	case 1:
		return noise;
	case 2:
		if (!bb_dtype_is_float(dtype))
			return noise % 9 - 4;
		bb_scalar_encode(dtype, ((double)(noise % 4001) - 2000) / 64, &bits);
		return bits;
	default:
		return rig_draw(i) ^ (noise & 0xff);
	}
}

/* The first two sources hold all pairs of 8-bit elements; of 16-bit numbers the first holds all,
   the second has one beside it whose exponent is near. */
static uint64_t source_bits(enum bb_dtype dtype, uint64_t i, uint64_t s)
{
	const size_t size = bb_dtype_size(dtype);

	if (size == 1 && i < 65536 && s < 2)
		return s == 0 ? i : i >> 8;
	if (size == 2 && s == 0)
		return i;
	if (size == 2 && s == 1)
		return i ^ (rig_draw(i) & (dtype == BB_HALF ? 0x8fff : 0x81ff));
	return operand_bits(dtype, i, s);
}

static void write_pair(char *element, uint64_t i, uint64_t s)
{
	const uint64_t noise = rig_draw(3 * i + s);
	struct bb_float_int pair = {(float)(noise % 7) - 3, (int32_t)(noise >> 40)};

	if (noise >> 30 & 1)
		pair.index %= 4;
	if ((noise >> 31) % 32 == 0)
		pair.value = 0.0f / 0.0f;
	memcpy(element, &pair, sizeof(pair));
}

/* Fill all sources with COUNT elements. */
static bool put_sources(struct rig *r, enum bb_dtype dtype, size_t count)
{
	const size_t size = bb_dtype_size(dtype);

	for (size_t s = 0; s < RIG_SOURCES; s++) {
		for (size_t i = 0; i < count; i++) {
			const uint64_t bits = source_bits(dtype, i, s);
			char *const element = r->host_source[s] + i * size;

			if (dtype == BB_FLOAT_INT)
				write_pair(element, i, s);
			else
				memcpy(element, &bits, size);
		}
		if (!rig_put(r, r->source[s], r->host_source[s], count * size))
			return false;
	}
	return true;
}

/* ---- one reduction ------------------------------------------------------------------- */

/* Where the elements of each source and of the destination begin. */
struct offsets {
	size_t to, from[RIG_SOURCES];
};

#define NO_SOURCE (-1)

/* ONTO: the source that the result overwrites, NO_SOURCE for none. */
static bool reduce_one(struct rig *r, const struct reduction *k, struct bb_gpu_lane lane,
		       struct offsets o, size_t count, int onto)
{
	const size_t size = r->size;
	const void *from[RIG_SOURCES];
	const char *at[RIG_SOURCES];
	char *to, *expected;

	if (!rig_batch_add(r, o.to, count, &to, &expected, "%s, %zu at %zu from %zu %zu %zu%s",
			   k->name, count, o.to, o.from[0], o.from[1], o.from[2],
			   onto == NO_SOURCE ? "" : ", in place"))
		return false;
	for (int s = 0; s < k->nsrc; s++) {
		from[s] = r->source[s] + o.from[s] * size;
		at[s] = r->host_source[s] + o.from[s] * size;
	}
	for (size_t i = 0; i < count; i++) {
		expect_element(k, at, expected + i * size);
		for (int s = 0; s < k->nsrc; s++)
			at[s] += size;
	}
	if (onto != NO_SOURCE) {
		if (!CALL(r, cudaMemcpyAsync(to, from[onto], count * size, cudaMemcpyDeviceToDevice,
					     r->lane.stream)))
			return false;
		from[onto] = to;
	}
	return CALL(r, issue(k, lane, to, from, count));
}

/* ---- where operands lie -------------------------------------------------------------- */

/* Variant 0 to nsrc - 1: that source alone is off the destination's alignment, or all are as it is;
   nsrc: each source is off by another number of elements. */
static struct offsets offsets_of(const struct reduction *k, size_t to, size_t from, int variant)
{
	const size_t aligned = 16 / bb_dtype_size(k->dtype);
	struct offsets o = {.to = to, .from = {to, to, to}};

	if (variant < k->nsrc)
		o.from[variant] = from;
	else
		o = (struct offsets){to, {from, (from + 1) % aligned, (from + 3) % aligned}};
	return o;
}

/* Every alignment of destination and source against the other, and numbers of elements around
   pieces; for sums each number. */
static bool reduce_places(struct rig *r, const struct reduction *k)
{
	const size_t aligned = 16 / r->size;
	const size_t around[] = {0,
				 1,
				 aligned - 1,
				 aligned,
				 aligned + 1,
				 2 * aligned - 1,
				 2 * aligned + 1,
				 3 * aligned,
				 MOST};
	const size_t counts = k->op == BB_SUM ? MOST + 1 : sizeof(around) / sizeof(around[0]);
	int variant = 0;

	for (size_t to = 0; to < aligned; to++)
		for (size_t from = 0; from < aligned; from++)
			for (size_t i = 0; i < counts; i++)
				if (!reduce_one(r, k, r->lane,
						offsets_of(k, to, from, variant++ % (k->nsrc + 1)),
						k->op == BB_SUM ? i : around[i], NO_SOURCE))
					return false;
	return true;
}

/* All values, the sources as the destination or skewed; then some of them by fewer threads, which
   go round more often, and written over a source. */
static bool reduce_values(struct rig *r, const struct reduction *k, size_t count)
{
	const struct offsets aligned = {1, {1, 1, 1}}, skewed = {0, {1, 0, 2}};
	const size_t some = count / 8;

	if (!reduce_one(r, k, r->lane, aligned, count - 1, NO_SOURCE) ||
	    !reduce_one(r, k, r->lane, skewed, count - 2, NO_SOURCE))
		return false;
	for (unsigned blocks = 1; blocks <= 3; blocks += 2)
		if (!reduce_one(r, k, rig_lane(r, blocks), aligned, some, NO_SOURCE) ||
		    !reduce_one(r, k, rig_lane(r, blocks), skewed, some, NO_SOURCE))
			return false;
	for (int onto = 0; onto < k->nsrc; onto++)
		if (!reduce_one(r, k, r->lane, (struct offsets){0, {0, 0, 0}}, some, onto) ||
		    !reduce_one(r, k, r->lane, (struct offsets){1, {0, 1, 0}}, some, onto))
			return false;
	return true;
}

/* ---- the cases ----------------------------------------------------------------------- */

static size_t values_of(enum bb_dtype dtype)
{
	return bb_dtype_size(dtype) == 2 ? PAIRS_16 : LONG;
}

static bool run_reduce(struct rig *r, const struct kernel_case *c)
{
	const size_t count = values_of(c->dtype);

	if (!put_sources(r, c->dtype, count) || !rig_batch_open(r, c->dtype, c->size))
		return false;
	for (int nsrc = 2; nsrc <= RIG_SOURCES; nsrc++) {
		struct reduction k = {.dtype = c->dtype, .op = c->op, .nsrc = nsrc};

		snprintf(k.name, sizeof(k.name), "%d sources", nsrc);
		if (!reduce_places(r, &k) || !reduce_values(r, &k, count))
			return false;
	}
	return rig_batch_close(r);
}

static bool run_scale(struct rig *r, const struct kernel_case *c)
{
	static const int scales[][2] = {{1, 1}, {2, 1}, {3, 1},   {1, 2},    {1, 3},
					{1, 7}, {1, 8}, {1, 300}, {1, 70000}};
	const size_t count = values_of(c->dtype);

	if (!put_sources(r, c->dtype, count) || !rig_batch_open(r, c->dtype, c->size))
		return false;
	for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
		struct reduction k = {.dtype = c->dtype,
				      .op = BB_NOPS,
				      .nsrc = 1,
				      .factor = scales[i][0],
				      .divisor = scales[i][1]};

		snprintf(k.name, sizeof(k.name), "by %d/%d", k.factor, k.divisor);
		if (!reduce_places(r, &k) || !reduce_values(r, &k, count))
			return false;
	}
	return rig_batch_close(r);
}

static bool is_reduced(enum bb_op op, enum bb_dtype dtype)
{
	return bb_op_accepts(op, dtype) && op != BB_AVG && op != BB_MULSUM;
}

/* Operations that a datatype has not, and pairs, which cannot be scaled. */
static bool run_refused(struct rig *r, const struct kernel_case *c)
{
	const void *const from[] = {r->source[0], r->source[1]};

	for (enum bb_dtype d = 0; d < BB_NDTYPES; d++)
		for (enum bb_op op = 0; op < BB_NOPS; op++)
			if (!is_reduced(op, d) &&
			    bb_gpu_reduce(r->lane, d, op, r->destination, from, 2, 1) !=
				    cudaErrorInvalidValue)
				return rig_fail(r, "%s %s is not refused", bb_dtype_name(d),
						bb_op_name(op));
	for (int divisor = 1; divisor <= 2; divisor++)
		if (bb_gpu_scale(r->lane, BB_FLOAT_INT, r->destination, from[0], 1, 1, divisor) !=
		    cudaErrorInvalidValue)
			return rig_fail(r, "scaling pairs is not refused");
	return rig_wait(r);
}

void reductions_list(struct case_list *list)
{
	for (enum bb_dtype d = 0; d < BB_NDTYPES; d++) {
		const size_t size = bb_dtype_size(d);

		for (enum bb_op op = 0; op < BB_NOPS; op++)
			if (is_reduced(op, d))
				case_add(list,
					 (struct kernel_case){.run = run_reduce,
							      .dtype = d,
							      .op = op,
							      .size = size},
					 "reduce %s %s", bb_dtype_name(d), bb_op_name(op));
		if (d != BB_FLOAT_INT)
			case_add(list,
				 (struct kernel_case){.run = run_scale, .dtype = d, .size = size},
				 "scale %s", bb_dtype_name(d));
	}
	case_add(list, (struct kernel_case){.run = run_refused}, "reduce what is refused");
}
