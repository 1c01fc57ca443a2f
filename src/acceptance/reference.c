/*
 * reference.c - the table of published measurements.
 */
#include "acceptance/reference.h"

#include "core/array.h"
#include "core/strbuf.h"
#include "core/units.h"
#include "topology/cards.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 16
static const char header[] = "id,system,gpu,nodes,nranks,fabric,collective,algo,nccl,size_bytes,"
			     "placement,time_us,algbw_GBps,busbw_GBps,kind,source";

/* The file itself, as data. */
__asm__(".section .rodata\n"
	".globl bb_reference_begin\n.globl bb_reference_end\n"
	"bb_reference_begin:\n.incbin \"reports/reference/reference_busbw.csv\"\n"
	"bb_reference_end:\n.byte 0\n.previous\n");
extern const char bb_reference_begin[], bb_reference_end[];

/* CELL = the cell at *AT without its quotes; *AT moves behind its comma. */
static void read_cell(const char **at, const char *end, char *cell, size_t room)
{
	bool quoted = false;
	size_t n = 0;

	for (; *at < end && (quoted || **at != ','); ++*at) {
		if (**at == '"')
			quoted = !quoted;
		else if (n + 1 < room)
			cell[n++] = **at;
	}
	cell[n] = '\0';
	if (*at < end)
		++*at;
}

static bool whole(const char *text, int64_t *value)
{
	*value = 0;
	return !*text || (bb_parse_int(text, value) && *value > 0);
}

static bool number(const char *text, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	return end != text && !*end && errno == 0 && *value >= 0 && *value < 1e9;
}

/* Copies as much of TEXT as fits in ROOM. */
static void keep(char *into, size_t room, const char *text)
{
	const size_t n = strnlen(text, room - 1);

	memcpy(into, text, n);
	into[n] = '\0';
}
#define KEEP(target, text) keep(target, sizeof(target), text)

static bool read_row(const char *at, const char *end, struct bb_reference *row)
{
	char cell[COLUMNS][128];
	int64_t size;

	for (int i = 0; i < COLUMNS; i++)
		read_cell(&at, end, cell[i], sizeof(cell[i]));
	KEEP(row->id, cell[0]);
	KEEP(row->system, cell[1]);
	row->card = bb_card_find(cell[2]);
	KEEP(row->fabric, cell[5]);
	KEEP(row->collective, cell[6]);
	KEEP(row->algo, cell[7]);
	KEEP(row->kind, cell[14]);
	KEEP(row->source, cell[15]);
	row->in_place = strcmp(cell[10], "ip") == 0 ? 1 : strcmp(cell[10], "oop") == 0 ? 0 : -1;
	if (!whole(cell[3], &row->nodes) || !whole(cell[4], &row->nranks) || !whole(cell[9], &size))
		return false;
	row->size_bytes = (uint64_t)size;
	return row->id[0] && row->source[0] && row->card && number(cell[13], &row->busbw_GBps);
}

static bool append(struct bb_references *table, const struct bb_reference *row)
{
	struct bb_reference *new = BB_ARRAY_ADD(table->rows, table->n, table->room);

	if (new)
		*new = *row;
	return new;
}

/* Read TEXT, a table with its header line. BB_EUSAGE names the line that is wrong. */
static bb_status references_read(const char *text, size_t length, struct bb_references *table,
				 struct bb_error *error)
{
	const char *const end = text + length, *next;
	struct bb_reference row;

	*table = (struct bb_references){.n = 0};
	for (int line = 1; text < end; line++, text = next) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		stop = stop ? stop : end;
		next = stop < end ? stop + 1 : end;
		stop -= stop > text && stop[-1] == '\r';
		if (line == 1) {
			if ((size_t)(stop - text) != strlen(header) ||
			    memcmp(text, header, strlen(header)) != 0)
				return bb_fail(error, BB_EUSAGE,
					       "reference table: its first line is not %s", header);
			continue;
		}
		if (!read_row(text, stop, &row)) {
			bb_references_free(table);
			return bb_fail(error, BB_EUSAGE,
				       "reference table, line %d: not a row of %s, or a gpu that "
				       "is not in src/topology/cards.c",
				       line, header);
		}
		if (!append(table, &row)) {
			bb_references_free(table);
			return bb_no_memory(error, "the references");
		}
	}
	return BB_OK;
}

bb_status bb_references_own(struct bb_references *table, struct bb_error *error)
{
	return references_read(bb_reference_begin, (size_t)(bb_reference_end - bb_reference_begin),
			       table, error);
}

void bb_references_free(struct bb_references *table)
{
	free(table->rows);
	*table = (struct bb_references){.n = 0};
}

/* True if KEY, "ID" or "ID:ALGO", is that of ROW. */
static bool key_is(const struct bb_reference *row, const char *key)
{
	const size_t id = strcspn(key, ":");

	return strlen(row->id) == id && strncmp(row->id, key, id) == 0 &&
	       (!key[id] || strcmp(row->algo, key + id + 1) == 0);
}

bb_status bb_references_find(const struct bb_references *table, const char *key,
			     const char *collective, uint64_t size_bytes, int64_t nranks,
			     int in_place, const struct bb_reference **row, struct bb_error *error)
{
	char size[BB_UNIT_TEXT];
	bool known = false;

	*row = NULL;
	for (size_t i = 0; i < table->n; i++) {
		const struct bb_reference *r = &table->rows[i];

		if (!key_is(r, key))
			continue;
		known = true;
		if (strcmp(r->collective, collective) != 0 || r->size_bytes != size_bytes ||
		    (r->nranks > 0 && r->nranks != nranks) ||
		    (in_place >= 0 && r->in_place >= 0 && r->in_place != in_place))
			continue;
		if (*row && strcmp((*row)->algo, r->algo) != 0)
			return bb_fail(error, BB_EUSAGE,
				       "reference %s has several algorithms there; say %s:%s or "
				       "%s:%s",
				       key, key, (*row)->algo, key, r->algo);
		if (!*row)
			*row = r;
	}
	if (*row)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       known ? "reference %s has no row of %s at %s on %lld ranks"
			     : "reference %s is no id of reports/reference/reference_busbw.csv "
			       "(%s at %s on %lld ranks)",
		       key, collective, bb_format_size(size, size_bytes), (long long)nranks);
}
