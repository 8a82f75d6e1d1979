"""One run with all that was recorded in it, for a chart to zoom into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import TprofileError
from ..intervals import NONE, Floats, Ints, climb, depths, nest
from . import memory
from .attribution import Attribution
from .backward import forward
from .lines import stretches
from .modules import calls
from .strip import (
    CALL,
    FUNCTION,
    INNER,
    LINE,
    MODULE,
    NOTE,
    OPERATOR,
    WAIT,
    Lane,
    Objects,
    Placed,
    Strip,
    joined,
    on_devices,
    threads,
)
from .waits import waits

THREADS, STREAMS = 30, 30
"""The most lanes of threads beside the run's own, and rows of streams in a lane."""

MOST = 2_000_000
"""Spans of a run, beyond which short neighbours are drawn together."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What was allocated on a device at a time. The arrays have a value per change in the run."""

    device: int
    time_us: Floats
    """From the start of the run; the first is its start."""
    allocated_bytes: Floats
    """After the change."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """A run with every call at its depth, lines and modules above, devices below."""

    strip: Strip
    """In it a `code` lane has a row for each depth of lines or modules in each other, a `cpu` lane
    one for each depth of calls; the names of lines are their number and text."""
    forward: Ints
    """Span of the operator of the forward pass whose backward a span is part of, or `NONE`."""
    memory: tuple[Memory, ...]


def timeline(found: Attribution, run: int, most: int = MOST) -> Timeline:
    """Return a run, counted from 1, as at most `most` spans.

    Raises TprofileError where there is no such run.
    """
    at = run_index(found, run)
    parts: list[Placed] = []
    lanes = 0
    for part in (_lines(found, at), _modules(found, at), _host(found, at)):
        parts.append(replace(part, lane=part.lane + lanes))
        lanes += len(part.lanes)
    whole = joined(found, at, *parts, on_devices(found, at, lanes, STREAMS))
    drawn = whole.at_most(most)
    ahead = np.full(len(drawn), NONE)
    if drawn is whole:
        # The last stands for what has no forward pass.
        span = np.full(len(found.trace) + 1, NONE)
        span[whole.event] = np.arange(len(whole))
        ahead = span[forward(found)[whole.event]]
    return Timeline(drawn, ahead, tuple(_memory(found, at)))


def run_index(found: Attribution, run: int) -> int:
    """Return the index of a run that is counted from 1.

    Raises TprofileError where there is no such run.
    """
    n = len(found.runs)
    if type(run) is not int or not 1 <= run <= n:
        raise TprofileError(f"there is no run {run!r}: the profile has {n}, counted from 1.")
    return run - 1


def _lines(found: Attribution, run: int) -> Placed:
    seen = stretches(found)
    inside = np.flatnonzero((found.run[seen.event] == run) & seen.of_cell)
    event = seen.event[inside]
    source = (found.trace.recorded.source or "").split("\n")
    first = found.trace.recorded.first_line
    names = np.array(
        [f"{one.number}  {_stripped(source, one.number - first)}" for one in seen.lines] + [""],
        object,
    )[:-1]
    return _code(found, "lines", event, LINE, names[seen.line[inside]])


def _stripped(source: list[str], at: int) -> str:
    return source[at].strip() if 0 <= at < len(source) else ""


def _modules(found: Attribution, run: int) -> Placed:
    seen = calls(found)
    inside = np.flatnonzero(found.run[seen.event] == run)
    names = np.array([*seen.labels, ""], object)[:-1]
    return _code(found, "modules", seen.event[inside], MODULE, names[seen.module[inside]])


def _code(found: Attribution, label: str, event: Ints, kind: int, name: Objects) -> Placed:
    """Return what nests in a lane of its own, threads over each other."""
    trace = found.trace
    if not len(event):
        return Placed((), event, event, event, event)
    nesting = nest(found.lane[event], trace.start_ns[event], trace.end_ns[event])
    row = depths(nesting.parent)
    lane = Lane("code", label, int(row.max()) + 1)
    same = np.zeros(len(event), np.int64)
    return Placed((lane,), event, same, row, same + kind, name=name)


def _host(found: Attribution, run: int) -> Placed:
    trace, table = found.trace, found.table
    shown = found.counted & (found.run == run) & ~trace.category_is("overhead")
    rows = (shown & ~found.merged)[table]
    depth = depths(climb(found.nesting.parent, found.nesting.parent, ~rows))[rows]
    event = table[rows]
    operator = trace.category_is("cpu_op")[event]
    note = trace.category_is("user_annotation")[event]
    function = trace.category_is("python_function")[event]
    above = climb(found.parent, found.parent[event], ~(shown & trace.category_is("cpu_op")))
    kind = np.select(
        [operator & (above == NONE), operator, note, function, waits(found)[event]],
        [OPERATOR, INNER, NOTE, FUNCTION, WAIT],
        CALL,
    )
    labels, lane = threads(found, run, event, kind == OPERATOR, THREADS)
    most = np.zeros(len(labels), np.int64)
    np.maximum.at(most, lane, depth + 1)
    lanes = tuple(
        Lane("cpu", label, rows) for label, rows in zip(labels, most.tolist(), strict=True)
    )
    return Placed(lanes, event, lane, depth, kind)


def _memory(found: Attribution, run: int) -> Iterator[Memory]:
    begin, finish = found.runs.start_ns[run], found.runs.end_ns[run]
    for device in memory.devices(found):
        time, _, before, after = memory.levels(found, device)
        first, last = np.searchsorted(time, [begin, finish])
        if not len(time):
            continue
        start = after[first - 1] if first else before[0]
        yield Memory(
            device,
            np.r_[0, time[first:last] - begin] / 1000,
            np.r_[start, after[first:last]],
        )
