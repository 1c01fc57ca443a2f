#include "training_kernels/tensor/program.h"

#include <stdio.h>
#include <string.h>

const struct bb_tensor_scheme bb_tensor_schemes[] = {
	{"layer", "tensor", "attention by heads, MLP by columns, then rows", BB_TENSOR_LAYER,
	 BB_TENSOR_SPLIT},
	{"layer", "sequence", "the same, and by tokens between the matrices", BB_TENSOR_LAYER,
	 BB_TENSOR_SEQUENCE},
	{"layer", "ulysses", "by tokens; attention by heads, between all-to-alls", BB_TENSOR_LAYER,
	 BB_TENSOR_ULYSSES},
	{"layer", "ring", "by tokens; blocks of keys and values go around the ring",
	 BB_TENSOR_LAYER, BB_TENSOR_RING},
	{"embedding", "tensor", "by vocabulary, summed", BB_TENSOR_EMBEDDING, BB_TENSOR_SPLIT},
	{"embedding", "sequence", "by vocabulary, summed for the tokens of each rank",
	 BB_TENSOR_EMBEDDING, BB_TENSOR_SEQUENCE},
	{"loss", "tensor", "cross-entropy of logits by vocabulary: three small all-reduces",
	 BB_TENSOR_LOSS, BB_TENSOR_SPLIT},
	{"loss", "gather", "cross-entropy of logits that every rank gathers", BB_TENSOR_LOSS,
	 BB_TENSOR_GATHER},
	{"mlp", "rows", "first matrix by rows: GeLU of partial sums, which is wrong", BB_TENSOR_MLP,
	 BB_TENSOR_ROWS},
	{.part = NULL},
};

size_t bb_tensor_matrix(const struct bb_tensor_size *s, int matrix)
{
	const size_t elements[BB_TENSOR_MATRICES] = {
		s->hidden * s->queries, s->hidden * s->keys, s->hidden * s->keys,
		s->queries * s->hidden, s->hidden * s->ffn,  s->ffn * s->hidden,
	};

	return elements[matrix];
}

size_t bb_tensor_vocab_part(const struct bb_tensor_size *s, size_t t)
{
	return (s->vocab + t - 1) / t;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static const char *refuse_layer(enum bb_tensor_mode mode, const struct bb_tensor_size *s, size_t t)
{
	if (mode != BB_TENSOR_SPLIT && s->tokens % t != 0)
		return "the number of ranks does not divide the tokens";
	if (mode == BB_TENSOR_RING)
		return NULL;
	if (s->heads % t != 0 || s->kv_heads % t != 0)
		return "the number of ranks does not divide the heads, or those of keys and values";
	if (mode != BB_TENSOR_ULYSSES && s->ffn % t != 0)
		return "the number of ranks does not divide the inner width of the MLP";
	return NULL;
}

const char *bb_tensor_refuses(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *s,
			      int nranks)
{
	const size_t t = (size_t)nranks;

	if (scheme->of == BB_TENSOR_LAYER)
		return refuse_layer(scheme->mode, s, t);
	if (scheme->of != BB_TENSOR_MLP && s->vocab == 0)
		return "the model has no vocabulary";
	if (scheme->mode == BB_TENSOR_SEQUENCE && s->tokens % t != 0)
		return "the number of ranks does not divide the tokens";
	if (scheme->mode == BB_TENSOR_ROWS && s->hidden % t != 0)
		return "the number of ranks does not divide the width";
	return NULL;
}

/* ---- the program ----------------------------------------------------------------------------- */

static const struct bb_tensor_program *of(const struct bb_program *program)
{
	return program->own;
}

static size_t tensor_program_length(const struct bb_program *program, int rank)
{
	return of(program)->tape.n * of(program)->form.layers;
}

/* Odd ranks receive before they send: otherwise ranks that do one operation at a time would all
   wait in their sends. */
static size_t in_order(const struct bb_tensor_program *p, int rank, size_t k)
{
	if (rank % 2 == 1 && p->tape.list[k].act == BB_ACT_SEND)
		return k + 1;
	return rank % 2 == 1 && p->tape.list[k].act == BB_ACT_RECV ? k - 1 : k;
}

/* Forward of all layers, then backward from the last to the first. */
static void tensor_program_operation(const struct bb_program *program, int rank, size_t index,
				     struct bb_operation *o)
{
	const struct bb_tensor_program *p = of(program);
	const size_t layers = p->form.layers, back = p->tape.n - p->forward;
	const size_t before = layers * p->forward;
	const size_t layer =
		index < before ? index / p->forward : layers - 1 - (index - before) / back;
	const size_t k = index < before ? index % p->forward : p->forward + (index - before) % back;

	*o = p->tape.list[in_order(p, rank, k)];
	o->event += (int)layer * p->tape.events;
	if (o->act == BB_ACT_SEND || o->act == BB_ACT_RECV)
		o->peer = (rank + o->peer + program->nranks) % program->nranks;
	else
		o->peer = BB_NO_PEER;
}

static void tensor_program_describe(const struct bb_program *program, const struct bb_operation *o,
				    char text[BB_PROGRAM_TEXT])
{
	/* Works of attention, each followed by the same of the MLP. */
	static const char *const twice[] = {
		[BB_TW_NORM / 2] = "norm before",
		[BB_TW_GATHER / 2] = "all-gather of the input of",
		[BB_TW_INNER / 2] = "matrices of",
		[BB_TW_SUM / 2] = "sum of the output of",
		[BB_TW_ADD / 2] = "residual of",
		[BB_TW_BACK_GATHER / 2] = "all-gather of the gradient of",
		[BB_TW_GATHER_AGAIN / 2] = "second all-gather of the input of",
		[BB_TW_BACK_INNER / 2] = "backward pass of",
		[BB_TW_BACK_SUM / 2] = "sum of the gradient of",
		[BB_TW_WEIGHTS / 2] = "gradients of the weights of",
		[BB_TW_BACK_NORM / 2] = "backward pass of the norm before",
	};
	static const char *const names[BB_TW_WORKS] = {
		[BB_TW_PROJECT] = "queries, keys and values",
		[BB_TW_TO_HEADS] = "all-to-all from tokens to heads",
		[BB_TW_CORE] = "core of attention",
		[BB_TW_TO_TOKENS] = "all-to-all from heads to tokens",
		[BB_TW_BLOCK] = "block of attention",
		[BB_TW_PASS] = "block of keys and values",
		[BB_TW_OUTPUT] = "output of attention",
		[BB_TW_BACK_OUTPUT] = "backward of attention's output",
		[BB_TW_OUTPUT_WEIGHTS] = "gradient of the output's weights",
		[BB_TW_BACK_TO_HEADS] = "all-to-all of gradients to heads",
		[BB_TW_BACK_CORE] = "backward of attention's core",
		[BB_TW_BACK_TO_TOKENS] = "all-to-all of gradients to tokens",
		[BB_TW_BACK_BLOCK] = "backward of a block of attention",
		[BB_TW_BACK_ADD] = "sum of a block's gradients",
		[BB_TW_BACK_PASS] = "gradients of a block",
		[BB_TW_BACK_PROJECT] = "backward of queries, keys and values",
		[BB_TW_REDUCE_WEIGHTS] = "sum of the gradients of weights",
		[BB_TW_LOOKUP] = "look-up of tokens",
		[BB_TW_EMBED_SUM] = "sum of the embedding",
		[BB_TW_EMBED_GATHER] = "all-gather of the embedding's gradient",
		[BB_TW_EMBED_BACK] = "backward of the embedding",
		[BB_TW_LOSS_MAX] = "largest logits",
		[BB_TW_ALL_MAX] = "maximum of the logits",
		[BB_TW_LOSS_EXP] = "exponentials",
		[BB_TW_ALL_TARGET] = "sum of the targets' logits",
		[BB_TW_ALL_EXP] = "sum of the exponentials",
		[BB_TW_LOSS_END] = "loss and its gradient",
		[BB_TW_LOGITS] = "all-gather of the logits",
		[BB_TW_LOSS_WHOLE] = "loss of all logits",
		[BB_TW_ROWS] = "MLP with its first matrix by rows",
		[BB_TW_ROWS_SUM] = "sum of that MLP",
	};

	if (o->work < BB_TW_PROJECT)
		snprintf(text, BB_PROGRAM_TEXT, "%s %s", twice[o->work / 2],
			 o->work % 2 ? "the MLP" : "attention");
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s", names[o->work]);
}

bb_status bb_tensor_program_make(struct bb_tensor_program *p, const struct bb_tensor_form *form,
				 int nranks, struct bb_error *error)
{
	*p = (struct bb_tensor_program){.form = *form};
	p->program = (struct bb_program){
		.own = p,
		.nranks = nranks,
		.length = tensor_program_length,
		.operation = tensor_program_operation,
		.group_size = bb_program_all_ranks,
		.member = bb_program_rank_itself,
		.describe = tensor_program_describe,
	};
	bb_tensor_program_build(p);
	return p->tape.failed ? bb_no_memory(error, form->scheme->part) : BB_OK;
}

void bb_tensor_program_free(struct bb_tensor_program *p)
{
	bb_tape_free(&p->tape);
}

/* ---- bytes on the wire ----------------------------------------------------------------------- */

static double wire_of(const struct bb_operation *o, int nranks)
{
	const struct bb_shape shape = {
		.nranks = nranks, .in_place = o->in_place, .count = o->count};
	const struct bb_algorithm *algorithm;
	size_t wire = 0;

	if (o->act == BB_ACT_SEND)
		return (double)bb_operation_bytes(o);
	if (nranks == 1)
		return 0;
	algorithm = bb_algorithm_cheapest(o->collective, &shape, 0, 1);
	bb_algorithm_cost(algorithm, &shape, NULL, &wire);
	return (double)(wire * bb_dtype_size(o->dtype));
}

double bb_tensor_wire_counted(const struct bb_tensor_program *p, size_t *calls)
{
	double bytes = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->tape.n; i++) {
		const struct bb_operation *o = &p->tape.list[i];

		if (o->act != BB_ACT_COLLECTIVE && o->act != BB_ACT_SEND)
			continue;
		bytes += wire_of(o, p->program.nranks);
		n++;
	}
	if (calls)
		*calls = n * p->form.layers;
	return bytes * (double)p->form.layers;
}

double bb_tensor_wire_formula(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *s,
			      int nranks)
{
	const double t = nranks, others = (t - 1) / t, bytes = (double)bb_dtype_size(s->dtype);
	const double a = (double)s->tokens * (double)s->hidden * bytes;
	const double q = (double)s->tokens * (double)s->queries * bytes;
	const double k = (double)s->tokens * (double)s->keys * bytes;
	const double column = (double)s->tokens * (double)bb_dtype_size(s->loss_dtype);

	switch (scheme->mode) {
	case BB_TENSOR_SPLIT:
		if (scheme->of == BB_TENSOR_LOSS)
			return 3 * 2 * others * column;
		return (scheme->of == BB_TENSOR_LAYER ? 4 : 1) * 2 * others * a;
	case BB_TENSOR_SEQUENCE:
		return (scheme->of == BB_TENSOR_LAYER ? 10 : 2) * others * a;
	case BB_TENSOR_ULYSSES: /* of k = q = h: 8 A / t */
		return 2 * others * (2 * q + 2 * k) / t;
	case BB_TENSOR_RING:
		return nranks == 1 ? 0 : ((t - 1) + (2 * t - 1)) * 2 * k / t;
	case BB_TENSOR_GATHER:
		return others * (double)s->tokens *
		       (double)bb_tensor_vocab_part(s, (size_t)nranks) * t * bytes;
	case BB_TENSOR_ROWS:
		break;
	}
	return 2 * others * a;
}
