"""What each line of code took, on traces whose figures are known."""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import math
import re
import subprocess
import sys
import traceback
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from notebook import error, errors, kernel, values
from pandas.testing import assert_frame_equal
from test_backward import ENGINE, ahead, node
from traces import (
    RECORDED,
    Event,
    assert_same,
    call,
    frames,
    note,
    op,
    profile,
    recorded,
    row,
    slice_,
    work,
)  # fmt: skip
from traitlets.config import Config

import tprofile
from tprofile import TprofileError
from tprofile.analysis.lines import line_marks, line_of, stretches
from tprofile.trace import marks
from tprofile.trace.write import dump

RUN = "tprofile::run"
COLUMNS = [
    "file", "line", "source", "calls", "cpu_us", "device_us", "backward_device_us", "launches",
    "function",
]  # fmt: skip


def line(number: int, ts: float, dur: float, said: str = "", *, ext: int = 0) -> Event:
    return op(f"tprofile::line {number}" + (f" {said}" if said else ""), ts, dur, ext)


def ours(*events: Event, source: str = "", **more: Any) -> tprofile.Profile:
    """Return a profile of one run of ours, whose cell begins in the line after the magic's."""
    known = {"profiled": 1, "source": source, "first_line": 2, **more}
    return profile(note(RUN, 0, 1000), *events, recorded=known)


def figures(one: tprofile.Profile, *columns: str) -> list[list[Any]]:
    """Return rows as lists, with None for NaN."""
    frame = one.lines[list(columns)] if columns else one.lines
    return [
        [None if isinstance(v, float) and math.isnan(v) else v for v in values]
        for values in frame.to_numpy(object).tolist()
    ]


# --- statements of a cell

LOOP = "y = x @ w\nfor i in range(2):\n    y = y.relu()\nz = y.sum().item()\ngraph.replay()"


def loop() -> list[Event]:
    return [
        # A kernel belongs to the line that launched it, whenever it runs.
        line(2, 1, 20), op("aten::mm", 2, 10, 2), call("cudaLaunchKernel", 3, 1, 91, 2),
        work("gemm", 500, 8, 91, 2),
        # A loop counts without the statements in it.
        line(3, 21, 60),
        line(4, 25, 20), op("aten::relu", 26, 9, 4), call("cudaLaunchKernel", 27, 1, 92, 4),
        work("relu", 510, 2, 92, 4),
        line(4, 50, 25), op("aten::relu", 51, 9, 5), call("cudaLaunchKernel", 52, 1, 93, 5),
        work("relu", 512, 3, 93, 5),
        # A copy is no launch of a kernel.
        line(5, 90, 450), op("aten::sum", 91, 9, 6), call("cudaLaunchKernel", 92, 1, 94, 6),
        work("sum", 515, 4, 94, 6),
        op("aten::item", 101, 430, 7), call("cudaMemcpyAsync", 102, 420, 95, 7),
        work("Memcpy DtoH", 520, 1, 95, 7, cat="gpu_memcpy"),
        # To torch, a graph that no operator launches is of the mark; it is one launch.
        line(6, 541, 10, ext=8), call("cudaGraphLaunch", 542, 8, 96, 8),
        work("one", 560, 5, 96, 8), work("two", 566, 6, 96, 8),
        # In no line: our own wait, and an operator that no statement called.
        op("stray", 600, 5, 9), call("cudaLaunchKernel", 601, 1, 97, 9),
        work("stray", 610, 7, 97, 9),
        op("tprofile::synchronize", 700, 20, 10), call("cudaDeviceSynchronize", 701, 10, 98, 10),
    ]  # fmt: skip


def test_a_cell_with_a_loop_a_copy_and_a_graph() -> None:
    one = ours(*loop(), source=LOOP)
    assert list(one.lines) == COLUMNS
    assert figures(one) == [
        [None, 2, "y = x @ w", 1, 20, 8, 0, 1, None],
        [None, 3, "for i in range(2):", 1, 15, 0, 0, 0, None],
        [None, 4, "    y = y.relu()", 2, 45, 5, 0, 2, None],
        [None, 5, "z = y.sum().item()", 1, 450, 5, 0, 1, None],
        [None, 6, "graph.replay()", 1, 10, 11, 0, 1, None],
    ]
    # AND all but what was launched outside of all lines
    whole = one.kernels["device_us"].sum()
    assert one.lines["device_us"].sum() == whole - 7 == 29


def test_the_line_of_every_event() -> None:
    one = ours(*loop(), source=LOOP)
    found = dict(zip(one.events.index, line_of(one._found).tolist(), strict=True))
    named = defaultdict(list)
    for at, name in one.events["name"].items():
        named[name].append(found[at])
    assert named["gemm"] == named["aten::mm"] == named["tprofile::line 2"] == [2]
    assert named["relu"] == named["aten::relu"] == named["tprofile::line 4"] == [4, 4]
    assert named["cudaLaunchKernel"] == [2, 4, 4, 5, -1]
    assert named["Memcpy DtoH"] == named["cudaMemcpyAsync"] == [5]
    assert named["one"] == named["two"] == named["cudaGraphLaunch"] == [6]
    assert named["stray"] == [-1, -1]
    assert named[RUN] == named["tprofile::synchronize"] == [-1]
    assert one.events["name"][line_marks(one._found)].tolist() == [
        f"tprofile::line {n}" for n in (2, 3, 4, 4, 5, 6)
    ]


def test_marks_change_nothing_else() -> None:
    assert_unmarked_is_the_same(ours(*loop(), source=LOOP))


def assert_unmarked_is_the_same(one: tprofile.Profile) -> None:
    """Assert that of all that is told nothing but the lines depends on the marks of lines."""
    file = json.loads(b"".join(dump(one.trace)))
    events = file["traceEvents"]
    kept = [e for e in events if not str(e.get("name")).startswith("tprofile::line ")]
    assert len(kept) < len(events)
    file["traceEvents"] = kept
    other = tprofile.load(json.dumps(file).encode())
    assert other.lines.empty
    told, untold = frames(one), frames(other)
    for name in told.keys() - {"events", "lines"}:
        assert_frame_equal(told[name], untold[name], check_exact=True, obj=name)
    # Where a finding is, is told by the line.
    assert [f.kind for f in one.findings] == [f.kind for f in other.findings]
    assert repr(one.summary) == repr(other.summary)
    mine, others = one.strip, other.strip
    assert (mine is None) == (others is None)
    if mine is not None and others is not None:
        for field in ("start_us", "duration_us", "row", "kind", "launch"):
            assert np.array_equal(getattr(mine, field), getattr(others, field)), field
        assert mine.name.tolist() == others.name.tolist()
    # AND the raw events are as they were, but for the marks.
    columns = ["name", "category", "start_us", "duration_us", "thread", "run"]
    unmarked = one.events[~one.events["name"].str.startswith("tprofile::line ")]
    assert_frame_equal(
        unmarked[columns].reset_index(drop=True), other.events[columns], check_exact=True
    )


def test_two_statements_of_a_line_are_one_row() -> None:
    one = ours(line(2, 1, 10), line(2, 12, 5), line(3, 20, 30), line(3, 25, 5), source="a; b\nfor")
    assert figures(one, "line", "calls", "cpu_us") == [[2, 2, 15], [3, 2, 30]]


def test_lines_without_a_text() -> None:
    told = ours(line(2, 1, 2), line(3, 4, 2), line(9, 7, 2), source="a\n\n")
    assert figures(told, "line", "source") == [[2, "a"], [3, None], [9, None]]
    none = profile(note(RUN, 0, 9), line(2, 1, 2), recorded={"profiled": 1})
    assert figures(none, "line", "source") == [[2, None]]
    assert none.source is None


def test_the_source_has_its_lines_where_the_user_sees_them() -> None:
    assert ours(source="a\n  b").source == "\na\n  b"
    assert ours(source="a", first_line=1).source == "a"


def test_runs_are_summed_and_what_is_in_none_is_left_out() -> None:
    one = profile(
        line(2, 1, 3), note(RUN, 10, 50), line(2, 11, 20), note(RUN, 100, 50), line(2, 101, 30),
        recorded={"profiled": 2},
    )  # fmt: skip
    assert figures(one, "line", "calls", "cpu_us") == [[2, 2, 50]]


def test_without_device_work_device_columns_are_unknown() -> None:
    one = ours(line(2, 1, 20), op("aten::mm", 2, 10))
    assert figures(one, "cpu_us", "device_us", "backward_device_us", "launches") == [
        [20, None, None, None]
    ]


def test_without_lines_there_is_a_frame_with_its_columns() -> None:
    for one in (
        profile(op("a", 0, 5, 1), work("k", 9, 3, 0, 1)),
        ours(op("a", 0, 5, 1), work("k", 9, 3, 0, 1)),
        profile(),
    ):
        assert list(one.lines) == COLUMNS
        assert one.lines.empty
        assert set(line_of(one._found)) <= {-1}


@pytest.mark.parametrize(
    "name",
    ["tprofile::line", "tprofile::line 0", "tprofile::line -3", "tprofile::line x",
     "tprofile::line 3.5", "tprofile::line 99999999999999999999", " tprofile::line 3"],
)  # fmt: skip
def test_what_is_no_mark_of_a_line(name: str) -> None:
    assert ours(op(name, 1, 5), source="a").lines.empty


@pytest.mark.parametrize(
    "told",
    [(3,), (3, "f"), (3, "A.f.<locals>.<lambda>", "a.py"), (1, "f", "/my files/a b.py"),
     (99, "f", "Cell In[3]"), (4, "f", "a\nb"), (4, "é", "日本.py")],
)  # fmt: skip
def test_a_mark_is_read_as_it_was_written(told: tuple[Any, ...]) -> None:
    assert marks.parse_line(marks.line(*told)) == (*told, None, None)[:3]


@pytest.mark.parametrize(
    "event", [note("tprofile::line 3", 1, 5), op("tprofile::line x", 1, 5)], ids=["note", "op"]
)
def test_what_is_named_like_a_mark_stays_what_it_is(event: Event) -> None:
    one = ours(event, source="a")
    assert one.lines.empty
    assert row(one.operators, name=event["name"])["cpu_us"] == 5


def test_what_the_file_of_a_trace_says_of_its_lines_is_data() -> None:
    # GIVEN a file that would have a billion lines above the cell
    one = ours(line(2, 1, 5), source="a", first_line=10**9)
    assert one.source is None
    assert any("unusable" in note for note in one.summary.warnings)
    assert figures(one, "line", "source") == [[2, None]]


def test_annotations_that_overlap_lines_take_nothing_from_them() -> None:
    # GIVEN asynchronous code: an annotation of another task begins in line 2 and ends in line 3
    one = ours(
        line(2, 0, 10), note("task", 5, 10), op("a", 6, 2, 1), line(3, 10, 10), op("b", 11, 2, 2),
        op("c", 16, 2, 3), work("a", 30, 1, 0, 1), work("b", 31, 2, 0, 2), work("c", 33, 4, 0, 3),
    )  # fmt: skip
    assert figures(one, "line", "cpu_us", "device_us") == [[2, 10, 1], [3, 10, 6]]


# --- backward passes


def backward(engine: int) -> list[Event]:
    return [
        line(2, 1, 10), ahead("aten::mm", 2, 5, 1, ext=2), call("go", 3, 1, 91, 2),
        work("forward", 400, 8, 91, 2),
        line(3, 12, 5), ahead("aten::add", 13, 3, 2),
        line(4, 20, 100), op("aten::ones_like", 21, 2, 5), work("fill", 410, 1, 0, 5),
        *node("AddBackward0", 30, 10, 2, tid=engine),
        op("aten::neg", 31, 4, 6, tid=engine), call("go", 32, 1, 92, 6, tid=engine),
        work("neg", 420, 2, 92, 6),
        *node("MmBackward0", 50, 30, 1, tid=engine),
        op("aten::mm", 51, 20, 7, tid=engine), call("go", 52, 1, 93, 7, tid=engine),
        work("backward", 430, 16, 93, 7),
        op(ENGINE + "torch::autograd::AccumulateGrad", 90, 8, tid=engine),
        op("aten::add_", 91, 4, 8, tid=engine), call("go", 92, 1, 94, 8, tid=engine),
        work("add_", 450, 4, 94, 8),
        # After the wait, and of a thread of the user's that no line waits for.
        line(5, 125, 5),
        op("aten::cos", 60, 10, 9, tid=77), call("go", 61, 1, 95, 9, tid=77),
        work("cos", 460, 32, 95, 9),
    ]  # fmt: skip


@pytest.mark.parametrize("engine", [1, 2], ids=["the run's own thread", "a thread of the engine"])
def test_a_backward_pass_is_of_the_line_that_waits_for_it(engine: int) -> None:
    one = ours(*backward(engine), source="h = x @ w\ny = h + 1\ny.backward()\ndone")
    columns = ("line", "cpu_us", "device_us", "backward_device_us", "launches")
    assert figures(one, *columns) == [
        [2, 10, 8, 16, 1], [3, 5, 0, 2, 0], [4, 100, 23, 0, 4], [5, 5, 0, 0, 0],
    ]  # fmt: skip


def test_a_backward_pass_that_nothing_ties_is_unknown() -> None:
    events = [
        {**event, "args": {k: v for k, v in event["args"].items() if k != "fwdbwd"}}
        for event in backward(2)
    ]
    one = ours(*events)
    assert one.lines["backward_device_us"].isna().all()
    assert figures(one, "line", "device_us") == [[2, 8], [3, 0], [4, 23], [5, 0]]


def test_the_chain_of_a_backward_kernel() -> None:
    one = ours(*backward(2), source="h = x @ w\ny = h + 1\ny.backward()")
    frame = one.chain("backward")
    assert frame[["level", "name"]].to_numpy().tolist() == [
        ["line", "line 2: h = x @ w"], ["forward", "aten::mm"], ["line", "line 4: y.backward()"],
        ["operator", ENGINE + "MmBackward0"], ["operator", "MmBackward0"],
        ["operator", "aten::mm"], ["launch", "go"], ["kernel", "backward"],
    ]  # fmt: skip
    assert one.events["name"][frame["event"]].tolist()[::2][:2] == [
        "tprofile::line 2", "tprofile::line 4",
    ]  # fmt: skip
    assert frame["start_us"].tolist()[:3] == [1, 2, 20]


# --- lines of functions


def stepped() -> list[Event]:
    """Line 3 calls `f`, which calls itself; `f` stands in the cell, `g` in a file."""
    return [
        line(3, 0, 100),
        line(5, 10, 80, "f"), op("a", 11, 2, 1), work("a", 200, 1, 0, 1),
        line(5, 20, 50, "f"), op("b", 21, 2, 2), work("b", 210, 2, 0, 2),
        line(8, 30, 30, "g /my files/a.py"), op("c", 31, 2, 3),
        work("c", 220, 4, 0, 3),
        line(6, 92, 5, "f"), op("d", 93, 2, 4), work("d", 230, 8, 0, 4),
        line(4, 100, 10), op("e", 101, 2, 5), work("e", 240, 16, 0, 5),
        line(8, 103, 5, "g /my files/a.py"), op("f", 104, 2, 6), work("f", 260, 32, 0, 6),
    ]  # fmt: skip


STEPPED: dict[str, Any] = {
    "stack": True, "source": "import a\nf(x)\ng(x)\n", "first_line": 2,
    "lines": [{"file": "/my files/a.py", "line": 8, "text": "    return x + 1"}],
}  # fmt: skip


def test_functions_count_with_all_that_they_call() -> None:
    one = ours(*stepped(), **STEPPED)
    assert figures(one, "file", "line", "source", "function") == [
        [None, 3, "f(x)", None], [None, 4, "g(x)", None], [None, 5, None, "f"],
        [None, 6, None, "f"], ["/my files/a.py", 8, "    return x + 1", "g"],
    ]  # fmt: skip
    # What the cell's statements took is the same as without the lines of functions.
    assert figures(one, "line", "calls", "cpu_us", "device_us", "launches") == [
        [3, 1, 100, 15, 4], [4, 1, 10, 48, 2], [5, 2, 80, 7, 3], [6, 1, 5, 8, 1], [8, 2, 35, 36, 2],
    ]  # fmt: skip
    plain = ours(*[e for e in stepped() if e["name"].count(" ") < 2], source=STEPPED["source"])
    assert figures(plain, "line", "cpu_us", "device_us") == [[3, 100, 15], [4, 10, 48]]


def test_operators_by_line_and_stack() -> None:
    one = ours(*stepped(), op("g", 300, 2, 7), **STEPPED)
    by_line = one.operators_by("line")
    assert dict(zip(by_line["name"], by_line["line"], strict=True)) == {
        "a": "line 5 in f", "b": "line 5 in f", "c": "line 8 in g of /my files/a.py",
        "d": "line 6 in f", "e": "line 4", "f": "line 8 in g of /my files/a.py", "g": "",
    }  # fmt: skip
    by_stack = one.operators_by("stack")
    assert dict(zip(by_stack["name"], by_stack["stack"], strict=True)) == {
        "a": "line 3 → line 5 in f",
        "b": "line 3 → line 5 in f → line 5 in f",
        "c": "line 3 → line 5 in f → line 5 in f → line 8 in g of /my files/a.py",
        "d": "line 3 → line 6 in f",
        "e": "line 4",
        "f": "line 4 → line 8 in g of /my files/a.py",
        "g": "",
    }
    for frame in (by_line, by_stack):
        assert frame["self_device_us"].sum() == one.operators["self_device_us"].sum() == 63


def test_a_function_that_calls_itself_without_end_has_a_stack_that_ends() -> None:
    deep = [line(7, n, 400 - 2 * n, "f") for n in range(80)]
    one = ours(
        *deep, op("a", 48.5, 0.2), op("b", 49.5, 0.2), op("c", 50.5, 0.2), op("d", 79.5, 0.2),
        stack=True,
    )  # fmt: skip
    found = one.operators_by("stack")
    stacks = dict(zip(found["name"], found["stack"], strict=True))
    assert stacks["a"] == " → ".join(["line 7 in f"] * 49)
    assert stacks["b"] == " → ".join(["line 7 in f"] * 50)
    assert stacks["c"] == stacks["d"] == stacks["b"] + " → …"
    assert figures(one, "line", "calls", "cpu_us") == [[7, 80, 400]]


def test_the_lines_of_a_chain() -> None:
    frame = ours(*stepped(), **STEPPED).chain("c")
    assert frame[["level", "name", "start_us"]].to_numpy().tolist() == [
        ["line", "line 3: f(x)", 0], ["line", "line 5 in f", 10], ["line", "line 5 in f", 20],
        ["line", "line 8 in g of /my files/a.py: return x + 1", 30],
        ["operator", "c", 31], ["kernel", "c", 220],
    ]  # fmt: skip


def test_an_operator_of_two_lines_is_two_rows() -> None:
    one = ours(
        line(3, 0, 20), op("a", 1, 5), line(4, 2, 1, "f"), line(4, 30, 20), op("a", 31, 7),
        source="",
    )  # fmt: skip
    found = one.operators_by("line")[["name", "line", "calls", "cpu_us"]]
    assert found.to_numpy().tolist() == [["a", "line 4", 1, 7], ["a", "line 3", 1, 5]]


def test_the_innermost_statement_is_where_an_operator_was_called() -> None:
    events = line(2, 0, 50), op("a", 1, 2), line(3, 10, 20), op("b", 11, 2)
    one = ours(*events, stack=True)
    for key in ("line", "stack"):
        found = one.operators_by(key)
        assert dict(zip(found["name"], found[key], strict=True)) == {"a": "line 2", "b": "line 3"}


def test_keys_that_were_not_recorded() -> None:
    with pytest.raises(TprofileError, match=r"^no lines were recorded\. Profile a cell with"):
        profile(op("a", 0, 1)).operators_by("line")
    with pytest.raises(TprofileError, match=r"^no lines were recorded"):
        profile(op("a", 0, 1)).operators_by("stack")
    with pytest.raises(TprofileError, match=r"^no stacks were recorded\. Profile with --stack"):
        ours(line(2, 0, 5), op("a", 1, 1)).operators_by("stack")


# --- traces of torch's own, with stacks


def frame_(name: str, ts: float, dur: float, tid: int = 1) -> Event:
    return slice_("python_function", name, ts, dur, 100, tid)


def test_functions_that_torch_recorded() -> None:
    one = profile(
        frame_("train.py(90): <module>", 0, 200),
        frame_("train.py(10): step", 10, 80), op("a", 12, 5, 1), work("a", 300, 1, 0, 1),
        frame_("torch/nn/modules/module.py(1783): _call_impl", 20, 30),
        frame_("nn.Module: Net_0", 21, 28),
        frame_("models/net.py(33): forward", 22, 20), op("b", 23, 5, 2), work("b", 310, 2, 0, 2),
        frame_("<built-in method relu of type object at 0x9>", 32, 8), op("c", 33, 3, 3),
        work("c", 320, 4, 0, 3), op("d", 44, 3, 4), work("d", 330, 8, 0, 4),
        op("e", 150, 3, 5), work("e", 340, 16, 0, 5), op("f", 250, 3, 6), work("f", 360, 32, 0, 6),
    )  # fmt: skip
    columns = ("file", "line", "function", "source", "calls", "cpu_us", "device_us", "launches")
    assert figures(one, *columns) == [
        ["models/net.py", 33, "forward", None, 1, 20, 6, 2],
        ["train.py", 10, "step", None, 1, 60, 9, 2],
        ["train.py", 90, "<module>", None, 1, 120, 16, 1],
    ]
    by_line = one.operators_by("line")
    assert row(by_line, name="c")["line"] == "models/net.py(33): forward"
    by_stack = one.operators_by("stack")
    assert row(by_stack, name="c")["stack"] == (
        "train.py(90): <module> → train.py(10): step → models/net.py(33): forward"
    )
    assert row(by_stack, name="f")["stack"] == ""
    chain = one.chain("d")
    assert chain["name"][chain["level"] == "line"].tolist() == [
        "train.py(90): <module>", "train.py(10): step",
    ]  # fmt: skip
    # They are no lines of a cell.
    assert set(line_of(one._found)) == {-1}


def test_functions_that_overlap_in_part() -> None:
    # GIVEN one that goes on after the next has begun: from then on, the next is where the code is
    one = profile(
        frame_("a.py(1): f", 0, 10), frame_("a.py(2): g", 6, 10), op("x", 2, 1, 1),
        op("y", 8, 1, 2), op("z", 12, 1, 3), work("x", 30, 1, 0, 1), work("y", 31, 2, 0, 2),
        work("z", 33, 4, 0, 3),
    )  # fmt: skip
    assert figures(one, "line", "cpu_us", "device_us") == [[1, 6, 1], [2, 10, 6]]


spans = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 12), st.integers(0, 9)), max_size=12)
"""Thread, start and duration: small numbers, so that ties and overlaps are frequent."""


@given(spans, spans)
def test_the_innermost_function_at_any_time(calls: list[Any], ops: list[Any]) -> None:
    events = [frame_(f"a.py({i}): f", ts, dur, tid) for i, (tid, ts, dur) in enumerate(calls, 1)]
    one = profile(
        *events, *(op(f"op {i}", ts, dur, tid=tid) for i, (tid, ts, dur) in enumerate(ops))
    )
    seen = stretches(one._found)
    names = one.events["name"].tolist()
    found = {
        name: seen.lines[seen.line[at]].number if at >= 0 else None
        for name, at in zip(names, seen.of.tolist(), strict=True)
        if name.startswith("op ")
    }
    assert found == {f"op {i}": innermost(calls, tid, ts) for i, (tid, ts, _) in enumerate(ops)}


def innermost(calls: list[Any], tid: int, time: int) -> int | None:
    """Return the number of the call that is the last on the stack of a thread at a time."""
    stack: list[tuple[int, int]] = []
    order = sorted(range(len(calls)), key=lambda i: (calls[i][1], -calls[i][2], i))
    for i in order:
        thread, start, duration = calls[i]
        if thread != tid or start > time:
            continue
        # What one runs past is closed, as is what has ended.
        while stack and (start >= stack[-1][1] or start + duration > stack[-1][1]):
            stack.pop()
        stack.append((i + 1, start + duration))
    while stack and stack[-1][1] <= time:
        stack.pop()
    return stack[-1][0] if stack else None


def test_a_backward_pass_is_of_the_function_that_waits_for_it() -> None:
    events = [
        frame_("a.py(1): loss", 0, 20), ahead("mm", 2, 5, 1), frame_("a.py(9): main", 30, 80),
        *node("MmBackward0", 40, 20, 1, tid=2), op("mm_", 41, 5, 4, tid=2), work("k", 200, 8, 0, 4),
    ]  # fmt: skip
    expected = [[1, 0, 8], [9, 8, 0]]
    assert figures(profile(*events), "line", "device_us", "backward_device_us") == expected
    # AND where other threads run functions too, in a step it is the step's own
    other = frame_("a.py(5): loader", 0, 150, tid=3)
    steps = note("ProfilerStep#1", 0, 120)
    assert figures(profile(*events, other, steps), "line", "device_us")[2] == [9, 8]
    # AND without one nobody knows
    assert figures(profile(*events, other), "line", "device_us") == [[1, 0], [5, 0], [9, 0]]


def test_a_recorded_trace_with_stacks() -> None:
    one = recorded("mlp_train_stack_mem")
    found = one.lines
    assert found[["file", "line", "function", "calls"]].to_numpy().tolist() == [
        ["probe.py", 9, "sync", 3], ["probe.py", 57, "run_profile", 1],
        ["probe.py", 87, "train", 3], ["probe.py", 94, "<module>", 1],
    ]  # fmt: skip
    # All that was launched, was by `train`; its backward pass is what ran in the engine's thread.
    events = one.events
    kernels = events[events["category"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    train = row(found, function="train")
    assert train["device_us"] == pytest.approx(kernels["duration_us"].sum())
    assert train["backward_device_us"] == pytest.approx(
        kernels["duration_us"][kernels["forward"] >= 0].sum()
    )
    assert train["launches"] == one.runs["launches"].sum()


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traces_have_lines_or_say_that_there_are_none(name: str) -> None:
    one = recorded(name)
    if one.lines.empty:
        with pytest.raises(TprofileError, match="no lines were recorded"):
            one.operators_by("line")
    else:
        assert one.lines["device_us"].sum() <= one.kernels["device_us"].sum() + 1e-6
        assert len(one.operators_by("stack")) >= len(one.operators)


# --- recorded here


@pytest.fixture(scope="module")
def the_shell() -> Iterator[Any]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = cast(Any, InteractiveShell)(config=config)
    shell.run_line_magic("load_ext", "tprofile")
    shell.run_cell("import torch, asyncio\nx = torch.ones(8, 8)", store_history=True)
    yield shell
    shell.restore_sys_module_state()
    shell.user_ns.clear()
    atexit.unregister(shell.atexit_operations)


@pytest.fixture
def shell(the_shell: Any) -> Iterator[Any]:
    kept = dict(the_shell.user_ns)
    yield the_shell
    the_shell.user_ns.clear()
    the_shell.user_ns.update(kept)


def profiled(shell: Any, options: str, body: str) -> tprofile.Profile:
    result = shell.run_cell(f"%%tprofile -q {options}\n{body}", store_history=True)
    assert result.success
    return shell.user_ns["_tprofile"]


TINY = """a = torch.zeros(3)
for i in range(1500):
    a.add_(1)
    a.mul_(1); a.sub_(1)
    if i % 2:
        a.neg_()
    else:
        a.abs_()
    try:
        a.sgn_() if i % 5 else 1 / 0
    except ZeroDivisionError:
        a.sqrt_()
a.exp_()"""


INSIDE = ("aten::fill_", "aten::zero_", "aten::copy_")
"""What torch calls in these of its own accord."""


def test_every_operator_is_in_the_statement_that_called_it(shell: Any) -> None:
    # GIVEN operators as short as there are, of which each has its line
    one = profiled(shell, "-w 1 -r 2", TINY)
    found = one.operators_by("line")
    told = {
        row["name"].removeprefix("aten::"): (int(row["line"].split()[1].rstrip(":")), row["calls"])
        for row in found.to_dict("records")
        if row["name"].endswith("_") and row["name"] not in INSIDE
    }
    assert told == {
        "add_": (4, 3000), "mul_": (5, 3000), "sub_": (5, 3000), "neg_": (7, 1500),
        "abs_": (9, 1500), "sgn_": (11, 2400), "sqrt_": (13, 600), "exp_": (14, 2),
    }  # fmt: skip
    # AND each of them has one.
    names = found["name"][found["name"].str.removeprefix("aten::").isin(list(told))]
    assert sorted(names) == sorted(f"aten::{name}" for name in told)
    calls = dict(zip(one.lines["line"], one.lines["calls"], strict=True))
    assert calls == {
        2: 2, 3: 2, 4: 3000, 5: 6000, 6: 3000, 7: 1500, 9: 1500, 10: 3000, 11: 3000, 13: 600, 14: 2,
    }  # fmt: skip
    # AND what ties the clocks is gone
    assert not one.events["name"].str.startswith("tprofile::clock").any()


CELL = """w = torch.ones(8, 8, requires_grad=True)

for i in range(3):
    y = x @ w
    if i == 1:
        try:
            y = (y +
                 1)
        finally:
            pass
(y.relu()
  .sum()).backward()
w.grad.sum().item()"""

RAN = {2: 1, 4: 1, 5: 3, 6: 3, 7: 1, 8: 1, 11: 1, 12: 1, 14: 1}
"""How often each line of it runs, the magic's being line 1."""


def test_a_cell_of_a_shell(shell: Any) -> None:
    one = profiled(shell, "-w 1 -r 2", CELL)
    found = one.lines
    assert dict(zip(found["line"], found["calls"], strict=True)) == {
        line: 2 * calls for line, calls in RAN.items()
    }
    text = ["", *CELL.split("\n")]
    assert found["source"].tolist() == [text[line - 1] for line in RAN]
    assert one.source == "\n" + CELL
    assert found["file"].isna().all()
    assert found["device_us"].isna().all()
    # AND the time of a statement is that of its marks, less that of those directly inside.
    marks = one.events[one.events["name"].str.startswith("tprofile::line ")]
    own: dict[int, float] = defaultdict(float)
    stack: list[tuple[int, float]] = []
    for name, *times in marks[["name", "start_us", "duration_us"]].itertuples(index=False):
        # In nanoseconds, in which one ends exactly where the next begins.
        start, duration = (round(us * 1000) for us in times)
        while stack and stack[-1][1] <= start:
            stack.pop()
        number = int(name.split()[1])
        own[number] += duration / 1000
        if stack:
            own[stack[-1][0]] -= duration / 1000
        stack.append((number, start + duration))
    assert found["cpu_us"].tolist() == pytest.approx([own[line] for line in RAN])
    # AND operators are in the line that called them.
    by_line = one.operators_by("line")
    assert row(by_line, name="aten::mm", line="line 5")["calls"] == 6
    assert row(by_line, name="aten::item", line="line 14")["calls"] == 2
    backward = by_line[by_line["name"].str.startswith(ENGINE)]
    assert set(backward["line"]) == {"line 12"}


def test_a_saved_trace_has_the_same_lines(shell: Any, tmp_path: Path) -> None:
    one = profiled(shell, "-w 0 -r 2", CELL)
    other = tprofile.load(one.export_trace(tmp_path / "trace.json.gz"))
    assert_same(one, other)
    assert one.source == other.source
    assert_frame_equal(one.operators_by("line"), other.operators_by("line"), check_exact=True)


@pytest.mark.parametrize("options", ["", "--memory", "--stack", "--modules"])
def test_marks_change_nothing_else_of_a_recorded_trace(shell: Any, options: str) -> None:
    text = "model = torch.nn.Linear(8, 8)\ndef f():\n    return model(x)\n"
    assert_unmarked_is_the_same(profiled(shell, f"-w 0 -r 2 {options}", text + "f()\n" + CELL))


def test_the_lines_of_a_cell_that_awaits(shell: Any) -> None:
    text = (
        "async def other():\n    await asyncio.sleep(0)\n    return x + 1\n"
        "task = asyncio.create_task(other())\nawait asyncio.sleep(0)\ny = await task\n"
        "await asyncio.sleep(0, x @ x)"
    )
    one = profiled(shell, "-w 0 -r 1", text)
    assert one.lines["line"].tolist() == [2, 5, 6, 7, 8]
    # What another task runs meanwhile is part of the line that waits.
    assert row(one.operators_by("line"), name="aten::add")["line"] == "line 7"
    assert row(one.operators_by("line"), name="aten::mm")["line"] == "line 8"


def test_a_cell_that_fails_has_lines_up_to_there(shell: Any) -> None:
    text = "%%tprofile -q -w 0 -r 1\ny = x @ x\nfor i in range(2):\n    x[i, 9]"
    result = shell.run_cell(text, store_history=True)
    assert isinstance(result.error_in_exec, IndexError)
    found = shell.user_ns["_tprofile"].lines
    assert found[["line", "calls"]].to_numpy().tolist() == [[2, 1], [3, 1], [4, 1]]
    # AND what the traceback keeps of the code keeps none of its notes.
    codes = [frame.f_code for frame, _ in traceback.walk_tb(result.error_in_exec.__traceback__)]
    taken = [
        value.__self__
        for code in codes
        for value in code.co_consts
        if isinstance(getattr(value, "__self__", None), deque)
    ]
    assert len(taken) == 5
    assert not any(taken)


def test_a_cell_that_nests_too_deeply_says_so(shell: Any) -> None:
    branches = "".join(f"elif n == {i}:\n    y = {i}\n" for i in range(900))
    # A compiler that ran in another test may have raised it.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        shell.run_cell(f"%%tprofile -q\nn = 4\nif n == -1:\n    pass\n{branches}")
    finally:
        sys.setrecursionlimit(limit)
    one = shell.user_ns["_tprofile"]
    assert shell.user_ns["y"] == 4
    assert one.lines.empty
    (warning,) = (w for w in one.summary.warnings if "lines" in w)
    assert warning.startswith("the cell nests too deeply for its lines to be told")


@pytest.mark.parametrize("options", ["-w 1 -r 2", "--once"])
def test_a_cell_of_too_many_statements_has_the_lines_of_the_outermost(
    shell: Any, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tprofile import session

    text = "s = 0\nfor i in range(10):\n    if 1:\n        s += i\ns"
    # GIVEN 23 statements in a run, and room for 40 in all; of one run alone, for 20
    monkeypatch.setattr(session, "MOST", 20 if options == "--once" else 40)
    shell.run_cell(f"%%tprofile -q {options}\n{text}")
    one = shell.user_ns["_tprofile"]
    runs = len(one.runs)
    assert one.lines[["line", "calls"]].to_numpy().tolist() == [[1, runs], [2, runs], [5, runs]]
    (warning,) = (w for w in one.summary.warnings if "statements" in w)
    assert warning.startswith("a run of the cell has at least 23 statements, too many to time each")
    # AND with room for all, all are told
    monkeypatch.setattr(session, "MOST", 46)
    shell.run_cell(f"%%tprofile -q -w 1 -r 2\n{text}")
    assert shell.user_ns["_tprofile"].lines["calls"].tolist() == [2, 2, 20, 20, 2]


def test_a_line_magic_has_one_line(shell: Any) -> None:
    shell.run_cell("a = 1\n%tprofile -q -w 0 -r 2 y = x @ x; y + 1", store_history=True)
    one = shell.user_ns["_tprofile"]
    assert one.lines[["line", "source", "calls"]].to_numpy().tolist() == [
        [2, "y = x @ x; y + 1", 4]
    ]
    assert one.source == "\ny = x @ x; y + 1"


def test_what_has_no_cell_has_no_lines() -> None:
    with tprofile.record() as r:
        torch.ones(3) + 1
    for one in (r.profile, tprofile.run(lambda: torch.ones(3) + 1, warmup=0, repeat=1)):
        assert list(one.lines) == COLUMNS
        assert one.lines.empty
        assert one.source is None


def test_the_lines_of_functions(shell: Any) -> None:
    shell.run_cell("def double(a):\n    b = a @ a\n    return b + b", store_history=True)
    other = f"Cell In[{shell.execution_count - 1}]"
    text = "def twice(a):\n    c = double(a)\n    return double(c)\n\ntwice(x)\ny = x + 1"
    one = profiled(shell, "-w 1 -r 2 --stack", text)
    found = one.lines
    columns = ["file", "line", "source", "calls", "function"]
    assert found[columns].to_numpy().tolist() == [
        [None, 2, "def twice(a):", 2, None],
        [None, 3, "    c = double(a)", 2, "twice"],
        [None, 4, "    return double(c)", 2, "twice"],
        [None, 6, "twice(x)", 2, None],
        [None, 7, "y = x + 1", 2, None],
        [other, 2, "    b = a @ a", 4, "double"],
        [other, 3, "    return b + b", 4, "double"],
    ]
    by_stack = one.operators_by("stack")
    mm = by_stack[by_stack["name"] == "aten::mm"]
    assert sorted(mm["stack"]) == [
        f"line 6 → line {n} in twice → line 2 in double of {other}" for n in (3, 4)
    ]
    assert set(mm["calls"]) == {2}
    assert one.trace.recorded.stack
    # AND so they are in a file.
    assert_same(one, tprofile.load(b"".join(dump(one.trace))))


def helper(a: torch.Tensor) -> torch.Tensor:
    return a @ a


def test_the_lines_of_a_function_that_is_run() -> None:
    first = helper.__code__.co_firstlineno
    one = tprofile.run(helper, (torch.ones(4, 4),), warmup=1, repeat=2, stack=True)
    assert one.lines[["file", "line", "source", "calls", "function"]].to_numpy().tolist() == [
        [__file__, first + 1, "    return a @ a", 2, "helper"]
    ]
    assert one.source is None


def test_the_lines_of_a_block_that_is_recorded() -> None:
    a = torch.ones(4, 4)
    first = inspect.currentframe().f_lineno  # type: ignore[union-attr]
    with tprofile.record(stack=True) as r:
        b = helper(a)
        helper(b)
    assert sys.gettrace() is None
    found = r.profile.lines
    own = found[found["function"] != "helper"]
    assert own["line"].tolist() == [first + 1, first + 2, first + 3]
    assert own["source"].tolist()[1:] == ["        b = helper(a)", "        helper(b)"]
    assert row(found, function="helper")["calls"] == 2


def test_lines_in_a_kernel() -> None:
    with kernel() as client:
        client.run("import torch\nx = torch.ones(4, 4)")
        number = client.run("def double(a):\n    return a @ a").execution_count
        cell = client.run("%%tprofile -q -w 1 -r 1 --stack\n# twice\ny = double(x)")
        assert errors(cell) == []
        (shown,) = values(
            client.run("_tprofile.lines[['file', 'line', 'source', 'function']].values.tolist()")
        )
        assert eval(shown) == [
            [None, 3, "y = double(x)", None],
            [f"Cell In[{number}]", 2, "    return a @ a", "double"],
        ]
        # AND an error under the profiler is shown as one without it.
        body = "for i in range(2):\n    (1 /\n       (1 - i))"
        shown = [client.run(f"%%tprofile -q -w 0 -r 1{more}\n{body}") for more in ("", " --stack")]
        shown.append(client.run(f"%%tprofile -q -w 1 -r 1\n{body}"))
        told = [re.sub(r"In\[\d+\]|\x1b\[[0-9;]*m", "", error(cell)) for cell in shown]
        assert told[0] == told[1] == told[2]
        assert "----> 3     (1 /" in told[0]


COMPILED = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell(config=config)
shell.run_cell("%load_ext tprofile")
shell.run_cell('''
import torch
x, graphs = torch.ones(8, 8), []
def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward
@torch.compile(backend=backend)
def h(a):
    return a.exp()
''', store_history=True)
cell = '''
def f(a):
    b = a @ a
    return b.relu()
f = torch.compile(f, backend=backend)
@torch.compile(backend=backend)
def g(a):
    b = a.sin()
    if b.sum() > 1e9:
        print("never")
    return b.cos()
for i in range(2):
    f(x)
    g(x)
h(x)
'''
from tprofile.cell import compile_cell
options = sys.argv[1]
if options == "plain":
    one = compile_cell(shell, cell)
    for _ in range(3):
        one.run()
else:
    assert shell.run_cell(f"%%tprofile -q {options}\\n{cell}", store_history=True).success
from torch._dynamo.utils import counters
lines = shell.user_ns["_tprofile"].lines if options != "plain" else None
print(json.dumps({
    "graphs": len(shell.user_ns["graphs"]), "frames": dict(counters["frames"]),
    "stats": dict(counters["stats"]), "breaks": sum(counters["unimplemented"].values()),
    "lines": lines[["line", "function"]].to_numpy().tolist() if options != "plain" else None,
}))
"""


@functools.cache
def compilations(options: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", COMPILED, options],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("options", ["-w 1 -r 1", "-w 1 -r 1 --stack", "-w 0 -r 1 --stack"])
def test_marks_make_nothing_compile_again(options: str) -> None:
    plain, marked = compilations("plain"), compilations(options)
    told = marked["lines"]
    assert plain["graphs"] == 4
    assert {**marked, "lines": None} == plain
    # AND what was compiled is part of the line that calls it.
    assert [line for line, function in told if function is None] == [3, 6, 7, 13, 14, 15, 16]
    assert {function for _, function in told} <= {None, "backend"}
