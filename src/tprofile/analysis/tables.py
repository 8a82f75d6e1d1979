"""The frames that a user reads, from an Attribution. Times in microseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from ..errors import TprofileError
from ..intervals import NONE, Ints, climb, number, union
from ..trace import Trace, encode
from . import arguments
from .attribution import Attribution, Mask


def operators(found: Attribution, by: str | None = None) -> pd.DataFrame:
    """Return a row per operator name (and value of `by`), summed over the runs.

    Columns `name`, then the key's column, `calls, self_cpu_us, cpu_us, self_device_us, device_us,
    category`. The rows are those of the CPU in torch's `key_averages()`: annotations apart from
    operators of the same name, `ProfilerStep#N` as one row. Totals of a name inside itself are
    counted once. Device times are NaN where the trace has no device work: not 0, not measured.
    """
    trace = found.trace
    table = found.table
    names, name_of = _step_names(trace.names)
    key_parts = [name_of[trace.name[table]], trace.category_is("user_annotation")[table]]
    labels = None
    if by is not None:
        codes, labels = _key(by)(found, table)
        key_parts.append(codes)
    key = number(*key_parts)
    # A call that was merged into the one around it belongs to that one's row.
    merged = found.merged[table]
    key = key[climb(found.nesting.parent, np.arange(len(table)), merged)]
    once = ~found.nesting.inside_same(key)
    mine = found.counted[table]
    rows, first, index = np.unique(key[mine], return_index=True, return_inverse=True)

    def total(values: Ints, where: Mask) -> Ints:
        picked = where[mine]
        return np.bincount(index[picked], values[table][mine][picked], len(rows))

    everywhere = np.ones(len(table), bool)
    at = table[mine][first]
    frame: dict[str, object] = {"name": _texts(names[name_of[trace.name[at]]])}
    if by is not None and labels is not None:
        found_labels = labels[codes[mine][first]]
        frame[by] = _texts(found_labels) if labels.dtype == object else found_labels
    frame |= {
        "calls": np.bincount(index[~merged[mine]], minlength=len(rows)),
        "self_cpu_us": total(found.self_cpu_ns, everywhere) / 1000,
        "cpu_us": total(found.cpu_ns, once) / 1000,
        "self_device_us": total(found.self_device_ns, everywhere) / 1000,
        "device_us": total(found.device_ns, once) / 1000,
        "category": _categories(trace, trace.category[at]),
    }
    result = pd.DataFrame(frame)
    if not found.work.any():
        result[["self_device_us", "device_us"]] = np.nan
    return _sorted(result, ["self_device_us", "self_cpu_us"])


def kernels(found: Attribution) -> pd.DataFrame:
    """Return a row per name, operator, device and stream of device work, summed over the runs.

    Columns `name, operator, device, stream, calls, device_us, mean_us, min_us, median_us, max_us,
    category`, and where recorded `grid, block` (None where calls differ) and `occupancy`
    (estimated, in percent, mean weighted by time). `operator` is the operator that launched it,
    or where none was recorded the runtime call that did (a CUDA graph's launch), or None.
    """
    trace = found.trace
    rows = np.flatnonzero(found.work)
    cause = np.where(found.operator != NONE, found.operator, found.launch)[rows]
    cause_name = np.where(cause != NONE, trace.name[cause], NONE)
    key = number(trace.name[rows], cause_name, trace.device[rows], trace.stream[rows])
    distinct, first, index = np.unique(key, return_index=True, return_inverse=True)
    at, by = rows[first], cause_name[first]
    time = pd.Series(trace.duration_ns[rows] / 1000).groupby(index)
    frame = pd.DataFrame(
        {
            "name": _texts(trace.names[trace.name[at]]),
            "operator": _texts(trace.names[i] if i != NONE else None for i in by),
            "device": trace.device[at],
            "stream": trace.stream[at],
            "calls": np.bincount(index, minlength=len(distinct)),
            "device_us": np.bincount(index, trace.duration_ns[rows], len(distinct)) / 1000,
            "mean_us": 0.0,
            "min_us": time.min().to_numpy(),
            "median_us": time.median().to_numpy(),
            "max_us": time.max().to_numpy(),
            "category": _categories(trace, trace.category[at]),
        }
    )
    frame["mean_us"] = frame["device_us"] / frame["calls"]
    return _sorted(frame.assign(**_launch_columns(found, rows, index)), ["device_us"])


def _texts(values: Iterable[str | None]) -> pd.Series:
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
            key: _texts(
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
    """Return a row per profiled run: `run, wall_us, device_busy_us, cpu_us, launches`.

    Runs count from 1. `wall_us` is the time the run took under the profiler; `device_busy_us` the
    time within it in which the busiest device worked; `cpu_us` the time that all threads spent in
    recorded operators, annotations and runtime calls; `launches` the calls that started kernels.
    Busy and launches are NaN where the trace has no device work.
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
        frame["device_busy_us"] = _busy(found).max(axis=1) / 1000
    delimiters = np.zeros(len(trace), bool)
    delimiters[found.runs.rows] = True
    counted = found.counted & (found.run != NONE) & ~delimiters
    frame["cpu_us"] = np.bincount(found.run[counted], found.self_cpu_ns[counted], n) / 1000
    frame["launches"] = _launches(found) if worked else np.nan
    return frame


def _launches(found: Attribution) -> Ints:
    rows = np.flatnonzero(found.work & found.trace.category_is("kernel") & (found.run != NONE))
    # A graph's launch starts many kernels; a kernel whose launch was not recorded is its own.
    by = np.where(
        found.launch[rows] != NONE,
        found.launch[rows],
        len(found.trace)
        + np.where(found.trace.correlation[rows] != 0, found.trace.correlation[rows], rows),
    )
    _, one_each = np.unique(number(found.run[rows], by), return_index=True)
    return np.bincount(found.run[rows][one_each], minlength=len(found.runs))


def _busy(found: Attribution, *categories: str) -> Ints:
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


def devices(found: Attribution, wall_us: float | None) -> pd.DataFrame:
    """Return a row per device that worked, medians per run.

    Columns `device, name, busy_us, busy_fraction, kernels_us, copies_us` (copies and sets).
    `name` is None where the trace does not say it; the fraction is of `wall_us`, at most 1.
    """
    numbers = np.unique(found.trace.device[found.work])
    names = device_names(found)

    def per_run(*categories: str) -> Ints:
        return np.median(_busy(found, *categories), axis=0) / 1000

    busy = per_run() if len(numbers) else np.zeros(0)
    return pd.DataFrame(
        {
            "device": numbers,
            "name": _texts(names.get(int(i)) for i in numbers),
            "busy_us": busy,
            "busy_fraction": np.minimum(busy / wall_us, 1) if wall_us else np.nan,
            "kernels_us": per_run("kernel") if len(numbers) else busy,
            "copies_us": per_run("gpu_memcpy", "gpu_memset") if len(numbers) else busy,
        }
    )


def device_names(found: Attribution) -> dict[int, str]:
    """Return the names of the devices that the trace knows, by index."""
    known = found.trace.header.get("deviceProperties")
    if not isinstance(known, list):
        return {}
    return {
        one["id"]: one["name"]
        for one in known
        if isinstance(one, dict)
        and isinstance(one.get("id"), int)
        and isinstance(one.get("name"), str)
        and one["name"].strip()
    }


def events(found: Attribution) -> pd.DataFrame:
    """Return every event, as recorded, in the order of their starts.

    Columns `name, category, start_us, duration_us, thread, device, stream, correlation,
    external_id, parent, run`. `start_us` counts from the first event; -1 stands for "none"; runs
    count from 1; `parent` is a row of this frame: of a host event the one around it, of device
    work its launch.
    """
    trace = found.trace
    return pd.DataFrame(
        {
            "name": _texts(trace.names[trace.name]),
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
}


def _key(by: str) -> Callable[[Attribution, Ints], _Keyed]:
    if by not in _KEYS:
        choices = ", ".join(repr(k) for k in _KEYS)
        raise TprofileError(f"operators cannot be grouped by {by!r}. Choose one of {choices}.")
    return _KEYS[by]


def _step_names(names: np.ndarray) -> tuple[np.ndarray, Ints]:
    """Return names with all ProfilerStep#N as one, and for each name code its code in these."""
    return encode(["ProfilerStep*" if n.startswith("ProfilerStep#") else n for n in names])


def _categories(trace: Trace, category: Ints) -> pd.Series:
    # With one more, so that there is one to index in a trace of nothing.
    return _texts(np.array([*trace.categories, ""], object)[category])


def _sorted(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    order = [*by, "name"]
    return frame.sort_values(
        order, ascending=[False] * len(by) + [True], kind="stable", ignore_index=True
    )
