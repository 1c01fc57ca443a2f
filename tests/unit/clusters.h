/* Clusters that tests open by name, and figures of them. */
#ifndef BB_TESTS_CLUSTERS_H
#define BB_TESTS_CLUSTERS_H

#include "simulator/cluster/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static inline struct bb_cluster *open_cluster(const char *text)
{
	struct bb_cluster *c = NULL;
	struct bb_error error = {0};

	if (bb_cluster_open(text, NULL, &c, &error) != BB_OK)
		fail_msg("%s: %s", text, error.text);
	return c;
}

static inline void assert_near(double got, double expected)
{
	if (!(fabs(got - expected) <= 1e-9 * fabs(expected)))
		fail_msg("%.12g, expected %.12g", got, expected);
}

#endif
