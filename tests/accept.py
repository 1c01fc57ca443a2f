"""The binary acceptance, and folders for what it reads and writes."""

import json
import os
import tempfile
import xml.etree.ElementTree as xml

from kit import Settings, Skipped, built, execute


def acceptance(*words, variant="", **options):
    # It is left out where libcyaml is missing.
    if not os.path.exists(os.path.join(Settings.build, variant, "acceptance")):
        raise Skipped("acceptance was not built: no libcyaml")
    return execute([built("acceptance", variant), *words], **options)


def step(run, gates="", name="a", more=""):
    """A step of a profile as YAML."""
    return f"  - name: {name}\n    run: {run}\n{more}" + (f"    gates:\n{gates}" if gates else "")


def profile(*steps, more=""):
    return f"name: p\n{more}steps:\n" + "".join(steps)


class Folder(tempfile.TemporaryDirectory):
    """A folder for profiles and what their runs write."""

    def __enter__(self):
        super().__enter__()
        return self

    def profile(self, text, name="p.yaml"):
        return self.write(name, text)

    def write(self, name, text):
        path = os.path.join(self.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run(self, profile, *words, out="out", **options):
        return acceptance("run", profile, "--quiet", "--no-report", "-o", os.path.join(self.name, out), *words, **options)

    def verdict(self, out="out"):
        with open(os.path.join(self.name, out, "verdict.json"), encoding="utf-8") as file:
            return json.load(file)

    def junit(self, out="out"):
        return xml.parse(os.path.join(self.name, out, "junit.xml")).getroot()
