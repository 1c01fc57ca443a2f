/*
 * quantise.c - a tensor in integers and back.
 */
#include "codes/codes.h"
#include "core/random.h"
#include "memory/tool/tool.h"

#include <math.h>
#include <stdlib.h>

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

/* Add the row of the N numbers X by CODING, named METHOD; of a short tensor with codes and decoded
   numbers. CODED and BACK have room for the codes and for decoded numbers. */
static bb_status add_result(struct job *job, const float *x, size_t n,
			    const struct bb_coding *coding, const char *method, void *coded,
			    float *back)
{
	const size_t bytes = bb_coding_bytes(coding, 0, n);
	const double smaller = (double)(n * sizeof(*x)) / (double)bytes;
	double most = 0, rms = 0;
	struct bb_strbuf cell = {0};
	struct bb_json *j = &job->json;

	bb_coding_encode(coding, 0, x, n, coded);
	bb_coding_decode(coding, 0, coded, n, back);
	const struct bb_block_scale s = bb_coding_scale(coding, coded, n, 0);
	if (!isfinite(s.scale))
		return bb_fail(job->error, BB_EUSAGE, "the range of the numbers exceeds fp32");
	for (size_t i = 0; i < n; i++) {
		const double off = fabs((double)back[i] - (double)x[i]);

		most = fmax(most, off);
		rms += off * off;
	}
	rms = sqrt(rms / (double)n);
	bb_table_cellf(&job->table, "int%u\t%s\t%.6g\t%.6g\t%.6g\t%.6g\t%.2f\t%zu", coding->bits,
		       method, (double)s.scale, (double)s.zero, most, rms, smaller, bytes);
	bb_json_add_object(j, NULL);
	bb_json_add_uint(j, "bits", coding->bits);
	bb_json_add_string(j, "method", method);
	bb_json_add_uint(j, "bytes", bytes);
	bb_json_add_double(j, "scale", (double)s.scale);
	bb_json_add_double(j, "zero", (double)s.zero);
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
	static const char *const methods[] = {"minmax", "scale"};
	static const char *const codings[2][2] = {{"int8-minmax", "int8"}, {"int4-minmax", "int4"}};
	float *x = NULL,
	      *room = NULL; /* decoded numbers, and at most a byte and 2 scales of each */
	size_t n;
	char bytes[BB_BOTH_TEXT];
	bb_status st;

	BB_TRY(st, quantise_numbers(job, &x, &n), out);
	room = calloc(n + 2, 2 * sizeof(*room));
	if (!room)
		BB_TRY(st, bb_no_memory(job->error, "codes"), out);
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
		st = add_result(job, x, n, bb_coding_named(codings[format - 1][method - 1]),
				methods[method - 1], room + n, room);
	}
	bb_job_end_table(job);
	bb_json_end(&job->json);
out:
	free(room);
	free(x);
	return st;
}
