"""Where a viewer draws each event, so that Perfetto shows all of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..intervals import NONE, Ints
from .columns import INSTANT, Trace
from .overlap import split_lanes
from .plain import as_json

_LANE = 1_000_000_000
"""First number for lanes of our own: above any thread id that a system hands out."""

_NUMBERS = 2**32
"""Perfetto tells ids below this apart, and takes any other number for 0."""


@dataclass(frozen=True)
class Places:
    """The process and lane of each event, as JSON."""

    pid: list[str]
    own: list[str]
    """The event's own thread or stream: text where the source had text."""
    tid: list[str]
    """The lane to draw it on: another where it would overlap a neighbour in part."""
    zero: frozenset[str]
    """Processes whose thread 0 is written as text."""
    odd: bool
    """Whether any number is written as text."""


def places(trace: Trace) -> Places:
    """Return where to draw each event of the trace; the same trace gives the same places.

    Perfetto drops slices that overlap in part on one lane. It reads numbers of 32 bits, and gives
    each text a number of its own; thread 0 is the main thread to it, whose number is that of the
    process, so that it takes stream 0 of device 3 for its stream 3.
    """
    lane = np.where(trace.on_device, trace.stream, trace.thread)
    pid, own = _texts(trace, trace.process), _texts(trace, lane)
    main = trace.process[(lane == trace.process) & (lane != 0)]
    zero = np.flatnonzero((lane == 0) & np.isin(trace.process, main)).tolist()
    for row in zero:
        own[row] = '"0"'
    numbers = {*np.unique(lane).tolist(), *np.unique(trace.process).tolist()}
    tid = own.copy()
    timed = np.flatnonzero(~trace.category_is(INSTANT))
    extra = split_lanes(
        trace.process[timed], lane[timed], trace.start_ns[timed], trace.end_ns[timed]
    )
    unused = (str(n) for n in itertools.count(_LANE) if n not in numbers)
    free = list(itertools.islice(unused, int(extra.max(initial=NONE)) + 1))
    for row, number in zip(timed[extra != NONE], extra[extra != NONE], strict=True):
        tid[row] = free[number]
    return Places(
        pid=pid,
        own=own,
        tid=tid,
        zero=frozenset(pid[row] for row in zero),
        odd=bool(zero) or any(map(_is_odd, numbers - trace.lanes.keys())),
    )


def placed(event: dict[str, Any], found: Places) -> dict[str, Any]:
    """Return an event that is no row (the name of a lane, a flow) with its ids as drawn."""
    odd = {
        key: str(event[key])
        for key in ("pid", "tid")
        if isinstance(event.get(key), int) and _is_odd(event[key])
    }
    event = {**event, **odd}
    of_lane = not str(event.get("name")).startswith("process_")
    if event.get("tid") == 0 and of_lane and as_json(event.get("pid")).decode() in found.zero:
        event["tid"] = "0"
    return event


def _texts(trace: Trace, values: Ints) -> list[str]:
    distinct, index = np.unique(values, return_inverse=True)
    texts = [
        as_json(trace.lanes.get(n, str(n) if _is_odd(n) else n)).decode() for n in distinct.tolist()
    ]
    return [texts[i] for i in index.reshape(-1).tolist()]


def _is_odd(number: int) -> bool:
    return not 0 <= number < _NUMBERS
