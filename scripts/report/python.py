"""Finding a Python that has matplotlib."""

import importlib.util
import os
import sys

# The distribution's, for which its package python3-matplotlib is; another Python may come first in PATH.
DISTRIBUTION = "/usr/bin/python3"


def need_matplotlib():
    """Return where this Python has matplotlib. Otherwise start the program anew with the
    distribution's Python; if this is that one, return why it cannot go on."""
    if importlib.util.find_spec("matplotlib"):
        return None
    if sys.prefix != "/usr" and os.access(DISTRIBUTION, os.X_OK):
        # -E: what is set for one Python, such as PYTHONHOME, is not for the other.
        os.execv(DISTRIBUTION, [DISTRIBUTION, "-B", "-E", *sys.argv])
    return f"{sys.executable} has no matplotlib; install it (Debian: python3-matplotlib; scripts/setup.sh check does)"
