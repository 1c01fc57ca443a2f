"""Puts a report together: index.html, CSV and summary.md in a folder."""

import os
import shlex

import jinja2

from report import files, gantt, pipelines, sweep, topology
from report import buckets, machine
from report.page import (acceptance, accuracy, calculated, calibration, collectives, history, nodes, pairs, scaling, schedules,
                         tables, training)
from report.page.figure import Figure
from report.page.markdown import markdown
from report.page.read import end_of, program_of, title_of
from report.page.story import FAILED, Verdict, answer_of, judge, verdict_of
from report.page.svg import Pictures
from report.values import count, number, short, text, words

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "reports", "template")
MOST_PICTURED = 24  # runs


class Section:
    """A part of the page: heading, sentences, figures in rows under headings of their own, tables."""

    def __init__(self, identity, title, verdict=None):
        self.identity, self.title, self.verdict, self.answer = identity, title, verdict, None
        self.rows, self.tables, self.facts, self.command, self.notes = [], [], [], [], []

    def has_passed(self):
        return not self.verdict or self.verdict.state != FAILED


# ---- a run ------------------------------------------------------------------------------------------------


FACTS = (
    ("program", "program"),
    ("version", "busbench"),
    ("backend", "backend"),
    ("backend_reason", "chosen because"),
    ("library", "library"),
    ("launch", "launch"),
    ("host", "host"),
    ("cpu", "processor"),
    ("cores", "usable processors"),
    ("os", "operating system"),
    ("topology", "machine"),
    ("nranks", "ranks"),
    ("nprocs", "processes"),
    ("iters", "iterations"),
    ("warmup_iters", "warm-up iterations"),
    ("precision", "precision"),
    ("cache", "caches"),
    ("seed", "seed"),
    ("algorithms", "algorithms"),
    ("link", "link"),
    ("cluster", "cluster"),
    ("network", "network"),
    ("link_noise", "noise"),
    ("fault", "planted fault"),
    ("split", "split"),
    ("copy_GBps", "copy speed, GB/s"),
    ("clock_uncertainty_us", "clock uncertainty, µs"),
    ("start_time", "began, UTC"),
)


def facts_of(run):
    found = []
    for key, name in FACTS:
        value = text(run.head, key)
        if value is None and number(run.head, key) is not None:
            value = f"{run.head[key]:.6g}"
        if value:
            found.append((name, value))
    wall = number(end_of(run), "wall_s")
    return found + ([("took", f"{wall:.3g} s")] if wall is not None else [])


def command_words(record):
    return [shlex.quote(word) for word in words(record, "args")]


def draw_schedules(run, section):
    """Pictures of pipelines and buckets, which also exist alone."""
    for kind, subject, module, title, caption in (
        ("pass", pipelines.Pipelines, gantt, "Passes over time", "Each row is a stage, each box a pass."),
        (
            "data_parallel",
            buckets.Sweep,
            sweep,
            "Bucket sizes",
            "Time of a step, and the part of the reductions that it waits for.",
        ),
    ):
        if not run.of(kind):
            continue
        try:
            section.rows.append((None, [Figure(title, module.draw(subject(run)), caption, wide=True)]))
        except files.BadFile as error:
            section.notes.append(f"no picture of {title.lower()}: {error}")


def section_of(run, step, reason):
    """STEP, REASON: of the acceptance run that it belongs to, and why a gate of it failed; None without."""
    section = Section(f"run-{run.number}", " · ".join(filter(None, (step, title_of(run)))), verdict_of(run))
    section.answer = answer_of(run, section.verdict)
    if reason and section.has_passed():
        section.answer = f"{reason[0].upper()}{reason[1:].rstrip('.')}."
        section.verdict = Verdict(FAILED, "gate failed", [section.answer, *section.verdict.sentences])
    section.tables = tables.tables_of(run)
    section.facts, section.command = facts_of(run), command_words(run.head)
    if run.number <= MOST_PICTURED:
        for subject in (schedules, collectives, accuracy, calibration, pairs, training, nodes):
            rows, notes = subject.figures(run)
            section.rows += rows
            section.notes += notes
        draw_schedules(run, section)
    return section


# ---- documents ----------------------------------------------------------------------------------------------


def document_section(number_, path, kind, document):
    section = Section(f"file-{number_}", f"{kind.replace('_', ' ')}: {short(os.path.basename(path), 80)}")
    if kind == "topology":
        drawn = topology.draw(machine.Machine([document]))
        section.rows.append((None, [Figure("The machine", drawn, "", wide=True)]))
    elif kind == "model_memory":
        drawn, section.tables = calculated.figures(document)
        section.rows.append((None, drawn))
        section.facts = calculated.facts(document)
    elif kind == "acceptance_baseline":
        section.title = history.title_of(document)
        section.rows, section.notes = history.rows(document)
        section.tables, section.facts = history.tables(document), history.facts(document)
    else:
        section.title, section.verdict = acceptance.title_of(document), acceptance.verdict_of(document)
        section.rows.append((None, acceptance.gates(document) + acceptance.nodes(document)))
        section.tables, section.facts = acceptance.tables(document), acceptance.facts(document)
        section.command = command_words(document)
    return section


# ---- all ------------------------------------------------------------------------------------------------------


class Report:
    def __init__(self, source):
        self.source = source
        self.runs = list(self.source.runs.values())
        self.steps = {}  # acceptance.steps_of all verdicts
        # Failures first; then verdicts of other programs, what concerns all runs, and each run.
        self.sections = sorted(self.of_documents() + self.of_runs(), key=Section.has_passed)
        if len(self.runs) > MOST_PICTURED:
            self.source.notes.append(
                f"pictures of the first {MOST_PICTURED} of {len(self.runs)} runs; the tables have all"
            )
        self.verdict = judge(
            self.runs, [s.verdict for s in self.sections if s.verdict and s.identity.startswith("file-")]
        )
        self.notes = [files.clean(note) for note in self.source.notes]
        self.title = self.sections[0].title if len(self.sections) == 1 else self.several()

    def of_documents(self):
        """Verdicts first. A document that cannot be drawn is left out, unless there is nothing else."""
        found, unused = [], []
        for i, (path, kind, document) in enumerate(self.source.documents, 1):
            try:
                found.append(document_section(i, path, kind, document))
                self.steps |= acceptance.steps_of(document) if kind == "acceptance" else {}
            except files.BadFile as error:
                unused.append(f"{path}: {error}")
        if unused and not found and not self.runs:
            raise files.BadFile("; ".join(self.source.notes + unused))
        self.source.notes += [f"{note}: the file is left out" for note in unused]
        return sorted(found, key=lambda section: section.verdict is None)

    def of_runs(self):
        """A section for all runs together, then one for each."""
        found = [section_of(run, *self.steps.get(text(run.head, "run_id"), (None, None))) for run in self.runs]
        rows, notes = scaling.figures(self.runs)
        titles = [section.title for section in found]
        for run, section in zip(self.runs, found):
            if titles.count(section.title) > 1:
                section.title += f" · run {run.number}"
        if rows or notes:
            section = Section("scaling", "Scaling")
            section.rows, section.notes = rows, notes
            found.insert(0, section)
        return found

    def several(self):
        programs = list(dict.fromkeys(program_of(run).removesuffix("_perf") for run in self.runs))
        named = ", ".join(programs[:3]) + (" …" if len(programs) > 3 else "")
        judged = [kind for _, kind, _ in self.source.documents].count("acceptance")
        if judged == 1 or judged == 0 and not self.runs:
            return self.sections[0].title
        if judged:
            return f"acceptance · {count(judged, 'verdict')}"
        return f"{named} · {count(len(self.runs), 'run')}"

    def page(self, csv_names):
        pictures = Pictures()
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATE),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        embed = lambda figure, paper: jinja2.utils.markupsafe.Markup(
            pictures.embed(paper, str(jinja2.utils.markupsafe.escape(f"{figure.title}. {figure.caption}")))
        )
        frames = lambda figure: [(title, jinja2.utils.markupsafe.Markup(data)) for title, data in figure.frames(pictures)]
        body = environment.get_template("body.html").render(
            report=self, embed=embed, frames=frames, pictures=pictures, csv_names=csv_names
        )
        light, dark = pictures.style()
        raw = {name: environment.loader.get_source(environment, name)[0] for name in ("style.css", "page.js")}
        safe = jinja2.utils.markupsafe.Markup
        return environment.get_template("index.html").render(
            title=self.title,
            body=safe(body),
            light=safe(light),
            dark=safe(dark),
            style=safe(raw["style.css"]),
            script=safe(raw["page.js"]),
        )


def build(source, folder):
    """Writes the report of what was read into FOLDER, and returns it and the path of the page."""
    report = Report(source)
    csv_files = tables.csv_files(report.runs)
    content = {"index.html": report.page(list(csv_files)), "summary.md": markdown(report), **csv_files}
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise files.CannotOpen(f"{folder}: cannot be made: {error.strerror}") from None
    for name, data in content.items():
        files.write(os.path.join(folder, name), data.encode("utf-8"))
    return report, os.path.join(folder, "index.html")
