"""Tie device work to its launch and operator, and every event to its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..intervals import NONE, Ints, Nesting, climb, nest, number
from ..trace import DEVICE_WORK, INSTANT, Trace, marks

Mask = NDArray[np.bool_]

_OPERATORS = ("cpu_op", "user_annotation")
_NOT_IN_TABLE = ("", "python_function", INSTANT, "Trace")
_UTILITIES = frozenset(
    {
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "[memory]",
        "[OutOfMemory]",
    }
)
"""What torch's own table leaves out: calls too small to have a cost of their own."""


@dataclass(frozen=True, eq=False)
class Runs:
    """The repetitions that the figures are about, in time order."""

    source: str
    """What delimits a run: "marks" (ours), "steps" (ProfilerStep#N) or "trace" (all is one run)."""
    start_ns: Ints
    end_ns: Ints
    rows: Ints
    """Event that is the run, for marks and steps."""
    complete: bool = True
    """Whether each came to its end: not the only one, if an error stopped it."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def at(self, time_ns: Ints) -> Ints:
        """Return the run in which each time lies, counted from 0; `NONE` outside."""
        if self.source == "trace":
            return np.zeros(len(time_ns), np.int64)
        if not len(self):
            return np.full(len(time_ns), NONE)
        run = np.searchsorted(self.start_ns, time_ns, "right") - 1
        return np.where((run >= 0) & (time_ns < self.end_ns[run]), run, NONE)

    def overlapping(self, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
        """Return each pair of an interval and a run that overlap, as two columns of indices."""
        first = np.searchsorted(self.end_ns, start_ns, "right")
        count = np.maximum(np.searchsorted(self.start_ns, end_ns, "left") - first, 0)
        which = np.repeat(np.arange(len(start_ns)), count)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        return which, first[which] + nth


@dataclass(frozen=True, eq=False)
class Attribution:
    """A trace with every event in its place. Arrays have a value per event of the trace."""

    trace: Trace
    runs: Runs
    table: Ints
    """Host events that torch's table counts, in the order of `nesting`."""
    nesting: Nesting
    """Forest of the `table` events, thread by thread."""
    counted: Mask
    """Host events that are a user's row: in a run, and not one of our marks."""
    merged: Mask
    """Host events that are the only child of an event of their own name: one call, not two."""
    work: Mask
    """Kernels, copies and sets of the runs that took time."""
    timeless: int
    """How many kernels, copies and sets bear no duration: left out, never counted as 0."""
    parent: Ints
    """Event around a host event; of device work the launch, else the operator; else `NONE`."""
    launch: Ints
    """Runtime call that started this device work, or `NONE`."""
    operator: Ints
    """Operator that caused this device work, or `NONE`."""
    run: Ints
    """Run of each event, counted from 0, or `NONE`."""
    self_cpu_ns: Ints
    cpu_ns: Ints
    self_device_ns: Ints
    """Device time of the work that belongs to a host event itself."""
    device_ns: Ints
    """The same with all that the event contains."""
    self_launched_ns: Ints
    """Device time of the work that a runtime call launched outside of all operators."""
    launched_ns: Ints
    """The same with all that the event contains."""

    @cached_property
    def cause(self) -> Ints:
        """What started this device work: the launch, else the operator; else `NONE`."""
        return np.where(self.launch != NONE, self.launch, self.operator)

    @cached_property
    def root(self) -> Ints:
        """Outermost event around a host event: of one that stands in none, itself."""
        root = np.arange(len(self.trace))
        root[self.table] = self.table[self.nesting.root]
        return root

    @cached_property
    def lane(self) -> Ints:
        """Number of the thread of a host event: a runtime call's is that of its operator, though it
        can bear another.
        """
        return number(self.trace.process, self.trace.thread)[self.root]

    def with_work(self, of: Ints) -> Ints:
        """Return what host events have with what device work gets from its cause."""
        work = self.trace.on_device & (self.cause != NONE)
        return np.where(work, of[self.cause], of)

    def launched_inside(self, events: Mask) -> Mask:
        """Mark the device work that is launched inside any of these host events."""
        covered = np.zeros(len(self.trace) + 1, bool)
        covered[self.table] = self.nesting.covered(events[self.table])
        # The last stands for what has no cause.
        return self.work & covered[self.cause]


Told = TypeVar("Told")


def once(tell: Callable[[Attribution], Told]) -> Callable[[Attribution], Told]:
    """Make a function of a trace work its result out once, however many figures need it.

    The result must not hold the Attribution, or neither would ever be freed.
    """
    known: WeakKeyDictionary[Attribution, Told] = WeakKeyDictionary()

    @wraps(tell)
    def told(found: Attribution) -> Told:
        if found not in known:
            known[found] = tell(found)
        return known[found]

    return told


def attribute(trace: Trace) -> Attribution:
    """Return the trace with parents, launches, operators, runs and times worked out."""
    n = len(trace)
    names = _names(trace)
    work = trace.category_is(*DEVICE_WORK)
    timed = work & (trace.duration_ns > 0)
    in_table = ~trace.on_device & ~trace.category_is(*_NOT_IN_TABLE)
    in_table &= ~names.utility & ~names.place
    operators = in_table & trace.category_is(*_OPERATORS)

    op_of = _join(_external(trace, names.place, operators), np.flatnonzero(operators))
    table = np.flatnonzero(in_table)
    caller = np.where(operators, NONE, op_of)
    nesting = nest(_threads(trace, table, caller), trace.start_ns[table], trace.end_ns[table])
    parent = np.full(n, NONE)
    parent[table] = _rows(table, nesting.parent)

    calls = np.flatnonzero(in_table & ~operators & (trace.correlation != 0))
    launch = np.where(work, _join(trace.correlation, calls), NONE)
    marked = names.run | names.synchronize | names.before
    operator = np.where(work, op_of, NONE)
    orphan = work & ((operator == NONE) | marked[operator])
    operator[orphan] = _enclosing(trace, parent, launch[orphan], marked)
    parent[work] = np.where(launch != NONE, launch, operator)[work]

    runs = _runs(trace, names, operators)
    run = runs.at(trace.start_ns)
    cause = np.where(launch != NONE, launch, operator)
    run = np.where(work & (cause != NONE), run[cause], run)

    counted = in_table.copy()
    if runs.source == "marks":
        ours = np.zeros(n, bool)
        ours[table] = nesting.covered(names.synchronize[table])
        counted &= (run != NONE) & ~ours & ~marked
        timed &= run != NONE
        work = work & (run != NONE)

    self_cpu = np.zeros(n, np.int64)
    inside = nesting.children_union(trace.start_ns[table], trace.end_ns[table])
    self_cpu[table] = trace.duration_ns[table] - inside
    owned = timed & (operator != NONE)
    self_device = np.bincount(operator[owned], trace.duration_ns[owned], n).astype(np.int64)
    device = np.zeros(n, np.int64)
    device[table] = nesting.subtree_sum(self_device[table])
    alone = timed & (operator == NONE) & (launch != NONE)
    self_launched = np.bincount(launch[alone], trace.duration_ns[alone], n).astype(np.int64)
    launched = np.zeros(n, np.int64)
    launched[table] = nesting.subtree_sum(self_launched[table])
    return Attribution(
        trace=trace,
        runs=runs,
        table=table,
        nesting=nesting,
        counted=counted,
        merged=_merged(trace, table, nesting, counted),
        work=timed,
        timeless=int((work & ~timed).sum()),
        parent=parent,
        launch=launch,
        operator=operator,
        run=run,
        self_cpu_ns=self_cpu,
        cpu_ns=np.where(in_table, trace.duration_ns, 0),
        self_device_ns=self_device,
        device_ns=device,
        self_launched_ns=self_launched,
        launched_ns=launched,
    )


def kernel_starts(found: Attribution) -> Ints:
    """Return the kernels that each stand for one call that started kernels: its first.

    A graph's launch starts many. A kernel whose call was not recorded stands for it.
    """
    rows = np.flatnonzero(found.work & found.trace.category_is("kernel"))
    launch = found.launch[rows]
    told = np.where(launch == NONE, found.trace.correlation[rows], 0)
    alone = np.where((launch == NONE) & (told == 0), rows, NONE)
    _, one_each = np.unique(number(found.run[rows], launch, told, alone), return_index=True)
    return rows[one_each]


@dataclass(frozen=True, eq=False)
class _Names:
    utility: Mask
    run: Mask
    synchronize: Mask
    before: Mask
    place: Mask
    step: Mask


def _names(trace: Trace) -> _Names:
    return _Names(
        utility=trace.name_is(_UTILITIES.__contains__),
        run=trace.name_is(marks.RUN.__eq__),
        synchronize=trace.name_is(marks.SYNCHRONIZE.__eq__),
        before=trace.name_is(marks.BEFORE.__eq__),
        place=trace.category_is("cpu_op") & trace.name_is(marks.is_place),
        step=trace.name_is(lambda name: name.startswith("ProfilerStep#")),
    )


def _join(key: Ints, owners: Ints) -> Ints:
    """Return for each event the owner that bears the same non-zero key, or `NONE`."""
    owners = owners[key[owners] != 0]
    order = owners[np.argsort(key[owners], kind="stable")]
    if not len(order):
        return np.full(len(key), NONE)
    place = np.searchsorted(key[order], key)
    found = order[np.minimum(place, len(order) - 1)]
    return np.where((key != 0) & (key[found] == key), found, NONE)


def _external(trace: Trace, place: Mask, operators: Mask) -> Ints:
    """Return external ids as they would be without the marks of places.

    To torch a mark is an operator, so what is called in it and in no other is said to be its own.
    """
    if not place.any():
        return trace.external_id
    # No annotation: torch ties nothing to one but its shadow on the device.
    rows = np.flatnonzero(place | (operators & trace.category_is("cpu_op")))
    lane = number(trace.process[rows], trace.thread[rows])
    nesting = nest(lane, trace.start_ns[rows], trace.end_ns[rows])
    around = np.full(len(trace), NONE)
    around[rows] = _rows(rows, climb(nesting.parent, nesting.parent, place[rows]))
    mark = _join(trace.external_id, np.flatnonzero(place))
    above = np.where(mark != NONE, around[mark], NONE)
    unmarked = np.where(above != NONE, trace.external_id[above], 0)
    return np.where(mark != NONE, unmarked, trace.external_id)


def _rows(table: Ints, index: Ints) -> Ints:
    return np.where(index >= 0, table[index], NONE) if len(table) else index


def _threads(trace: Trace, table: Ints, caller: Ints) -> Ints:
    """Number the lanes to nest in: a runtime call stands with the operator that made it."""
    at = np.where(caller[table] != NONE, caller[table], table)
    return number(trace.process[at], trace.thread[at])


def _enclosing(trace: Trace, parent: Ints, rows: Ints, marked: Mask) -> Ints:
    """Return the nearest operator around each of the given events, or `NONE`.

    An annotation does not count: it says where the code was, not what launched.
    """
    operator = trace.category_is("cpu_op") & ~marked
    above = np.where(rows != NONE, parent[rows], NONE)
    return climb(parent, above, ~operator)


def _runs(trace: Trace, names: _Names, operators: Mask) -> Runs:
    for source, wanted in (("marks", names.run), ("steps", names.step)):
        rows = np.flatnonzero(wanted & operators)
        if len(rows):
            # One thread, outermost: a step inside a step is part of it.
            lane = (trace.process == trace.process[rows[0]]) & (
                trace.thread == trace.thread[rows[0]]
            )
            rows = rows[lane[rows]]
            # Nested among themselves: what overlaps a step in part takes none out of it.
            found = nest(np.zeros(len(rows), np.int64), trace.start_ns[rows], trace.end_ns[rows])
            rows = rows[found.parent == NONE]
            # A run that an error ended is no measurement of a run, unless there is no other.
            complete = source != "marks" or trace.recorded.profiled != 0
            rows = rows[: trace.recorded.profiled or None] if source == "marks" else rows
            return Runs(source, trace.start_ns[rows], trace.end_ns[rows], rows, complete)
    if trace.recorded.profiled is not None:
        # Ours, and not one run of it came as far as to be marked.
        return Runs("marks", *(np.zeros(0, np.int64),) * 3, complete=False)
    if not len(trace):
        return Runs("trace", *(np.zeros(0, np.int64),) * 3)
    return Runs("trace", trace.start_ns[:1], trace.end_ns.max(keepdims=True), np.zeros(0, np.int64))


def _merged(trace: Trace, table: Ints, nesting: Nesting, counted: Mask) -> Mask:
    children = np.bincount(nesting.parent[nesting.parent >= 0], minlength=len(table))
    name, parent = trace.name[table], nesting.parent
    merged = np.zeros(len(trace), bool)
    if len(table):
        merged[table] = (parent >= 0) & (children[parent] == 1) & (name == name[parent])
        merged[table] &= counted[table[parent]]
    return merged
