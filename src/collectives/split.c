#include "collectives/split.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *word;
	enum bb_split_kind kind;
} operators[] = {
	{"AND", BB_SPLIT_AND}, {"OR", BB_SPLIT_OR}, {"MOD", BB_SPLIT_MOD}, {"DIV", BB_SPLIT_DIV},
	{"&", BB_SPLIT_AND},   {"|", BB_SPLIT_OR},  {"%", BB_SPLIT_MOD},   {"/", BB_SPLIT_DIV},
};

/* Reads TEXT as an int without a sign; spaces may surround it, anything else is an error. */
static bool parse_number(const char *text, int base, int *value)
{
	char *end;
	unsigned long v;

	while (isspace((unsigned char)*text))
		text++;
	if (base == 0 && strncasecmp(text, "0b", 2) == 0) {
		text += 2;
		base = 2;
	} else if (base == 0 && strncasecmp(text, "0x", 2) != 0) {
		base = 10;
	}
	if (!isalnum((unsigned char)*text))
		return false;
	errno = 0;
	v = strtoul(text, &end, base);
	if (end == text || errno || v > INT_MAX)
		return false;
	while (isspace((unsigned char)*end))
		end++;
	if (*end)
		return false;
	*value = (int)v;
	return true;
}

bb_status bb_split_parse(struct bb_split_rule *rule, const char *split, const char *mask,
			 struct bb_error *error)
{
	const char *whole;
	int read = 0;

	*rule = (struct bb_split_rule){.kind = BB_SPLIT_NONE};
	if (mask && *mask) {
		rule->kind = BB_SPLIT_AND;
		if (parse_number(mask, 16, &rule->operand))
			return BB_OK;
		return bb_fail(error, BB_EUSAGE,
			       "NCCL_TESTS_SPLIT_MASK=\"%s\" is not a hexadecimal number such as "
			       "0x7",
			       mask);
	}
	if (!split || !*split)
		return BB_OK;
	while (isspace((unsigned char)*split))
		split++;
	whole = split;
	if (*split == '+') {
		if (sscanf(split, "+%9d%%%9d%n", &rule->shift, &rule->nranks, &read) != 2 ||
		    read == 0 || rule->shift < 0 || rule->nranks < 1)
			return bb_fail(error, BB_EUSAGE,
				       "NCCL_TESTS_SPLIT=\"%s\": a shift is as in +8%%32: by 8 of "
				       "32 ranks",
				       whole);
		split += read + (int)strspn(split + read, " ");
	}
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		const size_t length = strlen(operators[i].word);

		if (strncasecmp(split, operators[i].word, length) != 0)
			continue;
		rule->kind = operators[i].kind;
		if (!parse_number(split + length, 0, &rule->operand))
			break;
		if (rule->operand == 0 &&
		    (rule->kind == BB_SPLIT_MOD || rule->kind == BB_SPLIT_DIV))
			return bb_fail(error, BB_EUSAGE,
				       "NCCL_TESTS_SPLIT=\"%s\": a division by zero; give a number "
				       "of at least 1",
				       whole);
		return BB_OK;
	}
	return bb_fail(error, BB_EUSAGE,
		       "NCCL_TESTS_SPLIT=\"%s\" is not understood; give AND, OR, MOD or DIV "
		       "(or & | %% /) and a number: \"MOD 2\", \"AND 0x7\"",
		       whole);
}

int bb_split_color(const struct bb_split_rule *rule, int rank)
{
	if (rule->nranks > 0)
		rank = (rank + rule->shift) % rule->nranks;
	switch (rule->kind) {
	case BB_SPLIT_AND:
		return rank & rule->operand;
	case BB_SPLIT_OR:
		return rank | rule->operand;
	case BB_SPLIT_MOD:
		return rank % rule->operand;
	case BB_SPLIT_DIV:
		return rank / rule->operand;
	case BB_SPLIT_NONE:
		break;
	}
	return 0;
}
