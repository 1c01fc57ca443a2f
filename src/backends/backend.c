#include "backends/backend.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct bb_backend *const bb_backends[] = {&bb_backend_host, &bb_backend_sim, &bb_backend_null,
						NULL};

const struct bb_backend *bb_backend_find(const char *name)
{
	for (int i = 0; bb_backends[i]; i++) {
		if (strcmp(bb_backends[i]->name, name) == 0)
			return bb_backends[i];
	}
	return NULL;
}

void bb_location_here(struct bb_location *location)
{
	*location = (struct bb_location){.pid = (int)getpid()};
	if (gethostname(location->host, sizeof(location->host) - 1) != 0)
		snprintf(location->host, sizeof(location->host), "localhost");
}
