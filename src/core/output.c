#include "core/output.h"

#include <stdio.h>
#include <string.h>

bb_status bb_write_text(const char *path, const struct bb_strbuf *text, struct bb_error *error)
{
	const bool standard = strcmp(path, "-") == 0;
	FILE *file = stdout;
	bool wrong = bb_strbuf_failed(text);

	if (!standard)
		file = fopen(path, "w");
	if (!file)
		return bb_fail(error, BB_EUSAGE, "%s: cannot be written", path);
	wrong = fputs(bb_strbuf_text(text), file) < 0 || wrong;
	wrong = (standard ? fflush(file) : fclose(file)) != 0 || wrong;
	return wrong ? bb_fail(error, BB_EINTERNAL, "%s: could not be written",
			       standard ? "standard output" : path)
		     : BB_OK;
}
