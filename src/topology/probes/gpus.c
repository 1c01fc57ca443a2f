#include "topology/probes/gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "nvidia"

/* CUDA ignores its list from the first item on that is neither a number nor an identifier. */
static bool are_hidden(void)
{
	const char *const list = getenv("CUDA_VISIBLE_DEVICES");

	return list && !isdigit((unsigned char)*list) && strncmp(list, "GPU-", 4) != 0 &&
	       strncmp(list, "MIG-", 4) != 0;
}

static bool is_gpu(const char *name)
{
	const char *const number = name + strlen(PREFIX);

	return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && *number &&
	       number[strspn(number, "0123456789")] == '\0';
}

int bb_gpus_present(void)
{
	const char *const given = getenv("BUSBENCH_DEVICE_FOLDER");
	DIR *folder = are_hidden() ? NULL : opendir(given ? given : "/dev");
	const struct dirent *file;
	int n = 0;

	if (!folder)
		return 0;
	/* access checks the cgroup too; opening would wake the GPU. */
	while ((file = readdir(folder)) != NULL)
		n += is_gpu(file->d_name) &&
		     faccessat(dirfd(folder), file->d_name, R_OK | W_OK, 0) == 0;
	closedir(folder);
	return n;
}
