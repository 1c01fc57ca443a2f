/*
 * Groups and their meshes. A thread of the process, the watchdog, aborts all meshes once the run is
 * being abandoned, because whoever waits in Gloo looks at nothing else.
 */
#include "backends/gloo/gloo.h"

#include "core/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- meshes ----------------------------------------------------------------------------- */

bb_status bb_gloo_member_open(struct bb_rank *rank, int me, int n,
			      struct bb_gloo_address *addresses, struct bb_gloo_member **member)
{
	struct bb_context *context = rank->context;
	struct bb_gloo_member *m = calloc(1, sizeof(*m));
	char why[BB_GLOO_WHY];

	if (!m)
		return bb_no_memory(context->cpu.error, "connections");
	if (!bb_gloo_mesh_open(rank->device, me, n, addresses, &m->mesh, why)) {
		free(m);
		return bb_gloo_failed(rank, "opening connections", why);
	}
	pthread_mutex_lock(&context->lock);
	m->next = context->meshes;
	context->meshes = m;
	pthread_mutex_unlock(&context->lock);
	*member = m;
	return BB_OK;
}

bb_status bb_gloo_member_connect(struct bb_rank *rank, struct bb_gloo_member *member,
				 const int *members, int n, const struct bb_gloo_address *addresses)
{
	char why[BB_GLOO_WHY], act[64];

	for (int i = 0; i < n; i++) {
		const int peer = members ? members[i] : i;

		if (peer == rank->rank || bb_gloo_mesh_connect(member->mesh, i, &addresses[i], why))
			continue;
		snprintf(act, sizeof(act), "connecting to rank %d", peer);
		return bb_gloo_failed(rank, act, why);
	}
	return BB_OK;
}

void bb_gloo_member_close(struct bb_rank *rank, struct bb_gloo_member *member)
{
	struct bb_context *context = rank->context;
	struct bb_gloo_member **at = &context->meshes;

	if (!member)
		return;
	pthread_mutex_lock(&context->lock);
	while (*at != member)
		at = &(*at)->next;
	*at = member->next;
	pthread_mutex_unlock(&context->lock);
	bb_gloo_mesh_close(member->mesh);
	free(member);
}

/* ---- the watchdog ------------------------------------------------------------------------ */

static void *watchdog_run(void *argument)
{
	struct bb_context *context = argument;

	pthread_mutex_lock(&context->lock);
	while (!context->closing) {
		if (bb_cpu_aborted(&context->cpu))
			for (struct bb_gloo_member *m = context->meshes; m; m = m->next)
				bb_gloo_mesh_abort(m->mesh);
		bb_clock_wait_moment(&context->changed, &context->lock);
	}
	pthread_mutex_unlock(&context->lock);
	return NULL;
}

bb_status bb_gloo_watchdog_open(struct bb_context *context, struct bb_error *error)
{
	context->has_watchdog =
		pthread_create(&context->watchdog, NULL, watchdog_run, context) == 0;
	return context->has_watchdog
		       ? BB_OK
		       : bb_fail(error, BB_EINTERNAL, "cannot start a thread of the gloo backend");
}

void bb_gloo_watchdog_close(struct bb_context *context)
{
	if (!context->has_watchdog)
		return;
	pthread_mutex_lock(&context->lock);
	context->closing = true;
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	pthread_join(context->watchdog, NULL);
}

/* ---- groups ------------------------------------------------------------------------------ */

/* Send ENDS[i] to member i and replace it by what that member sends, by messages of the world. */
static bb_status swap_ends(const struct bb_group *g, struct bb_gloo_address *ends)
{
	const uint64_t slot = bb_gloo_slot(BB_GLOO_OPENING, 0);
	struct bb_gloo_mesh *const world = g->port.rank->world->mesh;
	struct bb_gloo_address theirs;
	struct bb_gloo_request *sent, *received;
	char why[BB_GLOO_WHY];

	for (int i = 0; i < g->port.n; i++) {
		const int peer = g->port.members[i];

		if (i == g->port.me)
			continue;
		if (!bb_gloo_start(world, false, peer, slot, &theirs, sizeof(theirs), &received,
				   why) ||
		    !bb_gloo_start(world, true, peer, slot, &ends[i], sizeof(ends[i]), &sent,
				   why) ||
		    !bb_gloo_wait(received, NULL, why) || !bb_gloo_wait(sent, NULL, why))
			return bb_gloo_failed(g->port.rank, "opening a group", why);
		if (theirs.bytes > sizeof(theirs.data))
			return bb_gloo_failed(g->port.rank, "opening a group",
					      "a member sent no address");
		ends[i] = theirs;
	}
	return BB_OK;
}

static bb_status connect_group(struct bb_group *g)
{
	struct bb_gloo_address *ends = calloc((size_t)g->port.n, sizeof(*ends));
	bb_status status;

	if (!ends)
		return bb_no_memory(g->port.rank->context->cpu.error, "addresses");
	BB_TRY(status, bb_gloo_member_open(g->port.rank, g->port.me, g->port.n, ends, &g->member),
	       out);
	BB_TRY(status, swap_ends(g, ends), out);
	status = bb_gloo_member_connect(g->port.rank, g->member, g->port.members, g->port.n, ends);
out:
	free(ends);
	return status;
}

bb_status bb_gloo_group_open(struct bb_rank *rank, const int *members, int n,
			     struct bb_group **group, struct bb_error *error)
{
	struct bb_group *g = calloc(1, sizeof(*g));
	bb_status status;

	if (!g)
		return bb_no_memory(error, "a group");
	g->counts = calloc(2 * (size_t)n, sizeof(*g->counts));
	status = bb_port_open(&g->port, &bb_gloo_port_calls, rank, rank->hosts, members, n, error);
	if (status == BB_OK && !g->counts)
		status = bb_no_memory(error, "a group");
	if (status == BB_OK && n > 1)
		status = connect_group(g);
	if (status == BB_OK)
		*group = g;
	else
		bb_gloo_group_close(g);
	return status;
}

void bb_gloo_group_close(struct bb_group *group)
{
	if (!group)
		return;
	bb_gloo_member_close(group->port.rank, group->member);
	bb_port_close(&group->port);
	free(group->counts);
	free(group);
}

bb_status bb_gloo_group_barrier(struct bb_group *group)
{
	char why[BB_GLOO_WHY];

	if (bb_cpu_aborted(&group->port.rank->context->cpu))
		return BB_ETIMEOUT;
	if (group->port.n == 1 || bb_gloo_barrier(group->member->mesh, why))
		return BB_OK;
	return bb_gloo_failed(group->port.rank, "Gloo's barrier", why);
}
