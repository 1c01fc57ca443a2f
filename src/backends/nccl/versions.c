/*
 * Is the library that was found usable, and which of its features? Why did a call of it fail, or
 * one of CUDA?
 */
#include "backends/nccl/nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define REMEDY "put the folder of a newer libnccl.so.2 first in LD_LIBRARY_PATH"

#define DETAIL 240

/* ---- failures ------------------------------------------------------------------------ */

/* Only the first failure of a process is reported: it ends all waits, and the later ones follow
   from it. */
static bb_status report_failure(const struct bb_rank *rank, struct bb_error *error,
				const char *call, const char *file, int line, const char *what,
				const char *detail)
{
	char who[32] = "";

	if (rank && bb_nccl_aborted(rank->context))
		return BB_ETIMEOUT;
	if (rank)
		snprintf(who, sizeof(who), "rank %d: ", rank->rank);
	/* The function of "function(arguments)". */
	bb_fail(error, BB_EBACKEND, "%s%.*s failed in %s:%d: %s%s%s", who, (int)strcspn(call, "("),
		call, file, line, what, *detail ? ": " : "", detail);
	if (rank)
		atomic_store(&rank->context->aborted, 1);
	return BB_EBACKEND;
}

bb_status bb_cuda_check(const struct bb_rank *rank, struct bb_error *error, cudaError_t result,
			const char *call, const char *file, int line)
{
	return result == cudaSuccess
		       ? BB_OK
		       : report_failure(rank, error, call, file, line, cudaGetErrorString(result),
					cudaGetErrorName(result));
}

bb_status bb_nccl_check(const struct bb_rank *rank, const struct bb_nccl_library *library,
			struct bb_error *error, ncclResult_t result, const char *call,
			const char *file, int line)
{
	char detail[DETAIL];

	if (result == ncclSuccess)
		return BB_OK;
	bb_nccl_last_error(library, detail, sizeof(detail));
	return report_failure(rank, error, call, file, line, library->ncclGetErrorString(result),
			      detail);
}

void bb_nccl_last_error(const struct bb_nccl_library *library, char *text, size_t room)
{
	/* NCCL before 2.13 lacks it; bb_nccl_library_open then reports the old version. */
	const char *last = library->ncclGetLastError ? library->ncclGetLastError(NULL) : NULL;
	size_t length = 0;

	for (; last && *last && length + 1 < room; last++)
		text[length++] = *last == '\n' ? ' ' : *last;
	text[length] = '\0';
}

/* ---- versions ------------------------------------------------------------------------ */

/* 22809 is 2.28.9; before 2.9 codes had one digit less. */
void bb_nccl_version_text(int code, char text[BB_NCCL_VERSION_TEXT])
{
	const int major = code < 10000 ? 1000 : 10000;

	snprintf(text, BB_NCCL_VERSION_TEXT, "%d.%d.%d", code / major, code % major / 100,
		 code % 100);
}

/* As bb_nccl_version_text, without the patch: 22703 is 2.27. */
static void since_text(int since, char text[BB_NCCL_VERSION_TEXT])
{
	snprintf(text, BB_NCCL_VERSION_TEXT, "%d.%d", since / 10000, since / 100 % 100);
}

static const char *library_path(const struct bb_nccl_library *library)
{
	Dl_info info;

	return dladdr((const void *)library->ncclGetVersion, &info) ? info.dli_fname
								    : "libnccl.so.2";
}

/* ---- the library --------------------------------------------------------------------- */

bb_status bb_nccl_library_open(struct bb_nccl_library *library, struct bb_error *error)
{
	int version = 0;
	char found[BB_NCCL_VERSION_TEXT];
	const char *missing = NULL; /* a function that VERSION should have */
	bb_status status;

	*library = (struct bb_nccl_library){.version = 0};
	BB_TRY(status, bb_nccl_library_find(library, error), out);
	BB_TRY(status,
	       bb_nccl_check(NULL, library, error, library->ncclGetVersion(&version),
			     "ncclGetVersion", __FILE__, __LINE__),
	       out);
	bb_nccl_version_text(version, found);
	if (version < BB_NCCL_LEAST)
		return bb_fail(
			error, BB_EBACKEND,
			"the nccl backend needs NCCL 2.18 or newer and found %s (%s); " REMEDY,
			found, library_path(library));
#define FUNCTION(since, function)                                                                  \
	if (!missing && version >= (since) && !library->function)                                  \
		missing = #function;
	BB_NCCL_FUNCTIONS(FUNCTION)
#undef FUNCTION
	if (missing)
		return bb_fail(
			error, BB_EBACKEND,
			"%s is NCCL %s by its version and lacks %s; reinstall it, or " REMEDY,
			library_path(library), found, missing);
	library->version = version;
out:
	return status;
}

bb_status bb_nccl_need(const struct bb_rank *rank)
{
	struct bb_context *const c = rank->context;

	if (rank->version > 0)
		return BB_OK;
	return bb_fail(c->error, BB_EBACKEND, "%s",
		       c->nccl.version > 0 ? "another process has no usable NCCL"
					   : c->unusable.text);
}

bb_status bb_nccl_require(const struct bb_nccl_library *library, int since, const char *option,
			  const char *feature, struct bb_error *error)
{
	const int version = library->version;
	char found[BB_NCCL_VERSION_TEXT], first[BB_NCCL_VERSION_TEXT];

	if (bb_nccl_has(version, since))
		return BB_OK;
	since_text(since, first);
	bb_nccl_version_text(version < since ? version : NCCL_VERSION_CODE, found);
	if (version < since)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "%s: %s needs NCCL %s or newer and found %s (%s); " REMEDY, option,
			       feature, first, found, library_path(library));
	return bb_fail(error, BB_EUNSUPPORTED,
		       "%s: %s needs NCCL %s or newer, and busbench was built with the headers of "
		       "%s; rebuild it with newer ones (NCCL_HOME)",
		       option, feature, first, found);
}

/* ---- for --list ---------------------------------------------------------------------- */

void bb_nccl_list(struct bb_strbuf *out)
{
	static const struct {
		int since;
		const char *name;
	} features[] = {
#define FEATURE(version, name) {version, name},
		BB_NCCL_FEATURES(FEATURE)
#undef FEATURE
	};
	const char *before = "  not used, because the library or the headers are older: ";
	char found[BB_NCCL_VERSION_TEXT], built[BB_NCCL_VERSION_TEXT], first[BB_NCCL_VERSION_TEXT];
	struct bb_error error = {.text = ""};
	struct bb_nccl_library library;

	if (bb_nccl_library_open(&library, &error) != BB_OK) {
		bb_strbuf_addf(out, "  not usable: %s\n", error.text);
		return;
	}
	bb_nccl_version_text(library.version, found);
	bb_nccl_version_text(NCCL_VERSION_CODE, built);
	bb_strbuf_addf(out, "  library: NCCL %s (%s), built with the headers of %s\n", found,
		       library_path(&library), built);
	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		if (bb_nccl_has(library.version, features[i].since))
			continue;
		since_text(features[i].since, first);
		bb_strbuf_addf(out, "%s%s (%s)", before, features[i].name, first);
		before = ", ";
	}
	if (before[0] == ',')
		bb_strbuf_add(out, "\n");
}
