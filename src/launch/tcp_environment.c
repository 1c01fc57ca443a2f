#include "launch/tcp.h"

#include "core/units.h"

#include <stdlib.h>

#define MOST_PORT 65535

static bb_status is_missing(const char *name, struct bb_error *error)
{
	return bb_fail(error, BB_EUSAGE,
		       "%s is not set: several processes need RANK, WORLD_SIZE, MASTER_ADDR and "
		       "MASTER_PORT, as torchrun sets them; for a single process unset RANK, "
		       "WORLD_SIZE and MASTER_ADDR",
		       name);
}

/* The number in variable NAME, from LOW to HIGH. */
static bb_status read_number(const char *name, int low, int high, int *number,
			     struct bb_error *error)
{
	const char *text = getenv(name);
	int64_t value;

	if (!text)
		return is_missing(name, error);
	if (!bb_parse_int(text, &value) || value < low || value > high)
		return bb_fail(error, BB_EUSAGE, "%s=\"%.40s\" is not a number from %d to %d", name,
			       text, low, high);
	*number = (int)value;
	return BB_OK;
}

static bb_status read_port(struct bb_tcp_environment *e, struct bb_error *error)
{
	const bool given = getenv("BUSBENCH_PORT") != NULL;
	int port;
	bb_status status =
		read_number(given ? "BUSBENCH_PORT" : "MASTER_PORT", 1, MOST_PORT, &port, error);

	if (status != BB_OK)
		return status;
	if (!given && port == MOST_PORT)
		return bb_fail(error, BB_EUSAGE,
			       "MASTER_PORT=%d: no port is above it; set BUSBENCH_PORT", port);
	e->port = (uint16_t)(given ? port : port + 1);
	e->source = given ? "BUSBENCH_PORT" : "MASTER_PORT + 1";
	return BB_OK;
}

bb_status bb_tcp_environment_read(struct bb_tcp_environment *e, struct bb_error *error)
{
	bb_status status;

	*e = (struct bb_tcp_environment){.local = -1};
	BB_TRY(status, read_number("WORLD_SIZE", 1, BB_TCP_MOST_PROCESSES, &e->nprocs, error), out);
	BB_TRY(status, read_number("RANK", 0, BB_TCP_MOST_PROCESSES - 1, &e->proc, error), out);
	if (e->proc >= e->nprocs) {
		status = bb_fail(error, BB_EUSAGE, "RANK=%d: with WORLD_SIZE=%d ranks are 0 to %d",
				 e->proc, e->nprocs, e->nprocs - 1);
		goto out;
	}
	if (getenv("LOCAL_RANK"))
		BB_TRY(status, read_number("LOCAL_RANK", 0, e->nprocs - 1, &e->local, error), out);
	if (e->nprocs == 1)
		goto out;
	e->master = getenv("MASTER_ADDR");
	if (!e->master || !*e->master)
		status = is_missing("MASTER_ADDR", error);
	else
		status = read_port(e, error);
out:
	return status;
}
