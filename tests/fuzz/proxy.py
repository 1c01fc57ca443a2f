#!/usr/bin/env python3
"""Runs of two processes over TCP, between which a proxy alters any field of any message.

    tests/fuzz/proxy.py [--seconds N] [--seed N] [--jobs N] BUILD

A process may then end with any of the documented exit statuses, but neither by a signal, nor with a
report of a sanitizer, nor later than its time (-T). Prints how many messages were altered and what the
processes came to; exits 1 at the first that did not end so, with the number that repeats it.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

HELLO, CHALLENGE, PROOF = 136, 32, 32  # bytes
SECURED = 0x62624832
FRAME = struct.Struct("=IHHiiiIQ")  # the head of struct bb_frame
MAGIC, DATA = 0x62624331, 7
OFFER, OFFER_PORT = 432, 68  # struct offer: its bytes, and where its port is
SECRET = "a secret of tests"
LINE = ["-b", "8", "-e", "16", "-n", "2", "-w", "1", "--backend", "null", "-T", "6"]
STATUSES = {0, 1, 2, 3, 4, 5, 7, 128 + signal.SIGINT, 128 + signal.SIGTERM}
SECONDS = 4 + 5 + 60  # -T, busbench's own, and those of a machine that has much else to do
VALUES = [0, 1, 2, 3, 7, 16, 17, 127, 128, 200, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]


class Plan:
    """The altered messages of a run and their alterations, which depend on its seed alone."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed, self.secured = seed, draw.random() < 0.2
        # One message far into the run, or any with some probability.
        self.only = (draw.random() < 0.3, draw.random() < 0.5, draw.randrange(50)) if draw.random() < 0.4 else None
        self.rate = draw.choice((0.02, 0.1, 0.3))
        self.streams = []

    def altered(self):
        return sum(stream.altered for stream in self.streams)


class Stream:
    """One direction of a connection: of the control connection or the other, from process 0 or to it."""

    def __init__(self, plan, control, answers):
        self.plan, self.side = plan, (control, answers)
        self.random = random.Random(f"{plan.seed} {control} {answers}")
        self.messages = self.altered = 0
        plan.streams.append(self)

    def alter(self, message):
        self.messages += 1
        if self.plan.only:
            chosen = self.plan.only == (*self.side, self.messages - 1)
        else:
            chosen = self.random.random() < self.plan.rate
        if not chosen or not message:
            return message
        self.altered += 1
        return self.change(bytearray(message))

    def change(self, message):
        size = self.random.choice((1, 2, 4, 4, 8, 8))
        if size > len(message):
            size = 1
        at = self.random.randrange(len(message) // size) * size
        how = self.random.randrange(4)
        if how == 0:  # text without its end
            length = min(self.random.choice((16, 64, 160)), len(message) - at)
            message[at : at + length] = b"x" * length
        elif how == 1:
            message[at] ^= 1 << self.random.randrange(8)
        elif how == 2:
            message[at : at + size] = self.random.randbytes(size)
        else:
            value = self.random.choice(VALUES) % 256**size
            message[at : at + size] = value.to_bytes(size, sys.byteorder)
        return bytes(message)


class Proxy:
    """Stands between one process and process 0 and forwards messages from its port to another."""

    def __init__(self, plan, port, control=False):
        self.plan, self.port, self.control = plan, port, control
        self.door = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.here = self.door.getsockname()[1]
        self.sockets, self.open, self.next = [self.door], True, None
        self.threads = []
        self.start(self.serve)

    def start(self, what, *arguments):
        self.threads.append(threading.Thread(target=what, args=arguments))
        self.threads[-1].start()

    def serve(self):
        with contextlib.suppress(OSError):
            while self.open:
                comer, _ = self.door.accept()
                self.sockets.append(comer)
                try:
                    host = socket.create_connection(("127.0.0.1", self.port), 5)
                except OSError:
                    comer.close()
                    continue
                host.settimeout(None)
                self.sockets.append(host)
                self.start(self.pump, comer, host, False)
                self.start(self.pump, host, comer, True)

    def pump(self, source, to, answers):
        with contextlib.suppress(OSError, EOFError):
            self.pass_on(source, to, Stream(self.plan, self.control, answers))
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def pass_on(self, source, to, stream):
        said = read(source, HELLO)
        secured = struct.unpack_from("=I", said)[0] == SECURED
        to.sendall(stream.alter(said))
        if secured:
            to.sendall(stream.alter(read(source, CHALLENGE)))
            to.sendall(stream.alter(read(source, PROOF)))
        while True:
            head = read(source, FRAME.size)
            magic, kind, length, *_, entered = FRAME.unpack(head)
            if magic != MAGIC:
                raise EOFError
            to.sendall(stream.alter(head + read(source, length)))
            if kind != DATA:
                continue
            payload = read(source, entered)
            if stream.side == (False, True) and entered == 2 * OFFER:
                payload = self.reroute(payload)
            to.sendall(stream.alter(payload))

    def reroute(self, payload):
        """Routes the control connection through a proxy too."""
        (port,) = struct.unpack_from("=H", payload, OFFER_PORT)
        if not self.next:
            self.next = Proxy(self.plan, port, control=True)
        payload = bytearray(payload)
        struct.pack_into("=H", payload, OFFER_PORT, self.next.here)
        return bytes(payload)

    def end(self):
        self.open = False
        if self.next:
            self.next.end()
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self.threads:
            thread.join()


def read(source, bytes_):
    parts = []
    while bytes_ > 0:
        part = source.recv(min(bytes_, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        bytes_ -= len(part)
    return b"".join(parts)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(rank, port, secured):
    env = {k: v for k, v in os.environ.items() if not re.match(r"RANK|WORLD_SIZE|MASTER_|BUSBENCH_|LOCAL_RANK", k)}
    env |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"}
    env |= {"BUSBENCH_PORT": str(port), "UBSAN_OPTIONS": "print_stacktrace=1", "ASAN_OPTIONS": "exitcode=99"}
    return env | ({"BUSBENCH_SECRET": SECRET} if secured else {})


class Bad(Exception):
    """A process ended in a forbidden manner; the message says how."""


def judge(seed, rank, process):
    try:
        _, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, err = process.communicate()
        raise Bad(f"run {seed}: process {rank} did not end within {SECONDS} s\n{err}") from None
    if process.returncode not in STATUSES or "Sanitizer" in err or "runtime error" in err:
        raise Bad(f"run {seed}: process {rank} ended with {process.returncode}\n{err}")
    return process.returncode


def one_run(program, seed):
    """Runs number SEED. Returns its plan and both exit statuses."""
    plan = Plan(seed)
    port = free_port()
    proxy = Proxy(plan, port)
    processes = [
        subprocess.Popen(
            [program, *LINE], env=environment(rank, (port, proxy.here)[rank], plan.secured), text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        for rank in (0, 1)
    ]
    try:
        codes = [judge(seed, rank, process) for rank, process in enumerate(processes)]
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        proxy.end()
    return plan, codes


def campaign(build, seeds, jobs, seconds=float("inf")):
    """Runs SEEDS until they or SECONDS are over. Returns runs, altered messages, and how often each status occurred."""
    program, until = os.path.join(build, "all_reduce_perf"), time.monotonic() + seconds
    runs, altered, statuses = 0, 0, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = set()
        for seed in seeds:
            if time.monotonic() > until:
                break
            waiting.add(pool.submit(one_run, program, seed))
            if len(waiting) < 2 * jobs:
                continue
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in done:
                plan, codes = one.result()
                runs, altered = runs + 1, altered + plan.altered()
                statuses.update(codes)
        for one in waiting:
            plan, codes = one.result()
            runs, altered = runs + 1, altered + plan.altered()
            statuses.update(codes)
    return runs, altered, statuses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of the first run (default: 1)")
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("build")
    words = parser.parse_args()
    try:
        runs, altered, statuses = campaign(
            words.build, range(words.seed, words.seed + 10**9), words.jobs, words.seconds
        )
    except Bad as bad:
        sys.exit(str(bad))
    came = ", ".join(f"{status}: {n}" for status, n in sorted(statuses.items()))
    print(f"proxy: {altered} altered messages in {runs} runs; exit statuses {came}")


if __name__ == "__main__":
    main()
