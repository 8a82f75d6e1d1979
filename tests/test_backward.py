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
from traces import DATA, PUBLIC, RECORDED, Event, call, op, profile, recorded, work

import tprofile
from tprofile.intervals import NONE
from tprofile.quiet import profiler_lines_dropped

ENGINE = "autograd::engine::evaluate_function: "


def numbered(name: str, ts: float, dur: float, seq: int, thread: int = 0, *, tid: int = 1) -> Event:
    numbers: dict[str, Any] = {"Sequence number": seq, "Fwd thread id": thread}
    return op(name, ts, dur, tid=tid, **numbers)


def node(name: str, ts: float, dur: float, seq: int, thread: int = 1, *, tid: int = 1) -> Event:
    return numbered(ENGINE + name, ts, dur, seq, thread, tid=tid)


def ties(one: tprofile.Profile) -> dict[str, str | None]:
    """Return for each name without a thread's prefix what it is the backward of."""
    frame = one.events
    names = frame["name"].tolist()
    return {
        name.removeprefix(ENGINE): None if row == NONE else names[row]
        for name, row in zip(names, frame["forward"].tolist(), strict=True)
    }


def test_the_forward_is_the_last_to_bear_the_number() -> None:
    # GIVEN an operator inside another of its number, and one that made no node before
    one = profile(
        numbered("pure", 0, 1, 4), numbered("linear", 2, 10, 4), numbered("addmm", 3, 5, 4),
        numbered("relu", 13, 2, 5),
        node("ReluBackward0", 20, 5, 5), numbered("ReluBackward0", 21, 3, 5, 1),
        node("AddmmBackward0", 30, 9, 4), op("mm", 31, 5, 9), call("launch", 32, 1, 7, 9),
        op("after", 50, 1), work("k", 60, 3, 7, 9),
    )  # fmt: skip
    # THEN all that the backward contains and launches is part of it
    assert ties(one) == {
        "pure": None, "linear": None, "addmm": None, "relu": None, "ReluBackward0": "relu",
        "AddmmBackward0": "addmm", "mm": "addmm", "launch": "addmm", "k": "addmm", "after": None,
    }  # fmt: skip
    assert one.events["forward"].dtype == np.int64


def test_the_same_number_later_is_another_passes() -> None:
    # GIVEN numbers that begin anew, as in another process of the same numbers would not
    one = profile(
        numbered("first", 0, 1, 4), node("A", 10, 5, 4), numbered("second", 20, 1, 4),
        node("B", 30, 5, 4), numbered("third", 40, 1, 4),
    )  # fmt: skip
    assert ties(one)["A"] == "first"
    assert ties(one)["B"] == "second"


def test_gradients_that_accumulate_have_no_forward_even_inside_a_backward() -> None:
    one = profile(
        numbered("checkpointed", 0, 5, 1), node("CheckpointBackward", 10, 50, 1),
        numbered("again", 12, 3, 7), node("AgainBackward", 20, 10, 7), op("inner", 21, 2),
        op(ENGINE + "torch::autograd::AccumulateGrad", 32, 4), op("add_", 33, 1),
        op("rest", 40, 3),
    )  # fmt: skip
    assert ties(one) == {
        "checkpointed": None, "CheckpointBackward": "checkpointed", "again": "checkpointed",
        "AgainBackward": "again", "inner": "again", "torch::autograd::AccumulateGrad": None,
        "add_": None, "rest": "checkpointed",
    }  # fmt: skip


def test_threads_are_told_apart_by_the_numbers_that_they_used() -> None:
    # GIVEN two threads with the same first numbers, of which one goes on
    one = profile(
        *(numbered(f"m{i}", i, 0.5, i, tid=1) for i in range(2)),
        *(numbered(f"t{i}", i, 0.5, i, tid=2) for i in range(9)),
        *(node(f"T{i}", 20 + i, 0.5, i, 5, tid=3) for i in range(9)),
        *(node(f"M{i}", 40 + i, 0.5, i, 1, tid=3) for i in range(2)),
    )  # fmt: skip
    found = ties(one)
    assert {k: v for k, v in found.items() if k[0] in "MT"} == {
        **{f"M{i}": f"m{i}" for i in range(2)}, **{f"T{i}": f"t{i}" for i in range(9)},
    }  # fmt: skip


def test_threads_that_cannot_be_told_apart_are_not_guessed() -> None:
    # GIVEN two threads with the same numbers, and one number that only one of them has
    both = [numbered(f"{t}{i}", i, 0.5, i, tid=t) for t in (1, 2) for i in range(4)]
    one = profile(*both, *(node(f"B{i}", 20 + i, 0.5, i, 1, tid=3) for i in range(4)))
    assert {ties(one)[f"B{i}"] for i in range(4)} == {None}
    # AND two numbers that both can only stand for one thread
    one = profile(*both[:4], node("A", 20, 1, 0, 1), node("B", 22, 1, 1, 2), node("C", 24, 1, 2, 2))
    assert {ties(one)[name] for name in "ABC"} == {None}


@pytest.mark.parametrize(("known", "tied"), [(4, False), (5, True)])
def test_a_thread_must_have_more_than_half_of_the_numbers(known: int, tied: bool) -> None:
    one = profile(
        *(numbered(f"a{i}", i, 0.5, i) for i in range(known)),
        *(node(f"A{i}", 20 + i, 0.5, i) for i in range(8)),
    )
    assert {f"A{i}": f"a{i}" if tied and i < known else None for i in range(8)} == {
        k: v for k, v in ties(one).items() if k[0] == "A"
    }


def arrow(ph: str, id_: int, ts: float, tid: int, **more: Any) -> Event:
    return {"ph": ph, "id": id_, "pid": 100, "tid": tid, "ts": ts, "cat": "fwdbwd", **more}


def test_arrows_tell_where_numbers_are_missing_or_tell_too_little() -> None:
    # GIVEN operators that start at once on a thread, one inside the other, and arrows that end
    # where there is nothing, or lack an end
    arrows = [
        arrow("s", 1, 3.125, 1), arrow("f", 1, 20.25, 2, bp="e"),
        arrow("s", 2, 3.125, 1), arrow("f", 2, 99, 2), arrow("s", 3, 3.125, 1),
        arrow("s", 4, 3.125, 1), arrow("f", 4, 20.25, "odd"), arrow("f", 5, 20.25, 2, id={}),
    ]  # fmt: skip
    one = profile(
        op("outer", 3.125, 5), op("inner", 3.125, 4), op(ENGINE + "B", 20.25, 9, tid=2),
        op("B", 20.25, 8, tid=2), op("mm", 22, 3, tid=2), *arrows,
    )  # fmt: skip
    assert ties(one) == {"outer": None, "inner": None, "B": "inner", "mm": "inner"}
    # AND where numbers leave open which of two threads it was
    both = [numbered(f"{t}{i}", 10 * i, 0.5, i, tid=t) for t in (1, 2) for i in range(2)]
    behind = [node(f"B{i}", 40 + i, 0.5, i, 1, tid=3) for i in range(2)]
    one = profile(*both, *behind, arrow("s", 1, 10, 2), arrow("f", 1, 41, 3))
    assert ties(one) == {"10": None, "11": None, "20": None, "21": None, "B0": "20", "B1": "21"}


@pytest.mark.parametrize("odd", ["3", -1, 2**63, 2**64 - 1, None, 1.5, [3]])
def test_numbers_that_are_none(odd: object) -> None:
    numbers: dict[str, Any] = {"Sequence number": odd, "Fwd thread id": 1}
    one = profile(numbered("a", 0, 1, 3), op(ENGINE + "A", 5, 1, **numbers), node("B", 8, 1, 3))
    assert (ties(one)["A"], ties(one)["B"]) == (None, "a")


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
def test_numbers_tie_what_torch_ties(path: Path) -> None:
    one = tprofile.load(path)
    # Of times in a clock that counts from 1970, a float does not tell the nanoseconds.
    events = [json.loads(line, parse_float=Decimal) for line in one.trace.others]
    wanted = arrows(events, one.trace)
    assert len(wanted) == DRAWN.get(path.name.removesuffix(".json.gz"), 0)
    assert_ties(one, wanted)
    # AND so do the numbers alone
    numbers = tprofile.Profile(dataclasses.replace(one.trace, others=()))
    assert numbers.events["forward"].tolist() == one.events["forward"].tolist()
    # AND the arrows alone, but for what surrounds the range in which they end
    bare = tprofile.Profile(dataclasses.replace(one.trace, details=Nothing()))
    frame = bare.events
    assert all(frame["forward"][behind] == ahead for ahead, behind in wanted)
    assert (frame["forward"] != NONE).any() == bool(wanted)


class Nothing:
    """No arguments of any event."""

    def args(self, row: int) -> bytes:
        return b"{}"


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
def test_live_numbers_tie_what_torch_draws(
    case: str, drawn: int, again: int, tmp_path: Path
) -> None:
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


def test_a_saved_live_trace_ties_the_same(tmp_path: Path) -> None:
    one, _ = recorded_live(LIVE["mlp"], tmp_path)
    again = tprofile.load(one.export_trace(tmp_path / "ours.json"))
    assert again.events["forward"].tolist() == one.events["forward"].tolist()
    assert (again.events["forward"] != NONE).sum() > 9
