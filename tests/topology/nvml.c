/*
 * nvml.c - a stand-in for libnvidia-ml.so.1: GPUs as the environment variable FAKE_NVML describes
 * them, in words with spaces between:
 *
 *   gpus=N sm=N name=WORD      how many, their compute capability, their name with _ for spaces
 *   switch=N                   NVLinks of each to switches; ids=hidden: these have no PCI id
 *   mesh=N                     or between any two
 *   cpu=N c2c=N                NVLinks and NVLink-C2C of each to the CPU
 *   down=GPU:LINK              a link that is down
 *   p2p=STATUS                 between any two that no NVLink joins
 *   gen=N width=N              of PCIe now; the most is 5 and 16
 *   lost=GPU                   does not answer any more
 *   throttle=N                 ms at a lower clock for power that each question finds more
 *   ecc=N                      corrected errors of memory
 *   init=CODE                  what nvmlInit returns
 */
#include "topology/probes/nvml_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NOT_FOUND 6
#define NOT_SUPPORTED 3
#define LOST 15

#define DECLARE(name, parameters) EXPORT nvmlReturn_t name parameters;
BB_NVML_NEEDED(DECLARE)
BB_NVML_OPTIONAL(DECLARE)
BB_NVML_HEALTH(DECLARE)

static long number(const char *key, long otherwise)
{
	const char *text = getenv("FAKE_NVML"), *at;
	char wanted[32];

	snprintf(wanted, sizeof(wanted), "%s=", key);
	at = text ? strstr(text, wanted) : NULL;
	return at ? strtol(at + strlen(wanted), NULL, 10) : otherwise;
}

/* Handles are the numbers of the GPUs, plus 1. */
static long index_of(nvmlDevice_t device)
{
	return (long)(size_t)device - 1;
}

static unsigned bus_of(long gpu)
{
	return 0x10 + 0x11 * (unsigned)gpu;
}

/* Link number LINK of a GPU: to another GPU, -1 a switch, -2 the CPU, -3 there is none. */
static long peer_of(long gpu, unsigned link)
{
	const long gpus = number("gpus", 0), mesh = number("mesh", 0);

	if (link < (unsigned)number("switch", 0))
		return -1;
	link -= (unsigned)number("switch", 0);
	if (mesh > 0 && link < (unsigned)(mesh * (gpus - 1))) {
		long other = link / (unsigned)mesh;

		return other >= gpu ? other + 1 : other;
	}
	link -= (unsigned)(mesh * (gpus - 1));
	return link < (unsigned)number("cpu", 0) ? -2 : -3;
}

static int is_down(long gpu, unsigned link)
{
	char wanted[32];
	const char *at = getenv("FAKE_NVML");
	const size_t length = (size_t)snprintf(wanted, sizeof(wanted), "down=%ld:%u", gpu, link);

	for (; at && (at = strstr(at, wanted)) != NULL; at += length)
		if (at[length] == ' ' || at[length] == '\0')
			return 1;
	return 0;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return (nvmlReturn_t)number("init", 0);
}

nvmlReturn_t nvmlShutdown(void)
{
	return 0;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	snprintf(version, length, "580.65.06");
	return 0;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = (unsigned)number("gpus", 0);
	return 0;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	if ((long)index == number("lost", -1))
		return LOST;
	*device = (nvmlDevice_t)(size_t)(index + 1);
	return 0;
}

static void describe_pci(nvmlPciInfo_t *pci, unsigned bus)
{
	memset(pci, 0, sizeof(*pci));
	pci->bus = bus;
	pci->pciDeviceId = 0x233010de;
	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", bus);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	describe_pci(pci, bus_of(index_of(device)));
	return 0;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
	const char *text = getenv("FAKE_NVML"), *at = text ? strstr(text, "name=") : NULL;

	snprintf(name, length, "%.*s", at ? (int)strcspn(at + 5, " ") : 9,
		 at ? at + 5 : "Some GPU 1");
	for (char *c = name; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	return 0;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	memory->total = 80ull << 30;
	return 0;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	*major = (int)number("sm", 0) / 10;
	*minor = (int)number("sm", 0) % 10;
	return 0;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *generation)
{
	*generation = (unsigned)number("gen", 5);
	return 0;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *width)
{
	*width = (unsigned)number("width", 16);
	return 0;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *generation)
{
	*generation = 5;
	return 0;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *width)
{
	*width = 16;
	return 0;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, int capability,
					   unsigned *value)
{
	if (peer_of(index_of(device), link) == -3)
		return NOT_SUPPORTED;
	*value = capability == BB_NVML_NVLINK_CAP_P2P;
	return 0;
}

/* Of GPUs from 9.0 on the field has to be asked, as on the real ones. */
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *active)
{
	if (number("sm", 0) >= 90)
		return NOT_SUPPORTED;
	*active = !is_down(index_of(device), link);
	return 0;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	for (int i = 0; i < count; i++) {
		values[i].nvmlReturn = 0;
		if (values[i].fieldId == BB_NVML_FI_NVLINK_GET_STATE)
			values[i].value.uiVal = !is_down(index_of(device), values[i].scopeId);
		else if (values[i].fieldId == BB_NVML_FI_C2C_LINK_COUNT && number("c2c", 0) > 0)
			values[i].value.uiVal = (unsigned)number("c2c", 0);
		else if (values[i].fieldId == BB_NVML_FI_C2C_LINK_STATUS)
			values[i].value.uiVal = 1;
		else if (values[i].fieldId == BB_NVML_FI_C2C_LINK_MAX_BW)
			values[i].value.uiVal = 44712;
		else
			values[i].nvmlReturn = NOT_SUPPORTED;
	}
	return 0;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
						 nvmlPciInfo_t *pci)
{
	const long peer = peer_of(index_of(device), link);
	const char *text = getenv("FAKE_NVML");

	if (peer == -2 || (peer == -1 && text && strstr(text, "ids=hidden"))) {
		memset(pci, 0, sizeof(*pci));
		return peer == -2 ? NOT_SUPPORTED : 0;
	}
	describe_pci(pci, peer >= 0 ? bus_of(peer) : 0xf0 + link % 4);
	return 0;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, int *type)
{
	const long peer = peer_of(index_of(device), link);

	*type = peer >= 0    ? BB_NVML_REMOTE_GPU
		: peer == -2 ? BB_NVML_REMOTE_IBMNPU
			     : BB_NVML_REMOTE_SWITCH;
	return 0;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int capability, int *status)
{
	if (capability != BB_NVML_P2P_READ)
		return NOT_FOUND;
	*status = (int)number("p2p", 0);
	return 0;
}

/* ---- why a GPU may be slow ------------------------------------------------------------------ */

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device)
{
	unsigned at;

	for (unsigned gpu = 0; gpu < (unsigned)number("gpus", 0); gpu++)
		if (sscanf(bus, "0000:%x:00.0", &at) == 1 && at == bus_of(gpu))
			return nvmlDeviceGetHandleByIndex_v2(gpu, device);
	return NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned *MHz)
{
	*MHz = clock == BB_NVML_CLOCK_SM ? 1410 : 2619;
	return 0;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int clock, unsigned *MHz)
{
	*MHz = clock == BB_NVML_CLOCK_SM ? 1980 : 2619;
	return 0;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *mW)
{
	*mW = 500000;
	return 0;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int uncorrected, int aggregate,
					 unsigned long long *errors)
{
	*errors = uncorrected ? 0 : (unsigned long long)number("ecc", 0);
	return 0;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int counter,
					     unsigned long long *errors)
{
	if (peer_of(index_of(device), link) == -3)
		return NOT_SUPPORTED;
	*errors = counter == 3 ? 1 : 0;
	return 0;
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, int policy,
					  nvmlViolationTime_t *time)
{
	static unsigned long long
		ns; /* of the first GPU, whose questions come one after the other */

	if (policy == BB_NVML_POLICY_POWER && index_of(device) == 0)
		ns += 1000000ull * (unsigned long long)number("throttle", 0);
	time->violationTime = policy == BB_NVML_POLICY_POWER && index_of(device) == 0 ? ns : 0;
	return 0;
}
