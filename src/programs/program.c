#include "programs/program.h"

#include <stdio.h>

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

static const char *name_of(const struct bb_operation *operation)
{
	switch (operation->act) {
	case BB_ACT_COMPUTE:
		return "compute";
	case BB_ACT_COLLECTIVE:
		return operation->collective ? operation->collective->name : "collective";
	case BB_ACT_SEND:
		return "send";
	case BB_ACT_RECV:
		return "receive";
	case BB_ACT_RECV_ANY:
		return "receive from any";
	case BB_ACT_RECORD:
		return "record of event";
	case BB_ACT_WAIT:
		return "wait for event";
	}
	return "unknown operation";
}

void bb_program_describe(const struct bb_program *program, const struct bb_operation *operation,
			 char text[BB_PROGRAM_TEXT])
{
	if (operation->act == BB_ACT_RECORD || operation->act == BB_ACT_WAIT)
		snprintf(text, BB_PROGRAM_TEXT, "%s %d", name_of(operation), operation->event);
	else if (program->describe)
		program->describe(program, operation, text);
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s %zu", name_of(operation), operation->item);
}
