/*
 * launch.h - how the processes of a run find each other.
 *
 * One launch per process. All functions are called by one thread at a time, in the same order in
 * every process. None of them ends before all processes have come; whoever waits in one for a
 * process that is gone is told so by the control channel (control.h), not by the launch; one that
 * notices by itself gives the control channel a second first.
 */
#ifndef BB_LAUNCH_LAUNCH_H
#define BB_LAUNCH_LAUNCH_H

#include "core/status.h"
#include "core/payload.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_LAUNCH_ABI 4u

struct bb_launch {
	int proc;
	int nprocs;
	/* Raw bytes: bb_launch_gather and bb_launch_all_gather alone call these two. */
	/* all[p * bytes …] = what process p gave; ALL holds nprocs * bytes. */
	bb_status (*all_gather)(struct bb_launch *launch, const void *mine, size_t bytes,
				void *all);
	/* The same, but only process 0 gets it; elsewhere ALL may be NULL. */
	bb_status (*gather)(struct bb_launch *launch, const void *mine, size_t bytes, void *all);
	bb_status (*barrier)(struct bb_launch *launch);
	/* Waits for all processes; after a failure it must not be called, the process just exits.
	 */
	void (*close)(struct bb_launch *launch);
	/*
	 * From any thread, while another is stuck in a call; none may come after it: this process
	 * waits no longer. Process 0 tells the others so. Returns whether to say why; if not,
	 * another process does. NULL: the library has no such thing.
	 */
	bool (*abandon)(struct bb_launch *launch);
	/* What another process gave is not valid, and the run is over: process 0 tells the others,
	   elsewhere SILENT says whether process 0 does. NULL: the library has no such thing. */
	void (*refuse)(struct bb_launch *launch);
	const char *library; /* what carries it, with its version; NULL: nothing. The launch's. */
	const char *note; /* at process 0: how the processes met, a sentence; NULL. The launch's. */
	/* After a call failed: */
	const char *cause; /* why, NULL: the library does not say. The launch's. */
	bool silent;       /* another process says why; after open too */
	bool broken;       /* set by the caller: none may come after it, the others may not know */
	void *own;
	char refused[48 + BB_PAYLOAD_WHY]; /* the cause, where a payload was refused */
};

/*
 * all[p * count …] = the COUNT payloads of process p, each described and checked by TABLE; gather
 * has process 0 alone get them, elsewhere ALL may be NULL. BB_EBACKEND, and launch->cause names the
 * process, where one is not valid.
 */
BB_MUST bb_status bb_launch_all_gather(struct bb_launch *launch, const struct bb_payload *table,
				       const void *mine, size_t count, void *all);
BB_MUST bb_status bb_launch_gather(struct bb_launch *launch, const struct bb_payload *table,
				   const void *mine, size_t count, void *all);

/* One process, no launcher. */
struct bb_launch bb_launch_single(void);

/* Who will call the library that carries a launch, through it or otherwise. */
enum bb_launch_callers {
	BB_LAUNCH_OPENER,  /* the thread that opens the launch alone */
	BB_LAUNCH_IN_TURN, /* any thread, one at a time */
	BB_LAUNCH_AT_ONCE  /* several threads at the same time */
};

struct bb_secret; /* secret.h */

struct bb_launch_request {
	enum bb_launch_callers callers;
	double timeout_s; /* half of -T: to give up after, where the launch can; 0: never */
	/* Who comes must prove that it knows it, where the launch lets strangers come; NULL: none.
	 */
	const struct bb_secret *secret;
};

struct bb_launch_kind {
	unsigned abi;
	const char *name; /* in sentences: "MPI" */
	/* Judges the environment before anything is started; BB_EUSAGE names the variable. NULL:
	   there is nothing to judge. */
	bb_status (*check)(struct bb_error *error);
	/* Wait until all processes are there. */
	bb_status (*open)(struct bb_launch *launch, const struct bb_launch_request *request,
			  struct bb_error *error);
};

/* What the shared object of a launch that is loaded at run time exports: its kind. */
#define BB_LAUNCH_SYMBOL "bb_plugin_launch"

/*
 * torchrun's convention: a process is RANK of WORLD_SIZE, and process 0 is at MASTER_ADDR, where it
 * listens on BUSBENCH_PORT or, without that, on MASTER_PORT + 1. With BUSBENCH_SECRET both sides
 * prove that they know it; without, process 0 listens only where MASTER_ADDR says, and believes
 * whoever says that it is a busbench of this version that was told the same WORLD_SIZE.
 */
extern const struct bb_launch_kind bb_launch_tcp;

/*
 * What the launcher itself brings for processes to find each other, where there is no MPI to do it:
 * PMIx, loaded at run time. Whether it does is in the environment.
 */
extern const struct bb_launch_kind bb_launch_pmix;
bool bb_launch_pmix_is_offered(void);

/*
 * What the environment says of a launcher before anything is started. A hint, no more: who is
 * there is known only once the launch is open.
 */
struct bb_launch_hint {
	const char *launcher; /* "mpirun", "srun", …; NULL: none */
	const char *variable; /* that says how many processes there are */
	const char *start;    /* what is written before a number of processes: "mpirun -np" */
	/* How its processes find each other; NULL: by the MPI that it belongs to. */
	const struct bb_launch_kind *kind;
	/* It ends nobody when a process fails, but says which one did, with what status. */
	bool reports;
	int nprocs; /* that it says; 1 without a launcher or if it cannot be read */
	int proc;   /* this one; 0 if unknown */
};

struct bb_launch_hint bb_launch_hint_read(void);

/*
 * BB_EBACKEND when the launcher started several processes and each of them is alone: what would
 * otherwise pass as many worlds of one.
 */
BB_MUST bb_status bb_launch_check(const struct bb_launch *launch, const struct bb_launch_hint *hint,
				  struct bb_error *error);

#endif
