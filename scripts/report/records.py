"""Records of `--json`: for each run a line about the run, then its measurements."""

from report.files import BadChoice, BadFile, Maybe, NoPicture, check
from report.values import words

SCHEMAS = (1, 2, 3)  # in 1 a run has its topology twice, the second time as topology_digest
# Names before schema 3: of kinds, and of fields by kind.
OLD_KINDS = {"way": "strategy", "experts": "moe", "meeting": "pair_round"}
OLD_FIELDS = {"strategy": ("way", "strategy"), "tensor_parallel": ("way", "scheme"), "tensor_equality": ("way", "scheme"),
              "end": ("played_by", "evaluated_by")}

RECORD = {"schema": int, "kind": str, "run_id": str}
RUN = {"start_time": Maybe(str), "program": Maybe(str), "backend": Maybe(str), "host": Maybe(str), "cpu": Maybe(str),
       "link": Maybe(str)}


def renamed(record):
    """RECORD, of a schema before 3, under the names of today."""
    kind = OLD_KINDS.get(record["kind"], record["kind"])
    old, new = OLD_FIELDS.get(kind, ("", ""))
    simulated = {key: "simulated" for key in ("source", "hop_source") if record.get(key) == "played"}
    return {new if key == old else key: value for key, value in record.items()} | {"kind": kind} | simulated


class Run:
    """One run: its record of kind "run", and the other records by kind."""

    def __init__(self, head, number):
        self.head, self.number, self.records = head, number, []

    def of(self, *kinds):
        return [record for record in self.records if record["kind"] in kinds]

    def answers(self):
        """Sentences of the run's own text that answer its question, in the end record."""
        return [answer for end in self.of("end")[-1:] for answer in words(end, "answers")]

    def where(self):
        """Program, host and time of the run as text."""
        head = self.head
        known = [head["program"], head["backend"] and f"backend {head['backend']}",
                 head["link"] and f"link {head['link']}", head["host"] and f"on {head['host']}", head["cpu"],
                 head["start_time"] and head["start_time"].partition(".")[0].replace("T", " ") + " UTC"]
        return ", ".join(text for text in known if text)


def runs_of(values):
    """The runs of a file, which may be interleaved, in the order of their beginnings."""
    runs = {}
    for i, record in enumerate(values):
        where = f"record {i + 1}"
        check(record, RECORD, where)
        if record["schema"] not in SCHEMAS:
            raise BadFile(f"{where}: schema {record['schema']}; known are {SCHEMAS[0]} to {SCHEMAS[-1]}")
        record = record if record["schema"] == SCHEMAS[-1] else renamed(record)
        if record["kind"] == "run":
            check(record, RUN, where)
            runs[record["run_id"]] = Run(record, len(runs) + 1)
        elif record["run_id"] not in runs:
            raise BadFile(f"{where} is of a run that has no record of kind run before it")
        else:
            runs[record["run_id"]].records.append(record)
    return list(runs.values())


def choose(values, kinds, number):
    """The run to draw, the first of KINDS in it, and a note if there was a choice. NUMBER: the requested run, from 1;
    None: the last with such records."""
    runs = runs_of(values)
    if number is not None and not 1 <= number <= len(runs):
        raise BadChoice(f"--run {number}: the file has {len(runs)} run{'s' if len(runs) > 1 else ''}")
    drawable = {run.number: record["kind"] for run in runs for record in run.of(*kinds)[:1]}
    if not drawable:
        found = sorted({record["kind"] for run in runs for record in run.records})[:10]
        raise NoPicture(f"no record can be drawn; the file has {', '.join(found)[:200] or 'none'}")
    if number is not None and number not in drawable:
        raise BadChoice(f"--run {number}: the run cannot be drawn; these can: {', '.join(map(str, drawable))}")
    run = runs[(number or max(drawable)) - 1]
    note = None
    if number is None and len(drawable) > 1:
        note = f"{len(drawable)} runs can be drawn; this is the last, --run {run.number}: {run.where()}"
    return run, drawable[run.number], note
