/*
 * nvml_api.h - the part of NVML's binary interface that busbench uses: types, constants and
 * prototypes, and its loading. The library comes with NVIDIA's driver and is loaded at run time.
 * Names are those that it exports; NVML's own header maps some names to them.
 */
#pragma once

#include <stdbool.h>

#define BB_NVML_LINKS 36 /* NVML_NVLINK_MAX_LINKS */

typedef int nvmlReturn_t; /* 0: success */
typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId; /* device << 16 | vendor */
	unsigned int pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef union {
	unsigned int uiVal;
	unsigned long long ullVal;
} nvmlValue_t; /* of any type */

typedef struct {
	unsigned int fieldId, scopeId;
	long long timestamp, latencyUsec;
	int valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

#define BB_NVML_FI_NVLINK_GET_STATE 165 /* scope: the link; 1 is up */
#define BB_NVML_FI_C2C_LINK_COUNT 170
#define BB_NVML_FI_C2C_LINK_STATUS 171 /* scope: the link; 1 is up */
#define BB_NVML_FI_C2C_LINK_MAX_BW 172 /* of one link, MB/s */

#define BB_NVML_NVLINK_CAP_P2P 0
#define BB_NVML_REMOTE_GPU 0
#define BB_NVML_REMOTE_IBMNPU 1
#define BB_NVML_REMOTE_SWITCH 2
/* A capability of P2P; the status is 0 (OK), or 1 to 6 as in enum bb_peer_access. */
#define BB_NVML_P2P_READ 0

/* X(name, parameters) for every function; all return nvmlReturn_t. Those of the second list may be
   missing in old drivers. */
#define BB_NVML_NEEDED(X)                                                                          \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlShutdown, (void))                                                                    \
	X(nvmlDeviceGetCount_v2, (unsigned int *count))                                            \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *device))               \
	X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t * pci))

#define BB_NVML_OPTIONAL(X)                                                                        \
	X(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, nvmlDevice_t *device))               \
	X(nvmlSystemGetDriverVersion, (char *version, unsigned int length))                        \
	X(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned int length))               \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t * memory))                   \
	X(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor))       \
	X(nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t device, unsigned int *generation))    \
	X(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t device, unsigned int *width))              \
	X(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned int *generation))     \
	X(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned int *width))               \
	X(nvmlDeviceGetNvLinkCapability,                                                           \
	  (nvmlDevice_t device, unsigned int link, int capability, unsigned int *value))           \
	X(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned int link, int *active))         \
	X(nvmlDeviceGetNvLinkRemotePciInfo_v2,                                                     \
	  (nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci))                            \
	X(nvmlDeviceGetNvLinkRemoteDeviceType,                                                     \
	  (nvmlDevice_t device, unsigned int link, int *type))                                     \
	X(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *values))    \
	X(nvmlDeviceGetP2PStatus, (nvmlDevice_t a, nvmlDevice_t b, int capability, int *status))

/* ---- why a GPU may be slow (backends/nccl/health.c) -------------------------------------- */

#define BB_NVML_CLOCK_SM 1
#define BB_NVML_CLOCK_MEMORY 2
#define BB_NVML_POLICY_POWER 0
#define BB_NVML_POLICY_THERMAL 1
#define BB_NVML_NVLINK_COUNTERS 4 /* replays, recoveries, CRC errors of flits and of data */

/* Nanoseconds, since the driver was loaded. */
typedef struct {
	unsigned long long referenceTime, violationTime;
} nvmlViolationTime_t;

#define BB_NVML_HEALTH(X)                                                                          \
	X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, int clock, unsigned int *MHz))             \
	X(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, int clock, unsigned int *MHz))          \
	X(nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned int *celsius))      \
	X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned int *mW))                        \
	X(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned int *mW))                \
	X(nvmlDeviceGetPowerManagementDefaultLimit, (nvmlDevice_t device, unsigned int *mW))       \
	X(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, int *mode))                          \
	X(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned int *now, unsigned int *pending))   \
	X(nvmlDeviceGetCurrentClocksThrottleReasons,                                               \
	  (nvmlDevice_t device, unsigned long long *reasons))                                      \
	X(nvmlDeviceGetTotalEccErrors,                                                             \
	  (nvmlDevice_t device, int uncorrected, int aggregate, unsigned long long *errors))       \
	X(nvmlDeviceGetRemappedRows,                                                               \
	  (nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,                \
	   unsigned int *pending, unsigned int *failed))                                           \
	X(nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t device, unsigned int *replays))            \
	X(nvmlDeviceGetNvLinkErrorCounter,                                                         \
	  (nvmlDevice_t device, unsigned int link, int counter, unsigned long long *errors))       \
	X(nvmlDeviceGetViolationStatus,                                                            \
	  (nvmlDevice_t device, int policy, nvmlViolationTime_t *time))

/* ---- the loaded library (nvml.c) --------------------------------------------------------- */

struct bb_nvml {
	void *library;
#define BB_NVML_POINTER(name, parameters) nvmlReturn_t(*name) parameters;
	BB_NVML_NEEDED(BB_NVML_POINTER)
	BB_NVML_OPTIONAL(BB_NVML_POINTER) BB_NVML_HEALTH(BB_NVML_POINTER)
#undef BB_NVML_POINTER
};

/* Whether optional function NAME exists and succeeds. */
#define BB_NVML(api, name, ...) ((api)->name && (api)->name(__VA_ARGS__) == 0)

/* Load and start NVML; false: it is missing, or does not start. */
bool bb_nvml_open(struct bb_nvml *api);
void bb_nvml_close(struct bb_nvml *api);
