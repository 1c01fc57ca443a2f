#!/usr/bin/env python3
"""Runs N processes of a command on this machine with torchrun's variables, without PyTorch.

    scripts/processes.py N COMMAND...

Exit status: the first that is not 0, in the order of ranks."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests"))

from tcp import free_port  # noqa: E402


def start(n, command, **options):
    """The processes by rank, connected over the loopback interface unless GLOO_SOCKET_IFNAME is set."""
    port = str(free_port())
    common = {"GLOO_SOCKET_IFNAME": "lo", **os.environ, "WORLD_SIZE": str(n), "LOCAL_WORLD_SIZE": str(n)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        subprocess.Popen(command, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, **options)
        for rank in range(n)
    ]  # fmt: skip


def main():
    if len(sys.argv) < 3 or not sys.argv[1].isdigit() or int(sys.argv[1]) < 1:
        sys.exit("usage: processes.py N COMMAND...")
    processes = start(int(sys.argv[1]), sys.argv[2:])
    sys.exit(next((status for status in [process.wait() for process in processes] if status), 0))


if __name__ == "__main__":
    main()
