/*
 * crew_report.c - the report when a deadline has passed.
 */
#include "harness/run/crew_watch.h"

#include "core/ranges.h"
#include "core/units.h"

void bb_report_name(const struct bb_crew_config *config, int proc, struct bb_strbuf *out)
{
	if (config->name)
		config->name(config->argument, proc, out);
	else
		bb_strbuf_addf(out, "process %d", proc);
}

enum place {
	ARRIVED, /* at the last collective that any rank has entered */
	INSIDE,  /* arrived, and still in it */
	MISSING
};

static bool is_at(const struct bb_rank_progress *rank, unsigned long long most, enum place place)
{
	const bool arrived = rank->entered == most;

	if (!rank->known)
		return false;
	return place == MISSING ? !arrived : arrived && (place == ARRIVED || rank->inside);
}

/* Appends the ranks at PLACE; returns how many there are. */
static int name_ranks(const struct bb_rank_progress *ranks, int nranks, unsigned long long most,
		      enum place place, struct bb_strbuf *out)
{
	struct bb_ranges named = {.out = out};

	for (int r = 0; r < nranks; r++)
		if (is_at(&ranks[r], most, place))
			bb_ranges_add(&named, r);
	bb_ranges_end(&named);
	return named.n;
}

/* Appends the processes of which a rank did not answer. */
static void name_silent(const struct bb_crew_config *config, const struct bb_rank_progress *ranks,
			struct bb_strbuf *out)
{
	const int nlocal = config->world->nlocal;
	int silent = 0;

	for (int proc = 0; proc < config->world->nprocs; proc++) {
		bool known = true;

		for (int i = 0; i < nlocal; i++)
			known = known && ranks[proc * nlocal + i].known;
		if (known)
			continue;
		bb_strbuf_add(out, silent++ == 0 ? "; no answer from: " : ", ");
		bb_report_name(config, proc, out);
	}
}

/* Appends "ranks that had arrived …", of the ranks whose progress is known. */
static void report_describe(const struct bb_rank_progress *ranks, int nranks, struct bb_strbuf *out)
{
	unsigned long long most = 0;
	struct bb_strbuf inside = {0};
	int arrived, still;

	for (int r = 0; r < nranks; r++)
		if (ranks[r].known && ranks[r].entered > most)
			most = ranks[r].entered;
	if (most == 0) {
		bb_strbuf_add(out, "no rank had entered a collective yet");
		return;
	}
	bb_strbuf_add(out, "ranks that had arrived at the last collective: ");
	arrived = name_ranks(ranks, nranks, most, ARRIVED, out);
	bb_strbuf_add(out, "; had not: ");
	if (name_ranks(ranks, nranks, most, MISSING, out) > 0)
		return;
	bb_strbuf_add(out, "none");
	still = name_ranks(ranks, nranks, most, INSIDE, &inside);
	if (still > 0 && still < arrived)
		bb_strbuf_addf(out, ", but still inside it: %s", bb_strbuf_text(&inside));
	else if (arrived == nranks)
		bb_strbuf_add(out, ", all are inside it or wait for another");
	bb_strbuf_free(&inside);
}

void bb_report_deadline(const struct bb_crew_config *config, const char *what,
			const struct bb_rank_progress *ranks, const char *diagnosis)
{
	struct bb_strbuf known = {0}, silent = {0};
	char text[BB_UNIT_TEXT];

	report_describe(ranks, config->world->nranks, &known);
	name_silent(config, ranks, &silent);
	bb_fail(config->error, BB_ETIMEOUT, "%s did not end within %s (-T); %s%s%s%s", what,
		bb_format_duration(text, 1e-9 * (double)config->timeout_ns), bb_strbuf_text(&known),
		bb_strbuf_text(&silent), *diagnosis ? "; " : "", diagnosis);
	bb_strbuf_free(&known);
	bb_strbuf_free(&silent);
}
