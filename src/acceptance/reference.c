/*
 * reference.c - the table of published measurements.
 */
#include "acceptance/reference.h"

#include "core/array.h"
#include "core/units.h"
#include "topology/cards.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* id, system, gpu, nodes, nranks, fabric, collective, algo, nccl, size_bytes, placement, time_us,
   algbw_GBps, busbw_GBps, kind, source */
#define COLUMNS 16

/* The file itself, as data; the names of its columns come first. */
__asm__(".section .rodata\n"
	".globl bb_reference_begin\n.globl bb_reference_end\n"
	"bb_reference_begin:\n.incbin \"reports/reference/reference_busbw.csv\"\n"
	"bb_reference_end:\n.byte 0\n.previous\n");
extern const char bb_reference_begin[], bb_reference_end[];

#define HEADER                                                                                     \
	"id,system,gpu,nodes,nranks,fabric,collective,algo,nccl,size_bytes,placement,time_us,"     \
	"algbw_GBps,busbw_GBps,kind,source\n"

/* Reads the row from AT to END. */
static bool read_row(const char *at, const char *end, struct bb_reference *row)
{
	char cell[COLUMNS][128], *rest;
	int64_t whole[3]; /* nodes, ranks, size */
	bool good = true;

	for (int i = 0; i < COLUMNS; i++) {
		bool quoted = false;
		size_t n = 0;

		for (; at < end && (quoted || *at != ','); at++) {
			if (*at == '"')
				quoted = !quoted;
			else if (n + 1 < sizeof(cell[i]))
				cell[i][n++] = *at;
		}
		cell[i][n] = '\0';
		at += at < end;
	}
#define KEEP(target, column)                                                                       \
	snprintf(target, sizeof(target), "%.*s", (int)sizeof(target) - 1, cell[column])
	KEEP(row->id, 0);
	KEEP(row->system, 1);
	KEEP(row->fabric, 5);
	KEEP(row->collective, 6);
	KEEP(row->algo, 7);
	KEEP(row->kind, 14);
	KEEP(row->source, 15);
#undef KEEP
	row->card = bb_card_find(cell[2]);
	row->in_place = strcmp(cell[10], "ip") == 0 ? 1 : strcmp(cell[10], "oop") == 0 ? 0 : -1;
	for (int i = 0; i < 3; i++) {
		const char *const text = cell[i < 2 ? 3 + i : 9];

		whole[i] = 0;
		good = good && (!*text || (bb_parse_int(text, &whole[i]) && whole[i] > 0));
	}
	row->nranks = whole[1];
	row->nodes = whole[0] > 0 || !row->card ? whole[0] : bb_card_nodes(row->card, whole[1]);
	row->size_bytes = (uint64_t)whole[2];
	errno = 0;
	row->busbw_GBps = strtod(cell[13], &rest);
	return good && row->id[0] && row->source[0] && row->card && rest != cell[13] && !*rest &&
	       errno == 0 && row->busbw_GBps >= 0 && row->busbw_GBps < 1e9;
}

bb_status bb_references_own(struct bb_references *table, struct bb_error *error)
{
	const char *text = bb_reference_begin, *const end = bb_reference_end, *next;
	struct bb_reference row;
	bb_status st = BB_OK;

	*table = (struct bb_references){.n = 0};
	for (int line = 1; st == BB_OK && text < end; line++, text = next) {
		const char *const stop = memchr(text, '\n', (size_t)(end - text)) ?: end;

		next = stop < end ? stop + 1 : end;
		if (line == 1 && strncmp(text, HEADER, strlen(HEADER)) == 0)
			continue;
		if (!read_row(text, stop, &row))
			st = bb_fail(error, BB_EINTERNAL,
				     "reference table, line %d: another head, not %d columns, or "
				     "a gpu that is not in src/topology/cards.c",
				     line, COLUMNS);
		else if (!BB_ARRAY_PUT(table->rows, table->n, table->room, row))
			st = bb_no_memory(error, "the references");
	}
	return st;
}

bb_status bb_references_find(const struct bb_references *table, const char *key,
			     const char *collective, uint64_t size_bytes, int64_t nranks,
			     int in_place, const struct bb_reference **row, struct bb_error *error)
{
	char size[BB_UNIT_TEXT];
	const size_t id = strcspn(key, ":"); /* of "ID" or "ID:ALGO" */
	bool known = false;

	*row = NULL;
	for (size_t i = 0; i < table->n; i++) {
		const struct bb_reference *r = &table->rows[i];

		if (strlen(r->id) != id || strncmp(r->id, key, id) != 0 ||
		    (key[id] && strcmp(r->algo, key + id + 1) != 0))
			continue;
		known = true;
		if (strcmp(r->collective, collective) != 0 || r->size_bytes != size_bytes ||
		    (r->nranks > 0 && r->nranks != nranks) ||
		    (in_place >= 0 && r->in_place >= 0 && r->in_place != in_place))
			continue;
		if (*row && strcmp((*row)->algo, r->algo) != 0)
			return bb_fail(
				error, BB_EUSAGE,
				"reference %s has several algorithms there; say %s:%s or %s:%s",
				key, key, (*row)->algo, key, r->algo);
		if (!*row)
			*row = r;
	}
	if (*row)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       known ? "reference %s has no row of %s at %s on %lld ranks"
			     : "reference %s is no id of reports/reference/reference_busbw.csv (%s "
			       "at %s on %lld ranks)",
		       key, collective, bb_format_size(size, size_bytes), (long long)nranks);
}
