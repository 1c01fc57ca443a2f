/* Names are resolved here, because Gloo of 2022 crashes on a name that does not resolve. */
#include "backends/gloo/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define VARIABLE "GLOO_SOCKET_IFNAME"
#define ANY_PORT "9" /* no packet is sent there */

static bool is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* *CHOICE = ADDRESS; false if it is neither IPv4 nor IPv6. */
static bool address_take(struct bb_gloo_choice *choice, const struct sockaddr *address)
{
	const socklen_t bytes = address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							      : sizeof(struct sockaddr_in6);

	if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
		return false;
	choice->family = address->sa_family;
	choice->is_loopback = is_loopback(address);
	return getnameinfo(address, bytes, choice->address, sizeof(choice->address), NULL, 0,
			   NI_NUMERICHOST) == 0;
}

/* ---- an interface ------------------------------------------------------------------------ */

/* The first IPv4 address of interface NAME, else its first IPv6 one. */
static bb_status choose_interface(struct bb_gloo_choice *choice, const char *name,
				  struct bb_error *error)
{
	static const int families[] = {AF_INET, AF_INET6};
	struct ifaddrs *all = NULL;
	bool found = false;

	if (strchr(name, ','))
		return bb_fail(error, BB_EUSAGE,
			       VARIABLE "=%s names several interfaces; busbench uses one, so name "
					"only one",
			       name);
	snprintf(choice->reason, sizeof(choice->reason), VARIABLE "=%.60s", name);
	if (getifaddrs(&all) != 0)
		all = NULL;
	for (int f = 0; f < 2; f++)
		for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
			if (i->ifa_addr && i->ifa_addr->sa_family == families[f] &&
			    strcmp(i->ifa_name, name) == 0)
				found = address_take(choice, i->ifa_addr);
	freeifaddrs(all);
	if (found)
		return BB_OK;
	if (if_nametoindex(name) == 0)
		return bb_fail(error, BB_EUSAGE,
			       VARIABLE "=%s: this host has no interface of that name (Gloo knows "
					"no prefixes and no ^; ip -brief address lists interfaces)",
			       name);
	return bb_fail(error, BB_EUSAGE, VARIABLE "=%s: this interface has no address", name);
}

/* ---- other addresses --------------------------------------------------------------------- */

/* The first of NAME's addresses to which a socket can be bound; or, with ROUTE, the local end of a
   socket to one, which the kernel chooses without sending anything. */
static bool find_address(struct bb_gloo_choice *choice, const char *name, bool route)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	bool found = false;

	if (getaddrinfo(name, route ? ANY_PORT : NULL, &hints, &all) != 0)
		return false;
	for (const struct addrinfo *a = all; a && !found; a = a->ai_next) {
		const int fd =
			socket(a->ai_family, (route ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
		struct sockaddr_storage here;
		socklen_t bytes = sizeof(here);

		if (fd < 0)
			continue;
		found = (route ? connect : bind)(fd, a->ai_addr, a->ai_addrlen) == 0 &&
			getsockname(fd, (struct sockaddr *)&here, &bytes) == 0 &&
			address_take(choice, (struct sockaddr *)&here);
		close(fd);
	}
	freeaddrinfo(all);
	return found;
}

bb_status bb_gloo_choose_address(struct bb_gloo_choice *choice, struct bb_error *error)
{
	const char *const name = getenv(VARIABLE), *const master = getenv("MASTER_ADDR");
	char host[64] = "";

	if (name && *name)
		return choose_interface(choice, name, error);
	snprintf(choice->reason, sizeof(choice->reason), "route to MASTER_ADDR=%.60s",
		 master ? master : "");
	if (master && *master && find_address(choice, master, true))
		return BB_OK;
	gethostname(host, sizeof(host) - 1);
	snprintf(choice->reason, sizeof(choice->reason), "this host's name");
	if (*host && find_address(choice, host, false))
		return BB_OK;
	snprintf(choice->reason, sizeof(choice->reason),
		 "loopback: the host's name has no local address");
	if (find_address(choice, "127.0.0.1", false))
		return BB_OK;
	return bb_fail(error, BB_EBACKEND, "this host has no address that Gloo could use: %s",
		       strerror(errno));
}
