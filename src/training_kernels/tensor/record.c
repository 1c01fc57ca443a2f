/*
 * record.c - the records of tensor parallelism, and its two tables: whether split modules equal
 * unsplit ones, and the cost of splitting.
 */
#include "core/units.h"
#include "training_kernels/tensor/tensor.h"

#include <stdio.h>

/* ---- the table ------------------------------------------------------------------------------ */

static void about_equality(const void *record, struct bb_strbuf *out)
{
	const struct bb_tensor_equality_record *r = record;

	bb_strbuf_addf(
		out,
		"#\n# Split over %lld rank%s, compared with unsplit parts: small matrices, forward "
		"and "
		"backward. A tolerance of 0 is bit for bit;\n"
		"# others are in units of the last place of the largest number of a matrix.\n",
		(long long)r->nranks, bb_plural(r->nranks));
}

static void tensor_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_tensor_record *r = record;

	bb_strbuf_addf(out,
		       "#\n# %s over %lld rank%s: %lld layer%s, %lld tokens (%lld x %lld), %s; "
		       "computations: %s\n"
		       "# wire: bytes that a rank sends in a step; kept: activations of a layer on "
		       "a rank; each counted and by formula.",
		       r->model, (long long)r->nranks, bb_plural(r->nranks), (long long)r->layers,
		       bb_plural(r->layers), (long long)(r->seq * r->batch), (long long)r->batch,
		       (long long)r->seq, r->dtype, r->compute);
	if (r->kept_unsplit_bytes != BB_ABSENT)
		bb_strbuf_addf(out, " An unsplit layer keeps %.3f MiB.",
			       (double)r->kept_unsplit_bytes / (1 << 20));
	bb_strbuf_add(out, "\n# Times are medians.\n");
}

#define BB_RECORD bb_tensor_record
BB_RECORD_KIND(bb_record_tensor, BB_TENSOR_FIELDS, "tensor_parallel",
	       "Tensor parallelism: a part of a model, split by one scheme.",
	       .about = tensor_about);

#undef BB_RECORD
#define BB_RECORD bb_tensor_equality_record
BB_RECORD_KIND(bb_record_tensor_equality, BB_TENSOR_EQUALITY_FIELDS, "tensor_equality",
	       "Tensor parallelism: a module on small matrices, compared with the unsplit one.",
	       .about = about_equality);
