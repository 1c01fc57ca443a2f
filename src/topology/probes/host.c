#include "topology/probes/host.h"

#include <stdlib.h>
#include <string.h>

void bb_host_free(struct bb_host *host)
{
	for (int i = 0; i < host->nnumas; i++)
		free(host->numas[i].cpus);
	free(host->packages);
	free(host->numas);
	free(host->cores);
	free(host->distances);
	memset(host, 0, sizeof(*host));
}

int bb_host_numa(const struct bb_host *host, int os)
{
	for (int i = 0; i < host->nnumas; i++)
		if (host->numas[i].os == os)
			return i;
	return -1;
}

int64_t bb_host_memory(const struct bb_host *host)
{
	int64_t bytes = 0;

	for (int i = 0; i < host->nnumas; i++)
		bytes += host->numas[i].bytes;
	return bytes;
}
