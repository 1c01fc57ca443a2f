"""What make mutants draws from exists, a seed always draws the same, and what is drawn compiles."""

import os
import shlex
import subprocess
import sys

from kit import ROOT, equal, expect, test

sys.path.append(os.path.join(ROOT, "tests", "mutants"))
import draw
import places


@test
def draws_are_those_of_their_seed():
    """A third of them compile at least, as the first of each operator shows; the listed places exist."""
    first, again, other = (draw.draw(seed)[:60] for seed in ("1", "1", "2"))
    equal([m.says() for m in first], [m.says() for m in again], "drawn again")
    expect([m.says() for m in first] != [m.says() for m in other], "two seeds draw the same")
    equal(len(places.listed()), len(places.LISTED), "listed places")
    words = shlex.split("-std=gnu11 -Isrc -D_GNU_SOURCE -fsyntax-only -w -x c -")
    good = 0
    for mutant in first[:12]:
        done = subprocess.run([os.environ.get("CC", "cc"), *words], cwd=ROOT, input=mutant.mutated(), text=True, capture_output=True)
        good += done.returncode == 0
        expect(mutant.mutated() != mutant.text and "\n+" in mutant.diff(), mutant.diff())
    expect(good >= 4, f"{good} of 12 drawn mutants compile")
