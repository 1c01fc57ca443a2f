/*
 * wire.h - one connection between two processes, and the frames that it carries.
 */
#ifndef BB_LAUNCH_WIRE_H
#define BB_LAUNCH_WIRE_H

#include "core/payload.h"
#include "launch/control.h"

#include <stddef.h>

/*
 * A frame as sent, in native byte order: all processes run the same program, and a different byte
 * order fails at the magic. TEXT has LENGTH bytes. A goodbye has kind BB_NEWS_NONE.
 */
struct bb_frame {
	uint32_t magic;
	uint16_t kind; /* enum bb_news_kind, BB_FRAME_DATA */
	uint16_t length;
	int32_t status;
	int32_t signal;
	int32_t rank;
	uint32_t inside;
	uint64_t entered;
	char text[BB_NEWS_TEXT];
};

/* Only in the tcp launch: ENTERED bytes of data follow the frame. */
#define BB_FRAME_DATA (BB_NEWS_GONE + 1)

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

enum bb_received {
	BB_RECEIVED_NOTHING,
	BB_RECEIVED_FRAME, /* a whole, valid frame; its text ends with NUL */
	BB_RECEIVED_END    /* closed, broken, or an invalid frame (WHY) */
};

/* Send FRAME with LENGTH bytes of TEXT; sets its magic and length. Never waits. */
void bb_wire_send(struct bb_wire *wire, struct bb_frame *frame, const char *text, size_t length);
/* Receive at most one frame into wire->frame, so that no data is buffered outside the socket. */
enum bb_received bb_wire_receive(struct bb_wire *wire);
/* The same, but wait for it until END on the monotonic clock. */
enum bb_received bb_wire_await(struct bb_wire *wire, double end);
void bb_wire_close(struct bb_wire *wire); /* without a connection: nothing */

#endif
