#include "backends/cpu/kernels.h"

#include <stdlib.h>
#include <string.h>

#ifdef BB_HAVE_ISA_avx2
#include <cpuid.h>
#endif

/* True if this CPU has everything that the Makefile lets the compiler use for the set. */
#ifdef BB_HAVE_ISA_avx2
static bool has_avx2(void)
{
	unsigned int a, b, c, d;

	/* Not every compiler's __builtin_cpu_supports knows f16c. */
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

#ifdef BB_HAVE_ISA_avx512
static bool has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq");
}
#endif

/* Best first. */
static const struct {
	const struct bb_kernels *kernels;
	bool (*runs)(void); /* NULL: everywhere */
} sets[] = {
#ifdef BB_HAVE_ISA_avx512
	{&bb_kernels_avx512, has_avx512},
#endif
#ifdef BB_HAVE_ISA_avx2
	{&bb_kernels_avx2, has_avx2},
#endif
	{&bb_kernels_plain, NULL},
};

const struct bb_kernels *bb_kernels_named(const char *isa)
{
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (strcmp(isa, sets[i].kernels->isa) == 0)
			return !sets[i].runs || sets[i].runs() ? sets[i].kernels : NULL;
	}
	return NULL;
}

const struct bb_kernels *bb_kernels_select(void)
{
	const char *const wish = getenv("BUSBENCH_ISA");
	size_t i = 0;

	if (wish && *wish)
		return bb_kernels_named(wish);
	while (sets[i].runs && !sets[i].runs())
		i++;
	return sets[i].kernels;
}
