/*
 * secret.h - the shared secret that keeps strangers out of a run: BUSBENCH_SECRET in the
 * environment, and HMAC-SHA-256 with it by OpenSSL's libcrypto, loaded at run time.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_SECRET_VARIABLE "BUSBENCH_SECRET"
#define BB_SECRET_PROOF 32 /* bytes */
#define BB_SECRET_LEAST 16 /* bytes of a secret: a shorter one can be guessed from a proof */

struct bb_secret;

/* BB_EUSAGE if the value of the variable is too short or too long. */
BB_MUST bb_status bb_secret_check(struct bb_error *error);

/* *SECRET = that of the environment, NULL without one. BB_EUSAGE as bb_secret_check; BB_EBACKEND if
   libcrypto cannot be loaded. */
BB_MUST bb_status bb_secret_open(struct bb_secret **secret, struct bb_error *error);
void bb_secret_close(struct bb_secret *secret); /* NULL: nothing */

/* False if the library fails. */
BB_MUST bool bb_secret_prove(const struct bb_secret *secret, const void *data, size_t bytes,
			     unsigned char proof[BB_SECRET_PROOF]);
/* Is PROOF that of DATA? The time does not depend on PROOF. */
BB_MUST bool bb_secret_verify(const struct bb_secret *secret, const void *data, size_t bytes,
			      const unsigned char proof[BB_SECRET_PROOF]);
