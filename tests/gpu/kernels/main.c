/*
 * gpu_kernels - every kernel of the nccl backend on a device, compared with the host's result.
 *
 *   gpu_kernels [--list] [--only WORD] [--large]
 *
 * One line per case, then "N passed, N failed, N skipped". --only runs the cases with WORD in their
 * name, --large those beyond 2^32 bytes too. Exit status: 0, 1 if a case failed, 2 for a wrong
 * command line, 3 without a device.
 */
#include "cases.h"
#include "far.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	bool list, large;
	const char *only;
};

void case_add(struct case_list *list, struct kernel_case c, const char *format, ...)
{
	va_list arguments;

	if (list->n == MOST_CASES)
		abort();
	va_start(arguments, format);
	vsnprintf(c.name, sizeof(c.name), format, arguments);
	va_end(arguments);
	list->cases[list->n++] = c;
}

static bool parse(struct options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--list") == 0)
			o->list = true;
		else if (strcmp(argv[i], "--large") == 0)
			o->large = true;
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			o->only = argv[++i];
		else
			return false;
	}
	return true;
}

/* Only those that --only names stay. */
static void select_cases(struct case_list *list, const char *word)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++)
		if (!word || strstr(list->cases[i].name, word))
			list->cases[kept++] = list->cases[i];
	list->n = kept;
}

static enum rig_outcome run(struct rig *r, const struct kernel_case *c, bool large)
{
	r->outcome = RIG_PASSED;
	if (r->is_lost)
		rig_skip(r, "the device failed before");
	else if (c->is_far && !large)
		rig_skip(r, "needs --large");
	else
		c->run(r, c);
	if (r->outcome == RIG_PASSED)
		printf("passed %s\n", c->name);
	else
		printf("%s %s: %s\n", r->outcome == RIG_FAILED ? "FAILED" : "skipped", c->name,
		       r->reason);
	fflush(stdout);
	return r->outcome;
}

int main(int argc, char **argv)
{
	struct case_list list = {.n = 0};
	struct options o = {0};
	struct rig r = {0};
	int outcomes[3] = {0};
	const char *reason;

	patterns_list(&list);
	reductions_list(&list);
	transfers_list(&list);
	works_list(&list);
	far_list(&list);
	if (!parse(&o, argc, argv)) {
		fprintf(stderr, "usage: gpu_kernels [--list] [--only WORD] [--large]\n");
		return 2;
	}
	select_cases(&list, o.only);
	if (list.n == 0) {
		fprintf(stderr, "gpu_kernels: no case has \"%s\" in its name; --list prints them\n",
			o.only);
		return 2;
	}
	for (size_t i = 0; o.list && i < list.n; i++)
		printf("%s\n", list.cases[i].name);
	if (o.list)
		return 0;
	reason = rig_open(&r);
	if (reason) {
		fprintf(stderr, "gpu_kernels: no device to run on: %s\n", reason);
		return 3;
	}
	printf("# %s, at most %u blocks\n", r.name, r.lane.blocks);
	for (size_t i = 0; i < list.n; i++)
		outcomes[run(&r, &list.cases[i], o.large)]++;
	printf("%d passed, %d failed, %d skipped\n", outcomes[RIG_PASSED], outcomes[RIG_FAILED],
	       outcomes[RIG_SKIPPED]);
	fflush(stdout);
	if (r.is_lost)
		_exit(1); /* CUDA would wait at the end for a kernel that hangs */
	far_close(&r);
	rig_close(&r);
	if (r.is_lost)
		fprintf(stderr, "gpu_kernels: %s\n", r.reason);
	return r.is_lost || outcomes[RIG_FAILED] > 0;
}
