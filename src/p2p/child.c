/*
 * child.c - the half of a run that needs the library in another state. A library chooses its state
 * once per process, so the half with its P2P off is measured by a child process: the same program
 * with the same command line, which writes its records to its stdout as JSON lines. Its stderr is
 * the user's.
 */
#include "p2p/pairs.h"

#include "core/array.h"
#include "core/clock.h"
#include "core/json.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PARENT "BUSBENCH_P2P_PARENT" /* the parent's process; only in a child's environment */
#define PROGRAM "/proc/self/exe"
#define PROCESS_TEXT 24
#define KIND_TEXT 16
#define MOST_LINE ((size_t)1 << 20)
/* Beyond -T, which the child obeys itself and reports in more detail. */
#define GRACE_S 5.0
#define SUBJECT "the child process that measures with P2P of the library off"

/* What findings are judged by: the rounds of one rank with one peer. Between the two processes. */
#define BB_FLOOR_FIELDS(FIELD)                                                                     \
	FIELD(STRING, route, "", "name of the route")                                              \
	FIELD(BOOL, bidirectional, "", "both directions at once, or a ping")                       \
	FIELD(INT, size_bytes, "bytes", "size of a transfer; null: a ping")                        \
	FIELD(INT, rank, "", "rank that timed it")                                                 \
	FIELD(INT, peer, "", "its peer")                                                           \
	FIELD(DOUBLE, shortest_s, "s", "shortest times, ascending")                                \
	FIELD(DOUBLE, second_s, "s", "")                                                           \
	FIELD(DOUBLE, third_s, "s", "")                                                            \
	FIELD(INT, rounds, "", "all rounds")                                                       \
	FIELD(INT, near, "", "those that were undisturbed")

struct floor_record {
	BB_FLOOR_FIELDS(BB_MEMBER)
};

#define BB_RECORD floor_record
BB_RECORD_KIND(bb_record_floor, BB_FLOOR_FIELDS, "floor", "Times by which a pair is judged.");

static const struct bb_field no_fields[] = {{.name = NULL}};
static const struct bb_record_kind record_alive = {.name = "alive", .fields = no_fields};

/* A record of the child, and the strings that it borrows. */
struct bb_child_record {
	const struct bb_record_kind *kind; /* pair, skip or floor */
	union {
		struct bb_pair_record pair;
		struct bb_skip_record skip;
		struct floor_record floor;
	} of;
	char *text;
};

/* ---- in the child ---------------------------------------------------------------------------- */

bb_status bb_child_find(bool *is, struct bb_error *error)
{
	const char *parent = getenv(PARENT);
	char text[PROCESS_TEXT];

	*is = parent != NULL;
	if (!parent)
		return BB_OK;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof(text), "%ld", (long)getppid());
	/* The parent may have died before that. */
	if (strcmp(parent, text) != 0)
		return bb_fail(error, BB_EUSAGE,
			       PARENT "=%s: busbench sets it for its own child processes; unset it",
			       parent);
	return BB_OK;
}

bb_status bb_child_write_alive(struct bb_pairs *pairs)
{
	return bb_sinks_record(&pairs->run->sinks, &record_alive, pairs);
}

bb_status bb_child_write_floors(struct bb_pairs *pairs)
{
	bb_status status = BB_OK;

	for (size_t k = 0; k < pairs->nmatrices; k++)
		for (int i = 0; i < pairs->n * pairs->n && status == BB_OK; i++) {
			const struct bb_cell *cell = &pairs->judged[k].cell;
			const struct bb_floor *floor = &pairs->judged[k].floors[i];
			const struct floor_record r = {
				.route = cell->route->name,
				.bidirectional = cell->bidirectional,
				.size_bytes = cell->ping ? BB_ABSENT : (int64_t)cell->bytes,
				.rank = i / pairs->n,
				.peer = i % pairs->n,
				.shortest_s = floor->kept[0],
				.second_s = floor->kept[1],
				.third_s = floor->kept[2],
				.rounds = floor->rounds,
				.near = floor->near};

			status = bb_sinks_record(&pairs->run->sinks, &bb_record_floor, &r);
		}
	return status;
}

/* ---- in the parent: its lines ---------------------------------------------------------------- */

struct child {
	struct bb_pairs *pairs;
	pid_t process;    /* 0: none that has not been waited for */
	int fd;           /* to be read; -1: none */
	int status;       /* once it has ended, as waitpid reports it */
	double last_read; /* time of the last bytes, on the monotonic clock */
	struct bb_strbuf lines;
	int64_t received,
		results; /* records of pairs; those that its end record counts; -1: no end */
};

/* Fill the members of RECORD, which bb_record_init has initialised, from LINE. TEXT has room for
   the strings. */
static void record_read(const struct bb_record_kind *kind, const char *line, void *record,
			char *text)
{
	const size_t room = strlen(line) + 1;

	for (const struct bb_field *f = kind->fields; f->name; f++) {
		char *const member = (char *)record + f->offset, *to = text;
		double number;

		if (f->type == BB_FIELD_BOOL)
			(void)bb_json_find_bool(line, f->name, (bool *)member);
		else if (f->type == BB_FIELD_DOUBLE)
			(void)bb_json_find_number(line, f->name, (double *)(void *)member);
		else if (f->type == BB_FIELD_INT && bb_json_find_number(line, f->name, &number) &&
			 fabs(number) < 1e18)
			*(int64_t *)(void *)member = (int64_t)number;
		else if (f->type == BB_FIELD_STRING &&
			 bb_json_find_string(line, f->name, text, room)) {
			*(const char **)(void *)member = text;
			for (const char *from = text; *from; from++) /* text has no controls */
				*to++ = *from == '\\' && from[1] ? *++from : *from;
			*to = '\0';
			text = to + 1;
		}
	}
}

static bool is_seconds(double value)
{
	return value >= 0 && value <= BB_PAYLOAD_MOST_SECONDS;
}

/* Does the record have all that is used of it? */
static bool is_sound(const struct bb_pairs *pairs, const struct bb_child_record *r)
{
	const struct bb_pair_record *p = &r->of.pair;
	const struct floor_record *f = &r->of.floor;
	const int n = pairs->n;

	if (r->kind == &bb_record_pair)
		return p->quantity && p->route && p->p2p && p->direction && p->path && p->actor &&
		       p->from < n && p->to < n && is_seconds(p->p50_us) && is_seconds(p->max_us);
	if (r->kind == &bb_record_skip)
		return r->of.skip.algorithm && r->of.skip.reason;
	return f->route && f->rank >= 0 && f->rank < n && f->peer >= 0 && f->peer < n &&
	       is_seconds(f->shortest_s) && is_seconds(f->second_s) && is_seconds(f->third_s) &&
	       f->near >= 0 && f->near <= f->rounds && f->rounds <= INT32_MAX;
}

static bb_status fail_invalid(struct child *c, const char *why)
{
	return bb_fail(&c->pairs->run->error, BB_EINTERNAL,
		       SUBJECT " sent an invalid record after %lld results: %s",
		       (long long)c->received, why);
}

static bb_status line_receive(struct child *c, const char *line)
{
	static const struct bb_record_kind *const kinds[] = {&bb_record_pair, &bb_record_skip,
							     &bb_record_floor};
	struct bb_pairs *pairs = c->pairs;
	const size_t used = strlen(pairs->library_text);
	char word[KIND_TEXT], state[BB_SWITCH_TEXT + 32];
	struct bb_child_record *r;
	double results;

	if (!bb_json_find_string(line, "kind", word, sizeof(word)))
		return fail_invalid(c, "it has no kind");
	if (c->results >= 0)
		return fail_invalid(c, "it comes after the end");
	if (strcmp(word, "run") == 0 &&
	    bb_json_find_string(line, "library_p2p", state, sizeof(state)))
		snprintf(pairs->library_text + used, sizeof(pairs->library_text) - used,
			 "; in a child process %s", state);
	if (strcmp(word, "end") == 0) {
		if (!bb_json_find_number(line, "results", &results) || !(results >= 0))
			return fail_invalid(c, "its end counts no results");
		c->results = (int64_t)results;
	}
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		if (strcmp(word, kinds[k]->name) != 0)
			continue;
		r = BB_ARRAY_ADD(pairs->child, pairs->nchild, pairs->child_room);
		if (!r)
			return bb_no_memory(&pairs->run->error, "results");
		r->kind = kinds[k];
		r->text = malloc(strlen(line) + 1);
		if (!r->text)
			return bb_no_memory(&pairs->run->error, "results");
		bb_record_init(r->kind, &r->of);
		record_read(r->kind, line, &r->of, r->text);
		if (!is_sound(pairs, r))
			return fail_invalid(c, line);
		c->received += r->kind == &bb_record_pair;
	}
	return BB_OK;
}

/* Read and handle all that has arrived. */
static bb_status listen(struct child *c)
{
	char bytes[4096], *end;
	bb_status status = BB_OK;
	ssize_t n;

	while (status == BB_OK && (n = read(c->fd, bytes, sizeof(bytes) - 1)) > 0) {
		c->last_read = bb_clock_now();
		if (memchr(bytes, '\0', (size_t)n) || c->lines.length > MOST_LINE)
			return fail_invalid(c, "it is no line of text");
		bytes[n] = '\0';
		for (char *at = bytes; status == BB_OK && *at; at = end) {
			end = at + strcspn(at, "\n");
			bb_strbuf_addf(&c->lines, "%.*s", (int)(end - at), at);
			if (!*end)
				break;
			end++;
			if (bb_strbuf_failed(&c->lines))
				return bb_no_memory(&c->pairs->run->error, "results");
			status = line_receive(c, bb_strbuf_text(&c->lines));
			bb_strbuf_clear(&c->lines);
		}
	}
	return status;
}

/* ---- in the parent: its process -------------------------------------------------------------- */

/* The child is in a process group of its own, so that a signal from the terminal reaches only the
   parent, which reports it once and ends the child. */
static bb_status start(struct child *c)
{
	char *const *words = c->pairs->run->record.args.words;
	char parent[sizeof(PARENT) + PROCESS_TEXT], **environment;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	cpu_set_t mine[BB_CPU_SETS];
	sigset_t none;
	int ends[2] = {-1, -1}, error = 0;
	size_t n = 0;

	snprintf(parent, sizeof(parent), PARENT "=%ld", (long)getpid());
	while (environ[n])
		n++;
	environment = calloc(n + 2, sizeof(*environment));
	if (!environment)
		return bb_no_memory(&c->pairs->run->error, SUBJECT);
	memcpy(environment, environ, n * sizeof(*environment));
	environment[n] = parent;
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	/* This thread is pinned; the child must not be. */
	if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ||
	    sched_getaffinity(0, sizeof(mine), mine) != 0 ||
	    sched_setaffinity(0, sizeof(mine), c->pairs->cpus) != 0) {
		error = errno;
		goto out;
	}
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	error = posix_spawn(&c->process, PROGRAM, &actions, &attributes, words, environment);
	c->process = error == 0 ? c->process : 0;
	if (sched_setaffinity(0, sizeof(mine), mine) != 0)
		error = errno;
out:
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	free(environment);
	c->fd = ends[0];
	if (ends[1] >= 0)
		close(ends[1]);
	c->last_read = bb_clock_now();
	return error == 0 ? BB_OK
			  : bb_fail(&c->pairs->run->error, BB_EINTERNAL,
				    "cannot start " SUBJECT ": %s", strerror(error));
}

/* The child obeys -T itself, so the run's deadline is renewed while it sends something. */
bb_status bb_child_run(struct bb_driver *driver, struct bb_pairs *pairs)
{
	const struct timespec moment = {.tv_nsec = BB_MOMENT_NS};
	const uint64_t timeout_ns = pairs->run->options.timeout_ns;
	const double patience = 1e-9 * (double)timeout_ns + GRACE_S;
	struct bb_error *error = &pairs->run->error;
	struct child c = {.pairs = pairs, .fd = -1, .results = -1};
	bool over = false;
	bb_status status = start(&c);

	while (status == BB_OK && !over) {
		over = waitpid(c.process, &c.status, WNOHANG) == c.process;
		c.process = over ? 0 : c.process;
		status = listen(&c);
		if (status != BB_OK || over)
			break;
		if (bb_driver_is_stopping(driver)) {
			status = BB_ETIMEOUT;
			break;
		}
		bb_driver_deadline(driver, SUBJECT);
		if (timeout_ns && bb_clock_now() > c.last_read + patience)
			status = bb_fail(error, BB_ETIMEOUT,
					 SUBJECT " has sent nothing for %.0f s (-T)", patience);
		else
			nanosleep(&moment, NULL);
	}
	if (c.process) {
		kill(c.process, SIGKILL);
		waitpid(c.process, NULL, 0);
	}
	if (c.fd >= 0)
		close(c.fd);
	bb_strbuf_free(&c.lines);
	if (status != BB_OK)
		return status;
	if (WIFSIGNALED(c.status))
		return bb_fail(error, BB_EBACKEND, SUBJECT " was ended by signal %d (%s)",
			       WTERMSIG(c.status), strsignal(WTERMSIG(c.status)));
	/* Wrong data, or no case that fits into memory, is found by the parent too. */
	const int code = WEXITSTATUS(c.status);
	if (code != BB_OK && !(c.results >= 0 && (code == BB_EDATA || code == BB_EUNSUPPORTED)))
		return bb_fail(error, code > BB_EDATA ? BB_EBACKEND : (bb_status)code,
			       SUBJECT " failed with exit status %d; --p2p on leaves it out", code);
	if (c.results < 0)
		return bb_fail(error, BB_EINTERNAL, SUBJECT " sent no end after %lld results",
			       (long long)c.received);
	if (c.received != c.results)
		return bb_fail(error, BB_EINTERNAL, SUBJECT " sent %lld of its %lld results",
			       (long long)c.received, (long long)c.results);
	return BB_OK;
}

void bb_child_free(struct bb_pairs *pairs)
{
	for (size_t i = 0; i < pairs->nchild; i++)
		free(pairs->child[i].text);
	free(pairs->child);
}

/* ---- in the parent: its records -------------------------------------------------------------- */

bb_status bb_child_deliver(struct bb_engine *engine)
{
	struct bb_pairs *pairs = engine->run->own;
	bb_status status = BB_OK;

	for (size_t i = 0; i < pairs->nchild && status == BB_OK; i++) {
		const struct bb_child_record *r = &pairs->child[i];
		const struct floor_record *f = &r->of.floor;
		const bool is_floor = r->kind == &bb_record_floor;
		struct bb_cell cell = {.route = engine->backend->routes->list};

		if (r->kind == &bb_record_pair)
			status = bb_engine_deliver(engine, r->kind, &r->of, r->of.pair.wrong);
		if (r->kind == &bb_record_skip)
			status = bb_engine_skip(engine, &r->of.skip);
		for (; is_floor && cell.route->name && status == BB_OK; cell.route++) {
			const struct bb_floor floor = {{f->shortest_s, f->second_s, f->third_s},
						       (int)f->rounds,
						       (int)f->near};

			if (!cell.route->switched || strcmp(cell.route->name, f->route) != 0)
				continue;
			cell.ping = f->size_bytes == BB_ABSENT;
			cell.bidirectional = f->bidirectional;
			cell.bytes = cell.ping ? 0 : (uint64_t)f->size_bytes;
			status = bb_review_take(pairs, &cell, (int)f->rank, (int)f->peer, &floor);
		}
	}
	return status;
}
