/*
 * Fill and verify.
 */
#include "cases.h"

#include "backends/backend.h"
#include "core/scalar.h"

#include <string.h>

#define MOST 50 /* elements that are tried one by one: no piece, and up to three */
#define LONG 20011

/* A pattern on the host, and the same on the device. */
struct patterns {
	struct bb_pattern host;
	struct bb_gpu_pattern device;
};

static size_t table_bytes(size_t size, size_t period)
{
	return 2 * period * size + 2 * BB_GPU_TABLE_MARGIN;
}

/* The table holds the period twice and has noise in its margins. It begins OFFSET bytes into its
   memory. */
static bool lay(struct rig *r, struct patterns *p, size_t size, size_t period, size_t offset,
		const char *elements)
{
	const size_t bytes = period * size, whole = table_bytes(size, period);
	char *const table = r->host_source[0] + offset;

	for (size_t i = 0; i < whole; i++)
		table[i] = (char)rig_draw(i);
	for (int half = 0; half < 2; half++)
		memcpy(table + BB_GPU_TABLE_MARGIN + (size_t)half * bytes, elements, bytes);
	p->host = (struct bb_pattern){.table = table + BB_GPU_TABLE_MARGIN,
				      .period = period,
				      .element_size = size,
				      .seed = rig_draw(size + period)};
	p->device = (struct bb_gpu_pattern){.table = r->table + offset + BB_GPU_TABLE_MARGIN,
					    .period = (uint32_t)period,
					    .element_size = (uint32_t)size,
					    .seed = p->host.seed};
	return rig_put(r, r->table + offset, table, whole);
}

/* Elements that tell their neighbours apart. */
static bool lay_noise(struct rig *r, struct patterns *p, size_t size, size_t period, size_t offset)
{
	uint64_t noise[BB_GPU_PERIOD_MOST];

	for (size_t i = 0; i < period; i++)
		noise[i] = rig_draw(i + size);
	return lay(r, p, size, period, offset, (const char *)noise);
}

/* Where the I-th table of a pattern begins, with its margin: off 16 bytes in different ways, at the
   begin and at the end of its memory in turn, so that a kernel that reads beyond is found out. */
static size_t table_place(size_t size, size_t period, size_t i)
{
	const size_t offset = (size < 4 ? 4 : size) * i % 16;
	const size_t room = RIG_BYTES - offset - table_bytes(size, period);

	return (i % 2 ? room & ~(size_t)15 : 0) + offset;
}

static const char *element(const struct bb_pattern *p, uint64_t i)
{
	const size_t place = i % p->period + bb_pattern_rotation(p, i / p->period);

	return (const char *)p->table + place * p->element_size;
}

#define FIRSTS 8

/* Where a pattern may begin: around its first block's end, and where the number of an element or of
   a byte passes 2^32. */
static uint64_t first_of(const struct bb_pattern *p, size_t i)
{
	const uint64_t firsts[FIRSTS] = {0,
					 1,
					 p->period - 1,
					 p->period,
					 (((uint64_t)1 << 32) - 20) / p->element_size,
					 ((uint64_t)1 << 32) - 20,
					 5000000001,
					 ((uint64_t)1 << 40) + 3};

	return firsts[i % FIRSTS];
}

/* ---- fill ---------------------------------------------------------------------------- */

static bool fill_one(struct rig *r, const struct patterns *p, struct bb_gpu_lane lane,
		     size_t offset, uint64_t first, size_t count)
{
	char *to, *expected;

	if (!rig_batch_add(r, offset, count, &to, &expected,
			   "%zu of %llu on, offset %zu, period %zu", count,
			   (unsigned long long)first, offset, p->host.period))
		return false;
	for (size_t i = 0; i < count; i++)
		memcpy(expected + i * r->size, element(&p->host, first + i), r->size);
	return CALL(r, bb_gpu_fill(lane, to, &p->device, first, count));
}

static bool fill_all(struct rig *r, const struct patterns *p)
{
	const size_t aligned = 16 / r->size;
	size_t i = 0;

	for (size_t offset = 0; offset < aligned; offset++)
		for (size_t count = 0; count <= MOST; count++, i++)
			if (!fill_one(r, p, r->lane, offset, first_of(&p->host, i), count))
				return false;
	for (i = 0; i < RIG_LANES * FIRSTS; i++)
		if (!fill_one(r, p, rig_lane(r, rig_lane_blocks[i % RIG_LANES]), i % aligned,
			      first_of(&p->host, i), LONG))
			return false;
	return true;
}

static bool run_fill(struct rig *r, const struct kernel_case *c)
{
	static const size_t periods[] = {16, 17, 1021, BB_GPU_PERIOD_MOST};
	struct patterns p;

	for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++)
		if (!lay_noise(r, &p, c->size, periods[i], table_place(c->size, periods[i], i)) ||
		    !rig_batch_open(r, BB_NDTYPES, c->size) || !fill_all(r, &p) ||
		    !rig_batch_close(r))
			return false;
	return true;
}

/* ---- verify -------------------------------------------------------------------------- */

/* A counter, to which the kernel adds, begins with guard bytes. */
static bool verify_one(struct rig *r, const struct patterns *p, struct bb_gpu_lane lane,
		       const struct kernel_case *c, size_t at, uint64_t first, size_t count,
		       int ulps)
{
	unsigned long long counter;
	char *to, *expected;

	memset(&counter, RIG_GUARD_BYTE, sizeof(counter));
	for (size_t i = 0; i < count; i++)
		counter += bb_scalar_ulps(c->dtype, r->host_source[1] + (at + i) * c->size,
					  element(&p->host, first + i)) > (uint64_t)ulps;
	if (!rig_batch_add(r, 0, 1, &to, &expected,
			   "%zu from %zu on, %d ulps, counted from 0x5a5a5a5a5a5a5a5a", count, at,
			   ulps))
		return false;
	memcpy(expected, &counter, sizeof(counter));
	return CALL(r, bb_gpu_verify(lane, r->source[1] + at * c->size, &p->device, first, count,
				     c->dtype, ulps, (unsigned long long *)to));
}

/* COUNT elements that are right, then every third or so with another byte. */
static bool receive(struct rig *r, const struct patterns *p, size_t size, uint64_t first,
		    size_t count)
{
	char *const got = r->host_source[1];

	for (size_t i = 0; i < count; i++) {
		memcpy(got + i * size, element(&p->host, first + i), size);
		if (rig_draw(i + first) % 3 == 0)
			got[i * size + i % size] ^= (char)(1 << i % 8);
	}
	return rig_put(r, r->source[1], got, count * size);
}

/* Every alignment and small number of elements, with wrong ones anywhere in them; and many. */
static bool verify_places(struct rig *r, const struct kernel_case *c, size_t period, size_t i)
{
	struct patterns p;
	uint64_t first;

	if (!lay_noise(r, &p, c->size, period, table_place(c->size, period, i)))
		return false;
	first = first_of(&p.host, i);
	if (!receive(r, &p, c->size, first, LONG))
		return false;
	for (size_t at = 0; at < 16 / c->size; at++)
		for (size_t count = 0; count <= MOST; count++)
			if (!verify_one(r, &p, r->lane, c, at, first + at, count, 0))
				return false;
	for (size_t k = 0; k < RIG_LANES; k++)
		if (!verify_one(r, &p, rig_lane(r, rig_lane_blocks[k]), c, k, first + k, LONG - k,
				0))
			return false;
	return true;
}

/* What was received near to what was expected: all pairs of 8 bits; of more, some units away, on
   the other side of zero, or anything. */
static uint64_t received_for(uint64_t expected, uint64_t i, size_t size)
{
	const uint64_t noise = rig_draw(i + 99), top = (uint64_t)1 << (8 * size - 1);

	if (size == 1)
		return i / 256;
	if ((expected & (top - 1)) < 8)
		return ((expected & top) ^ top) + (noise >> 8) % 4;
	return noise % 4 == 1 ? noise : expected + (noise >> 8) % 13 - 6;
}

/* Expected bits: all of 16 and 8; of more, those around zero, the largest number and others. */
static uint64_t expected_bits(uint64_t i, enum bb_dtype dtype)
{
	static const uint64_t edges[] = {0, 0x7f800000, 0x80000000, 0xff800000, 0x7fffffff};
	const size_t size = bb_dtype_size(dtype);
	const uint64_t edge = edges[i / 2 % 5] << (size == 8 ? 32 : 0);

	if (size <= 2)
		return i;
	if (dtype == BB_DOUBLE && i % 4 == 0)
		return (i % 8 == 0 ? 0x7ff0000000000000 : 0xfff0000000000000) + i % 7 - 3;
	return i % 2 ? rig_draw(i) : edge + i % 7 - 3;
}

#define CHUNK 256

/* Elements some units in the last place apart, in pieces of CHUNK. */
static bool verify_distances(struct rig *r, const struct kernel_case *c, size_t table)
{
	static const int ulps[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 1000};
	const size_t period = c->size == 1 ? 256 : BB_GPU_PERIOD_MOST;
	const size_t count = c->size == 1 ? 65536 : period;
	uint64_t elements[BB_GPU_PERIOD_MOST] = {0}, bits;
	struct patterns p;

	for (size_t i = 0; i < period; i++) {
		bits = expected_bits(table * period + i, c->dtype);
		memcpy((char *)elements + i * c->size, &bits, c->size);
	}
	if (!lay(r, &p, c->size, period, 0, (const char *)elements))
		return false;
	for (size_t i = 0; i < count; i++) {
		bits = 0;
		memcpy(&bits, element(&p.host, i), c->size);
		bits = received_for(bits, i, c->size);
		memcpy(r->host_source[1] + i * c->size, &bits, c->size);
	}
	if (!rig_put(r, r->source[1], r->host_source[1], count * c->size))
		return false;
	for (size_t u = 0; u < sizeof(ulps) / sizeof(ulps[0]); u++)
		for (size_t at = 0; at < count; at += CHUNK)
			if (!verify_one(r, &p, r->lane, c, at, at, CHUNK, ulps[u]))
				return false;
	return true;
}

static bool run_verify(struct rig *r, const struct kernel_case *c)
{
	static const size_t periods[] = {16, 1021, BB_GPU_PERIOD_MOST};
	const size_t tables = c->size == 2 ? 65536 / BB_GPU_PERIOD_MOST : c->size == 1 ? 1 : 3;

	if (!rig_batch_open(r, BB_NDTYPES, sizeof(unsigned long long)))
		return false;
	for (size_t i = 0; i < FIRSTS; i++)
		if (!verify_places(r, c, periods[i % 3], i))
			return false;
	for (size_t i = 0; i < tables; i++)
		if (!verify_distances(r, c, i))
			return false;
	return rig_batch_close(r);
}

void patterns_list(struct case_list *list)
{
	for (size_t size = 1; size <= 8; size *= 2)
		case_add(list, (struct kernel_case){.run = run_fill, .size = size},
			 "fill %zu-byte elements", size);
	for (enum bb_dtype d = 0; d < BB_NDTYPES; d++)
		case_add(list,
			 (struct kernel_case){
				 .run = run_verify, .dtype = d, .size = bb_dtype_size(d)},
			 "verify %s", bb_dtype_name(d));
}
