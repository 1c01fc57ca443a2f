#include "schedules/values.h"

#include "core/scalar.h"
#include "schedules/parts.h"

#include <math.h>
#include <stdlib.h>

struct bb_values_rank {
	struct bb_role role;
	size_t first;                       /* cell of the rank */
	size_t start[3];                    /* of IN, OUT and TMP, as in bb_algorithm_lay_out */
	struct bb_step steps[BB_MAX_STEPS]; /* of the round that is performed */
	int nsteps;
};

bb_status bb_values_open(struct bb_values *v, const struct bb_algorithm *algorithm,
			 const struct bb_shape *shape, enum bb_dtype dtype, struct bb_error *error)
{
	const size_t n = (size_t)shape->nranks, most = BB_VALUES_MOST / sizeof(*v->cells);
	size_t cells = 0, count[3];

	*v = (struct bb_values){algorithm, shape, dtype, calloc(n, sizeof(*v->ranks)), NULL};
	for (size_t rank = 0; rank < n && v->ranks && cells <= most; rank++) {
		struct bb_values_rank *m = &v->ranks[rank];

		m->first = cells;
		cells += bb_algorithm_lay_out(algorithm, shape, (int)rank, m->start, count);
		bb_algorithm_prepare(algorithm, shape, (int)rank, &m->role);
	}
	if (cells > most)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "the numbers of %zu ranks take more than 1 GiB; give fewer elements",
			       n);
	v->cells = malloc(cells * sizeof(*v->cells) + 1);
	return v->ranks && v->cells ? BB_OK : bb_no_memory(error, "the numbers of all ranks");
}

void bb_values_close(struct bb_values *v)
{
	free(v->ranks);
	free(v->cells);
}

struct bb_value *bb_values_at(const struct bb_values *v, int rank, enum bb_buffer buffer)
{
	return v->cells + v->ranks[rank].first + v->ranks[rank].start[buffer];
}

/* What M gets from PEER: messages match by peer and channel, in order, and are taken once. NULL:
   nothing. */
static const struct bb_value *value_arrival(const struct bb_values *v,
					    const struct bb_values_rank *m, int channel, int peer)
{
	struct bb_values_rank *from = &v->ranks[peer];

	for (int i = 0; i < from->nsteps; i++) {
		struct bb_step *send = &from->steps[i];

		if (send->kind == BB_SEND && send->peer == m->role.rank &&
		    send->channel == channel && send->count > 0) {
			send->count = 0;
			return bb_values_at(v, peer, send->src.buffer) + send->src.offset;
		}
	}
	return NULL;
}

static struct bb_value value_sum(enum bb_dtype dtype, const struct bb_value *const *from, int n,
				 size_t i)
{
	const bool wide = dtype == BB_FLOAT || dtype == BB_DOUBLE;
	struct bb_value s = from[0][i];

	for (int k = 1; k < n; k++) {
		const struct bb_value *add = &from[k][i];

		s.number = dtype == BB_DOUBLE ? s.number + add->number
					      : (float)s.number + (float)add->number;
		s.terms += add->terms;
		s.roundings += add->roundings;
		if (wide || k == n - 1)
			s.roundings += (float)s.terms;
	}
	s.number = wide || n == 1 ? s.number : bb_scalar_round(dtype, s.number);
	return s;
}

bb_status bb_values_perform(struct bb_values *v, struct bb_error *error)
{
	const int n = v->shape->nranks;

	for (size_t round = 0; round < v->ranks[0].role.rounds; round++) {
		for (int r = 0; r < n; r++)
			v->ranks[r].nsteps =
				bb_algorithm_steps(v->algorithm, v->shape, &v->ranks[r].role, round,
						   v->ranks[r].steps);
		/* No step of a round writes what another one reads. */
		for (int r = 0; r < n; r++) {
			const struct bb_values_rank *m = &v->ranks[r];

			for (int k = 0; k < m->nsteps; k++) {
				const struct bb_step *s = &m->steps[k];
				const struct bb_value *from[3];
				int nfrom = 0;

				if (s->kind == BB_SEND)
					continue;
				if (s->kind != BB_RECV)
					from[nfrom++] =
						bb_values_at(v, r, s->src.buffer) + s->src.offset;
				if (s->kind != BB_COPY)
					from[nfrom++] = value_arrival(v, m, s->channel, s->peer);
				if (s->peer2 != BB_NO_PEER)
					from[nfrom++] = value_arrival(v, m, s->channel, s->peer2);
				if (!from[0] || !from[nfrom - 1] || !from[nfrom / 2])
					return bb_fail(error, BB_EINTERNAL,
						       "%s: nobody sends what rank %d receives",
						       v->algorithm->name, r);
				struct bb_value *to =
					bb_values_at(v, r, s->dst.buffer) + s->dst.offset;
				for (size_t i = 0; i < s->count; i++)
					to[i] = value_sum(v->dtype, from, nfrom, i);
			}
		}
	}
	return BB_OK;
}

double bb_values_expected(enum bb_dtype dtype, double roundings)
{
	return bb_scalar_spacing(dtype, 1) / 2 * sqrt(roundings / (8 * M_LN2));
}
