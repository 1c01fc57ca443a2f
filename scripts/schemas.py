"""The tools of a build, and the options that they declare; man pages and completions are made from them."""

import json
import os

from programs import output

FEW = 8  # so many integers are listed

class Program:
    """A tool, or a subject of one: its schema (see src/core/about.h)."""

    def __init__(self, schema):
        self.name, self.operands, self.brief = schema["program"], schema["operands"], schema["brief"]
        self.command, _, self.subject = self.name.partition(" ")
        self.examples = [f"{self.name} {words}" for words in schema["examples"]]
        self.options = schema["options"]

    def sections(self):
        """[(heading, options)…] in the order of --help-all."""
        found = {}
        for option in sorted(self.options, key=lambda option: option["gpu_only"]):
            found.setdefault(option["section"] or "Options", []).append(option)
        return list(found.items())


class Tool:
    """A line of `busbench`. A tool without a command is run by busbench alone."""

    def __init__(self, row, build):
        self.name, self.command, self.brief = row["name"], row["command"], row["brief"]
        self.programs = []
        if self.command:
            path = os.path.join(build, self.command)
            self.programs = [Program(json.loads(line)) for line in output([path, "--help-schema"]).splitlines()]

    def subjects(self):
        return [program.subject for program in self.programs if program.subject]


def tools(build):
    """Those that were built."""
    rows = json.loads(output([os.path.join(build, "busbench"), "--help-schema"]))
    return [Tool(row, build) for row in rows if not row["command"] or os.path.exists(os.path.join(build, row["command"]))]


def version(build):
    return output([os.path.join(build, "busbench"), "--version"]).split()[1]


def words(option):
    """The first words of an option on a command line."""
    return [f"-{option['key']}"] * bool(option["key"]) + [f"--{option['name']}"]


def kind(option):
    """What completes its value: (none|words|list|files|folders|clusters|any, words)."""
    argument = option["argument"]
    if option["type"] == "FLAG":
        return "none", ()
    if option["choices"]:
        found = tuple(option["choices"])
        everything = ("all",) if argument.endswith("|all") else ()
        return ("list", found + everything) if argument.startswith("LIST") else ("words", found)
    if option["name"] in ("cluster", "system"):
        return "clusters", ()
    if "FILE" in argument:
        return "files", ()
    if argument == "DIR":
        return "folders", ()
    if option["type"] == "INT" and option.get("max", FEW + 1) - option.get("min", 0) < FEW:
        return "words", tuple(map(str, range(option["min"], option["max"] + 1)))
    return "any", ()
