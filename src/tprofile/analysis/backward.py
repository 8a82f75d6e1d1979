"""Tie what a backward pass runs to the operator of the forward pass that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from ..intervals import NONE, Ints, climb, number
from ..trace import Trace
from .attribution import Attribution, Mask

_ENGINE = "autograd::engine::evaluate_function: "
"""What the name of every node begins with when autograd's engine runs it."""

_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _Numbers(Struct, gc=False):
    sequence: _Number | None = msgspec.field(name="Sequence number", default=None)
    forward_thread: _Number = msgspec.field(name="Fwd thread id", default=0)


class _Flow(Struct, gc=False):
    """One end of an arrow that torch draws from a forward operator to its backward."""

    cat: str = ""
    ph: str = ""
    id: int | str = 0
    pid: int | str = 0
    tid: int | str = 0
    ts: Decimal = Decimal(0)


@dataclass(frozen=True, eq=False)
class _Operators:
    """The operators of a trace and what torch numbers them by. A value per operator."""

    rows: Ints
    lane: Ints
    """Number of the thread that it ran in."""
    sequence: Ints
    """Number of the autograd node that is made next, or whose backward this is; or `NONE`."""
    forward_thread: Ints
    """torch's own number of the thread that made the node; 0 for what is no backward."""


def forward(found: Attribution) -> Ints:
    """Return for each event the row of the forward operator whose backward it is part of.

    torch numbers the autograd nodes of each thread: an operator bears the number of the node that
    would be made next in its thread, a backward operator that of its node. So its forward operator
    is the last one in that thread to bear its number before it. What a backward operator contains
    or launches is part of it. `NONE` for all else: what is no backward, has no forward operator
    (gradients that accumulate), or ran in a thread that cannot be told from another, or that was
    not recorded. Without such numbers, the arrows that torch draws into its files tell the same.
    """
    trace = found.trace
    named = np.array([name.startswith(_ENGINE) for name in trace.names] or [False])
    node = named[trace.name] if len(trace) else np.zeros(0, bool)
    pairs = _drawn(trace)
    operators = _numbered(trace) if node.any() else None
    if operators is not None and operators.forward_thread.any():
        pairs = _by_number(operators, pairs)
    ahead, behind = pairs
    tied = np.full(len(trace), NONE)
    tied[behind] = ahead
    # A node inside another one, as where a checkpoint is run again, has a forward of its own.
    nearest = climb(found.parent, np.arange(len(trace)), ~node & (tied == NONE))
    return np.where(nearest != NONE, tied[nearest], NONE)


def _numbered(trace: Trace) -> _Operators:
    rows = np.flatnonzero(trace.category_is("cpu_op"))
    decode = msgspec.json.Decoder(_Numbers).decode
    found = []
    for row in rows.tolist():
        try:
            found.append(decode(trace.args(row)))
        except msgspec.ValidationError:
            found.append(_Numbers())
    return _Operators(
        rows=rows,
        lane=number(trace.process[rows], trace.thread[rows]),
        sequence=_column(NONE if one.sequence is None else one.sequence for one in found),
        forward_thread=_column(one.forward_thread for one in found),
    )


def _column(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)


def _by_number(ops: _Operators, pairs: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Return rows of forward operators and of their backward, as numbers tie them."""
    ahead = (ops.sequence != NONE) & (ops.forward_thread == 0)
    behind = np.flatnonzero((ops.sequence != NONE) & (ops.forward_thread > 0))
    lanes = _lanes(ops, ahead, pairs)
    lane = np.array([lanes.get(one, NONE) for one in ops.forward_thread[behind].tolist()], int)
    behind, lane = behind[lane != NONE], lane[lane != NONE]
    at = _latest(ops, np.flatnonzero(ahead), behind, lane)
    tied = at != NONE
    return ops.rows[at[tied]], ops.rows[behind[tied]]


def _latest(ops: _Operators, ahead: Ints, behind: Ints, lane: Ints) -> Ints:
    """Return for each of `behind` the last before it in `lane` with its number, or `NONE`."""
    if not len(ahead):
        return np.full(len(behind), NONE)
    key = number(np.r_[ops.lane[ahead], lane], np.r_[ops.sequence[ahead], ops.sequence[behind]])
    # Operators stand in the order of their starts.
    place = key * len(ops.rows) + np.r_[ahead, behind]
    order = np.argsort(place[: len(ahead)])
    before = np.searchsorted(place[: len(ahead)][order], place[len(ahead) :]) - 1
    candidate = order[np.maximum(before, 0)]
    same = (before >= 0) & (key[candidate] == key[len(ahead) :])
    return np.where(same, ahead[candidate], NONE)


def _lanes(ops: _Operators, ahead: Mask, pairs: tuple[Ints, Ints]) -> dict[int, int]:
    """Return which thread each of torch's numbers of threads stands for, where that is certain.

    torch's arrows tell. Without them, a thread may be the one if it has more than half of the
    numbers that the backward operators ask for (it need not have all: some nodes are made without
    an operator, some before the recording began). It is, if no other may be; and what is one
    number's thread is no other's.
    """
    threads = np.unique(ops.forward_thread[ops.forward_thread > 0]).tolist()
    first, second = (np.searchsorted(ops.rows, rows) for rows in pairs)
    drawn = set(zip(ops.forward_thread[second].tolist(), ops.lane[first].tolist(), strict=True))
    behind = (ops.sequence != NONE) & (ops.forward_thread > 0)
    may: dict[int, set[int]] = {}
    for thread in threads:
        may[thread] = {lane for one, lane in drawn if one == thread}
        rows = np.flatnonzero(behind & (ops.forward_thread == thread))
        if may[thread] or not len(rows):
            continue
        for lane in np.unique(ops.lane[ahead]).tolist():
            mine = np.flatnonzero(ahead & (ops.lane == lane))
            known = _latest(ops, mine, rows, np.full(len(rows), lane)) != NONE
            if known.mean() > 0.5:
                may[thread].add(lane)
    return _certain(may)


def _certain(may: dict[int, set[int]]) -> dict[int, int]:
    """Return the only way to give each its own, as far as there is only one."""
    certain: dict[int, int] = {}
    while True:
        sole = [next(iter(lanes)) for lanes in may.values() if len(lanes) == 1]
        new = {
            thread: lane
            for thread, lanes in may.items()
            for lane in lanes
            if len(lanes) == 1 and sole.count(lane) == 1
        }
        # Two that claim the same one leave it to neither.
        if not new:
            return certain
        certain |= new
        taken = set(new.values())
        may = {thread: lanes - taken for thread, lanes in may.items() if thread not in new}


def _drawn(trace: Trace) -> tuple[Ints, Ints]:
    """Return rows of forward operators and of their backward, as arrows in a file tie them."""
    decode = msgspec.json.Decoder(_Flow).decode
    begins: dict[int | str, _Flow] = {}
    ends: dict[int | str, _Flow] = {}
    for line in trace.others:
        if b"fwdbwd" not in line:
            continue
        try:
            flow = decode(line)
        except msgspec.ValidationError:
            continue
        if flow.cat == "fwdbwd" and flow.ph in "sf":
            (begins if flow.ph == "s" else ends)[flow.id] = flow
    ids = [one for one in begins if one in ends]
    rows = np.flatnonzero(trace.category_is("cpu_op"))
    # Of operators that start at once, the last is the innermost: it is the one that made the node.
    first = _at(trace, rows, [begins[one] for one in ids], last=True)
    second = _at(trace, rows, [ends[one] for one in ids], last=False)
    both = (first != NONE) & (second != NONE)
    return first[both], second[both]


def _at(trace: Trace, rows: Ints, flows: list[_Flow], *, last: bool) -> Ints:
    """Return the operator that starts where each arrow has its end, or `NONE`."""
    if not len(rows) or not flows:
        return np.full(len(flows), NONE)
    named = {text: lane for lane, text in trace.lanes.items()}

    def lane(value: int | str) -> int:
        return value if isinstance(value, int) else named.get(value, NONE)

    key = number(
        np.r_[trace.process[rows], [lane(flow.pid) for flow in flows]],
        np.r_[trace.thread[rows], [lane(flow.tid) for flow in flows]],
        np.r_[trace.start_ns[rows], [round(f.ts * 1000) - trace.base_ns for f in flows]],
    )
    order = np.argsort(key[: len(rows)], kind="stable")
    ordered, wanted = key[: len(rows)][order], key[len(rows) :]
    place = np.searchsorted(ordered, wanted, "right" if last else "left") - last
    candidate = order[np.clip(place, 0, len(rows) - 1)]
    return np.where(key[candidate] == wanted, rows[candidate], NONE)
