/*
 * The fuzz target of what other processes send, without libFuzzer: for a while by numbers, of
 * inputs that are valid but for some bytes.
 */
#include "../fuzz/wire.c"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

#define INPUTS 20000

static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A few frames, or a hello, as one side sends them. */
static size_t write_valid(uint8_t *input, uint64_t *state)
{
	const struct bb_hello hello = {.magic = BB_HELLO_PLAIN + (uint32_t)(draw(state) % 2),
				       .proc = 1,
				       .password = "busbench, hello",
				       .nprocs = 2,
				       .version = BB_VERSION,
				       .host = "far"};
	size_t size = 0;

	if (draw(state) % 2) {
		memcpy(input, &hello, sizeof(hello));
		return sizeof(hello) + 64;
	}
	for (int i = 0; i < 3; i++) {
		struct bb_frame frame = {.magic = BB_FRAME_MAGIC,
					 .kind = (uint16_t)(draw(state) % 8),
					 .length = (uint16_t)(draw(state) % 40),
					 .status = (int32_t)(draw(state) % 8),
					 .signal = (int32_t)(draw(state) % 2) * SIGTERM};

		memcpy(input + size, &frame, BB_FRAME_HEAD);
		size += BB_FRAME_HEAD + frame.length;
	}
	return size;
}

/* Edits of payloads: a field of 1, 2, 4 or 8 bytes, or a text that has no end. */
static size_t write_edits(uint8_t *input, uint64_t *state)
{
	static const uint8_t lengths[] = {1, 2, 4, 8, 16, 64, 128, 250};
	size_t size = 0;

	for (int i = 0; i < 3; i++) {
		const uint8_t length = lengths[draw(state) % 8];
		const size_t offset = draw(state) % 1024 / (length < 8 ? length : 8) * length;

		input[size] = (uint8_t)(draw(state) % 4);
		input[size + 1] = (uint8_t)offset;
		input[size + 2] = (uint8_t)(offset / 256);
		input[size + 3] = length;
		size += 4;
		for (int k = 0; k < length; k++)
			input[size++] = draw(state) % 3 ? (uint8_t)draw(state) : 255;
	}
	return size;
}

static void test_inputs(void **unused)
{
	static const uint8_t values[] = {0, 1, 2, 127, 128, 255};
	uint8_t input[4096];
	uint64_t state = 88172645463325252u;

	for (int i = 0; i < INPUTS; i++) {
		const bool framed = i % 12 < 6;
		size_t size;

		memset(input, 0, sizeof(input));
		input[0] = (uint8_t)(i % 12);
		size = 1 +
		       (framed ? write_valid(input + 1, &state) : write_edits(input + 1, &state));
		for (size_t k = draw(&state) % 4; framed && k > 0; k--)
			input[1 + draw(&state) % (size - 1)] =
				draw(&state) % 2 ? values[draw(&state) % 6] : (uint8_t)draw(&state);
		LLVMFuzzerTestOneInput(input, draw(&state) % 8 ? size : 1 + draw(&state) % size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_inputs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
