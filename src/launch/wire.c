#include "launch/wire.h"

#include "core/clock.h"
#include "core/printable.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void bb_wire_send(struct bb_wire *wire, struct bb_frame *frame, const char *text)
{
	const size_t length = strlen(text);
	ssize_t sent;

	if (wire->fd < 0 || wire->mute)
		return;
	frame->magic = BB_FRAME_MAGIC;
	frame->length = (uint16_t)(length < BB_FRAME_TEXT ? length : BB_FRAME_TEXT - 1);
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
			 .high = BB_FRAME_TEXT - 1),
	BB_PAYLOAD_FIELD("the status", BB_PAYLOAD_STATUS, struct bb_frame, status),
	BB_PAYLOAD_FIELD("the signal", BB_PAYLOAD_SIGNAL, struct bb_frame, signal),
	BB_PAYLOAD_FIELD("the rank", BB_PAYLOAD_SIGNED, struct bb_frame, rank, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the mark of who is inside", BB_PAYLOAD_UNSIGNED, struct bb_frame, inside,
			 .high = 1),
	BB_PAYLOAD_FIELD("the number of collectives", BB_PAYLOAD_ANY, struct bb_frame, entered),
	{.name = NULL}};

/* A failure has a status, a process that leaves has a signal, the end of a run has one of them. */
static bool frame_fits(const void *payload)
{
	const struct bb_frame *frame = payload;
	const bool failed = frame->status != BB_OK, signalled = frame->signal != 0;

	return frame->kind == BB_FRAME_FAILED ? failed
	       : frame->kind == BB_FRAME_LEFT ? signalled
					      : frame->kind != BB_FRAME_STOP || failed || signalled;
}

static const struct bb_payload frame_table = {"a frame", BB_FRAME_HEAD, frame_fields, frame_fits};

enum bb_transit bb_wire_fill(int fd, void *data, size_t bytes, size_t *got)
{
	while (*got < bytes) {
		const ssize_t more = recv(fd, (char *)data + *got, bytes - *got, MSG_DONTWAIT);

		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return BB_UNDER_WAY;
		if (more == 0)
			errno = ECONNRESET;
		if (more <= 0)
			return BB_BROKEN;
		*got += (size_t)more;
	}
	return BB_COMPLETE;
}

enum bb_transit bb_wire_receive(struct bb_wire *wire)
{
	struct bb_frame *const frame = &wire->frame;
	enum bb_transit transit = BB_COMPLETE;

	/* A head that broke the wire is no frame's when read again. */
	if (wire->got <= BB_FRAME_HEAD) {
		transit = bb_wire_fill(wire->fd, frame, BB_FRAME_HEAD, &wire->got);
		if (transit == BB_COMPLETE && !bb_payload_decode(&frame_table, frame, wire->why))
			transit = BB_BROKEN;
	}
	if (transit == BB_COMPLETE)
		transit = bb_wire_fill(wire->fd, frame, BB_FRAME_HEAD + frame->length, &wire->got);
	if (transit != BB_COMPLETE)
		return transit;
	frame->text[frame->length] = '\0';
	bb_printable_clean_sentence(frame->text);
	wire->got = 0;
	return BB_COMPLETE;
}

enum bb_transit bb_wire_await(struct bb_wire *wire, double end)
{
	enum bb_transit transit;

	while ((transit = bb_wire_receive(wire)) == BB_UNDER_WAY && bb_clock_now() < end)
		poll(&(struct pollfd){.fd = wire->fd, .events = POLLIN}, 1, 50);
	return transit;
}

void bb_wire_close(struct bb_wire *wire)
{
	if (wire->fd >= 0)
		close(wire->fd);
	wire->fd = -1;
}
