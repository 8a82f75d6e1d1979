"""`run`, `record`, `load`: what they refuse, and say of it."""

from __future__ import annotations

import copy
import pickle
import signal
import threading
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from traces import op, profile, recorded

import tprofile
from tprofile import TprofileError, session


def step() -> torch.Tensor:
    return torch.ones(2, 2) @ torch.ones(2, 2)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: tprofile.run(step, 5), "args is 5, but must be a tuple or list"),
        (lambda: tprofile.run(step, "ab"), "args is 'ab', but must be a tuple or list"),
        (lambda: tprofile.run(step, kwargs=[1]), "kwargs is [1], but must be a dict"),
        (lambda: tprofile.run(step, shapes=None), "shapes is None, but must be True or False"),
        (lambda: tprofile.run(step, cpu="yes"), "cpu is 'yes', but must be True or False"),
        (lambda: tprofile.run(step, once=1), "once is 1, but must be True or False"),
        (lambda: tprofile.run(step, memory=1), "memory is 1, but must be True or False"),
        (lambda: tprofile.run(step, nonsense=2), "max_seconds, cpu, cuda, shapes, memory, flops, "),
        (lambda: tprofile.record(memory=None), "memory is None, but must be True or False"),
        (lambda: tprofile.run(step, max_seconds=True), "max_seconds is True, but must be seconds"),
        (lambda: tprofile.record(warmup=2), "tprofile.record has no option 'warmup'"),
        (lambda: tprofile.record(nonsense=2), "tprofile.record has no option 'nonsense'"),
        (lambda: tprofile.record(once=True), "Options are cpu, cuda, shapes, memory, flops, "),
        (lambda: tprofile.record().__exit__(None, None, None), "was never entered"),
        (lambda: profile(op("a", 0, 1)).operators_by(["shape"]), "the key is ['shape'], but must"),
        (lambda: profile(op("a", 0, 1)).operators_by(None), "the key is None, but must be text"),
        (lambda: profile(op("a", 0, 1)).operators_by("colour"), "cannot be grouped by 'colour'"),
        (lambda: profile(op("a", 0, 1)).text(None, 0), "limit is 0, but must be 1 or more"),
        (lambda: profile(op("a", 0, 1)).text(None, True), "limit is True, but must be 1 or more"),
        (lambda: profile(op("a", 0, 1)).text(None, 1.5), "limit is 1.5, but must be 1 or more"),
        (
            lambda: profile(op("a", 0, 1)).export_trace(""),
            "'' is a folder. Give the name",
        ),
        (lambda: profile(op("a", 0, 1)).export_trace("a\0"), "a path holds no NUL character"),
        (lambda: profile(op("a", 0, 1)).export_trace(None), "is None, but must be a path"),
        (lambda: profile(op("a", 0, 1)).export_trace(b"x"), "is b'x', but must be a path"),
        (lambda: tprofile.load(b"[]", unprofiled_s=True), "unprofiled_s is True, but must be"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(TprofileError) as caught:
        call()
    assert told in str(caught.value)
    # AND the next profile works
    assert tprofile.run(step).operators["calls"].max() > 0


async def coroutine() -> None:
    step()


def generator() -> Any:
    yield step()


async def async_generator() -> Any:
    yield step()


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (coroutine, "a coroutine"),
        (generator, "a generator"),
        (async_generator, "a async_generator"),
    ],
)
def test_what_has_not_run_is_not_measured(fn: Callable[[], Any], kind: str) -> None:
    with pytest.raises(TprofileError, match=f"returned {kind}, of which nothing has run"):
        tprofile.run(fn)


def test_an_interrupted_start_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = session._shut_others_out

    def interrupted() -> None:
        usual()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(session, "_shut_others_out", interrupted)
    with pytest.raises(KeyboardInterrupt), tprofile.record():
        raise AssertionError("the block must not run")
    monkeypatch.undo()
    # THEN torch's profiler and ours both start
    with torch.profiler.profile() as theirs:
        step()
    assert len(theirs.events()) > 0
    assert tprofile.run(step).operators["calls"].max() > 0


def test_a_recording_ends_in_its_own_thread() -> None:
    recording = tprofile.record()
    recording.__enter__()
    step()
    caught: list[BaseException] = []

    def end() -> None:
        try:
            recording.__exit__(None, None, None)
        except TprofileError as error:
            caught.append(error)

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    # THEN another thread is refused, and this one still gets everything
    assert "has to end in the thread that began it" in str(caught[0])
    recording.__exit__(None, None, None)
    assert "aten::mm" in recording.profile.operators["name"].tolist()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_live_profile_is_copied_and_pickled(copied: Callable[[Any], Any]) -> None:
    one = tprofile.run(step)
    other = copied(one)
    for frame in ("operators", "events", "runs"):
        pd.testing.assert_frame_equal(getattr(other, frame), getattr(one, frame), check_exact=True)
    assert other.summary == one.summary


def test_what_a_reader_left_out_is_told_again_after_saving(tmp_path: Any) -> None:
    one = recorded("hostile_names")
    again = tprofile.load(one.export_trace(tmp_path / "t.json"))
    assert one.summary.warnings == (
        "the file was not valid JSON; unescaped text in it was repaired",
    )
    assert again.summary == one.summary
    assert tprofile.load(again.export_trace(tmp_path / "u.json")).summary == one.summary


def test_frames_have_the_same_types_when_they_are_empty() -> None:
    full, empty = recorded("matmul_add_64"), tprofile.load(b"[]")
    for frame in ("operators", "runs", "devices", "events"):
        ours, theirs = getattr(empty, frame).dtypes, getattr(full, frame).dtypes
        numbers = [c for c in theirs.index if c not in ("device_busy_us", "launches")]
        assert ours[numbers].to_dict() == theirs[numbers].to_dict(), frame
    assert empty.text().splitlines() == [
        "nothing was profiled", "no runs: the trace is empty",
    ]  # fmt: skip
