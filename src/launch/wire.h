/*
 * wire.h - one connection between two processes, and the frames that it carries.
 */
#pragma once

#include "core/payload.h"
#include "core/status.h"

enum bb_frame_kind {
	BB_FRAME_GOODBYE,
	BB_FRAME_FAILED,   /* to process 0: the sender failed with STATUS, TEXT says why */
	BB_FRAME_LEFT,     /* to process 0: the sender leaves because of SIGNAL */
	BB_FRAME_PROGRESS, /* to process 0: RANK of the sender has ENTERED that many collectives
			    and is still INSIDE the last one, or not */
	BB_FRAME_STOP, /* to the others: the run is over, with STATUS or because of SIGNAL (not 0);
			while the tcp launch opens, TEXT may say why the receiver is rejected */
	BB_FRAME_REQUEST, /* to the others: request for the progress of the receiver's ranks */
	BB_FRAME_DATA,    /* only in the tcp launch: ENTERED bytes of data follow */
	BB_FRAME_GONE     /* never sent: the other process ended without goodbye, or was
			   disconnected because of what TEXT says; the last frame of it */
};

#define BB_FRAME_TEXT BB_ERROR_TEXT
/* After the name of a process, if nothing says more. */
#define BB_FRAME_GONE_WHY "is gone: its process ended without reporting a cause"

/*
 * A frame as sent, in native byte order: all processes run the same program, and a different byte
 * order fails at the magic. TEXT has LENGTH bytes.
 */
struct bb_frame {
	uint32_t magic;
	uint16_t kind; /* enum bb_frame_kind */
	uint16_t length;
	int32_t status;
	int32_t signal;
	int32_t rank;
	uint32_t inside;
	uint64_t entered;
	char text[BB_FRAME_TEXT];
};

#define BB_FRAME_MAGIC 0x62624331u
#define BB_FRAME_HEAD offsetof(struct bb_frame, text)

/* One connection; zero-initialise, with fd -1. */
struct bb_wire {
	int fd;     /* non-blocking; -1: none */
	bool mute;  /* nothing more can be sent */
	size_t got; /* received bytes of FRAME */
	struct bb_frame frame;
	char why[BB_PAYLOAD_WHY]; /* "sent …": why a frame was invalid; else empty */
};

/* Data that is passed as far as it can be without waiting. */
enum bb_transit {
	BB_BROKEN = -1, /* the connection is closed or broken, or the data is invalid */
	BB_UNDER_WAY = 0,
	BB_COMPLETE = 1
};

/* Send FRAME with TEXT, cut at BB_FRAME_TEXT - 1 bytes; sets its magic and length. Never waits: a
   process that has not read for so long that its connection is full is given up. */
void bb_wire_send(struct bb_wire *wire, struct bb_frame *frame, const char *text);
/* Receive at most one frame into wire->frame, so that no data is buffered outside the socket; its
   text ends with NUL. After BB_BROKEN wire->why says why a frame was invalid. */
enum bb_transit bb_wire_receive(struct bb_wire *wire);
/* The same, but wait for it until END on the monotonic clock. */
enum bb_transit bb_wire_await(struct bb_wire *wire, double end);
/* Receive from the socket FD until *GOT of the BYTES of DATA have arrived. After BB_BROKEN errno is
   the reason. */
enum bb_transit bb_wire_fill(int fd, void *data, size_t bytes, size_t *got);
void bb_wire_close(struct bb_wire *wire); /* without a connection: nothing */
