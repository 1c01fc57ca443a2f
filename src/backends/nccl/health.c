/*
 * State and counters of a GPU that may explain why it is slow, by NVML. NVML comes with the driver;
 * values are unknown where it, or one of its functions, is missing.
 */
#include "backends/nccl/nccl.h"

#include "topology/probes/nvml_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bb_nccl_health {
	struct bb_nvml nvml;
	nvmlDevice_t device; /* under MIG the whole GPU */
};

/* Does a call of function NAME, which an old driver may lack, succeed? */
#define NVML(h, name, ...) BB_NVML(&(h)->nvml, name, (h)->device, __VA_ARGS__)

/* ---- opening ---------------------------------------------------------------------------- */

void bb_nccl_health_open(struct bb_rank *rank)
{
	char bus[sizeof(rank->location.bus) + 2];
	struct bb_nccl_health *h = calloc(1, sizeof(*h));

	if (h && bb_nvml_open(&h->nvml)) {
		rank->health = h;
		snprintf(bus, sizeof(bus), "%s.0", rank->location.bus);
		if (!BB_NVML(&h->nvml, nvmlDeviceGetHandleByPciBusId_v2, bus, &h->device))
			bb_nccl_health_close(rank);
	} else {
		free(h);
	}
}

void bb_nccl_health_close(struct bb_rank *rank)
{
	if (rank->health)
		bb_nvml_close(&rank->health->nvml);
	free(rank->health);
	rank->health = NULL;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int64_t throttled_us(const struct bb_nccl_health *h, int policy)
{
	nvmlViolationTime_t time;

	return NVML(h, nvmlDeviceGetViolationStatus, policy, &time)
		       ? (int64_t)(time.violationTime / 1000)
		       : BB_GPU_UNKNOWN;
}

/* health->FIELD = RESULT if a call of NAME succeeds, which sets what RESULT is made of. */
#define READ(field, result, ...)                                                                   \
	if (NVML(h, __VA_ARGS__))                                                                  \
	health->field = (int64_t)(result)

void bb_nccl_health(struct bb_rank *rank, struct bb_gpu_health *health)
{
	const struct bb_nccl_health *const h = rank->health;
	unsigned long long wide;
	unsigned value, pending, corrected, uncorrected, failed;
	int mode;

	memset(health, 0, sizeof(*health));
#define FORGET(name, ...) health->name = BB_GPU_UNKNOWN;
	BB_GPU_STATES(FORGET)
	BB_GPU_COUNTS(FORGET)
#undef FORGET
	if (!h)
		return;
	if (!BB_NVML(&h->nvml, nvmlSystemGetDriverVersion, health->driver, sizeof(health->driver)))
		snprintf(health->driver, sizeof(health->driver), "unknown");
	health->driver[sizeof(health->driver) - 1] = '\0';
	READ(sm_MHz, value, nvmlDeviceGetClockInfo, BB_NVML_CLOCK_SM, &value);
	READ(sm_most_MHz, value, nvmlDeviceGetMaxClockInfo, BB_NVML_CLOCK_SM, &value);
	READ(memory_MHz, value, nvmlDeviceGetClockInfo, BB_NVML_CLOCK_MEMORY, &value);
	READ(memory_most_MHz, value, nvmlDeviceGetMaxClockInfo, BB_NVML_CLOCK_MEMORY, &value);
	READ(temperature_C, value, nvmlDeviceGetTemperature, 0, &value);
	READ(power_W, value / 1000, nvmlDeviceGetPowerUsage, &value);
	READ(power_cap_W, value / 1000, nvmlDeviceGetEnforcedPowerLimit, &value);
	READ(power_default_W, value / 1000, nvmlDeviceGetPowerManagementDefaultLimit, &value);
	READ(persistence, mode, nvmlDeviceGetPersistenceMode, &mode);
	READ(mig, value, nvmlDeviceGetMigMode, &value, &pending);
	READ(throttle_reasons, wide, nvmlDeviceGetCurrentClocksThrottleReasons, &wide);
	READ(ecc_corrected, wide, nvmlDeviceGetTotalEccErrors, 0, 0, &wide);
	READ(ecc_uncorrected, wide, nvmlDeviceGetTotalEccErrors, 1, 0, &wide);
	READ(pcie_replays, value, nvmlDeviceGetPcieReplayCounter, &value);
	if (NVML(h, nvmlDeviceGetRemappedRows, &corrected, &uncorrected, &pending, &failed)) {
		health->rows_remapped = (int64_t)corrected + uncorrected;
		health->rows_pending = pending;
	}
	health->power_throttled_us = throttled_us(h, BB_NVML_POLICY_POWER);
	health->thermal_throttled_us = throttled_us(h, BB_NVML_POLICY_THERMAL);
	/* The sum over all links; NVML fails for links that do not exist or are down. */
	for (unsigned link = 0; link < BB_NVML_LINKS; link++)
		for (int counter = 0; counter < BB_NVML_NVLINK_COUNTERS; counter++) {
			if (!NVML(h, nvmlDeviceGetNvLinkErrorCounter, link, counter, &wide))
				continue;
			if (health->nvlink_errors == BB_GPU_UNKNOWN)
				health->nvlink_errors = 0;
			health->nvlink_errors += (int64_t)wide;
		}
}

void bb_nccl_throttled(struct bb_rank *rank, int64_t us[BB_GPU_THROTTLES])
{
	const struct bb_nccl_health *const h = rank->health;

	us[BB_GPU_POWER] = h ? throttled_us(h, BB_NVML_POLICY_POWER) : BB_GPU_UNKNOWN;
	us[BB_GPU_THERMAL] = h ? throttled_us(h, BB_NVML_POLICY_THERMAL) : BB_GPU_UNKNOWN;
}
