"""The figures above all tables, and when a reader must be warned."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from traces import RECORDED, note, op, profile, recorded, text, work

import tprofile


def three_runs(busy: float = 6, **recorded_: Any) -> tprofile.Profile:
    """Return runs of 10, 30 and 20 µs with a kernel each."""
    events = []
    for i, wall in enumerate((10, 30, 20)):
        at, ext = 100 * i, 2 * i + 1
        events += [note("tprofile::run", at, wall, ext), op("a", at + 1, 5, ext + 1),
                   work("k", at + 2, busy + i, 0, ext + 1)]  # fmt: skip
    told = {"warmup_s": [], "discarded": 0, "profiled": 3, **recorded_}
    return profile(*events, recorded=told)


def test_unmeasured_is_none_and_the_wall_profiled_without_other_runs() -> None:
    assert dataclasses.asdict(three_runs().summary) == {
        "verdict": "python-bound",
        "reason": "the GPU is idle 65 % of a run; for 92 % of that the CPU does work of its own "
        "(Python, data)",
        "wall_us": 20, "wall_source": "profiled",
        "wall_spread": None, "profiled_wall_us": 20, "overhead_ratio": None, "earlier_profiles": 0,
        "first_run_us": None,
        "device_busy_us": 7, "device_busy_fraction": 0.35, "launches": 1,
        "median_kernel_us": 7, "device_names": ("device 0",), "peak_device_bytes": None,
        "warnings": (),
    }  # fmt: skip


def test_the_wall_is_the_median_of_the_warm_ups_after_the_first() -> None:
    found = three_runs(warmup_s=[5e-3, 12e-6, 20e-6, 16e-6]).summary
    assert found.wall_us == pytest.approx(16)
    assert found.wall_source == "unprofiled"
    assert found.first_run_us == pytest.approx(5000)
    assert found.wall_spread == pytest.approx((20 - 12) / 2 / 16)
    assert found.overhead_ratio == pytest.approx(20 / 16)
    assert found.profiled_wall_us == 20
    assert found.warnings == ()


def test_a_spread_needs_three_and_one_run_is_flagged() -> None:
    two = three_runs(warmup_s=[1, 10e-6, 14e-6]).summary
    assert (two.wall_us, two.wall_spread, two.warnings) == (pytest.approx(12), None, ())
    one = three_runs(warmup_s=[1, 10e-6]).summary
    assert one.wall_us == pytest.approx(10)
    assert one.warnings == ("the wall is that of a single unprofiled run: its spread is unknown",)


def test_runs_too_short_for_the_clock() -> None:
    found = three_runs(warmup_s=[0.0] * 4).summary
    assert (found.wall_us, found.wall_spread, found.device_busy_fraction) == (0, None, None)


def test_a_single_warm_up_is_no_wall() -> None:
    found = three_runs(warmup_s=[1.0]).summary
    assert (found.wall_us, found.wall_source, found.first_run_us) == (20, "profiled", 1e6)


def test_walls_that_were_given_replace_those_of_the_warm_up() -> None:
    trace = text(op("a", 0, 10), recorded={"warmup_s": [9.0, 8.0, 7.0]})
    found = tprofile.load(trace, unprofiled_s=[30e-6, 10e-6, 20e-6]).summary
    assert found.wall_us == pytest.approx(20)
    assert tprofile.load(trace, unprofiled_s=2e-6).summary.wall_us == pytest.approx(2)


@pytest.mark.parametrize(
    ("wall_us", "fraction", "warned"), [(14, 0.5, False), (6.8, 1, False), (5, 1, True)]
)
def test_a_fraction_is_at_most_one_and_beyond_is_told(
    wall_us: float, fraction: float, warned: bool
) -> None:
    # GIVEN 7 µs of busy in the median run
    found = three_runs(warmup_s=[1, *[wall_us / 1e6] * 3])
    assert found.summary.device_busy_fraction == pytest.approx(fraction)
    assert found.devices["busy_fraction"].tolist() == [pytest.approx(fraction)]
    told = [w for w in found.summary.warnings if w.startswith("the device was busy ")]
    assert [w.split(" the wall")[0] for w in told] == ["the device was busy 1.40 times"] * warned


@pytest.mark.parametrize(
    ("recorded_", "reason"),
    [
        ({}, "no device work was recorded"),
        ({"platform": "CPU", "cuda_available": True}, "only the CPU was recorded"),
        ({"platform": "CPU", "cuda_available": False}, "torch sees no CUDA device here"),
    ],
)
def test_cpu_only(recorded_: dict, reason: str) -> None:
    found = profile(op("a", 0, 10), recorded=recorded_).summary
    assert (found.verdict, found.reason) == ("cpu-only", reason)
    assert (found.device_busy_us, found.device_busy_fraction, found.launches) == (None,) * 3
    assert found.device_names == ()


def test_the_median_kernel_is_that_of_all_runs_and_no_copy() -> None:
    one = profile(
        note("tprofile::run", 0, 20), op("a", 1, 5, 1), work("k", 2, 1, 0, 1),
        work("k", 4, 2, 0, 1, stream=8), work("Memcpy", 7, 9, 0, 1, cat="gpu_memcpy"),
        note("tprofile::run", 30, 20), op("a", 31, 5, 2), work("k", 32, 3.5, 0, 2),
        work("l", 36, 10, 0, 2), op("after", 80, 5, 3), work("k", 81, 90, 0, 3),
        recorded={"profiled": 2},
    )  # fmt: skip
    assert one.summary.median_kernel_us == (2 + 3.5) / 2
    copies = profile(op("a", 0, 9, 1), work("Memset", 3, 2, 0, 1, cat="gpu_memset"))
    assert (copies.summary.median_kernel_us, copies.summary.launches) == (None, 0)
    assert profile(op("a", 0, 9)).summary.median_kernel_us is None


def test_notes_of_the_recorder_are_warnings() -> None:
    found = profile(op("a", 0, 1), recorded={"notes": ["one", "two"]}).summary
    assert found.warnings == ("one", "two")


@pytest.mark.parametrize(
    ("odd", "fault"),
    [
        ({"notes": ["one", 2]}, "Expected `str`, got `int` - at `$.notes[1]`"),
        ({"warmup_s": [-1]}, "Expected `float` >= 0.0 - at `$.warmup_s[0]`"),
        ({"profiled": "many"}, "Expected `int | null`, got `str` - at `$.profiled`"),
        ({"stopped": 3}, "Expected `object | null`, got `int` - at `$.stopped`"),
        (["x"], "Expected `object`, got `array`"),
    ],
)
def test_odd_metadata_is_left_out_and_told(odd: object, fault: str) -> None:
    # GIVEN a trace whose recorder's own data is none that we write
    one = profile(op("a", 0, 1), recorded=odd)
    # THEN the events count as those of any trace, and a warning says what is wrong
    assert one.operators["name"].tolist() == ["a"]
    assert one.summary.warnings == (
        f"what the file says of its own recording is unusable: {fault}",
    )
    assert one.text().splitlines()[1] == "1 run: the whole trace"


def test_an_empty_trace_has_no_figures() -> None:
    found = dataclasses.asdict(profile().summary)
    assert found.pop("device_names") == ()
    assert found.pop("warnings") == ()
    assert set(found.values()) == {None}


def test_a_summary_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile().summary.wall_us = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traces_have_their_device_and_steps(name: str) -> None:
    found = recorded(name)
    assert found.run_source == "steps"
    assert found.summary.device_names == ("NVIDIA H200",)
    assert found.summary.wall_source == "profiled"


def test_of_a_run_that_was_stopped_nothing_is_known_per_run() -> None:
    # GIVEN warm-ups, and a first profiled run that an error ended
    told = {
        "warmup_s": [3e-6, 2e-6, 2e-6],
        "discarded": 1,
        "profiled": 0,
        "stopped": {"by": "ValueError", "during": "profiled run 1 of 3"},
    }
    one = profile(note("tprofile::run", 0, 20, 1), op("a", 5, 10, 2), recorded=told)
    # THEN only what was measured before is a figure
    found = one.summary
    assert (found.wall_us, found.wall_source, found.profiled_wall_us) == (2, "unprofiled", None)
    assert (found.overhead_ratio, found.device_busy_us, found.launches) == (None, None, None)
    # AND the tables are there and say of what
    assert one.operators[["name", "calls"]].to_numpy().tolist() == [["a", 1]]
    assert one.text().splitlines()[:4] == [
        "Stopped by ValueError in profiled run 1 of 3",
        "4 runs: 3 warm-up, 1 profiler warm-up; stopped by ValueError in profiled run 1 of 3",
        "wall 2.00 µs per run, not profiled · first run 3.00 µs",
        "the tables are of the run that was stopped, up to there",
    ]


def test_what_slows_python_and_torch_unequally_makes_the_verdict_doubtful() -> None:
    events = [op("aten::mm", 0, 10, 1), work("k", 90, 10, 1, 1)]

    def said(**recorded: object) -> list[str]:
        warnings = profile(*events, recorded=recorded).summary.warnings
        return [one.split(" ")[0] for one in warnings if "may be another without" in one]

    assert said() == []
    assert said(memory=True) == ["memory"]
    assert said(stack=True) == ["stacks"]
    assert said(stack=True, memory=True) == ["stacks"]
