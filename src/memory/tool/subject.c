/*
 * subject.c - the model or size of a subject, and formatted numbers.
 */
#include "core/units.h"
#include "memory/tool/tool.h"

#include <stdio.h>
#include <string.h>

const char *bb_job_bytes(char text[BB_BOTH_TEXT], uint64_t bytes)
{
	static const char *const units[][2] = {
		{"kB", "KiB"}, {"MB", "MiB"}, {"GB", "GiB"}, {"TB", "TiB"}};
	double tens = 1, twos = 1;
	int n = 0; /* TB from 10 of them on */

	for (; n < 4 && (double)bytes >= tens * (n == 3 ? 10000 : 1000); n++) {
		tens *= 1000;
		twos *= 1024;
	}
	if (n == 0)
		snprintf(text, BB_BOTH_TEXT, "%ju B", bytes);
	else
		snprintf(text, BB_BOTH_TEXT, "%.2f %s = %.2f %s", (double)bytes / tens,
			 units[n - 1][0], (double)bytes / twos, units[n - 1][1]);
	return text;
}

const char *bb_job_grouped(char text[BB_GROUPED_TEXT], uint64_t number)
{
	char digits[BB_GROUPED_TEXT];
	const int n = snprintf(digits, sizeof(digits), "%ju", number);
	char *out = text;

	for (int i = 0; i < n; i++) {
		if (i > 0 && (n - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return text;
}

void bb_job_add_known(struct bb_json *json, const char *key, bool known, uint64_t value)
{
	if (known)
		bb_json_add_uint(json, key, value);
	else
		bb_json_add_null(json, key);
}

void bb_job_end_table(struct job *job)
{
	bb_table_print(&job->table, &job->text);
	bb_table_clear(&job->table);
}

void bb_job_add_recipe(struct job *job, const struct bb_recipe *recipe)
{
	const struct bb_states each = bb_states_each(recipe);

	bb_strbuf_addf(&job->text,
		       "# bytes per parameter: %ju, gradient %ju, optimizer %ju (%s, %s)\n",
		       each.parameters, each.gradients, each.optimizer, recipe->precision->name,
		       recipe->optimizer->name);
	bb_json_add_string(&job->json, "precision", recipe->precision->name);
	bb_json_add_string(&job->json, "optimizer", recipe->optimizer->name);
}

bb_status bb_job_open_model(struct job *job)
{
	const struct options *o = job->o;
	const struct bb_hyper *h = &job->model.hyper;
	char number[BB_GROUPED_TEXT];
	bb_status st;

	if (!o->model_given && !o->params_given)
		return bb_fail(job->error, BB_EUSAGE,
			       "nothing to calculate: give --model llama2-7b, or --params 7.5B "
			       "(--list names the models)");
	job->has_model = o->model_given;
	job->parameters = o->params;
	if (job->has_model) {
		BB_TRY(st, bb_model_open(&job->model, o->model, o->seq, job->error), out);
		job->parameters = job->model.parameters;
	}
	BB_TRY(st,
	       bb_model_layout_make(&job->layout, job->has_model ? &job->model : NULL,
				    job->parameters, job->error),
	       out);
	bb_job_grouped(number, job->parameters);
	bb_json_add_string(&job->json, "model", job->has_model ? job->model.name : NULL);
	bb_json_add_uint(&job->json, "parameters", job->parameters);
	if (!job->has_model) {
		bb_strbuf_addf(&job->text, "# %s parameters of an unknown model\n", number);
		goto out;
	}
	bb_strbuf_addf(&job->text, "# %s (%s): %s parameters", job->model.name, job->model.family,
		       number);
	if (h->heads)
		bb_strbuf_addf(&job->text, ", %d layers, %jd tokens per sequence",
			       job->model.blocks, h->seq);
	bb_strbuf_add(&job->text, "\n");
	bb_model_add_origin(&job->text, &job->model);
	if (h->experts)
		bb_strbuf_addf(&job->text, "# %zu tensors, as transformers %d registers them\n",
			       job->model.ntensors, h->fused ? 5 : 4);
out:
	return st;
}
