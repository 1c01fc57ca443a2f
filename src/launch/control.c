#include "launch/control_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- receiving --------------------------------------------------------------------- */

static bool is_for_me(const struct bb_control *control, const struct bb_frame *frame)
{
	switch ((enum bb_news_kind)frame->kind) {
	case BB_NEWS_NONE:
		return true;
	case BB_NEWS_FAILED:
	case BB_NEWS_LEFT:
	case BB_NEWS_PROGRESS:
		return control->proc == 0;
	case BB_NEWS_STOP:
	case BB_NEWS_REQUEST:
		return control->proc != 0;
	case BB_NEWS_GONE:
		break;
	}
	return false;
}

static void read_frame(const struct bb_frame *frame, struct bb_news *news)
{
	news->kind = (enum bb_news_kind)frame->kind;
	news->status = (bb_status)frame->status;
	news->signal = frame->signal;
	news->rank = frame->rank;
	news->entered = frame->entered;
	news->inside = frame->inside;
	memcpy(news->text, frame->text, (size_t)frame->length + 1);
}

/* Receive from WIRE; false: no news. */
static bool receive_from(const struct bb_control *control, struct bb_wire *wire,
			 struct bb_news *news)
{
	enum bb_received received = wire->fd < 0 ? BB_RECEIVED_NOTHING : bb_wire_receive(wire);

	if (received == BB_RECEIVED_NOTHING)
		return false;
	if (received == BB_RECEIVED_FRAME && is_for_me(control, &wire->frame))
		read_frame(&wire->frame, news);
	else
		news->kind = BB_NEWS_GONE;
	if (news->kind == BB_NEWS_GONE)
		snprintf(news->text, sizeof(news->text), "%s",
			 received == BB_RECEIVED_END ? wire->why
						     : "sent a frame of another process");
	if (news->kind == BB_NEWS_NONE || news->kind == BB_NEWS_GONE)
		bb_wire_close(wire);
	news->proc = (int)(wire - control->wires);
	return news->kind != BB_NEWS_NONE;
}

void bb_control_poll(struct bb_control *control, struct bb_news *news)
{
	const int most = sizeof(control->events) / sizeof(control->events[0]);

	memset(news, 0, sizeof(*news));
	while (control) {
		while (control->next < control->nevents)
			if (receive_from(control, control->events[control->next++].data.ptr, news))
				return;
		control->next = 0;
		control->nevents = epoll_wait(control->epoll, control->events, most, 0);
		if (control->nevents <= 0) {
			control->nevents = 0;
			return;
		}
	}
}

bool bb_control_reaches(const struct bb_control *control, int proc)
{
	return control && proc < control->nwires && control->wires[proc].fd >= 0;
}

/* ---- sending ---------------------------------------------------------------------- */

static void send_all(struct bb_control *control, struct bb_frame *frame, const char *text)
{
	if (!control)
		return;
	for (int i = 0; i < control->nwires; i++)
		bb_wire_send(&control->wires[i], frame, text, strlen(text));
}

void bb_control_send_failed(struct bb_control *control, bb_status status, const char *text)
{
	struct bb_frame frame = {.kind = BB_NEWS_FAILED, .status = (int32_t)status};

	send_all(control, &frame, text);
}

void bb_control_send_left(struct bb_control *control, int signal)
{
	struct bb_frame frame = {.kind = BB_NEWS_LEFT, .signal = signal};

	send_all(control, &frame, "");
}

void bb_control_send_progress(struct bb_control *control, int rank, uint64_t entered, bool inside)
{
	struct bb_frame frame = {
		.kind = BB_NEWS_PROGRESS, .rank = rank, .entered = entered, .inside = inside};

	send_all(control, &frame, "");
}

void bb_control_send_stop(struct bb_control *control, bb_status status, int signal)
{
	struct bb_frame frame = {.kind = BB_NEWS_STOP, .status = (int32_t)status, .signal = signal};

	send_all(control, &frame, "");
}

void bb_control_request_progress(struct bb_control *control)
{
	struct bb_frame frame = {.kind = BB_NEWS_REQUEST};

	send_all(control, &frame, "");
}

/* ---- closing --------------------------------------------------------------------------- */

void bb_control_release(struct bb_control *control)
{
	if (!control)
		return;
	for (int i = 0; i < control->nwires; i++)
		bb_wire_close(&control->wires[i]);
	if (control->epoll >= 0)
		close(control->epoll);
	free(control->wires);
	free(control);
}

/* Closing a socket with unread data resets the connection, and the data just sent is lost. */
static void drain(const struct bb_wire *wire)
{
	char waste[4096];

	while (wire->fd >= 0 && recv(wire->fd, waste, sizeof(waste), MSG_DONTWAIT) > 0)
		;
}

void bb_control_close(struct bb_control *control)
{
	struct bb_frame frame = {.kind = BB_NEWS_NONE};

	send_all(control, &frame, "");
	for (int i = 0; control && i < control->nwires; i++)
		drain(&control->wires[i]);
	bb_control_release(control);
}
