"""Values of records, read without trust, and their text."""

import math

from report.files import clean

LEAST, MOST = 1e-12, 1e18  # beyond them nothing is a measurement
LONGEST = 1 << 16  # characters of one text: nothing that names a culprit is cut


UNITS = ("_us", "_ms", "_s", "_GBps", "_bytes")  # at the end of a name: its values are numbers
DIFFERENCES = ("exposed_us", "hidden_us", "late_us", "last_late_us")  # may be negative


def mistake(record):
    """The first field that no measurement has, as a clause; None if all are possible."""
    for key, value in record.items():
        if not key.endswith(UNITS):
            continue
        for one in value if isinstance(value, list) else [value]:
            if one is not None and (isinstance(one, bool) or not isinstance(one, (int, float))):
                return f"{short(key, 40)} is no number"
            if one is not None and not (-MOST if key in DIFFERENCES else 0) <= one < MOST:
                return f"{short(key, 40)} is {'negative' if one < 0 else 'out of range'}"
    return None


def number(record, key):
    """The number; None if it is unknown, or not one that a measurement can have."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < MOST:
        return None
    return value


def positive(record, key):
    value = number(record, key)
    return value if value is not None and value >= LEAST else None


def numbers(record, key, most=100000):
    values = record.get(key)
    if not isinstance(values, list):
        return []
    return [value for value in (number({"": value}, "") for value in values[:most]) if value is not None]


def positives(record, key, most=100000):
    return [value for value in numbers(record, key, most) if value >= LEAST]


def text(record, key, longest=LONGEST):
    """The text; None if there is none."""
    value = record.get(key)
    return short(value, longest) if isinstance(value, str) else None


def short(value, longest=LONGEST):
    value = clean(value[: longest + 1])
    return value if len(value) <= longest else value[: longest - 1] + "…"


def words(record, key, most=200):
    values = record.get(key)
    return [short(v) for v in values[:most] if isinstance(v, str)] if isinstance(values, list) else []


# ---- text ---------------------------------------------------------------------------


def three(value):
    """Three digits, without an exponent unless it would be long."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e7 or size < 1e-3:
        return f"{value:.2e}"
    if size >= 1000:
        return f"{value:,.0f}"
    # Rounding may add a digit: 0.9996 is 1.00.
    return f"{value:.{max(0, 2 - math.floor(math.log10(float(f'{size:.3g}'))))}f}"


BEFORE_UNIT = "\N{NO-BREAK SPACE}"


def scaled(value, units, form=None):
    """VALUE in the largest unit that leaves it at 1 or more. UNITS: (factor, name), ascending. FORM: the format
    (default: three digits)."""
    if value == 0:
        return "0"
    factor, name = units[0]
    for more, unit in units[1:]:
        if abs(value) >= more * 0.9995:
            factor, name = more, unit
    return (f"{value / factor:{form}}" if form else three(value / factor)) + BEFORE_UNIT + name


def duration(us, form=None):
    return "–" if us is None else scaled(us, ((1e-3, "ns"), (1, "µs"), (1e3, "ms"), (1e6, "s")), form)


def speed(GBps):
    return three(GBps) + BEFORE_UNIT + "GB/s"


def percent(value):
    return three(value) + BEFORE_UNIT + "%"


def memory(bytes_):
    """Decimal, as memory of models is given."""
    return "–" if bytes_ is None else scaled(bytes_, ((1, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")))


def size(bytes_):
    """Binary, as in options: 25M."""
    for letter, unit in (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if bytes_ >= unit:
            n = bytes_ / unit
            return f"{n:.{3 if n < 999.5 else 4}g}{letter}"
    return f"{bytes_:.4g}"


def count(n, one, many=None):
    return f"{n:,} {one if n == 1 else many or one + 's'}"
