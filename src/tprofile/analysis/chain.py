"""What led to one piece of device work: from the outermost call to the kernel."""

from __future__ import annotations

import numbers

import numpy as np
import pandas as pd

from ..errors import TprofileError
from ..intervals import NONE, Ints
from ..trace import DEVICE_WORK, marks
from . import tables
from .attribution import Attribution
from .backward import forward
from .lines import around
from .modules import around as module_around

_LEVELS = {
    "user_annotation": "annotation",
    "cpu_op": "operator",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "set",
}
"""What an event is to a reader, by its category; a call of the runtime or driver is a launch."""


_Step = tuple[str, str, int]
"""Level, name and event."""


def chain(found: Attribution, kernel: int | str) -> pd.DataFrame:
    """Return a row per step, the outermost first, as `Profile.chain` describes it."""
    trace = found.trace
    work = _row(found, kernel)
    rows = [work]
    while (above := int(found.parent[rows[-1]])) != NONE:
        rows.append(above)
    steps = _lines(found, work)
    for row in rows[::-1]:
        name = str(trace.names[trace.name[row]])
        if name not in marks.KEPT:
            steps.append((_LEVELS.get(trace.categories[trace.category[row]], "launch"), name, row))
    steps = _with_module(found, work, steps)
    if (ahead := int(forward(found)[work])) != NONE:
        name = str(trace.names[trace.name[ahead]])
        own = _with_module(found, ahead, [*_lines(found, ahead), ("forward", name, ahead)])
        steps = [*own, *steps]
    levels, names, events = zip(*steps, strict=True)
    at: Ints = np.array(events)
    last = [False] * (len(at) - 1) + [True]
    blocker = _blocker(found, work)
    return pd.DataFrame(
        {
            "level": tables.texts(levels),
            "name": tables.texts(names),
            "start_us": trace.start_ns[at] / 1000,
            "duration_us": trace.duration_ns[at] / 1000,
            "delay_us": np.where(last, _delay_us(found, work), np.nan),
            "waited_for": tables.texts(blocker if one else None for one in last),
            "event": at,
        }
    )


def _lines(found: Attribution, event: int) -> list[_Step]:
    return [("line", text, row) for row, text in around(found, event)]


def _with_module(found: Attribution, event: int, steps: list[_Step]) -> list[_Step]:
    """Return steps, and ahead of those in it the innermost module that caused an event."""
    if (module := module_around(found, event)) is None:
        return steps
    call, path = module
    trace = found.trace
    held = (
        level != "line" and trace.start_ns[row] >= trace.start_ns[call] for level, _, row in steps
    )
    at = next(i for i, inside in enumerate(held) if inside)
    return [*steps[:at], ("module", path, call), *steps[at:]]


def _row(found: Attribution, kernel: int | str) -> int:
    """Return the event that is meant, or raise TprofileError."""
    trace = found.trace
    if isinstance(kernel, str):
        rows = np.flatnonzero(found.work & trace.name_is(kernel.__eq__))
        if not len(rows):
            raise TprofileError(
                f"no kernel, copy or set of the runs is called {kernel[:200]!r}. Names are those "
                "of Profile.kernels, whole."
            )
        return int(rows[np.argmax(trace.duration_ns[rows])])
    if isinstance(kernel, bool) or not isinstance(kernel, numbers.Integral):
        raise TprofileError(
            f"the kernel is {kernel!r}, but must be a row of Profile.events, or a name."
        )
    row = int(kernel)
    if not 0 <= row < len(trace):
        raise TprofileError(
            f"there is no event {row}: Profile.events has {len(trace):,}, counted from 0."
        )
    if not found.work[row]:
        raise TprofileError(
            f"event {row} is {trace.names[trace.name[row]][:200]!r}, and no kernel, copy or set "
            "of the runs. Give the row of one in Profile.events, or its name."
        )
    return row


def _delay_us(found: Attribution, work: int) -> float:
    launch = int(found.launch[work])
    delay = found.trace.start_ns[work] - found.trace.start_ns[launch]
    # Clocks that disagree can put the work first: then it is not known how long it took.
    return float(delay) / 1000 if launch != NONE and delay >= 0 else float("nan")


def _blocker(found: Attribution, work: int) -> str | None:
    """Return the name of what was still to be done on the stream when this work was launched."""
    trace, launch = found.trace, int(found.launch[work])
    if launch == NONE:
        return None
    # Of the profiled runs or not: a stream does one after the other.
    before: Ints = np.flatnonzero(
        trace.category_is(*DEVICE_WORK)
        & (trace.device == trace.device[work])
        & (trace.stream == trace.stream[work])
        & (trace.start_ns < trace.start_ns[work])
        & (trace.end_ns > trace.start_ns[launch])
    )
    if not len(before):
        return None
    return str(trace.names[trace.name[before[np.argmax(trace.end_ns[before])]]])
