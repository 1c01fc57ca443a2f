#include "simulator/timeline/flows.h"

enum side { OUT, IN, SIDES };

#define MOST (SIDES * BB_LEVELS) /* shared links of one flow */
#define NONE (-1)

/* One shared link. */
struct shared_link {
	double second_per_byte;
	int users;
	int first; /* of its users: flow * MOST + place */
};

struct flow {
	double second_per_byte, factor; /* alone */
	double pace;                    /* seconds per byte now */
	double left, since;             /* bytes, and when that was so */
	int n;                          /* shared links */
	struct place {
		struct shared_link *shared_link;
		int next, before; /* of its users, likewise */
	} places[MOST];
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
		const enum bb_fabric_level level = (enum bb_fabric_level)(i % BB_LEVELS);
		struct shared_link **links = &f->links[i / BB_LEVELS][level];
		size_t n;

		if (level == BB_LEVEL_MEMORY || !bb_fabric_shares(f->fabric, level))
			continue;
		n = bb_fabric_shared_count(f->fabric, level);
		BB_TAKE_ZEROED(slabs, *links, n);
		for (size_t k = 0; *links && k < n; k++)
			(*links)[k].first = NONE;
	}
	return f;
}

/* ---- pace ----------------------------------------------------------------------------- */

static void set_pace(struct bb_flows *f, int number, double now)
{
	struct flow *flow = &f->flows[number];
	double pace = flow->second_per_byte;

	for (int i = 0; i < flow->n; i++) {
		const struct shared_link *shared_link = flow->places[i].shared_link;

		pace = fmax(pace, shared_link->users * shared_link->second_per_byte);
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
		for (int user = flow->places[i].shared_link->first; user != NONE;
		     user = f->flows[user / MOST].places[user % MOST].next)
			set_pace(f, user / MOST, now);
}

/* ---- joining and leaving -------------------------------------------------------------- */

static struct place *place_at(const struct bb_flows *f, int user)
{
	return &f->flows[user / MOST].places[user % MOST];
}

static void use(struct bb_flows *f, int number, struct shared_link *shared_link,
		double second_per_byte)
{
	struct flow *flow = &f->flows[number];
	const int user = number * MOST + flow->n++;

	shared_link->second_per_byte = second_per_byte;
	*place_at(f, user) = (struct place){shared_link, shared_link->first, NONE};
	if (shared_link->first != NONE)
		place_at(f, shared_link->first)->before = user;
	shared_link->first = user;
	shared_link->users++;
}

void bb_flows_join(struct bb_flows *f, int number, const struct bb_flow *what, double now)
{
	struct flow *flow = &f->flows[number];

	*flow = (struct flow){.second_per_byte = what->route.second_per_byte,
			      .factor = what->factor,
			      .pace = NAN,
			      .left = what->bytes};
	for (int i = 0; i < MOST; i++) {
		const enum side side = (enum side)(i / BB_LEVELS);
		const enum bb_fabric_level level = (enum bb_fabric_level)(i % BB_LEVELS);
		const int rank = side == OUT ? what->from : what->to;
		const int rail = side == OUT ? what->route.out_rail : what->route.in_rail;

		if (f->links[side][level] && bb_fabric_passes(&what->route, level))
			use(f, number,
			    &f->links[side][level][bb_fabric_shared(f->fabric, level, rank, rail)],
			    bb_fabric_shared_second_per_byte(f->fabric, level,
							     rank / f->fabric->per_node, rail));
	}
	set_pace(f, number, now);
	set_paces(f, flow, now);
}

void bb_flows_leave(struct bb_flows *f, int number, double now)
{
	struct flow *flow = &f->flows[number];

	for (int i = 0; i < flow->n; i++) {
		const struct place *p = &flow->places[i];

		*(p->before == NONE ? &p->shared_link->first : &place_at(f, p->before)->next) =
			p->next;
		if (p->next != NONE)
			place_at(f, p->next)->before = p->before;
		p->shared_link->users--;
	}
	set_paces(f, flow, now);
}
