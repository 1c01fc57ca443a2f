"""Reads the files of a report line by line, without trust: a line that cannot be used is left out with a note."""

import io
import json

from report import files, logs
from report.values import count, mistake, number, short, text
from report.records import SCHEMAS, Run, renamed

MOST_RECORDS = 100000  # of all files
MOST_BYTES = 256 << 20  # likewise
MOST_RUNS = 64
MOST_LINE = 32 << 20  # bytes
NO_RECORD = "no usable record"

MEASURED = (
    "result",
    "barrier",
    "pair",
    "data_parallel",
    "pipeline",
    "tensor_parallel",
    "tensor_equality",
    "hybrid_plan",
    "hybrid",
    "moe",
    "quantised",
    "zero",
    "strategy",
    "node",
    "schedule",
    "accuracy",
)
OTHERS = (
    "finding",
    "culprit",
    "skip",
    "arrival",
    "winner",
    "crossing",
    "pass",
    "zero_moment",
    "pair_round",
    "counter",
    "gpu",
    "message",
)  # that follow
KINDS = MEASURED + OTHERS + ("run", "end")
DOCUMENTS = ("topology", "model_memory", "acceptance", "acceptance_baseline")


class Source:
    """The content of the files: runs in their order, other documents, and notes."""

    def __init__(self):
        self.runs, self.documents, self.notes, self.records, self.bytes = {}, [], [], 0, 0

    def note(self, path, what):
        self.notes.append(f"{short(path, 120)}: {what}")


class Reader:
    """One file of records."""

    def __init__(self, source, path):
        self.source, self.path = source, path
        self.broken, self.unknown, self.schemas, self.strays, self.repeated = [], {}, {}, 0, set()

    def add_line(self, line_number, line):
        """Returns False if the rest of the file is not needed."""
        if len(line) > MOST_LINE:
            self.broken.append((line_number, f"longer than {MOST_LINE >> 20} MiB"))
            return True
        try:
            record = json.loads(line.decode("utf-8"), parse_constant=files.refuse_constant)
        except (ValueError, RecursionError):
            self.broken.append((line_number, "not JSON"))
            return True
        if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
            self.broken.append((line_number, "not a record: it has no kind"))
        elif record.get("schema") not in SCHEMAS:
            schema = short(str(record.get("schema")), 20)
            self.schemas[schema] = self.schemas.get(schema, 0) + 1
        elif mistake(record):
            self.broken.append((line_number, f"a record whose {mistake(record)}"))
        else:
            record = record if record["schema"] == SCHEMAS[-1] else renamed(record)
            if record["kind"] not in KINDS:
                kind = short(record["kind"], 40)
                self.unknown[kind] = self.unknown.get(kind, 0) + 1
            return self.keep(record, len(line))
        return len(self.broken) < 100000

    def keep(self, record, length):
        runs, identity = self.source.runs, record.get("run_id")
        if not isinstance(identity, str):
            self.strays += 1
        elif record["kind"] == "run":
            if len(runs) == MOST_RUNS:
                self.source.note(self.path, f"more than {MOST_RUNS} runs: the rest is left out")
                return False
            if identity in runs:
                self.source.note(self.path, "repeats a run: shown once")
                self.repeated.add(identity)
            else:
                runs[identity] = Run(record, len(runs) + 1)
        elif identity not in runs:
            self.strays += 1
        elif identity in self.repeated:
            pass
        elif self.source.records >= MOST_RECORDS or self.source.bytes + length > MOST_BYTES:
            self.source.note(
                self.path,
                f"more than {MOST_RECORDS:,} records or {MOST_BYTES >> 20} MiB in all: the rest is left out",
            )
            return False
        else:
            self.source.records += 1
            self.source.bytes += length
            runs[identity].records.append(record)
        return True

    def conclude(self):
        note = lambda what: self.source.note(self.path, what)
        for line, why in self.broken[:3]:
            note(f"line {line:,} is {why}: left out")
        if len(self.broken) > 3:
            note(f"{count(len(self.broken) - 3, 'more line')} like these")
        for schema, n in list(self.schemas.items())[:3]:
            note(f"{count(n, 'record')} of schema {schema}: left out; known are {SCHEMAS[0]} to {SCHEMAS[-1]}")
        for kind, n in list(self.unknown.items())[:5]:
            note(f"{count(n, 'record')} of the unknown kind {kind!r}: in tables only")
        if self.strays:
            note(f"{count(self.strays, 'record')} of a run that has no record of kind run before it: left out")


def is_record(line):
    """True if this first line is a record; documents may span lines."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("kind") in KINDS and "run_id" in value


def read(source, path):
    """Adds the content of a file to SOURCE. Raises CannotOpen, or BadFile if nothing of it can be used."""
    with files.opened(path) as file:
        first = file.readline(MOST_LINE + 2)
        while first and not first.strip():
            first = file.readline(MOST_LINE + 2)
        if looks_like_document(first):
            add_document(source, path, files.values_of(first + file.read(files.MOST_BYTES + 1)))
        else:
            read_records(source, path, file, first)


def read_all(paths):
    """The Source of the files. A file that cannot be used is left out with a note, BadFile if there is no other."""
    source, unused = Source(), []
    for path in paths:
        notes = len(source.notes)
        try:
            read(source, path)
        except files.BadFile as error:
            lines = logs.records(path)
            if lines:
                del source.notes[notes:]  # of lines that are no records
                file = io.BytesIO(lines)
                read_records(source, path, file, file.readline())
            else:
                unused.append((path, str(error)))
    if not source.runs and not source.documents and unused:
        raise files.BadFile("; ".join(f"{path}: {why}" for path, why in unused))
    for path, why in unused:
        source.note(path, f"{why.partition(';')[0] if why.startswith(NO_RECORD) else why}: the file is left out")
    return source


def looks_like_document(first):
    """True for an object that is not a record: on several lines, or of a kind of document."""
    if is_record(first):
        return False
    start = first.strip()
    try:
        value = json.loads(start)
    except (ValueError, RecursionError):
        return start[:1] == b"{" and not start.endswith(b"}") and b'"run_id"' not in start
    return isinstance(value, dict) and value.get("kind") in DOCUMENTS


def read_records(source, path, file, first):
    reader, before = Reader(source, path), (len(source.runs), source.records)
    line, n, read_bytes = first, 1, len(first)
    while line:
        if line.strip() and not reader.add_line(n, line):
            break
        while line and not line.endswith(b"\n") and read_bytes <= MOST_BYTES:  # skips the rest of a line that is too long
            line = file.readline(MOST_LINE + 2)
            read_bytes += len(line)
        line, n = file.readline(MOST_LINE + 2), n + 1
        read_bytes += len(line)
        if line and read_bytes > MOST_BYTES:
            source.note(path, f"larger than {MOST_BYTES >> 20} MiB: the rest is left out")
            break
    reader.conclude()
    if (len(source.runs), source.records) == before and not reader.repeated:
        why = source.notes[-1].partition(": ")[2] if source.notes else "the file is empty"
        raise files.BadFile(f"{NO_RECORD}; {why}")


def add_document(source, path, values):
    document = values[0]
    kind = document.get("kind") if isinstance(document, dict) else None
    if len(values) != 1 or kind not in DOCUMENTS:
        told = f"kind {short(kind, 40)!r}" if isinstance(kind, str) else 'no "kind"'
        raise files.BadFile(f"neither records nor one of {', '.join(DOCUMENTS)}; it has {told}")
    source.documents.append((path, kind, document))


def end_of(run):
    """The end record; {} if the run did not end."""
    ends = run.of("end")
    return ends[-1] if ends else {}


def nranks_of(run):
    return number(run.head, "nranks")


def world_of(run):
    """Number of ranks and backend; if nothing ran, what was computed."""
    ranks, stages = nranks_of(run), [number(r, "stages") for r in run.of("pipeline")]
    if stages and text(run.head, "backend") == "null":
        return [count(stages[0], "stage") if stages[0] else None, "predicted"]
    plan = run.of("hybrid_plan") and not run.of("hybrid")
    return [count(ranks, "rank") if ranks else None, "a plan" if plan else text(run.head, "backend", 40)]


def title_of(run):
    """Program, ranks and backend."""
    parts = [program_of(run).removesuffix("_perf"), *world_of(run)]
    return " · ".join(part for part in parts if part)


def program_of(run):
    return text(run.head, "program", 60) or "an unnamed program"
