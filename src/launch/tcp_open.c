#include "launch/tcp_opening.h"

#include "core/clock.h"
#include "core/version.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define RESOLVE_MS 300 /* between two attempts to resolve the address of process 0 */

/* Of the connecting and of the answering side; another program at that port sends other data. */
static const unsigned char passwords[2][16] = {"busbench, hello", "busbench, indeed"};

/* ---- both sides ------------------------------------------------------------------------ */

static bb_status differ(const struct bb_opening *o, const struct bb_hello *hello,
			struct bb_error *error, bb_status status, const char *what,
			const char *theirs, const char *ours, const char *remedy)
{
	char name[112], mine[112];

	return bb_fail(error, status, "%s has %s %s, %s has %s; %s", bb_tcp_name(name, hello), what,
		       theirs, bb_tcp_name(mine, &o->star.identity.hello), ours, remedy);
}

bb_status bb_opening_compare(const struct bb_opening *o, const struct bb_hello *hello,
			     struct bb_error *error)
{
	const struct bb_hello *mine = &o->star.identity.hello;
	char theirs[16], ours[16];

	if (strcmp(hello->version, mine->version) != 0)
		return differ(o, hello, error, BB_EBACKEND, "busbench", hello->version,
			      mine->version, "install one version everywhere");
	if (hello->nprocs == mine->nprocs)
		return BB_OK;
	snprintf(theirs, sizeof(theirs), "%d", hello->nprocs);
	snprintf(ours, sizeof(ours), "%d", mine->nprocs);
	return differ(o, hello, error, BB_EUSAGE, "WORLD_SIZE", theirs, ours,
		      "set the same for all");
}

/* /etc/hosts may list an address twice. */
static bool is_listed(const struct bb_address *addresses, int n, const struct addrinfo *a)
{
	for (int i = 0; i < n; i++)
		if (addresses[i].length == a->ai_addrlen &&
		    memcmp(&addresses[i].to, a->ai_addr, a->ai_addrlen) == 0)
			return true;
	return false;
}

static int resolve_once(const struct bb_tcp_environment *e, struct bb_address *addresses,
			const char **why)
{
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	char port[8];
	int n = 0, error;

	snprintf(port, sizeof(port), "%d", e->port);
	error = getaddrinfo(e->master, port, &wanted, &all);
	*why = error ? gai_strerror(error) : "no address";
	if (error)
		return 0;
	for (const struct addrinfo *a = all; a && n < BB_STAR_ADDRESSES; a = a->ai_next) {
		if (a->ai_addrlen > sizeof(addresses[n].to) || is_listed(addresses, n, a))
			continue;
		memcpy(&addresses[n].to, a->ai_addr, a->ai_addrlen);
		addresses[n++].length = a->ai_addrlen;
	}
	freeaddrinfo(all);
	return n;
}

int bb_opening_resolve(const struct bb_opening *o, struct bb_address *addresses, const char **why)
{
	int n;

	/* A name may resolve only once its host has started. */
	while ((n = resolve_once(o->environment, addresses, why)) == 0 &&
	       bb_clock_now() < o->star.end)
		poll(NULL, 0, RESOLVE_MS);
	return n;
}

/* ---- the launch ------------------------------------------------------------------------ */

static int introduce(struct bb_star *star, const struct bb_tcp_environment *e)
{
	struct bb_hello *hello = &star->identity.hello;

	hello->proc = e->proc;
	hello->nprocs = e->nprocs;
	hello->pid = (int32_t)getpid();
	snprintf(hello->version, sizeof(hello->version), "%s", BB_VERSION);
	if (gethostname(hello->host, sizeof(hello->host) - 1) != 0)
		snprintf(hello->host, sizeof(hello->host), "an unknown host");
	memcpy(star->identity.password, passwords, sizeof(passwords));
	/* Zero marks a process that has not arrived. */
	do
		if (getrandom(&hello->nonce, sizeof(hello->nonce), 0) != sizeof(hello->nonce))
			return errno;
	while (hello->nonce == 0);
	return bb_star_open(star);
}

static bb_status connect_all(struct bb_tcp *tcp, const struct bb_tcp_environment *e,
			     struct bb_launch *launch, const struct bb_launch_request *request,
			     struct bb_error *error)
{
	struct bb_opening o = {
		.tcp = tcp,
		.environment = e,
		.request = request,
		.star = {.own = &o, .identity.secret = request->secret},
		.error = error,
	};
	const int reason = introduce(&o.star, e);
	bb_status status;

	o.star.end = request->timeout_s > 0 ? bb_clock_now() + request->timeout_s : INFINITY;
	if (reason)
		status = bb_fail(error, BB_EINTERNAL, "process %d cannot connect to the others: %s",
				 e->proc, strerror(reason));
	else
		status = e->proc == 0 ? bb_opening_gather(&o) : bb_opening_join(&o, launch);
	bb_star_close(&o.star);
	return status;
}

static bb_status tcp_check(struct bb_error *error)
{
	struct bb_tcp_environment e;
	const bb_status status = bb_tcp_environment_read(&e, error);

	return status == BB_OK ? bb_secret_check(error) : status;
}

static bb_status tcp_open(struct bb_launch *launch, const struct bb_launch_request *request,
			  struct bb_error *error)
{
	struct bb_tcp_environment e;
	struct bb_tcp *tcp = NULL;
	bb_status status = bb_tcp_environment_read(&e, error);

	if (status != BB_OK)
		return status;
	tcp = bb_tcp_new(e.proc, e.nprocs);
	if (!tcp)
		return bb_no_memory(error, "processes");
	if (e.nprocs > 1)
		status = connect_all(tcp, &e, launch, request, error);
	if (status == BB_OK)
		*launch = bb_tcp_launch(tcp);
	else
		bb_tcp_release(tcp);
	return status;
}

const struct bb_launch_kind bb_launch_tcp = {
	.abi = BB_LAUNCH_ABI,
	.name = "TCP",
	.check = tcp_check,
	.open = tcp_open,
};
