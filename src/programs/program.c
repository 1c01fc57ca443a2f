#include "programs/program.h"

int bb_program_all_ranks(const struct bb_program *program, int group)
{
	return program->nranks;
}

int bb_program_rank_itself(const struct bb_program *program, int group, int i)
{
	return i;
}

int bb_program_place(const struct bb_program *program, int group, int rank)
{
	const int size = program->group_size(program, group);

	for (int i = 0; i < size; i++)
		if (program->member(program, group, i) == rank)
			return i;
	return -1;
}
