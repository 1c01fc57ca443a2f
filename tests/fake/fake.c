#include "fake.h"

#include "core/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_FUNCTIONS 128
#define NAME 48
#define NOTICED_SECONDS 2.0 /* a failure, at the latest */
#define POLLED_NS 50000     /* between looks at what other processes do */

static const char *const things[FAKE_THINGS] = {
	"blocks of memory",     "streams",       "events",     "graphs", "communicators",
	"device communicators", "registrations", "operations",
};

static struct {
	pthread_mutex_t lock;
	int nfunctions;
	struct {
		char name[NAME];
		int calls;
	} functions[MOST_FUNCTIONS];
	char failing[NAME];
	int failing_call;
	bool happened; /* it did, in this thread at this time */
	pthread_t thread;
	double time;
	atomic_bool noticed; /* by the others */
	int open[FAKE_THINGS];
	unsigned contexts; /* a bit for each device that the process had one on */
	char misuse[256];
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- which call fails ---------------------------------------------------------------- */

/* Locked. */
static int find(const char *function)
{
	int i;

	for (i = 0; i < fake.nfunctions; i++)
		if (strcmp(fake.functions[i].name, function) == 0)
			return i;
	if (i == MOST_FUNCTIONS)
		abort();
	snprintf(fake.functions[i].name, NAME, "%s", function);
	fake.functions[i].calls = 0;
	fake.nfunctions++;
	return i;
}

void fake_reset(void)
{
	pthread_mutex_lock(&fake.lock);
	for (int i = 0; i < fake.nfunctions; i++)
		fake.functions[i].calls = 0;
	fake.failing[0] = '\0';
	fake.happened = false;
	atomic_store(&fake.noticed, false);
	pthread_mutex_unlock(&fake.lock);
}

void fake_fail(const char *function, int call)
{
	pthread_mutex_lock(&fake.lock);
	snprintf(fake.failing, NAME, "%s", function);
	fake.failing_call = call;
	pthread_mutex_unlock(&fake.lock);
}

/* cudaSetDevice makes one on the device that it names; the others only ask. */
static bool makes_context(const char *function)
{
	static const char *const without[] = {"cudaGetDeviceCount",
					      "cudaGetDevice",
					      "cudaSetDevice",
					      "cudaGetDeviceProperties",
					      "cudaRuntimeGetVersion",
					      "cudaDriverGetVersion",
					      "cudaDeviceGetAttribute",
					      "cudaDeviceGetPCIBusId",
					      "cudaDeviceGetByPCIBusId",
					      "cudaDeviceCanAccessPeer",
					      "ncclGetVersion",
					      "ncclGetUniqueId",
					      "cuDeviceGet",
					      "cuDeviceGetAttribute"};

	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
		if (strcmp(function, without[i]) == 0)
			return false;
	return true;
}

void fake_context(int ordinal)
{
	pthread_mutex_lock(&fake.lock);
	fake.contexts |= 1u << ordinal;
	pthread_mutex_unlock(&fake.lock);
}

bool fake_enter(const char *function)
{
	bool fails;
	int i;

	if (makes_context(function))
		fake_context(fake_device());
	pthread_mutex_lock(&fake.lock);
	i = find(function);
	fake.functions[i].calls++;
	fails = strcmp(fake.failing, function) == 0 && fake.functions[i].calls == fake.failing_call;
	/* Whoever failed goes on: it has told its error, and the others may know. */
	if (fake.happened && pthread_equal(fake.thread, pthread_self()))
		atomic_store(&fake.noticed, true);
	if (fails) {
		fake.happened = true;
		fake.thread = pthread_self();
		fake.time = bb_clock_now();
	}
	pthread_mutex_unlock(&fake.lock);
	return fails;
}

bool fake_has_failed(void)
{
	bool long_ago;

	pthread_mutex_lock(&fake.lock);
	long_ago = fake.happened && bb_clock_now() > fake.time + NOTICED_SECONDS;
	pthread_mutex_unlock(&fake.lock);
	return long_ago || atomic_load(&fake.noticed);
}

bool fake_is_failing(void)
{
	bool happened;

	pthread_mutex_lock(&fake.lock);
	happened = fake.happened;
	pthread_mutex_unlock(&fake.lock);
	return happened;
}

int fake_calls(const char *function)
{
	int calls;

	pthread_mutex_lock(&fake.lock);
	calls = fake.functions[find(function)].calls;
	pthread_mutex_unlock(&fake.lock);
	return calls;
}

const char *fake_function(int i)
{
	return i < fake.nfunctions ? fake.functions[i].name : NULL;
}

/* ---- what was made ----------------------------------------------------------------- */

void fake_made(enum fake_thing thing)
{
	pthread_mutex_lock(&fake.lock);
	fake.open[thing]++;
	pthread_mutex_unlock(&fake.lock);
}

void fake_let_go(enum fake_thing thing)
{
	pthread_mutex_lock(&fake.lock);
	fake.open[thing]--;
	pthread_mutex_unlock(&fake.lock);
}

int fake_leaks(char *text, size_t room)
{
	size_t used = 0;
	int sum = 0;

	text[0] = '\0';
	pthread_mutex_lock(&fake.lock);
	for (int i = 0; i < FAKE_THINGS; i++) {
		sum += abs(fake.open[i]);
		if (fake.open[i] != 0 && used < room)
			used += (size_t)snprintf(text + used, room - used, "%d %s, ", fake.open[i],
						 things[i]);
	}
	pthread_mutex_unlock(&fake.lock);
	return sum;
}

void fake_misused(const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&fake.lock);
	va_start(args, format);
	if (!fake.misuse[0])
		vsnprintf(fake.misuse, sizeof(fake.misuse), format, args);
	va_end(args);
	pthread_mutex_unlock(&fake.lock);
}

const char *fake_misuse(void)
{
	return fake.misuse[0] ? fake.misuse : NULL;
}

/* ---- the environment --------------------------------------------------------------- */

__attribute__((constructor)) static void begin(void)
{
	const char *const given = getenv("BUSBENCH_FAKE_FAIL");
	const char *const colon = given ? strchr(given, ':') : NULL;

	if (!colon || colon - given >= NAME)
		return;
	snprintf(fake.failing, NAME, "%.*s", (int)(colon - given), given);
	fake.failing_call = atoi(colon + 1);
}

static void tell_contexts(void)
{
	char text[8 * FAKE_MOST_RANKS] = "";
	size_t used = 0;

	for (int i = 0; i < FAKE_MOST_RANKS; i++)
		if (fake.contexts & 1u << i)
			used += (size_t)snprintf(text + used, sizeof(text) - used, " %d", i);
	fprintf(stderr, "fake: contexts on devices:%s\n", text);
}

__attribute__((destructor)) static void end(void)
{
	char text[256];

	if (fake_number("BUSBENCH_FAKE_CONTEXTS", 0))
		tell_contexts();
	if (!fake_number("BUSBENCH_FAKE_LEAKS", 0))
		return;
	if (fake_leaks(text, sizeof(text)) > 0)
		fprintf(stderr, "fake: not let go: %s\n", text);
	if (fake_misuse())
		fprintf(stderr, "fake: %s\n", fake_misuse());
}

/* ---- errors ------------------------------------------------------------------------ */

const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "no error";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorInsufficientDriver:
		return "CUDA driver version is insufficient for CUDA runtime version";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	default:
		return "unknown error";
	}
}

const char *cudaGetErrorName(cudaError_t error)
{
	return error == cudaErrorNoDevice             ? "cudaErrorNoDevice"
	       : error == cudaErrorInsufficientDriver ? "cudaErrorInsufficientDriver"
						      : "cudaErrorUnknown";
}

/* ---- waiting ----------------------------------------------------------------------- */

void fake_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
	const struct timespec moment = {.tv_nsec = POLLED_NS};

	if (!fake_has_region()) {
		bb_clock_wait_moment(changed, lock);
		return;
	}
	/* A process that is killed while it waits would be waited for by whoever wakes the others.
	 */
	pthread_mutex_unlock(lock);
	nanosleep(&moment, NULL);
	pthread_mutex_lock(lock);
}
