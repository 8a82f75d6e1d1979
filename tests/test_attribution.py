"""Who caused what, and in which run, on traces small enough to work out by hand."""

from __future__ import annotations

import pytest
from traces import call, note, op, profile, recorded, row, slice_, work

import tprofile

RUN, SYNC, EACH = "tprofile::run", "tprofile::synchronize", "tprofile::each"


def owner(one: tprofile.Profile) -> list[str | None]:
    return one.kernels.sort_values("name")["operator"].tolist()


def test_runs_by_our_marks() -> None:
    # GIVEN two runs, each ended by our own wait, with a reset before and something between
    one = profile(
        note(EACH, 0, 9), op("reset", 1, 5),
        note(RUN, 10, 30), op("a", 11, 8), note(SYNC, 20, 19), call("wait", 21, 9, 5),
        op("between", 41, 3),
        note(RUN, 50, 20), op("a", 51, 6), note(SYNC, 60, 9),
        op("after", 80, 1),
    )  # fmt: skip
    # THEN only what the user ran in them has a row
    assert one.run_source == "marks"
    assert one.operators[["name", "calls", "cpu_us"]].to_numpy().tolist() == [["a", 2, 14]]
    assert one.runs[["run", "wall_us", "cpu_us"]].to_numpy().tolist() == [[1, 30, 8], [2, 20, 6]]
    # AND every event knows its run
    events = one.events
    assert events.loc[events["name"] == "a", "run"].tolist() == [1, 2]
    outside = events["name"].isin(["reset", "between", "after"])
    assert events.loc[outside, "run"].tolist() == [-1] * 3


def test_a_run_that_an_error_ended_is_left_out_unless_it_is_alone() -> None:
    runs = [note(RUN, 0, 10), op("a", 1, 2), note(RUN, 20, 3), op("b", 21, 1)]
    told = {"warmup_s": [], "discarded": 0}
    one = profile(*runs, recorded={**told, "profiled": 1})
    assert one.runs["wall_us"].tolist() == [10]
    assert one.operators["name"].tolist() == ["a"]
    alone = profile(*runs[2:], recorded={**told, "profiled": 0})
    assert alone.operators["name"].tolist() == ["b"]


def test_runs_by_profiler_steps() -> None:
    # GIVEN steps on one thread, one inside another, and a step of another thread
    one = profile(
        note("ProfilerStep#4", 0, 10, 1), note("ProfilerStep#5", 2, 3, 2), op("a", 3, 1, 3),
        note("ProfilerStep#6", 10, 5, 4), note("ProfilerStep#1", 4, 90, 5, tid=2),
        op("outside", 50, 4, 6),
    )  # fmt: skip
    assert one.run_source == "steps"
    assert one.runs["wall_us"].tolist() == [10, 5]
    # THEN the table has them as one row, with the inner one counted once in its total
    step = row(one.operators, name="ProfilerStep*")
    assert (step["calls"], step["cpu_us"], step["self_cpu_us"]) == (4, 10 + 5 + 90, 7 + 2 + 5 + 90)
    # AND as in torch's table, what lies outside all steps has a row too
    assert row(one.operators, name="outside")["calls"] == 1
    assert one.operators_by("run").set_index("name")["run"]["outside"] == -1


def test_the_edges_of_a_run() -> None:
    one = profile(
        note("ProfilerStep#0", 10, 10), note("ProfilerStep#1", 20, 10),
        op("a", 20, 1), op("b", 30, 1),
    )  # fmt: skip
    runs = one.events.set_index("name")["run"]
    assert (runs["a"], runs["b"]) == (2, -1)


def test_without_marks_all_is_one_run() -> None:
    one = profile(op("a", 5, 10), work("k", 12, 30))
    assert one.run_source == "trace"
    assert one.runs["wall_us"].tolist() == [37]


def test_our_marks_come_before_steps() -> None:
    one = profile(note("ProfilerStep#0", 0, 50), note(RUN, 1, 9))
    assert (one.run_source, one.runs["wall_us"].tolist()) == ("marks", [9])


def test_a_kernel_belongs_to_the_operator_of_its_external_id() -> None:
    # GIVEN ids that point elsewhere than the launch does
    one = profile(
        op("outer", 0, 20, 1), op("inner", 1, 9, 2), call("launch", 2, 1, 7, 2),
        work("k", 30, 4, 7, ext=1),
    )  # fmt: skip
    assert owner(one) == ["outer"]
    assert row(one.operators, name="outer")["self_device_us"] == 4


def test_without_an_id_it_belongs_to_the_operator_around_its_launch() -> None:
    one = profile(
        op("outer", 0, 20, 1), note("named", 1, 9, 2), call("launch", 2, 1, 7), work("k", 30, 4, 7)
    )
    assert owner(one) == ["outer"]
    assert row(one.operators, name="named")["device_us"] == 0


def test_without_an_operator_it_is_listed_under_its_launch() -> None:
    one = profile(op("a", 0, 1), call("cudaGraphLaunch", 5, 2, 7),
                  work("k1", 10, 3, 7), work("k2", 14, 3, 7), work("stray", 20, 1, 99))  # fmt: skip
    assert owner(one) == ["cudaGraphLaunch", "cudaGraphLaunch", None]
    # AND no operator's row has its time
    assert one.operators["device_us"].tolist() == [0, 0]
    # AND a graph is one launch, a kernel without a recorded launch its own
    assert one.runs["launches"].tolist() == [2]


def launched(one: tprofile.Profile) -> dict[str, tuple[float, float]]:
    frame = one.operators
    columns = (frame[c].tolist() for c in ("name", "self_launched_us", "launched_us"))
    return {name: (own, all_) for name, own, all_ in zip(*columns, strict=True)}


def test_work_that_no_operator_launched_stands_in_the_row_of_its_call() -> None:
    # GIVEN a graph under an annotation and its step, a launch beside, and a kernel without any
    one = profile(
        note("ProfilerStep#0", 0, 40, 1), note("replay", 1, 30, 2),
        call("cudaGraphLaunch", 5, 2, 7), op("a", 10, 5, 3), call("launch", 11, 1, 8, 3),
        call("launch", 50, 1, 9), work("k1", 60, 3, 7), work("k2", 64, 4, 7),
        work("k", 70, 8, 8, 3), work("other", 80, 16, 9), work("stray", 99, 32, 5),
    )  # fmt: skip
    # THEN it is the call's own, and in the total of all that is around the call
    assert launched(one) == {
        "a": (0, 0), "launch": (16, 16), "cudaGraphLaunch": (7, 7), "replay": (0, 7),
        "ProfilerStep*": (0, 7),
    }  # fmt: skip
    # AND with what operators launched, and what has no launch, it is all there is
    frame = one.operators
    own = frame["self_device_us"].sum() + frame["self_launched_us"].sum()
    assert own + 32 == one.kernels["device_us"].sum() == 63


def test_launched_totals_count_recursion_once() -> None:
    one = profile(
        note("n", 0, 40), note("m", 1, 30), note("n", 2, 20), call("cudaGraphLaunch", 5, 2, 7),
        work("k", 60, 3, 7),
    )  # fmt: skip
    assert launched(one) == {"cudaGraphLaunch": (3, 3), "n": (0, 3), "m": (0, 3)}


@pytest.mark.parametrize(
    ("name", "own", "totals"),
    [
        ("cuda_graph", {"cudaGraphLaunch": 623.999}, {"ProfilerStep*": 623.999}),
        # 60 launches each of two threads, in which nothing else was recorded
        ("two_threads", {"cudaLaunchKernelExC": 745.86}, {"ProfilerStep*": 0}),
    ],
)
def test_launches_outside_operators_of_recorded_traces(
    name: str, own: dict[str, float], totals: dict[str, float]
) -> None:
    one = recorded(name)
    found = launched(one)
    assert {k: v[0] for k, v in found.items() if v[0]} == pytest.approx(own)
    assert {k: found[k][1] for k in totals} == pytest.approx(totals)
    whole = one.kernels["device_us"].sum()
    assert one.operators["self_device_us"].sum() + sum(own.values()) == pytest.approx(whole)


def test_a_graph_inside_an_operator_is_that_operators() -> None:
    one = profile(op("replay", 0, 9, 1), call("cudaGraphLaunch", 1, 2, 7, 1),
                  *(work(f"k{i}", 10 + i, 1, 7) for i in range(3)))  # fmt: skip
    assert owner(one) == ["replay"] * 3
    assert row(one.operators, name="replay")["self_device_us"] == 3


def test_a_runtime_call_stands_with_the_operator_that_made_it() -> None:
    # GIVEN a call recorded on another thread than that of its operator
    one = profile(op("a", 0, 10, 1, tid=1), call("launch", 2, 3, 7, 1, tid=2), work("k", 9, 1, 7))
    assert row(one.operators, name="a")["self_cpu_us"] == 7
    assert one.events["parent"].tolist() == [-1, 0, 1]
    # AND the events say what was recorded
    assert one.events["thread"].tolist() == [1, 2, -1]


def test_operators_stay_in_their_thread_whatever_their_ids() -> None:
    # GIVEN two processes that both count their operators from 1
    other = slice_("cpu_op", "b", 2, 4, 200, 1, External_id=1)
    one = profile(op("a", 0, 10, 1), other)
    assert one.events["parent"].tolist() == [-1, -1]
    assert row(one.operators, name="a")["self_cpu_us"] == 10


def test_overhead_owns_no_kernel() -> None:
    # GIVEN an overhead row with the id of an operator, inside its launch
    one = profile(
        op("a", 0, 10, 1), call("launch", 2, 5, 7, 1),
        slice_("overhead", "Lazy Function Loading", 3, 2, 100, 1, External_id=1),
        work("k", 9, 4, 7, 1),
    )  # fmt: skip
    assert row(one.operators, name="Lazy Function Loading")["device_us"] == 0
    assert row(one.operators, name="a")["self_device_us"] == 4
    assert row(one.operators, name="launch")["device_us"] == 0


def test_the_shadow_of_an_annotation_is_no_work() -> None:
    one = profile(op("a", 0, 10, 1), work("k", 20, 4, 7, 1),
                  work("step", 20, 60, 0, 1, cat="gpu_user_annotation"))  # fmt: skip
    assert one.kernels["name"].tolist() == ["k"]
    assert one.runs["device_busy_us"].tolist() == [4]
    assert row(one.operators, name="a")["device_us"] == 4


def test_work_belongs_to_the_run_that_caused_it_and_not_to_one_of_our_marks() -> None:
    # GIVEN a kernel that runs after its run has ended, and one that our reset launched
    one = profile(
        note(EACH, 0, 4, 1), call("launch", 1, 1, 5, 1), work("reset", 2, 3, 5, 1),
        note(RUN, 10, 10, 2), call("launch", 11, 1, 6, 2), work("late", 25, 5, 6, 2),
        note(RUN, 40, 10, 3), op("a", 41, 5, 4), call("launch", 42, 1, 7, 4),
        work("k", 44, 2, 7, 4),
        note(SYNC, 46, 4, 5), call("drain", 47, 1, 8, 5), work("ours", 48, 1, 8, 5),
    )  # fmt: skip
    assert one.kernels[["name", "operator", "device_us"]].to_numpy().tolist() == [
        ["late", "launch", 5], ["k", "a", 2], ["ours", "drain", 1],
    ]  # fmt: skip
    # AND a run's busy time is what the device did in that time, whoever had asked for it
    assert one.runs["device_busy_us"].tolist() == [0, 3]


def test_work_without_a_time_is_counted_and_in_no_figure() -> None:
    one = profile(op("a", 0, 10, 1), work("k", 20, 4, 7, 1), work("lost", 21, 0, 8, 1))
    assert one.kernels["name"].tolist() == ["k"]
    assert one.summary.warnings == (
        "1 kernels, copies or sets were recorded without a duration and are in no figure",
    )
    only = profile(op("a", 0, 10, 1), work("lost", 21, 0, 8, 1))
    assert only.summary.reason == "the device work in the trace bears no times"
    assert only.operators["device_us"].isna().all()


@pytest.mark.parametrize("name", ["aten::is_leaf", "aten::_version", "[memory]"])
def test_what_torch_hides_is_hidden(name: str) -> None:
    # GIVEN a hidden call in an operator: its time is the operator's own
    one = profile(op("a", 0, 10), op(name, 2, 3), slice_("python_function", "f", 4, 2, 100, 1))
    assert one.operators[["name", "self_cpu_us"]].to_numpy().tolist() == [["a", 10]]


def test_a_call_that_only_wraps_its_namesake_is_one_call() -> None:
    one = profile(op("a", 0, 10), op("a", 1, 8), op("b", 2, 3))
    columns = ["name", "calls", "self_cpu_us", "cpu_us"]
    assert one.operators[columns].to_numpy().tolist() == [["a", 1, 7, 10], ["b", 1, 3, 3]]


def test_recursion_counts_every_call_and_its_time_once() -> None:
    # GIVEN `a` inside `b` inside `a`, and another `a` beside
    one = profile(
        op("a", 0, 20, 1), op("b", 1, 10, 2), op("a", 2, 5, 3), op("c", 12, 2, 4),
        op("a", 30, 7, 5), work("k", 40, 3, 9, 3),
    )  # fmt: skip
    a = row(one.operators, name="a")
    assert (a["calls"], a["self_cpu_us"], a["cpu_us"]) == (3, 8 + 5 + 7, 27)
    assert (a["self_device_us"], a["device_us"]) == (3, 3)
    assert row(one.operators, name="b")["device_us"] == 3


def test_chains_of_parents() -> None:
    one = profile(
        op("a", 0, 20, 1), op("b", 1, 9, 2), call("go", 2, 1, 7, 2), work("k", 30, 4, 7, 2)
    )
    assert one.events["parent"].tolist() == [-1, 0, 1, 2]


def test_nothing_at_all() -> None:
    one = profile()
    assert one.run_source == "trace"
    for frame in (one.operators, one.kernels, one.runs, one.devices, one.events):
        assert frame.empty
    assert one.summary.wall_us is None
    assert one.summary.verdict is None
