"""The few figures that stand above all tables, per run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import memory, tables
from .attribution import Attribution
from .doubts import doubts, run_doubts, unmatched_launches
from .verdict import verdict


@dataclass(frozen=True)
class Summary:
    """Figures of one run: medians over the runs. What was not measured is None."""

    verdict: str | None
    """What holds the code back: `compute-bound`, `memory-bound`, `transfer-bound` where the device
    is busy at least 80 % of the time, else `overhead-bound`, `sync-bound`, `python-bound`;
    `cpu-only` where no device was in use, `unknown` where what one did is not in the record. None
    for a trace of nothing.
    """
    reason: str | None
    """The sentence that proves it."""
    wall_us: float | None
    """Time of a run: of the unprofiled ones after the first, or, without them, profiled."""
    wall_source: str | None
    """`unprofiled` or `profiled`."""
    wall_spread: float | None
    """Half the range of the unprofiled runs over their median; None for fewer than three."""
    profiled_wall_us: float | None
    overhead_ratio: float | None
    """Profiled wall over unprofiled wall."""
    earlier_profiles: int | None
    """CUDA profiles that the process had made before, which leave its launches slower; None where
    that was not recorded.
    """
    first_run_us: float | None
    """The first run, with whatever had to be loaded, compiled or allocated: a warm-up run, or, of
    several without warm-up, the first profiled one, which is then in no other figure.
    """
    device_busy_us: float | None
    """Time in which the busiest device worked."""
    device_busy_fraction: float | None
    """The same as a fraction of `wall_us`, at most 1."""
    launches: float | None
    """Calls that started kernels."""
    median_kernel_us: float | None
    """Median duration of the kernels of all runs; copies and sets do not count."""
    device_names: tuple[str, ...]
    """Devices that worked, by name; "device N" for one that the trace does not name."""
    peak_device_bytes: int | None
    warnings: tuple[str, ...]


def summarize(found: Attribution) -> Summary:
    """Return the figures of a trace, and what a reader must know to trust them."""
    warnings: list[str] = [*found.trace.notes, *found.trace.recorded.notes]
    # Of a run that was stopped nothing is known per run.
    every = tables.runs(found)[: None if found.runs.complete else 0]
    per_run = every[tables.runs_apart(found) :]
    worked = bool(found.work.any())
    unprofiled = unprofiled_us(found)
    profiled = _median(per_run["wall_us"])
    wall, source = (_median(unprofiled), "unprofiled") if unprofiled else (profiled, "profiled")
    busy = _median(per_run["device_busy_us"]) if worked else None
    fraction = busy / wall if busy is not None and wall else None
    warnings += _warnings(found, every, unprofiled, fraction)
    warnings += memory.warnings(found)
    names = tables.device_names(found)
    said: str | None = None
    reason: str | None = None
    if len(found.trace):
        said, reason = (
            verdict(found, _part(busy, wall, profiled), unmatched_launches(found))
            if worked
            else _without_work(found)
        )
    recorded = found.trace.recorded
    if worked:
        warnings += recorded.unseen
    if said in ("overhead-bound", "sync-bound", "python-bound"):
        warnings += _distorting(found)
    return Summary(
        verdict=said,
        reason=reason,
        wall_us=wall,
        wall_source=source if wall is not None else None,
        wall_spread=_spread(unprofiled),
        profiled_wall_us=profiled,
        overhead_ratio=profiled / wall if unprofiled and profiled and wall else None,
        earlier_profiles=None if recorded.profiled is None else recorded.earlier,
        first_run_us=_first_run_us(found, every["wall_us"]),
        device_busy_us=busy,
        device_busy_fraction=None if fraction is None else min(fraction, 1.0),
        launches=_median(per_run["launches"]) if worked else None,
        median_kernel_us=_median_kernel_us(found),
        device_names=tuple(
            names.get(int(i), f"device {i}") for i in np.unique(found.trace.device[found.work])
        ),
        peak_device_bytes=memory.peak(found),
        warnings=tuple(warnings),
    )


def unprofiled_us(found: Attribution) -> list[float]:
    """Return the walls of the unprofiled runs that count: not the first of a warm-up."""
    recorded = found.trace.recorded
    return [s * 1e6 for s in recorded.unprofiled_s or recorded.warmup_s[1:]]


def _part(busy: float | None, wall: float | None, profiled: float | None) -> float | None:
    """Return the part of a run for which the device is busy, for the verdict.

    Where the profiled runs were the faster ones, unprofiled ones tell of other conditions.
    """
    shorter = min(wall, profiled) if wall and profiled else wall
    return busy / shorter if busy is not None and shorter else None


def _first_run_us(found: Attribution, walls_us: pd.Series) -> float | None:
    if tables.runs_apart(found):
        return float(walls_us.iloc[0])
    warmups = found.trace.recorded.warmup_s
    return warmups[0] * 1e6 if warmups else None


def _median_kernel_us(found: Attribution) -> float | None:
    kernels = found.trace.duration_ns[found.work & found.trace.category_is("kernel")]
    return float(np.median(kernels)) / 1000 if len(kernels) else None


def _median(values: Sequence[float] | pd.Series) -> float | None:
    # NaN is a run of which it is not known.
    known = [value for value in values if not math.isnan(value)]
    return float(statistics.median(known)) if known else None


def _spread(values: list[float]) -> float | None:
    # A run can be shorter than the clock can tell.
    if len(values) < 3 or not statistics.median(values):
        return None
    return (max(values) - min(values)) / 2 / statistics.median(values)


def _without_work(found: Attribution) -> tuple[str, str]:
    """Return the verdict of a trace without work of a device, and the reason."""
    if found.timeless:
        return "unknown", "the device work in the trace bears no times"
    recorded = found.trace.recorded
    if recorded.unseen:
        return "unknown", "; ".join(recorded.unseen)
    if recorded.platform == "CPU" and recorded.cuda_available is False:
        return "cpu-only", "torch sees no CUDA device here"
    if recorded.platform == "CPU":
        return "cpu-only", "only the CPU was recorded"
    launches = int(unmatched_launches(found).sum())
    if launches:
        return "unknown", f"{launches:,} launches were recorded, and no work of a device"
    return "cpu-only", "no device work was recorded"


def _distorting(found: Attribution) -> list[str]:
    """Return what was recorded that makes the host's part in idle time doubtful."""
    recorded, trace = found.trace.recorded, found.trace
    stacks = recorded.stack or trace.category_is("python_function").any()
    kinds = [kind for kind, on in (("stacks", stacks), ("memory", recorded.memory)) if on]
    if not kinds:
        return []
    return [
        f"{' and '.join(kinds)} {'were' if stacks else 'was'} recorded, which slows Python and "
        "torch unequally: what the CPU did while the GPU was idle, and so the verdict, may be "
        "another without"
    ]


def _warnings(
    found: Attribution, per_run: pd.DataFrame, unprofiled: list[float], fraction: float | None
) -> list[str]:
    warnings = []
    if len(unprofiled) == 1:
        warnings.append("the wall is that of a single unprofiled run: its spread is unknown")
    if fraction is not None and fraction > 1.05:
        warnings.append(
            f"the device was busy {fraction:.2f} times the wall of a run: the profiler slows the "
            "device work of this code, or the wall was taken under other conditions"
        )
    if found.timeless:
        warnings.append(
            f"{found.timeless} kernels, copies or sets were recorded without a duration and are "
            "in no figure"
        )
    warnings += run_doubts(
        found,
        per_run["wall_us"].to_numpy(),
        per_run["device_busy_us"].to_numpy(),
        unprofiled,
    )
    return warnings + doubts(found)
