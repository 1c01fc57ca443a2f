/*
 * Memory that the processes of a run share: a file, at the same address in all of them, so that
 * pointers into it mean the same. Each process gives out of a slice of its own; what is let go, by
 * whomever, is kept for the next that wants as much.
 */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REGION ((char *)0x200000000000) /* where nobody else maps anything, sanitizers included */
#define SLICE ((size_t)16 << 30)        /* of the file, which takes room only where it is written */
#define SLICES FAKE_MOST_RANKS
#define HEAD ((size_t)1 << 20)
#define REGION_BYTES (HEAD + SLICES * SLICE)
#define LEAST_CLASS 9 /* blocks are powers of two, from the alignment on */
#define CLASSES 36

_Static_assert((size_t)1 << LEAST_CLASS == FAKE_ALIGNMENT, "the least block is aligned");

struct head {
	struct fake_shared shared;
	atomic_int processes;
};

static struct {
	struct head *head; /* NULL: there is no region */
	pthread_mutex_t lock;
	char *next, *end; /* of this process's slice */
	void *kept[CLASSES];
} region = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct fake_shared alone = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void fail(const char *what)
{
	perror(what);
	abort();
}

void fake_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

/* The first to come makes it. */
static void open_region(const char *path)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat file;
	void *at;
	int slice;

	if (fd < 0 || flock(fd, LOCK_EX) != 0 || fstat(fd, &file) != 0)
		fail(path);
	if (file.st_size == 0 && ftruncate(fd, (off_t)REGION_BYTES) != 0)
		fail(path);
	at = mmap(REGION, REGION_BYTES, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
	if (at != REGION)
		fail(path);
	region.head = at;
	if (file.st_size == 0)
		fake_mutex_init(&region.head->shared.lock);
	slice = atomic_fetch_add(&region.head->processes, 1);
	if (slice >= SLICES)
		fail("BUSBENCH_FAKE_REGION: too many processes");
	region.next = REGION + HEAD + (size_t)slice * SLICE;
	region.end = region.next + SLICE;
	flock(fd, LOCK_UN); /* the mapping would keep it */
	close(fd);
}

__attribute__((constructor)) static void begin(void)
{
	const char *const path = getenv("BUSBENCH_FAKE_REGION");

	if (path)
		open_region(path);
}

struct fake_shared *fake_shared(void)
{
	return region.head ? &region.head->shared : &alone;
}

bool fake_has_region(void)
{
	return region.head != NULL;
}

static int class_of(size_t bytes)
{
	int class = LEAST_CLASS;

	while ((size_t)1 << class < bytes)
		class ++;
	return class;
}

void *fake_alloc(size_t bytes)
{
	const int class = class_of(bytes);
	const size_t whole = (size_t)1 << class;
	void *at;

	if (!region.head)
		return aligned_alloc(FAKE_ALIGNMENT,
				     (bytes + FAKE_ALIGNMENT - 1) & ~(FAKE_ALIGNMENT - 1));
	pthread_mutex_lock(&region.lock);
	at = class < CLASSES ? region.kept[class] : NULL;
	if (at) {
		memcpy(&region.kept[class], at, sizeof(at));
	} else if (whole <= (size_t)(region.end - region.next)) {
		at = region.next;
		region.next += whole;
	}
	pthread_mutex_unlock(&region.lock);
	return at;
}

void fake_free(void *at, size_t bytes)
{
	const int class = class_of(bytes);

	if (!region.head) {
		free(at);
		return;
	}
	pthread_mutex_lock(&region.lock);
	memcpy(at, &region.kept[class], sizeof(at));
	region.kept[class] = at;
	pthread_mutex_unlock(&region.lock);
}

void *fake_zeroed(size_t bytes)
{
	void *at = fake_alloc(bytes);

	if (!at)
		abort();
	return memset(at, 0, bytes);
}
