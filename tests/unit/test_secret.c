/*
 * The secret of a run: which values are taken, and that a proof is HMAC-SHA-256 (RFC 4231).
 */
#include "launch/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_values(void **state)
{
	char *long_value = calloc(4098, 1);
	struct bb_error error = {0};

	unsetenv(BB_SECRET_VARIABLE);
	assert_int_equal(bb_secret_check(&error), BB_OK);
	setenv(BB_SECRET_VARIABLE, "0123456789abcdef", 1);
	assert_int_equal(bb_secret_check(&error), BB_OK);
	setenv(BB_SECRET_VARIABLE, "0123456789abcde", 1);
	assert_int_equal(bb_secret_check(&error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "BUSBENCH_SECRET has 15 bytes, not 16 to 4096"));
	setenv(BB_SECRET_VARIABLE, "", 1);
	assert_int_equal(bb_secret_check(&error), BB_EUSAGE);
	memset(long_value, 'x', 4097);
	setenv(BB_SECRET_VARIABLE, long_value, 1);
	assert_int_equal(bb_secret_check(&error), BB_EUSAGE);
	free(long_value);
}

/* RFC 4231, test case 2 has too short a key; 6 is of 131 bytes of 0xaa. */
static void test_proof(void **state)
{
	static const unsigned char right[BB_SECRET_PROOF] = {
		0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f, 0x0d, 0x8a, 0x26,
		0xaa, 0xcb, 0xf5, 0xb7, 0x7f, 0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28,
		0xc5, 0x14, 0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
	static const char data[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	unsigned char proof[BB_SECRET_PROOF];
	struct bb_error error = {0};
	struct bb_secret *secret;
	char key[132] = "";

	memset(key, 0xaa, sizeof(key) - 1);
	setenv(BB_SECRET_VARIABLE, key, 1);
	assert_int_equal(bb_secret_open(&secret, &error), BB_OK);
	assert_true(bb_secret_prove(secret, data, sizeof(data) - 1, proof));
	assert_memory_equal(proof, right, sizeof(right));
	assert_true(bb_secret_verify(secret, data, sizeof(data) - 1, right));
	for (size_t i = 0; i < sizeof(proof); i++) {
		proof[i] ^= 1;
		assert_false(bb_secret_verify(secret, data, sizeof(data) - 1, proof));
		proof[i] ^= 1;
	}
	assert_false(bb_secret_verify(secret, data, sizeof(data) - 2, right));
	bb_secret_close(secret);
	unsetenv(BB_SECRET_VARIABLE);
	assert_int_equal(bb_secret_open(&secret, &error), BB_OK);
	assert_null(secret);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_proof),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
