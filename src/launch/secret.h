/*
 * secret.h - what the processes of a run share so that strangers stay out: the environment's
 * BUSBENCH_SECRET, and HMAC-SHA-256 under it by OpenSSL's libcrypto, loaded at run time.
 */
#ifndef BB_LAUNCH_SECRET_H
#define BB_LAUNCH_SECRET_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_SECRET_VARIABLE "BUSBENCH_SECRET"
#define BB_SECRET_PROOF 32 /* bytes */
#define BB_SECRET_LEAST 16 /* bytes of a secret: shorter ones can be guessed from a proof */

struct bb_secret;

/* BB_EUSAGE if the variable's value is too short; looks at nothing else. */
BB_MUST bb_status bb_secret_check(struct bb_error *error);

/* *SECRET = the environment's, NULL without one. BB_EBACKEND if libcrypto cannot be loaded. */
BB_MUST bb_status bb_secret_open(struct bb_secret **secret, struct bb_error *error);
void bb_secret_close(struct bb_secret *secret); /* NULL: nothing */

/* False if the library fails. */
BB_MUST bool bb_secret_prove(const struct bb_secret *secret, const void *data, size_t bytes,
			     unsigned char proof[BB_SECRET_PROOF]);
/* Is PROOF that of DATA? Takes as long whatever PROOF is. */
BB_MUST bool bb_secret_verify(const struct bb_secret *secret, const void *data, size_t bytes,
			      const unsigned char proof[BB_SECRET_PROOF]);

#endif
