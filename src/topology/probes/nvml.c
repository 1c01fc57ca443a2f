/*
 * nvml.c - GPUs by NVML. NVLinks are read as in NCCL (src/graph/xml.cc): capability, then state, by
 * a field from compute capability 9.0 on; a remote end without an id is an NVSwitch.
 */
#include "topology/build.h"
#include "topology/probes/nvml_api.h"
#include "topology/rates.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	struct bb_nvml api;
	struct bb_topology *t;
	struct bb_error *error;
	nvmlDevice_t handles[BB_MOST_GPUS];
	int devices[BB_MOST_GPUS]; /* index in the model */
	int ngpus;
};

bool bb_nvml_open(struct bb_nvml *api)
{
	bool needed = true;

	api->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!api->library)
		return false;
#define NEED(name, parameters) needed = (api->name = dlsym(api->library, #name)) && needed;
	BB_NVML_NEEDED(NEED)
#undef NEED
#define ASK(name, parameters) api->name = dlsym(api->library, #name);
	BB_NVML_OPTIONAL(ASK)
	BB_NVML_HEALTH(ASK)
#undef ASK
	if (needed && api->nvmlInit_v2() == 0)
		return true;
	dlclose(api->library);
	return false;
}

void bb_nvml_close(struct bb_nvml *api)
{
	api->nvmlShutdown();
	dlclose(api->library);
}

/* ---- one GPU ------------------------------------------------------------------------------ */

static int device_on(const struct bb_topology *t, int p)
{
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].kind == BB_GPU && t->devices[d].pci == p)
			return d;
	return -1;
}

static bb_status add_nvml_gpu(struct reader *r, nvmlDevice_t handle)
{
	struct bb_pci pci = {.class_code = 0x0302, .parent = -1, .root = -1, .numa = -1};
	struct bb_nvml *const api = &r->api;
	nvmlPciInfo_t info = {0};
	nvmlMemory_t memory;
	char name[BB_TEXT];
	unsigned gen, width;
	struct bb_device d, *device;
	bb_status st;
	int p, at, major, minor;

	if (api->nvmlDeviceGetPciInfo_v3(handle, &info) != 0)
		return BB_OK; /* lost from the bus; it stays as found on PCI */
	info.busId[sizeof(info.busId) - 1] = '\0';
	p = bb_find_pci(r->t, info.busId);
	if (p < 0) { /* hwloc has not found it, as in a container */
		if (!bb_pci_id(pci.id, info.busId))
			return bb_fail(r->error, BB_EBACKEND,
				       "NVML reports %.32s as the bus id of a GPU", info.busId);
		pci.vendor = info.pciDeviceId & 0xffff;
		pci.device = info.pciDeviceId >> 16;
		BB_TRY(st, bb_add_pci(r->t, &pci, &p, r->error), out);
	}
	if (BB_NVML(api, nvmlDeviceGetCurrPcieLinkGeneration, handle, &gen) &&
	    BB_NVML(api, nvmlDeviceGetCurrPcieLinkWidth, handle, &width) && gen > 0 && width > 0)
		r->t->pcis[p].now = bb_pcie((int)gen, (int)width);
	if (BB_NVML(api, nvmlDeviceGetMaxPcieLinkGeneration, handle, &gen) &&
	    BB_NVML(api, nvmlDeviceGetMaxPcieLinkWidth, handle, &width) && gen > 0 && width > 0)
		r->t->pcis[p].most = bb_pcie((int)gen, (int)width);
	at = device_on(r->t, p);
	if (at < 0) {
		d = bb_device_of(r->t, p, BB_GPU);
		BB_TRY(st, bb_add_device(r->t, &d, &at, r->error), out);
	}
	device = &r->t->devices[at];
	if (BB_NVML(api, nvmlDeviceGetName, handle, name, sizeof(name))) {
		name[sizeof(name) - 1] = '\0';
		snprintf(device->model, sizeof(device->model), "%s",
			 strncmp(name, "NVIDIA ", 7) == 0 ? name + 7 : name);
	}
	if (BB_NVML(api, nvmlDeviceGetMemoryInfo, handle, &memory))
		device->bytes = (int64_t)memory.total;
	if (BB_NVML(api, nvmlDeviceGetCudaComputeCapability, handle, &major, &minor))
		device->sm = 10 * major + minor;
	r->handles[r->ngpus] = handle;
	r->devices[r->ngpus++] = at;
out:
	return st;
}

/* ---- links -------------------------------------------------------------------------------- */

static bool field(struct bb_nvml *api, nvmlDevice_t handle, unsigned id, unsigned scope,
		  unsigned *value)
{
	nvmlFieldValue_t f = {.fieldId = id, .scopeId = scope};

	if (!BB_NVML(api, nvmlDeviceGetFieldValues, handle, 1, &f) || f.nvmlReturn != 0)
		return false;
	*value = f.value.uiVal;
	return true;
}

enum link_state { LINK_NONE, LINK_DOWN, LINK_UP };

static enum link_state link_state(struct bb_nvml *api, nvmlDevice_t handle, unsigned link, int sm)
{
	unsigned able = 0, value = 0;
	int active = 0;

	if (!BB_NVML(api, nvmlDeviceGetNvLinkCapability, handle, link, BB_NVML_NVLINK_CAP_P2P,
		     &able) ||
	    !able)
		return LINK_NONE;
	if (sm >= 90 && field(api, handle, BB_NVML_FI_NVLINK_GET_STATE, link, &value))
		return value == 1 ? LINK_UP : LINK_DOWN;
	if (!BB_NVML(api, nvmlDeviceGetNvLinkState, handle, link, &active))
		return LINK_NONE;
	return active ? LINK_UP : LINK_DOWN;
}

/* The other end of a link: a GPU of the model, the CPU or a switch. BB_PEER_MISSING: a hidden
   GPU. */
static int link_peer(struct reader *r, nvmlDevice_t handle, unsigned link)
{
	nvmlPciInfo_t remote = {0};
	int type, p;

	if (BB_NVML(&r->api, nvmlDeviceGetNvLinkRemotePciInfo_v2, handle, link, &remote)) {
		remote.busId[sizeof(remote.busId) - 1] = '\0';
		p = bb_find_pci(r->t, remote.busId);
		if (p >= 0 && device_on(r->t, p) >= 0)
			return device_on(r->t, p);
	}
	if (!BB_NVML(&r->api, nvmlDeviceGetNvLinkRemoteDeviceType, handle, link, &type))
		return BB_PEER_SWITCH;
	if (type == BB_NVML_REMOTE_GPU)
		return BB_PEER_MISSING;
	return type == BB_NVML_REMOTE_IBMNPU ? BB_PEER_CPU : BB_PEER_SWITCH;
}

/* Add the NVLinks and the NVLink-C2C of GPU I. */
static bb_status add_links(struct reader *r, int i)
{
	const int sm = r->t->devices[r->devices[i]].sm;
	const nvmlDevice_t handle = r->handles[i];
	struct bb_link l = bb_gpu_links(r->t, r->devices[i], BB_PEER_MISSING, 1);
	struct bb_link c2c = {.kind = BB_C2C, .device = r->devices[i], .peer = BB_PEER_CPU};
	unsigned count = 0, up, MBps;
	int down = 0;
	bb_status st = BB_OK;

	for (unsigned link = 0; link < BB_NVML_LINKS; link++) {
		enum link_state state = link_state(&r->api, handle, link, sm);

		down += state == LINK_DOWN;
		if (state != LINK_UP)
			continue;
		l.peer = link_peer(r, handle, link);
		if (l.peer != BB_PEER_MISSING)
			BB_TRY(st, bb_add_link(r->t, &l, r->error), out);
	}
	/* A link that is down has no remote end; assume that of the first working one. */
	if (down > 0 && bb_topology_nvlinks(r->t, l.device, BB_PEER_ANY) > 0) {
		l.peer = bb_topology_link(r->t, l.device, BB_NVLINK)->peer;
		l.count = 0;
		l.down = down;
		BB_TRY(st, bb_add_link(r->t, &l, r->error), out);
	}
	if (!field(&r->api, handle, BB_NVML_FI_C2C_LINK_COUNT, 0, &count))
		goto out;
	for (unsigned link = 0; link < count && link < BB_NVML_LINKS; link++) {
		if (!field(&r->api, handle, BB_NVML_FI_C2C_LINK_STATUS, link, &up) || !up) {
			c2c.down++;
			continue;
		}
		if (field(&r->api, handle, BB_NVML_FI_C2C_LINK_MAX_BW, link, &MBps))
			c2c.GBps = MBps / 1000.0;
		c2c.count++;
	}
	if (count > 0)
		st = bb_add_link(r->t, &c2c, r->error);
out:
	return st;
}

/* ---- all ---------------------------------------------------------------------------------- */

static bb_status read_gpus(struct reader *r)
{
	struct bb_topology *const t = r->t;
	struct bb_device gpus[BB_MOST_GPUS];
	unsigned count = 0;
	nvmlDevice_t handle;
	int others = 0, status;
	bb_status st = BB_OK;

	if (r->api.nvmlDeviceGetCount_v2(&count) != 0)
		return BB_OK;
	for (unsigned i = 0; i < count && i < BB_MOST_GPUS; i++)
		if (r->api.nvmlDeviceGetHandleByIndex_v2(i, &handle) == 0)
			BB_TRY(st, add_nvml_gpu(r, handle), out);
	if (r->ngpus == 0)
		goto out;
	/* Keep the GPUs that NVML shows, in its order. Others on the bus are displays of other
	   vendors, or hidden from a container, or dead; those of NVIDIA are counted. */
	for (int i = 0; i < r->ngpus; i++) {
		gpus[i] = t->devices[r->devices[i]];
		r->devices[i] = i;
	}
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].kind == BB_GPU)
			t->hidden_gpus += t->pcis[t->devices[d].pci].vendor == 0x10de;
		else
			t->devices[others++] = t->devices[d];
	t->hidden_gpus -= r->ngpus;
	memmove(t->devices + r->ngpus, t->devices, (size_t)others * sizeof(*t->devices));
	memcpy(t->devices, gpus, (size_t)r->ngpus * sizeof(*gpus));
	t->ndevices = r->ngpus + others;
	for (int i = 0; i < r->ngpus; i++)
		BB_TRY(st, add_links(r, i), out);
	BB_TRY(st, bb_add_p2p(t, r->error), out);
	for (int i = 0; i < r->ngpus * r->ngpus; i++)
		if (i / r->ngpus != i % r->ngpus &&
		    BB_NVML(&r->api, nvmlDeviceGetP2PStatus, r->handles[i / r->ngpus],
			    r->handles[i % r->ngpus], BB_NVML_P2P_READ, &status))
			t->p2p[i] = status >= 0 && status < BB_P2P_UNKNOWN ? (uint8_t)status
									   : BB_P2P_UNKNOWN;
	if (BB_NVML(&r->api, nvmlSystemGetDriverVersion, t->driver, sizeof(t->driver)))
		t->driver[sizeof(t->driver) - 1] = '\0';
out:
	return st;
}

bb_status bb_nvml_read(struct bb_topology *t, bool *found, struct bb_error *error)
{
	struct reader r = {.t = t, .error = error};

	*found = bb_nvml_open(&r.api);
	if (!*found)
		return BB_OK;
	const bb_status st = read_gpus(&r);
	bb_nvml_close(&r.api);
	return st;
}
