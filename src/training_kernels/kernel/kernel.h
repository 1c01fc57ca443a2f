/*
 * kernel.h - what the training kernels share. A kernel is a program writer, an expectation of its
 * data and a row:
 *
 *   options.h    options that several kernels have, declared once
 *   fields.h     fields of their records, and the functions that fill them from a measured variant
 *   kernel.c     a driver's state: variants of the step, memory, rows
 *   estimate.c   whether data and model fit, and how many ranks there will be
 *
 * The state of a kernel's driver begins with a struct bb_kernel, each of its variants with a struct
 * bb_variant. Its experiment is
 *
 *   open      bb_engine_alloc and bb_engine_patterns for the data; bb_kernel_sweep, or for each
 *             variant bb_variant_new and bb_variant_add; their programs by bb_taped_begin,
 *             operations, bb_taped_end (programs/tape.h)
 *   deliver   bb_kernel_deliver, or bb_kernel_deliver_setting where rows come one by one, of the
 *             kernel's fields and BB_TIMES_SET or BB_HALVES_SET; then bb_best_recommend or a
 *             sentence, and bb_engine_answer
 *   close     bb_kernel_close
 *
 * so that it frees nothing itself.
 */
#ifndef BB_TRAINING_KERNELS_KERNEL_KERNEL_H
#define BB_TRAINING_KERNELS_KERNEL_KERNEL_H

#include "core/recommend.h"
#include "harness/measure/engine.h"
#include "programs/tape.h"
#include "training_kernels/kernel/fields.h"
#include "training_kernels/kernel/options.h"

struct bb_kernel_memory;

struct bb_kernel {
	struct bb_engine engine;
	/* In the order of bb_variant_new; those of a sweep at setting * parts + part. */
	struct bb_variant **variants;
	size_t nvariants, room;
	size_t settings; /* of a sweep */
	int parts;       /* of each of them */
	/* Of a sweep: the first setting whose PART is also that of SETTING, which may be SETTING.
	   NULL: each has its own. */
	size_t (*first)(const struct bb_kernel *kernel, size_t setting, int part);
	struct bb_kernel_memory *memory;
};

/* One timed program; own of its workload. */
struct bb_variant {
	struct bb_kernel *kernel;
	size_t place;   /* among the kernel's variants */
	size_t trial;   /* its number */
	size_t setting; /* of several that share it the first */
	int part;
	struct bb_taped taped; /* freed with the variant; zeroed: its program is another */
	/* Frees what else the variant holds. NULL: nothing. */
	void (*release)(struct bb_variant *variant);
};

/* N zeroed elements of BYTES in CPU memory, until the experiment ends. NULL without memory, with
   the run's error set. */
void *bb_kernel_keep(struct bb_kernel *kernel, size_t n, size_t bytes);

/* A zeroed variant of BYTES; NULL without memory, with the run's error set. It does not move. */
void *bb_variant_new(struct bb_kernel *kernel, size_t bytes);

/* Add VARIANT as a copy of TRIAL, whose workload.own becomes VARIANT and whose program, unless set,
   that of its tapes. FORMAT is its name; REFUSAL as in bb_engine_add. */
BB_MUST bb_status bb_variant_add(struct bb_variant *variant, const struct bb_trial *trial,
				 const char *refusal, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* The parts of a step that most kernels time: all of it, and each half of it alone. */
enum bb_step_half { BB_HALF_STEP, BB_HALF_COMPUTE, BB_HALF_COMMUNICATE, BB_HALVES };

/*
 * Add a variant of BYTES for each of PARTS of SETTINGS more settings, as variant->setting and part,
 * unless an earlier setting has the same one. WRITE makes its program, and fills the rest of TRIAL,
 * its name included; it sets *REFUSAL where that cannot run.
 */
typedef bb_status bb_variant_write(struct bb_variant *variant, struct bb_trial *trial,
				   const char **refusal);
BB_MUST bb_status bb_kernel_sweep(struct bb_kernel *kernel, size_t settings, int parts,
				  size_t bytes, bb_variant_write *write);
/* Add a variant that is no part of a setting, but has a SETTING and a PART for WRITE. No sweep may
   follow. */
BB_MUST bb_status bb_kernel_add(struct bb_kernel *kernel, size_t setting, int part, size_t bytes,
				bb_variant_write *write);

static inline struct bb_variant *bb_kernel_variant(const struct bb_kernel *kernel, size_t setting,
						   int part)
{
	return kernel->variants[setting * (size_t)kernel->parts + (size_t)part];
}

/* What was measured of PART of SETTING; the reason why one of its parts cannot run, or NULL. */
const struct bb_trial *bb_kernel_trial(const struct bb_kernel *kernel, size_t setting, int part);
const char *bb_kernel_refusal(const struct bb_kernel *kernel, size_t setting);

/* Fills RECORD, which is initialised, from SETTING. */
typedef void bb_kernel_describe(const struct bb_kernel *kernel, size_t setting, void *record);
/* Fills all but the reason why SETTING cannot run. Without a collective nothing is reported. */
typedef void bb_kernel_skip(const struct bb_kernel *kernel, size_t setting,
			    struct bb_skip_record *skip);

/* Rank 0: deliver a record of KIND for SETTING, whose data is that of the first part that is
   verified; or skip it if it cannot run. */
BB_MUST bb_status bb_kernel_deliver_setting(struct bb_kernel *kernel, size_t setting,
					    const struct bb_record_kind *kind,
					    bb_kernel_describe *describe, bb_kernel_skip *skip);
/* The same for all settings, skipped ones first. BB_EUNSUPPORTED with the first reason if none can
   run, or if one cannot and SKIP is NULL. */
BB_MUST bb_status bb_kernel_deliver(struct bb_kernel *kernel, const struct bb_record_kind *kind,
				    bb_kernel_describe *describe, bb_kernel_skip *skip);

/* What was measured of VARIANT. */
static inline const struct bb_trial *bb_variant_trial(const struct bb_variant *variant)
{
	return &variant->kernel->engine.trials[variant->trial];
}

/* Median seconds of its steps. */
static inline double bb_variant_median(const struct bb_variant *variant)
{
	return bb_variant_trial(variant)->stats.p50;
}

/* The buffers of the collective O, in place in ALL, of a rank at PLACE in its group. */
void bb_kernel_in_place(const struct bb_operation *o, int place, char *all, void **in, void **out);

/* The `close` of an experiment whose state begins with a struct bb_kernel; and between two parts of
   it: no variant, memory or trial is left. */
void bb_kernel_close(struct bb_engine *engine);
void bb_kernel_clear(struct bb_kernel *kernel);

/* ---- the best -------------------------------------------------------------------------------- */

/* The candidates of a recommendation, as they are found. */
struct bb_best {
	struct bb_recommendation choice; /* its list and number are set by bb_best_add */
	struct bb_candidate *list;
	size_t room;
	bool failed; /* out of memory */
};

/* Add CANDIDATE with the name FORMAT. */
void bb_best_add(struct bb_best *best, struct bb_candidate candidate, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The steps of TRIAL as a candidate, each divided by PER; OWN is for the cause. */
struct bb_candidate bb_best_steps(const struct bb_trial *trial, double per, const void *own);

/* Append the recommendation to OUT. Frees the candidates. */
void bb_best_recommend(struct bb_best *best, struct bb_strbuf *out);

#endif
