"""Finds a Python with the needed modules; scripts/libraries.sh uses the same rule."""

import importlib
import os
import sys

# The distribution's Python, which has its packages; another one may come first in PATH.
DISTRIBUTION = "/usr/bin/python3"


def can_import(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def need(*modules):
    """Returns None if this Python has the modules. Otherwise executes the program with the distribution's Python; if
    that is this one, returns an error message."""
    missing = [name for name in modules if not can_import(name)]
    if not missing:
        return None
    if sys.prefix != "/usr" and os.access(DISTRIBUTION, os.X_OK):
        # -E ignores variables such as PYTHONHOME, which are meant for the other Python.
        os.execv(DISTRIBUTION, [DISTRIBUTION, "-B", "-E", *sys.argv])
    packages = " ".join(f"python3-{name}" for name in missing)
    return (f"{sys.executable} has no {' and no '.join(missing)}; install it (Debian: {packages}; "
            f"scripts/setup.sh bench does)")


if __name__ == "__main__":
    sys.exit(need(*sys.argv[1:]))
