"""What became of the kernels of one profile in another: the same, fused, replaced, gone, new."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..intervals import NONE, Floats, Ints
from . import tables
from .attribution import Attribution

CHANGES = ("fused", "replaced", "vanished", "new", "same")
"""What can have become of kernels."""

_MOST = 20_000_000
"""Pairs of kernels, one of each profile, that are looked at at most."""

_SAME, _LIKE, _ALONE = 4.0, 1.0, 0.01
"""How much it says that two kernels bear one name, that one operator is behind both, and that the
second stands for no other yet."""

_STAY, _NEXT, _LEFT = 1, 2, 3

_FUSED = re.compile(r"triton_[a-z]+_fused_(\w+?)_\d+\w*$")
_PRODUCT = {"addmm": "mm", "baddbmm": "bmm", "addbmm": "bmm", "addmv": "mv"}
"""Operators that a compiler writes as a product, and adds the rest elsewhere."""


@dataclass(frozen=True, eq=False)
class _Kernels:
    """The kernels, copies and sets of a run, in the order of their launches."""

    names: list[str]
    microseconds: Floats
    operators: list[frozenset[str]]
    """The operators around the launch of each, as a compiler calls them: without `aten::`."""

    def __len__(self) -> int:
        return len(self.names)


def replacement(a: Attribution, b: Attribution) -> pd.DataFrame | None:
    """Return what became of the kernels of A in B, as `Comparison.replaced` describes it.

    Of each profile the median run. Kernels are matched in the order of their launches: those of one
    name with each other, the others by the operators that launched them, which the name of a
    kernel that torch.compile wrote lists. None where there are too many to be compared.
    """
    one, other = _typical(a), _typical(b)
    if len(one) * len(other) > _MOST:
        return None
    match = _matched(one, other)
    made: dict[int, list[int]] = {j: [] for j in range(len(other))}
    for i, j in enumerate(match.tolist()):
        if j != NONE:
            made[j].append(i)
    groups: list[tuple[tuple[int, ...], int]] = [(tuple(of), j) for j, of in made.items()]
    groups += [((i,), NONE) for i in np.flatnonzero(match == NONE).tolist()]
    return _frame(one, other, groups)


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
    return _Kernels(names, trace.duration_ns[rows] / 1000, _operators(found, rows))


def _operators(found: Attribution, rows: Ints) -> list[frozenset[str]]:
    trace = found.trace
    known: dict[int, frozenset[str]] = {NONE: frozenset()}

    def of(row: int) -> frozenset[str]:
        if row not in known:
            name = str(trace.names[trace.name[row]])
            own = {name.removeprefix("aten::").rstrip("_")} if name.startswith("aten::") else set()
            own |= {_PRODUCT[one] for one in own & set(_PRODUCT)}
            known[row] = of(int(found.parent[row])) | own
        return known[row]

    return [of(int(found.parent[row])) for row in rows]


def _matched(a: _Kernels, b: _Kernels) -> Ints:
    """Return for each kernel of A the one of B that does its work, or `NONE`; in the order of both.

    Of all ways to match them, one in which the pairs have most in common.
    """
    n, m = len(a), len(b)
    vocabulary = frozenset().union(*a.operators)
    of_operator: dict[str, list[int]] = {}
    of_name: dict[str, list[int]] = {}
    for j, name in enumerate(b.names):
        of_name.setdefault(name, []).append(j)
        for operator in b.operators[j] | _fused(name, vocabulary):
            of_operator.setdefault(operator, []).append(j)
    # The most that the kernels of A until here have in common with the first 0, 1, ... of B, and
    # how that came about.
    best = np.zeros(m + 1)
    how = np.zeros((n, m + 1), np.int8)
    for i in range(n):
        like = np.zeros(m)
        for operator in a.operators[i]:
            like[of_operator.get(operator, [])] += _LIKE
        like = np.minimum(like, 2 * _LIKE)
        # Several kernels can have become one; but rather one each, where there are as many.
        joined = np.where(like > 0, np.maximum(best[1:], best[:-1] + _ALONE) + like, 0)
        equal = np.zeros(m)
        at = of_name.get(a.names[i], [])
        equal[at] = best[at] + _SAME
        value = np.maximum(joined, equal)
        now = np.maximum(best, np.append(0.0, value))
        how[i, 1:] = np.where(value > best[1:], np.where(equal >= joined, _NEXT, _STAY), 0)
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
    listed = _FUSED.match(name)
    if listed is None:
        return frozenset()
    # Names that hold underscores themselves are joined by underscores.
    return frozenset(one for one in vocabulary if f"_{one}_" in f"_{listed[1]}_")


def _frame(a: _Kernels, b: _Kernels, groups: list[tuple[tuple[int, ...], int]]) -> pd.DataFrame:
    rows: dict[tuple[tuple[str, ...], str | None], list[float]] = {}
    for members, j in groups:
        key = tuple(a.names[i] for i in members), b.names[j] if j != NONE else None
        row = rows.setdefault(key, [0, 0.0, 0.0])
        row[0] += 1
        row[1] += float(a.microseconds[list(members)].sum())
        row[2] += float(b.microseconds[j]) if j != NONE else 0.0
    frame = pd.DataFrame(
        {
            "change": [_change(*key) for key in rows],
            "kernels_a": [key[0] for key in rows],
            "kernel_b": pd.Series([key[1] for key in rows], dtype=object),
            "times": [int(row[0]) for row in rows.values()],
            "device_us_a": [row[1] for row in rows.values()],
            "device_us_b": [row[2] for row in rows.values()],
        }
    )
    frame["delta_us"] = frame["device_us_b"] - frame["device_us_a"]
    order = frame["delta_us"].abs().argsort(kind="stable")[::-1]
    return frame.iloc[order].reset_index(drop=True)


def _change(members: tuple[str, ...], made: str | None) -> str:
    if made is None:
        return "vanished"
    if not members:
        return "new"
    if len(members) > 1:
        return "fused"
    return "same" if members[0] == made else "replaced"
