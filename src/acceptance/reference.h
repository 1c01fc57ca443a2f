/*
 * reference.h - published measurements: reports/reference/reference_busbw.csv, which is part of the
 * binary.
 */
#pragma once

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct bb_card;

/* The day on which the table was last compared with its sources. */
#define BB_REFERENCE_DATE "2026-11-22"

/* One row. Texts are empty where the source does not say. */
struct bb_reference {
	const struct bb_card *card;
	char id[32], system[64], fabric[64], collective[24], algo[24];
	int64_t nodes;       /* if not said, as few as hold the ranks */
	int64_t nranks;      /* 0: not said */
	uint64_t size_bytes; /* 0: not said, "large" */
	int in_place;        /* -1: not said */
	double busbw_GBps;
	char kind[48], source[128];
};

struct bb_references { /* free the rows, whatever bb_references_own returns */
	struct bb_reference *rows;
	size_t n, room;
};

/* The table that is part of the binary. */
BB_MUST bb_status bb_references_own(struct bb_references *table, struct bb_error *error);

/*
 * The row that KEY ("ID", or "ID:ALGO" where an id has several) has for a collective at a size
 * on NRANKS; IN_PLACE -1: either. BB_EUSAGE: there is none, or several that differ, said in ERROR.
 */
BB_MUST bb_status bb_references_find(const struct bb_references *table, const char *key,
				     const char *collective, uint64_t size_bytes, int64_t nranks,
				     int in_place, const struct bb_reference **row,
				     struct bb_error *error);
