/*
 * record.c - what the records of ZeRO carry: one row a field.
 */
#include "harness/results/record_rows.h"
#include "memory/zero/zero.h"

#define BB_RECORD bb_zero_record

static const struct bb_field fields[] = {
	ROW(STRING, model, "", "as it was asked for"),
	ROW(INT, stage, "", "of ZeRO; 0: every rank has all"),
	ROW(INT, nranks, "", "that states are divided among"),
	ROW(INT, rank, "", "whose memory it is"),
	ROW(BOOL, alone, "", "that rank alone was there: --as-rank"),
	ROW(STRING, dtype, "", "of parameters and gradients"),
	ROW(STRING, algorithm, "", "of the collectives, as it was asked for; null: there are none"),
	ROW(STRING, overlap, "", "on: collectives run beside the computations"),
	ROW(BOOL, offload, "", "the optimizer's states are in the host's memory"),
	ROW(INT, parameters, "", "of the model"),
	ROW(INT, units, "", "layers, each reduced and gathered as one"),
	ROW(INT, padding, "", "elements beside them, so that every layer divides evenly"),
	ROW(INT, accumulate, "", "micro-batches of a step"),
	ROW(INT, steps, "", "taken, those included that were skipped"),
	ROW(INT, skipped, "", "because a gradient overflowed"),
	ROW(DOUBLE, loss_scale, "", "after the last step"),
	ROW(INT, formula_parameters_bytes, "bytes", "calculated, with the padding"),
	ROW(INT, formula_gradients_bytes, "bytes", "calculated"),
	ROW(INT, formula_optimizer_bytes, "bytes", "calculated"),
	ROW(INT, formula_bytes, "bytes", "the three together"),
	ROW(INT, parameters_bytes, "bytes", "held when most was held"),
	ROW(INT, gradients_bytes, "bytes", "held then"),
	ROW(INT, optimizer_bytes, "bytes", "held then, but for what is offloaded"),
	ROW(INT, communication_bytes, "bytes",
	    "held then: gathered layers, buckets, what collectives need"),
	ROW(INT, held_bytes, "bytes", "the four together: the peak"),
	ROW(INT, fragmentation_bytes, "bytes", "taken from the backend then and not held"),
	ROW(INT, reserved_bytes, "bytes", "taken from the backend then"),
	ROW(INT, host_bytes, "bytes", "offloaded"),
	ROW(DOUBLE, states_error_percent, "%",
	    "of parameters, gradients and optimizer as held after the last step, against the "
	    "formula"),
	ROW(INT, system_constant_bytes, "bytes",
	    "what the process grew by in a step with small layers that came first: threads, code "
	    "and what else does not depend on the model's size"),
	ROW(INT, system_bytes, "bytes",
	    "what the process then grew by until all steps were done; on GPUs what they are used "
	    "more"),
	ROW(INT, system_reserved_bytes, "bytes", "what its ranks have taken from the backend"),
	ROW(DOUBLE, system_error_percent, "%",
	    "of system_bytes against that; null: of less than 4 MiB a few pages are more than a "
	    "percent"),
	ROW(INT, model_bytes, "bytes", "peak after the model was made"),
	ROW(INT, wrapped_bytes, "bytes", "peak after what communication needs was made"),
	ROW(INT, before_bytes, "bytes", "peak before the first step of the optimizer"),
	ROW(INT, after_bytes, "bytes", "peak after it"),
	ROW(INT, wire_bytes, "bytes",
	    "that a rank sends in a step, as the algorithm has it (of a library: as a ring has)"),
	ROW(INT, formula_wire_bytes, "bytes", "2, 2, 2 or 3 times the model, (n-1)/n of it"),
	ROW(DOUBLE, wire_volumes, "", "wire_bytes over those of all parameters"),
	ROW(DOUBLE, step_us, "us", "until the last rank was done: median"),
	ROW(DOUBLE, forward_us, "us", "forward passes of rank 0: median, as all below"),
	ROW(DOUBLE, forward_wait_us, "us", "of it, waited for gathered parameters"),
	ROW(DOUBLE, backward_us, "us", "backward passes"),
	ROW(DOUBLE, backward_wait_us, "us", "of it, waited for reductions and gathers"),
	ROW(DOUBLE, optimise_us, "us", "the optimizer, with the search for overflows"),
	ROW(DOUBLE, gather_us, "us", "parameters gathered after it"),
	ROW(STRING, checksum, "", "of all parameters after the last step; null: there is no data"),
	ROW(STRING, verified, "", "what it was compared with, bit by bit or by its checksum"),
	ROW(INT, wrong, "elements",
	    "that differ; against the first stage 1 if anything does; null: not looked at"),
	ROW(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_zero = {"zero", "Of ZeRO: a stage, its memory of one rank.",
					      fields, sizeof(struct bb_zero_record)};

#undef BB_RECORD
#define BB_RECORD bb_zero_moment_record

static const struct bb_field moment_fields[] = {
	ROW(INT, stage, "", "of ZeRO"),
	ROW(STRING, moment, "",
	    "model, wrapped, forward, backward, before optimizer, after optimizer"),
	ROW(INT, item, "", "layer of a forward or backward pass, from 0"),
	ROW(INT, parameters_bytes, "bytes", "held now"),
	ROW(INT, gradients_bytes, "bytes", "held now"),
	ROW(INT, optimizer_bytes, "bytes", "held now, but for what is offloaded"),
	ROW(INT, communication_bytes, "bytes", "held now"),
	ROW(INT, held_bytes, "bytes", "the four together"),
	ROW(INT, fragmentation_bytes, "bytes", "taken from the backend and not held"),
	ROW(INT, reserved_bytes, "bytes", "taken from the backend"),
	ROW(INT, host_bytes, "bytes", "offloaded"),
	ROW(INT, peak_bytes, "bytes", "held at most until now"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_zero_moment = {
	"zero_moment", "Of ZeRO: the memory of rank 0 at a point of its first step.", moment_fields,
	sizeof(struct bb_zero_moment_record)};
