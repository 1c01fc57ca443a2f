/*
 * record.c - what records of tensor parallelism carry: one row a field.
 */
#include "harness/results/record_rows.h"
#include "training_kernels/tensor/tensor.h"

#define BB_RECORD bb_tensor_record
static const struct bb_field fields[] = {
	ROW(STRING, model, "", "as it was asked for"),
	ROW(STRING, part, "", "layer, embedding or loss"),
	ROW(STRING, way, "", "how it is split: tensor, sequence, ulysses, ring, gather"),
	ROW(STRING, dtype, "", "of activations"),
	ROW(INT, nranks, "", "that it is split over"),
	ROW(INT, layers, "", "of a step"),
	ROW(INT, seq, "", "tokens of a sequence"),
	ROW(INT, batch, "", "sequences of a micro-batch"),
	ROW(INT, calls, "", "collectives and messages that a rank begins in a step"),
	ROW(DOUBLE, wire_bytes, "bytes",
	    "that a rank sends in a step, counted from its operations"),
	ROW(DOUBLE, formula_bytes, "bytes", "the same by the formulas of docs/training.md"),
	ROW(INT, kept_bytes, "bytes",
	    "activations of a layer that each rank keeps, counted from the matrices that the "
	    "backward pass reads, with those of dropout; null: no layer, or a gated MLP"),
	ROW(INT, kept_formula_bytes, "bytes", "the same by the formulas; null: no layer"),
	ROW(INT, kept_unsplit_bytes, "bytes", "that of the unsplit layer"),
	ROW(STRING, compute, "", "what computations stood for: --compute"),
	ROW(DOUBLE, compute_us, "us", "computations without communication: median"),
	ROW(DOUBLE, communicate_us, "us", "communication without computations: median"),
	ROW(DOUBLE, step_us, "us", "both, until the last rank had done it: median"),
	ROW(DOUBLE, low_us, "us", "95% confidence interval of that median"),
	ROW(DOUBLE, high_us, "us", "its upper end"),
	ROW(DOUBLE, p95_us, "us", "95th percentile of the steps"),
	ROW(DOUBLE, exposed_us, "us", "step_us - compute_us: what the step waits for"),
	ROW(DOUBLE, hidden_us, "us", "communicate_us - exposed_us; null where nothing is computed"),
	ROW(DOUBLE, hidden, "fraction", "hidden_us / communicate_us"),
	ROW(INT, samples, "", "steps that were timed"),
	ROW(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_tensor_equality_record
static const struct bb_field equality_fields[] = {
	ROW(STRING, module, "", "attention, mlp, embedding or loss"),
	ROW(STRING, way, "", "how it is split"),
	ROW(INT, nranks, "", "over which it is"),
	ROW(INT, outputs, "", "numbers of the forward pass that were compared, of all ranks"),
	ROW(INT, wrong_outputs, "", "of them differ from the unsplit module's"),
	ROW(INT, gradients, "", "numbers of the backward pass, likewise"),
	ROW(INT, wrong_gradients, "", "of them differ"),
	ROW(DOUBLE, off_ulps, "ulps",
	    "the furthest off, in units of the last place of its matrix' largest number"),
	ROW(DOUBLE, tolerance_ulps, "ulps", "how far is not wrong yet; 0: bit for bit"),
	ROW(STRING, verdict, "", "equal, wrong, or wrong, as it must be"),
	ROW(BOOL, passed, "", "whether the verdict is what it must be"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_tensor = {
	"tensor_parallel", "Of tensor parallelism: a part of a model, split one way.", fields,
	sizeof(struct bb_tensor_record)};
const struct bb_record_kind bb_record_tensor_equality = {
	"tensor_equality",
	"Of tensor parallelism: a module on small matrices, against the unsplit one.",
	equality_fields, sizeof(struct bb_tensor_equality_record)};
