"""What makes a device wait: many small kernels, waits of the host, work of the host."""

from __future__ import annotations

import numpy as np

from ...intervals import NONE, Ints, measure, merge, nest
from ...units import duration
from ..doubts import GRAPH_LAUNCH, short
from ..finding import Finding
from ..idle import CAUSES, loads_data
from ..lines import line_marks
from ..waits import waits
from .context import LAUNCH_US, LEAST, Context
from .transfers import pageable

_SYNC, _OVERHEAD, _PYTHON = range(len(CAUSES))

_MANY = 10
"""Kernels of a run from which on they are many."""

_OVERHEAD_PART = 0.2

_PYTHON_PART = 0.15

_OF_THE_DEVICE = frozenset({"cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize"})
"""Calls that wait until a device has done all there is."""

_LONG_NS = 100_000
"""Longer than Python needs from one operator to the next."""


def small_kernels(seen: Context) -> list[Finding]:
    """Kernels so short that launching them takes longer than running them."""
    found, gaps = seen.found, seen.gaps
    kernels = seen.work[found.trace.category_is("kernel")[seen.work]]
    # A graph launches all of its own at once.
    launch = found.launch[kernels]
    graph = (launch != NONE) & found.trace.name_is(GRAPH_LAUNCH)[launch]
    kernels = kernels[~graph]
    brief = kernels[found.trace.duration_ns[kernels] < LAUNCH_US * 1000]
    count = seen.each(brief)
    overhead = seen.typical(gaps.by_cause_ns[:, _OVERHEAD], gaps.run) / 1000 * seen.slowed
    if count < _MANY or len(brief) < len(kernels) / 2 or overhead < _OVERHEAD_PART * seen.wall_us:
        return []
    shares = gaps.shares(seen.apart)
    if shares[_SYNC] > shares[_OVERHEAD]:
        # Whether the CPU launches fast enough cannot be told while it waits all the time.
        return []
    median = float(np.median(found.trace.duration_ns[brief])) / 1000
    # What Python does between launches goes with them; waits, and what it does for long and
    # outside of all operators, do not. Ahead of the first launch it is for a part the profiler's.
    by_python = _by_python(seen) & (gaps.start_ns > found.runs.start_ns[gaps.run])
    elsewhere = np.where(by_python, _length(seen), gaps.by_cause_ns[:, _SYNC])
    elsewhere_us = seen.least(elsewhere, gaps.run) / 1000 * seen.slowed
    gain = seen.idle_us - elsewhere_us + seen.of(brief)
    gain = min(gain, seen.wall_us * (1 - 1 / count))
    operator = found.operator[brief]
    row = seen.most(np.where(operator != NONE, operator, brief))
    where, line = seen.where(row)
    if seen.launched_in(brief, seen.called("Torch-Compiled Region")).mean() > 0.5:
        advice = (
            'Compile with torch.compile(..., mode="reduce-overhead"), which launches all kernels '
            "of a call at once as a CUDA graph, or give each call more to do (a larger batch)."
        )
    else:
        advice = (
            "Let one call do the work of many: batch it (torch.bmm or a batch dimension in place "
            "of a loop, torch._foreach_*), or torch.compile the code; for shapes that never change "
            'torch.compile(mode="reduce-overhead") or torch.cuda.graph launches all at once.'
        )
    return [
        Finding(
            kind="small-kernels",
            title=f"{count:,.0f} small kernels in each run",
            evidence=(
                f"Half of them take less than {duration(median)}, but a run spends "
                f"{duration(seen.wall_us / count)} per kernel: the GPU is done before the CPU has "
                f"launched the next, and idle for {duration(seen.idle_us)} of each "
                f"{duration(seen.wall_us)} run."
            ),
            advice=advice,
            gain_us=gain,
            where=where,
            line=line,
            label=f"{count:,.0f} small kernels",
        )
    ]


def _length(seen: Context) -> Ints:
    return seen.gaps.by_cause_ns.sum(1)


def _by_python(seen: Context) -> np.ndarray:
    """Mark the idle stretches that are the host's work outside torch, for the most part."""
    python = seen.gaps.by_cause_ns[:, _PYTHON]
    return (python > _LONG_NS) & (2 * python > _length(seen))


def host_gap(seen: Context) -> list[Finding]:
    """The device idles while the host works outside torch."""
    gaps = seen.gaps
    by_python, length = _by_python(seen), _length(seen)
    python = np.flatnonzero(by_python & (gaps.run >= seen.apart))
    total = seen.typical(length[python], gaps.run[python]) / 1000
    if not len(python) or total * seen.slowed < _PYTHON_PART * seen.wall_us:
        return []
    gain = total * seen.stretch
    if total > seen.typical(np.where(by_python, 0, length), gaps.run) / 1000:
        # Where that is what there is, what is made ready in them and then copied may go with it.
        gain = max(gain, seen.idle_us)
    gain = min(gain, seen.wall_us)
    count = seen.typical(np.ones(len(python)), gaps.run[python])
    own = seen.typical(gaps.by_cause_ns[python, _PYTHON], gaps.run[python]) / 1000
    longest = seen.typical_largest(length[python], gaps.run[python]) / 1000
    where, line, loader = _meanwhile(seen, python)
    worked = seen.found.trace.name_is(lambda name: loads_data(name) and "MultiProcessing" in name)
    advice = (
        "The DataLoader has workers, and they are too slow: give it more (num_workers), a larger "
        "prefetch_factor and pin_memory=True, or do less for each sample."
        if loader and worked[seen.host].any()
        else "Give the DataLoader workers (num_workers, persistent_workers) and pin_memory=True, "
        "so that batches are made while the GPU computes."
        if loader
        else "Do this work ahead of the loop, in another process (a DataLoader with num_workers) "
        "while the GPU computes, or on the GPU in torch; a sleep or a print can go."
    )
    who = "the data loader" if loader else "Python"
    return [
        Finding(
            kind="host-gap",
            title=f"the GPU waits {duration(own)} for {who}",
            evidence=(
                f"In each run there {_are(count, 'stretch', 'stretches')} in which the GPU has "
                f"nothing to do and the CPU mostly does work of its own (Python, data), "
                f"{duration(total)} of a profiled run in all, {duration(own)} of that its own "
                f"work; the longest took {duration(longest)}."
            ),
            advice=advice,
            gain_us=gain,
            where=where,
            line=line,
            label=f"GPU waits {duration(own)}",
        )
    ]


def _are(count: float, one: str, many: str) -> str:
    return f"is 1 {one}" if count == 1 else f"are {count:,.3g} {many}"


def _meanwhile(seen: Context, stretches: Ints) -> tuple[str, int | None, bool]:
    """Return where the host was in idle stretches, its line, and whether it loaded data."""
    found, gaps = seen.found, seen.gaps
    trace = found.trace
    rows = np.flatnonzero(
        trace.category_is("user_annotation") & found.counted & (found.run != NONE)
    )
    rows = rows[~trace.name_is(lambda name: name.startswith("ProfilerStep"))[rows]]
    lines = line_marks(found)
    candidates = np.r_[lines, rows]
    overlap = np.zeros(len(candidates), np.int64)
    for start, end in zip(
        gaps.start_ns[stretches].tolist(), gaps.end_ns[stretches].tolist(), strict=True
    ):
        overlap += np.maximum(
            np.minimum(trace.end_ns[candidates], end)
            - np.maximum(trace.start_ns[candidates], start),
            0,
        )
    whole = int((gaps.end_ns - gaps.start_ns)[stretches].sum())
    loads = trace.name_is(loads_data)
    loader = bool(overlap[loads[candidates]].sum() > whole / 2)
    line = None
    if len(lines):
        by_line = np.bincount(seen.line[lines], _own_overlap(seen, lines, stretches))
        line = int(np.argmax(by_line)) if by_line.any() else None
    names, at = np.unique(trace.name[rows], return_inverse=True)
    by_name = np.bincount(at, overlap[len(lines) :], len(names))
    note = ""
    if len(names) and by_name.max() > whole / 2:
        note = f"in {short(trace.names[names[np.argmax(by_name)]])}"
    else:
        note = f"before {_mostly_ahead(seen, stretches)}"
    if line is None:
        return note, None, loader
    return f"line {line}" + (f" · {note}" if note.startswith("in ") else ""), line, loader


def _mostly_ahead(seen: Context, stretches: Ints) -> str:
    """Return the name of what came after most of the time in idle stretches."""
    gaps, ahead = seen.gaps, seen.gaps.next[stretches]
    operator = np.where(seen.entry(ahead) != NONE, seen.entry(ahead), ahead)
    name = np.where(ahead != NONE, seen.found.trace.name[operator], NONE)
    names, at = np.unique(name, return_inverse=True)
    length = (gaps.end_ns - gaps.start_ns)[stretches]
    most = int(names[np.argmax(np.bincount(at.reshape(-1), length))])
    return "the end of the run" if most == NONE else short(seen.found.trace.names[most])


def _own_overlap(seen: Context, lines: Ints, stretches: Ints) -> Ints:
    """Return how much of the stretches each mark of a line covers, less the marks inside it."""
    trace, gaps = seen.found.trace, seen.gaps
    begin, end = merge(gaps.start_ns[stretches], gaps.end_ns[stretches])
    total = measure(begin, end, trace.start_ns[lines], trace.end_ns[lines])
    around = nest(np.zeros(len(lines), np.int64), trace.start_ns[lines], trace.end_ns[lines]).parent
    inner = around != NONE
    return total - np.bincount(around[inner], total[inner], len(lines)).astype(np.int64)


def sync(seen: Context) -> list[Finding]:
    """The host waits for the device in mid-run, and then the device for the host."""
    found, gaps = seen.found, seen.gaps
    owned = np.flatnonzero((gaps.wait != NONE) & (gaps.run >= seen.apart))
    # A copy from pageable memory waits too, but what is to be changed there is the memory.
    copies = pageable(seen)
    entries = np.unique(seen.entry(found.launch[copies]))
    entry = seen.entry(gaps.wait[owned])
    owned = owned[
        ~np.isin(entry, entries[entries != NONE]) & ~np.isin(gaps.wait[owned], found.launch[copies])
    ]
    # Who waits for the whole device at the end of a step measures how long it takes.
    whole = found.trace.name_is(_OF_THE_DEVICE.__contains__)
    owned = owned[(gaps.next[owned] != NONE) | ~whole[gaps.wait[owned]]]
    # Where Python then works for longer than the wait took, it would hold the device up anyway.
    owned = owned[gaps.by_cause_ns[owned, _SYNC] > 0]
    idle_us = seen.typical(gaps.by_cause_ns[owned, _SYNC], gaps.run[owned]) / 1000
    if not len(owned) or idle_us * seen.slowed < LEAST * seen.wall_us:
        return []
    waited = gaps.wait[owned]
    every = seen.host[waits(found)[seen.host]]
    row = seen.most(waited, gaps.by_cause_ns[owned, _SYNC])
    entered = int(seen.entry(row))
    # A call can wait more than once: all of it is one stop.
    stops = seen.entry(waited)
    stops = every[np.isin(seen.entry(every), stops[stops != NONE]) | np.isin(every, waited)]
    count = seen.typical(np.ones(len(waited)), gaps.run[owned])
    where, line = seen.where(row)
    python = seen.typical(gaps.by_cause_ns[:, _PYTHON], gaps.run) / 1000 * seen.slowed
    read = seen.work[np.isin(found.launch[seen.work], every)]
    gain = max(seen.idle_us - python, idle_us * seen.slowed) + seen.of(read)
    called = seen.name(row if entered == NONE else entered)
    times = f"{count:,.0f} wait{'' if count == 1 else 's'}"
    return [
        Finding(
            kind="sync",
            title=f"{times} for the GPU",
            evidence=(
                f"In each run the CPU stops {count:,.0f} time{'' if count == 1 else 's'} until the "
                f"GPU is done, {duration(seen.of(stops))} in all; "
                f"after that the GPU has nothing to do for {duration(idle_us / count)} each time, "
                f"until the CPU has launched the next kernel ({duration(idle_us)} of a profiled "
                f"run)."
            ),
            advice=_instead(called, _to_device(seen, row)),
            gain_us=min(gain, seen.wall_us),
            where=where,
            line=line,
            label=times,
        )
    ]


def _to_device(seen: Context, wait: int) -> bool:
    """Tell whether the host waits for a copy of its own memory, rather than for a result."""
    found, entered = seen.found, int(seen.entry(wait))
    launch = found.launch[seen.work]
    inside = (launch != NONE) & (entered != NONE) & (seen.entry(launch) == entered)
    copied = seen.work[(launch == wait) | inside]
    copied = copied[found.trace.category_is("gpu_memcpy")[copied]]
    there = found.trace.name_is(lambda name: "HtoD" in name or "HostToDevice" in name)[copied]
    return len(copied) > 0 and bool(there.all())


def _instead(called: str, to_device: bool) -> str:
    if called in ("aten::item", "aten::_local_scalar_dense"):
        return (
            "Keep the value on the GPU (total += loss.detach()) and read it with .item() once, "
            "after the loop, or only every so many steps."
        )
    if called == "aten::is_nonzero":
        return (
            "An `if` on a tensor waits for it: use torch.where, or test only every so many steps."
        )
    if called in ("aten::nonzero", "aten::index", "aten::masked_select", "aten::unique",
                  "aten::_unique2", "aten::where"):  # fmt: skip
        return (
            "A result whose size depends on the data makes the CPU wait for it: keep the size "
            "fixed (torch.where(mask, x, 0) in place of x[mask]), or do it once for all."
        )
    if to_device:
        return (
            "Make the data on the GPU (torch.arange(..., device=...), torch.full), or copy it "
            "once, ahead of the loop; a copy from pinned memory (x.pin_memory()) with "
            "non_blocking=True waits for nothing."
        )
    if called in ("aten::to", "aten::copy_", "aten::_to_copy", "aten::cpu"):
        return (
            "Collect the results on the GPU and copy them once after the loop; a copy with "
            "non_blocking=True into pinned memory (torch.empty(..., pin_memory=True)) waits for "
            "nothing, but needs one torch.cuda.synchronize() before it is read."
        )
    return (
        "Take torch.cuda.synchronize() (and other waits) out of the loop: the GPU works in the "
        "order of the launches, and only what the CPU reads needs a wait. For timing use "
        "torch.cuda.Event."
    )
