/*
 * tcp.h - what the environment tells the launch over TCP.
 */
#pragma once

#include "launch/launch.h"

#define BB_TCP_MOST_PROCESSES (1 << 20)

struct bb_tcp_environment {
	int proc, nprocs;
	int local; /* LOCAL_RANK; -1: not set */
	/* Not set with one process: */
	const char *master; /* MASTER_ADDR */
	uint16_t port;      /* that process 0 listens on */
	const char *source; /* of the port, in words */
};

/* BB_EUSAGE names the missing or wrong variable and a correct value. */
BB_MUST bb_status bb_tcp_environment_read(struct bb_tcp_environment *environment,
					  struct bb_error *error);
