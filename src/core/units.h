/*
 * units.h - numbers with units, read and written.
 *
 * The readers take the whole text or nothing: trailing garbage, a sign where none makes sense,
 * overflow and empty text are refused. They return true on success; otherwise errno is ERANGE for a
 * number that is too large (or zero for a rate) and EINVAL for anything else. Digits beyond the
 * smallest unit are cut off ("1.1K" is 1126 bytes), but "1.5" bytes are refused. The digits in
 * front of a point may be missing (".377ms"), those behind it may not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "4096", "64B", "64K", "1.5G", "2T", "64KiB" (binary), "80GB" (decimal, as GB is everywhere), in
   upper or lower case -> bytes. */
bool bb_parse_size(const char *text, uint64_t *bytes);
/* "7.5B", "124M", "10k", "1T", "6738415616" -> how many of something: decimal, B for 10^9, upper or
   lower case. */
bool bb_parse_count(const char *text, uint64_t *count);
/* "20", "-1" decimal. */
bool bb_parse_int(const char *text, int64_t *value);
/* "0", "17": from 0 to INT_MAX. */
bool bb_parse_rank(const char *text, int *rank);
/* "10ns", "1.5us", "3ms", "2s", "2" (seconds), "5m", "1h" -> nanoseconds. */
bool bb_parse_duration(const char *text, uint64_t *ns);
/* "12.5GB/s", "100Gb/s", "10G" (bytes), decimal prefixes -> bytes per second, > 0. A number without
   any unit is refused. */
bool bb_parse_rate(const char *text, double *bytes_per_second);
/* "100T", "1.5PFLOPS", "312TFLOP/s", decimal prefixes up to P -> FLOPs per second,
   > 0. A number without any unit is refused. */
bool bb_parse_flops(const char *text, double *per_second);
/* "1%", "0.5%" -> 0.01, 0.005; without % the text is refused. */
bool bb_parse_percent(const char *text, double *fraction);

#define BB_UNIT_TEXT 24
/* "64K", "1M", "1000" when it is not a whole binary multiple. Returns TEXT. */
const char *bb_format_size(char text[BB_UNIT_TEXT], uint64_t bytes);
/* "7.5B", "124M", "1K", "1234567" if not a multiple of a tenth of a prefix. Returns TEXT. */
const char *bb_format_count(char text[BB_UNIT_TEXT], uint64_t count);
/* "312 B", "4.61 kB", "22.5 MB", "120 GB": decimal, three digits. Returns TEXT. */
const char *bb_format_bytes(char text[BB_UNIT_TEXT], uint64_t bytes);
/* "312 ns", "4.61 us", "22.5 ms", "1.20 s". Returns TEXT. */
const char *bb_format_duration(char text[BB_UNIT_TEXT], double seconds);
/* What a noun takes after the number N: nothing after 1, else "s". */
const char *bb_plural(long long n);
