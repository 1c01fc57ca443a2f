/*
 * Collectives and messages. The streams of all ranks meet, each computes its own output from
 * everybody's inputs, and stores it when all are done reading.
 */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

/* ---- meetings ---------------------------------------------------------------------- */

struct collective {
	ncclComm_t comm;
	unsigned long number;
	struct fake_call call;
};

/* Locked. */
static struct fake_meeting *find_meeting(struct fake_clique *c, unsigned long number)
{
	struct fake_meeting *m = c->meetings;

	while (m && m->number != number)
		m = m->next;
	if (m)
		return m;
	m = fake_zeroed(sizeof(*m));
	m->number = number;
	m->next = c->meetings;
	c->meetings = m;
	return m;
}

static void end_meeting(struct fake_clique *c, struct fake_meeting *m)
{
	struct fake_meeting **link = &c->meetings;

	if (++m->left < c->n)
		return;
	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	fake_free(m, sizeof(*m));
}

static bool agree(const struct fake_call *a, const struct fake_call *b)
{
	return a->kind == b->kind && a->count == b->count && a->type == b->type && a->op == b->op &&
	       a->root == b->root;
}

/* Wait until *COUNTER is N; false if that will not be. Locked. */
static bool await_all(ncclComm_t comm, const int *counter, int n)
{
	while (*counter < n && !fake_is_over(comm))
		fake_wait(&comm->clique->changed, &comm->clique->lock);
	return *counter == n;
}

static cudaError_t run_collective(void *payload)
{
	const struct collective *p = payload;
	struct fake_clique *c = p->comm->clique;
	const int rank = p->comm->rank, n = c->n;
	const size_t bytes = fake_bytes(fake_out_count(&p->call, rank, n), p->call.type);
	char *out = malloc(bytes + 1);
	struct fake_meeting *m;
	bool done = false;

	if (!out)
		abort();
	pthread_mutex_lock(&c->lock);
	p->comm->running++;
	m = find_meeting(c, p->number);
	m->calls[rank] = p->call;
	if (++m->arrived == n)
		pthread_cond_broadcast(&c->changed);
	if (await_all(p->comm, &m->arrived, n)) {
		for (int r = 0; r < n; r++)
			if (!agree(&m->calls[r], &p->call))
				fake_misused("ranks %d and %d call different collectives", r, rank);
		pthread_mutex_unlock(&c->lock);
		if (bytes)
			fake_compute(m, rank, n, out);
		pthread_mutex_lock(&c->lock);
		if (++m->computed == n)
			pthread_cond_broadcast(&c->changed);
		done = await_all(p->comm, &m->computed, n);
	}
	if (done) {
		if (bytes)
			memcpy(p->call.out, out, bytes);
		end_meeting(c, m);
	}
	p->comm->running--;
	if (p->comm->aborted)
		pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	free(out);
	return done ? cudaSuccess : cudaErrorLaunchFailure;
}

/* A collective is numbered when it is issued; kept in a graph it gets another number each time. */
static void hold_collective(void *payload)
{
	struct collective *p = payload;

	pthread_mutex_lock(&p->comm->clique->lock);
	p->comm->refs++;
	p->number = p->comm->collectives++;
	pthread_mutex_unlock(&p->comm->clique->lock);
}

static void drop_collective(void *payload)
{
	fake_comm_drop(((struct collective *)payload)->comm);
}

/* ---- messages ---------------------------------------------------------------------- */

struct letter {
	bool sends;
	int peer;
	void *data;
	size_t bytes;
};

/* Messages of one rank that are under way side by side. */
struct bundle {
	ncclComm_t comm;
	int n;
	struct letter letters[];
};

static void post(struct fake_clique *c, struct fake_message *message)
{
	struct fake_message **link = &c->messages;

	while (*link)
		link = &(*link)->next;
	message->next = NULL;
	*link = message;
	pthread_cond_broadcast(&c->mail[message->to]);
}

static void withdraw(struct fake_clique *c, struct fake_message *message)
{
	struct fake_message **link = &c->messages;

	while (*link && *link != message)
		link = &(*link)->next;
	if (*link)
		*link = message->next;
}

/* Take the oldest message from PEER; false if there will be none. Locked. */
static bool take(ncclComm_t comm, const struct letter *letter)
{
	struct fake_clique *c = comm->clique;
	struct fake_message *m;

	for (;;) {
		for (m = c->messages; m; m = m->next)
			if (m->from == letter->peer && m->to == comm->rank)
				break;
		if (m || fake_is_over(comm))
			break;
		fake_wait(&c->mail[comm->rank], &c->lock);
	}
	if (!m)
		return false;
	if (m->bytes != letter->bytes)
		fake_misused("rank %d sends %zu bytes to rank %d, which expects %zu", m->from,
			     m->bytes, m->to, letter->bytes);
	else
		memmove(letter->data, m->data, m->bytes);
	withdraw(c, m);
	m->taken = true;
	pthread_cond_broadcast(&c->mail[letter->peer]);
	return true;
}

static cudaError_t run_bundle(void *payload)
{
	const struct bundle *b = payload;
	struct fake_clique *c = b->comm->clique;
	const size_t bytes = (size_t)b->n * sizeof(struct fake_message);
	struct fake_message *sent = fake_zeroed(bytes);
	bool well = true;

	pthread_mutex_lock(&c->lock);
	b->comm->running++;
	for (int i = 0; i < b->n; i++) {
		const struct letter *l = &b->letters[i];

		sent[i] = (struct fake_message){.from = b->comm->rank,
						.to = l->peer,
						.data = l->data,
						.bytes = l->bytes,
						.taken = !l->sends};
		if (l->sends)
			post(c, &sent[i]);
	}
	for (int i = 0; i < b->n && well; i++)
		if (!b->letters[i].sends)
			well = take(b->comm, &b->letters[i]);
	for (int i = 0; i < b->n; i++) {
		while (!sent[i].taken && !fake_is_over(b->comm))
			fake_wait(&c->mail[b->comm->rank], &c->lock);
		well = well && sent[i].taken;
		if (!sent[i].taken)
			withdraw(c, &sent[i]);
	}
	b->comm->running--;
	if (b->comm->aborted)
		pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	fake_free(sent, bytes);
	return well ? cudaSuccess : cudaErrorLaunchFailure;
}

static void hold_bundle(void *payload)
{
	fake_comm_hold(((struct bundle *)payload)->comm);
}

static void drop_bundle(void *payload)
{
	fake_comm_drop(((struct bundle *)payload)->comm);
}

/* ---- groups of calls --------------------------------------------------------------- */

struct grouped {
	ncclComm_t comm;
	cudaStream_t stream;
	bool is_message;
	struct letter letter;
	struct fake_call call;
};

static _Thread_local struct {
	int depth;
	int n;
	ncclResult_t error;
	struct grouped *calls;
} group;

/* After each, else a thread would leave it behind. */
static void clear_group(void)
{
	free(group.calls);
	group.calls = NULL;
	group.n = 0;
}

int fake_group_depth(void)
{
	return group.depth;
}

static ncclResult_t issue_collective(const struct grouped *g)
{
	const struct collective p = {.comm = g->comm, .call = g->call};
	const struct fake_task task = {.run = run_collective,
				       .hold = hold_collective,
				       .drop = drop_collective,
				       .bytes = sizeof(p),
				       .payload = &p};

	return fake_issue(g->stream, &task) == cudaSuccess
		       ? ncclSuccess
		       : fake_complain(ncclUnhandledCudaError, "the stream has failed");
}

/* All messages of the group with the communicator and stream of call FIRST, marked as done. */
static ncclResult_t issue_bundle(int first)
{
	const struct grouped *const model = &group.calls[first];
	const size_t most = sizeof(struct bundle) + (size_t)group.n * sizeof(struct letter);
	struct bundle *b = calloc(1, most);
	cudaError_t error;

	if (!b)
		abort();
	b->comm = model->comm;
	for (int i = first; i < group.n; i++) {
		struct grouped *g = &group.calls[i];

		if (!g->is_message || g->comm != model->comm || g->stream != model->stream)
			continue;
		b->letters[b->n++] = g->letter;
		if (i > first)
			g->comm = NULL;
	}
	error = fake_issue(
		model->stream,
		&(struct fake_task){.run = run_bundle,
				    .hold = hold_bundle,
				    .drop = drop_bundle,
				    .bytes = sizeof(*b) + (size_t)b->n * sizeof(struct letter),
				    .payload = b});
	free(b);
	return error == cudaSuccess
		       ? ncclSuccess
		       : fake_complain(ncclUnhandledCudaError, "the stream has failed");
}

/* NCCL chooses one algorithm for a whole group and connects it when it is first used. */
static void note_group(void)
{
	ncclComm_t const comm = group.calls[0].comm;
	int n = 0;

	for (int i = 0; i < group.n; i++)
		n += !group.calls[i].is_message;
	if (comm->first_group == 0)
		comm->first_group = n;
	else if (n > comm->first_group && fake_number("BUSBENCH_FAKE_GROUPS", 0))
		fake_misused("a group of %d collectives after a first one of %d", n,
			     comm->first_group);
}

static ncclResult_t issue_group(void)
{
	ncclResult_t result = ncclSuccess;

	if (group.n > 0)
		note_group();

	for (int i = 0; i < group.n && result == ncclSuccess; i++)
		if (!group.calls[i].is_message)
			result = issue_collective(&group.calls[i]);
	for (int i = 0; i < group.n && result == ncclSuccess; i++)
		if (group.calls[i].is_message && group.calls[i].comm)
			result = issue_bundle(i);
	return result;
}

/* The header names no arguments. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
	FAKE_NCCL();
	group.depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	const bool fails = fake_enter(__func__);
	ncclResult_t result;

	if (group.depth == 0)
		return fake_complain(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
	if (--group.depth > 0)
		return ncclSuccess;
	result = fails ? fake_complain(ncclSystemError, "ncclGroupEnd was to fail") : group.error;
	if (result == ncclSuccess)
		result = issue_group();
	clear_group();
	group.error = ncclSuccess;
	return result;
}

static ncclResult_t add(const struct grouped *call)
{
	ncclResult_t result;

	group.calls = realloc(group.calls, (size_t)(group.n + 1) * sizeof(*group.calls));
	if (!group.calls)
		abort();
	group.calls[group.n++] = *call;
	if (group.depth > 0)
		return ncclSuccess;
	result = issue_group();
	clear_group();
	return result;
}

/* ---- the library's functions ------------------------------------------------------- */

/* NCCL hands what a single rank calls to a copy, before it looks at algorithms, and at once, even
   between ncclGroupStart and ncclGroupEnd. */
static ncclResult_t copy_alone(const struct fake_call *call, cudaStream_t stream)
{
	if (call->in == call->out ||
	    fake_copy(call->out, call->in, fake_bytes(call->count, call->type), stream) ==
		    cudaSuccess)
		return ncclSuccess;
	return fake_complain(ncclUnhandledCudaError, "the stream has failed");
}

static ncclResult_t collect(const char *function, struct fake_call call, ncclComm_t comm,
			    cudaStream_t stream)
{
	struct grouped g = {.comm = comm, .stream = stream, .call = call};
	const int own = (int)call.op - (int)ncclNumOps;
	ncclResult_t result;

	if (fake_enter(function)) {
		group.error = fake_complain(ncclSystemError, "%s was to fail", function);
		return group.error;
	}
	if (((uintptr_t)call.in | (uintptr_t)call.out) %
	    (uintptr_t)fake_number("BUSBENCH_FAKE_ALIGNED", 1))
		fake_misused("%s of %zu elements from %p to %p", function, call.count, call.in,
			     call.out);
	result = fake_check_type(call.type);
	if (result == ncclSuccess && comm->clique->n == 1 && own < 0)
		return copy_alone(&call, stream);
	if (result == ncclSuccess)
		result = fake_check_algorithm(comm, call.kind, call.type);
	if (result == ncclSuccess && own >= 0) {
		g.call.weight = comm->weights[own];
		g.call.op = ncclNumOps;
	}
	if (result == ncclSuccess)
		fake_profiler_tell(comm, &call);
	return result == ncclSuccess ? add(&g) : result;
}

static struct fake_call moving(enum fake_kind kind, const void *in, void *out, size_t count,
			       ncclDataType_t type, int root)
{
	return (struct fake_call){.kind = kind,
				  .in = fake_everywhere(in),
				  .out = out,
				  .count = count,
				  .type = type,
				  .root = root};
}

static struct fake_call reducing(enum fake_kind kind, const void *in, void *out, size_t count,
				 ncclDataType_t type, ncclRedOp_t op, int root)
{
	struct fake_call call = moving(kind, in, out, count, type, root);

	call.op = op;
	return call;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return collect(__func__, reducing(FAKE_ALL_REDUCE, in, out, count, type, op, 0), comm,
		       stream);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
			ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	return collect(__func__, reducing(FAKE_REDUCE, in, out, count, type, op, root), comm,
		       stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
			       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return collect(__func__, reducing(FAKE_REDUCE_SCATTER, in, out, count, type, op, 0), comm,
		       stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
			   ncclComm_t comm, cudaStream_t stream)
{
	return collect(__func__, moving(FAKE_BROADCAST, in, out, count, type, root), comm, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
			   ncclComm_t comm, cudaStream_t stream)
{
	return collect(__func__, moving(FAKE_ALL_GATHER, in, out, count, type, 0), comm, stream);
}

#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_ALLTOALL

ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count, ncclDataType_t type,
			  ncclComm_t comm, cudaStream_t stream)
{
	return collect(__func__, moving(FAKE_ALLTOALL, in, out, count, type, 0), comm, stream);
}

ncclResult_t ncclGather(const void *in, void *out, size_t count, ncclDataType_t type, int root,
			ncclComm_t comm, cudaStream_t stream)
{
	return collect(__func__, moving(FAKE_GATHER, in, out, count, type, root), comm, stream);
}

ncclResult_t ncclScatter(const void *in, void *out, size_t count, ncclDataType_t type, int root,
			 ncclComm_t comm, cudaStream_t stream)
{
	return collect(__func__, moving(FAKE_SCATTER, in, out, count, type, root), comm, stream);
}

#endif

static ncclResult_t mail(const char *function, struct letter letter, ncclDataType_t type,
			 ncclComm_t comm, cudaStream_t stream)
{
	const struct grouped g = {
		.comm = comm, .stream = stream, .is_message = true, .letter = letter};
	const ncclResult_t result = fake_check_type(type);

	if (fake_enter(function)) {
		group.error = fake_complain(ncclSystemError, "%s was to fail", function);
		return group.error;
	}
	if (result != ncclSuccess)
		return result;
	if (letter.peer < 0 || letter.peer >= comm->clique->n)
		return fake_complain(ncclInvalidArgument, "no rank %d", letter.peer);
	return add(&g);
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	return mail(
		__func__,
		(struct letter){true, peer, (void *)fake_everywhere(data), fake_bytes(count, type)},
		type, comm, stream);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	return mail(__func__, (struct letter){false, peer, data, fake_bytes(count, type)}, type,
		    comm, stream);
}
