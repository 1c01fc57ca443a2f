#include "core/ranges.h"

void bb_ranges_end(struct bb_ranges *r)
{
	if (r->n == 0)
		return;
	bb_strbuf_addf(r->out, "%s%d", r->printed ? ", " : "", r->first);
	if (r->last > r->first)
		bb_strbuf_addf(r->out, "%s%d", r->last > r->first + 1 ? " to " : ", ", r->last);
	r->printed = true;
}

void bb_ranges_add(struct bb_ranges *r, int number)
{
	if (r->n == 0 || number != r->last + 1) {
		bb_ranges_end(r);
		r->first = number;
	}
	r->last = number;
	r->n++;
}
