/*
 * log_streams.c - what the lines with one tag have stated of a run, and the begin and end of its
 * table.
 */
#include "logs/log_parts.h"

#include "core/array.h"

#include <stdio.h>
#include <string.h>

static void keep(char *into, size_t room, const char *text)
{
	snprintf(into, room, "%s", text);
}

static void run_inherit(struct bb_log_stream *s, const struct bb_log_stream *from)
{
	keep(s->collective, sizeof(s->collective), from->collective);
	keep(s->algorithm, sizeof(s->algorithm), from->algorithm);
	keep(s->backend, sizeof(s->backend), from->backend);
	s->sizes = from->sizes;
	s->shape = from->shape;
	s->shape.size = 0;
}

/* Returns the stream with TAG, a new one if there is room; NULL without memory. */
struct bb_log_stream *bb_log_stream(struct bb_log *log, const char *tag)
{
	struct bb_log_stream *new;
	uint32_t hash = 2166136261; /* FNV-1a */

	for (const char *c = tag; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619;
	for (size_t i = 0; i < log->nstreams; i++)
		if (log->hashes[i] == hash && strcmp(log->streams[i].tag, tag) == 0)
			return &log->streams[i];
	if (log->nstreams >= BB_LOG_STREAMS)
		return &log->streams[0];
	new = BB_ARRAY_ADD(log->streams, log->nstreams, log->streams_room);
	if (!new)
		return NULL;
	log->hashes[log->nstreams - 1] = hash;
	*new = (struct bb_log_stream){.table = -1, .last = -1};
	keep(new->tag, sizeof(new->tag), tag);
	/* A paste may have lost the tags of the first lines. */
	if (log->nstreams > 1)
		run_inherit(new, &log->streams[0]);
	return new;
}

/* Returns the stream that a heading in line TEXT belongs to, behind LENGTH bytes of tags. */
struct bb_log_stream *bb_log_marked_stream(struct bb_log *log, const char *text, size_t length)
{
	char tag[BB_LOG_TAG];
	struct bb_log_stream *s;

	bb_log_tag(tag, text, length);
	s = bb_log_stream(log, tag);
	if (!s)
		return NULL;
	s->marked = true;
	log->recent = (int)(s - log->streams);
	return s;
}

/* The same for a row or a footer. A paste may have lost the tags of some lines. */
struct bb_log_stream *bb_log_row_stream(struct bb_log *log, const char *text, size_t length)
{
	struct bb_log_stream *const recent = &log->streams[log->recent];
	char tag[BB_LOG_TAG];

	bb_log_tag(tag, text, length);
	if (!tag[0] || strcmp(tag, recent->tag) == 0)
		return recent;
	if (recent->marked && !recent->tag[0]) {
		const struct bb_log_stream *const own = bb_log_stream(log, tag);

		if (!own || !own->marked)
			return own ? &log->streams[log->recent] : NULL;
	}
	return bb_log_marked_stream(log, text, length);
}

void bb_log_table_end(struct bb_log_stream *s)
{
	s->table = -1;
	s->shape.size = 0;
	s->begun[0] = '\0';
}

void bb_log_ranks_forget(struct bb_log_stream *s)
{
	s->nranks = s->nhosts = s->listed = 0;
	s->nseats = 0;
	s->shared.line = 0;
	s->host[0] = '\0';
}

/* Begins a run unless nothing has been seen of the last one but its settings. */
void bb_log_run_begin(struct bb_log_stream *s)
{
	bb_log_table_end(s);
	s->since_average = true;
	s->osu = false;
	if (!s->used)
		return;
	s->used = false;
	s->collective[0] = s->algorithm[0] = s->gpu[0] = '\0';
	s->heads = s->averages = 0;
	s->sizes = (struct bb_log_command){.named = false};
	bb_log_ranks_forget(s);
}

/* Adds a table of stream S; NULL without memory. */
struct bb_claims *bb_log_table_begin(struct bb_log *log, struct bb_log_stream *s, const char *type)
{
	struct bb_claims *const c = bb_claims_add(log->file);
	struct bb_log_table *const t =
		c ? BB_ARRAY_ADD(log->tables, log->ntables, log->tables_room) : NULL;
	const struct bb_log_command *const sizes =
		s->sizes.most_bytes > 0 ? &s->sizes : &log->command;

	if (!t)
		return NULL;
	*t = (struct bb_log_table){
		.stream = (int)(s - log->streams), .job = log->job, .end = log->line};
	t->heads = s->heads;
	keep(c->collective, sizeof(c->collective),
	     s->collective[0] ? s->collective : log->command.collective);
	keep(c->algorithm, sizeof(c->algorithm), s->algorithm);
	keep(c->gpu, sizeof(c->gpu), s->gpu);
	keep(c->backend, sizeof(c->backend), s->backend);
	keep(c->host, sizeof(c->host), s->host);
	keep(c->type, sizeof(c->type), type);
	c->simulated = strcmp(c->backend, "sim") == 0;
	c->nranks = s->nranks;
	/* One line of a list that lacks the others says nothing of their hosts. */
	c->hosts = s->listed > 1 || s->nranks == 1 ? s->nhosts : 0;
	c->rounding = 0.0051;
	c->least_bytes = sizes->least_bytes;
	c->most_bytes = sizes->most_bytes;
	c->factor = sizes->factor;
	c->step_bytes = sizes->factor > 1 ? 0 : sizes->step_bytes;
	s->last = (int)log->ntables - 1;
	s->used = true;
	s->heads = 0;
	return s->shared.line == 0 || bb_claims_add_fact(c, &s->shared) ? c : NULL;
}
