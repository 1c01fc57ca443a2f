#include "harness/options_check.h"
#include "core/units.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_TEXT 4096

/* "-g 8", "-t 2" or "-t 2 times -g 4". */
static const char *ranks_asked(char text[64], const struct bb_options *o)
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
	const int most = o->explain ? BB_MAX_RANKS : o->backend->max_local();
	const int nprocs = launch->nprocs > 1 ? launch->nprocs : 1;
	char asked[64];

	if (local <= most)
		return BB_OK;
	ranks_asked(asked, o);
	if (most > 1)
		return bb_fail(
			error, BB_EUSAGE,
			"%s is more than %d ranks in one process, the most of the %s backend",
			asked, most, o->backend->name);
	return bb_fail(error, BB_EUSAGE,
		       "%s: on %s a rank is a process; start %lld of them: %s %lld %s …%s", asked,
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
		return bb_fail(error, BB_EUSAGE, "-b %s is above -e %s%s; give sizes that ascend",
			       low, high, o->max_bytes_given ? "" : " (the default)");
	if (o->step_factor == 1 && !o->step_bytes_given && o->min_bytes < o->max_bytes)
		return bb_fail(error, BB_EUSAGE,
			       "-f 1 never gets from -b %s to -e %s; give a factor of at least 2, "
			       "or -i SIZE",
			       low, high);
	return BB_OK;
}

static bb_status check_counts(const struct bb_options *o, struct bb_error *error)
{
	if (o->per_iter_skip >= o->iters)
		return bb_fail(error, BB_EUSAGE,
			       "-K %lld leaves nothing of -n %lld iterations; give 0 … %lld",
			       (long long)o->per_iter_skip, (long long)o->iters,
			       (long long)o->iters - 1);
	if (o->fault.kind == BB_FAULT_CORRUPT && o->check == 0)
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s makes data wrong that -c 0 never checks; leave -c out",
			       o->fault_text);
	return BB_OK;
}

/* A single datatype and a single operation that exclude each other; lists are sorted out by the
   plan. */
static bb_status check_op(const struct bb_options *o, const struct bb_collective *collective,
			  struct bb_error *error)
{
	int dtype, op;

	if (!(collective->flags & BB_REDUCES))
		return BB_OK;
	for (dtype = 0; dtype < BB_NDTYPES; dtype++) {
		for (op = 0; op < BB_NOPS; op++) {
			if ((o->dtypes >> dtype & 1) && (o->ops >> op & 1) &&
			    bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
				return BB_OK;
		}
	}
	return bb_fail(error, BB_EUSAGE,
		       "-o %s does not take -d %s: logical and bitwise operations take integers, "
		       "maxloc and minloc take %s, all others any number",
		       o->op_text, o->dtype_text, bb_dtype_name(BB_FLOAT_INT));
}

static bb_status check_gpu_only(const struct bb_options *o, struct bb_error *error)
{
	const struct {
		const char *flag, *what;
		bool asked;
		int64_t value;
	} rows[] = {
		{"-G", "captured graphs", o->cudagraph > 0, o->cudagraph},
		{"-y", "default stream", o->stream_null > 0, o->stream_null},
		{"-R", "buffer registration", o->local_register > 0, o->local_register},
		{"-x", "thread block policies", o->cta_policy_given, o->cta_policy},
		{"-D", "device-side kernels", o->device_implementation > 0,
		 o->device_implementation},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].asked && !(o->backend->capabilities & BB_CAP_GPU))
			return bb_fail(error, BB_EUNSUPPORTED,
				       "%s %lld: the %s backend has no %s; only the nccl backend "
				       "has",
				       rows[i].flag, (long long)rows[i].value, o->backend->name,
				       rows[i].what);
	}
	if (o->device_implementation > 0 && o->local_register != 2)
		return bb_fail(error, BB_EUSAGE,
			       "-D %lld needs -R 2: device kernels work on symmetric windows",
			       (long long)o->device_implementation);
	return BB_OK;
}

/* Whether PATH can be written; it is not created. */
static bb_status check_file(const char *flag, const char *path, struct bb_error *error)
{
	char copy[PATH_TEXT];
	struct stat st;
	int cause;

	if (strcmp(path, "-") == 0)
		return BB_OK;
	if (!*path)
		return bb_fail(error, BB_EUSAGE, "%s: an empty file name", flag);
	if (strlen(path) >= sizeof(copy))
		return bb_fail(error, BB_EUSAGE, "%s: the file name is too long", flag);
	if (stat(path, &st) == 0) {
		if (!S_ISDIR(st.st_mode) && access(path, W_OK) == 0)
			return BB_OK;
		cause = S_ISDIR(st.st_mode) ? EISDIR : errno;
	} else {
		snprintf(copy, sizeof(copy), "%s", path);
		if (errno == ENOENT && access(dirname(copy), W_OK | X_OK) == 0 &&
		    path[strlen(path) - 1] != '/')
			return BB_OK;
		cause = errno;
	}
	return bb_fail(error, BB_EUSAGE, "%s: %s cannot be written: %s", flag, path,
		       strerror(cause));
}

/* Regular files only: /dev/null may be given twice. */
static bool same_file(const char *a, const char *b)
{
	struct stat sa, sb;
	bool have_a = stat(a, &sa) == 0, have_b = stat(b, &sb) == 0;

	if (have_a && have_b)
		return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
	return strcmp(a, b) == 0;
}

/* Only process 0 writes; the hosts of others may not have the folder. */
static bb_status check_files(const struct bb_options *o, bool writes, struct bb_error *error)
{
	const struct {
		const char *flag, *path;
	} files[] = {{"--csv", o->csv_file}, {"--json", o->json_file}, {"-J", o->output_file}};
	const char *dot;
	bb_status st;
	int i, k;

	for (i = 0; i < 3; i++) {
		if (!files[i].path)
			continue;
		if (writes)
			BB_TRY(st, check_file(files[i].flag, files[i].path, error), out);
		for (k = 0; k < i; k++) {
			if (files[k].path && same_file(files[i].path, files[k].path))
				return bb_fail(error, BB_EUSAGE,
					       "%s and %s both write %s; give two files",
					       files[k].flag, files[i].flag, files[i].path);
		}
	}
	dot = o->output_file ? strrchr(o->output_file, '.') : NULL;
	if (o->output_file && (!dot || strcasecmp(dot, ".json") != 0))
		return bb_fail(error, BB_EUSAGE,
			       "-J %s: the file name must end in .json (for other formats see "
			       "--csv and --json)",
			       o->output_file);
	st = BB_OK;
out:
	return st;
}

/* WHERE: "among" all ranks, or in a smaller group. */
static bb_status check_rank(const char *flag, const char *text, int rank, int nranks,
			    const char *where, struct bb_error *error)
{
	if (rank < nranks)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE, "%s %s: there is no rank %d %s %d ranks; give 0 … %d",
		       flag, text, rank, where, nranks, nranks - 1);
}

/* --explain plays one root, sums, and as much as can be read. */
static bb_status check_explain(const struct bb_options *o, const struct bb_collective *collective,
			       struct bb_error *error)
{
	const int n = (int)(o->threads * o->gpus);
	const uint64_t least =
		(collective->flags & BB_ROUNDED ? (uint64_t)n : 1) * bb_dtype_size(BB_FLOAT);
	char size[BB_UNIT_TEXT];

	if ((collective->flags & BB_REDUCES) && o->ops != 1U << BB_SUM)
		return bb_fail(error, BB_EUSAGE, "-o %s: --explain shows sums; leave -o out",
			       o->op_text);
	if ((collective->flags & BB_ROOTED) && o->root == BB_ROOT_ALL)
		return bb_fail(error, BB_EUSAGE, "-r %s: --explain shows one root; name it",
			       o->root_text);
	if (o->min_bytes_given && (o->min_bytes < least || o->min_bytes > BB_EXPLAIN_BYTES))
		return bb_fail(error, BB_EUSAGE,
			       "-b %s: --explain shows every element, 4 bytes each; give from "
			       "%llu to %d bytes, or leave -b out for the fewest",
			       bb_format_size(size, o->min_bytes), (unsigned long long)least,
			       BB_EXPLAIN_BYTES);
	if (collective->flags & BB_ROOTED)
		return check_rank("-r", o->root_text, o->root, n, "among", error);
	return BB_OK;
}

bb_status bb_options_check(const struct bb_options *o, const struct bb_collective *collective,
			   const struct bb_launch_hint *launch, struct bb_error *error)
{
	bb_status st;

	BB_TRY(st, check_ranks(o, launch, error), out);
	if (o->explain) {
		st = check_explain(o, collective, error);
		goto out;
	}
	BB_TRY(st, check_sizes(o, error), out);
	BB_TRY(st, check_counts(o, error), out);
	BB_TRY(st, check_op(o, collective, error), out);
	BB_TRY(st, check_files(o, launch->proc == 0, error), out);
	st = check_gpu_only(o, error);
out:
	return st;
}

bb_status bb_options_validate_world(const struct bb_options *o,
				    const struct bb_collective *collective,
				    const struct bb_world *world, int group_min,
				    struct bb_error *error)
{
	bb_status st;

	if (collective->flags & BB_ROOTED)
		BB_TRY(st,
		       check_rank("-r", o->root_text, o->root, group_min,
				  group_min < world->nranks ? "in the smallest group, of" : "among",
				  error),
		       out);
	if (o->fault.kind != BB_FAULT_NONE)
		BB_TRY(st,
		       check_rank("--fault", o->fault_text, o->fault.rank, world->nranks, "among",
				  error),
		       out);
	st = BB_OK;
out:
	return st;
}
