"""Invalid requests end at once, name the wrong word, and print nothing else."""

import os
import re
import tempfile

from kit import add, expect, run

# A command line, and texts that the message on stderr contains: the wrong word, and if there is a
# second one, the right one. test_schema.py has the values that each option refuses by its declaration.
USAGE = [
    ("all_reduce --no-such-flag", "--no-such-flag"),
    ("all_reduce --itres 5", "--itres", "--iters"),
    ("all_reduce -q", "-q"),
    ("all_reduce -Z 1", "-Z"),
    ("all_reduce 1M", "1M"),
    ("all_reduce -b 8 -e 64 garbage", "garbage"),
    ("all_reduce -b", "-b"),
    ("all_reduce --algo", "algo"),
    ("all_reduce --help=yes", "help"),
    ("all_reduce -b 2M -e 1M", "2M", "1M"),
    ("all_reduce -b 64M", "64M", "32M"),
    ("all_reduce -e 1M", "1M", "32M"),
    ("all_reduce -b 0", "-b 0:"),
    ("all_reduce -e 0", "-e 0:"),
    ("all_reduce -b 0 -e 0", "0"),
    ("all_reduce -b -1", "-1"),
    ("all_reduce -b 1X", "1X"),
    ("all_reduce -b ''", "-b"),
    ("all_reduce -b 8 -e 99999999T", "99999999T"),
    ("all_reduce -b 8 -e 64 -f 1", "-f 1", "-i"),
    ("all_reduce -g 0", "-g 0:"),
    ("all_reduce -g 100000", "100000", "1024"),
    ("all_reduce -g 2x", "2x"),
    ("all_reduce -t 100 -g 100", "100", "1024"),
    ("all_reduce -n -5", "-5"),
    ("all_reduce -K 20 -I 1", "20", "-n 20"),
    ("all_reduce -T soon", "soon"),
    ("all_reduce -o suum", "suum", "sum"),
    ("all_reduce -o sum,all", "all"),
    ("all_reduce -d flaot", "flaot", "float"),
    ("all_reduce -d float -o band", "band", "float"),
    ("all_reduce -d int32 -o maxloc", "maxloc", "int32"),
    ("broadcast -g 4 -r 4", "4", "3"),
    ("all_reduce --backend hots", "hots", "host"),
    ("all_reduce --backend mip", "mip", "mpi"),
    ("all_reduce --backend ''", "--backend"),
    ("all_reduce --algo rnig", "rnig", "ring"),
    ("all_reduce --algo native:ring", "native:ring"),
    ("all_reduce --algo ring,native", "native", "backend", "the host backend"),
    ("all_reduce --algo direct --backend null", "direct", "the null backend has no algorithm"),
    ("all_reduce --algo ring,", "--algo ring,", "empty name"),
    ("all_reduce --algo ring,all", "all"),
    ("all_reduce --algo Ring", "Ring", "ring"),
    ("all_reduce --precision tight", "tight"),
    ("all_reduce --precision 1% --max-time 0", "0", "max-time"),
    ("all_reduce --fault explode:1", "explode:1"),
    ("all_reduce --fault corrupt", "corrupt"),
    ("all_reduce --fault corrupt:", "corrupt:"),
    ("all_reduce --fault corrupt:x", "corrupt:x"),
    ("all_reduce --fault slow:1", "slow:1"),
    ("all_reduce --fault slow:1:fast", "slow:1:fast"),
    ("all_reduce -g 2 --fault die:2", "die:2"),
    ("all_reduce -g 2 --fault corrupt:1 -c 0", "corrupt:1", "-c"),
    ("all_reduce --link 0", "0", "out of range"),
    ("all_reduce --fault die:0 --fault corrupt:1", "--fault", "one fault"),
    ("all_reduce --explain -o max", "max", "sums"),
    ("all_reduce --explain -b 1G", "-b 1G", "4096"),
    ("broadcast --explain -g 4 -r 7", "no rank 7 among 4"),
    ("broadcast --explain -g 4 -r all", "-r all", "one root"),
    ("all_reduce --explain -g 65", "65", "64"),
    ("all_reduce --link -1GB/s", "-1GB/s"),
    ("all_reduce --link 1GB/s,2parsec", "2parsec"),
    ("all_reduce --link 1GB/s,", "1GB/s,"),
    ("all_reduce --link 1GB/s,2us,prt", "2us,prt", "port"),
    ("all_reduce --link 1GB/s,port,2us", "port,2us", "port"),
    ("all_reduce --csv /no/such/folder/x.csv", "/no/such/folder/x.csv"),
    ("all_reduce --csv /", "--csv"),
    ("all_reduce --csv ''", "--csv"),
    ("all_reduce --json /no/such/folder/x.jsonl", "/no/such/folder/x.jsonl"),
    ("all_reduce -J /tmp", "/tmp"),
    ("all_reduce -J /no/such/x.json", "/no/such/x.json"),
    ("all_reduce -J result.txt", "result.txt", ".json"),
    ("all_reduce --csv - --json -", "-"),
    ("all_reduce --csv same --json same", "same"),
    ("all_reduce -b 1 -e 1G -i 1", "rows"),
    ("all_reduce -G -1", "-1"),
    ("all_reduce -R 3", "3"),
    ("all_reduce -x 3", "3"),
    ("all_reduce -D 5", "5"),
    ("all_reduce -V 0", "0"),
    ("all_reduce -V 129", "129"),
]

# Environment, then as above.
ENVIRONMENT = [
    ({"NCCL_ALGO": "Circle"}, "all_reduce", "NCCL_ALGO", "Circle"),
    ({"NCCL_ALGO": "CollNetDirect"}, "all_reduce", "CollNetDirect"),
    ({"NCCL_TESTS_SPLIT": "SUM 3"}, "all_reduce", "NCCL_TESTS_SPLIT"),
    ({"NCCL_TESTS_SPLIT": "MOD 0"}, "all_reduce", "NCCL_TESTS_SPLIT"),
    ({"NCCL_TESTS_SPLIT": "% x"}, "all_reduce", "NCCL_TESTS_SPLIT"),
    ({"NCCL_TESTS_SPLIT_MASK": "zz"}, "all_reduce", "NCCL_TESTS_SPLIT_MASK"),
    ({"NCCL_TESTS_MIN_BW": "fast"}, "all_reduce", "NCCL_TESTS_MIN_BW", "fast"),
    ({"NCCL_TESTS_MIN_BW": "-1"}, "all_reduce", "NCCL_TESTS_MIN_BW"),
    ({"NCCL_TESTS_ALLTOALLV_SPREAD": "2"}, "alltoallv", "NCCL_TESTS_ALLTOALLV_SPREAD"),
]

# Features of GPUs alone: exit status 5, the flag, and the backend that has it.
GPU_ONLY = ["-G 1", "-y 1", "-R 1", "-R 2", "-x 0", "-x 2", "-D 1 -R 2", "--cudagraph 4"]


def refused(code, line, words, env=None):
    # If a request is wrongly accepted, the run stays small.
    result = run(line, env=env, cwd=tempfile.gettempdir())
    result.exits(code).says(*words)
    result.require(not result.out, "something on stdout")
    result.require(len(result.err.strip().splitlines()) == 1, "not one sentence")
    result.require(re.match(r"\w+_perf: \S", result.err), "does not begin with the program")


for row in USAGE:
    add(row[0], refused, 2, row[0], row[1:])
for extra, *row in ENVIRONMENT:
    add(" ".join(f"{k}={v}" for k, v in extra.items()), refused, 2, row[0], row[1:], extra)
for flag in GPU_ONLY:
    add(f"host has no {flag}", refused, 5, f"all_reduce -b 8 -e 8 {flag}", ("nccl", "host"))


def nothing_can_run():
    """A valid request that is not supported: exit status 5 with the reason, and everything recorded."""
    for line, reason, env in [
        ("hypercube -g 6 -b 1K -e 1K", "power", None),
        ("broadcast -g 2 -b 8 -e 8 --algo bruck,halving_doubling", "bruck", None),
        ("all_reduce -g 2 -b 900T -e 900T -N 0", "GiB", None),
        ("hypercube -g 2", "NCCL_ALGO", {"NCCL_ALGO": "Ring"}),
    ]:
        text = run(line, env=env).exits(5).says(reason).prints("# skipped: ", "# Verdict: nothing was run").out
        expect("Avg bus bandwidth" not in text and "Out of bounds" not in text, f"{line} sums up nothing")
        records = run(f"{line} --json -", env=env).exits(5).records()
        kinds = [record["kind"] for record in records if record["kind"] != "counter"]
        expect(kinds[0] == "run" and kinds[-1] == "end" and set(kinds[1:-1]) == {"skip"}, f"{line}: {kinds}")
        expect(reason in records[-1]["error"] and records[-1]["exit_status"] == 5, f"{line}: {records[-1]}")


def named_pairs():
    """A datatype and an operation that do not fit are reported if both were named."""
    line = "all_reduce -g 2 -b 8 -e 8 -o band,sum"
    run(f"{line} -d float,int8").exits(0).prints("# skipped: ", "-o band does not take -d float")
    expect("skipped" not in run(f"{line} -d all").exits(0).out, "-d all tells of pairs")


def alltoallv_environment():
    """A variable that only nccl-tests supports is not ignored silently."""
    variable = "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY"
    refused(5, "alltoallv -b 8 -e 8", (variable,), {variable: "1"})


# The text of a file, and what the error names.
MATRICES = [
    ("", "there is no matrix"),
    ("# only a name\n\n", "there is no matrix"),
    ("1 2\n3\n", "line 2", "1 number, 2 in the first row"),
    ("1 2\n3 4 5\n", "line 2", "3 numbers"),
    ("1 2\n3 4\n5 6\n", "2 columns have 2 rows each", "3 rows"),
    ("1 2\n", "2 columns have 2 rows each", "1 row\n"),
    ("5\n", "for 1 rank, and there are 4", "give fewer ranks"),
    ("1 two\n3 4\n", "line 1", '"two"'),
    ("1 2\n3 4x\n", "line 2", '"4x"'),
    ("1 -2\n3 4\n", "line 1", "-2", "from 0"),
    ("1 2\n3 nan\n", "nan"),
    ("1 2\n3 inf\n", "inf"),
    ("1 1e30\n3 4\n", "1e30", "2^60"),
    ("1e18 1e18\n0 0\n", "line 1", "at most 2^60"),
    ("1 2\n3 4\0\n", "a zero byte"),
    ("#x\n1 2\n3 4\n#x\n1 2\n3 4\n", "line 5", 'two matrices are called "x"'),
    ("#" + 64 * "x" + "\n1 2\n3 4\n", "line 1", "63 characters"),
    ("#\a\n1 2\n3 4\n", "line 1", "printable"),
    ("1 2 3\n4 5 6\n7 8 9\n", "for 3 ranks", "there are 4"),
]


def malformed_matrix(text, *words):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        refused(2, f"alltoallv -g 4 --matrix {file.name}", (file.name, *words))


def matrix_and_sizes():
    """The sizes are the matrix's; -e is the room for the largest, as in nccl-tests."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("1000 2000\n3000 4000\n")
        file.flush()
        refused(2, f"alltoallv -g 2 --matrix {file.name} -b 8 -e 64", ("--matrix", "-b and -e"))
        refused(2, f"alltoallv -g 2 --matrix {file.name} -b 4K -e 4K", ("4K of -e", "--matrix-scale"))
        refused(2, f"alltoallv -g 2 --matrix {file.name} --explain", ("4K of --explain", "--matrix-scale"))
        refused(2, f"alltoall -g 2 --matrix {file.name}", ("--matrix", "alltoallv_perf"))
    refused(2, "alltoallv -g 2 --matrix /no/such/file", ("--matrix /no/such/file",))


def smallest_group():
    """A root is a rank of its group."""
    refused(2, "broadcast -g 8 -r 2", ("smallest group, of 2 ranks",), {"NCCL_TESTS_SPLIT": "MOD 4"})
    refused(2, "broadcast -g 4 -r 1", ("smallest group, of 1 rank; give 0",), {"NCCL_TESTS_SPLIT": "/3"})
    refused(2, "broadcast -g 4 -r 4", ("-r 4", "among 4 ranks; give 0 to 3"))
    run("all_reduce -g 4 -r 4 -b 8 -e 8 -n 1").exits(0)


def unwritable():
    """A file without permission is refused before the run, except for root."""
    if os.geteuid() == 0:
        return
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        os.chmod(file.name, 0o400)
        refused(2, f"all_reduce --csv {file.name}", (file.name,))


def enough_cases():
    expect(len(USAGE) >= 40, "too few")


add("nothing can run", nothing_can_run)
add("pairs that were named", named_pairs)
add("alltoallv's environment", alltoallv_environment)
for text, *words in MATRICES:
    add(f"matrix {text[:20]!r}", malformed_matrix, text, *words)
add("a matrix and sizes", matrix_and_sizes)
add("a root beyond its group", smallest_group)
add("unwritable file", unwritable)
add("at least 40 cases", enough_cases)
