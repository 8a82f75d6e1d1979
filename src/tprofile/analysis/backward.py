"""Tie what a backward pass runs to the operator of the forward pass that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from ..intervals import NONE, Ints, climb, number
from ..trace import Trace
from ..trace.build import nanoseconds
from .attribution import Attribution, Mask, once

ENGINE = "autograd::engine::evaluate_function: "
"""What the name of every node begins with when autograd's engine runs it."""

_Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]

_Pairs = tuple[Ints, Ints]
"""Rows of forward operators, and of their backward."""


class _Numbers(Struct, gc=False):
    """What torch numbers an autograd node by: the thread that made it, and its place there."""

    thread: _Number = msgspec.field(name="Fwd thread id", default=0)
    sequence: _Number | None = msgspec.field(name="Sequence number", default=None)


class _Flow(Struct, gc=False):
    """One end of an arrow that torch draws from a forward operator to its backward."""

    cat: str = ""
    ph: str = ""
    id: int | str = 0
    pid: _Whole | str = 0
    tid: _Whole | str = 0
    ts: Decimal = Decimal(0)


_End = tuple[int | str, int | str, int]
"""Process, thread and nanoseconds of an arrow's end."""


@once
def forward(found: Attribution) -> Ints:
    """Return for each event the row of the forward operator whose backward it is part of.

    torch ties the two itself, by arrows: nothing else says for certain which thread a node was
    made in. (Operators of different threads bear the same numbers, and if they run the same model
    the same names.) A node that runs again has no arrow of its own, and is known by its number.
    What a backward operator contains or launches is part of it. `NONE` for all else: what is no
    backward, has no forward operator (gradients that accumulate), or one that was not recorded.
    """
    trace = found.trace
    node = trace.name_is(lambda name: name.startswith(ENGINE))
    tied = np.full(len(trace), NONE)
    for ahead, behind in (_drawn(trace), _numbered(trace, node)):
        tied[behind] = ahead
        around = _engines(found, behind)
        tied[around[around != NONE]] = ahead[around != NONE]
    ahead, behind = _again(trace, node, tied)
    tied[behind] = ahead
    # A node inside another one, as where a checkpoint is run again, has a forward of its own.
    nearest = climb(found.parent, np.arange(len(trace)), ~node & (tied == NONE))
    ahead = np.where(nearest != NONE, tied[nearest], NONE)
    ahead.setflags(write=False)
    return ahead


def _engines(found: Attribution, behind: Ints) -> Ints:
    """Return the engine's range around each node's own, in which an arrow ends; or `NONE`."""
    index = {name: code for code, name in enumerate(found.trace.names)}
    wanted = np.array([index.get(ENGINE + name, NONE) for name in index], np.int64)
    around, name = found.parent[behind], found.trace.name
    return np.where((around != NONE) & (name[around] == wanted[name[behind]]), around, NONE)


def _numbered(trace: Trace, node: Mask) -> _Pairs:
    """Return what arrows tie that are numbers of operators, as in a recording of our own."""
    if not node.any():
        return _nothing()
    rows = np.flatnonzero(trace.category_is("cpu_op"))
    arrow = trace.arrows(rows)
    rows, arrow = rows[arrow != 0], arrow[arrow != 0]
    key = number(trace.process[rows], arrow)
    order = np.argsort(key, kind="stable")
    _, first, ends = np.unique(key[order], return_index=True, return_counts=True)
    # The rest has an end that was cut off.
    first = first[ends == 2]
    return rows[order[first]], rows[order[first + 1]]


def _again(trace: Trace, node: Mask, tied: Ints) -> _Pairs:
    """Return what arrows do not tie: the node of one that they do, run once more."""
    numberless = trace.name_is(lambda name: name.endswith("::AccumulateGrad"))
    rest = np.flatnonzero(node & (tied == NONE) & ~numberless)
    known = np.flatnonzero(node & (tied != NONE))
    known = known[np.isin(trace.name[known], trace.name[rest])]
    if not len(known):
        return _nothing()
    rows = np.r_[known, rest]
    numbers = _numbers(trace, rows)
    key = number(
        trace.process[rows],
        trace.name[rows],
        _column(one.thread for one in numbers),
        _column(NONE if one.sequence is None else one.sequence for one in numbers),
    )
    has = np.array([one.thread > 0 and one.sequence is not None for one in numbers])
    # Events stand in the order of their starts, so this is that of each key's.
    place = key * len(trace) + rows
    order = np.argsort(place[: len(known)])
    before = np.searchsorted(place[: len(known)][order], place[len(known) :]) - 1
    candidate = order[np.maximum(before, 0)]
    same = (before >= 0) & (key[candidate] == key[len(known) :]) & has[len(known) :]
    return tied[known[candidate[same]]], rest[same]


def _numbers(trace: Trace, rows: Ints) -> list[_Numbers]:
    decode = msgspec.json.Decoder(_Numbers).decode
    found = []
    for row in rows.tolist():
        try:
            found.append(decode(trace.args(row)))
        except msgspec.ValidationError:
            found.append(_Numbers())
    return found


def _column(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)


def _nothing() -> _Pairs:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def _drawn(trace: Trace) -> _Pairs:
    """Return what arrows tie that are drawn from place to place, as in a file of torch's."""
    decode = msgspec.json.Decoder(_Flow).decode
    begins: dict[int | str, _End] = {}
    ends: dict[int | str, _End] = {}
    for line in trace.others:
        if b"fwdbwd" not in line:
            continue
        try:
            flow = decode(line)
        except msgspec.ValidationError:
            continue
        at = nanoseconds(flow.ts)
        if flow.cat == "fwdbwd" and flow.ph in ("s", "f") and at is not None:
            (begins if flow.ph == "s" else ends)[flow.id] = flow.pid, flow.tid, at
    ids = [one for one in begins if one in ends]
    rows = np.flatnonzero(trace.category_is("cpu_op"))
    # Of operators that start at once, the last is the innermost: it is the one that made the node.
    first = _at(trace, rows, [begins[one] for one in ids], last=True)
    second = _at(trace, rows, [ends[one] for one in ids], last=False)
    both = (first != NONE) & (second != NONE)
    return first[both], second[both]


def _at(trace: Trace, rows: Ints, ends: list[_End], *, last: bool) -> Ints:
    """Return the operator that starts where each arrow has its end, or `NONE`."""
    if not len(rows) or not ends:
        return np.full(len(ends), NONE)
    named = {text: lane for lane, text in trace.lanes.items()}

    def lane(value: int | str) -> int:
        return value if isinstance(value, int) else named.get(value, NONE)

    key = number(
        np.r_[trace.process[rows], [lane(pid) for pid, _, _ in ends]],
        np.r_[trace.thread[rows], [lane(tid) for _, tid, _ in ends]],
        np.r_[trace.start_ns[rows], [ns - trace.base_ns for _, _, ns in ends]],
    )
    order = np.argsort(key[: len(rows)], kind="stable")
    ordered, wanted = key[: len(rows)][order], key[len(rows) :]
    place = np.searchsorted(ordered, wanted, "right" if last else "left") - last
    candidate = order[np.clip(place, 0, len(rows) - 1)]
    return np.where(key[candidate] == wanted, rows[candidate], NONE)
