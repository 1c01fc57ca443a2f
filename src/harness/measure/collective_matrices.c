/*
 * collective_matrices.c - the traffic of alltoallv from a file.
 */
#include "core/file.h"
#include "core/units.h"
#include "harness/measure/collective.h"

#include <stdlib.h>

#define MATRIX_BYTES ((size_t)64 << 20) /* of a file: 2500 ranks with numbers of ten digits */

bb_status bb_collective_read_matrices(struct bb_collective_options *a, const char *option,
				      struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = option, .path = a->matrix_file, .most = MATRIX_BYTES};
	struct bb_strbuf origin = {0};
	char *text = NULL;
	size_t length;
	bb_status st = bb_file_read(&request, &text, &length, error);

	bb_strbuf_addf(&origin, "%s %.200s", option, a->matrix_file);
	if (st == BB_OK)
		st = bb_matrices_parse(&a->matrices, bb_strbuf_text(&origin), a->matrix_file, text,
				       length, a->matrix_scale, error);
	bb_strbuf_free(&origin);
	free(text);
	return st;
}

bb_status bb_collective_check_matrices(const struct bb_collective_options *a, int first,
				       int group_max, uint64_t most, const char *limit,
				       struct bb_error *error)
{
	const struct bb_matrices *m = &a->matrices;
	char size[BB_UNIT_TEXT], room[BB_UNIT_TEXT];

	if (m->n > 0 && (size_t)group_max > m->nranks)
		return bb_fail(
			error, BB_EUSAGE,
			"--matrix %.200s: it is for %zu rank%s, and there are %d; give fewer ranks "
			"or a larger matrix",
			a->matrix_file, m->nranks, bb_plural((long long)m->nranks), group_max);
	for (size_t k = 0; k < m->n; k++) {
		const uint64_t bytes = bb_matrices_busiest(m, k, first);

		if (bytes > most)
			return bb_fail(error, BB_EUSAGE,
				       "a rank of matrix \"%s\" moves %s, more than the %s of %s; "
				       "--matrix-scale makes all matrices smaller",
				       m->names[k], bb_format_size(size, bytes),
				       bb_format_size(room, most), limit);
	}
	return BB_OK;
}
