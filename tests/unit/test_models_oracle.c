/*
 * Models against transformers and torchvision: tests/unit/models.jsonl, which
 * studies/models_oracle.py wrote, and tests/unit/model_defaults.jsonl, which
 * studies/models_defaults.py wrote. Compared are the number of parameters and tensors, all names
 * and shapes in the order of registration, the order in which autograd completes the gradients, and
 * PyTorch's buckets.
 */
#include "models/model.h"
#include "buckets.h"

#include <inttypes.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define ORACLE "tests/unit/models.jsonl"
#define LEAST_LINES 100
#define DEFAULTS "tests/unit/model_defaults.jsonl"
#define FAMILIES 24 /* with a config.json */

/* FNV-1a of lines, as fnv in studies/models_oracle.py. */
struct hash {
	uint64_t value;
	bool begun;
};

static const struct hash hash_begin = {UINT64_C(0xCBF29CE484222325), false};

static void add_line(struct hash *hash, const char *text)
{
	for (const char *c = hash->begun ? "\n" : ""; *c; c++)
		hash->value = (hash->value ^ (unsigned char)*c) * UINT64_C(0x100000001B3);
	for (; *text; text++)
		hash->value = (hash->value ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
	hash->begun = true;
}

static bool is_hash(const struct hash *hash, const json_t *line, const char *key)
{
	char text[20];

	snprintf(text, sizeof(text), "%016" PRIx64, hash->value);
	return strcmp(text, json_string_value(json_object_get(line, key))) == 0;
}

static uint64_t number(const json_t *line, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(line, key));
}

static bool same_tensors(const struct bb_model *m, const json_t *line)
{
	struct hash hash = hash_begin;
	char text[256];

	for (size_t i = 0; i < m->ntensors; i++) {
		const struct bb_tensor *t = &m->tensors[i];

		snprintf(text, sizeof(text), "%s %" PRIu64 "x%" PRIu64 "x%" PRIu64, t->name,
			 t->matrices, t->rows, t->columns);
		add_line(&hash, text);
	}
	return is_hash(&hash, line, "shapes");
}

static bool same_order(const struct bb_model *m, const json_t *line)
{
	struct hash hash = hash_begin;

	for (size_t i = 0; i < m->ntensors; i++)
		add_line(&hash, m->tensors[m->order[i]].name);
	return is_hash(&hash, line, "order");
}

/* In fp32, with the caps of DistributedDataParallel. */
static bool same_buckets(const struct bb_model *m, const json_t *line)
{
	struct hash hash = hash_begin;
	struct bb_buckets buckets;
	char text[32];
	bool same;

	assert_int_equal(ddp_buckets(&buckets, m, BB_FLOAT, UINT64_C(1) << 20, UINT64_C(25) << 20),
			 BB_OK);
	for (size_t i = 0; i < buckets.n; i++) {
		snprintf(text, sizeof(text), "%" PRIu64, buckets.list[i].bytes);
		add_line(&hash, text);
	}
	same = buckets.n == number(line, "buckets") && is_hash(&hash, line, "bytes");
	bb_fusion_free(&buckets);
	return same;
}

/* Returns the number of differences between the model that TEXT names and LINE. */
static int compare(const char *text, const char *name, const json_t *line)
{
	struct bb_error error = {.text = ""};
	struct bb_model m;
	const char *differs = NULL;

	if (bb_model_open(&m, text, 0, &error) != BB_OK)
		differs = error.text;
	else if (m.parameters != number(line, "parameters"))
		differs = "parameters";
	else if (m.ntensors != number(line, "tensors"))
		differs = "the number of tensors";
	else if (!same_tensors(&m, line))
		differs = "names or shapes";
	else if (json_object_get(line, "order") && !same_order(&m, line))
		differs = "the order of the backward pass";
	else if (json_object_get(line, "order") && !same_buckets(&m, line))
		differs = "buckets";
	if (differs)
		print_error("%s as %s: %s\n", name, text == name ? "preset" : "config.json",
			    differs);
	bb_model_free(&m);
	return differs != NULL;
}

struct file {
	char path[32];
};

static struct file write_config(const json_t *config)
{
	struct file file = {"/tmp/bb_model_XXXXXX.json"};
	const int fd = mkstemps(file.path, 5);

	assert_true(fd >= 0);
	assert_int_equal(json_dumpfd(config, fd, 0), 0);
	close(fd);
	return file;
}

/* The same by the config.json that the library saves. */
static int compare_config(const char *name, const json_t *line)
{
	const struct file file = write_config(json_object_get(line, "config"));
	const int differences = compare(file.path, name, line);

	unlink(file.path);
	return differences;
}

static struct bb_model open_config(const json_t *config)
{
	const struct file file = write_config(config);
	struct bb_error error = {.text = ""};
	struct bb_model model;

	if (bb_model_open(&model, file.path, 0, &error) != BB_OK)
		print_error("%s\n", error.text);
	assert_int_equal(bb_error_status(&error), BB_OK);
	unlink(file.path);
	return model;
}

/* A file without the keys of CONFIG, or of its parts, but for those that name the kind. */
static json_t *bare(const json_t *config)
{
	static const char *const parts[] = {"text_config", "vision_config"};
	json_t *const bare = json_object();

	json_object_set(bare, "model_type", json_object_get(config, "model_type"));
	json_object_set(bare, "transformers_version",
			json_object_get(config, "transformers_version"));
	for (int i = 0; i < 2; i++)
		if (json_object_get(config, parts[i]))
			json_object_set_new(bare, parts[i], json_object());
	return bare;
}

static void test_defaults(void **state)
{
	FILE *file = fopen(DEFAULTS, "r");
	char *text = NULL;
	size_t room = 0;
	int lines = 0;

	assert_non_null(file);
	for (; getline(&text, &room, file) > 0; lines++) {
		json_t *const full = json_loads(text, 0, NULL), *const lacks = bare(full);
		struct bb_model a, b;

		/* Its class leaves out the one, and another version has another default. */
		if (strcmp(json_string_value(json_object_get(full, "model_type")), "deepseek_v2") ==
		    0) {
			json_object_set_new(full, "num_experts_per_tok", json_integer(6));
			json_object_set_new(lacks, "num_experts_per_tok", json_integer(6));
			json_object_set(lacks, "vocab_size", json_object_get(full, "vocab_size"));
		}
		a = open_config(full);
		b = open_config(lacks);
		for (size_t i = 0; i < sizeof(a.hyper) / sizeof(int64_t); i++)
			if (((int64_t *)&a.hyper)[i] != ((int64_t *)&b.hyper)[i] ||
			    ((int64_t *)&a.vision)[i] != ((int64_t *)&b.vision)[i])
				fail_msg("%s: number %zu of struct bb_hyper differs", a.family, i);
		assert_int_equal(a.parameters, b.parameters);
		assert_non_null(strstr(bb_strbuf_text(&b.origin), "Config: "));
		bb_model_free(&a);
		bb_model_free(&b);
		json_decref(full);
		json_decref(lacks);
	}
	free(text);
	fclose(file);
	assert_int_equal(lines, FAMILIES);
}

static void test_oracle(void **state)
{
	FILE *file = fopen(ORACLE, "r");
	char *text = NULL;
	size_t room = 0;
	int lines = 0, differences = 0;

	assert_non_null(file);
	for (; getline(&text, &room, file) > 0; lines++) {
		json_t *line = json_loads(text, 0, NULL);
		const char *name;

		assert_non_null(line);
		name = json_string_value(json_object_get(line, "name"));
		if (!strchr(name, '/'))
			differences += compare(name, name, line);
		if (json_is_object(json_object_get(line, "config")))
			differences += compare_config(name, line);
		json_decref(line);
	}
	free(text);
	fclose(file);
	assert_true(lines >= LEAST_LINES);
	assert_int_equal(differences, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_oracle),
					   cmocka_unit_test(test_defaults)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
