#include "models/fusion.h"

#include "core/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct bb_fusion_rule bb_fusion_rules[BB_FUSION_RULES] = {
	[BB_FUSION_DDP] = {.name = "ddp"},
	[BB_FUSION_HOROVOD] = {.name = "horovod", .clocked = true},
	[BB_FUSION_TF] = {.name = "tf", .order = BB_FUSION_REVERSED, .above = true},
	[BB_FUSION_MEGATRON] = {.name = "megatron",
				.order = BB_FUSION_REVERSED,
				.elements = true,
				.complete = true},
	[BB_FUSION_MIRRORED] = {.name = "mirrored",
				.order = BB_FUSION_REGISTERED,
				.cut = true,
				.complete = true},
	[BB_FUSION_FSDP] = {.name = "fsdp", .units = true, .complete = true},
};
const char *const bb_fusion_names[] = {"ddp",      "horovod", "tf", "megatron",
				       "mirrored", "fsdp",    NULL};

/* A tensor on its way into a bucket. */
struct entry {
	size_t at;     /* its place in the rule's order */
	size_t tensor; /* in the order of completion */
	size_t bucket; /* numbered as they are opened */
	size_t key;    /* of the bucket, by which they are sorted */
};

struct fusion {
	const struct bb_fusion_tensor *tensors;
	size_t n;
	const struct bb_fusion_setting *setting;
	struct entry *entries; /* in the rule's order */
	size_t *keys;          /* [bucket] */
	double *launches;      /* [bucket] */
	struct bb_buckets *buckets;
	size_t cycle_room;
};

static int by_key(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	const size_t p = x->key != y->key ? x->key : x->at, q = x->key != y->key ? y->key : y->at;

	return (p > q) - (p < q);
}

static uint64_t tensor_bytes(const struct bb_fusion_tensor *t)
{
	return t->elements * bb_dtype_size(t->dtype);
}

static uint64_t round_up(uint64_t value, uint64_t multiple)
{
	return multiple ? (value + multiple - 1) / multiple * multiple : value;
}

/* ---- the rules ------------------------------------------------------------------------------- */

/* Each tensor goes into the open bucket of its datatype, or of that and its unit. */
static bb_status fill(struct fusion *f, struct bb_error *error)
{
	const struct bb_fusion_setting *s = f->setting;
	const struct bb_fusion_rule *rule = s->rule;
	struct open {
		size_t bucket, closed;
		uint64_t held;
	} * opens, *open;
	size_t units = 1, opened = 0;

	for (size_t i = 0; i < f->n; i++)
		if (rule->units && f->tensors[i].unit >= units)
			units = f->tensors[i].unit + 1;
	opens = calloc(units * BB_NDTYPES, sizeof(*opens));
	if (!opens)
		return bb_no_memory(error, "the buckets");
	for (size_t i = 0; i < f->n; i++) {
		const struct bb_fusion_tensor *t = &f->tensors[f->entries[i].tensor];

		open = &opens[(rule->units ? t->unit : 0) * BB_NDTYPES + (size_t)t->dtype];
		if (open->held == 0) {
			open->bucket = opened++;
			f->keys[open->bucket] = f->n + open->bucket;
		}
		f->entries[i].bucket = open->bucket;
		open->held += rule->elements ? t->elements : tensor_bytes(t);
		if (rule->complete &&
		    (f->keys[open->bucket] >= f->n || f->keys[open->bucket] < f->entries[i].tensor))
			f->keys[open->bucket] = f->entries[i].tensor;
		const uint64_t cap =
			rule->units ? 0
			: rule->cut
				? 1
				: s->caps[open->closed < s->ncaps ? open->closed : s->ncaps - 1];
		if (cap == 0 || open->held < cap + (rule->above && cap < BB_BUCKET_UNLIMITED))
			continue;
		open->held = 0;
		open->closed++;
		if (!rule->complete)
			f->keys[open->bucket] = i;
	}
	free(opens);
	return BB_OK;
}

/* Puts entry I, and those that have arrived by END, into BUCKET as far as they fit. Returns its
   bytes. */
static uint64_t fuse(struct fusion *f, size_t i, size_t end, size_t bucket)
{
	const struct bb_fusion_setting *s = f->setting;
	const enum bb_dtype dtype = f->tensors[i].dtype;
	uint64_t held = round_up(tensor_bytes(&f->tensors[i]), s->round), passed = 0;

	f->entries[i].bucket = bucket;
	for (size_t j = i + 1; j < end; j++) {
		const uint64_t bytes = round_up(tensor_bytes(&f->tensors[j]), s->round);

		if (f->entries[j].bucket != SIZE_MAX)
			continue;
		if (f->tensors[j].dtype == dtype && held + bytes <= s->caps[0]) {
			f->entries[j].bucket = bucket;
			held += bytes;
		} else if ((passed += bytes) + held > s->caps[0]) {
			break;
		}
	}
	return held;
}

/* A cycle begins at least CYCLE_S after the one before, and not before its blocking work has
   ended. */
static bb_status fuse_by_cycles(struct fusion *f, struct bb_error *error)
{
	const struct bb_fusion_setting *s = f->setting;
	struct bb_buckets *b = f->buckets;
	const uint64_t words = 8 * bb_fusion_words(f->n);
	double now = 0, free_s = 0;
	size_t first = 0, opened = 0;

	for (size_t i = 0; i < f->n; i++)
		f->entries[i].bucket = SIZE_MAX;
	while (first < f->n) {
		size_t end = first;

		now = fmax(now + s->cycle_s, free_s);
		if (s->cycle_s <= 0)
			now = fmax(now, f->tensors[first].ready_s);
		if (b->ncycles == BB_FUSION_MOST_CYCLES)
			return bb_fail(
				error, BB_EUSAGE,
				"--cycle-time-ms %g: more than %d cycles of a backward pass; "
				"give a longer time",
				1e3 * s->cycle_s, BB_FUSION_MOST_CYCLES);
		if (!BB_ARRAY_PUT(b->cycles, b->ncycles, f->cycle_room, now))
			return bb_no_memory(error, "the cycles");
		free_s = now + (s->rate > 0 ? s->latency_s + (double)words / s->rate : 0);
		/* What rounding alone makes late is not. */
		while (end < f->n && f->tensors[end].ready_s <= now * (1 + 1e-12))
			end++;
		for (; first < end; first++) {
			if (f->entries[first].bucket != SIZE_MAX)
				continue;
			const uint64_t bytes = fuse(f, first, end, opened);

			f->keys[opened] = opened;
			f->launches[opened++] = now;
			free_s += s->rate > 0 ? s->latency_s + (double)bytes / s->rate : 0;
		}
	}
	return BB_OK;
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* Appends entry I to bucket B, with ELEMENTS of its tensor. */
static void add_entry(struct fusion *f, struct bb_bucket *b, size_t i, uint64_t elements)
{
	const struct bb_fusion_tensor *t = &f->tensors[f->entries[i].tensor];
	const size_t size = bb_dtype_size(t->dtype);

	b->count++;
	b->dtype = t->dtype;
	b->last = b->last > f->entries[i].tensor ? b->last : f->entries[i].tensor;
	b->elements += elements;
	b->padded += round_up(elements * size, f->setting->round) / size;
}

static struct bb_bucket *add_bucket(struct fusion *f, size_t *room, size_t first)
{
	struct bb_bucket *b = BB_ARRAY_ADD(f->buckets->list, f->buckets->n, *room);

	if (b)
		*b = (struct bb_bucket){.first = first};
	return b;
}

static bb_status collect(struct fusion *f, struct bb_error *error)
{
	struct bb_bucket *b = NULL;
	size_t room = 0;

	for (size_t i = 0; i < f->n; i++)
		f->entries[i].key = f->keys[f->entries[i].bucket];
	qsort(f->entries, f->n, sizeof(*f->entries), by_key);
	for (size_t i = 0; i < f->n; i++) {
		if (i == 0 || f->entries[i].key != f->entries[i - 1].key) {
			b = add_bucket(f, &room, i);
			if (!b)
				return bb_no_memory(error, "the buckets");
			b->launch_s = f->launches[f->entries[i].bucket];
		}
		add_entry(f, b, i, f->tensors[f->entries[i].tensor].elements);
	}
	return BB_OK;
}

/* One vector is complete at the end, and so is each part of it. */
static bb_status cut(struct fusion *f, struct bb_error *error)
{
	const uint64_t parts = f->setting->caps[0];
	uint64_t all = 0, begin = 0, before = 0; /* before: of entry I */
	size_t room = 0, i = 0;

	for (size_t k = 0; k < f->n; k++) {
		all += f->tensors[k].elements;
		if (f->tensors[k].dtype != f->tensors->dtype)
			return bb_fail(error, BB_EUSAGE,
				       "--fusion mirrored: a pack has one datatype; leave "
				       "--norm-datatype out, or give --num-packs 0");
	}
	for (uint64_t p = 0; p < parts; p++) {
		const uint64_t end = p + 1 < parts ? begin + all / parts : all;
		struct bb_bucket *b = end > begin ? add_bucket(f, &room, i) : NULL;

		if (!b && end > begin)
			return bb_no_memory(error, "the buckets");
		while (begin < end) {
			const uint64_t after = before + f->tensors[f->entries[i].tensor].elements;
			const uint64_t to = after < end ? after : end;

			add_entry(f, b, i, to - begin);
			begin = to;
			if (begin == after) {
				before = after;
				i++;
			}
		}
		if (b)
			b->last = f->n - 1;
	}
	return BB_OK;
}

bb_status bb_fusion_make(struct bb_buckets *buckets, const struct bb_fusion_tensor *tensors,
			 size_t n, const struct bb_fusion_setting *s, struct bb_error *error)
{
	const struct bb_fusion_rule *rule = s->rule;
	struct fusion f = {.tensors = tensors, .n = n, .setting = s, .buckets = buckets};
	bb_status status = BB_OK;

	*buckets = (struct bb_buckets){.least = UINT64_MAX};
	f.entries = calloc(n, sizeof(*f.entries));
	f.keys = calloc(n, sizeof(*f.keys));
	f.launches = calloc(n, sizeof(*f.launches));
	buckets->tensors = calloc(n, sizeof(*buckets->tensors));
	if (!f.entries || !f.keys || !f.launches || !buckets->tensors)
		BB_TRY(status, bb_no_memory(error, "the buckets"), out);
	for (size_t i = 0; i < n; i++)
		f.entries[i] = (struct entry){.at = rule->order == BB_FUSION_READY ? i
						    : rule->order == BB_FUSION_REVERSED
							    ? n - 1 - tensors[i].place
							    : tensors[i].place,
					      .tensor = i};
	qsort(f.entries, n, sizeof(*f.entries), by_key);
	if (rule->cut && s->caps[0] > 0) {
		BB_TRY(status, cut(&f, error), out);
	} else {
		BB_TRY(status, rule->clocked ? fuse_by_cycles(&f, error) : fill(&f, error), out);
		BB_TRY(status, collect(&f, error), out);
	}
	for (size_t i = 0; i < n; i++)
		buckets->tensors[i] = f.entries[i].tensor;
	for (struct bb_bucket *b = buckets->list; b < buckets->list + buckets->n; b++) {
		const size_t size = bb_dtype_size(b->dtype);

		b->padded = b->count == 1 ? b->elements : round_up(b->padded, s->fused_multiple);
		b->padded = round_up(b->padded, s->multiple);
		b->bytes = b->elements * size;
		b->before = (size_t)round_up(buckets->room, size);
		buckets->room = b->before + b->padded * size;
		buckets->bytes += b->bytes;
		buckets->least = b->bytes < buckets->least ? b->bytes : buckets->least;
		buckets->most = b->bytes > buckets->most ? b->bytes : buckets->most;
	}
out:
	free(f.entries);
	free(f.keys);
	free(f.launches);
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
		    x->launch_s != y->launch_s ||
		    memcmp(&a->tensors[x->first], &b->tensors[y->first],
			   x->count * sizeof(*a->tensors)) != 0)
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
