"""Costs that come from how the code is set up: start-up, memory, an optimizer's loop."""

from __future__ import annotations

import numpy as np

from ...intervals import NONE, Ints, measure, merge
from ...units import duration
from ..finding import Finding
from ..startup import MEMORY, costing, startup
from .context import LAUNCH_US, LEAST, Context

_STARTUP_PART = 0.2

_PARAMETERS = 20
"""Kernels of an optimizer's step from which on they are a loop over parameters."""


def cold_start(seen: Context) -> list[Finding]:
    """A profile whose first run paid for loading, compiling and allocating."""
    found = seen.found
    if found.trace.recorded.asked_warmup:
        return []
    costs = startup(found)
    first = costs[costs["run"] == 1]
    total = float(first["cpu_us"].sum())
    wall = float(found.runs.end_ns[0] - found.runs.start_ns[0]) / 1000
    if total < _STARTUP_PART * wall:
        return []
    by_cost = first.groupby("cost")["cpu_us"].sum().sort_values(ascending=False)
    largest = ", ".join(f"{cost} {duration(us)}" for cost, us in by_cost.head(3).items())
    several = len(found.runs) > 1 or seen.summary.wall_source == "unprofiled"
    return [
        Finding(
            kind="cold-start",
            title=f"the first run paid {duration(total)} to get started",
            evidence=(
                f"It took {duration(wall)}; of that {largest}."
                + ("" if several else " No other run says what one takes without it.")
            ),
            advice=(
                "Warm up before you measure (%%tprofile does, with --warmup 3); if it is the first "
                "run that matters, load and compile ahead of it, and keep compiled code on disk "
                "(TORCHINDUCTOR_CACHE_DIR, torch.compiler.save_cache_artifacts)."
            ),
            gain_us=total if not several else None,
            where="run 1",
        )
    ]


def allocator(seen: Context) -> list[Finding]:
    """Memory that is asked of the driver, and given back to it, in the runs."""
    found, trace = seen.found, seen.found.trace
    rows = costing(found, MEMORY)
    rows = rows[found.run[rows] >= seen.apart]
    # Those in the order of a stream take from a pool of the driver's, as torch does from its own.
    rows = rows[~trace.name_is(lambda name: name.endswith("Async"))[rows]]
    # A run may well ask for its memory when it is the first.
    again = len(np.unique(found.run[rows])) > 1
    cold = not again and not (len(found.runs) == 1 and trace.recorded.asked_warmup)
    time, count = seen.of(rows), seen.each(rows)
    if not len(rows) or cold or time < LEAST * seen.wall_us or count < 1:
        return []
    row = seen.most(rows, trace.duration_ns[rows])
    where, line = seen.where(row)
    names = dict.fromkeys(seen.name(int(r)) for r in rows)
    host = rows[trace.name_is(lambda name: "Host" in name)[rows]]
    pinned = 2 * seen.of(host) > time
    advice = (
        "Pin memory once, ahead of the loop, and copy into it (buffer.copy_(x)), or let a "
        "DataLoader do it in a thread of its own (pin_memory=True)."
        if pinned
        else "Take torch.cuda.empty_cache() out of the loop. If there is none, memory is short "
        "or in pieces: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, smaller batches, "
        "and tensors of few different sizes."
    )
    return [
        Finding(
            kind="allocator",
            title=f"{count:,.3g} calls for {'pinned' if pinned else 'device'} memory in each run",
            evidence=(
                f"{', '.join(list(names)[:4])}: {duration(time)} of a profiled run. torch keeps "
                "memory that is free and gives it out again; to ask the driver is slow, and to "
                "give it back waits for the GPU."
            ),
            advice=advice,
            gain_us=min(_gain(seen, rows, time), seen.wall_us),
            where=where,
            line=line,
            label=f"{count:,.3g} memory calls",
        )
    ]


def _gain(seen: Context, rows: Ints, time: float) -> float:
    """Return the most that could be saved: the calls, and the idle time that they are in."""
    trace, gaps = seen.found.trace, seen.gaps
    begin, end = merge(trace.start_ns[rows], trace.end_ns[rows])
    with_calls = measure(begin, end, gaps.start_ns, gaps.end_ns) > 0
    idle = seen.typical(np.where(with_calls, gaps.by_cause_ns.sum(1), 0), gaps.run) / 1000
    return min(max(time * seen.stretch, idle), seen.idle_us + LEAST * seen.wall_us)


def for_loop_optimizer(seen: Context) -> list[Finding]:
    """An optimizer that goes through the parameters one by one."""
    trace = seen.found.trace
    steps = seen.called("Optimizer.step")
    if not len(steps):
        return []
    inside = seen.launched_in(seen.work, steps)
    kernels = seen.work[inside & trace.category_is("kernel")[seen.work]]
    single = kernels[~trace.name_is(lambda n: "multi_tensor_apply" in n or "triton" in n)[kernels]]
    per_step = len(single) / len(steps)
    if per_step < _PARAMETERS or len(single) < len(kernels) / 2:
        return []
    profiled = seen.summary.profiled_wall_us or seen.wall_us
    host = min(seen.of(steps) / profiled, 1.0) * seen.wall_us
    # Of the CPU's time only that counts for which the device has to wait.
    gain = min(max(host, seen.of(single)), seen.idle_us + seen.of(single), seen.wall_us)
    median = float(np.median(trace.duration_ns[single])) / 1000
    if gain < LEAST * seen.wall_us or median >= 5 * LAUNCH_US:
        return []
    name = seen.name(int(steps[0]))
    line = int(seen.line[steps[0]])
    return [
        Finding(
            kind="for-loop-optimizer",
            title=f"the optimizer launches {per_step:,.0f} kernels in each step",
            evidence=(
                f"{name} goes through the parameters one by one: half of its kernels take less "
                f"than {duration(median)}, and a step takes "
                f"{duration(seen.of(steps) / max(seen.each(steps), 1))} of the CPU's time under "
                "the profiler."
            ),
            advice=(
                "Make the optimizer with fused=True (torch.optim.AdamW(parameters, fused=True)), "
                "or foreach=True: a few kernels for all parameters."
            ),
            gain_us=gain,
            where=f"line {line} · {name}" if line != NONE else name,
            line=line if line != NONE else None,
            label=f"{per_step:,.0f} optimizer kernels",
        )
    ]
