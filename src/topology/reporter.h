/*
 * reporter.h - sentences about machines, passed to a callback one by one.
 */
#ifndef BB_TOPOLOGY_REPORTER_H
#define BB_TOPOLOGY_REPORTER_H

struct bb_reporter {
	void (*add)(void *context, const char *text);
	void *context;
	int n; /* sentences so far */
};

void bb_reporter_add(struct bb_reporter *reporter, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
