/*
 * Models: small ones of every family with drawn hyperparameters and mistakes in their texts, and
 * the config.json files of transformers with each of their keys changed.
 */
#include "draws.h"

#include "models/memory/training.h"
#include "models/parts.h"

#include <jansson.h>
#include <sys/mman.h>
#include <unistd.h>

#define CONFIGS "tests/unit/model_defaults.jsonl"
#define DRAWN 90 /* texts of a family */

/* ---- what is pinned of a model --------------------------------------------------------------- */

static void hash_text(uint64_t *hash, const char *text)
{
	*hash = bb_random_hash(*hash, text, strlen(text));
}

static void hash_work(uint64_t *hash, const struct bb_work *w)
{
	hash_add(hash, w->layer);
	hash_add(hash, w->core);
	hash_add(hash, llround(w->forward));
	hash_add(hash, llround(w->input));
	hash_add(hash, llround(w->weights));
	hash_add(hash, w->reversed);
}

static void layout_add(struct sweep *s, const struct bb_model *m)
{
	struct bb_error error = {.text = ""};
	struct bb_model_layout l;

	sweep_add(s, bb_model_layout_make(&l, m, 0, &error));
	for (size_t i = 0; i < l.pieces; i++) {
		const struct bb_piece p = bb_layout_pieces(&l, i, i + 1);

		SWEEP_ADD(s, (double)p.matrices, (double)p.vectors, (double)p.experts,
			  (double)p.factored, (double)p.blocks, (double)p.sparse,
			  l.works[i].forward, l.works[i].input, l.works[i].weights, l.works[i].core,
			  l.works[i].flash);
	}
	SWEEP_ADD(s, (double)l.embedding, (double)l.largest.matrices, (double)l.largest.vectors);
	bb_model_layout_free(&l);
}

static void model_add(struct sweep *s, struct bb_model *m)
{
	const struct bb_module largest = bb_model_largest_module(m);
	double *const ready = calloc(m->ntensors + 1, sizeof(*ready));
	uint64_t hash = BB_RANDOM_HASH;

	assert_non_null(ready);
	bb_model_ready(m, 1.5, ready);
	for (size_t i = 0; i < m->ntensors; i++) {
		const struct bb_tensor *t = &m->tensors[i];

		hash_text(&hash, t->name);
		hash_add(&hash, (int64_t)t->elements);
		hash_add(&hash, (int64_t)t->rows);
		hash_add(&hash, (int64_t)t->columns);
		hash_add(&hash, (int64_t)t->matrices);
		hash_add(&hash, t->expert);
		hash_add(&hash, t->layer);
		hash_add(&hash, (int64_t)t->work);
		hash_add(&hash, (int64_t)m->order[i]);
		hash_add(&hash, llround(1e9 * ready[i]));
	}
	for (int attention = 0; attention <= BB_ATTENTION_EAGER; attention++) {
		for (size_t i = 0; i < m->nworks; i++) {
			const struct bb_work w = bb_attention_work(&m->works[i], attention);

			hash_work(&hash, &m->works[i]);
			hash_work(&hash, &w);
		}
		sweep_add_text(s, bb_attention_name(attention));
	}
	hash_end(s, hash);
	for (int i = 0; i < BB_NHYPERS; i++)
		SWEEP_ADD(s, (double)*bb_hyper_at(&m->hyper, i),
			  (double)*bb_hyper_at(&m->vision, i));
	for (int i = 0; i < m->blocks && m->hyper.moe_every > 0; i++) {
		const struct bb_block_kind k = bb_model_block(m, i);

		sweep_add(s, k.sparse + 2 * k.decodes + 4 * k.cross + 8 * k.local);
	}
	SWEEP_ADD(s, m->gated, m->logits, m->encoder, m->blocks, (double)m->ntensors,
		  (double)m->nworks, (double)m->parameters, m->forward, m->backward,
		  (double)largest.parameters);
	sweep_add_text(s, m->family);
	sweep_add_text(s, largest.name);
	layout_add(s, m);
	bb_attention_apply(m, BB_ATTENTION_FLASH);
	SWEEP_ADD(s, m->forward, m->backward);
	free(ready);
}

/* TEXT behind the path of FILE, which differs. */
static void error_add(struct sweep *s, const char *text, const char *file)
{
	const char *const at = file ? strstr(text, file) : NULL;

	sweep_add_text(s, text + (at ? at - text + (long)strlen(file) : 0));
}

static void text_add(struct sweep *s, const char *text, int64_t seq, const char *file)
{
	struct bb_error error = {.text = ""};
	struct bb_strbuf origin = {0};
	struct bb_model m;
	const bb_status status = bb_model_open(&m, text, seq, &error);

	sweep_add(s, status);
	error_add(s, error.text, file);
	if (status == BB_OK)
		model_add(s, &m);
	bb_model_add_origin(&origin, &m);
	sweep_add_text(s, bb_strbuf_text(&origin));
	bb_strbuf_free(&origin);
	bb_model_free(&m);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* A small value of hyperparameter I; now and then one that does not go with the others. */
static int value_of(uint64_t seed, int i)
{
	static const struct {
		const char *name;
		int values[6];
	} rows[] = {
		{"layers", {1, 2, 3, 4, 5, 2}},
		{"hidden", {64, 96, 128, 64, 60, 72}},
		{"heads", {4, 8, 2, 4, 6, 1}},
		{"vocab", {100, 257, 1000, 50, 7, 100}},
		{"seq", {16, 48, 33, 128, 64, 1}},
		{"kv", {1, 2, 4, 2, 8, 3}},
		{"head_dim", {8, 16, 12, 32, 1, 8}},
		{"ffn", {96, 256, 100, 31, 64, 1}},
		{"positions", {128, 64, 256, 2, 48, 130}},
		{"experts", {4, 2, 3, 8, 6, 1}},
		{"top_k", {1, 2, 2, 3, 1, 4}},
		{"moe_every", {1, 2, 3, 2, 1, 7}},
		{"dense", {0, 1, 2, 1, 0, 9}},
		{"window", {0, 8, 16, 33, 4, 1000}},
		{"global_every", {0, 1, 2, 3, 4, 9}},
		{"image", {32, 48, 40, 64, 24, 7}},
		{"patch", {8, 16, 4, 5, 12, 1}},
		{"embedding", {64, 32, 96, 48, 64, 1}},
		{"labels", {2, 10, 1, 3, 1000, 5}},
	};
	const int k = drawn(seed, 100 + (uint64_t)i, 6);

	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
		if (strcmp(rows[r].name, bb_hyper_rows[i].name) == 0)
			return rows[r].values[k];
	return bb_hyper_rows[i].max == 1 ? k % 2 : 8 * k + (int)bb_hyper_rows[i].min;
}

/* Append what is wrong in most families. */
static void add_mistake(struct bb_strbuf *text, uint64_t seed)
{
	static const char *const mistakes[] = {
		",layers=2",
		",hidden=0",
		",heads=99999",
		",none=1",
		",vocap=5",
		",",
		",5",
		",ffn=x",
		",head=lmm",
		"x7",
		",seq=",
		",=3",
		",tied=2",
		",experts=5000",
		",head=none,head=lm",
		",dense=-1",
		",top_k=9",
		",layers=4097",
		",kv=3",
		",head_dim=0",
		",hidden=1048576,vocab=268435456,layers=4096",
		",window=1k",
		",multi_query",
		",2x3x4",
		",a_name_that_is_longer_than_the_names_of_all_hyperparameters_taken_together=1",
	};

	if (drawn(seed, 1, 4) == 0)
		bb_strbuf_add(text, mistakes[drawn(seed, 2, sizeof(mistakes) / sizeof(char *))]);
}

static void draw_text(struct bb_strbuf *text, const struct bb_family *f, uint64_t seed)
{
	const bool ordered = drawn(seed, 3, 4) == 0;
	const char *next = "";

	bb_strbuf_addf(text, "%s:", f->name);
	for (int i = 0; i < BB_NHYPERS && ordered; i++)
		if (f->uses[i] == BB_HYPER_NEEDED && drawn(seed, 4, 9)) {
			bb_strbuf_addf(text, "%s%d", next, value_of(seed, i));
			next = "x";
		}
	next = *next ? "," : "";
	for (int i = 0; i < BB_NHYPERS; i++) {
		const bool needed = f->uses[i] == BB_HYPER_NEEDED;
		const int heads = (f->known && f->known[1].word ? 2 : 1) + drawn(seed, 5, 8);
		const char *word = f->known ? f->known[0].word : "lm";

		if (f->uses[i] == BB_HYPER_NONE || (ordered && needed) ||
		    drawn(seed, 200 + (uint64_t)i, needed ? 40 : 10) >= (needed ? 39 : 4))
			continue;
		for (int h = 0; f->known && h < heads && f->known[h].word; h++)
			word = f->known[h].word;
		if (i == BB_HYPER(head))
			bb_strbuf_addf(text, "%shead=%s", next, word);
		else
			bb_strbuf_addf(text, "%s%s=%d", next, bb_hyper_rows[i].name,
				       value_of(seed, i));
		next = ",";
	}
	add_mistake(text, seed);
}

static void test_texts(void **state)
{
	static const char *const others[] = {
		"",           "gpt2x",    "gtp2",      "gpt2:",       ":",       "linear:20x2000",
		"resnet:50",  "resnet:7", "resnet:18", "resnet:34",   "vgg:11",  "vgg:13",
		"vgg:16",     "vgg:19",   "vgg:9",     "resnet:101",  "llama",   "llama:2x64",
		"./none",     ".",        "none.json", "gemma3:2x64", "gpt2,",   "linear:0x5",
		"linear:3x7", "gpt2",     "bert-base", "resnet152",   "vit-b16", "t5-small",
	};
	static const int64_t seqs[] = {0, 0, 0, 8, 64, 5000};
	struct sweep s = sweep_open("models_texts");
	struct bb_strbuf list = {0};
	uint64_t seed = 1;

	for (const struct bb_family *f = bb_families; f->name; f++) {
		for (int n = 0; n < DRAWN; n++, seed++) {
			struct bb_strbuf text = {0};

			draw_text(&text, f, seed);
			text_add(&s, bb_strbuf_text(&text), seqs[drawn(seed, 6, 6)], NULL);
			bb_strbuf_free(&text);
		}
		sweep_end(&s, "%s", f->name);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		text_add(&s, others[i], 0, NULL);
		text_add(&s, others[i], 300, NULL);
		sweep_end(&s, "\"%s\"", others[i]);
	}
	bb_model_list(&list);
	sweep_add_text(&s, bb_strbuf_text(&list));
	sweep_end(&s, "list");
	bb_strbuf_free(&list);
	sweep_close(&s);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A file in memory that is written again and again. */
static int file_of_config;
static char path[32];

static void config_add(struct sweep *s, const json_t *config)
{
	assert_int_equal(ftruncate(file_of_config, 0), 0);
	assert_int_equal(lseek(file_of_config, 0, SEEK_SET), 0);
	assert_int_equal(json_dumpfd(config, file_of_config, 0), 0);
	text_add(s, path, 0, path);
}

/* Few blocks, which build fast. */
static void shrink(json_t *config)
{
	static const char *const few[] = {
		"num_hidden_layers", "n_layer",          "num_layers",  "num_decoder_layers",
		"num_local_experts", "n_routed_experts", "num_experts", "first_k_dense_replace"};
	const char *key;
	json_t *value;

	for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
		if (json_is_integer(json_object_get(config, few[i])))
			json_object_set_new(config, few[i],
					    json_integer(i < 4   ? 3
							 : i < 7 ? 8
								 : 1));
	json_object_foreach(config, key, value)
	{
		while (strcmp(key, "layer_types") == 0 && json_array_size(value) > 6)
			json_array_remove(value, json_array_size(value) - 1);
		if (json_is_object(value))
			shrink(value);
	}
}

/* Values that a key may have; NULL: it is left out. */
static const char *const values[] = {NULL, "null", "true",        "false",    "0",  "1",
				     "7",  "-5",   "2.5",         "\"text\"", "[]", "[0]",
				     "{}", "16",   "99999999999", "[0,2]"};
#define VALUES ((int)(sizeof(values) / sizeof(values[0])))

/* ROOT with each key of OBJECT, which is in it, changed. */
static void changes_add(struct sweep *s, json_t *root, json_t *object)
{
	json_t *const was = json_copy(object);
	const char *key;
	json_t *value;
	uint64_t place = 1;

	json_object_foreach(was, key, value)
	{
		if (json_is_object(value) && object == root && json_object_size(value) > 3)
			changes_add(s, root, json_object_get(object, key));
		for (int i = 0; i < VALUES; i++) {
			if (i > 1 && drawn(place++, 7, 4) > 0)
				continue;
			if (values[i])
				json_object_set_new(object, key,
						    json_loads(values[i], JSON_DECODE_ANY, NULL));
			else
				json_object_del(object, key);
			config_add(s, root);
			json_object_set(object, key, value);
		}
	}
	json_decref(was);
}

/* ROOT with keys that few files have. */
static void additions_add(struct sweep *s, json_t *root)
{
	static const char *const more[] = {
		"{\"unheard_of\": 3, \"another\": true}",
		"{\"num_channels\": 4}",
		"{\"layer_norm_elementwise_affine\": false}",
		"{\"layer_norm_elementwise_affine\": true}",
		"{\"is_encoder_decoder\": true}",
		"{\"pooler_output_size\": 5, \"sliding_window\": 4096}",
		"{\"architectures\": [\"FooForCausalLM\"]}",
		"{\"architectures\": [\"FooModel\"]}",
		"{\"architectures\": [\"FooEncoderModel\"]}",
		"{\"architectures\": [\"FooForSequenceClassification\"], \"num_labels\": 9}",
		"{\"architectures\": [\"BertForPreTraining\"]}",
		"{\"architectures\": [\"BertForMaskedLM\"], \"id2label\": {\"0\": \"a\"}}",
		"{\"architectures\": [\"BertDoubleHeadsModel\"]}",
		"{\"layer_types\": [\"full_attention\", \"full_attention\"]}",
		"{\"layer_types\": [\"sliding_attention\", \"full_attention\"]}",
		("{\"layer_types\": [\"sliding_attention\", \"full_attention\", "
		 "\"full_attention\"]}"),
		"{\"layer_types\": [\"chunked_attention\", \"linear_attention\"]}",
		"{\"mlp_only_layers\": [0, 1]}",
		"{\"mlp_only_layers\": [1]}",
		"{\"feed_forward_proj\": \"gated-gelu\"}",
		"{\"feed_forward_proj\": \"relu\"}",
		"{\"transformers_version\": \"4.57.1\"}",
		"{\"transformers_version\": 5}",
		"{\"quantization_config\": {\"quant_method\": \"fp8\"}}",
		"{\"quantization_config\": {\"bits\": 4}}",
		"{\"num_key_value_heads\": 3, \"num_kv_heads\": 4}",
		"{\"num_key_value_heads\": 4, \"num_kv_heads\": 4}",
		"{\"hidden_size\": 64, \"n_embd\": 64, \"d_model\": 96}",
		"{\"num_attention_heads\": 3}",
		"{\"moe_layer_freq\": 2, \"num_ln_in_parallel_attn\": 1}",
		"{\"model_type\": \"unheard_of\"}",
		"{\"model_type\": \"resnet\"}",
		"{\"model_type\": 5}",
		"{\"text_config\": 5}",
	};

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		json_t *const with = json_deep_copy(root), *const part =
								   json_loads(more[i], 0, NULL);

		assert_non_null(part);
		json_object_update(with, part);
		config_add(s, with);
		if (json_object_get(root, "text_config")) {
			json_object_update(json_object_get(root, "text_config"), part);
			config_add(s, root);
		}
		json_decref(with);
		json_decref(part);
	}
}

static void test_configs(void **state)
{
	FILE *const file = fopen(CONFIGS, "r");
	struct sweep s = sweep_open("models_configs");
	char *text = NULL;
	size_t room = 0;

	assert_non_null(file);
	file_of_config = memfd_create("config", 0);
	assert_true(file_of_config >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_of_config);
	while (getline(&text, &room, file) > 0) {
		json_t *const config = json_loads(text, 0, NULL);
		const char *const type = json_string_value(json_object_get(config, "model_type"));

		shrink(config);
		config_add(&s, config);
		changes_add(&s, config, config);
		sweep_end(&s, "%s changed", type);
		additions_add(&s, config);
		sweep_end(&s, "%s with more", type);
		json_decref(config);
	}
	close(file_of_config);
	free(text);
	fclose(file);
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_configs),
	};

	return cmocka_run_group_tests_name("models_sweep", tests, NULL, NULL);
}
