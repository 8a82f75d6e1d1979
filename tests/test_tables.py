"""The frames, with numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
from traces import RECORDED, Event, call, note, op, profile, recorded, row, work

import tprofile
from tprofile import TprofileError

TIMES = ["self_cpu_us", "cpu_us", "self_device_us", "device_us"]
LAUNCHED = ["self_launched_us", "launched_us"]
SPREAD = [
    f"{measure}_{statistic}_us"
    for measure in ("self_cpu", "cpu", "self_device", "device")
    for statistic in ("min", "median", "max")
]


def test_operators_sum_over_calls_and_threads() -> None:
    # GIVEN a call with a launch and two kernels, and a call in another thread without
    one = profile(
        op("a", 0, 20, 1), op("b", 2, 10, 2), call("go", 3, 4, 7, 2),
        op("a", 5, 6, 3, tid=2),
        work("k", 30, 5, 7, 2), work("k", 40, 2.5, 0, 1),
    )  # fmt: skip
    assert one.operators[["name", "calls", *TIMES, "category"]].to_numpy().tolist() == [
        ["b", 1, 6, 10, 5, 5, "cpu_op"],
        ["a", 2, 16, 26, 2.5, 7.5, "cpu_op"],
        ["go", 1, 4, 4, 0, 0, "cuda_runtime"],
    ]
    assert one.operators.columns.tolist() == [
        "name", "calls", *TIMES, *LAUNCHED, "category", *SPREAD,
    ]  # fmt: skip


def test_an_annotation_and_an_operator_of_one_name_are_two_rows() -> None:
    one = profile(note("a", 0, 20), op("a", 1, 5), op("b", 8, 1))
    kinds = one.operators[["name", "category", "calls", "cpu_us"]].to_numpy().tolist()
    assert sorted(kinds) == [
        ["a", "cpu_op", 1, 5], ["a", "user_annotation", 1, 20], ["b", "cpu_op", 1, 1],
    ]  # fmt: skip


def test_without_device_work_device_columns_are_unknown() -> None:
    one = profile(op("a", 0, 20))
    device = [c for c in (*TIMES, *LAUNCHED, *SPREAD) if "device" in c or "launched" in c]
    assert len(device) == 10
    assert one.operators[device].isna().all(axis=None)
    assert one.operators[["self_cpu_us", "cpu_us", *SPREAD[:6]]].to_numpy().tolist() == [[20] * 8]
    runs = row(one.runs, run=1)
    assert math.isnan(runs["device_busy_us"])
    assert math.isnan(runs["launches"])
    assert one.kernels.empty
    assert one.kernels.columns.tolist() == [
        "name", "operator", "device", "stream", "calls", "device_us", "mean_us", "min_us",
        "median_us", "max_us", "run_min_us", "run_median_us", "run_max_us", "category",
        "delay_us", "queued",
    ]  # fmt: skip


def test_kernels_are_apart_by_operator_device_and_stream() -> None:
    one = profile(
        op("a", 0, 9, 1), op("b", 10, 9, 2),
        work("k", 20, 1, 0, 1), work("k", 22, 4, 0, 1), work("k", 30, 10, 0, 1),
        work("k", 40, 8, 0, 2), work("k", 50, 7, 0, 1, stream=9),
        work("k", 60, 6, 0, 1, device=1), work("Memset (Device)", 70, 2, 0, 2, cat="gpu_memset"),
    )  # fmt: skip
    in_a_run = ["run_min_us", "run_median_us", "run_max_us"]
    waited = ["delay_us", "queued"]
    assert one.kernels[waited].isna().all(axis=None)
    assert one.kernels.drop(columns=["mean_us", *in_a_run, *waited]).to_numpy().tolist() == [
        ["k", "a", 0, 7, 3, 15, 1, 4, 10, "kernel"],
        ["k", "b", 0, 7, 1, 8, 8, 8, 8, "kernel"],
        ["k", "a", 0, 9, 1, 7, 7, 7, 7, "kernel"],
        ["k", "a", 1, 7, 1, 6, 6, 6, 6, "kernel"],
        ["Memset (Device)", "b", 0, 7, 1, 2, 2, 2, 2, "gpu_memset"],
    ]
    assert one.kernels["mean_us"].tolist() == [5, 8, 7, 6, 2]
    for column in in_a_run:
        assert one.kernels[column].tolist() == [15, 8, 7, 6, 2]


def test_grid_block_and_occupancy() -> None:
    # GIVEN calls of one kernel that differ in their grid, and a copy that has none
    occupancy = "est. achieved occupancy %"
    one = profile(
        work("k", 0, 30, grid=[1, 2, 3], block=[64, 1, 1], **{occupancy: 50}),
        work("k", 40, 10, grid=[9, 2, 3], block=[64, 1, 1], **{occupancy: 90}),
        work("k", 60, 5, grid="odd", block=[64, 1, 1]),
        work("Memcpy HtoD", 70, 5, cat="gpu_memcpy"),
        work("same", 80, 1, grid=[1, 1, 1], block=[32, 1, 1]),
    )
    kernels = one.kernels.set_index("name")
    assert kernels["grid"].tolist() == [None, None, "[1, 1, 1]"]
    assert kernels["block"]["same"] == "[32, 1, 1]"
    # THEN the mean is weighted by time, over the calls that tell
    assert kernels["occupancy"]["k"] == (50 * 30 + 90 * 10) / 40
    assert kernels[["block", "occupancy"]].loc["Memcpy HtoD"].isna().all()


def test_busy_is_the_union_and_of_the_busiest_device() -> None:
    # GIVEN streams that overlap on device 0, and the same stream id on device 1
    one = profile(
        op("a", 0, 100, 1),
        work("k", 10, 20, 0, 1), work("k", 20, 20, 0, 1, stream=8),
        work("k", 12, 3, 0, 1, stream=9),
        work("k", 10, 25, 0, 1, device=1), work("k", 90, 2, 0, 1, device=1),
        work("Memcpy", 36, 10, 0, 1, stream=5, cat="gpu_memcpy"),
    )  # fmt: skip
    # THEN device 0 worked from 10 to 46, not 53
    assert one.runs["device_busy_us"].tolist() == [36]
    assert one.devices.drop(columns="name").to_numpy().tolist() == [
        [0, 36, 0.36, 30, 10], [1, 27, 0.27, 27, 0],
    ]  # fmt: skip


def test_devices_are_medians_per_run() -> None:
    runs = [
        event
        for i, busy in enumerate((2, 9, 4))
        for event in (
            note("tprofile::run", 100 * i, 20, 2 * i + 1), op("a", 100 * i, 5, 2 * i + 2),
            work("k", 100 * i + 3, busy, 0, 2 * i + 2),
        )
    ]  # fmt: skip
    named = [{"id": 0, "name": "Fast One"}, {"id": 1, "name": ""}, "odd"]
    one = profile(*runs, deviceProperties=named)
    assert one.devices.to_numpy().tolist() == [[0, "Fast One", 4, 0.2, 4, 0]]
    assert one.kernels["device_us"].tolist() == [15]
    assert one.runs["launches"].tolist() == [1, 1, 1]


def test_a_device_without_a_name() -> None:
    for known in ([{"id": 0, "name": ""}], [], None, "odd", [{"id": "0", "name": "x"}], [None]):
        one = profile(work("k", 1, 1), deviceProperties=known)
        assert one.devices["name"].tolist() == [None]
        assert one.summary.device_names == ("device 0",)


def test_launches_count_calls_that_start_kernels() -> None:
    # GIVEN a launch, a graph of two, a copy, and a wait
    one = profile(
        op("a", 0, 50, 1),
        call("launch", 1, 1, 5, 1), call("graph", 3, 1, 6, 1), call("copy", 5, 1, 7, 1),
        call("wait", 9, 1, 8, 1),
        work("k", 10, 1, 5, 1), work("k", 12, 1, 6, 1), work("k", 14, 1, 6, 1),
        work("m", 16, 1, 7, 1, cat="gpu_memcpy"),
    )  # fmt: skip
    assert one.runs["launches"].tolist() == [2]


def test_cpu_time_of_a_run_is_that_of_its_operators() -> None:
    one = profile(
        note("tprofile::run", 0, 100), op("a", 10, 20), op("b", 12, 5), op("c", 15, 30, tid=2),
        note("tprofile::synchronize", 50, 40),
    )  # fmt: skip
    assert one.runs["cpu_us"].tolist() == [20 + 30]
    # AND not that of the step which delimits it
    steps = profile(note("ProfilerStep#0", 0, 50), op("a", 3, 7), note("ProfilerStep#1", 50, 5))
    assert steps.runs["cpu_us"].tolist() == [7, 0]


def test_grouping_by_shape_thread_and_run() -> None:
    one = profile(
        note("ProfilerStep#0", 0, 50, 9),
        op("a", 1, 4, 1, **{"Input Dims": [[2, 3], []]}),
        op("a", 6, 5, 2, tid=2, **{"Input Dims": [[2, 3], []]}),
        note("ProfilerStep#1", 50, 50, 8),
        op("a", 51, 6, 3, **{"Input Dims": [[[4], [5]], 1.5]}),
    )

    def grouped(key: str) -> list[list]:
        frame = one.operators_by(key)
        told = ["name", key, "calls", *TIMES, *LAUNCHED, "category"]
        assert frame.columns.tolist() == told + (SPREAD if key != "run" else [])
        return sorted(frame[frame["name"] == "a"][[key, "calls", "cpu_us"]].to_numpy().tolist())

    assert grouped("shape") == [["[[2, 3], []]", 2, 9], ["[[[4], [5]], 1.5]", 1, 6]]
    assert grouped("thread") == [[1, 2, 10], [2, 1, 5]]
    assert grouped("run") == [[1, 2, 9], [2, 1, 6]]


@pytest.mark.parametrize("key", ["shape", "thread", "run"])
@pytest.mark.parametrize("name", RECORDED)
def test_groups_add_up_to_the_whole(name: str, key: str) -> None:
    one = recorded(name)
    sums = ["calls", "self_cpu_us", "self_device_us", "self_launched_us"]
    by_name = ["name", "category"]
    whole = one.operators.groupby(by_name)[sums].sum()
    parts = one.operators_by(key).groupby(by_name)[sums].sum()
    assert parts.index.tolist() == whole.index.tolist()
    assert (parts["calls"] == whole["calls"]).all()
    assert abs(parts - whole).to_numpy().max() < 1e-6


def test_an_unknown_key_names_itself_and_the_choices() -> None:
    with pytest.raises(TprofileError, match=r"'colour'\. Choose one of 'shape', 'thread', 'run'"):
        profile(op("a", 0, 1)).operators_by("colour")


def test_who_changes_a_frame_spoils_nothing() -> None:
    one = profile(op("a", 0, 1))
    frame, by_run = one.operators, one.operators_by("run")
    frame.loc[0, "name"] = "changed"
    del by_run["name"]
    assert one.operators["name"].tolist() == ["a"]
    assert "name" in one.operators_by("run")
    assert not any(one.operators.dtypes == "category")
    assert one.operators.index.tolist() == [0]


def test_events_are_as_recorded() -> None:
    one = profile(
        op("a", 10.5, 4, 3), call("go", 11, 1, 7, 3), work("k", 20, 2.125, 7, 3, stream=4)
    )
    assert one.events.to_numpy().tolist() == [
        ["a", "cpu_op", 0, 4, 1, -1, -1, 0, 3, -1, 1, -1],
        ["go", "cuda_runtime", 0.5, 1, 1, -1, -1, 7, 3, 0, 1, -1],
        ["k", "kernel", 9.5, 2.125, -1, 0, 4, 7, 3, 1, 1, -1],
    ]
    assert one.events.columns.tolist() == [
        "name", "category", "start_us", "duration_us", "thread", "device", "stream",
        "correlation", "external_id", "parent", "run", "forward",
    ]  # fmt: skip


def four_runs(*times: float) -> tprofile.Profile:
    """Return runs of 100 µs in which `a` takes the given times, half of it on the device."""
    events = []
    for i, time in enumerate(times):
        at, ext = 100 * i, i + 1
        events.append(note("tprofile::run", at, 100))
        if time:
            events += [op("a", at + 1, time, ext), op("b", at + 1.5, time / 4),
                       work("k", at + 40, time / 2, 0, ext)]  # fmt: skip
    return profile(*events)


def test_how_a_row_differs_from_run_to_run() -> None:
    # GIVEN a row of 8, 0, 4 and 20 µs
    one = four_runs(8, 0, 4, 20)
    a = row(one.operators, name="a")
    # THEN the run without it counts as 0, and the median of an even number lies between
    assert [a[c] for c in SPREAD] == [0, 4.5, 15, 0, 6, 20, 0, 3, 10, 0, 3, 10]
    assert [a[c] for c in TIMES] == [24, 32, 16, 16]
    b = row(one.operators, name="b")
    assert [b[c] for c in SPREAD] == [0, 1.5, 5, 0, 1.5, 5, *[0] * 6]
    k = row(one.kernels, name="k")
    assert [k[f"run_{s}_us"] for s in ("min", "median", "max")] == [0, 3, 10]
    assert [k[f"{s}_us"] for s in ("min", "median", "max")] == [2, 4, 10]
    # AND by shape and by thread as well
    for key in ("shape", "thread"):
        assert [row(one.operators_by(key), name="a")[c] for c in SPREAD] == [a[c] for c in SPREAD]


def test_totals_of_recursion_count_once_in_a_run_too() -> None:
    one = profile(
        note("tprofile::run", 0, 50), op("a", 0, 20, 1), op("b", 1, 10, 2), op("a", 2, 5, 3),
        note("tprofile::run", 50, 50), op("a", 60, 7, 4), op("a", 70, 2, 5),
    )  # fmt: skip
    a = row(one.operators, name="a")
    assert [a[f"cpu_{s}_us"] for s in ("min", "median", "max")] == [9, 14.5, 20]
    assert [a[f"self_cpu_{s}_us"] for s in ("min", "median", "max")] == [9, 12, 15]


def test_what_is_outside_all_runs_is_in_the_sums_alone() -> None:
    one = profile(
        note("ProfilerStep#0", 0, 10), op("a", 1, 4, 1), note("ProfilerStep#1", 10, 10),
        op("a", 11, 6, 2), op("a", 50, 90, 3), work("k", 60, 30, 0, 3), work("k", 12, 2, 0, 2),
    )  # fmt: skip
    a = row(one.operators, name="a")
    assert (a["cpu_us"], a["cpu_min_us"], a["cpu_median_us"], a["cpu_max_us"]) == (100, 4, 5, 6)
    k = row(one.kernels, name="k")
    assert (k["device_us"], k["run_min_us"], k["run_max_us"]) == (32, 0, 2)


def test_without_a_complete_run_nothing_is_known_by_run() -> None:
    one = profile(
        note("tprofile::run", 0, 10), op("a", 1, 4, 1), work("k", 3, 2, 0, 1),
        recorded={"profiled": 0},
    )  # fmt: skip
    assert one.operators[SPREAD].isna().all(axis=None)
    assert one.kernels[["run_min_us", "run_median_us", "run_max_us"]].isna().all(axis=None)
    assert row(one.operators, name="a")["cpu_us"] == 4
    assert one.runs["outlier"].tolist() == [False]


@pytest.mark.parametrize("name", RECORDED)
def test_what_runs_add_up_to_is_what_operators_by_run_say(name: str) -> None:
    one = recorded(name)
    parts = one.operators_by("run")
    n = len(one.runs)
    assert n in (2, 3)
    for (label, category), whole in one.operators.groupby(["name", "category"]):
        mine = parts[
            (parts["name"] == label) & (parts["category"] == category) & (parts["run"] > 0)
        ]
        for measure in ("self_cpu", "cpu", "self_device", "device"):
            # Inside itself over the edge of a run, a call would be in no total; there is none.
            sums = sorted([*mine[f"{measure}_us"], *[0] * (n - len(mine))])
            wanted = [sums[0], (sums[(n - 1) // 2] + sums[n // 2]) / 2, sums[-1]]
            found = [whole[f"{measure}_{s}_us"].item() for s in ("min", "median", "max")]
            assert found == pytest.approx(wanted, rel=0, abs=1e-9), (label, measure)


def test_an_outlier_is_marked_and_not_left_out() -> None:
    runs = [note("tprofile::run", 1000 * i, wall) for i, wall in enumerate((100, 103, 400, 101))]
    one = profile(*runs)
    assert one.runs["outlier"].tolist() == [False, False, True, False]
    assert one.runs["outlier"].dtype == bool
    assert one.runs["wall_us"].sum() == 704


def test_the_first_run_of_a_cold_profile_is_no_outlier() -> None:
    walls = (900, 100, 100, 900, 100)
    marks = [note("tprofile::run", 1000 * i, wall) for i, wall in enumerate(walls)]
    cold, warm = (
        profile(*marks, recorded={"profiled": 5, "asked_warmup": asked}) for asked in (0, 1)
    )
    assert cold.runs["outlier"].tolist() == [False, False, False, True, False]
    assert warm.runs["outlier"].tolist() == [True, False, False, True, False]


def test_of_a_run_whose_work_was_all_lost_nothing_is_0() -> None:
    # GIVEN runs with a launch and a kernel; then one that lost it, one that lost it beside a copy,
    # one that launched nothing, and one in which the kernel of an earlier run goes on
    def run(i: int, *events: Event) -> list[Event]:
        marks = [note("tprofile::run", 100 * i, 50), op("a", 100 * i + 1, 40, i + 1)]
        return [*marks, *({**e, "ts": e["ts"] + 100 * i} for e in events)]

    def launch(i: int) -> Event:
        return call("cudaLaunchKernel", 5, 2, i, i)

    one = profile(
        *run(0, launch(1), work("k", 10, 20, 1, 1)),
        *run(1, launch(2)),
        *run(2, launch(3), work("Memcpy", 10, 5, 0, 3, cat="gpu_memcpy")),
        *run(3),
        *run(4, launch(5), work("k", 10, 120, 5, 5)),
        *run(5, launch(6)),
        recorded={"profiled": 6},
    )
    runs = one.runs.astype(object).where(one.runs.notna(), None)
    assert runs["device_busy_us"].tolist() == [20, None, 5, 0, 40, 30]
    assert runs["launches"].tolist() == [1, None, None, 0, 1, None]
    # AND where nothing is lost, numbers of calls are whole
    assert profile(*run(0, launch(1), work("k", 10, 2, 1, 1))).runs["launches"].dtype == int
