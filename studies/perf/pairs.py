"""Pairs of ranks against bare loops: memcpy within one thread, a word between two. Used by __main__.py."""

import speed


def sections(out, most, repeats):
    """Transfers on the host beside plain copies, and a word beside a bare ping-pong."""
    low = 1 << 16
    sizes = ["-b", str(low), "-e", str(most), "-f", "4", "--direction", "unidirectional"]
    commands = [
        [f"{speed.BUILD}/tests/bare_pairs", str(low), str(most), "4"],
        [f"{speed.BUILD}/p2p_bandwidth_perf", "-g", "2", *sizes, "--json", "-"],
        [f"{speed.BUILD}/p2p_latency_perf", "-g", "2", "--json", "-"],
    ]
    result = speed.interleave(commands, repeats)
    rows = []
    for size in sorted({key[0] for key in result} - {0}):
        bare = result[size, "memcpy"][0]
        row = [speed.size_text(size), speed.us(bare)]
        for what in ("private", "read", "write", "staged"):
            time = result[size, what][0]
            row.append(f"{speed.us(time)} ({bare / time:.2f})")
        rows.append(row)
    out.append("## Pairs, 2 ranks")
    out.append("")
    out.append("Microseconds, and in parentheses the share of memcpy's speed within one thread's memory.")
    out.append("")
    speed.table(out, ["size", "memcpy", "private copy", "read", "write", "staged"], rows)
    bare = 1e3 * result[0, "pingpong"][0]
    words = [f"{what} {1e3 * result[0, what][0]:.0f} ns ({1e3 * result[0, what][0] / bare:.2f} times that)"
             for what in ("word", "message")]  # fmt: skip
    out.append(f"Half a round trip between two threads takes a bare loop {bare:.0f} ns; {', '.join(words)}.")
    out.append("")
