/*
 * timeline_play.h - a program being played: what timeline_program.c and timeline_messages.c have in
 * common. Known to these alone.
 */
#ifndef BB_SIMULATOR_TIMELINE_PLAY_H
#define BB_SIMULATOR_TIMELINE_PLAY_H

#include "programs/seats.h"
#include "simulator/timeline_agenda.h"
#include "simulator/timeline_flows.h"

enum bb_queue_state {
	BB_QUEUE_IDLE, /* before its first operation, or past its last */
	BB_QUEUE_BUSY, /* the operation ends at a time that is known */
	/* Its message, where ways are shared: */
	BB_QUEUE_QUEUED,  /* waits until those before it have left */
	BB_QUEUE_LEAVING, /* begins to share its way at a time that is known */
	BB_QUEUE_SHARING, /* has left at a time that those who share its way may change */
	/* and everywhere: */
	BB_QUEUE_COMING,  /* with ports, comes to the peer at a time that is known */
	BB_QUEUE_FLYING,  /* arrives at a time that is known */
	BB_QUEUE_LANDED,  /* waits for the receiver */
	BB_QUEUE_WAITING, /* for an event, a message or other members */
};

#define BB_NO_QUEUE (-1)

/* A message that a rank is to receive from a peer, together with others. */
enum bb_posted {
	BB_POSTED_NOT,   /* or its queue has come to it */
	BB_POSTED_OPEN,  /* not there yet */
	BB_POSTED_THERE, /* its sender is done, its queue has not come to it */
};

struct bb_timeline_queue {
	enum bb_queue_state state;
	size_t index; /* of the operation; then of the next to look at */
	struct bb_operation operation;
	double from, to;     /* of the operation; TO is when the queue's event ahead is */
	int peer;            /* of a message, once it is known */
	int port;            /* with ports: of those that the peer may be reached by */
	double entry;        /* of a message: how long it takes to leave, and to come in, alone */
	struct bb_flow flow; /* of one that may share its way */
	/* The other queues of the line: landed on the same lane, or to leave the same rank. */
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
	double *out, *in;        /* [port]: when the way is free again */
	struct bb_flows *flows;  /* over ways that are shared; NULL: none is */
	int **heard;             /* [rank]: [index] who was heard from; NULL: nobody yet */
	unsigned char *queue_of; /* of each operation: its queue; those of a rank begin at: */
	size_t *first;           /* [rank]; [nranks]: of all */
	size_t begun;            /* of all, so far */
	uint64_t *calls;         /* [seat]: collectives that it has come to */
	struct bb_meeting **meetings; /* [group] */
	struct bb_choices choices;    /* of this play alone, where nobody keeps them */
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

/* Room for the messages of QUEUES queues. BB_EINTERNAL without memory. Close it all the same. */
BB_MUST bb_status bb_messages_open(struct bb_timeline *p, size_t queues);
void bb_messages_close(struct bb_timeline *p);

/* QUEUE has come to send, or to receive. */
void bb_message_send(struct bb_timeline *p, int queue);
BB_MUST bb_status bb_message_receive(struct bb_timeline *p, int queue);
/* What was ahead of the message of QUEUE has happened. */
BB_MUST bb_status bb_message_go_on(struct bb_timeline *p, int queue);

#endif
