#include "p2p/child.h"

#include "core/clock.h"
#include "p2p/pairs.h"

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
#define PIPE 3                       /* the child's end */
#define PROGRAM "/proc/self/exe"
#define PROCESS_TEXT 24
#define MAGIC 0x70327063u
/* Beyond -T, which the child obeys itself and reports in more detail. */
#define GRACE_S 5.0
#define SUBJECT "the child process that measures with P2P of the library off"

enum kind { BEGIN, ALIVE, CELL, AGAIN, END, KINDS };

/* One message. CELL and AGAIN are followed by nranks² parts, unless TEXT says why not. */
struct note {
	uint32_t magic, kind;
	uint32_t bytes; /* of this note and the parts that follow; the same program wrote it */
	int32_t nranks;
	uint64_t cell; /* index among the child's cells */
	uint64_t cell_bytes, repeats, direction;
	double end_unix_s;
	char text[BB_CHILD_TEXT]; /* BEGIN: the state of the library; CELL: why it is skipped */
};

static const struct bb_payload_field note_fields[] = {
	BB_PAYLOAD_FIELD("the magic", BB_PAYLOAD_UNSIGNED, struct note, magic, .low = MAGIC,
			 .high = MAGIC),
	BB_PAYLOAD_FIELD("the kind", BB_PAYLOAD_UNSIGNED, struct note, kind, .high = KINDS - 1),
	BB_PAYLOAD_FIELD("the length", BB_PAYLOAD_UNSIGNED, struct note, bytes, .high = UINT32_MAX),
	BB_PAYLOAD_FIELD("the number of ranks", BB_PAYLOAD_SIGNED, struct note, nranks,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the cell", BB_PAYLOAD_UNSIGNED, struct note, cell, .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the size", BB_PAYLOAD_UNSIGNED, struct note, cell_bytes,
			 .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the repeats", BB_PAYLOAD_UNSIGNED, struct note, repeats,
			 .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the direction", BB_PAYLOAD_UNSIGNED, struct note, direction,
			 .high = BB_DIRECTIONS - 1),
	BB_PAYLOAD_FIELD("the end", BB_PAYLOAD_REAL, struct note, end_unix_s, .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the text", BB_PAYLOAD_TEXT, struct note, text),
	{.name = NULL}};
static const struct bb_payload note_table = {"a note", sizeof(struct note), note_fields, NULL};

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
	if (strcmp(parent, text) != 0 || fcntl(PIPE, F_SETFD, FD_CLOEXEC) != 0)
		return bb_fail(error, BB_EUSAGE,
			       PARENT "=%s: busbench sets it for its own child processes; unset it",
			       parent);
	return BB_OK;
}

static bb_status write_all(struct bb_pairs *pairs, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n > 0) {
		const ssize_t written = write(PIPE, at, n);

		if (written < 0 && errno != EINTR)
			return bb_fail(&pairs->run->error, BB_EINTERNAL,
				       SUBJECT " cannot write to its parent: %s", strerror(errno));
		at += written > 0 ? written : 0;
		n -= written > 0 ? (size_t)written : 0;
	}
	return BB_OK;
}

static size_t parts_bytes(const struct bb_pairs *pairs)
{
	const size_t n = (size_t)pairs->run->world.nranks;

	return n * n * sizeof(struct bb_pair_part);
}

static bb_status child_send(struct bb_pairs *pairs, struct note *note,
			    const struct bb_pair_part *parts)
{
	const size_t behind = parts ? parts_bytes(pairs) : 0;
	bb_status status;

	if (!pairs->settings.child)
		return BB_OK;
	note->magic = MAGIC;
	note->bytes = (uint32_t)(sizeof(*note) + behind);
	note->nranks = pairs->run->world.nranks;
	status = write_all(pairs, note, sizeof(*note));
	return status == BB_OK ? write_all(pairs, parts, behind) : status;
}

bb_status bb_child_send_begin(struct bb_pairs *pairs)
{
	struct note note = {.kind = BEGIN};

	snprintf(note.text, sizeof(note.text), "%.*s", BB_CHILD_TEXT - 1, pairs->library_text);
	return child_send(pairs, &note, NULL);
}

bb_status bb_child_send_alive(struct bb_pairs *pairs)
{
	return child_send(pairs, &(struct note){.kind = ALIVE}, NULL);
}

bb_status bb_child_send_cell(struct bb_pairs *pairs, size_t number,
			     const struct bb_pair_part *parts, bool again)
{
	const struct bb_cell *cell = &pairs->cells[number];
	struct note note = {.kind = again ? AGAIN : CELL,
			    .cell = number,
			    .cell_bytes = cell->bytes,
			    .repeats = cell->repeats,
			    .direction = bb_cell_direction(cell)};

	note.end_unix_s = bb_clock_unix();
	snprintf(note.text, sizeof(note.text), "%s", cell->skip ? cell->skip : "");
	return child_send(pairs, &note, cell->skip ? NULL : parts);
}

bb_status bb_child_send_end(struct bb_pairs *pairs)
{
	return child_send(pairs, &(struct note){.kind = END}, NULL);
}

/* ---- in the parent: starting it -------------------------------------------------------------- */

struct child {
	struct bb_driver *driver;
	struct bb_pairs *pairs;
	pid_t process;   /* 0: none that has not been waited for */
	int fd;          /* to be read; -1: none */
	int status;      /* once it has ended, as waitpid reports it */
	double heard;    /* time of the last message, on the monotonic clock */
	char *message;   /* the current one */
	size_t filled;   /* bytes of it that have arrived */
	size_t received; /* cells */
	bool ended;      /* END has arrived */
};

void bb_child_cell_free(struct bb_child_cell *cell)
{
	if (!cell)
		return;
	free(cell->first);
	free(cell->again);
	free(cell);
}

/* Returns a new environment with PARENT; NULL without memory. */
static char **make_environment(char parent[])
{
	char **environment;
	size_t n = 0;

	while (environ[n])
		n++;
	environment = calloc(n + 2, sizeof(*environment));
	if (!environment)
		return NULL;
	memcpy(environment, environ, n * sizeof(*environment));
	environment[n] = parent;
	return environment;
}

/* Returns an errno. The child is in a process group of its own, so that a signal from the terminal
   reaches only the parent, which reports it once and ends the child. */
static int spawn(struct child *c, int fd, char **environment)
{
	char *const *words = c->pairs->run->record.args.words;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int error;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_adddup2(&actions, fd, PIPE);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	error = posix_spawn(&c->process, PROGRAM, &actions, &attributes, words, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	c->process = error == 0 ? c->process : 0;
	return error;
}

/* This thread is pinned; the child must not be. */
static int spawn_unpinned(struct child *c, int fd, char **environment)
{
	cpu_set_t mine[BB_CPU_SETS];
	int error;

	if (sched_getaffinity(0, sizeof(mine), mine) != 0 ||
	    sched_setaffinity(0, sizeof(mine), c->pairs->cpus) != 0)
		return errno;
	error = spawn(c, fd, environment);
	return sched_setaffinity(0, sizeof(mine), mine) == 0 ? error : errno;
}

static bb_status start(struct child *c)
{
	char parent[sizeof(PARENT) + PROCESS_TEXT], **environment;
	int ends[2], error;

	snprintf(parent, sizeof(parent), PARENT "=%ld", (long)getpid());
	environment = make_environment(parent);
	c->message = malloc(sizeof(struct note) + parts_bytes(c->pairs));
	if (!environment || !c->message) {
		free(environment);
		return bb_no_memory(&c->pairs->run->error, SUBJECT);
	}
	error = pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
	if (error == 0) {
		c->fd = ends[0];
		if (fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0)
			error = errno;
		if (error == 0)
			error = spawn_unpinned(c, ends[1], environment);
		close(ends[1]);
	}
	free(environment);
	c->heard = bb_clock_now();
	return error == 0 ? BB_OK
			  : bb_fail(&c->pairs->run->error, BB_EINTERNAL,
				    "cannot start " SUBJECT ": %s", strerror(error));
}

/* ---- in the parent: its messages ------------------------------------------------------------- */

static bb_status fail_invalid(struct child *c, const char *why)
{
	return bb_fail(&c->pairs->run->error, BB_EINTERNAL,
		       SUBJECT " sent an invalid message after %zu of its cells: it %s",
		       c->received, why);
}

/* Returns the cell of NOTE: the cells at the end of the plan are the child's plan. NULL: none. */
static struct bb_cell *cell_of(struct bb_pairs *pairs, const struct note *note)
{
	size_t first = pairs->ncells;
	struct bb_cell *cell;

	while (first > 0 && pairs->cells[first - 1].child)
		first--;
	if (note->cell >= pairs->ncells - first)
		return NULL;
	cell = &pairs->cells[first + note->cell];
	return note->cell_bytes == cell->bytes && note->repeats == cell->repeats &&
			       note->direction == bb_cell_direction(cell)
		       ? cell
		       : NULL;
}

static bool is_sound(const struct child *c, const struct note *note)
{
	const bool of_cell = note->kind == CELL || note->kind == AGAIN;
	const size_t behind = of_cell && !*note->text ? parts_bytes(c->pairs) : 0;

	return !c->ended && note->bytes == sizeof(*note) + behind &&
	       note->nranks == c->pairs->run->world.nranks && (!of_cell || cell_of(c->pairs, note));
}

static bb_status decode_parts(struct child *c, struct bb_pair_part *parts, size_t n)
{
	char why[BB_PAYLOAD_WHY];

	for (size_t i = 0; i < n; i++)
		if (!bb_payload_decode(&bb_pair_part_table, &parts[i], why))
			return fail_invalid(c, why);
	return BB_OK;
}

/* Each cell is sent once, and once more after the review. */
static bb_status receive_cell(struct child *c, const struct note *note)
{
	struct bb_cell *cell = cell_of(c->pairs, note);
	struct bb_child_cell *child = cell->child;
	struct bb_pair_part **to = note->kind == AGAIN ? &child->again : &child->first;
	const size_t bytes = parts_bytes(c->pairs);

	if (*to || *child->skip || (note->kind == AGAIN && (!child->first || *note->text)))
		return fail_invalid(c, "sent a cell twice");
	if (note->kind == CELL) {
		c->received++;
		child->end_unix_s = note->end_unix_s;
		memcpy(child->skip, note->text, sizeof(child->skip));
		cell->skip = *child->skip ? child->skip : NULL;
	}
	if (*note->text)
		return BB_OK;
	*to = malloc(bytes);
	if (!*to)
		return bb_no_memory(&c->pairs->run->error, "results");
	memcpy(*to, c->message + sizeof(*note), bytes);
	return decode_parts(c, *to, bytes / sizeof(**to));
}

static bb_status receive(struct child *c, const struct note *note)
{
	char *text = c->pairs->library_text;
	const size_t used = strlen(text);

	switch ((enum kind)note->kind) {
	case BEGIN:
		snprintf(text + used, sizeof(c->pairs->library_text) - used,
			 "; in a child process %s", note->text);
		return BB_OK;
	case CELL:
	case AGAIN:
		return receive_cell(c, note);
	case END:
		c->ended = true;
		return BB_OK;
	case ALIVE:
	case KINDS:
		break;
	}
	return BB_OK;
}

/* Read and handle all that has arrived. */
static bb_status listen(struct child *c)
{
	char why[BB_PAYLOAD_WHY];
	struct note note;
	bb_status status = BB_OK;

	while (status == BB_OK) {
		const bool headed = c->filled >= sizeof(note);
		size_t all = sizeof(note);
		ssize_t n;

		if (headed) {
			memcpy(&note, c->message, sizeof(note));
			if (!bb_payload_decode(&note_table, &note, why))
				return fail_invalid(c, why);
			if (!is_sound(c, &note))
				return fail_invalid(c, "sent a note of another plan");
			all = note.bytes;
		}
		if (headed && c->filled == all) {
			c->filled = 0;
			status = receive(c, &note);
			continue;
		}
		n = read(c->fd, c->message + c->filled, all - c->filled);
		if (n <= 0)
			break; /* nothing more for now, or for ever */
		c->heard = bb_clock_now();
		c->filled += (size_t)n;
	}
	return status;
}

/* ---- in the parent: its end ------------------------------------------------------------------ */

static bool has_ended(struct child *c)
{
	if (waitpid(c->process, &c->status, WNOHANG) != c->process)
		return false;
	c->process = 0;
	return true;
}

/* BB_OK while there is a reason to wait. The child obeys -T itself, so the run's deadline is
 * renewed. */
static bb_status look(struct child *c)
{
	const uint64_t timeout_ns = c->pairs->run->options.timeout_ns;
	const double patience = 1e-9 * (double)timeout_ns + GRACE_S;

	if (bb_crew_is_stopping(c->driver))
		return BB_ETIMEOUT;
	bb_crew_deadline(c->driver, SUBJECT);
	if (timeout_ns && bb_clock_now() > c->heard + patience)
		return bb_fail(&c->pairs->run->error, BB_ETIMEOUT,
			       SUBJECT " has sent nothing for %.0f s (-T)", patience);
	return BB_OK;
}

static bb_status judge(const struct child *c)
{
	struct bb_error *error = &c->pairs->run->error;
	const int status = WIFEXITED(c->status) ? WEXITSTATUS(c->status) : 0;
	size_t cells = 0;

	for (size_t i = 0; i < c->pairs->ncells; i++)
		cells += c->pairs->cells[i].child != NULL;
	if (WIFSIGNALED(c->status))
		return bb_fail(error, BB_EBACKEND, SUBJECT " was ended by signal %d (%s)",
			       WTERMSIG(c->status), strsignal(WTERMSIG(c->status)));
	/* Wrong data, or no case that fits into memory, is found by the parent too. */
	if (status != BB_OK && !(c->ended && (status == BB_EDATA || status == BB_EUNSUPPORTED)))
		return bb_fail(error, status > BB_EDATA ? BB_EBACKEND : (bb_status)status,
			       SUBJECT " failed with exit status %d; --p2p on leaves it out",
			       status);
	if (!c->ended || c->received != cells)
		return bb_fail(error, BB_EINTERNAL, SUBJECT " sent %zu of its %zu cells",
			       c->received, cells);
	return BB_OK;
}

bb_status bb_child_run(struct bb_driver *driver, struct bb_pairs *pairs)
{
	const struct timespec moment = {.tv_nsec = BB_MOMENT_NS};
	struct child c = {.driver = driver, .pairs = pairs, .fd = -1};
	bool over = false;
	bb_status status = start(&c);

	while (status == BB_OK && !over) {
		over = has_ended(&c);
		status = listen(&c);
		if (status == BB_OK && !over)
			status = look(&c);
		if (status == BB_OK && !over)
			nanosleep(&moment, NULL);
	}
	if (c.process) {
		kill(c.process, SIGKILL);
		waitpid(c.process, NULL, 0);
	}
	if (c.fd >= 0)
		close(c.fd);
	free(c.message);
	return status == BB_OK ? judge(&c) : status;
}
