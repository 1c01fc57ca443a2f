/*
 * fits.h - the memory of a GPU, and the divisions of a training run among GPUs that fit into it.
 */
#pragma once

#include "core/strbuf.h"
#include "models/memory/training.h"

/* ---- the memory of a GPU --------------------------------------------------------------------- */

/*
 * The memory that a run may use. A card of "80 GB" is no 80 GiB to programs: what its driver
 * reports counts, less a reserve for what no formula has.
 *
 * The default reserve of 3.5 GiB, per GPU: 0.5 GiB that the driver reports but gives to no program
 * (81,559 MiB in nvidia-smi are 79.1 to 79.2 GiB in PyTorch, 143,771 MiB are 139.8), and 3 GiB for
 * CUDA's context, libraries, NCCL's buffers and the allocator's fragmentation: in out-of-memory
 * messages of multi-GPU training, what a process held beside PyTorch's tensors (docs/memory.md).
 */

/* A line of a program's table of options. */
#define BB_RESERVE_OPTION(OPTION, ...)                                                             \
	OPTION(SIZE, reserve, "reserve", 0, "3.5G",                                                \
	       "part of that memory for what is not calculated: CUDA, NCCL's buffers, "            \
	       "fragmentation",                                                                    \
	       ##__VA_ARGS__)

struct bb_capacity {
	uint64_t reported; /* bytes by the driver */
	uint64_t reserve;
	uint64_t usable;  /* the difference */
	const char *card; /* "H100", whose driver reports that; NULL: the size as given */
};

/*
 * What is left of SIZE bytes without RESERVE. A SIZE that is the nominal one of known cards, such
 * as 80 GiB, counts as what the driver of CARD reports or, if that is NULL, of the most usual one.
 * OPTION has the size; BB_EUSAGE if nothing is left.
 */
BB_MUST bb_status bb_capacity_open(struct bb_capacity *capacity, const char *option, uint64_t size,
				   const char *card, uint64_t reserve, struct bb_error *error);

/* Append "81.76 GB (85.52 by the driver of H100, less 3.76 in reserve)". */
void bb_capacity_add(struct bb_strbuf *out, const struct bb_capacity *capacity);

/* ---- the combinations ------------------------------------------------------------------------ */

/* The combinations to try. */
struct bb_fits_space {
	uint64_t gpus;             /* dp x tp x pp */
	uint64_t most_tp, most_pp; /* tp: 1, 2, 4 … */
	uint64_t micro_batch;      /* 0: the largest of 1, 2, 4 … most_micro_batch that fits */
	uint64_t most_micro_batch;
	int zero;       /* stage of ZeRO; -1: all */
	int recompute;  /* enum bb_recompute; -1: all */
	uint64_t limit; /* bytes of a GPU */
};

struct bb_fit {
	struct bb_training training;
	struct bb_need need; /* of the pipeline stage that needs most */
};

struct bb_fits {
	/* Those that fit, in ascending order of recomputation, of tp x pp, of pp and of the stage
	   of ZeRO: the first ones compute and communicate least. */
	struct bb_fit *list;
	size_t n;
	size_t tried;          /* combinations; microbatches do not count */
	struct bb_fit nearest; /* the combination that needs least, unless tried is 0 */
};

/*
 * Try all combinations of SPACE that bb_training_check accepts. Everything else is as in BASE,
 * whose sequence parallelism applies where tp exceeds 1, and whose microbatches, if 0, are 4 pp.
 * BB_EINTERNAL without memory. The caller frees fits->list whatever is returned.
 */
BB_MUST bb_status bb_fits_find(struct bb_fits *fits, const struct bb_training *base,
			       const struct bb_fits_space *space, struct bb_error *error);

/* TEXT = "dp 8, tp 1, pp 1, ZeRO 1, recompute none". */
#define BB_FIT_NAME 96
const char *bb_fit_name(const struct bb_training *training, char text[BB_FIT_NAME]);

/* Whether a training fits into the memory of its GPUs. */
#define BB_FIT_TEXT 512
struct bb_fit_verdict {
	bool fits;
	struct bb_need need;    /* of the pipeline stage that needs most */
	uint64_t limit;         /* usable bytes of a GPU */
	char text[BB_FIT_TEXT]; /* a sentence: the parts of the memory, total and limit */
};

/*
 * Judge TRAINING, which bb_training_check accepts, by LIMIT usable bytes of a GPU. Its layout may
 * be NULL. If it does not fit, the text has the first combination of as many GPUs that does, with a
 * microbatch that is no larger. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_fit_judge(struct bb_fit_verdict *verdict, const struct bb_training *training,
			       uint64_t limit, struct bb_error *error);
/* The same if TRAINING, which has a layout, needs NEED. */
BB_MUST bb_status bb_fit_judge_need(struct bb_fit_verdict *verdict,
				    const struct bb_training *training, const struct bb_need *need,
				    uint64_t limit, struct bb_error *error);
