/*
 * options_table.c - the tables of the options of all programs, and docs/options.md.
 */
#include "harness/run/options.h"

#define MAX_SAMPLES 1000000 /* the sample of each timed iteration is stored */

/* auto, then the backends of the program, then those that it loads. */
static const char *backend_name(int index)
{
	int i = 1;

	if (index == 0)
		return "auto";
	for (int b = 0; bb_backends[b]; b++, i++)
		if (i == index)
			return bb_backends[b]->name;
	for (const struct bb_loadable *l = bb_loadables; l->name; l++, i++)
		if (i == index)
			return l->name;
	return NULL;
}

#define BB_OPTIONS struct bb_options
const struct bb_option bb_size_rows[] = BB_OPTION_ROWS(BB_SIZE_OPTIONS);

const struct bb_option bb_option_rows[] = BB_OPTION_ROWS(BB_RUN_OPTIONS);

static const char introduction[] =
	"# Options\n\n"
	"An option that nccl-tests has too has the same name and form here. `--help` prints the "
	"most used options of a program and two examples, `--help-all` every option, "
	"`--help-markdown` the tables of this page. Of an option given twice the last value "
	"counts. One difference is deliberate: without `-i` or `-f` the size doubles from row to "
	"row.\n";

static const char environment[] =
	"\n## Environment\n\n"
	"| Variable | Meaning |\n"
	"| --- | --- |\n"
	"| `NCCL_ALGO` | `Ring` or `Tree`: the algorithm without `--algo` |\n"
	"| `NCCL_TESTS_SPLIT` | `AND`, `OR`, `MOD`, `DIV` (or `&`, `\\|`, `%`, `/`) and a number: "
	"ranks with the same result form a group; all groups run at the same time. `+S%N` before "
	"it counts rank r as (r + S) % N |\n"
	"| `NCCL_TESTS_SPLIT_MASK` | a hexadecimal number: the same with `AND`; it overrides "
	"`NCCL_TESTS_SPLIT` |\n"
	"| `NCCL_TESTS_MIN_BW` | GB/s: the run fails (exit 7) when the average busbw is below 0.9 "
	"of "
	"it |\n"
	"| `NCCL_TESTS_ALLTOALLV_SPREAD` | 0 to 1: how uneven alltoallv is; 0 is even |\n"
	"| `NCCL_TESTS_ALLTOALLV_MATRIX_FILE`, `NCCL_TESTS_ALLTOALLV_MATRIX_SCALE` | as `--matrix` "
	"and `--matrix-scale`, see [numbers.md](numbers.md#matrices-of-alltoallv) |\n"
	"| `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`, `LOCAL_RANK` | as torchrun sets "
	"them: several processes connect by them without MPI, see [launch.md](launch.md) |\n"
	"| `BUSBENCH_PORT` | port on which process 0 then listens (default: `MASTER_PORT` + 1) |\n"
	"| `BUSBENCH_SECRET` | at least 16 bytes, the same for all processes: each proves that it "
	"knows them before it may join, see [launch.md](launch.md) |\n"
	"| `BUSBENCH_ISA` | `plain`, `avx2` or `avx512`: vector instructions of ranks on CPUs "
	"(default: the widest that the processor has) |\n"
	"| `BUSBENCH_BACKEND_DIR` | absolute path of a folder with backends, searched after "
	"`backends` beside the binary and `../lib/busbench` from there |\n"
	"\nnccl-tests' `NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY` is not supported: alltoallv refuses to "
	"run with it (exit 5).\n"
	"\n## Exit status\n\n"
	"| Status | Meaning |\n"
	"| --- | --- |\n"
	"| 0 | passed |\n"
	"| 1 | internal error, or writing an output failed (a full disk) |\n"
	"| 2 | the request makes no sense, or names a file that cannot be written |\n"
	"| 3 | the backend, the hardware or a rank is not usable |\n"
	"| 4 | timed out |\n"
	"| 5 | nothing that was requested is supported |\n"
	"| 7 | wrong data, or below a gate |\n";

void bb_options_document(const struct bb_option_section *sections, struct bb_strbuf *out)
{
	bb_strbuf_add(out, introduction);
	for (; sections->title; sections++) {
		bb_strbuf_addf(out, "\n## %s\n\n", sections->title);
		bb_options_markdown(&(struct bb_option_table){.rows = sections->rows}, out);
	}
	bb_strbuf_add(out, environment);
}
