"""What keeps torch.compile from being of use."""

from __future__ import annotations

import numpy as np

from ...intervals import NONE, Ints, nest, union
from ...units import duration
from ..finding import Finding
from ..startup import AUTOTUNING, COMPILATION, costing
from .context import LEAST, Context


def graph_breaks(seen: Context) -> list[Finding]:
    """A compiled function that goes back to Python in its middle.

    What comes after a break is a compiled function of its own, which the first one calls: its
    region is inside the other's.
    """
    trace = seen.found.trace
    rows = seen.called("Torch-Compiled Region")
    if not len(rows):
        return []
    nesting = nest(seen.found.lane[rows], trace.start_ns[rows], trace.end_ns[rows])
    inner = nesting.parent != NONE
    broken = rows[inner]
    outer = np.unique(nesting.root[inner])
    count, calls = seen.each(broken), seen.each(rows[outer])
    if not count or not calls:
        # In few of the runs, if in any.
        return []
    whole = seen.of(rows[outer])
    breaks = count / calls
    gain = _gain(seen, rows[outer], breaks + 1)
    if gain < LEAST * seen.wall_us:
        return []
    row = seen.most(rows[outer], trace.duration_ns[rows[outer]])
    where, line = seen.where(row)
    return [
        Finding(
            kind="graph-breaks",
            title=f"{breaks:,.3g} graph break{'' if breaks == 1 else 's'} in a compiled function",
            evidence=(
                f"Each call of it runs {breaks + 1:,.3g} compiled pieces with Python in between "
                f"({calls:,.3g} call{'' if calls == 1 else 's'} and {count:,.3g} breaks in a run); "
                f"its calls take {duration(whole)} of a profiled run."
            ),
            advice=(
                "Compile with fullgraph=True, which raises at the first break and says why (or run "
                "with TORCH_LOGS=graph_breaks): print, .item(), a data-dependent `if` and calls "
                "into other libraries are the usual ones. Move them out of the function."
            ),
            gain_us=gain,
            where=where,
            line=line,
            label=f"{count:,.3g} graph breaks",
        )
    ]


def _gain(seen: Context, regions: Ints, pieces: float) -> float:
    """Return the most that whole calls could save: waits of the device, and kernels not fused."""
    profiled = seen.summary.profiled_wall_us or seen.wall_us
    host = min(seen.of(regions) / profiled, 1.0) * seen.wall_us
    trace = seen.found.trace
    fused = trace.name_is(lambda name: name.startswith("triton"))[seen.work]
    inside = seen.launched_in(seen.work, regions)
    # What one kernel could do is now done by as many as there are pieces.
    apart = seen.of(seen.work[fused & inside]) * (1 - 1 / pieces)
    return min(min(host, seen.idle_us) + apart, seen.wall_us)


def recompiles(seen: Context) -> list[Finding]:
    """Code that is compiled again in runs that were to be warm."""
    found = seen.found
    rows = costing(found, COMPILATION, AUTOTUNING)
    rows = rows[found.run[rows] >= seen.apart]
    time = found.trace.duration_ns[rows]
    spent = union(found.run[rows], found.trace.start_ns[rows], found.trace.start_ns[rows] + time,
                  len(found.runs))  # fmt: skip
    runs = np.unique(found.run[rows])
    warm = bool(found.trace.recorded.asked_warmup) or len(runs) > 1
    total = float(spent.sum()) / 1000 / max(seen.runs, 1)
    if not len(rows) or not warm or total < LEAST * seen.wall_us:
        return []
    gain = total * seen.stretch
    if len(runs) == seen.runs:
        # Compiling takes now longer, now less; what the device does is what surely is left.
        gain = seen.idle_us
    where, line = seen.where(int(rows[0]), "torch.compile")
    return [
        Finding(
            kind="recompiles",
            title="torch.compile compiles again and again",
            evidence=(
                f"{len(runs)} of {len(found.runs)} profiled runs compiled code, though they were "
                f"not the first: {duration(total)} per run."
            ),
            advice=(
                "Something that the compiled code depends on changes from call to call, most often "
                "a shape or a Python number: torch.compile(..., dynamic=True), "
                "torch._dynamo.mark_dynamic(x, 0), or pad to a few fixed sizes. "
                "TORCH_LOGS=recompiles says which."
            ),
            gain_us=min(gain, seen.wall_us),
            where=where,
            line=line,
            label="compiles again",
        )
    ]
