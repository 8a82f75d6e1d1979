"""When a device had nothing to do, and what the host did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..intervals import NONE, Floats, Ints, measure, merge
from ..trace import DEVICE_WORK, marks
from .attribution import Attribution, Mask, once
from .frames import torchs_frames
from .startup import AUTOTUNING, COMPILATION, costing
from .tables import busy
from .waits import waits

CAUSES = ("sync", "overhead", "python")
"""Why a device idles: the host had waited for it, was in torch or the device's runtime (or had
launched already), or did work of its own: Python, or operators that run on the CPU."""

_LONG_NS = 100_000
"""No dispatch of an operator takes as long."""

_OF_TORCH = ("cpu_op", "cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "overhead")
_TORCHS_OWN = ("Optimizer.", "Torch-Compiled Region", "## Call CompiledFxGraph", "TorchDynamo")
"""Annotations that stand for Python code of torch's own."""


def loads_data(name: str) -> bool:
    """Tell whether an annotation is that of a data loader: work that torch does for the user."""
    return name.startswith("enumerate(DataLoader)")


@dataclass(frozen=True, eq=False)
class Idle:
    """The idle stretches of one device within the runs, in order. Arrays have a value for each."""

    device: int
    run: Ints
    """Run, counted from 0."""
    start_ns: Ints
    end_ns: Ints
    next: Ints
    """Event of the work that ended it, or `NONE` where the run did."""
    wait: Ints
    """Call in which the host waited when it began and that returned before it ended, or `NONE`."""
    queued: Mask
    """Whether what ended it had been launched before it began: the delay is the device's own."""
    by_cause_ns: Ints
    """Nanoseconds for each of `CAUSES`, a row per stretch. They add up to its duration, less the
    time of our own wait after the last work."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def queued_part(self, first: int = 0) -> float:
        """Return the part of overhead, in the runs from `first` on, with work launched already."""
        overhead = self.by_cause_ns[:, CAUSES.index("overhead")] * (self.run >= first)
        total = int(overhead.sum())
        return float(overhead[self.queued].sum() / total) if total else 0.0

    def shares(self, first: int = 0) -> Floats:
        """Return the part that each of `CAUSES` has in the idle time of a run, the median of the
        runs from `first` on; NaN where none has any.
        """
        runs, at = np.unique(self.run, return_inverse=True)
        total = np.zeros((len(runs), len(CAUSES)))
        np.add.at(total, at.reshape(-1), self.by_cause_ns)
        typical = np.median(total[runs >= first], axis=0) if (runs >= first).any() else total.sum(0)
        with np.errstate(invalid="ignore"):
            return np.asarray(typical / typical.sum())


@once
def idle(found: Attribution) -> Idle | None:
    """Return the idle time of the busiest device; None where none works while a run lasts."""
    device = busiest(found)
    return None if device is None else of_device(found, device)


def of_device(found: Attribution, device: int) -> Idle:
    """Return the idle time of a device that worked in a run.

    A stretch that begins while the host waits for the device, and goes on after that returned, is
    the wait's, but for the host's time outside torch where that is longer than the wait was: that
    would hold the device up anyway. The rest is split by whether a thread that launches was inside
    a torch operator or runtime call, or not. Where the work had been launched before, the delay is
    the device's own, and counts as overhead.
    """
    trace, runs = found.trace, found.runs
    work = np.flatnonzero(trace.category_is(*DEVICE_WORK) & (trace.device == device))
    work = work[trace.duration_ns[work] > 0]
    begin, end = merge(trace.start_ns[work], trace.end_ns[work])
    first = work[np.searchsorted(trace.start_ns[work], begin)]
    edge = np.iinfo(np.int64)
    which, run = runs.overlapping(np.r_[edge.min, end], np.r_[begin, edge.max])
    start = np.maximum(np.r_[edge.min, end][which], runs.start_ns[run])
    finish = np.minimum(np.r_[begin, edge.max][which], runs.end_ns[run])
    ahead = np.where(finish < runs.end_ns[run], np.r_[first, NONE][which], NONE)
    some = finish > start
    run, start, finish, ahead = run[some], start[some], finish[some], ahead[some]

    threads = _launching(found)
    python = finish - start - _not_python(found, threads, start, finish)
    wait = _wait(found, threads, start, finish)
    launch = np.where(ahead != NONE, found.launch[ahead], NONE)
    queued = (launch != NONE) & (trace.start_ns[launch] <= start) & (wait == NONE)
    # After the last work of a run the device idles while we wait for it: nobody's fault.
    ours = _ours(found, start, finish)
    last = ahead == NONE
    length = finish - start - np.where(last, ours, 0)
    python = np.minimum(np.where(queued, 0, python), length)
    waited = np.where(wait != NONE, trace.duration_ns[wait], 0)
    sync = np.where(wait != NONE, np.where(python > waited, length - python, length), 0)
    python = np.where(sync == length, 0, python)
    return Idle(
        device=device,
        run=run,
        start_ns=start,
        end_ns=finish,
        next=ahead,
        wait=wait,
        queued=queued,
        by_cause_ns=np.stack([sync, length - sync - python, python], 1),
    )


def frame(found: Attribution) -> pd.DataFrame:
    """Return a row per idle stretch of each device, as `Profile.idle` describes it."""
    worked = np.unique(found.trace.device[found.work])[busy(found).any(axis=0)]
    every = [of_device(found, device) for device in worked.tolist()]
    # With one of nothing, so that there is something to join.
    none = np.zeros(0, np.int64)
    causes = np.concatenate([np.zeros((0, len(CAUSES)), np.int64), *[i.by_cause_ns for i in every]])
    wait = np.concatenate([none, *[one.wait for one in every]])
    return pd.DataFrame(
        {
            "device": np.concatenate([none, *[np.full(len(i), i.device) for i in every]]),
            "run": np.concatenate([none, *[one.run for one in every]]) + 1,
            "start_us": np.concatenate([none, *[one.start_ns for one in every]]) / 1000,
            "duration_us": np.concatenate([none, *[i.end_ns - i.start_ns for i in every]]) / 1000,
            **{f"{cause}_us": causes[:, i] / 1000 for i, cause in enumerate(CAUSES)},
            "queued": np.concatenate([np.zeros(0, bool), *[one.queued for one in every]]),
            "wait": wait,
            "next": np.concatenate([none, *[one.next for one in every]]),
        }
    )


@once
def busiest(found: Attribution) -> int | None:
    """Return the device that works most while the runs last; None where none does."""
    worked = busy(found).sum(axis=0)
    return int(np.unique(found.trace.device[found.work])[worked.argmax()]) if worked.any() else None


def _launching(found: Attribution) -> Mask:
    """Mark the host events of the run's own thread, and of those that launched device work."""
    launches = found.launch[found.work]
    wanted = found.lane[np.r_[launches[launches != NONE], found.runs.rows]]
    return np.isin(found.lane, wanted) & ~found.trace.on_device


def _not_python(found: Attribution, threads: Mask, start: Ints, end: Ints) -> Ints:
    """Return the time in each stretch with a thread that launches in torch, or our own wait."""
    trace = found.trace
    inside = trace.category_is(*_OF_TORCH) & ~trace.name_is(marks.KEPT.__contains__)
    inside |= trace.category_is("user_annotation") & trace.name_is(
        lambda name: name.startswith(_TORCHS_OWN)
    )
    works = _works(found)
    rows = np.flatnonzero(threads & inside & found.counted & ~works)
    calls = trace.category_is("python_function")
    at = np.flatnonzero(threads & (calls | works)) if calls.any() else np.zeros(0, np.int64)
    begin, finish = torchs_frames(trace, at, found.lane[at], works)
    rows = np.r_[rows, trace.named(marks.SYNCHRONIZE)]
    begin, finish = np.r_[trace.start_ns[rows], begin], np.r_[trace.end_ns[rows], finish]
    return measure(*merge(begin, finish), start, end)


def _works(found: Attribution) -> Mask:
    """Mark operators that do work of the CPU's own, and all inside: no dispatch for a device.

    They are those that take long themselves, without a call of the device's runtime, and all that
    a data loader does in this thread. Compiling is torch's own.
    """
    trace, table = found.trace, found.table
    operator = trace.category_is("cpu_op")[table]
    calls = found.nesting.subtree_sum((trace.correlation[table] != 0) | ~operator)
    long = operator & (calls == 0) & (found.self_cpu_ns[table] >= _LONG_NS)
    loads = trace.name_is(loads_data)[table]
    compiles = np.zeros(len(trace), bool)
    compiles[costing(found, COMPILATION, AUTOTUNING)] = True
    works = np.zeros(len(trace), bool)
    works[table] = found.nesting.covered(long | loads)
    works[table] &= ~found.nesting.covered(compiles[table])
    return works


def _wait(found: Attribution, threads: Mask, start: Ints, end: Ints) -> Ints:
    """Return the wait in which each stretch begins, if it ends within the stretch; or `NONE`."""
    trace = found.trace
    rows = np.flatnonzero(waits(found) & threads)
    if not len(rows):
        return np.full(len(start), NONE)
    candidate = rows[np.maximum(np.searchsorted(trace.start_ns[rows], start, "right") - 1, 0)]
    opened = (trace.start_ns[candidate] <= start) & (trace.end_ns[candidate] >= start)
    return np.where(opened & (trace.end_ns[candidate] < end), candidate, NONE)


def _ours(found: Attribution, start: Ints, end: Ints) -> Ints:
    trace = found.trace
    rows = trace.named(marks.SYNCHRONIZE)
    return measure(*merge(trace.start_ns[rows], trace.end_ns[rows]), start, end)
