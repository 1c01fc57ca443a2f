"""The kinds of pictures, and which of them a file holds."""

import typing

from report import buckets, files, machine, pipelines, records


class Kind(typing.NamedTuple):
    """Something that can be drawn."""

    subject: typing.Callable  # makes the subject from the file's values or a run
    module: str  # that draws it
    source: str  # what writes it


RECORDS = {
    "pipeline": Kind(pipelines.Pipelines, "report.gantt", "build/pipeline_perf --gantt --json FILE"),
    "data_parallel": Kind(buckets.Sweep, "report.sweep", "build/ddp_bucket_perf --json FILE"),
}
KINDS = {"topology": Kind(machine.Machine, "report.topology", "build/topology --json FILE"), **RECORDS}


def words_for(kind, run, schedules):
    """Further arguments of KIND's subject. Raises BadChoice if an option belongs to another kind."""
    if run is not None and kind not in RECORDS:
        raise files.BadChoice(f"--run is about records; this is a {kind}")
    if schedules is not None and kind != "pipeline":
        raise files.BadChoice(f"--schedule is about pipelines; this is of kind {kind}")
    return [] if schedules is None else [schedules]


def read(path, run=None, schedules=None):
    """The subject of the file, the module that draws it, and a note if there was a choice. RUN: number of the run,
    from 1; SCHEDULES: names of those to draw."""
    values, note = files.read_values(path), None
    kind = values[0].get("kind") if isinstance(values[0], dict) else None
    if kind == "run":
        values, kind, note = records.choose(values, RECORDS, run)
    if not isinstance(kind, str) or kind not in KINDS:
        told = f"kind {kind[:40]!r} cannot be drawn" if isinstance(kind, str) else 'the file has no "kind"'
        can = "; ".join(f"{name} (written by {one.source})" for name, one in KINDS.items())
        raise files.NoPicture(f"{told}; these can: {can}")
    return KINDS[kind].subject(values, *words_for(kind, run, schedules)), KINDS[kind].module, note
