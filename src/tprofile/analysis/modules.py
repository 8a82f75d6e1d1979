"""Which nn.Module each event belongs to, and what each took, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import TprofileError
from ..intervals import NONE, Floats, Ints, Nesting, nest, number
from ..trace import Trace, encode, marks
from ..trace.marks import Module
from .attribution import Attribution, kernel_starts, once
from .backward import ENGINE, forward
from .doubts import unmatched_launches

_TORCHS = "nn.Module: "
"""What the name of a module's call begins with where torch recorded Python's functions. Its class
follows, and a number that tells it from others of that class."""

_COMPILED = ("Torch-Compiled Region", "TorchDynamo Cache Lookup")
"""What torch's own ranges around compiled code begin with; older versions have the second alone."""

_ACCUMULATE = ENGINE + "torch::autograd::AccumulateGrad"
"""The part of a backward pass that has no operator of the forward pass."""


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of modules, by start. Arrays but `of` have a value for each."""

    labels: tuple[str, ...]
    """The modules, in the order of their first calls: the path of each."""
    types: tuple[str, ...]
    """The class of each module."""
    module: Ints
    """Index into `labels`."""
    event: Ints
    """Event of the trace that a call is."""
    nesting: Nesting
    of: Ints
    """For each event of the trace the innermost call that it was caused in, or `NONE`."""
    behind: Ints
    """For each event of the trace the innermost call of the forward operator whose backward it is
    part of, or `NONE`."""
    node: Ints
    """Event of a backward pass that a call is in, as one that a checkpoint runs once more; `NONE`
    for calls that are in another call, or in no backward pass."""
    bare_ns: Ints
    """The time of such a call in which no operator ran."""

    def __len__(self) -> int:
        return len(self.event)


def module_of(found: Attribution) -> Ints:
    """Return for each event the module that caused it, as its row in `modules`, or `NONE`.

    It is the innermost one in whose call the event began, on its own thread; of device work that of
    its launch. What is part of a backward pass and in no such call is its forward operator's.
    """
    seen = calls(found)
    return np.append(seen.module, NONE)[np.where(seen.of != NONE, seen.of, seen.behind)]


def modules(found: Attribution) -> pd.DataFrame:
    """Return a row per module that was called, as `Profile.modules` describes it."""
    trace, seen = found.trace, calls(found)
    start, end = trace.start_ns[seen.event], trace.end_ns[seen.event]
    n = len(seen.labels)
    once = ~seen.nesting.inside_same(seen.module)
    own = end - start - seen.nesting.children_union(start, end)

    work = np.flatnonzero(found.work)
    starts, lost = kernel_starts(found), np.flatnonzero(unmatched_launches(found))
    took, behind = trace.duration_ns[work], seen.behind
    frame = pd.DataFrame(
        {
            "module": pd.Series(list(seen.labels), dtype=object),
            "type": pd.Series(list(seen.types), dtype=object),
            "parent": _parents(seen),
            "calls": np.bincount(seen.module, minlength=n),
            "cpu_us": np.bincount(seen.module[once], (end - start)[once], n) / 1000,
            "self_cpu_us": np.bincount(seen.module, own, n) / 1000,
            "device_us": _totals(seen, seen.of[work], took) / 1000,
            "self_device_us": _own(seen, seen.of[work], took) / 1000,
            "backward_cpu_us": _totals(seen, *_spent_behind(found, seen)) / 1000,
            "backward_device_us": _totals(seen, behind[work], took, seen.of[work]) / 1000,
            "launches": _totals(seen, seen.of[starts], np.ones(len(starts))),
            "compiled": np.bincount(seen.module[_compiled(trace, seen)], minlength=n) > 0,
        }
    )
    each = np.ones(len(lost))
    missing = {
        "device_us": _totals(seen, seen.of[lost], each),
        "self_device_us": _own(seen, seen.of[lost], each),
        "backward_device_us": _totals(seen, behind[lost], each, seen.of[lost]),
        "launches": _totals(seen, seen.of[lost], each),
    }
    for column, launches in missing.items():
        # Nothing, where the profiler lost what was launched, is no measure.
        frame[column] = frame[column].mask((launches > 0) & (frame[column] == 0))
    if not len(work):
        frame[list(missing)] = np.nan
    if _untied(found):
        frame[["backward_cpu_us", "backward_device_us"]] = np.nan
    return frame


def around(found: Attribution, event: int) -> tuple[int, str] | None:
    """Return the innermost call of a module that an event was caused in: its event and path."""
    seen = calls(found)
    at = int(seen.of[event])
    return None if at == NONE else (int(seen.event[at]), seen.labels[seen.module[at]])


def by_module(found: Attribution, table: Ints) -> tuple[Ints, np.ndarray]:
    """Return the module of each event, as `module_of` tells it; "" for none.

    Raises TprofileError where no modules were recorded.
    """
    seen = calls(found)
    if not len(seen) and not found.trace.recorded.modules:
        raise TprofileError(
            "no modules were recorded. Profile with --modules, or modules=True, for the calls of "
            "every nn.Module."
        )
    code = module_of(found)[table]
    return np.where(code != NONE, code, len(seen.labels)), np.array([*seen.labels, ""], object)


@once
def calls(found: Attribution) -> Calls:
    """Return the calls of modules, worked out once for all figures.

    They come from marks that our recorder left, else from torch's record of Python's functions.
    """
    trace = found.trace
    said = [marks.parse_module(name) for name in trace.names]
    event = _named(trace, "cpu_op", said)
    ours = len(event) > 0
    if not ours:
        event = _named(trace, "python_function", [_torchs(name) for name in trace.names])
    if found.runs.source == "marks":
        event = event[found.run[event] != NONE]
    nesting = nest(found.lane[event], trace.start_ns[event], trace.end_ns[event])
    if not ours:
        said = _nested(trace, event, nesting)
    # The first calls come first: events stand in the order of their starts.
    used, first = np.unique(trace.name[event], return_index=True)
    told = {int(code): one for code in used[np.argsort(first)] if (one := said[code]) is not None}
    labels, index = encode(_labels(list(told.values())))
    code = np.full(len(trace.names), NONE)
    code[list(told)] = index
    module = code[trace.name[event]]
    _, at = np.unique(index, return_index=True)
    types = [one.type for one in told.values()]
    of, ahead = _causes(found, event, nesting), forward(found)
    node, bare = _rerun(trace, found.lane, event, nesting, ahead)
    return Calls(
        labels=tuple(labels),
        types=tuple(types[i] for i in at.tolist()),
        module=module,
        event=event,
        nesting=nesting,
        of=of,
        behind=np.where(ahead != NONE, of[ahead], NONE),
        node=node,
        bare_ns=bare,
    )


def _named(trace: Trace, category: str, said: list[Module | None]) -> Ints:
    named = np.array([one is not None for one in said] or [False])
    rows = np.flatnonzero(trace.category_is(category))
    return rows[named[trace.name[rows]]]


def _torchs(name: str) -> Module | None:
    """Return what torch's name of a call says: of a module its class, and a number in the class."""
    own = name.removeprefix(_TORCHS)
    return Module(own.rpartition("_")[0] or own, own) if own != name and own else None


def _nested(trace: Trace, event: Ints, nesting: Nesting) -> list[Module | None]:
    """Return for each name of torch's what it says, with the path of its first call."""
    said: list[Module | None] = [None] * len(trace.names)
    first = np.unique(trace.name[event], return_index=True)[1]
    # An outer call starts no later than the one inside it, and so comes first.
    for at in np.sort(first).tolist():
        one = _torchs(str(trace.names[trace.name[event[at]]]))
        up = int(nesting.parent[at])
        above = None if up == NONE else said[trace.name[event[up]]]
        if one is not None and above is not None:
            one = Module(one.type, above.root, f"{above.path}.{one.root}".removeprefix("."))
        said[trace.name[event[at]]] = one
    return said


def _labels(told: list[Module]) -> list[str]:
    """Return what to call modules: the root by its name, others by their path below it.

    Where there are several roots with modules inside, or two modules would bear one name, the
    root's name stands before the path.
    """
    short = [one.path or one.root for one in told]
    several = len({one.root for one in told if one.path}) > 1
    if several or len(set(short)) < len({(one.root, one.path) for one in told}):
        return [f"{one.root}.{one.path}".removesuffix(".") for one in told]
    return short


def _causes(found: Attribution, event: Ints, nesting: Nesting) -> Ints:
    """Return for each event of the trace the innermost call that it was caused in, or `NONE`."""
    trace = found.trace
    of = np.full(len(trace), NONE)
    if not len(event):
        return of
    host = np.flatnonzero(~trace.on_device)
    of[host] = _innermost(trace, event, nesting, host, found.lane)
    of[event] = np.arange(len(event))
    return found.with_work(of)


def _innermost(trace: Trace, event: Ints, nesting: Nesting, host: Ints, lane: Ints) -> Ints:
    """Return the innermost call in which each host event begins."""
    start, end = trace.start_ns, trace.end_ns
    walk = np.argsort(nesting.position)
    rows = np.r_[event[walk], host]
    lanes = lane[rows]
    call = np.arange(len(rows)) < len(walk)
    # At one moment a call comes before what it holds, and an outer call before an inner one.
    order = np.lexsort((~call, start[rows], lanes))
    place = np.maximum.accumulate(np.where(call[order], order, NONE))
    last = np.empty(len(rows), np.int64)
    last[order] = place
    last = last[len(walk) :]
    at = np.where((last != NONE) & (lanes[last] == lane[host]), walk[last], NONE)

    def outside() -> Ints:
        open_ = np.flatnonzero(at != NONE)
        call, one = event[at[open_]], host[open_]
        holds = (start[call] == start[one]) & (end[call] < end[one])
        return open_[(end[call] <= start[one]) | holds]

    while len(rest := outside()):
        at[rest] = nesting.parent[at[rest]]
    return at


def _rerun(
    trace: Trace, lane: Ints, event: Ints, nesting: Nesting, ahead: Ints
) -> tuple[Ints, Ints]:
    """Return for each call the event of a backward pass around it, and its time in no operator."""
    node, bare = np.full(len(event), NONE), np.zeros(len(event), np.int64)
    tied = np.flatnonzero((ahead != NONE) & ~trace.on_device)
    top = np.flatnonzero(nesting.parent == NONE)
    if not len(tied) or not len(top):
        return node, bare
    rows = np.r_[tied, event[top]]
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    found = nest(lane[rows], start, end)
    above = found.parent[len(tied) :]
    node[top] = np.where(above != NONE, rows[above], NONE)
    bare[top] = (end - start - found.children_union(start, end))[len(tied) :]
    return node, bare


def _spent_behind(found: Attribution, seen: Calls) -> tuple[Ints, Ints, Ints]:
    """Return the parts of backward passes on the CPU: calls, time, and calls that have it already.

    A call that a backward pass makes is a part of that pass, and no time of the operator around it.
    """
    host = np.flatnonzero(found.counted)
    again = np.flatnonzero(seen.node != NONE)
    node, bare = seen.node[again], seen.bare_ns[again]
    spent = found.self_cpu_ns.copy()
    np.subtract.at(spent, node, bare)
    return (
        np.r_[seen.behind[host], seen.behind[node]],
        np.r_[spent[host], bare],
        np.r_[seen.of[host], again],
    )


def _totals(seen: Calls, at: Ints, values: Ints | Floats, without: Ints | None = None) -> Floats:
    """Return for each module the sum of values that belong to calls (`NONE`: to none).

    A value counts once in the module of its call and in each around that. With `without`, values
    are of backward passes: those of a call in one are also of what is around the call that it runs
    once more, and none is of a module that has it already, by the call in `without`.
    """
    n, inside = len(seen.labels), seen.nesting.parent
    other = np.full(len(at), NONE) if without is None else without
    around = inside if without is None else _through(seen)
    some = at != NONE
    key = number(at[some], other[some])
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    sums = np.bincount(index.reshape(-1), values[some], len(first))
    pairs = np.setdiff1d(
        _holding(seen.module, around, at[some][first], n),
        _holding(seen.module, inside, other[some][first], n),
    )
    own = np.bincount(pairs % n, sums[pairs // n], n) if n else np.zeros(0)
    return own.astype(np.float64)


def _through(seen: Calls) -> Ints:
    """Return the call around each, or for one in a backward pass that which it runs once more."""
    again = np.where(seen.node != NONE, seen.behind[seen.node], NONE)
    # A forward pass is before its backward pass, so this comes to an end.
    before = again < np.arange(len(seen))
    return np.where((seen.nesting.parent == NONE) & before, again, seen.nesting.parent)


def _own(seen: Calls, at: Ints, values: Ints | Floats) -> Floats:
    """Return for each module the sum of values that belong to calls of its own."""
    some = at != NONE
    return np.bincount(seen.module[at[some]], values[some], len(seen.labels)).astype(np.float64)


def _holding(module: Ints, around: Ints, at: Ints, n: int) -> Ints:
    """Return i * n + m for the i-th call and each module m that it is of or inside."""
    which = np.flatnonzero(at != NONE)
    pairs = [np.zeros(0, np.int64)]
    while len(which):
        pairs.append(which * n + module[at[which]])
        at = np.where(at != NONE, around[at], NONE)
        which = which[at[which] != NONE]
    return np.unique(np.concatenate(pairs))


def _parents(seen: Calls) -> Ints:
    """Return for each module the one around its first call, or `NONE`."""
    first = np.unique(seen.module, return_index=True)[1]
    return np.append(seen.module, NONE)[seen.nesting.parent[first]]


def _compiled(trace: Trace, seen: Calls) -> Ints:
    """Return the calls that ran compiled code, with none of another module between."""
    regions = seen.of[trace.name_is(lambda name: name.startswith(_COMPILED))]
    return np.unique(regions[regions != NONE])


def _untied(found: Attribution) -> bool:
    """Tell whether there was a backward pass, and nothing says what any of it belongs to."""
    engine = found.trace.name_is(lambda n: n.startswith(ENGINE) and n != _ACCUMULATE)
    return bool((engine & found.counted).any() and (forward(found) == NONE).all())
