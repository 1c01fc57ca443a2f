/*
 * claims.h - reported bandwidths of records, or of a log or JSON of nccl-tests.
 */
#pragma once

#include "logs/claims.h"

/*
 * *FILE = the tables in the LENGTH bytes of TEXT, which messages call PATH: records if there is
 * one, JSON of nccl-tests (-J), else its text. BB_EUSAGE: there is no table, or a record is broken.
 * Free *FILE.
 */
BB_MUST bb_status bb_claims_read(const char *path, const char *text, size_t length,
				 struct bb_claim_file *file, struct bb_error *error);

struct bb_records;
/* Adds the rows of FILE, read from PATH, to RECORDS: a run for each table. Returns false without
   memory. */
bool bb_claims_records(const char *path, const struct bb_claim_file *file,
		       struct bb_records *records);

/* The same of the file PATH, "-" being standard input. */
BB_MUST bb_status bb_claims_open(const char *path, struct bb_claim_file *file,
				 struct bb_error *error);
