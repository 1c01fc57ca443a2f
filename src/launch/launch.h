/*
 * launch.h - how the processes of a run find each other.
 *
 * One launch per process. One thread at a time calls its functions, in the same order in every
 * process. Each returns only when all processes have called it; a gather to process 0 alone may
 * return earlier elsewhere. If a process is gone, the control channel (control.h) reports it to
 * those that wait, not the launch; a launch that notices the loss itself gives the control channel
 * a second first.
 */
#pragma once

#include "core/status.h"
#include "core/payload.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_LAUNCH_AWAITED 400 /* bytes of a text */
#define BB_LAUNCH_ABI 7u

struct bb_launch {
	int proc;
	int nprocs;
	/* all[p * bytes …] = the bytes of process p, at process 0 or EVERYWHERE; ALL holds nprocs *
	   bytes, and may be NULL at a process that receives nothing. No BYTES, EVERYWHERE: a
	   barrier. Only the functions below call it, because the bytes are unchecked. */
	bb_status (*gather)(struct bb_launch *launch, const void *mine, size_t bytes, void *all,
			    bool everywhere);
	/* Waits for all processes. Not after a failure: then the process just exits. NULL: there
	   is nothing to close. */
	void (*close)(struct bb_launch *launch);
	/*
	 * Stop waiting for the other processes: from any thread, while another is stuck in a call;
	 * no call may follow. Process 0 informs the others. Returns whether this process reports
	 * the cause; otherwise another one does. AWAITED = the processes that do not answer, ""
	 * if unknown. NULL: not available.
	 */
	bool (*abandon)(struct bb_launch *launch, char awaited[BB_LAUNCH_AWAITED]);
	/* Data of another process is invalid, and the run ends: process 0 informs the others;
	   elsewhere SILENT becomes whether process 0 does so. NULL: not available. */
	void (*refuse)(struct bb_launch *launch);
	const char *library; /* that the launch uses, with its version; NULL: none. Borrowed. */
	const char *note; /* at process 0: how the processes met, a sentence; or NULL. Borrowed. */
	/* After a call failed: */
	const char *cause; /* the reason; NULL: unknown. Borrowed. */
	bool silent;       /* another process reports the cause; valid after open too */
	bool broken;       /* set by the caller: no call may follow, others may not know why */
	void *own;
	char refused[48 + BB_PAYLOAD_WHY]; /* the cause, if a payload was refused */
};

/*
 * all[p * count …] = the COUNT payloads of process p, each checked by TABLE. Unless EVERYWHERE only
 * process 0 receives them; elsewhere ALL may be NULL. BB_EBACKEND if one is invalid; launch->cause
 * then names the process.
 */
BB_MUST bb_status bb_launch_gather(struct bb_launch *launch, const struct bb_payload *table,
				   const void *mine, size_t count, bool everywhere, void *all);
/* Waits for all processes. */
BB_MUST bb_status bb_launch_barrier(struct bb_launch *launch);

/* One process, no launcher. */
struct bb_launch bb_launch_single(void);

/* Which threads will call the library of the launch, through the launch or otherwise. */
enum bb_launch_callers {
	BB_LAUNCH_OPENER,  /* only the thread that opens the launch */
	BB_LAUNCH_IN_TURN, /* any thread, one at a time */
	BB_LAUNCH_AT_ONCE  /* several threads at the same time */
};

struct bb_secret; /* secret.h */

struct bb_launch_request {
	enum bb_launch_callers callers;
	double timeout_s; /* half of -T, after which open fails, if the launch can; 0: never */
	/* Every process must prove that it knows the secret, if strangers can reach the launch;
	   NULL: none. */
	const struct bb_secret *secret;
};

struct bb_launch_kind {
	unsigned abi;
	const char *name; /* in sentences: "MPI" */
	/* Check the environment before anything is started; BB_EUSAGE names the variable. NULL:
	   nothing to check. */
	bb_status (*check)(struct bb_error *error);
	/* Wait until all processes have arrived. */
	bb_status (*open)(struct bb_launch *launch, const struct bb_launch_request *request,
			  struct bb_error *error);
};

/* The symbol of a launch's kind in its shared object. */
#define BB_LAUNCH_SYMBOL "bb_plugin_launch"

/*
 * torchrun's convention: a process is RANK of WORLD_SIZE, and process 0 listens at MASTER_ADDR on
 * BUSBENCH_PORT (default: MASTER_PORT + 1). With BUSBENCH_SECRET both sides of a connection prove
 * that they know it. Without it process 0 listens only at MASTER_ADDR, and trusts every peer that
 * claims this version of busbench and the same WORLD_SIZE.
 */
extern const struct bb_launch_kind bb_launch_tcp;

/*
 * The launcher's PMIx, for processes without an MPI, loaded at run time. The environment says
 * whether a launcher offers it.
 */
extern const struct bb_launch_kind bb_launch_pmix;
bool bb_launch_pmix_is_offered(void);

/*
 * What the environment says about a launcher before anything is started. It is only a hint: the
 * processes are known once the launch is open.
 */
struct bb_launch_hint {
	const char *launcher; /* "mpirun", "srun", …; NULL: none */
	const char *variable; /* that holds the number of processes */
	const char *start;    /* its command up to the number of processes: "mpirun -np" */
	/* How its processes find each other; NULL: by the launcher's MPI. */
	const struct bb_launch_kind *kind;
	/* It ends no other process when one fails, but reports which one failed, and its status. */
	bool reports;
	int nprocs; /* 1 without a launcher, or if the variable cannot be read */
	int proc;   /* this process; 0 if unknown */
};

struct bb_launch_hint bb_launch_hint_read(void);

/*
 * BB_EBACKEND if the launcher started several processes but each is alone in its world: otherwise
 * each would run as a world of one process.
 */
BB_MUST bb_status bb_launch_check(const struct bb_launch *launch, const struct bb_launch_hint *hint,
				  struct bb_error *error);
