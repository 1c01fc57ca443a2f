/*
 * pmix_api.h - the part of PMIx's interface that the pmix launch calls, from the PMIx Standard 2.0
 * (chapters 3 and 5), so that no header of a PMIx is needed to build. A test compares it with
 * <pmix.h> where that is installed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_PMIX_NAMESPACE 256 /* bytes, with the NUL */
#define BB_PMIX_KEY 512       /* likewise */
#define BB_PMIX_SUCCESS 0
#define BB_PMIX_GLOBAL 3 /* a scope: all processes */
#define BB_PMIX_RANK_WILDCARD (UINT32_MAX - 1)
#define BB_PMIX_COLLECT_DATA "pmix.collect"
#define BB_PMIX_JOB_SIZE "pmix.job.size"

enum bb_pmix_type { BB_PMIX_BOOL = 1, BB_PMIX_UINT32 = 14, BB_PMIX_BYTE_OBJECT = 27 };

struct bb_pmix_proc {
	char nspace[BB_PMIX_NAMESPACE];
	uint32_t rank;
};

struct bb_pmix_value {
	uint16_t type; /* enum bb_pmix_type */
	union {
		bool flag;
		uint32_t uint32;
		struct {
			char *at;
			size_t size;
		} bytes;
		char others[24]; /* the largest of what it may be */
	} data;
};

struct bb_pmix_info {
	char key[BB_PMIX_KEY];
	uint32_t flags;
	struct bb_pmix_value value;
};

/* Each returns BB_PMIX_SUCCESS or a negative status. */
struct bb_pmix_api {
	int (*init)(struct bb_pmix_proc *self, struct bb_pmix_info *info, size_t ninfo);
	int (*finalize)(const struct bb_pmix_info *info, size_t ninfo);
	int (*put)(uint8_t scope, const char *key, struct bb_pmix_value *value);
	int (*commit)(void);
	int (*fence)(const struct bb_pmix_proc *procs, size_t nprocs,
		     const struct bb_pmix_info *info, size_t ninfo);
	/* *VALUE is the caller's to free, with what it points to. */
	int (*get)(const struct bb_pmix_proc *from, const char *key,
		   const struct bb_pmix_info *info, size_t ninfo, struct bb_pmix_value **value);
	const char *(*error_string)(int status);
	const char *(*version)(void);
};
