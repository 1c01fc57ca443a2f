/*
 * process.c - runs a command, and ends all that it started.
 *
 * mpirun puts its ranks into process groups of their own, so that killing its group is not enough:
 * as a subreaper this process inherits whatever loses its parent, and ends that as well.
 */
#include "acceptance/process.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_S 3.0 /* from SIGTERM until SIGKILL */

static void fill_waited(sigset_t *set)
{
	bb_signals_fill(set);
	sigaddset(set, SIGCHLD);
}

bb_status bb_commands_prepare(struct bb_error *error)
{
	sigset_t waited;

	fill_waited(&waited);
	if (sigprocmask(SIG_BLOCK, &waited, NULL) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return bb_fail(error, BB_EINTERNAL, "cannot wait for commands: %s",
			       strerror(errno));
	return BB_OK;
}

/* Starts C with empty input, output to files, a process group of its own and no blocked signals. */
static bb_status start(const struct bb_command *c, pid_t *pid, struct bb_error *error)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none;
	int err = posix_spawn_file_actions_init(&files);

	sigemptyset(&none);
	if (err != 0)
		goto out;
	err = posix_spawnattr_init(&how);
	if (err != 0)
		goto out_files;
#define TRY(call) err = err ? err : (call)
	TRY(posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
	TRY(posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, c->out, flags, 0666));
	TRY(posix_spawn_file_actions_addopen(&files, STDERR_FILENO, c->err, flags, 0666));
	TRY(posix_spawnattr_setsigmask(&how, &none));
	TRY(posix_spawnattr_setpgroup(&how, 0));
	TRY(posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP));
	TRY(posix_spawnp(pid, c->words[0], &files, &how, c->words, environ));
#undef TRY
	posix_spawnattr_destroy(&how);
out_files:
	posix_spawn_file_actions_destroy(&files);
out:
	if (err == 0)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE, "%s cannot be started: %s", c->words[0], strerror(err));
}

/*
 * Waits until PID ends, UNTIL passes, or SIGHUP, SIGINT or SIGTERM comes. Returns 0 with the STATUS
 * of PID, -1, or the signal.
 */
static int wait_for(pid_t pid, double until, int *status)
{
	sigset_t waited;

	fill_waited(&waited);
	for (;;) {
		const double left = until - bb_clock_now();
		struct timespec time = {0, 0};
		int signal;

		if (waitpid(pid, status, WNOHANG) == pid)
			return 0;
		if (left <= 0)
			return -1;
		time.tv_sec = (time_t)left;
		time.tv_nsec = (long)((left - (double)time.tv_sec) * 1e9);
		signal = sigtimedwait(&waited, NULL, &time);
		if (bb_signal_ends(signal))
			return signal;
	}
}

/* Ends every child of this process, and those that it then inherits. */
static void end_orphans(void)
{
	char path[64], list[4096], *end;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	for (int round = 0; round < 10000; round++) {
		bool any = false;

		if (bb_kernel_read(path, list, sizeof(list)) == 0)
			list[0] = '\0';
		/* Every whole number ends with a blank; one that is cut off waits for the next
		 * round. */
		for (char *at = list;; at = end) {
			const long pid = strtol(at, &end, 10);

			if (end == at || *end != ' ')
				break;
			kill((pid_t)pid, SIGKILL);
			any = true;
		}
		while (waitpid(-1, NULL, any ? 0 : WNOHANG) > 0)
			any = false; /* wait for one, then for those that are dead already */
		if (waitpid(-1, NULL, WNOHANG) < 0)
			return;
	}
}

bb_status bb_command_run(const struct bb_command *c, struct bb_outcome *outcome,
			 struct bb_error *error)
{
	const double began = bb_clock_now();
	int status = 0, ended;
	pid_t pid = 0;
	bb_status st;

	*outcome = (struct bb_outcome){.status = -1};
	BB_TRY(st, start(c, &pid, error), out);
	ended = wait_for(pid, began + (double)c->limit_ns / 1e9, &status);
	outcome->timed_out = ended < 0;
	outcome->stopped_by = ended > 0 ? ended : 0;
	if (ended != 0) {
		kill(-pid, SIGTERM);
		if (wait_for(pid, bb_clock_now() + GRACE_S, &status) != 0) {
			kill(-pid, SIGKILL);
			waitpid(pid, &status, 0);
		}
	}
	kill(-pid, SIGKILL);
	end_orphans();
	outcome->wall_s = bb_clock_now() - began;
	outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
out:
	return st;
}
