"""Finding a Python that has what is needed: the one rule for it, which scripts/libraries.sh asks too."""

import importlib
import os
import sys

# The distribution's, for which its packages are; another Python may come first in PATH.
DISTRIBUTION = "/usr/bin/python3"


def can_import(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def need(*modules):
    """Return where this Python has the modules. Otherwise start the program anew with the
    distribution's Python; if this is that one, return why it cannot go on."""
    missing = [name for name in modules if not can_import(name)]
    if not missing:
        return None
    if sys.prefix != "/usr" and os.access(DISTRIBUTION, os.X_OK):
        # -E: what is set for one Python, such as PYTHONHOME, is not for the other.
        os.execv(DISTRIBUTION, [DISTRIBUTION, "-B", "-E", *sys.argv])
    packages = " ".join(f"python3-{name}" for name in missing)
    return (f"{sys.executable} has no {' and no '.join(missing)}; install it (Debian: {packages}; "
            f"scripts/setup.sh bench does)")


if __name__ == "__main__":
    sys.exit(need(*sys.argv[1:]))
