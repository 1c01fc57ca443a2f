"""Runs programs for the scripts that measure."""

import json
import subprocess
import sys


def output(command, **options):
    """Standard output of COMMAND; ends the script with its message if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def records(command, *kinds):
    """The records of a run, all or those of KINDS."""
    found = [json.loads(line) for line in output([*command, "--json", "-"]).splitlines()]
    return [record for record in found if not kinds or record["kind"] in kinds]
