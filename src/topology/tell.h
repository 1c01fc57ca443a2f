/*
 * tell.h - sentences about machines, one at a time, to whoever wants to hear them.
 */
#ifndef BB_TOPOLOGY_TELL_H
#define BB_TOPOLOGY_TELL_H

#define BB_TOLD_TEXT 320 /* a longer sentence is cut */

struct bb_teller {
	void (*hear)(void *context, const char *text);
	void *context;
	int told; /* sentences so far */
};

void bb_tell(struct bb_teller *teller, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
