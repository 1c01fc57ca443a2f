/*
 * version.c - facts of the build; the Makefile defines those that a compiler does not know.
 */
#include "core/version.h"

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char bb_build_facts[] = "compiler: " COMPILER "\n" BB_BUILT;
