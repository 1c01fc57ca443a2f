#include "topology/reporter.h"

#include "core/strbuf.h"

#include <stdarg.h>

void bb_reporter_add(struct bb_reporter *reporter, const char *format, ...)
{
	struct bb_strbuf text = {0};
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(&text, format, args);
	va_end(args);
	reporter->add(reporter->context, bb_strbuf_text(&text));
	bb_strbuf_free(&text);
	reporter->n++;
}
