"""What holds the code back: a module per family of findings, each told from the trace alone."""

from __future__ import annotations

import math
from dataclasses import replace

from ..attribution import Attribution
from ..finding import Finding
from ..idle import idle
from ..summary import Summary
from ..verdict import UNSEEN, operators_known, unseen
from .compiler import graph_breaks, recompiles
from .context import Context
from .costs import allocator, cold_start, for_loop_optimizer
from .host import host_gap, small_kernels, sync
from .kernels import fusion, layout_copies, low_occupancy, tensor_cores
from .record import dropped_events, profiler_overhead, truncated
from .transfers import pageable_copy

_OF_RUNS = (
    small_kernels, sync, pageable_copy, host_gap, fusion, tensor_cores, low_occupancy,
    graph_breaks, recompiles, cold_start, allocator, layout_copies, for_loop_optimizer,
)  # fmt: skip

_OF_OPERATORS = (small_kernels, host_gap)
"""Those that tell what is torch's work from what is the code's own."""


def findings(found: Attribution, summary: Summary) -> list[Finding]:
    """Return all findings, the largest gain first, then those without one."""
    told = [*dropped_events(found), *truncated(found), *profiler_overhead(found, summary)]
    gaps = idle(found)
    if gaps is not None and summary.wall_us and summary.device_busy_us is not None:
        seen = Context(found, summary, summary.wall_us, summary.device_busy_us, gaps)
        hidden = _OF_OPERATORS if unseen(found) > UNSEEN else ()
        if not operators_known(found):
            hidden = (*hidden, host_gap)
        told += [one for find in _OF_RUNS if find not in hidden for one in find(seen)]
    told = [
        one if one.gain_us is None else replace(one, gain_us=float(one.gain_us)) for one in told
    ]
    return sorted(told, key=lambda one: math.inf if one.gain_us is None else -one.gain_us)
