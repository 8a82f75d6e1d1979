"""Note when each statement of a cell begins and ends, on a clock of our own.

A mark of torch's costs a tenth of a small operator under the profiler; a note, a hundredth. What
ties its clock to that of the trace are a few marks around each run whose times are known on both.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import numpy as np

from ..intervals import Ints
from . import marks

Take = Callable[[int], object]
"""Takes the time, each time that it is called."""

MakeMark = Callable[[str], AbstractContextManager[object]]

MOST = 1_000_000
"""Runs of statements that a log holds: each takes half a kilobyte until it is in a table."""

READINGS = 4
"""Marks of one reading of the clocks: the first of them is slow."""


class Spans(NamedTuple):
    """The runs of statements, in the order of their beginnings, by our own clock."""

    line: Ints
    begin_ns: Ints
    end_ns: Ints


class Reading(NamedTuple):
    """A mark of torch's: between the first two times it was entered, between the last two left."""

    number: int
    before_ns: int
    inside_ns: int
    after_ns: int


class LineLog:
    """Holds when statements began and ended, as their code notes it: `take(clock(CLOCK_ID))`.

    The two calls are of what is written in C, and so cost little more than the clock.
    """

    # That of the processor itself where it can be had, as torch's is: one that is set right in
    # between may run faster for a while.
    CLOCK_ID = getattr(time, "CLOCK_MONOTONIC_RAW", 0)
    clock: Callable[[int], int] = staticmethod(
        time.clock_gettime_ns if CLOCK_ID else lambda _: time.perf_counter_ns()
    )

    def __init__(self) -> None:
        self._lines: list[int] = []
        """Line of the statement that begins at each place of the code; 0 where one ends."""
        self._depths: list[int] = []
        self._times: list[deque[int]] = []
        self._numbers = itertools.count()
        self.readings: list[Reading] = []
        self.outermost = False
        """Whether only those statements are told, and are to be noted, that stand in no other."""

    def begins(self, line: int, depth: int) -> Take:
        """Return what takes the time when a statement begins, which stands in `depth` others.

        One that was begun before in as many, or in more, has ended then.
        """
        return self._place(line, depth)

    def ends(self, depth: int) -> Take:
        """Return what takes the time when no statement in `depth` others goes on."""
        return self._place(0, depth)

    def now(self) -> int:
        """Return the time by the log's clock, in nanoseconds."""
        return self.clock(self.CLOCK_ID)

    def _place(self, line: int, depth: int) -> Take:
        self._lines.append(line)
        self._depths.append(depth)
        # One more than are told, so that it shows. What stands in no other never gets there.
        self._times.append(deque(maxlen=MOST + 1))
        return self._times[-1].append

    @contextmanager
    def between_readings(self, mark: MakeMark) -> Iterator[None]:
        """Read the clocks before and after something, with marks that `mark` makes."""
        self._read(mark)
        try:
            yield
        finally:
            self._read(mark)

    def _read(self, mark: MakeMark) -> None:
        for number in itertools.islice(self._numbers, READINGS):
            one = mark(marks.clock(number))
            before = self.now()
            with one:
                inside = self.now()
            self.readings.append(Reading(number, before, inside, self.now()))

    @property
    def empty(self) -> bool:
        """Whether no code has a place in it."""
        return not self._times

    @property
    def begun(self) -> int:
        """How many statements began; from `MOST` on it may have been more."""
        return sum(len(t) for t, line in zip(self._times, self._lines, strict=True) if line)

    def clear(self) -> None:
        """Forget what was noted: a traceback may hold the code, and the code its places."""
        for times in self._times:
            times.clear()

    def spans(self) -> Spans:
        """Return what was noted."""
        told = [
            times if not (depth and self.outermost) else ()
            for times, depth in zip(self._times, self._depths, strict=True)
        ]
        sizes = [len(times) for times in told]
        time_ns = np.fromiter(itertools.chain(*told), np.int64, sum(sizes))
        order = np.argsort(time_ns, kind="stable")
        time_ns = time_ns[order]
        line = np.repeat(np.array(self._lines, np.int64), sizes)[order]
        depth = np.repeat(np.array(self._depths, np.int64), sizes)[order]
        end = time_ns.copy()
        for level in np.unique(depth):
            closing = np.flatnonzero(depth <= level)
            begun = np.flatnonzero((depth == level) & (line > 0))
            after = np.searchsorted(closing, begun, "right")
            # What was not seen to end lasted until the last note.
            end[begun] = np.append(time_ns[closing], time_ns[-1])[after]
        began = line > 0
        return Spans(line[began], time_ns[began], end[began])
