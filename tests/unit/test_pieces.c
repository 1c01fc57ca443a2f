/*
 * The executor over a transport that wants to know what comes: messages arrive in pieces, each in
 * the place that was named for it or lent. The transport checks what the executor owes it.
 */
#include "oracle.h"

#include "backends/cpu/executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 7
#define PIECE 64
#define MOST_QUEUED 512

/* A message, lent by its sender until all of it is taken. */
struct mail {
	const char *data;
	size_t bytes, taken;
	uint32_t ticket;
};

struct expected {
	void *dst;
	size_t bytes;
};

/* One direction of a pair on one channel. */
struct way {
	struct mail mails[MOST_QUEUED];
	int first, last;
	uint32_t sent, done;
	struct expected expected[MOST_QUEUED];
	int expect_first, expect_last;
	char lent[BB_LENT_MOST][1024];
	int nlent;
};

struct office {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct way ways[RANKS][RANKS][BB_CHANNELS]; /* [from][to] */
	int broken;                                 /* what the executor did wrong, counted */
};

struct port {
	struct office *office;
	int rank;
	int nexpected, nlent, nsent;
};

static void require(struct office *office, bool condition)
{
	if (!condition)
		office->broken++;
}

static size_t piece_of(void *port, size_t bytes)
{
	const size_t least = (bytes + BB_PIECES_MOST - 1) / BB_PIECES_MOST;

	return least <= PIECE ? PIECE : (least + 63) / 64 * 64;
}

static bb_status office_expect(void *port, int peer, int channel, void *dst, size_t bytes)
{
	struct port *p = port;
	struct way *way = &p->office->ways[peer][p->rank][channel];

	pthread_mutex_lock(&p->office->lock);
	p->nexpected++;
	p->nlent += !dst;
	require(p->office, p->nexpected <= BB_EXPECTED_MOST && p->nlent <= BB_LENT_MOST);
	way->expected[way->expect_last++ % MOST_QUEUED] = (struct expected){dst, bytes};
	pthread_mutex_unlock(&p->office->lock);
	return BB_OK;
}

static bb_status office_send(void *port, int peer, int channel, const void *data, size_t bytes,
			     uint32_t *ticket, bool *lent)
{
	struct port *p = port;
	struct way *way = &p->office->ways[p->rank][peer][channel];

	pthread_mutex_lock(&p->office->lock);
	*ticket = ++way->sent;
	*lent = true;
	way->mails[way->last++ % MOST_QUEUED] = (struct mail){data, bytes, 0, *ticket};
	pthread_cond_broadcast(&p->office->changed);
	pthread_mutex_unlock(&p->office->lock);
	return BB_OK;
}

static bb_status office_recv(void *port, int peer, int channel, size_t bytes, const void **data)
{
	struct port *p = port;
	struct office *office = p->office;
	struct way *way = &office->ways[peer][p->rank][channel];
	struct expected e;
	struct mail *mail;
	void *to;

	pthread_mutex_lock(&office->lock);
	require(office, way->expect_first < way->expect_last);
	e = way->expected[way->expect_first++ % MOST_QUEUED];
	require(office, e.bytes == bytes);
	while (way->first == way->last)
		pthread_cond_wait(&office->changed, &office->lock);
	mail = &way->mails[way->first % MOST_QUEUED];
	require(office,
		bytes == piece_of(NULL, mail->bytes) || (bytes < piece_of(NULL, mail->bytes) &&
							 mail->taken + bytes == mail->bytes));
	require(office, bytes <= sizeof(way->lent[0]));
	to = e.dst ? e.dst : way->lent[way->nlent++ % BB_LENT_MOST];
	pthread_mutex_unlock(&office->lock);
	memcpy(to, mail->data + mail->taken, bytes);
	*data = to;
	pthread_mutex_lock(&office->lock);
	p->nexpected--;
	p->nlent -= !e.dst;
	mail->taken += bytes;
	if (mail->taken == mail->bytes) {
		way->done = mail->ticket;
		way->first++;
		pthread_cond_broadcast(&office->changed);
	}
	pthread_mutex_unlock(&office->lock);
	return BB_OK;
}

static void office_release(void *port, int peer, int channel)
{
}

static bb_status office_wait_taken(void *port, int peer, int channel, uint32_t ticket)
{
	struct port *p = port;

	pthread_mutex_lock(&p->office->lock);
	while (p->office->ways[p->rank][peer][channel].done < ticket)
		pthread_cond_wait(&p->office->changed, &p->office->lock);
	pthread_mutex_unlock(&p->office->lock);
	return BB_OK;
}

static const struct bb_p2p office_p2p = {
	.piece = piece_of,
	.expect = office_expect,
	.send = office_send,
	.recv = office_recv,
	.release = office_release,
	.wait_taken = office_wait_taken,
};

/* One rank of one call. */
struct member {
	pthread_t thread;
	struct port port;
	struct bb_call call;
	const struct truth *truth;
	bool right;
};

static void *run_member(void *argument)
{
	struct member *m = argument;
	const size_t size = bb_dtype_size(m->call.dtype), all = MOST_ELEMENTS * size;
	const struct meaning meaning = meaning_of(m->call.collective, &m->call.shape, m->port.rank);
	const struct bb_executor executor = {
		.p2p = &office_p2p,
		.port = &m->port,
		.rank = m->port.rank,
		.kernels = bb_kernels_select(),
	};
	char *in = malloc(all), *out = malloc(all), *wanted = calloc(1, all);
	char *tmp = malloc(bb_execute_tmp_bytes(&m->call, m->port.rank) + 1);
	bb_status status = BB_EINTERNAL;

	if (in && out && wanted && tmp) {
		memcpy(in, m->truth->in[m->port.rank], all);
		if (m->call.shape.in_place)
			memcpy(out + meaning.in_at * size, in, meaning.in * size);
		m->call.in = m->call.shape.in_place ? out + meaning.in_at * size : in;
		m->call.out = out + (m->call.shape.in_place ? meaning.out_at * size : 0);
		m->call.tmp = tmp;
		expect(wanted, m->call.collective, &m->call.shape, m->port.rank, m->truth, size);
		status = bb_execute(&executor, &m->call);
		m->right = status == BB_OK && memcmp(m->call.out, wanted, meaning.out * size) == 0;
	}
	free(in);
	free(out);
	free(wanted);
	free(tmp);
	return NULL;
}

static void run_call(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
		     const struct truth *truth)
{
	struct office *office = calloc(1, sizeof(*office));
	struct member members[RANKS] = {0};

	assert_non_null(office);
	pthread_mutex_init(&office->lock, NULL);
	pthread_cond_init(&office->changed, NULL);
	for (int r = 0; r < shape->nranks; r++) {
		members[r].port = (struct port){.office = office, .rank = r};
		members[r].truth = truth;
		members[r].call = (struct bb_call){
			.collective = algorithm->collective,
			.schedule = algorithm,
			.dtype = BB_FLOAT,
			.op = BB_SUM,
			.shape = *shape,
		};
		assert_int_equal(pthread_create(&members[r].thread, NULL, run_member, &members[r]),
				 0);
	}
	for (int r = 0; r < shape->nranks; r++) {
		pthread_join(members[r].thread, NULL);
		if (!members[r].right)
			fail_msg("%s:%s rank %d of %d count %zu chunk %zu%s is wrong",
				 algorithm->collective->name, algorithm->name, r, shape->nranks,
				 shape->count, shape->chunk, shape->in_place ? " in place" : "");
	}
	assert_int_equal(office->broken, 0);
	pthread_cond_destroy(&office->changed);
	pthread_mutex_destroy(&office->lock);
	free(office);
}

static void run_shapes(const struct bb_algorithm *algorithm, int n, const struct truth *truth)
{
	static const size_t counts[] = {1, 33, 999};
	size_t matrix[RANKS * RANKS];

	for (int i = 0; i < 12; i++) {
		struct bb_shape shape = {
			.nranks = n,
			.count = counts[i % 3],
			.chunk = i < 6 ? 0 : 100,
			.in_place = i / 3 % 2,
		};

		if (algorithm->collective->flags & BB_VARIABLE) {
			bb_alltoallv_matrix(matrix, n, shape.count / 2, 1);
			shape.matrix = matrix;
		}
		if (!algorithm->refuses || !algorithm->refuses(&shape))
			run_call(algorithm, &shape, truth);
	}
}

static void test_all_algorithms(void **state)
{
	static const int ranks[] = {2, 3, RANKS};
	struct truth *truth = malloc(sizeof(*truth));

	assert_non_null(truth);
	for (int k = 0; k < 3; k++) {
		make_truth(truth, (struct type){BB_FLOAT, BB_SUM}, ranks[k]);
		for (const struct bb_algorithm *const *a = bb_algorithms; *a; a++)
			if (!(*a)->collective->refuses || !(*a)->collective->refuses(ranks[k]))
				run_shapes(*a, ranks[k], truth);
	}
	free(truth);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_algorithms)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
