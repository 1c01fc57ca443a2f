/*
 * signals.h - the signals that end a run.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* A lost terminal or ssh connection sends SIGHUP. */
static inline bool bb_signal_ends(int64_t signal)
{
	return signal == SIGHUP || signal == SIGINT || signal == SIGTERM;
}

/*
 * *SIGNALS = those that end a run, without what this process ignores: a shell starts the background
 * commands of a script so that they ignore SIGINT, nohup lets its command ignore SIGHUP, and they
 * must go on doing so. A blocked signal would be received in spite of it.
 */
static inline void bb_signals_fill(sigset_t *signals)
{
	struct sigaction action;

	sigemptyset(signals);
	for (int s = 1; s <= SIGTERM; s++)
		if (bb_signal_ends(s) && sigaction(s, NULL, &action) == 0 &&
		    action.sa_handler != SIG_IGN)
			sigaddset(signals, s);
}
