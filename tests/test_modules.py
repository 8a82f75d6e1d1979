"""Time by nn.Module: what its frame tells of given traces, and the marks that a run leaves."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from test_backward import ENGINE, ahead, node
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint
from traces import (
    DATA,
    RECORDED,
    Event,
    assert_same,
    call,
    frames,
    note,
    op,
    profile,
    recorded,
    slice_,
    text,
    work,
)

import tprofile
from tprofile import TprofileError, modules
from tprofile.analysis.modules import module_of
from tprofile.intervals import NONE
from tprofile.trace import marks
from tprofile.trace.write import dump

RUN = "tprofile::run"
COLUMNS = [
    *("module", "type", "parent", "calls", "cpu_us", "self_cpu_us", "device_us", "self_device_us"),
    *("backward_cpu_us", "backward_device_us", "launches", "compiled"),
]
PLAIN = nn.Module._wrapped_call_impl.__code__


def mark(
    type_: str, root: str, path: str, ts: float, dur: float, ext: int = 0, tid: int = 1
) -> Event:
    return op(marks.module(type_, root, path), ts, dur, ext, tid=tid)


def ours(*events: Event, **told: Any) -> tprofile.Profile:
    """Return a profile as of our recorder: one run of 1000 µs, in which modules were marked."""
    return profile(op(RUN, 0, 1000, 1), *events, recorded={"profiled": 1, "modules": True, **told})


def torchs(name: str, ts: float, dur: float, tid: int = 1) -> Event:
    return slice_("python_function", f"nn.Module: {name}", ts, dur, 100, tid)


def figures(one: tprofile.Profile, *columns: str) -> list[list[Any]]:
    """Return rows as lists, with None for NaN."""
    frame = one.modules[list(columns)] if columns else one.modules
    return [
        [None if isinstance(v, float) and math.isnan(v) else v for v in values]
        for values in frame.to_numpy(object).tolist()
    ]


# --- given traces


def launched(name: str, ts: float, at: float, took: float, ext: int) -> list[Event]:
    """Return a launch within the operator of that number, and its kernel."""
    corr = round(ts * 8) + 10_000
    return [call("cudaLaunchKernel", ts, 1, corr, ext), work(name, at, took, corr, ext)]


def training() -> list[Event]:
    """Return a step of a model that holds a linear layer and an activation."""
    return [
        mark("Net", "model", "", 10, 90, 50),
        mark("Linear", "model", "fc.0", 20, 20, 51),
        ahead("aten::addmm", 21, 15, 1, ext=2), *launched("gemm", 22, 600, 8, 2),
        mark("ReLU", "model", "fc.1", 45, 10, 52),
        ahead("aten::relu", 46, 5, 2, ext=3), *launched("relu", 47, 610, 3, 3),
        # In the model itself: an operator, and a kernel that no operator launches.
        op("aten::add", 60, 5, 4), *launched("add", 61, 620, 2, 4),
        *launched("triton", 70, 630, 5, 50),
        # In no module: the loss.
        ahead("aten::sum", 105, 4, 3, ext=5), *launched("sum", 106, 640, 1, 5),
        # The backward pass.
        *node("SumBackward0", 110, 4, 3),
        *node("ReluBackward0", 120, 10, 2),
        op("aten::threshold_backward", 122, 5, 6), *launched("relu_b", 123, 650, 4, 6),
        *node("AddmmBackward0", 140, 20, 1),
        op("aten::mm", 142, 5, 7), *launched("gemm_b", 143, 660, 6, 7),
        op("aten::mm", 150, 5, 8), *launched("gemm_b", 151, 670, 7, 8),
        op(ENGINE + "torch::autograd::AccumulateGrad", 170, 8),
        op("aten::add_", 171, 4, 9), *launched("add_b", 172, 680, 9, 9),
    ]  # fmt: skip


def test_a_training_step() -> None:
    one = ours(*training())
    assert list(one.modules) == COLUMNS
    assert figures(one) == [
        ["model", "Net", -1, 1, 90, 60, 18, 7, 30, 17, 4, False],
        ["fc.0", "Linear", 0, 1, 20, 20, 8, 8, 20, 13, 1, False],
        ["fc.1", "ReLU", 0, 1, 10, 10, 3, 3, 10, 4, 1, False],
    ]
    # AND of all that ran on the device, the loss and what accumulates is of no module.
    root = one.modules.iloc[0]
    whole = one.kernels["device_us"].sum()
    assert root["device_us"] + root["backward_device_us"] == whole - 1 - 9


def test_marks_change_nothing_else() -> None:
    assert_unmarked_is_the_same(ours(*training()))


def assert_unmarked_is_the_same(one: tprofile.Profile) -> None:
    """Assert that of all that is told nothing but the modules depends on their marks."""
    file = json.loads(b"".join(dump(one.trace)))
    events = file["traceEvents"]
    kept = [e for e in events if not str(e.get("name")).startswith(marks.MODULE)]
    assert len(kept) < len(events)
    file["traceEvents"] = kept
    file["tprofile"]["modules"] = False
    other = tprofile.load(json.dumps(file).encode())
    assert other.modules.empty
    told, untold = frames(one), frames(other)
    for name in told.keys() - {"events", "modules"}:
        assert_frame_equal(told[name], untold[name], check_exact=True, obj=name)
    assert one.findings == other.findings
    assert repr(one.summary) == repr(other.summary)
    mine, others = one.strip, other.strip
    assert (mine is None) == (others is None)
    if mine is not None and others is not None:
        for field in ("start_us", "duration_us", "row", "kind", "launch"):
            assert np.array_equal(getattr(mine, field), getattr(others, field)), field
        assert mine.name.tolist() == others.name.tolist()
    columns = ["name", "category", "start_us", "duration_us", "thread", "run"]
    unmarked = one.events[~one.events["name"].str.startswith(marks.MODULE)]
    assert_frame_equal(
        unmarked[columns].reset_index(drop=True), other.events[columns], check_exact=True
    )


def test_what_a_mark_launches_is_of_the_operator_around_it() -> None:
    # GIVEN a function of the user's own, an operator to torch, in which a module launches a kernel
    # without an operator; and runtime calls that bear another thread's number, in it and outside
    one = ours(
        op("Function", 10, 50, 2), mark("Net", "net", "", 20, 30, 3),
        call("cudaLaunchKernel", 25, 1, 6, 3, tid=9), work("triton", 100, 5, 6, 3),
        mark("Net", "net", "", 70, 10, 4),
        call("cudaLaunchKernel", 71, 1, 7, 4, tid=9), work("alone", 110, 3, 7, 4),
    )  # fmt: skip
    assert one.kernels.set_index("name")["operator"].to_dict() == {
        "triton": "Function", "alone": "cudaLaunchKernel",
    }  # fmt: skip
    assert figures(one, "module", "calls", "device_us", "launches") == [["net", 2, 8, 2]]
    assert one.operators.set_index("name")["self_device_us"].to_dict() == {
        "Function": 5, "cudaLaunchKernel": 0,
    }  # fmt: skip
    # AND it is so to all other figures
    tree = one.tree
    assert tree[["name", "depth"]].to_numpy(object).tolist() == [
        ["Function", 0], ["cudaLaunchKernel", 1], ["cudaLaunchKernel", 0],
    ]  # fmt: skip


def test_modules_inside_themselves_are_counted_once() -> None:
    # GIVEN a module that calls itself through another one
    one = ours(
        mark("Tree", "tree", "", 10, 80), mark("Leaf", "tree", "leaf", 20, 60),
        mark("Tree", "tree", "", 30, 40), mark("Leaf", "tree", "leaf", 40, 20),
        op("aten::mm", 45, 5, 2), *launched("gemm", 46, 200, 8, 2),
        op("aten::add", 75, 3, 3), *launched("add", 76, 210, 2, 3),
    )  # fmt: skip
    columns = ("module", "parent", "calls", "cpu_us", "self_cpu_us", "device_us", "self_device_us")
    assert figures(one, *columns, "launches") == [
        ["tree", -1, 2, 80, 40, 10, 0, 2],
        ["leaf", 0, 2, 60, 40, 10, 10, 2],
    ]


def test_runs_are_added_up_and_the_rest_is_left_out() -> None:
    # GIVEN two runs of ours, and calls in what resets the state ahead of them
    def step(at: float, took: float, ext: int) -> list[Event]:
        return [
            mark("Net", "net", "", at + 10, 20),
            op("aten::mm", at + 12, 5, ext), *launched("gemm", at + 13, at + 40, took, ext),
        ]  # fmt: skip

    one = profile(
        op("tprofile::each", 0, 90, 1), *step(0, 100, 2),
        op(RUN, 200, 100, 3), *step(200, 3, 4), op(RUN, 400, 100, 5), *step(400, 4, 6),
        recorded={"profiled": 2, "modules": True},
    )  # fmt: skip
    assert figures(one, "calls", "cpu_us", "device_us", "launches") == [[2, 40, 7, 2]]


def test_rows_stand_in_the_order_of_the_first_calls() -> None:
    one = ours(
        mark("Net", "z", "", 10, 80), mark("A", "z", "b", 12, 10), mark("B", "z", "a", 30, 10),
        mark("A", "z", "b", 50, 10), mark("C", "z", "b.x", 51, 5),
    )  # fmt: skip
    assert figures(one, "module", "type", "parent", "calls") == [
        ["z", "Net", -1, 1], ["b", "A", 0, 2], ["a", "B", 0, 1], ["b.x", "C", 1, 1],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("told", "labels"),
    [
        # One model, and a loss that is a module.
        ([("m", ""), ("m", "a.0"), ("loss", "")], ["m", "a.0", "loss"]),
        # Two that have modules inside.
        (
            [("gen", ""), ("gen", "0"), ("dis", ""), ("dis", "0")],
            ["gen", "gen.0", "dis", "dis.0"],
        ),
        # A name that is also a path.
        ([("m", ""), ("m", "loss"), ("loss", "")], ["m", "m.loss", "loss"]),
        # A path with all kinds of characters.
        ([("m", ""), ("m", 'a b\n"\\<b>é'), ("m", "m")], ["m", 'm.a b\n"\\<b>é', "m.m"]),
    ],
)
def test_what_modules_are_called(told: list[tuple[str, str]], labels: list[str]) -> None:
    one = ours(*(mark("T", root, path, 10 * i, 5) for i, (root, path) in enumerate(told)))
    assert one.modules["module"].tolist() == labels
    assert one.modules["calls"].tolist() == [1] * len(labels)


@pytest.mark.parametrize("odd", ["", " ", "T", "T ", " m", "T  a", "x" * 999])
def test_marks_that_say_nothing_are_still_no_operators(odd: str) -> None:
    one = ours(op(marks.MODULE + odd, 10, 5, 2), op("aten::mm", 20, 5, 3))
    assert one.modules.empty
    assert one.operators["name"].tolist() == ["aten::mm"]


def test_a_mark_is_read_as_it_was_written() -> None:
    for path in ("", "a", "a.b", "a b", "a  b ", "\n"):
        assert marks.parse_module(marks.module("T", "r", path)) == ("T", "r", path)
    assert marks.parse_module("tprofile::line 3") is None
    assert marks.parse_module("T r a") is None


def test_threads_have_calls_of_their_own() -> None:
    # GIVEN a call in one thread, and meanwhile work of another, and of none that is known
    one = ours(
        mark("Net", "net", "", 10, 80, tid=1), mark("Net", "net", "", 30, 100, tid=2),
        op("aten::mm", 40, 5, 2, tid=2), *launched("gemm", 41, 200, 8, 2),
        op("aten::add", 42, 5, 3, tid=3), call("cudaLaunchKernel", 43, 1, 8, 3, tid=3),
        work("add", 210, 2, 8, 3), op("aten::sin", 100, 9, 4, tid=1),
    )  # fmt: skip
    columns = ("calls", "cpu_us", "self_cpu_us", "device_us", "launches")
    assert figures(one, *columns) == [[2, 180, 180, 8, 1]]
    names = one.events["name"]
    inside = module_of(one._found)
    assert sorted(names[inside == 0]) == [
        "aten::mm", "cudaLaunchKernel", "gemm", *[marks.module("Net", "net")] * 2,
    ]  # fmt: skip


def test_where_a_call_begins_and_ends() -> None:
    # GIVEN operators around a call that begin with it, at its end, and one rounded past its end
    one = ours(
        op("outer", 10, 30), mark("Net", "net", "", 10, 20), op("first", 10, 20),
        op("late", 29, 2), op("after", 30, 5), mark("Net", "net", "", 50, 0), op("empty", 50, 1),
    )  # fmt: skip
    inside = dict(zip(one.events["name"], module_of(one._found).tolist(), strict=True))
    del inside[marks.module("Net", "net")]
    assert inside == {
        RUN: NONE, "outer": NONE, "first": 0, "late": 0, "after": NONE, "empty": NONE,
    }  # fmt: skip


def test_calls_that_overlap() -> None:
    # GIVEN two that await each other
    one = ours(
        mark("A", "a", "", 10, 20), mark("B", "b", "", 20, 20), op("one", 15, 1), op("two", 25, 1),
        op("three", 35, 1),
    )  # fmt: skip
    inside = dict(zip(one.events["name"], module_of(one._found).tolist(), strict=True))
    assert [inside[name] for name in ("one", "two", "three")] == [0, 1, 1]
    assert figures(one, "module", "parent", "cpu_us") == [["a", -1, 20], ["b", -1, 20]]


@st.composite
def stacks(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Draw calls as Python makes them: module, thread, start and end, each whole within another."""
    found: list[tuple[int, int, int, int]] = []

    def fill(tid: int, begin: int, end: int, depth: int) -> None:
        at = begin
        while depth and at < end and draw(st.booleans()):
            start = draw(st.integers(at, end))
            stop = draw(st.integers(start, end))
            found.append((draw(st.integers(0, 3)), tid, start, stop))
            fill(tid, start, stop, depth - 1)
            at = stop + 1

    for tid in (1, 2):
        fill(tid, 10, 60, 4)
    return found


@given(stacks(), st.lists(st.tuples(st.integers(1, 3), st.integers(5, 65)), max_size=8))
def test_every_kernel_is_counted_once_in_each_module_around_its_launch(
    held: list[tuple[int, int, int, int]], launches: list[tuple[int, int]]
) -> None:
    events = [
        mark("T", "m", f"p{module}", start, end - start, tid=tid)
        for module, tid, start, end in held
    ]
    for i, (tid, ts) in enumerate(launches):
        events.append(call("cudaLaunchKernel", ts, 0.5, 100 + i, tid=tid))
        events.append(work("k", 100 + 300 * i, 2**i, 100 + i))
    one = ours(*events)
    wanted: dict[str, list[float]] = {}
    for module, _, _, _ in held:
        mine = [(tid, start, end) for m, tid, start, end in held if m == module]
        inside = [
            2**i
            for i, (tid, ts) in enumerate(launches)
            if any(t == tid and start <= ts < end for t, start, end in mine)
        ]
        apart = [
            sum(any(t == tid and start <= at < end for t, start, end in mine) for at in range(70))
            for tid in (1, 2)
        ]
        wanted[f"p{module}"] = [len(mine), sum(apart), sum(inside), len(inside)]
    frame = one.modules.set_index("module")
    if not launches:
        assert frame[["device_us", "self_device_us", "launches"]].isna().all(axis=None)
        frame, wanted = frame[["calls"]], {name: told[:1] for name, told in wanted.items()}
    else:
        # AND what is in a module is in one of its own calls.
        assert frame["self_device_us"].sum() == in_any_call(held, launches)
        frame = frame[["calls", "cpu_us", "device_us", "launches"]]
    assert dict(zip(frame.index, frame.to_numpy().tolist(), strict=True)) == wanted


def in_any_call(held: list[tuple[int, int, int, int]], launches: list[tuple[int, int]]) -> int:
    """Return the time of what is launched in any call."""
    return sum(
        2**i
        for i, (tid, ts) in enumerate(launches)
        if any(t == tid and start <= ts < end for _, t, start, end in held)
    )


def again() -> list[Event]:
    """Return a checkpoint: the module's operators run once more, in the backward pass."""
    return [
        mark("Net", "net", "", 10, 30), mark("Block", "net", "block", 12, 20),
        ahead("checkpoint", 13, 18, 1, ext=2), op("aten::exp", 15, 5, 3),
        *launched("exp", 16, 300, 4, 3),
        *node("CheckpointBackward", 50, 50, 1),
        mark("Block", "net", "block", 55, 20), ahead("aten::exp", 57, 5, 2, ext=4),
        *launched("exp", 58, 310, 4, 4),
        *node("ExpBackward0", 80, 10, 2), op("aten::mul", 82, 5, 5),
        *launched("mul", 83, 320, 2, 5),
    ]  # fmt: skip


def test_what_runs_once_more_for_a_backward_is_counted_once() -> None:
    one = ours(*again())
    columns = ("module", "calls", "cpu_us", "device_us", "backward_cpu_us", "backward_device_us")
    # The second call of the block is its own time, and to the model a part of the backward pass.
    assert figures(one, *columns) == [
        ["net", 1, 30, 4, 50, 6],
        ["block", 2, 40, 8, 30, 2],
    ]


def test_nothing_on_a_device_is_not_measured() -> None:
    one = ours(mark("Net", "net", "", 10, 20), ahead("aten::exp", 12, 5, 1),
               *node("ExpBackward0", 50, 10, 1))  # fmt: skip
    assert figures(one) == [["net", "Net", -1, 1, 20, 20, None, None, 10, None, None, False]]


def test_a_backward_that_nothing_ties_is_not_measured() -> None:
    events = training()
    for event in events:
        event["args"].pop("fwdbwd", None)
    one = ours(*events)
    assert one.modules[["backward_cpu_us", "backward_device_us"]].isna().all(axis=None)
    assert one.modules["device_us"].tolist() == [18, 8, 3]
    # AND where there was none, it took nothing
    none = ours(*(e for e in events if e["ts"] < 110 or e["cat"] == "kernel"))
    assert none.modules[["backward_cpu_us", "backward_device_us"]].eq(0).all(axis=None)


def test_what_the_profiler_lost_is_not_measured() -> None:
    # GIVEN launches in two modules of which no kernel is recorded, in one of them beside another
    one = ours(
        mark("Net", "net", "", 10, 90),
        mark("A", "net", "a", 12, 10), op("x", 13, 3, 2), call("cudaLaunchKernel", 14, 1, 71, 2),
        mark("B", "net", "b", 30, 20), op("y", 31, 3, 3), call("cudaLaunchKernel", 32, 1, 72, 3),
        op("z", 41, 3, 4), *launched("z", 42, 200, 5, 4),
        mark("C", "net", "c", 60, 20),
    )  # fmt: skip
    columns = ("module", "device_us", "self_device_us", "backward_device_us", "launches")
    assert figures(one, *columns) == [
        ["net", 5, 0, 0, 1], ["a", None, None, 0, None], ["b", 5, 5, 0, 1], ["c", 0, 0, 0, 0],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["Torch-Compiled Region: 0/0", "TorchDynamo Cache Lookup"])
def test_compiled_code_is_told_of_the_module_that_ran_it(name: str) -> None:
    one = ours(
        mark("Net", "net", "", 10, 90), mark("A", "net", "a", 12, 10), op(name, 14, 5),
        mark("B", "net", "b", 30, 20), op(name, 200, 5),
    )  # fmt: skip
    assert figures(one, "module", "compiled") == [["net", False], ["a", True], ["b", False]]


def test_operators_by_module() -> None:
    frame = ours(*training()).operators_by("module")
    columns = ["name", "module", "calls", "self_cpu_us", "self_device_us"]
    names = [
        *("aten::addmm", "aten::mm", "aten::add", "aten::sum", "aten::add_", "ReluBackward0"),
        "cudaLaunchKernel",
    ]
    some = frame[frame["name"].isin(names)]
    assert sorted(some[columns].to_numpy(object).tolist()) == [
        ["ReluBackward0", "fc.1", 1, 4.75, 0],
        ["aten::add", "model", 1, 4, 2],
        ["aten::add_", "", 1, 3, 9],
        ["aten::addmm", "fc.0", 1, 14, 8],
        # That of the backward pass, by the operator that it belongs to.
        ["aten::mm", "fc.0", 2, 8, 13],
        ["aten::sum", "", 1, 3, 1],
        ["cudaLaunchKernel", "", 2, 2, 0],
        ["cudaLaunchKernel", "fc.0", 3, 3, 0],
        ["cudaLaunchKernel", "fc.1", 2, 2, 0],
        ["cudaLaunchKernel", "model", 2, 2, 0],
    ]
    assert frame["self_device_us"].sum() + frame["self_launched_us"].sum() == 45


def test_operators_by_module_where_none_is_known() -> None:
    bare = profile(op("aten::mm", 1, 2))
    with pytest.raises(TprofileError, match=r"^no modules were recorded\. Profile with --modules"):
        bare.operators_by("module")
    assert list(bare.modules) == COLUMNS
    assert bare.modules.empty
    # AND where they were asked for, and the code called none
    none = ours(op("aten::mm", 1, 2)).operators_by("module")
    assert none[["name", "module"]].to_numpy().tolist() == [["aten::mm", ""]]


def test_a_trace_of_nothing() -> None:
    empty = tprofile.load(text())
    assert list(empty.modules) == COLUMNS
    assert empty.modules.empty


def steps(one: tprofile.Profile, kernel: str) -> list[tuple[str, str]]:
    return list(one.chain(kernel)[["level", "name"]].itertuples(index=False, name=None))


def test_chains_go_through_the_module() -> None:
    one = ours(note("train", 5, 900), *training())
    assert steps(one, "gemm") == [
        ("annotation", "train"), ("module", "fc.0"), ("operator", "aten::addmm"),
        ("launch", "cudaLaunchKernel"), ("kernel", "gemm"),
    ]  # fmt: skip
    assert steps(one, "triton") == [
        ("annotation", "train"), ("module", "model"), ("launch", "cudaLaunchKernel"),
        ("kernel", "triton"),
    ]  # fmt: skip
    assert [level for level, _ in steps(one, "sum")] == [
        "annotation", "operator", "launch", "kernel",
    ]  # fmt: skip
    assert steps(one, "relu_b")[:3] == [
        ("module", "fc.1"), ("forward", "aten::relu"), ("annotation", "train"),
    ]  # fmt: skip
    # AND the call is an event
    first = one.chain("gemm").iloc[1]
    assert (first["start_us"], first["duration_us"]) == (20, 20)
    assert one.events["name"][first["event"]] == marks.module("Linear", "model", "fc.0")


# --- what torch itself records of modules, with stacks


def test_torchs_own_record_has_numbers_for_names() -> None:
    one = profile(
        torchs("Net_0", 10, 80), torchs("Block_0", 12, 20), torchs("Linear_0", 14, 10),
        torchs("Block_1", 40, 20), torchs("Linear_1", 44, 10), torchs("Linear_0", 70, 5),
        torchs("MSELoss_0", 100, 5), op("aten::mm", 15, 5, 2), *launched("gemm", 16, 200, 8, 2),
        op("aten::mm", 71, 3, 3), *launched("gemm", 72, 210, 9, 3),
    )  # fmt: skip
    assert figures(one, "module", "type", "parent", "calls", "cpu_us", "device_us") == [
        ["Net_0", "Net", -1, 1, 80, 17],
        ["Block_0", "Block", 0, 1, 20, 8],
        ["Block_0.Linear_0", "Linear", 1, 2, 15, 17],
        ["Block_1", "Block", 0, 1, 20, 0],
        ["Block_1.Linear_1", "Linear", 3, 1, 10, 0],
        ["MSELoss_0", "MSELoss", -1, 1, 5, 0],
    ]


def test_our_marks_go_before_torchs() -> None:
    one = ours(torchs("Net_0", 9, 50), mark("Net", "net", "", 10, 40), torchs("Net_1", 70, 9))
    assert one.modules["module"].tolist() == ["net"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("Net", ["Net", "Net"]), ("_0", ["_0", "_0"]), ("a_b_12", ["a_b_12", "a_b"]), ("", None)],
)
def test_odd_names_of_torchs(name: str, shown: list[str] | None) -> None:
    told = figures(profile(torchs(name, 1, 2)), "module", "type")
    assert told == ([] if shown is None else [shown])


def as_marks(name: str) -> bytes:
    """Return a recorded trace with marks of ours where torch recorded the calls of modules."""
    file = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
    events = file["traceEvents"]
    for event in list(events):
        if str(event.get("name")).startswith("nn.Module: "):
            own = event["name"].removeprefix("nn.Module: ")
            path = [] if own.startswith("Sequential") else [own]
            named = " ".join([own.rpartition("_")[0], "Sequential_0", *path])
            made = {"External id": 10**6 + event["args"]["Ev Idx"]}
            events.append(event | {"cat": "cpu_op", "name": marks.MODULE + named, "args": made})
    return json.dumps(file).encode()


def test_a_recorded_trace_with_marks_and_with_torchs_record() -> None:
    # GIVEN a model trained on a GPU, three steps
    one, other = recorded("mlp_train_stack_mem"), tprofile.load(as_marks("mlp_train_stack_mem"))
    assert_frame_equal(one.modules, other.modules, check_exact=True)
    assert one.modules["module"].tolist() == [
        "Sequential_0", "Linear_0", "GELU_0", "Linear_1", "GELU_1", "Linear_2",
    ]  # fmt: skip
    assert one.modules["calls"].tolist() == [3] * 6
    # AND the marks change nothing else
    told, untold = frames(one), frames(other)
    for name in told.keys() - {"events"}:
        assert_frame_equal(told[name], untold[name], check_exact=True, obj=name)
    assert repr(one.summary) == repr(other.summary)
    assert one.findings == other.findings
    # AND by operator it is the same device time
    for own in (one, other):
        by = own.operators_by("module").groupby("module")["self_device_us"].sum()
        for row in own.modules.iloc[1:].itertuples():
            assert by[row.module] == pytest.approx(row.self_device_us + row.backward_device_us)


@pytest.mark.parametrize("name", [n for n in RECORDED if n != "mlp_train_stack_mem"])
def test_a_recorded_trace_without_modules(name: str) -> None:
    assert recorded(name).modules.empty


# --- the marks of a run


def run(code: Callable[[], object], **options: Any) -> tprofile.Profile:
    return tprofile.run(code, **{"warmup": 1, "repeat": 2, "cpu": True, "modules": True} | options)


def rows(one: tprofile.Profile) -> dict[str, tuple[str, int]]:
    """Return class and calls of each module."""
    return {path: (kind, calls) for path, kind, calls in figures(one, "module", "type", "calls")}


def test_every_call_of_an_encoder_and_how_long_it_took() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    x = torch.ones(2, 3, 16)
    one = run(lambda: model(x).sum().backward())
    called = [
        *("self_attn", "dropout1", "norm1", "linear1", "dropout", "linear2", "dropout2", "norm2"),
    ]
    paths = [
        *("TransformerEncoder",),
        *(f"layers.{i}{path}" for i in (0, 1) for path in ["", *(f".{name}" for name in called)]),
    ]
    assert one.modules["module"].tolist() == paths
    held = dict(model.named_modules())
    types = [type(held.get(path, model)).__name__ for path in paths]
    assert one.modules["type"].tolist() == types
    assert one.modules["calls"].tolist() == [2] * len(paths)
    assert one.modules["parent"].tolist() == [-1, 0, *[1] * 8, 0, *[10] * 8]
    # AND their times are those of the marks in the trace
    events = one.events
    for row in one.modules.itertuples():
        path = [] if row.module == "TransformerEncoder" else [row.module]
        name = " ".join([f"tprofile::module {row.type} TransformerEncoder", *path])
        mine = events["duration_us"][events["name"] == name]
        assert len(mine) == 2
        assert row.cpu_us == pytest.approx(mine.sum(), abs=1e-6)
    # AND what is inside is a part
    frame = one.modules
    for at in (0, 1, 10):
        inside = frame["cpu_us"][frame["parent"] == at].sum()
        assert frame["self_cpu_us"][at] == pytest.approx(frame["cpu_us"][at] - inside, abs=1e-6)
    assert (frame["self_cpu_us"] > 0).all()
    # AND its backward pass is all but that of the sum
    behind = one.operators_by("module")
    behind = behind[behind["name"].str.startswith(ENGINE)]
    mine = behind["cpu_us"][behind["module"] != ""].sum()
    assert frame["backward_cpu_us"][0] == pytest.approx(mine, abs=1e-6)
    rest = behind["name"][behind["module"] == ""].str.removeprefix(ENGINE)
    assert set(rest) <= {"SumBackward0", "torch::autograd::AccumulateGrad"}
    # AND the marks change nothing else, and survive the file
    assert_unmarked_is_the_same(one)
    assert_same(one, tprofile.load(b"".join(dump(one.trace))))


def test_only_runs_under_the_profiler_are_marked() -> None:
    model, seen = nn.ReLU(), []

    def code() -> None:
        seen.append(nn.Module._wrapped_call_impl.__code__ is PLAIN)
        model(torch.ones(2))

    def reset() -> None:
        assert nn.Module._wrapped_call_impl.__code__ is PLAIN
        model(torch.ones(2))

    before = nn.Module.__call__
    one = run(code, warmup=2, repeat=3, each=reset)
    assert seen == [True, True, False, False, False, False]
    assert rows(one) == {"ReLU": ("ReLU", 3)}
    assert nn.Module.__call__ is before is nn.Module._wrapped_call_impl
    assert before.__code__ is PLAIN
    # AND without the option, none is
    seen.clear()
    one = run(code, modules=False)
    assert seen == [True] * 4
    assert one.modules.empty
    with pytest.raises(TprofileError, match="no modules were recorded"):
        one.operators_by("module")


class Reusing(nn.Module):
    """One activation and one pair of weights in several places."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3)
        self.relu = nn.ReLU()
        self.tied = nn.Linear(4, 4)
        self.head = nn.Sequential(self.tied, self.relu, self.tied)
        self.unused = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.conv2(self.relu(self.conv1(x))))
        return self.head(x) + nn.functional.relu(x)


def test_a_module_in_several_places_has_one_path() -> None:
    model, x = Reusing(), torch.ones(1, 1, 8, 8)
    assert rows(run(lambda: model(x))) == {
        "Reusing": ("Reusing", 2), "conv1": ("Conv2d", 2), "relu": ("ReLU", 6),
        "conv2": ("Conv2d", 2), "head": ("Sequential", 2), "tied": ("Linear", 4),
    }  # fmt: skip


generator = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
discriminator = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
criterion = nn.BCELoss()


def test_two_models_in_one_cell_are_told_apart_by_their_variables() -> None:
    def code() -> None:
        made = generator(torch.ones(2, 4))
        criterion(discriminator(made), torch.ones(2, 1)).backward()

    one = run(code)
    assert rows(one) == {
        "generator": ("Sequential", 2), "generator.0": ("Linear", 2), "generator.1": ("ReLU", 2),
        "discriminator": ("Sequential", 2), "discriminator.0": ("Linear", 2),
        "discriminator.1": ("Sigmoid", 2), "criterion": ("BCELoss", 2),
    }  # fmt: skip
    # AND a loss is no reason to say whose the modules are
    one = run(lambda: criterion(discriminator(torch.ones(2, 4)), torch.ones(2, 1)))
    assert list(rows(one)) == ["discriminator", "0", "1", "criterion"]


def test_models_that_no_variable_holds_are_numbered() -> None:
    models = [nn.Sequential(nn.ReLU()) for _ in range(2)] + [nn.Sequential(nn.Tanh())]
    one = run(lambda: [model(torch.ones(2)) for model in models])
    assert rows(one) == {
        "Sequential": ("Sequential", 2), "Sequential.0": ("ReLU", 2),
        "Sequential#2": ("Sequential", 2), "Sequential#2.0": ("ReLU", 2),
        "Sequential#3": ("Sequential", 2), "Sequential#3.0": ("Tanh", 2),
    }  # fmt: skip


@pytest.mark.parametrize("kept", [False, True], ids=["gone", "kept"])
def test_a_model_made_in_each_run_is_one(kept: bool) -> None:
    # GIVEN that the one of the run before is there still, as in a cycle of references
    models = []

    def code() -> None:
        model = nn.Sequential(nn.Linear(2, 2))
        models.extend([model] if kept else [])
        model(torch.ones(2))

    assert rows(run(code, repeat=3)) == {"Sequential": ("Sequential", 3), "0": ("Linear", 3)}


def test_models_that_a_run_makes_one_after_the_other() -> None:
    def code() -> None:
        for kind in (nn.ReLU, nn.ReLU, nn.Tanh):
            model = nn.Sequential(kind())
            model(torch.ones(2))
            del model

    # Of one that is gone, another of its class takes the name.
    assert rows(run(code, repeat=1)) == {"Sequential": ("Sequential", 3), "0": ("ReLU", 3)}


changing: nn.Module


def test_a_variable_that_holds_models_of_several_classes() -> None:
    def code() -> None:
        global changing
        for kind in (nn.ReLU, nn.Tanh):
            changing = kind()
            changing(torch.ones(2))

    assert rows(run(code)) == {"changing": ("ReLU", 2), "changing#2": ("Tanh", 2)}


class Making(nn.Module):
    """Calls a module that it makes, one that it borrows and one that it got since."""

    def __init__(self, borrowed: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.borrowed = [borrowed]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "late"):
            x = self.inner(x)
            self.late = nn.Tanh()
        return self.borrowed[0](self.late(nn.ReLU()(x)))


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.ReLU()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_a_model_that_grows_between_runs() -> None:
    model = Growing()
    one = run(
        lambda: model(torch.ones(2)),
        each=lambda: model.blocks.append(nn.Tanh()), warmup=0, repeat=2,
    )  # fmt: skip
    assert rows(one) == {
        "Growing": ("Growing", 2), "blocks.0": ("ReLU", 2), "blocks.1": ("Tanh", 2),
        "blocks.2": ("Tanh", 1),
    }  # fmt: skip


def test_modules_that_the_model_does_not_hold() -> None:
    model = Making(nn.Sequential(nn.Sigmoid()))
    one = run(lambda: model(torch.ones(2)), warmup=0, repeat=2)
    assert rows(one) == {
        "Making": ("Making", 2), "inner": ("Identity", 1), "ReLU()": ("ReLU", 2),
        "late": ("Tanh", 2), "Sequential()": ("Sequential", 2), "Sequential().0": ("Sigmoid", 2),
    }  # fmt: skip


class Odd(nn.Module):
    """Has a class name that holds blanks, and a list of modules that fails."""

    def named_modules(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Module]]:
        raise KeyError("no names")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


Odd.__name__ = "Odd \n one"


def test_a_model_with_odd_names() -> None:
    model = nn.Sequential()
    model.add_module('a b"\n</script>', nn.ReLU())
    model.add_module("odd", Odd())
    one = run(lambda: (model(torch.ones(2)), model.odd(torch.ones(2))))
    assert rows(one) == {
        "Sequential": ("Sequential", 2), 'a b"\n</script>': ("ReLU", 2), "odd": ("Odd_one", 2),
        "Odd_one": ("Odd_one", 2),
    }  # fmt: skip


class Failing(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.inner, self.error, self.calls = nn.ReLU(), error, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == 3:
            raise self.error
        return self.inner(x)


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_in_a_module_leaves_nothing_marked(error: BaseException) -> None:
    model = nn.Sequential(Failing(error))
    with pytest.raises(type(error)) as caught:
        run(lambda: model(torch.ones(2)), warmup=0, repeat=9)
    assert caught.value is error
    assert nn.Module._wrapped_call_impl.__code__ is PLAIN
    one = tprofile.last()
    assert one is not None
    assert rows(one) == {"Sequential": ("Sequential", 2), "0": ("Failing", 2),
                         "0.inner": ("ReLU", 2)}  # fmt: skip
    # AND the next profile is right
    relu = nn.ReLU()
    assert rows(run(lambda: relu(torch.ones(2)))) == {"ReLU": ("ReLU", 2)}


def test_an_error_that_the_code_catches() -> None:
    class Raising(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError

    class Catching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Raising(), nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with contextlib.suppress(ValueError):
                self.first(x)
            return self.second(x)

    model = Catching()
    one = run(lambda: model(torch.ones(2)))
    assert rows(one) == {"Catching": ("Catching", 2), "first": ("Raising", 2),
                         "second": ("ReLU", 2)}  # fmt: skip
    assert one.modules["parent"].tolist() == [-1, 0, 0]


def test_a_recording_of_a_block() -> None:
    with tprofile.record(cpu=True, modules=True) as r:
        generator(torch.ones(2, 4))
    assert rows(r.profile) == {"generator": ("Sequential", 1), "0": ("Linear", 1), "1": ("ReLU", 1)}
    assert nn.Module._wrapped_call_impl.__code__ is PLAIN
    failed, model = tprofile.record(cpu=True, modules=True), nn.Sequential(nn.Linear(3, 3))
    with pytest.raises(RuntimeError, match="shapes"), failed:
        model(torch.ones(2, 4))
    assert nn.Module._wrapped_call_impl.__code__ is PLAIN
    assert rows(failed.profile) == {"Sequential": ("Sequential", 1), "0": ("Linear", 1)}
    # AND one that ends in another thread, which it must not
    entered = tprofile.record(cpu=True, modules=True)
    entered.__enter__()
    refused: list[BaseException] = []

    def leave() -> None:
        try:
            entered.__exit__(None, None, None)
        except TprofileError as error:
            refused.append(error)

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert len(refused) == 1
    entered.__exit__(None, None, None)
    assert nn.Module._wrapped_call_impl.__code__ is PLAIN


def test_calls_in_other_threads() -> None:
    model = nn.Sequential(nn.Linear(4, 4))

    def code() -> None:
        threads = [threading.Thread(target=model, args=(torch.ones(2, 4),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        model(torch.ones(2, 4))
        for thread in threads:
            thread.join()

    one = run(code)
    assert rows(one) == {"Sequential": ("Sequential", 8), "0": ("Linear", 8)}


def test_copies_for_devices_are_one_module() -> None:
    # GIVEN what nn.DataParallel does with several devices
    model = nn.Sequential(nn.Linear(4, 4))

    def copy(module: nn.Module) -> nn.Module:
        replica = module._replicate_for_data_parallel()
        for name, child in module._modules.items():
            replica._modules[name] = copy(child)
        replica.weight = getattr(module, "weight", None)
        replica.bias = getattr(module, "bias", None)
        return replica

    def code() -> None:
        replicas = [copy(model) for _ in range(2)]
        threads = [threading.Thread(target=r, args=(torch.ones(2, 4),)) for r in replicas]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert rows(run(code)) == {"Sequential": ("Sequential", 4), "0": ("Linear", 4)}


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2)])
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_its_modules_once_more(reentrant: bool) -> None:
    model, x = Checkpointed(reentrant), torch.ones(2, 4, requires_grad=True)
    one = run(lambda: model(x).sum().backward())
    assert rows(one) == {
        "Checkpointed": ("Checkpointed", 2),
        **{f"blocks.{i}": ("Sequential", 4) for i in (0, 1)},
        **{f"blocks.{i}.0": ("Linear", 4) for i in (0, 1)},
        **{f"blocks.{i}.1": ("Tanh", 4) for i in (0, 1)},
    }
    # AND the backward pass of the whole is that of all nodes but the sum's
    frame = one.events
    top = frame[frame["name"].str.startswith(ENGINE) & (frame["forward"] != NONE)]
    nested = top["parent"].map(lambda at: at != NONE and frame["forward"][at] != NONE)
    whole = top["duration_us"][~nested & ~top["name"].str.endswith("SumBackward0")].sum()
    behind = one.modules.set_index("module")["backward_cpu_us"]
    accumulated = frame[frame["name"] == ENGINE + "torch::autograd::AccumulateGrad"]
    within = accumulated["parent"].map(lambda at: at != NONE and frame["forward"][at] != NONE)
    inside = accumulated["duration_us"][within].sum()
    assert behind["Checkpointed"] == pytest.approx(whole - inside, abs=1e-6)
    # AND what is run once more is in a block's own time
    assert behind["Checkpointed"] > behind["blocks.0"] + behind["blocks.1"]


def test_traced_and_scripted_modules_show_as_one() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = torch.ones(2, 4)
    traced = torch.fx.symbolic_trace(model)
    plain = str(torch.fx.symbolic_trace(model).graph)
    graphs = []

    def code() -> None:
        traced(x)
        graphs.append(str(torch.fx.symbolic_trace(model).graph))

    one = run(code)
    assert set(graphs) == {plain}
    assert rows(one) == {"Sequential": ("Sequential", 2), "0": ("Linear", 2), "1": ("ReLU", 2)}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_torchscript_runs_is_of_the_module_that_was_called() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4)
    scripted = torch.jit.trace(model, x)
    graphs = []

    def code() -> None:
        scripted(x)
        graphs.append(str(torch.jit.trace(model, x, check_trace=False).graph))

    one = run(code)
    assert rows(one)["TopLevelTracedModule"] == ("TopLevelTracedModule", 2)
    kinds = [Counter(w for w in graph.split() if "::" in w) for graph in graphs]
    assert kinds[0] == kinds[1] == kinds[2]
    assert one.operators.set_index("name")["calls"]["aten::addmm"] == 4


# --- torch.compile


class Net(nn.Module):
    def __init__(self, breaks: bool, hook: bool) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.breaks = breaks
        if hook:
            self.a.register_forward_hook(lambda module, given, out: out * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.a(x)
        if self.breaks:
            torch._dynamo.graph_break()
        return self.b(x)


Code = Callable[[torch.Tensor], object]

# The compiler's own table of weak references, when it is cleared while an entry dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

GRAD = "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
"""Which torch.compile itself asks for when a graph breaks."""


def whole(model: nn.Module, **options: Any) -> Code:
    return torch.compile(model, **options)


def in_place(model: nn.Module, **options: Any) -> Code:
    model.compile(**options)
    return model


def function(model: nn.Module, **options: Any) -> Code:
    return torch.compile(lambda x: model(x) + 1, **options)


def part(model: nn.Module, **options: Any) -> Code:
    model.b = torch.compile(model.b, **options)
    return model


def late(model: nn.Module, **options: Any) -> Code:
    made: list[Any] = []

    def code(x: torch.Tensor) -> object:
        if not made:
            made.append(torch.compile(model, **options))
        return made[0](x)

    return code


def held(model: nn.Module, **options: Any) -> Code:
    return torch.compile(nn.Sequential(model, nn.ReLU()), **options)


COMPILED = {
    "whole": (whole, ["Net"]),
    "in_place": (in_place, ["Net"]),
    "function": (function, []),
    "part": (part, ["Net", "a", "b"]),
    "late": (late, ["Net"]),
    "held": (held, ["Sequential"]),
}


def compilations(how: Any, breaks: bool, hook: bool, marked: list[bool]) -> list[Any]:
    """Return after each call what torch.compile has done until then, in numbers."""
    torch._dynamo.reset()
    counters.clear()
    backend, marks_ = CompileCounter(), modules.ModuleMarks()
    code = how(Net(breaks, hook), backend=backend, fullgraph=not breaks)
    found = []
    for one in marked:
        with marks_.marked() if one else contextlib.nullcontext():
            code(torch.ones(2, 4))
        found.append(
            (backend.frame_count, backend.op_count, {k: dict(v) for k, v in counters.items()})
        )
    return found


@pytest.mark.filterwarnings(GRAD)
@pytest.mark.parametrize(
    ("breaks", "hook"), [(False, False), (True, False), (False, True)], ids=["", "breaks", "hook"]
)
@pytest.mark.parametrize("how", COMPILED)
def test_torch_compile_does_the_same_with_marks(how: str, breaks: bool, hook: bool) -> None:
    case = (COMPILED[how][0], breaks and how != "part", hook)
    plain = compilations(*case, [False] * 3)
    assert plain[0] == plain[2]
    # WHEN what was compiled before is run with marks, and what is compiled with them without
    assert compilations(*case, [False, True, False]) == plain
    assert compilations(*case, [True, True, False]) == plain


@pytest.mark.filterwarnings(GRAD)
@pytest.mark.parametrize("how", COMPILED)
def test_a_compiled_module_shows_as_one(how: str) -> None:
    torch._dynamo.reset()
    make, paths = COMPILED[how]
    code = make(Net(False, False), backend="aot_eager", fullgraph=True)
    counters.clear()
    # Cold, so that it is compiled while calls are marked.
    one = run(lambda: code(torch.ones(2, 4)).sum().backward(), warmup=0, repeat=3)
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    assert one.modules["module"].tolist() == paths
    assert one.modules["calls"].tolist() == [3] * len(paths)
    inside = [path for path in paths[-1:] if how != "function"]
    assert one.modules["module"][one.modules["compiled"]].tolist() == inside
    # AND its backward pass is its own
    assert (one.modules["backward_cpu_us"] > 0).all()


@pytest.mark.filterwarnings(GRAD)
def test_modules_between_graph_breaks_are_called_and_marked() -> None:
    torch._dynamo.reset()
    model = torch.compile(nn.Sequential(Net(True, False), nn.ReLU()), backend="aot_eager")
    one = run(lambda: model(torch.ones(2, 4)))
    assert rows(one) == {"Sequential": ("Sequential", 2), "0": ("Net", 2), "1": ("ReLU", 2)}
    assert one.modules["parent"].tolist() == [-1, 0, 0]


def test_a_torch_that_calls_its_modules_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def closure() -> Any:
        return lambda self, *args, **kwargs: PLAIN, closure

    monkeypatch.setattr(modules, "_tprofile_plain", None)
    kept = closure
    for other in (None, lambda *args: kept, nn.ReLU()):
        monkeypatch.setattr(modules, "_CALL", other)
        with pytest.raises(TprofileError, match="calls its modules in a way that tprofile does"):
            run(lambda: None)
    assert nn.Module._wrapped_call_impl.__code__ is PLAIN


# --- the magic


def test_the_magic_knows_the_variables_of_the_notebook() -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell()
    with capture_output():
        shell.run_cell("%load_ext tprofile", silent=False).raise_error()
        shell.run_cell(
            "import torch\nfrom torch import nn\nnet = nn.Sequential(nn.Linear(4, 4))\n"
            "loss = nn.MSELoss()\nx = torch.ones(2, 4)"
        ).raise_error()
        cell = "%%tprofile -q --cpu -w 1 -r 2 --modules\ny = net(x)\nloss(y, x).backward()"
        shell.run_cell(cell).raise_error()
    assert rows(shell.user_ns["_tprofile"]) == {
        "net": ("Sequential", 2), "0": ("Linear", 2), "loss": ("MSELoss", 2),
    }  # fmt: skip


def test_recorded_modules_survive_a_file(tmp_path: Path) -> None:
    one = run(lambda: generator(torch.ones(2, 4)))
    other = tprofile.load(one.export_trace(tmp_path / "t.json.gz"))
    assert_frame_equal(one.modules, other.modules, check_exact=True)
    assert other.trace.recorded.modules is True
