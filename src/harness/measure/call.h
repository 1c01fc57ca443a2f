/*
 * call.h - a call of a collective: its algorithm, and the memory that it works in.
 */
#ifndef BB_HARNESS_MEASURE_CALL_H
#define BB_HARNESS_MEASURE_CALL_H

#include "backends/backend.h"
#include "harness/measure/algorithms.h"

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
void *bb_arena_tmp(const struct bb_arena *arena);

#endif
