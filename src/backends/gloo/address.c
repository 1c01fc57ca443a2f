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
static bool find_interface(struct bb_gloo_choice *choice, const char *name)
{
	static const int families[] = {AF_INET, AF_INET6};
	struct ifaddrs *all;
	bool found = false;

	if (getifaddrs(&all) != 0)
		return false;
	for (int f = 0; f < 2 && !found; f++)
		for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
			if (i->ifa_addr && i->ifa_addr->sa_family == families[f] &&
			    strcmp(i->ifa_name, name) == 0)
				found = address_take(choice, i->ifa_addr);
	freeifaddrs(all);
	return found;
}

static bb_status choose_interface(struct bb_gloo_choice *choice, const char *name,
				  struct bb_error *error)
{
	if (strchr(name, ','))
		return bb_fail(error, BB_EUSAGE,
			       VARIABLE "=%s names several interfaces; busbench uses one, so name "
					"only one",
			       name);
	snprintf(choice->reason, sizeof(choice->reason), VARIABLE "=%.60s", name);
	if (find_interface(choice, name))
		return BB_OK;
	if (if_nametoindex(name) == 0)
		return bb_fail(error, BB_EUSAGE,
			       VARIABLE "=%s: this host has no interface of that name (Gloo knows "
					"no prefixes and no ^; ip -brief address lists interfaces)",
			       name);
	return bb_fail(error, BB_EUSAGE, VARIABLE "=%s: this interface has no address", name);
}

/* ---- other addresses --------------------------------------------------------------------- */

/* The local end of a socket to ADDRESS, which the kernel chooses without sending anything. */
static bool find_route(struct bb_gloo_choice *choice, const struct addrinfo *to)
{
	const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage here;
	socklen_t bytes = sizeof(here);
	bool found;

	if (fd < 0)
		return false;
	found = connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
		getsockname(fd, (struct sockaddr *)&here, &bytes) == 0 &&
		address_take(choice, (struct sockaddr *)&here);
	close(fd);
	return found;
}

/* ADDRESS itself, if a socket can be bound to it. */
static bool find_own(struct bb_gloo_choice *choice, const struct addrinfo *address)
{
	const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool found;

	if (fd < 0)
		return false;
	found = bind(fd, address->ai_addr, address->ai_addrlen) == 0 &&
		address_take(choice, address->ai_addr);
	close(fd);
	return found;
}

/* Call FIND for the addresses of NAME until it succeeds. */
static bool name_resolve(struct bb_gloo_choice *choice, const char *name, const char *port,
			 bool (*find)(struct bb_gloo_choice *choice,
				      const struct addrinfo *address))
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	bool found = false;

	if (getaddrinfo(name, port, &hints, &all) != 0)
		return false;
	for (const struct addrinfo *a = all; a && !found; a = a->ai_next)
		found = find(choice, a);
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
	if (master && *master && name_resolve(choice, master, ANY_PORT, find_route))
		return BB_OK;
	gethostname(host, sizeof(host) - 1);
	snprintf(choice->reason, sizeof(choice->reason), "this host's name");
	if (*host && name_resolve(choice, host, NULL, find_own))
		return BB_OK;
	snprintf(choice->reason, sizeof(choice->reason),
		 "loopback: the host's name has no local address");
	if (name_resolve(choice, "127.0.0.1", NULL, find_own))
		return BB_OK;
	return bb_fail(error, BB_EBACKEND, "this host has no address that Gloo could use: %s",
		       strerror(errno));
}
