"""Reads JSON files without trust, and checks the shape of their values."""

import contextlib
import errno
import glob
import json
import os
import re
import stat

MOST_BYTES = 64 << 20
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class FullDisk(Exception):
    """A disk that is full or broken: no other command line mends that."""


class CannotOpen(Exception):
    """The file cannot be read or written."""


class BadChoice(Exception):
    """The file lacks the requested run or schedule; the message names those it has."""


class BadFile(Exception):
    """The content of the file cannot be drawn; the message says why."""


class NoPicture(BadFile):
    """The content has no picture of its own; one of a report may be there."""


def refuse_constant(word):
    raise ValueError(f"{word} is not JSON")


def number_of(path, flags):
    """A descriptor of a regular file or a pipe; other files may never end."""
    number = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(number).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        os.close(number)
        raise CannotOpen(f"{path}: cannot be read: not a regular file or a pipe")
    os.set_blocking(number, True)
    return number


@contextlib.contextmanager
def opened(path):
    """Opens a file for reading. Raises CannotOpen."""
    try:
        with open(path, "rb", opener=number_of) as file:
            yield file
    except OSError as error:
        raise CannotOpen(f"{path}: cannot be read: {error.strerror}") from None


def read_values(path):
    """All JSON values of a file, one after the other: one document, or JSON lines."""
    with opened(path) as file:
        return values_of(file.read(MOST_BYTES + 1))


def values_of(data):
    if len(data) > MOST_BYTES:
        raise BadFile(f"larger than {MOST_BYTES >> 20} MiB")
    decoder = json.JSONDecoder(parse_constant=refuse_constant)
    values, at = [], 0
    try:
        text = data.decode("utf-8").strip()
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            values.append(value)
            at += len(text[at : at + 256]) - len(text[at : at + 256].lstrip())
    except (ValueError, RecursionError) as error:
        raise BadFile(f"not JSON: {error}") from None
    if not values:
        raise BadFile("not JSON: the file is empty")
    return values


RUN_FILE = re.compile(r"(.*)\.([0-9]+)\.jsonl")  # records/STEP.N.jsonl; those of STEP.simN.jsonl are expectations


def of_acceptance(folder):
    """The verdict of an acceptance run and the records of its runs, in the order of the verdict's steps."""
    verdict = os.path.join(folder, "verdict.json")
    runs = {path: RUN_FILE.fullmatch(os.path.basename(path)) for path in within(folder, "records/*.jsonl")}
    try:
        steps = [step.get("name") for step in read_values(verdict)[0].get("steps")]
    except (CannotOpen, BadFile, AttributeError, TypeError):
        steps = []
    place = lambda step: steps.index(step) if step in steps else len(steps)
    found = [path for path, name in runs.items() if name]
    found.sort(key=lambda path: (place(runs[path][1]), runs[path][1], int(runs[path][2])))
    return within(folder, "verdict.json") + found


def within(folder, *patterns):
    return [path for pattern in patterns for path in sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))]


def expanded(paths):
    """The paths, with those of the files of a folder instead of its own. Raises CannotOpen for a folder without any."""
    found = []
    for path in paths:
        if not os.path.isdir(path):
            found.append(path)
            continue
        is_acceptance = os.path.isdir(os.path.join(path, "records"))
        inside = of_acceptance(path) if is_acceptance else within(path, "*.jsonl", "*.json")
        if not inside:
            raise CannotOpen(f"{path}: has no records (*.jsonl) or documents (*.json)")
        found += inside
    return found


def write(path, data):
    """Writes all or nothing: if it fails, an earlier file stays."""
    beside = f"{path}.part"
    try:
        with open(beside, "wb") as file:
            file.write(data)
        os.replace(beside, path)
    except OSError as error:
        if os.path.exists(beside):
            os.remove(beside)
        raise (FullDisk if error.errno in FULL else CannotOpen)(f"{path}: cannot be written: {error.strerror}") from None


def clean(text):
    """TEXT with a replacement for each character that is not printable; SVG cannot hold some of them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\N{NO-BREAK SPACE}" else "\N{REPLACEMENT CHARACTER}" for c in text)


# ---- shapes ----------------------------------------------------------------------------------
# A shape is a type (its numbers are not negative), Real (they may be), a tuple of allowed words, Maybe(shape) (or null),
# List(shape, most), or a dictionary of required members.

INTEGER_MOST = 1 << 62


class Real:
    """A number of either sign."""


class Maybe:
    def __init__(self, shape):
        self.shape = shape


class List:
    def __init__(self, shape, most):
        self.shape, self.most = shape, most


def check(value, shape, where):
    """Raises BadFile with the first place below WHERE that does not have the shape."""
    if isinstance(shape, Maybe):
        if value is not None:
            check(value, shape.shape, where)
    elif isinstance(shape, List):
        check_list(value, shape, where)
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise BadFile(f"{where} is not an object")
        for key, member in shape.items():
            if key not in value:
                raise BadFile(f"{where} has no {key!r}")
            check(value[key], member, f"{where}.{key}")
    elif isinstance(shape, tuple):
        if not isinstance(value, str) or value not in shape:
            raise BadFile(f"{where} is none of {', '.join(shape)}")
    elif shape is str:
        if not isinstance(value, str):
            raise BadFile(f"{where} is not a string")
    elif isinstance(value, bool) or not isinstance(value, int if shape is int else (int, float)):
        raise BadFile(f"{where} is not {'an integer' if shape is int else 'a number'}")
    elif not (-INTEGER_MOST if shape is Real else 0) <= value < INTEGER_MOST:
        raise BadFile(f"{where} is out of range")


def check_list(value, shape, where):
    if not isinstance(value, list):
        raise BadFile(f"{where} is not a list")
    if len(value) > shape.most:
        raise BadFile(f"{where} has {len(value)} elements, more than {shape.most}")
    for i, element in enumerate(value):
        check(element, shape.shape, f"{where}[{i}]")
