"""Round numbers along an axis."""

import math


def ticks(low, high, most):
    """(value, text) of at most MOST + 1 round numbers from LOW to HIGH, 1, 2 or 5 times a power of ten apart."""
    rough = (high - low) / most
    power = math.floor(math.log10(rough))
    step = next(m * 10.0**power for m in (1, 2, 5, 10) if m * 10.0**power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    values = range(first, math.floor(high / step + 1e-9) + 1)
    return [(i * step, f"{i * step:,.{places}f}") for i in values]
