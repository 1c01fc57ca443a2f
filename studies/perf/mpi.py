"""The mpi backend's part of make perf: busbench's loop against a bare one around the same call, and its
own ring against the library's."""

import os
import shutil

import speed

KIB, MIB = 1 << 10, 1 << 20
BANDS = ((8, 4 * KIB, 10000), (16 * KIB, 1 * MIB, 200), (4 * MIB, 64 * MIB, 10))  # sizes, iterations
GROUPED = 100  # calls in one timed iteration, where the clock's own time would count


def perf_command(ranks, low, high, iterations, *arguments):
    return speed.mpirun(ranks, f"{speed.BUILD}/all_reduce_perf", "--backend", "mpi", "-b", str(low),
                        "-e", str(high), "-f", "4", "-n", str(iterations), "-w", "5", "-c", "0",
                        "--json", "-", *arguments)


def loop_rows(ranks, most, repeats):
    for low, high, iterations in BANDS:
        if low > most:
            break
        high = min(high, most)
        native = ["--algo", "native", "--cache", "reuse"]
        bare = speed.mpirun(ranks, f"{speed.BUILD}/tests/mpi_bare", str(iterations),
                            *map(str, speed.sizes(low, high)))
        commands = [bare, ("ours", perf_command(ranks, low, high, iterations, *native))]
        if high <= 4 * KIB:
            commands.append(("grouped", perf_command(ranks, low, high, iterations // GROUPED,
                                                     *native, "-m", str(GROUPED))))
        times = speed.interleave(commands, repeats)
        for size in speed.sizes(low, high):
            loop, ours = times[size, "bare"][0], times[size, "ours"][0]
            row = [speed.size_text(size), speed.us(loop), f"{speed.us(ours)} ({ours / loop:.3f})"]
            many = times.get((size, "grouped"))
            yield row + [f"{speed.us(many[0])} ({many[0] / loop:.3f})" if many else ""]


def ring_rows(ranks, most, repeats):
    low = 64 * KIB
    command = perf_command(ranks, low, most, 10, "--algo", "ring,native:ring,tree,native")
    times = speed.interleave([command], repeats)
    for size in speed.sizes(low, most):
        ours, theirs, tree, native = (times[size, name][0]
                                      for name in ("ring", "native:ring", "tree", "native"))
        yield [speed.size_text(size), speed.us(ours), speed.us(theirs), f"{theirs / ours:.2f}",
               speed.us(tree), speed.us(native)]


def sections(out, most, repeats):
    if not shutil.which("mpirun") or not os.path.exists(f"{speed.BUILD}/backends/mpi.so"):
        out += ["## The mpi backend: not run, Open MPI is not installed", ""]
        return
    for ranks in (2, 4):
        out += [f"## MPI: busbench's loop against a bare one, {ranks} ranks", "",
                "MPI_Allreduce in microseconds, and in parentheses the ratio to the bare loop, which "
                f"reads the clock twice in all. -m {GROUPED}: that many calls between two readings of "
                "the clock.", ""]
        speed.table(out, ["size", "bare us", "busbench us", f"with -m {GROUPED}"],
                    list(loop_rows(ranks, most, repeats)))
    for ranks in (2, 4):
        out += [f"## MPI: busbench's ring against Open MPI's, {ranks} ranks", ""]
        speed.table(out, ["size", "ring us", "native:ring us", "times faster", "tree us",
                          "native us"], list(ring_rows(ranks, most, repeats)))
