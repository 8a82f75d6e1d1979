"""The frames that a user reads, from an Attribution. Times in microseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import TprofileError
from ..intervals import NONE, Floats, Ints, climb, number, union
from ..trace import Trace, encode
from . import arguments
from .attribution import Attribution, Mask, kernel_starts
from .backward import forward
from .doubts import unmatched_launches
from .flops import flops
from .lines import by_line, by_stack
from .modules import by_module
from .queue import delays_us, depth
from .spread import Spread, outlying_runs

MEASURES = ("self_cpu", "cpu", "self_device", "device")
"""What `operators` says of each row: its sum over the runs, and how that differs by run."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """Which row of `operators` each host event counts in. Arrays but `first` are per event."""

    events: Ints
    """The host events of the rows."""
    row: Ints
    first: Ints
    """Index into `events` of the first one of each row."""
    once: Mask
    """Not inside another of the same row: what a total is the sum of."""
    merged: Mask
    """The only child of its namesake: no call of its own."""
    name: pd.Series
    """Name of each row."""
    label: pd.Series | np.ndarray | None
    """What the rows of a name are told apart by."""

    def __len__(self) -> int:
        return len(self.first)

    def total(self, values: Ints, where: Mask | None = None) -> Ints:
        """Return the sum over each row of the values that the trace's events have."""
        picked = slice(None) if where is None else where
        return np.bincount(self.row[picked], values[self.events[picked]], len(self))


def group(found: Attribution, by: str | None = None) -> Grouped:
    """Return the rows of `operators`: a name, annotations apart, and a value of `by`."""
    trace, table = found.trace, found.table
    names, name_of = step_names(trace.names)
    key_parts = [name_of[trace.name[table]], trace.category_is("user_annotation")[table]]
    labels = None
    if by is not None:
        codes, labels = _key(by)(found, table)
        key_parts.append(codes)
    key = number(*key_parts)
    # A call that was merged into the one around it belongs to that one's row.
    merged = found.merged[table]
    key = key[climb(found.nesting.parent, np.arange(len(table)), merged)]
    mine = found.counted[table]
    # What is in no row holds nothing of a row.
    once = ~found.nesting.inside_same(np.where(mine, key, -1 - np.arange(len(key))))
    _, first, row = np.unique(key[mine], return_index=True, return_inverse=True)
    label = None if labels is None else labels[codes[mine][first]]
    return Grouped(
        events=table[mine],
        row=row,
        first=first,
        once=once[mine],
        merged=merged[mine],
        name=texts(names[name_of[trace.name[table[mine][first]]]]),
        label=texts(label) if label is not None and label.dtype == object else label,
    )


def operators(found: Attribution, by: str | None = None) -> pd.DataFrame:
    """Return a row per operator name (and value of `by`), summed over the runs.

    Columns `name`, then the key's column, `calls, self_cpu_us, cpu_us, self_device_us, device_us,
    self_launched_us, launched_us, category`. The rows are those of the CPU in torch's
    `key_averages()`: annotations apart from operators of the same name, `ProfilerStep#N` as one
    row. Totals of a name inside itself are counted once.

    Device times are those of the work that operators launched, as torch counts it. What was
    launched outside all operators is in `launched_us`: `self_launched_us` in the row of the
    runtime call that launched it (a CUDA graph's launch, say), `launched_us` in the rows of all
    that is around that call too. Both kinds are NaN where the trace has no device work: not 0,
    not measured.

    Then `X_min_us, X_median_us, X_max_us` for X of `self_cpu, cpu, self_device, device`: over the
    runs, what the row adds up to in one (0 where it did not occur). Events outside all runs, which
    a trace with ProfilerStep marks can have, are in the sums and in no run. NaN where no run is
    complete. A row by "run" is of one run, and has none of these columns.

    Where the recorder was asked for it, also `flops`, as `flops.count` has them: NaN where those of
    any of the calls are unknown.
    """
    rows = group(found, by)
    frame: dict[str, object] = {"name": rows.name}
    if by is not None:
        frame[by] = rows.label
    frame |= {
        "calls": np.bincount(rows.row[~rows.merged], minlength=len(rows)),
        "self_cpu_us": rows.total(found.self_cpu_ns) / 1000,
        "cpu_us": rows.total(found.cpu_ns, rows.once) / 1000,
        "self_device_us": rows.total(found.self_device_ns) / 1000,
        "device_us": rows.total(found.device_ns, rows.once) / 1000,
        "self_launched_us": rows.total(found.self_launched_ns) / 1000,
        "launched_us": rows.total(found.launched_ns, rows.once) / 1000,
        "category": _categories(found.trace, found.trace.category[rows.events[rows.first]]),
    }
    if found.trace.recorded.flops:
        frame["flops"] = flops(found, rows.events, rows.row, len(rows))
    if by != "run":
        frame |= _spread_columns(found, rows)
    result = pd.DataFrame(frame)
    if not found.work.any():
        result[[c for c in result if "device" in c or "launched" in c]] = np.nan
    return _sorted(result, ["self_device_us", "self_cpu_us"])


def _spread_columns(found: Attribution, rows: Grouped) -> dict[str, object]:
    spread = Spread(found, rows.events, rows.row, len(rows))
    columns: dict[str, object] = {}
    for measure in MEASURES:
        values = getattr(found, f"{measure}_ns")[rows.events]
        if not measure.startswith("self"):
            values = np.where(rows.once, values, 0)
        for statistic, of_rows in zip(("min", "median", "max"), spread.of(values), strict=True):
            columns[f"{measure}_{statistic}_us"] = of_rows / 1000
    return columns


def kernels(found: Attribution) -> pd.DataFrame:
    """Return a row per name, operator, device and stream of device work, summed over the runs.

    Columns `name, operator, device, stream, calls, device_us, mean_us, min_us, median_us, max_us,
    run_min_us, run_median_us, run_max_us, category, delay_us, queued`, and where recorded `grid,
    block` (None where
    calls differ) and `occupancy` (estimated, in percent, mean weighted by time). `operator` is the
    operator that launched it, or where none was recorded the runtime call that did (a CUDA graph's
    launch), or None. Least, median and greatest are of a call, and with `run_` of what the row
    adds up to in a run (0 where it did not occur, NaN where no run is complete); work of no run
    is in the sums alone.
    """
    trace = found.trace
    rows = np.flatnonzero(found.work)
    cause = np.where(found.operator != NONE, found.operator, found.launch)[rows]
    cause_name = np.where(cause != NONE, trace.name[cause], NONE)
    key = number(trace.name[rows], cause_name, trace.device[rows], trace.stream[rows])
    distinct, first, index = np.unique(key, return_index=True, return_inverse=True)
    at, by = rows[first], cause_name[first]
    time = pd.Series(trace.duration_ns[rows] / 1000).groupby(index)
    spread = Spread(found, rows, index, len(distinct)).of(trace.duration_ns[rows])
    frame = pd.DataFrame(
        {
            "name": texts(trace.names[trace.name[at]]),
            "operator": texts(trace.names[i] if i != NONE else None for i in by),
            "device": trace.device[at],
            "stream": trace.stream[at],
            "calls": np.bincount(index, minlength=len(distinct)),
            "device_us": np.bincount(index, trace.duration_ns[rows], len(distinct)) / 1000,
            "mean_us": 0.0,
            "min_us": time.min().to_numpy(),
            "median_us": time.median().to_numpy(),
            "max_us": time.max().to_numpy(),
            "run_min_us": spread[0] / 1000,
            "run_median_us": spread[1] / 1000,
            "run_max_us": spread[2] / 1000,
            "category": _categories(trace, trace.category[at]),
        }
    )
    frame["mean_us"] = frame["device_us"] / frame["calls"]
    frame["delay_us"] = _median(delays_us(found)[rows], index)
    frame["queued"] = _median(depth(found)[rows], index)
    return _sorted(frame.assign(**_launch_columns(found, rows, index)), ["device_us"])


def _median(values: Floats, index: Ints) -> Floats:
    """Return the median of each group, without what is NaN."""
    return np.asarray(pd.Series(values).groupby(index).median().to_numpy(), np.float64)


def texts(values: Iterable[str | None]) -> pd.Series:
    """Return a column of Python strings and None, which pandas 3 would make its own of and NaN."""
    return pd.Series(list(values), dtype=object)


def _launch_columns(found: Attribution, rows: Ints, index: Ints) -> dict[str, object]:
    launches = arguments.launches(found.trace, rows.tolist())
    if all(launch.grid is None for launch in launches):
        return {}
    seen = pd.DataFrame(
        {
            "grid": [str(one.grid) if one.grid else None for one in launches],
            "block": [str(one.block) if one.block else None for one in launches],
            "occupancy": [float("nan") if one.occupancy is None else one.occupancy
                          for one in launches],
            "time": found.trace.duration_ns[rows],
        }
    )  # fmt: skip
    seen["weighted"] = seen["occupancy"] * seen["time"]
    groups = seen.groupby(index)
    same = groups[["grid", "block"]].nunique(dropna=False) == 1
    firsts = groups[["grid", "block"]].first()
    known = seen["time"].where(seen["occupancy"].notna())
    return {
        **{
            key: texts(
                v if one and isinstance(v, str) else None
                for v, one in zip(firsts[key], same[key], strict=True)
            )
            for key in ("grid", "block")
        },
        "occupancy": (
            groups["weighted"].sum(min_count=1) / known.groupby(index).sum(min_count=1)
        ).to_numpy(),
    }


def runs(found: Attribution) -> pd.DataFrame:
    """Return a row per profiled run: `run, wall_us, device_busy_us, cpu_us, launches, outlier`.

    Runs count from 1. `wall_us` is the time the run took under the profiler; `device_busy_us` the
    time within it in which the busiest device worked; `cpu_us` the time that all threads spent in
    recorded operators, annotations and runtime calls; `launches` the calls that started kernels.
    Busy and launches are NaN where the trace has no device work, and where a run has none but
    calls that launched some. `outlier` marks a run whose wall or busy time lies away from those of
    the others, as `spread.outlying_runs` tells them.
    """
    trace, n = found.trace, len(found.runs)
    frame = pd.DataFrame(
        {
            "run": np.arange(1, n + 1),
            "wall_us": (found.runs.end_ns - found.runs.start_ns) / 1000,
            "device_busy_us": np.nan,
        }
    )
    worked = bool(found.work.any())
    if worked:
        frame["device_busy_us"] = busy(found).max(axis=1) / 1000
    delimiters = np.zeros(len(trace), bool)
    delimiters[found.runs.rows] = True
    counted = found.counted & (found.run != NONE) & ~delimiters
    frame["cpu_us"] = np.bincount(found.run[counted], found.self_cpu_ns[counted], n) / 1000
    frame["launches"] = _launches(found) if worked else np.nan
    lost = np.zeros(n, bool)
    lost[found.run[unmatched_launches(found) & (found.run != NONE)]] = True
    for column in ("device_busy_us", "launches"):
        frame[column] = frame[column].mask(lost & (frame[column] == 0))
    frame["outlier"] = outlying_runs(found, frame["wall_us"].to_numpy()) | outlying_runs(
        found, frame["device_busy_us"].to_numpy()
    )
    return frame


def _launches(found: Attribution) -> Ints:
    run = found.run[kernel_starts(found)]
    return np.bincount(run[run != NONE], minlength=len(found.runs))


def busy(found: Attribution, *categories: str) -> Ints:
    """Return nanoseconds of work by run and device, over the devices in ascending order.

    What counts is when the work was done: work that goes on after its run has ended (steps that
    wait for nothing) is part of the next one's time.
    """
    trace = found.trace
    devices = np.unique(trace.device[found.work])
    rows = np.flatnonzero(found.work & trace.category_is(*categories) if categories else found.work)
    which, run = found.runs.overlapping(trace.start_ns[rows], trace.end_ns[rows])
    rows = rows[which]
    return union(
        run * len(devices) + np.searchsorted(devices, trace.device[rows]),
        np.maximum(trace.start_ns[rows], found.runs.start_ns[run]),
        np.minimum(trace.end_ns[rows], found.runs.end_ns[run]),
        len(found.runs) * len(devices),
    ).reshape(len(found.runs), len(devices))


def runs_apart(found: Attribution) -> int:
    """Return how many of the first runs are no measure of a run: that of a cold start, or none."""
    cold = found.trace.recorded.asked_warmup == 0
    return 1 if cold and found.runs.complete and len(found.runs) > 1 else 0


def devices(found: Attribution, wall_us: float | None) -> pd.DataFrame:
    """Return a row per device that worked, medians per run, without that of a cold start.

    Columns `device, name, busy_us, busy_fraction, kernels_us, copies_us` (copies and sets).
    `name` is None where the trace does not say it; the fraction is of `wall_us`, at most 1.
    """
    numbers = np.unique(found.trace.device[found.work])
    names = device_names(found)
    apart = np.arange(len(found.runs)) < runs_apart(found)
    known = runs(found)["device_busy_us"].notna().to_numpy() & ~apart

    def per_run(*categories: str) -> Floats:
        told = busy(found, *categories)[known]
        return np.median(told, axis=0) / 1000 if len(told) else np.full(len(numbers), np.nan)

    worked = per_run() if len(numbers) else np.zeros(0)
    return pd.DataFrame(
        {
            "device": numbers,
            "name": texts(names.get(int(i)) for i in numbers),
            "busy_us": worked,
            "busy_fraction": np.minimum(worked / wall_us, 1) if wall_us else np.nan,
            "kernels_us": per_run("kernel") if len(numbers) else worked,
            "copies_us": per_run("gpu_memcpy", "gpu_memset") if len(numbers) else worked,
        }
    )


def device_properties(found: Attribution) -> dict[int, dict[str, Any]]:
    """Return what the trace says of each device, by index, unchecked."""
    known = found.trace.header.get("deviceProperties")
    return {
        one["id"]: one
        for one in (known if isinstance(known, list) else [])
        if isinstance(one, dict) and isinstance(one.get("id"), int)
    }


def device_names(found: Attribution) -> dict[int, str]:
    """Return the names of the devices that the trace knows, by index."""
    return {
        index: one["name"]
        for index, one in device_properties(found).items()
        if isinstance(one.get("name"), str) and one["name"].strip()
    }


def device_units(found: Attribution) -> dict[int, int]:
    """Return how many multiprocessors the devices have of which the trace says it, by index."""
    return {
        index: one["numSms"]
        for index, one in device_properties(found).items()
        if isinstance(one.get("numSms"), int) and one["numSms"] > 0
    }


def events(found: Attribution) -> pd.DataFrame:
    """Return every event, as recorded, in the order of their starts.

    Columns `name, category, start_us, duration_us, thread, device, stream, correlation,
    external_id, parent, run, forward`. `start_us` counts from the first event; -1 stands for
    "none"; runs count from 1. `parent` and `forward` are rows of this frame: of a host event the
    one around it, of device work its launch; of what is part of a backward pass the operator of
    the forward pass that it belongs to.
    """
    trace = found.trace
    return pd.DataFrame(
        {
            "name": texts(trace.names[trace.name]),
            "category": _categories(trace, trace.category),
            "start_us": trace.start_ns / 1000,
            "duration_us": trace.duration_ns / 1000,
            "thread": trace.thread,
            "device": trace.device,
            "stream": trace.stream,
            "correlation": trace.correlation,
            "external_id": trace.external_id,
            "parent": found.parent,
            "run": np.where(found.run != NONE, found.run + 1, NONE),
            "forward": forward(found),
        }
    )


_Keyed = tuple[Ints, np.ndarray]


def _by_shape(found: Attribution, table: Ints) -> _Keyed:
    labels, codes = np.unique(arguments.shapes(found.trace, table.tolist()), return_inverse=True)
    return codes.reshape(-1), labels.astype(object)


def _by_thread(found: Attribution, table: Ints) -> _Keyed:
    labels, codes = np.unique(found.trace.thread[table], return_inverse=True)
    return codes.reshape(-1), labels


def _by_run(found: Attribution, table: Ints) -> _Keyed:
    # Of an event outside all runs the number is -1, as in the events frame.
    labels, codes = np.unique(found.run[table], return_inverse=True)
    return codes.reshape(-1), np.where(labels == NONE, NONE, labels + 1)


_KEYS: dict[str, Callable[[Attribution, Ints], _Keyed]] = {
    "shape": _by_shape,
    "thread": _by_thread,
    "run": _by_run,
    "line": by_line,
    "module": by_module,
    "stack": by_stack,
}


def _key(by: str) -> Callable[[Attribution, Ints], _Keyed]:
    if by not in _KEYS:
        choices = ", ".join(repr(k) for k in _KEYS)
        raise TprofileError(f"operators cannot be grouped by {by!r}. Choose one of {choices}.")
    return _KEYS[by]


def step_names(names: np.ndarray) -> tuple[np.ndarray, Ints]:
    """Return names with all ProfilerStep#N as one, and for each name code its code in these."""
    return encode(["ProfilerStep*" if n.startswith("ProfilerStep#") else n for n in names])


def _categories(trace: Trace, category: Ints) -> pd.Series:
    # With one more, so that there is one to index in a trace of nothing.
    return texts(np.array([*trace.categories, ""], object)[category])


def _sorted(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    order = [*by, "name"]
    return frame.sort_values(
        order, ascending=[False] * len(by) + [True], kind="stable", ignore_index=True
    )
