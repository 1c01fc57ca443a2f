/*
 * fits.h - which ways of dividing a training run among GPUs fit into their memory.
 */
#ifndef BB_MODELS_MEMORY_FITS_H
#define BB_MODELS_MEMORY_FITS_H

#include "models/memory/training.h"

/* What is tried. */
struct bb_fits_space {
	uint64_t gpus;             /* dp x tp x pp */
	uint64_t most_tp, most_pp; /* tp: 1, 2, 4 … */
	uint64_t micro_batch;      /* 0: 1, 2, 4 … most_micro_batch, and the largest that fits */
	uint64_t most_micro_batch;
	int zero;       /* -1: all stages; those that bb_training_check likes */
	int recompute;  /* enum bb_recompute; -1: all */
	uint64_t limit; /* bytes of a GPU */
};

struct bb_fit {
	struct bb_training training;
	struct bb_need need; /* of the stage that needs most */
};

struct bb_fits {
	/* Those that fit: least recomputation first, then fewest ranks of tensor parallelism and
	   pipeline, then the lowest stage of ZeRO, which communicate least. */
	struct bb_fit *list;
	size_t n;
	size_t tried;          /* ways, whatever the micro-batch */
	struct bb_fit nearest; /* what needs least of all that was tried; of tried 0: nothing */
};

/*
 * Try all ways of SPACE that bb_training_check likes; what is not in SPACE is as in BASE, sequence
 * parallelism wherever there is tensor parallelism. BB_EINTERNAL without memory. Free FITS whatever
 * comes back.
 */
BB_MUST bb_status bb_fits_find(struct bb_fits *fits, const struct bb_training *base,
			       const struct bb_fits_space *space, struct bb_error *error);
void bb_fits_free(struct bb_fits *fits);

#endif
