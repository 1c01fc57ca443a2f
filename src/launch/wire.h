/*
 * wire.h - one connection between two processes, and the frames that it carries.
 */
#ifndef BB_LAUNCH_WIRE_H
#define BB_LAUNCH_WIRE_H

#include "core/payload.h"
#include "launch/control.h"

#include <stddef.h>

/*
 * As it travels, in the words of the machine: all processes run the same program, and one that
 * orders its bytes differently fails at the magic. TEXT is as long as LENGTH says. A goodbye is of
 * kind BB_NEWS_NONE.
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

/* Of the tcp launch: ENTERED bytes follow that are no frame. */
#define BB_FRAME_DATA (BB_NEWS_GONE + 1)

#define BB_FRAME_MAGIC 0x62624331u
#define BB_FRAME_HEAD offsetof(struct bb_frame, text)

/* One connection; zero-initialise, with fd -1. */
struct bb_wire {
	int fd;     /* non-blocking; -1: none */
	bool mute;  /* nothing can be sent any more */
	size_t got; /* bytes of FRAME that are there */
	struct bb_frame frame;
	char why[BB_PAYLOAD_WHY]; /* it ended: "sent …", what was no valid frame; else empty */
};

enum bb_heard {
	BB_HEARD_NOTHING,
	BB_HEARD_FRAME, /* a whole one, valid in itself; its text ends with NUL */
	BB_HEARD_END    /* closed, broken, or what came is no valid frame (WHY) */
};

/* Send LENGTH bytes of TEXT behind the head of FRAME, whose magic and length it sets. */
void bb_wire_send(struct bb_wire *wire, struct bb_frame *frame, const char *text, size_t length);
/* Never more than one frame, so that nothing waits unseen outside the socket. */
enum bb_heard bb_wire_receive(struct bb_wire *wire);
void bb_wire_close(struct bb_wire *wire); /* none: nothing */

#endif
