"""Put the statements that a cell ran, timed by a clock of our own, among the events of a trace."""

from __future__ import annotations

import numpy as np

from ..intervals import NONE, Floats, Ints
from . import marks
from .columns import Trace, encode
from .line_log import READINGS, LineLog, Reading

_NEAR_NS = 1_000
"""No two clocks are further apart after they were compared."""


def with_lines(trace: Trace, log: LineLog) -> Trace:
    """Return the trace with a mark for each run of a statement, and without those of the clocks.

    Statements ran in the thread of the runs. Where nothing ties the clocks, there are no marks.
    """
    clocks = trace.name_is(marks.is_clock)
    runs = np.flatnonzero(trace.name_is((marks.RUN, marks.WARMUP).__contains__))
    if not clocks.any():
        return trace
    known = _offsets(trace, np.flatnonzero(clocks), log.readings)
    columns = {column: getattr(trace, column)[~clocks] for column in trace.COLUMNS}
    if known is None or not len(runs):
        return trace.with_rows(columns)
    line, begin, end = log.spans()
    operators = _outermost(trace, runs[0])
    begin, end = (_apart(_moved(times, *known), *operators) for times in (begin, end))
    numbers, code = np.unique(line, return_inverse=True)
    named = [marks.line(int(number)) for number in numbers]
    names, place = encode([*trace.names, *named])
    kinds, kind = encode([*trace.categories, "cpu_op"])
    same = np.ones(len(line), np.int64)
    added = {
        "name": place[len(trace.names) :][code.reshape(-1)],
        "category": same * kind[-1],
        "start_ns": begin,
        "duration_ns": np.maximum(end - begin, 0),
        "process": same * trace.process[runs[0]],
        "thread": same * trace.thread[runs[0]],
        **dict.fromkeys(("device", "stream", "source_row"), same * NONE),
        **dict.fromkeys(("correlation", "external_id"), same * 0),
    }
    # Of two that begin and end at once, the statement is around the other.
    merged = {column: np.concatenate([added[column], columns[column]]) for column in columns}
    return trace.with_rows(merged, names, tuple(kinds))


def _offsets(trace: Trace, rows: Ints, readings: list[Reading]) -> tuple[Ints, Floats] | None:
    """Return times of our clock, and how much later it was by the trace's at each of them.

    A mark of the trace tells the one between two readings of the other; of several in a row, the
    times that agree with all. None where no mark was recorded.
    """
    read = {marks.clock(one.number): one for one in readings}
    rows = np.array([row for row in rows if trace.names[trace.name[row]] in read], np.int64)
    if not len(rows):
        return None
    number, before, inside, after = np.array(
        [read[trace.names[trace.name[row]]] for row in rows], np.int64
    ).T
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    least = np.maximum(start - inside, end - after)
    most = np.minimum(start - before, end - inside)
    _, group = np.unique(number // READINGS, return_index=True)
    offset = (np.maximum.reduceat(least, group) + np.minimum.reduceat(most, group)) / 2
    return inside[group], offset


def _moved(time_ns: Ints, at: Ints, offset: Floats) -> Ints:
    # Their difference alone is made a float, which holds it to a nanosecond.
    first = round(float(offset[0]))
    return time_ns + first + np.rint(np.interp(time_ns, at, offset - first)).astype(np.int64)


def _outermost(trace: Trace, run: int) -> tuple[Ints, Ints]:
    """Return start and end of the operators of a run's thread that stand in no other."""
    ours = trace.name_is(lambda name: name.startswith(marks.OURS))
    rows = np.flatnonzero(
        trace.category_is("cpu_op")
        & ~ours
        & (trace.process == trace.process[run])
        & (trace.thread == trace.thread[run])
    )
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    outermost = start >= np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end))[:-1]
    return start[outermost], end[outermost]


def _apart(time_ns: Ints, start: Ints, end: Ints) -> Ints:
    """Return times at which statements begin or end, none of them inside an operator.

    No statement begins or ends while an operator runs, so one that seems to, by less than clocks
    can differ, did so before or after it.
    """
    if not len(start):
        return time_ns
    at = np.maximum(np.searchsorted(start, time_ns, "right") - 1, 0)
    past, ahead = time_ns - start[at], end[at] - time_ns
    inside = (past > 0) & (ahead > 0) & (np.minimum(past, ahead) < _NEAR_NS)
    return np.where(inside, np.where(past < ahead, start[at], end[at]), time_ns)
