"""Two profiles side by side: tables joined on the name, and figures per run."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import tables
from .attribution import Attribution
from .summary import Summary, unprofiled_us

_SELF_DEVICE = ("self_device_us", "self_launched_us")
"""Columns of the operators that add up to the device time of a row itself: a CUDA graph is launched
outside of all operators, by a call that is a row of its own."""

_OF_OPERATORS = (
    "self_cpu_us", "cpu_us", "self_device_us", "device_us", "self_launched_us", "launched_us",
)  # fmt: skip
_DEVICE = re.compile("device|launched").search
_FEWEST = 5
"""Unprofiled runs of each from which on noise can be told from a difference."""

_SURE = 3.0
"""Standard errors from which on two medians differ."""


@dataclass(frozen=True)
class Difference:
    """Figures of A and B per run, as `Summary` has them; what was not measured is None."""

    wall_us_a: float | None
    wall_us_b: float | None
    wall_ratio: float | None
    """Wall of B over wall of A: below 1, B is the faster one."""
    wall_error: float | None
    """Standard error of that ratio, from the scatter of the unprofiled runs; None for fewer than
    five of either."""
    differs: bool | None
    """Whether the walls differ by more than chance explains; None where that is not known."""
    loop_us_a: float | None
    """Time per run of many in a row, where the host may run ahead: what a loop over the code takes.
    The wall of one run has the wait for the device in it."""
    loop_us_b: float | None
    loop_ratio: float | None
    device_busy_us_a: float | None
    device_busy_us_b: float | None
    launches_a: float | None
    launches_b: float | None
    kernels_a: float | None
    """Kernels that ran on devices."""
    kernels_b: float | None
    peak_device_bytes_a: int | None
    peak_device_bytes_b: int | None
    first_run_us_a: float | None
    first_run_us_b: float | None
    warnings: tuple[str, ...]
    """What a reader must know to trust the comparison."""


def operators(a: Attribution, b: Attribution) -> pd.DataFrame:
    """Return a row per operator of either, as `Comparison.operators` describes it."""
    one, other = (tables.operators(found) for found in (a, b))
    device = bool(a.work.any() or b.work.any())
    return _joined(a, b, one, other, _OF_OPERATORS, _SELF_DEVICE if device else ("self_cpu_us",))


def kernels(a: Attribution, b: Attribution) -> pd.DataFrame:
    """Return a row per kernel name of either, as `Comparison.kernels` describes it."""
    one, other = (tables.kernels(found) for found in (a, b))
    return _joined(a, b, one, other, ("device_us",), ("device_us",), of_device=True)


def _joined(
    a: Attribution,
    b: Attribution,
    one: pd.DataFrame,
    other: pd.DataFrame,
    times: Sequence[str],
    leading: Sequence[str],
    of_device: bool = False,
) -> pd.DataFrame:
    """Return both tables side by side; `leading` are the columns whose sum tells the difference.

    `of_device` says that all of their rows are device work.
    """
    columns = ["calls", *times]
    # What B has in more or fewer runs is brought to as many as A has: calls that each run has stay
    # whole numbers.
    runs = max(len(a.runs), 1), max(len(b.runs), 1)
    after = _by_name(other, columns)
    if runs[0] != runs[1]:
        after = after * runs[0] / runs[1]
    scaled = _by_name(one, columns), after
    names = scaled[0].index.union(scaled[1].index, sort=False)
    frame = pd.DataFrame({"name": pd.Series(list(names), dtype=object)})
    for column in columns:
        for side, found, table in zip("ab", (a, b), scaled, strict=True):
            told = table[column].reindex(names).to_numpy(float)
            # A row that one of them lacks took no time in it, where such time was measured.
            told_of_device = of_device or _DEVICE(column)
            stopped = not found.runs.complete and not len(found.runs)
            measured = found.work.any() or not (told_of_device or stopped)
            frame[f"{column}_{side}"] = np.nan_to_num(told) if measured else np.nan
    sums = [sum(frame[f"{column}_{side}"] for column in leading) for side in "ab"]
    frame["delta_us"] = sums[1] - sums[0]
    frame["ratio"] = (sums[1] / sums[0]).where(sums[0] > 0)
    return largest_first(frame)


def largest_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the largest difference first, of equal ones in the order they had."""
    size = np.nan_to_num(frame["delta_us"].abs().to_numpy(), nan=-1.0)
    return frame.iloc[np.argsort(-size, kind="stable")].reset_index(drop=True)


def _by_name(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    return table.groupby("name", sort=False)[columns].sum(min_count=1).astype(float)


def difference(a: tuple[Attribution, Summary], b: tuple[Attribution, Summary]) -> Difference:
    """Return the figures of two profiles, and whether their walls differ by more than noise."""
    (one, first), (other, second) = a, b
    warnings = []
    if None not in (first.wall_us, second.wall_us) and first.wall_source != second.wall_source:
        warnings.append(
            "one wall is of unprofiled runs and the other of profiled ones, so their ratio is none "
            "of the code"
        )
    if first.device_names != second.device_names and first.device_names and second.device_names:
        warnings.append(
            f"the devices differ: {', '.join(first.device_names)} and "
            f"{', '.join(second.device_names)}"
        )
    recorded = [found for found in (one, other) if len(found.runs) and found.runs.complete]
    if len(recorded) == 2 and one.work.any() != other.work.any():
        warnings.append(
            "one of them has work of a device in its record and the other none: there is nothing "
            "to compare that with"
        )
    if stopped := [found for found in (one, other) if not found.runs.complete]:
        warnings.append(
            "a profiled run was stopped by an error, so the tables compare a part of it with whole "
            "runs"
            if all(len(found.runs) for found in stopped)
            else "an error came before the first profiled run of "
            + ("either" if len(stopped) == 2 else "one of them, so the tables have nothing of it")
        )
    torches = [found.trace.recorded.torch for found in (one, other)]
    if None not in torches and torches[0] != torches[1]:
        warnings.append(f"the versions of torch differ: {torches[0]} and {torches[1]}")
    ratio = (
        second.wall_us / first.wall_us
        if first.wall_us and second.wall_us and first.wall_source == second.wall_source
        else None
    )
    loops = [
        statistics.median(found.trace.recorded.loop_s) * 1e6
        if found.trace.recorded.loop_s
        else None
        for found in (one, other)
    ]
    error = _error(unprofiled_us(one), unprofiled_us(other)) if ratio is not None else None
    return Difference(
        wall_us_a=first.wall_us,
        wall_us_b=second.wall_us,
        wall_ratio=ratio,
        wall_error=error,
        # By the logarithm: so it is the same with A and B changed over.
        differs=None
        if error is None or ratio is None
        else abs(math.log(ratio)) > _SURE * error / ratio,
        loop_us_a=loops[0],
        loop_us_b=loops[1],
        loop_ratio=loops[1] / loops[0] if loops[0] and loops[1] else None,
        device_busy_us_a=first.device_busy_us,
        device_busy_us_b=second.device_busy_us,
        launches_a=first.launches,
        launches_b=second.launches,
        kernels_a=_kernels(one),
        kernels_b=_kernels(other),
        peak_device_bytes_a=first.peak_device_bytes,
        peak_device_bytes_b=second.peak_device_bytes,
        first_run_us_a=first.first_run_us,
        first_run_us_b=second.first_run_us,
        warnings=tuple(warnings),
    )


def _kernels(found: Attribution) -> float | None:
    """Return how many kernels a run has, the median; None where no run came to its end."""
    apart = tables.runs_apart(found)
    if not found.work.any() or not found.runs.complete or len(found.runs) <= apart:
        return None
    rows = np.flatnonzero(found.work & found.trace.category_is("kernel") & (found.run >= apart))
    return float(np.median(np.bincount(found.run[rows], minlength=len(found.runs))[apart:]))


def _error(a: list[float], b: list[float]) -> float | None:
    """Return the standard error of the ratio of two medians.

    From the middle half of the runs, which no outlier is in: a median of n values scatters by
    1.25 of their standard deviation over the root of n, and the quartiles lie 1.35 of it apart.
    """
    if min(len(a), len(b)) < _FEWEST:
        return None
    parts = []
    for values in (a, b):
        lower, middle, upper = statistics.quantiles(values, n=4)
        parts.append(1.2533 * (upper - lower) / 1.349 / math.sqrt(len(values)) / middle)
    return statistics.median(b) / statistics.median(a) * math.hypot(*parts)
