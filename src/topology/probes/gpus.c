#include "topology/probes/gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int bb_gpus_present(void)
{
	const char *const given = getenv("BUSBENCH_DEVICE_FOLDER");
	const char *const list = getenv("CUDA_VISIBLE_DEVICES");
	/* CUDA ignores its list from the first item on that is neither a number nor an identifier.
	 */
	const bool hidden = list && !isdigit((unsigned char)*list) &&
			    strncmp(list, "GPU-", 4) != 0 && strncmp(list, "MIG-", 4) != 0;
	DIR *folder = hidden ? NULL : opendir(given ? given : "/dev");
	const struct dirent *file;
	int n = 0;

	if (!folder)
		return 0;
	/* access checks the cgroup too; opening would wake the GPU. */
	while ((file = readdir(folder)) != NULL) {
		const size_t prefix = strlen("nvidia");
		const size_t digits = strncmp(file->d_name, "nvidia", prefix) == 0
					      ? strspn(file->d_name + prefix, "0123456789")
					      : 0;

		n += digits > 0 && file->d_name[prefix + digits] == '\0' &&
		     faccessat(dirfd(folder), file->d_name, R_OK | W_OK, 0) == 0;
	}
	closedir(folder);
	return n;
}
