/*
 * graphs.h - the part of a backend that records the work of a queue and replays it as a whole.
 */
#pragma once

#include "core/status.h"

struct bb_rank;
struct bb_queue;
struct bb_graph; /* recorded work of a queue */

/*
 * Between begin and end, work issued to QUEUE is recorded instead of done. Each call of launch
 * issues all of it to QUEUE. No rank may wait for a queue between begin and end. After an error
 * there is no graph.
 */
struct bb_graphs {
	bb_status (*begin)(struct bb_rank *rank, struct bb_queue *queue);
	bb_status (*end)(struct bb_rank *rank, struct bb_queue *queue, struct bb_graph **graph);
	bb_status (*launch)(struct bb_rank *rank, struct bb_queue *queue, struct bb_graph *graph);
	void (*close)(struct bb_graph *graph); /* NULL: nothing */
};
