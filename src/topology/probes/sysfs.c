#include "topology/probes/sources.h"
#include "core/file.h"
#include "topology/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 512

/* A device in sysfs. */
struct folder {
	const char *root, *class, *name; /* ROOT/CLASS/NAME */
	char line[64];                   /* of the last file */
};

/* Whether F has FILE, whose first line is then read. */
static bool has_file(struct folder *f, const char *file)
{
	char path[PATH_BYTES];

	return snprintf(path, sizeof(path), "%s/%s/%s/%s", f->root, f->class, f->name, file) <
		       PATH_BYTES &&
	       bb_kernel_line(path, f->line, sizeof(f->line));
}

/* "16.0 GT/s PCIe" and "16"; the kernel writes "Unknown" and 255 for unknown values. */
static void read_link(struct folder *f, const char *speed, const char *width, struct bb_pcie *link)
{
	const int gen = has_file(f, speed) ? bb_pcie_gen(strtod(f->line, NULL)) : 0;
	const int lanes = has_file(f, width) ? (int)strtol(f->line, NULL, 10) : 0;

	if (gen > 0 && lanes > 0 && lanes <= 32)
		*link = bb_pcie(gen, lanes);
}

#define EXTENDED 0x100  /* where the extended capabilities begin (PCIe, 7.6) */
#define ACS 0x000d      /* Access Control Services (7.7.11) */
#define REDIRECT 0x000c /* request and completion redirect in its control register */

/* Whether a port redirects traffic between devices below it upwards. Only root can read these
   registers. */
static enum bb_acs read_acs(const struct folder *f)
{
	char path[PATH_BYTES];
	unsigned char config[4096 + 1];
	enum bb_acs acs = BB_ACS_UNKNOWN;
	size_t length;

	if (snprintf(path, sizeof(path), "%s/%s/%s/config", f->root, f->class, f->name) >=
	    PATH_BYTES)
		return acs;
	length = bb_kernel_read(path, (char *)config, sizeof(config));
	for (size_t at = EXTENDED, seen = 0; at >= EXTENDED && at + 8 <= length && seen < 1024;
	     seen++) {
		/* Little-endian: an id of 16 bits, 4 of version, 12 of the next place. */
		acs = BB_ACS_OFF; /* known from here on */
		if ((config[at] | config[at + 1] << 8) == ACS)
			return config[at + 6] & REDIRECT ? BB_ACS_REDIRECT : BB_ACS_OFF;
		at = (size_t)(config[at + 2] >> 4 | config[at + 3] << 4);
	}
	return acs;
}

void bb_sysfs_read(struct bb_topology *t, const char *root)
{
	long speed;

	for (int p = 0; p < t->npcis; p++) {
		struct bb_pci *pci = &t->pcis[p];
		struct folder f = {root, "bus/pci/devices", pci->id, ""};

		read_link(&f, "current_link_speed", "current_link_width", &pci->now);
		read_link(&f, "max_link_speed", "max_link_width", &pci->most);
		if (has_file(&f, "numa_node") && pci->numa < 0)
			pci->numa = bb_host_numa(&t->host, (int)strtol(f.line, NULL, 10));
		if (pci->role == BB_PCI_ROOT_PORT || pci->role == BB_PCI_SWITCH_DOWN)
			pci->acs = read_acs(&f);
	}
	for (int i = 0; i < t->ndevices; i++) {
		struct bb_device *d = &t->devices[i];
		struct folder rdma = {root, "class/infiniband", d->name, ""};
		struct folder interface = {root, "class/net", d->name, ""};

		if (d->numa < 0 && d->pci >= 0)
			d->numa = t->pcis[d->pci].numa;
		if (d->kind != BB_NIC)
			continue;
		/* "400 Gb/sec (4X NDR)", "InfiniBand", "4: ACTIVE" */
		if (has_file(&rdma, "ports/1/rate")) {
			d->rate_Mbps = (int64_t)(strtod(rdma.line, NULL) * 1000);
			if (has_file(&rdma, "ports/1/link_layer"))
				d->layer = strcmp(rdma.line, "Ethernet") == 0 ? BB_ETHERNET
					   : strcmp(rdma.line, "InfiniBand") == 0
						   ? BB_INFINIBAND
						   : BB_LAYER_UNKNOWN;
			if (has_file(&rdma, "ports/1/state"))
				d->state =
					strstr(rdma.line, "ACTIVE") ? BB_STATE_UP : BB_STATE_DOWN;
			continue;
		}
		if (has_file(&interface, "operstate")) {
			d->layer = BB_ETHERNET;
			d->state = strcmp(interface.line, "up") == 0     ? BB_STATE_UP
				   : strcmp(interface.line, "down") == 0 ? BB_STATE_DOWN
									 : BB_STATE_UNKNOWN;
		}
		/* In Mb/s, and -1 or an error while the link is down. */
		if (has_file(&interface, "speed")) {
			speed = strtol(interface.line, NULL, 10);
			d->rate_Mbps = speed > 0 && speed < 100000000 ? speed : 0;
		}
	}
}
