"""What was allocated and released: how much at a time, by which operator, and the peak of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta, Struct

from ..intervals import NONE, Floats, Ints, number
from ..trace import INSTANT, marks
from . import tables
from .attribution import Attribution, Mask, once

_HOST_TYPES = (0, 2, 5)
"""What torch counts as the CPU: its device types CPU, MKLDNN and IDEEP."""

_Size = Annotated[int, Meta(ge=-(2**52), le=2**52)]
"""Bytes of which a float64 still tells each: more than any device has."""


class _Change(Struct, gc=False):
    """The arguments of an allocation or release, under torch's names."""

    bytes: _Size = msgspec.field(name="Bytes")
    kind: Annotated[int, Meta(ge=0, le=127)] = msgspec.field(name="Device Type")
    index: Annotated[int, Meta(ge=-1, le=127)] = msgspec.field(name="Device Id")
    allocated: _Size | None = msgspec.field(name="Total Allocated", default=None)
    reserved: _Size | None = msgspec.field(name="Total Reserved", default=None)


class _Failure(Struct, gc=False):
    """The arguments of an allocation that failed."""

    kind: int = msgspec.field(name="Device Type")
    index: int = msgspec.field(name="Device Id")
    bytes: int = msgspec.field(name="Bytes", default=0)
    """0 where it is not told."""


_T = TypeVar("_T", _Change, _Failure)


@dataclass(frozen=True, eq=False)
class Changes:
    """Every allocation and release that a trace tells of, by time. Arrays have a value per each."""

    recorded: bool
    """Whether they were recorded: if so, there may still have been none."""
    row: Ints
    """Event of the trace."""
    bytes: Ints
    """Below 0 for a release."""
    device: Ints
    """Index of the device; `NONE` for memory of the host."""
    allocated: Floats
    """Bytes allocated on the device after it; NaN where that was not recorded."""
    reserved: Floats
    """The same of what torch's allocator holds of the device, in use or not."""
    owner: Ints
    """Innermost operator or annotation around it, on its own thread; `NONE` outside of all."""
    unread: int
    """How many more there were, with a size or a device that makes no sense."""


@once
def changes(found: Attribution) -> Changes:
    """Return what a trace tells of memory, read once for all figures."""
    trace = found.trace
    told = _decoded(found, "[memory]", _Change)
    # A device without a number could not be told from the host.
    known = [
        (row, one)
        for row, one in told
        if one is not None and (one.index >= 0 or one.kind in _HOST_TYPES)
    ]
    rows = np.array([row for row, _ in known], np.int64)
    on_host = np.array([one.kind in _HOST_TYPES for _, one in known], bool)
    return Changes(
        # A file of Kineto's says `profile_memory` where it was only asked for: with all threads,
        # torch records none.
        recorded=bool(told or trace.recorded.memory),
        row=rows,
        bytes=np.array([one.bytes for _, one in known], np.int64),
        device=np.where(on_host, NONE, np.array([one.index for _, one in known], np.int64)),
        allocated=_floats(one.allocated for _, one in known),
        reserved=_floats(one.reserved for _, one in known),
        owner=_owners(found, rows),
        unread=len(told) - len(known),
    )


def _decoded(found: Attribution, name: str, kind: type[_T]) -> list[tuple[int, _T | None]]:
    """Return the instants of a name with their arguments, None where these make no sense."""
    trace = found.trace
    rows = np.flatnonzero(trace.category_is(INSTANT) & trace.name_is(name.__eq__))
    decode = msgspec.json.Decoder(kind).decode
    result: list[tuple[int, _T | None]] = []
    for row in rows.tolist():
        try:
            result.append((row, decode(trace.args(row))))
        except msgspec.ValidationError:
            result.append((row, None))
    return result


def _floats(values: Iterable[int | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], np.float64)


def _owners(found: Attribution, rows: Ints) -> Ints:
    """Return the innermost operator or annotation around each of the given instants.

    torch asks the clock alone, and so counts what one thread allocates under whatever another is
    in at that time, too.
    """
    trace = found.trace
    ours = trace.name_is(marks.KEPT.__contains__)
    owning = trace.category_is("cpu_op", "user_annotation") & ~ours
    around = found.table[owning[found.table]]
    every = np.r_[around, rows]
    instant = np.arange(len(every)) >= len(around)
    thread = number(trace.process[every], trace.thread[every])
    order = np.lexsort((-trace.end_ns[every], instant, trace.start_ns[every], thread))
    # The newest of the thread to have begun; if it has ended, one that it stands in.
    newest = np.maximum.accumulate(np.where(instant[order], NONE, np.arange(len(order))))
    same = (newest != NONE) & (thread[order[newest]] == thread[order])
    owner = np.full(len(every), NONE)
    owner[order[same]] = every[order[newest[same]]]
    owner = owner[len(around) :]
    outside = np.flatnonzero(owner != NONE)
    while len(outside):
        at = owner[outside]
        outside = outside[~owning[at] | (trace.end_ns[at] < trace.start_ns[rows[outside]])]
        owner[outside] = found.parent[owner[outside]]
        outside = outside[owner[outside] != NONE]
    return owner


def memory(found: Attribution) -> pd.DataFrame:
    """Return a row per allocation or release on a device, by time; none if not recorded.

    Columns `time_us` (on the clock of the events), `device, allocated_bytes, reserved_bytes`
    (after it), `bytes` (below 0 for a release), `operator` (None outside of all), `run` (from 1; -1
    outside). Memory of the host has no row: torch knows no total of it.
    """
    trace, made = found.trace, changes(found)
    on = made.device != NONE
    row, owner = made.row[on], made.owner[on]
    run = found.run[row]
    return pd.DataFrame(
        {
            "time_us": trace.start_ns[row] / 1000,
            "device": made.device[on],
            "allocated_bytes": made.allocated[on],
            "reserved_bytes": made.reserved[on],
            "bytes": made.bytes[on],
            "operator": pd.Series(
                [None if i == NONE else trace.names[trace.name[i]] for i in owner], dtype=object
            ),
            "run": np.where(run == NONE, NONE, run + 1),
        }
    )


def operators(found: Attribution, table: pd.DataFrame, by: str | None = None) -> pd.DataFrame:
    """Return the table of operators with `self_device_bytes, self_cpu_bytes`, if recorded.

    Bytes allocated less bytes released by the operators themselves, over the runs.
    """
    trace, made = found.trace, changes(found)
    if not made.recorded:
        return table
    rows = tables.group(found, by)
    category = np.array(trace.categories, object)[trace.category[rows.events[rows.first]]]
    # The table has these rows in an order of its own.
    columns = ["name", "category", *([] if by is None else [by])]
    keys = zip(rows.name, category, *([] if by is None else [rows.label]), strict=True)
    place = {key: row for row, key in enumerate(keys)}
    order = np.array([place[key] for key in zip(*(table[c] for c in columns), strict=True)], int)

    def total(on: Mask) -> Ints:
        on = on & (made.owner != NONE)
        own = np.bincount(made.owner[on], made.bytes[on], len(trace))
        return rows.total(own)[order].astype(np.int64)

    return table.assign(
        self_device_bytes=total(made.device != NONE), self_cpu_bytes=total(made.device == NONE)
    )


def runs(found: Attribution, table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of runs with `peak_device_bytes`, if recorded.

    The most that was allocated at a time on any one device, with what was there when the run
    began. NaN where no allocation tells what that was.
    """
    recorded = changes(found).recorded
    return table.assign(peak_device_bytes=_peaks(found)) if recorded else table


def peak(found: Attribution) -> int | None:
    """Return the median peak of the runs; None where it is not known of each."""
    peaks = _peaks(found)
    if not found.runs.complete or not len(peaks) or np.isnan(peaks).any():
        return None
    return int(np.median(peaks))


def _peaks(found: Attribution) -> Floats:
    runs = found.runs
    nothing = np.full(len(runs), -np.inf)
    peaks = nothing.copy()
    for device in devices(found):
        time, run, *known = levels(found, device)
        # What is not known may have been more than all that is.
        before, after = (np.nan_to_num(level, nan=np.inf) for level in known)
        within = nothing.copy()
        # The level before the first change of a run is that at which the run began.
        inside = run != NONE
        np.maximum.at(within, run[inside], np.maximum(before, after)[inside])
        last = np.searchsorted(time, runs.start_ns) - 1
        unchanged = np.where(last >= 0, after[last], before[0])
        peaks = np.maximum(peaks, np.where(np.isneginf(within), unchanged, within))
    return np.where(np.isfinite(peaks), peaks, np.nan)


def devices(found: Attribution) -> list[int]:
    """Return the devices on which memory is known to have changed."""
    return [int(device) for device in np.unique(changes(found).device) if device != NONE]


def levels(found: Attribution, device: int) -> tuple[Ints, Ints, Floats, Floats]:
    """Return time and run of each change on a device, and the bytes allocated before and after."""
    made = changes(found)
    on = made.device == device
    row, after = made.row[on], made.allocated[on]
    return found.trace.start_ns[row], found.run[row], after - made.bytes[on], after


def warnings(found: Attribution) -> list[str]:
    """Return what a reader must know to trust the figures of memory."""
    told = _failures(found)
    if unread := changes(found).unread:
        told.append(
            f"{unread} allocations or releases were recorded with a size or a device that "
            "makes no sense, and are in no figure"
        )
    for device in devices(found):
        _, run, before, after = levels(found, device)
        unknown = int(np.isnan(after).sum())
        if unknown:
            told.append(
                f"what was allocated in total was not recorded for {unknown} of {len(after)} "
                f"allocations and releases on device {device}: peaks may be unknown"
            )
        # From one change to the next the level stays, if they are all there.
        missed = int(((np.abs(before[1:] - after[:-1]) > 0) & (run[1:] != NONE)).sum())
        if missed:
            told.append(
                f"the memory of device {device} changed {missed} times without a record, by "
                "threads that the profiler does not see: peaks may have been higher, and "
                "operators lack those bytes"
            )
    return told


def _failures(found: Attribution) -> list[str]:
    """Tell of allocations that failed: code may survive that, and take long over it."""
    sizes: dict[str, list[int]] = {}
    for _, one in _decoded(found, "[OutOfMemory]", _Failure):
        if one is not None:
            where = "the CPU" if one.kind in _HOST_TYPES else f"device {one.index}"
            sizes.setdefault(where, []).append(one.bytes)
    return [
        f"{len(each)} allocation{'s' if len(each) > 1 else ''} failed for want of memory on {where}"
        + (f", the largest of {max(each):,} bytes" if any(each) else "")
        + ": the figures are those of code that met it"
        for where, each in sizes.items()
    ]
