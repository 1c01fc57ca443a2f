/*
 * tensor_record.c - what records of tensor parallelism carry: one row a field.
 */
#include "training_kernels/tensor.h"

#include <stddef.h>

#define ROW(record, kind, field, unit_, help_)                                                     \
	{                                                                                          \
		.name = #field, .type = BB_FIELD_##kind, .offset = offsetof(struct record, field), \
		.unit = unit_, .help = help_                                                       \
	}
#define TIME(kind, field, unit_, help_) ROW(bb_tensor_record, kind, field, unit_, help_)
#define EQUALITY(kind, field, unit_, help_)                                                        \
	ROW(bb_tensor_equality_record, kind, field, unit_, help_)

static const struct bb_field fields[] = {
	TIME(STRING, model, "", "as it was asked for"),
	TIME(STRING, part, "", "layer, embedding or loss"),
	TIME(STRING, way, "", "how it is split: tensor, sequence, ulysses, ring, gather"),
	TIME(STRING, dtype, "", "of activations"),
	TIME(INT, nranks, "", "that it is split over"),
	TIME(INT, layers, "", "of a step"),
	TIME(INT, seq, "", "tokens of a sequence"),
	TIME(INT, batch, "", "sequences of a micro-batch"),
	TIME(INT, calls, "", "collectives and messages that a rank begins in a step"),
	TIME(DOUBLE, wire_bytes, "bytes",
	     "that a rank sends in a step, counted from its operations"),
	TIME(DOUBLE, formula_bytes, "bytes", "the same by the formulas of docs/training.md"),
	TIME(INT, kept_bytes, "bytes",
	     "activations of a layer that each rank keeps, counted from the matrices that the "
	     "backward pass reads, with those of dropout; null: no layer, or a gated MLP"),
	TIME(INT, kept_formula_bytes, "bytes", "the same by the formulas; null: no layer"),
	TIME(INT, kept_unsplit_bytes, "bytes", "that of the unsplit layer"),
	TIME(STRING, compute, "", "what computations stood for: --compute"),
	TIME(DOUBLE, compute_us, "us", "computations without communication: median"),
	TIME(DOUBLE, communicate_us, "us", "communication without computations: median"),
	TIME(DOUBLE, step_us, "us", "both, until the last rank had done it: median"),
	TIME(DOUBLE, low_us, "us", "95% confidence interval of that median"),
	TIME(DOUBLE, high_us, "us", "its upper end"),
	TIME(DOUBLE, p95_us, "us", "95th percentile of the steps"),
	TIME(DOUBLE, exposed_us, "us", "step_us - compute_us: what the step waits for"),
	TIME(DOUBLE, hidden_us, "us", "communicate_us - exposed_us"),
	TIME(DOUBLE, hidden, "fraction", "hidden_us / communicate_us"),
	TIME(INT, samples, "", "steps that were timed"),
	TIME(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC"),
	{.name = NULL},
};

static const struct bb_field equality_fields[] = {
	EQUALITY(STRING, module, "", "attention, mlp, embedding or loss"),
	EQUALITY(STRING, way, "", "how it is split"),
	EQUALITY(INT, nranks, "", "over which it is"),
	EQUALITY(INT, outputs, "", "numbers of the forward pass that were compared, of all ranks"),
	EQUALITY(INT, wrong_outputs, "", "of them differ from the unsplit module's"),
	EQUALITY(INT, gradients, "", "numbers of the backward pass, likewise"),
	EQUALITY(INT, wrong_gradients, "", "of them differ"),
	EQUALITY(DOUBLE, off_ulps, "ulps",
		 "the furthest off, in units of the last place of its matrix' largest number"),
	EQUALITY(DOUBLE, tolerance_ulps, "ulps", "how far is not wrong yet; 0: bit for bit"),
	EQUALITY(STRING, verdict, "", "equal, wrong, or wrong, as it must be"),
	EQUALITY(BOOL, passed, "", "whether the verdict is what it must be"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_tensor = {
	"tensor_parallel", "Of tensor parallelism: a part of a model, split one way.", fields,
	sizeof(struct bb_tensor_record)};
const struct bb_record_kind bb_record_tensor_equality = {
	"tensor_equality",
	"Of tensor parallelism: a module on small matrices, against the unsplit one.",
	equality_fields, sizeof(struct bb_tensor_equality_record)};
