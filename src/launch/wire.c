#include "launch/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void bb_wire_send(struct bb_wire *wire, struct bb_frame *frame, const char *text, size_t length)
{
	ssize_t sent;

	if (wire->fd < 0 || wire->mute)
		return;
	frame->magic = BB_FRAME_MAGIC;
	frame->length = (uint16_t)(length < BB_NEWS_TEXT ? length : BB_NEWS_TEXT - 1);
	memcpy(frame->text, text, frame->length);
	do
		sent = send(wire->fd, frame, BB_FRAME_HEAD + frame->length,
			    MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent == (ssize_t)(BB_FRAME_HEAD + frame->length))
		return;
	/* Half a frame may be out. What the other side said may still be read. */
	wire->mute = true;
	shutdown(wire->fd, SHUT_WR);
}

/* Is what is there of the frame in order so far, and how long will it be? */
static bool is_frame(const struct bb_wire *wire, size_t *length)
{
	const struct bb_frame *frame = &wire->frame;

	*length = BB_FRAME_HEAD;
	if (wire->got < BB_FRAME_HEAD)
		return true;
	*length += frame->length;
	return frame->magic == BB_FRAME_MAGIC && frame->kind <= BB_FRAME_DATA &&
	       frame->kind != BB_NEWS_GONE && frame->length < BB_NEWS_TEXT && frame->inside <= 1 &&
	       frame->status >= BB_OK && frame->status <= BB_EDATA && frame->signal >= 0;
}

enum bb_heard bb_wire_receive(struct bb_wire *wire)
{
	size_t length;

	while (is_frame(wire, &length)) {
		ssize_t got;

		if (wire->got == length) {
			wire->frame.text[wire->frame.length] = '\0';
			wire->got = 0;
			return BB_HEARD_FRAME;
		}
		got = recv(wire->fd, (char *)&wire->frame + wire->got, length - wire->got,
			   MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return BB_HEARD_NOTHING;
		if (got <= 0)
			break;
		wire->got += (size_t)got;
	}
	return BB_HEARD_END;
}

void bb_wire_close(struct bb_wire *wire)
{
	if (wire->fd >= 0)
		close(wire->fd);
	wire->fd = -1;
}
