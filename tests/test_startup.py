"""What a first run paid for: named, counted once, and never what every run pays."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from traces import DATA, Event, call, note, op, profile, recorded, slice_

import tprofile
from tprofile.analysis.startup import (
    AUTOTUNING,
    CALLS,
    COMPILATION,
    COSTS,
    GRAPHS,
    LOADING,
    MEMORY,
    OPERATORS,
    OUTSIDE,
    PROFILER,
    QUERIES,
    STREAMS,
)  # fmt: skip

COLUMNS = ["run", "cost", "name", "calls", "cpu_us"]
Rows = list[tuple[Any, ...]]


def overhead(name: str, ts: float, dur: float) -> Event:
    # As Kineto writes it: on no thread of the program.
    return slice_("overhead", name, ts, dur, 100, 0)


def runs(*each: list[Event], wall: float = 100, asked: int | None = 0) -> tprofile.Profile:
    """Return runs of `wall` µs, 1000 µs apart, each with its own events, given from 0 on."""
    events: list[Event] = []
    for i, inner in enumerate(each):
        events.append(note("tprofile::run", 1000 * i, wall))
        events += [{**e, "ts": e["ts"] + 1000 * i} for e in inner]
    known = {} if asked is None else {"asked_warmup": asked, "profiled": len(each)}
    return profile(*events, recorded=known)


def rows(one: tprofile.Profile) -> Rows:
    frame = one.startup
    assert list(frame.columns) == COLUMNS
    told = [tuple(row) for row in frame.itertuples(index=False)]
    assert all(row[1] in COSTS for row in told)
    walls = one.runs.set_index("run")["wall_us"]
    for run, us in frame.groupby("run")["cpu_us"].sum().items():
        assert us <= walls[run]
    return told


def test_of_a_cold_run_on_a_gpu() -> None:
    # GIVEN three steps, of which the first was the first of its process
    one = recorded("cold_matmul_add_64")
    events = one.events
    found = {(cost, name): (calls, us) for _, cost, name, calls, us in rows(one)}
    assert set(one.startup["run"]) == {1}
    # THEN what CUPTI says is a cost as it stands
    for name, cost in {
        "Runtime Triggered Module Loading": LOADING, "Lazy Function Loading": LOADING,
        "Activity Buffer Request": PROFILER, "cudaMalloc": MEMORY,
    }.items():  # fmt: skip
        same = events.loc[events["name"] == name, "duration_us"]
        assert found[cost, name] == (len(same), pytest.approx(same.sum()))
    # AND a call is what it took but for the loading inside it
    assert found[QUERIES, "cudaFuncGetAttributes"] == (
        1, pytest.approx(50460.263 - 48565.456 - 73.370),
    )  # fmt: skip
    assert found[CALLS, "cudaLaunchKernel"] == (
        1, pytest.approx(5509.493 - 42.638 - (12.107 + 13.103) / 2),
    )  # fmt: skip
    # AND an operator what it took beyond the later ones, but for all of those in it
    mm = events.index[events["name"] == "aten::mm"]
    inside = [events.loc[events["parent"] == row, "duration_us"].sum() for row in mm]
    took = events.loc[mm, "duration_us"].to_numpy() - inside
    # The buffer was asked for in mm itself, between two calls.
    assert found[OPERATORS, "aten::mm"] == (
        1, pytest.approx(took[0] - 3100.300 - np.median(took[1:])),
    )  # fmt: skip
    # AND all of it explains what the first run took beyond the later ones
    wall = one.runs["wall_us"]
    assert one.startup["cpu_us"].sum() == pytest.approx(wall[0] - wall[1:].median(), rel=0.005)


def test_of_a_cold_compilation() -> None:
    # GIVEN a compiled function, with nothing in the compiler's caches
    one = tprofile.load(DATA / "startup" / "cold_compile.json.gz")
    # THEN compiling is all that lies in torch's range around it, step by step, each of which
    # torch 2.13 records twice
    frame = one.startup
    (whole,) = one.events.loc[one.events["name"] == "dynamo", "duration_us"]
    assert set(frame["cost"]) == {COMPILATION}
    assert frame["cpu_us"].sum() == pytest.approx(whole)
    compilers = one.events.loc[one.events["name"] == "compile_file", "duration_us"]
    assert rows(one)[0] == (1, COMPILATION, "compile_file", 7, pytest.approx(compilers.sum()))
    assert not frame["name"].str.contains("dynamo_timed|_data: ").any()
    assert frame["name"].is_unique


@pytest.mark.parametrize(
    ("cost", "names"),
    [
        (LOADING, "cuModuleLoadData cuModuleLoadDataEx cuLibraryLoadData cuModuleGetFunction "
                  "cuLibraryGetModule hipModuleLoad hipModuleLoadData cuKernelGetFunction"),
        (MEMORY, "cudaMalloc cudaMallocAsync cudaMallocHost cudaHostAlloc cudaHostRegister "
                 "cudaFree cuMemCreate cuMemMap cuMemSetAccess cuMemAddressReserve hipMalloc "
                 "hipHostMalloc hipExtMallocWithFlags"),
        (GRAPHS, "cudaGraphInstantiate cudaGraphInstantiateWithFlags cudaStreamBeginCapture "
                 "cudaStreamEndCapture hipGraphInstantiate"),
        (STREAMS, "cudaStreamCreateWithPriority cudaEventCreateWithFlags hipStreamCreate "
                  "cudaEventCreate cudaStreamDestroy cuEventCreate"),
        (QUERIES, "cudaFuncGetAttributes cudaFuncSetAttribute cuFuncSetAttribute "
                  "cudaDeviceGetAttribute cudaGetDeviceProperties hipGetDevicePropertiesR0600 "
                  "cudaOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveClusters "
                  "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor cudaGetSymbolAddress"),
        (CALLS, "cudaLaunchKernel cudaGraphLaunch cudaMemcpyAsync cuMemcpyDtoH cudaEventRecord "
                "cudaStreamSynchronize hipModuleLaunchKernel cudaStreamIsCapturing cuMemsetD8"),
    ],
)  # fmt: skip
def test_calls_by_name(cost: str, names: str) -> None:
    for name in names.split():
        one = runs([call(name, 10, 40, 1)], [], [])
        assert rows(one) == [(1, cost, name, 1, 40)], name
        # AND an operator of that name is none
        assert rows(runs([op(name, 10, 40)], [], [])) == [(1, OPERATORS, name, 1, 40)], name


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("Lazy Function Loading", LOADING), ("Driver Compiler", COMPILATION),
        ("Buffer Flush", PROFILER), ("Instrumentation", PROFILER), ("Resource", PROFILER),
    ],
)  # fmt: skip
def test_overhead_by_name(name: str, cost: str) -> None:
    assert rows(runs([overhead(name, 10, 40)], [], [])) == [(1, cost, name, 1, 40)]


def test_a_full_command_buffer_is_what_it_lies_in() -> None:
    one = runs([call("cudaLaunchKernel", 10, 40, 1), overhead("Command Buffer Full", 20, 20)], [])
    assert rows(one) == [(1, CALLS, "cudaLaunchKernel", 1, 40)]


@pytest.mark.parametrize(
    ("often", "told"),
    [
        ([1, 1, 1], []), ([1, 0, 0], [1]), ([1, 1, 0], [1, 2]), ([1, 0, 1], [1, 3]),
        ([0, 1, 0], [2]), ([0, 0, 1], [3]), ([1, 0], [1]), ([1, 1], []), ([1], [1]),
        ([1, 1, 1, 0], []), ([1, 1, 0, 0], [1, 2]), ([0, 0, 0], []), ([2, 1, 1], [1]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("asked", [0, 3])
def test_what_most_runs_pay_is_no_start_up(often: list[int], told: list[int], asked: int) -> None:
    one = runs(
        *([call("cuModuleLoadData", 10 + 20 * i, 10, i + 1) for i in range(n)] for n in often),
        asked=asked,
    )
    # One run of a warm profile has nothing to be compared with.
    told = told if len(often) > 1 or asked == 0 else []
    least = min(often) if len(often) > 1 and min(often) else 0
    assert rows(one) == [
        (run, LOADING, "cuModuleLoadData", often[run - 1], 10.0 * (often[run - 1] - least))
        for run in told
    ]


@pytest.mark.parametrize(("first", "told"), [(30, []), (31, [31 - 12.5])])
def test_the_same_calls_are_start_up_where_the_first_was_slow(
    first: float, told: list[float]
) -> None:
    # GIVEN an operator that later took 10 and 15 µs: more than twice the slowest counts
    each = [[op("a", 10, took)] for took in (first, 10, 15)]
    assert rows(runs(*each)) == [(1, OPERATORS, "a", 1, us) for us in told]
    # AND of a warm profile nothing does
    assert rows(runs(*each, asked=1)) == []


def test_a_named_call_that_was_slow_the_first_time() -> None:
    one = runs(*([call("cudaMalloc", 10, took, 1)] for took in (60, 4, 6)))
    assert rows(one) == [(1, MEMORY, "cudaMalloc", 1, 60 - 4)]


def test_a_small_difference_without_a_name_is_noise() -> None:
    # GIVEN a start-up of 1000 µs
    def first(us: float) -> tprofile.Profile:
        known = {"asked_warmup": 0, "profiled": 2}
        return profile(
            note("tprofile::run", 0, 1100), op("a", 10, us), call("cuModuleLoad", 50, 1000, 1),
            note("tprofile::run", 2000, 100), op("a", 2010, 1), recorded=known,
        )  # fmt: skip

    assert rows(first(10.9)) == [(1, LOADING, "cuModuleLoad", 1, 1000)]
    assert rows(first(11)) == [
        (1, LOADING, "cuModuleLoad", 1, 1000), (1, OPERATORS, "a", 1, 10),
    ]  # fmt: skip


def test_time_is_that_of_the_innermost_cost() -> None:
    # GIVEN an operator of 80 µs, in it a call of 50, in which a module of 30 is loaded
    one = runs(
        [op("a", 10, 80), call("cudaFuncGetAttributes", 20, 50, 1),
         overhead("Runtime Triggered Module Loading", 30, 30), overhead("Buffer Flush", 75, 5)],
        [op("a", 10, 10)], [op("a", 10, 12)],
    )  # fmt: skip
    assert rows(one) == [
        (1, LOADING, "Runtime Triggered Module Loading", 1, 30),
        (1, QUERIES, "cudaFuncGetAttributes", 1, 20),
        (1, OPERATORS, "a", 1, 80 - 50 - 5 - 11),
        (1, PROFILER, "Buffer Flush", 1, 5),
    ]


def test_overhead_stands_with_the_call_that_it_lies_in() -> None:
    # GIVEN a call in a second thread, while the first one is in an operator
    one = runs(
        [op("waits", 5, 90), call("cuModuleLoadData", 10, 60, 1, tid=2),
         overhead("Lazy Function Loading", 20, 30)],
        [op("waits", 5, 10)],
    )  # fmt: skip
    # THEN no moment counts twice: the operator's began first and covers the other thread's
    assert rows(one) == [(1, OPERATORS, "waits", 1, 80)]


def test_costs_of_a_thread_that_the_first_one_waits_for() -> None:
    # GIVEN a backward pass in a thread of its own: the first one stands in an annotation
    one = runs(
        [note("backward", 5, 90), op("mm", 10, 80, tid=2),
         call("cuModuleLoadData", 20, 60, 1, tid=2), overhead("Lazy Function Loading", 30, 40)],
        [note("backward", 5, 15), op("mm", 10, 5, tid=2)],
    )  # fmt: skip
    assert rows(one) == [
        (1, LOADING, "Lazy Function Loading", 1, 40),
        (1, LOADING, "cuModuleLoadData", 1, 20),
        (1, OPERATORS, "mm", 1, 15),
    ]


def test_threads_side_by_side_add_up_to_no_more_than_the_wall() -> None:
    loads = [call("cuModuleLoadData", 10 + i, 80, i + 1, tid=i + 1) for i in range(4)]
    assert rows(runs(loads, [])) == [(1, LOADING, "cuModuleLoadData", 4, 83)]


def test_time_outside_all_operators() -> None:
    # GIVEN Python in the first run, and our own wait for the device in each
    wait = op("tprofile::synchronize", 60, 40), call("cudaDeviceSynchronize", 61, 30, 1)
    work = op("a", 0, 5)
    one = runs([work, note("mine", 10, 40), *wait], [work, op("b", 5, 50), *wait])
    assert rows(one) == [(1, OUTSIDE, None, 1, 55 - 5)]


def test_our_own_wait_is_no_cost() -> None:
    # GIVEN a device that was slow the first time, and a module that was loaded meanwhile
    first, later = (
        [op("tprofile::synchronize", 10, us), call("cudaDeviceSynchronize", 11, us - 2, 1)]
        for us in (85, 5)
    )
    loading = overhead("Lazy Function Loading", 20, 30)
    assert rows(runs([*first, loading], later)) == [(1, LOADING, "Lazy Function Loading", 1, 30)]


def test_what_goes_on_after_a_run_counts_up_to_its_end() -> None:
    one = runs([call("cuModuleLoadData", 90, 60, 1, tid=2)], [])
    assert rows(one) == [(1, LOADING, "cuModuleLoadData", 1, 10)]


def test_the_compiler_owns_what_it_runs() -> None:
    # GIVEN steps as torch 2.13 records them, twice, with what it tells beside them
    inner = [
        op("dynamo", 2, 90), note("dynamo_data: compile_id=0/0", 3, 2),
        op("code_gen", 10, 60), op("G.run (dynamo_timed)", 12, 50),
        op("aten::mm", 15, 5), call("cudaLaunchKernel", 16, 2, 1),
        op("G.run", 21, 9), op("G.run (dynamo_timed)", 22, 7),
        op("CachingAutotuner.benchmark_all_configs", 30, 20),
        op("CachingAutotuner.benchmark_all_configs (dynamo_timed)", 30, 20),
        op("aten::mm", 31, 10), call("cuModuleLoadData", 32, 4, 2),
    ]  # fmt: skip
    assert rows(runs(inner, [op("aten::mm", 15, 5)])) == [
        (1, COMPILATION, "G.run", 1, 30),
        (1, COMPILATION, "dynamo", 1, 30),
        (1, AUTOTUNING, "CachingAutotuner.benchmark_all_configs", 1, 16),
        (1, COMPILATION, "code_gen", 1, 10),
        (1, LOADING, "cuModuleLoadData", 1, 4),
    ]


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("CachingAutotuner.coordinate_descent_tuning (dynamo_timed)", AUTOTUNING),
        ("mm_template_autotuning (dynamo_timed)", AUTOTUNING),
        ("mm_template_precompiling (dynamo_timed)", COMPILATION),
        ("CachingAutotuner.slow_precompile_config (dynamo_timed)", COMPILATION),
        ("benchmark", OPERATORS), ("Torch-Compiled Region: 0/0", OPERATORS),
        ("TorchDynamo Cache Lookup", OPERATORS),
    ],
)  # fmt: skip
def test_steps_of_the_compiler(name: str, cost: str) -> None:
    ((_, told, shown, _, us),) = rows(runs([op(name, 10, 40)], []))
    assert (told, shown, us) == (cost, name.removesuffix(" (dynamo_timed)"), 40)


@pytest.mark.parametrize(("us", "cold"), [(0.99, False), (1, True)])
def test_another_programs_profile_is_cold_by_its_costs(us: float, cold: bool) -> None:
    # GIVEN runs whose past is not known, and a module that took 1 % of the first, or less
    one = runs([call("cuModuleLoad", 10, us, 1), op("a", 20, 50)], [op("a", 20, 5)], asked=None)
    loaded = (1, LOADING, "cuModuleLoad", 1, us)
    assert rows(one) == ([(1, OPERATORS, "a", 1, 45), loaded] if cold else [loaded])


def test_nothing_to_compare_a_strange_run_with() -> None:
    load = call("cuModuleLoad", 10, 5, 1)
    assert rows(runs([load], asked=None)) == []
    assert rows(profile(load)) == []
    assert rows(profile()) == []
    assert rows(profile(recorded={"asked_warmup": 0})) == []


def test_of_a_single_cold_run_only_what_has_a_name() -> None:
    one = runs([op("a", 5, 90), call("cudaMalloc", 10, 20, 1)])
    assert rows(one) == [(1, MEMORY, "cudaMalloc", 1, 20)]


def test_costs_outside_all_runs_are_in_none() -> None:
    one = profile(
        note("tprofile::run", 0, 10), call("cudaMalloc", 20, 5, 1), overhead("Buffer Flush", 30, 5),
        note("tprofile::run", 100, 10), recorded={"asked_warmup": 0, "profiled": 2},
    )  # fmt: skip
    assert rows(one) == []


def test_the_frame_is_the_callers_own() -> None:
    one = runs([call("cudaMalloc", 10, 20, 1)], [])
    frame = one.startup
    frame.loc[0, "name"] = "other"
    assert rows(one) == [(1, MEMORY, "cudaMalloc", 1, 20)]


@pytest.mark.parametrize(
    "name",
    ["matmul_add_64", "item_in_loop", "cuda_graph", "two_threads", "mlp_train", "resnet18_train"],
)
def test_warm_traces_have_none(name: str) -> None:
    assert rows(recorded(name)) == []


NAMES = {
    "cudaMalloc": MEMORY, "cuModuleLoad": LOADING, "cudaLaunchKernel": None, "a": None,
    "X (dynamo_timed)": COMPILATION, "Y (dynamo_timed)": COMPILATION, "Buffer Flush": PROFILER,
}  # fmt: skip
TREES = st.recursive(
    st.tuples(st.sampled_from(sorted(NAMES)), st.integers(0, 3), st.just([])),
    lambda inner: st.tuples(
        st.sampled_from(sorted(NAMES)), st.integers(0, 3), st.lists(inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.lists(TREES, max_size=4))
def test_any_nesting_adds_up(trees: list[Any]) -> None:
    # GIVEN calls in calls, each with some µs of its own after each thing inside it
    events: list[Event] = []
    want: dict[tuple[str, str], float] = {}
    clock = 1.0

    def lay(tree: Any, owner: tuple[str, str] | None) -> None:
        nonlocal clock
        name, own, inside = tree
        cost = NAMES[name]
        mine = owner if cost is None else (cost, name.removesuffix(" (dynamo_timed)"))
        start = clock
        for part in [*inside, None]:
            clock += own
            if mine is not None and own:
                want[mine] = want.get(mine, 0) + own
            if part is not None:
                lay(part, mine)
        if clock > start:
            make = op if name == "a" or "dynamo" in name else call
            events.append(
                overhead(name, start, clock - start)
                if cost == PROFILER
                else make(name, start, clock - start, 0)
            )

    for tree in trees:
        lay(tree, None)
    # The inner of two at the same time is the later of a trace.
    one = runs(events[::-1], wall=clock + 10)
    assert {(cost, name): us for _, cost, name, _, us in rows(one)} == want


def test_live_the_first_call_sleeps() -> None:
    slept: list[int] = []
    x = torch.ones(8)

    def fn() -> None:
        if not slept:
            slept.append(1)
            time.sleep(0.05)
        x.add(1)

    one = tprofile.run(fn, warmup=0, repeat=3, cpu=True)
    told = {cost: us for _, cost, _, _, us in rows(one)}
    assert 50_000 <= told[OUTSIDE] <= one.runs["wall_us"][0]
    # AND a warm-up takes it away
    slept.clear()
    assert OUTSIDE not in tprofile.run(fn, warmup=1, repeat=3, cpu=True).startup["cost"].tolist()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch announces the end of jit.script
def test_live_a_cold_compilation() -> None:
    torch._dynamo.reset()
    one = tprofile.run(torch.compile(lambda x: x * 2 + 1), (torch.ones(8),), warmup=0, cpu=True)
    spent = sum(us for run, cost, _, _, us in rows(one) if (run, cost) == (1, COMPILATION))
    assert spent > 0.9 * one.runs["wall_us"][0]
    assert set(one.startup["run"]) == {1}
