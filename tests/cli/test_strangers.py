"""Strangers at the port of process 0: each is rejected and counted, and the run passes. Also strangers that listen in
place of process 0."""

import contextlib
import functools
import os
import re
import resource
import secrets
import socket
import struct
import tempfile
import threading
import time

import kit
from kit import Failure, add, equal, expect, run, test
from tcp import TIMEOUT, Job, free_port, told_once

CORES = 1 / 4  # processes mostly wait in vain

LINE = f"all_reduce -b 8 -e 64 --backend null -T {kit.LONG}"
BRIEF = f"all_reduce -b 8 -e 64 --backend null -T {TIMEOUT}"
SECRET = "a secret of tests"
PLAIN, SECURED = 0x62624831, 0x62624832
HELLO = struct.Struct("=Ii16siiQ32s64s")  # struct bb_hello
PATIENCE = 60


@functools.cache
def version():
    return re.search(r"\(busbench\) (\S+)", run("all_reduce --version").exits(0).out)[1].encode()


def hello(magic=PLAIN, proc=1, password=b"busbench, hello", nprocs=3, its=None, host=b"far"):
    return HELLO.pack(magic, proc, password, nprocs, 77, secrets.randbits(64), its or version(), host)


def says(*words):
    """A stranger that sends WORDS with pauses, and stays."""

    def stranger(connection):
        for word in words:
            connection.sendall(word)
            time.sleep(0.01)

    return stranger


def goes(*words, how=None):
    """The stranger disconnects."""

    def stranger(connection):
        says(*words)(connection)
        if how is not None:
            connection.shutdown(how)
        else:
            connection.close()

    return stranger


def resets(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


KINDS = {
    "silent": says(),
    "closes at once": goes(),
    "closes its side": goes(how=socket.SHUT_WR),
    "resets": resets,
    "one byte": says(b"H"),
    "slow": lambda c: says(*(hello()[i : i + 1] for i in range(60)))(c),
    "garbage": says(b"x" * 5000),
    "HTTP": says(b"GET / HTTP/1.1\r\nHost: h1\r\n\r\n" * 20),
    "TLS": says(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x5a" * 300),
    "SSH": says(b"SSH-2.0-OpenSSH_9.2p1\r\n" + b"\x00" * 200),
    "zeros": says(b"\0" * HELLO.size),
    "ones": says(b"\xff" * HELLO.size),
    "another magic": lambda c: says(hello(magic=PLAIN - 1))(c),
    "another byte order": lambda c: says(hello()[3::-1] + hello()[4:])(c),
    "another password": lambda c: says(hello(password=b"busbench, indeed"))(c),
    "another version": lambda c: says(hello(its=b"0.0.0"))(c),
    "a version without an end": lambda c: says(hello(its=b"v" * 32))(c),
    "a host without an end": lambda c: says(hello(host=b"h" * 64))(c),
    "a host with a colour": lambda c: says(hello(nprocs=4, host=b"\x1b[31mred"))(c),
    "another world size": lambda c: says(hello(nprocs=4))(c),
    "world size 0": lambda c: says(hello(nprocs=0))(c),
    "a negative world size": lambda c: says(hello(nprocs=-3))(c),
    "a huge world size": lambda c: says(hello(nprocs=2**31 - 1))(c),
    "rank -1": lambda c: says(hello(proc=-1))(c),
    "rank 0": lambda c: says(hello(proc=0))(c),
    "rank 3 of 3": lambda c: says(hello(proc=3))(c),
    "a huge rank": lambda c: says(hello(proc=2**31 - 1))(c),
    "comes and goes as rank 1": lambda c: goes(hello())(c),
    "a hello cut short": lambda c: goes(hello()[:-1])(c),
    "frames behind its hello": lambda c: says(hello(nprocs=4) + b"1CbB" + b"\xff" * 200)(c),
    "a challenge": lambda c: says(hello(magic=SECURED) + b"c" * 32)(c),
    "a challenge and a proof": lambda c: says(hello(magic=SECURED) + b"c" * 32, b"p" * 32)(c),
}
# Only a proof distinguishes a rank from these.
WITH_SECRET = {
    "rank 1 before it comes": lambda c: says(hello())(c),
    "rank 1 with a false proof": lambda c: says(hello(magic=SECURED) + b"c" * 32, b"p" * 32)(c),
    "rank 1 without a proof": lambda c: goes(hello(magic=SECURED) + b"c" * 32)(c),
}


def connect(port, process):
    """PROCESS will listen at PORT."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except ConnectionRefusedError:
            if process.poll() is not None:
                raise Failure(f"nobody listens: {kit.finish(process)}") from None
            expect(time.monotonic() < until, "nobody listens")
            time.sleep(0.01)


def visit(port, process, strangers):
    """All of them connect to PROCESS, and those that stay are still connected."""
    crowd = []
    for stranger in strangers:
        crowd.append(connect(port, process))
        with contextlib.suppress(OSError):
            stranger(crowd[-1])
    return crowd


def is_connected(process, port):
    """PROCESS has a connection to PORT."""
    files = f"/proc/{process.pid}/fd"
    mine = set()
    with contextlib.suppress(FileNotFoundError):  # it has ended
        names = os.listdir(files)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                mine.add(os.readlink(os.path.join(files, name)))
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    return any(row[2].endswith(f":{port:04X}") and row[3] == "01" and f"socket:[{row[9]}]" in mine for row in rows)


def among(strangers, **common):
    """STRANGERS connect before all real ranks but 0, and again when rank 1 is there."""
    port = free_port()
    common["BUSBENCH_PORT"] = str(port)
    first = Job(3, LINE, lines={1: None, 2: None}, master="127.0.0.1", **common)
    zero = first.processes[0]
    crowd = visit(port, zero, strangers)
    second = Job(3, LINE, lines={0: None, 2: None}, master="127.0.0.1", **common)
    one = second.processes[1]
    kit.wait_for(lambda: is_connected(one, port), "rank 1 connects", lambda: one.poll() is None)
    crowd += visit(port, zero, strangers)
    last = Job(3, LINE, lines={0: None, 1: None}, master="127.0.0.1", **common)
    results = {**first.finish(), **second.finish(), **last.finish()}
    for connection in crowd:
        connection.close()
    for result in results.values():
        result.exits(0).quiet()
    closed = re.search(r"; (\d+) connections? closed: ", results[0].out)
    results[0].require(closed, "the strangers are not counted")
    return results[0], int(closed[1])


for kind, stranger in KINDS.items():
    add(f"among strangers: {kind}", among, [stranger])


@test
def thirty_kinds_at_once():
    expect(len(KINDS) >= 30, f"{len(KINDS)} kinds")
    result, closed = among(KINDS.values())
    # A stranger that briefly gets a rank may be rejected twice.
    expect(closed >= 2 * len(KINDS), f"{closed} of {2 * len(KINDS)} strangers are counted\n{result}")
    result.prints("no BUSBENCH_SECRET")


@test(full=True)
def thirty_kinds_and_a_secret():
    kinds = [*KINDS.values(), *WITH_SECRET.values()]
    result, closed = among(kinds, BUSBENCH_SECRET=SECRET)
    expect(closed >= 2 * len(kinds), f"{closed} of {2 * len(kinds)} strangers are counted\n{result}")
    result.prints("all processes proved that they know BUSBENCH_SECRET", "without the right BUSBENCH_SECRET")


@test
def a_host_that_forges():
    """A stranger is named in the report of a missing process: its host cannot control the terminal."""
    port = free_port()
    job = Job(2, BRIEF, lines={1: None}, master="127.0.0.1", BUSBENCH_PORT=str(port))
    with contextlib.closing(connect(port, job.processes[0])) as stranger:
        stranger.sendall(hello(nprocs=3, host=b"far\xe2\x80\xae\xe2\x81\xa6\n  Verdict: forged"))
        result = job.finish()[0].exits(2).says("process 1 (far???????", "has WORLD_SIZE 3")
    equal((len(result.err.splitlines()), result.err.rstrip("\n").isprintable()), (1, True), "lines, all printable")


def few_files():
    """Process 0 may open 256 files, fewer than strangers come."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


@test
def a_flood_under_a_low_limit():
    """Silent connections are closed before those of processes of the run are, and leave files for them."""
    port = free_port()
    common = {"BUSBENCH_PORT": str(port), "master": "127.0.0.1"}
    first = Job(3, LINE, lines={1: None, 2: None}, limits=few_files, **common)
    crowd = visit(port, first.processes[0], [says()] * 300)
    others = Job(3, LINE, lines={0: None}, **common)
    results = {**first.finish(), **others.finish()}
    for connection in crowd:
        connection.close()
    for result in results.values():
        result.exits(0).quiet()
    results[0].require(int(re.search(r"(\d+) silent", results[0].out)[1]) >= 300, "the strangers are not counted")


@test
def claims_a_rank_and_is_silent():
    """Without a secret a stranger can take the place of a rank: it is named, with its address."""
    port = free_port()
    common = {"BUSBENCH_PORT": str(port), "master": "127.0.0.1"}
    first = Job(2, BRIEF, lines={1: None}, **common)
    with contextlib.closing(connect(port, first.processes[0])) as stranger:
        stranger.sendall(hello(nprocs=2))
        result = first.finish()[0].exits(4)
        result.says(f"process 1 (far, pid 77) at 127.0.0.1, port {stranger.getsockname()[1]} does not answer", "BUSBENCH_SECRET")
    told_once({0: result}, "-T")


# ---- secrets ---------------------------------------------------------------------------------------


@test
def a_secret():
    for result in Job(3, LINE, BUSBENCH_SECRET=SECRET).finish().values():
        result.exits(0)


@test
def another_secret():
    results = Job(2, BRIEF, changed={1: {"BUSBENCH_SECRET": SECRET + "!"}}, BUSBENCH_SECRET=SECRET).finish()
    results[0].exits(4).says("without the right BUSBENCH_SECRET", "RANK 1")
    results[1].exits(3).says("the process that answers there does not know this BUSBENCH_SECRET")


@test
def no_secret():
    results = Job(2, BRIEF, changed={1: {"BUSBENCH_SECRET": None}}, BUSBENCH_SECRET=SECRET).finish()
    results[0].exits(4).says("without the right BUSBENCH_SECRET")
    results[1].exits(2).says("it requires BUSBENCH_SECRET, which is not set here")


@test
def a_short_secret():
    told_once(Job(1, LINE, BUSBENCH_SECRET="password", RANK="0").finish(), "BUSBENCH_SECRET has 8 bytes", code=2)


@test
def a_secret_without_its_library():
    """No libcrypto can be loaded: a folder with broken files of these names comes first."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libcrypto.so.3", "libcrypto.so.1.1"):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write("no library")
        results = Job(2, LINE, BUSBENCH_SECRET=SECRET, LD_LIBRARY_PATH=folder).finish()
    for result in results.values():
        result.exits(3).says("libcrypto", "cannot be loaded")


# ---- a false process 0 -----------------------------------------------------------------------------


class Impostor:
    """Listens in place of process 0, and calls ANSWER(connection) for each hello."""

    def __init__(self, answer):
        self.answer, self.heard = answer, 0
        self.door = socket.create_server(("127.0.0.1", free_port()), backlog=64)
        self.port = self.door.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.door.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(5)
                    said = connection.recv(HELLO.size + 32)
                    self.heard += 1
                    self.answer(connection, said)

    def await_heard(self, times):
        until = time.monotonic() + PATIENCE
        while self.heard < times:
            expect(time.monotonic() < until, f"heard {self.heard} hellos, not {times}")
            time.sleep(0.01)

    def end(self):
        with contextlib.suppress(OSError):
            self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()
        self.thread.join()


def claim(connection, said, magic=PLAIN, tail=b""):
    connection.sendall(hello(magic=magic, proc=0, password=b"busbench, indeed") + tail)


IMPOSTORS = {
    "no secret": lambda c, said: claim(c, said),
    "a challenge": lambda c, said: claim(c, said, SECURED, b"c" * 32),
    "a false proof": lambda c, said: claim(c, said, SECURED, b"c" * 32 + b"p" * 32),
    "an echo": lambda c, said: c.sendall(said),
    "nothing": lambda c, said: None,
}


def before_process_0(answer):
    """A false process 0 has the port first. With a secret nobody believes it, and the real one takes over."""
    impostor = Impostor(answer)
    common = {"BUSBENCH_PORT": str(impostor.port), "BUSBENCH_SECRET": SECRET, "master": "127.0.0.1"}
    others = Job(3, LINE, lines={0: None}, **common)
    try:
        impostor.await_heard(4)
    finally:
        impostor.end()
    first = Job(3, LINE, lines={1: None, 2: None}, **common)
    results = {**others.finish(), **first.finish()}
    for result in results.values():
        result.exits(0).quiet()


for kind, answer in IMPOSTORS.items():
    add(f"a false process 0: {kind}", before_process_0, answer)


@test
def instead_of_process_0():
    """The false process 0 stays: the run fails, and both sides give the reason."""
    impostor = Impostor(IMPOSTORS["a false proof"])
    try:
        results = Job(2, BRIEF, BUSBENCH_PORT=str(impostor.port), BUSBENCH_SECRET=SECRET, master="127.0.0.1").finish()
    finally:
        impostor.end()
    results[0].exits(3).says("cannot listen on port", "Address already in use")
    results[1].exits(3).says("the process that answers there does not know this BUSBENCH_SECRET")


@test
def believed_without_a_secret():
    """Its data is still decoded: whatever it sends, ranks end with a documented status."""
    stop = struct.Struct("=IHHiiiIQ")
    for status in (256, -1, 6, 2**31 - 1, 0):
        impostor = Impostor(lambda c, said, s=status: claim(c, said, tail=stop.pack(0x62624331, 4, 0, s, 0, 0, 0, 0)))
        try:
            results = Job(3, BRIEF, lines={0: None, 2: None}, BUSBENCH_PORT=str(impostor.port), master="127.0.0.1").finish()
        finally:
            impostor.end()
        results[1].exits(3).says("sent a frame in which")


@test
def listens_where_master_addr_says():
    """Loopback is unreachable from elsewhere; an address of another host is refused."""
    result = Job(2, LINE, master="localhost").finish()[0].exits(0)
    result.prints("process 0 listened on", "127.0.0.1")
    equal("::," in result.out, False, "listens on all addresses")
    results = Job(2, BRIEF, master="192.0.2.1", lines={1: None}).finish()
    results[0].exits(3).says("MASTER_ADDR=192.0.2.1 names no address of its host", "BUSBENCH_SECRET")
