/*
 * floats.c - a comparison of floats in place of cmocka's, which takes NAN for equal to any number,
 * and INFINITY as well. As there, EPSILON is absolute, and numbers may differ by their own
 * rounding. Programs find it before that of the library.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void _assert_float_equal(const float a, const float n, const float epsilon, const char *const file,
			 const int line)
{
	const float most = fmaxf(fabsf(a), fabsf(n)), near = fmaxf(epsilon, most * FLT_EPSILON);

	if (a == n || (isnan(a) && isnan(n)) || (isfinite(most) && fabsf(a - n) <= near))
		return;
	print_error("%.9g != %.9g\n", (double)a, (double)n);
	_fail(file, line);
}
