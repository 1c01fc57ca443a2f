#include "core/status.h"

#include "core/printable.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define CUT " ..."

bb_status bb_fail(struct bb_error *error, bb_status status, const char *format, ...)
{
	va_list args;
	int unclaimed = 0, length;

	if (!error || !atomic_compare_exchange_strong(&error->claimed, &unclaimed, 1))
		return status;
	va_start(args, format);
	length = vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	bb_printable_clean_sentence(error->text);
	if (length >= (int)sizeof(error->text))
		memcpy(error->text + strlen(error->text) - strlen(CUT), CUT, strlen(CUT));
	atomic_store(&error->status, status);
	return status;
}

bb_status bb_no_memory(struct bb_error *error, const char *what)
{
	return bb_fail(error, BB_EINTERNAL, "out of memory for %s", what);
}

bb_status bb_error_status(const struct bb_error *error)
{
	return (bb_status)atomic_load(&error->status);
}
