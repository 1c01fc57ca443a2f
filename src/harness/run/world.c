/*
 * world.c - what the processes of a run agree on.
 */
#include "harness/run/world.h"

#include "core/random.h"
#include "core/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST sizeof(((struct bb_member *)0)->host)
#define SHOWN 64 /* bytes of a word in quotes, which is cut off */

/* ---- exchanging ------------------------------------------------------------------------ */

bb_status bb_assembly_collect(struct bb_assembly *a, const struct bb_payload *table,
			      const void *mine, size_t count, bool everywhere, void **all)
{
	const struct bb_launch *launch = a->launch;
	const bool here = everywhere || launch->proc == 0;

	*all = here ? calloc((size_t)launch->nprocs, count * table->bytes) : NULL;
	if (here && !*all) {
		a->lost = true;
		return bb_no_memory(a->error, "the processes");
	}
	const bb_status status = bb_launch_gather(a->launch, table, mine, count, everywhere, *all);
	if (status == BB_OK)
		return BB_OK;
	free(*all);
	*all = NULL;
	a->lost = true;
	if (launch->cause)
		return bb_fail(a->error, status, "%s", launch->cause);
	return bb_fail(a->error, status, "process %d cannot reach the others through %s",
		       launch->proc, launch->library ? launch->library : "the launch");
}

static void name_host(char host[HOST])
{
	if (gethostname(host, HOST - 1) != 0)
		snprintf(host, HOST, "an unknown host");
}

/* ---- agreeing -------------------------------------------------------------------------- */

struct cause {
	char host[HOST];
	char text[sizeof(((struct bb_error *)0)->text)];
};

static const struct bb_payload_field cause_fields[] = {
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct cause, host),
	BB_PAYLOAD_FIELD("the cause", BB_PAYLOAD_TEXT, struct cause, text),
	{.name = NULL}};
static const struct bb_payload cause_table = {"a cause", sizeof(struct cause), cause_fields, NULL};

bb_status bb_assembly_agree(struct bb_assembly *a, bb_status mine)
{
	struct cause cause = {.text = "it does not say why"}, *causes = NULL;
	int32_t *all, own = (int32_t)mine;
	int failed = 0;
	bb_status status;

	BB_TRY(status, bb_assembly_collect(a, &bb_payload_status, &own, 1, true, (void **)&all),
	       out);
	while (failed < a->launch->nprocs && all[failed] == BB_OK)
		failed++;
	if (failed == a->launch->nprocs)
		goto out;
	/* Every process sends its cause; process 0 takes over that of the first one. */
	name_host(cause.host);
	if (bb_error_status(a->error) != BB_OK)
		memcpy(cause.text, a->error->text, sizeof(cause.text));
	BB_TRY(status, bb_assembly_collect(a, &cause_table, &cause, 1, false, (void **)&causes),
	       out);
	status = (bb_status)all[failed];
	if (causes && failed > 0)
		bb_fail(a->error, status, "process %d (%s): %s", failed, causes[failed].host,
			causes[failed].text);
out:
	free(all);
	free(causes);
	return status;
}

static const struct bb_payload_field exit_fields[] =
	BB_PAYLOAD_ONE("the exit status", BB_PAYLOAD_EXIT, int32_t);
static const struct bb_payload exit_table = {"an exit status", sizeof(int32_t), exit_fields, NULL};

bb_status bb_assembly_end(struct bb_assembly *a, int *exit_status)
{
	int32_t *all, mine = (int32_t)*exit_status;
	bb_status status = bb_assembly_collect(a, &exit_table, &mine, 1, true, (void **)&all);

	if (status == BB_OK)
		*exit_status = all[0];
	free(all);
	return status;
}

bb_status bb_assembly_least(struct bb_assembly *a, uint64_t mine, uint64_t *least)
{
	uint64_t *all;
	bb_status status =
		bb_assembly_collect(a, &bb_payload_number, &mine, 1, true, (void **)&all);

	*least = mine;
	for (int p = 0; p < a->launch->nprocs && status == BB_OK; p++)
		*least = all[p] < *least ? all[p] : *least;
	free(all);
	return status;
}

/* ---- comparing ------------------------------------------------------------- */

static const struct bb_payload_field member_fields[] = {
	BB_PAYLOAD_FIELD("the version", BB_PAYLOAD_TEXT, struct bb_member, version),
	BB_PAYLOAD_FIELD("the library", BB_PAYLOAD_TEXT, struct bb_member, library),
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct bb_member, host),
	BB_PAYLOAD_FIELD("the pid", BB_PAYLOAD_SIGNED, struct bb_member, pid, .high = INT32_MAX),
	{.name = NULL}};
static const struct bb_payload member_table = {"an origin", sizeof(struct bb_member), member_fields,
					       NULL};

/* What must be the same in all processes, piece by piece: words of the command line, of which the
   last stands for all that follow, between the program and the backend; then the environment. */
enum { PROGRAM, BACKEND = 33, ENVIRONMENT, PIECES = ENVIRONMENT + BB_NENVIRONMENT };

struct request {
	struct {
		uint64_t digest; /* 0: there is none */
		char shown[SHOWN];
	} pieces[PIECES];
};

static const struct bb_payload_field request_fields[] = {
	BB_PAYLOAD_EACH("a digest", BB_PAYLOAD_ANY, struct request, pieces, .digest, PIECES),
	BB_PAYLOAD_EACH("a text", BB_PAYLOAD_TEXT, struct request, pieces, .shown, PIECES),
	{.name = NULL}};
static const struct bb_payload request_table = {"a request", sizeof(struct request), request_fields,
						NULL};

/* Process 0: names the first process whose request differs, and the first piece that does. */
static bb_status compare_requests(struct bb_assembly *a, const struct request *all)
{
	const char *what, *theirs, *ours;
	char advice[96], number[48] = "";
	int differ = 0, named = 0, piece = 0;

	for (int p = a->launch->nprocs - 1; p > 0; p--) {
		int i = 0;

		while (i < PIECES && all[p].pieces[i].digest == all[0].pieces[i].digest)
			i++;
		differ += i < PIECES;
		named = i < PIECES ? p : named;
		piece = i < PIECES ? i : piece;
	}
	if (differ == 0)
		return BB_OK;
	theirs = all[named].pieces[piece].shown;
	ours = all[0].pieces[piece].shown;
	if (strcmp(theirs, ours) == 0) /* they differ behind it */
		theirs = ours = piece == BACKEND - 1 ? "other words" : "a long word";
	if (piece == PROGRAM) {
		what = "the program";
		snprintf(advice, sizeof(advice), "; start the same everywhere");
	} else if (piece < BACKEND) {
		what = "the command line";
		snprintf(advice, sizeof(advice), " as word %d%s; give all the same", piece,
			 piece == BACKEND - 1 ? " and later" : "");
	} else if (piece == BACKEND) {
		what = "the backend";
		snprintf(advice, sizeof(advice), "; name one with --backend");
	} else {
		what = bb_environment_names[piece - ENVIRONMENT];
		snprintf(advice, sizeof(advice), "; give all the same (with mpirun: -x %s)", what);
	}
	if (differ > 1)
		snprintf(number, sizeof(number), " (%d processes differ)", differ);
	return bb_fail(a->error, BB_EUSAGE,
		       "%s of process %d (%s) differs from that of process 0 (%s): %s instead of "
		       "%s%s%s",
		       what, named, a->members[named].host, a->members[0].host, theirs, ours,
		       advice, number);
}

bb_status bb_assembly_compare(struct bb_assembly *a, int argc, char **argv,
			      const struct bb_environment *environment,
			      const struct bb_backend *backend)
{
	struct bb_member mine = {.version = BB_VERSION, .pid = (int)getpid()};
	const char *slash = strrchr(argv[0], '/');
	struct request request = {0}, *requests = NULL;
	bb_status status;

	snprintf(mine.library, sizeof(mine.library), "%s",
		 a->launch->library ? a->launch->library : "");
	name_host(mine.host);
	BB_TRY(status, bb_assembly_collect(a, &member_table, &mine, 1, true, (void **)&a->members),
	       out);
	for (int p = 1; p < a->launch->nprocs; p++) {
		const struct bb_member *its = &a->members[p], *first = &a->members[0];
		const bool release = strcmp(its->version, first->version) != 0;

		if (release || strcmp(its->library, first->library) != 0)
			return bb_fail(a->error, BB_EBACKEND,
				       "process %d (%s) runs with %s%s, process 0 (%s) with %s; "
				       "install one version everywhere",
				       p, its->host, release ? "busbench " : "",
				       release ? its->version : its->library, first->host,
				       release ? first->version : first->library);
	}
	for (int i = 0; i < PIECES; i++) {
		const bool quoted = i != PROGRAM && i != BACKEND;
		const char *text = i == PROGRAM   ? (slash ? slash + 1 : argv[0])
				   : i == BACKEND ? backend->name
				   : i > BACKEND  ? environment->values[i - ENVIRONMENT]
				   : i < argc     ? argv[i]
						  : NULL;
		uint64_t *const digest = &request.pieces[i].digest;

		snprintf(request.pieces[i].shown, SHOWN, quoted && text ? "\"%.*s\"" : "%.*s",
			 SHOWN - 3, text ? text : "nothing");
		if (text)
			*digest = bb_random_hash(BB_RANDOM_HASH, text, strlen(text) + 1);
		for (int k = i + 1; i == BACKEND - 1 && k < argc; k++)
			*digest = bb_random_hash(*digest, argv[k], strlen(argv[k]) + 1);
	}
	BB_TRY(status,
	       bb_assembly_collect(a, &request_table, &request, 1, false, (void **)&requests), out);
	if (requests)
		status = compare_requests(a, requests);
	status = bb_assembly_agree(a, status);
out:
	free(requests);
	return status;
}

/* Returns how many of the processes from FIRST to END are on this host. */
static int count_of_host(const struct bb_assembly *a, int first, int end)
{
	int n = 0;

	for (int p = first; p < end; p++)
		n += strcmp(a->members[p].host, a->members[a->launch->proc].host) == 0;
	return n;
}

int bb_assembly_before(const struct bb_assembly *a)
{
	return a->members ? count_of_host(a, 0, a->launch->proc) : 0;
}

int bb_assembly_here(const struct bb_assembly *a)
{
	return a->members ? count_of_host(a, 0, a->launch->nprocs) : 1;
}

bool bb_assembly_speaks_for_host(const struct bb_assembly *a)
{
	return a->launch->proc > 0 && count_of_host(a, 1, a->launch->proc) == 0;
}
