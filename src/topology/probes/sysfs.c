#include "topology/probes/sysfs.h"
#include "core/file.h"
#include "topology/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 512

/* The first line of ROOT/FOLDER/NAME/FILE. */
static bool read_line(const char *root, const char *folder, const char *name, const char *file,
		      char *line, size_t bytes)
{
	char path[PATH_BYTES];

	return snprintf(path, sizeof(path), "%s/%s/%s/%s", root, folder, name, file) < PATH_BYTES &&
	       bb_kernel_line(path, line, bytes);
}

/* "16.0 GT/s PCIe" and "16"; the kernel writes "Unknown" and 255 for unknown values. */
static void read_link(const char *root, const char *id, const char *speed, const char *width,
		      struct bb_pcie *link)
{
	char line[64];
	int gen = 0, lanes = 0;

	if (read_line(root, "bus/pci/devices", id, speed, line, sizeof(line)))
		gen = bb_pcie_gen(strtod(line, NULL));
	if (read_line(root, "bus/pci/devices", id, width, line, sizeof(line)))
		lanes = (int)strtol(line, NULL, 10);
	if (gen > 0 && lanes > 0 && lanes <= 32)
		*link = bb_pcie(gen, lanes);
}

static uint32_t little_endian(const unsigned char *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

#define EXTENDED 0x100  /* where the extended capabilities begin (PCIe, 7.6) */
#define ACS 0x000d      /* Access Control Services (7.7.11) */
#define REDIRECT 0x000c /* request and completion redirect in its control register */

/* Whether a port redirects traffic between devices below it upwards. Only root can read these
   registers. */
static enum bb_acs read_acs(const char *root, const char *id)
{
	char path[PATH_BYTES];
	unsigned char config[4096 + 1];
	enum bb_acs acs = BB_ACS_UNKNOWN;
	size_t length;

	if (snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/config", root, id) >= PATH_BYTES)
		return acs;
	length = bb_kernel_read(path, (char *)config, sizeof(config));
	for (size_t at = EXTENDED, seen = 0; at >= EXTENDED && at + 8 <= length && seen < 1024;
	     seen++) {
		uint32_t header = little_endian(config + at);

		acs = BB_ACS_OFF; /* known from here on */
		if ((header & 0xffff) == ACS)
			return config[at + 6] & REDIRECT ? BB_ACS_REDIRECT : BB_ACS_OFF;
		at = header >> 20;
	}
	return acs;
}

static void read_pci(struct bb_topology *t, const char *root)
{
	char line[64];

	for (int p = 0; p < t->npcis; p++) {
		struct bb_pci *pci = &t->pcis[p];

		read_link(root, pci->id, "current_link_speed", "current_link_width", &pci->now);
		read_link(root, pci->id, "max_link_speed", "max_link_width", &pci->most);
		if (read_line(root, "bus/pci/devices", pci->id, "numa_node", line, sizeof(line)) &&
		    pci->numa < 0)
			pci->numa = bb_host_numa(&t->host, (int)strtol(line, NULL, 10));
		if (pci->role == BB_PCI_ROOT_PORT || pci->role == BB_PCI_SWITCH_DOWN)
			pci->acs = read_acs(root, pci->id);
	}
}

/* "400 Gb/sec (4X NDR)", "InfiniBand", "4: ACTIVE" */
static bool read_rdma(struct bb_device *d, const char *root)
{
	char line[64];

	if (!read_line(root, "class/infiniband", d->name, "ports/1/rate", line, sizeof(line)))
		return false;
	d->rate_Mbps = (int64_t)(strtod(line, NULL) * 1000);
	if (read_line(root, "class/infiniband", d->name, "ports/1/link_layer", line, sizeof(line)))
		d->layer = strcmp(line, "Ethernet") == 0     ? BB_ETHERNET
			   : strcmp(line, "InfiniBand") == 0 ? BB_INFINIBAND
							     : BB_LAYER_UNKNOWN;
	if (read_line(root, "class/infiniband", d->name, "ports/1/state", line, sizeof(line)))
		d->state = strstr(line, "ACTIVE") ? BB_STATE_UP : BB_STATE_DOWN;
	return true;
}

/* speed is in Mb/s, and -1 or an error while the link is down. */
static void read_interface(struct bb_device *d, const char *root)
{
	char line[64];
	long speed;

	if (read_line(root, "class/net", d->name, "operstate", line, sizeof(line))) {
		d->layer = BB_ETHERNET;
		d->state = strcmp(line, "up") == 0     ? BB_STATE_UP
			   : strcmp(line, "down") == 0 ? BB_STATE_DOWN
						       : BB_STATE_UNKNOWN;
	}
	if (read_line(root, "class/net", d->name, "speed", line, sizeof(line))) {
		speed = strtol(line, NULL, 10);
		d->rate_Mbps = speed > 0 && speed < 100000000 ? speed : 0;
	}
}

void bb_sysfs_read(struct bb_topology *t, const char *root)
{
	read_pci(t, root);
	for (int i = 0; i < t->ndevices; i++) {
		struct bb_device *d = &t->devices[i];

		if (d->numa < 0 && d->pci >= 0)
			d->numa = t->pcis[d->pci].numa;
		if (d->kind == BB_NIC && !read_rdma(d, root))
			read_interface(d, root);
	}
}
