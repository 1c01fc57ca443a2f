"""--accuracy: real calls have the bits of their steps; errors of other groups are those of the field's formula."""

import os

import gpus
import kit
import mpi
from kit import equal, expect, run, test
from tcp import Job

ALL = "half,float,double,bfloat16,f8e4m3,f8e5m2"


def rows(result, *codes):
    return result.exits(*(codes or (0,))).by_kind()["accuracy"]


def check(found, ranks):
    """Each call of a schedule has the bits of its steps, and a library's errors are within the bound."""
    calls = [r for r in found if r["by"] == "run"]
    equal({r["wrong"] for r in calls}, {0}, "wrong elements of calls")
    equal({r["nranks"] for r in calls}, {ranks}, "ranks of calls")
    equal({r["wrong"] for r in found if r["by"] == "steps"} - {None}, set(), "wrong elements of steps")
    return {(r["dtype"], r["algorithm_asked"], r["nranks"], r["by"]): r for r in found}


# ---- against real calls --------------------------------------------------------------------


@test(cores=2)
def calls_have_the_bits_of_their_steps():
    for ranks in (4, 5):
        line = f"all_reduce -g {ranks} --accuracy -d {ALL} --algo all -b 1000 --accuracy-ranks 2 --json -"
        found = check(rows(run(line)), ranks)
        equal(len(found), 6 * (8 * 2 + 2), "rows")
        # A sum that is rounded once has the least error that the type allows.
        least = min(found[k]["rms_error"] for k in found if k[0] == "half" and k[3] == "run")
        equal(found["half", "direct", ranks, "run"]["rms_error"], least, "error of a single rounding")
    for name in ("reduce_scatter", "reduce"):
        found = rows(run(f"{name} -g 3 --accuracy -d {ALL} --algo all -b 3000 --accuracy-ranks 2 --json -"))
        check(found, 3)
        equal({r["root"] for r in found}, {0 if name == "reduce" else None}, f"root of {name}")


@test
def calls_of_libraries():
    line = "all_reduce --accuracy -d half,float --algo ring,tree,native -b 2000 --accuracy-ranks 3,8 --json -"
    mpi.need()
    equal(len(check(rows(mpi.run(3, line)), 3)), 2 * 5, "rows")


@test
def calls_of_gloo():
    if not os.path.exists(os.path.join(kit.Settings.build, "backends", "gloo.so")):
        raise kit.Skipped("the gloo backend was not built")
    line = "all_reduce --backend gloo --accuracy -d half,float --algo ring,tree,native -b 2000 --accuracy-ranks 8 --json -"
    equal(len(check(rows(Job(3, line, GLOO_SOCKET_IFNAME="lo").finish()[0]), 3)), 2 * 5, "rows")


@test
def calls_of_gpus():
    line = "all_reduce --backend nccl -g 3 --accuracy -d half,float --algo ring,busbench:ring,busbench:tree --accuracy-ranks 8 --json -"
    found = check(rows(gpus.run(line)), 3)
    equal([key[3] for key in found if key[1] == "ring"], ["run", "run"], "rows of NCCL's own ring")
    equal(len(found), 2 + 4 * 2, "rows")


@test
def wrong_bits_are_found():
    line = "all_reduce -g 3 --accuracy -d half --algo ring,direct --accuracy-ranks 4 --fault corrupt:1 --json -"
    equal([r["wrong"] for r in rows(run(line), 7)], [1, None, 1], "wrong elements")
    line = "all_reduce -g 3 --accuracy -c 0 -d half --algo ring --accuracy-ranks 4 --json -"
    equal([r["wrong"] for r in rows(run(line))], [None, None], "without a check")


# ---- errors ----------------------------------------------------------------------------------


@test
def errors_grow_as_the_formula():
    """By ring as sqrt(n), by tree as sqrt(log2 n); in units in the last place alike in all types."""
    found = check(rows(run("all_reduce -g 2 --accuracy -d half,float,bfloat16 --json -")), 2)
    for (dtype, algorithm, ranks, by), r in found.items():
        if by == "steps":
            expect(0.95 < r["rms_error"] / r["expected_rms_error"] < 1.15, f"formula of {r}")
            equal(r["ranks_agree"], "yes", f"bits of the ranks by {algorithm}")
    for dtype, ring, tree in (("half", 0.0045, 0.00064), ("bfloat16", 0.037, 0.0051), ("float", 5.9e-7, 1.02e-7)):
        r = found[dtype, "ring", 1024, "steps"], found[dtype, "tree", 1024, "steps"]
        for got, wanted in zip(r, (ring, tree)):
            expect(abs(got["rms_error"] / wanted - 1) < 0.03, f"{dtype} among 1024 ranks: {got}")
    text = run("all_reduce -g 2 --accuracy -d bfloat16 --accuracy-ranks 1024 -N 2").exits(0)
    text.prints("# bfloat16, 1024 ranks: RMS error of the sum 3.7% by ring, 0.51% by tree\n")


@test
def ranks_may_disagree():
    """In naive, each rank adds in an order of its own."""
    line = "all_reduce -g 2 --accuracy -d half --algo naive,ring --accuracy-ranks 8 --json -"
    found = check(rows(run(line)), 2)
    equal(found["half", "naive", 8, "steps"]["ranks_agree"], "no", "naive")
    equal(found["half", "ring", 8, "steps"]["ranks_agree"], "yes", "ring")


@test
def steps_alone():
    """Where no data moves, schedules are examined, and what only a call could show is skipped."""
    line = "--accuracy -d half --algo busbench:ring,auto --accuracy-ranks 8 --json -"
    for more in ("-g 1", "--backend sim --cluster hgx-h100:2", "--backend null -g 4"):
        found = run(f"all_reduce {more} {line}").exits(0).by_kind()
        equal([(r["by"], r["nranks"]) for r in found["accuracy"]], [("steps", 8)], f"rows of {more}")
        expect("no rounding steps are known for auto on" in found["skip"][0]["reason"], f"skip of {more}")
    table = run("all_reduce -g 2 --accuracy -d half --algo ring --accuracy-ranks 8 --csv -").exits(0).out
    equal(len(table.splitlines()), 3, "lines of CSV")
    many = run("all_reduce -g 2 --accuracy -d half --algo tree --accuracy-ranks 1024 -b 1M --json -").exits(0)
    expect("1024 ranks take more than 1 GiB" in many.by_kind()["skip"][0]["reason"], "skip of too many numbers")
    few = run("reduce_scatter -g 2 --accuracy -d half --algo ring --accuracy-ranks 64 -b 64 --json -").exits(0)
    expect("fewer elements than ranks" in few.by_kind()["skip"][0]["reason"], "skip of too few numbers")


@test
def refusals():
    for line, words in (
        ("all_reduce --accuracy -d int8,half", ("-d int8", "floating-point")),
        ("all_reduce --accuracy -o max", ("-o max", "sums")),
        ("all_reduce --accuracy --precision 1%", ("--precision", "nothing is timed")),
        ("all_reduce --accuracy --explain", ("--explain",)),
        ("all_reduce --accuracy-ranks 8", ("--accuracy-ranks needs --accuracy",)),
        ("all_reduce --accuracy --accuracy-ranks 1", ("--accuracy-ranks 1", "from 2 to 16384")),
        ("broadcast --accuracy", ("--accuracy", "adds nothing")),
    ):
        run(line).exits(2).says(*words)
    run("all_reduce -g 4 --accuracy", {"NCCL_TESTS_SPLIT": "MOD 2"}).exits(2).says("NCCL_TESTS_SPLIT:", "one group")
    run("all_reduce -g 4 --accuracy", {"NCCL_TESTS_SPLIT_MASK": "1"}).exits(2).says("NCCL_TESTS_SPLIT_MASK:")
