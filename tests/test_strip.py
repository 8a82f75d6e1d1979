"""A run to scale, on traces small enough to draw by hand, and on recorded ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from cells import cell
from hypothesis import given
from hypothesis import strategies as st
from traces import RECORDED, Event, call, note, op, profile, recorded, slice_, work

import tprofile
from tprofile.analysis.strip import KINDS, Lane, Strip
from tprofile.intervals import union

RUN, SYNC = "tprofile::run", "tprofile::synchronize"
COLUMNS = ("lane", "row", "kind", "start_us", "duration_us", "count", "busy_us", "name",
           "operator", "launch", "line")  # fmt: skip


def drawn(one: tprofile.Profile) -> Strip:
    assert one.strip is not None
    return one.strip


def spans(strip: Strip) -> list[tuple[Any, ...]]:
    """Return lane, row, kind, start, duration and name of each span."""
    kinds = [KINDS[i] for i in strip.kind.tolist()]
    columns = (strip.lane.tolist(), strip.row.tolist(), kinds, strip.start_us.tolist(),
               strip.duration_us.tolist(), strip.name.tolist())  # fmt: skip
    return list(zip(*columns, strict=True))


def test_a_run_with_all_that_it_has() -> None:
    # GIVEN a run with nested operators, annotations between them, calls, and a wait of our own
    one = profile(
        op("before", 0, 5, 1),
        note(RUN, 100, 50, 2),
        note("block", 101, 30, 3),
        op("outer", 102, 20, 4), note("inside", 103, 15, 5), op("inner", 104, 10, 6),
        op("innermost", 105, 6, 7), call("cudaLaunchKernel", 106, 3, 9, 7),
        op("second", 123, 5, 8), call("cudaMemcpyAsync", 124, 1, 10, 8),
        call("cudaStreamSynchronize", 125, 2, 11, 8),
        note(SYNC, 140, 9, 12), call("cudaDeviceSynchronize", 141, 7, 13, 12),
        work("k", 110, 12.5, 9, 7), work("Memcpy", 127, 4, 10, 8, cat="gpu_memcpy"),
        recorded={"profiled": 1},
    )  # fmt: skip
    found = drawn(one)
    assert (found.run, found.of, found.wall_us, found.resolution_us) == (1, 1, 50, 0)
    assert found.lanes == (Lane("cpu", "CPU", 3), Lane("device", "", 1, 0, (7,)))
    # THEN an annotation is neither drawn nor a level, nor is what we did ourselves
    assert spans(found) == [
        (0, 0, "operator", 2, 20, "outer"),
        (0, 0, "operator", 23, 5, "second"),
        (0, 1, "inner", 4, 10, "inner"),
        (0, 2, "call", 6, 3, "cudaLaunchKernel"),
        (0, 2, "call", 24, 1, "cudaMemcpyAsync"),
        (0, 2, "wait", 25, 2, "cudaStreamSynchronize"),
        (1, 0, "kernel", 10, 12.5, "k"),
        (1, 0, "copy", 27, 4, "Memcpy"),
    ]
    # AND device work knows its operator and its launch
    assert found.operator.tolist() == [None] * 6 + ["innermost", "second"]
    assert found.launch.tolist() == [-1] * 6 + [3, 4]
    assert found.count.tolist() == [1] * 8
    assert found.busy_us.tolist() == found.duration_us.tolist()


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("cudaDeviceSynchronize", True), ("cudaStreamSynchronize", True),
        ("cudaEventSynchronize", True), ("hipDeviceSynchronize", True),
        ("hipStreamSynchronize", True), ("hipEventSynchronize", True),
        ("cuCtxSynchronize", True), ("cuStreamSynchronize", True), ("cuEventSynchronize", True),
        ("cudaMemcpy", True), ("cudaMemcpy2D", True), ("cudaMemcpyToSymbol", True),
        ("cudaStreamSynchronize_ptsz", True), ("cuMemcpyDtoH_v2", True), ("hipMemcpy", True),
        ("hipMemcpyWithStream", True),
        ("cudaMemcpyAsync", False), ("cudaMemcpy2DAsync", False), ("hipMemcpyAsync", False),
        ("cuMemcpyHtoDAsync_v2", False), ("cudaMemsetAsync", False), ("cudaMalloc", False),
        ("cudaStreamWaitEvent", False), ("cudaEventQuery", False), ("cudaLaunchKernel", False),
        ("my_cudaMemcpy", False), ("", False),
    ],
)  # fmt: skip
def test_which_calls_wait(name: str, waits: bool) -> None:
    found = drawn(profile(call(name, 0, 5, 1)))
    assert [KINDS[i] for i in found.kind] == ["wait" if waits else "call"]


def test_an_operator_of_such_a_name_does_not_wait() -> None:
    assert spans(drawn(profile(op("cudaMemcpy", 0, 5)))) == [(0, 0, "operator", 0, 5, "cudaMemcpy")]


def test_overhead_that_stands_on_no_thread_is_not_drawn() -> None:
    one = profile(op("a", 0, 5), slice_("overhead", "Activity Buffer Request", 1, 2, -1, 0))
    assert one.operators["name"].tolist() == ["a", "Activity Buffer Request"]
    assert spans(drawn(one)) == [(0, 0, "operator", 0, 5, "a")]


def test_the_run_nearest_the_median_and_the_earliest_of_equals() -> None:
    def typical(*walls: float) -> tuple[int, int, float]:
        events = []
        for i, wall in enumerate(walls):
            events += [note(RUN, 100 * i, wall), op(f"run {i + 1}", 100 * i, 1)]
        found = drawn(profile(*events, recorded={"profiled": len(walls)}))
        assert found.name.tolist() == [f"run {found.run}"]
        return found.run, found.of, found.wall_us

    assert typical(10, 30, 20) == (3, 3, 20)
    assert typical(10, 30) == (1, 2, 10)
    assert typical(30, 10) == (1, 2, 30)
    assert typical(20, 30, 20, 20) == (1, 4, 20)
    assert typical(10, 40, 24, 27) == (3, 4, 24)


def test_what_goes_beyond_the_run_is_cut_at_its_edges() -> None:
    # GIVEN a step with work of the one before it, and work and an operator that outlast it
    one = profile(
        note("ProfilerStep#0", 0, 10, 1), op("a", 1, 2, 2),
        note("ProfilerStep#1", 10, 20, 3), op("b", 11, 2, 4), op("long", 12, 90, 9, tid=2),
        note("ProfilerStep#2", 30, 40, 5), op("c", 31, 2, 6),
        work("early", 4, 3, 0, 2), work("over", 7, 9, 0, 2), work("in", 16, 2, 0, 4),
        work("out", 28, 5, 0, 4), work("late", 33, 5, 0, 4),
    )  # fmt: skip
    found = drawn(one)
    assert (found.run, found.wall_us) == (2, 20)
    assert spans(found) == [
        (0, 0, "operator", 1, 2, "b"),
        (1, 0, "operator", 2, 18, "long"),
        (2, 0, "kernel", 0, 6, "over"),
        (2, 0, "kernel", 6, 2, "in"),
        (2, 0, "kernel", 18, 2, "out"),
    ]
    assert found.operator.tolist() == [None, None, "a", "b", "b"]
    assert found.busy_us[found.lane == 2].sum() == one.runs["device_busy_us"][1]


def test_the_thread_of_the_run_comes_first_then_the_busiest() -> None:
    # GIVEN a run on thread 5 that does least
    events = [note(RUN, 0, 100, 1, tid=5), op("main", 1, 2, 2, tid=5)]
    events += [op("x", 3, 10, tid=7), op("y", 4, 30, tid=3), op("z", 5, 30, tid=3)]
    two = drawn(profile(*events, recorded={"profiled": 1}))
    assert [lane.label for lane in two.lanes] == ["CPU", "thread 3", "thread 7"]
    assert spans(two)[0] == (0, 0, "operator", 1, 2, "main")
    # AND without marks, the first is the one that does most; what is nested is not counted twice
    events += [op("in x", 3, 9, tid=7), op("in x", 3, 9, tid=7), op("in x", 3, 9, tid=7)]
    assert [lane.label for lane in drawn(profile(*events[1:])).lanes] == [
        "CPU", "thread 7", "thread 5",
    ]  # fmt: skip


def test_more_than_two_other_threads_lie_over_each_other() -> None:
    events = [op("main", 0, 100)]
    for tid, busy in ((2, 10), (3, 40), (4, 30), (5, 20)):
        events.append(op(f"t{tid}", tid, busy, tid=tid))
    found = drawn(profile(*events, call("cudaMalloc", 50, 1, 1, tid=6)))
    assert found.lanes == (
        Lane("cpu", "CPU", 3), Lane("cpu", "thread 3", 3), Lane("cpu", "4 other threads", 3),
    )  # fmt: skip
    assert spans(found) == [
        (0, 0, "operator", 0, 100, "main"),
        (1, 0, "operator", 3, 40, "t3"),
        (2, 0, "operator", 2, 10, "t2"),
        (2, 0, "operator", 4, 30, "t4"),
        (2, 0, "operator", 5, 20, "t5"),
        (2, 2, "call", 50, 1, "cudaMalloc"),
    ]


def test_a_run_whose_thread_did_nothing_has_no_lane_for_it() -> None:
    found = drawn(profile(note(RUN, 0, 100), op("a", 1, 5, tid=2), recorded={"profiled": 1}))
    assert [lane.label for lane in found.lanes] == ["thread 2"]


def test_a_thread_may_have_a_name() -> None:
    named = slice_("cpu_op", "a", 0, 1, 100, "worker \n")
    found = drawn(profile(op("main", 0, 9), named))
    assert [lane.label for lane in found.lanes] == ["CPU", "thread worker \n"]


def test_a_call_stands_with_its_operator_whatever_its_thread() -> None:
    one = profile(op("a", 0, 9, 1), call("cudaLaunchKernel", 2, 3, 5, 1, tid=77))
    assert [lane.label for lane in drawn(one).lanes] == ["CPU"]


def test_devices_by_number_and_streams_by_time() -> None:
    # GIVEN six streams on device 3, of which stream 2 works longest, and one on device 1
    events = [op("a", 0, 50, 1), work("d1", 9, 1, 0, 1, device=1, stream=7)]
    for stream, busy in ((1, 3), (2, 9), (3, 4), (4, 2), (5, 1), (6, 8)):
        events.append(work(f"s{stream}", 10 + stream, busy, 0, 1, device=3, stream=stream))
    # AND calls that overlap in stream 1 are not busier for it
    events += [work("s1", 11, 3, 0, 1, device=3, stream=1)] * 3
    found = drawn(profile(*events))
    assert found.lanes == (
        # No runtime call was recorded, so there is no row for such.
        Lane("cpu", "CPU", 2), Lane("device", "", 1, 1, (7,)),
        Lane("device", "", 4, 3, (2, 6, 3, None)),
    )  # fmt: skip
    # THEN the last row is of all the streams that are left
    assert [(s[0], s[1], s[3], s[5]) for s in spans(found)[1:]] == [
        (1, 0, 9, "d1"), (2, 0, 12, "s2"), (2, 1, 16, "s6"), (2, 2, 13, "s3"),
        *[(2, 3, 11, "s1")] * 4, (2, 3, 14, "s4"), (2, 3, 15, "s5"),
    ]  # fmt: skip


def test_beyond_sixteen_devices_the_others_are_counted() -> None:
    found = drawn(profile(*(work("k", i, 5, device=i) for i in range(20))))
    assert [lane.device for lane in found.lanes] == list(range(16))
    assert (len(found), found.more_devices) == (16, 4)


def test_work_without_a_known_cause() -> None:
    # GIVEN a graph's launch outside all operators, work of none, and a launch in no run
    one = profile(
        call("cudaLaunchKernel", 1, 2, 6),
        note("ProfilerStep#0", 10, 60, 1),
        call("cudaGraphLaunch", 11, 2, 5), work("a", 20, 2, 5), work("b", 22, 2),
        work("c", 24, 2, 6),
    )  # fmt: skip
    found = drawn(one)
    assert found.name.tolist() == ["cudaGraphLaunch", "a", "b", "c"]
    # THEN what launched it stands for the operator, as in the table of kernels
    assert found.operator.tolist() == [None, "cudaGraphLaunch", None, "cudaLaunchKernel"]
    assert found.launch.tolist() == [-1, 0, -1, -1]


def test_nothing_to_draw() -> None:
    assert profile().strip is None
    # A run in which nothing ran is still a run.
    found = drawn(profile(note(RUN, 0, 5), recorded={"profiled": 1}))
    assert (found.lanes, len(found), found.wall_us) == ((), 0, 5)
    at_once = drawn(profile(op("a", 3, 0)))
    assert (at_once.wall_us, spans(at_once)) == (0, [(0, 0, "operator", 0, 0, "a")])


def test_neighbours_are_drawn_together() -> None:
    # GIVEN a run of 4000 µs: short ones 0.5 µs apart, one far from them, and a long one
    one = profile(
        op("a", 0, 4000, 1),
        call("go", 10, 0.25, 1, 1), call("go", 10.5, 0.25, 2, 1), call("go", 11.25, 0.5, 3, 1),
        call("cudaStreamSynchronize", 11, 0.125, 8, 1), call("go", 20, 0.25, 4, 1),
        work("k", 100, 0.25, 1, 1), work("k", 100.5, 0.25, 2, 1), work("k", 101.25, 0.5, 3, 1),
        work("l", 102, 5, 4, 1), work("k", 107, 0.5, 0, 1),
    )  # fmt: skip
    every = drawn(one)
    assert (len(every), every.resolution_us, every.whole) == (11, 0, None)
    found = every.at_most(10)
    # THEN those that are shorter than a 4000th of it, and as near, are one; kinds stay apart
    assert found.resolution_us == 1
    assert [KINDS[i] for i in found.kind] == [
        "operator", "call", "wait", "call", "kernel", "kernel", "kernel",
    ]  # fmt: skip
    told = {c: getattr(found, c).tolist() for c in COLUMNS}
    assert told["start_us"] == [0, 10, 11, 20, 100, 102, 107]
    assert told["duration_us"] == [4000, 1.75, 0.125, 0.25, 1.75, 5, 0.5]
    assert told["count"] == [1, 3, 1, 1, 3, 1, 1]
    assert told["busy_us"] == [4000, 1, 0.125, 0.25, 1, 5, 0.5]
    assert told["name"] == ["a", None, "cudaStreamSynchronize", "go", None, "l", "k"]
    assert told["operator"] == [None] * 5 + ["a", "a"]
    # AND a launch is found where it went
    assert told["launch"] == [-1, -1, -1, -1, 1, 3, -1]
    assert found.whole is every
    assert found.at_most(11) is every


def test_the_resolution_doubles_until_it_is_enough() -> None:
    # GIVEN 8 kernels of 1 µs, 3 µs apart, in 4000 µs
    one = profile(op("a", 0, 4000), *(work("k", 4 * i, 1) for i in range(8)))
    found = drawn(one).at_most(8)
    assert found.resolution_us == 4
    assert found.count.tolist() == [1, 8]
    assert (found.duration_us[1], found.busy_us[1]) == (29, 8)


def test_what_is_drawn_as_one_is_at_most_sixteen_resolutions_long() -> None:
    # GIVEN 100 kernels without a gap: in one span, nothing would show where they are denser
    one = profile(op("a", 0, 4000), *(work("k", i / 2, 0.5) for i in range(100)))
    found = drawn(one).at_most(50)
    assert found.resolution_us == 1
    assert found.count.tolist() == [1, 32, 32, 32, 4]
    assert found.busy_us.tolist() == [4000, 16, 16, 16, 2]


def test_time_that_two_streams_share_is_busy_once() -> None:
    # GIVEN streams in one row: the last row of four has them all
    events = [work("long", 10, 100 - s, stream=s) for s in range(3)]
    events += [work("x", 10, 1, stream=10), work("y", 10.5, 1, stream=11), work("z", 11.75, 1)]
    found = drawn(profile(op("a", 0, 8000), *events)).at_most(6)
    assert spans(found)[-1] == (1, 3, "kernel", 10, 2.75, None)
    assert (found.count[-1], found.busy_us[-1]) == (3, 2.5)


def test_at_the_least_there_is_a_span_of_each_kind_in_each_row() -> None:
    one = recorded("item_in_loop")
    found = drawn(one).at_most(1)
    assert [(s[1], s[2]) for s in spans(found)] == [
        (0, "operator"), (1, "inner"), (2, "call"), (2, "wait"), (0, "kernel"), (0, "copy"),
    ]  # fmt: skip
    assert found.count.sum() == len(drawn(one))
    assert found.resolution_us > found.wall_us
    # AND where all are single already, none is drawn together
    small = drawn(profile(op("a", 0, 9), call("b", 1, 2, 1)))
    assert small.at_most(1) is small


short = st.tuples(
    st.integers(0, 400), st.integers(0, 40), st.integers(0, 5), st.integers(0, 4), st.booleans()
)


@given(st.lists(short, min_size=1, max_size=60), st.integers(30, 60))
def test_the_cap_holds_and_nothing_is_lost(given: list[tuple], most: int) -> None:
    events: list[Event] = []
    for i, (start, duration, lane, nth, copy) in enumerate(given):
        if lane < 2:
            events.append(op("o", start, duration, i + 1, tid=lane))
        elif lane == 2:
            name = ("cudaLaunchKernel", "cudaDeviceSynchronize")[nth % 2]
            events.append(call(name, start, duration, i + 1))
        else:
            events.append(work("w", start, duration, i, device=lane, stream=nth,
                               cat="gpu_memcpy" if copy else "kernel"))  # fmt: skip
    every = drawn(profile(*events))
    found = every.at_most(most)
    assert len(found) <= most
    assert_sound(found)
    assert found.count.sum() == len(every)
    # What overlaps in a row is counted once in a span, though it may be twice in two of them.
    for kind in range(len(KINDS)):
        one, all_ = found.kind == kind, every.kind == kind
        assert covered(every, all_) - 1e-6 <= found.busy_us[one].sum()
        assert found.busy_us[one].sum() <= every.busy_us[all_].sum() + 1e-6


def covered(strip: Strip, where: np.ndarray) -> float:
    """Return the time in which the spans' lanes and rows are busy with them."""
    row = 10 * strip.lane[where] + strip.row[where]
    start = np.rint(1000 * strip.start_us[where]).astype(np.int64)
    duration = np.rint(1000 * strip.duration_us[where]).astype(np.int64)
    return union(row, start, start + duration, 10 * (len(strip.lanes) + 1)).sum() / 1000


def assert_sound(found: Strip) -> None:
    """Assert what holds of every strip."""
    n = len(found)
    assert {c: len(getattr(found, c)) for c in COLUMNS} == dict.fromkeys(COLUMNS, n)
    order = np.lexsort((found.start_us, found.row, found.lane))
    assert (order == np.arange(n)).all()
    assert (found.start_us >= 0).all()
    assert (np.round(found.start_us + found.duration_us, 3) <= found.wall_us).all()
    one = found.count == 1
    assert (found.count >= 1).all()
    assert (found.busy_us[one] == found.duration_us[one]).all()
    assert (found.busy_us <= found.duration_us).all()
    assert [name is not None for name in found.name] == one.tolist()
    assert (found.resolution_us == 0) == one.all()
    # Each lane has something, and no row is outside its lane.
    assert sorted(set(found.lane.tolist())) == list(range(len(found.lanes)))
    rows = np.array([lane.rows for lane in found.lanes], int)
    assert (found.row < rows[found.lane]).all()
    device = np.array([lane.kind == "device" for lane in found.lanes], bool)[found.lane]
    assert (device == (found.kind >= KINDS.index("kernel"))).all()
    assert (found.kind[~device] == found.row[~device] + (found.kind[~device] == 3)).all()
    # Launches are calls, and only of device work.
    assert (found.launch[~device] == -1).all()
    launched = found.launch[found.launch >= 0]
    assert np.isin(found.kind[launched], (KINDS.index("call"), KINDS.index("wait"))).all()


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traces(name: str) -> None:
    one = recorded(name)
    found = drawn(one)
    assert len(found) <= 1200
    row = one.runs.iloc[found.run - 1]
    assert (found.wall_us, found.of) == (row["wall_us"], len(one.runs))
    assert_sound(found)
    for strip in (found.at_most(100), found.at_most(1)):
        assert len(strip) <= max(100, 12)
        assert_sound(strip)
        assert strip.count.sum() == len(found.whole or found)
    # All device work of the run has its launch in the run.
    every = found.whole or found
    work = every.kind >= KINDS.index("kernel")
    assert (every.launch[work] >= 0).all()
    # AND it is busy as the table says, where no stream works beside it, nor on two at once: cuDNN
    # of Hopper starts kernels before the one ahead of them in the stream is over.
    if name not in ("two_streams_h2d_item", "resnet18_train"):
        assert [lane.rows for lane in found.lanes if lane.kind == "device"] == [1]
        assert round(found.busy_us[found.kind >= 4].sum(), 3) == row["device_busy_us"]
    if name == "resnet18_train":
        assert round(covered(every, work), 3) == row["device_busy_us"]


def test_figures_of_item_in_loop() -> None:
    found = drawn(recorded("item_in_loop"))
    assert (found.run, found.of, found.wall_us, found.resolution_us) == (1, 3, 2099.238, 0)
    assert found.lanes == (Lane("cpu", "CPU", 3), Lane("device", "", 1, 0, (7,)))
    kinds = [KINDS[i] for i in found.kind]
    # Thirty times a matmul of two kernels, a sum of a set and a kernel, and a copy to the host.
    assert {k: kinds.count(k) for k in KINDS if k in kinds} == {
        "operator": 90, "inner": 90, "call": 150, "wait": 31, "kernel": 90, "copy": 60,
    }  # fmt: skip
    assert spans(found)[:3] == [
        (0, 0, "operator", 46.903, 46.225, "aten::matmul"),
        (0, 0, "operator", 97.718, 53.8, "aten::sum"),
        (0, 0, "operator", 154.985, 19.019, "aten::item"),
    ]
    first = found.kind.tolist().index(KINDS.index("copy"))
    assert spans(found)[first] == (1, 0, "copy", 142.193, 0.705, "Memset (Device)")
    assert found.operator[first] == "aten::sum"
    assert found.name[found.launch[first]] == "cudaMemsetAsync"


def test_figures_of_mlp_train() -> None:
    found = drawn(recorded("mlp_train"))
    assert (found.run, found.wall_us) == (2, 2350.808)
    assert [(lane.kind, lane.label, lane.rows) for lane in found.lanes] == [
        ("cpu", "CPU", 3), ("cpu", "thread 504", 3), ("device", "", 1),
    ]  # fmt: skip
    kinds = [(int(n), KINDS[i]) for n, i in zip(found.lane, found.kind, strict=True)]
    assert {k: kinds.count(k) for k in sorted(set(kinds))} == {
        (0, "operator"): 33, (0, "inner"): 36, (0, "call"): 20, (0, "wait"): 1,
        (1, "operator"): 15, (1, "inner"): 21, (1, "call"): 16,
        (2, "kernel"): 32, (2, "copy"): 1,
    }  # fmt: skip


def test_each_span_has_its_line() -> None:
    found = drawn(cell())
    host = [(5, "aten::mm"), (6, "aten::item")] * 3
    calls = [(5, "cudaLaunchKernel"), (6, "cudaMemcpyAsync"), (6, "cudaStreamSynchronize")] * 3
    work_ = [(5, "gemm"), (6, "Memcpy DtoH")] * 3
    assert list(zip(found.line, found.name, strict=True)) == host + calls + work_
    # WHEN they are drawn together, a span of several lines has none
    coarse = found.at_most(4)
    told = zip(coarse.kind, coarse.count, coarse.line, strict=True)
    assert {(KINDS[k], int(n), int(line)) for k, n, line in told} == {
        ("operator", 6, -1), ("call", 6, -1), ("wait", 3, 6), ("kernel", 3, 5), ("copy", 3, 6),
    }  # fmt: skip
    # AND without marks of lines none is known
    assert set(drawn(recorded("item_in_loop")).line.tolist()) == {-1}


def test_a_strip_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        drawn(profile(op("a", 0, 1))).run = 2  # type: ignore[misc]
