"""Tools of the tests: registering them, running a binary, reading its tables."""

import contextlib
import fcntl
import functools
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import termios
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Folders of the sanitized builds, and the environment of their programs.
SANITIZERS = {
    "address-undefined": {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"},
    # ThreadSanitizer would wait a second at each exit. A process that ends without its drivers leaves threads behind.
    "thread": {"TSAN_OPTIONS": "halt_on_error=1 atexit_sleep_ms=0 report_thread_leaks=0"},
}


class Failure(Exception):
    """A test failed; the message says how."""


class Skipped(Exception):
    """A test cannot run here; the message says why."""


class Settings:
    """Set by run.py before any test module is loaded."""

    given = "build"  # the build folder as given to make
    build = os.path.join(ROOT, "build")
    full = False
    variants = ()  # the SANITIZERS to test: all with --full, else none
    under = []  # command that runs unit tests


# No test is decided by a timing. This limit only ends programs that hang, also on a busy machine.
LIMIT = 600
LONG = LIMIT // 2  # -T of runs that must end by themselves; exit status 4 shows that they did not
BRIEF = 6  # -T of runs that use it up after their start-up, which alone takes seconds beside busy processes
ALL = 1 << 20  # cores of a test that runs alone


class Test:
    def __init__(self, name, function, arguments, cores):
        self.name = name
        self.function = function
        self.arguments = arguments
        self.cores = cores


TESTS = []  # of the module that is being loaded


def add(name, function, *arguments, cores=None, full=False):
    """Registers function(*arguments). cores: number that it keeps busy (default: CORES of its module, else 1). full: only
    make check-full runs it, because it is slow or wide and another test covers its kind."""
    if Settings.full or not full:
        TESTS.append(Test(name, function, arguments, cores))


def test(function=None, *, cores=None, full=False):
    """Decorator: registers the function under its own name."""

    def register(f):
        add(f.__name__, f, cores=cores, full=full)
        return f

    return register(function) if function else register


# How messages name the stages of a run before its first measurement.
STARTING = re.compile("(start-up|all processes|and planning) did not end within")


def patiently(function):
    """Decorator below @test: FUNCTION(seconds of -T), again with twice as many while the start-up alone uses them up."""

    @functools.wraps(function)
    def attempts():
        seconds = BRIEF
        while True:
            try:
                return function(seconds)
            except Failure as failure:
                if seconds > LONG // 2 or not STARTING.search(str(failure)):
                    raise
            seconds *= 2

    return attempts


def expect(condition, message):
    if not condition:
        raise Failure(message)


def equal(got, wanted, what):
    expect(got == wanted, f"{what}: {got!r}, not {wanted!r}")


def built(name, variant=""):
    """Path of a program. VARIANT: the folder of a sanitized build."""
    path = os.path.join(Settings.build, variant, name)
    expect(os.path.exists(path), f"{path} was not built")
    return path


class Result:
    def __init__(self, words, code, out, err, seconds):
        self.words, self.code, self.out, self.err, self.seconds = words, code, out, err, seconds

    def __str__(self):
        return "\n".join(
            [f"$ {' '.join(shlex.quote(w) for w in self.words)}", f"exit {self.code}"]
            + clipped("stdout", self.out)
            + clipped("stderr", self.err)
        )

    def require(self, condition, message):
        expect(condition, f"{message}\n{self}")
        return self

    def exits(self, *codes):
        return self.require(self.code in codes, f"exit {self.code}, not {' or '.join(map(str, codes))}")

    def says(self, *words):
        """stderr contains each of these words."""
        for word in words:
            self.require(word in self.err, f"stderr does not contain {word!r}")
        return self

    def prints(self, *words):
        """stdout contains each of these words."""
        for word in words:
            self.require(word in self.out, f"stdout does not contain {word!r}")
        return self

    def quiet(self):
        return self.require(not self.err, "something on stderr")

    def rows(self):
        return rows(self.out)

    def right(self):
        """No row has wrong data."""
        for row in self.rows():
            for half in row.halves:
                self.require(half.wrong in ("0", "N/A"), f"#wrong {half.wrong} of {row.size} B")
        return self

    def records(self, kind=None):
        """The records of --json -, all or those of KIND."""
        found = [json.loads(line) for line in self.out.splitlines()]
        return [r for r in found if kind in (None, r["kind"])]

    def by_kind(self):
        """{kind: [record…]} of --json -."""
        found = {}
        for r in self.records():
            found.setdefault(r["kind"], []).append(r)
        return found


def clipped(name, text):
    if not text:
        return [f"{name}: empty"]
    lines = text.splitlines()
    if len(lines) > 60:
        lines = lines[:40] + [f"... {len(lines) - 60} lines ..."] + lines[-20:]
    return [f"{name}:"] + ["  " + line for line in lines]


READ = r"NCCL_|GLOO_|BUSBENCH_|[A-Z]+SAN_OPTIONS|OMPI_COMM_|MV2_COMM_|PMIX?_|JSM_|FLUX_|SLURM_|(LOCAL_)?RANK$|WORLD_SIZE$|MASTER_"


def environment(extra=None):
    """The environment without variables of busbench, launchers and sanitizers, and with EXTRA. GPUs of the machine are
    hidden, so that tests know what they measure."""
    clean = {k: v for k, v in os.environ.items() if not re.match(READ, k)}
    clean["CUDA_VISIBLE_DEVICES"] = ""
    clean.update(extra or {})
    return clean


def spawn(words, env=None, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(
        words, env=environment(env), start_new_session=True, text=True, errors="replace", **options
    )


def finish(process, started=None):
    """Waits for PROCESS. If it hangs, it is killed with everything it started, and the test fails."""
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise Failure(f"did not end within {LIMIT} s\n{Result(process.args, 'killed', out, err, LIMIT)}")
    seconds = time.monotonic() - started if started else 0
    return Result(process.args, process.returncode, out or "", err or "", seconds)


def wait_for(condition, what, alive=lambda: True):
    """Waits until CONDITION(), which must hold before ALIVE() ends."""
    until = time.monotonic() + LIMIT
    while not condition():
        expect(alive() and time.monotonic() < until, f"waited in vain: {what}")
        time.sleep(0.02)


def wait_for_guard(process):
    """Waits until PROCESS of busbench handles signals itself: its main thread blocks SIGTERM."""

    def blocks():
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"^SigBlk:\s+(\w+)", file.read(), re.M)[1], 16) >> (signal.SIGTERM - 1) & 1
        return False

    wait_for(blocks, "it handles signals", lambda: process.poll() is None)


def has_rows(table):
    """True if a CSV file has many rows."""
    return os.path.exists(table) and os.path.getsize(table) > 10000


def execute(words, env=None, **options):
    started = time.monotonic()
    return finish(spawn(words, env, **options), started)


def write_program(path, content):
    """CONTENT, text or bytes, at PATH, which can be executed. A process of its own writes it: a child that another test
    forks keeps our open files until its exec, and a file open for writing cannot be executed."""
    data = content.encode() if isinstance(content, str) else content
    subprocess.run(["install", "-m", "755", "/dev/stdin", path], input=data, check=True)
    return path


def copy_programs(paths, folder):
    """Likewise copies."""
    subprocess.run(["install", "-t", folder, *paths], check=True)


def on_terminal(columns, words, env=None, stream="stdout"):
    """What WORDS print on a terminal with so many COLUMNS, which is their standard output or STREAM."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = spawn(words, env, **{stream: theirs})
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while part := os.read(ours, 4096):
            text += part
    os.close(ours)
    finish(process).exits(0)
    return text.decode().replace("\r\n", "\n")


def run(line, env=None, variant="", **options):
    """Runs a command line such as "all_reduce -g 4", without folder and "_perf"."""
    name, *arguments = shlex.split(line)
    return execute([built(name + "_perf", variant)] + arguments, env, **options)


def passes(line, env=None, variant=""):
    """Runs LINE, which must exit 0 with nothing on stderr and no wrong data."""
    return run(line, env, variant).exits(0).quiet().right()


class Half:
    """One placement of a row: time, algbw, busbw, #wrong, and with -I four more columns."""

    def __init__(self, words):
        self.time, self.algbw, self.busbw, self.wrong = words[:4]
        self.per_iter = words[4:]


class Row:
    def __init__(self, algorithm, words):
        self.algorithm = algorithm
        self.size, self.count = int(words[0]), int(words[1])
        self.dtype, self.op, self.root = words[2], words[3], int(words[4])
        width = 8 if len(words) >= 21 else 4
        self.halves = [Half(words[5 : 5 + width]), Half(words[5 + width : 5 + 2 * width])]
        self.words = words


def rows(text):
    """The result rows as parsers of nccl-tests read them: lines without comments, split at white space into 13 columns
    (21 with -I)."""
    found, algorithm = [], None
    for line in text.splitlines():
        if line.startswith("# Algorithm:"):
            algorithm = line.split()[2]
        words = line.split("#")[0].split()
        if len(words) >= 13 and words[0].isdigit():  # else a line of JSON
            found.append(Row(algorithm, words))
    return found


COLLECTIVES = (
    "all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall alltoallv sendrecv hypercube"
).split()


def prose(text):
    """The text with its folded '#' lines whole again."""
    return re.sub(r"\n#  +", " ", text)


def table_rows(text, keys=1):
    """The words of each row of a table. A table wider than 80 columns is printed in parts that repeat its first KEYS."""
    parts = [[]]
    for line in text.splitlines():
        if line.startswith(" "):
            parts[-1].append(line.split())
        elif parts[-1]:
            parts.append([])
    parts = [part for part in parts if part]
    return [sum((part[i][keys if n else 0 :] for n, part in enumerate(parts)), []) for i in range(len(parts[0]))]


@functools.lru_cache(None)
def listing():
    """--list of the host backend: {collective: [algorithm…]}, and {op: [datatype…]}."""
    algorithms, types = {}, {}
    section = None
    for line in run("all_reduce --list").exits(0).out.splitlines():
        if not line.startswith(" "):
            section = line.split()[1] if line.startswith("backend") else line.split()[0]
            section = section.rstrip(":")
        elif line.startswith("    ") and section == "host":
            name, *rest = line.split()
            algorithms[name] = rest
        elif line.startswith("    ") and section == "operations":
            name, *rest = line.split()
            types[name] = rest
    expect(len(algorithms) == len(COLLECTIVES) and len(types) >= 14, "--list cannot be read")
    return algorithms, types
