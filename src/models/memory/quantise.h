/*
 * quantise.h - a tensor in integers of 8 or 4 bits, with one scale for all of it, and back.
 *
 * Codes go from -M to M, M = 127 or 7:
 *   min/max   the least number becomes -M, the largest M, all others between in proportion
 *   scale     code = round(x / scale), scale = largest magnitude / M; 0 stays 0
 * Halves are rounded to the even number, as torch.round does.
 */
#ifndef BB_MODELS_MEMORY_QUANTISE_H
#define BB_MODELS_MEMORY_QUANTISE_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum bb_quantise_method { BB_BY_MINMAX, BB_BY_SCALE };
extern const char *const bb_quantise_words[];

struct bb_quantised {
	unsigned bits; /* 8 or 4 */
	size_t n;
	float scale;          /* between neighbouring codes; 0: all numbers are the same, or 0 */
	float zero;           /* the number of code 0; by scale: 0 */
	unsigned char *codes; /* two in a byte where they have 4 bits, the first one low; owned */
	uint64_t bytes;       /* of codes, scale and, by min/max, zero */
};

/*
 * Quantise N (at least 1) numbers of X. BB_EUSAGE for one that is not finite, or so far from others
 * that their difference is not; BB_EINTERNAL without memory. Free Q whatever comes back.
 */
BB_MUST bb_status bb_quantise(struct bb_quantised *q, const float *x, size_t n, unsigned bits,
			      enum bb_quantise_method method, struct bb_error *error);
void bb_quantised_free(struct bb_quantised *q);

int bb_quantised_code(const struct bb_quantised *q, size_t i);
float bb_quantised_number(const struct bb_quantised *q, size_t i); /* as it comes back */

/* How far what comes back is from X: at most, and root of the mean square. */
struct bb_quantise_loss {
	double most, rms;
};
struct bb_quantise_loss bb_quantise_loss(const struct bb_quantised *q, const float *x);

#endif
