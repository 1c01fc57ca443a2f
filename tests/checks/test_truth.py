"""make truth: each of its parts measures (its first row; make check-full). What it measures is not judged here."""

import importlib
import os
import sys

import kit
from kit import add, expect

sys.path += [os.path.join(kit.ROOT, *folder) for folder in (("scripts",), ("studies", "truth"))]

PARTS = ("shaped", "gloo", "pipeline", "ddp", "data_parallel", "calibrate", "diagnose", "p2p")


def measures(part):
    row = next(importlib.import_module(part).rows(kit.Settings.build))
    if row[-1].startswith("skipped"):
        raise kit.Skipped(row[-1])
    expect(len(row) == 5 and all(isinstance(cell, str) for cell in row), f"row {row}")


for part in PARTS:
    add(part, measures, part, cores=kit.ALL, full=True)
