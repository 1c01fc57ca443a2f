/*
 * executor.h - runs the steps of an algorithm for one rank, over any point-to-point transport in
 * CPU memory.
 */
#pragma once

#include "backends/backend.h"
#include "backends/cpu/kernels.h"

#define BB_SENT_MOST 64     /* messages sent but not known to be taken */
#define BB_EXPECTED_MOST 64 /* pieces expected but not yet received */
#define BB_LENT_MOST 4      /* of these, pieces in the transport's memory */
#define BB_PIECES_MOST 64   /* of one message */

/*
 * Point-to-point between the ranks of one group; PORT is one rank's end. Messages match by
 * (peer, channel) in order.
 */
struct bb_p2p {
	/*
	 * Optional; NULL: messages are not cut. Length of the pieces (the last may be shorter) in
	 * which a message of BYTES arrives, so that one is reduced while the next is in flight: at
	 * least BYTES / BB_PIECES_MOST, a multiple of 64, a function of BYTES alone. send cuts the
	 * message itself; expect, recv and release are called for each piece.
	 */
	size_t (*piece)(void *port, size_t bytes);
	/*
	 * Optional, with piece: announces the next piece from PEER on CHANNEL, in the order of the
	 * later recvs and, within the limits above, before the sends of the same round. It must
	 * arrive in DST; NULL: recv lends it from the transport's own memory.
	 */
	bb_status (*expect)(void *port, int peer, int channel, void *dst, size_t bytes);
	/* Post a message; *TICKET is its number. If *LENT, DATA must stay unchanged until the
	   message is taken, else it may be reused at once. Waits only for a free slot. */
	bb_status (*send)(void *port, int peer, int channel, const void *data, size_t bytes,
			  uint32_t *ticket, bool *lent);
	/* Wait for the next message, which must have BYTES, and lend its data until release. */
	bb_status (*recv)(void *port, int peer, int channel, size_t bytes, const void **data);
	/* Optional: done reading the message last received. NULL: later expects reuse it. */
	void (*release)(void *port, int peer, int channel);
	/* Wait until the peer has read message TICKET. */
	bb_status (*wait_taken)(void *port, int peer, int channel, uint32_t ticket);
};

struct bb_executor {
	const struct bb_p2p *p2p;
	void *port;
	int rank; /* in the group */
	const struct bb_kernels *kernels;
	bool stream; /* data that is not read again in this call bypasses the caches */
};

/*
 * Run CALL's schedule. avg divides OUT at the end; mulsum first weights its inputs, into TMP behind
 * the part that the algorithm uses (bb_execute_tmp_bytes). Returns when this rank's OUT is complete
 * and all its messages are taken.
 */
BB_MUST bb_status bb_execute(const struct bb_executor *executor, const struct bb_call *call);

/* Returns what combines two partial results of CALL: of avg and mulsum the sum; NULL: it reduces
   nothing. */
bb_reduce_fn *bb_cpu_reduction(const struct bb_kernels *kernels, const struct bb_call *call);
/* WEIGHED = RANK's input, weighted (bb_call_weighs). Divide RANK's OUT by the number of ranks
   (bb_call_divides). */
void bb_cpu_weigh(const struct bb_kernels *kernels, const struct bb_call *call, int rank,
		  void *weighed);
void bb_cpu_divide(const struct bb_kernels *kernels, const struct bb_call *call, int rank);

/* Bytes of TMP that bb_execute needs for CALL on RANK, a multiple of 64. */
size_t bb_execute_tmp_bytes(const struct bb_call *call, int rank);
