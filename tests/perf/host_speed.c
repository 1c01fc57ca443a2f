/*
 * host_speed - what the host backend's algorithms cost beside plain copies, in one run.
 *
 *   host_speed RANKS MIN MAX FACTOR WHAT…
 *
 * WHAT is copy (each rank copies its IN to its OUT), xcopy (the IN of a rank on
 * another core, half the ranks away, to its OUT), or
 * COLLECTIVE:ALGORITHM[@CHUNK] ("all_reduce:ring", "all_gather:auto", "all_reduce:tree@32K"). One
 * JSON line per size and WHAT: the median of interleaved repetitions, and what a rank moves on
 * average, counted in copies of that size. Sizes are bytes as the perf binaries print them.
 */
#include "speed.h"

#include "backends/backend.h"
#include "core/stats.h"
#include "core/units.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_WHATS 16

enum kind { COPY, XCOPY, COLLECTIVE };

struct what {
	const char *name;
	enum kind kind;
	const struct bb_collective *collective;
	const struct bb_algorithm *schedule;
	const struct bb_native *native;
	uint64_t chunk; /* bytes; 0: as tuned */
};

struct shared {
	const struct bb_backend *backend;
	struct bb_context *context;
	int nranks;
	uint64_t min, max, factor;
	struct what whats[MOST_WHATS];
	int nwhats;
	char **in;          /* [rank] */
	double (*spans)[2]; /* [rank]: start, end of the repetition */
	double *samples;    /* [what * MOST_REPEATS + repeat] */
};

struct worker {
	struct shared *s;
	int rank;
	struct bb_rank *handle;
	struct bb_group *group;
	char *in, *out, *tmp;
	size_t tmp_bytes;
};

static void must(bb_status status, const char *what)
{
	if (status == BB_OK)
		return;
	fprintf(stderr, "host_speed: %s failed with status %d\n", what, (int)status);
	exit(1);
}

static struct bb_call make_call(const struct worker *w, const struct what *what, size_t bytes)
{
	const struct bb_backend *b = w->s->backend;
	struct bb_call call = {
		.collective = what->collective,
		.schedule = what->schedule,
		.native = what->native,
		.dtype = BB_FLOAT,
		.op = BB_SUM,
		.in = w->in,
		.out = w->out,
		.tmp = w->tmp,
	};

	call.shape.nranks = w->s->nranks;
	call.shape.count = bb_count_for_size(what->collective, bytes, 4, w->s->nranks);
	if (!call.schedule && !call.native)
		must(b->choose(w->group, &call), "choose");
	b->tune(w->group, &call);
	if (what->chunk)
		call.shape.chunk = what->chunk / 4;
	return call;
}

static void run(const struct worker *w, const struct what *what, const struct bb_call *call,
		size_t bytes)
{
	const struct bb_backend *b = w->s->backend;
	const int n = w->s->nranks, other = (w->rank + (n > 1 ? n / 2 : 0)) % n;
	const char *from = what->kind == COPY ? w->in : w->s->in[other];

	if (what->kind == COLLECTIVE)
		must(b->collective(w->group, NULL, call), what->name);
	else
		must(b->copy(w->handle, w->out, from, bytes), what->name);
}

static void repeat(const struct worker *w, int k, size_t bytes, int repetition)
{
	struct shared *s = w->s;
	const struct what *what = &s->whats[k];
	const int inner = speed_inner(bytes);
	struct bb_call call = {0};
	double first = 1e300, last = 0;

	if (what->kind == COLLECTIVE)
		call = make_call(w, what, bytes);
	speed_rewrite((float *)w->in, bytes, 1);
	speed_rewrite((float *)w->out, bytes, 2);
	must(s->backend->barrier(w->group), "barrier");
	s->spans[w->rank][0] = speed_now();
	for (int i = 0; i < inner; i++) {
		if (inner > 1)
			speed_rewrite((float *)w->in, bytes, (float)i);
		run(w, what, &call, bytes);
	}
	s->spans[w->rank][1] = speed_now();
	must(s->backend->barrier(w->group), "barrier");
	if (w->rank == 0 && repetition >= 0) {
		for (int r = 0; r < s->nranks; r++) {
			first = s->spans[r][0] < first ? s->spans[r][0] : first;
			last = s->spans[r][1] > last ? s->spans[r][1] : last;
		}
		s->samples[k * MOST_REPEATS + repetition] = (last - first) / inner;
	}
	must(s->backend->barrier(w->group), "barrier");
}

/* What a rank moves, in copies of BYTES. */
static double copies(const struct worker *w, const struct what *what, size_t bytes)
{
	struct bb_call call;

	if (what->kind != COLLECTIVE)
		return 1;
	call = make_call(w, what, bytes);
	return w->s->backend->cost_bytes(w->group, &call) / w->s->nranks / (double)bytes;
}

static void report(const struct worker *w, size_t bytes, int repeats)
{
	struct shared *s = w->s;

	for (int k = 0; k < s->nwhats; k++) {
		struct bb_stats stats;

		bb_stats_compute(&s->samples[k * MOST_REPEATS], (size_t)repeats, &stats);
		printf("{\"ranks\":%d,\"size\":%zu,\"what\":\"%s\",\"us\":%.4f,\"p95_us\":%.4f,"
		       "\"copies\":%.4f}\n",
		       s->nranks, bytes, s->whats[k].name, 1e6 * stats.p50, 1e6 * stats.p95,
		       copies(w, &s->whats[k], bytes));
	}
	fflush(stdout);
}

static void open_buffers(struct worker *w)
{
	const struct shared *s = w->s;
	const struct bb_backend *b = s->backend;

	for (int k = 0; k < s->nwhats; k++) {
		struct bb_call call;
		size_t bytes;

		if (s->whats[k].kind != COLLECTIVE)
			continue;
		call = make_call(w, &s->whats[k], s->max);
		bytes = b->tmp_bytes(w->group, &call);
		w->tmp_bytes = bytes > w->tmp_bytes ? bytes : w->tmp_bytes;
	}
	must(b->alloc(w->handle, s->max + 4096, (void **)&w->in), "alloc");
	must(b->alloc(w->handle, s->max + 4096, (void **)&w->out), "alloc");
	must(b->alloc(w->handle, w->tmp_bytes + 64, (void **)&w->tmp), "alloc");
	w->out += 33 * 64; /* not at the same offset in its page as IN */
	s->in[w->rank] = w->in;
}

static void *work(void *argument)
{
	struct worker *w = argument;
	struct shared *s = w->s;
	const struct bb_backend *b = s->backend;
	struct bb_error error = {0};
	int *members = calloc((size_t)s->nranks, sizeof(*members));

	must(members ? BB_OK : BB_EINTERNAL, "malloc");
	for (int r = 0; r < s->nranks; r++)
		members[r] = r;
	must(b->attach(s->context, w->rank, &w->handle, &(struct bb_location){0}, &error),
	     "attach");
	must(b->group_open(w->handle, members, s->nranks, &w->group, &error), "group_open");
	open_buffers(w);
	must(b->barrier(w->group), "barrier");
	for (uint64_t bytes = s->min; bytes <= s->max; bytes *= s->factor) {
		const int repeats = speed_repeats(bytes);

		for (int i = -1; i < repeats; i++)
			for (int k = 0; k < s->nwhats; k++)
				repeat(w, k, bytes, i);
		if (w->rank == 0)
			report(w, bytes, repeats);
	}
	must(b->barrier(w->group), "barrier");
	b->group_close(w->group);
	b->detach(w->handle);
	free(members);
	return NULL;
}

static bool parse_what(struct what *what, char *text)
{
	char *colon = strchr(text, ':'), *at;
	const struct bb_native *native = bb_backend_find("host")->natives;

	*what = (struct what){.name = text};
	if (!colon) {
		what->kind = strcmp(text, "copy") == 0 ? COPY : XCOPY;
		return strcmp(text, "copy") == 0 || strcmp(text, "xcopy") == 0;
	}
	what->name = strdup(text);
	*colon = '\0';
	at = strchr(colon + 1, '@');
	if (at) {
		*at = '\0';
		if (!bb_parse_size(at + 1, &what->chunk))
			return false;
	}
	what->kind = COLLECTIVE;
	what->collective = bb_collective_find(text);
	if (!what->collective || !what->name)
		return false;
	what->schedule = bb_algorithm_find(what->collective, colon + 1);
	for (; native->name && !what->schedule; native++)
		if (strcmp(native->name, colon + 1) == 0)
			what->native = native;
	return what->schedule || what->native || strcmp(colon + 1, "auto") == 0;
}

int main(int argc, char **argv)
{
	struct shared s = {.backend = bb_backend_find("host")};
	struct bb_world world = {.nprocs = 1};
	const struct bb_backend_config config = {0};
	struct bb_error error = {0};
	struct worker *workers;
	pthread_t *threads;
	int64_t ranks, factor;

	if (argc < 6 || !bb_parse_int(argv[1], &ranks) || !bb_parse_size(argv[2], &s.min) ||
	    !bb_parse_size(argv[3], &s.max) || !bb_parse_int(argv[4], &factor) || factor < 2 ||
	    ranks < 1 || ranks > 1024 || argc - 5 > MOST_WHATS) {
		fprintf(stderr, "usage: host_speed RANKS MIN MAX FACTOR WHAT…\n");
		return 2;
	}
	s.factor = (uint64_t)factor;
	s.nranks = (int)ranks;
	for (int i = 5; i < argc; i++)
		if (!parse_what(&s.whats[s.nwhats++], argv[i])) {
			fprintf(stderr, "host_speed: what is %s?\n", argv[i]);
			return 2;
		}
	world.nranks = world.nlocal = s.nranks;
	s.in = calloc((size_t)ranks, sizeof(*s.in));
	s.spans = calloc((size_t)ranks, sizeof(*s.spans));
	s.samples = calloc((size_t)s.nwhats * MOST_REPEATS, sizeof(*s.samples));
	workers = calloc((size_t)ranks, sizeof(*workers));
	threads = calloc((size_t)ranks, sizeof(*threads));
	must(s.in && s.spans && s.samples && workers && threads ? BB_OK : BB_EINTERNAL, "malloc");
	must(s.backend->open(&s.context, &world, &config, &error), "open");
	for (int r = 0; r < s.nranks; r++) {
		workers[r] = (struct worker){.s = &s, .rank = r};
		must(pthread_create(&threads[r], NULL, work, &workers[r]) ? BB_EINTERNAL : BB_OK,
		     "pthread_create");
	}
	for (int r = 0; r < s.nranks; r++)
		pthread_join(threads[r], NULL);
	s.backend->close(s.context);
	return 0;
}
