/*
 * version.h - busbench's version, the same in every binary and record.
 */
#ifndef BB_CORE_VERSION_H
#define BB_CORE_VERSION_H

#define BB_VERSION "0.1.0"

#endif
