"""When statements ran, by a clock of their own, and where that puts them in a trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import call, note, op, profile, slice_, work

import tprofile
from tprofile.trace import Trace, line_log, marks
from tprofile.trace.line_log import READINGS, LineLog, Reading
from tprofile.trace.lines import with_lines
from tprofile.trace.write import dump

RUN, CLOCK = marks.RUN, "tprofile::clock "


def spans(log: LineLog) -> list[tuple[int, int, int]]:
    return list(zip(*(column.tolist() for column in log.spans()), strict=True))


# --- what was noted


def at(*noted: tuple[int, Callable[[int], object]]) -> None:
    for now, take in noted:
        take(now)


def test_a_loop() -> None:
    # GIVEN `a; for: (b; c); d`, of which the loop ran twice
    log = LineLog()
    a, loop, d = (log.begins(line, 0) for line in (1, 2, 5))
    b, c = (log.begins(line, 1) for line in (3, 4))
    over, end = log.ends(1), log.ends(0)
    # WHEN the loop itself has something to do ahead of each turn
    at(
        *((10, a), (20, loop), (22, b), (30, c), (37, over), (40, b), (50, c), (60, over)),
        *((61, d), (70, end)),
    )
    assert spans(log) == [
        (1, 10, 20), (2, 20, 61), (3, 22, 30), (4, 30, 37), (3, 40, 50), (4, 50, 60), (5, 61, 70),
    ]  # fmt: skip


def test_what_an_error_ended() -> None:
    # GIVEN `try: (with: (a)) except: (b)`, and `a` raises
    log = LineLog()
    attempt, with_, a = (log.begins(line, line - 1) for line in (1, 2, 3))
    b, over, end = log.begins(5, 1), log.ends(1), log.ends(0)
    at((1, attempt), (2, with_), (3, a), (8, b), (9, over), (10, end))
    # THEN what was inside has ended where the handler begins
    assert spans(log) == [(1, 1, 10), (2, 2, 8), (3, 3, 8), (5, 8, 9)]


def test_what_was_not_seen_to_end() -> None:
    log = LineLog()
    a, b = log.begins(1, 0), log.begins(2, 1)
    at((1, a), (4, b))
    assert spans(log) == [(1, 1, 4), (2, 4, 4)]


def test_a_log_of_nothing() -> None:
    log = LineLog()
    log.begins(1, 0)
    assert spans(log) == spans(LineLog()) == []


def test_a_log_of_the_outermost() -> None:
    log = LineLog()
    a, b, over, end = log.begins(1, 0), log.begins(2, 1), log.ends(1), log.ends(0)
    at((1, a), (2, b), (3, over), (4, b), (5, over), (7, end))
    assert log.begun == 3
    log.outermost = True
    assert spans(log) == [(1, 1, 7)]
    log.clear()
    assert log.begun == 0


def test_a_log_holds_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_log, "MOST", 5)
    log = LineLog()
    a, b, end = log.begins(1, 0), log.begins(2, 1), log.ends(0)
    at((1, a), *((now, b) for now in range(2, 90)), (90, end))
    assert log.begun == 7
    log.outermost = True
    assert spans(log) == [(1, 1, 90)]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40))
def test_notes_in_any_order(noted: list[tuple[int, bool]]) -> None:
    # GIVEN what keeps a stack
    log = LineLog()
    wanted: list[list[int]] = []
    going: list[tuple[int, list[int]]] = []
    for now, (depth, begins) in enumerate(noted):
        while going and going[-1][0] >= depth:
            going.pop()[1].append(now)
        (log.begins(now + 1, depth) if begins else log.ends(depth))(now)
        if begins:
            wanted.append([now + 1, now])
            going.append((depth, wanted[-1]))
    for _, one in going:
        one.append(len(noted) - 1)
    assert spans(log) == [tuple(one) for one in wanted]


def test_the_clock() -> None:
    log = LineLog()
    before, now, after = log.now(), LineLog.clock(LineLog.CLOCK_ID), log.now()
    assert before <= now <= after


def test_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a clock that says a hundred more at each mark
    entered: list[str] = []
    monkeypatch.setattr(LineLog, "now", lambda self: 100 * len(entered))
    log = LineLog()

    def mark(name: str) -> Any:
        entered.append(name)
        return nullcontext()

    with log.between_readings(mark):
        assert len(entered) == READINGS
    # AND after an error too
    with pytest.raises(KeyError), log.between_readings(mark):
        raise KeyError
    assert entered == [f"{CLOCK}{i}" for i in range(4 * READINGS)]
    times = [100 * (i + 1) for i in range(4 * READINGS)]
    assert log.readings == [Reading(i, one, one, one) for i, one in enumerate(times)]


# --- where that is in a trace

LATER = 5_000_000
"""Nanoseconds that the trace's clock, by which its first event begins at 0, is behind ours."""


def read(*us: float, early: int = 30, late: int = 50) -> list[Reading]:
    """Return readings of marks that begin at these times and last 1 µs."""
    return [
        Reading(i, begin - early, begin + late, begin + 1000 + late)
        for i, begin in enumerate(round(one * 1000) + LATER for one in us)
    ]


def clocks(*us: float) -> list[Any]:
    return [op(f"{CLOCK}{i}", one, 1) for i, one in enumerate(us)]


class Told(LineLog):
    """A log of the given spans, in µs of the trace's clock, and readings."""

    def __init__(self, spans: list[tuple[int, float, float]], readings: list[Reading]) -> None:
        super().__init__()
        self._spans, self.readings = spans, readings

    def spans(self) -> line_log.Spans:
        columns = np.array(self._spans, float).reshape(-1, 3).T
        times = [np.rint(one * 1000).astype(np.int64) + LATER for one in columns[1:]]
        return line_log.Spans(columns[0].astype(np.int64), *times)


def lines(trace: Trace) -> list[tuple[str, float, float]]:
    rows = np.flatnonzero(trace.name_is(lambda name: name.startswith(marks.LINE)))
    return [
        (str(trace.names[trace.name[row]]), trace.start_ns[row] / 1000, trace.end_ns[row] / 1000)
        for row in rows
    ]


def first(trace: Trace, log: LineLog) -> list[tuple[int, float, float]]:
    """Return the lines of a trace, whose times count from the run that they are in."""
    told = with_lines(trace, log)
    run = told.start_ns[told.named(RUN)[0]] / 1000
    return [(int(name.split()[1]), begin - run, end - run) for name, begin, end in lines(told)]


def test_statements_stand_among_the_events() -> None:
    before, after = (0, 1.5, 3, 4.5), (120, 121.5, 123, 124.5)
    trace = profile(
        *clocks(*before, *after),
        note(RUN, 10, 100, tid=7),
        op("aten::mm", 20, 10, 1, tid=7), call("cudaLaunchKernel", 22, 2, 91, 1, tid=7),
        op("aten::relu", 40, 10, 2, tid=7), call("cudaLaunchKernel", 42, 2, 92, 2, tid=7),
        work("gemm", 50, 8, 91, 1), work("relu", 60, 4, 92, 2),
    ).trace  # fmt: skip
    log = Told([(2, 15, 35), (3, 35, 70), (4, 36, 60)], read(*before, *after))
    told = with_lines(trace, log)
    # THEN the marks of the clocks are gone, and times count from what is first now
    assert not told.name_is(marks.is_clock).any()
    assert int(told.start_ns[0]) == 0
    assert told.base_ns - trace.base_ns == 10_000
    # Of a mark that begins between 30 ns before and 50 ns after, the middle is 10 ns off.
    assert [(name, round(b, 3), round(e, 3)) for name, b, e in lines(told)] == [
        ("tprofile::line 2", 4.99, 24.99), ("tprofile::line 3", 24.99, 59.99),
        ("tprofile::line 4", 25.99, 49.99),
    ]  # fmt: skip
    # AND it is a trace like any other: sorted, numbered, with the thread of its run
    assert (np.diff(told.start_ns) >= 0).all()
    rows = np.flatnonzero(told.name_is(lambda name: name.startswith(marks.LINE)))
    assert (told.thread[rows] == 7).all()
    assert [told.args(row) for row in rows] == [b"{}"] * 3
    assert (told.arrows(np.arange(len(told))) == 0).all()
    one = tprofile.load(b"".join(dump(told)))
    assert one.lines[["line", "device_us", "launches"]].to_numpy().tolist() == [
        [2, 8, 1], [3, 0, 0], [4, 4, 1],
    ]  # fmt: skip
    assert one.trace.names.tolist() == told.names.tolist()


def test_clocks_that_drift_apart() -> None:
    # GIVEN that ours gains 2 µs over 100
    before, after = (0, 1.5, 3, 4.5), (100, 101.5, 103, 104.5)
    readings = read(*before, early=10, late=10) + [
        Reading(4 + i, *(time + 2000 for time in one[1:]))
        for i, one in enumerate(read(*after, early=10, late=10))
    ]
    trace = profile(*clocks(*before, *after), note(RUN, 10, 80)).trace
    found = with_lines(trace, Told([(2, 51 + 1.49, 71)], readings))
    ((_, begin, _),) = lines(found)
    assert begin + 10 == pytest.approx(51.49, abs=0.04)


def test_a_reading_that_was_held_up_tells_less() -> None:
    # GIVEN that between the clock and the mark of the first reading the process stood still
    readings = read(0, 1.5, 3, 4.5, early=10, late=10)
    readings[0] = readings[0]._replace(before_ns=readings[0].before_ns - 900_000)
    trace = profile(*clocks(0, 1.5, 3, 4.5), note(RUN, 10, 80)).trace
    assert first(trace, Told([(2, 20, 30)], readings)) == [(2, 10, 20)]


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        # By up to 1 µs it is the clocks.
        (40.3, 40), (49.4, 50), (40.999, 40),
        # More is none of theirs: the statement did begin in there.
        (44, 44),
        # Between them, and at their very edges, it is right.
        (40, 40), (50, 50), (39, 39), (55, 55),
    ],
)  # fmt: skip
def test_no_statement_begins_in_an_operator(begin: float, expected: float) -> None:
    trace = profile(
        *clocks(0, 1.5, 3, 4.5), note(RUN, 10, 80),
        op("aten::linear", 40, 10), op("aten::mm", 44, 1), op("aten::relu", 60, 1),
    ).trace  # fmt: skip
    log = Told([(2, begin, 70)], read(0, 1.5, 3, 4.5, early=50, late=50))
    assert first(trace, log) == [(2, expected - 10, 60)]


def test_annotations_and_operators_of_other_threads_may_be_begun_around_it() -> None:
    trace = profile(
        *clocks(0, 1.5, 3, 4.5), note(RUN, 10, 80),
        note("mine", 40, 20), op("aten::mm", 39.9, 20, tid=9),
        slice_("cpu_op", "aten::add", 40, 20, 55, 1),
    ).trace  # fmt: skip
    log = Told([(2, 40.3, 59.7)], read(0, 1.5, 3, 4.5, early=50, late=50))
    assert first(trace, log) == [(2, 30.3, 49.7)]


@pytest.mark.parametrize("what", ["run", "clocks", "readings", "spans"])
def test_without_something_to_go_by_there_are_no_lines(what: str) -> None:
    us = (0, 1.5, 3, 4.5)
    events = [
        *(clocks(*us) if what != "clocks" else ()),
        *([note(RUN, 10, 80)] if what != "run" else ()),
        op("aten::mm", 40, 10),
    ]
    log = Told([(2, 20, 60)] if what != "spans" else [], read(*us) if what != "readings" else [])
    told = with_lines(profile(*events).trace, log)
    assert lines(told) == []
    assert "aten::mm" in told.names
    assert not told.name_is(marks.is_clock).any()
