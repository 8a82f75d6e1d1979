"""Give slices that overlap in part lanes of their own."""

from __future__ import annotations

import numpy as np

from ..intervals import NONE, Ints, nest, number


def split_lanes(process: Ints, lane: Ints, start: Ints, end: Ints) -> Ints:
    """Return for each slice the number of an extra lane, or `NONE` where it may stay.

    Slices stay wherever they nest with those before them. The input is sorted by start, the
    longer first; numbers are unique over all processes, and the same input gives the same numbers.
    """
    extra = np.full(len(start), NONE)
    group = number(process, lane)
    used = 0
    for crowded in np.unique(group[_overlapping(group, start, end)]):
        rows = np.flatnonzero(group == crowded)
        level = np.array(_place(start[rows].tolist(), end[rows].tolist()))
        extra[rows] = np.where(level > 0, level - 1 + used, NONE)
        used += int(level.max())
    return extra


def _overlapping(group: Ints, start: Ints, end: Ints) -> Ints:
    """Return slices that start inside, and end outside, the one beside them."""
    found = nest(group, start, end)
    # Siblings in the order of their starts have rising ends, so neighbours tell of all.
    above = np.where(found.parent >= 0, found.parent, NONE - 1 - group)
    order = np.lexsort((found.position, above))
    same = above[order][1:] == above[order][:-1]
    return order[1:][same & (start[order][1:] < end[order][:-1])]


def _place(start: list[int], end: list[int]) -> list[int]:
    """Return the first lane in which each slice nests."""
    open_ends: list[list[int]] = []
    placed = []
    for begin, finish in zip(start, end, strict=True):
        for stack in open_ends:
            while stack and stack[-1] <= begin:
                stack.pop()
        fits = (i for i, stack in enumerate(open_ends) if not stack or finish <= stack[-1])
        lane = next(fits, len(open_ends))
        if lane == len(open_ends):
            open_ends.append([])
        open_ends[lane].append(finish)
        placed.append(lane)
    return placed
