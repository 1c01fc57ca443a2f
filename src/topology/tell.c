#include "topology/tell.h"

#include <stdarg.h>
#include <stdio.h>

void bb_tell(struct bb_teller *teller, const char *format, ...)
{
	char text[BB_TOLD_TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	teller->hear(teller->context, text);
	teller->told++;
}
