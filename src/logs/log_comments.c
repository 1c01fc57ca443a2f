/*
 * log_comments.c - lines of nccl-tests that are no rows: lists of ranks, headings, footers.
 */
#include "logs/log_parts.h"

#include "core/array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_HOSTS 4096

static void keep(char *into, size_t room, const char *text)
{
	snprintf(into, room, "%s", text);
}

/* True if word I and those behind it are A, B, C. */
static bool are(const struct bb_log_words *words, int i, const char *a, const char *b,
		const char *c)
{
	return i + 2 < words->n && strcmp(words->at[i], a) == 0 &&
	       strcmp(words->at[i + 1], b) == 0 && strcmp(words->at[i + 2], c) == 0;
}

static int64_t host_index(struct bb_log_stream *s, const char *host)
{
	char(*new)[64];

	for (int64_t i = s->nhosts; i > 0; i--)
		if (strncmp(s->hosts[i - 1], host, 63) == 0)
			return i - 1;
	if (s->nhosts == MOST_HOSTS)
		return MOST_HOSTS;
	new = BB_ARRAY_ADD(s->hosts, s->nhosts, s->hosts_room);
	if (new)
		keep(*new, sizeof(*new), host);
	return new ? s->nhosts - 1 : -1;
}

/*
 * Notes that a rank uses the GPU with address BUS, "[0000:1b:00]", and number DEVICE. Several
 * instances (MIG) of a GPU have its address; the short form, "[0x1b]", lacks the domain. Returns
 * false without memory.
 */
static bool seat_add(struct bb_log *log, struct bb_log_stream *s, int64_t host, const char *bus,
		     const char *device, const char *text)
{
	struct bb_log_seat *seat = NULL;
	char gpu[sizeof(seat->gpu)];

	snprintf(gpu, sizeof(gpu), "%.20s %.16s", bus, device);
	for (size_t i = s->nseats; i > 0 && !seat; i--)
		if (s->seats[i - 1].host == host && strcmp(s->seats[i - 1].gpu, gpu) == 0)
			seat = &s->seats[i - 1];
	if (!seat) {
		if (s->nseats >= MOST_HOSTS)
			return true;
		seat = BB_ARRAY_ADD(s->seats, s->nseats, s->seats_room);
		if (!seat)
			return false;
		*seat = (struct bb_log_seat){.host = host};
		memcpy(seat->gpu, gpu, sizeof(gpu));
	}
	seat->ranks++;
	if (seat->ranks < 2 || (s->shared.line > 0 && seat->ranks <= s->shared.value))
		return true;
	if (s->shared.line == 0) {
		s->shared = (struct bb_fact){.kind = BB_FACT_SHARED_GPU, .line = log->line};
		keep(s->shared.text, sizeof(s->shared.text), bus);
		bb_log_quote(&s->shared, text, 0);
	}
	s->shared.value = seat->ranks;
	return true;
}

/* "#  Rank  3 Group  0 Pid 17 on  node5 device  3 [0000:1b:00] NVIDIA H100 80GB HBM3". Returns
   false without memory. */
static bool rank_read(struct bb_log *log, struct bb_log_stream *s, const struct bb_log_words *words,
		      int i, const char *text)
{
	const int on = bb_log_find(words, "on"), device = bb_log_find(words, "device");
	const int64_t rank = strtoll(words->at[i + 1], NULL, 10);
	int64_t host = -1;

	if (rank == 0) {
		bb_log_ranks_forget(s);
		bb_log_table_end(s);
		s->since_average = true;
	}
	s->used = true;
	s->listed++;
	s->nranks = rank + 1 > s->nranks && rank < 1 << 24 ? rank + 1 : s->nranks;
	if (on > i && on + 1 < words->n) {
		host = host_index(s, words->at[on + 1]);
		if (host < 0)
			return false;
		if (rank == 0)
			keep(s->host, sizeof(s->host), words->at[on + 1]);
	}
	if (device + 3 >= words->n || words->at[device + 2][0] != '[')
		return true;
	s->gpu[0] = '\0';
	for (int w = device + 3; w < words->n; w++) {
		const size_t used = strlen(s->gpu);

		snprintf(s->gpu + used, sizeof(s->gpu) - used, "%s%s", used ? " " : "",
			 words->at[w]);
	}
	/* Virtual machines have a domain for each GPU, which the short form of bus 0 lacks. */
	return host < 0 || strstr(s->gpu, "MIG") || strcmp(words->at[device + 2], "[0x00]") == 0 ||
	       seat_add(log, s, host, words->at[device + 2], words->at[device + 1], text);
}

/* "nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor)", or "1048576(bytes)" */
static void sizes_read(struct bb_log_command *sizes, const struct bb_log_words *words)
{
	*sizes = (struct bb_log_command){.threads = 1};
	for (int i = 0; i + 1 < words->n; i++) {
		const char *const name = words->at[i];
		const char *const text = words->at[i + 1];
		const uint64_t value =
			strspn(text, "0123456789") < 19 ? strtoull(text, NULL, 10) : 0;

		if (strcmp(name, "nThread") == 0 && value < 4096)
			sizes->threads = (int64_t)value;
		else if (strcmp(name, "nGpus") == 0 && value < 4096)
			sizes->gpus = (int64_t)value;
		else if (strcmp(name, "minBytes") == 0)
			sizes->least_bytes = value;
		else if (strcmp(name, "maxBytes") == 0)
			sizes->most_bytes = value;
		else if (strcmp(name, "step:") == 0 && strstr(text, "factor"))
			sizes->factor = (double)value;
		else if (strcmp(name, "step:") == 0)
			sizes->step_bytes = value;
	}
}

/* The headings of a table: which halves its rows have, and what their last column is. */
static bool heading_read(struct bb_log_stream *s, const struct bb_log_words *words)
{
	const bool in = bb_log_find(words, "in-place") >= 0,
		   out = bb_log_find(words, "out-of-place") >= 0;
	const int size = bb_log_find(words, "size");

	if (in || out) {
		bb_log_table_end(s);
		s->shape.in_place = in && !out;
		s->shape.columns = 0;
	}
	if (size < 0 || !are(words, size, "size", "count", "type"))
		return in || out;
	bb_log_table_end(s);
	s->shape.last = bb_log_find(words, "error") >= 0   ? BB_LOG_ERROR
			: bb_log_find(words, "wrong") >= 0 ? BB_LOG_WRONG
							   : BB_LOG_ANY;
	s->since_average = true;
	s->osu = false;
	s->heads++;
	return true;
}

/* "Out of bounds values : 0 OK" */
static void bounds_read(struct bb_log *log, struct bb_log_stream *s,
			const struct bb_log_words *words, int i)
{
	struct bb_claims *c;
	struct bb_log_table *t;
	double n = 0;

	if (s->last < 0)
		return;
	c = &log->file->list[s->last];
	t = &log->tables[s->last];
	for (i += 4; i < words->n && !bb_log_is_whole(words->at[i]); i++)
		;
	if (i + 1 >= words->n || t->heads > 1)
		return;
	n = strtod(words->at[i], NULL);
	if (n == 0 && strcmp(words->at[i + 1], "OK") == 0) {
		size_t *const doubted = s->shape.last == BB_LOG_ERROR ? &c->unchecked : &c->wrong;

		*doubted -= t->doubts < *doubted ? t->doubts : *doubted;
		t->doubts = 0;
	} else if (strcmp(words->at[i + 1], "FAILED") == 0 && c->wrong == 0) {
		/* It counts values, of which a row has many. */
		c->wrong = n >= 1 && n < (double)c->n ? (size_t)n : c->n > 0 ? c->n : 1;
		if (s->shape.last == BB_LOG_ERROR)
			c->unchecked -= t->doubts < c->unchecked ? t->doubts : c->unchecked;
		t->doubts = 0;
	}
}

/* "Avg bus bandwidth    : 194.675": ends a table, or is all that is left of a run. */
static bool average_read(struct bb_log *log, struct bb_log_stream *s,
			 const struct bb_log_words *words, int i)
{
	const char *text = i + 3 < words->n ? words->at[i + 3] : "";
	const bool had_rows = s->table >= 0;
	struct bb_claims *c;
	char copy[32], *end;
	double average;

	text += *text == ':';
	if (!*text && i + 4 < words->n)
		text = words->at[i + 4];
	keep(copy, sizeof(copy), text);
	bb_log_row_clean(copy);
	average = strtod(copy, &end);
	if (had_rows)
		s->averages = log->tables[s->table].heads - 1;
	if (had_rows)
		log->tables[s->table].closed = log->line;
	bb_log_table_end(s);
	if (!had_rows && s->averages <= 0 && end != copy && average > 0 && isfinite(average) &&
	    average < 1e6 && (s->since_average || average != s->average)) {
		c = bb_log_table_begin(log, s, log->command.type);
		if (!c)
			return false;
		c->average_GBps = average;
	} else if (!had_rows && s->averages > 0) {
		s->averages--;
	}
	s->average = average;
	s->since_average = false;
	return true;
}

/* The title and heading of OSU's tables. Returns false if WORDS are none. */
static bool title_read(struct bb_log_stream *s, const struct bb_log_words *words)
{
	static const char *const titles[][2] = {
		{"Allreduce", "all_reduce"}, {"Allgather", "all_gather"},
		{"All-to-All", "alltoall"},  {"Broadcast", "broadcast"},
		{"Reduce", "reduce"},        {"Reduce_scatter", "reduce_scatter"},
		{"Gather", "gather"},        {"Scatter", "scatter"},
	};
	const int osu = bb_log_find(words, "OSU"), size = bb_log_find(words, "Size");

	if (osu >= 0 && bb_log_find(words, "Test") > osu) {
		bb_log_run_begin(s);
		/* "# OSU MPI-CUDA Allreduce Latency Test"; without that the buffers are on CPUs. */
		if (bb_log_find(words, "MPI") == osu + 1)
			keep(s->backend, sizeof(s->backend), "mpi");
		s->collective[0] = '\0';
		for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
			if (bb_log_find(words, titles[i][0]) > osu) {
				keep(s->collective, sizeof(s->collective), titles[i][1]);
				s->osu = true;
			}
		return true;
	}
	if (size < 0 || !(are(words, size, "Size", "Avg", "Latency(us)") ||
			  are(words, size, "Size", "Avg", "Latency")))
		return false;
	bb_log_table_end(s);
	s->osu = true;
	return true;
}

/* Begins a run of binary NAME, "all_reduce_perf_mpi". */
static void run_name(struct bb_log_stream *s, const char *name)
{
	const char *const slash = strrchr(name, '/');
	const char *const end = strstr(slash ? slash : name, "_perf");

	bb_log_run_begin(s);
	name = slash ? slash + 1 : name;
	snprintf(s->collective, sizeof(s->collective), "%.*s", end ? (int)(end - name) : 23, name);
}

/* Gives the table above "Collective test concluded: alltoall_perf" its collective. */
static void run_concluded(struct bb_log *log, const struct bb_log_stream *s, const char *name)
{
	const char *const end = strstr(name, "_perf");
	struct bb_claims *const c = s->last >= 0 ? &log->file->list[s->last] : NULL;

	if (c && end && !c->collective[0])
		snprintf(c->collective, sizeof(c->collective), "%.*s", (int)(end - name), name);
}

/* Reads what is no row, in TEXT behind LENGTH bytes of tags. Returns false without memory. */
bool bb_log_comment_read(struct bb_log *log, const char *text, size_t length,
			 const struct bb_log_words *words)
{
	const int rank = bb_log_find(words, "Rank"), starting = bb_log_find(words, "starting:");
	const int concluded = bb_log_find(words, "concluded:");
	const int average = bb_log_find(words, "Avg"), algorithm = bb_log_find(words, "Algorithm:");
	const int bounds = bb_log_find(words, "bounds");
	const bool is_rank = rank >= 0 && rank + 1 < words->n &&
			     bb_log_find(words, "device") > rank &&
			     bb_log_is_whole(words->at[rank + 1]);
	/* Prose may quote it. */
	const bool is_average =
		average >= 0 && average <= 1 && are(words, average, "Avg", "bus", "bandwidth");
	struct bb_log_stream *s = bb_log_row_stream(log, text, length);

	if (!s)
		return false;
	if (is_average)
		return average_read(log, s, words, average);
	if (bounds >= 2 && are(words, bounds - 2, "Out", "of", "bounds")) {
		bounds_read(log, s, words, bounds - 2);
		return true;
	}
	for (int i = 0; i < words->n; i++)
		if (strncmp(words->at[i], "backend=", 8) == 0)
			keep(s->backend, sizeof(s->backend), words->at[i] + 8);
	if (is_rank || starting >= 0 || bb_log_find(words, "nThread") >= 0 ||
	    bb_log_find(words, "count") >= 0 || bb_log_find(words, "OSU") >= 0) {
		s = bb_log_marked_stream(log, text, length);
		if (!s)
			return false;
	}
	if (is_rank)
		return rank_read(log, s, words, rank, text + length);
	if (concluded >= 0 && concluded + 1 < words->n) {
		run_concluded(log, s, words->at[concluded + 1]);
	} else if (starting >= 0 && starting + 1 < words->n) {
		run_name(s, words->at[starting + 1]);
	} else if (bb_log_find(words, "nThread") >= 0) {
		bb_log_run_begin(s);
		sizes_read(&s->sizes, words);
	} else if (algorithm >= 0 && algorithm + 1 < words->n) {
		keep(s->algorithm, sizeof(s->algorithm), words->at[algorithm + 1]);
		bb_log_table_end(s);
	} else if (!title_read(s, words)) {
		heading_read(s, words);
	}
	return true;
}
