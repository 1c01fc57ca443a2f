/*
 * zero.h - the benchmark of ZeRO: a mixed-precision Adam step under each stage, its memory booked
 * byte by byte, its result checked bit by bit.
 *
 *   zero.c           the benchmark: what it can do, how it begins and ends
 *   options.c        its options
 *   units.c          a model's layers, and where they lie in the rows of a rank
 *   ledger.c         memory, booked by what it holds
 *   data.c adam.c    what is trained, and its arithmetic
 *   rank.c           what a rank holds under a stage
 *   calls.c          the collectives of a step
 *   step.c           a step; tape.c in virtual time
 *   drive.c          what every driver does: stage by stage, timed and verified
 *   check.c          what became of the parameters
 *   deliver.c        what comes of it; record.c its fields, text.c the table
 */
#ifndef BB_MEMORY_ZERO_ZERO_H
#define BB_MEMORY_ZERO_ZERO_H

#include "harness/measure/engine.h"
#include "models/memory/states.h"
#include "memory/zero/data.h"

enum bb_zero_overlap { BB_ZERO_OVERLAP_ON, BB_ZERO_OVERLAP_OFF };

struct bb_zero_options {
	/* As given. */
	const char *model_text, *stages_text, *algo_text, *flops_text;
	int dtype_choice, overlap; /* enum bb_zero_overlap */
	int stand_in;              /* enum bb_stand_in */
	int64_t seq;               /* 0: the model's */
	int64_t iters, accumulate, overflow, growth, scale;
	int64_t as_rank, world;
	int64_t batch;    /* sequences or images of a micro-batch, with flops */
	uint64_t step_ns; /* forward and backward of a micro-batch; 0: not given */
	bool offload;
	bool overflow_given, as_rank_given, world_given, batch_given, compute_given;

	/* Worked out from them. */
	enum bb_dtype dtype;
	bool stages[BB_ZERO_STAGES];
};

/* A stage, of one rank where it is about memory. */
struct bb_zero_record {
	const char *model, *dtype, *algorithm, *overlap, *verified, *checksum;
	int64_t nranks, stage, rank, parameters, units, padding, accumulate, steps, skipped;
	bool offload, alone;
	/* Bytes of that rank: calculated, and when most was held. */
	int64_t formula_parameters_bytes, formula_gradients_bytes, formula_optimizer_bytes;
	int64_t formula_bytes;
	int64_t parameters_bytes, gradients_bytes, optimizer_bytes, communication_bytes;
	int64_t held_bytes, fragmentation_bytes, reserved_bytes, host_bytes;
	double states_error_percent;
	int64_t system_constant_bytes, system_bytes, system_reserved_bytes;
	double system_error_percent;
	/* Most that was held until then. */
	int64_t model_bytes, wrapped_bytes, before_bytes, after_bytes;
	/* That a rank sends in a step. */
	int64_t wire_bytes, formula_wire_bytes;
	double wire_volumes;
	double step_us, forward_us, forward_wait_us, backward_us, backward_wait_us, optimise_us;
	double gather_us;
	double loss_scale;
	int64_t wrong;
	double end_unix_s;
};

/* The books of a rank at a point of its first step. */
struct bb_zero_moment_record {
	int64_t stage, item;
	const char *moment;
	int64_t parameters_bytes, gradients_bytes, optimizer_bytes, communication_bytes;
	int64_t held_bytes, fragmentation_bytes, reserved_bytes, host_bytes, peak_bytes;
};

extern const struct bb_record_kind bb_record_zero, bb_record_zero_moment;
extern const struct bb_option bb_zero_rows[];
extern const struct bb_benchmark bb_zero_benchmark;

struct bb_zero_pass {
	double seconds, flops; /* 0: none; not known */
};

/* The state of the benchmark. */
struct bb_zero {
	struct bb_zero_options asked; /* first: the rows are read into it */
	struct bb_zero_units units;
	struct bb_zero_pass forward, backward; /* of a micro-batch, beside what its data takes */
	struct bb_recipe recipe;
	int nranks; /* of the world that the states are divided in */
	bool overlaps;
	bool alone; /* --as-rank: nobody else is there */
	struct bb_zero_data data;
	struct bb_zero_scale scale;        /* before the first step */
	const char *skips[BB_ZERO_STAGES]; /* why a stage is not run; NULL: it is */
	char skip_text[BB_ZERO_STAGES][256];
};

/* The check of the benchmark (see benchmark.h). */
BB_MUST bb_status bb_zero_check(const struct bb_benchmark *benchmark, void *own,
				struct bb_options *options,
				const struct bb_environment *environment, struct bb_error *error);
extern const struct bb_experiment bb_zero_experiment;

/* Is something trained? A rank alone, or one without data, computes nothing. */
static inline bool bb_zero_trains(const struct bb_zero *zero, const struct bb_run *run)
{
	return run->options.backend->has_data && !zero->alone;
}

/* Bytes of the device (not of the host where it is offloaded) that a rank takes at most under
   STAGE, what collectives need left out. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_zero_need(const struct bb_zero *zero, int stage, uint64_t *bytes,
			       struct bb_error *error);

bb_sink_open bb_zero_text_open;
/* Append the '#' line that stands below the row of R, which was timed: what the step is made of. */
void bb_zero_text_phases(const struct bb_zero_record *r, struct bb_strbuf *out);

#endif
