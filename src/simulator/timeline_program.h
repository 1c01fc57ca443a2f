/*
 * timeline_program.h - the evaluation of a program, for timeline_program.c and timeline_messages.c
 * alone.
 */
#ifndef BB_SIMULATOR_TIMELINE_PROGRAM_H
#define BB_SIMULATOR_TIMELINE_PROGRAM_H

#include "programs/seats.h"
#include "simulator/timeline_agenda.h"
#include "simulator/timeline_flows.h"

enum bb_queue_state {
	BB_QUEUE_IDLE, /* before its first operation, or past its last */
	BB_QUEUE_BUSY, /* the operation ends at a known time */
	/* Its message, on shared links: */
	BB_QUEUE_QUEUED,  /* waits until those before it have left */
	BB_QUEUE_LEAVING, /* begins to share its links at a known time */
	BB_QUEUE_SHARING, /* leaves at a time that messages on the same links may change */
	/* and on all links: */
	BB_QUEUE_COMING,  /* with ports: reaches the peer's port at a known time */
	BB_QUEUE_FLYING,  /* arrives at a known time */
	BB_QUEUE_LANDED,  /* waits for the receiver */
	BB_QUEUE_WAITING, /* for an event, a message or other members */
};

#define BB_NO_QUEUE (-1)

/* A message that a rank is to receive from a peer, together with others. */
enum bb_posted {
	BB_POSTED_NOT,   /* or its queue has reached the receive */
	BB_POSTED_OPEN,  /* not arrived yet */
	BB_POSTED_THERE, /* arrived, and its queue has not reached the receive */
};

struct bb_timeline_queue {
	enum bb_queue_state state;
	size_t index; /* of the operation */
	struct bb_operation operation;
	double from, to;     /* of the operation; TO is also the time of the queue's next event */
	int peer;            /* of a message, once it is known */
	int port;            /* with ports: the peer's port that it arrives at */
	double entry;        /* of a message: seconds on a port, alone */
	struct bb_flow flow; /* of a message on shared links */
	/* Neighbours in a line: messages landed on the same lane, or leaving the same rank. */
	int before, after;
};

struct bb_timeline_line {
	int first, last; /* numbers of queues, BB_NO_QUEUE */
};

struct bb_timeline {
	struct bb_link_model links;
	const struct bb_program *program;
	const struct bb_timeline_watch *watch;
	struct bb_timeline_performer performer;
	struct bb_error *error;
	struct bb_seats seats;
	struct bb_timeline_queue *queues; /* [rank * queues + queue] */
	struct bb_timeline_line *landed; /* [rank * lanes + lane]; behind: [rank], what leaves it */
	unsigned char **posted;  /* [rank * lanes + lane]: [peer] enum bb_posted; NULL: none yet */
	double *reached;         /* [rank * events + event]; NAN: not yet */
	double *out, *in;        /* [port]: when it is free again */
	struct bb_flows *flows;  /* over shared links; NULL: there are none */
	int **sources;           /* [rank]: [index] source of a receive from any; NULL: none yet */
	unsigned char *queue_of; /* of each operation: its queue; those of a rank begin at: */
	size_t *first;           /* [rank]; [nranks]: of all */
	size_t begun;            /* operations begun so far */
	uint64_t *calls;         /* [seat]: collectives that it has reached */
	struct bb_meeting **meetings; /* [group] */
	struct bb_choices choices;    /* of this evaluation, where links.choices is NULL */
	struct bb_agenda agenda;      /* of queues */
	double end;
};

static inline void bb_timeline_schedule(struct bb_timeline *p, int queue, enum bb_queue_state state,
					double time)
{
	p->queues[queue].state = state;
	p->queues[queue].to = time;
	bb_agenda_set(&p->agenda, queue, time);
}

static inline int bb_timeline_rank(const struct bb_timeline *p, int queue)
{
	return queue / p->program->queues;
}

/* Open the messages of QUEUES queues. BB_EINTERNAL: out of memory; close them all the same. */
BB_MUST bb_status bb_messages_open(struct bb_timeline *p, size_t queues);
void bb_messages_close(struct bb_timeline *p);

/* QUEUE has reached a send, or a receive. */
void bb_message_send(struct bb_timeline *p, int queue);
BB_MUST bb_status bb_message_receive(struct bb_timeline *p, int queue);
/* The next event of QUEUE's message has happened. */
BB_MUST bb_status bb_message_advance(struct bb_timeline *p, int queue);

#endif
