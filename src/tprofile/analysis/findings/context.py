"""What every finding is told from: figures per run, and how to say where something is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...intervals import NONE, Floats, Ints, climb
from .. import tables
from ..attribution import Attribution, Mask
from ..doubts import short
from ..idle import Idle
from ..lines import line_of
from ..summary import Summary

LEAST = 0.05
"""The part of a run from which on it is worth a change of the code."""

LAUNCH_US = 25.0
"""A kernel shorter than this is over before the CPU, with what torch does for it, has launched the
next one."""


@dataclass(frozen=True, eq=False)
class Context:
    """A profile, as findings look at it. Times are microseconds per run."""

    found: Attribution
    summary: Summary
    wall_us: float
    """Of an unprofiled run where there was one."""
    busy_us: float
    gaps: Idle
    """Idle time of the busiest device, in all runs."""

    @cached_property
    def apart(self) -> int:
        """How many of the first runs are of a cold start, and no measure of a run."""
        return tables.runs_apart(self.found)

    @cached_property
    def runs(self) -> int:
        """How many runs the figures are of."""
        return len(self.found.runs) - self.apart

    @cached_property
    def idle_us(self) -> float:
        """Idle time of an unprofiled run: under the profiler it is longer."""
        return max(self.wall_us - self.busy_us, 0.0)

    @cached_property
    def slowed(self) -> float:
        """The part that unprofiled idle time is of profiled, at most 1."""
        profiled = self.typical(self.gaps.by_cause_ns.sum(1), self.gaps.run) / 1000
        return min(self.idle_us / profiled, 1.0) if profiled else 1.0

    @cached_property
    def stretch(self) -> float:
        """How many times a profiled run an unprofiled one takes, at least 1."""
        profiled = self.summary.profiled_wall_us
        return max(self.wall_us / profiled, 1.0) if profiled else 1.0

    @cached_property
    def line(self) -> Ints:
        """Line of the cell of every event, or `NONE`."""
        return line_of(self.found)

    @cached_property
    def work(self) -> Ints:
        """The device work of the runs that count, in the order of its start."""
        found = self.found
        return np.flatnonzero(found.work & (found.run >= self.apart))

    @cached_property
    def host(self) -> Ints:
        """The host events of the runs that count, in the order of their start."""
        found = self.found
        return np.flatnonzero(found.counted & (found.run >= self.apart))

    def called(self, beginning: str) -> Ints:
        """Return the host events of the runs that count whose names begin so."""
        named = self.found.trace.name_is(lambda name: name.startswith(beginning))
        return self.host[named[self.host]]

    def launched_in(self, work: Ints, events: Ints) -> Mask:
        """Mark those of the device work that are launched inside any of the host events."""
        inside = np.zeros(len(self.found.trace), bool)
        inside[events] = True
        return self.found.launched_inside(inside)[work]

    def typical(self, values: Ints | Floats, run: Ints) -> float:
        """Return the sum of values in the median run, the lower one of two.

        What happens in few of the runs is no property of the code, however long it takes.
        """
        return self._of_runs(values, run, 0.5)

    def least(self, values: Ints | Floats, run: Ints) -> float:
        """Return the smallest sum of values in a run: what surely is there."""
        return self._of_runs(values, run, 0)

    def typical_largest(self, values: Ints, run: Ints) -> float:
        """Return the largest value in a run, the median of the runs, the lower one of two."""
        largest = np.zeros(len(self.found.runs), np.int64)
        np.maximum.at(largest, run, values)
        return self.typical(largest, np.arange(len(largest)))

    def _of_runs(self, values: Ints | Floats, run: Ints, part: float) -> float:
        some = run >= self.apart
        per_run = np.sort(np.bincount(run[some], values[some], len(self.found.runs))[self.apart :])
        return float(per_run[int(part * (len(per_run) - 1))]) if len(per_run) else 0.0

    def of(self, rows: Ints) -> float:
        """Return how long these events take in a run, added up."""
        return self.typical(self.found.trace.duration_ns[rows], self.found.run[rows]) / 1000

    @cached_property
    def latency_us(self) -> float:
        """What a device that is busy idles between its kernels: it may go where some of them do."""
        return min(self.idle_us, LEAST * self.wall_us)

    def each(self, rows: Ints) -> float:
        """Return how many of these there are in a run."""
        return self.typical(np.ones(len(rows)), self.found.run[rows])

    @cached_property
    def _entry(self) -> Ints:
        trace = self.found.trace
        operator = trace.category_is("cpu_op") & self.found.counted
        entry = np.where(operator, np.arange(len(trace)), NONE)
        # Level by level: the entry of an operator inside another one is that one's.
        above = climb(self.found.parent, self.found.parent, ~operator)
        while (inner := above != NONE).any():
            entry = np.where(inner, above, entry)
            above = np.where(inner, above[np.maximum(above, 0)], NONE)
        return entry

    def entry(self, rows: Ints | int) -> Ints:
        """Return the outermost operator around each event: what the code called; or `NONE`."""
        return self._entry[rows]

    def name(self, row: int) -> str:
        return str(self.found.trace.names[self.found.trace.name[row]])

    def most(self, rows: Ints, weight: Ints | None = None) -> int:
        """Return the heaviest event of that line and outermost operator which weigh most."""
        trace = self.found.trace
        entry = self.entry(rows)
        key = np.stack([self.line[rows], np.where(entry != NONE, trace.name[entry], NONE)], 1)
        _, index = np.unique(key, axis=0, return_inverse=True)
        index = index.reshape(-1)
        members = np.flatnonzero(index == np.argmax(np.bincount(index, weight)))
        return int(rows[members[0 if weight is None else np.argmax(weight[members])]])

    def where(self, row: int, last: str | None = None) -> tuple[str, int | None]:
        """Return how a person finds an event, and its line: "line 4 · aten::item → aten::copy_"."""
        entry, line = int(self.entry(row)), int(self.line[row])
        names = [short(self.name(entry))] if entry not in (NONE, row) else []
        names.append(short(self.name(row)) if last is None else last)
        told = " → ".join(dict.fromkeys(names))
        return (f"line {line} · {told}", line) if line != NONE else (told, None)


def listed(names: Iterable[str], most: int = 3) -> str:
    """Return names, the first few of them."""
    every = list(dict.fromkeys(names))
    more = len(every) - most
    return ", ".join(map(short, every[:most])) + (f" and {more} more" if more > 0 else "")
