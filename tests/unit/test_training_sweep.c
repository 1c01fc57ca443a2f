/*
 * Memory of training: drawn layers and trainings of several models, what fits into drawn GPUs,
 * settings of DeepSpeed, and what model_memory prints of all of it.
 */
#include "draws.h"

#include "memory/tool/tool.h"
#include "models/memory/ds_config.h"

#include <sys/mman.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const char *const models[] = {
	"gpt2:6x192x12x5000x480,tied=1",
	"llama:9x384x9x32000x960x1056,kv=3,head_dim=32",
	"mixtral:8x256x8x3200x1920x896x8x2,kv=4,fused=1",
	"deepseek_v3:10x256x8x3200x720x512x12x4x64x16x16x24,dense=2,shared=1,expert_ffn=96",
	"linear:5x64",
	NULL, /* a number of parameters */
};
#define MODELS COUNT(models)

struct subject {
	struct bb_model model;
	struct bb_model_layout layout;
	bool has_model;
};

static void open_subject(struct subject *u, const char *text)
{
	struct bb_error error = {.text = ""};

	memset(u, 0, sizeof(*u));
	u->has_model = text != NULL;
	if ((text && bb_model_open(&u->model, text, 0, &error) != BB_OK) ||
	    bb_model_layout_make(&u->layout, text ? &u->model : NULL, 123456789, &error) != BB_OK)
		fail_msg("%s: %s", text, error.text);
}

static void close_subject(struct subject *u)
{
	bb_model_layout_free(&u->layout);
	bb_model_free(&u->model);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static void test_layers(void **state)
{
	struct sweep s = sweep_open("training_layers");
	uint64_t seed = 1;

	for (int part = 0; part < 10; part++) {
		for (int n = 0; n < 300; n++, seed++) {
			const int huge = drawn(seed, 1, 12) ? 0 : 40;
			const struct bb_layer l = {
				.seq = (uint64_t)(1 + drawn(seed, 2, 5000)) << huge / 2,
				.batch = (uint64_t)(1 + drawn(seed, 3, 9)) << huge,
				.hidden = (uint64_t)(1 + drawn(seed, 4, 9000)),
				.heads = (uint64_t)(1 + drawn(seed, 5, 90)),
				.queries = (uint64_t)(1 + drawn(seed, 6, 9000)),
				.keys = (uint64_t)(1 + drawn(seed, 7, 2000)),
				.ffn = (uint64_t)(1 + drawn(seed, 8, 30000)),
				.routes = (uint64_t)(1 + drawn(seed, 9, 9)),
				.extra = drawn(seed, 10, 2) ? 0 : drawn(seed, 11, 900),
				.gated = drawn(seed, 12, 2),
				.bytes = drawn(seed, 13, 2) ? 2 : 4,
				.tp = (uint64_t)(1 + drawn(seed, 14, 9)),
				.sequence_parallel = drawn(seed, 15, 2),
				.eager = drawn(seed, 16, 2)};
			const uint64_t stages = (uint64_t)(1 + drawn(seed, 17, 9));
			const uint64_t m = (uint64_t)(1 + drawn(seed, 18, 40));
			const struct bb_recipe recipe = {&bb_precisions[drawn(seed, 19, 5)],
							 &bb_optimizers[drawn(seed, 20, 4)]};
			const struct bb_states states = bb_states_of_rank(
				&recipe, m * stages * 1001, m, n % 4, 1 + l.tp * l.batch);

			for (int r = 0; r <= BB_RECOMPUTE_FULL; r++)
				SWEEP_ADD(&s, (double)bb_layer_kept(&l, r),
					  (double)bb_layer_recomputed(&l, r),
					  (double)bb_in_flight(r, m % stages, stages, 1 + l.tp, m));
			SWEEP_ADD(&s, (double)bb_embedding_kept(&l),
				  (double)bb_head_kept(&l, l.ffn), (double)bb_states_sum(&states),
				  (double)states.parameters, (double)states.gradients,
				  (double)bb_zero_bytes(&recipe, l.ffn * m, n % 4, l.tp, m),
				  (double)bb_layers_before(m + stages, stages, m % (stages + 1)),
				  (double)bb_factored_elements(l.hidden, 1 + m % 3),
				  (double)bb_bytes_add(l.batch << 20, l.seq << 40),
				  (double)bb_bytes_times(l.batch, l.seq));
		}
		sweep_end(&s, "part %d", part);
	}
	sweep_close(&s);
}

/* ---- trainings ------------------------------------------------------------------------------- */

static struct bb_training draw_training(uint64_t seed, const struct subject *u)
{
	static const int ranks[] = {1, 1, 1, 2, 3, 4, 6, 8};
	struct bb_training t = {
		.model = u->has_model ? &u->model : NULL,
		.layout = &u->layout,
		.recipe = {&bb_precisions[drawn(seed, 101, 5)],
			   &bb_optimizers[drawn(seed, 102, 9) % 4]},
		.trainable = drawn(seed, 103, 4) ? 1 : 0.01 * (1 + drawn(seed, 104, 99)),
		.zero = drawn(seed, 105, 4),
		.offload = drawn(seed, 106, 3) ? BB_OFFLOAD_NONE : drawn(seed, 107, 3),
		.dp = (uint64_t)(ranks[drawn(seed, 108, 8)] * ranks[drawn(seed, 109, 8)]),
		.tp = (uint64_t)ranks[drawn(seed, 110, 8)],
		.pp = (uint64_t)(drawn(seed, 111, 2) ? 1 : 1 + drawn(seed, 112, 12)),
		.ep = (uint64_t)(drawn(seed, 113, 3) ? 1 : ranks[drawn(seed, 114, 8)]),
		.eager = drawn(seed, 115, 2),
		.schedule = drawn(seed, 116, 3),
		.chunks = 1,
		.micro_batch = (uint64_t)(1 + drawn(seed, 117, 9)),
		.micro_batches = (uint64_t)(1 + drawn(seed, 118, 33)),
		.recompute = drawn(seed, 119, 3),
	};

	if (t.pp > 1 && drawn(seed, 120, 3))
		t.zero /= 2;
	if (t.schedule == BB_INTERLEAVED || drawn(seed, 121, 20) == 0)
		t.chunks = (uint64_t)(1 + drawn(seed, 122, 3));
	t.sequence_parallel = drawn(seed, 123, 2) && (t.tp > 1 || drawn(seed, 124, 9) == 0);
	if (drawn(seed, 125, 60) == 0)
		t.micro_batch <<= 55;
	if (drawn(seed, 126, 2))
		t.buffers = (struct bb_training_buffers){
			.reduce = (uint64_t)drawn(seed, 127, 3) * 5000,
			.gather = (uint64_t)drawn(seed, 128, 1 << 25),
			.prefetch = (uint64_t)drawn(seed, 129, 1 << 22),
			.live = (uint64_t)drawn(seed, 130, 1 << 24),
			.overlap = drawn(seed, 131, 2)};
	return t;
}

static void need_add(struct sweep *s, const struct bb_need *n)
{
	for (int i = 0; i < BB_CATEGORIES; i++)
		sweep_add(s, (double)n->bytes[i]);
	SWEEP_ADD(s, (double)n->total, (double)n->host, (double)n->elements, (double)n->experts,
		  (double)n->layers, (double)n->sparse, (double)n->stage, (double)n->chunks,
		  bb_need_tightest(n));
}

static void settings_add(struct sweep *s, const struct bb_training *t)
{
	char name[BB_FIT_NAME];

	SWEEP_ADD(s, (double)t->dp, (double)t->tp, (double)t->pp, t->zero, t->recompute,
		  (double)t->micro_batch, (double)t->micro_batches, t->sequence_parallel);
	sweep_add_text(s, bb_fit_name(t, name));
}

static void fits_add(struct sweep *s, const struct bb_training *t, uint64_t seed)
{
	const struct bb_fits_space space = {
		.gpus = t->dp * t->tp * t->pp,
		.most_tp = (uint64_t)(1 << drawn(seed, 201, 4)),
		.most_pp = t->model ? (uint64_t)t->model->blocks : 1,
		.micro_batch = drawn(seed, 202, 2) ? 0 : (uint64_t)(1 + drawn(seed, 203, 5)),
		.most_micro_batch = (uint64_t)(1 + drawn(seed, 204, 40)),
		.zero = drawn(seed, 205, 3) ? -1 : drawn(seed, 206, 4),
		.recompute = drawn(seed, 207, 3) ? -1 : drawn(seed, 208, 3),
		.limit = UINT64_C(1) << (18 + drawn(seed, 209, 14))};
	struct bb_error error = {.text = ""};
	struct bb_training base = *t;
	struct bb_fits fits;

	if (drawn(seed, 210, 2))
		base.micro_batches = 0;
	sweep_add(s, bb_fits_find(&fits, &base, &space, &error));
	SWEEP_ADD(s, (double)fits.n, (double)fits.tried);
	for (size_t i = 0; i < fits.n; i++) {
		settings_add(s, &fits.list[i].training);
		sweep_add(s, (double)fits.list[i].need.total);
	}
	settings_add(s, &fits.nearest.training);
	need_add(s, &fits.nearest.need);
	free(fits.list);
}

static void training_add(struct sweep *s, const struct bb_training *t, uint64_t seed)
{
	struct bb_error error = {.text = ""};
	const bb_status status = bb_training_check(t, &error);
	struct bb_training without = *t;
	struct bb_fit_verdict v;

	sweep_add(s, status);
	sweep_add_text(s, error.text);
	sweep_add(s, bb_training_has_activations(t));
	if (status != BB_OK)
		return;
	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct bb_need need = bb_training_stage(t, stage);
		const struct bb_need kept = bb_training_keeping(t, stage, 1 + stage % 3);

		need_add(s, &need);
		need_add(s, &kept);
	}
	const struct bb_need most = bb_training_most(t);
	const uint64_t limit = most.total / 2 + most.total / 8 * (uint64_t)drawn(seed, 211, 8);

	need_add(s, &most);
	sweep_add(s, bb_fit_judge_need(&v, t, &most, limit, &error));
	sweep_add_text(s, v.text);
	if (t->model)
		without.layout = NULL;
	sweep_add(s, bb_fit_judge(&v, &without, limit + most.total / 16, &error));
	SWEEP_ADD(s, v.fits, (double)v.limit, (double)v.need.total);
	sweep_add_text(s, v.text);
	fits_add(s, t, seed);
}

static void test_trainings(void **state)
{
	struct sweep s = sweep_open("training_runs");
	uint64_t seed = 1;

	for (int i = 0; i < MODELS; i++) {
		struct subject u;

		open_subject(&u, models[i]);
		for (int part = 0; part < 4; part++) {
			for (int n = 0; n < 400; n++, seed++) {
				const struct bb_training t = draw_training(seed, &u);

				training_add(&s, &t, seed);
			}
			sweep_end(&s, "%s, part %d", models[i] ? models[i] : "a number", part);
		}
		if (u.has_model) {
			const struct bb_training alone = bb_training_alone(&u.model);
			const struct bb_layer layer = bb_layer_of_model(&u.model, true, 2, 4);

			settings_add(&s, &alone);
			SWEEP_ADD(&s, (double)layer.routes, (double)layer.extra, (double)layer.ffn);
			sweep_end(&s, "%s alone", models[i]);
		}
		close_subject(&u);
	}
	sweep_close(&s);
}

/* ---- the memory of GPUs ---------------------------------------------------------------------- */

static void test_capacities(void **state)
{
	static const char *const cards[] = {NULL, "V100", "H100 PCIe", "H20", "GH200", "none"};
	static const uint64_t reserves[] = {0, 1, 3758096384, 15000000000, UINT64_C(1) << 37};
	struct sweep s = sweep_open("training_capacities");

	for (int c = 0; c < COUNT(cards); c++) {
		for (uint64_t gib = 1; gib <= 300; gib++)
			for (int r = 0; r < COUNT(reserves); r++) {
				struct bb_error error = {.text = ""};
				struct bb_strbuf text = {0};
				struct bb_capacity m;

				sweep_add(&s, bb_capacity_open(&m, "--fits", gib << 30, cards[c],
							       reserves[r], &error));
				sweep_add_text(&s, error.text);
				bb_capacity_add(&text, &m);
				sweep_add_text(&s, bb_strbuf_text(&text));
				SWEEP_ADD(&s, (double)m.reported, (double)m.usable);
				bb_strbuf_free(&text);
			}
		sweep_end(&s, "%s", cards[c] ? cards[c] : "any");
	}
	sweep_close(&s);
}

/* ---- settings of DeepSpeed, and what the program prints -------------------------------------- */

/* Settings, each with values; "": it is missing. */
static const char *const settings[][8] = {
	{"\"stage\": 0", "\"stage\": 1", "\"stage\": 2", "\"stage\": 3", "\"stage\": 4",
	 "\"stage\": \"auto\"", "\"stage\": 1.5", ""},
	{"\"offload_optimizer\": {\"device\": \"cpu\"}",
	 "\"offload_optimizer\": {\"device\": \"none\"}", "\"offload_optimizer\": 5", "", "", "",
	 "\"offload_optimizer\": {\"device\": \"disk\"}", ""},
	{"\"offload_param\": {\"device\": \"nvme\"}", "\"offload_param\": {}", "", "", "", "",
	 "\"offload_param\": null", ""},
	{"\"overlap_comm\": true", "\"overlap_comm\": false", "\"overlap_comm\": \"auto\"",
	 "\"overlap_comm\": 1", "", "", "", ""},
	{"\"reduce_bucket_size\": 5e6", "\"reduce_bucket_size\": \"auto\"",
	 "\"reduce_bucket_size\": -1", "\"reduce_bucket_size\": 1000", "", "", "", ""},
	{"\"allgather_bucket_size\": 20000", "\"allgather_bucket_size\": \"auto\"",
	 "\"allgather_bucket_size\": true", "", "", "", "", ""},
	{"\"stage3_prefetch_bucket_size\": 7000", "\"stage3_prefetch_bucket_size\": \"auto\"",
	 "\"stage3_prefetch_bucket_size\": 1e16", "", "", "", "", ""},
	{"\"stage3_max_live_parameters\": 3000", "\"stage3_max_live_parameters\": \"auto\"",
	 "\"stage3_max_live_parameters\": 0", "", "", "", "", ""},
	/* And beside these: */
	{"\"fp16\": {\"enabled\": true}", "\"fp16\": {\"enabled\": \"auto\"}", "\"fp16\": {}",
	 "\"fp16\": true", "", "", "", ""},
	{"\"bf16\": {\"enabled\": true}", "\"bf16\": {\"enabled\": \"auto\"}",
	 "\"bf16\": {\"enabled\": false}", "\"bf16\": {\"enabled\": 3}", "", "", "", ""},
	{"\"optimizer\": {\"type\": \"AdamW\"}", "\"optimizer\": {\"type\": \"Lamb\"}",
	 "\"optimizer\": {\"type\": \"SGD\"}", "\"optimizer\": {\"type\": \"adam\"}",
	 "\"optimizer\": {\"type\": \"Lion\"}", "\"optimizer\": {\"type\": 5}", "", ""},
	{"\"train_micro_batch_size_per_gpu\": 2", "\"train_micro_batch_size_per_gpu\": 4",
	 "\"train_micro_batch_size_per_gpu\": \"auto\"", "\"train_micro_batch_size_per_gpu\": 0",
	 "", "", "", ""},
	{"\"gradient_accumulation_steps\": 3", "\"gradient_accumulation_steps\": 4",
	 "\"gradient_accumulation_steps\": \"auto\"", "", "", "", "", ""},
	{"\"train_batch_size\": 32", "\"train_batch_size\": 48", "\"train_batch_size\": \"auto\"",
	 "\"train_batch_size\": \"big\"", "", "", "", ""},
};
#define OF_ZERO 8 /* in the object of ZeRO */

/* A file in memory that is written again and again. */
static int file;
static char path[32];

static void write_settings(uint64_t seed)
{
	const bool zero = drawn(seed, 301, 8) > 0;
	struct bb_strbuf text = {0};
	const char *next = "";

	bb_strbuf_add(&text, zero ? "{\"zero_optimization\": {" : "{");
	for (int i = 0; i < COUNT(settings); i++) {
		const char *setting = settings[i][drawn(seed, 310 + (uint64_t)i, 8)];

		if (i == OF_ZERO && zero) {
			bb_strbuf_add(&text, "}");
			next = ", ";
		}
		if (!*setting || (!zero && i < OF_ZERO))
			continue;
		bb_strbuf_addf(&text, "%s%s", next, setting);
		next = ", ";
	}
	bb_strbuf_add(&text, drawn(seed, 302, 40) ? "}" : "");
	assert_int_equal(ftruncate(file, 0), 0);
	assert_int_equal(pwrite(file, bb_strbuf_text(&text), text.length, 0), text.length);
	bb_strbuf_free(&text);
}

/* TEXT without the path of the file. */
static void text_add(struct sweep *s, const char *text)
{
	const char *const at = strstr(text, path);
	char before[128] = "";

	if (at)
		snprintf(before, sizeof(before), "%.*s", (int)(at - text), text);
	sweep_add_text(s, before);
	sweep_add_text(s, at ? at + strlen(path) : text);
}

static void settings_of_file_add(struct sweep *s, const struct subject *u, uint64_t seed)
{
	struct bb_error error = {.text = ""};
	struct bb_ds_config c;
	const struct bb_training_buffers *const b = &c.buffers;

	sweep_add(s,
		  bb_ds_config_read(path, u->has_model ? &u->model : NULL, NULL, NULL, &c, &error));
	text_add(s, error.text);
	SWEEP_ADD(s, c.zero, c.offload, c.precision, c.optimizer, (double)b->reduce,
		  (double)b->gather, (double)b->prefetch, (double)b->live, b->overlap);
	error.text[0] = '\0';
	if (drawn(seed, 303, 3))
		sweep_add(s, bb_ds_config_batch(&c, path, (uint64_t)(1 + drawn(seed, 304, 8)),
						&error));
	text_add(s, error.text);
	SWEEP_ADD(s, (double)c.micro_batch, (double)c.micro_batches, (double)c.batch);
}

/* The options of model_memory train for training T. */
static struct options options_of(const struct bb_training *t, const char *model, uint64_t seed)
{
	static const uint64_t sizes[] = {0,
					 100,
					 UINT64_C(1) << 22,
					 UINT64_C(1) << 26,
					 UINT64_C(1) << 30,
					 UINT64_C(80) << 30};
	struct options o = {
		.model = model,
		.model_given = model != NULL,
		.params = 123456789,
		.params_given = !model,
		.precision = (int)(t->recipe.precision - bb_precisions),
		.optimizer = (int)(t->recipe.optimizer - bb_optimizers),
		.trainable = t->trainable,
		.zero = t->zero,
		.offload = t->offload,
		.dp = (int64_t)t->dp,
		.tp = (int64_t)t->tp,
		.pp = (int64_t)t->pp,
		.ep = (int64_t)t->ep,
		.sequence_parallel = t->sequence_parallel,
		.attention = t->eager ? BB_ATTENTION_EAGER : BB_ATTENTION_FLASH,
		.schedule = t->schedule,
		.chunks = (int64_t)t->chunks,
		.micro_batch = (int64_t)(t->micro_batch % 1000),
		.micro_batches = drawn(seed, 351, 3) ? (int64_t)t->micro_batches : 0,
		.recompute = t->recompute,
		.gpus_per_node = 1 << drawn(seed, 352, 4),
	};

	o.zero_given = drawn(seed, 353, 3) == 0;
	o.offload_given = drawn(seed, 354, 4) == 0;
	o.precision_given = drawn(seed, 355, 4) == 0;
	o.optimizer_given = drawn(seed, 356, 4) == 0;
	o.micro_batch_given = drawn(seed, 357, 4) == 0;
	o.micro_batches_given = drawn(seed, 358, 4) == 0;
	o.recompute_given = drawn(seed, 359, 4) == 0;
	o.fits_given = drawn(seed, 360, 2);
	o.fits = sizes[1 + drawn(seed, 361, 5)];
	o.reserve = sizes[drawn(seed, 362, 8) % 4];
	o.gpus_given = drawn(seed, 363, 2);
	o.gpus = 1 + drawn(seed, 364, 48);
	o.ds_config = drawn(seed, 365, 2) ? path : NULL;
	return o;
}

static void job_add(struct sweep *s, const struct options *o)
{
	struct bb_error error = {.text = ""};
	struct bb_strbuf json = {0};
	struct job job = {.o = o, .error = &error, .table = {.limit = 120}};

	bb_json_init(&job.json, &json, true);
	bb_json_add_object(&job.json, NULL);
	sweep_add(s, bb_calculate_train(&job));
	text_add(s, error.text);
	sweep_add_text(s, bb_strbuf_text(&job.text));
	sweep_add_text(s, bb_strbuf_text(&json));
	bb_model_layout_free(&job.layout);
	bb_model_free(&job.model);
	bb_table_free(&job.table);
	bb_strbuf_free(&job.text);
	bb_strbuf_free(&json);
}

static void test_program(void **state)
{
	struct sweep s = sweep_open("training_program");
	uint64_t seed = 1;

	file = memfd_create("settings", 0);
	assert_true(file >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	for (int i = 0; i < MODELS; i++) {
		struct subject u;

		open_subject(&u, models[i]);
		for (int n = 0; n < 500; n++, seed++) {
			const struct bb_training t = draw_training(seed, &u);
			const struct options o = options_of(&t, models[i], seed);

			write_settings(seed);
			settings_of_file_add(&s, &u, seed);
			job_add(&s, &o);
			if (n % 100 == 99)
				sweep_end(&s, "%s, %d", models[i] ? models[i] : "a number", n);
		}
		close_subject(&u);
	}
	close(file);
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_trainings),
		cmocka_unit_test(test_capacities),
		cmocka_unit_test(test_program),
	};

	return cmocka_run_group_tests_name("training_sweep", tests, NULL, NULL);
}
