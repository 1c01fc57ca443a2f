/*
 * ticker.c - the line of progress.
 */
#include "harness/run/ticker.h"

#include "core/clock.h"
#include "core/strbuf.h"
#include "core/units.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_AFTER_S 1 /* since its start */
#define PROGRESS_EVERY_S 0.2

void bb_ticker_start(struct bb_ticker *ticker, size_t total, uint64_t bytes)
{
	ticker->on = isatty(STDERR_FILENO);
	ticker->total = total;
	ticker->bytes = bytes;
	ticker->done = 0;
	ticker->bytes_done = 0;
	ticker->started = ticker->begun = bb_clock_now();
	ticker->text[0] = '\0';
}

/* Returns the cost of CASES of BYTES in all; a small case takes about as long as a megabyte. */
static double weight(uint64_t bytes, size_t cases)
{
	return (double)bytes + 1048576.0 * (double)cases;
}

static void write_line(struct bb_ticker *ticker, const char *line)
{
	fprintf(stderr, "\r\033[K%s", line);
	fflush(stderr);
	atomic_store(&ticker->shown, true);
}

void bb_ticker_show(struct bb_ticker *ticker, const char *name, uint64_t size)
{
	const double all = weight(ticker->bytes, ticker->total);
	const double done = weight(ticker->bytes_done, ticker->done);
	char size_text[BB_UNIT_TEXT], left_text[BB_UNIT_TEXT];
	struct bb_strbuf line = {0};

	if (!ticker->on)
		return;
	ticker->begun = bb_clock_now();
	if (ticker->done < ticker->total)
		bb_strbuf_addf(&line, "[%zu/%zu] ", ticker->done + 1, ticker->total);
	bb_strbuf_add(&line, name);
	if (size > 0)
		bb_strbuf_addf(&line, " %s", bb_format_size(size_text, size));
	if (ticker->done > 0 && ticker->done < ticker->total)
		bb_strbuf_addf(&line, ", about %s left",
			       bb_format_duration(left_text, (ticker->begun - ticker->started) *
								     (all - done) / done));
	snprintf(ticker->text, sizeof(ticker->text), "%s", bb_strbuf_text(&line));
	bb_strbuf_free(&line);
	write_line(ticker, ticker->text);
}

void bb_ticker_progress(struct bb_ticker *ticker, const char *what, size_t done, size_t all)
{
	char line[2 * BB_TICKER_TEXT];
	const double now = ticker->on ? bb_clock_now() : 0;
	const bool shown = ticker->updated > ticker->begun;

	if (all == 0) {
		ticker->begun = now;
		if (shown && *ticker->text)
			write_line(ticker, ticker->text);
		else if (shown)
			bb_ticker_hide(ticker);
		return;
	}
	if (!ticker->on || now < ticker->begun + PROGRESS_AFTER_S ||
	    now < ticker->updated + PROGRESS_EVERY_S)
		return;
	ticker->updated = now;
	snprintf(line, sizeof(line), "%s%s%s: %.0f%%", ticker->text, *ticker->text ? "; " : "",
		 what, 100.0 * (double)done / (double)all);
	write_line(ticker, line);
}

void bb_ticker_step(struct bb_ticker *ticker, uint64_t size)
{
	ticker->done++;
	ticker->bytes_done += size;
}

void bb_ticker_hide(struct bb_ticker *ticker)
{
	if (!atomic_exchange(&ticker->shown, false))
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
}
