"""What is said of a trace that is not sound, and that nothing is said of one that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import traces
from traces import PUBLIC, RECORDED, Event, call, note, op, profile, work

import tprofile
from tprofile.analysis.attribution import attribute
from tprofile.analysis.doubts import early_work, overlaps, short, unmatched_launches
from tprofile.units import duration

NOT_JSON = "the file was not valid JSON; unescaped text in it was repaired"


def outside(share: str, calls: str) -> str:
    those = "rows of those calls" if "," in calls else "row of that call"
    return (
        f"{share} of the device time was launched by {calls}, outside all recorded operators: it "
        f"stands in the {those}"
    )


STACKS = (
    "stacks were recorded, which slows Python and torch unequally: what the CPU did while the GPU "
    "was idle, and so the verdict, may be another without"
)

KNOWN: dict[str, tuple[str, ...]] = {
    "cold_matmul_add_64": (
        "run 1 of 3 is an outlier: 181 ms under the profiler, where the median is 470 µs; the "
        "largest part of the difference is aten::mm (+84.1 ms self CPU); the sums contain it",
    ),
    "compiled_frame_skipped": (
        "run 1 of 3 is an outlier: 415 µs under the profiler, where the median is 306 µs; the sums "
        "contain it",
    ),
    "matmul_add_64": (
        "run 1 of 3 is an outlier: 199 µs under the profiler, where the median is 98.2 µs; the "
        "largest part of the difference is aten::mm (+35.6 µs self CPU); the sums contain it",
    ),
    "mlp_train_stack_mem": (STACKS,),
    "two_threads": (outside("67 %", "cudaLaunchKernelExC"),),
    "hostile_names": (NOT_JSON,),
}
"""What is said of each of our traces; nothing of those that are not here."""

KNOWN_PUBLIC: dict[str, tuple[str, ...]] = {
    "b200_eager": (STACKS,),
    "vllm_decode_cuda_graph": (STACKS,),
    "mi210_gpu_only": (outside("100 %", "hipExtModuleLaunchKernel, hipLaunchKernel"),),
    # Launched before the record began, and done after.
    "mi300_resnet_checkpoint": (
        "32 % of the device time has no recorded launch: it is in the kernels alone",
    ),
    "ns_resolution": (
        "run 1 of 5 is an outlier: 35.1 ms under the profiler, where the median is 95.6 ms; the "
        "largest part of the difference is ## backward ## (-38.9 ms self CPU); the sums contain it",
    ),
}


def said(*events: Event, **recorded: Any) -> tuple[str, ...]:
    return profile(*events, recorded=recorded).summary.warnings


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_said_of_each_trace(name: str) -> None:
    assert traces.recorded(name).summary.warnings == KNOWN.get(name, ())
    assert set(KNOWN) <= set(RECORDED)


@pytest.mark.parametrize("path", sorted(PUBLIC.glob("*.json.gz")), ids=lambda path: path.name)
def test_what_is_said_of_public_traces(path: Any) -> None:
    name = path.name.removesuffix(".json.gz")
    assert tprofile.load(path).summary.warnings == KNOWN_PUBLIC.get(name, ())


# --- launches without work


def launched(n: int, lost: set[int], *more: Event, name: str = "cudaLaunchKernel") -> list[Event]:
    """Return n launches, each with 5 µs of work a millisecond later, but for those that lost it."""
    events = [op("step", 0, 10 * n, 1)]
    for i in range(n):
        events.append(call(name, 10 * i + 1, 2, i + 1, 1))
        if i not in lost:
            events.append(work("k", 10 * i + 1001, 5, i + 1, 1))
    return [*events, *more]


def test_launches_without_work_are_counted_and_named() -> None:
    graph = call("cudaGraphLaunch", 108, 1, 900, 1)
    events = launched(20, {5, 11}, graph)
    assert said(*events) == (
        "3 of 21 launches have no work in the record (cudaLaunchKernel, cudaGraphLaunch): what "
        "they started is in no figure",
    )
    one = profile(*events)
    found = unmatched_launches(attribute(one.trace))
    assert one.events["correlation"][found].tolist() == [6, 900, 12]


@pytest.mark.parametrize(
    "name",
    [
        "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cuLaunchKernel",
        "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "hipLaunchKernel", "hipExtLaunchKernel",
        "hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipLaunchCooperativeKernel",
        "cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch", "cudaLaunchKernel_ptsz",
    ],
)  # fmt: skip
def test_calls_that_launch(name: str) -> None:
    assert said(*launched(20, {5}, name=name)) == (
        f"1 of 20 launches has no work in the record ({name}): what they started is in no figure",
    )


@pytest.mark.parametrize(
    "name",
    [
        # Of no bytes, they start nothing.
        "cudaMemcpyAsync", "cudaMemsetAsync", "hipMemcpyAsync", "hipMemcpyWithStream",
        "cudaLaunchHostFunc", "cudaDeviceSynchronize", "cudaFuncSetAttribute", "cudaGraphCreate",
        "cudaGraphInstantiate", "launch",
    ],
)  # fmt: skip
def test_calls_that_need_not_start_work(name: str) -> None:
    assert said(*launched(20, {5}, name=name)) == ()


def test_work_that_bears_no_time_is_in_the_record() -> None:
    events = launched(20, {5}, work("k", 1050, 0, 6, 1))
    assert said(*events) == (
        "1 kernels, copies or sets were recorded without a duration and are in no figure",
    )


def test_launches_outside_the_profiled_runs_are_none_of_ours() -> None:
    launches = launched(20, {0, 1, 19})
    assert len(said(*launches)) == 2
    assert said(note("tprofile::run", 20, 165), *launches, profiled=1) == ()


def test_launches_that_are_captured_start_nothing() -> None:
    # GIVEN a capture, during which a thread of the backward pass launches too
    begin, end = (
        call(f"cudaStream{what}Capture", at, 1, 0) for what, at in (("Begin", 48), ("End", 69))
    )
    other = call("cudaLaunchKernel", 63, 1, 901, tid=2)
    assert said(*launched(20, {5, 6}, begin, end, other)) == ()
    # AND one that began before the record, or ends after it
    assert said(*launched(20, {*range(7)}, end)) == ()
    assert said(*launched(20, {*range(5, 20)}, begin, other)) == ()
    # BUT what follows a capture is launched
    assert said(*launched(20, {5, 6, 8}, begin, end)) == (
        "1 of 18 launches has no work in the record (cudaLaunchKernel): what they started is in "
        "no figure",
    )


def test_without_any_work_there_is_no_figure_to_doubt() -> None:
    events = launched(3, {0, 1, 2})
    assert said(*events) == ()
    assert unmatched_launches(attribute(profile(*events).trace)).sum() == 3
    # BUT work of something else makes figures
    assert said(*events, work("k", 50, 5, 99, 1)) == (
        "3 of 3 launches have no work in the record (cudaLaunchKernel): what they started is in no "
        "figure",
    )


def test_a_record_that_ends_early() -> None:
    # GIVEN a last launch at 3991 µs, and a last work that ends at 1386
    assert said(*launched(400, {*range(39, 400)})) == (
        "the device's record ends 2.60 ms before the last launch: the last 361 of 400 launches "
        "have no work in it (the profiler's buffer was full, or it was stopped too soon): profile "
        "fewer iterations",
    )
    # AND where the device lagged behind by more than that
    assert said(*launched(40, {*range(30, 40)})) == (
        "the device's record ends early: the last 10 of 40 launches have no work in it (the "
        "profiler's buffer was full, or it was stopped too soon): profile fewer iterations",
    )


def test_a_few_at_the_end_are_no_early_end() -> None:
    assert said(*launched(40, {*range(31, 40)})) == (
        "9 of 40 launches have no work in the record (cudaLaunchKernel): what they started is in "
        "no figure",
    )


def test_a_record_that_begins_late() -> None:
    assert said(*launched(40, {0, 1, 2, 20})) == (
        "the device's record begins late: the first 3 of 40 launches have no work in it, and what "
        "they started is in no figure",
        "1 of 40 launches has no work in the record (cudaLaunchKernel): what they started is in "
        "no figure",
    )


def test_where_many_are_lost_anywhere_it_is_no_matter_of_begin_or_end() -> None:
    # GIVEN of the 20 in the middle 2 that are lost, and 3
    ends = {0, *range(21, 40)}
    assert len(said(*launched(40, {*ends, 5, 6}))) == 3
    assert said(*launched(40, {*ends, 5, 6, 7})) == (
        "23 of 40 launches have no work in the record (cudaLaunchKernel): what they started is in "
        "no figure",
    )


# --- clocks


def test_work_before_its_launch() -> None:
    events = [
        op("a", 0, 60, 1), call("cudaLaunchKernel", 10, 5, 1, 1), work("k", 9.5, 1, 1, 1),
        call("cudaLaunchKernel", 30, 5, 2, 1), work("k", 7.125, 1, 2, 1),
        call("cudaLaunchKernel", 40, 5, 3, 1), work("k", 40, 1, 3, 1), work("stray", 1, 1, 9, 1),
    ]  # fmt: skip
    assert said(*events) == (
        "2 of 4 kernels, copies and sets start before the call that launched them, by up to 22.9 "
        "µs: the clocks of CPU and device disagree, and how long these waited to start is not "
        "known",
    )
    one = profile(*events)
    early = early_work(attribute(one.trace))
    assert one.events["correlation"][early].tolist() == [2, 1]


# --- what overlaps


def test_annotations_that_overlap() -> None:
    # GIVEN coroutines whose annotations take turns, one in another thread, and what nests
    events = [
        note("a", 0, 10), note("b", 5, 10), note("c", 12, 6), note("d", 3, 20, tid=2),
        note("e", 20, 10), note("f", 20, 5), note("g", 25, 5), note("h", 30, 2),
    ]  # fmt: skip
    assert said(*events) == (
        "annotations 'a' and 'b' overlap in part on one thread, as asynchronous code does (2 such "
        "pairs): what they share is counted in both",
    )
    one = profile(*events)
    names = one.events["name"].to_numpy()
    first, second = overlaps(attribute(one.trace))
    assert list(zip(names[first], names[second], strict=True)) == [("a", "b"), ("b", "c")]


def test_operators_that_overlap() -> None:
    # GIVEN such inside an annotation, of which calls of the runtime are no part
    inside = [op("x", 1, 5, 1), note("y", 3, 6), call("c", 8, 4, 7), op("z", 20, 1, 2)]
    assert said(note("outer", 0, 30), *inside) == (
        "operators 'x' and 'y' overlap in part on one thread: what they share is counted in both",
    )


@pytest.mark.parametrize(("wall", "told"), [(599, True), (600, False)])
def test_what_little_is_shared_is_no_matter(wall: float, told: bool) -> None:
    # GIVEN 12 µs of two runs in which annotations of a thread overlap, and 6 in another; and of
    # operators 7
    events = [
        note("tprofile::run", 0, wall), note("tprofile::run", 2000, wall),
        note("a", 10, 20), note("b", 22, 20), note("c", 2010, 20), note("d", 2026, 20),
        note("e", 10, 20, tid=2), note("f", 24, 20, tid=2), op("g", 110, 20), op("h", 123, 20),
    ]  # fmt: skip
    assert said(*events, profiled=2) == (
        "annotations 'a' and 'b' overlap in part on one thread, as asynchronous code does (2 such "
        "pairs): what they share is counted in both",
    ) * told  # fmt: skip


def test_what_a_compiler_tells_of_its_steps_overlaps_with_nothing() -> None:
    # GIVEN Dynamo's ranges, which begin in an operator and end after it, and what is in both
    one = "_recursive_joint_graph_passes_data: compile_id=0/0"
    other = "CachingAutotuner.benchmark_all_configs_data: kernel_name=k, compile_id=0/0"
    events = [
        op("PythonDispatchMode", 0, 50), op(one, 30, 40), op("aten::mm", 35, 5),
        note(other, 60, 30), op("last", 68, 30),
    ]  # fmt: skip
    assert said(*events) == ()
    # BUT beneath them operators are told of as anywhere
    assert said(*events, op("odd", 38, 30)) == (
        "operators 'PythonDispatchMode' and 'odd' overlap in part on one thread: what they share "
        "is counted in both",
    )


@pytest.mark.parametrize(
    ("start", "duration", "told"),
    [(9, 10, False), (8.999, 10, True), (2, 9, False), (2, 9.001, True)],
)
def test_what_rounding_makes_overlap_does_not(start: float, duration: float, told: bool) -> None:
    # GIVEN an operator from 0 to 10, and one beside or inside it but for a microsecond
    assert bool(said(op("a", 0, 10), op("b", start, duration))) == told


@pytest.mark.parametrize(("overlap", "told"), [(1.98, False), (2.04, True)])
def test_work_that_overlaps_on_its_stream(overlap: float, told: bool) -> None:
    # GIVEN 200 µs of work on a stream, and as much at the same time on another and on a device
    events = [op("a", 0, 300, 1)]
    for device, stream in ((0, 7), (0, 8), (1, 7)):
        shift = overlap if (device, stream) == (0, 7) else 0
        events += [work("k", 10, 100, 0, 1, device=device, stream=stream),
                   work("k", 110 - 3 * shift, 100, 0, 1, device=device, stream=stream)]  # fmt: skip
    sentence = (
        "1 % of the device time is of work that overlaps other work on its own stream: the kernels "
        "add up to more than the device was busy, which counts it once"
    )
    assert said(*events) == (sentence,) * told


# --- work that no operator launched


@pytest.mark.parametrize(("owned", "share"), [(1, "50 %"), (99, "1 %"), (99.1, None)])
def test_work_outside_operators_is_the_calls(owned: float, share: str | None) -> None:
    events = [op("a", 0, 10, 1), work("k", 20, owned, 0, 1), call("cudaLaunchKernel", 12, 2, 7)]
    told = () if share is None else (outside(share, "cudaLaunchKernel"),)
    assert said(*events, work("k", 300, 1, 7)) == told


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "cuGraphLaunch_ptsz", "hipGraphLaunch"])
def test_a_graph_is_launched_by_no_operator_and_that_is_no_doubt(name: str) -> None:
    graph = [call(name, 12, 2, 7), work("k", 300, 5, 7)]
    assert said(*graph) == said(op("a", 0, 10, 1), work("k", 20, 1, 0, 1), *graph) == ()
    # BUT it is a part of all device time, of which another call's is told
    other = call("launch", 20, 2, 8), work("k", 400, 5, 8)
    assert said(*graph, *other) == (outside("50 %", "launch"),)


def test_calls_are_named_by_what_they_launched() -> None:
    calls = [call(f"launch{i}", i, 0.5, i + 1) for i in range(5)]
    assert said(*calls, *(work("k", 100 * i, 10 + i, i + 1) for i in range(5))) == (
        outside("100 %", "launch4, launch3, launch2 and 2 more"),
    )


def test_work_without_a_launch_is_in_the_kernels_alone() -> None:
    events = [op("a", 0, 10, 1), work("k", 20, 2, 0, 1), work("stray", 30, 1, 99)]
    none = "33 % of the device time has no recorded launch: it is in the kernels alone"
    assert said(*events) == (none,)
    events += [call("cudaLaunchKernel", 12, 2, 7), work("k", 40, 3, 7)]
    assert said(*events) == (outside("50 %", "cudaLaunchKernel"), none.replace("33", "17"))
    # AND from 1 % on
    assert said(*events, work("k", 60, 94, 0, 1))[1:] == (none.replace("33", "1"),)
    assert said(*events, work("k", 60, 94.1, 0, 1)) == (outside("3 %", "cudaLaunchKernel"),)


# --- runs


def runs(*walls: float, busy: dict[int, float] | None = None) -> list[Event]:
    """Return runs of these times, each with an operator for the first half of it."""
    events = []
    for i, wall in enumerate(walls):
        at = 10_000 * i
        events += [note("tprofile::run", at, wall), op("aten::mm", at, wall / 2, i + 1)]
        if busy is not None:
            events.append(work("k", at + 1, busy.get(i, 10), 0, i + 1))
    return events


def test_a_run_that_is_an_outlier() -> None:
    assert said(*runs(1800, 4210, 1790), profiled=3) == (
        "run 2 of 3 is an outlier: 4.21 ms under the profiler, where the median is 1.80 ms; the "
        "largest part of the difference is aten::mm (+1.21 ms self CPU); the sums contain it",
    )


def test_several_are_told_in_one_sentence() -> None:
    walls = [1000.0] * 20
    for i, wall in ((3, 2000), (5, 4000), (6, 100), (8, 3000), (9, 2000), (12, 2500)):
        walls[i] = wall
    assert said(*runs(*walls), profiled=20) == (
        "6 of 20 runs are outliers (4, 6, 7, 9, 10, …): 100 µs to 4.00 ms under the profiler, "
        "where the median is 1.00 ms; the largest part of the difference in run 6 is aten::mm "
        "(+1.50 ms self CPU); the sums contain them",
    )


def test_a_run_whose_device_was_busy_for_longer() -> None:
    events = runs(1000, 1000, 1000, 1000, busy={2: 400})
    assert said(*events, profiled=4) == (
        "run 3 of 4 is an outlier: a device busy for 400 µs, where the median is 10.0 µs; the "
        "largest part of the difference is k (+390 µs device time); the sums contain it",
    )
    assert profile(*events, recorded={"profiled": 4}).runs["outlier"].tolist() == [
        False, False, True, False,
    ]  # fmt: skip


def test_a_run_of_which_all_was_lost_is_no_outlier_and_hides_none() -> None:
    # GIVEN four runs with a kernel, of which the third took longer, and one that lost its own
    events = runs(1000, 1000, 1000, 1000, busy={2: 400})
    lost = [note("tprofile::run", 40_000, 1000), op("aten::mm", 40_000, 500, 9),
            call("cudaLaunchKernel", 40_010, 5, 77, 9)]  # fmt: skip
    assert said(*events, *lost, profiled=5)[:1] == (
        "run 3 of 5 is an outlier: a device busy for 400 µs, where the median is 10.0 µs; the "
        "largest part of the difference is k (+390 µs device time); the sums contain it",
    )


WARM = {"warmup_s": [1.0, 3e-3, 3e-3, 3e-3]}


def test_an_unprofiled_run_that_is_an_outlier() -> None:
    walls = [3e-3] * 8
    one = runs(3000, 3000, 3000)
    assert said(*one, profiled=3, warmup_s=[1.0, *walls, 8e-3]) == (
        "unprofiled run 10 of 10 took 8.00 ms, where the median is 3.00 ms",
    )
    assert said(*one, profiled=3, unprofiled_s=[8e-3, *walls]) == (
        "unprofiled run 1 of 9 took 8.00 ms, where the median is 3.00 ms",
    )
    # AND the first of a warm-up is none of them, whatever it took
    assert said(*one, profiled=3, warmup_s=[1.0, *walls]) == ()
    assert said(*one, profiled=3, warmup_s=[1.0, *walls, 8e-3, 9e-3]) == (
        "2 of 11 unprofiled runs took 8.00 ms to 9.00 ms, where the median is 3.00 ms",
    )


def faster(profiled: str, unprofiled: str, advice: str = "") -> tuple[str]:
    return (
        f"the profiled runs were faster ({profiled}) than the unprofiled ones "
        f"({unprofiled}): the code was still warming up, or conditions differed{advice}",
    )


MORE = ". More warm-up runs (warmup 10) tell which"


@pytest.mark.parametrize(
    ("walls", "told"),
    [
        # 5 % of the median
        ([2850, 2850, 2850], False),
        ([2849, 2849, 2849], True),
        ([9000, 9000, 9000], False),
        # Each of them below each of the others
        ([2600, 2600, 2999], True),
        ([2600, 2600, 3000], False),
        ([2600], True),
    ],
)
def test_runs_that_the_profiler_made_faster(walls: list[float], told: bool) -> None:
    found = said(*runs(*walls), profiled=len(walls), asked_warmup=4, **WARM)
    assert found == faster(duration(np.median(walls)), "3.00 ms", MORE) * told


@pytest.mark.parametrize(("least", "told"), [(2.6e-3, False), (2.7e-3, True)])
def test_one_unprofiled_run_that_was_as_fast_is_enough(least: float, told: bool) -> None:
    # The first is none that counts.
    walls = {"warmup_s": [1e-3, 3e-3, least, 3e-3], "asked_warmup": 4}
    found = said(*runs(2600, 2600, 2600), profiled=3, **walls)
    assert found == faster("2.60 ms", "3.00 ms", MORE) * told


@pytest.mark.parametrize(("wall", "told"), [(900, False), (899, True)])
def test_what_is_faster_by_little_is_not(wall: float, told: bool) -> None:
    found = said(*runs(wall), profiled=1, warmup_s=[1.0, 1e-3, 1e-3])
    assert found == faster(f"{wall} µs", "1.00 ms") * told


def test_advice_is_only_where_it_can_be_followed() -> None:
    def given(**recorded: Any) -> tuple[str, ...]:
        return said(*runs(1000), profiled=1, **recorded)

    walls = [1.0, *[3e-3] * 8]
    assert given(warmup_s=walls, asked_warmup=9) == faster("1.00 ms", "3.00 ms", MORE)
    # Many were no help, or there was no time for as many as were asked for.
    assert given(warmup_s=[*walls, 3e-3], asked_warmup=10) == faster("1.00 ms", "3.00 ms")
    assert given(warmup_s=walls[:3], asked_warmup=9) == faster("1.00 ms", "3.00 ms")
    # Who recorded it is not known, or the walls were given.
    assert given(warmup_s=walls) == faster("1.00 ms", "3.00 ms")
    assert given(unprofiled_s=walls[1:], asked_warmup=9) == faster("1.00 ms", "3.00 ms")


def test_of_a_run_that_was_stopped_nothing_is_said() -> None:
    assert said(*runs(10), profiled=0, **WARM) == ()


# --- words


def test_long_names_keep_their_ends() -> None:
    assert short("x" * 80) == "x" * 80
    assert short("a" * 50 + "b" * 50) == "a" * 40 + "…" + "b" * 40


def test_nothing_is_said_of_nothing() -> None:
    assert said() == ()
    assert not unmatched_launches(attribute(profile().trace)).any()
    assert np.concatenate(overlaps(attribute(profile().trace))).size == 0
