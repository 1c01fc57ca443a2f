#include "training_kernels/zero/ledger.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>

struct bb_block {
	char *memory;
	size_t bytes; /* as allocated */
	enum bb_holding holding;
	bool held, host;
};

uint64_t bb_usage_held(const struct bb_usage *usage)
{
	uint64_t sum = 0;

	for (int h = 0; h < BB_HOLDINGS; h++)
		sum += usage->holds[h];
	return sum;
}

uint64_t bb_usage_fragmentation(const struct bb_usage *usage)
{
	return usage->reserved - bb_usage_held(usage);
}

size_t bb_ledger_rounded(size_t bytes)
{
	const size_t page = bytes >= BB_LEDGER_HUGE ? BB_LEDGER_HUGE : BB_LEDGER_PAGE;

	return (bytes + page - 1) / page * page;
}

bb_status bb_ledger_acquire(struct bb_ledger *l, enum bb_holding holding, size_t bytes, bool host,
			    struct bb_held *held)
{
	const size_t rounded = bb_ledger_rounded(bytes);
	bb_status status = BB_OK;
	struct bb_block *block;
	void *memory = NULL;
	size_t i = 0;

	while (i < l->n &&
	       (l->blocks[i].held || l->blocks[i].bytes != rounded || l->blocks[i].host != host))
		i++;
	if (i == l->n) {
		block = BB_ARRAY_ADD(l->blocks, l->n, l->room);
		if (!block)
			return bb_no_memory(l->error, "a ledger");
		if (host)
			memory = aligned_alloc(BB_LEDGER_PAGE, rounded);
		else
			status = l->backend->alloc(l->rank, rounded, &memory);
		if (status != BB_OK || !memory) {
			l->n--;
			return bb_fail(l->error, status == BB_OK ? BB_EINTERNAL : status,
				       "cannot allocate %zu bytes%s beside the %ju already "
				       "allocated",
				       rounded, host ? " of the host's memory" : "",
				       host ? l->now.host : l->now.reserved);
		}
		*block = (struct bb_block){.memory = memory, .bytes = rounded, .host = host};
		l->now.reserved += host ? 0 : rounded;
	}
	block = &l->blocks[i];
	block->held = true;
	block->holding = holding;
	*held = (struct bb_held){block->memory, bytes, i};
	*(host ? &l->now.host : &l->now.holds[holding]) += bytes;
	if (bb_usage_held(&l->now) >= bb_usage_held(&l->peak))
		l->peak = l->now;
	return BB_OK;
}

void bb_ledger_release(struct bb_ledger *l, struct bb_held *held)
{
	if (!held->memory)
		return;
	struct bb_block *const block = &l->blocks[held->block];
	block->held = false;
	*(block->host ? &l->now.host : &l->now.holds[block->holding]) -= held->bytes;
	memset(held, 0, sizeof(*held));
}

void bb_ledger_close(struct bb_ledger *l)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->blocks[i].host)
			free(l->blocks[i].memory);
		else
			l->backend->release(l->rank, l->blocks[i].memory, l->blocks[i].bytes);
	}
	free(l->blocks);
	l->blocks = NULL;
	l->n = l->room = 0;
}
