#include "acceptance/gunzip.h"

#include "core/units.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define FIRST_ROOM ((size_t)64 << 10)

/* Doubles the room of *OUT, which holds USED bytes. Returns false without memory. */
static bool grow(char **out, size_t *room, size_t most)
{
	const size_t more = *room == 0 ? FIRST_ROOM : 2 * *room;
	char *const new = realloc(*out, (more < most ? more : most) + 1);

	if (!new)
		return false;
	*out = new;
	*room = more < most ? more : most;
	return true;
}

/* Appends all of Z's input, which may be several files one behind the other. */
static bb_status inflate_all(const char *path, z_stream *z, size_t most, char **out, size_t *used,
			     struct bb_error *error)
{
	char text[BB_UNIT_TEXT];
	size_t room = 0;
	int code = Z_OK;

	while (code == Z_OK || z->avail_in > 0) {
		if (code == Z_STREAM_END && inflateReset(z) != Z_OK)
			return bb_fail(error, BB_EINTERNAL, "%s: zlib fails", path);
		if (*used == room) {
			if (room == most)
				return bb_fail(error, BB_EUSAGE, "%s: larger than %s once unpacked",
					       path, bb_format_size(text, most));
			if (!grow(out, &room, most))
				return bb_no_memory(error, path);
		}
		z->next_out = (unsigned char *)*out + *used;
		z->avail_out = (unsigned)(room - *used);
		code = inflate(z, Z_NO_FLUSH);
		*used = room - z->avail_out;
		if (code == Z_BUF_ERROR && z->avail_out == 0)
			code = Z_OK;
		if (code != Z_OK && code != Z_STREAM_END)
			return bb_fail(error, BB_EUSAGE, "%s: compressed by gzip, but %s", path,
				       z->avail_in == 0 ? "cut off" : "broken");
	}
	return BB_OK;
}

bb_status bb_gunzip(const char *path, size_t most, char **text, size_t *length,
		    struct bb_error *error)
{
	z_stream z = {.next_in = (unsigned char *)*text, .avail_in = (unsigned)*length};
	char *out = NULL;
	size_t used = 0;
	bb_status st;

	if (*length < 2 || memcmp(*text, "\x1f\x8b", 2) != 0)
		return BB_OK;
	if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
		return bb_fail(error, BB_EINTERNAL, "%s: zlib fails", path);
	st = inflate_all(path, &z, most, &out, &used, error);
	inflateEnd(&z);
	if (st != BB_OK) {
		free(out);
		return st;
	}
	free(*text);
	*text = out;
	out[used] = '\0';
	*length = used;
	return BB_OK;
}
