#include "models/fusion.h"

#include "core/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct bb_fusion_rule bb_fusion_rules[BB_FUSION_RULES] = {
	[BB_FUSION_DDP] = {.name = "ddp", .none = "list"},
	[BB_FUSION_HOROVOD] = {.name = "horovod", .none = "tensor", .clocked = true},
	[BB_FUSION_TF] = {.name = "tf", .none = "one", .order = BB_FUSION_REVERSED, .above = true},
	[BB_FUSION_MEGATRON] = {.name = "megatron",
				.order = BB_FUSION_REVERSED,
				.elements = true,
				.complete = true},
	[BB_FUSION_MIRRORED] = {.name = "mirrored",
				.none = "tensor",
				.order = BB_FUSION_REGISTERED,
				.cut = true,
				.complete = true},
	[BB_FUSION_FSDP] = {.name = "fsdp", .none = "blocks", .units = true, .complete = true},
};
const char *const bb_fusion_names[] = {"ddp",      "horovod", "tf", "megatron",
				       "mirrored", "fsdp",    NULL};

/* A tensor, or a part of it, in a bucket. */
struct piece {
	size_t tensor, bucket;
};

struct fusion {
	const struct bb_fusion_tensor *tensors;
	size_t n;
	const struct bb_fusion_setting *setting;
	size_t *order; /* tensors in the order of the rule; SIZE_MAX: is in a bucket */
	struct piece *pieces;
	size_t npieces, room;
	struct bb_buckets *buckets; /* in the order in which they are opened */
	bool failed;                /* no memory */
};

static uint64_t tensor_bytes(const struct bb_fusion_tensor *t)
{
	return t->elements * bb_dtype_size(t->dtype);
}

static uint64_t round_up(uint64_t value, uint64_t multiple)
{
	return multiple ? (value + multiple - 1) / multiple * multiple : value;
}

/* Put ELEMENTS of TENSOR into BUCKET, which may be the next one. */
static void put_piece(struct fusion *f, size_t tensor, size_t bucket, uint64_t elements)
{
	struct bb_buckets *all = f->buckets;
	const struct bb_fusion_tensor *t = &f->tensors[tensor];
	const size_t size = bb_dtype_size(t->dtype);

	if (bucket == all->n && BB_ARRAY_ADD(all->list, all->n, f->room))
		all->list[bucket] = (struct bb_bucket){.turn = f->n + bucket, .dtype = t->dtype};
	f->failed |= bucket == all->n;
	if (f->failed)
		return;
	struct bb_bucket *b = &all->list[bucket];
	b->last = b->last > tensor ? b->last : tensor;
	b->elements += elements;
	b->padded += round_up(elements * size, f->setting->round) / size;
	b->count++;
	f->pieces[f->npieces++] = (struct piece){tensor, bucket};
}

/* ---- the rules ------------------------------------------------------------------------------- */

/* Each tensor goes into the open bucket of its datatype, or of that and its unit. */
static void fill_buckets(struct fusion *f)
{
	const struct bb_fusion_setting *s = f->setting;
	const struct bb_fusion_rule *rule = s->rule;
	struct open {
		size_t bucket, closed;
		uint64_t held;
	} * opens;
	size_t units = 1;

	for (size_t i = 0; i < f->n && rule->units; i++)
		units = f->tensors[i].unit < units ? units : f->tensors[i].unit + 1;
	opens = calloc(units * BB_NDTYPES, sizeof(*opens));
	f->failed = !opens;
	for (size_t i = 0; i < f->n && !f->failed; i++) {
		const struct bb_fusion_tensor *t = &f->tensors[f->order[i]];
		struct open *o =
			&opens[(rule->units ? t->unit : 0) * BB_NDTYPES + (size_t)t->dtype];
		const uint64_t cap =
			rule->units ? 0
			: rule->cut ? 1
				    : s->caps[o->closed < s->ncaps ? o->closed : s->ncaps - 1];

		o->bucket = o->held ? o->bucket : f->buckets->n;
		o->held += rule->elements ? t->elements : tensor_bytes(t);
		put_piece(f, f->order[i], o->bucket, t->elements);
		const bool closes = cap > 0 && (rule->above ? o->held > cap : o->held >= cap);
		if (!f->failed && (closes || rule->complete)) {
			struct bb_bucket *b = &f->buckets->list[o->bucket];

			b->turn = rule->complete ? b->last : i;
		}
		if (closes)
			*o = (struct open){.closed = o->closed + 1};
	}
	free(opens);
}

/* Put tensor I, and those before END that fit, into the next bucket, launched at NOW. */
static void fuse_tensors(struct fusion *f, size_t i, size_t end, double now)
{
	const struct bb_fusion_setting *s = f->setting;
	const size_t bucket = f->buckets->n;
	uint64_t held = 0, passed = 0;

	for (size_t j = i; j < end; j++) {
		const struct bb_fusion_tensor *t = &f->tensors[j];
		const uint64_t bytes = round_up(tensor_bytes(t), s->round);

		if (f->order[j] == SIZE_MAX)
			continue;
		if (j == i || (t->dtype == f->tensors[i].dtype && held + bytes <= s->caps[0])) {
			put_piece(f, j, bucket, t->elements);
			f->order[j] = SIZE_MAX;
			held += bytes;
		} else if ((passed += bytes) + held > s->caps[0]) {
			break;
		}
	}
	if (!f->failed)
		f->buckets->list[bucket].launch_s = now;
}

static bb_status fuse_by_cycles(struct fusion *f, struct bb_error *error)
{
	const struct bb_fusion_setting *s = f->setting;
	struct bb_buckets *b = f->buckets;
	double now = 0;
	size_t room = 0;

	for (size_t first = 0, end = 0; first < f->n && !f->failed; first = end) {
		now += s->cycle_s;
		if (s->cycle_s <= 0)
			now = fmax(now, f->tensors[first].ready_s);
		if (b->ncycles == BB_FUSION_MOST_CYCLES)
			return bb_fail(
				error, BB_EUSAGE,
				"--cycle-time-ms %g: more than %d cycles of a backward pass; "
				"give a longer time",
				1e3 * s->cycle_s, BB_FUSION_MOST_CYCLES);
		f->failed = !BB_ARRAY_PUT(b->cycles, b->ncycles, room, now);
		/* What rounding alone makes late is not. */
		while (end < f->n && f->tensors[end].ready_s <= now * (1 + 1e-12))
			end++;
		for (size_t i = first; i < end && !f->failed; i++)
			if (f->order[i] != SIZE_MAX)
				fuse_tensors(f, i, end, now);
	}
	return BB_OK;
}

/* One vector is complete at the end, and so is each part of it. */
static bb_status cut_vector(struct fusion *f, struct bb_error *error)
{
	const uint64_t parts = f->setting->caps[0];
	uint64_t all = 0, at = 0, part = 0;

	for (size_t i = 0; i < f->n; i++) {
		all += f->tensors[i].elements;
		if (f->tensors[i].dtype != f->tensors->dtype)
			return bb_fail(error, BB_EUSAGE,
				       "--fusion mirrored: a pack has one datatype; leave "
				       "--norm-datatype out, or give --num-packs 0");
	}
	if (all < parts)
		return bb_fail(error, BB_EUSAGE,
			       "--num-packs %ju: the model has %ju parameters; give less",
			       (uintmax_t)parts, (uintmax_t)all);
	for (size_t i = 0; i < f->n; i++)
		for (uint64_t rest = f->tensors[f->order[i]].elements, n; rest > 0; rest -= n) {
			const uint64_t end = part + 1 < parts ? (part + 1) * (all / parts) : all;

			n = rest < end - at ? rest : end - at;
			put_piece(f, f->order[i], (size_t)part, n);
			at += n;
			part += at == end;
		}
	for (size_t k = 0; k < f->buckets->n; k++)
		f->buckets->list[k].last = f->n - 1;
	return BB_OK;
}

/* ---- buckets --------------------------------------------------------------------------------- */

static int by_turn(const void *a, const void *b)
{
	const struct bb_bucket *x = a, *y = b;

	return (x->turn > y->turn) - (x->turn < y->turn);
}

/* Sort the buckets by their turns, and lay them out; ORDER is overwritten. */
static void lay_out_buckets(struct fusion *f)
{
	struct bb_buckets *all = f->buckets;
	size_t at = 0;

	for (size_t i = 0; i < all->n; i++)
		all->list[i].first = i;
	qsort(all->list, all->n, sizeof(*all->list), by_turn);
	for (size_t i = 0; i < all->n; i++) {
		struct bb_bucket *b = &all->list[i];
		const size_t size = bb_dtype_size(b->dtype);
		const bool fused = b->count > 1;

		f->order[b->first] = i;
		b->first = at;
		at += b->count;
		b->padded = fused ? round_up(b->padded, f->setting->fused_multiple) : b->elements;
		b->padded = round_up(b->padded, f->setting->multiple);
		b->bytes = b->elements * size;
		b->before = (size_t)round_up(all->room, size);
		all->room = b->before + b->padded * size;
		all->bytes += b->bytes;
		all->least = b->bytes < all->least ? b->bytes : all->least;
		all->most = b->bytes > all->most ? b->bytes : all->most;
		b->count = 0;
	}
	for (size_t i = 0; i < f->npieces; i++) {
		struct bb_bucket *b = &all->list[f->order[f->pieces[i].bucket]];

		all->tensors[b->first + b->count++] = f->pieces[i].tensor;
	}
}

bb_status bb_fusion_make(struct bb_buckets *buckets, const struct bb_fusion_tensor *tensors,
			 size_t n, const struct bb_fusion_setting *s, struct bb_error *error)
{
	const struct bb_fusion_rule *rule = s->rule;
	const bool cuts = rule->cut && s->caps[0] > 0;
	const size_t most = n + (cuts ? (size_t)s->caps[0] : 0); /* pieces, and buckets */
	struct fusion f = {.tensors = tensors, .n = n, .setting = s, .buckets = buckets};
	bb_status status = BB_OK;

	*buckets = (struct bb_buckets){.least = UINT64_MAX};
	f.order = calloc(most, sizeof(*f.order));
	f.pieces = calloc(most, sizeof(*f.pieces));
	buckets->tensors = calloc(most, sizeof(*buckets->tensors));
	f.failed = !f.order || !f.pieces || !buckets->tensors;
	for (size_t i = 0; i < n && !f.failed; i++)
		f.order[rule->order == BB_FUSION_READY      ? i
			: rule->order == BB_FUSION_REVERSED ? n - 1 - tensors[i].place
							    : tensors[i].place] = i;
	if (!f.failed && cuts)
		status = cut_vector(&f, error);
	else if (!f.failed && rule->clocked)
		status = fuse_by_cycles(&f, error);
	else if (!f.failed)
		fill_buckets(&f);
	if (f.failed)
		status = bb_no_memory(error, "the buckets");
	if (status == BB_OK)
		lay_out_buckets(&f);
	free(f.order);
	free(f.pieces);
	return status;
}

void bb_fusion_free(struct bb_buckets *buckets)
{
	free(buckets->list);
	free(buckets->tensors);
	free(buckets->cycles);
	*buckets = (struct bb_buckets){.list = NULL};
}

bool bb_fusion_is_same(const struct bb_buckets *a, const struct bb_buckets *b)
{
	for (size_t i = 0; i < a->n && a->n == b->n; i++) {
		const struct bb_bucket *x = &a->list[i], *y = &b->list[i];

		if (x->count != y->count || x->elements != y->elements || x->padded != y->padded ||
		    x->launch_s != y->launch_s || x->last != y->last || x->dtype != y->dtype)
			return false;
	}
	return a->n == b->n && a->ncycles == b->ncycles;
}

void bb_fusion_tensors(struct bb_fusion_tensor *tensors, const struct bb_model *model,
		       enum bb_dtype dtype, enum bb_dtype vectors, const double *ready_s,
		       const struct bb_fsdp_units *units)
{
	for (size_t i = 0; i < model->ntensors; i++) {
		const size_t place = model->order[i];
		const struct bb_tensor *t = &model->tensors[place];

		tensors[i] = (struct bb_fusion_tensor){.elements = t->elements,
						       .dtype = t->columns == 1 ? vectors : dtype,
						       .ready_s = ready_s[i],
						       .place = place,
						       .unit = units ? units->of[place] : 0};
	}
}
