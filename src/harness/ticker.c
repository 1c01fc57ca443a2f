#include "harness/ticker.h"

#include "core/clock.h"
#include "core/units.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

void bb_ticker_start(struct bb_ticker *ticker, size_t total, uint64_t bytes)
{
	ticker->on = isatty(STDERR_FILENO);
	ticker->total = total;
	ticker->bytes = bytes;
	ticker->done = 0;
	ticker->bytes_done = 0;
	ticker->started = bb_clock_now();
}

/* Small cases cost about as much as a megabyte does. */
static double weight(uint64_t bytes, size_t cases)
{
	return (double)bytes + 1048576.0 * (double)cases;
}

void bb_ticker_show(struct bb_ticker *ticker, const char *name, uint64_t size)
{
	const double all = weight(ticker->bytes, ticker->total);
	const double done = weight(ticker->bytes_done, ticker->done);
	char size_text[BB_UNIT_TEXT], left_text[BB_UNIT_TEXT];

	if (!ticker->on)
		return;
	fprintf(stderr, "\r\033[K[%zu/%zu] %s", ticker->done + 1, ticker->total, name);
	if (size > 0)
		fprintf(stderr, " %s", bb_format_size(size_text, size));
	if (ticker->done > 0)
		fprintf(stderr, ", about %s left",
			bb_format_duration(left_text, (bb_clock_now() - ticker->started) *
							      (all - done) / done));
	fflush(stderr);
	atomic_store(&ticker->shown, true);
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
