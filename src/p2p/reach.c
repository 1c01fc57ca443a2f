/*
 * reach.c - which ranks each route connects: those of which neither refuses the other.
 */
#include "p2p/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON sizeof(((struct bb_reach *)NULL)->reason)

/* The answer of a rank about a route: the first reason, then for each peer whether it refuses. */
static void answer(const struct bb_backend *backend, struct bb_group *group,
		   const struct bb_route *route, int me, int n, char *mine)
{
	memset(mine, 0, REASON + (size_t)n);
	for (int peer = n - 1; peer >= 0; peer--) {
		const char *why = backend->routes->refuses(group, route, peer);

		mine[REASON + (size_t)peer] = why != NULL;
		if (why && peer != me)
			snprintf(mine, REASON, "%s", why);
	}
}

/* Write ONE from ALL answers of N ranks. */
static void judge(struct bb_reach *one, const char *all, int n)
{
	const size_t bytes = REASON + (size_t)n;

	for (int from = 0; from < n; from++)
		for (int to = 0; to < n; to++) {
			const char *a = all + (size_t)from * bytes, *b = all + (size_t)to * bytes;
			const bool by_a = a[REASON + (size_t)to], by_b = b[REASON + (size_t)from];

			one->connects[from * n + to] = !by_a && !by_b;
			if (from >= to || (!by_a && !by_b) || one->refused++ > 0)
				continue;
			one->from = from;
			one->to = to;
			memcpy(one->reason, by_a ? a : b, REASON);
		}
}

static int count(const struct bb_backend *backend)
{
	int n = 0;

	while (backend->routes->list[n].name)
		n++;
	return n;
}

bb_status bb_reach_find(struct bb_driver *driver, struct bb_run *run, struct bb_group *group,
			struct bb_reach **reach)
{
	const struct bb_backend *backend = run->options.backend;
	const int n = run->world.nranks, nroutes = count(backend);
	const size_t bytes = REASON + (size_t)n;
	const struct bb_payload_field fields[] = {
		{"the reason", BB_PAYLOAD_TEXT, 0, REASON, 1, 0, 0, 0},
		{"a refusal", BB_PAYLOAD_UNSIGNED, REASON, 1, (size_t)n, 1, 0, 1},
		{.name = NULL}};
	const struct bb_payload table = {"what it refuses", bytes, fields, NULL};
	char *mine = malloc(bytes);
	const void *all;
	bb_status status = BB_OK;

	*reach = calloc((size_t)nroutes, sizeof(**reach));
	for (int r = 0; r < nroutes && status == BB_OK; r++) {
		struct bb_reach *one = *reach ? &(*reach)[r] : NULL;

		if (one)
			one->connects = calloc((size_t)n * (size_t)n, sizeof(*one->connects));
		if (!mine || !one || !one->connects) {
			status = bb_no_memory(&run->error, "the ranks");
			break;
		}
		answer(backend, group, &backend->routes->list[r], driver->rank, n, mine);
		status = bb_crew_gather(driver, &table, mine, 1, &all);
		if (status == BB_OK)
			judge(one, all, n);
	}
	free(mine);
	return status;
}

void bb_reach_free(const struct bb_backend *backend, struct bb_reach *reach)
{
	for (int r = 0; reach && r < count(backend); r++)
		free(reach[r].connects);
	free(reach);
}
