/*
 * Opening at every other process: connecting to process 0, and waiting for all to arrive.
 */
#include "launch/tcp_opening.h"

#include "core/clock.h"
#include "core/units.h"

#include <errno.h>
#include <poll.h>

/* All processes of a host see the same failure; one of them reports it. */
static bool reports_for_host(const struct bb_tcp_environment *e)
{
	return e->local <= 0 || (e->local == 1 && e->proc == 1);
}

static bb_status cannot_reach(struct bb_opening *o, const char *why, int reason,
			      struct bb_launch *launch)
{
	const struct bb_tcp_environment *e = o->environment;
	const bb_status status = reason == ENOKEY         ? BB_EUSAGE
				 : reason == EKEYREJECTED ? BB_EBACKEND
							  : BB_ETIMEOUT;
	char name[112], time[BB_UNIT_TEXT];

	launch->silent = !reports_for_host(e);
	bb_tcp_name(name, &o->star.identity.hello);
	if (reason == ENOKEY)
		return bb_fail(o->error, status,
			       "%s cannot join process 0 at %s, port %d (MASTER_ADDR, %s): %s",
			       name, e->master, e->port, e->source, why);
	return bb_fail(o->error, status,
		       "%s cannot reach process 0 at %s, port %d (MASTER_ADDR, %s) within %s, half "
		       "of -T: %s",
		       name, e->master, e->port, e->source,
		       bb_format_duration(time, o->request->timeout_s), why);
}

/*
 * Process 0 says whether the run starts; until then it waits for other processes. It does not wait
 * longer than this process has waited for it, and ends before -T does.
 */
static enum bb_received receive_process_0(struct bb_opening *o)
{
	struct bb_wire *wire = &o->tcp->wires[0];
	const double end = o->star.end + 0.9 * o->request->timeout_s;
	enum bb_received received;

	while ((received = bb_wire_receive(wire)) == BB_RECEIVED_NOTHING && bb_clock_now() < end)
		poll(&(struct pollfd){.fd = wire->fd, .events = POLLIN}, 1, 100);
	return received;
}

static bb_status await_start(struct bb_opening *o, struct bb_launch *launch)
{
	const struct bb_frame *frame = &o->tcp->wires[0].frame;
	const enum bb_received received = receive_process_0(o);
	char name[112];

	o->tcp->reports = received == BB_RECEIVED_FRAME && frame->inside;
	if (received == BB_RECEIVED_FRAME && frame->kind == BB_FRAME_DATA)
		return BB_OK;
	launch->silent = received == BB_RECEIVED_FRAME || !reports_for_host(o->environment);
	bb_tcp_name(name, &o->tcp->hello[0]);
	if (received == BB_RECEIVED_FRAME && frame->status != BB_OK && frame->length > 0) {
		launch->silent = false;
		return bb_fail(o->error, (bb_status)frame->status, "%s rejected this process: %s",
			       name, frame->text);
	}
	if (received == BB_RECEIVED_FRAME && frame->status != BB_OK)
		return bb_fail(o->error, (bb_status)frame->status, "process 0 ended the run");
	if (received == BB_RECEIVED_NOTHING)
		return bb_fail(o->error, BB_ETIMEOUT,
			       "%s did not report within -T whether all processes have arrived",
			       name);
	return bb_fail(o->error, BB_EBACKEND, "%s %s", name,
		       *o->tcp->wires[0].why ? o->tcp->wires[0].why : BB_NEWS_GONE_WHY);
}

bb_status bb_opening_join(struct bb_opening *o, struct bb_launch *launch)
{
	struct bb_address addresses[BB_STAR_ADDRESSES];
	struct bb_hello *there = &o->tcp->hello[0];
	const char *why;
	bb_status status;
	int error, n = bb_opening_resolve(o, addresses, &why);

	if (n == 0)
		return cannot_reach(o, why, 0, launch);
	error = bb_star_reach(&o->star, addresses, n, &o->tcp->wires[0].fd, there);
	if (error)
		return cannot_reach(o, bb_greet_explain(error), error, launch);
	status = bb_opening_compare(o, there, o->error);
	if (status == BB_OK)
		return await_start(o, launch);
	/* With a secret process 0 reports it and ends the run; else only this process ends. */
	launch->silent = o->star.identity.secret != NULL;
	return status;
}
