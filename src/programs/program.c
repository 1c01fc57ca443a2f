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

void bb_program_describe(const struct bb_program *program, const struct bb_operation *operation,
			 char text[BB_PROGRAM_TEXT])
{
	static const char *const names[] = {[BB_ACT_COMPUTE] = "compute",
					    [BB_ACT_COLLECTIVE] = "collective",
					    [BB_ACT_SEND] = "send",
					    [BB_ACT_RECV] = "receive",
					    [BB_ACT_RECV_ANY] = "receive from any",
					    [BB_ACT_RECORD] = "record of event",
					    [BB_ACT_WAIT] = "wait for event"};
	const unsigned act = operation->act;
	const bool event = act == BB_ACT_RECORD || act == BB_ACT_WAIT;
	const char *name =
		act < sizeof(names) / sizeof(names[0]) ? names[act] : "unknown operation";

	if (act == BB_ACT_COLLECTIVE && operation->collective)
		name = operation->collective->name;
	if (program->describe && !event)
		program->describe(program, operation, text);
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s %lld", name,
			 event ? operation->event : (long long)operation->item);
}
