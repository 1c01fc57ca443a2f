/*
 * quantised.h - the benchmark of quantised all-reduces: the mean of all ranks' fp32 arrays by an
 * exchange of codes (kernel/coded.h), beside the plain all-reduce.
 *
 *   quantised.c   options, record, experiment
 *   reference.c   what each scheme must compute, by one thread
 */
#pragma once

#include "training_kernels/kernel/coded.h"
#include "training_kernels/kernel/kernel.h"

#define BB_QUANTISED_OPTIONS(OPTION, COMMON)                                                       \
	OPTION(CHOICES, codings, "coding", 0, "int8,int4,fp8-e4m3,mxfp8-e4m3,sign",                \
	       "codings of the numbers (see --list)", .choice = coding_name, .section = "Codes",   \
	       .usual = true)                                                                      \
	OPTION(CHOICES, schemes, "scheme", 0, "alltoall", "schemes of the exchange (see --list)",  \
	       .choice = scheme_name, .usual = true)                                               \
	OPTION(INT, block, "block", 0, NULL,                                                       \
	       "numbers that share a scale, a multiple of 8; 0: one scale for each message, or "   \
	       "for the array (default: that of the coding)",                                      \
	       .min = 0, .max = 1 << 20, .usual = true)                                            \
	OPTION(CHOICE, feedback, "error-feedback", 0, "off",                                       \
	       "on: each code carries the error of the step before, as in 1-bit Adam",             \
	       .choices = feedback_names, .usual = true)                                           \
	OPTION(INT, node_ranks, "node-ranks", 0, NULL,                                             \
	       "two-hops: ranks of a node (default: as they are placed)", .min = 2,                \
	       .max = BB_CLUSTER_MOST_RANKS)                                                       \
	OPTION(DTYPE, dtype, "datatype", 'd', "float", "datatype of the plain all-reduce",         \
	       .choices = dtypes, .section = "Comparison")                                         \
	OPTION(LINK, memory_rate, "memory-rate", 0, NULL,                                          \
	       "rate at which coding reads and writes memory, for the model and on sim "           \
	       "(default: that of the GPUs of --cluster)",                                         \
	       .argument = "RATE")                                                                 \
	COMMON("iters", 'n', "10", "timed steps of each kind, over all rounds", .min = 1,          \
	       .max = 1000000, .usual = true)

struct bb_quantised_options {
	BB_OPTION_MEMBERS(BB_QUANTISED_OPTIONS)
};

#define BB_QUANTISED_FIELDS(FIELD)                                                                 \
	FIELD(INT, size_bytes, "bytes", "fp32 array of a rank", BB_COLUMN("size", 12, 0), BB_KEY)  \
	FIELD(STRING, coding, "", "coding of the numbers", BB_COLUMN("coding", -12, 0), BB_KEY)    \
	FIELD(STRING, scheme, "", "scheme of the exchange", BB_COLUMN("scheme", -9, 0), BB_KEY)    \
	FIELD(INT, block, "", "numbers that share a scale; 0: all of a message or array")          \
	FIELD(STRING, feedback, "", "on: codes carry the error of the step before")                \
	FIELD(INT, nranks, "", "number of ranks")                                                  \
	FIELD(INT, node_ranks, "", "ranks of a node, for two-hops")                                \
	FIELD(INT, count, "", "numbers of a rank")                                                 \
	FIELD(INT, padded, "", "numbers with the zeros behind them")                               \
	FIELD(INT, sent_bytes, "bytes", "sent by a rank in a step: codes and scales, counted",     \
	      BB_COLUMN("sent", 9, 3), BB_MB)                                                      \
	FIELD(INT, formula_bytes, "bytes", "the same by the formula of the scheme",                \
	      BB_COLUMN("formula", 9, 3), BB_MB)                                                   \
	FIELD(STRING, dtype, "", "datatype of the plain all-reduce")                               \
	FIELD(DOUBLE, plain_bytes, "bytes", "sent by a rank in it: 2 (n - 1) / n of its array")    \
	FIELD(DOUBLE, plain_us, "us", "plain all-reduce: median", BB_COLUMN("plain", 10, 2))       \
	FIELD(DOUBLE, coded_us, "us", "quantised all-reduce, until the last rank ends: median",    \
	      BB_COLUMN("coded", 10, 2))                                                           \
	BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(INT, samples, "", "number of timed steps")                                           \
	FIELD(DOUBLE, coding_us, "us", "coding, decoding and sums alone: median",                  \
	      BB_COLUMN("coding", 10, 2))                                                          \
	FIELD(DOUBLE, exchange_us, "us", "exchange of codes alone: median",                        \
	      BB_COLUMN("exchange", 10, 2))                                                        \
	FIELD(DOUBLE, speedup, "", "plain_us / coded_us", BB_COLUMN("speedup", 7, 3), BB_TIMES)    \
	FIELD(DOUBLE, busbw_GBps, "GB/s",                                                          \
	      "bus bandwidth of an fp32 all-reduce that takes coded_us", BB_COLUMN("busbw", 8, 3)) \
	FIELD(DOUBLE, plain_GBps, "GB/s", "plain_bytes / plain_us: the rate of links here",        \
	      BB_COLUMN("link", 8, 3))                                                             \
	FIELD(DOUBLE, break_even_GBps, "GB/s",                                                     \
	      "link rate below which codes pay, plain_GBps (plain_us - exchange_us) / coding_us; " \
	      "null: the exchange alone takes longer",                                             \
	      BB_COLUMN("pays below", 10, 3))                                                      \
	FIELD(DOUBLE, model_break_even_GBps, "GB/s",                                               \
	      "bytes saved / time of coding, which reads and writes each number and code once at " \
	      "--memory-rate, else takes coding_us; null: no bytes are saved",                     \
	      BB_COLUMN("model", 8, 3))                                                            \
	FIELD(DOUBLE, rms_error, "",                                                               \
	      "root mean square of the differences from the exact sum of numbers of variance 1",   \
	      BB_COLUMN("rms error", 9, 5), .head_unit = "(sum)")                                  \
	FIELD(DOUBLE, max_error, "", "largest difference", BB_COLUMN("max error", 9, 5),           \
	      .head_unit = "(sum)")                                                                \
	FIELD(DOUBLE, balance_error, "",                                                           \
	      "largest difference between the mean of the inputs and result + errors of all "      \
	      "codes, which are equal but for rounding",                                           \
	      BB_COLUMN("balance", 8, 1), .head_unit = "(1e-9)", .scale = 1e9)                     \
	BB_WRONG_FIELD(FIELD, 0,                                                                   \
		       "numbers of results and error memories whose bits differ from those of "    \
		       "one thread, or that are out of balance; null: not verified")               \
	BB_END_FIELD(FIELD)

/* One array by one coding and scheme. */
struct bb_quantised_record {
	BB_QUANTISED_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_quantised;
extern const struct bb_benchmark bb_quantised_benchmark;

/* ---- reference.c ----------------------------------------------------------------------------- */

/*
 * TO = N numbers from FIRST on of the padded array of RANK, sums of four uniform ones with variance
 * 1; or of its ERRORS of the step before, which are smaller by 2 to the bits of a code.
 */
void bb_quantised_draw(const struct bb_coded_form *form, uint64_t seed, int rank, bool errors,
		       size_t first, size_t n, float *to);

/* What a step of FORM makes of them, computed by one thread without the code of the exchange. */
struct bb_quantised_reference {
	const struct bb_coded_form *form;
	uint64_t seed;
	int rank;      /* whose errors are kept */
	float *mean;   /* [padded]: the result */
	float *errors; /* [of rank]: its new errors; NULL: without feedback */
	double *exact; /* [padded]: mean of the inputs */
	double *kept;  /* [padded]: new errors - old errors of all codes of a number, as in its mean
			*/
	float *numbers, *old, *back, *sum, *node; /* [padded], temporary */
	char *codes;
};

/* The bytes of all arrays, which are placed in MEMORY unless that is NULL. */
size_t bb_quantised_lay_out(struct bb_quantised_reference *reference,
			    const struct bb_coded_form *form, char *memory);
void bb_quantised_compute(struct bb_quantised_reference *reference);
