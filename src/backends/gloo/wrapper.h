/*
 * wrapper.h - Gloo as plain C: devices, meshes of connections, messages and collectives.
 *
 * No exception leaves these functions: they return false and put the reason into WHY. After a
 * failed message or collective its mesh is of no more use. Any thread may call them, but a
 * collective of a mesh only one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BB_GLOO_ADDRESS 192 /* most bytes of the address of a connection's end */
#define BB_GLOO_WHY 200
#define BB_GLOO_NAME 256

/* NAME = Gloo's version and the file of its library. */
void bb_gloo_name(char name[BB_GLOO_NAME]);

/* A network address of this host, with a thread of Gloo that serves all meshes of it. */
struct bb_gloo_device;
/* ADDRESS is numeric. The new thread inherits the caller's affinity and signal mask. */
bool bb_gloo_device_open(const char *address, struct bb_gloo_device **device,
			 char why[BB_GLOO_WHY]);
void bb_gloo_device_close(struct bb_gloo_device *device); /* NULL: nothing */
/* Every wait of its present meshes, now and later, fails soon. NULL: nothing. */
void bb_gloo_device_abort(struct bb_gloo_device *device);

/* Connections of one rank to all others of a group. */
struct bb_gloo_mesh;

/* One end of a connection, as its peer must know it. */
struct bb_gloo_address {
	uint32_t bytes;
	char data[BB_GLOO_ADDRESS];
};

/* ADDRESSES[i] = the end for rank i; that of ME is empty. DEVICE outlives the mesh. */
bool bb_gloo_mesh_open(struct bb_gloo_device *device, int me, int n,
		       struct bb_gloo_address *addresses, struct bb_gloo_mesh **mesh,
		       char why[BB_GLOO_WHY]);
/* Connect to PEER, whose end for this rank is ADDRESS. All ranks connect in the order of peers. */
bool bb_gloo_mesh_connect(struct bb_gloo_mesh *mesh, int peer,
			  const struct bb_gloo_address *address, char why[BB_GLOO_WHY]);
/* Waits for no peer, and ends the requests that nobody waits for, as after a failure. NULL:
   nothing. */
void bb_gloo_mesh_close(struct bb_gloo_mesh *mesh);

/* A message that was started. Messages match by (peer, slot) in order, and both sides must give the
   same number of bytes: otherwise Gloo ends the process. A message without bytes is one too. */
struct bb_gloo_request;

/* Start to send BYTES of DATA to PEER, which are only read, or to receive them from it. A negative
   PEER receives from any other rank. */
bool bb_gloo_start(struct bb_gloo_mesh *mesh, bool sends, int peer, uint64_t slot, void *data,
		   size_t bytes, struct bb_gloo_request **request, char why[BB_GLOO_WHY]);
/* Wait for a message and end REQUEST. A sent message is done when the peer has posted its receive
   and the kernel has the data. *PEER = the other end, or after a failure the one that was named;
   negative if none was. PEER NULL: not requested. */
bool bb_gloo_wait(struct bb_gloo_request *request, int *peer, char why[BB_GLOO_WHY]);

enum bb_gloo_function {
	BB_GLOO_ALL_REDUCE,
	BB_GLOO_ALL_REDUCE_BCUBE,
	BB_GLOO_ALL_GATHER,
	BB_GLOO_BROADCAST,
	BB_GLOO_REDUCE,
	BB_GLOO_GATHER,
	BB_GLOO_SCATTER,
	BB_GLOO_ALLTOALL,
	BB_GLOO_ALLTOALLV
};

/* RESULT[i] = A[i] + B[i] for COUNT elements, + being the operation; RESULT may be A or B. */
typedef void bb_gloo_reduce_fn(const void *own, void *result, const void *a, const void *b,
			       size_t count);

struct bb_gloo_collective {
	enum bb_gloo_function function;
	size_t element; /* bytes of one: 1, 2, 4 or 8 */
	size_t count;   /* elements of one rank's block */
	int root;       /* where there is one */
	/* NULL: OUT holds the input where the result belongs; gather and scatter have it always. */
	const void *in;
	void *out;                      /* reduce writes COUNT elements into that of every rank */
	const int64_t *sent, *received; /* alltoallv: elements to and from each rank */
	bb_gloo_reduce_fn *reduce;
	const void *own; /* of REDUCE */
};

bool bb_gloo_run(struct bb_gloo_mesh *mesh, const struct bb_gloo_collective *collective,
		 char why[BB_GLOO_WHY]);
bool bb_gloo_barrier(struct bb_gloo_mesh *mesh, char why[BB_GLOO_WHY]);

#ifdef __cplusplus
}
#endif
