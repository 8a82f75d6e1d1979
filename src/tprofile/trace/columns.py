"""`Trace`: one profile as columns, whatever it was read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..intervals import NONE, Ints
from .recorded import Recorded

DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
"""Categories of real work on a device. An annotation's shadow on a stream is not work."""

DEVICE_LANES = DEVICE_WORK | {"gpu_user_annotation", "cuda_sync"}
"""Categories of events that stand on a device's stream rather than on a host thread."""

INSTANT = "cpu_instant_event"
"""Category of events without a duration, such as an allocation."""


class Details(Protocol):
    """What else was recorded of each event, decoded when asked for and not before."""

    def args(self, row: int) -> bytes:
        """Return the `args` of the event in source row `row` as one JSON object."""
        ...


ARROW = "fwdbwd"
"""Member of `args` that numbers the arrow from a forward operator to its backward, at both ends."""


@runtime_checkable
class Arrows(Protocol):
    """Details that tell such arrows, and need not make the whole `args` for it."""

    def arrows(self, rows: Ints) -> Ints:
        """Return the number of the arrow that has an end at each source row; 0 for none."""
        ...


@dataclass(frozen=True, eq=False)
class Trace:
    """One recorded session: a row per event, sorted by start, the longer first.

    Times are integer nanoseconds, `start_ns` counted from `base_ns` (Kineto writes microseconds
    with three decimals, which this holds without loss). `NONE` stands for "none" in integers.
    """

    names: NDArray[np.object_]
    """Distinct event names, exactly as recorded."""
    name: Ints
    """Index into `names`."""
    categories: tuple[str, ...]
    """Distinct categories, in Kineto's words: `cpu_op`, `kernel`, `cuda_runtime`, ..."""
    category: Ints
    """Index into `categories`."""
    start_ns: Ints
    duration_ns: Ints
    process: Ints
    """Process of a host event, device of a device event: the `pid` of the trace file."""
    thread: Ints
    """Thread of a host event as the system numbers it; `NONE` on a device."""
    device: Ints
    """Device index of a device event; `NONE` on the host."""
    stream: Ints
    """Stream of a device event; `NONE` on the host."""
    correlation: Ints
    """Ties a launch to what it started on a device; 0 where none was recorded."""
    external_id: Ints
    """Ties runtime calls and device work to the operator that caused them; 0 where none was."""
    source_row: Ints
    """Row of each event in `details`; `NONE` of one that has no arguments."""
    details: Details
    base_ns: int = 0
    """Nanoseconds to add to `start_ns` for the clock of a trace file."""
    epoch_ns: int = 0
    """Nanoseconds to add to that for Unix time: `baseTimeNanoseconds` of a file, 0 if unknown."""
    lanes: Mapping[int, str] = field(default_factory=dict)
    """Names of threads whose `tid` was text; such a thread has a number below `NONE`."""
    others: Sequence[bytes] = ()
    """Events of the source that are no slices (names of lanes, flows), as JSON, for the writer."""
    header: Mapping[str, Any] = field(default_factory=dict)
    """Top-level keys of the file other than its events and ours."""
    recorded: Recorded = field(default_factory=Recorded)
    """What the recorder knew and no event tells: the key `tprofile` of the file."""
    notes: tuple[str, ...] = ()
    """What the reader had to leave out or repair, for a person to read."""

    def __len__(self) -> int:
        return len(self.name)

    def category_is(self, *categories: str) -> NDArray[np.bool_]:
        """Mark the rows of the given categories."""
        wanted = np.array([c in categories for c in self.categories] or [False])
        return wanted[self.category] if len(self) else np.zeros(0, bool)

    def name_is(self, test: Callable[[str], object]) -> NDArray[np.bool_]:
        """Mark the rows whose name passes a test, which is asked once for each distinct name."""
        passed = np.array([bool(test(name)) for name in self.names] or [False])
        return passed[self.name] if len(self) else np.zeros(0, bool)

    def named(self, name: str) -> Ints:
        """Return the rows of the events that bear this name."""
        return np.flatnonzero(self.name_is(name.__eq__))

    @property
    def on_device(self) -> NDArray[np.bool_]:
        """Mark the rows that stand on a device, even one without a valid number."""
        return self.category_is(*DEVICE_LANES)

    @property
    def end_ns(self) -> Ints:
        return self.start_ns + self.duration_ns

    COLUMNS: ClassVar[tuple[str, ...]] = (
        *("name", "category", "start_ns", "duration_ns", "process", "thread", "device"),
        *("stream", "correlation", "external_id", "source_row"),
    )
    """Those that have a value per event."""

    def since(self, time_ns: int) -> Trace:
        """Return the trace without the events that start before `time_ns`, as `start_ns` counts.

        Times then count from the first that is left.
        """
        keep = self.start_ns >= time_ns
        return self.with_rows({column: getattr(self, column)[keep] for column in self.COLUMNS})

    def with_rows(
        self,
        columns: Mapping[str, Ints],
        names: NDArray[np.object_] | None = None,
        categories: tuple[str, ...] | None = None,
    ) -> Trace:
        """Return the trace with other events, as a reader would put them.

        They come in any order, but that of events that begin and end at once. `names` and
        `categories` are what `columns` index, if it is not what this trace's do. Times then count
        from the first event.
        """
        order = np.lexsort((-columns["duration_ns"], columns["start_ns"]))
        rows: dict[str, Any] = {column: values[order] for column, values in columns.items()}
        first = int(rows["start_ns"][0]) if len(order) else 0
        rows["start_ns"] = rows["start_ns"] - first
        # What only dropped events bear is not in this trace.
        used, rows["name"] = _first_seen(self.names if names is None else names, rows["name"])
        kinds = np.array(self.categories if categories is None else categories, object)
        kinds, rows["category"] = _first_seen(kinds, rows["category"])
        return replace(
            self, **rows, names=used, categories=tuple(kinds), base_ns=self.base_ns + first
        )

    def with_recorded(self, **known: Any) -> Trace:
        """Return the same trace with some fields of what its recorder knows replaced."""
        return replace(self, recorded=self.recorded.but(**known))

    def args(self, row: int) -> bytes:
        """Return the arguments recorded with event `row` as the text of a JSON object."""
        return self.source_args(int(self.source_row[row]))

    def source_args(self, source_row: int) -> bytes:
        """Return the same of a row of the source."""
        return b"{}" if source_row == NONE else self.details.args(source_row)

    def arrows(self, rows: Ints) -> Ints:
        """Return the number of the arrow from forward to backward at each operator; 0 for none."""
        found = np.zeros(len(rows), np.int64)
        sources = self.source_row[rows]
        if isinstance(self.details, Arrows):
            found[sources != NONE] = self.details.arrows(sources[sources != NONE])
        return found


def _first_seen(values: NDArray[np.object_], codes: Ints) -> tuple[NDArray[np.object_], Ints]:
    """Return the values that are in use, in the order of their first appearance, and new codes."""
    used, first, index = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    back = np.empty(len(used), np.int64)
    back[order] = np.arange(len(used))
    return values[used[order]], back[index.reshape(-1)]


def encode(values: Sequence[str]) -> tuple[NDArray[np.object_], Ints]:
    """Return the distinct values in the order of their first appearance, and each one's index."""
    index = {value: code for code, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter(map(index.__getitem__, values), np.int64, len(values))
    distinct = np.empty(len(index), object)
    distinct[:] = list(index)
    return distinct, codes
