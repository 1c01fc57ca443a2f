/*
 * claims_log.c - reads text of nccl-tests as it is pasted: with tags of launchers, time stamps and
 * colours, without '#', in part, mixed with NCCL's own log, and several runs in one file.
 */
#include "logs/log_parts.h"

#include "core/array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_BETWEEN 64 /* an interrupted row continues within so many lines */
static void keep(char *into, size_t room, const char *text)
{
	snprintf(into, room, "%s", text);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* Returns the last line of the tables of this job. */
static int job_end(const struct bb_log *log)
{
	int end = 0;

	for (size_t i = log->job_tables; i < log->ntables; i++)
		end = log->tables[i].end > end ? log->tables[i].end : end;
	return end;
}

/* True if FACT of stream S holds for TABLE, the last one of its job if LAST. */
static bool holds_for(const struct bb_log *log, const struct bb_log_fact *fact, size_t s,
		      const struct bb_log_table *table, bool last)
{
	const struct bb_log_stream *const from = &log->streams[s];

	if (fact->fact.line > table->end && !(last && fact->observed))
		return false;
	return (int)s == table->stream || from->last < (int)log->job_tables;
}

/* False if C is a run within one host, which needs no network, or NCCL lists sockets beside a
   faster NETWORK: FACT then explains nothing. */
static bool uses_sockets(const struct bb_claims *c, const struct bb_fact *fact, bool network)
{
	bool shared = false;

	for (size_t i = 0; i < c->nfacts; i++)
		shared |= c->facts[i].kind == BB_FACT_SHARED_GPU;
	if (strstr(fact->quote, "via NET/Socket"))
		return true;
	return !(c->hosts == 1 && !shared) && !(network && strstr(fact->quote, " : Using ["));
}

/* Gives table T its facts. */
static bool facts_give(struct bb_log *log, size_t t)
{
	struct bb_claims *const c = &log->file->list[t];
	bool network = false;

	for (int kind = 0; kind < BB_FACTS; kind++) {
		const struct bb_log_fact *found = NULL;

		for (size_t s = 0; s < log->nstreams; s++)
			for (size_t i = 0; i < log->streams[s].facts.n; i++) {
				const struct bb_log_fact *const f = &log->streams[s].facts.list[i];

				/* What comes after a run that ended well is no error of it. */
				if ((int)f->fact.kind == kind &&
				    !(kind == BB_FACT_ERROR && log->tables[t].closed > 0 &&
				      f->fact.line > log->tables[t].closed) &&
				    holds_for(log, f, s, &log->tables[t], t + 1 == log->ntables) &&
				    (!found || f->observed > found->observed ||
				     (f->observed == found->observed &&
				      f->fact.line < found->fact.line)))
					found = f;
			}
		if (!found)
			continue;
		network |=
			kind == BB_FACT_INFINIBAND || kind == BB_FACT_ROCE || kind == BB_FACT_EFA;
		if (kind == BB_FACT_SOCKET && !uses_sockets(c, &found->fact, network))
			continue;
		if (!bb_claims_add_fact(c, &found->fact))
			return false;
	}
	return true;
}

/* Sets the ranks and nodes of table T: its rows prove more than the list of ranks, which may be
   cut, and that more than the command. */
static void ranks_find(struct bb_log *log, size_t t)
{
	struct bb_claims *const c = &log->file->list[t];
	const struct bb_log_stream *const s = &log->streams[log->tables[t].stream];
	struct bb_log_command command = log->command;
	const int64_t by_rows = log->tables[t].by_rows;
	int64_t ranks, least, most;

	if (s->sizes.gpus > 0 && (command.launched || command.named)) {
		command.threads = s->sizes.threads;
		command.gpus = s->sizes.gpus;
	}
	ranks = bb_log_command_ranks(&command);
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
		c->hosts = bb_log_command_nodes(&command);
	bb_claims_complete(c, c->nranks);
}

/* Counts the runs whose rows are mixed in table T. */
static void runs_count(struct bb_log *log, size_t t)
{
	const struct bb_log_table *const table = &log->tables[t];
	struct bb_claims *const c = &log->file->list[t];
	const size_t rows = c->n;

	c->runs = 1;
	if (table->heads > 1 && table->twins + table->drops > 0)
		c->runs = table->heads;
	else if (table->drops > 1 || (table->twins > 1 && 4 * (size_t)table->twins >= rows))
		c->runs = 2;
	if (c->runs < 2 || c->nranks == 1)
		return;
	/* Their lists of ranks are mixed, too. */
	c->hosts = 0;
	c->host[0] = '\0';
}

/* Begins a job: completes the tables of the last one, and forgets what it stated. */
static bool job_begin(struct bb_log *log)
{
	const int end = job_end(log);
	const bool had_tables = log->ntables > log->job_tables;

	for (size_t t = log->job_tables; t < log->ntables; t++) {
		ranks_find(log, t);
		runs_count(log, t);
		if (!facts_give(log, t))
			return false;
	}
	for (size_t s = 0; s < log->nstreams; s++) {
		struct bb_log_facts *const facts = &log->streams[s].facts;

		/* Settings below the last table are made for the next one. */
		for (size_t i = 0; had_tables && i < facts->n; i++)
			if (facts->list[i].observed || facts->list[i].fact.line <= end)
				facts->list[i--] = facts->list[--facts->n];
		if (had_tables)
			bb_log_run_begin(&log->streams[s]);
	}
	log->job++;
	log->job_tables = log->ntables;
	return true;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Notes the order of sizes in table T, and the ranks that a row proves. */
static void size_note(struct bb_log_table *t, uint64_t size, uint64_t count, const char *type)
{
	const uint64_t bytes = count * bb_log_type_bytes(type);
	const int64_t ranks = bytes > 0 && size % bytes == 0 ? (int64_t)(size / bytes) : -1;

	t->by_rows = t->by_rows == 0 || t->by_rows == ranks ? ranks : -1;
	t->twins += size == t->last;
	t->drops += size < t->last && size > t->least;
	t->least = t->least == 0 || size < t->least ? size : t->least;
	t->last = size;
}

static bool row_add(struct bb_log *log, struct bb_log_stream *s, const struct bb_log_row *row)
{
	if (!row->there[0] && !row->there[1] && !row->not_finite[0] && !row->not_finite[1])
		return true;
	if (s->table >= 0 &&
	    (strcmp(log->file->list[s->table].type, row->type) != 0 || strcmp(s->op, row->op) != 0))
		bb_log_table_end(s);
	if (s->table < 0) {
		if (!bb_log_table_begin(log, s, row->type))
			return false;
		s->table = s->last;
		keep(s->op, sizeof(s->op), row->op);
		keep(log->file->list[s->table].op, sizeof(s->op), row->op);
		keep(log->file->list[s->table].root, sizeof(row->root), row->root);
	}
	log->tables[s->table].end = log->line;
	size_note(&log->tables[s->table], row->half[row->there[0] ? 0 : 1].size_bytes, row->count,
		  row->type);
	for (int half = 0; half < 2; half++) {
		struct bb_claims *const c = &log->file->list[s->table];
		struct bb_claim claim = row->half[half];

		c->not_finite += row->not_finite[half];
		if (!row->there[half])
			continue;
		claim.line = log->line;
		if (!bb_log_plausible(&claim) ||
		    (half == 1 && row->there[0] && bb_log_plausible(&row->half[0]) &&
		     !bb_log_same_factor(&row->half[0], &claim))) {
			c->implausible++;
			continue;
		}
		/* Counted only here: a row with mixed-up columns may have another number there. */
		claim.wrong = row->wrong[half] >= 1;
		c->wrong += claim.wrong;
		c->unchecked += isnan(row->wrong[half]);
		c->unchecked_in_place += half == 1 && isnan(row->wrong[half]);
		log->tables[s->table].doubts += row->doubtful[half];
		if (!bb_claim_add(c, &claim))
			return false;
	}
	return true;
}

/* Begins a row of which WORDS have only the first N from word I on, because another line
   interrupted it. */
static void row_begin(struct bb_log *log, struct bb_log_stream *s, const struct bb_log_words *words,
		      int i, int n)
{
	size_t used = 0;

	if (log->file->cut++ == 0)
		log->file->cut_line = log->line;
	s->begun[0] = '\0';
	for (int k = i; k < i + n && used < sizeof(s->begun); k++)
		used += (size_t)snprintf(s->begun + used, sizeof(s->begun) - used, "%s ",
					 k == i ? bb_log_digits(words->at[k]) : words->at[k]);
	s->begun_line = log->line;
}

/* Reads the rest of an interrupted row, which has a line of its own. */
static bool row_end(struct bb_log *log, struct bb_log_stream *s, const struct bb_log_words *words)
{
	char text[sizeof(s->begun) + 1024];
	struct bb_log_row row;
	struct bb_log_words whole;
	size_t used;
	int i = 0;

	if (log->line > s->begun_line + LINES_BETWEEN || bb_log_find(words, "bandwidth") >= 0 ||
	    bb_log_find(words, "bounds") >= 0)
		s->begun[0] = '\0';
	if (!s->begun[0])
		return true;
	while (i < words->n && !bb_log_is_value(words->at[i]))
		i++;
	used = (size_t)snprintf(text, sizeof(text), "%s", s->begun);
	for (; i < words->n && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s ", words->at[i]);
	if (used >= sizeof(text))
		return true;
	bb_log_split(text, &whole);
	i = bb_log_row_find(&whole);
	if (i < 0)
		return true;
	bb_log_row_read(&whole, i, &s->shape, &row);
	if (!row.whole)
		return true;
	s->begun[0] = '\0';
	log->file->cut--;
	return row_add(log, s, &row);
}

/* Reads a row of OSU's tables: size and latency, with -f also the least, the most, iterations. */
static bool osu_read(struct bb_log *log, struct bb_log_stream *s, const struct bb_log_words *words,
		     bool *read)
{
	struct bb_claim claim = {.line = log->line};
	struct bb_claims *c;
	int i = 0;

	while (i + 2 < words->n && !bb_log_is_whole(bb_log_digits(words->at[i])))
		i++;
	*read = i + 1 < words->n && words->n - i <= 9 &&
		bb_log_is_whole(bb_log_digits(words->at[i]));
	for (int k = i + 1; k < words->n; k++)
		*read = *read &&
			(bb_log_is_value(words->at[k]) || strcmp(words->at[k], "Pass") == 0 ||
			 strcmp(words->at[k], "Fail") == 0);
	if (!*read)
		return true;
	claim.size_bytes = strtoull(bb_log_digits(words->at[i]), NULL, 10);
	claim.time_us = strtod(words->at[i + 1], NULL);
	if (claim.size_bytes == 0 || claim.size_bytes > UINT64_C(1) << 44 ||
	    !(claim.time_us > 0 && claim.time_us < 1e12))
		return true;
	if (s->table < 0) {
		c = bb_log_table_begin(log, s, log->command.type);
		if (!c)
			return false;
		c->incomplete = true;
		c->rounding = 1e-9;
		s->table = s->last;
	}
	log->tables[s->table].end = log->line;
	claim.wrong = strcmp(words->at[words->n - 1], "Fail") == 0;
	log->file->list[s->table].wrong += claim.wrong;
	return bb_claim_add(&log->file->list[s->table], &claim);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Reads a row. *READ = true if TEXT has one. Returns false without memory. */
static bool row_line(struct bb_log *log, const char *text, bool *read)
{
	char work[BB_LOG_LINE], bare[BB_LOG_LINE];
	struct bb_log_words words;
	struct bb_log_row row;
	struct bb_log_stream *s;
	int i;

	keep(work, sizeof(work), text);
	bb_log_blank(work);
	bb_log_row_clean(work);
	memcpy(bare, work, sizeof(bare));
	bb_log_split(bare, &words);
	i = bb_log_row_find(&words);
	*read = i >= 0;
	s = &log->streams[log->recent];
	if (i < 0 && s->osu)
		return osu_read(log, s, &words, read);
	if (i < 0)
		return row_end(log, bb_log_row_stream(log, text, bb_log_tag_length(text)), &words);
	s = bb_log_row_stream(log, text, (size_t)(words.at[i] - bare));
	if (!s)
		return false;
	bb_log_row_read(&words, i, &s->shape, &row);
	if (row.whole)
		return row_add(log, s, &row);
	row_begin(log, s, &words, i, row.n);
	return true;
}

static bool line_read(void *state, char text[BB_LOG_LINE], int number)
{
	struct bb_log *const log = state;
	const bool is_message = strstr(text, "NCCL INFO") || strstr(text, "NCCL WARN");
	const char *hash;
	struct bb_log_stream *s;
	struct bb_log_words words;
	char work[BB_LOG_LINE], tag[BB_LOG_TAG];
	bool read = false, begins = false, is_command;
	size_t length;

	log->line = number;
	bb_log_clean(text);
	if (!row_line(log, text, &read))
		return false;
	if (read)
		return true;
	hash = is_message ? NULL : strchr(text, '#');
	length = hash ? (size_t)(hash - text) : bb_log_tag_length(text);
	keep(work, sizeof(work), text + length);
	bb_log_blank(work);
	bb_log_split(work, &words);
	is_command = !is_message && bb_log_find(&words, "concluded:") < 0 &&
		     bb_log_find(&words, "starting:") < 0 && bb_log_find(&words, "Rank") != 0;
	if (is_command) {
		struct bb_log_command next = log->command;

		is_command = bb_log_command_read(&next, &words, &begins);
		if (begins && !job_begin(log))
			return false;
		log->command = next;
	}
	bb_log_tag(tag, text, length);
	s = is_command ? &log->streams[0] : bb_log_stream(log, tag);
	if (!s || !bb_log_facts_read(&s->facts, text + length + (hash && length > 0), number,
				     is_command ? BB_LOG_COMMAND : BB_LOG_PROSE))
		return false;
	if (is_message || is_command)
		return true;
	if (bb_log_find(&words, "Rank") < 0)
		bb_log_card_read(&log->card, text, number);
	return bb_log_comment_read(log, text, length, &words);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* True if both tables have the same rows: tools print results twice. */
static bool is_same(const struct bb_claims *a, const struct bb_claims *b)
{
	if (a->n != b->n || a->n < 2)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->list[i].size_bytes != b->list[i].size_bytes ||
		    a->list[i].in_place != b->list[i].in_place ||
		    a->list[i].time_us != b->list[i].time_us)
			return false;
	return true;
}

/* Drops repeated tables, and all but the first of those with one rank that a job printed. */
static void tables_merge(struct bb_log *log)
{
	struct bb_claim_file *const file = log->file;
	size_t kept = 0;

	for (size_t i = 0; i < file->n; i++) {
		struct bb_claims *const before = kept > 0 ? &file->list[kept - 1] : NULL;
		struct bb_claims *const c = &file->list[i];
		const bool copies = before && before->nranks == 1 && c->nranks == 1 &&
				    log->tables[kept - 1].job == log->tables[i].job &&
				    strcmp(before->collective, c->collective) == 0 &&
				    strcmp(before->algorithm, c->algorithm) == 0 &&
				    strcmp(before->type, c->type) == 0;

		if (copies || (before && is_same(before, c))) {
			before->runs += copies ? c->runs : 0;
			before->wrong += copies ? c->wrong : 0;
			free(c->list);
			free(c->facts);
			continue;
		}
		log->tables[kept] = log->tables[i];
		file->list[kept++] = *c;
	}
	file->n = kept;
}

/* Completes all tables. Returns false without memory. */
static bool log_end(struct bb_log *log)
{
	bool good = job_begin(log);

	for (size_t i = 0; good && log->card.line > 0 && i < log->file->n; i++)
		good = log->file->list[i].gpu[0] ||
		       bb_claims_add_fact(&log->file->list[i], &log->card);
	if (good)
		tables_merge(log);
	return good;
}

static void log_free(struct bb_log *log)
{
	for (size_t i = 0; i < log->nstreams; i++) {
		free(log->streams[i].hosts);
		free(log->streams[i].seats);
		free(log->streams[i].facts.list);
	}
	free(log->streams);
	free(log->tables);
}

bb_status bb_claims_read_log(const char *path, const char *text, size_t length,
			     struct bb_claim_file *file, struct bb_error *error)
{
	struct bb_log log = {.file = file};
	const bool good = bb_log_stream(&log, "") && bb_log_lines(text, length, line_read, &log) &&
			  log_end(&log);

	log_free(&log);
	return good ? BB_OK : bb_fail(error, BB_EINTERNAL, "%s: more than can be kept", path);
}
