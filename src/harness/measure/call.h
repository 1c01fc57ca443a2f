/*
 * call.h - calls of collectives: their algorithms, the memory that they work in, and all calls of a
 * program.
 */
#pragma once

#include "backends/backend.h"
#include "harness/measure/algorithms.h"
#include "harness/run/run.h"
#include "programs/program.h"

/*
 * Settle the algorithm of CALL, whose collective, datatype, op and shape are set, in GROUP: that of
 * CHOICE, or the backend's if that names none. *TMP = the temporary bytes that it needs. *OBJECTION
 * = why there is none; NULL: there is. BB_EUNSUPPORTED, too, if the backend chooses none; where it
 * has a reason of its own, that is in its error.
 */
BB_MUST bb_status bb_call_settle(const struct bb_backend *backend, struct bb_group *group,
				 const struct bb_choice *choice, struct bb_call *call, size_t *tmp,
				 const char **objection);

/* Prepare a settled CALL. *OBJECTION = why the backend cannot make it, which lasts until its next
   call; NULL: it can. Collective over GROUP, on GPUs over all ranks (backends/gpu.h). */
BB_MUST bb_status bb_call_ready(const struct bb_backend *backend, struct bb_group *group,
				struct bb_call *call, const char **objection);

/* ---- a rank's buffers -------------------------------------------------------------------- */

/* One set of buffers for one case and placement. */
struct bb_buffers {
	void *in; /* what calls read; in place it may be OUT's memory */
	void *out;
};

#define BB_MOST_SETS 65  /* 64 to rotate through and a pristine one */
#define BB_USUAL_SETS 17 /* most, unless a cache is known that they do not fill */

struct bb_layout {
	size_t in_bytes, out_bytes;
	size_t in_at, out_at; /* within a set */
	size_t sets_at;       /* of the first set, behind TMP */
	size_t set_bytes;     /* distance of sets */
	int sets;             /* that fit, >= 1 */
};

/* The temporary memory of calls, and behind it the sets. */
struct bb_arena {
	char *memory;
	size_t bytes;
};

/* Returns the layout of a case's buffers in ARENA_BYTES. sets is 0 if not even one fits; those that
   are rotated through are twice CACHE bytes if that many fit, so that none is still in it. */
struct bb_layout bb_layout_make(const struct bb_collective *collective,
				const struct bb_shape *shape, int rank, size_t element_size,
				size_t unalign, size_t tmp_bytes, size_t arena_bytes, bool on_gpu,
				size_t cache);
/* Returns the bytes of an arena that has room for the sets of such a case that fill twice CACHE,
   and for a pristine one. */
size_t bb_layout_bytes(const struct bb_layout *layout, size_t cache);
struct bb_buffers bb_arena_set(const struct bb_arena *arena, const struct bb_layout *layout,
			       int set);

/* ---- the calls of a program -------------------------------------------------------------- */

/* A group of the program. */
struct bb_calls_group {
	struct bb_group *handle; /* NULL: this rank is no member, or there is nothing to do */
	int place;               /* of this rank in it; -1: none */
	int size;
};

/* A call that several collectives of a group share; they differ only in their buffers. */
struct bb_settled {
	struct bb_operation like; /* one of them */
	struct bb_call call;
	struct bb_layout layout;
	size_t tmp;   /* temporary bytes */
	double bytes; /* that the member sends that sends most; NAN: not counted yet */
};

/* The groups, lanes and calls of a program on one driver. */
struct bb_calls {
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	const struct bb_program *program;
	const struct bb_native *natives; /* the backend's, in OWNED if that is not NULL */
	struct bb_native *owned;
	struct bb_calls_group *groups; /* [group] */
	struct bb_group *lanes[BB_PROGRAM_LANES];
	struct bb_settled *list; /* in virtual time the last ROOM that were judged or counted */
	size_t n, room;
	struct bb_settled **of; /* [operation of this rank]; NULL: its group has no handle */
	bool names_native;      /* the program's algorithm is the library's */
	char objection[BB_OBJECTION_TEXT]; /* why this rank cannot run it; empty: it can */
};

/* Set the objection, unless there is one. */
void bb_calls_object(struct bb_calls *calls, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Real time: open this rank's groups and the lanes, and settle all calls of PROGRAM. Virtual time:
 * judge the collectives of all ranks. Objects to what cannot be done. RUN, DRIVER, BACKEND and
 * PROGRAM of CALLS are set, the rest is zero; bb_calls_close it whatever comes back. Collective
 * over the world.
 */
BB_MUST bb_status bb_calls_open(struct bb_calls *calls);
void bb_calls_close(struct bb_calls *calls);
/* Share the first objection of any rank, and without one prepare the calls, once their buffers are
   there. Objects to what cannot be prepared. Collective over the world. */
BB_MUST bb_status bb_calls_ready(struct bb_calls *calls);

/*
 * *SENT = the collectives and sent messages of RANK that belong to WORK, and the bytes they send by
 * the algorithms that run here. The bytes of a collective are those of the member that sends most;
 * for a library's own algorithm, the least that any algorithm sends. RANK is this driver's, or any
 * in virtual time. Failures are in the run's error.
 */
struct bb_sent {
	uint64_t calls;
	double bytes;
	size_t tmp_bytes; /* temporary memory, of the collective that needs most */
};
BB_MUST bb_status bb_calls_count(struct bb_calls *calls, int rank, int work, struct bb_sent *sent);
