/*
 * data.c - numbers that go through the stages, and their verification.
 */
#include "core/random.h"
#include "training_kernels/pipeline/pipeline.h"

#include <stdlib.h>
#include <string.h>

#define N BB_PIPELINE_ELEMENTS
#define BLOCK (N * sizeof(uint32_t))

typedef uint32_t numbers[N]; /* a block */

/* Blocks of each chunk and microbatch. */
enum block { BLOCK_X, BLOCK_Y, BLOCK_DY, BLOCK_DX, BLOCK_G, BLOCK_DW, BLOCKS };

/* ---- the arithmetic of a part: 32 bits, without the carry ------------------------------------ */

/* Odd, so that products with it lose nothing. */
static uint32_t weight(uint64_t seed, int depth, int i)
{
	return (uint32_t)bb_random_at(seed, (uint64_t)depth * N + (uint64_t)i) | 1;
}

static void make_input(uint64_t seed, int microbatch, uint32_t *x)
{
	for (int i = 0; i < N; i++)
		x[i] = (uint32_t)bb_random_at(~seed, (uint64_t)microbatch * N + (uint64_t)i);
}

static void make_loss(const uint32_t *y, uint32_t *dy)
{
	for (int i = 0; i < N; i++)
		dy[i] = 3 * y[i] + 1;
}

static void part_forward(uint64_t seed, int depth, const uint32_t *x, uint32_t *y)
{
	for (int i = 0; i < N; i++)
		y[i] = weight(seed, depth, i) * x[i] * x[i] + x[(i + 1) % N];
}

/* G, which both halves need, is kept for W. */
static void backward_input(uint64_t seed, int depth, const uint32_t *x, const uint32_t *dy,
			   uint32_t *dx, uint32_t *g)
{
	for (int i = 0; i < N; i++) {
		g[i] = x[i] * dy[i];
		dx[i] = 2 * weight(seed, depth, i) * g[i] + dy[(i + N - 1) % N];
	}
}

static void backward_weight(const uint32_t *x, const uint32_t *g, uint32_t *dw)
{
	for (int i = 0; i < N; i++)
		dw[i] = x[i] * g[i];
}

/* ---- a stage --------------------------------------------------------------------------------- */

size_t bb_pipeline_data_bytes(const struct bb_order *order)
{
	return (size_t)order->chunks * (size_t)order->microbatches * BLOCKS * BLOCK;
}

struct bb_pipeline_data bb_pipeline_data_begin(const struct bb_order *order, int stage,
					       uint64_t seed, void *memory)
{
	memset(memory, 0xff, bb_pipeline_data_bytes(order));
	return (struct bb_pipeline_data){order, stage, seed, memory};
}

/* The blocks of CHUNK and MICROBATCH. */
static numbers *blocks_of(const struct bb_pipeline_data *data, int chunk, int microbatch)
{
	const size_t at = (size_t)chunk * (size_t)data->order->microbatches + (size_t)microbatch;

	return (numbers *)data->memory + at * BLOCKS;
}

/* The chunk of this stage at DEPTH; -1: none, or of another stage. */
static int stage_chunk(const struct bb_pipeline_data *data, int depth)
{
	const struct bb_order *order = data->order;

	if (depth < 0 || depth == bb_order_depths(order) ||
	    bb_order_stage(order, depth) != data->stage)
		return -1;
	return depth / order->stages;
}

void bb_pipeline_compute(void *own, int rank, const struct bb_operation *operation)
{
	const struct bb_pipeline_data *data = own;
	int depth;
	const struct bb_pass pass = bb_order_pass(data->order, operation->item, &depth);
	const int m = pass.microbatch;
	const int before = stage_chunk(data, depth - 1), behind = stage_chunk(data, depth + 1);
	numbers *here = blocks_of(data, pass.chunk, m);

	if (pass.kind == BB_PASS_F) {
		if (depth == 0)
			make_input(data->seed, m, here[BLOCK_X]);
		else if (before >= 0)
			memcpy(here[BLOCK_X], blocks_of(data, before, m)[BLOCK_Y], BLOCK);
		part_forward(data->seed, depth, here[BLOCK_X], here[BLOCK_Y]);
	}
	if (pass.kind == BB_PASS_B || pass.kind == BB_PASS_BW) {
		if (depth == bb_order_depths(data->order) - 1)
			make_loss(here[BLOCK_Y], here[BLOCK_DY]);
		else if (behind >= 0)
			memcpy(here[BLOCK_DY], blocks_of(data, behind, m)[BLOCK_DX], BLOCK);
		backward_input(data->seed, depth, here[BLOCK_X], here[BLOCK_DY], here[BLOCK_DX],
			       here[BLOCK_G]);
	}
	if (pass.kind == BB_PASS_W || pass.kind == BB_PASS_BW)
		backward_weight(here[BLOCK_X], here[BLOCK_G], here[BLOCK_DW]);
}

/* A message carries the result of its pass, and arrives where the next chunk needs it. */
void bb_pipeline_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			 void **out)
{
	const struct bb_pipeline_data *data = own;
	int depth;
	const struct bb_pass pass = bb_order_pass(data->order, operation->item, &depth);
	const bool forward = pass.kind == BB_PASS_F;
	const int chunk = stage_chunk(data, forward ? depth + 1 : depth - 1), m = pass.microbatch;

	if (operation->act == BB_ACT_SEND)
		*in = blocks_of(data, pass.chunk, m)[forward ? BLOCK_Y : BLOCK_DX];
	else
		*out = blocks_of(data, chunk, m)[forward ? BLOCK_X : BLOCK_DY];
}

/* ---- comparison with one rank that computes all parts ---------------------------------------- */

/* The output of this stage's first microbatch. */
static int data_victims(void *own, void *victims[BB_MOST_VICTIMS])
{
	victims[0] = blocks_of(own, 0, 0)[BLOCK_Y];
	return 1;
}

/* Numbers of BLOCK of the part at DEPTH, if this stage has it, that differ from those EXPECTED. */
static uint64_t block_wrong(const struct bb_pipeline_data *data, int depth, int microbatch,
			    enum block block, const uint32_t *expected)
{
	const int chunk = stage_chunk(data, depth);
	uint64_t wrong = 0;

	for (int i = 0; i < N && chunk >= 0; i++)
		wrong += blocks_of(data, chunk, microbatch)[block][i] != expected[i];
	return wrong;
}

static bb_status data_verify(void *own, uint64_t *wrong)
{
	const struct bb_pipeline_data *data = own;
	const int depths = bb_order_depths(data->order);
	numbers *xs = calloc((size_t)depths + 1, sizeof(*xs));
	numbers dy, dx, g, dw;

	for (int m = 0; m < data->order->microbatches && xs; m++) {
		make_input(data->seed, m, xs[0]);
		for (int d = 0; d < depths; d++) {
			part_forward(data->seed, d, xs[d], xs[d + 1]);
			*wrong += block_wrong(data, d, m, BLOCK_Y, xs[d + 1]);
		}
		make_loss(xs[depths], dy);
		for (int d = depths - 1; d >= 0; d--) {
			backward_input(data->seed, d, xs[d], dy, dx, g);
			backward_weight(xs[d], g, dw);
			*wrong += block_wrong(data, d, m, BLOCK_DX, dx) +
				  block_wrong(data, d, m, BLOCK_DW, dw);
			memcpy(dy, dx, sizeof(dy));
		}
	}
	free(xs);
	return xs ? BB_OK : BB_EINTERNAL;
}

const struct bb_expectation bb_pipeline_expectation = {NULL, data_victims, data_verify};
