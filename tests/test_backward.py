"""Backward operators and the forward ones that they belong to, against the arrows torch draws."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint
from traces import DATA, PUBLIC, RECORDED, Event, call, op, profile, recorded, text, work

import tprofile
from tprofile.intervals import NONE
from tprofile.quiet import profiler_lines_dropped

ENGINE = "autograd::engine::evaluate_function: "


def ahead(name: str, ts: float, dur: float, arrow: int = 0, *, tid: int = 1, **more: Any) -> Event:
    return op(name, ts, dur, tid=tid, **({"fwdbwd": arrow} if arrow else {}), **more)


def node(
    name: str, ts: float, dur: float, arrow: int = 0,
    *, seq: int = 0, thread: int = 1, tid: int = 1,
) -> list[Event]:  # fmt: skip
    """Return the engine's range around a node, and its own, in which torch's arrows end."""
    numbers: dict[str, Any] = {"Sequence number": seq, "Fwd thread id": thread}
    return [
        op(ENGINE + name, ts, dur, tid=tid, **numbers),
        ahead(name, ts + 0.125, dur - 0.25, arrow, tid=tid, **numbers),
    ]


def ties(one: tprofile.Profile) -> dict[str, str | None]:
    """Return for each name what it is the backward of; of the engine's range without its prefix."""
    frame = one.events
    names = frame["name"].tolist()
    found: dict[str, str | None] = {}
    for name, row in zip(names, frame["forward"].tolist(), strict=True):
        tied = None if row == NONE else names[row]
        assert found.setdefault(name.removeprefix(ENGINE), tied) == tied
    return found


def test_what_a_backward_contains_and_launches_is_its_forwards() -> None:
    one = profile(
        ahead("linear", 2, 10), ahead("addmm", 3, 5, 4), ahead("relu", 13, 2, 5),
        *node("ReluBackward0", 20, 5, 5), *node("AddmmBackward0", 30, 9, 4),
        op("mm", 31, 5, 9), call("launch", 32, 1, 7, 9), op("after", 50, 1), work("k", 60, 3, 7, 9),
    )  # fmt: skip
    assert ties(one) == {
        "linear": None, "addmm": None, "relu": None, "ReluBackward0": "relu",
        "AddmmBackward0": "addmm", "mm": "addmm", "launch": "addmm", "k": "addmm", "after": None,
    }  # fmt: skip
    assert one.events["forward"].dtype == np.int64


def test_gradients_that_accumulate_have_no_forward_even_inside_a_backward() -> None:
    one = profile(
        ahead("checkpointed", 0, 5, 1), *node("CheckpointBackward", 10, 50, 1),
        ahead("again", 12, 3, 7), *node("AgainBackward", 20, 10, 7), op("inner", 21, 2),
        op(ENGINE + "torch::autograd::AccumulateGrad", 32, 4), op("add_", 33, 1),
        op("rest", 40, 3),
    )  # fmt: skip
    assert ties(one) == {
        "checkpointed": None, "CheckpointBackward": "checkpointed", "again": "checkpointed",
        "AgainBackward": "again", "inner": "again", "torch::autograd::AccumulateGrad": None,
        "add_": None, "rest": "checkpointed",
    }  # fmt: skip


def test_an_arrow_that_ends_deeper_is_not_the_nodes() -> None:
    # GIVEN a view that was written to, in whose backward that of the writing operator runs
    one = profile(
        ahead("mul_", 0, 1, 3), *node("CopySlices", 10, 20), *node("MulBackward0", 12, 9, 3)[1:],
        op("mul", 14, 1), op("copy_", 25, 1),
    )  # fmt: skip
    assert ties(one) == {
        "mul_": None, "CopySlices": None, "MulBackward0": "mul_", "mul": "mul_", "copy_": None,
    }  # fmt: skip


def test_numbers_and_names_without_an_arrow_tie_nothing() -> None:
    # GIVEN a thread that ran the same model as another, whose loss alone is differentiated: all
    # numbers are the same, and all names
    numbers = [{"Sequence number": i, "Fwd thread id": 0} for i in range(4)]
    model = ["aten::exp", "aten::sin", "aten::tanh", "aten::sum"]
    nodes = ["ExpBackward0", "SinBackward0", "TanhBackward0", "SumBackward0"]
    one = profile(
        *(ahead(model[i], i, 0.5, **numbers[i]) for i in range(4)),
        *(e for i in range(4) for e in node(nodes[i], 50 - 9 * i, 2, seq=i, thread=2)),
    )
    assert set(ties(one).values()) == {None}
    # AND where the first thread's own graph is tied
    one = profile(
        *(ahead(model[i], i, 0.5, 7 + i, **numbers[i]) for i in range(4)),
        *(e for i in range(4) for e in node(nodes[i], 50 - 9 * i, 2, seq=i, thread=2)),
        *(e for i in range(4) for e in node(nodes[i], 99 - 9 * i, 2, 7 + i, seq=i, thread=1)),
    )
    frame = one.events
    forward = frame["forward"][frame["name"].str.startswith(ENGINE)].tolist()
    assert forward == [NONE] * 4 + [3, 2, 1, 0]


def test_a_node_that_runs_again_is_known_by_its_number() -> None:
    # GIVEN a second pass through a graph, and nodes of its name with another number, of another
    # thread, with no number, and of its number before it
    one = profile(
        ahead("before", 0, 1), ahead("exp", 1, 1, 6),
        *node("ExpBackward0", 5, 1, seq=3),
        *node("ExpBackward0", 10, 2, 6, seq=3), *node("ExpBackward0", 20, 2, seq=3),
        *node("ExpBackward0", 30, 2, seq=4), *node("ExpBackward0", 40, 2, seq=3, thread=2),
        *node("SinBackward0", 50, 2, seq=3), op(ENGINE + "ExpBackward0", 60, 2),
        *node("ExpBackward0", 70, 2, seq=3), op("mul", 71, 0.5),
    )  # fmt: skip
    frame = one.events
    nodes = frame[frame["name"].str.startswith(ENGINE)]
    assert dict(zip(nodes["start_us"], nodes["forward"], strict=True)) == {
        5: NONE, 10: 1, 20: 1, 30: NONE, 40: NONE, 50: NONE, 60: NONE, 70: 1,
    }  # fmt: skip
    assert frame["forward"].iloc[-1] == 1


@pytest.mark.parametrize("odd", ["3", -1, 2**63, 2**64 - 1, None, 1.5, [3]])
def test_numbers_that_are_none(odd: Any) -> None:
    one = profile(
        ahead("a", 0, 1, 3), ahead("b", 2, 1, 4), *node("A", 5, 1, odd), *node("B", 8, 1, 4, seq=2),
        *node("B", 10, 1, seq=odd), *node("B", 12, 1, seq=2),
    )  # fmt: skip
    frame = one.events
    nodes = frame[frame["name"].str.startswith(ENGINE)]
    assert nodes["forward"].tolist() == [NONE, 1, NONE, 1]


def test_nodes_without_numbers_are_not_the_same() -> None:
    bare = [op(ENGINE + "A", ts, 2) for ts in (5, 9)]
    one = profile(ahead("a", 0, 1, 3), *bare, ahead("A", 5.5, 1, 3), op("A", 9.5, 1))
    assert one.events["forward"].tolist() == [NONE, 0, 0, NONE, NONE]


def test_a_number_needs_two_ends() -> None:
    # GIVEN arrows of which the start was cut off, the end, and one with three
    one = profile(
        ahead("a", 0, 1, 2), ahead("c", 2, 1, 3), *node("A", 5, 1, 1), *node("C", 7, 1, 3),
        *node("D", 9, 1, 3),
    )  # fmt: skip
    assert set(ties(one).values()) == {None}


def arrow(ph: str, id_: int, ts: Any, tid: Any, **more: Any) -> Event:
    return {"ph": ph, "id": id_, "pid": 100, "tid": tid, "ts": ts, "cat": "fwdbwd", **more}


def test_arrows_that_are_drawn_from_place_to_place() -> None:
    # GIVEN operators that start at once on a thread, one inside the other, and arrows that end
    # where there is nothing, or lack an end
    arrows = [
        arrow("s", 1, 3.125, 1), arrow("f", 1, 20.25, 2, bp="e"),
        arrow("s", 2, 3.125, 1), arrow("f", 2, 99, 2), arrow("s", 3, 3.125, 1),
        arrow("s", 4, 3.125, 1), arrow("f", 4, 20.25, "odd"), arrow("f", 5, 20.25, 2, id={}),
    ]  # fmt: skip
    one = profile(
        op("outer", 3.125, 5), op("inner", 3.125, 4), op(ENGINE + "B", 20, 9, tid=2),
        op("B", 20.25, 8, tid=2), op("mm", 22, 3, tid=2), *arrows,
    )  # fmt: skip
    assert ties(one) == {"outer": None, "inner": None, "B": "inner", "mm": "inner"}


@pytest.mark.parametrize(
    "odd",
    ["NaN", "Infinity", "1e30", "1e999999", '"1e999999"', '"1e99999999"', '"-1e99999999"',
     '"sNaN"', '"x"', "null", "[]"],
)  # fmt: skip
def test_an_arrow_at_no_time_is_none(odd: str) -> None:
    drawn = [
        arrow("s", 1, 0, 1),
        arrow("f", 1, 5.125, 1),
        arrow("s", 2, "odd", 1),
        arrow("f", 2, 8, 1),
    ]
    line = text(op("a", 0, 1), op("z", 1, 1), *node("A", 5, 1), *node("Z", 8, 1), *drawn)
    one = tprofile.load(line.replace(b'"odd"', odd.encode()))
    assert ties(one) == {"a": None, "z": None, "A": "a", "Z": None}


@pytest.mark.parametrize("lane", ["pid", "tid"])
@pytest.mark.parametrize("odd", [2**63, 2**70, -(2**70), 1.5, None, "nobody"])
def test_an_arrow_in_no_lane_is_none(lane: str, odd: Any) -> None:
    # GIVEN two lanes whose numbers are the same to a float, and an arrow whose number is none
    wide = {lane: 2**60}
    drawn = [
        arrow("s", 1, 0, 1) | wide, arrow("f", 1, 5.125, 1),
        arrow("s", 2, 1, 1) | {lane: odd}, arrow("f", 2, 8.125, 1),
    ]  # fmt: skip
    one = profile(
        op("a", 0, 1) | wide, op("other", 0, 1) | {lane: 2**60 + 1}, op("z", 1, 1),
        *node("A", 5, 1), *node("Z", 8, 1), *drawn,
    )  # fmt: skip
    assert ties(one) == {"a": None, "other": None, "z": None, "A": "a", "Z": None}


def test_a_trace_without_a_backward_asks_for_no_arguments() -> None:
    class Refused:
        def args(self, row: int) -> bytes:
            raise AssertionError

        def arrows(self, rows: object) -> Any:
            raise AssertionError

    one = profile(op("a", 0, 1), op("b", 2, 1))
    bare = tprofile.Profile(dataclasses.replace(one.trace, details=Refused()))
    assert bare.events["forward"].tolist() == [NONE, NONE]


def test_arguments_are_asked_only_of_what_may_run_again() -> None:
    # GIVEN a node that ran twice among others that ran once
    one = profile(
        ahead("exp", 0, 1, 1), ahead("sin", 2, 1, 2),
        *node("ExpBackward0", 5, 1, 1, seq=1), *node("SinBackward0", 7, 1, 2, seq=2),
        *node("ExpBackward0", 9, 1, seq=1), op(ENGINE + "torch::autograd::AccumulateGrad", 11, 1),
    )  # fmt: skip
    asked: list[int] = []

    class Counted:
        arrows = one.trace.details.arrows

        def args(self, row: int) -> bytes:
            asked.append(row)
            return one.trace.details.args(row)

    counted = tprofile.Profile(dataclasses.replace(one.trace, details=Counted()))
    assert counted.events["forward"].tolist() == [NONE, NONE, 0, 0, 1, 1, 0, 0, NONE]
    assert asked == [2, 6]


def test_many_threads_are_told_apart() -> None:
    # GIVEN as many threads as a notebook makes in a day, each with the same numbers
    events = []
    for t in range(400):
        for i in range(10):
            at = 4 * (t * 10 + i)
            events.append(ahead("mm", at, 1, t * 10 + i + 1, tid=9 + t))
            events += node("MmBackward0", at + 2, 1, t * 10 + i + 1, seq=i, thread=t + 1)
    frame = profile(*events).events
    tied = frame[frame["forward"] != NONE]
    assert len(tied) == 8000
    # THEN each node is tied to the operator just before it
    ahead_us = frame["start_us"].to_numpy()[tied["forward"].to_numpy()]
    assert set(tied["start_us"].to_numpy() - ahead_us) == {2, 2.125}


# --- against torch


Tie = tuple[int, int]
"""Rows of a forward operator and of its backward."""


def arrows(events: list[Event], trace: Any) -> set[Tie]:
    """Return what the arrows in a file tie together, row by row."""
    starts: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(trace.category_is("cpu_op")).tolist():
        at = (int(trace.thread[row]), int(trace.start_ns[row]) + trace.base_ns)
        starts.setdefault(at, []).append(row)
    ends: dict[str, dict[int, list[int]]] = {"s": {}, "f": {}}
    for event in events:
        if event.get("cat") == "fwdbwd":
            at = (event["tid"], round(event["ts"] * 1000))
            ends[event["ph"]][event["id"]] = starts[at]
    assert set(ends["s"]) == set(ends["f"])
    return {(ends["s"][one][-1], ends["f"][one][0]) for one in ends["s"]}


def assert_ties(one: tprofile.Profile, wanted: set[Tie], again: int = 0) -> None:
    """Assert that what the engine ran is tied as the arrows are, and the rest of it to nothing.

    torch draws one arrow from an operator, even where its node runs a second time: `again`.
    """
    frame = one.events
    names, parent, forward = (frame[c].tolist() for c in ("name", "parent", "forward"))
    assert all(forward[behind] == ahead for ahead, behind in wanted)
    # An arrow ends at the node's own range, which is inside the engine's. (In that of a view that
    # was written to, there is one of the operator that wrote.)
    drawn = {(ahead, parent[b]) for ahead, b in wanted if names[parent[b]].startswith(ENGINE)}
    run = {(forward[i], i) for i, name in enumerate(names) if name.startswith(ENGINE)}
    ours = {tie for tie in run if tie[0] != NONE}
    assert drawn <= ours
    assert len(ours - drawn) == again
    assert {ahead for ahead, _ in ours} <= {ahead for ahead, _ in wanted}


FILES = [DATA / f"{name}.json.gz" for name in RECORDED] + sorted(PUBLIC.glob("*.json.gz"))
DRAWN = {
    "mlp_train": 27, "mlp_train_stack_mem": 27, "resnet18_train": 144, "mi250_minitoy": 4,
    "mi300_resnet_checkpoint": 213, "ns_resolution": 905,
}  # fmt: skip
"""How many arrows torch drew in each trace that has any."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_what_torch_ties_is_tied(path: Path) -> None:
    one = tprofile.load(path)
    # Of times in a clock that counts from 1970, a float does not tell the nanoseconds.
    events = [json.loads(line, parse_float=Decimal) for line in one.trace.others]
    wanted = arrows(events, one.trace)
    assert len(wanted) == DRAWN.get(path.name.removesuffix(".json.gz"), 0)
    assert_ties(one, wanted)
    assert (one.events["forward"] != NONE).any() == bool(wanted)
    # AND without arrows nothing tells
    bare = tprofile.Profile(dataclasses.replace(one.trace, others=()))
    assert (bare.events["forward"] == NONE).all()


def test_the_work_of_a_backward_pass_is_its_forwards() -> None:
    # GIVEN three steps of three layers
    one = recorded("mlp_train")
    frame = one.events
    kernels = frame[(frame["category"] == "kernel") & (frame["forward"] != NONE)]
    forwards = frame["name"].to_numpy()[kernels["forward"]]
    assert Counter(forwards.tolist()) == {"aten::addmm": 30, "aten::mse_loss": 6, "aten::gelu": 6}
    # AND what accumulates gradients or steps the optimizer is no operator's backward
    accumulating = frame["name"].str.contains("AccumulateGrad")
    assert accumulating.sum() == 36
    assert (frame.loc[accumulating, "forward"] == NONE).all()


def recorded_live(fn: Callable[[], object], folder: Path, **config: Any) -> tuple[Any, list[Event]]:
    """Return the Profile of a call, and the events of the file that torch writes of it."""
    from torch._C._profiler import _ExperimentalConfig

    with profiler_lines_dropped():
        own = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            experimental_config=_ExperimentalConfig(**config),
        )
        with own:
            fn()
    one = tprofile.load(own)
    own.export_chrome_trace(str(folder / "torch.json"))
    return one, json.loads((folder / "torch.json").read_text())["traceEvents"]


def mlp(*sizes: int) -> torch.nn.Sequential:
    layers = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    return torch.nn.Sequential(*(m for layer in layers for m in (layer, torch.nn.ReLU())))


def forward_twice() -> None:
    model, x = mlp(4, 4), torch.randn(3, 4)
    model(model(x)).sum().backward()


def reentrant(use: bool) -> Callable[[], None]:
    def run() -> None:
        model, x = mlp(4, 8, 4), torch.randn(3, 4, requires_grad=True)
        (checkpoint(model, x, use_reentrant=use) * 2).sum().backward()

    return run


def second_order() -> None:
    x = torch.randn(4, requires_grad=True)
    (slope,) = torch.autograd.grad((x.exp() * x).sum(), x, create_graph=True)
    slope.square().sum().backward()


def in_place_views() -> None:
    x = torch.randn(4, 4, requires_grad=True)
    y = x * 2
    y[0].mul_(3)
    y.view(16)[3:9].sigmoid_()
    y.sum().backward()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


LIVE: dict[str, Callable[[], object]] = {
    "mlp": lambda: mlp(4, 8, 2)(torch.randn(3, 4)).sum().backward(),
    "a module twice": forward_twice,
    "checkpoint, reentrant": reentrant(True),
    "checkpoint, not reentrant": reentrant(False),
    "second order": second_order,
    "in-place views": in_place_views,
    "a function of one's own": lambda: (
        Doubled.apply(torch.ones(3, requires_grad=True)).sum().backward()
    ),
    "without grad": lambda: torch.ones(3).sum(),
}


@pytest.mark.parametrize(
    ("case", "drawn", "again"),
    [
        ("mlp", 7, 0), ("a module twice", 7, 0), ("checkpoint, reentrant", 9, 0),
        ("checkpoint, not reentrant", 8, 0), ("second order", 9, 1), ("in-place views", 4, 0),
        ("a function of one's own", 2, 0), ("without grad", 0, 0),
    ],
)  # fmt: skip
def test_what_torch_would_draw_is_tied(case: str, drawn: int, again: int, tmp_path: Path) -> None:
    one, events = recorded_live(LIVE[case], tmp_path)
    assert not one.trace.others
    wanted = arrows(events, one.trace)
    assert len(wanted) == drawn
    assert_ties(one, wanted, again)


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_forward_in_another_thread(everywhere: bool, tmp_path: Path) -> None:
    # GIVEN a thread that has made no node yet, and one that has made some
    mlp(4, 8, 8, 8, 4)(torch.randn(3, 4)).sum().backward()
    losses: list[torch.Tensor] = []

    def ahead() -> None:
        losses.append(mlp(4, 8, 2)(torch.randn(3, 4)).sum())

    def both() -> None:
        thread = threading.Thread(target=ahead)
        thread.start()
        thread.join()
        (mlp(4, 2)(torch.randn(3, 4)).sum() + losses[0]).backward()

    one, events = recorded_live(both, tmp_path, profile_all_threads=everywhere)
    # THEN what a thread that was not recorded ran is tied to nothing
    wanted = arrows(events, one.trace)
    assert len(wanted) == (12 if everywhere else 5)
    assert_ties(one, wanted)


def in_a_thread(fn: Callable[[], object]) -> None:
    thread = threading.Thread(target=fn)
    thread.start()
    thread.join()


def main_alone(w: torch.Tensor) -> list[str]:
    w.cos().sigmoid().abs().mean()
    return []


def the_same_model(w: torch.Tensor) -> list[str]:
    w.exp().sin().tanh().sum()
    return []


def main_too(w: torch.Tensor) -> list[str]:
    w.cos().sigmoid().abs().mean().backward()
    return ["aten::mean", "aten::abs", "aten::sigmoid", "aten::cos"]


@pytest.mark.parametrize("own", [main_alone, the_same_model, main_too])
@pytest.mark.parametrize("when", ["before", "unrecorded", "recorded"])
def test_a_graph_of_another_thread(
    own: Callable[[torch.Tensor], list[str]], when: str, tmp_path: Path
) -> None:
    """Whatever the thread of the cell ran, only what that graph was made of is its forward."""
    w = torch.randn(8, 8, requires_grad=True)
    losses: list[torch.Tensor] = []
    mine: list[str] = []

    def made() -> None:
        losses.append(w.exp().sin().tanh().sum())

    def cell() -> None:
        if when != "before":
            in_a_thread(made)
        mine.extend(own(w))
        losses[-1].backward(retain_graph=True)

    def its_ties(one: tprofile.Profile) -> list[str]:
        frame = one.events
        nodes = frame[frame["name"].str.startswith(ENGINE) & (frame["forward"] != NONE)]
        assert (frame["thread"][nodes["forward"]].nunique()) == (len(nodes) > 0) + (
            when == "recorded" and bool(mine)
        )
        return frame["name"][nodes["forward"]].tolist()

    if when == "before":
        in_a_thread(made)
    one, _ = recorded_live(cell, tmp_path, profile_all_threads=when == "recorded")
    theirs = ["aten::sum", "aten::tanh", "aten::sin", "aten::exp"] if when == "recorded" else []
    assert its_ties(one) == mine + theirs
    # AND as much from torch's file and from ours
    assert its_ties(tprofile.load(tmp_path / "torch.json")) == mine + theirs
    assert its_ties(tprofile.load(one.export_trace(tmp_path / "ours.json"))) == mine + theirs


def test_a_saved_live_trace_ties_the_same(tmp_path: Path) -> None:
    one, _ = recorded_live(LIVE["mlp"], tmp_path)
    again = tprofile.load(one.export_trace(tmp_path / "ours.json"))
    assert again.events["forward"].tolist() == one.events["forward"].tolist()
    assert (again.events["forward"] != NONE).sum() > 9


def two_threads() -> None:
    for _ in range(2):
        in_a_thread(lambda: mlp(4, 8, 2)(torch.randn(3, 4)).sum().backward())
    mlp(4, 2)(torch.randn(3, 4)).sum().backward()


@pytest.mark.parametrize("case", [*LIVE, "two threads"])
def test_events_of_older_torch_bear_the_same_arrows(case: str) -> None:
    from torch._C._profiler import _ExperimentalConfig

    from tprofile.trace import live

    with (
        profiler_lines_dropped(),
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            experimental_config=_ExperimentalConfig(profile_all_threads=True),
        ) as own,
    ):
        {**LIVE, "two threads": two_threads}[case]()
    results = own.profiler.kineto_results
    if not hasattr(results, "trace_activities"):
        pytest.skip("this torch has events only")

    def ends(found: dict[str, Any]) -> set[tuple[int, ...]]:
        arrows = found["details"].arrows(np.arange(len(found["names"])))
        told = [json.loads(found["details"].args(i)) for i in range(len(arrows))]
        assert [one.get("fwdbwd", 0) for one in told] == arrows.tolist()
        start = np.array(found["start_ns"])
        return {tuple(start[arrows == one].tolist()) for one in set(arrows.tolist()) - {0}}

    newer = ends(live._activities(results, results.trace_activities()))
    older = ends(live._events(results, results.events()))
    assert {tuple(sorted(one)) for one in older} == {tuple(sorted(one)) for one in newer}
    assert bool(newer) == (case != "without grad")
