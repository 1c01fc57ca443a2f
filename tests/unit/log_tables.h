/*
 * log_tables.h - tables of nccl-tests, for tests of the reader of logs.
 */
#pragma once

#define HEAD "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
#define ROW(size, time, algbw, busbw)                                                              \
	size " 1 float sum -1 " time " " algbw " " busbw " 0 " time " " algbw " " busbw " 0\n"
#define FAST_1G ROW("1073741824", "4000.0", "268.44", "469.76")
#define FAST_2G ROW("2147483648", "8000.0", "268.44", "469.76")
#define SLOW_1G ROW("1073741824", "8000.0", "134.22", "234.88")
#define SLOW_2G ROW("2147483648", "16000.0", "134.22", "234.88")
