"""Arithmetic of intervals: who contains whom, what a subtree adds up to, how much is covered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NONE = -1
"""Stands in integer columns for "there is none": a root has no parent, a host event no stream."""


@dataclass(frozen=True, eq=False)
class Nesting:
    """A forest over n intervals, in the order in which they were given."""

    parent: Ints
    """Index of the smallest interval around each one; `NONE` for a root."""
    depth: Ints
    """0 for a root."""
    position: Ints
    """Place of each interval in a walk of the forest, parents first."""
    size: Ints
    """How many intervals the subtree of each one has, itself included."""

    @property
    def root(self) -> Ints:
        """Index of the outermost interval around each one: of a root, itself."""
        roots = np.flatnonzero(self.parent == NONE)
        roots = roots[np.argsort(self.position[roots])]
        return roots[np.searchsorted(self.position[roots], self.position, "right") - 1]

    def subtree_sum(self, values: Ints) -> Ints:
        """Return the sum of `values` over each interval and all that it contains."""
        walked = np.empty(len(values) + 1, np.int64)
        walked[0] = 0
        walked[self.position + 1] = values
        before = np.cumsum(walked)
        return before[self.position + self.size] - before[self.position]

    def children_union(self, start: Ints, end: Ints) -> Ints:
        """Return the time that the direct children of each interval cover.

        Where they do not overlap, that is the sum of their durations.
        """
        child = self.parent >= 0
        return union(self.parent[child], start[child], end[child], len(start))

    def covered(self, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mark the intervals that are, or stand at any depth inside, a marked one."""
        edges = np.zeros(len(marked) + 1, np.int64)
        np.add.at(edges, self.position[marked], 1)
        np.add.at(edges, (self.position + self.size)[marked], -1)
        return np.cumsum(edges)[self.position] > 0

    def inside_same(self, key: Ints) -> NDArray[np.bool_]:
        """Mark the intervals that stand, at any depth, inside one with the same key."""
        order = np.lexsort((self.position, key))
        reach = (self.position + self.size)[order]
        # Keys are apart by more than any position, so the running maximum starts anew with each.
        offset = np.cumsum(np.r_[0, np.diff(key[order]) != 0][: len(order)]) * (len(key) + 1)
        before = np.maximum.accumulate(np.r_[NONE, (reach + offset)[:-1]])[: len(order)]
        inside = np.empty(len(key), bool)
        inside[order] = self.position[order] + offset < before
        return inside


def nest(group: Ints, start: Ints, end: Ints) -> Nesting:
    """Nest the half-open intervals [start, end) within each group (a thread).

    The rule is torch's: in the order (start, -end), an interval's parent is the nearest earlier
    one that contains it whole, where one that overlaps it in part has already closed everything
    that it runs past. So the parent is the nearest earlier interval with an end as late, or later
    where the interval is empty (an empty interval at an end is outside).
    """
    n = len(start)
    order = np.lexsort((-end, start, group))
    ends, grouped = end[order], group[order]
    # An empty interval needs a parent that ends after it, the others one that ends no earlier.
    need = ends + (ends == start[order])
    first = np.r_[True, grouped[1:] != grouped[:-1]][:n]
    pointer = np.where(first, NONE, np.arange(n) - 1)
    active = np.flatnonzero(pointer >= 0)
    active = active[ends[pointer[active]] < need[active]]
    while len(active):
        # All between pointer[i] and i end before need[i]; the same holds for the pointer's own
        # pointer, final or not, so each round may jump as far as the last one got.
        pointer[active] = pointer[pointer[active]]
        active = active[pointer[active] >= 0]
        active = active[ends[pointer[active]] < need[active]]
    depth = depths(pointer)
    back = np.empty(n, np.int64)
    back[order] = np.arange(n)
    parent = np.where(pointer >= 0, order[pointer], NONE) if n else pointer
    return Nesting(
        parent=parent[back], depth=depth[back], position=back, size=_sizes(pointer, depth)[back]
    )


def depths(parent: Ints) -> Ints:
    """Count ancestors, twice as far in each round."""
    depth = (parent >= 0).astype(np.int64)
    ancestor = parent.copy()
    climbing = np.flatnonzero(ancestor >= 0)
    while len(climbing):
        above = ancestor[climbing]
        depth[climbing] += depth[above]
        ancestor[climbing] = ancestor[above]
        climbing = climbing[ancestor[climbing] >= 0]
    return depth


def _sizes(parent: Ints, depth: Ints) -> Ints:
    size = np.ones(len(parent), np.int64)
    by_depth = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=0)) + 2))
    for level in range(len(levels) - 2, 0, -1):
        members = by_depth[levels[level] : levels[level + 1]]
        np.add.at(size, parent[members], size[members])
    return size


def union(group: Ints, start: Ints, end: Ints, groups: int) -> Ints:
    """Return for each of `groups` groups the time that its intervals [start, end) cover."""
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    if not len(order):
        return np.zeros(groups, np.int64)
    # Moving each group behind the one before it lets one running maximum serve them all. Groups
    # are as long as their own intervals: a stray one must not take all of them beyond int64.
    first = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    length = np.maximum.reduceat(end, first) - start[first] + 1
    shift = np.cumsum(length) - length - start[first]
    offset = np.repeat(shift, np.diff(np.r_[first, len(order)]))
    reach = np.maximum.accumulate(end + offset)
    covered_to = np.maximum(np.r_[(start + offset)[:1], reach[:-1]], start + offset)
    added = np.maximum(end + offset - covered_to, 0)
    return np.bincount(group, weights=added, minlength=groups).astype(np.int64)


def climb(parent: Ints, start: Ints, passing: NDArray[np.bool_]) -> Ints:
    """Return the first of each start and its ancestors that is not `passing`, or `NONE`."""
    at = start.copy()
    climbing = np.flatnonzero((at != NONE) & passing[at])
    while len(climbing):
        at[climbing] = parent[at[climbing]]
        climbing = climbing[(at[climbing] != NONE) & passing[at[climbing]]]
    return at


def number(*columns: NDArray[Any]) -> Ints:
    """Return an integer per row of the columns, the same for the same combination of values.

    The integers are small, and rise with the values, the first column before the others.
    """
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if not len(column) or (column == column[0]).all():
            continue
        _, codes = np.unique(column, return_inverse=True)
        key = key * (int(codes.max()) + 1) + codes.reshape(-1)
        # Dense again after each column, so that no product of the next ones is beyond int64.
        _, key = np.unique(key, return_inverse=True)
        key = key.reshape(-1)
    return key


def merge(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the same stretch of time as intervals in order that neither touch nor overlap."""
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    begins = np.r_[True, start[1:] > reach[:-1]][: len(start)]
    ends = np.r_[begins[1:], True][: len(start)]
    return start[begins], reach[ends]


def measure(start: Ints, end: Ints, begin: Ints, finish: Ints) -> Ints:
    """Return how much of each [begin, finish) is in intervals, which are as `merge` gives them."""
    before = np.r_[0, np.cumsum(end - start)]

    def until(time: Ints) -> Ints:
        at = np.searchsorted(start, time, "right")
        beyond = np.maximum(end[at - 1] - time, 0) if len(end) else 0
        return before[at] - np.where(at > 0, beyond, 0)

    return until(finish) - until(begin)
