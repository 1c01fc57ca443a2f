#include "launch/wire.h"

#include "core/clock.h"
#include "core/printable.h"

#include <errno.h>
#include <poll.h>
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
	/* Part of the frame may be sent already. Data of the other side can still be read. */
	wire->mute = true;
	shutdown(wire->fd, SHUT_WR);
}

static const struct bb_payload_field frame_fields[] = {
	BB_PAYLOAD_FIELD("the magic", BB_PAYLOAD_UNSIGNED, struct bb_frame, magic,
			 .low = BB_FRAME_MAGIC, .high = BB_FRAME_MAGIC),
	BB_PAYLOAD_FIELD("the kind", BB_PAYLOAD_UNSIGNED, struct bb_frame, kind,
			 .high = BB_FRAME_DATA),
	BB_PAYLOAD_FIELD("the length", BB_PAYLOAD_UNSIGNED, struct bb_frame, length,
			 .high = BB_NEWS_TEXT - 1),
	BB_PAYLOAD_FIELD("the status", BB_PAYLOAD_STATUS, struct bb_frame, status),
	BB_PAYLOAD_FIELD("the signal", BB_PAYLOAD_SIGNAL, struct bb_frame, signal),
	BB_PAYLOAD_FIELD("the rank", BB_PAYLOAD_SIGNED, struct bb_frame, rank, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the mark of who is inside", BB_PAYLOAD_UNSIGNED, struct bb_frame, inside,
			 .high = 1),
	BB_PAYLOAD_FIELD("the number of collectives", BB_PAYLOAD_ANY, struct bb_frame, entered),
	{.name = NULL}};

/* A failure has a status, a process that leaves has a signal; BB_NEWS_GONE is never sent. */
static bool frame_fits(const void *payload)
{
	const struct bb_frame *frame = payload;

	switch ((enum bb_news_kind)frame->kind) {
	case BB_NEWS_FAILED:
		return frame->status != BB_OK;
	case BB_NEWS_LEFT:
		return frame->signal != 0;
	case BB_NEWS_STOP:
		return frame->status != BB_OK || frame->signal != 0;
	case BB_NEWS_GONE:
		return false;
	case BB_NEWS_NONE:
	case BB_NEWS_PROGRESS:
	case BB_NEWS_REQUEST:
		break;
	}
	return true;
}

static const struct bb_payload frame_table = {"a frame", BB_FRAME_HEAD, frame_fields, frame_fits};

/* Length of the frame being received; 0: its head is invalid. */
static size_t frame_length(struct bb_wire *wire)
{
	if (wire->got < BB_FRAME_HEAD)
		return BB_FRAME_HEAD;
	if (wire->got == BB_FRAME_HEAD && !bb_payload_decode(&frame_table, &wire->frame, wire->why))
		return 0;
	return BB_FRAME_HEAD + wire->frame.length;
}

enum bb_received bb_wire_receive(struct bb_wire *wire)
{
	size_t length;

	while ((length = frame_length(wire)) > 0) {
		ssize_t got;

		if (wire->got == length) {
			wire->frame.text[wire->frame.length] = '\0';
			bb_printable_clean_sentence(wire->frame.text);
			wire->got = 0;
			return BB_RECEIVED_FRAME;
		}
		got = recv(wire->fd, (char *)&wire->frame + wire->got, length - wire->got,
			   MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return BB_RECEIVED_NOTHING;
		if (got <= 0)
			break;
		wire->got += (size_t)got;
	}
	return BB_RECEIVED_END;
}

enum bb_received bb_wire_await(struct bb_wire *wire, double end)
{
	enum bb_received received;

	while ((received = bb_wire_receive(wire)) == BB_RECEIVED_NOTHING && bb_clock_now() < end)
		poll(&(struct pollfd){.fd = wire->fd, .events = POLLIN}, 1, 50);
	return received;
}

void bb_wire_close(struct bb_wire *wire)
{
	if (wire->fd >= 0)
		close(wire->fd);
	wire->fd = -1;
}
