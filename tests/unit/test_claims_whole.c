/*
 * Whole logs, and all that is read of them: each table in a line, with its facts and its rows.
 */
#include "acceptance/claims.h"

#include "core/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "log_tables.h"

/* "collective algorithm type op root backend: 8 ranks of 2 hosts, runs 1, h0, GPU; 8 to 64 by 2 or
   0, average 0; 0 implausible, 0 not finite, 0 wrong, 0 (0) unchecked", then facts by their number,
   then rows. */
static void dump(const struct bb_claim_file *file, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "%zu cut in %d\n", file->cut, file->cut_line);
	for (const struct bb_claims *c = file->list; c < file->list + file->n; c++) {
		bb_strbuf_addf(out,
			       "%s %s %s %s %s %s: %d ranks of %d hosts, %d runs, %s, %s; %llu to "
			       "%llu by %g or %llu, average %g; %zu implausible, %zu not finite, "
			       "%zu wrong, %zu (%zu) unchecked%s%s\n",
			       c->collective, c->algorithm, c->type, c->op, c->root, c->backend,
			       (int)c->nranks, (int)c->hosts, (int)c->runs, c->host, c->gpu,
			       (unsigned long long)c->least_bytes,
			       (unsigned long long)c->most_bytes, c->factor,
			       (unsigned long long)c->step_bytes, c->average_GBps, c->implausible,
			       c->not_finite, c->wrong, c->unchecked, c->unchecked_in_place,
			       c->incomplete ? ", incomplete" : "",
			       c->simulated ? ", simulated" : "");
		for (int kind = 0; kind < BB_FACTS; kind++) {
			const struct bb_fact *const fact = bb_claims_fact(c, kind);

			if (fact)
				bb_strbuf_addf(out, " fact %d: %d in %d, %s: %s\n", kind,
					       (int)fact->value, fact->line, fact->text,
					       fact->quote);
		}
		for (size_t i = 0; i < c->n; i++) {
			const struct bb_claim *const r = &c->list[i];

			bb_strbuf_addf(out, " %d: %llu%s%s %g %g %g\n", r->line,
				       (unsigned long long)r->size_bytes, r->in_place ? " in" : "",
				       r->wrong ? " wrong" : "", r->time_us, r->algbw_GBps,
				       r->busbw_GBps);
		}
	}
}

#define MB "1000000 250000 float sum -1 "
#define RANK(n, host, device, bus)                                                                 \
	"#  Rank  " n " Group  0 Pid 1" n " on " host " device  " device " [" bus "] NVIDIA "      \
	"H100\n"

static const struct {
	const char *text, *want;
} logs[] = {
	/* A run with all of its lines, and a second one that has a list and sizes of its own. */
	{"$ NCCL_ALGO=Tree mpirun -np 4 -N 2 ./all_reduce_perf -b 8 -e 16M -f 2\n"
	 "# nThread 1 nGpus 1 minBytes 1000000 maxBytes 4000000 step: 4(factor)\n" RANK(
		 "0", "n1", "0", "0x1b") RANK("1", "n1", "1", "0x1c") RANK("2", "n2", "0", "0x1b")
		 RANK("3", "n2", "1", "0x1c") HEAD MB
	 "10 100 150 0 20 50 75 2\n"
	 "4000000 1000000 float sum -1 40 100 150 0 40 100 "
	 "150 N/A\n"
	 "# Out of bounds values : 1 FAILED\n"
	 "# Avg bus bandwidth    : 131.25\n"
	 "# Collective test starting: all_gather_perf\n"
	 "# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: "
	 "16(bytes)\n" RANK("0", "n3", "0", "0x1b") RANK("1", "n3", "1", "0x1c") HEAD
	 "1000000 125000 float none -1 10 100 50 0 10 100 50 0\n",
	 "0 cut in 0\n"
	 "all_reduce  float sum -1 : 4 ranks of 2 hosts, 1 runs, n1, NVIDIA H100; 1000000 to "
	 "4000000 by 4 or 0, average 0; 0 implausible, 0 not finite, 1 wrong, 1 (1) unchecked\n"
	 " fact 8: 0 in 1, Tree: $ NCCL_ALGO=Tree mpirun -np 4 -N 2 ./all_reduce_perf -b 8 -e 16M "
	 "-f 2\n"
	 " 8: 1000000 10 100 150\n"
	 " 8: 1000000 in wrong 20 50 75\n"
	 " 9: 4000000 40 100 150\n"
	 " 9: 4000000 in 40 100 150\n"
	 "all_gather  float none -1 : 2 ranks of 1 hosts, 1 runs, n3, NVIDIA H100; 8 to 64 by 0 or "
	 "16, average 0; 0 implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " fact 8: 0 in 1, Tree: $ NCCL_ALGO=Tree mpirun -np 4 -N 2 ./all_reduce_perf -b 8 -e 16M "
	 "-f 2\n"
	 " 17: 1000000 10 100 50\n"
	 " 17: 1000000 in 10 100 50\n"},
	/* Two streams of one log, whose rows alternate, and a stray footer. */
	{"[0] " HEAD "[1] " HEAD "[0] " MB "10 100 175 0 10 100 175 0\n[1] " MB
	 "20 50 87.5 0 20 50 87.5 0\n[0] # Avg bus bandwidth : 175\n[1] # Avg bus bandwidth : "
	 "87.5\n"
	 "[1] # Avg bus bandwidth : 87.5\n",
	 "0 cut in 0\n"
	 "  float sum -1 : 0 ranks of 0 hosts, 1 runs, , ; 0 to 0 by 0 or 0, average 0; 0 "
	 "implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " 3: 1000000 10 100 175\n"
	 " 3: 1000000 in 10 100 175\n"
	 "  float sum -1 : 0 ranks of 0 hosts, 1 runs, , ; 0 to 0 by 0 or 0, average 0; 0 "
	 "implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " 4: 1000000 20 50 87.5\n"
	 " 4: 1000000 in 20 50 87.5\n"},
	/* A row that a message interrupts, and one that is cut for good. */
	{HEAD MB "10 100 175 0 10\nn1:1:2 [0] NCCL INFO Channel 00/16 : 0 1\n100 175 0\n"
		 "2000000 500000 float sum -1 20 100\n# Avg bus bandwidth : 175\n",
	 "1 cut in 5\n"
	 "  float sum -1 : 0 ranks of 0 hosts, 1 runs, , ; 0 to 0 by 0 or 0, average 0; 0 "
	 "implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " fact 7: 16 in 3, : n1:1:2 [0] NCCL INFO Channel 00/16 : 0 1\n"
	 " 4: 1000000 10 100 175\n"
	 " 4: 1000000 in 10 100 175\n"},
	/* OSU's tables, the second without the library. */
	{"# OSU MPI Allreduce Latency Test v5.9\n# Size       Avg Latency(us)\n1048576 1000.00 "
	 "Pass\n"
	 "2097152 2000 Fail\n# OSU Broadcast Latency Test\n# Size Avg Latency(us)\n8 1\n",
	 "0 cut in 0\n"
	 "all_reduce     mpi: 0 ranks of 0 hosts, 1 runs, , ; 0 to 0 by 0 or 0, average 0; 0 "
	 "implausible, 0 not finite, 1 wrong, 0 (0) unchecked, incomplete\n"
	 " 3: 1048576 1000 0 0\n"
	 " 4: 2097152 wrong 2000 0 0\n"
	 "broadcast     mpi: 0 ranks of 0 hosts, 1 runs, , ; 0 to 0 by 0 or 0, average 0; 0 "
	 "implausible, 0 not finite, 0 wrong, 0 (0) unchecked, incomplete\n"
	 " 7: 8 1 0 0\n"},
	/* The same table twice, and copies of one rank each. */
	{HEAD FAST_1G FAST_2G "# Avg bus bandwidth : 469.76\n" HEAD FAST_1G FAST_2G
			      "# Avg bus bandwidth : 469.76\n" HEAD SLOW_1G SLOW_2G,
	 "0 cut in 0\n"
	 "  float sum -1 : 0 ranks of 0 hosts, 1 runs, , ; 0 to 0 by 0 or 0, average 0; 0 "
	 "implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " 2: 1073741824 4000 268.44 469.76\n"
	 " 2: 1073741824 in 4000 268.44 469.76\n"
	 " 3: 2147483648 8000 268.44 469.76\n"
	 " 3: 2147483648 in 8000 268.44 469.76\n"
	 "  float sum -1 : 0 ranks of 0 hosts, 1 runs, , ; 0 to 0 by 0 or 0, average 0; 0 "
	 "implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " 10: 1073741824 8000 134.22 234.88\n"
	 " 10: 1073741824 in 8000 134.22 234.88\n"
	 " 11: 2147483648 16000 134.22 234.88\n"
	 " 11: 2147483648 in 16000 134.22 234.88\n"},
	{"mpirun -np 2 ./all_reduce_perf -g 1\n" RANK("0", "n1", "0", "0x1b")
		 RANK("0", "n1", "0", "0x1b") HEAD MB "10 100 0 0 10 100 0 1\n" HEAD MB
						      "11 90.91 0 0 11 90.91 0 0\n",
	 "0 cut in 0\n"
	 "all_reduce  float sum -1 : 1 ranks of 1 hosts, 2 runs, n1, NVIDIA H100; 0 to 0 by 0 or "
	 "0, average 0; 0 implausible, 0 not finite, 1 wrong, 0 (0) unchecked\n"
	 " 5: 1000000 10 100 0\n"
	 " 5: 1000000 in wrong 10 100 0\n"},
	/* Several ranks on a GPU; averages alone; another type begins a table. */
	{RANK("0", "n1", "0", "0x1b") RANK("1", "n1", "0", "0x1b") RANK("2", "n1", "0", "0x1b")
		 RANK("3", "n1", "1", "0x1c") HEAD MB
	 "10 100 150 0 10 100 150 0\n1000000 500000 half sum -1 20 50 75 0 20 50 75 0\n"
	 "1000000 500000 half prod -1 40 25 37.5 0 40 25 37.5 0\n# Avg bus bandwidth : 150\n",
	 "0 cut in 0\n"
	 "  float sum -1 : 4 ranks of 1 hosts, 1 runs, n1, NVIDIA H100; 0 to 0 by 0 or 0, average "
	 "0; 0 implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " fact 16: 3 in 2, [0x1b]: #  Rank  1 Group  0 Pid 11 on n1 device  0 [0x1b] NVIDIA H100\n"
	 " 6: 1000000 10 100 150\n"
	 " 6: 1000000 in 10 100 150\n"
	 "  half sum -1 : 4 ranks of 1 hosts, 1 runs, n1, NVIDIA H100; 0 to 0 by 0 or 0, average "
	 "0; 0 implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " fact 16: 3 in 2, [0x1b]: #  Rank  1 Group  0 Pid 11 on n1 device  0 [0x1b] NVIDIA H100\n"
	 " 7: 1000000 20 50 75\n"
	 " 7: 1000000 in 20 50 75\n"
	 "  half prod -1 : 4 ranks of 1 hosts, 1 runs, n1, NVIDIA H100; 0 to 0 by 0 or 0, average "
	 "0; 0 implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"
	 " fact 16: 3 in 2, [0x1b]: #  Rank  1 Group  0 Pid 11 on n1 device  0 [0x1b] NVIDIA H100\n"
	 " 8: 1000000 40 25 37.5\n"
	 " 8: 1000000 in 40 25 37.5\n"},
	{"./alltoall_perf -b 1M -e 1G -i 1M -g 8\n# Avg bus bandwidth : 12.5\n",
	 "0 cut in 0\n"
	 "alltoall     : 8 ranks of 1 hosts, 1 runs, , ; 1048576 to 1073741824 by 0 or 1048576, "
	 "average 12.5; 0 implausible, 0 not finite, 0 wrong, 0 (0) unchecked\n"},
	{"# using 8 H100s over RoCE\nNCCL_PROTO=LL ./reduce_perf -g 8\n" HEAD
	 "1000000 250000 float sum 3 nan 100 100 0 10 100 100 0\n"
	 "2000000 500000 float sum 3 20 90 90 0 20 100 100 5\n",
	 "0 cut in 0\n"
	 "reduce  float sum 3 : 8 ranks of 1 hosts, 1 runs, , ; 0 to 0 by 0 or 0, average 0; 1 "
	 "implausible, 1 not finite, 1 wrong, 0 (0) unchecked\n"
	 " fact 0: 0 in 1, H100: # using 8 H100s over RoCE\n"
	 " fact 9: 0 in 2, LL: NCCL_PROTO=LL ./reduce_perf -g 8\n"
	 " 4: 1000000 in 10 100 100\n"
	 " 5: 2000000 in wrong 20 100 100\n"},
};

static void test_whole(void **state)
{
	for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
		struct bb_claim_file file;
		struct bb_error error = {0};
		struct bb_strbuf out = {0};

		if (bb_claims_read("log", logs[i].text, strlen(logs[i].text), &file, &error) !=
		    BB_OK)
			fail_msg("%zu: %s", i, error.text);
		dump(&file, &out);
		if (strcmp(bb_strbuf_text(&out), logs[i].want) != 0)
			fail_msg("%zu: %s", i, bb_strbuf_text(&out));
		bb_strbuf_free(&out);
		bb_claims_free(&file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
