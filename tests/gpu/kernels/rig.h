/*
 * rig.h - the device that kernels are tested on, and how a case compares what they wrote.
 *
 * Functions that return bool return false where the case has ended: it has failed, or is skipped,
 * and the rig holds the reason.
 */
#ifndef BB_TESTS_KERNELS_RIG_H
#define BB_TESTS_KERNELS_RIG_H

#include "backends/nccl/kernels.h"

#define RIG_SOURCES 3
#define RIG_BYTES ((size_t)4 << 20) /* of a buffer */
#define RIG_TEXT 192
#define RIG_SECONDS 120 /* work that has not ended by then hangs */

enum rig_outcome { RIG_PASSED, RIG_FAILED, RIG_SKIPPED };

struct rig_slot {
	size_t at, count; /* byte in the destination, elements */
	char text[64];
};

struct rig {
	char name[256]; /* of the device */
	struct bb_gpu_lane lane;
	/* Of the device, and what the host compares with. */
	char *source[RIG_SOURCES], *host_source[RIG_SOURCES];
	char *destination, *got, *expected;
	char *table;
	/* Pinned memory of the host: words that a kernel and the host both see. */
	unsigned *words;
	char *far[2]; /* see far.h; NULL: not open */
	/* A batch of results in the destination, see below. */
	enum bb_dtype dtype;
	size_t size, used, nslots;
	struct rig_slot *slots;
	enum rig_outcome outcome; /* of the case that runs */
	char reason[RIG_TEXT];
	bool is_lost; /* a call failed: nothing after it can be judged */
};

/* Words of rig.words. */
enum { RIG_HALT, RIG_THEIRS, RIG_MINE, RIG_WORDS };

/* On device 0. NULL, or why there is none. */
const char *rig_open(struct rig *r);
void rig_close(struct rig *r);

bool rig_fail(struct rig *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool rig_skip(struct rig *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A call of CUDA, or a kernel's: false if it has failed. */
bool rig_call(struct rig *r, cudaError_t result, const char *call);
#define CALL(r, call) rig_call(r, call, #call)
/* Until all that was issued has ended. */
bool rig_wait(struct rig *r);
bool rig_put(struct rig *r, void *device, const void *host, size_t bytes);
bool rig_get(struct rig *r, void *host, const void *device, size_t bytes);

/* The same lane with at most BLOCKS blocks: its threads go round more often. 0: as many as the
   backend launches. */
struct bb_gpu_lane rig_lane(const struct rig *r, unsigned blocks);
#define RIG_LANES 3
extern const unsigned rig_lane_blocks[RIG_LANES];

/* Well-mixed bits of I. */
uint64_t rig_draw(uint64_t i);

/*
 * A batch: results of many kernels side by side in the destination, each with guard bytes before
 * and behind, read back and compared at once. Elements are of DTYPE, in which two NaN are equal;
 * BB_NDTYPES: of SIZE bytes, compared bit by bit.
 */
#define RIG_GUARD 16
#define RIG_GUARD_BYTE 0x5a
bool rig_batch_open(struct rig *r, enum bb_dtype dtype, size_t size);
/* COUNT elements, OFFSET elements (or SIZE bytes each) off an address that 16 divides. *TO: where
   the kernel writes; *EXPECTED: where the caller puts what it is to write. TEXT names it. */
bool rig_batch_add(struct rig *r, size_t offset, size_t count, char **to, char **expected,
		   const char *format, ...) __attribute__((format(printf, 6, 7)));
bool rig_batch_close(struct rig *r);

/* COUNT elements compared as a batch's are. */
bool rig_compare(struct rig *r, const char *got, const char *expected, size_t count,
		 const char *text);

#endif
