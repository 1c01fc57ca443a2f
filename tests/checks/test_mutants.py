"""The planted defects of make mutants fit the sources: the text to replace occurs once."""

import importlib.util
import os

from kit import ROOT, expect, test


@test
def fit_the_sources():
    path = os.path.join(ROOT, "tests", "mutants", "mutants.py")
    spec = importlib.util.spec_from_file_location("mutants", path)
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    stale = []
    for mutant in table.MUTANTS:
        with open(os.path.join(ROOT, mutant.file), encoding="utf-8") as source:
            count = source.read().count(mutant.old)
        if count != 1:
            stale.append(f"{mutant.name}: {mutant.file} has {count} times, not once: {mutant.old!r}")
    expect(len(table.MUTANTS) >= 19 and not stale, "\n".join(stale))
