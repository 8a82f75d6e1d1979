"""Interval arithmetic against slow references that are plainly right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tprofile.intervals import NONE, climb, nest, number, union

Span = tuple[int, int, int]

spans = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-6, 12), st.integers(0, 9)).map(
        lambda t: (t[0], t[1], t[1] + t[2])
    ),
    max_size=25,
)
"""Group, start and end: small numbers, so that ties and shared edges are frequent."""


def columns(given: list[Span]) -> list[np.ndarray]:
    return [np.array([s[i] for s in given], np.int64) for i in range(3)]


def parents(given: list[Span]) -> list[int]:
    """Nest as torch does: a stack per thread, from which what cannot be a parent is dropped."""
    parent = [NONE] * len(given)
    stacks: dict[int, list[int]] = {}
    for i in sorted(range(len(given)), key=lambda i: (given[i][1], -given[i][2], i)):
        group, start, end = given[i]
        stack = stacks.setdefault(group, [])
        while stack and (start >= given[stack[-1]][2] or end > given[stack[-1]][2]):
            stack.pop()
        if stack:
            parent[i] = stack[-1]
        stack.append(i)
    return parent


def ancestors(parent: list[int], i: int) -> list[int]:
    found = []
    while (i := parent[i]) != NONE:
        found.append(i)
    return found


@given(spans)
def test_nest_is_the_stack_of_torch(given: list[Span]) -> None:
    found = nest(*columns(given))
    parent = parents(given)
    assert found.parent.tolist() == parent
    assert found.depth.tolist() == [len(ancestors(parent, i)) for i in range(len(given))]


@given(spans)
def test_the_root_of_each_is_its_outermost_ancestor(given: list[Span]) -> None:
    parent = parents(given)
    outermost = [[i, *ancestors(parent, i)][-1] for i in range(len(given))]
    assert nest(*columns(given)).root.tolist() == outermost


@given(spans)
def test_positions_walk_the_forest_parents_first(given: list[Span]) -> None:
    found = nest(*columns(given))
    parent = parents(given)
    n = len(given)
    assert sorted(found.position.tolist()) == list(range(n))
    for i in range(n):
        below = {j for j in range(n) if j == i or i in ancestors(parent, j)}
        first, size = int(found.position[i]), int(found.size[i])
        assert {j for j in range(n) if first <= found.position[j] < first + size} == below


@given(spans, st.data())
def test_sums_and_marks_agree_with_walking_up(given: list[Span], data: st.DataObject) -> None:
    found = nest(*columns(given))
    parent = parents(given)
    n = len(given)
    draw = lambda s: data.draw(st.lists(s, min_size=n, max_size=n))  # noqa: E731
    values, key, marked = draw(st.integers(-9, 9)), draw(st.integers(-2, 2)), draw(st.booleans())
    up = [ancestors(parent, i) for i in range(n)]

    assert found.subtree_sum(np.array(values, np.int64)).tolist() == [
        values[i] + sum(values[j] for j in range(n) if i in up[j]) for i in range(n)
    ]
    inside = [[given[j][1:] for j in range(n) if parent[j] == i] for i in range(n)]
    assert found.children_union(*columns(given)[1:]).tolist() == [
        len({unit for start, end in spans for unit in range(start, end)}) for spans in inside
    ]
    assert found.covered(np.array(marked, bool)).tolist() == [
        marked[i] or any(marked[j] for j in up[i]) for i in range(n)
    ]
    assert found.inside_same(np.array(key, np.int64)).tolist() == [
        any(key[j] == key[i] for j in up[i]) for i in range(n)
    ]


@given(spans)
def test_union_counts_every_unit_once(given: list[Span]) -> None:
    covered: dict[int, set[int]] = {g: set() for g in range(4)}
    for group, start, end in given:
        covered[group].update(range(start, end))
    assert union(*columns(given), groups=4).tolist() == [len(covered[g]) for g in range(4)]


def test_sums_hold_nanoseconds_of_a_long_session() -> None:
    # GIVEN ten days in one interval, and an odd nanosecond inside it
    day = 86_400 * 10**9
    spans = columns([(0, 0, 10 * day + 1), (0, 5, 6)])
    found = nest(*spans)
    assert found.children_union(*spans[1:]).tolist() == [1, 0]
    assert found.subtree_sum(np.array([10 * day + 1, 1])).tolist() == [10 * day + 2, 1]
    assert union(*columns([(0, 0, 10 * day), (0, day, 11 * day + 1)]), 1).tolist() == [11 * day + 1]


def test_a_stray_interval_far_away_spoils_no_union() -> None:
    # GIVEN a start at nothing and the rest at Unix time, in more groups than int64 has room for
    now = 1_764_590_000 * 10**9
    spans = [(0, 0, 5), *((g, now, now + 7) for g in range(40))]
    assert union(*columns(spans), groups=40).tolist() == [12] + [7] * 39


@pytest.mark.parametrize(
    ("case", "given", "parent"),
    [
        ("nothing", [], []),
        ("equal spans: the first holds the others", [(0, 0, 5), (0, 0, 5), (0, 0, 5)], [-1, 0, 1]),
        ("given in any order", [(0, 2, 3), (0, 0, 9), (0, 1, 4)], [2, -1, 1]),
        ("edges may touch inside", [(0, 0, 9), (0, 0, 4), (0, 4, 9)], [-1, 0, 0]),
        ("an empty one at a start is inside", [(0, 0, 5), (0, 0, 0)], [-1, 0]),
        ("an empty one at an end is outside", [(0, 0, 5), (0, 5, 5)], [-1, -1]),
        ("an empty one in an empty one is outside", [(0, 3, 3), (0, 3, 3)], [-1, -1]),
        ("other threads hold nothing", [(0, 0, 9), (1, 1, 2)], [-1, -1]),
        ("overlap in part is no parent", [(0, 0, 5), (0, 3, 8)], [-1, -1]),
        (
            "and closes what it runs past",
            [(0, 0, 20), (0, 1, 6), (0, 4, 9), (0, 4, 5)],
            [-1, 0, 0, 2],
        ),
    ],
)
def test_nest_by_hand(case: str, given: list[Span], parent: list[int]) -> None:
    assert nest(*columns(given)).parent.tolist() == parent, case


@given(
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3), max_size=30),
)
def test_numbers_tell_rows_apart_and_rise_with_them(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([r[i] for r in rows], np.int64) for i in range(3)]
    order = {row: i for i, row in enumerate(sorted(set(rows)))}
    assert number(*columns).tolist() == [order[row] for row in rows]


@given(spans, st.integers(0, 2**25 - 1))
def test_climbing_stops_at_the_first_that_is_not_passed(given: list[Span], bits: int) -> None:
    group, start, end = (np.array([s[i] for s in given], np.int64) for i in range(3))
    parent = nest(group, start, end).parent
    passing = np.array([bits >> i & 1 for i in range(len(given))], bool)
    expected = []
    for at in range(len(given)):
        while at != NONE and passing[at]:
            at = int(parent[at])
        expected.append(at)
    assert climb(parent, np.arange(len(given)), passing).tolist() == expected
