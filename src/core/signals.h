/*
 * signals.h - the signals that end a run.
 */
#ifndef BB_CORE_SIGNALS_H
#define BB_CORE_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/*
 * *SIGNALS = SIGINT and SIGTERM, without what this process ignores: a shell starts the background
 * commands of a script so that they ignore SIGINT, and they must go on doing so. A blocked signal
 * would be received in spite of it.
 */
static inline void bb_signals_fill(sigset_t *signals)
{
	static const int all[] = {SIGINT, SIGTERM};
	struct sigaction action;

	sigemptyset(signals);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (sigaction(all[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(signals, all[i]);
}

#endif
