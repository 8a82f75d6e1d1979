"""How what a row adds up to differs from run to run, and which runs are unlike the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..intervals import NONE, Floats, Ints
from .attribution import Attribution, Mask

FEWEST = 3
"""Of two runs that differ, neither is the odd one."""

_FRACTION, _DEVIATIONS = 0.25, 5
"""How far from the median an outlier lies: this part of it, and these many times the median
distance from it. The first keeps runs that are all but equal from being told apart, the second
is for runs that scatter."""

_FLOOR_US = 100.0
"""And no less than this: by so much runs of a few operators differ on a sound machine."""


class Spread:
    """The sums of rows in each run: of every row the least, the median and the greatest.

    A run in which a row did not occur counts as 0: it was measured, and the row took no time in
    it. Events outside all runs are in no run. Without a complete run nothing is known: NaN.
    """

    def __init__(self, found: Attribution, events: Ints, row: Ints, rows: int) -> None:
        """Take the events that count, and of each its row, from 0 to `rows` - 1."""
        self._rows, self._runs = rows, len(found.runs) if found.runs.complete else 0
        self._inside = found.run[events] != NONE
        key = row[self._inside] * len(found.runs) + found.run[events[self._inside]]
        # Only the runs in which a row occurs: all rows by all runs could be more than fits.
        pairs, self._pair = np.unique(key, return_inverse=True)
        self._row = pairs // max(len(found.runs), 1)
        self._present = np.bincount(self._row, minlength=rows)

    def of(self, values: Ints | Floats) -> tuple[Floats, Floats, Floats]:
        """Return minimum, median and maximum of each row, of values, one per event."""
        if not self._runs:
            return (np.full(self._rows, np.nan),) * 3
        sums = np.bincount(self._pair, values[self._inside], len(self._row))
        # With a 0 ahead, to point at for the runs in which a row does not occur.
        ordered = np.r_[0.0, sums[np.lexsort((sums, self._row))]]
        first = 1 + np.cumsum(self._present) - self._present
        absent = self._runs - self._present
        # Self times are below 0 where children overlap in part.
        below = np.bincount(self._row, sums < 0, self._rows).astype(np.int64)

        def nth(n: int) -> Floats:
            at = np.where(n < below, first + n, first + n - absent)
            return ordered[np.where((n >= below) & (n < below + absent), 0, at)]

        median = (nth((self._runs - 1) // 2) + nth(self._runs // 2)) / 2
        return nth(0), median, nth(self._runs - 1)


def outliers(values_us: Floats) -> Mask:
    """Mark the values, one per run, that lie away from the others; NaN is never one.

    That is by more than a quarter of the median, more than five times the median distance from
    it, and more than 100 µs. Of fewer than three none is; where half of them are slow, none is.
    """
    known = ~np.isnan(values_us)
    if known.sum() < FEWEST:
        return np.zeros(len(values_us), bool)
    median = np.median(values_us[known])
    distance = np.abs(values_us - median)
    scatter = float(np.median(distance[known]))
    return distance > max(_FRACTION * median, _DEVIATIONS * scatter, _FLOOR_US)


def outlying_runs(found: Attribution, values_us: Floats) -> Mask:
    """Mark the outliers among values of the profiled runs, but never the first of a cold profile.

    Who asked for a cold start is told what it cost, and not that it is unlike the rest.
    """
    odd = outliers(values_us)
    odd[:1] &= found.trace.recorded.asked_warmup != 0
    return odd


@dataclass(frozen=True)
class Change:
    """What differs most between one run and the median of all."""

    name: str
    extra_us: float
    on_device: bool
    """Whether it is device time of a kernel, rather than self CPU time of an operator."""


def largest_change(found: Attribution, run: int, extra_us: float, *, host: bool) -> Change | None:
    """Return what makes up the largest part of a run's difference, if that is at least a third.

    `run` counts from 0. An operator, annotation or kernel comes before a call of the runtime,
    which often only waits for one of them; `host` is off where the difference is of device time.
    """
    trace = found.trace
    delimiters = np.zeros(len(trace), bool)
    delimiters[found.runs.rows] = True
    operator = found.counted & trace.category_is("cpu_op", "user_annotation") & ~delimiters
    kinds = [(found.work, trace.duration_ns, True)]
    if host:
        kinds.append((operator, found.self_cpu_ns, False))
    causes = [change for kind in kinds if (change := _change(found, run, extra_us, *kind))]
    if causes:
        return max(causes, key=lambda cause: abs(cause.extra_us))
    calls = found.counted & ~operator & ~delimiters
    return _change(found, run, extra_us, calls, found.self_cpu_ns, False) if host else None


def _change(
    found: Attribution, run: int, extra_us: float, mask: Mask, values: Ints, on_device: bool
) -> Change | None:
    events = np.flatnonzero(mask)
    if not len(events):
        return None
    names, row = np.unique(found.trace.name[events], return_inverse=True)
    _, median, _ = Spread(found, events, row, len(names)).of(values[events])
    here = found.run[events] == run
    sums = np.bincount(row[here], values[events[here]], len(names))
    extra = (sums - median) / 1000
    most = int(np.argmax(extra * np.sign(extra_us)))
    if extra[most] / extra_us < 1 / 3:
        return None
    return Change(str(found.trace.names[names[most]]), float(extra[most]), on_device)
