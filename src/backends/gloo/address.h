/*
 * address.h - which address of this host a rank of the gloo backend announces.
 */
#ifndef BB_BACKENDS_GLOO_ADDRESS_H
#define BB_BACKENDS_GLOO_ADDRESS_H

#include "core/status.h"

#include <stdbool.h>

#define BB_GLOO_HOST_ADDRESS 80 /* bytes of "fe80::1%eth0" */

/* An address of this host, numeric, and why it was chosen. */
struct bb_gloo_choice {
	char address[BB_GLOO_HOST_ADDRESS];
	int family; /* AF_INET or AF_INET6 */
	bool is_loopback;
	char reason[96]; /* "GLOO_SOCKET_IFNAME=eth0" */
};

/*
 * Choose the address as PyTorch does: that of the interface GLOO_SOCKET_IFNAME; else, unlike
 * PyTorch, the one that leads to MASTER_ADDR; else that of the host's name if it is an address of
 * this host; else the loopback address. BB_EUSAGE if the variable names no usable interface.
 */
BB_MUST bb_status bb_gloo_choose_address(struct bb_gloo_choice *choice, struct bb_error *error);

#endif
