"""From a kernel up to what caused it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from traces import RECORDED, call, note, op, profile, recorded, work

import tprofile
from tprofile import TprofileError

RUN = "tprofile::run"


def steps(one: tprofile.Profile, kernel: int | str) -> list[tuple[Any, ...]]:
    frame = one.chain(kernel)
    assert frame["delay_us"].iloc[:-1].isna().all()
    assert frame["waited_for"].iloc[:-1].isna().all()
    return list(frame[["level", "name", "start_us", "duration_us"]].itertuples(index=False))


def test_a_kernel_and_all_above_it() -> None:
    # GIVEN one in a run of ours, an annotation and two operators
    one = profile(
        note(RUN, 0, 90), note("step", 1, 40, 1), op("aten::linear", 2, 20, 2),
        op("aten::addmm", 4, 15, 3), call("cudaLaunchKernel", 6, 4, 9, 3),
        work("gemm", 30, 8, 9, 3),
        recorded={"profiled": 1},
    )  # fmt: skip
    assert steps(one, "gemm") == [
        ("annotation", "step", 1, 40), ("operator", "aten::linear", 2, 20),
        ("operator", "aten::addmm", 4, 15), ("launch", "cudaLaunchKernel", 6, 4),
        ("kernel", "gemm", 30, 8),
    ]  # fmt: skip
    frame = one.chain("gemm")
    assert (frame["delay_us"].iloc[-1], frame["waited_for"].iloc[-1]) == (24, None)
    # AND by its row, which each step has
    row = int(frame["event"].iloc[-1])
    assert one.events["name"][row] == "gemm"
    assert one.chain(row).equals(frame)
    assert one.chain(np.int64(row)).equals(frame)
    assert one.events["name"][frame["event"]].tolist() == frame["name"].tolist()


def test_a_name_stands_for_its_longest_call() -> None:
    one = profile(
        op("a", 0, 5, 1), work("k", 10, 2, 0, 1), op("b", 20, 5, 2), work("k", 30, 3, 0, 2)
    )
    assert steps(one, "k") == [("operator", "b", 20, 5), ("kernel", "k", 30, 3)]


@pytest.mark.parametrize(
    ("start", "waited"),
    [
        (20, None),  # over before the launch
        (27, "first"),  # still running when it was launched
    ],
)
def test_what_it_waited_for(start: float, waited: str | None) -> None:
    # GIVEN work on its stream, and on another one that is nothing to it
    one = profile(
        call("go", 0, 1, 1), call("go", 30, 2, 2), work("first", start, 10, 1),
        work("aside", 25, 30, 3, stream=9), work("k", 50, 5, 2),
    )  # fmt: skip
    frame = one.chain("k")
    assert frame["waited_for"].tolist() == [None, waited]
    assert frame["delay_us"].iloc[-1] == 20


def test_delays_that_are_not_known() -> None:
    # GIVEN a kernel before its launch, and one without
    early = profile(call("go", 10, 2, 1), work("k", 5, 3, 1)).chain("k")
    alone = profile(work("k", 5, 3)).chain("k")
    assert math.isnan(early["delay_us"].iloc[-1])
    assert math.isnan(alone["delay_us"].iloc[-1])
    assert alone["level"].tolist() == ["kernel"]


@pytest.mark.parametrize(("cat", "level"), [("gpu_memcpy", "copy"), ("gpu_memset", "set")])
def test_copies_and_sets(cat: str, level: str) -> None:
    assert profile(work("m", 5, 3, cat=cat)).chain("m")["level"].tolist() == [level]


def test_a_backward_kernel_begins_at_its_forward() -> None:
    one = recorded("mlp_train")
    kernels = one.events[(one.events["category"] == "kernel") & (one.events["forward"] >= 0)]
    row = int(kernels.index[0])
    frame = one.chain(row)
    ahead = int(kernels["forward"].iloc[0])
    assert frame["level"].iloc[0] == "forward"
    assert (frame["event"].iloc[0], frame["name"].iloc[0]) == (ahead, one.events["name"][ahead])
    assert "autograd::engine::evaluate_function" in " ".join(frame["name"])


@pytest.mark.parametrize("name", RECORDED)
def test_chains_of_recorded_traces_are_the_parents_of_events(name: str) -> None:
    one = recorded(name)
    events = one.events
    for row in events.index[events["category"] == "kernel"][::40]:
        frame = one.chain(int(row))
        # What only says where it was is no parent.
        above = frame[~frame["level"].isin(["forward", "line", "module"])]["event"].tolist()
        assert above[-1] == row
        assert [int(events["parent"][at]) for at in above[:0:-1]] == above[-2::-1]
        assert events["parent"][above[0]] == -1


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("none", "no kernel, copy or set of the runs is called 'none'"),
        (0, "event 0 is 'a', and no kernel, copy or set of the runs"),
        (2, "there is no event 2: Profile.events has 2, counted from 0"),
        (-1, "there is no event -1"),
        (True, "the kernel is True, but must be a row of Profile.events, or a name"),
        (1.0, "the kernel is 1.0, but must be"),
        (None, "the kernel is None, but must be"),
    ],
)
def test_what_is_no_kernel(kernel: Any, said: str) -> None:
    one = profile(op("a", 0, 9, 1), work("k", 5, 3, 0, 1))
    with pytest.raises(TprofileError, match=f"^{said}"):
        one.chain(kernel)
