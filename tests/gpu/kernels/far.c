/*
 * Every kernel that goes through memory, beyond 2^32 bytes of it.
 */
#include "cases.h"
#include "far.h"

#include "backends/backend.h"

#include <string.h>

#define HEAD 3 /* bytes before the first that is written, so that alignments differ */
#define TAIL 5
#define COUNT (FAR_BYTES - HEAD - TAIL)
#define EDGE                                                                                       \
	16 /* of a window: its neighbours come from, and go to, memory that is not compared        \
	    */

/* Byte AT of buffer B as the host fills it. As doubles they are numbers of moderate size. */
static char noise(int b, size_t at)
{
	return at % 8 == 7 ? 0x40 : (char)rig_draw(2 * at + (size_t)b);
}

/* Byte AT of what is expected in buffer 0. */
typedef char expected_byte(const struct kernel_case *c, size_t at);

static bool is_between(size_t at)
{
	return at >= HEAD && at < FAR_BYTES - TAIL;
}

/* ---- windows ------------------------------------------------------------------------- */

static bool put_noise(struct rig *r, int b)
{
	for (int i = 0; i < FAR_WINDOWS; i++) {
		const size_t start = far_window(i);

		for (size_t k = 0; k < FAR_WINDOW; k++)
			r->host_source[b][k] = noise(b, start + k);
		if (!rig_put(r, r->far[b] + start, r->host_source[b], FAR_WINDOW))
			return false;
	}
	return true;
}

static bool compare_window(struct rig *r, const struct kernel_case *c, size_t start,
			   expected_byte *expect)
{
	const size_t from = start == 0 ? 0 : EDGE;
	const size_t to = start + FAR_WINDOW == FAR_BYTES ? FAR_WINDOW : FAR_WINDOW - EDGE;

	if (!rig_get(r, r->got, r->far[0] + start, FAR_WINDOW))
		return false;
	for (size_t i = from; i < to; i++) {
		const char expected = expect(c, start + i);

		if (r->got[i] != expected)
			return rig_fail(r, "byte %zu is 0x%02x, expected 0x%02x", start + i,
					(unsigned char)r->got[i], (unsigned char)expected);
	}
	return true;
}

/* Both buffers hold noise in their windows before ISSUE, the first one what is expected after it.
 */
static bool run_on_noise(struct rig *r, const struct kernel_case *c,
			 cudaError_t (*issue)(struct rig *r, const struct kernel_case *c),
			 expected_byte *expect)
{
	if (!far_open(r) || !put_noise(r, 0) || !put_noise(r, 1) || !CALL(r, issue(r, c)) ||
	    !rig_wait(r))
		return false;
	for (int i = 0; i < FAR_WINDOWS; i++)
		if (!compare_window(r, c, far_window(i), expect))
			return false;
	return true;
}

/* ---- what goes from the second buffer to the first ------------------------------------- */

/* Case size: by how many bytes the source is off the destination's alignment. */
static cudaError_t issue_copy(struct rig *r, const struct kernel_case *c)
{
	return bb_gpu_copy(far_lane(r), r->far[0] + HEAD, r->far[1] + HEAD + c->size, COUNT);
}

static char expect_copy(const struct kernel_case *c, size_t at)
{
	return is_between(at) ? noise(1, at + c->size) : noise(0, at);
}

static bool run_copy(struct rig *r, const struct kernel_case *c)
{
	return run_on_noise(r, c, issue_copy, expect_copy);
}

static cudaError_t issue_reduce(struct rig *r, const struct kernel_case *c)
{
	const char *const from = r->far[1] + HEAD + c->size;
	const void *const sources[] = {r->far[0] + HEAD, from, from};

	return bb_gpu_reduce(far_lane(r), BB_UINT8, BB_SUM, r->far[0] + HEAD, sources, 3, COUNT);
}

static char expect_reduce(const struct kernel_case *c, size_t at)
{
	return (char)(noise(0, at) + (is_between(at) ? 2 * noise(1, at + c->size) : 0));
}

static bool run_reduce(struct rig *r, const struct kernel_case *c)
{
	return run_on_noise(r, c, issue_reduce, expect_reduce);
}

/* ---- patterns ------------------------------------------------------------------------ */

#define PERIOD 1021
#define FIRST 12345

/* In the table elements are what their places say. */
static char table_byte(size_t place)
{
	return (char)rig_draw(place % PERIOD);
}

static bool put_table(struct rig *r, bool is_constant)
{
	for (size_t i = 0; i < 2 * PERIOD; i++)
		r->got[i] = is_constant ? RIG_GUARD_BYTE : table_byte(i);
	return rig_put(r, r->table + BB_GPU_TABLE_MARGIN, r->got, 2 * PERIOD);
}

static struct bb_gpu_pattern pattern_at(const void *table)
{
	return (struct bb_gpu_pattern){
		.table = table, .period = PERIOD, .element_size = 1, .seed = 5};
}

static cudaError_t issue_fill(struct rig *r, const struct kernel_case *c)
{
	const struct bb_gpu_pattern pattern = pattern_at(r->table + BB_GPU_TABLE_MARGIN);

	return bb_gpu_fill(far_lane(r), r->far[0] + HEAD, &pattern, FIRST, COUNT);
}

static char expect_fill(const struct kernel_case *c, size_t at)
{
	const struct bb_pattern pattern = {.period = PERIOD, .element_size = 1, .seed = 5};
	const size_t i = at - HEAD + FIRST;

	return is_between(at) ? table_byte(i % PERIOD + bb_pattern_rotation(&pattern, i / PERIOD))
			      : noise(0, at);
}

static bool run_fill(struct rig *r, const struct kernel_case *c)
{
	return put_table(r, false) && run_on_noise(r, c, issue_fill, expect_fill);
}

/* Set all of buffer 0 to VALUE. */
static bool set_all(struct rig *r, int value)
{
	return far_open(r) &&
	       CALL(r, cudaMemsetAsync(r->far[0], value, FAR_BYTES, r->lane.stream)) && rig_wait(r);
}

/* Verify buffer 0 against bytes that are all the same, WRONG of which are not there. */
static bool verify_finds(struct rig *r, unsigned long long wrong)
{
	const struct bb_gpu_pattern pattern = pattern_at(r->table + BB_GPU_TABLE_MARGIN);
	unsigned long long *const counter = (unsigned long long *)r->destination, found = 0;

	if (!rig_put(r, counter, &found, sizeof(found)) ||
	    !CALL(r, bb_gpu_verify(far_lane(r), r->far[0] + HEAD, &pattern, FIRST, COUNT, BB_UINT8,
				   0, counter)) ||
	    !rig_get(r, &found, counter, sizeof(found)))
		return false;
	return found == wrong || rig_fail(r, "%llu bytes are wrong, found %llu", wrong, found);
}

/* Right at first; then with wrong bytes on both sides of 2^31 and 2^32, and at both ends. */
static bool run_verify(struct rig *r, const struct kernel_case *c)
{
	static const size_t wrong[] = {HEAD,
				       HEAD + 20,
				       ((size_t)1 << 31) - 1,
				       (size_t)1 << 31,
				       ((size_t)1 << 32) - 1,
				       (size_t)1 << 32,
				       ((size_t)1 << 32) + 17,
				       FAR_BYTES - TAIL - 30,
				       FAR_BYTES - TAIL - 1};
	const size_t n = sizeof(wrong) / sizeof(wrong[0]);

	if (!put_table(r, true) || !set_all(r, RIG_GUARD_BYTE) || !verify_finds(r, 0))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!rig_put(r, r->far[0] + wrong[i], "!", 1))
			return false;
	return verify_finds(r, n);
}

/* ---- works --------------------------------------------------------------------------- */

/* A mark in the first word, before and behind 2^32, in the last: is each found? */
static bool run_read(struct rig *r, const struct kernel_case *c)
{
	static const size_t places[] = {0, ((size_t)1 << 32) - 4, (size_t)1 << 32, FAR_BYTES - 4};
	const unsigned mark = BB_GPU_READ_MARK, zero = 0;
	unsigned long long *const sink = (unsigned long long *)r->destination, none = 0, found;

	if (!set_all(r, 0))
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!rig_put(r, r->far[0] + places[i], &mark, sizeof(mark)) ||
		    !rig_put(r, sink, &none, sizeof(none)) ||
		    !CALL(r, bb_gpu_work_on(far_lane(r), BB_GPU_READ, r->far[0], NULL, NULL,
					    FAR_BYTES, sink)) ||
		    !rig_get(r, &found, sink, sizeof(found)) ||
		    !rig_put(r, r->far[0] + places[i], &zero, sizeof(zero)))
			return false;
		if (found != mark)
			return rig_fail(r, "the word at byte %zu is not read", places[i]);
	}
	return true;
}

/* All but the last 16 bytes of buffer 0. */
#define WORKED (FAR_BYTES - 16)

static cudaError_t issue_write(struct rig *r, const struct kernel_case *c)
{
	return bb_gpu_work_on(far_lane(r), BB_GPU_WRITE, r->far[0], NULL, NULL, WORKED, NULL);
}

static char expect_write(const struct kernel_case *c, size_t at)
{
	return at < WORKED ? 1 : noise(0, at);
}

static bool run_write(struct rig *r, const struct kernel_case *c)
{
	return run_on_noise(r, c, issue_write, expect_write);
}

static cudaError_t issue_triad(struct rig *r, const struct kernel_case *c)
{
	return bb_gpu_work_on(far_lane(r), BB_GPU_TRIAD, r->far[0], r->far[0], r->far[1], WORKED,
			      NULL);
}

static double number(int b, size_t at)
{
	char bytes[sizeof(double)];
	double value;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = noise(b, at + i);
	memcpy(&value, bytes, sizeof(value));
	return value;
}

static char expect_triad(const struct kernel_case *c, size_t at)
{
	const size_t start = at - at % sizeof(double);
	const double value = number(0, start) + 2 * number(1, start);
	char bytes[sizeof(double)];

	memcpy(bytes, &value, sizeof(value));
	return at < WORKED ? bytes[at % sizeof(double)] : noise(0, at);
}

static bool run_triad(struct rig *r, const struct kernel_case *c)
{
	return run_on_noise(r, c, issue_triad, expect_triad);
}

void far_list(struct case_list *list)
{
	static const struct {
		const char *name;
		bool (*run)(struct rig *r, const struct kernel_case *c);
		size_t skew;
	} cases[] = {{"fill", run_fill, 0},        {"verify", run_verify, 0},
		     {"copy", run_copy, 0},        {"skewed copy", run_copy, 3},
		     {"reduce", run_reduce, 0},    {"skewed reduce", run_reduce, 5},
		     {"read memory", run_read, 0}, {"write memory", run_write, 0},
		     {"triad", run_triad, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		case_add(list,
			 (struct kernel_case){
				 .run = cases[i].run, .size = cases[i].skew, .is_far = true},
			 "%s beyond 2^32 bytes", cases[i].name);
}
