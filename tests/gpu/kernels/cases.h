/*
 * cases.h - the cases of gpu_kernels: what is run on the device and compared with the host's
 * result.
 */
#ifndef BB_TESTS_KERNELS_CASES_H
#define BB_TESTS_KERNELS_CASES_H

#include "rig.h"

struct kernel_case {
	char name[48];
	bool (*run)(struct rig *r, const struct kernel_case *c);
	enum bb_dtype dtype;
	enum bb_op op;
	size_t size; /* bytes of an element, where that is all that matters */
	bool is_far; /* beyond 2^32 bytes */
};

#define MOST_CASES 200
struct case_list {
	struct kernel_case cases[MOST_CASES];
	size_t n;
};

/* Append C, whose name is FORMAT. */
void case_add(struct case_list *list, struct kernel_case c, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void patterns_list(struct case_list *list);
void reductions_list(struct case_list *list);
void transfers_list(struct case_list *list);
void works_list(struct case_list *list);
void far_list(struct case_list *list);

#endif
