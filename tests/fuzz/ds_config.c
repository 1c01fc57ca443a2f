/*
 * ds_config.c - what becomes of anything in a ds_config.json: settings within their limits, or an
 * error.
 */
#include "models/memory/ds_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void check_batch(struct bb_ds_config *c, const char *path)
{
	const uint64_t batch = c->batch, dp = 8;
	struct bb_error error = {0};

	if (bb_ds_config_batch(c, path, dp, &error) != BB_OK)
		CHECK(error.text[0]);
	else
		CHECK(c->micro_batch > 0 && c->micro_batches > 0 &&
		      (!batch || batch == dp * c->micro_batch * c->micro_batches));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const int file = memfd_create("config", 0);
	struct bb_error error = {0};
	static const char *const used[] = {"optimizer", NULL};
	struct bb_strbuf others = {0};
	struct bb_ds_config c;
	char path[64];

	CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
	CHECK(lseek(file, 0, SEEK_SET) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (bb_ds_config_read(path, NULL, used, &others, &c, &error) == BB_OK) {
		CHECK(c.zero >= -1 && c.zero < BB_ZERO_STAGES);
		CHECK(c.offload >= -1 && c.offload <= BB_OFFLOAD_PARAMETERS);
		check_batch(&c, path);
	} else {
		CHECK(error.text[0]);
	}
	bb_strbuf_free(&others);
	close(file);
	return 0;
}
