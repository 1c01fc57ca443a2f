#include "far.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHARED ((size_t)4 << 20) /* bytes that stand for all others */

static void map(char *at, size_t bytes, int flags, int fd)
{
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == MAP_FAILED)
		abort();
}

static char *map_buffer(int fd)
{
	char *const buffer = mmap(NULL, FAR_BYTES, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (buffer == MAP_FAILED)
		abort();
	for (size_t at = 0; at < FAR_BYTES; at += SHARED)
		map(buffer + at, FAR_BYTES - at < SHARED ? FAR_BYTES - at : SHARED, MAP_SHARED, fd);
	for (int i = 0; i < FAR_WINDOWS; i++)
		map(buffer + far_window(i), FAR_WINDOW, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	return buffer;
}

bool far_open(struct rig *r)
{
	for (int i = 0; !r->far[i] && i < 2; i++) {
		const int fd = memfd_create("busbench", MFD_CLOEXEC);

		if (fd < 0 || ftruncate(fd, (off_t)SHARED) != 0)
			abort();
		r->far[i] = map_buffer(fd);
		close(fd);
	}
	return true;
}

void far_close(struct rig *r)
{
	for (int i = 0; i < 2 && r->far[i]; i++)
		munmap(r->far[i], FAR_BYTES);
}

/* Threads run one after the other: so many that each goes through few places, which caches hold,
   and so few that each goes round several times. */
struct bb_gpu_lane far_lane(const struct rig *r)
{
	return rig_lane(r, 65536);
}
