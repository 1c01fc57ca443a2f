#include "topology/reporter.h"

#include <stdarg.h>
#include <stdio.h>

void bb_reporter_add(struct bb_reporter *reporter, const char *format, ...)
{
	char text[BB_REPORT_TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	reporter->add(reporter->context, text);
	reporter->n++;
}
