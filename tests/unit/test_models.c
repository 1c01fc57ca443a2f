/*
 * Models: counts that are published, formulas that are, the order of the backward pass; and
 * config.json files, good and bad.
 */
#include "models/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct bb_model open_model(const char *word, int64_t seq)
{
	struct bb_error error = {.text = ""};
	struct bb_model m;

	if (bb_model_open(&m, word, seq, &error) != BB_OK)
		fail_msg("%s", error.text);
	return m;
}

/* The sentence that WORD is refused with says WHAT. */
static void refused(const char *word, int64_t seq, const char *what)
{
	struct bb_error error = {.text = ""};
	struct bb_model m;

	if (bb_model_open(&m, word, seq, &error) != BB_EUSAGE || !strstr(error.text, what))
		fail_msg("%s: \"%s\" does not say \"%s\"", word, error.text, what);
	bb_model_free(&m);
}

/* ---- counts -------------------------------------------------------------------------------- */

static void test_counts(void **state)
{
	static const struct {
		const char *word;
		size_t tensors;
		uint64_t parameters;
	} known[] = {
		/* torchvision's documentation of each */
		{"resnet:18", 62, 11689512},
		{"resnet:34", 110, 21797672},
		{"resnet50", 161, 25557032},
		{"resnet:101", 314, 44549160},
		{"resnet:152", 467, 60192808},
		/* the models themselves, in Hugging Face's transformers */
		{"gpt2", 148, 124439808},
		{"gpt2-xl", 580, 1557611200},
		{"bert-large", 391, 335141888},
		{"llama2-7b", 291, 6738415616},
		{"llama2-70b", 723, 68976648192},
		{"mixtral-8x7b", 995, 46702792704},
		{"mixtral:32x4096x32x32000x32768x14336x8x2,kv=8,fused=1", 291, 46702792704},
		{"bloom-176b", 845, 176247271424},
		{"linear:20x2000", 40, 20 * (2000 * 2000 + 2000)},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct bb_model m = open_model(known[i].word, 0);
		uint64_t sum = 0;

		for (size_t t = 0; t < m.ntensors; t++)
			sum += m.tensors[t].matrices * m.tensors[t].rows * m.tensors[t].columns;
		if (m.ntensors != known[i].tensors || m.parameters != known[i].parameters)
			fail_msg("%s: %zu tensors, %llu parameters", known[i].word, m.ntensors,
				 (unsigned long long)m.parameters);
		assert_int_equal(sum, m.parameters);
		bb_model_free(&m);
	}
}

/* A block of GPT-2's kind has 12 h² + 13 h parameters, of BERT's and BLOOM's too. */
static void test_formulas(void **state)
{
	const uint64_t L = 96, h = 12288, V = 50257, s = 2048;
	struct bb_model m = open_model("gpt3-175b", 0);

	assert_int_equal(m.parameters, 12 * L * h * h + 13 * L * h + (V + s) * h + 2 * h);
	bb_model_free(&m);
	m = open_model("bloom:layers=70,hidden=14336,heads=112,vocab=250880,seq=2048", 0);
	assert_int_equal(m.parameters, UINT64_C(12) * 70 * 14336 * 14336 + 13 * 70 * 14336 +
					       UINT64_C(250880) * 14336 + 4 * 14336);
	bb_model_free(&m);
}

/*
 * Narayanan et al., SC21: with recomputation 96 B s L h² (1 + s / 6h + V / 16Lh); without it, three
 * passes instead of four, 72 B s L h² (1 + s / 6h + V / 12Lh).
 */
static void test_flops_of_transformers(void **state)
{
	const double L = 96, h = 12288, V = 50257, s = 2048;
	struct bb_model m = open_model("gpt3-175b", 0);
	const double all = 72 * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h));
	double input = 0, weights = 0, forward = 0;

	assert_true(fabs((m.forward + m.backward) / all - 1) < 1e-12);
	assert_true(fabs(m.backward / m.forward - 2) < 1e-12);
	/* Qi et al., table 1, of a block: F s h (24 h + 4 s), B s h (24 h + 8 s), W 24 s h². */
	for (size_t i = 0; i < m.nworks; i++) {
		if (m.works[i].layer != 17)
			continue;
		forward += m.works[i].forward;
		input += m.works[i].input;
		weights += m.works[i].weights;
	}
	assert_true(fabs(forward / (s * h * (24 * h + 4 * s)) - 1) < 1e-12);
	assert_true(fabs(input / (s * h * (24 * h + 8 * s)) - 1) < 1e-12);
	assert_true(fabs(weights / (24 * s * h * h) - 1) < 1e-12);
	bb_model_free(&m);
}

/* torchvision: 4.09 and 1.81 GMACs for an image. The image itself wants no gradient. */
static void test_flops_of_resnets(void **state)
{
	struct bb_model m = open_model("resnet50", 0);
	const double first = m.works[0].forward;

	assert_true(fabs(m.forward / 2e9 - 4.09) < 0.005);
	assert_true(first == 2.0 * 49 * 3 * 64 * 112 * 112);
	assert_true(fabs(m.backward - (2 * m.forward - first)) < 1);
	bb_model_free(&m);
	m = open_model("resnet:18", 0);
	assert_true(fabs(m.forward / 2e9 - 1.81) < 0.005);
	bb_model_free(&m);
}

/* Experts share the tokens: Mixtral's arithmetic is that of its 2 experts of 8, and the router. */
static void test_flops_of_experts(void **state)
{
	struct bb_model all = open_model("mixtral-8x7b", 512);
	struct bb_model one = open_model("mistral:layers=32,hidden=4096,heads=32,vocab=32000,seq="
					 "512,ffn=14336,kv=8",
					 0);
	const double ffn = 512.0 * 32 * 6 * 4096 * 14336, router = 512.0 * 32 * 2 * 4096 * 8;

	assert_true(fabs((all.forward - one.forward) / (ffn + router) - 1) < 1e-12);
	for (size_t t = 0; t < all.ntensors; t++)
		if (all.tensors[t].expert != (strstr(all.tensors[t].name, ".experts.") != NULL))
			fail_msg("%s", all.tensors[t].name);
	bb_model_free(&all);
	bb_model_free(&one);
}

/* ---- the backward pass ---------------------------------------------------------------------- */

static const char *nth(const struct bb_model *m, size_t i)
{
	return m->tensors[m->order[i]].name;
}

static void test_order(void **state)
{
	struct bb_model m = open_model("llama:layers=2,hidden=64,heads=4,vocab=100,seq=8,ffn=96,"
				       "kv=2",
				       0);
	static const char *const first[] = {
		"lm_head.weight",
		"model.norm.weight",
		"model.layers.1.mlp.down_proj.weight",
		"model.layers.1.mlp.up_proj.weight",
		"model.layers.1.mlp.gate_proj.weight",
		"model.layers.1.post_attention_layernorm.weight",
		"model.layers.1.self_attn.o_proj.weight",
		"model.layers.1.self_attn.v_proj.weight",
		"model.layers.1.self_attn.k_proj.weight",
		"model.layers.1.self_attn.q_proj.weight",
		"model.layers.1.input_layernorm.weight",
		"model.layers.0.mlp.down_proj.weight",
	};

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		assert_string_equal(nth(&m, i), first[i]);
	assert_string_equal(nth(&m, m.ntensors - 1), "model.embed_tokens.weight");
	/* Registered after their block's matrices. */
	assert_string_equal(m.tensors[8].name, "model.layers.0.input_layernorm.weight");
	assert_int_equal(m.tensors[8].layer, 0);
	assert_int_equal(m.tensors[0].layer, BB_LAYER_BEFORE);
	assert_int_equal(m.tensors[m.ntensors - 1].layer, m.blocks);
	bb_model_free(&m);
}

static void test_ready(void **state)
{
	static const char *const words[] = {"resnet50", "gpt2", "llama2-7b", "linear:20x2000"};
	double ready[300];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct bb_model m = open_model(words[i], 0);

		bb_model_ready(&m, 2.5, ready);
		assert_true(ready[0] > 0);
		for (size_t k = 1; k < m.ntensors; k++)
			assert_true(ready[k] >= ready[k - 1]);
		assert_true(ready[m.ntensors - 1] == 2.5);
		bb_model_free(&m);
	}
}

/* Both of a layer's gradients are there when the layer is done: 2 of 4 K² FLOPs each, but for the
   first layer, whose input wants none. */
static void test_ready_of_linear(void **state)
{
	struct bb_model m = open_model("linear:3x10", 0);
	double ready[6];

	bb_model_ready(&m, 5, ready);
	assert_true(ready[0] == 2 && ready[1] == 2 && ready[2] == 4 && ready[3] == 4);
	assert_true(ready[4] == 5 && ready[5] == 5);
	assert_string_equal(nth(&m, 0), "2.bias");
	bb_model_free(&m);
}

/* Tied weights learn from the head and from the embedding: last, though the head goes first. */
static void test_tied(void **state)
{
	struct bb_model tied = open_model("gpt2", 0);
	struct bb_model untied =
		open_model("gpt2:layers=12,hidden=768,heads=12,vocab=50257,seq=1024,tied=0", 0);

	assert_string_equal(nth(&tied, tied.ntensors - 1), "transformer.wte.weight");
	assert_string_equal(nth(&untied, 0), "lm_head.weight");
	assert_int_equal(untied.parameters - tied.parameters, 50257 * 768);
	assert_true(tied.forward == untied.forward);
	bb_model_free(&tied);
	bb_model_free(&untied);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void test_words(void **state)
{
	struct bb_model m = open_model("gpt2", 128);

	assert_int_equal(m.hyper.seq, 128);
	assert_int_equal(m.parameters, 124439808);
	bb_model_free(&m);
	refused("gtp2", 0, "did you mean \"gpt2\"?");
	refused("nothing-like-it", 0, "is not a model");
	refused("llama", 0, "give its hyperparameters: llama:layers=N,");
	refused("", 0, "is not a model");
	refused(":", 0, "is not a model");
	refused("linear:20", 0, "hidden is missing; give linear:layers=N,hidden=N");
	refused("linear:20x2000x3", 0, "unexpected \"3\"");
	refused("linear:20x-1", 0, "hidden: \"-1\" is not a number from 1");
	refused("linear:x", 0, "layers: \"\" is not a number");
	refused("linear:1e30x1", 0, "layers: \"1e30\" is not a number");
	refused("linear:99999999999999999999x1", 0, "is not a number from 1 to 4096");
	refused("linear:layers=2,layers=3", 0, "layers is given twice");
	refused("linear:layers=2,,hidden=3", 0, "is not of the form NAME=NUMBER");
	refused("linear:layers=2,hiden=3", 0, "did you mean \"hidden\"?");
	refused("linear:layers=2,heads=3", 0, "\"heads\" is not a hyperparameter of linear");
	refused("resnet:51", 0, "18, 34, 50, 101 or 152");
	refused("vgg:12", 0, "give 11, 13, 16 or 19");
	refused("bert:1x64x4x10x8,head=lost", 0, "head: \"lost\" is not known; expected pooler, ");
	refused("vit-base", 100, "vit-base has no sequence");
	refused("resnet50", 128, "--seq 128: resnet50 has no sequence");
	refused("gpt2", 2000, "embeddings for only 1024 positions");
	refused("gpt2:12x768x11x50257x1024", 0, "11 heads do not divide a width of 768");
	refused("llama:1x64x4x10x8,ffn=96,kv=3", 0, "4 heads cannot share 3 heads");
	refused("mixtral:1x64x4x10x8x96,experts=2,top_k=3", 0, "top_k=3 exceeds the 2 experts");
	refused("llama:4096x1048576x16x268435456x1x16777216", 0, "more than 2^56 parameters");
	refused("mixtral:4096x1x1x1x1x1x4096x1", 0, "more than 1048576 tensors");
}

/* ---- config.json ---------------------------------------------------------------------------- */

struct file {
	char path[32];
};

static struct file write_file(const char *text, size_t length)
{
	struct file file = {"/tmp/bb_model_XXXXXX"};
	const int fd = mkstemp(file.path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), length);
	close(fd);
	return file;
}

static void refused_file(const char *text, size_t length, const char *what)
{
	const struct file file = write_file(text, length);

	refused(file.path, 0, what);
	unlink(file.path);
}

#define LLAMA                                                                                      \
	"\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":4,"                   \
	"\"intermediate_size\":96,\"vocab_size\":100,\"max_position_embeddings\":8"

static void test_config(void **state)
{
	static const struct {
		const char *text, *word;
	} same[] = {
		{"{" LLAMA ",\"num_hidden_layers\":2,\"num_key_value_heads\":2,"
		 "\"tie_word_embeddings\":true,\"rms_norm_eps\":1e-5,\"pad_token_id\":null}",
		 "llama:2x64x4x100x8x96,kv=2,tied=1"},
		{"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":64,\"n_head\":4,\"n_ctx\":8,"
		 "\"n_positions\":8,\"n_inner\":null,\"vocab_size\":100}",
		 "gpt2:2x64x4x100x8"},
		{"{\"model_type\":\"bloom\",\"n_layer\":2,\"n_embed\":64,\"hidden_size\":64,"
		 "\"num_attention_heads\":4,\"seq_length\":8,\"vocab_size\":100}",
		 "bloom:2x64x4x100x8"},
		/* As transformers saves it: the defaults of BloomConfig, smaller. */
		{"{\"apply_residual_connection_post_layernorm\":false,\"attention_dropout\":0.0,"
		 "\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_dropout\":0.0,\"hidden_size\":64,"
		 "\"initializer_range\":0.02,\"layer_norm_epsilon\":1e-05,\"model_type\":\"bloom\","
		 "\"n_head\":8,\"n_layer\":2,\"pretraining_tp\":1,\"slow_but_exact\":false,"
		 "\"transformers_version\":\"4.57.1\",\"use_cache\":true,\"vocab_size\":250880}",
		 "bloom:2x64x8x250880x2048"},
		{"{\"model_type\":\"bert\",\"num_hidden_layers\":2,\"hidden_size\":64,"
		 "\"num_attention_heads\":4,\"intermediate_size\":100,\"vocab_size\":100,"
		 "\"max_position_embeddings\":8,\"type_vocab_size\":3}",
		 "bert:2x64x4x100x8,ffn=100,types=3"},
		{"{\"model_type\":\"mistral\",\"num_hidden_layers\":2,\"hidden_size\":64,"
		 "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":100,"
		 "\"max_position_embeddings\":8,\"head_dim\":32,\"num_key_value_heads\":1}",
		 "mistral:2x64x4x100x8x96,head_dim=32,kv=1,window=4096"},
		{"{\"model_type\":\"mixtral\",\"num_hidden_layers\":2,\"hidden_size\":64,"
		 "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":100,"
		 "\"max_position_embeddings\":8,\"num_local_experts\":6,"
		 "\"num_key_value_heads\":null,\"num_experts_per_tok\":3}",
		 "mixtral:2x64x4x100x8x96x6x3"},
		{"{\"model_type\":\"mixtral\",\"num_hidden_layers\":2,\"hidden_size\":64,"
		 "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":100,"
		 "\"max_position_embeddings\":8,\"num_local_experts\":6,"
		 "\"num_key_value_heads\":4,\"num_experts_per_tok\":3,"
		 "\"transformers_version\":\"5.0.0\"}",
		 "mixtral:2x64x4x100x8x96x6x3,fused=1"},
	};

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		const struct file file = write_file(same[i].text, strlen(same[i].text));
		struct bb_model a = open_model(file.path, 0), b = open_model(same[i].word, 0);

		assert_string_equal(a.family, b.family);
		assert_memory_equal(&a.hyper, &b.hyper, sizeof(a.hyper));
		assert_int_equal(a.parameters, b.parameters);
		assert_int_equal(a.ntensors, b.ntensors);
		bb_model_free(&a);
		bb_model_free(&b);
		unlink(file.path);
	}
}

#define TEXT                                                                                       \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":2,"                    \
	"\"intermediate_size\":96,\"vocab_size\":100,\"max_position_embeddings\":8"
#define VISION                                                                                     \
	"\"hidden_size\":32,\"num_attention_heads\":4,\"num_hidden_layers\":2,"                    \
	"\"intermediate_size\":96,\"image_size\":8,\"patch_size\":16"

static void test_bad_config(void **state)
{
	static const char *const bad[][2] = {
		{"", "not JSON: line 1"},
		{"{" LLAMA, "not JSON: line 1"},
		{"[1]", "not a JSON object"},
		{"{}", "model_type is missing; expected one of gpt2"},
		{"{\"model_type\":7}", "model_type: \"(not a string)\" is not one of"},
		{"{\"model_type\":\"mamba\"}", "model_type: \"mamba\" is not one of"},
		{"{\"model_type\":\"mamba\",\"hidden_size\":64,\"n_layer\":2,\"d\":1}",
		 "if it is a decoder like llama, give --model generic:hidden=64,layers=2"},
		{"{\"model_type\":\"llama4\",\"vision_config\":{\"a\":1}}",
		 "text_config is missing; llama4 needs it"},
		{"{\"model_type\":\"gemma3\",\"text_config\":{},\"vision_config\":3}",
		 "vision_config is missing; siglip_vision_model needs it"},
		{"{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":0}}",
		 "text_config: hidden_size: 0 is not a whole number"},
		{"{\"model_type\":\"gemma3\",\"a\":1,\"text_config\":{\"b\":2},\"vision_config\":{"
		 "\"c\":3,\"bb_id\":4}}",
		 "not known, and may change the tensors: text_config.b, vision_config.c, a; "},
		{"{\"model_type\":\"gemma3\",\"text_config\":{" TEXT "},\"vision_config\":{" VISION
		 "}}",
		 "a patch of 16 pixels is larger than an image of 8"},
		{"{\"model_type\":\"gemma3\",\"mm_tokens_per_image\":\"4\",\"text_config\":{" TEXT
		 "},\"vision_config\":{" VISION "}}",
		 "mm_tokens_per_image: \"4\" is not a whole number"},
		{"{\"model_type\":\"linear\"}", "model_type: \"linear\" is not one of"},
		{"{" LLAMA ",\"num_hidden_layers\":null}", "num_hidden_layers is missing"},
		{"{" LLAMA ",\"num_hidden_layers\":-3}", "num_hidden_layers: -3 is not a whole"},
		{"{" LLAMA ",\"num_hidden_layers\":0}", "num_hidden_layers: 0 is not a whole"},
		{"{" LLAMA ",\"num_hidden_layers\":1e30}", "num_hidden_layers: 1"},
		{"{" LLAMA ",\"num_hidden_layers\":1e999}", "not JSON: line 1"},
		{"{" LLAMA ",\"num_hidden_layers\":99999999999999999999}", "not JSON: line 1"},
		{"{" LLAMA ",\"num_hidden_layers\":\"32\"}", "num_hidden_layers: \"32\" is not"},
		{"{" LLAMA ",\"num_hidden_layers\":[2]}", "num_hidden_layers: [2] is not"},
		{"{" LLAMA ",\"num_hidden_layers\":{\"a\":1}}", "num_hidden_layers: {\"a\":1} is"},
		{"{" LLAMA ",\"num_hidden_layers\":true}", "num_hidden_layers: true is not"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"tie_word_embeddings\":1}",
		 "tie_word_embeddings: 1 is not true or false"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"n_layer\":3}",
		 "num_hidden_layers is 2 and n_layer is 3"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"num_hidden_layers\":3}", "not JSON"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"add_cross_attention\":true}",
		 "not known, and may change the tensors: add_cross_attention;"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"n_shared_experts\":1}",
		 "tensors: n_shared_experts;"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"use_sliding_window\":true}",
		 "use_sliding_window"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"layer_types\":[\"linear_attention\"]}",
		 "layer_types"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"architectures\":[\"LlamaForVideo\"]}",
		 "architectures: [\"LlamaForVideo\"] has a head that is not known"},
		{"{\"model_type\":\"t5\",\"architectures\":[\"T5EncoderModel\"]}",
		 "architectures: [\"T5EncoderModel\"] has a head that is not known"},
		{"{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2DoubleHeadsModel\"]}",
		 "architectures: [\"GPT2DoubleHeadsModel\"] has a head that is not known"},
		{"{" LLAMA ",\"num_hidden_layers\":2,\"num_key_value_heads\":3}", "cannot share"},
		{"\xff\xfe{", "not JSON"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused_file(bad[i][0], strlen(bad[i][0]), bad[i][1]);
	refused_file("{\"a\0b\":1}", 9, "not JSON");
	refused("/tmp/no/such/config.json", 0, "No such file");
	refused("/tmp/", 0, "/tmp//config.json: ");
	refused("/dev/zero", 0, "not a regular file");
}

/* Deeper and larger than anybody writes. */
static void test_monstrous_config(void **state)
{
	const size_t length = (size_t)2 << 20;
	char *const text = malloc(length);

	memset(text, '[', length);
	refused_file(text, 100000, "not JSON");
	memset(text, ' ', length);
	refused_file(text, length, "larger than 1M");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_flops_of_transformers),
		cmocka_unit_test(test_flops_of_resnets),
		cmocka_unit_test(test_flops_of_experts),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_ready),
		cmocka_unit_test(test_ready_of_linear),
		cmocka_unit_test(test_tied),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_config),
		cmocka_unit_test(test_bad_config),
		cmocka_unit_test(test_monstrous_config),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
