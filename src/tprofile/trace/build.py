"""Put the columns that a reader collected into the one form that a Trace has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ..intervals import NONE, Ints
from .columns import DEVICE_LANES, Details, Trace, encode
from .recorded import Recorded

_LAST_US = 2**61 // 1000
"""No valid time is beyond it, so that the difference of two, in nanoseconds, fits in int64."""


def build(
    *,
    names: Sequence[str],
    categories: Sequence[str],
    start_ns: Sequence[int],
    duration_ns: Sequence[int],
    process: Sequence[int],
    lane: Sequence[int],
    correlation: Sequence[int],
    external_id: Sequence[int],
    details: Details,
    epoch_ns: int = 0,
    lanes: Mapping[int, str] | None = None,
    others: Sequence[bytes] = (),
    header: Mapping[str, Any] | None = None,
    recorded: Recorded | None = None,
    notes: Sequence[str] = (),
) -> Trace:
    """Return a Trace of the given columns, which may come in any order.

    `lane` is the thread of a host event and the stream of a device event; `process` the process
    or the device. `start_ns` may be as large as Unix time.
    """
    start = integers(start_ns)
    duration = integers(duration_ns)
    base = int(start.min()) if len(start) else 0
    start = start - base
    # Python's sorts are stable, as is this: events with equal times keep the source's order, which
    # is the order of their beginnings.
    order = np.lexsort((-duration, start))
    # Numbered in that order too: what ties by name comes out alike, whatever the source's order.
    rows = order.tolist()
    distinct, name = encode([names[row] for row in rows])
    kinds, category = encode([categories[row] for row in rows])
    on_device = np.array([kind in DEVICE_LANES for kind in kinds] or [False])[category]
    where = integers(process)[order]
    lane_ = integers(lane)[order]
    return Trace(
        names=distinct,
        name=name,
        categories=tuple(kinds),
        category=category,
        start_ns=start[order],
        duration_ns=duration[order],
        process=where,
        thread=np.where(on_device, NONE, lane_),
        device=np.where(on_device, where, NONE),
        stream=np.where(on_device, lane_, NONE),
        correlation=integers(correlation)[order],
        external_id=integers(external_id)[order],
        source_row=order,
        details=details,
        base_ns=base,
        epoch_ns=epoch_ns,
        lanes=dict(lanes or {}),
        others=tuple(others),
        header=dict(header or {}),
        recorded=recorded or Recorded(),
        notes=tuple(notes),
    )


def empty() -> Trace:
    """Return a trace of nothing: what a session that failed early has recorded."""
    nothing: list[int] = []
    return build(
        names=[],
        categories=[],
        start_ns=nothing,
        duration_ns=nothing,
        process=nothing,
        lane=nothing,
        correlation=nothing,
        external_id=nothing,
        details=_NoDetails(),
    )


class _NoDetails:
    def args(self, row: int) -> bytes:
        return b"{}"


def integers(values: Sequence[int] | Ints) -> Ints:
    """Return 64-bit integers; an identifier above int64 keeps its bits, as C would keep them."""
    try:
        return np.asarray(values, np.int64).reshape(-1)
    except OverflowError:
        return np.array([(v + 2**63) % 2**64 - 2**63 for v in values], np.int64)


def nanoseconds(us: Decimal) -> int | None:
    """Return microseconds in whole nanoseconds; None for what is no valid time."""
    try:
        # To compare some numbers is too much for a Decimal already.
        return round(us * 1000) if us.is_finite() and abs(us) < _LAST_US else None
    except ArithmeticError:
        return None
