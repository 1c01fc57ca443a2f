#include "memory/zero/ledger.h"

#include <stdlib.h>
#include <string.h>

struct bb_block {
	char *memory;
	size_t bytes; /* as the backend gave them */
	enum bb_holding holding;
	bool held, host;
};

uint64_t bb_books_held(const struct bb_books *books)
{
	uint64_t sum = 0;

	for (int h = 0; h < BB_HOLDINGS; h++)
		sum += books->holds[h];
	return sum;
}

uint64_t bb_books_fragmentation(const struct bb_books *books)
{
	return books->reserved - bb_books_held(books);
}

size_t bb_ledger_rounded(size_t bytes)
{
	const size_t page = bytes >= BB_LEDGER_HUGE ? BB_LEDGER_HUGE : BB_LEDGER_PAGE;

	return (bytes + page - 1) / page * page;
}

static struct bb_block *find_free(struct bb_ledger *l, size_t bytes, bool host)
{
	for (size_t i = 0; i < l->n; i++)
		if (!l->blocks[i].held && l->blocks[i].bytes == bytes && l->blocks[i].host == host)
			return &l->blocks[i];
	return NULL;
}

static bb_status make_room(struct bb_ledger *l)
{
	const size_t room = l->room ? 2 * l->room : 32;
	struct bb_block *blocks;

	if (l->n < l->room)
		return BB_OK;
	blocks = realloc(l->blocks, room * sizeof(*blocks));
	if (!blocks)
		return bb_fail(l->error, BB_EINTERNAL, "out of memory for a ledger");
	l->blocks = blocks;
	l->room = room;
	return BB_OK;
}

static bb_status add_block(struct bb_ledger *l, size_t bytes, bool host, struct bb_block **block)
{
	struct bb_block b = {.bytes = bytes, .host = host};
	bb_status status = make_room(l);

	if (status != BB_OK)
		return status;
	if (host)
		b.memory = aligned_alloc(BB_LEDGER_PAGE, bytes);
	else
		status = l->backend->alloc(l->rank, bytes, (void **)&b.memory);
	if (status != BB_OK || !b.memory)
		return bb_fail(l->error, status == BB_OK ? BB_EINTERNAL : status,
			       "cannot allocate %zu bytes%s, with %llu taken already", bytes,
			       host ? " of the host's memory" : "",
			       (unsigned long long)(host ? l->now.host : l->now.reserved));
	if (!host)
		l->now.reserved += bytes;
	l->blocks[l->n] = b;
	*block = &l->blocks[l->n++];
	return BB_OK;
}

bb_status bb_ledger_take(struct bb_ledger *l, enum bb_holding holding, size_t bytes, bool host,
			 struct bb_held *held)
{
	const size_t rounded = bb_ledger_rounded(bytes);
	struct bb_block *block = find_free(l, rounded, host);

	if (!block) {
		const bb_status status = add_block(l, rounded, host, &block);

		if (status != BB_OK)
			return status;
	}
	block->held = true;
	block->holding = holding;
	*held = (struct bb_held){block->memory, bytes, (size_t)(block - l->blocks)};
	*(host ? &l->now.host : &l->now.holds[holding]) += bytes;
	if (bb_books_held(&l->now) >= bb_books_held(&l->peak))
		l->peak = l->now;
	return BB_OK;
}

void bb_ledger_give(struct bb_ledger *l, struct bb_held *held)
{
	struct bb_block *block;

	if (!held->memory)
		return;
	block = &l->blocks[held->block];
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
