#include "backends/backend.h"

#include <string.h>

const struct bb_backend *const bb_backends[] = {&bb_backend_host, &bb_backend_null, NULL};

const struct bb_backend *bb_backend_find(const char *name)
{
	int i;

	for (i = 0; bb_backends[i]; i++) {
		if (strcmp(bb_backends[i]->name, name) == 0)
			return bb_backends[i];
	}
	return NULL;
}
