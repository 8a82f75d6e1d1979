"""The tree of calls, against a walk in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest
from traces import RECORDED, call, note, op, profile, recorded, work

import tprofile

RUN, SYNC = "tprofile::run", "tprofile::synchronize"
COLUMNS = ["parent", "depth", "name", "calls", "self_cpu_us", "cpu_us", "self_device_us",
           "device_us"]  # fmt: skip


def rows(one: tprofile.Profile) -> list[list[Any]]:
    assert one.tree["id"].tolist() == list(range(len(one.tree)))
    return one.tree[COLUMNS].to_numpy().tolist()


def test_calls_of_a_name_under_the_same_call_are_one_node() -> None:
    # GIVEN two runs in which `a` calls `b` twice and `b` stands alone, too
    events = []
    for i in range(2):
        at, id_ = 100 * i, 10 * i
        events += [
            note(RUN, at, 60), op("a", at + 1, 20, id_ + 1), op("b", at + 2, 5, id_ + 2),
            call("launch", at + 3, 1, id_ + 7, id_ + 2), work("k", at + 30, 4, id_ + 7, id_ + 2),
            op("b", at + 8, 3, id_ + 3), op("b", at + 25, 7, id_ + 4),
            note(SYNC, at + 40, 10), call("wait", at + 41, 5, id_ + 8),
        ]  # fmt: skip
    assert rows(profile(*events, recorded={"profiled": 2})) == [
        [-1, 0, "a", 2, 24, 40, 0, 8],
        [0, 1, "b", 4, 14, 16, 8, 8],
        [1, 2, "launch", 2, 2, 2, 0, 0],
        [-1, 0, "b", 2, 14, 14, 0, 0],
    ]


def test_siblings_stand_by_device_time_then_by_cpu_time() -> None:
    one = profile(
        op("slow", 0, 50, 1), op("x", 60, 5, 2), op("y", 70, 1, 3), work("k", 80, 9, 0, 3),
        op("x2", 1, 2), op("x1", 4, 3),
    )  # fmt: skip
    assert one.tree["name"].tolist() == ["y", "slow", "x1", "x2", "x"]


def test_what_wraps_its_namesake_is_one_call_and_recursion_is_a_branch() -> None:
    one = profile(op("a", 0, 20, 1), op("a", 1, 18, 2), op("b", 2, 9, 3), op("a", 3, 5, 4),
                  work("k", 30, 2, 0, 2))  # fmt: skip
    assert rows(one) == [
        [-1, 0, "a", 1, 11, 20, 2, 2],
        [0, 1, "b", 1, 4, 9, 0, 0],
        [1, 2, "a", 1, 5, 5, 0, 0],
    ]


def test_an_annotation_is_apart_from_an_operator_of_its_name() -> None:
    one = profile(note("a", 0, 5, 1), op("a", 6, 3, 2))
    assert rows(one)[0][:4] == [-1, 0, "a", 1]
    assert one.tree["cpu_us"].tolist() == [5, 3]


def test_a_graph_is_time_of_its_launch_and_of_what_is_around_it() -> None:
    one = profile(note("step", 0, 20, 1), call("cudaGraphLaunch", 2, 5, 7),
                  work("k1", 30, 3, 7), work("k2", 40, 4, 7))  # fmt: skip
    assert rows(one) == [
        [-1, 0, "step", 1, 15, 20, 0, 7],
        [0, 1, "cudaGraphLaunch", 1, 5, 5, 7, 7],
    ]


def test_without_device_work_its_time_is_not_measured() -> None:
    frame = profile(op("a", 0, 5)).tree
    assert frame[["self_device_us", "device_us"]].isna().all(axis=None)
    assert profile().tree.empty
    assert profile().tree.columns.tolist() == ["id", *COLUMNS]


def walked(one: tprofile.Profile) -> dict[tuple[str, ...], list[int]]:
    """Return calls and nanoseconds of CPU by path, from the events and one call at a time."""
    found, trace = one._found, one.trace
    counted, merged = found.counted.tolist(), found.merged.tolist()
    names = [trace.names[i] for i in trace.name]
    annotation = trace.category_is("user_annotation").tolist()
    sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for row in range(len(trace)):
        if not counted[row] or merged[row]:
            continue
        path, at = [], row
        while at != -1:
            if counted[at] and not merged[at]:
                step = "ProfilerStep*" if names[at].startswith("ProfilerStep#") else names[at]
                path.append(f"{step} {annotation[at]}")
            at = int(found.parent[at])
        sums[tuple(path[::-1])][0] += 1
        sums[tuple(path[::-1])][1] += int(trace.duration_ns[row])
    return dict(sums)


@pytest.mark.parametrize("name", RECORDED)
def test_the_paths_of_recorded_traces(name: str) -> None:
    one = recorded(name)
    frame = one.tree
    # THEN a walk up from every call gives the same paths, calls and times
    wanted = walked(one)
    paths: list[tuple[str, ...]] = []
    for parent, text in zip(frame["parent"], frame["name"], strict=True):
        assert parent < len(paths)
        paths.append(((*paths[parent],) if parent >= 0 else ()) + (text,))
    ours: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for path, calls, cpu in zip(paths, frame["calls"], frame["cpu_us"], strict=True):
        ours[path][0] += calls
        ours[path][1] += round(cpu * 1000)
    plain: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for path, (calls, ns) in wanted.items():
        bare = tuple(part.rsplit(" ", 1)[0] for part in path)
        plain[bare][0] += calls
        plain[bare][1] += ns
    assert ours == plain
    assert len(frame) == len(wanted)
    # AND nothing is lost or counted twice
    assert math.isclose(frame["self_cpu_us"].sum(), one.operators["self_cpu_us"].sum())
    launched = one.operators["self_device_us"].sum() + one.operators["self_launched_us"].sum()
    assert math.isclose(frame["self_device_us"].sum(), launched)
    roots = frame[frame["parent"] == -1]
    assert math.isclose(roots["device_us"].sum(), launched)
    assert (frame["depth"] == [len(path) - 1 for path in paths]).all()


def by_path(frame: Any) -> dict[tuple[str, ...], list[float]]:
    """Return calls, self CPU and device time of each path."""
    paths: list[tuple[str, ...]] = []
    found: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0, 0, 0])
    for row in frame.itertuples():
        paths.append(((*paths[row.parent],) if row.parent >= 0 else ()) + (row.name,))
        for i, value in enumerate((row.calls, row.self_cpu_us, row.device_us)):
            found[paths[-1]][i] += 0 if math.isnan(value) else value
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_the_trees_of_all_runs_add_up_to_that_of_the_profile(name: str) -> None:
    one = recorded(name)
    summed: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0, 0, 0])
    for run in one.runs["run"].tolist():
        for path, values in by_path(one.tree_of(run)).items():
            summed[path] = [a + b for a, b in zip(summed[path], values, strict=True)]
    wanted = by_path(one.tree)
    inside = one.events["run"] >= 0
    if inside.all():
        assert summed.keys() == wanted.keys()
    for path, values in summed.items():
        # What is outside all runs is in the tree of them all alone.
        for ours, whole in zip(values, wanted[path], strict=True):
            assert ours <= whole + 1e-6
            if inside.all():
                assert math.isclose(ours, whole, abs_tol=1e-6)


@pytest.mark.parametrize("run", [0, 4, "1", True])
def test_there_is_no_tree_of_a_run_that_there_is_not(run: Any) -> None:
    with pytest.raises(tprofile.TprofileError, match=r"no run .*: the profile has 3, counted"):
        recorded("mlp_train").tree_of(run)


def test_the_tree_of_a_run_has_its_calls_alone() -> None:
    one = profile(
        note("tprofile::run", 0, 50), op("a", 5, 20, 1), op("b", 6, 4, 2), work("k", 8, 3, 0, 2),
        note("tprofile::run", 100, 50), op("a", 105, 10, 3),
        recorded={"profiled": 2},
    )  # fmt: skip
    columns = ["name", "parent", "calls", "self_cpu_us", "cpu_us", "device_us"]
    assert one.tree_of(1)[columns].to_numpy().tolist() == [
        ["a", -1, 1, 16, 20, 3], ["b", 0, 1, 4, 4, 3],
    ]  # fmt: skip
    assert one.tree_of(2)[columns].to_numpy().tolist() == [["a", -1, 1, 10, 10, 0]]
