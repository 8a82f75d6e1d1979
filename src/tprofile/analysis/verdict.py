"""What holds the code back, in one word, and the sentence that proves it."""

from __future__ import annotations

import math
import re

import numpy as np

from ..intervals import NONE, union
from .attribution import Attribution, Mask
from .idle import CAUSES, Idle, busiest, idle
from .roofline import compute_heavy
from .tables import runs_apart

BUSY = 0.8
"""From this part of a run on it is the device that holds the code back."""

_LOST = 0.05
"""From this part of all launches on, lost ones make every share doubtful."""

UNSEEN = 0.2
"""From this part of the device work on, what unseen threads did makes the shares doubtful."""

VERDICTS = (
    "compute-bound", "memory-bound", "transfer-bound", "overhead-bound", "sync-bound",
    "python-bound", "cpu-only", "unknown",
)  # fmt: skip

COLLECTIVE = re.compile(
    r"[nr]cclDevKernel|[nr]cclKernel|nccl_|oneShotAllReduce|cross_device_reduce"
).search
"""Kernels that exchange data with other devices."""

_OF_CAUSE = dict(zip(CAUSES, ("sync-bound", "overhead-bound", "python-bound"), strict=True))


def verdict(found: Attribution, fraction: float | None, lost: Mask) -> tuple[str, str]:
    """Return the verdict on runs with device work, and the reason.

    `fraction` is the part of a run for which the busiest device worked, None where that is not
    known; `lost` marks the launches without work in the record.
    """
    if fraction is None:
        if len(found.runs) and found.runs.complete:
            return "unknown", "how long a run takes, or the GPU works in it, is not known"
        return "unknown", "no run came to its end, so how long one takes is not known"
    launched = found.launch[found.work & (found.run != NONE)]
    known = len(np.unique(launched[launched != NONE]))
    if (n := int(lost.sum())) > _LOST * (known + n):
        return "unknown", (
            f"the record lacks the device work of {n:,} of {known + n:,} launches, so how long the "
            "GPU was idle is not known"
        )
    if fraction >= BUSY:
        return _busy(found, fraction)
    if (part := unseen(found)) > UNSEEN:
        return "unknown", (
            f"the GPU is idle {_percent(1 - fraction)} of a run, but {_percent(part)} of its work "
            "was launched by threads whose operators are not in the record"
        )
    return _idle(idle(found), runs_apart(found), fraction, operators_known(found))


def _busy(found: Attribution, fraction: float) -> tuple[str, str]:
    trace = found.trace
    rows = np.flatnonzero(found.work & (trace.device == busiest(found)))
    which, run = found.runs.overlapping(trace.start_ns[rows], trace.end_ns[rows])
    rows = rows[which]
    start = np.maximum(trace.start_ns[rows], found.runs.start_ns[run])
    end = np.minimum(trace.end_ns[rows], found.runs.end_ns[run])

    def part(which: Mask) -> float:
        """Return the part of the busy time in which at least one of these ran."""
        zero = np.zeros(len(rows), np.int64)
        total = union(zero, start, end, 1)[0]
        return float(union(zero[which], start[which], end[which], 1)[0] / total)

    across = trace.name_is(_across)[rows] & trace.category_is("gpu_memcpy")[rows]
    collective = trace.name_is(lambda name: bool(COLLECTIVE(name)) or "PtoP" in name)[rows]
    whole = f"the GPU works {_percent(min(fraction, 1))} of a run"
    # What runs while kernels do other work is no more than they take, if it takes less.
    if (share := part(collective)) >= 0.5 and share >= part(~collective):
        return (
            "transfer-bound",
            f"{whole}, and {_percent(share)} of that is exchange with other GPUs",
        )
    if (share := part(across)) >= 0.5 and share >= part(~across):
        return "transfer-bound", (
            f"{whole}, and {_percent(share)} of that it copies between host and device"
        )
    if (share := part(compute_heavy(found)[rows])) >= 0.5:
        return "compute-bound", (
            f"{whole}, and {_percent(share)} of that is in GEMMs, convolutions or attention"
        )
    return "memory-bound", (
        f"{whole}, and {_percent(1 - share)} of that is in kernels that move data rather than "
        "compute"
    )


def _percent(part: float) -> str:
    return f"{part * 100:.0f} %"


def unseen(found: Attribution) -> float:
    """Return the part of device work that threads launched of which no operator was recorded.

    torch records those of one thread, unless it is asked for all, as our own recorder does.
    """
    trace = found.trace
    rows = np.flatnonzero(found.work & (found.run != NONE) & (found.launch != NONE))
    if trace.recorded.profiled is not None or not len(rows):
        return 0.0
    seen = np.unique(found.lane[trace.category_is("cpu_op", "user_annotation")])
    unseen = ~np.isin(found.lane[found.launch[rows]], seen)
    # With no operator at all there is nothing that could be missing: code without torch.
    return 0.0 if unseen.all() else float(unseen.mean())


def operators_known(found: Attribution) -> bool:
    """Tell whether operators were recorded, if there were any.

    A trace of another recorder than ours may be of the device alone, or of it and the calls of its
    runtime: that the CPU was in no operator then says nothing. Annotations, such as that of a step,
    are recorded with operators, and so may stand alone where there were none.
    """
    return found.trace.recorded.profiled is not None or bool(
        found.trace.category_is("cpu_op", "user_annotation").any()
    )


def _across(name: str) -> bool:
    return "HtoD" in name or "DtoH" in name or "HostToDevice" in name or "DeviceToHost" in name


def _idle(gaps: Idle | None, first: int, fraction: float, operators: bool) -> tuple[str, str]:
    shares = None if gaps is None else gaps.shares(first)
    if gaps is None or shares is None or math.isnan(shares[0]):
        return "unknown", "the GPU was idle, but when is not in the record"
    cause = int(np.argmax(shares))
    whole = f"the GPU is idle {_percent(1 - fraction)} of a run"
    if not operators and (CAUSES[cause] != "sync" or shares[cause] < 0.5):
        return "unknown", (
            f"{whole}, but no operators are in the record, so what the CPU did meanwhile is not "
            "known"
        )
    told = {
        "sync": "{} of that follows a wait of the CPU for the GPU",
        "overhead": "for {} of that the CPU is in torch operators and launches",
        "python": "for {} of that the CPU does work of its own (Python, data)",
    }[CAUSES[cause]]
    part = float(shares[cause])
    if CAUSES[cause] == "overhead" and (queued := gaps.queued_part(first)) > 0.5:
        part *= queued
        told = (
            "for {} of that the next work is launched already, and waits for the GPU itself, "
            "another stream or another GPU"
        )
    return _OF_CAUSE[CAUSES[cause]], f"{whole}; {told.format(_percent(part))}"
