"""One run to scale: what its threads and devices did, for a chart of a few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..intervals import NONE, Floats, Ints, climb, number, union
from .attribution import Attribution, Mask
from .lines import line_of
from .waits import waits

KINDS = (
    "operator", "inner", "call", "wait", "line", "module", "note", "function", "kernel", "copy",
)  # fmt: skip
"""What a span is: an outermost operator, one inside it, a call of the device's runtime or driver,
such a call that waits for the device, a line of the cell, a call of an nn.Module, an annotation, a
function of Python, a kernel, a copy or set. Lines to functions stand in a `Timeline` alone."""

THREADS, STREAMS, DEVICES = 2, 4, 16
"""The most lanes of threads beside the run's own, rows of streams in a lane, lanes of devices."""

OPERATOR, INNER, CALL, WAIT, LINE, MODULE, NOTE, FUNCTION, KERNEL, COPY = range(len(KINDS))

_FINEST = 4000
"""What is shorter than this part of a run is less than a pixel of a wide screen."""

_TILE = 16
"""Resolutions in a span of drawn-together events: such a row still shows where it is denser."""

Objects = NDArray[np.object_]


@dataclass(frozen=True)
class Lane:
    """A band of the chart."""

    kind: str
    """`cpu` (rows: outermost operators, those directly inside, and if there are any, calls),
    `device` (streams), or, in a `Timeline`, `code`."""
    label: str
    """With names as recorded; "" for a device."""
    rows: int
    device: int = NONE
    """Number of the device; `NONE` for what is none."""
    streams: tuple[int | None, ...] = ()
    """Of a device, the stream of each row; None for a last row that is of several."""


@dataclass(frozen=True, eq=False)
class Strip:
    """A run as spans. The arrays have a value per span, ordered by lane, row and start."""

    run: int
    """Which of the runs this is, from 1: the one whose profiled wall is nearest the median."""
    of: int
    """How many runs there are."""
    wall_us: float
    """How long this run took under the profiler."""
    resolution_us: float
    """Events shorter than this may be drawn together; 0 where each is a span of its own."""
    lanes: tuple[Lane, ...]
    more_devices: int
    """Devices that worked in this run, but have no lane: the last ones, beyond sixteen."""
    event: Ints
    """Event of the trace; of several, the first."""
    lane: Ints
    """Index into `lanes`."""
    row: Ints
    kind: Ints
    """Index into `KINDS`."""
    start_us: Floats
    """From the start of the run."""
    duration_us: Floats
    """Within the run: what goes on after its end, or began before it, is cut."""
    count: Ints
    """Events drawn as this span."""
    busy_us: Floats
    """Time in which one of its events really was: the duration, where it is one event."""
    name: Objects
    """Name of the event; None where it is several."""
    operator: Objects
    """What caused the device work, as in the table of kernels; None where that is not known."""
    launch: Ints
    """Span of the call that started this device work (of several, the first), or `NONE`."""
    line: Ints
    """Line of the cell that caused it, `NONE` where it is not known, or is several."""
    whole: Strip | None = None
    """The same with every event a span of its own; None where this is it."""

    def __len__(self) -> int:
        return len(self.lane)

    def at_most(self, most: int) -> Strip:
        """Return the strip with at most this many spans, short neighbours drawn together.

        Where that is not enough, there is one span for each kind in each row of each lane.
        """
        every = self.whole or self
        return every if len(every) <= most else _coarser(every, most)


def strip(found: Attribution, most: int = 1200) -> Strip | None:
    """Return a typical run as at most `most` spans, or None where there is no run."""
    n = len(found.runs)
    if not n:
        return None
    walls = found.runs.end_ns - found.runs.start_ns
    run = int(np.argmin(np.abs(walls - np.median(walls))))
    host = _host(found, run)
    device = on_devices(found, run, len(host.lanes), STREAMS)
    return joined(found, run, host, device).at_most(most)


@dataclass(frozen=True, eq=False)
class Placed:
    """Events with their places in the chart."""

    lanes: tuple[Lane, ...]
    event: Ints
    lane: Ints
    row: Ints
    kind: Ints
    more: int = 0
    """Devices without a lane."""
    name: Objects | None = None
    """What to call them, where that is not what the trace does."""


def _host(found: Attribution, run: int) -> Placed:
    trace = found.trace
    events = np.flatnonzero(found.counted & (found.run == run))
    passing = ~(found.counted & trace.category_is("cpu_op"))
    above = climb(found.parent, _above(found.parent, events), passing)
    beyond = climb(found.parent, _above(found.parent, above), passing)
    # What the profiler and the driver note of their own overhead stands on no thread.
    call = ~trace.category_is("cpu_op", "user_annotation", "overhead")[events]
    operator = ~passing[events]
    shown = call | (operator & (beyond == NONE))
    events, above, call = events[shown], above[shown], call[shown]

    kind = np.where(call, CALL, np.where(above == NONE, OPERATOR, INNER))
    row = np.minimum(kind, 2)
    kind[call & waits(found)[events]] = WAIT
    # Where no runtime was called, there is no row for it.
    rows = 2 + bool(call.any())
    labels, lane = threads(found, run, events, kind == OPERATOR, THREADS)
    return Placed(tuple(Lane("cpu", label, rows) for label in labels), events, lane, row, kind)


def _above(parent: Ints, events: Ints) -> Ints:
    return np.where(events != NONE, parent[events], NONE)


def threads(
    found: Attribution, run: int, events: Ints, outermost: Mask, most: int
) -> tuple[tuple[str, ...], Ints]:
    """Return the names of threads, the run's own first, and the lane of each event.

    Those beyond `most` beside the run's own are in the last lane together.
    """
    trace = found.trace
    if not len(events):
        return (), events
    at = found.root[events]
    codes = number(found.lane[events])
    _, first = np.unique(codes, return_index=True)
    time = np.bincount(codes[outermost], trace.duration_ns[events[outermost]], len(first))
    process, thread = trace.process[at[first]], trace.thread[at[first]]
    order = np.argsort(-time, kind="stable")
    own = np.arange(len(first)) == order[0]
    if len(found.runs.rows):
        mark = found.runs.rows[run]
        own = (process == trace.process[mark]) & (thread == trace.thread[mark])
    order = np.lexsort((-time, ~own))
    mine = int(own.any())
    labels = ["CPU"] * mine + [
        f"thread {trace.lanes.get(i, str(i))}" for i in thread[order[mine:]].tolist()
    ]
    if (others := len(labels) - mine) > most:
        labels[mine + most - 1 :] = [f"{others - most + 1} other threads"]
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return tuple(labels), np.minimum(rank, len(labels) - 1)[codes]


def on_devices(found: Attribution, run: int, first_lane: int, most: int) -> Placed:
    """Return the work of devices in a run, at most so many rows of streams in a lane."""
    trace, runs = found.trace, found.runs
    events = np.flatnonzero(found.work)
    which, at = runs.overlapping(trace.start_ns[events], trace.end_ns[events])
    events = events[which[at == run]]
    working = np.unique(trace.device[events])
    devices = working[:DEVICES]
    events = events[np.isin(trace.device[events], devices)]
    lane = np.searchsorted(devices, trace.device[events])

    streams = number(lane, trace.stream[events])
    _, first = np.unique(streams, return_index=True)
    start = np.maximum(trace.start_ns[events], runs.start_ns[run])
    end = np.minimum(trace.end_ns[events], runs.end_ns[run])
    busy = union(streams, start, end, len(first))
    order = np.lexsort((-busy, lane[first]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(lane[first][order], lane[first][order])
    row = np.minimum(place, most - 1)[streams]

    lanes = []
    for i, device in enumerate(devices.tolist()):
        mine = order[lane[first][order] == i]
        own: list[int | None] = trace.stream[events[first[mine]]].tolist()
        if len(own) > most:
            own[most - 1 :] = [None]
        lanes.append(Lane("device", "", len(own), device, tuple(own)))
    kind = np.where(trace.category_is("kernel")[events], KERNEL, COPY)
    more = len(working) - len(devices)
    return Placed(tuple(lanes), events, first_lane + lane, row, kind, more)


def joined(found: Attribution, run: int, *parts: Placed) -> Strip:
    """Return what was placed in a run as spans; the last part is the devices."""
    trace = found.trace
    begin, finish = found.runs.start_ns[run], found.runs.end_ns[run]

    def both(column: str) -> Ints:
        return np.concatenate([getattr(part, column) for part in parts])

    event, lane, row = both("event"), both("lane"), both("row")
    name = np.concatenate(
        [trace.names[trace.name[p.event]] if p.name is None else p.name for p in parts]
    )
    start = np.maximum(trace.start_ns[event], begin) - begin
    order = np.lexsort((start, row, lane))
    event, start = event[order], start[order]
    duration = np.minimum(trace.end_ns[event], finish) - begin - start
    span_of = np.full(len(trace), NONE)
    span_of[event] = np.arange(len(event))
    launch, operator = found.launch[event], found.operator[event]
    cause = np.where(operator != NONE, operator, launch)
    return Strip(
        run=run + 1,
        of=len(found.runs),
        wall_us=int(finish - begin) / 1000,
        resolution_us=0.0,
        lanes=tuple(lane for part in parts for lane in part.lanes),
        more_devices=parts[-1].more,
        event=event,
        lane=lane[order],
        row=row[order],
        kind=both("kind")[order],
        start_us=start / 1000,
        duration_us=duration / 1000,
        count=np.ones(len(event), np.int64),
        busy_us=duration / 1000,
        name=name[order],
        operator=_where(cause != NONE, trace.names[trace.name[cause]]),
        launch=np.where(launch != NONE, span_of[launch], NONE),
        line=line_of(found)[event],
    )


def _where(known: Mask, values: Objects) -> Objects:
    """Return the values that are known, None for the others."""
    result = np.full(len(values), None, object)
    result[known] = values[known]
    return result


def _coarser(every: Strip, most: int) -> Strip:
    start = _ns(every.start_us)
    end = start + _ns(every.duration_us)
    key = number(every.lane, every.row, every.kind)
    wall = round(every.wall_us * 1000)
    resolution = max(-(-wall // _FINEST), 1)
    group = _groups(key, start, end, resolution)
    while group.max() >= most and resolution <= wall:
        resolution *= 2
        group = _groups(key, start, end, resolution)

    n = int(group.max()) + 1
    if n == len(every):
        return every
    first, begin, finish = _extents(group, start, end, n)
    order = np.lexsort((begin, every.row[first], every.lane[first]))
    back = np.empty(n, np.int64)
    back[order] = np.arange(n)
    group, first, begin, finish = back[group], first[order], begin[order], finish[order]
    count = np.bincount(group, minlength=n)
    launch = every.launch[first]
    line = every.line[first]
    mixed = np.bincount(group, every.line != line[group], n) > 0
    return replace(
        every,
        resolution_us=resolution / 1000,
        event=every.event[first],
        lane=every.lane[first],
        row=every.row[first],
        kind=every.kind[first],
        start_us=begin / 1000,
        duration_us=(finish - begin) / 1000,
        count=count,
        busy_us=union(group, start, end, n) / 1000,
        name=_where(count == 1, every.name[first]),
        operator=_where(count == 1, every.operator[first]),
        launch=np.where(launch != NONE, group[launch], NONE),
        line=np.where(mixed, NONE, line),
        whole=every,
    )


def _ns(us: Floats) -> Ints:
    return np.rint(us * 1000).astype(np.int64)


def _groups(key: Ints, start: Ints, end: Ints, resolution: int) -> Ints:
    """Number what is drawn as one: neighbours of one key that are short, and near each other."""
    # Long ones stand after the short of their key, so that these are neighbours.
    long = end - start >= resolution
    tile = start // (_TILE * resolution)
    order = np.lexsort((start, tile, long, key))
    begins = np.r_[True, np.diff(number(key, long, tile)[order]) != 0] | long[order]
    near = _gaps(np.cumsum(begins), start[order], end[order]) < resolution
    group = np.empty(len(key), np.int64)
    group[order] = np.cumsum(begins | ~near) - 1
    return group


def _gaps(group: Ints, start: Ints, end: Ints) -> Ints:
    """Return the time from the latest end of those before in each group to each start."""
    first = np.flatnonzero(np.r_[True, np.diff(group) != 0])
    # Groups are moved behind each other, so that one running maximum serves them all.
    length = np.maximum.reduceat(end, first) - start[first] + 1
    shift = np.repeat(np.cumsum(length) - length - start[first], np.diff(np.r_[first, len(start)]))
    reach = np.maximum.accumulate(end + shift)
    return start + shift - np.r_[NONE, reach[:-1]]


def _extents(group: Ints, start: Ints, end: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """Return of each group the index of its first interval, where it begins and where it ends."""
    order = np.lexsort((start, group))
    at = np.searchsorted(group[order], np.arange(n))
    return order[at], start[order[at]], np.maximum.reduceat(end[order], at)
