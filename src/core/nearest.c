#include "core/option.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 48

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/*
 * Edits from A to B: insert, delete, replace, or swap two neighbours (optimal string alignment),
 * upper and lower case alike. Words longer than LONGEST are infinitely far.
 */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][LONGEST + 1], la = strlen(a), lb = strlen(b);

	if (la > LONGEST || lb > LONGEST)
		return SIZE_MAX;
	for (size_t k = 0; k <= lb; k++)
		rows[0][k] = k;
	for (size_t i = 1; i <= la; i++) {
		size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *older = rows[(i + 1) % 3];

		now[0] = i;
		for (size_t k = 1; k <= lb; k++) {
			now[k] = smaller(last[k - 1] + !same(a[i - 1], b[k - 1]),
					 smaller(last[k], now[k - 1]) + 1);
			if (i > 1 && k > 1 && same(a[i - 1], b[k - 2]) && same(a[i - 2], b[k - 1]))
				now[k] = smaller(now[k], older[k - 2] + 1);
		}
	}
	return rows[la % 3][lb];
}

const char *bb_nearest(const char *word, const char *const *words)
{
	size_t length = strlen(word), limit = 1 + (length > 3) + (length > 7), best = limit + 1;
	const char *nearest = NULL;

	for (; *words; words++) {
		size_t d = distance(word, *words);

		/* A word that shares no character is not near. */
		if (d < best && d < length && d < strlen(*words)) {
			best = d;
			nearest = *words;
		}
	}
	return nearest;
}

const char *bb_suggest(char text[BB_SUGGESTION], const char *word, const char *const *words)
{
	const char *near = bb_nearest(word, words);
	size_t used = 0;

	text[0] = '\0';
	if (near) {
		snprintf(text, BB_SUGGESTION, "; did you mean \"%s\"?", near);
		return text;
	}
	for (const char *const *w = words; *w && used < BB_SUGGESTION; w++) {
		const char *joint = w == words ? "; expected " : w[1] ? ", " : " or ";

		used += (size_t)snprintf(text + used, BB_SUGGESTION - used, "%s%s", joint, *w);
	}
	if (used >= BB_SUGGESTION)
		text[0] = '\0';
	return text;
}
