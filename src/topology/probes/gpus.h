/*
 * gpus.h - the GPUs of this process, without CUDA's libraries.
 */
#ifndef BB_TOPOLOGY_PROBES_GPUS_H
#define BB_TOPOLOGY_PROBES_GPUS_H

/*
 * Number of device files of the NVIDIA driver (/dev/nvidia0, …) that container and cgroup let this
 * process open; 0 if CUDA_VISIBLE_DEVICES hides all GPUs from CUDA. BUSBENCH_DEVICE_FOLDER replaces
 * /dev in tests.
 */
int bb_gpus_present(void);

#endif
