/*
 * What the checker says of programs that keep the rules and of such with drawn changes; programs on
 * tapes, and the exchange of rows with experts.
 */
#include "draws.h"

#include "harness/run/pattern.h"
#include "script.h"
#include "training_kernels/kernel/kernel.h"
#include "training_kernels/moe/exchange.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- programs that keep the rules ------------------------------------------------------------ */

/* All-reduces in groups of all, of the even ranks and of the first two, on queues of their own. */
static void write_groups(struct script *s, int n, uint64_t seed)
{
	script_open(s, n);
	s->program.groups = 3;
	for (int rank = 0; rank < n; rank += 2)
		s->members[1][s->sizes[1]++] = rank;
	s->sizes[2] = n < 2 ? 1 : 2;
	s->members[2][1] = 1;
	for (int i = 0; i < 4; i++) {
		const int group = drawn(seed, 1 + (uint64_t)i, 3);

		for (int m = 0; m < s->sizes[group]; m++) {
			const int rank = s->members[group][m];

			script_compute(s, rank, 3, 0.5);
			script_record(s, rank, 3, i);
			script_wait(s, rank, group, i);
			script_all_reduce(s, rank, group, group, (size_t)(5 + i));
		}
	}
}

/* Rank 0 serves the others, in the order in which they ask. */
static void write_server(struct script *s, int n)
{
	script_open(s, n);
	for (int rank = 1; rank < n; rank++) {
		const size_t index = s->lengths[0];

		script_recv_any(s, 0, 0, 0, 3);
		script_record(s, 0, 0, rank);
		script_wait(s, 0, 1, rank);
		script_add(s, 0,
			   (struct bb_operation){.act = BB_ACT_SEND,
						 .queue = 1,
						 .lane = 1,
						 .peer = BB_NO_PEER,
						 .answers = index,
						 .count = 4,
						 .dtype = BB_FLOAT});
		script_send(s, rank, 0, 0, 0, 3);
		script_recv(s, rank, 1, 1, 0, 4);
	}
}

/* Each rank sends to all others, and receives from them together. */
static void write_exchange(struct script *s, int n)
{
	script_open(s, n);
	for (int shift = 1; shift < n; shift++)
		for (int rank = 0; rank < n; rank++) {
			const int from = (rank + n - shift) % n, to = (rank + shift) % n;
			const struct bb_operation receive = {.act = BB_ACT_RECV,
							     .queue = 1,
							     .peer = from,
							     .count = 7,
							     .dtype = BB_INT8,
							     .together = shift > 1};

			if (rank % 2 == 0 || shift % 2 == 0)
				script_send(s, rank, 0, 0, to, 7);
			script_add(s, rank, receive);
			if (rank % 2 == 1 && shift % 2 == 1)
				script_send(s, rank, 0, 0, to, 7);
		}
	for (int rank = 0; rank < n; rank++)
		for (size_t i = 0; i < s->lengths[rank]; i++)
			s->operations[rank][i].dtype = BB_INT8;
}

static void write_program(struct script *s, int kind, int n, uint64_t seed)
{
	switch (kind) {
	case 0:
	case 1:
		script_pipeline(s, n, n + 2, kind, 1, 2);
		break;
	case 2:
		write_groups(s, n, seed);
		break;
	case 3:
		write_server(s, n);
		break;
	default:
		write_exchange(s, n);
	}
}
#define KINDS 5

/* ---- changes --------------------------------------------------------------------------------- */

static const struct bb_collective *const collectives[] = {&bb_all_reduce, &bb_broadcast,
							  &bb_alltoall, &bb_sendrecv, NULL};

static void change_field(struct bb_operation *o, uint64_t seed, const struct bb_program *p)
{
	static const double costs[] = {-1, 0, 1e300, INFINITY};
	const int field = drawn(seed, 20, 18), small = drawn(seed, 21, 4);
	const int near = small - 1;

	switch (field) {
	case 0:
	case 1:
		o->act = drawn(seed, 22, 8);
		break;
	case 2:
	case 3:
		o->queue = drawn(seed, 22, p->queues + 2) - 1;
		break;
	case 4:
		o->seconds = costs[small];
		break;
	case 5:
		o->flops = costs[small];
		break;
	case 6:
		o->group = near;
		break;
	case 7:
		o->collective = collectives[drawn(seed, 22, COUNT(collectives))];
		break;
	case 8:
		o->root = near * 2;
		break;
	case 9:
		o->count += (size_t)small;
		break;
	case 10:
		o->dtype = small == 3 ? BB_NDTYPES : drawn(seed, 22, BB_NDTYPES);
		break;
	case 11:
		o->op = small == 3 ? BB_NOPS : drawn(seed, 22, BB_NOPS);
		break;
	case 12:
		o->in_place = !o->in_place;
		break;
	case 13:
		o->lane += near;
		break;
	case 14:
		o->peer = drawn(seed, 22, p->nranks + 2) - 1;
		break;
	case 15:
		o->together = !o->together;
		break;
	case 16:
		o->answers = (size_t)drawn(seed, 22, 9);
		break;
	default:
		o->event += near;
	}
}

static void change_program(struct script *s, uint64_t seed)
{
	struct bb_program *const p = &s->program;
	int *const numbers[] = {&p->queues, &p->lanes, &p->events, &p->groups, &p->nranks};
	int *const number = numbers[drawn(seed, 30, 4)];
	const int group = p->groups > 0 ? drawn(seed, 31, p->groups) : 0;

	if (drawn(seed, 32, 2)) {
		/* Groups stay those that the script has. */
		*number += drawn(seed, 33, 9) - 5;
		p->groups = p->groups > SCRIPT_GROUPS ? SCRIPT_GROUPS : p->groups;
	} else if (drawn(seed, 34, 2)) {
		s->members[group][drawn(seed, 35, p->nranks)] = drawn(seed, 36, p->nranks + 2) - 1;
	} else {
		s->sizes[group] = drawn(seed, 37, p->nranks + 1);
	}
}

static void change(struct script *s, uint64_t seed)
{
	const int rank = drawn(seed, 10, s->program.nranks);
	const size_t n = s->lengths[rank];
	const int of = drawn(seed, 13, 12);

	if (n == 0 || of == 0) {
		change_program(s, seed);
		return;
	}
	struct bb_operation *const list = s->operations[rank];
	const size_t at = (size_t)drawn(seed, 11, (int)n), other = (size_t)drawn(seed, 12, (int)n);
	const struct bb_operation was = list[at];

	if (of == 1) { /* one is missing */
		memmove(&list[at], &list[at + 1], (n - at - 1) * sizeof(*list));
		s->lengths[rank]--;
	} else if (of == 2) { /* one comes twice, instead of another */
		list[other] = was;
	} else if (of < 5) {
		list[at] = list[other];
		list[other] = was;
	} else {
		change_field(&list[at], seed, &s->program);
	}
}

static void program_add(struct sweep *s, const struct bb_program *p)
{
	struct bb_error error = {.text = ""}, why = {.text = ""};
	struct bb_memberships m = {.first = NULL};

	sweep_add(s, bb_program_check(p, &error));
	sweep_add_text(s, error.text);
	if (p->nranks < 1 || p->groups < 0)
		return;
	const bb_status status = bb_memberships_make(&m, p, &why);

	sweep_add(s, status);
	for (int g = 0; g < p->groups && status == BB_OK; g++) {
		sweep_add(s, bb_memberships_size(&m, g));
		for (int rank = 0; rank < p->nranks; rank++)
			sweep_add(s, (double)bb_memberships_find(&m, g, rank));
	}
	bb_memberships_free(&m);
}

static void test_checks(void **state)
{
	struct sweep s = sweep_open("programs_checks");
	uint64_t seed = 1;

	for (int kind = 0; kind < KINDS; kind++)
		for (int n = 1; n <= 6; n++) {
			for (int i = 0; i < 500; i++, seed++) {
				struct script script;

				write_program(&script, kind, n, seed);
				for (int k = 0; k < i % 4; k++)
					change(&script, 1000000 * (uint64_t)(k + 1) + seed);
				program_add(&s, &script.program);
				script.program.nranks = n;
				script_close(&script);
			}
			sweep_end(&s, "kind %d, %d ranks", kind, n);
		}
	sweep_close(&s);
}

/* ---- tapes ----------------------------------------------------------------------------------- */

static void operation_add(struct sweep *s, const struct bb_operation *o)
{
	uint64_t hash = BB_RANDOM_HASH;

	hash_add(&hash, o->act);
	hash_add(&hash, o->queue);
	hash_add(&hash, o->work);
	hash_add(&hash, (int64_t)o->item);
	hash_add(&hash, o->group);
	hash_add(&hash, (int64_t)o->count);
	hash_add(&hash, o->dtype);
	hash_add(&hash, o->op);
	hash_add(&hash, o->in_place);
	hash_add(&hash, o->lane);
	hash_add(&hash, o->peer);
	hash_add(&hash, o->together);
	hash_add(&hash, o->event);
	hash_end(s, hash);
	SWEEP_ADD(s, o->seconds, o->flops,
		  o->act == BB_ACT_COLLECTIVE && bb_operation_ends_early(o));
	sweep_add_text(s, o->collective ? o->collective->name : NULL);
}

static void write_tape(struct bb_tape *tape, uint64_t seed)
{
	for (uint64_t i = 0; i < 6; i++) {
		const int queue = drawn(seed, 100 + i, 3), work = drawn(seed, 110 + i, 5);
		const size_t count = (size_t)drawn(seed, 120 + i, 50);

		switch (drawn(seed, 130 + i, 6)) {
		case 0:
			bb_tape_compute(tape, queue, work, count, 0.1, 2e9);
			break;
		case 1:
		case 2:
			bb_tape_collective(tape, queue, work, i,
					   collectives[drawn(seed, 140 + i, 4)], count, BB_FLOAT,
					   BB_SUM)
				->in_place = drawn(seed, 150 + i, 2);
			break;
		case 3:
			bb_tape_order(tape, queue, work % 3);
			break;
		case 4:
			bb_tape_wait(tape, queue, bb_tape_record(tape, 1));
			break;
		default:
			bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_SEND +
								       drawn(seed, 160 + i, 3),
								.queue = queue,
								.count = count,
								.dtype = BB_INT8,
								.peer = 0});
		}
	}
}

static int opposite(const void *own, int rank)
{
	return *(const int *)own - 1 - rank;
}

static void test_tapes(void **state)
{
	static const char *const algorithms[] = {NULL, "ring", "tree", "none"};
	struct sweep s = sweep_open("programs_tapes");
	uint64_t seed = 1;

	for (int n = 1; n <= 5; n++) {
		for (int i = 0; i < 60; i++, seed++) {
			const bool one = i % 3 == 0;
			const int each = 1 + i / 3 % 3, sequences = one ? 1 : n;
			struct bb_error error = {.text = ""};
			struct bb_taped t;

			sweep_add(&s, bb_taped_begin(&t, n, sequences, each, &error));
			if (i % 3 == 1) {
				t.own = &n;
				t.sequence_of = opposite;
			}
			t.members = 1 + drawn(seed, 1, n);
			for (int k = 0; k < sequences * each; k++)
				write_tape(&t.tapes[k], 100 * seed + (uint64_t)k);
			for (uint64_t k = 0; k < (uint64_t)drawn(seed, 2, 9); k++)
				bb_taped_perform(
					&t, drawn(seed, 10 + k, sequences),
					drawn(seed, 20 + k, each), (size_t)drawn(seed, 30 + k, 7),
					(size_t)drawn(seed, 40 + k, 4), drawn(seed, 50 + k, 9));
			sweep_add(&s, bb_taped_end(&t, "a test", &error));
			SWEEP_ADD(&s, t.program.events, t.program.group_size(&t.program, 0));
			for (int rank = 0; rank < n; rank++) {
				const size_t length = t.program.length(&t.program, rank);

				sweep_add(&s, (double)length);
				for (size_t k = 0; k < length; k++) {
					const struct bb_operation o =
						bb_program_at(&t.program, rank, k);

					operation_add(&s, &o);
				}
				for (int k = 0; k < COUNT(algorithms); k++) {
					const struct bb_tape_traffic traffic =
						bb_taped_traffic(&t, rank, algorithms[k]);

					SWEEP_ADD(&s, traffic.sent, traffic.received,
						  (double)traffic.calls);
				}
			}
			bb_taped_free(&t);
		}
		sweep_end(&s, "%d ranks", n);
	}
	sweep_close(&s);
}

/* ---- experts --------------------------------------------------------------------------------- */

static void rows_add(struct sweep *s, const struct bb_moe_load *load, int place,
		     const struct bb_patterns *patterns)
{
	static char memory[1 << 16];
	int ranks[16];
	struct bb_moe_rows rows = {.load = load, .hidden = 3, .dtype = BB_BFLOAT16, .place = place};
	struct bb_known known = {.memory = memory};

	for (int i = 0; i < load->form.nranks; i++)
		ranks[i] = 2 * i + 1;
	rows.ranks = place % 2 ? ranks : NULL;
	bb_moe_rows_lay_out(&rows, &known, patterns);
	assert_true(known.bytes <= sizeof(memory));
	SWEEP_ADD(s, (double)known.bytes, (double)known.n,
		  rows.mine ? (double)(rows.mine - memory) : -1,
		  rows.back ? (double)(rows.back - memory) : -1,
		  rows.theirs ? (double)(rows.theirs - memory) : -1);
	for (size_t i = 0; i < known.n; i++)
		SWEEP_ADD(s, known.list[i].use, (double)(known.list[i].at - memory),
			  known.list[i].rank, (double)known.list[i].first,
			  (double)known.list[i].count);
	for (int k = 0; k < 4 * (load->form.nranks - 1); k++) {
		struct bb_operation o = {
			BB_ACT_SEND,        1,          .item = (size_t)k / 2, .lane = k % 2,
			.peer = BB_NO_PEER, .count = 3, .dtype = BB_BFLOAT16};

		bb_moe_message(load, place, &o);
		operation_add(s, &o);
		sweep_add(s, (double)(bb_moe_rows_of(&rows, &o) - memory));
	}
	free(known.list);
}

static void load_add(struct sweep *s, const struct bb_moe_form *form,
		     const struct bb_patterns *patterns)
{
	struct bb_error error = {.text = ""};
	struct bb_moe_load load;

	sweep_add(s, bb_moe_load_make(&load, form, &error));
	for (int e = 0; e < form->experts; e++)
		SWEEP_ADD(s, load.shares[e], (double)load.rows[e]);
	for (int64_t token = 0; token < form->tokens; token += 3)
		for (int slot = 0; slot < form->top_k; slot++)
			sweep_add(s, bb_moe_choice(&load, token, slot));
	for (int rank = 0; rank < form->nranks; rank++) {
		SWEEP_ADD(s, (double)load.rows_to[rank], (double)load.rows_before[rank],
			  (double)bb_moe_rows_at(&load, rank),
			  (double)bb_moe_rows_received(&load, rank));
		if (form->tokens < 20)
			rows_add(s, &load, rank, patterns);
	}
	SWEEP_ADD(s, (double)load.dropped, load.busiest, bb_moe_imbalance(&load));
	for (int i = 0; i < 8; i++) {
		const struct bb_moe_exchange x = {&load, 3, BB_BFLOAT16, 0, 1, 2 * (i % 3)};
		struct bb_tape tape = {.n = 0};

		bb_tape_compute(&tape, 0, 7, 0, 1, 1);
		bb_moe_write(&x, &tape, 5 + i, i & 1, i & 2, i & 4);
		for (size_t k = 0; k < tape.n; k++)
			operation_add(s, &tape.list[k]);
		free(tape.list);
	}
	bb_moe_load_free(&load);
}

static void test_experts(void **state)
{
	/* Not such that a share falls on a token exactly. */
	static const double skews[] = {0, 0.31, 1.13, 2.7}, capacities[] = {0, 1, 1.25, 0.4};
	struct sweep s = sweep_open("programs_experts");
	struct bb_patterns *patterns;
	uint64_t seed = 1;

	assert_int_equal(bb_patterns_make(&patterns, BB_BFLOAT16, -1, 32, 5), BB_OK);
	for (int n = 1; n <= 8; n++) {
		for (int i = 0; i < 48; i++, seed++) {
			const int experts = n * (1 + drawn(seed, 1, 4));
			const struct bb_moe_form form = {
				.nranks = n,
				.experts = experts,
				.top_k = 1 + drawn(seed, 2, experts < 4 ? experts : 4),
				.tokens = i % 4 == 3 ? 113 : drawn(seed, 3, 14),
				.skew = skews[i % 4],
				.capacity = capacities[drawn(seed, 4, 4)]};

			load_add(&s, &form, patterns);
		}
		sweep_end(&s, "%d ranks", n);
	}
	bb_patterns_free(patterns);
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_checks),
		cmocka_unit_test(test_tapes),
		cmocka_unit_test(test_experts),
	};

	return cmocka_run_group_tests_name("programs_sweep", tests, NULL, NULL);
}
