/*
 * families.c - hyperparameters, and the text of --model.
 */
#include "core/option.h"
#include "core/units.h"
#include "models/parts.h"

#include <stdio.h>
#include <string.h>

#define MOST_NAMES 128 /* of presets and families */
#define ITEM 64        /* bytes of a NAME=NUMBER in the text, with its end */

#define ROW(member, word, least, most, ...) {.name = word, .min = least, .max = most, __VA_ARGS__},
const struct bb_hyper_row bb_hyper_rows[] = {BB_HYPERS(ROW)};
#undef ROW

/* What bb_model_open is called with. */
struct request {
	struct bb_model *model; /* its hyper and vision are what is given so far */
	bool from_file;
	struct bb_error *error;
};

const struct bb_family *bb_family_find(const char *name, size_t length)
{
	const struct bb_family *f = bb_families;

	while (f->name && (strncmp(f->name, name, length) != 0 || f->name[length]))
		f++;
	return f->name ? f : NULL;
}

void bb_family_config_types(struct bb_strbuf *out)
{
	for (const struct bb_family *f = bb_families; f->name; f++)
		if (f->class)
			bb_strbuf_addf(out, "%s%s", f == bb_families ? "" : ", ", f->name);
}

/* ---- given and default hyperparameters ------------------------------------------------ */

static void add_needed(struct bb_strbuf *out, const struct bb_family *family)
{
	bb_strbuf_addf(out, "%s:", family->name);
	for (int i = 0, n = 0; i < BB_NHYPERS; i++)
		if (family->uses[i] == BB_HYPER_NEEDED)
			bb_strbuf_addf(out, "%s%s=N", n++ ? "," : "", bb_hyper_rows[i].name);
}

static void set_default(int64_t *value, int64_t otherwise)
{
	if (*value == BB_NOT_GIVEN)
		*value = otherwise;
}

/* Set the hyperparameters that follow from others. */
static bb_status derive_hyper(struct request *r, struct bb_hyper *h, const struct bb_family *family)
{
	if (family->traits & BB_HAS_FUSED)
		h->fused = 1;
	if (h->kv_lora > 0)
		h->head_dim = h->nope + h->rope;
	if (h->multi_query == 1 && h->two_norms != 1)
		h->kv_heads = 1;
	else if (h->kv_heads <= 0 || (family->uses[BB_HYPER(multi_query)] && h->two_norms != 1))
		h->kv_heads = h->heads;
	if (h->head_dim <= 0 && h->hidden % h->heads)
		return bb_fail(r->error, BB_EUSAGE,
			       "--model %s: %jd heads do not divide a width of %jd; give "
			       "a divisor, or head_dim if the family has it",
			       r->model->name, h->heads, h->hidden);
	if (h->heads % h->kv_heads)
		return bb_fail(r->error, BB_EUSAGE,
			       "--model %s: %jd heads cannot share %jd heads of keys and values; "
			       "give a divisor",
			       r->model->name, h->heads, h->kv_heads);
	h->head_dim = h->head_dim > 0 ? h->head_dim : h->hidden / h->heads;
	set_default(&h->ffn, 4 * h->hidden);
	h->value_dim = h->value_dim > 0 ? h->value_dim : h->head_dim;
	set_default(&h->expert_ffn, h->ffn);
	h->expert_ffn = h->experts > 0 && h->expert_ffn == 0 ? h->ffn : h->expert_ffn;
	set_default(&h->shared, 0);
	h->shared_ffn = h->shared_ffn > 0 ? h->shared_ffn : h->shared * h->expert_ffn;
	h->moe_every = h->moe_every > 0 ? h->moe_every : 1;
	set_default(&h->decoders, h->layers);
	if (h->image > 0) {
		const int64_t patches = (h->image / h->patch) * (h->image / h->patch);

		h->seq = patches + ((family->traits & BB_HAS_CLASS_TOKEN) != 0);
		h->positions = h->seq;
		set_default(&h->pooled, patches / 4); /* as Llama 4 shuffles them */
	}
	set_default(&h->positions, h->seq);
	for (int i = 0; i < BB_NHYPERS; i++)
		set_default(bb_hyper_at(h, i), 0);
	return BB_OK;
}

static bb_status complete_hyper(struct request *r, struct bb_hyper *h,
				const struct bb_family *family, int64_t seq)
{
	struct bb_hyper defaults = family->defaults;
	struct bb_strbuf form = {0};
	bb_status status = BB_OK;

	for (int i = 0; i < BB_NHYPERS; i++) {
		const bool needed = family->uses[i] == BB_HYPER_NEEDED;
		int64_t *value = bb_hyper_at(h, i);

		/* The text must give what is needed, a config.json may leave it to a default. */
		if (*bb_hyper_at(&defaults, i) != 0 && (r->from_file || !needed))
			set_default(value, *bb_hyper_at(&defaults, i));
		if (family->uses[i] == BB_HYPER_NONE)
			*value = 0;
		if (*value != BB_NOT_GIVEN || !needed)
			continue;
		if (r->from_file)
			return bb_fail(r->error, BB_EUSAGE,
				       "--model %s: %s is missing; %s needs it", r->model->name,
				       bb_hyper_rows[i].keys[0], family->name);
		add_needed(&form, family);
		status = bb_fail(r->error, BB_EUSAGE, "--model %s: %s is missing; give %s",
				 r->model->name, bb_hyper_rows[i].name, bb_strbuf_text(&form));
		bb_strbuf_free(&form);
		return status;
	}
	if (seq > 0 && (h->heads == 0 || h->image > 0))
		return bb_fail(r->error, BB_EUSAGE, "--seq %jd: %s has no sequence; leave it out",
			       seq, r->model->name);
	if (h->heads == 0)
		return BB_OK;
	if (h->patch > h->image)
		return bb_fail(r->error, BB_EUSAGE,
			       "--model %s: a patch of %jd pixels is larger than an image of %jd",
			       r->model->name, h->patch, h->image);
	BB_TRY(status, derive_hyper(r, h, family), out);
	h->seq = seq ? seq : h->seq;
	if (h->positions && h->seq > h->positions)
		return bb_fail(
			r->error, BB_EUSAGE,
			"--seq %jd: %s has embeddings for only %jd positions; give fewer tokens",
			h->seq, r->model->name, h->positions);
	if (h->top_k > h->experts && h->experts > 0)
		return bb_fail(r->error, BB_EUSAGE, "--model %s: top_k=%jd exceeds the %jd experts",
			       r->model->name, h->top_k, h->experts);
out:
	return status;
}

/* ---- the text of --model -------------------------------------------------------------- */

/* Set hyperparameter I to the number in TEXT. */
static bb_status read_hyper_value(struct request *r, int i, const char *text)
{
	const struct bb_hyper_row *const row = &bb_hyper_rows[i];
	int64_t *value = bb_hyper_at(&r->model->hyper, i);

	if (*value != BB_NOT_GIVEN)
		return bb_fail(r->error, BB_EUSAGE, "--model %s: %s is given twice", r->model->name,
			       row->name);
	if (!bb_parse_int(text, value) || *value < row->min || *value > row->max)
		return bb_fail(r->error, BB_EUSAGE,
			       "--model %s: %s: \"%s\" is not a number from %jd to %jd",
			       r->model->name, row->name, text, row->min, row->max);
	return BB_OK;
}

static bb_status read_named(struct request *r, const struct bb_family *family, char *item)
{
	const char *names[BB_NHYPERS + 1] = {NULL};
	char *const equals = strchr(item, '=');
	char hint[BB_SUGGESTION];
	int i = 0, n = 0;

	*equals = '\0';
	for (; i < BB_NHYPERS; i++) {
		if (family->uses[i] == BB_HYPER_NONE)
			continue;
		if (strcmp(bb_hyper_rows[i].name, item) == 0)
			break;
		names[n++] = bb_hyper_rows[i].name;
	}
	if (i == BB_NHYPERS)
		return bb_fail(r->error, BB_EUSAGE,
			       "--model %s: \"%s\" is not a hyperparameter of %s%s (see --list)",
			       r->model->name, item, family->name, bb_suggest(hint, item, names));
	if (i != BB_HYPER(head))
		return read_hyper_value(r, i, equals + 1);
	for (i = 0; family->known[i].word; i++) {
		if (strcmp(family->known[i].word, equals + 1) == 0) {
			r->model->hyper.head = i;
			return BB_OK;
		}
		names[i] = family->known[i].word;
	}
	names[i] = NULL;
	return bb_fail(r->error, BB_EUSAGE, "--model %s: head: \"%s\" is not known%s",
		       r->model->name, equals + 1, bb_suggest(hint, equals + 1, names));
}

/* NAME=NUMBER, or as in "20x2000" the needed hyperparameters of the family, in order. */
static bb_status read_items(struct request *r, const struct bb_family *family, const char *list)
{
	char item[ITEM], value[ITEM];
	bb_status status = BB_OK;

	do {
		const size_t length = strcspn(list, ",");
		const char *ordered = item;

		snprintf(item, sizeof(item), "%.*s", (int)length, list);
		if (length == 0 || length >= sizeof(item))
			return bb_fail(r->error, BB_EUSAGE,
				       "--model %s: \"%s\" is not of the form NAME=NUMBER",
				       r->model->name, item);
		if (strchr(item, '=')) {
			BB_TRY(status, read_named(r, family, item), out);
			ordered = "";
		}
		for (int i = 0; i < BB_NHYPERS && *ordered; i++) {
			const size_t digits = strcspn(ordered, "x");

			if (family->uses[i] != BB_HYPER_NEEDED)
				continue;
			snprintf(value, sizeof(value), "%.*s", (int)digits, ordered);
			BB_TRY(status, read_hyper_value(r, i, value), out);
			ordered += digits + (ordered[digits] == 'x');
		}
		if (*ordered)
			return bb_fail(r->error, BB_EUSAGE,
				       "--model %s: unexpected \"%s\" (see --list)", r->model->name,
				       ordered);
		list += length;
	} while (*list++ == ',');
out:
	return status;
}

static bb_status refuse_unknown(const char *name, struct bb_error *error)
{
	const size_t length = strcspn(name, ":");
	const struct bb_family *family = bb_family_find(name, length);
	const struct bb_model_preset *preset = bb_model_presets;
	const char *names[MOST_NAMES + 1] = {NULL};
	char hint[BB_SUGGESTION];
	int n = 0;
	struct bb_strbuf text = {0};

	while (preset->name &&
	       (strlen(preset->name) != length || strncmp(preset->name, name, length) != 0))
		preset++;
	if (preset->name && name[length]) {
		bb_fail(error, BB_EUSAGE,
			"--model %s: %s has its own hyperparameters; give it alone, or all of "
			"them with the family %.*s (see --list)",
			name, preset->name, (int)strcspn(preset->text, ":"), preset->text);
	} else if (family) {
		add_needed(&text, family);
		bb_fail(error, BB_EUSAGE, "--model %s is a family; give its hyperparameters: %s",
			name, bb_strbuf_text(&text));
	} else {
		for (const struct bb_model_preset *p = bb_model_presets; p->name && n < MOST_NAMES;
		     p++)
			names[n++] = p->name;
		for (const struct bb_family *f = bb_families; f->name && n < MOST_NAMES; f++)
			names[n++] = f->name;
		bb_strbuf_add_bytes(&text, name, length);
		bb_fail(error, BB_EUSAGE,
			"--model: \"%.200s\" is not a model%s (see --list; the path of a file "
			"has a / or ends with .json)",
			bb_strbuf_text(&text), bb_suggest(hint, bb_strbuf_text(&text), names));
	}
	bb_strbuf_free(&text);
	return BB_EUSAGE;
}

bb_status bb_model_open(struct bb_model *model, const char *text, int64_t seq,
			struct bb_error *error)
{
	struct request r = {.model = model, .error = error};
	const struct bb_family *family = NULL;
	const size_t length = strlen(text);
	const char *form = text, *colon; /* "gpt2:layers=12,…" */
	bb_status status;

	*model = (struct bb_model){.name = text};
	for (int i = 0; i < BB_NHYPERS; i++)
		*bb_hyper_at(&model->hyper, i) = BB_NOT_GIVEN;
	model->vision = model->hyper;
	for (const struct bb_model_preset *p = bb_model_presets; p->name; p++)
		if (strcmp(p->name, text) == 0)
			form = p->text;
	r.from_file = form == text && (strchr(text, '/') || strcmp(text, ".") == 0 ||
				       (length > 5 && strcmp(text + length - 5, ".json") == 0));
	if (r.from_file) {
		BB_TRY(status, bb_config_read(text, model, &family, error), out);
	} else {
		colon = strchr(form, ':');
		family = colon ? bb_family_find(form, (size_t)(colon - form)) : NULL;
		if (!family)
			return refuse_unknown(text, error);
		if (family->tower)
			return bb_fail(error, BB_EUSAGE,
				       "--model %s: models with vision are read from a "
				       "config.json; give its path, or %s_text",
				       text, family->name);
		BB_TRY(status, read_items(&r, family, colon + 1), out);
	}
	model->family = family->name;
	BB_TRY(status, complete_hyper(&r, &model->hyper, family, seq), out);
	if (family->tower) {
		/* Its embedding is as wide as the blocks that read it. */
		model->vision.embedding = model->hyper.hidden;
		BB_TRY(status, complete_hyper(&r, &model->vision, family->tower, 0), out);
	} else {
		model->vision = (struct bb_hyper){.heads = 0};
	}
	status = bb_model_build(model, family, error);
out:
	return status;
}

/* ---- --list -------------------------------------------------------------------------- */

void bb_model_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "models (--model)\n");
	for (const struct bb_model_preset *p = bb_model_presets; p->name; p++)
		bb_strbuf_addf(out, "    %-13s %s\n    %-13s   from %s\n", p->name, p->text, "",
			       p->source);
	bb_strbuf_add(out, "or a family and its hyperparameters; those in [] are optional\n");
	for (const struct bb_family *f = bb_families; f->name; f++) {
		bb_strbuf_addf(out, "    %-13s %s\n    %-13s  ", f->name, f->brief, "");
		for (int i = 0; i < BB_NHYPERS; i++)
			if (f->uses[i] != BB_HYPER_NONE)
				bb_strbuf_addf(out, " %s%s%s",
					       f->uses[i] == BB_HYPER_OPTIONAL ? "[" : "",
					       bb_hyper_rows[i].name,
					       f->uses[i] == BB_HYPER_OPTIONAL ? "]" : "");
		bb_strbuf_add(out, "\n");
	}
	bb_strbuf_add(out, "or a config.json of Hugging Face, or its folder, with model_type ");
	bb_family_config_types(out);
	bb_strbuf_add(out, "\n");
}
