/*
 * model.c - what becomes of any model in words, or in a config.json where it begins with a brace: a
 * model that adds up, or an error.
 */
#include "../unit/buckets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void check_model(const struct bb_model *m)
{
	struct bb_buckets b;
	double *ready = malloc(m->ntensors * sizeof(*ready));
	uint64_t sum = 0;

	CHECK(ready && m->ntensors > 0 && m->backward > 0);
	for (size_t i = 0; i < m->ntensors; i++)
		sum += m->tensors[i].elements;
	CHECK(sum == m->parameters);
	bb_model_ready(m, 1, ready);
	CHECK(ready[m->ntensors - 1] == 1);
	for (size_t i = 1; i < m->ntensors; i++)
		CHECK(ready[i] >= ready[i - 1]);
	CHECK(ddp_buckets(&b, m, BB_FLOAT, 1 << 20, 25 << 20) == BB_OK);
	CHECK(b.bytes == 4 * m->parameters);
	bb_fusion_free(&b);
	free(ready);
}

static void try_word(const char *word)
{
	struct bb_error error = {0};
	struct bb_model m;

	if (bb_model_open(&m, word, 0, &error) == BB_OK)
		check_model(&m);
	else
		CHECK(error.text[0]);
	bb_model_free(&m);
}

static void try_file(const uint8_t *data, size_t size)
{
	const int file = memfd_create("config", 0);
	char path[64];

	CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
	CHECK(lseek(file, 0, SEEK_SET) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	try_word(path);
	close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char word[256];

	if (size > 0 && data[0] == '{') {
		try_file(data, size);
	} else if (size < sizeof(word)) {
		memcpy(word, data, size);
		word[size] = '\0';
		/* Not the files of this machine. */
		if (!strchr(word, '/') && !strstr(word, ".json"))
			try_word(word);
	}
	return 0;
}
