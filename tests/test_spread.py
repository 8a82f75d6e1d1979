"""How sums differ by run, against plain arithmetic, and where a run begins to be an outlier."""

from __future__ import annotations

import numpy as np
import pytest
from traces import call, note, op, profile, work

from tprofile.analysis.attribution import Attribution, attribute
from tprofile.analysis.spread import Change, Spread, largest_change, outliers, outlying_runs


def in_runs(n: int, *events: dict, **recorded: int) -> Attribution:
    """Return n runs of 100 µs that these events are in, or beside."""
    marks = [note("tprofile::run", 100 * i, 100) for i in range(n)]
    return attribute(profile(*marks, *events, recorded={"profiled": n, **recorded}).trace)


@pytest.mark.parametrize("runs", [1, 2, 3, 4, 7])
def test_spread_is_that_of_the_whole_matrix(runs: int) -> None:
    # GIVEN 30 events of 10 rows, in any run or before them
    rng = np.random.default_rng(runs)
    place = np.sort(rng.integers(-1, runs, 30))
    found = in_runs(runs, *(op("a", 100 * at + 1 + i, 1) for i, at in enumerate(place.tolist())))
    events = np.flatnonzero(found.trace.category_is("cpu_op"))
    assert found.run[events].tolist() == place.tolist()
    assert (place == -1).any()
    row, values = rng.integers(0, 10, 30), rng.integers(-4, 5, 30)
    # THEN a row that is not in a run has 0 there, and what is in no run is nowhere
    matrix = np.zeros((10, runs), np.int64)
    inside = place >= 0
    np.add.at(matrix, (row[inside], place[inside]), values[inside])
    least, median, greatest = Spread(found, events, row, 10).of(values)
    assert least.tolist() == matrix.min(axis=1).tolist()
    assert median.tolist() == np.median(matrix, axis=1).tolist()
    assert greatest.tolist() == matrix.max(axis=1).tolist()


def test_a_sum_below_0_is_less_than_that_of_a_run_without_the_row() -> None:
    found = in_runs(5, *(op("a", 100 * run + 1, 1) for run in (0, 1, 3)))
    events = np.flatnonzero(found.trace.category_is("cpu_op"))
    spread = Spread(found, events, np.zeros(3, np.int64), 1)
    told = [[float(of_row[0]) for of_row in spread.of(np.array(values))] for values in (
        [-3, -5, 4], [-3, -5, -4], [3, 5, 4], [0, 0, -1],
    )]  # fmt: skip
    assert told == [[-5, 0, 4], [-5, -3, 0], [0, 3, 5], [-1, 0, 0]]


def test_without_a_complete_run_nothing_is_known() -> None:
    for found in (in_runs(1, op("a", 1, 5), profiled=0), attribute(profile().trace)):
        events = np.flatnonzero(found.trace.category_is("cpu_op"))
        spread = Spread(found, events, np.zeros(len(events), np.int64), 1)
        assert np.isnan(spread.of(np.ones(len(events), np.int64))).all()


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        # Two that differ: neither is the odd one.
        ([], []),
        ([1000], []),
        ([1000, 9000], []),
        # Three: one is odd if the others are near each other.
        ([1000, 1000, 2000], [2]),
        ([1000, 1100, 1601], [2]),
        ([1000, 1100, 1600], []),
        ([1000, 1400, 1800], []),
        ([400, 1000, 1010], [0]),
        # Four: half of them slow is no outlier.
        ([1000, 1000, 1000, 4000], [3]),
        ([1000, 1000, 4000, 4000], []),
        ([1000, 1010, 4000, 4040], []),
        # Ten: four slow ones are not the rule, five are half of it.
        ([1000] * 9 + [1251], [9]),
        ([1000] * 6 + [4000] * 4, [6, 7, 8, 9]),
        ([1000] * 5 + [4000] * 5, []),
        # A hundred, that scatter evenly by up to 10 %
        ([*range(900, 1100, 2)], []),
        ([*range(900, 1098, 2), 1300], [99]),
    ],
)
def test_outliers(values: list[float], odd: list[int]) -> None:
    assert np.flatnonzero(outliers(np.array(values, float))).tolist() == odd
    # AND their order is nothing to it
    turned = np.flatnonzero(outliers(np.array(values[::-1], float)))
    assert sorted(len(values) - 1 - turned) == odd


@pytest.mark.parametrize(
    ("usual", "scatter", "border"),
    [
        (1000, 0, 1250),  # a quarter of the median
        (1000, 80, 1400),  # five times the median distance from it
        (40, 0, 140),  # 100 µs
    ],
)
def test_at_the_border_a_run_is_none(usual: float, scatter: float, border: float) -> None:
    others = [usual, usual - scatter, usual + scatter, usual - scatter]
    assert not outliers(np.array([*others, border])).any()
    beyond = outliers(np.array([*others, np.nextafter(border, np.inf)]))
    assert np.flatnonzero(beyond).tolist() == [4]


def test_what_was_not_measured_is_no_outlier_and_judges_none() -> None:
    assert not outliers(np.array([np.nan] * 4)).any()
    assert not outliers(np.array([1000, np.nan, 9000])).any()
    odd = outliers(np.array([1000, np.nan, 4000, 1000, np.nan]))
    assert np.flatnonzero(odd).tolist() == [2]


@pytest.mark.parametrize(("asked", "odd"), [(0, [3]), (1, [0, 3]), (None, [0, 3])])
def test_the_first_run_of_a_cold_profile_is_no_outlier(asked: int | None, odd: list[int]) -> None:
    found = in_runs(5, **({} if asked is None else {"asked_warmup": asked}))
    marked = outlying_runs(found, np.array([9000.0, 1000, 1000, 9000, 1000]))
    assert np.flatnonzero(marked).tolist() == odd
    assert outlying_runs(found, np.zeros(0)).tolist() == []


def test_the_largest_change_is_an_operators_or_a_kernels() -> None:
    # GIVEN a second run of three in which `a` takes 30 µs more, `b` 10, and the kernel 20
    events = []
    for i, (a, b, k) in enumerate([(5, 5, 10), (35, 15, 30), (5, 5, 10)]):
        at, ext = 100 * i, i + 1
        events += [op("a", at + 1, a, ext), op("b", at + 40, b), work("k", at + 50, k, 0, ext)]
    found = in_runs(3, *events)
    assert largest_change(found, 1, 60, host=True) == Change("a", 30, on_device=False)
    # THEN less than a third of the difference explains nothing
    assert largest_change(found, 1, 90, host=True) == Change("a", 30, on_device=False)
    assert largest_change(found, 1, 90.1, host=True) is None
    # AND of device time, kernels alone are the cause
    assert largest_change(found, 1, 20, host=False) == Change("k", 20, on_device=True)


def test_what_a_run_lacks_is_a_change_too() -> None:
    found = in_runs(3, *(op("a", 100 * i + 1, 40) for i in (0, 2)))
    assert largest_change(found, 1, -50, host=True) == Change("a", -40, on_device=False)


def test_a_kernel_comes_before_the_call_that_waited_for_it() -> None:
    # GIVEN a wait that took as much longer as its kernel, and some more
    def events(kernel: float) -> list[dict]:
        return [
            event
            for i, extra in enumerate((0, 50, 0))
            for event in (
                op("a", 100 * i + 1, 5, i + 1),
                call("cudaDeviceSynchronize", 100 * i + 8, 2 + extra, i + 9),
                work("k", 100 * i + 3, 4 + extra * kernel, 0, i + 1),
            )
        ]  # fmt: skip

    found = largest_change(in_runs(3, *events(0.9)), 1, 50, host=True)
    assert found == Change("k", 45, on_device=True)
    # BUT where no kernel explains it, the call does
    found = largest_change(in_runs(3, *events(0.1)), 1, 50, host=True)
    assert found == Change("cudaDeviceSynchronize", 50, on_device=False)


def test_steps_are_no_cause_of_their_own() -> None:
    one = profile(*(note(f"ProfilerStep#{i}", 100 * i, 20 + 40 * (i == 1)) for i in range(3)))
    assert largest_change(attribute(one.trace), 1, 40, host=True) is None
