/*
 * claims_log.c - reads text of nccl-tests as it is pasted: with tags of launchers, time stamps and
 * colours, without '#', in part, mixed with NCCL's own log, and several runs in one file.
 */
#include "logs/log.h"

#include "core/array.h"
#include "core/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_BETWEEN 64 /* an interrupted row continues within so many lines */
#define STREAMS 1024
#define MOST_HOSTS 4096

/* A GPU that ranks use. */
struct device {
	int64_t ranks;
	char name[104]; /* host, address and number */
};

/* The lines with one tag, and what they have stated so far of a run, for its table. */
struct stream {
	char tag[BB_LOG_TAG];
	bool marked;           /* has headings or rows of its own */
	bool used;             /* has a table, an average or ranks since the run began */
	bool osu;              /* rows are OSU's: size, latency */
	int last;              /* table, that the footer is about; -1: none */
	bool open;             /* rows continue it */
	int64_t heads;         /* since the last row */
	int64_t averages;      /* of runs that were mixed in the last table: yet to come */
	double average;        /* the last one */
	bool since_average;    /* a run has begun since */
	struct bb_claims head; /* what its next table begins with */
	char (*hosts)[64];
	size_t hosts_room; /* of as many as HEAD has */
	int64_t listed;    /* lines of ranks */
	struct device *devices;
	size_t ndevices, devices_room;
	struct bb_fact shared; /* the GPU that most ranks share */
	struct bb_log_command sizes;
	struct bb_log_shape shape;
	char begun[160]; /* the begin of a row that another line interrupted; "": none */
	int begun_line;
	struct bb_log_facts facts;
};

/* A table, and what becomes of it when its job has ended. */
struct table {
	struct bb_claims claims;
	int stream, job, end; /* END: the line of the last row */
	int64_t by_rows;      /* ranks by size, count and type; 0: no row yet, -1: contradictory */
	int64_t heads, drops, twins;
	int closed;           /* the line of its average; 0: it has none yet */
	size_t doubts;        /* wrong or unchecked results that the footer may acquit */
	uint64_t least, last; /* sizes */
};

struct log {
	struct bb_claim_file *file;
	struct stream *streams;   /* the first has no tag */
	uint64_t hashes[STREAMS]; /* of their tags */
	size_t nstreams, streams_room;
	struct table *tables;
	size_t ntables, tables_room;
	size_t job_tables; /* the first of this job */
	int job, recent;   /* RECENT: stream */
	int line;
	struct bb_log_command command;
	struct bb_fact card;
	bool failed; /* more than can be kept */
};

/* ---- streams --------------------------------------------------------------------------------- */

/* Returns the stream with TAG, a new one if there is room, else the first. */
static struct stream *stream_of(struct log *log, const char *tag)
{
	const uint64_t hash = bb_random_hash(BB_RANDOM_HASH, tag, strlen(tag));

	for (size_t i = 0; i < log->nstreams; i++)
		if (log->hashes[i] == hash && strcmp(log->streams[i].tag, tag) == 0)
			return &log->streams[i];
	if (log->nstreams >= STREAMS)
		return &log->streams[0];
	struct stream *new = BB_ARRAY_ADD(log->streams, log->nstreams, log->streams_room);
	if (!new) {
		log->failed = true;
		return log->streams;
	}
	log->hashes[log->nstreams - 1] = hash;
	*new = (struct stream){.last = -1, .head = {.percent_of_bound = NAN, .rounding = 0.0051}};
	BB_LOG_KEEP(new->tag, tag);
	/* A paste may have lost the tags of the first lines. */
	if (log->nstreams > 1) {
		const struct stream *const from = &log->streams[0];

		BB_LOG_KEEP(new->head.collective, from->head.collective);
		BB_LOG_KEEP(new->head.algorithm, from->head.algorithm);
		BB_LOG_KEEP(new->head.backend, from->head.backend);
		new->sizes = from->sizes;
		new->shape = from->shape;
		new->shape.size = 0;
	}
	return new;
}

/* Returns the stream that a heading in line TEXT belongs to, behind LENGTH bytes of tags. */
static struct stream *stream_marked(struct log *log, const char *text, size_t length)
{
	char tag[BB_LOG_TAG];

	bb_log_tag(tag, text, length);
	struct stream *const s = stream_of(log, tag);
	s->marked = true;
	log->recent = (int)(s - log->streams);
	return s;
}

/* The same for a row or a footer. A paste may have lost the tags of some lines. */
static struct stream *stream_of_row(struct log *log, const char *text, size_t length)
{
	struct stream *const recent = &log->streams[log->recent];
	char tag[BB_LOG_TAG];

	bb_log_tag(tag, text, length);
	if (!tag[0] || strcmp(tag, recent->tag) == 0)
		return recent;
	if (recent->marked && !recent->tag[0] && !stream_of(log, tag)->marked)
		return &log->streams[log->recent];
	return stream_marked(log, text, length);
}

static void table_end(struct stream *s)
{
	s->open = false;
	s->shape.size = 0;
	s->begun[0] = '\0';
}

static void ranks_forget(struct stream *s)
{
	s->head.nranks = s->head.hosts = s->listed = 0;
	s->head.host[0] = '\0';
	s->ndevices = 0;
	s->shared.line = 0;
}

/* Begins a run unless nothing has been seen of the last one but its settings. */
static void run_begin(struct stream *s)
{
	table_end(s);
	s->since_average = true;
	s->osu = false;
	if (!s->used)
		return;
	s->used = false;
	s->head.collective[0] = s->head.algorithm[0] = s->head.gpu[0] = '\0';
	s->heads = s->averages = 0;
	s->sizes = (struct bb_log_command){.named = false};
	ranks_forget(s);
}

/* The table that rows of S continue, else a new one; NULL: more than can be kept. */
static struct table *table_of(struct log *log, struct stream *s, const char *type)
{
	const struct bb_log_command *const of = s->sizes.most_bytes > 0 ? &s->sizes : &log->command;

	if (s->open)
		return &log->tables[s->last];
	struct table *const t = log->ntables < BB_MOST_CLAIMS
					? BB_ARRAY_ADD(log->tables, log->ntables, log->tables_room)
					: NULL;
	log->failed |= !t;
	if (!t)
		return NULL;
	*t = (struct table){.claims = s->head,
			    .stream = (int)(s - log->streams),
			    .job = log->job,
			    .end = log->line,
			    .heads = s->heads};
	struct bb_claims *const c = &t->claims;
	if (!c->collective[0])
		BB_LOG_KEEP(c->collective, log->command.collective);
	BB_LOG_KEEP(c->type, type);
	c->simulated = strcmp(c->backend, "sim") == 0;
	/* One line of a list that lacks the others says nothing of their hosts. */
	if (s->listed <= 1 && c->nranks != 1)
		c->hosts = 0;
	c->least_bytes = of->least_bytes;
	c->most_bytes = of->most_bytes;
	c->factor = of->factor;
	c->step_bytes = of->factor > 1 ? 0 : of->step_bytes;
	s->last = (int)log->ntables - 1;
	s->used = true;
	s->heads = 0;
	log->failed |= s->shared.line > 0 && !bb_claims_add_fact(c, BB_FACT_SHARED_GPU, &s->shared);
	return t;
}

/* ---- lines that are no rows: lists of ranks, headings, footers ------------------------------- */

/* Returns the word behind WORD; NULL: there is none. */
static const char *word_after(const struct bb_log_words *words, const char *word)
{
	const int i = bb_log_find(words, word);

	return i >= 0 && i + 1 < words->n ? words->at[i + 1] : NULL;
}

/* "#  Rank  3 Group  0 Pid 17 on  node5 device  3 [0000:1b:00] NVIDIA H100 80GB HBM3" */
static void rank_read(struct log *log, struct stream *s, const struct bb_log_words *words,
		      const char *text)
{
	const int64_t rank = strtoll(word_after(words, "Rank"), NULL, 10);
	const char *const on = word_after(words, "on");
	const int device = bb_log_find(words, "device");
	struct bb_claims *const head = &s->head;
	struct device *used = NULL;
	char name[sizeof(used->name)];

	if (rank == 0) {
		ranks_forget(s);
		table_end(s);
		s->since_average = true;
	}
	s->used = true;
	s->listed++;
	head->nranks = rank + 1 > head->nranks && rank < 1 << 24 ? rank + 1 : head->nranks;
	if (on) {
		int64_t host = head->hosts - 1;

		while (host >= 0 && strncmp(s->hosts[host], on, 63) != 0)
			host--;
		if (host < 0 && head->hosts < MOST_HOSTS) {
			char(*const new)[64] = BB_ARRAY_ADD(s->hosts, head->hosts, s->hosts_room);

			log->failed |= !new;
			if (!new)
				return;
			BB_LOG_KEEP(*new, on);
		}
		if (rank == 0)
			BB_LOG_KEEP(head->host, on);
	}
	if (device + 3 >= words->n || words->at[device + 2][0] != '[')
		return;
	head->gpu[0] = '\0';
	for (int w = device + 3; w < words->n; w++) {
		const size_t n = strlen(head->gpu);

		snprintf(head->gpu + n, sizeof(head->gpu) - n, "%s%s", n ? " " : "", words->at[w]);
	}
	/* Several instances (MIG) of a GPU have its address. Virtual machines have a domain for
	   each GPU, which the short form, "[0x1b]", lacks, and bus 0. */
	const char *const bus = words->at[device + 2];
	if (!on || strstr(head->gpu, "MIG") || strcmp(bus, "[0x00]") == 0)
		return;
	snprintf(name, sizeof(name), "%.63s %.20s %.16s", on, bus, words->at[device + 1]);
	for (size_t i = s->ndevices; i > 0 && !used; i--)
		if (strcmp(s->devices[i - 1].name, name) == 0)
			used = &s->devices[i - 1];
	if (!used && s->ndevices < MOST_HOSTS) {
		used = BB_ARRAY_ADD(s->devices, s->ndevices, s->devices_room);
		log->failed |= !used;
		if (used) {
			used->ranks = 0;
			memcpy(used->name, name, sizeof(name));
		}
	}
	if (!used || ++used->ranks < 2 || (s->shared.line > 0 && used->ranks <= s->shared.value))
		return;
	if (s->shared.line == 0) {
		s->shared = (struct bb_fact){.line = log->line, .by = -1, .observed = true};
		BB_LOG_KEEP(s->shared.text, bus);
		bb_log_quote(&s->shared, text, 0);
	}
	s->shared.value = used->ranks;
}

/* The headings of a table: which halves its rows have, and what their last column is; and the title
   and heading of OSU's tables. */
static void heading_read(struct stream *s, const struct bb_log_words *words)
{
	const bool in = bb_log_find(words, "in-place") >= 0,
		   out = bb_log_find(words, "out-of-place") >= 0;
	const int osu = bb_log_find(words, "OSU");

	if (osu >= 0 && bb_log_find(words, "Test") > osu) {
		run_begin(s);
		/* "# OSU MPI-CUDA Allreduce Latency Test"; without that the buffers are on CPUs. */
		if (bb_log_find(words, "MPI") == osu + 1)
			BB_LOG_KEEP(s->head.backend, "mpi");
		s->head.collective[0] = '\0';
		for (int i = osu + 1; i < words->n; i++)
			if (bb_log_osu(words->at[i])) {
				BB_LOG_KEEP(s->head.collective, bb_log_osu(words->at[i]));
				s->osu = true;
			}
		return;
	}
	if (bb_log_find(words, "Size Avg Latency(us)") >= 0 ||
	    bb_log_find(words, "Size Avg Latency") >= 0) {
		table_end(s);
		s->osu = true;
		return;
	}
	if (in || out) {
		table_end(s);
		s->shape.in_place = in && !out;
		s->shape.columns = 0;
	}
	if (bb_log_find(words, "size count type") < 0)
		return;
	table_end(s);
	s->shape.last = bb_log_find(words, "error") >= 0   ? BB_LOG_ERROR
			: bb_log_find(words, "wrong") >= 0 ? BB_LOG_WRONG
							   : BB_LOG_ANY;
	s->since_average = true;
	s->osu = false;
	s->heads++;
}

/* "Out of bounds values : 0 OK" */
static void bounds_read(struct log *log, struct stream *s, const struct bb_log_words *words, int i)
{
	if (s->last < 0)
		return;
	struct table *t = &log->tables[s->last];
	struct bb_claims *c = &t->claims;
	for (i += 4; i < words->n && !bb_log_is_whole(words->at[i]); i++)
		;
	if (i + 1 >= words->n || t->heads > 1)
		return;
	const double n = strtod(words->at[i], NULL);
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
static void average_read(struct log *log, struct stream *s, const struct bb_log_words *words, int i)
{
	const char *text = i + 3 < words->n ? words->at[i + 3] : "";
	const bool had_rows = s->open;
	char copy[32], *end;

	text += *text == ':';
	if (!*text && i + 4 < words->n)
		text = words->at[i + 4];
	BB_LOG_KEEP(copy, text);
	bb_log_row_clean(copy);
	const double average = strtod(copy, &end);
	if (had_rows) {
		s->averages = log->tables[s->last].heads - 1;
		log->tables[s->last].closed = log->line;
	}
	table_end(s);
	if (!had_rows && s->averages <= 0 && end != copy && average > 0 && isfinite(average) &&
	    average < 1e6 && (s->since_average || average != s->average)) {
		struct table *const t = table_of(log, s, log->command.type);

		if (t)
			t->claims.average_GBps = average;
	} else if (!had_rows && s->averages > 0) {
		s->averages--;
	}
	s->average = average;
	s->since_average = false;
}

/* Reads what is no row, in TEXT behind LENGTH bytes of tags. */
static void comment_read(struct log *log, const char *text, size_t length,
			 const struct bb_log_words *words)
{
	const char *const rank = word_after(words, "Rank");
	const char *const starting = word_after(words, "starting:");
	const char *const concluded = word_after(words, "concluded:");
	const char *const algorithm = word_after(words, "Algorithm:");
	const int average = bb_log_find(words, "Avg bus bandwidth");
	const int bounds = bb_log_find(words, "Out of bounds");
	const bool is_rank = rank && bb_log_is_whole(rank) &&
			     bb_log_find(words, "device") > bb_log_find(words, "Rank");
	const bool has_sizes = bb_log_find(words, "nThread") >= 0;
	struct stream *s = stream_of_row(log, text, length);

	/* Prose may quote it. */
	if (average >= 0 && average <= 1) {
		average_read(log, s, words, average);
		return;
	}
	if (bounds >= 0) {
		bounds_read(log, s, words, bounds);
		return;
	}
	for (int i = 0; i < words->n; i++)
		if (strncmp(words->at[i], "backend=", 8) == 0)
			BB_LOG_KEEP(s->head.backend, words->at[i] + 8);
	if (is_rank || starting || has_sizes || bb_log_find(words, "count") >= 0 ||
	    bb_log_find(words, "OSU") >= 0)
		s = stream_marked(log, text, length);
	if (is_rank) {
		rank_read(log, s, words, text + length);
	} else if (concluded) {
		/* "Collective test concluded: alltoall_perf": that was the table above. */
		struct bb_claims *const c = s->last >= 0 ? &log->tables[s->last].claims : NULL;

		if (c && strstr(concluded, "_perf") && !c->collective[0])
			bb_log_benchmark(c->collective, concluded);
	} else if (starting) {
		run_begin(s);
		bb_log_benchmark(s->head.collective, starting);
	} else if (has_sizes) {
		run_begin(s);
		bb_log_sizes_read(&s->sizes, words);
	} else if (algorithm) {
		BB_LOG_KEEP(s->head.algorithm, algorithm);
		table_end(s);
	} else {
		heading_read(s, words);
	}
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* Gives table T its facts. What comes after a run that ended well is no error of it; what NCCL
   reports after the last table is about that. */
static void facts_give(struct log *log, struct table *t)
{
	struct bb_claims *const c = &t->claims;
	const bool alone = c->hosts == 1 && !bb_claims_fact(c, BB_FACT_SHARED_GPU);
	const bool is_last = t + 1 == log->tables + log->ntables;

	for (enum bb_fact_kind kind = 0; kind < BB_FACTS; kind++) {
		const struct bb_fact *found = NULL;

		for (size_t s = 0; s < log->nstreams; s++) {
			const struct bb_fact *const f = &log->streams[s].facts.of[kind];

			if (f->line == 0 ||
			    (kind == BB_FACT_ERROR && t->closed > 0 && f->line > t->closed) ||
			    (f->line > t->end && !(is_last && f->observed)) ||
			    ((int)s != t->stream && log->streams[s].last >= (int)log->job_tables))
				continue;
			if (!found || f->observed > found->observed ||
			    (f->observed == found->observed && f->line < found->line))
				found = f;
		}
		/* A run within one host needs no network, and NCCL lists sockets beside a faster
		   one: they explain nothing. */
		if (found && (kind != BB_FACT_SOCKET || strstr(found->quote, "via NET/Socket") ||
			      (!alone && !(strstr(found->quote, " : Using [") &&
					   (bb_claims_fact(c, BB_FACT_INFINIBAND) ||
					    bb_claims_fact(c, BB_FACT_ROCE) ||
					    bb_claims_fact(c, BB_FACT_EFA))))))
			log->failed |= !bb_claims_add_fact(c, kind, found);
	}
}

/* Sets the ranks and nodes of table T: its rows prove more than the list of ranks, which may be
   cut, and that more than the command. */
static void ranks_find(struct log *log, struct table *t)
{
	struct bb_claims *const c = &t->claims;
	const struct stream *const s = &log->streams[t->stream];
	struct bb_log_command command = log->command;
	const int64_t by_rows = t->by_rows;
	int64_t ranks, nodes, least, most;

	if (s->sizes.gpus > 0 && (command.launched || command.named)) {
		command.threads = s->sizes.threads;
		command.gpus = s->sizes.gpus;
	}
	ranks = bb_log_command_ranks(&command, &nodes);
	if (by_rows >= 2 && by_rows != c->nranks &&
	    (!c->collective[0] || bb_claims_shares(c->collective)) &&
	    bb_claims_ranks(c, "all_gather", &least, &most) && by_rows >= least &&
	    by_rows <= most) {
		c->hosts = 0;
		c->nranks = by_rows;
	}
	if (c->nranks == 0 && ranks >= 2 &&
	    (bb_claims_ranks(c, c->collective, &least, &most) ? ranks >= least && ranks <= most
							      : least == 1))
		c->nranks = ranks;
	if (c->hosts == 0 && c->nranks >= 2 && c->nranks == ranks)
		c->hosts = nodes;
	bb_claims_complete(c, c->nranks);
}

/* Begins a job: completes the tables of the last one, and forgets what it stated. */
static void job_begin(struct log *log)
{
	const bool had_tables = log->ntables > log->job_tables;
	int end = 0; /* the last line of the job's tables */

	for (size_t t = log->job_tables; t < log->ntables; t++) {
		struct table *const table = &log->tables[t];
		struct bb_claims *const claims = &table->claims;

		end = table->end > end ? table->end : end;
		ranks_find(log, table);
		/* The runs whose rows are mixed in it. */
		claims->runs = 1;
		if (table->heads > 1 && table->twins + table->drops > 0)
			claims->runs = table->heads;
		else if (table->drops > 1 ||
			 (table->twins > 1 && 4 * (size_t)table->twins >= claims->n))
			claims->runs = 2;
		if (claims->runs > 1 && claims->nranks != 1) {
			/* Their lists of ranks are mixed, too. */
			claims->hosts = 0;
			claims->host[0] = '\0';
		}
		facts_give(log, table);
	}
	for (size_t s = 0; had_tables && s < log->nstreams; s++) {
		struct bb_fact *const of = log->streams[s].facts.of;

		/* Settings below the last table are made for the next one. */
		for (int kind = 0; kind < BB_FACTS; kind++)
			if (of[kind].observed || of[kind].line <= end)
				of[kind].line = 0;
		run_begin(&log->streams[s]);
	}
	log->job++;
	log->job_tables = log->ntables;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void row_add(struct log *log, struct stream *s, const struct bb_log_row *row)
{
	const uint64_t size = row->half[row->there[0] ? 0 : 1].size_bytes;
	const uint64_t bytes = row->count * bb_log_type_bytes(row->type);
	const int64_t ranks = bytes > 0 && size % bytes == 0 ? (int64_t)(size / bytes) : -1;

	if (!row->there[0] && !row->there[1] && !row->not_finite[0] && !row->not_finite[1])
		return;
	if (s->open && (strcmp(log->tables[s->last].claims.type, row->type) != 0 ||
			strcmp(log->tables[s->last].claims.op, row->op) != 0))
		table_end(s);
	struct table *const t = table_of(log, s, row->type);
	if (!t)
		return;
	struct bb_claims *const c = &t->claims;
	if (!s->open) {
		BB_LOG_KEEP(c->op, row->op);
		BB_LOG_KEEP(c->root, row->root);
	}
	s->open = true;
	/* The order of sizes, and the ranks that a row proves. */
	t->end = log->line;
	t->by_rows = t->by_rows == 0 || t->by_rows == ranks ? ranks : -1;
	t->twins += size == t->last;
	t->drops += size < t->last && size > t->least;
	t->least = t->least == 0 || size < t->least ? size : t->least;
	t->last = size;
	for (int half = 0; half < 2; half++) {
		struct bb_claim claim = row->half[half];

		c->not_finite += row->not_finite[half];
		if (!row->there[half])
			continue;
		c->implausible += row->implausible[half];
		if (row->implausible[half])
			continue;
		claim.line = log->line;
		/* Counted only here: a row with mixed-up columns may have another number there. */
		claim.wrong = row->wrong[half] >= 1;
		c->wrong += claim.wrong;
		c->unchecked += isnan(row->wrong[half]);
		c->unchecked_in_place += half == 1 && isnan(row->wrong[half]);
		t->doubts += row->doubtful[half];
		log->failed |= !bb_claim_add(c, &claim);
	}
}

/* Reads a row of OSU's tables: size and latency, with -f also the least, the most, iterations.
   Returns false if WORDS are none. */
static bool osu_read(struct log *log, struct stream *s, const struct bb_log_words *words)
{
	int i = 0;

	while (i + 2 < words->n && !bb_log_is_whole(bb_log_digits(words->at[i])))
		i++;
	if (i + 1 >= words->n || words->n - i > 9 || !bb_log_is_whole(bb_log_digits(words->at[i])))
		return false;
	for (int k = i + 1; k < words->n; k++)
		if (!bb_log_is_value(words->at[k]) && strcmp(words->at[k], "Pass") != 0 &&
		    strcmp(words->at[k], "Fail") != 0)
			return false;
	const struct bb_claim claim = {.line = log->line,
				       .size_bytes =
					       strtoull(bb_log_digits(words->at[i]), NULL, 10),
				       .time_us = strtod(words->at[i + 1], NULL),
				       .wrong = strcmp(words->at[words->n - 1], "Fail") == 0};
	if (claim.size_bytes == 0 || claim.size_bytes > UINT64_C(1) << 44 ||
	    !(claim.time_us > 0 && claim.time_us < 1e12))
		return true;
	struct table *const t = table_of(log, s, log->command.type);
	if (!t)
		return true;
	if (!s->open) {
		s->open = t->claims.incomplete = true;
		t->claims.rounding = 1e-9;
	}
	t->end = log->line;
	t->claims.wrong += claim.wrong;
	log->failed |= !bb_claim_add(&t->claims, &claim);
	return true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Reads a row. Returns false if TEXT has none, or the rest of an interrupted one. */
static bool row_line(struct log *log, const char *text)
{
	struct stream *s = &log->streams[log->recent];
	char work[BB_LOG_LINE], joined[sizeof(s->begun) + 1024];
	struct bb_log_words words;
	struct bb_log_row row;
	size_t used;

	BB_LOG_KEEP(work, text);
	bb_log_blank(work);
	bb_log_row_clean(work);
	bb_log_split(work, &words);
	const int i = bb_log_row_find(&words);
	if (i < 0 && s->osu)
		return osu_read(log, s, &words);
	s = stream_of_row(log, text,
			  i < 0 ? bb_log_tag_length(text) : (size_t)(words.at[i] - work));
	if (i >= 0) {
		bb_log_row_read(&words, i, &s->shape, &row);
		if (row.whole) {
			row_add(log, s, &row);
			return true;
		}
		/* Another line interrupted it. */
		if (log->file->cut++ == 0)
			log->file->cut_line = log->line;
		s->begun[0] = '\0';
		used = 0;
		for (int k = i; k < i + row.n && used < sizeof(s->begun); k++)
			used += (size_t)snprintf(s->begun + used, sizeof(s->begun) - used, "%s ",
						 k == i ? bb_log_digits(words.at[k]) : words.at[k]);
		s->begun_line = log->line;
		return true;
	}
	if (log->line > s->begun_line + LINES_BETWEEN || bb_log_find(&words, "bandwidth") >= 0 ||
	    bb_log_find(&words, "bounds") >= 0)
		s->begun[0] = '\0';
	if (!s->begun[0])
		return false;
	/* The rest of an interrupted row has a line of its own. */
	used = (size_t)snprintf(joined, sizeof(joined), "%s", s->begun);
	int k = 0;
	while (k < words.n && !bb_log_is_value(words.at[k]))
		k++;
	for (; k < words.n && used < sizeof(joined); k++)
		used += (size_t)snprintf(joined + used, sizeof(joined) - used, "%s ", words.at[k]);
	if (used >= sizeof(joined))
		return false;
	bb_log_split(joined, &words);
	bb_log_row_read(&words, 0, &s->shape, &row);
	if (!row.whole)
		return false;
	s->begun[0] = '\0';
	log->file->cut--;
	row_add(log, s, &row);
	return false;
}

static bool line_read(void *state, char text[BB_LOG_LINE], int number)
{
	struct log *const log = state;
	const bool is_message = strstr(text, "NCCL INFO") || strstr(text, "NCCL WARN");
	struct bb_log_words words;
	char work[BB_LOG_LINE], tag[BB_LOG_TAG];
	bool begins = false, is_command;

	log->line = number;
	bb_log_clean(text);
	if (row_line(log, text))
		return !log->failed;
	const char *const hash = is_message ? NULL : strchr(text, '#');
	const size_t length = hash ? (size_t)(hash - text) : bb_log_tag_length(text);
	BB_LOG_KEEP(work, text + length);
	bb_log_blank(work);
	bb_log_split(work, &words);
	is_command = !is_message && bb_log_find(&words, "concluded:") < 0 &&
		     bb_log_find(&words, "starting:") < 0 && bb_log_find(&words, "Rank") != 0;
	if (is_command) {
		struct bb_log_command next = log->command;

		is_command = bb_log_command_read(&next, &words, &begins);
		if (begins)
			job_begin(log);
		log->command = next;
	}
	bb_log_tag(tag, text, length);
	struct stream *const s = is_command ? log->streams : stream_of(log, tag);
	bb_log_facts_read(&s->facts, text + length + (hash && length > 0), number, is_command);
	if (!is_message && !is_command) {
		if (bb_log_find(&words, "Rank") < 0)
			bb_log_card_read(&log->card, text, number);
		comment_read(log, text, length, &words);
	}
	return !log->failed;
}

/* ---- the whole ------------------------------------------------------------------------------- */

bb_status bb_claims_read_log(const char *path, const char *text, size_t length,
			     struct bb_claim_file *file, struct bb_error *error)
{
	struct log log = {.file = file};
	const struct table *last = NULL; /* that was kept */

	stream_of(&log, "");
	log.failed = log.failed || !bb_log_lines(text, length, line_read, &log);
	if (!log.failed)
		job_begin(&log);
	/* The tables go to the file, but for repeated ones and all but the first of those with one
	   rank that a job printed. */
	for (size_t i = 0; i < log.ntables; i++) {
		struct bb_claims *const before = last ? &file->list[file->n - 1] : NULL;
		struct bb_claims *const c = &log.tables[i].claims;
		const bool copies = before && before->nranks == 1 && c->nranks == 1 &&
				    last->job == log.tables[i].job &&
				    strcmp(before->collective, c->collective) == 0 &&
				    strcmp(before->algorithm, c->algorithm) == 0 &&
				    strcmp(before->type, c->type) == 0;
		/* Tools print results twice. */
		bool same = before && before->n == c->n && c->n >= 2;

		for (size_t k = 0; same && k < c->n; k++)
			same = before->list[k].size_bytes == c->list[k].size_bytes &&
			       before->list[k].in_place == c->list[k].in_place &&
			       before->list[k].time_us == c->list[k].time_us;
		struct bb_claims *const kept = copies || same ? NULL : bb_claims_add(file);
		log.failed |= !copies && !same && !kept;
		if (kept) {
			*kept = *c;
			last = &log.tables[i];
			continue;
		}
		if (copies) {
			before->runs += c->runs;
			before->wrong += c->wrong;
		}
		free(c->list);
		free(c->facts);
	}
	for (size_t i = 0; log.card.line > 0 && i < file->n; i++)
		log.failed |= !file->list[i].gpu[0] &&
			      !bb_claims_add_fact(&file->list[i], BB_FACT_CARD, &log.card);
	for (size_t i = 0; i < log.nstreams; i++) {
		free(log.streams[i].hosts);
		free(log.streams[i].devices);
	}
	free(log.streams);
	free(log.tables);
	return log.failed ? bb_fail(error, BB_EINTERNAL, "%s: more than can be kept", path) : BB_OK;
}
