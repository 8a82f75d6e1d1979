"""What became of the kernels of one profile in another: the same, fused, replaced, gone, new."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..intervals import NONE, Floats, Ints
from . import tables
from .attribution import Attribution
from .comparison import largest_first

_MOST = 20_000_000
"""Pairs of kernels, one of each profile, that are looked at at most."""

_LIKE, _ALONE, _FAR, _PLACE, _SIZE = 1.0, 0.01, 0.05, 0.02, 0.02
"""How much it says that one operator is behind two kernels, and that the second stands for no other
yet; and how much it says against it that one more kernel stands between them, how far apart their
places in a run are, and that one takes ten times as long as the other."""

_OWN = 1e-4
"""How much it says that two kernels of one name are of one operator too: it never counts as much as
one more kernel that finds its own."""

_NEARER = 2 * _FAR
"""How much more one match says than another from which on kernels may change places for it."""

_STAY, _NEXT, _LEFT = 1, 2, 3

_FUSED = re.compile(r"triton_[a-z]+(?:_scan)?_fused_(\w+?)_\d+\w*$")
_LONGEST = 1_000
"""Characters of a name that a compiler gives."""

_PRODUCT = {"addmm": "mm", "baddbmm": "bmm", "addbmm": "bmm", "addmv": "mv"}
"""Operators that a compiler writes as a product, and adds the rest elsewhere."""


@dataclass(frozen=True, eq=False)
class _Kernels:
    """The kernels, copies and sets of a run, in the order of their launches."""

    names: list[str]
    microseconds: Floats
    operator: list[str | None]
    """The innermost operator around the launch of each."""
    operators: list[frozenset[str]]
    """All that are around it, as a compiler calls them: without `aten::`."""
    call: Ints
    """The outermost operator call around it, or one of its own."""

    def __len__(self) -> int:
        return len(self.names)


def replacement(a: Attribution, b: Attribution) -> pd.DataFrame | None:
    """Return what became of the kernels of A in B, as `Comparison.replaced` describes it.

    Of each profile the median run. Kernels are matched in the order of their launches: those of one
    name with each other, the others by the operators that launched them, which the name of a
    kernel that torch.compile wrote lists. None where there are too many to be compared, or where an
    error stopped the only run.
    """
    if not (a.runs.complete and b.runs.complete):
        return None
    one, other = _typical(a), _typical(b)
    if len(one) * len(other) > _MOST:
        return None
    match = _of_one_call(one, other, _matched(one, other))
    made: dict[int, list[int]] = {j: [] for j in range(len(other))}
    for i, j in enumerate(match.tolist()):
        if j != NONE:
            made[j].append(i)
    groups: list[tuple[tuple[int, ...], int]] = [(tuple(of), j) for j, of in made.items()]
    groups += [((i,), NONE) for i in np.flatnonzero(match == NONE).tolist()]
    return _frame(one, other, groups, bool(a.work.any()), bool(b.work.any()))


def _typical(found: Attribution) -> _Kernels:
    """Return the device work of the median run."""
    trace = found.trace
    apart = tables.runs_apart(found)
    walls = (found.runs.end_ns - found.runs.start_ns)[apart:]
    run = apart + int(np.argsort(walls, kind="stable")[(len(walls) - 1) // 2]) if len(walls) else 0
    rows = np.flatnonzero(found.work & (found.run == run))
    launch = found.launch[rows]
    # Streams run beside each other; launches come one after the other.
    begin = np.where(launch != NONE, trace.start_ns[launch], trace.start_ns[rows])
    rows = rows[np.lexsort((trace.start_ns[rows], begin))]
    names = [str(trace.names[i]) for i in trace.name[rows]]
    told = [
        str(trace.names[trace.name[i]]) if i != NONE else None
        for i in found.operator[rows].tolist()
    ]
    return _Kernels(
        names, trace.duration_ns[rows] / 1000, told, _operators(found, rows), _calls(found, rows)
    )


def _calls(found: Attribution, rows: Ints) -> Ints:
    operator = found.trace.category_is("cpu_op") & found.trace.name_is(
        lambda name: "::" in name and not name.startswith(("autograd::", "tprofile::"))
    )
    call, at = rows.copy(), found.parent[rows].copy()
    while (at != NONE).any():
        inside = (at != NONE) & operator[at]
        call[inside] = at[inside]
        at = np.where(at != NONE, found.parent[at], NONE)
    return call


def _of_one_call(a: _Kernels, b: _Kernels, match: Ints) -> Ints:
    """Return the matches without those that no kernel can stand for together.

    What a compiler wrote may do the work of many calls. Any other kernel does that of one: of
    several calls the one that took longest stays, as the others are not in B.
    """
    match = match.copy()
    for j in np.unique(match[match != NONE]).tolist():
        members = np.flatnonzero(match == j)
        calls = a.call[members]
        if len(members) < 2 or (calls == calls[0]).all() or b.names[j].startswith("triton_"):
            continue
        took = {c: a.microseconds[members[calls == c]].sum() for c in calls.tolist()}
        match[members[calls != max(took, key=took.__getitem__)]] = NONE
    return match


def _operators(found: Attribution, rows: Ints) -> list[frozenset[str]]:
    trace = found.trace
    known: dict[int, frozenset[str]] = {NONE: frozenset()}

    def of(row: int) -> frozenset[str]:
        path = []
        while row not in known:
            path.append(row)
            row = int(found.parent[row])
        told = known[row]
        for row in reversed(path):
            name = str(trace.names[trace.name[row]])
            if name.startswith("aten::"):
                own = name.removeprefix("aten::").rstrip("_")
                told = told | {own, _PRODUCT.get(own, own)}
            known[row] = told
        return told

    return [of(int(found.parent[row])) for row in rows]


def _matched(a: _Kernels, b: _Kernels) -> Ints:
    """Return for each kernel of A the one of B that does its work, or `NONE`.

    First those of one name, in the order of both. Then the others, whose place among those may be
    another one: a compiler puts what it fuses where the last part of it was. What that order leaves
    no place for, or one far away, may at last stand out of it.
    """
    match = np.full(len(a), NONE)
    equal = _aligned(_equal(a.names, b.names) * (1 + _OWN * _equal(a.operator, b.operator)))
    match[equal >= 0] = equal[equal >= 0]
    left = np.flatnonzero(match == NONE)
    free = np.setdiff1d(np.arange(len(b)), match)
    likeness = _likeness(a, b, left, free)
    # How far it is from one to the other, by what was matched before them, and by place.
    passed = np.searchsorted(np.flatnonzero(match != NONE), left)
    before = np.searchsorted(np.sort(match[match != NONE]), free)
    part = np.arange(len(left)) / max(len(left), 1), np.arange(len(free)) / max(len(free), 1)
    size = np.log10(a.microseconds[left]), np.log10(b.microseconds[free])
    for i, row in enumerate(likeness):
        far = _FAR * np.abs(passed[i] - before) + _PLACE * np.abs(part[0][i] - part[1])
        far += _SIZE * np.minimum(np.abs(size[0][i] - size[1]), 1)
        likeness[i] = np.where(row > 0, row - np.minimum(far, _LIKE / 2), 0)
    alike = _aligned(likeness, joined=True)
    for i, row in enumerate(likeness if len(free) else ()):
        best, now = int(np.argmax(row)), alike[i]
        if row[best] > (0 if now == NONE else row[now] + _NEARER):
            alike[i] = best
    match[left[alike >= 0]] = free[alike[alike >= 0]]
    return match


def _equal(a: Sequence[str | None], b: Sequence[str | None]) -> Floats:
    index = {name: i for i, name in enumerate(dict.fromkeys([*a, *b]))}
    one, other = (np.array([index[name] for name in names], np.int64) for names in (a, b))
    return (one[:, None] == other[None, :]).astype(np.float32)


def _likeness(a: _Kernels, b: _Kernels, rows: Ints, columns: Ints) -> Floats:
    """Return how many operators kernels of A have in common with kernels of B, at most two."""
    vocabulary = frozenset().union(*a.operators)
    index = {name: i for i, name in enumerate(sorted(vocabulary))}
    one = np.zeros((len(rows), len(index)), np.float32)
    other = np.zeros((len(columns), len(index)), np.float32)
    for i, row in enumerate(rows.tolist()):
        # A copy or set does no operator's work.
        if not a.names[row].startswith(("Memcpy", "Memset")):
            one[i, [index[name] for name in a.operators[row]]] = 1
    for j, column in enumerate(columns.tolist()):
        listed = b.operators[column] | _fused(b.names[column], vocabulary)
        other[j, [index[name] for name in listed & vocabulary]] = 1
    return np.minimum(one @ other.T, 2) * _LIKE


def _aligned(worth: Floats, joined: bool = False) -> Ints:
    """Return a column for each row, or `NONE`: those worth most together, in the order of both.

    A column is for one row; or, `joined`, for several, but rather for one each.
    """
    n, m = worth.shape
    # The most that the rows until here are worth with the first 0, 1, ... columns, and how.
    best = np.zeros(m + 1)
    how = np.zeros((n, m + 1), np.int8)
    for i in range(n):
        value, step = best[:-1] + worth[i] + (_ALONE if joined else 0), np.full(m, _NEXT)
        if joined:
            stay = best[1:] + worth[i]
            step[stay >= value] = _STAY
            value = np.maximum(value, stay)
        value[worth[i] <= 0] = -1
        now = np.maximum(best, np.append(0.0, value))
        how[i, 1:] = np.where(value > best[1:], step, 0)
        best = np.maximum.accumulate(now)
        how[i][best > now] = _LEFT
    return _read_back(how)


def _read_back(how: np.ndarray) -> Ints:
    match = np.full(len(how), NONE)
    j = how.shape[1] - 1
    for i in range(len(how) - 1, -1, -1):
        while how[i, j] == _LEFT:
            j -= 1
        if how[i, j]:
            match[i] = j - 1
            j -= int(how[i, j] == _NEXT)
    return match


def _fused(name: str, vocabulary: frozenset[str]) -> frozenset[str]:
    """Return the operators that the name of a kernel of torch.compile lists, of those there are."""
    listed = _FUSED.match(name) if len(name) <= _LONGEST else None
    if listed is None:
        return frozenset()
    # Names that hold underscores themselves are joined by underscores.
    return frozenset(one for one in vocabulary if f"_{one}_" in f"_{listed[1]}_")


def _frame(
    a: _Kernels,
    b: _Kernels,
    groups: list[tuple[tuple[int, ...], int]],
    of_a: bool,
    of_b: bool,
) -> pd.DataFrame:
    """Return a row per kind of group; `of_a` and `of_b` say whether device work was recorded."""
    rows: dict[tuple[tuple[str, ...], str | None, tuple[str | None, ...]], list[float]] = {}
    for members, j in groups:
        key = (
            tuple(a.names[i] for i in members),
            b.names[j] if j != NONE else None,
            tuple(a.operator[i] for i in members),
        )
        row = rows.setdefault(key, [0, 0.0, 0.0])
        row[0] += 1
        row[1] += float(a.microseconds[list(members)].sum())
        row[2] += float(b.microseconds[j]) if j != NONE else 0.0
    frame = pd.DataFrame(
        {
            "change": tables.texts(_change(*key[:2]) for key in rows),
            "kernels_a": pd.Series([key[0] for key in rows], dtype=object),
            "kernel_b": tables.texts(key[1] for key in rows),
            "operators_a": pd.Series([key[2] for key in rows], dtype=object),
            "times": np.array([row[0] for row in rows.values()], np.int64),
            "device_us_a": [row[1] if of_a else np.nan for row in rows.values()],
            "device_us_b": [row[2] if of_b else np.nan for row in rows.values()],
        }
    )
    frame = frame.astype({"device_us_a": float, "device_us_b": float})
    frame["delta_us"] = frame["device_us_b"] - frame["device_us_a"]
    return largest_first(frame)


def _change(members: tuple[str, ...], made: str | None) -> str:
    if made is None:
        return "vanished"
    if not members:
        return "new"
    if len(members) > 1:
        return "fused"
    return "same" if members[0] == made else "replaced"
