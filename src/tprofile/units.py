"""How times and bytes are written, the same in a sentence of the analysis and in every view."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

DASH = "–"
"""Stands for what was not measured."""

_TIMES = (("s", 1e6), ("ms", 1e3), ("µs", 1.0), ("ns", 1e-3))
_BYTES = (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0))


@dataclass(frozen=True)
class Unit:
    """A unit that suits a whole column, so that its numbers can be compared by eye."""

    name: str
    size: float
    """In microseconds, or bytes."""
    decimals: int = 2

    def number(self, value: float | None) -> str:
        """Return a value in this unit, without its name: one too small to print is not 0."""
        if value is None or math.isnan(value):
            return DASH
        least = 10.0**-self.decimals
        if 0 < abs(value) / self.size < least / 2:
            return f"<{least:.{self.decimals}f}" if value > 0 else f">-{least:.{self.decimals}f}"
        return f"{value / self.size:.{self.decimals}f}" if value else "0"


def unit(us: Iterable[float | None]) -> Unit:
    """Return the unit in which the largest of the given times has one to three digits."""
    largest = max((abs(t) for t in us if t is not None and not math.isnan(t)), default=0.0)
    least = _TIMES[-1] if largest else ("µs", 1.0)
    name, size = next(((n, s) for n, s in _TIMES if largest >= s), least)
    return Unit(name, size)


def bytes_unit(values: Iterable[float | None]) -> Unit:
    """Return the unit in which the largest of the given numbers of bytes is 1 or more."""
    largest = max((abs(b) for b in values if b is not None and not math.isnan(b)), default=0.0)
    name, size = next(((n, s) for n, s in _BYTES if largest >= s), _BYTES[-1])
    return Unit(name, size, 0 if size == 1 else 2)


def amount(number: float | None) -> str:
    """Return a number of bytes with its unit."""
    fit = bytes_unit([number])
    return f"{fit.number(number)} {fit.name}"


def times(ratio: float) -> str:
    """Return how many times something is something else: one too small to print is not 0."""
    if 0 < ratio < 0.005:
        return "<0.01"
    return f"{ratio:.{0 if ratio >= 100 else 2}f}" if ratio else "0"


def duration(us: float | None) -> str:
    """Return a time with three digits that count and its unit."""
    if us is None or math.isnan(us):
        return DASH
    # As it will be written: 999.9 as 1000, for which there is a larger unit.
    written = float(f"{us:.3g}")
    fit = unit([written])
    shown = abs(written / fit.size)
    decimals = 0 if shown >= 100 else 1 if shown >= 10 else 2
    return f"{us / fit.size:.{decimals}f} {fit.name}"
