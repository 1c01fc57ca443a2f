/*
 * graphs.h - the part of a backend that keeps what is issued to a queue, to be issued again as a
 * whole.
 */
#ifndef BB_BACKENDS_GRAPHS_H
#define BB_BACKENDS_GRAPHS_H

#include "core/status.h"

struct bb_rank;
struct bb_queue;
struct bb_graph; /* what was issued to a queue */

/*
 * Between begin and end, what is issued to QUEUE is not done but kept. launch issues all of it to
 * QUEUE, as often as it is called. No rank may wait for a queue in between. After an error there is
 * no graph.
 */
struct bb_graphs {
	bb_status (*begin)(struct bb_rank *rank, struct bb_queue *queue);
	bb_status (*end)(struct bb_rank *rank, struct bb_queue *queue, struct bb_graph **graph);
	bb_status (*launch)(struct bb_rank *rank, struct bb_queue *queue, struct bb_graph *graph);
	void (*close)(struct bb_graph *graph); /* NULL: nothing */
};

#endif
