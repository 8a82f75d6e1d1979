"""How long device work waited after its launch, and how much was ahead of it."""

from __future__ import annotations

import numpy as np

from ..intervals import NONE, Floats
from .attribution import Attribution


def delays_us(found: Attribution) -> Floats:
    """Return from the start of its launch to that of the work, for each event of the trace.

    NaN for what is no device work, has no recorded launch, or starts before it (clocks that
    disagree): then it is not known how long it took.
    """
    trace = found.trace
    rows = np.flatnonzero(found.work & (found.launch != NONE))
    delay = (trace.start_ns[rows] - trace.start_ns[found.launch[rows]]) / 1000
    result = np.full(len(trace), np.nan)
    result[rows] = np.where(delay >= 0, delay, np.nan)
    return result


def depth(found: Attribution) -> Floats:
    """Return how many works of its device were launched and not done when each was launched.

    For each event of the trace; NaN for what is no device work, or has no recorded launch. 0 means
    that the device had nothing to do.
    """
    trace = found.trace
    result = np.full(len(trace), np.nan)
    rows = np.flatnonzero(found.work & (found.launch != NONE))
    for device in np.unique(trace.device[rows]):
        own = rows[trace.device[rows] == device]
        launched = trace.start_ns[found.launch[own]]
        before = np.searchsorted(np.sort(launched), launched, "left")
        done = np.searchsorted(np.sort(trace.end_ns[own]), launched, "right")
        result[own] = np.maximum(before - done, 0)
    return result
