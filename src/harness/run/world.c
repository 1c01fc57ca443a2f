/*
 * world.c - what the processes of a run agree on.
 */
#include "harness/run/world.h"

#include "core/printable.h"
#include "harness/run/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST sizeof(((struct bb_member *)0)->host)
#define LIBRARY 128
#define SHOWN 60 /* bytes of a word that a message quotes */

/* ---- exchanging ------------------------------------------------------------------------ */

/* *ALL = the COUNT payloads of every process; with GATHER only at process 0, elsewhere NULL. */
static bb_status collect(struct bb_assembly *a, const struct bb_payload *table, const void *mine,
			 size_t count, bool gather, void **all)
{
	const struct bb_launch *launch = a->launch;
	const bool here = !gather || launch->proc == 0;
	bb_status status;

	*all = here ? calloc((size_t)launch->nprocs, count * table->bytes) : NULL;
	if (here && !*all) {
		a->lost = true;
		return bb_no_memory(a->error, "the processes");
	}
	status = gather ? bb_launch_gather(a->launch, table, mine, count, *all)
			: bb_launch_all_gather(a->launch, table, mine, count, *all);
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

bb_status bb_assembly_collect(struct bb_assembly *a, const struct bb_payload *table,
			      const void *mine, size_t count, void **all)
{
	return collect(a, table, mine, count, true, all);
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
	struct cause cause = {.text = "it does not say why"}, *causes;
	int32_t *all, own = (int32_t)mine;
	int failed = 0;
	bb_status status = collect(a, &bb_payload_status, &own, 1, false, (void **)&all), sent;

	if (status != BB_OK)
		return status;
	while (failed < a->launch->nprocs && all[failed] == BB_OK)
		failed++;
	status = failed < a->launch->nprocs ? (bb_status)all[failed] : BB_OK;
	free(all);
	if (status == BB_OK)
		return BB_OK;
	/* Every process sends its cause; process 0 takes over that of the first one. */
	name_host(cause.host);
	if (bb_error_status(a->error) != BB_OK)
		memcpy(cause.text, a->error->text, sizeof(cause.text));
	sent = collect(a, &cause_table, &cause, 1, true, (void **)&causes);
	if (sent != BB_OK)
		return sent;
	if (causes && failed > 0)
		bb_fail(a->error, status, "process %d (%s): %s", failed, causes[failed].host,
			causes[failed].text);
	free(causes);
	return status;
}

static const struct bb_payload_field exit_fields[] =
	BB_PAYLOAD_ONE("the exit status", BB_PAYLOAD_EXIT, int32_t);
static const struct bb_payload exit_table = {"an exit status", sizeof(int32_t), exit_fields, NULL};

bb_status bb_assembly_end(struct bb_assembly *a, int *exit_status)
{
	int32_t *all, mine = (int32_t)*exit_status;
	bb_status status = collect(a, &exit_table, &mine, 1, false, (void **)&all);

	if (status != BB_OK)
		return status;
	*exit_status = all[0];
	free(all);
	return BB_OK;
}

bb_status bb_assembly_least(struct bb_assembly *a, uint64_t mine, uint64_t *least)
{
	uint64_t *all;
	bb_status status = collect(a, &bb_payload_number, &mine, 1, false, (void **)&all);

	if (status != BB_OK)
		return status;
	*least = all[0];
	for (int p = 1; p < a->launch->nprocs; p++)
		*least = all[p] < *least ? all[p] : *least;
	free(all);
	return BB_OK;
}

/* ---- comparing ------------------------------------------------------------- */

/* The first payload that processes exchange. Its layout never changes, because other versions of
   busbench read it. */
struct origin {
	char version[32];
	char library[LIBRARY];
	struct bb_member member;
};

static const struct bb_payload_field origin_fields[] = {
	BB_PAYLOAD_FIELD("the version", BB_PAYLOAD_TEXT, struct origin, version),
	BB_PAYLOAD_FIELD("the library", BB_PAYLOAD_TEXT, struct origin, library),
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct origin, member.host),
	BB_PAYLOAD_FIELD("the pid", BB_PAYLOAD_SIGNED, struct origin, member.pid,
			 .high = INT32_MAX),
	{.name = NULL}};
static const struct bb_payload origin_table = {"an origin", sizeof(struct origin), origin_fields,
					       NULL};

#define WORDS 768
#define VALUE 48

struct request {
	char program[64];
	char backend[16];
	uint64_t digest; /* of all words */
	int nwords;
	int nkept;         /* the leading words, for which WORDS has room */
	char words[WORDS]; /* each with its NUL */
	struct {
		uint64_t digest;
		char value[VALUE]; /* in quotes, cut off */
	} environment[BB_NENVIRONMENT];
};

static const struct bb_payload_field request_fields[] = {
	BB_PAYLOAD_FIELD("the program", BB_PAYLOAD_TEXT, struct request, program),
	BB_PAYLOAD_FIELD("the backend", BB_PAYLOAD_TEXT, struct request, backend),
	BB_PAYLOAD_FIELD("the digest", BB_PAYLOAD_ANY, struct request, digest),
	BB_PAYLOAD_FIELD("the number of words", BB_PAYLOAD_SIGNED, struct request, nwords,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the number of words kept", BB_PAYLOAD_SIGNED, struct request, nkept,
			 .high = WORDS),
	BB_PAYLOAD_FIELD("the words", BB_PAYLOAD_ANY, struct request, words),
	BB_PAYLOAD_EACH("a digest", BB_PAYLOAD_ANY, struct request, environment, .digest,
			BB_NENVIRONMENT),
	BB_PAYLOAD_EACH("a value", BB_PAYLOAD_TEXT, struct request, environment, .value,
			BB_NENVIRONMENT),
	{.name = NULL}};

/* True if every word that is kept ends with a NUL. */
static bool request_fits(const void *payload)
{
	const struct request *r = payload;
	int ends = 0;

	for (size_t i = 0; i < WORDS; i++)
		ends += r->words[i] == '\0';
	return r->nkept <= r->nwords && r->nkept <= ends;
}

static const struct bb_payload request_table = {"a request", sizeof(struct request), request_fields,
						request_fits};

static uint64_t digest(uint64_t so_far, const char *text)
{
	const uint64_t prime = 0x100000001b3u; /* FNV-1a; the NUL of each word is included */

	do
		so_far = (so_far ^ (unsigned char)*text) * prime;
	while (*text++);
	return so_far;
}

#define DIGEST_START UINT64_C(0xcbf29ce484222325)

static void describe_request(struct request *r, int argc, char **argv,
			     const struct bb_environment *environment,
			     const struct bb_backend *backend)
{
	const char *slash = strrchr(argv[0], '/');
	size_t used = 0;

	memset(r, 0, sizeof(*r));
	snprintf(r->program, sizeof(r->program), "%s", slash ? slash + 1 : argv[0]);
	snprintf(r->backend, sizeof(r->backend), "%s", backend->name);
	r->digest = DIGEST_START;
	r->nwords = argc - 1;
	for (int i = 1; i < argc; i++) {
		size_t size = strlen(argv[i]) + 1;

		r->digest = digest(r->digest, argv[i]);
		if (r->nkept < i - 1 || used + size > WORDS)
			continue;
		memcpy(r->words + used, argv[i], size);
		used += size;
		r->nkept++;
	}
	for (int i = 0; i < BB_NENVIRONMENT; i++) {
		const char *value = bb_environment_value(environment, i);

		if (value)
			snprintf(r->environment[i].value, VALUE, "\"%.*s\"", VALUE - 3, value);
		else
			snprintf(r->environment[i].value, VALUE, "nothing");
		r->environment[i].digest = value ? digest(DIGEST_START, value) : 0;
	}
}

/* TEXT = word I in quotes, or why it cannot be quoted. */
static void show_word(char text[SHOWN + 8], const struct request *r, int i)
{
	const char *word = r->words;

	for (int k = 0; k < i && k < r->nkept; k++)
		word += strlen(word) + 1;
	if (i >= r->nwords)
		snprintf(text, SHOWN + 8, "nothing");
	else if (i >= r->nkept)
		snprintf(text, SHOWN + 8, "a long word");
	else
		snprintf(text, SHOWN + 8, "\"%.*s\"", SHOWN, word);
	bb_printable_clean(text);
}

/* Returns the part of R that differs from FIRST, and appends to HOW what differs; NULL: none does.
 */
static const char *find_difference(struct bb_strbuf *how, const struct request *r,
				   const struct request *first)
{
	const char *a = r->words, *b = first->words;
	char theirs[SHOWN + 8], ours[SHOWN + 8];
	int word = 0;

	bb_strbuf_clear(how);
	if (strcmp(r->program, first->program) != 0) {
		bb_strbuf_addf(how, "%s instead of %s; start the same everywhere", r->program,
			       first->program);
		return "the program";
	}
	if (r->digest != first->digest || r->nwords != first->nwords) {
		while (word < r->nkept && word < first->nkept && strcmp(a, b) == 0) {
			a += strlen(a) + 1;
			b += strlen(b) + 1;
			word++;
		}
		show_word(theirs, r, word);
		show_word(ours, first, word);
		bb_strbuf_addf(how, "%s instead of %s as word %d; give all the same", theirs, ours,
			       word + 1);
		return "the command line";
	}
	if (strcmp(r->backend, first->backend) != 0) {
		bb_strbuf_addf(how, "%s instead of %s; name one with --backend", r->backend,
			       first->backend);
		return "the backend";
	}
	for (int i = 0; i < BB_NENVIRONMENT; i++) {
		if (r->environment[i].digest == first->environment[i].digest)
			continue;
		bb_strbuf_addf(how, "%s instead of %s; give all the same (with mpirun: -x %s)",
			       r->environment[i].value, first->environment[i].value,
			       bb_environment_rows[i].name);
		return bb_environment_rows[i].name;
	}
	return NULL;
}

/* Process 0: names the first process whose request differs. */
static bb_status compare_requests(struct bb_assembly *a, const struct request *all)
{
	const char *what = NULL;
	int differ = 0, named = 0;
	struct bb_strbuf first = {0}, how = {0};
	bb_status status = BB_OK;

	for (int p = 1; p < a->launch->nprocs; p++) {
		const char *its = find_difference(differ ? &how : &first, &all[p], &all[0]);

		if (its && differ++ == 0) {
			what = its;
			named = p;
		}
	}
	if (differ > 1)
		bb_strbuf_addf(&first, " (%d processes differ)", differ);
	if (differ > 0)
		status = bb_fail(a->error, BB_EUSAGE,
				 "%s of process %d (%s) differs from that of process 0 (%s): %s",
				 what, named, a->members[named].host, a->members[0].host,
				 bb_strbuf_text(&first));
	bb_strbuf_free(&first);
	bb_strbuf_free(&how);
	return status;
}

bb_status bb_assembly_compare(struct bb_assembly *a, int argc, char **argv,
			      const struct bb_environment *environment,
			      const struct bb_backend *backend)
{
	struct origin mine = {.version = BB_VERSION}, *origins = NULL;
	struct request request, *requests = NULL;
	bb_status status;

	snprintf(mine.library, LIBRARY, "%s", a->launch->library ? a->launch->library : "");
	name_host(mine.member.host);
	mine.member.pid = (int)getpid();
	BB_TRY(status, collect(a, &origin_table, &mine, 1, false, (void **)&origins), out);
	for (int p = 1; p < a->launch->nprocs; p++) {
		const struct origin *its = &origins[p], *first = &origins[0];

		if (strcmp(its->version, first->version) != 0)
			status = bb_fail(a->error, BB_EBACKEND,
					 "process %d (%s) runs busbench %s, process 0 (%s) %s; "
					 "install one version everywhere",
					 p, its->member.host, its->version, first->member.host,
					 first->version);
		else if (strcmp(its->library, first->library) != 0)
			status = bb_fail(a->error, BB_EBACKEND,
					 "process %d (%s) runs with %s, process 0 (%s) with %s; "
					 "install one version everywhere",
					 p, its->member.host, its->library, first->member.host,
					 first->library);
		BB_TRY(status, status, out);
	}
	a->members = calloc((size_t)a->launch->nprocs, sizeof(*a->members));
	for (int p = 0; p < a->launch->nprocs && a->members; p++)
		a->members[p] = origins[p].member;
	status = a->members ? BB_OK : bb_no_memory(a->error, "the processes");
	BB_TRY(status, bb_assembly_agree(a, status), out);
	describe_request(&request, argc, argv, environment, backend);
	BB_TRY(status, collect(a, &request_table, &request, 1, true, (void **)&requests), out);
	if (requests)
		status = compare_requests(a, requests);
	status = bb_assembly_agree(a, status);
out:
	free(origins);
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

void bb_assembly_close(struct bb_assembly *a)
{
	free(a->members);
	a->members = NULL;
}
