/*
 * run_gpus.h - the state of a run's GPUs before and after it, as their driver reports it: reasons
 * why one may be slow.
 */
#ifndef BB_HARNESS_RUN_RUN_GPUS_H
#define BB_HARNESS_RUN_RUN_GPUS_H

#include "backends/gpu.h"
#include "harness/results/record.h"
#include "harness/run/crew.h"

struct bb_run;

/* A state is one field of the record, a count two. */
#define BB_MEMBER_STATE(name, unit, text) BB_MEMBER(INT, name)
#define BB_MEMBER_COUNT(name, unit, text) BB_MEMBER(INT, name##_before) BB_MEMBER(INT, name)
#define BB_FIELD_ROW_STATE(name, unit, text) BB_FIELD_ROW(INT, name, unit, text ", after the run")
#define BB_FIELD_ROW_COUNT(name, unit, text)                                                       \
	BB_FIELD_ROW(INT, name##_before, unit, text ", before the run")                            \
	BB_FIELD_ROW(INT, name, unit, "the same after it")

#define BB_GPU_FIELDS(FIELD)                                                                       \
	FIELD(INT, rank, "", "whose GPU it is")                                                    \
	FIELD(STRING, host, "", "where it is")                                                     \
	FIELD(STRING, bus, "", "its place on the host")                                            \
	FIELD(STRING, driver, "", "version of the driver")                                         \
	BB_GPU_STATES(FIELD##_STATE)                                                               \
	BB_GPU_COUNTS(FIELD##_COUNT)

struct bb_gpu_record {
	BB_GPU_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_gpu;

/* *HEALTH = the state of the driver's GPU now; all zero where ranks are not GPUs. */
void bb_run_gpus_read(const struct bb_run *run, struct bb_driver *driver,
		      struct bb_gpu_health *health);
/* After the last trial: a record for each GPU whose driver answers. BEFORE is the state that
   bb_run_gpus_read gave before the first trial. Collective over the world. */
BB_MUST bb_status bb_run_gpus_report(struct bb_run *run, struct bb_driver *driver,
				     const struct bb_gpu_health *before);

#endif
