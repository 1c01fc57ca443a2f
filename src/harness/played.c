#include "harness/played.h"

#include "core/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row {
	const char *asked, *ran, *evaluator;
	int64_t size;
	bool in_place;
	double us, faultless_us;
};

struct bb_played {
	struct row *rows;
	size_t n, room;
};

bb_status bb_played_open(struct bb_played **played)
{
	*played = calloc(1, sizeof(**played));
	return *played ? BB_OK : BB_EINTERNAL;
}

void bb_played_close(struct bb_played *played)
{
	if (!played)
		return;
	free(played->rows);
	free(played);
}

bb_status bb_played_add(struct bb_played *p, const struct bb_result_record *r)
{
	if (!r->evaluator)
		return BB_OK;
	if (p->n == p->room) {
		const size_t room = p->room ? 2 * p->room : 64;
		struct row *rows = realloc(p->rows, room * sizeof(*rows));

		if (!rows)
			return BB_EINTERNAL;
		p->rows = rows;
		p->room = room;
	}
	p->rows[p->n++] =
		(struct row){r->algorithm_asked, r->algorithm, r->evaluator,   r->size_bytes,
			     r->in_place,        r->time_us,   r->faultless_us};
	return BB_OK;
}

/* ---- telling ------------------------------------------------------------------------- */

static bool same_way(const struct row *a, const struct row *b)
{
	return strcmp(a->ran, b->ran) == 0 && strcmp(a->evaluator, b->evaluator) == 0;
}

static bool is_first(const struct bb_played *p, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (same_way(&p->rows[k], &p->rows[i]))
			return false;
	return true;
}

static void add_evaluators(const struct bb_played *p, struct bb_strbuf *out)
{
	const char *before = "# Played by: ";

	for (size_t i = 0; i < p->n; i++) {
		if (!is_first(p, i))
			continue;
		bb_strbuf_addf(out, "%s%s %s", before, p->rows[i].ran, p->rows[i].evaluator);
		before = ", ";
	}
	if (p->n > 0)
		bb_strbuf_add(out, "\n");
}

/* Is there a row of the same case out of place before it? */
static bool is_told(const struct bb_played *p, size_t i)
{
	const struct row *r = &p->rows[i];

	return i > 0 && r->in_place && !r[-1].in_place && r->size == r[-1].size &&
	       strcmp(r->asked, r[-1].asked) == 0;
}

static void add_costs(const struct bb_played *p, const char *fault, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "# What --fault %s costs\n", fault);
	bb_strbuf_add(
		out,
		"#       size                 algorithm     without        with      as long\n");
	bb_strbuf_add(
		out,
		"#        (B)                                  (us)        (us)      (times)\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct row *r = &p->rows[i];
		char size[BB_UNIT_TEXT];

		if (isnan(r->faultless_us) || is_told(p, i))
			continue;
		bb_strbuf_addf(out, "# %10s  %24s  %10.2f  %10.2f  %11.3f\n",
			       bb_format_size(size, (uint64_t)r->size), r->ran, r->faultless_us,
			       r->us, r->us / r->faultless_us);
	}
}

void bb_played_text(const struct bb_played *p, const char *fault, struct bb_strbuf *out)
{
	if (!p)
		return;
	add_evaluators(p, out);
	if (fault && p->n > 0 && !isnan(p->rows[0].faultless_us))
		add_costs(p, fault, out);
}
