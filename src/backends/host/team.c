/*
 * Groups. The members' drivers open a group independently; the first makes the team, the others
 * join it. Memory that only some pairs need is mapped and left untouched until used.
 */
#include "backends/host/host.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A team and all that its members share lie in one mapping. */
static struct bb_host_team *team_new(const int *members, int n)
{
	const size_t size = (size_t)n;
	const size_t pipes = size * size * BB_CHANNELS * sizeof(struct bb_pipe);
	const size_t words = size * size * sizeof(struct bb_word);
	const size_t offers = size * sizeof(struct bb_host_offer);
	const size_t bells = size * sizeof(struct bb_bell);
	const size_t bytes = sizeof(struct bb_host_team) + pipes + words + offers + bells +
			     size * (sizeof(*members) + sizeof(bool));
	struct bb_host_team *team = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *at;

	if (team == MAP_FAILED)
		return NULL;
	at = (char *)(team + 1);
	team->bytes = bytes;
	team->n = n;
	team->pipes = (struct bb_pipe *)at;
	team->words = (struct bb_word *)(at += pipes);
	team->offers = (struct bb_host_offer *)(at += words);
	team->bells = (struct bb_bell *)(at += offers);
	team->members = (int *)(at += bells);
	team->has_joined = (bool *)(team->members + n);
	memcpy(team->members, members, size * sizeof(*members));
	return team;
}

/* The oldest team with these members that ME has not joined yet, made if there is none. */
static struct bb_host_team *team_join(struct bb_context *context, const int *members, int n, int me)
{
	struct bb_host_team **link, *team;

	pthread_mutex_lock(&context->lock);
	for (link = &context->teams; (team = *link) != NULL; link = &team->next)
		if (team->n == n && !team->has_joined[me] &&
		    memcmp(team->members, members, (size_t)n * sizeof(*members)) == 0)
			break;
	if (!team)
		team = *link = team_new(members, n);
	if (team)
		team->has_joined[me] = true;
	pthread_mutex_unlock(&context->lock);
	return team;
}

static void team_leave(struct bb_context *context, struct bb_host_team *team)
{
	struct bb_host_team **link;
	bool last;

	pthread_mutex_lock(&context->lock);
	last = ++team->left == team->n;
	for (link = &context->teams; last && *link; link = &(*link)->next) {
		if (*link != team)
			continue;
		*link = team->next;
		break;
	}
	pthread_mutex_unlock(&context->lock);
	if (last)
		munmap(team, team->bytes);
}

void bb_host_teams_free(struct bb_context *context)
{
	while (context->teams) {
		struct bb_host_team *team = context->teams;

		context->teams = team->next;
		munmap(team, team->bytes);
	}
}

bb_status bb_host_group_open(struct bb_rank *rank, const int *members, int n,
			     struct bb_group **group, struct bb_error *error)
{
	struct bb_group *g = calloc(1, sizeof(*g));
	const size_t lanes = (size_t)n * BB_CHANNELS;

	if (!g)
		goto no_memory;
	g->rank = rank;
	g->me = bb_member_index(members, n, rank->rank);
	if (g->me < 0) {
		free(g);
		return bb_fail(error, BB_EINTERNAL, "rank %d opens a group it is no member of",
			       rank->rank);
	}
	g->sent = calloc(lanes, sizeof(*g->sent));
	g->received = calloc(lanes, sizeof(*g->received));
	g->link_free = calloc((size_t)n, sizeof(*g->link_free));
	g->words = calloc((size_t)n, sizeof(*g->words));
	if (!g->sent || !g->received || !g->link_free || !g->words)
		goto no_memory;
	g->team = team_join(rank->context, members, n, g->me);
	if (!g->team)
		goto no_memory;
	*group = g;
	return BB_OK;
no_memory:
	bb_host_group_close(g);
	return bb_no_memory(error, "a group");
}

void bb_host_group_close(struct bb_group *group)
{
	if (!group)
		return;
	if (group->team)
		team_leave(group->rank->context, group->team);
	free(group->sent);
	free(group->received);
	free(group->link_free);
	free(group->words);
	bb_host_bounce_free(group);
	free(group);
}

bb_status bb_host_barrier(struct bb_group *group)
{
	struct bb_context *context = group->rank->context;
	struct bb_host_team *team = group->team;
	const uint32_t number = ++group->barriers;

	if (atomic_fetch_add(&team->barrier_arrived, 1) + 1 == number * (uint32_t)team->n) {
		bb_host_store(context, &team->barrier_opened, number);
		bb_host_wake(context, team->bells, team->n);
		return BB_OK;
	}
	return bb_host_wait(context, &team->bells[group->me], &team->barrier_opened, number);
}
