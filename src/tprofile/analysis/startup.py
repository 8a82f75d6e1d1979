"""What a first run paid for and the later ones did not: start-up, by its causes."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..intervals import NONE, Ints, Nesting, climb, nest, number
from ..trace import Trace, encode
from .attribution import Attribution, Mask

COMPILATION = "compilation"
AUTOTUNING = "autotuning"
LOADING = "loading kernels"
PROFILER = "the profiler's own buffers"
MEMORY = "device memory from the driver"
GRAPHS = "building device graphs"
STREAMS = "streams and events"
QUERIES = "queries of device and kernels"
CALLS = "slow first runtime calls"
OPERATORS = "unnamed inside operators (library handles, first use)"
OUTSIDE = "outside operators (Python imports, first use)"

COSTS = (
    COMPILATION, AUTOTUNING, LOADING, PROFILER, MEMORY, GRAPHS, STREAMS, QUERIES,
    CALLS, OPERATORS, OUTSIDE,
)  # fmt: skip
"""What a row's `cost` can be. No event of a trace says the last three: they are what a first run
took for the same beyond the later ones."""

_CODE = {cost: code for code, cost in enumerate(COSTS)}
_OUTSIDE = _CODE[OUTSIDE]
_UNSAID = _CODE[CALLS]
"""From this code on, no event says the cost."""
_WAIT = len(COSTS)
"""Code of our own synchronise, which is nobody's cost."""

_TIMED = " (dynamo_timed)"
"""Ends the names of the compiler's steps; torch 2.13 puts a range without it around many."""

_MARGINAL = re.compile(r".*_data: .*\bcompile_id=.*|Command Buffer Full", re.DOTALL)
"""No work of its own: what the compiler tells of a step, and the device's backlog."""

_Rules = tuple[tuple[str, str], ...]
"""Costs, each with a pattern for whole names; the first that matches counts."""

_TORCH: _Rules = (
    (AUTOTUNING, r".*(autotun(e|ing)\b|benchmark|do_bench|coordinate_descent).*\(dynamo_timed\)"),
    (
        COMPILATION,
        r".*\(dynamo_timed\)|dynamo|entire_frame_compile|backend_compile|inductor_compile|code_gen",
    ),
)
_OVERHEAD: _Rules = (
    (LOADING, r"Runtime Triggered Module Loading|Lazy Function Loading"),
    (COMPILATION, r"Driver Compiler"),
    (PROFILER, r".*"),
)
_CALL: _Rules = (
    (LOADING, r"(cu|hip)(Module(Load|Get)|Library(Load|Get)|Kernel(GetFunction)|Link).*"),
    (MEMORY, r"(cuda|hip)(Malloc|ExtMalloc|HostAlloc|HostMalloc|HostRegister|Free|MemPool).*"),
    (MEMORY, r"(cu|hip)Mem(Alloc|Create|Map|Unmap|Release|Address|SetAccess|Host|Free|Pool).*"),
    (GRAPHS, r"(cuda|cu|hip)(Graph(?!Launch)|Stream(Begin|End)Capture).*"),
    (STREAMS, r"(cuda|cu|hip)(Stream|Event)(Create|Destroy).*"),
    (QUERIES, r"(cuda|cu|hip)((Func|Kernel)(Get|Set)|(Module)?Occupancy).*"),
    (QUERIES, r"(cuda|cu|hip)(Device(Get|Primary|Set)|Get(Device|Driver|Func|Proc|Symbol)).*"),
)

_LEAST = 0.01
"""The part of a start-up from which on a cost that no event says is told: less is noise."""

_SLOW = 2
"""How many times the slowest later run the first one is, where the same calls are start-up."""


def startup(found: Attribution) -> pd.DataFrame:
    """Return a row per run, cost and name: `run, cost, name, calls, cpu_us`.

    `cost` is one of `COSTS`; `name` that of the event, or None outside all operators. `calls` are
    those of the run. `cpu_us` is the time that they took beyond the other runs (their median, the
    lower of two), without what runs inside and is another's: each moment counts once, so that the
    times of a run add up to no more than its wall. What other runs pay as often is no such cost,
    unless the first of a cold profile was more than twice as slow at it as any later one.

    The costs that no event says are told of the first run of a cold profile, if there are later
    ones. Cold is a profile without warm-up, and another program's if said costs are 1 % of its
    first run. Of a single run without warm-up, the said costs are listed whole: whether later runs
    would pay them too is not known.
    """
    asked, n = found.trace.recorded.asked_warmup, len(found.runs)
    if not len(found.runs.rows) or (n == 1 and asked != 0):
        return _frame(_NOTHING, _NOTHING.ns > 0, _NOTHING.ns)
    code = _costs(found)
    if asked != 0 and not ((code != NONE) & (code < _UNSAID)).any():
        return _frame(_NOTHING, _NOTHING.ns > 0, _NOTHING.ns)
    sums = _sums(found, code)
    said = (sums.cost < _UNSAID)[:, None]
    beyond = sums.ns - _usual(sums.ns)
    listed = said & (sums.calls > _usual(sums.calls)) & (beyond > 0)
    walls = found.runs.end_ns - found.runs.start_ns
    cold = asked == 0
    if asked is None:
        cold = beyond[listed[:, 0], 0].sum() >= _LEAST * walls[0]
    if cold and n > 1:
        first, later = sums.ns[:, 0], sums.ns[:, 1:]
        beyond[:, 0] = np.where(said[:, 0], beyond[:, 0], first - np.median(later, axis=1))
        least = np.maximum(_LEAST * (walls[0] - np.median(walls[1:])), 1)
        slow = (first > _SLOW * later.max(axis=1)) & (beyond[:, 0] >= least)
        listed[:, 0] |= slow & (sums.cost != _WAIT)
    return _frame(sums, listed, beyond)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Calls and time by cost and name: a row for each, and a column per run."""

    cost: Ints
    name: NDArray[np.object_]
    calls: Ints
    ns: Ints


_NOTHING = _Sums(np.zeros(0, np.int64), np.zeros(0, object), *(np.zeros((0, 0), np.int64),) * 2)


def _frame(sums: _Sums, listed: NDArray[np.bool_], ns: Ints) -> pd.DataFrame:
    row, run = np.nonzero(listed)
    frame = pd.DataFrame(
        {
            "run": run + 1,
            "cost": pd.Series([COSTS[i] for i in sums.cost[row]], dtype=object),
            "name": pd.Series(list(sums.name[row]), dtype=object),
            "calls": sums.calls[listed],
            "cpu_us": ns[listed] / 1000,
        }
    )
    order = ["run", "cpu_us", "cost", "name"]
    return frame.sort_values(
        order, ascending=[True, False, True, True], kind="stable", ignore_index=True
    )


def _usual(values: Ints) -> Ints:
    """Return what the other runs of a run that is above it have: their median, the lower of two."""
    runs = values.shape[1]
    if runs == 1:
        return np.zeros_like(values)
    # The run itself is among the larger ones, so that its going moves none of the smaller.
    return np.sort(values, axis=1)[:, [(runs - 2) // 2]]


def _sums(found: Attribution, code: Ints) -> _Sums:
    trace, n = found.trace, len(found.runs)
    rows = found.table[(found.run[found.table] != NONE) & (code[found.table] != NONE)]
    cost, lane = code[rows], _lanes(found)[np.searchsorted(found.table, rows)]
    nesting = nest(lane, trace.start_ns[rows], trace.end_ns[rows])
    itself = np.arange(len(rows))
    owner = climb(nesting.parent, itself, cost >= _UNSAID)
    owner = np.where(owner == NONE, itself, owner)

    names, name_of = encode([name.removesuffix(_TIMED) for name in trace.names])
    name = np.where(cost == _OUTSIDE, NONE, name_of[trace.name[rows]])
    key = number(cost, name)
    keys, first = np.unique(key, return_index=True)

    def table(at: Ints, run: Ints, values: Ints | None = None) -> Ints:
        cells = np.bincount(key[at] * n + run, values, len(keys) * n)
        return cells.astype(np.int64).reshape(len(keys), n)

    whose, start, end = _stretches(lane, trace.start_ns[rows], trace.end_ns[rows], nesting, owner)
    inside = (whose != NONE) & (cost[whose] != _OUTSIDE) & (found.runs.at(start) != NONE)
    whose, start, end = whose[inside], start[inside], end[inside]
    run = found.runs.at(start)
    ns = table(whose, run, _once(start, np.minimum(end, found.runs.end_ns[run]), key[whose]))
    # What no thread spent in anything recorded; other threads' waits are covered by their cause.
    outside = found.runs.end_ns - found.runs.start_ns - ns.sum(axis=0)
    ns[cost[first] == _OUTSIDE] = outside
    called = (owner == itself) & ~nesting.inside_same(key)
    calls = table(itself[called], found.run[rows[called]])
    return _Sums(cost[first], np.array([*names, None], object)[name[first]], calls, ns)


def _costs(found: Attribution) -> Ints:
    """Return the code of each event's cost; `NONE` for what is part of the event around it."""
    trace = found.trace
    annotation = trace.category_is("user_annotation")
    torch, overhead = annotation | trace.category_is("cpu_op"), trace.category_is("overhead")
    steps = {name.removesuffix(_TIMED) for name in trace.names if name.endswith(_TIMED)}
    cost = np.where(annotation, _OUTSIDE, np.where(torch, _CODE[OPERATORS], _CODE[CALLS]))
    for where, rules, bare in (
        (torch, _TORCH, steps), (overhead, _OVERHEAD, set()), (~torch & ~overhead, _CALL, set()),
    ):  # fmt: skip
        said = _by_name(trace, rules, bare)
        cost = np.where(where & (said != NONE), said, cost)
    cost[~found.counted & (cost >= _UNSAID)] = _WAIT
    cost[found.runs.rows] = _OUTSIDE
    cost[marginal(trace)] = NONE
    return cost


def costing(found: Attribution, *costs: str) -> Ints:
    """Return the host events of the runs that say one of these costs, at any depth."""
    wanted = [_CODE[cost] for cost in costs]
    return np.flatnonzero(np.isin(_costs(found), wanted) & (found.run != NONE) & found.counted)


def marginal(trace: Trace) -> Mask:
    """Mark what has a time of no meaning: what a compiler tells of its steps, and a backlog."""
    return trace.name_is(_MARGINAL.fullmatch)


def _by_name(trace: Trace, rules: _Rules, steps: Set[str]) -> Ints:
    """Return the code of the cost that each event's name says, or `NONE`.

    A name that is one of `steps` is read as if it said that it is the compiler's.
    """
    patterns = [(_CODE[cost], re.compile(pattern, re.DOTALL)) for cost, pattern in rules]
    full = [name + _TIMED if name in steps else name for name in trace.names]
    codes = [next((code for code, p in patterns if p.fullmatch(name)), NONE) for name in full]
    return np.array(codes, np.int64)[trace.name] if codes else np.zeros(0, np.int64)


def _lanes(found: Attribution) -> Ints:
    """Number the threads of the `table` events.

    CUPTI's overhead bears no thread: it stands with the runtime call, of whichever thread, that it
    lies in, or, outside all of them, with the runs.
    """
    trace, table, nesting = found.trace, found.table, found.nesting
    roots = np.flatnonzero(nesting.parent == NONE)
    roots = roots[np.argsort(nesting.position[roots])]
    root = table[roots[np.searchsorted(nesting.position[roots], nesting.position, "right") - 1]]
    lane = number(trace.process[root], trace.thread[root])
    overhead = trace.category_is("overhead")[table]
    loose = np.flatnonzero(overhead & ~np.isin(lane, lane[~overhead]))
    calls = np.flatnonzero(~overhead & ~trace.category_is("cpu_op", "user_annotation")[table])
    at = np.unique(lane[calls])
    # One in each thread that calls, to see where it lies in a call.
    copies = np.repeat(loose, len(at))
    both = np.r_[table[calls], table[copies]]
    tried = nest(
        np.r_[lane[calls], np.tile(at, len(loose))], trace.start_ns[both], trace.end_ns[both]
    )
    is_copy = np.arange(len(both)) >= len(calls)
    call = climb(tried.parent, np.arange(len(both)), is_copy)[is_copy]
    # Of calls in several threads the first: how threads are numbered says nothing.
    row = np.where(call == NONE, len(trace), both[call]).reshape(len(loose), len(at))
    thread = row.argmin(axis=1) if len(at) else np.zeros(0, np.int64)
    lies = row.min(axis=1, initial=len(trace)) < len(trace)
    lane[loose] = lane[np.searchsorted(table, found.runs.rows[0])]
    lane[loose[lies]] = at[thread[lies]] if len(at) else lane[loose[lies]]
    return lane


def _stretches(
    lane: Ints, start: Ints, end: Ints, nesting: Nesting, owner: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return whose time each stretch of a thread is, from when to when; `NONE` for a gap."""
    timed = np.flatnonzero(end > start)
    around = nesting.parent[timed]
    after = np.where(around == NONE, NONE, owner[around])
    place = nesting.position[timed] + 1
    lanes = np.r_[lane[timed], lane[timed]]
    time, whose = np.r_[start[timed], end[timed]], np.r_[owner[timed], after]
    # At one moment ends come before starts, the inner end first and the outer start first.
    order = np.lexsort((np.r_[place, -place], time, lanes))
    lanes, time, whose = lanes[order], time[order], whose[order]
    same = lanes[1:] == lanes[:-1]
    return whose[:-1][same], time[:-1][same], time[1:][same]


def _once(start: Ints, end: Ints, rank: Ints) -> Ints:
    """Return the time of each interval that no earlier one covers, nor of those that start with it
    a longer one or one of lower rank.
    """
    order = np.lexsort((rank, -end, start))
    reach = np.maximum.accumulate(end[order])
    covered = np.maximum(np.r_[start[order][:1], reach[:-1]], start[order])
    once = np.empty(len(start), np.int64)
    once[order] = np.maximum(end[order] - covered, 0)
    return once
