"""A run that hangs reports what NCCL's RAS says of it (src/backends/nccl/ras.c), whatever RAS does."""

import contextlib
import socket
import threading

import gpus
from kit import add, expect

GREETING = b"SERVER PROTOCOL 2\nOK\n"
TABLE = b"""NCCL version 2.28.9 compiled with CUDA 13.0

Job summary
===========

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         2         2         2   RUNNING  MISMATCH

Errors
======

"""
DEAD = b"""DEAD
  1 job process is considered dead (unreachable via the RAS network)

"""
MISMATCH = b"""Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  Rank 1 has launched up to operation 6649 -- GPU 1 managed by process 77 on node n\x1b7

"""
QUOTED = (
    "reports DEAD: 1 job process is considered dead (unreachable via the RAS network); #0-0 (27a079b828ff1a75) MISMATCH: "
    "Communicator ranks have different AllReduce operation counts; Rank 1 has launched up to operation 6649"
)


def whole(talk):
    """Answers as NCCL does, and hangs up."""
    request = b""
    while request.count(b"\n") < 3:
        request += talk.recv(100)
    expect(request == b"CLIENT PROTOCOL 2\nTIMEOUT 1\nSTATUS\n", f"{request}")
    for part in (GREETING, TABLE[:200], TABLE[200:], DEAD + MISMATCH):
        talk.sendall(part)


def healthy(talk):
    talk.sendall(GREETING + TABLE + b"Warnings\n========\n\n")


def empty(talk):
    """No communicator is complete yet."""
    head = TABLE.split(b"Group ")[0] + b"No communicator data collected!\n"
    talk.sendall(GREETING + head + b"\nErrors\n======\n\nWarnings\n========\n\n")


def unfinished(talk):
    talk.sendall(GREETING + TABLE)


def cut(talk):
    """A process may end while it answers."""
    talk.sendall(GREETING + TABLE[:100])


def stuck(talk):
    """It has found an error, and says nothing more."""
    talk.sendall(GREETING + TABLE + DEAD)
    silent(talk)


def silent(talk):
    while talk.recv(100):
        pass


def endless(talk):
    with contextlib.suppress(OSError):
        while True:
            talk.sendall(b"\n\0" * 4096)


@contextlib.contextmanager
def ras(conduct, family=socket.AF_INET):
    """Listens at an address, CONDUCT for each connection."""
    with socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family) as server:

        def answer(talk):
            with talk, contextlib.suppress(OSError):
                conduct(talk)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=server.accept()[:1], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def hangs(env, *said):
    result = gpus.run("all_reduce -g 2 -b 8 -e 8 -T 2 --backend nccl", {"BUSBENCH_FAKE_STUCK": "1", **env})
    result.exits(4).says("start-up did not end within 2.00 s (-T)", *said)
    expect("\x1b" not in result.err, "an unprintable character")
    return result


def answers(conduct, said, host="127.0.0.1"):
    family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
    with ras(conduct, family) as port:
        hangs({"NCCL_RAS_ADDR": f"{host}:{port}"}, f"; NCCL's RAS at {host}:{port} {said}")


CONDUCTS = (
    (whole, QUOTED, False),
    (healthy, "finds no error", False),
    (empty, "has no communicator", True),
    (unfinished, "sent an incomplete status", True),
    (cut, "sent no status", True),
    (stuck, "reports DEAD: 1 job process", True),
    (silent, "did not answer", False),
    (endless, "sent no status", True),
)
for conduct, said, full in CONDUCTS:
    add(f"RAS: {conduct.__name__}", answers, conduct, said, full=full)
for host in ("localhost", "[::1]"):
    add(f"RAS at {host}", answers, whole, QUOTED, host, full=host != "localhost")


def unreachable():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    hangs({"NCCL_RAS_ADDR": f"127.0.0.1:{port}"}, f"NCCL's RAS at 127.0.0.1:{port} was not reached: Connection refused")


def unasked():
    hangs({"NCCL_RAS_ADDR": "a-host:28028"}, "RAS at a-host:28028 was not asked: NCCL_RAS_ADDR needs")
    for env in ({"NCCL_RAS_ENABLE": "0"}, {"BUSBENCH_FAKE_VERSION": "22304"}):
        with ras(whole) as port:
            result = hangs({"NCCL_RAS_ADDR": f"127.0.0.1:{port}", **env})
            expect("RAS" not in result.err, result.err)


add("RAS is not there", unreachable)
add("RAS is not asked", unasked)
