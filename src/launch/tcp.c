#include "launch/tcp.h"

#include "core/clock.h"
#include "core/strbuf.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* For the control channel to report the lost process and the cause. */
#define GONE_S 1.0

enum progress { UNDER_WAY, DONE, BROKEN };

/* ---- one transfer ---------------------------------------------------------------------- */

/* A call that moved nothing. */
static enum progress after(ssize_t moved)
{
	if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return UNDER_WAY;
	return BROKEN;
}

static enum progress push(struct bb_wire *wire, struct bb_tcp_transfer *t)
{
	const size_t head = BB_FRAME_HEAD;

	while (t->done < head + t->bytes) {
		const size_t skip = t->done < head ? t->done : head, sent = t->done - skip;
		struct iovec pieces[] = {
			{.iov_base = (char *)&t->head + skip, .iov_len = head - skip},
			{.iov_base = t->data + sent, .iov_len = t->bytes - sent},
		};
		const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = t->bytes ? 2 : 1};
		const ssize_t moved = sendmsg(wire->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (moved <= 0)
			return after(moved);
		t->done += (size_t)moved;
	}
	return DONE;
}

/* Receive the head of a transfer. BROKEN also for any other frame, which is then in WIRE->frame. */
static enum progress pull_head(struct bb_wire *wire, struct bb_tcp_transfer *t)
{
	const enum bb_received received = bb_wire_receive(wire);

	if (received == BB_RECEIVED_NOTHING)
		return UNDER_WAY;
	t->headed = received == BB_RECEIVED_FRAME && wire->frame.kind == BB_FRAME_DATA &&
		    wire->frame.entered == t->bytes;
	if (received == BB_RECEIVED_FRAME && wire->frame.kind == BB_FRAME_DATA && !t->headed)
		snprintf(wire->why, sizeof(wire->why),
			 "sent %" PRIu64 " bytes where %zu are expected", wire->frame.entered,
			 t->bytes);
	else if (received == BB_RECEIVED_FRAME && !t->headed)
		snprintf(wire->why, sizeof(wire->why), "sent a frame of kind %d instead of data",
			 wire->frame.kind);
	return t->headed ? DONE : BROKEN;
}

static enum progress pull(struct bb_wire *wire, struct bb_tcp_transfer *t)
{
	if (!t->headed) {
		const enum progress head = pull_head(wire, t);

		if (head != DONE)
			return head;
	}
	while (t->done < t->bytes) {
		const ssize_t moved =
			recv(wire->fd, t->data + t->done, t->bytes - t->done, MSG_DONTWAIT);

		if (moved <= 0)
			return after(moved);
		t->done += (size_t)moved;
	}
	return DONE;
}

/* ---- all of them ----------------------------------------------------------------------- */

const char *bb_tcp_name(char text[112], const struct bb_hello *hello)
{
	snprintf(text, 112, "process %d (%s, pid %d)", hello->proc, hello->host, hello->pid);
	return text;
}

void bb_tcp_send_stop(struct bb_tcp *tcp, bb_status status)
{
	struct bb_frame frame = {.kind = BB_NEWS_STOP, .status = (int32_t)status};

	for (int i = 0; i < tcp->nwires; i++)
		bb_wire_send(&tcp->wires[i], &frame, "", 0);
}

static bool is_stop(const struct bb_wire *wire)
{
	return wire->frame.kind == BB_NEWS_STOP && wire->frame.status != BB_OK;
}

/*
 * Elsewhere than at process 0: does process 0 say within SECONDS that the run is over? The frame
 * may have arrived while this process was sending.
 */
static bool receive_stop(struct bb_wire *wire, double seconds)
{
	if (wire->got == 0 && is_stop(wire))
		return true;
	return bb_wire_await(wire, bb_clock_now() + seconds) == BB_RECEIVED_FRAME && is_stop(wire);
}

/* The connection to process I is broken, or it sent invalid data. */
static bb_status lose(struct bb_launch *launch, int i)
{
	struct bb_tcp *tcp = launch->own;
	struct bb_wire *wire = &tcp->wires[i];
	const double end = bb_clock_now() + GONE_S;
	char name[112];

	snprintf(tcp->cause, sizeof(tcp->cause), "%s %s", bb_tcp_name(name, &tcp->hello[i]),
		 *wire->why ? wire->why : BB_NEWS_GONE_WHY);
	if (tcp->proc != 0 && receive_stop(wire, GONE_S)) {
		launch->silent = true;
		return (bb_status)wire->frame.status;
	}
	while (bb_clock_now() < end)
		poll(NULL, 0, 50);
	if (tcp->proc == 0)
		bb_tcp_send_stop(tcp, BB_EBACKEND);
	launch->silent = tcp->proc != 0 && !tcp->reports;
	launch->cause = tcp->cause;
	return BB_EBACKEND;
}

static void tcp_refuse(struct bb_launch *launch)
{
	struct bb_tcp *tcp = launch->own;

	if (tcp->proc == 0)
		bb_tcp_send_stop(tcp, BB_EBACKEND);
	else
		launch->silent = receive_stop(&tcp->wires[0], GONE_S) || !tcp->reports;
}

/* Complete all transfers with MOVE: push or pull. */
static bb_status carry(struct bb_launch *launch,
		       enum progress (*move)(struct bb_wire *, struct bb_tcp_transfer *),
		       short event)
{
	struct bb_tcp *tcp = launch->own;
	int left = 0;

	for (int i = 0; i < tcp->nwires; i++) {
		tcp->fds[i] =
			(struct pollfd){.fd = tcp->wires[i].fd, .events = event, .revents = event};
		atomic_store(&tcp->awaited[i], tcp->fds[i].fd >= 0);
		left += tcp->fds[i].fd >= 0;
	}
	for (;;) {
		for (int i = 0; i < tcp->nwires; i++) {
			enum progress progress;

			if (tcp->fds[i].fd < 0 || !tcp->fds[i].revents)
				continue;
			progress = move(&tcp->wires[i], &tcp->transfers[i]);
			if (progress == BROKEN)
				return lose(launch, i);
			if (progress == UNDER_WAY)
				continue;
			tcp->fds[i].fd = -1;
			atomic_store(&tcp->awaited[i], false);
			left--;
		}
		if (left == 0)
			return BB_OK;
		poll(tcp->fds, (nfds_t)tcp->nwires, -1);
	}
}

static bb_status send_all(struct bb_launch *launch, const void *data, size_t bytes)
{
	struct bb_tcp *tcp = launch->own;

	for (int i = 0; i < tcp->nwires; i++)
		tcp->transfers[i] = (struct bb_tcp_transfer){
			.data = (char *)(uintptr_t)data,
			.bytes = bytes,
			.head = {.magic = BB_FRAME_MAGIC, .kind = BB_FRAME_DATA, .entered = bytes},
		};
	return carry(launch, push, POLLOUT);
}

/* The BYTES of wire I go to data + i * BYTES. */
static bb_status receive_all(struct bb_launch *launch, void *data, size_t bytes)
{
	struct bb_tcp *tcp = launch->own;

	for (int i = 0; i < tcp->nwires; i++)
		tcp->transfers[i] = (struct bb_tcp_transfer){
			.data = bytes ? (char *)data + (size_t)i * bytes : NULL,
			.bytes = bytes,
		};
	return carry(launch, pull, POLLIN);
}

/* The bytes of all processes go to process 0, and from there ALL, or nothing, to all others. */
static bb_status tcp_gather(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			    bool everywhere)
{
	const size_t back = everywhere ? bytes * (size_t)launch->nprocs : 0;
	bb_status status;

	if (launch->proc != 0) {
		status = send_all(launch, mine, bytes);
		return status == BB_OK ? receive_all(launch, all, back) : status;
	}
	if (bytes > 0)
		memcpy(all, mine, bytes);
	status = receive_all(launch, all, bytes);
	return status == BB_OK ? send_all(launch, all, back) : status;
}

/* ---- the launch ------------------------------------------------------------------------ */

static bb_status tcp_barrier(struct bb_launch *launch)
{
	char nothing = 0;

	return tcp_gather(launch, &nothing, 0, &nothing, false);
}

/* Appends process I, which does not answer, and the address that it is connected from. */
static void name_awaited(const struct bb_tcp *tcp, int i, struct bb_strbuf *out)
{
	struct sockaddr_storage from;
	socklen_t length = sizeof(from);
	char name[112], host[NI_MAXHOST], port[NI_MAXSERV];

	bb_strbuf_add(out, bb_tcp_name(name, &tcp->hello[i]));
	if (getpeername(tcp->wires[i].fd, (struct sockaddr *)&from, &length) == 0 &&
	    getnameinfo((struct sockaddr *)&from, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		bb_strbuf_addf(out, " at %s, port %s", host, port);
}

static bool tcp_abandon(struct bb_launch *launch, char awaited[BB_LAUNCH_AWAITED])
{
	struct bb_tcp *tcp = launch->own;
	struct bb_strbuf who = {0};
	int n = 0;

	for (int i = 0; tcp->proc == 0 && i < tcp->nwires; i++) {
		if (!atomic_load(&tcp->awaited[i]) || n++ > 0)
			continue;
		name_awaited(tcp, i, &who);
	}
	if (n > 1)
		bb_strbuf_addf(&who, " and %d more", n - 1);
	if (n > 0)
		bb_strbuf_addf(&who, " %s not answer%s", n > 1 ? "do" : "does",
			       tcp->secured ? ""
					    : "; a stranger can claim a rank unless "
					      "" BB_SECRET_VARIABLE " is set");
	snprintf(awaited, BB_LAUNCH_AWAITED, "%s", bb_strbuf_text(&who));
	bb_strbuf_free(&who);
	if (tcp->proc == 0)
		bb_tcp_send_stop(tcp, BB_ETIMEOUT);
	return tcp->proc == 0 || tcp->reports;
}

struct bb_tcp *bb_tcp_new(int proc, int nprocs)
{
	struct bb_tcp *tcp = calloc(1, sizeof(*tcp));
	const int nwires = proc == 0 ? nprocs : 1;
	const size_t n = (size_t)nwires;

	if (!tcp)
		return NULL;
	*tcp = (struct bb_tcp){.proc = proc, .nprocs = nprocs};
	tcp->wires = calloc(n, sizeof(*tcp->wires));
	tcp->hello = calloc(n, sizeof(*tcp->hello));
	tcp->transfers = calloc(n, sizeof(*tcp->transfers));
	tcp->fds = calloc(n, sizeof(*tcp->fds));
	tcp->awaited = calloc(n, sizeof(*tcp->awaited));
	if (!tcp->wires || !tcp->hello || !tcp->transfers || !tcp->fds || !tcp->awaited) {
		bb_tcp_release(tcp);
		return NULL;
	}
	tcp->nwires = nwires;
	for (int i = 0; i < nwires; i++)
		tcp->wires[i].fd = -1;
	return tcp;
}

void bb_tcp_release(struct bb_tcp *tcp)
{
	if (!tcp)
		return;
	for (int i = 0; i < tcp->nwires && tcp->wires; i++)
		bb_wire_close(&tcp->wires[i]);
	free(tcp->wires);
	free(tcp->hello);
	free(tcp->transfers);
	free(tcp->fds);
	free(tcp->awaited);
	free(tcp);
}

/* A process that does not reach this barrier misses nothing. */
static void tcp_close(struct bb_launch *launch)
{
	(void)!tcp_barrier(launch);
	bb_tcp_release(launch->own);
}

struct bb_launch bb_tcp_launch(struct bb_tcp *tcp)
{
	return (struct bb_launch){
		.proc = tcp->proc,
		.nprocs = tcp->nprocs,
		.gather = tcp_gather,
		.barrier = tcp_barrier,
		.note = *tcp->note ? tcp->note : NULL,
		.close = tcp_close,
		.abandon = tcp_abandon,
		.refuse = tcp_refuse,
		.own = tcp,
	};
}
