"""Copies between host and device that cost more than they need to."""

from __future__ import annotations

import numpy as np

from ...intervals import NONE, Ints
from ...units import bytes_unit, duration
from ..arguments import sizes
from ..finding import Finding
from .context import LEAST, Context

_SMALL = 1 << 16
"""Bytes of a copy below which it is the wait that costs, not the copy."""


def pageable(seen: Context) -> Ints:
    """Return the copies to or from memory that is not pinned, but for the small ones."""
    trace = seen.found.trace
    named = trace.name_is(lambda name: name.startswith("Memcpy") and "Pageable" in name)
    rows = seen.work[named[seen.work] & (seen.found.launch[seen.work] != NONE)]
    size = sizes(trace, rows.tolist())
    return rows[~(size < _SMALL)]


def pageable_copy(seen: Context) -> list[Finding]:
    """Copies that go through the driver's own pinned buffer, while the host waits."""
    found, trace = seen.found, seen.found.trace
    copies = pageable(seen)
    if not len(copies):
        return []
    calls = np.unique(found.launch[copies])
    whole = np.unique(np.where(seen.entry(calls) != NONE, seen.entry(calls), calls))
    after = np.isin(seen.gaps.wait, seen.host[np.isin(seen.entry(seen.host), whole)])
    idle_us = seen.typical(np.where(after, seen.gaps.by_cause_ns.sum(1), 0), seen.gaps.run) / 1000
    copy_us = max(seen.of(calls), seen.of(copies))
    if copy_us < LEAST * seen.wall_us:
        return []
    gain = min(copy_us * seen.stretch + idle_us, seen.wall_us)
    size = sizes(trace, copies.tolist())
    count, total = seen.each(copies), seen.typical(np.nan_to_num(size), found.run[copies])
    fit = bytes_unit([total])
    rate = ""
    if not np.isnan(size).any():
        rate = f" at {size.sum() / trace.duration_ns[copies].sum():.1f} GB/s"
    row = seen.most(copies, trace.duration_ns[copies])
    where, line = seen.where(row)
    to_host = "Device -> Pageable" in seen.name(row)
    advice = (
        "Copy into pinned memory with non_blocking=True (out = torch.empty(shape, "
        "pin_memory=True); out.copy_(x, non_blocking=True)), and synchronize once before it is "
        "read; or leave on the GPU what need not come back."
        if to_host
        else "Pin the memory (DataLoader(pin_memory=True), or x.pin_memory() ahead of the loop) "
        'and copy with x.to("cuda", non_blocking=True); or make the data on the GPU, or keep it '
        "there."
    )
    many = f"{count:,.3g} cop{'y' if count == 1 else 'ies'}"
    return [
        Finding(
            kind="pageable-copy",
            title=f"{many} {'to' if to_host else 'from'} memory that is not pinned",
            evidence=(
                f"Each run copies {fit.number(total)} {fit.name}{rate}, which takes "
                f"{duration(seen.of(copies))} of the GPU's time and {duration(seen.of(calls))} of "
                f"the CPU's, which waits for it."
            ),
            advice=advice,
            gain_us=gain,
            where=where,
            line=line,
            label=f"{many}, not pinned",
        )
    ]
