#include "schedules/matrices.h"

#include "core/array.h"
#include "core/option.h"
#include "core/random.h"
#include "core/units.h"
#include "schedules/parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file as it is read. */
struct reader {
	struct bb_matrices *m;
	const char *origin;
	double scale;
	int line;
	size_t nrows;
	uint64_t sum;              /* of the matrix at hand */
	char name[BB_MATRIX_NAME]; /* of the next matrix; empty: none */
	struct bb_error *error;
};

#define REFUSE(r, format, ...)                                                                     \
	bb_fail((r)->error, BB_EUSAGE, "%s: line %d: " format, (r)->origin, (r)->line,             \
		##__VA_ARGS__)

/* ---- reading ----------------------------------------------------------------------------- */

#define BLANKS " \t\r\v\f"

/* Keeps the name in a comment, LENGTH characters from TEXT. */
static bb_status read_name(struct reader *r, const char *text, size_t length)
{
	const size_t skipped = strspn(text, "#" BLANKS);

	text += bb_least(skipped, length);
	length -= bb_least(skipped, length);
	while (length > 0 && strchr(BLANKS, text[length - 1]))
		length--;
	if (length >= sizeof(r->name))
		return REFUSE(r, "a name has at most %d characters", BB_MATRIX_NAME - 1);
	for (size_t i = 0; i < length; i++)
		if (!isprint((unsigned char)text[i]))
			return REFUSE(r, "a name consists of printable ASCII characters");
	snprintf(r->name, sizeof(r->name), "%.*s", (int)length, text);
	return BB_OK;
}

/* Adds the numbers of the row at TEXT, if any, and before the first row of a matrix the matrix. */
static bb_status read_row(struct reader *r, const char *text)
{
	struct bb_matrices *m = r->m;
	size_t n = 0;

	text += strspn(text, BLANKS);
	if (*text == '\0' || *text == '\n')
		return BB_OK;
	if (m->nranks == 0 || r->nrows % m->nranks == 0) {
		char(*added)[BB_MATRIX_NAME] = BB_ARRAY_ADD(m->names, m->n, m->room);

		if (!added)
			return bb_no_memory(r->error, r->origin);
		memcpy(*added, r->name, sizeof(*added));
		r->name[0] = '\0';
		r->sum = 0;
		for (size_t k = 0; k + 1 < m->n; k++)
			if (**added && strcmp(m->names[k], *added) == 0)
				return REFUSE(r, "two matrices are called \"%s\"", *added);
	}
	for (; *text != '\0' && *text != '\n'; n++) {
		const int length = (int)strcspn(text, BLANKS "\n"),
			  shown = length < 40 ? length : 40;
		char *end;
		const double bytes = strtod(text, &end) * r->scale;

		if (end != text + length)
			return REFUSE(r, "\"%.*s\" is not a number of bytes", shown, text);
		if (!(bytes >= 0 && bytes <= (double)BB_MOST_BYTES))
			return REFUSE(r, "%.*s%s: give from 0 to 2^60 bytes", shown, text,
				      r->scale != 1 ? ", scaled" : "");
		uint64_t *added = BB_ARRAY_ADD(m->bytes, m->ncells, m->cells_room);
		if (!added)
			return bb_no_memory(r->error, r->origin);
		*added = (uint64_t)bytes / BB_MATRIX_GRAIN * BB_MATRIX_GRAIN;
		r->sum += *added;
		if (r->sum > BB_MOST_BYTES)
			return REFUSE(r, "a matrix has at most 2^60 bytes");
		text = end + strspn(end, BLANKS);
	}
	if (r->nrows++ == 0)
		m->nranks = n;
	if (n != m->nranks)
		return REFUSE(r,
			      "%zu number%s, %zu in the first row; rows are as long as the matrix "
			      "has ranks",
			      n, bb_plural((long long)n), m->nranks);
	return BB_OK;
}

bb_status bb_matrices_parse(struct bb_matrices *matrices, const char *origin, const char *file,
			    const char *text, size_t length, double scale, struct bb_error *error)
{
	struct reader r = {
		.m = matrices, .origin = origin, .scale = scale, .line = 1, .error = error};
	const char *const slash = strrchr(file, '/'), *const base = slash ? slash + 1 : file;
	bb_status status = BB_OK;

	if (strlen(text) != length)
		return bb_fail(error, BB_EUSAGE, "%s: a zero byte is not text", origin);
	for (; *text && status == BB_OK; r.line++) {
		const size_t end = strcspn(text, "\n"), indent = strspn(text, BLANKS);

		status = text[indent] == '#' ? read_name(&r, text, end) : read_row(&r, text);
		text += end + (text[end] == '\n');
	}
	if (status != BB_OK)
		return status;
	if (r.nrows == 0)
		return bb_fail(error, BB_EUSAGE, "%s: there is no matrix in it", origin);
	if (r.nrows % matrices->nranks != 0)
		return bb_fail(error, BB_EUSAGE,
			       "%s: matrices of %zu columns have %zu rows each; the file has %zu "
			       "row%s",
			       origin, matrices->nranks, matrices->nranks, r.nrows,
			       bb_plural((long long)r.nrows));
	/* Matrices that have no name are named after the file. */
	for (size_t k = 0; k < matrices->n; k++) {
		char *const name = matrices->names[k];

		if (!*name && matrices->n == 1)
			snprintf(name, BB_MATRIX_NAME, "%s", base);
		else if (!*name)
			snprintf(name, BB_MATRIX_NAME, "%.40s:%zu", base, k + 1);
	}
	return BB_OK;
}

void bb_matrices_free(struct bb_matrices *matrices)
{
	free(matrices->names);
	free(matrices->bytes);
	*matrices = (struct bb_matrices){.n = 0};
}

/* ---- content ----------------------------------------------------------------------------- */

uint64_t bb_matrices_digest(const struct bb_matrices *m)
{
	uint64_t digest = m->nranks;

	for (size_t i = 0; i < m->ncells; i++)
		digest = bb_random_mix(digest ^ m->bytes[i]);
	return digest;
}

static uint64_t cell(const struct bb_matrices *m, size_t k, int source, int destination)
{
	return m->bytes[(k * m->nranks + (size_t)source) * m->nranks + (size_t)destination];
}

void bb_matrices_counts(const struct bb_matrices *m, size_t k, int n, size_t element,
			size_t *counts)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			counts[i * n + j] = (size_t)cell(m, k, i, j) / element;
}

/* Returns what RANK sends to all of the first N, or receives from them. */
static uint64_t rank_bytes(const struct bb_matrices *m, size_t k, int n, int rank, bool receives)
{
	uint64_t sum = 0;

	for (int peer = 0; peer < n; peer++)
		sum += receives ? cell(m, k, peer, rank) : cell(m, k, rank, peer);
	return sum;
}

/* The most that one of the ranks sends or receives, and the first that does. */
struct busiest {
	uint64_t bytes;
	int rank;
	bool receives;
};

static struct busiest find_busiest(const struct bb_matrices *m, size_t k, int n)
{
	struct busiest most = {0, 0, false};

	for (int i = 0; i < 2 * n; i++) {
		const struct busiest one = {rank_bytes(m, k, n, i % n, i >= n), i % n, i >= n};

		most = one.bytes > most.bytes ? one : most;
	}
	return most;
}

uint64_t bb_matrices_busiest(const struct bb_matrices *m, size_t k, int n)
{
	return find_busiest(m, k, n).bytes;
}

void bb_matrices_describe(const struct bb_matrices *m, size_t k, int n, struct bb_strbuf *out)
{
	const struct busiest most = find_busiest(m, k, n);
	uint64_t all = 0, within = 0;
	char text[BB_UNIT_TEXT];

	for (int r = 0; r < n; r++) {
		all += rank_bytes(m, k, n, r, false);
		within += cell(m, k, r, r);
	}
	bb_strbuf_addf(out, "%s: %s between %d rank%s", m->names[k],
		       bb_format_bytes(text, all - within), n, bb_plural(n));
	bb_strbuf_addf(out, ", %s within them", bb_format_bytes(text, within));
	if (most.bytes == 0)
		return;
	bb_strbuf_addf(out, "; rank %d %s most, %s, %.3g times the mean", most.rank,
		       most.receives ? "receives" : "sends", bb_format_bytes(text, most.bytes),
		       (double)most.bytes * n / (double)all);
	if ((size_t)n < m->nranks)
		bb_strbuf_addf(out, "; its first %d of %zu ranks", n, m->nranks);
}
