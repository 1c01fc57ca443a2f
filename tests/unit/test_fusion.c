/*
 * Rules that group gradients: worked examples of each, and what must hold of any. Groups are
 * written as "{names of tensors in the order of completion} bytes".
 */
#include "models/fusion.h"

#include "core/random.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 64

/* A list of gradients. */
struct list {
	struct bb_fusion_tensor tensors[MOST];
	size_t n;
};

/* Gradients of BYTES, which end with 0, registered in the reverse order. */
static struct list list_of(const uint64_t *bytes)
{
	struct list l = {.n = 0};

	for (; bytes[l.n]; l.n++)
		l.tensors[l.n] = (struct bb_fusion_tensor){
			.elements = bytes[l.n], .dtype = BB_INT8, .ready_s = 1e-3 * (double)l.n};
	for (size_t i = 0; i < l.n; i++)
		l.tensors[i].place = l.n - 1 - i;
	return l;
}

static const struct bb_fusion_rule *rule(const char *name)
{
	size_t i = 0;

	while (strcmp(bb_fusion_names[i], name) != 0)
		i++;
	assert_string_equal(bb_fusion_rules[i].name, name);
	return &bb_fusion_rules[i];
}

static struct bb_buckets make(const struct list *l, const struct bb_fusion_setting *s)
{
	struct bb_error error = {.text = ""};
	struct bb_buckets b;

	if (bb_fusion_make(&b, l->tensors, l->n, s, &error) != BB_OK)
		fail_msg("%s", error.text);
	return b;
}

/* "{ac} 9008 {bd} 2016", in bytes with padding, and "@" the launch in ms where there are cycles. */
static void expect(const struct list *l, const struct bb_fusion_setting *s, const char *expected)
{
	struct bb_buckets b = make(l, s);
	struct bb_strbuf out = {0};

	for (size_t i = 0; i < b.n; i++) {
		const struct bb_bucket *k = &b.list[i];

		bb_strbuf_add(&out, i ? " {" : "{");
		for (size_t t = k->first; t < k->first + k->count; t++)
			bb_strbuf_addf(&out, "%c", (char)('a' + b.tensors[t]));
		bb_strbuf_addf(&out, "} %zu", (size_t)(k->padded * bb_dtype_size(k->dtype)));
		if (s->cycle_s > 0)
			bb_strbuf_addf(&out, " @%g", 1e3 * k->launch_s);
	}
	assert_string_equal(out.text, expected);
	bb_strbuf_free(&out);
	bb_fusion_free(&b);
}

static void expect_caps(const struct list *l, const char *name, uint64_t cap, const char *expected)
{
	expect(l, &(struct bb_fusion_setting){.rule = rule(name), .caps = &cap, .ncaps = 1},
	       expected);
}

/* One list tells the rules apart. */
static void test_three_rules(void **state)
{
	struct list l = list_of((const uint64_t[]){600, 500, 400, 300, 200, 100, 0});

	for (size_t i = 0; i < l.n; i++)
		l.tensors[i].ready_s = 0;
	expect_caps(&l, "tf", 0, "{abcdef} 2100");
	expect_caps(&l, "tf", 500, "{a} 600 {bc} 900 {def} 600");
	expect_caps(&l, "tf", 600, "{ab} 1100 {cd} 700 {ef} 300");
	expect_caps(&l, "tf", 1000, "{ab} 1100 {cdef} 1000");
	expect_caps(&l, "ddp", 500, "{a} 600 {b} 500 {cd} 700 {ef} 300");
	expect_caps(&l, "ddp", 600, "{a} 600 {bc} 900 {def} 600");
	expect_caps(&l, "horovod", 600, "{a} 600 {b} 500 {c} 400 {def} 600");
	expect_caps(&l, "megatron", 600, "{a} 600 {bc} 900 {def} 600");
}

/* TensorFlow's own test, whose list is not reversed. */
static void test_tensorflow(void **state)
{
	const struct list l = list_of((const uint64_t[]){128, 32, 800, 4, 0});

	expect_caps(&l, "tf", 200, "{abc} 960 {d} 4");
}

/* A cap for each bucket; the last one repeats. */
static void test_list_of_caps(void **state)
{
	const struct list l = list_of((const uint64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 0});
	const struct bb_fusion_setting s = {
		.rule = rule("ddp"), .caps = (const uint64_t[]){1, 3, 2}, .ncaps = 3};

	expect(&l, &s, "{a} 1 {bcd} 3 {ef} 2 {gh} 2");
}

/* Caps of Megatron are elements, and its buckets may be padded. */
static void test_megatron(void **state)
{
	struct list l = list_of((const uint64_t[]){10, 20, 40, 5, 0});
	const uint64_t cap = 30;

	for (size_t i = 0; i < l.n; i++)
		l.tensors[i].dtype = BB_FLOAT;
	expect_caps(&l, "megatron", cap, "{ab} 120 {c} 160 {d} 20");
	expect(&l,
	       &(struct bb_fusion_setting){
		       .rule = rule("megatron"), .caps = &cap, .ncaps = 1, .multiple = 65536},
	       "{ab} 262144 {c} 262144 {d} 262144");
	assert_int_equal(bb_fusion_megatron_cap(8), 40000000);
	assert_int_equal(bb_fusion_megatron_cap(64), 64000000);
}

/* Equal numbers of elements, the rest in the last pack; tensors are cut; all complete at the end.
 */
static void test_mirrored(void **state)
{
	const struct list l = list_of((const uint64_t[]){3, 600, 400, 0});
	const uint64_t packs = 4;
	const struct bb_fusion_setting s = {.rule = rule("mirrored"), .caps = &packs, .ncaps = 1};
	struct bb_buckets b = make(&l, &s);

	assert_int_equal(b.bytes, 1003);
	bb_fusion_free(&b);
	expect(&l, &s, "{c} 250 {cb} 250 {b} 250 {ba} 253");
	expect_caps(&l, "mirrored", 0, "{a} 3 {b} 600 {c} 400");
	b = make(&l, &s);
	for (size_t i = 0; i < b.n; i++)
		assert_int_equal(b.list[i].last, l.n - 1);
	bb_fusion_free(&b);
}

/* A bucket for each unit, as the units become complete; the root is complete last. */
static void test_fsdp(void **state)
{
	struct list l = list_of((const uint64_t[]){1, 2, 3, 4, 5, 6, 0});
	const size_t units[] = {0, 2, 2, 1, 1, 0};

	for (size_t i = 0; i < l.n; i++)
		l.tensors[i].unit = units[i];
	expect(&l, &(struct bb_fusion_setting){.rule = rule("fsdp")}, "{bc} 5 {de} 9 {af} 7");
}

/* Different datatypes, which all rules but Horovod's keep apart, and Horovod's looks over. */
static void test_datatypes(void **state)
{
	struct list l = list_of((const uint64_t[]){1000, 500, 1250, 500, 500, 1000, 0});
	const uint64_t threshold = 10000;
	struct bb_fusion_setting s = {.rule = rule("horovod"), .caps = &threshold, .ncaps = 1};

	for (size_t i = 0; i < l.n; i++) {
		l.tensors[i].dtype = i == 1 || i == 3 ? BB_HALF : BB_FLOAT;
		l.tensors[i].ready_s = 0;
	}
	expect(&l, &s, "{ac} 9000 {bd} 2000 {ef} 6000");
	s.round = 16;
	expect(&l, &s, "{ac} 9008 {bd} 2016 {ef} 6000");
	/* PyTorch: what has not reached its cap comes at the end. */
	expect_caps(&l, "ddp", 9000, "{ac} 9000 {bd} 2000 {ef} 6000");
	expect_caps(&l, "ddp", 2000, "{a} 4000 {c} 5000 {bd} 2000 {e} 2000 {f} 4000");
	expect_caps(&l, "ddp", 100000, "{acef} 15000 {bd} 2000");
}

/* What is too large ends the search, of one datatype. */
static void test_too_large(void **state)
{
	struct list l = list_of((const uint64_t[]){4000, 8000, 1000, 9000, 1000, 0});

	for (size_t i = 0; i < l.n; i++)
		l.tensors[i].ready_s = 0;
	expect_caps(&l, "horovod", 10000, "{a} 4000 {bc} 9000 {de} 10000");
	expect_caps(&l, "horovod", 0, "{a} 4000 {b} 8000 {c} 1000 {d} 9000 {e} 1000");
}

/* Only what is ready when a cycle begins. */
static void test_cycles(void **state)
{
	static const struct {
		double ms;
		const char *launches;
	} known[] = {
		{1, "{a} 1000 @1 {b} 2000 @2 {c} 3000 @3 {de} 9000 @4 {f} 6000 @5 {g} 7000 @6 {h} "
		    "8000 @7 {ij} 19000 @8"},
		{2.5, "{abc} 6000 @2.5 {def} 15000 @5 {gh} 15000 @7.5 {i} 9000 @7.5 {j} 10000 @10"},
		{5, "{abcde} 15000 @5 {f} 6000 @5 {gh} 15000 @10 {ij} 19000 @10"},
	};
	struct list l = list_of(
		(const uint64_t[]){1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 0});
	const uint64_t threshold = 20000;
	struct bb_fusion_setting s = {.rule = rule("horovod"), .caps = &threshold, .ncaps = 1};
	struct bb_buckets b;

	for (size_t i = 0; i < l.n; i++)
		l.tensors[i].ready_s = 800e-6 * (double)(i + 1);
	for (size_t i = 0; i < 3; i++) {
		s.cycle_s = 1e-3 * known[i].ms;
		expect(&l, &s, known[i].launches);
	}
	/* Without a cycle time each tensor has its own. */
	s.cycle_s = 0;
	b = make(&l, &s);
	assert_int_equal(b.n, 10);
	assert_int_equal(b.ncycles, 10);
	bb_fusion_free(&b);
}

static void test_too_many_cycles(void **state)
{
	struct list l = list_of((const uint64_t[]){1, 1, 0});
	const uint64_t threshold = 1;
	const struct bb_fusion_setting s = {
		.rule = rule("horovod"), .caps = &threshold, .ncaps = 1, .cycle_s = 1e-9};
	struct bb_error error = {.text = ""};
	struct bb_buckets b;

	assert_int_equal(bb_fusion_make(&b, l.tensors, l.n, &s, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "--cycle-time-ms 1e-06: more than 100000 cycles"));
	bb_fusion_free(&b);
}

static void test_numbers_of_horovod(void **state)
{
	static const size_t cached[] = {0, 61, 62, 161, 1024}, bytes[] = {8, 8, 16, 24, 136};

	assert_int_equal(bb_fusion_threshold(64 << 20, 6), 67110912);
	assert_int_equal(bb_fusion_threshold(1000000, 4), 1001472);
	assert_int_equal(bb_fusion_threshold(128 << 20, 8), 128 << 20);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(8 * bb_fusion_words(cached[i]), bytes[i]);
}

/* 1,000,003 elements of fp32 on 4 nodes of 8 ranks; 1003 elements on nodes of 4. */
static void test_hierarchical(void **state)
{
	struct list l = list_of((const uint64_t[]){1000000, 3, 0});
	const uint64_t threshold = 1 << 30;
	const struct bb_fusion_setting s = {
		.rule = rule("horovod"), .caps = &threshold, .ncaps = 1, .fused_multiple = 8 * 64};
	struct bb_fusion_traffic t;
	struct bb_buckets b;

	for (size_t i = 0; i < l.n; i++)
		l.tensors[i] = (struct bb_fusion_tensor){
			.elements = l.tensors[i].elements, .dtype = BB_FLOAT, .place = i};
	b = make(&l, &s);
	assert_int_equal(b.n, 1);
	assert_int_equal(b.list[0].elements, 1000003);
	assert_int_equal(b.list[0].padded, 1000448);
	t = bb_fusion_hierarchical(4 * b.list[0].padded, 8, 4);
	assert_true(t.inside == 7003136 && t.across == 750336);
	/* One ring of all ranks */
	assert_true(floor(4 * (double)b.list[0].elements * bb_all_reduce.bus_factor(32)) ==
		    7750023);
	bb_fusion_free(&b);

	const struct bb_fusion_shares shares = bb_fusion_divide(1003, 4, false);
	assert_true(shares.each == 250 && shares.rest == 3 && shares.root == 3);
	const struct bb_fusion_shares unequal = bb_fusion_divide(1003, 4, true);
	assert_true(unequal.each == 0 && unequal.rest == 1003 && unequal.root == 0);
}

/* Whatever the rule: each element is in one bucket, buckets lie one behind the other, none is
   launched before it is complete, and Horovod's fit. */
static void test_any(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_FLOAT, BB_HALF};
	uint64_t random = 41;

	for (int round = 0; round < 3000; round++) {
		const struct bb_fusion_rule *r = &bb_fusion_rules[round % 6];
		const uint64_t cap = r->cut ? (bb_random_next(&random) % (9))
					    : 1 + (bb_random_next(&random) % (4000));
		const struct bb_fusion_setting s = {.rule = r,
						    .caps = &cap,
						    .ncaps = 1,
						    .fused_multiple = round % 5 ? 0 : 64,
						    .cycle_s = round % 4 ? 1e-3 : 0};
		uint64_t elements = 0, sum = 0, at = 0, members = 0;
		struct list l = {.n = 1 + (bb_random_next(&random) % (MOST))};
		struct bb_buckets b;

		for (size_t i = 0; i < l.n; i++) {
			const size_t other = i ? (bb_random_next(&random) % (i + 1)) : 0;

			l.tensors[i] = (struct bb_fusion_tensor){
				.elements = 1 + (bb_random_next(&random) % (900)),
				.dtype = dtypes[r->cut ? 0 : (bb_random_next(&random) % (2))],
				.ready_s = (i ? l.tensors[i - 1].ready_s : 0) +
					   1e-4 * (double)(bb_random_next(&random) % (9)),
				.place = i,
				.unit = (bb_random_next(&random) % (5))};
			l.tensors[i].place = l.tensors[other].place;
			l.tensors[other].place = i;
			elements += l.tensors[i].elements;
		}
		b = make(&l, &s);
		for (size_t i = 0; i < b.n; i++) {
			const struct bb_bucket *k = &b.list[i];

			assert_true(k->count > 0 && k->first == members);
			assert_true(k->before >= at && k->padded >= k->elements);
			assert_int_equal(k->before % bb_dtype_size(k->dtype), 0);
			at = k->before + k->padded * bb_dtype_size(k->dtype);
			sum += k->elements;
			members += k->count;
			for (size_t t = 0; t < k->count; t++) {
				const size_t tensor = b.tensors[k->first + t];

				assert_true(tensor <= k->last);
				assert_int_equal(l.tensors[tensor].dtype, k->dtype);
				if (r->clocked)
					assert_true(l.tensors[tensor].ready_s <=
						    k->launch_s * (1 + 1e-9));
			}
			if (r->clocked)
				assert_true(k->count == 1 || k->bytes <= cap);
			assert_true(!r->complete || r->cut || i == 0 || k->last > k[-1].last);
		}
		assert_int_equal(sum, elements);
		assert_int_equal(at, b.room);
		assert_true(members == l.n || (r->cut && members >= l.n));
		bb_fusion_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_rules),
		cmocka_unit_test(test_tensorflow),
		cmocka_unit_test(test_list_of_caps),
		cmocka_unit_test(test_megatron),
		cmocka_unit_test(test_mirrored),
		cmocka_unit_test(test_fsdp),
		cmocka_unit_test(test_datatypes),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_cycles),
		cmocka_unit_test(test_too_many_cycles),
		cmocka_unit_test(test_numbers_of_horovod),
		cmocka_unit_test(test_hierarchical),
		cmocka_unit_test(test_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
