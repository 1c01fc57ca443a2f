/*
 * quantise.c - a tensor in integers and back.
 */
#include "codes/codes.h"
#include "core/random.h"
#include "memory/tool/tool.h"

#include <math.h>
#include <stdlib.h>

/* ---- the subject ----------------------------------------------------------------------------- */

#define SHOWN 8      /* maximum numbers of a tensor whose codes are shown */
#define EXPLAINED 32 /* maximum numbers of --explain, which has a single scale */

/* By --method: codings of the formats int8 and int4, or without a format. */
static const struct {
	const char *name, *codings[2];
} methods[] = {{"usual", {NULL}},
	       {"minmax", {"int8-minmax", "int4-minmax"}},
	       {"scale", {"int8", "int4"}},
	       {"ds", {"ds-int8", "ds-int4"}},
	       {"ds-asym", {"ds-int8-asym", "ds-int4-asym"}},
	       {"torch", {"torch-uint8", NULL}},
	       {"fp8", {"fp8-e4m3", "fp8-e5m2"}},
	       {"mxfp8", {"mxfp8-e4m3", "mxfp8-e5m2"}},
	       {"sign", {"sign", NULL}},
	       {"all", {NULL}}};
enum { METHODS = sizeof(methods) / sizeof(methods[0]), USUAL_METHODS = 2 };

const char *bb_quantise_method(int index)
{
	return index < METHODS ? methods[index].name : NULL;
}

/* Append how the N numbers X, which have one scale, became CODED and, decoded, BACK. */
static void quantise_explain(struct bb_strbuf *out, const float *x, size_t n,
			     const struct bb_coding *c, const void *coded, const float *back)
{
	const struct bb_block_scale s = bb_coding_fit(c, x, n);
	const bool integer = c->kind == BB_CODE_INTEGER, floats = !integer && c->bits == 8;
	float least = x[0], most = x[0];

	for (size_t i = 1; i < n; i++) {
		least = fminf(least, x[i]);
		most = fmaxf(most, x[i]);
	}
	bb_strbuf_addf(out, "#\n# %s: %s\n# minimum %.7g, maximum %.7g: scale s = %.7g", c->name,
		       c->brief, (double)least, (double)most, (double)s.scale);
	if (integer)
		bb_strbuf_addf(out,
			       ", z = %.7g, p = %g\n# code = p + quotient, rounded; quotient = "
			       "(x - z)/s; decoded = z + (code - p) s\n",
			       (double)s.zero, (double)s.point);
	else
		bb_strbuf_addf(out, "\n# %s\n",
			       c->kind == BB_CODE_SIGN
				       ? "code = 0 below 0, else 1; decoded = -s or s"
				       : "code = bits of the quotient x/s, rounded to the format");
	bb_strbuf_add(out, "#          x     quotient  code      decoded        error\n");
	for (size_t i = 0; i < n; i++) {
		/* In fp32, as it was coded: a tie is a tie. */
		const float quotient = (x[i] - s.zero) * s.up / s.down;
		const double error = (double)back[i] - (double)x[i];
		const float code = s.point + rintf(quotient);
		const bool clamped =
			integer && (code > (float)c->highest || code < (float)c->lowest);

		bb_strbuf_addf(out,
			       floats ? "%12.7g %12.7g  0x%02x %12.7g %12.7g%s\n"
				      : "%12.7g %12.7g %5d %12.7g %12.7g%s\n",
			       (double)x[i], (double)quotient, bb_coding_code(c, coded, i),
			       (double)back[i], error, clamped ? "  clamped" : "");
	}
}

/* *X = the *N numbers of --values, "1,2.5,-3", or else normally distributed ones, much like weights
   of a layer (Box and Muller); behind them is room for decoded numbers, and for their codes of at
   most a byte and 2 scales. The caller frees them whatever is returned. */
static bb_status quantise_numbers(const struct job *job, float **x, size_t *n)
{
	const struct options *o = job->o;
	const char *text = o->values;
	uint64_t seed = (uint64_t)o->seed;
	char *end;

	*n = text ? 1 : o->count;
	for (const char *c = text; c && *c; c++)
		*n += *c == ',';
	*x = malloc((*n + 1) * 3 * sizeof(**x));
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

/* Add the row of the N numbers X by CODING, named METHOD; of a short tensor with codes and decoded
   numbers. */
static bb_status add_result(struct job *job, float *x, size_t n, const struct bb_coding *coding,
			    const char *method, struct bb_strbuf *steps)
{
	float *const back = x + n;
	void *const coded = back + n;
	/* One scale for all, but of MX. */
	const size_t block = coding->scale_bytes == 1 ? coding->block : 0;
	const size_t bytes = bb_coding_bytes(coding, block, n);
	const double smaller = (double)(n * sizeof(*x)) / (double)bytes;
	double most = 0, rms = 0;
	struct bb_strbuf cell = {0};
	struct bb_json *j = &job->json;

	bb_coding_encode(coding, block, x, n, coded);
	bb_coding_decode(coding, block, coded, n, back);
	const struct bb_block_scale s = bb_coding_scale(coding, coded, n, 0);
	if (!isfinite(s.scale))
		return bb_fail(job->error, BB_EUSAGE, "the range of the numbers exceeds fp32");
	const double zero = (double)(s.zero - s.point * s.scale);
	for (size_t i = 0; i < n; i++) {
		const double off = fabs((double)back[i] - (double)x[i]);

		most = fmax(most, off);
		rms += off * off;
	}
	rms = sqrt(rms / (double)n);
	bb_table_cellf(&job->table, "%s\t%s\t%.6g\t%.6g\t%.6g\t%.6g\t%.2f\t%zu",
		       coding->lowest == 0 || coding->kind != BB_CODE_INTEGER ? coding->name
		       : coding->bits == 8                                    ? "int8"
									      : "int4",
		       method, (double)s.scale, zero, most, rms, smaller, bytes);
	bb_json_add_object(j, NULL);
	bb_json_add_uint(j, "bits", coding->bits);
	bb_json_add_string(j, "method", method);
	bb_json_add_string(j, "coding", coding->name);
	bb_json_add_uint(j, "bytes", bytes);
	bb_json_add_double(j, "scale", (double)s.scale);
	bb_json_add_double(j, "zero", zero);
	bb_json_add_double(j, "error_most", most);
	bb_json_add_double(j, "error_rms", rms);
	bb_json_add_double(j, "times_smaller", smaller);
	if (n <= SHOWN) {
		bb_json_add_array(j, "codes");
		for (size_t i = 0; i < n; i++) {
			bb_json_add_int(j, NULL, bb_coding_code(coding, coded, i));
			bb_strbuf_addf(&cell, "%d ", bb_coding_code(coding, coded, i));
		}
		bb_json_end(j);
		bb_strbuf_add(&cell, "->");
		bb_json_add_array(j, "numbers");
		for (size_t i = 0; i < n; i++) {
			bb_json_add_double(j, NULL, (double)back[i]);
			bb_strbuf_addf(&cell, " %.6g", (double)back[i]);
		}
		bb_json_end(j);
		bb_table_cell(&job->table, bb_strbuf_text(&cell));
	}
	if (job->o->explain)
		quantise_explain(steps, x, n, coding, coded, back);
	bb_json_end(j);
	job->text.failed |= cell.failed;
	bb_strbuf_free(&cell);
	return BB_OK;
}

bb_status bb_calculate_quantise(struct job *job)
{
	static const struct bb_table_head heads[] = {
		{"format", "", -6},      {"method", "", -6},   {"scale", "", 9},
		{"zero", "", 9},         {"max error", "", 9}, {"rms error", "", 9},
		{"smaller", "times", 9}, {"bytes", "", 9},     {NULL, NULL, 0},
	};
	const struct options *o = job->o;
	struct bb_strbuf steps = {0};
	size_t rows = 0;
	float *x = NULL;
	size_t n;
	char bytes[BB_BOTH_TEXT];
	bb_status st;

	BB_TRY(st, quantise_numbers(job, &x, &n), out);
	if (o->explain && n > EXPLAINED)
		BB_TRY(st,
		       bb_fail(job->error, BB_EUSAGE,
			       "--explain: shows at most %d numbers; give --values, or a smaller "
			       "--count",
			       EXPLAINED),
		       out);
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
	for (int i = 0; i < 2 * METHODS && st == BB_OK; i++) {
		const int m = i % METHODS;
		const char *name = methods[m].codings[i / METHODS];
		const struct bb_coding *c = name ? bb_coding_named(name) : NULL;
		const bool asked = o->method == 0 ? m <= USUAL_METHODS
						  : o->method == METHODS - 1 || o->method == m;

		if (!c || !asked ||
		    (o->format &&
		     !(c->kind == BB_CODE_INTEGER && c->bits == (o->format == 1 ? 8 : 4))))
			continue;
		st = add_result(job, x, n, c, methods[m].name, &steps);
		rows++;
	}
	if (st == BB_OK && rows == 0)
		st = bb_fail(job->error, BB_EUSAGE,
			     "--format: the method has no such integers; leave one of --format and "
			     "--method out");
	bb_job_end_table(job);
	bb_strbuf_add(&job->text, bb_strbuf_text(&steps));
	job->text.failed |= steps.failed;
	bb_json_end(&job->json);
out:
	bb_strbuf_free(&steps);
	free(x);
	return st;
}
