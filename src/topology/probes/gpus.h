/*
 * gpus.h - whether this process has GPUs, without CUDA's libraries.
 */
#ifndef BB_TOPOLOGY_PROBES_GPUS_H
#define BB_TOPOLOGY_PROBES_GPUS_H

/*
 * Number of the NVIDIA driver's device files (/dev/nvidia0, …) that this process may open: those of
 * its container and its cgroup. 0 where CUDA_VISIBLE_DEVICES hides all GPUs from CUDA.
 * BUSBENCH_DEVICE_FOLDER names another folder than /dev, for tests.
 */
int bb_gpus_present(void);

#endif
