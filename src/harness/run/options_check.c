/*
 * options_check.c - what the rows of the options of all programs cannot declare.
 */
#include "harness/run/options_check.h"
#include "core/units.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_TEXT 4096

/* ---- words -------------------------------------------------------------------------------- */

bool bb_next_word(const char **list, char word[BB_WORD])
{
	size_t length = strcspn(*list, ",");

	snprintf(word, BB_WORD, "%.*s", (int)(length < BB_WORD ? length : BB_WORD - 1), *list);
	*list += length;
	return length > 0 && length < BB_WORD;
}

/* ---- conflicts ------------------------------------------------------------ */

/* TEXT = "-g 8", "-t 2" or "-t 2 times -g 4". Returns TEXT. */
static const char *ranks_text(char text[64], const struct bb_options *o)
{
	if (o->threads == 1)
		snprintf(text, 64, "-g %lld", (long long)o->gpus);
	else if (o->gpus == 1)
		snprintf(text, 64, "-t %lld", (long long)o->threads);
	else
		snprintf(text, 64, "-t %lld times -g %lld", (long long)o->threads,
			 (long long)o->gpus);
	return text;
}

static bb_status check_ranks(const struct bb_options *o, const struct bb_launch_hint *launch,
			     struct bb_error *error)
{
	const int64_t local = o->threads * o->gpus;
	const int most = o->shows && o->backend->max_local < BB_MAX_RANKS ? BB_MAX_RANKS
									  : o->backend->max_local;
	const int nprocs = launch->nprocs > 1 ? launch->nprocs : 1;
	char ranks[64];

	if (local <= most)
		return BB_OK;
	ranks_text(ranks, o);
	if (most > 1)
		return bb_fail(
			error, BB_EUSAGE,
			"%s is more than %d ranks in one process, the most of the %s backend",
			ranks, most, o->backend->name);
	return bb_fail(error, BB_EUSAGE,
		       "%s: on %s a rank is a process; start %lld of them: %s %lld %s …%s", ranks,
		       o->backend->name, (long long)(local * nprocs),
		       launch->start ? launch->start : "mpirun -np", (long long)(local * nprocs),
		       o->program, nprocs > 1 ? "" : " (or give --backend host)");
}

static bb_status check_sizes(const struct bb_options *o, struct bb_error *error)
{
	char low[BB_UNIT_TEXT], high[BB_UNIT_TEXT];

	bb_format_size(low, o->min_bytes);
	bb_format_size(high, o->max_bytes);
	if (o->min_bytes > o->max_bytes)
		return bb_fail(error, BB_EUSAGE, "-b %s%s is above -e %s%s; give sizes that ascend",
			       low, o->min_bytes_given ? "" : " (the default)", high,
			       o->max_bytes_given ? "" : " (the default)");
	if (o->step_factor == 1 && !o->step_bytes_given && o->min_bytes < o->max_bytes)
		return bb_fail(error, BB_EUSAGE,
			       "-f 1 never gets from -b %s to -e %s; give a factor of at least 2, "
			       "or -i SIZE",
			       low, high);
	return BB_OK;
}

bb_status bb_check_outputs(const struct bb_options *o, const struct bb_output more[BB_MORE_OUTPUTS],
			   bool writes, struct bb_error *error)
{
	struct bb_output files[2 + BB_MORE_OUTPUTS] = {
		{"--csv", o->csv_file, o->output_folder, false},
		{"--json", o->json_file, o->output_folder, false}};
	bb_status st = BB_OK;

	if (more)
		memcpy(files + 2, more, BB_MORE_OUTPUTS * sizeof(*more));
	for (int i = 0; i < 2 + BB_MORE_OUTPUTS; i++) {
		if (!files[i].path)
			continue;
		if (writes)
			BB_TRY(st, bb_output_check(&files[i], error), out);
		for (int k = 0; k < i; k++) {
			if (files[k].path && bb_output_is_same(files[i].path, files[k].path))
				return bb_fail(error, BB_EUSAGE,
					       "%s and %s both write %s; give two files",
					       files[k].option, files[i].option, files[i].path);
		}
	}
out:
	return st;
}

bb_status bb_check_rank(const char *flag, const char *text, int rank, int nranks, const char *where,
			struct bb_error *error)
{
	char number[16], valid[24] = "0";

	if (rank < nranks)
		return BB_OK;
	snprintf(number, sizeof(number), "%d", rank);
	if (nranks > 1)
		snprintf(valid, sizeof(valid), "0 to %d", nranks - 1);
	return bb_fail(error, BB_EUSAGE, "%s %s: there is no rank %d %s %d rank%s; give %s", flag,
		       text ? text : number, rank, where, nranks, bb_plural(nranks), valid);
}

static bb_status check_links(const struct bb_options *o, struct bb_error *error)
{
	if (!o->backend->virtual || o->link.text || o->cluster_text || o->calibrate_text)
		return BB_OK;
	return bb_fail(
		error, BB_EUSAGE,
		"the %s backend needs links to simulate; give --link RATE,LATENCY, as in "
		"--link 25GB/s,5us, or --cluster NAME:NODES, as in --cluster hgx-h100:16, or "
		"--calibrate FILE",
		o->backend->name);
}

bb_status bb_options_check(const struct bb_options *o, const struct bb_launch_hint *launch,
			   struct bb_error *error)
{
	bb_status st;

	BB_TRY(st, check_ranks(o, launch, error), out);
	if (o->shows)
		goto out;
	BB_TRY(st, check_sizes(o, error), out);
	BB_TRY(st, check_links(o, error), out);
	st = bb_check_outputs(o, NULL, launch->proc == 0, error);
out:
	return st;
}

bb_status bb_options_check_world(const struct bb_options *o, const struct bb_world *world,
				 struct bb_error *error)
{
	const struct bb_cluster *c = o->cluster;
	const bool link = o->fault.kind == BB_FAULT_SLOW_LINK;
	const int most = link && o->fault.to > o->fault.rank ? o->fault.to : o->fault.rank;

	if (o->fault.kind == BB_FAULT_NONE)
		return BB_OK;
	if (o->virtual.flawed && (o->fault.rank >= c->nodes || o->fault.to >= c->rails))
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s: --cluster %s has nodes 0 to %d with rails 0 to %d",
			       o->fault_text, o->cluster_text, c->nodes - 1, c->rails - 1);
	if (o->fault.kind == BB_FAULT_LOST_RAIL && c->rails == 1)
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s: the nodes of --cluster %s have but one rail; without "
			       "it nothing ends",
			       o->fault_text, o->cluster_text);
	if (o->virtual.flawed)
		return BB_OK;
	return bb_check_rank("--fault", o->fault_text, most, world->nranks, "among", error);
}
