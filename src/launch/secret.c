/*
 * libcrypto serves because Python and ssh need it too, its HMAC and CRYPTO_memcmp have had the same
 * signature since 1.1, and distributions keep it patched.
 */
#include "launch/secret.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *const libraries[] = {"libcrypto.so.3", "libcrypto.so.1.1"};

struct bb_secret {
	void *library;
	const char *key; /* the environment's */
	/* As <openssl/hmac.h>, <openssl/evp.h> and <openssl/crypto.h> declare them. */
	unsigned char *(*hmac)(const void *digest, const void *key, int key_bytes,
			       const unsigned char *data, size_t bytes, unsigned char *proof,
			       unsigned *proof_bytes);
	const void *(*sha256)(void);
	int (*compare)(const void *a, const void *b, size_t bytes);
};

bb_status bb_secret_check(struct bb_error *error)
{
	const char *key = getenv(BB_SECRET_VARIABLE);
	const size_t bytes = key ? strlen(key) : BB_SECRET_LEAST;

	if (bytes >= BB_SECRET_LEAST && bytes <= 4096)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       BB_SECRET_VARIABLE
		       " has %zu bytes, not %d to 4096; make one with: openssl rand -hex 16",
		       bytes, BB_SECRET_LEAST);
}

bb_status bb_secret_open(struct bb_secret **secret, struct bb_error *error)
{
	bb_status status = bb_secret_check(error);

	*secret = NULL;
	if (status != BB_OK || !getenv(BB_SECRET_VARIABLE))
		return status;
	struct bb_secret *const s = calloc(1, sizeof(*s));
	if (!s)
		return bb_no_memory(error, "a secret");
	s->key = getenv(BB_SECRET_VARIABLE);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && !s->library; i++)
		s->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
	if (s->library) {
		s->hmac = dlsym(s->library, "HMAC");
		s->sha256 = dlsym(s->library, "EVP_sha256");
		s->compare = dlsym(s->library, "CRYPTO_memcmp");
	}
	if (!s->hmac || !s->sha256 || !s->compare) {
		bb_secret_close(s);
		return bb_fail(error, BB_EBACKEND,
			       BB_SECRET_VARIABLE
			       " is set, but libcrypto, which proves that a process knows it, "
			       "cannot be loaded (neither %s nor %s); install OpenSSL's library",
			       libraries[0], libraries[1]);
	}
	*secret = s;
	return BB_OK;
}

void bb_secret_close(struct bb_secret *secret)
{
	if (!secret)
		return;
	if (secret->library)
		dlclose(secret->library);
	free(secret);
}

bool bb_secret_prove(const struct bb_secret *secret, const void *data, size_t bytes,
		     unsigned char proof[BB_SECRET_PROOF])
{
	unsigned length = 0;

	return secret->hmac(secret->sha256(), secret->key, (int)strlen(secret->key), data, bytes,
			    proof, &length) &&
	       length == BB_SECRET_PROOF;
}

bool bb_secret_verify(const struct bb_secret *secret, const void *data, size_t bytes,
		      const unsigned char proof[BB_SECRET_PROOF])
{
	unsigned char right[BB_SECRET_PROOF];

	return bb_secret_prove(secret, data, bytes, right) &&
	       secret->compare(right, proof, sizeof(right)) == 0;
}
