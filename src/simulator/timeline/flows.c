#include "simulator/timeline/links.h"

enum side { OUT, IN, SIDES };

#define MOST (SIDES * BB_LEVELS) /* shared links of one flow */

/* One shared link. */
struct shared_link {
	double second_per_byte;
	int users;
	struct use *first;
};

struct flow {
	double second_per_byte, factor; /* alone */
	double pace;                    /* seconds per byte now */
	double left, since;             /* bytes, and when that was so */
	int n;
	struct use {
		struct shared_link *link;
		struct flow *flow;
		struct use *next, **back; /* of the link's users */
	} uses[MOST];
};

struct bb_flows {
	const struct bb_fabric *fabric;
	struct bb_flows_watch watch;
	struct shared_link *links[SIDES][BB_LEVELS]; /* NULL: not shared */
	struct flow *flows;
};

struct bb_flows *bb_flows_open(const struct bb_link_model *model, struct bb_slabs *slabs,
			       size_t count, const struct bb_flows_watch *watch)
{
	struct bb_flows *f;

	if (!BB_TAKE_ZEROED(slabs, f, 1))
		return NULL;
	f->fabric = model->fabric;
	f->watch = *watch;
	BB_TAKE_ZEROED(slabs, f->flows, count);
	for (int i = 0; i < MOST; i++) {
		const enum bb_fabric_level level = i % BB_LEVELS;

		if (level != BB_LEVEL_MEMORY && bb_fabric_shares(f->fabric, level))
			BB_TAKE_ZEROED(slabs, f->links[i / BB_LEVELS][level],
				       bb_fabric_shared_count(f->fabric, level));
	}
	return f;
}

/* ---- pace ----------------------------------------------------------------------------- */

static void set_pace(struct bb_flows *f, struct flow *flow, double now)
{
	const int number = (int)(flow - f->flows);
	double pace = flow->second_per_byte;

	for (int i = 0; i < flow->n; i++) {
		const struct shared_link *link = flow->uses[i].link;

		pace = fmax(pace, link->users * link->second_per_byte);
	}
	pace *= flow->factor;
	if (pace == flow->pace)
		return;
	if (flow->pace > 0)
		flow->left = fmax(0, flow->left - (now - flow->since) / flow->pace);
	flow->pace = pace;
	flow->since = now;
	f->watch.ends(f->watch.own, number, now + flow->left * pace);
}

/* Of all flows that share a link with FLOW. */
static void set_paces(struct bb_flows *f, const struct flow *flow, double now)
{
	for (int i = 0; i < flow->n; i++)
		for (struct use *user = flow->uses[i].link->first; user; user = user->next)
			set_pace(f, user->flow, now);
}

/* ---- joining and leaving -------------------------------------------------------------- */

void bb_flows_join(struct bb_flows *f, int number, const struct bb_flow *what, double now)
{
	struct flow *flow = &f->flows[number];

	*flow = (struct flow){.second_per_byte = what->route.second_per_byte,
			      .factor = what->factor,
			      .pace = NAN,
			      .left = what->bytes};
	for (int i = 0; i < MOST; i++) {
		const enum side side = i / BB_LEVELS;
		const enum bb_fabric_level level = i % BB_LEVELS;
		const int rank = side == OUT ? what->from : what->to;
		const int rail = side == OUT ? what->route.out_rail : what->route.in_rail;
		struct shared_link *link = f->links[side][level];
		struct use *use = &flow->uses[flow->n];

		if (!link || !bb_fabric_passes(&what->route, level))
			continue;
		flow->n++;
		link += bb_fabric_shared(f->fabric, level, rank, rail);
		link->second_per_byte =
			bb_fabric_shared_second_per_byte(f->fabric, level, rank, rail);
		*use = (struct use){link, flow, link->first, &link->first};
		if (use->next)
			use->next->back = &use->next;
		link->first = use;
		link->users++;
	}
	set_pace(f, flow, now);
	set_paces(f, flow, now);
}

void bb_flows_leave(struct bb_flows *f, int number, double now)
{
	struct flow *flow = &f->flows[number];

	for (int i = 0; i < flow->n; i++) {
		const struct use *use = &flow->uses[i];

		*use->back = use->next;
		if (use->next)
			use->next->back = use->back;
		use->link->users--;
	}
	set_paces(f, flow, now);
}
