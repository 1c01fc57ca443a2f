/*
 * dataless.h - functions of the tables of backends without data (has_data of backend.h).
 */
#pragma once

#include "backends/backend.h"

/* Stands for every buffer: it provides an address, and its contents are never used. */
static const _Alignas(4096) char bb_dataless_page[4096];

static inline uint64_t bb_dataless_memory_available(struct bb_context *context)
{
	return UINT64_MAX;
}

static inline void bb_dataless_detach(struct bb_rank *rank)
{
}

static inline bb_status bb_dataless_alloc(struct bb_rank *rank, size_t bytes, void **memory)
{
	*memory = (void *)bb_dataless_page;
	return BB_OK;
}

static inline void bb_dataless_release(struct bb_rank *rank, void *memory, size_t bytes)
{
}

static inline bb_status bb_dataless_copy(struct bb_rank *rank, void *dst, const void *src,
					 size_t bytes)
{
	return BB_OK;
}

static inline bb_status bb_dataless_fill(struct bb_rank *rank, void *dst,
					 const struct bb_pattern *pattern, size_t first,
					 size_t count)
{
	return BB_OK;
}

static inline bb_status bb_dataless_verify(struct bb_rank *rank, const void *got,
					   const struct bb_pattern *pattern, size_t first,
					   size_t count, enum bb_dtype dtype, int ulps,
					   uint64_t *wrong)
{
	return BB_OK;
}

static inline size_t bb_dataless_tmp_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

static inline double bb_dataless_cost_bytes(struct bb_group *group, const struct bb_call *call)
{
	return 0;
}

static inline void bb_dataless_queue_close(struct bb_queue *queue)
{
}

static inline void bb_dataless_event_close(struct bb_event *event)
{
}

static inline bb_status bb_dataless_event(struct bb_rank *rank, struct bb_queue *queue,
					  struct bb_event *event)
{
	return BB_OK;
}

static inline bb_status bb_dataless_finish(struct bb_rank *rank, struct bb_queue *queue)
{
	return BB_OK;
}

/* Entries of struct bb_backend that are alike in all backends without data. */
#define BB_DATALESS_ENTRIES                                                                        \
	.memory_available = bb_dataless_memory_available, .detach = bb_dataless_detach,            \
	.alloc = bb_dataless_alloc, .release = bb_dataless_release, .copy = bb_dataless_copy,      \
	.fill = bb_dataless_fill, .verify = bb_dataless_verify,                                    \
	.tmp_bytes = bb_dataless_tmp_bytes, .cost_bytes = bb_dataless_cost_bytes,                  \
	.queue_close = bb_dataless_queue_close, .event_close = bb_dataless_event_close,            \
	.event_record = bb_dataless_event, .event_wait = bb_dataless_event,                        \
	.finish = bb_dataless_finish
