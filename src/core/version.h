/*
 * version.h - busbench's version, the same in every binary and record, and how it was built.
 */
#pragma once

#define BB_VERSION "0.1.0"

/* Lines for --version: commit, compiler, target, libraries. */
extern const char bb_build_facts[];
