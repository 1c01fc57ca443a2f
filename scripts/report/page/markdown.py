"""A report as Markdown, short enough for the description of a pull request."""

import re

from report.values import count

MOST_ROWS = 24  # of a table
WHOLE = "Culprits", "Findings", "Nodes that stand out"  # name what is at fault: not cut


def plain(text):
    """TEXT with Markdown and HTML escaped."""
    text = " ".join(str(text).split())
    return (
        re.sub(r"([\\`*_{}\[\]<>|#~!&])", r"\\\1", text)
        .replace("\\<", "&lt;")
        .replace("\\>", "&gt;")
        .replace("@", "@\u200b")
    )


def code(text):
    """A block that no line of TEXT can end."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}sh\n{text}\n{fence}"


def table(one):
    heads = one.heads
    lines = [plain(one.shared), ""] if one.shared else []
    lines += ["| " + " | ".join(map(plain, heads)) + " |", "|" + " --- |" * len(heads)]
    most = len(one.rows) if one.name in WHOLE else MOST_ROWS
    for row in one.rows[:most]:
        lines.append("| " + " | ".join(plain(cell.shown) for cell in row) + " |")
    more = len(one.rows) - most
    return "\n".join(lines) + (f"\n\n{more} more rows are in the CSV file." if more > 0 else "")


MARKS = {"passed": "✅", "warned": "⚠️", "failed": "❌"}


def markdown(report):
    parts = [f"# {plain(report.title)}"]
    if report.verdict:
        parts.append(f"{MARKS[report.verdict.state]} **{plain(report.verdict.word)}**")
        parts.append("\n".join(f"- {plain(s)}" for s in report.verdict.sentences))
    for section in report.sections:
        if len(report.sections) > 1:
            parts.append(f"## {plain(section.title)}")
        if section.verdict and len(report.sections) > 1:
            parts.append(f"{MARKS[section.verdict.state]} {plain(section.verdict.word)}")
        for one in section.tables:
            parts.append(
                f"<details><summary>{plain(one.name)}, {count(len(one.rows), 'row')}</summary>\n\n{table(one)}\n\n</details>"
            )
        if section.command:
            parts.append(code(" ".join(section.command)))
        if section.facts:
            parts.append(" · ".join(f"{plain(name)}: {plain(value)}" for name, value in section.facts[:12]))
    for note in report.notes:
        parts.append(f"> {plain(note)}")
    return "\n\n".join(part for part in parts if part) + "\n"
