/*
 * quantise.c - a tensor in integers and back.
 */
#include "memory/tool/calculators.h"
#include "memory/tool/tool.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>

/* ---- what is calculated ---------------------------------------------------------------------- */

static const char *const quantise_words[] = {"minmax", "scale", NULL};

int bb_quantised_code(const struct bb_quantised *q, size_t i)
{
	if (q->bits == 8)
		return (signed char)q->codes[i];
	const int code = q->codes[i / 2] >> (i % 2 * 4) & 15;
	return code > 7 ? code - 16 : code;
}

float bb_quantised_number(const struct bb_quantised *q, size_t i)
{
	return q->zero + (float)bb_quantised_code(q, i) * q->scale;
}

bb_status bb_quantise(struct bb_quantised *q, const float *x, size_t n, unsigned bits,
		      enum bb_quantise_method method, struct bb_error *error)
{
	const float largest = (float)((1 << (bits - 1)) - 1); /* code */
	float least = x[0], most = x[0];

	*q = (struct bb_quantised){.bits = bits, .n = n};
	q->bytes = (n * bits + 7) / 8;
	q->codes = calloc(q->bytes, 1);
	if (!q->codes)
		return bb_no_memory(error, "codes");
	q->bytes += method == BB_BY_MINMAX ? 2 * sizeof(float) : sizeof(float);
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(x[i]))
			return bb_fail(error, BB_EUSAGE, "number %zu is not finite", i);
		least = fminf(least, x[i]);
		most = fmaxf(most, x[i]);
	}
	if (method == BB_BY_SCALE) {
		q->scale = fmaxf(fabsf(least), fabsf(most)) / largest;
	} else {
		q->scale = (most - least) / (2 * largest);
		q->zero = least + largest * q->scale;
	}
	if (!isfinite(q->scale) || !isfinite(q->zero))
		return bb_fail(error, BB_EUSAGE, "the range of the numbers exceeds fp32");
	for (size_t i = 0; i < n && q->scale > 0; i++) {
		const float number = rintf((x[i] - q->zero) / q->scale);
		/* A rounded scale can lead beyond the largest code. */
		const int code = (int)fmaxf(-largest, fminf(largest, number));

		if (bits == 8)
			q->codes[i] = (unsigned char)code;
		else
			q->codes[i / 2] |= (unsigned char)((code & 15) << (i % 2 * 4));
	}
	return BB_OK;
}

struct bb_quantise_loss bb_quantise_loss(const struct bb_quantised *q, const float *x)
{
	struct bb_quantise_loss loss = {0, 0};

	for (size_t i = 0; i < q->n; i++) {
		const double off = fabs((double)bb_quantised_number(q, i) - (double)x[i]);

		loss.most = fmax(loss.most, off);
		loss.rms += off * off;
	}
	loss.rms = sqrt(loss.rms / (double)q->n);
	return loss;
}

/* ---- the subject ----------------------------------------------------------------------------- */

#define SHOWN 8 /* maximum numbers of a tensor whose codes are shown */

/* *X = the *N numbers of --values, "1,2.5,-3", or else normally distributed ones, much like weights
   of a layer (Box and Muller). The caller frees them whatever is returned. */
static bb_status quantise_numbers(const struct job *job, float **x, size_t *n)
{
	const struct options *o = job->o;
	const char *text = o->values;
	uint64_t seed = (uint64_t)o->seed;
	char *end;

	*n = text ? 1 : o->count;
	for (const char *c = text; c && *c; c++)
		*n += *c == ',';
	*x = malloc(*n * sizeof(**x));
	if (!*x)
		return bb_no_memory(job->error, "numbers");
	for (size_t i = 0; i < *n && !text; i++) {
		const double u = bb_random_positive(bb_random_next(&seed));
		const double v = bb_random_positive(bb_random_next(&seed));

		(*x)[i] = (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
	}
	for (size_t i = 0; i < *n && text; i++, text = end + 1) {
		(*x)[i] = strtof(text, &end);
		if (end == text || (*end && *end != ',') || !isfinite((*x)[i]))
			return bb_fail(job->error, BB_EUSAGE,
				       "--values %.200s: \"%.40s\" does not begin with an fp32 "
				       "number; expected a list such as 1,2,3",
				       o->values, text);
	}
	return BB_OK;
}

/* Add the row of Q, the numbers X; of a short tensor with codes and decoded numbers. */
static void add_result(struct job *job, const float *x, const struct bb_quantised *q,
		       const char *method)
{
	const struct bb_quantise_loss loss = bb_quantise_loss(q, x);
	const double smaller = (double)(q->n * sizeof(*x)) / (double)q->bytes;
	struct bb_strbuf cell = {0};
	struct bb_json *j = &job->json;

	bb_table_cellf(&job->table, "int%u\t%s\t%.6g\t%.6g\t%.6g\t%.6g\t%.2f\t%ju", q->bits, method,
		       (double)q->scale, (double)q->zero, loss.most, loss.rms, smaller, q->bytes);
	bb_json_add_object(j, NULL);
	bb_json_add_uint(j, "bits", q->bits);
	bb_json_add_string(j, "method", method);
	bb_json_add_uint(j, "bytes", q->bytes);
	bb_json_add_double(j, "scale", (double)q->scale);
	bb_json_add_double(j, "zero", (double)q->zero);
	bb_json_add_double(j, "error_most", loss.most);
	bb_json_add_double(j, "error_rms", loss.rms);
	bb_json_add_double(j, "times_smaller", smaller);
	if (q->n <= SHOWN) {
		bb_json_add_array(j, "codes");
		for (size_t i = 0; i < q->n; i++) {
			bb_json_add_int(j, NULL, bb_quantised_code(q, i));
			bb_strbuf_addf(&cell, "%d ", bb_quantised_code(q, i));
		}
		bb_json_end(j);
		bb_strbuf_add(&cell, "->");
		bb_json_add_array(j, "numbers");
		for (size_t i = 0; i < q->n; i++) {
			bb_json_add_double(j, NULL, (double)bb_quantised_number(q, i));
			bb_strbuf_addf(&cell, " %.6g", (double)bb_quantised_number(q, i));
		}
		bb_json_end(j);
		bb_table_cell(&job->table, bb_strbuf_text(&cell));
	}
	bb_json_end(j);
	job->text.failed |= cell.failed;
	bb_strbuf_free(&cell);
}

bb_status bb_calculate_quantise(struct job *job)
{
	static const struct bb_table_head heads[] = {
		{"format", "", -6},      {"method", "", -6},   {"scale", "", 9},
		{"zero", "", 9},         {"max error", "", 9}, {"rms error", "", 9},
		{"smaller", "times", 9}, {"bytes", "", 9},     {NULL, NULL, 0},
	};
	const struct options *o = job->o;
	float *x = NULL;
	size_t n;
	struct bb_quantised q;
	char bytes[BB_BOTH_TEXT];
	bb_status st;

	BB_TRY(st, quantise_numbers(job, &x, &n), out);
	bb_strbuf_addf(&job->text, "# fp32 numbers: %zu, %s\n", n,
		       bb_job_bytes(bytes, n * sizeof(*x)));
	bb_strbuf_add(&job->text, "# error: of the decoded numbers; scale: distance of "
				  "neighbouring codes; zero: value of code 0\n#\n");
	bb_table_columns(&job->table, heads, 2);
	if (n <= SHOWN)
		bb_table_column(&job->table, "codes -> decoded", "", -1);
	bb_json_add_uint(&job->json, "count", n);
	bb_json_add_uint(&job->json, "whole_bytes", n * sizeof(*x));
	bb_json_add_array(&job->json, "results");
	for (int run = 0; run < 4 && st == BB_OK; run++) {
		const int format = 1 + run / 2, method = 1 + run % 2;

		if ((o->format && o->format != format) || (o->method && o->method != method))
			continue;
		st = bb_quantise(&q, x, n, format == 1 ? 8 : 4,
				 (enum bb_quantise_method)(method - 1), job->error);
		if (st == BB_OK)
			add_result(job, x, &q, quantise_words[method - 1]);
		free(q.codes);
	}
	bb_job_end_table(job);
	bb_json_end(&job->json);
out:
	free(x);
	return st;
}
