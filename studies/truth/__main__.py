#!/usr/bin/env python3
"""make truth: measurements against planted truths.

A paced link has a known rate and latency, a delayed rank a known delay, a shaped link between hosts a known rate, a
pipeline of sleepers a known step, and a calibrated model predicts sizes that it has not seen. The table shows how near
the measurements come. Nothing passes or fails, because a loaded machine measures late."""

import argparse
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(FOLDER, "..", "..", name) for name in ("scripts", "tests")]

import calibrate  # noqa: E402
import data_parallel  # noqa: E402
import ddp  # noqa: E402
import diagnose  # noqa: E402
import gloo  # noqa: E402
import p2p  # noqa: E402
import pipeline  # noqa: E402
import programs  # noqa: E402
import shaped  # noqa: E402

MIB = 1 << 20


def results(build, binary, arguments):
    return programs.records([f"{build}/{binary}_perf", *arguments], "result")


def ring_seconds(collective, size, ranks, chunk, rate, latency):
    """Time of the ring over links of RATE bytes/s and LATENCY s, one per pair of ranks."""
    if collective == "sendrecv" or ranks == 1:
        return size / rate + latency
    if collective == "broadcast":  # a chain, filled and drained chunk by chunk
        chunks = -(-size // chunk)
        return (chunks + ranks - 2) * size / chunks / rate + (ranks - 1) * latency
    slabs = -(-size // (chunk * ranks))
    steps = 2 * (ranks - 1) if collective == "all_reduce" else ranks - 1
    return slabs * steps * (size / slabs / ranks / rate + latency)


def link_rows(build):
    for rate_text, rate, latency in (("1GB/s", 1e9, 0), ("1GB/s,50us", 1e9, 50e-6),
                                     ("100MB/s,1ms", 1e8, 1e-3)):
        for collective, ranks in (("sendrecv", 2), ("all_reduce", 2), ("all_reduce", 4),
                                  ("all_gather", 4), ("broadcast", 4)):
            arguments = ["-b", "1M", "-e", "16M", "-f", "16", "-g", str(ranks), "-n", "10",
                         "--link", rate_text, "--algo", "ring", "-z", "1"]
            for record in results(build, collective, arguments):
                if record["in_place"]:
                    continue
                expected = 1e6 * ring_seconds(collective, record["size_bytes"], ranks,
                                              record["chunk_bytes"] or record["size_bytes"],
                                              rate, latency)
                yield [f"ring {collective}, {ranks} ranks, {record['size_bytes'] // MIB}M",
                       f"link {rate_text}", f"{expected:.0f} us", f"{record['p50_us']:.0f} us",
                       f"{100 * (record['p50_us'] / expected - 1):+.1f}%"]


def delay_rows(build):
    for rank, delay in ((1, 1000), (3, 5000)):
        arguments = ["-b", "64K", "-e", "64K", "-g", "4", "--fault", f"slow:{rank}:{delay}us"]
        record = results(build, "all_reduce", arguments)[0]
        yield [f"arrival skew, 4 ranks (last: rank {record['last_rank']})",
               f"rank {rank} {delay} us late", f"{delay} us", f"{record['skew_p50_us']:.0f} us",
               f"{100 * (record['skew_p50_us'] / delay - 1):+.1f}%"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    build = parser.parse_args().build
    head = ["measured", "planted", "truth", "median", "off by"]
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for rows in (link_rows(build), delay_rows(build),
                 *(part.rows(build) for part in (shaped, gloo, pipeline, ddp, data_parallel, calibrate, diagnose, p2p))):
        for row in rows:
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
