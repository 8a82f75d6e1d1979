"""What a profile must say of a list of events: slow, in plain Python, from the definitions."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

RUN, SYNCHRONIZE, EACH = "tprofile::run", "tprofile::synchronize", "tprofile::each"
STEP = "ProfilerStep#"
HIDDEN = ("aten::is_leaf", "aten::_version", "[memory]")
LAUNCHES = ("cudaLaunchKernel", "cudaGraphLaunch")
OPERATORS = ("cpu_op", "user_annotation")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
ON_DEVICE = (*WORK, "gpu_user_annotation", "cuda_sync")
NOT_IN_TABLE = (*ON_DEVICE, "python_function", "cpu_instant_event")


@dataclass(frozen=True)
class Row:
    """An event as a profiler records it. Times are nanoseconds."""

    category: str
    name: str
    start: int
    duration: int
    process: int
    """Process, or device of what stands on a device."""
    lane: int
    """Thread, or stream of what stands on a device."""
    external: int = 0
    correlation: int = 0
    dims: tuple[int, ...] | None = None

    @property
    def end(self) -> int:
        return self.start + self.duration

    @property
    def on_device(self) -> bool:
        return self.category in ON_DEVICE


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return how much lies in any of the spans: between two edges there is no other to look at."""
    spans = list(spans)
    edges = sorted({edge for span in spans for edge in span})
    return sum(
        right - left
        for left, right in itertools.pairwise(edges)
        if any(start <= left and right <= end for start, end in spans)
    )


class Reference:
    """All that is to be known of the rows, which stand by start, the longer first."""

    def __init__(self, given: Iterable[Row]) -> None:
        self.rows = sorted(given, key=lambda r: (r.start, -r.duration))
        self.every = range(len(self.rows))
        self.table = [i for i in self.every if self._in_table(self.rows[i])]
        self.owners = [i for i in self.table if self.rows[i].category in OPERATORS]
        self.calls = [i for i in self.table if i not in self.owners]
        self.around = {i: self._around(i) for i in self.table}
        work = [i for i in self.every if self.rows[i].category in WORK]
        self.launch = {i: self._first(self.calls, "correlation", i) for i in work}
        self.operator = {i: self._operator(i) for i in work}
        self.source, self.runs = self._runs()
        self.run = [self._run(i) for i in self.every]
        in_runs = [i for i in work if self.source != "marks" or self.run[i] is not None]
        self.work = [i for i in in_runs if self.rows[i].duration > 0]
        self.counted = [i for i in self.table if self._is_counted(i)]

    def _in_table(self, row: Row) -> bool:
        return row.category not in NOT_IN_TABLE and row.name not in HIDDEN

    def _first(self, among: list[int], field: str, i: int) -> int | None:
        """Return the first of some rows that bears the same id, other than 0, as row i."""
        wanted = getattr(self.rows[i], field)
        return next((j for j in among if wanted and getattr(self.rows[j], field) == wanted), None)

    def lane(self, i: int) -> tuple[int, int]:
        """Return where a host event nests: a runtime call with the operator that made it."""
        owner = self._first(self.owners, "external", i) if i in self.calls else None
        row = self.rows[i if owner is None else owner]
        return row.process, row.lane

    def _around(self, i: int) -> int | None:
        """Return the nearest earlier interval with an end as late, or later where it is empty."""
        row = self.rows[i]
        least = row.end + (row.duration == 0)
        earlier = [j for j in self.table if j < i and self.lane(j) == self.lane(i)]
        return next((j for j in reversed(earlier) if self.rows[j].end >= least), None)

    def ancestors(self, i: int | None) -> list[int]:
        found = []
        while i is not None and (i := self.around[i]) is not None:
            found.append(i)
        return found

    def children(self, i: int) -> list[int]:
        return [j for j in self.table if self.around[j] == i]

    def _operator(self, i: int) -> int | None:
        """Return the operator of the External id, else the one around the launch."""
        owner = self._first(self.owners, "external", i)
        if owner is not None and not self._is_mark(owner):
            return owner
        above = self.ancestors(self.launch[i])
        operators = (j for j in above if self.rows[j].category == "cpu_op")
        return next((j for j in operators if not self._is_mark(j)), None)

    def _is_mark(self, i: int) -> bool:
        return self.rows[i].name in (RUN, SYNCHRONIZE, EACH)

    def _runs(self) -> tuple[str, list[int]]:
        """Return what tells runs apart, and the rows that are the runs: outermost, one thread's."""
        for source, name in (("marks", RUN), ("steps", STEP)):
            found = [i for i in self.owners if self.rows[i].name.startswith(name)]
            if found:
                found = [i for i in found if self.lane(i) == self.lane(found[0])]
                return source, [i for i in found if not any(self._holds(j, i) for j in found)]
        return "trace", []

    def _holds(self, i: int, j: int) -> bool:
        one, other = self.rows[i], self.rows[j]
        least = other.end + (other.duration == 0)
        return i < j and one.start <= other.start and one.end >= least

    @property
    def windows(self) -> list[tuple[int, int]]:
        if self.source != "trace":
            return [(self.rows[i].start, self.rows[i].end) for i in self.runs]
        rows = self.rows
        return [(rows[0].start, max(r.end for r in rows))] if rows else []

    def _run(self, i: int) -> int | None:
        """Return the run, from 0, in which an event or the cause of device work began."""
        if i in self.launch:
            cause = self.operator[i] if self.launch[i] is None else self.launch[i]
            i = i if cause is None else cause
        start = self.rows[i].start
        if self.source == "trace":
            return 0
        begun = [k for k, (first, _) in enumerate(self.windows) if first <= start]
        return begun[-1] if begun and start < self.windows[begun[-1]][1] else None

    def _is_counted(self, i: int) -> bool:
        if self.source != "marks":
            return True
        waits = any(self.rows[j].name == SYNCHRONIZE for j in [i, *self.ancestors(i)])
        return self.run[i] is not None and not waits and not self._is_mark(i)

    def cause(self, i: int) -> str | None:
        """Return what the kernels' table names as the operator of device work."""
        by = self.launch[i] if self.operator[i] is None else self.operator[i]
        return None if by is None else self.rows[by].name

    def parents(self) -> list[int]:
        """Return the events' column `parent`."""
        above = self.around | {
            i: self.operator[i] if self.launch[i] is None else self.launch[i] for i in self.launch
        }
        return [-1 if above.get(i) is None else above[i] for i in self.every]

    def self_cpu(self, i: int) -> int:
        inside = [(self.rows[j].start, self.rows[j].end) for j in self.children(i)]
        return self.rows[i].duration - covered(inside)

    def self_device(self, i: int) -> int:
        return sum(self.rows[j].duration for j in self.work if self.operator[j] == i)

    def device(self, i: int) -> int:
        return self.self_device(i) + sum(self.device(j) for j in self.children(i))

    def merged(self, i: int) -> bool:
        """Tell whether a row is the only child of its namesake: one call of the table, not two."""
        above = self.around[i]
        return (
            above in self.counted
            and self.children(above) == [i]
            and self.rows[above].name == self.rows[i].name
        )

    def operators(self, label: Callable[[int], Any] = lambda i: None) -> list[tuple[Any, ...]]:
        """Return name, label, calls, times in microseconds and category of each row."""

        def key(i: int) -> tuple[Any, ...]:
            while self.merged(i):
                i = self.around[i]
            row = self.rows[i]
            name = STEP[:-1] + "*" if row.name.startswith(STEP) else row.name
            return name, row.category == "user_annotation", label(i)

        groups: dict[tuple[Any, ...], list[int]] = {}
        for i in self.counted:
            groups.setdefault(key(i), []).append(i)
        found = []
        for (name, _, of), group in groups.items():
            outer = [i for i in group if not set(group) & set(self.ancestors(i))]
            calls = sum(not self.merged(i) for i in group)
            own = sum(map(self.self_cpu, group)) / 1000
            total = sum(self.rows[i].duration for i in outer) / 1000
            device = [sum(map(self.self_device, group)), sum(map(self.device, outer))]
            on_device = [ns / 1000 if self.work else math.nan for ns in device]
            category = self.rows[group[0]].category
            found.append((name, of, calls, own, total, *on_device, category))
        return found

    def kernels(self) -> list[tuple[Any, ...]]:
        """Return name, operator, device, stream, calls, total, mean, least, median and most."""
        groups: dict[tuple[Any, ...], list[float]] = {}
        for i in self.work:
            row = self.rows[i]
            key = row.name, self.cause(i), row.process, row.lane
            groups.setdefault(key, []).append(row.duration)
        return [
            (
                *key, len(ns), sum(ns) / 1000, sum(ns) / 1000 / len(ns), min(ns) / 1000,
                statistics.median(t / 1000 for t in ns), max(ns) / 1000,
            )
            for key, ns in groups.items()
        ]  # fmt: skip

    def devices(self) -> list[int]:
        return sorted({self.rows[i].process for i in self.work})

    def busy(self, run: int, device: int, *categories: str) -> int:
        """Return the time in which a device worked while a run went on, whoever had asked."""
        first, last = self.windows[run]
        rows = [self.rows[i] for i in self.work]
        return covered(
            (max(r.start, first), min(r.end, last))
            for r in rows
            if r.process == device and r.category in categories
            if r.start < last and r.end > first
        )

    def launches(self, run: int) -> int:
        """Return how many calls started kernels; one that was not recorded is told by its id."""
        kernels = [i for i in self.work if self.rows[i].category == "kernel"]
        return len({
            ("call", self.launch[i]) if self.launch[i] is not None
            else ("id", self.rows[i].correlation) if self.rows[i].correlation
            else ("kernel", i)
            for i in kernels if self.run[i] == run
        })  # fmt: skip

    def lost(self, run: int) -> bool:
        """Return whether a call of the run started work of which there is no record."""
        known = {row.correlation for row in self.rows if row.category in WORK}
        return any(
            self.rows[i].name in LAUNCHES and self.rows[i].correlation not in {0, *known}
            for i in self.counted if self.run[i] == run
        )  # fmt: skip

    def cpu(self, run: int) -> int:
        rows = [i for i in self.counted if self.run[i] == run and i not in self.runs]
        return sum(map(self.self_cpu, rows))
