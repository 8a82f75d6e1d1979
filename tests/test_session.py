from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from traces import assert_same

import tprofile
from tprofile import Profile, TprofileError, session
from tprofile.session import Plan
from tprofile.trace import Trace, marks
from tprofile.trace.recorded import Stopped
from tprofile.views.words import what_ran

X = torch.ones(8, 8)


def step() -> torch.Tensor:
    return X @ X


class Counter:
    """Code that counts its runs, and does something in one of them."""

    def __init__(self, at: int = 0, act: Callable[[], object] = lambda: None) -> None:
        self.n = 0
        self._at, self._act = at, act

    def __call__(self) -> None:
        self.n += 1
        if self.n == self._at:
            self._act()
        step()


def throw(error: BaseException) -> Callable[[], object]:
    def act() -> None:
        raise error

    return act


def recorded(plan: Plan, run: Callable[[], object], **hooks: Any) -> tuple[Trace, Any]:
    return session.record(run, plan, **hooks)


def calls(profile: Profile, name: str = "aten::mm") -> int:
    operators = profile.operators
    return int(operators.loc[operators["name"] == name, "calls"].sum())


def assert_next_profile_works() -> None:
    profile = tprofile.run(step, warmup=0, repeat=2)
    assert calls(profile) == 2
    assert what_ran(profile) == "2 runs: 2 profiled"


# --- how many runs


@pytest.mark.parametrize(
    ("options", "runs", "said"),
    [
        ({}, 7, "7 runs: 3 warm-up, 1 profiler warm-up, 3 profiled"),
        ({"warmup": 1, "repeat": 1}, 3, "3 runs: 1 warm-up, 1 profiler warm-up, 1 profiled"),
        ({"warmup": 2, "repeat": 4}, 7, "7 runs: 2 warm-up, 1 profiler warm-up, 4 profiled"),
        ({"warmup": 0, "repeat": 2}, 2, "2 runs: 2 profiled"),
        ({"warmup": 0, "repeat": 1}, 1, "1 run, profiled, no warm-up"),
        ({"once": True}, 1, "1 run, profiled, no warm-up"),
        ({"once": True, "warmup": 5, "repeat": 5}, 1, "1 run, profiled, no warm-up"),
    ],
)
def test_runs_made_are_the_runs_announced(options: dict[str, Any], runs: int, said: str) -> None:
    code = Counter()
    profile = tprofile.run(code, **options)
    assert code.n == runs
    assert what_ran(profile) == said
    told = profile.trace.recorded
    assert len(told.warmup_s) + told.discarded + told.profiled == runs
    # Only the profiled runs are in the figures.
    assert calls(profile) == told.profiled == len(profile.runs)


def test_arguments_and_each_reach_the_function() -> None:
    seen = []

    def fn(a: int, *, b: int) -> None:
        seen.append((a, b))

    tprofile.run(fn, (1,), {"b": 2}, warmup=0, repeat=1)
    assert seen == [(1, 2)]


class Clock:
    """A clock that only moves when the code or the hooks move it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(session.time, "perf_counter", lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize(
    ("seconds", "limit", "plan", "runs"),
    [
        # Seconds of each run (the last one repeats), the limit, (warm-up, repeat), runs made.
        ([1], None, (3, 3), (3, 1, 3)),
        ([1], 7, (3, 3), (3, 1, 3)),
        ([1], 6, (3, 3), (3, 1, 2)),
        ([1], 5, (3, 3), (3, 1, 1)),
        ([1], 4, (3, 3), (2, 1, 1)),
        ([1], 3, (3, 3), (1, 1, 1)),
        ([1], 2, (3, 3), (1, 0, 1)),
        ([1], 0.5, (3, 3), (1, 0, 1)),
        # A slow first run is followed by as many as its own time allows.
        ([10, 1], 20, (3, 3), (1, 0, 1)),
        ([1, 10], 20, (3, 3), (2, 0, 1)),
        ([1], 3, (0, 5), (0, 0, 3)),
        ([1], 0.5, (0, 5), (0, 0, 1)),
    ],
)
def test_max_seconds(
    clock: Clock,
    seconds: list[float],
    limit: float | None,
    plan: tuple[int, int],
    runs: tuple[int, int, int],
) -> None:
    times = iter(seconds)
    lasts = []

    def run() -> None:
        step()
        clock.sleep(next(times, seconds[-1]))

    @contextlib.contextmanager
    def around(last: bool) -> Iterator[None]:
        lasts.append(last)
        yield

    trace, error = recorded(
        Plan(warmup=plan[0], repeat=plan[1], max_seconds=limit, device="cpu"), run, around=around
    )
    assert error is None
    told = trace.recorded
    assert (len(told.warmup_s), told.discarded, told.profiled) == runs
    assert len(lasts) == sum(runs)
    assert True not in lasts[:-1]
    # Announced where it can be known: not ahead of the very first run.
    assert lasts[-1] is (sum(runs) > 1)


def test_a_run_called_the_last_is_the_last(clock: Clock) -> None:
    # The second run makes it look as if there were no time left; the third is fast after all.
    times = iter([1, 4, 0.1, 0.1, 0.1])
    lasts = []

    @contextlib.contextmanager
    def around(last: bool) -> Iterator[None]:
        lasts.append(last)
        yield

    trace, _ = recorded(
        Plan(warmup=0, repeat=5, max_seconds=10, device="cpu"),
        lambda: clock.sleep(next(times)),
        around=around,
    )
    assert lasts == [False, False, True]
    assert trace.recorded.profiled == 3


def test_the_header_says_which_runs_were_left_out(clock: Clock) -> None:
    profile = tprofile.run(lambda: clock.sleep(1), max_seconds=5)
    said = "5 runs: 3 warm-up, 1 profiler warm-up, 1 profiled; 2 of 7 left out: more than 5 s"
    assert what_ran(profile) == said


def test_unprofiled_times_are_those_of_the_code_alone(clock: Clock) -> None:
    times = iter([3, 1, 2, 7, 7, 7, 7])

    @contextlib.contextmanager
    def around(last: bool) -> Iterator[None]:
        clock.sleep(100)
        yield
        clock.sleep(100)

    trace, _ = recorded(
        Plan(device="cpu"),
        lambda: clock.sleep(next(times)),
        before=lambda: clock.sleep(1000),
        around=around,
    )
    assert trace.recorded.warmup_s == [3, 1, 2]
    summary = Profile(trace).summary
    assert summary.first_run_us == 3e6
    assert summary.wall_us == 1.5e6
    assert summary.wall_source == "unprofiled"


# --- what is in the figures


def test_each_is_called_ahead_of_every_run_and_in_no_figure() -> None:
    order = []

    def fn() -> None:
        order.append("run")
        step()

    def each() -> None:
        order.append("each")
        X.sin()

    profile = tprofile.run(fn, warmup=2, repeat=2, each=each)
    assert order == ["each", "run"] * 5
    names = set(profile.operators["name"])
    assert "aten::sin" not in names
    assert not names & {marks.RUN, marks.BEFORE, marks.SYNCHRONIZE}
    assert calls(profile) == 2


def test_the_profilers_own_warm_up_is_in_no_record() -> None:
    # GIVEN a discarded run that does what no other does
    runs: list[int] = []

    def code() -> None:
        runs.append(1)
        if len(runs) == 3:
            torch.linalg.det(torch.eye(3))
        step()

    profile = tprofile.run(code, warmup=2, repeat=2, each=lambda: torch.ones(3))
    # THEN nothing of it is left, of its reset neither, and times count from what is
    assert len(runs) == 5
    assert not profile.operators["name"].str.contains("det").any()
    events = profile.events
    assert (events["start_us"].min(), events["name"].iloc[0]) == (0, marks.BEFORE)
    assert events["name"].tolist().count("aten::ones") == 2
    assert not [name for name in events["name"] if name == marks.WARMUP]
    assert profile.runs["run"].tolist() == [1, 2]


def test_what_only_the_dropped_run_has_is_in_nothing_that_is_saved(tmp_path: Path) -> None:
    # GIVEN a discarded run whose names, met first, would number those of the others
    runs: list[int] = []

    def code() -> None:
        runs.append(1)
        with torch.profiler.record_function("foo (dynamo_timed)" if len(runs) == 3 else "foo"):
            step()

    profile = tprofile.run(code, warmup=2, repeat=3)
    assert "foo (dynamo_timed)" not in profile.trace.names
    assert profile.trace.names[profile.trace.name[0]] == profile.trace.names[0]
    assert_same(profile, tprofile.load(profile.export_trace(tmp_path / "t.json")))


@pytest.mark.parametrize(("at", "during"), [(3, "profiler warm-up"), (4, "profiled run 1 of 3")])
def test_a_reset_that_fails_before_a_run_leaves_no_run(at: int, during: str) -> None:
    calls_: list[int] = []

    def each() -> None:
        calls_.append(1)
        torch.ones(3)
        if len(calls_) == at:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        tprofile.run(step, warmup=2, each=each)
    profile = tprofile.last()
    assert profile is not None
    summary = profile.summary
    assert (summary.wall_source, summary.profiled_wall_us) == ("unprofiled", None)
    assert (len(profile.runs), len(profile.operators), profile.complete) == (0, 0, False)
    assert f"stopped by ValueError in {during}" in str(profile)
    assert str(profile).startswith("Stopped by ValueError in ")


def test_our_marks_are_no_operators_without_each_either() -> None:
    names = set(tprofile.run(step, warmup=0, repeat=2).operators["name"])
    assert names == {"aten::matmul", "aten::mm", "aten::resolve_conj"}


def test_shapes_can_be_left_out() -> None:
    def shaped(**options: Any) -> set[str]:
        profile = tprofile.run(step, warmup=0, repeat=1, **options)
        return set(profile.operators_by("shape")["shape"])

    assert any("8" in shape for shape in shaped())
    assert not any("8" in shape for shape in shaped(shapes=False))


# --- errors and interrupts


class OfTheUser(Exception):
    pass


@pytest.mark.parametrize(
    "error", [OfTheUser("mine"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()]
)
@pytest.mark.parametrize(
    ("at", "during", "ran", "mms"),
    [
        (1, "warm-up 1 of 3", "no run completed", 0),
        (2, "warm-up 2 of 3", "1 run: 1 warm-up", 0),
        (4, "profiler warm-up", "3 runs: 3 warm-up", 0),
        (6, "profiled run 2 of 3", "5 runs: 3 warm-up, 1 profiler warm-up, 1 profiled", 1),
    ],
)
def test_an_error_leaves_what_was_measured(
    error: BaseException, at: int, during: str, ran: str, mms: int
) -> None:
    code = Counter(at, throw(error))
    with pytest.raises(type(error)) as caught:
        tprofile.run(code)
    assert caught.value is error
    assert code.n == at
    profile = tprofile.last()
    assert profile is not None
    assert what_ran(profile) == f"{ran}; stopped by {type(error).__name__} in {during}"
    assert calls(profile) == mms
    assert profile.trace.recorded.stopped == Stopped(type(error).__name__, during)
    assert str(profile)
    assert_next_profile_works()


@pytest.mark.parametrize("at", [1, 4, 6])
def test_an_error_of_each_ends_the_session_too(at: int) -> None:
    count = Counter(at, throw(OfTheUser("mine")))
    with pytest.raises(OfTheUser, match="mine"):
        tprofile.run(step, each=count)
    assert tprofile.last().trace.recorded.stopped.by == "OfTheUser"  # type: ignore[union-attr]
    assert_next_profile_works()


def test_an_error_of_ours_inside_the_code_is_kept_beside_what_was_measured() -> None:
    def fn() -> None:
        step()
        tprofile.load("no such file.json")

    with pytest.raises(TprofileError, match="no such file"):
        tprofile.run(fn, warmup=0, repeat=1)
    assert calls(tprofile.last()) == 1  # type: ignore[arg-type]
    assert_next_profile_works()


@pytest.mark.parametrize("method", ["prepare_trace", "start_trace", "stop_trace"])
def test_an_interrupt_while_torch_starts_or_stops_waits_until_it_has(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    done = []
    real = getattr(torch.profiler.profile, method)

    def interrupted(self: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        real(self)
        done.append(method)

    monkeypatch.setattr(torch.profiler.profile, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        tprofile.run(step, warmup=2, repeat=2)
    assert done == [method]
    monkeypatch.undo()
    profile = tprofile.last()
    assert profile is not None
    assert len(profile.trace.recorded.warmup_s) == 2
    # All runs were made when the interrupt came during the stop: their figures are kept.
    assert calls(profile) == (2 if method == "stop_trace" else 0)
    assert_next_profile_works()


def test_torch_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any) -> None:
        raise RuntimeError("CUPTI is taken")

    monkeypatch.setattr(torch.profiler.profile, "start_trace", broken)
    with pytest.raises(
        TprofileError, match="did not start: RuntimeError: CUPTI is taken"
    ) as caught:
        tprofile.run(step, warmup=1, repeat=1)
    assert isinstance(caught.value.__cause__, RuntimeError)
    monkeypatch.undo()
    assert len(tprofile.last().trace.recorded.warmup_s) == 1  # type: ignore[union-attr]
    assert_next_profile_works()


def test_torch_that_does_not_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.profiler.profile.stop_trace

    def broken(self: Any) -> None:
        real(self)
        raise RuntimeError("device-side assert")

    monkeypatch.setattr(torch.profiler.profile, "stop_trace", broken)
    profile = tprofile.run(step, warmup=2, repeat=1)
    monkeypatch.undo()
    notes = profile.summary.warnings
    assert "the profiler could not be stopped: RuntimeError: device-side assert" in notes
    assert profile.summary.wall_source == "unprofiled"
    assert_next_profile_works()


# --- other profilers


def test_a_running_profiler_is_not_disturbed() -> None:
    for start in (lambda: tprofile.run(step), lambda: tprofile.record().__enter__()):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as outer:
            step()
            with pytest.raises(TprofileError, match=r"running already.*leave its `with` block"):
                start()
            step()
        rows = {row.key: row.count for row in outer.key_averages()}
        assert rows["aten::mm"] == 2
    assert_next_profile_works()


def with_block() -> None:
    with torch.profiler.profile():
        step()


def with_schedule(**when: int) -> Callable[[], None]:
    def fn() -> None:
        schedule = torch.profiler.schedule(repeat=1, **when)
        with torch.profiler.profile(schedule=schedule) as own:
            for _ in range(4):
                own.step()

    return fn


def with_stop_in_finally() -> None:
    own = torch.profiler.profile()
    try:
        own.start()
    finally:
        own.stop()


def autograd() -> None:
    with torch.autograd.profiler.profile():
        step()


def emit_itt() -> None:
    with torch.autograd.profiler.emit_itt():
        step()


def nested_run() -> None:
    tprofile.run(step)


def nested_record() -> None:
    with tprofile.record():
        step()


OTHERS = {
    "with": with_block,
    "warmup": with_schedule(wait=0, warmup=1, active=1),
    "wait": with_schedule(wait=1, warmup=0, active=1),
    "wait+warmup": with_schedule(wait=1, warmup=1, active=1),
    "stop": with_stop_in_finally,
    "autograd": autograd,
    "itt": emit_itt,
    "run": nested_run,
    "record": nested_record,
}


@pytest.mark.filterwarnings("ignore:Profiler won.t be using warmup")
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize(
    ("options", "during"),
    [({}, "profiler warm-up"), ({"warmup": 0, "repeat": 2}, "profiled run 1 of 2")],
)
def test_a_profiler_in_the_code_is_refused(
    other: Callable[[], None], options: dict[str, Any], during: str
) -> None:
    """torch 2.13 would end the process with a segmentation fault."""

    def fn() -> None:
        step()
        other()

    with pytest.raises(TprofileError, match=r"a torch profiler was started|running already"):
        tprofile.run(fn, **options)
    profile = tprofile.last()
    assert profile is not None
    assert profile.trace.recorded.stopped == Stopped("TprofileError", during)
    assert calls(profile) == (0 if during == "profiler warm-up" else 1)
    assert_next_profile_works()
    # And torch's own profiler works again.
    with torch.profiler.profile() as own:
        step()
    assert {row.key: row.count for row in own.key_averages()}["aten::mm"] == 1


def test_a_profiler_in_the_code_that_swallows_the_refusal() -> None:
    def fn() -> None:
        step()
        with contextlib.suppress(TprofileError):
            with_block()

    profile = tprofile.run(fn, warmup=1, repeat=2)
    assert calls(profile) == 2
    assert profile.summary.warnings == ()


def test_a_profiler_in_another_thread_is_refused() -> None:
    raised: list[BaseException] = []

    def work() -> None:
        try:
            with_block()
        except TprofileError as error:
            raised.append(error)

    def fn() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        step()

    profile = tprofile.run(fn, warmup=0, repeat=2)
    assert len(raised) == 2
    assert calls(profile) == 2


def test_a_profiler_that_runs_in_another_thread_is_not_disturbed() -> None:
    # GIVEN one that a thread of the notebook started before
    started, finish = threading.Event(), threading.Event()
    counted: list[int] = []

    def profiled() -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
            started.set()
            finish.wait()
            step()
        counted.append(sum(row.count for row in own.key_averages() if row.key == "aten::mm"))

    thread = threading.Thread(target=profiled)
    thread.start()
    started.wait()
    # THEN ours is refused before anything has run, and that one keeps what it recorded
    ran: list[int] = []
    with pytest.raises(TprofileError, match="running already"):
        tprofile.run(lambda: ran.append(1))
    finish.set()
    thread.join()
    assert (ran, counted) == ([], [1])
    assert_next_profile_works()


def test_work_of_other_threads_is_recorded() -> None:
    def both() -> None:
        thread = threading.Thread(target=step)
        thread.start()
        step()
        thread.join()

    profile = tprofile.run(both, warmup=1, repeat=2)
    by_thread = profile.operators_by("thread")
    mine = by_thread[by_thread["name"] == "aten::mm"]
    assert profile.operators.set_index("name").loc["aten::mm", "calls"] == 4
    # A system may give the number of a thread that has ended to the next one.
    assert sorted(mine["calls"]) in ([2, 2], [1, 1, 2])


def test_a_profiler_of_an_unprofiled_run_is_let_through() -> None:
    """Compilers time their candidates with one."""
    code = Counter(1, with_block)
    assert calls(tprofile.run(code, warmup=1, repeat=1)) == 1


def test_a_profiler_left_running_is_refused() -> None:
    own = torch.profiler.profile()
    with pytest.raises(TprofileError, match="running already"):
        tprofile.run(Counter(2, own.start))
    own.stop()
    stopped = tprofile.last().trace.recorded.stopped  # type: ignore[union-attr]
    assert stopped == Stopped("TprofileError", "warm-up 2 of 3")
    assert_next_profile_works()


def test_a_recording_that_was_taken_away_is_noted() -> None:
    disable = torch._C._autograd._disable_profiler
    profile = tprofile.run(Counter(2, disable), warmup=0, repeat=2)
    # torch 2.13 stops an ended session without a word, earlier versions refuse.
    said = " ".join(profile.summary.warnings)
    assert "nothing of the profiled runs is left" in said or "could not be stopped" in said
    assert_next_profile_works()


# --- what is left behind


# --- what a recording cannot show


def test_a_device_that_is_in_use_and_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_in_use", lambda: [0])
    monkeypatch.setattr(session, "synchronize", lambda: None)
    monkeypatch.setattr(session, "_uuids", dict)
    summary = tprofile.run(step, cpu=True).summary
    assert (summary.verdict, summary.reason) == ("unknown", "only the CPU was recorded")
    assert (summary.device_busy_us, summary.launches) == (None, None)


@pytest.mark.parametrize("said", [[], ["CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"]])
def test_a_recording_that_the_driver_gave_nothing_to(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    # GIVEN CUDA in use and asked for, and not even our own wait for it in the record
    monkeypatch.setattr(session, "_in_use", lambda: [0])
    monkeypatch.setattr(session, "synchronize", lambda: None)
    monkeypatch.setattr(session, "_uuids", dict)
    monkeypatch.setattr(session._Profiler, "_complaints", said)
    monkeypatch.setattr(session, "use_cuda", lambda device: True)
    monkeypatch.setattr(session._Profiler, "_cuda_started", 0)
    profile = tprofile.run(step)
    # THEN that is said, and no device time is shown as 0
    summary = profile.summary
    assert summary.verdict == "unknown"
    assert summary.reason == (
        "torch's profiler got nothing from CUDA: another profiler (Nsight, a debugger) may hold "
        "it, or this user may not be permitted to profile"
    ) + "".join(f". It said: {one}" for one in said)
    assert summary.device_busy_us is None
    assert f"Device not seen: {summary.reason}"[:90] in str(profile).replace("\n", " ")
    # AND a wait that was recorded says that CUPTI works: then the code used no device
    monkeypatch.setattr(Trace, "category_is", lambda self, *names: np.ones(len(self), bool))
    assert tprofile.run(step).trace.recorded.unseen == []


def test_accelerators_that_torch_cannot_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 1)
    monkeypatch.setattr(torch.xpu, "is_initialized", lambda: True)
    summary = tprofile.run(step).summary
    assert (summary.verdict, summary.reason) == (
        "unknown",
        "the process uses MPS, which torch's profiler cannot trace here; "
        "the process uses XPU, which torch's profiler cannot trace here",
    )
    # AND one that is there and not in use is nothing to tell
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 0)
    monkeypatch.setattr(torch.xpu, "is_initialized", lambda: False)
    assert tprofile.run(step).summary.verdict == "cpu-only"


def test_conditions_are_looked_at_around_the_runs_that_they_are_told_of(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    # GIVEN a device that the first run, a long one, brings into use
    ran: list[float] = []
    monkeypatch.setattr(session.Conditions, "begin", lambda self, uuids: self._before.update(uuids))
    monkeypatch.setattr(
        session.Conditions, "end", lambda self, uuids, ran_s: ran.append(ran_s) or []
    )
    devices: dict[int, Any] = {}
    monkeypatch.setattr(session, "_uuids", lambda: dict(devices))

    def code() -> None:
        clock.sleep(1 if devices else 60)
        devices[0] = "GPU-0"

    tprofile.run(code, warmup=2, repeat=2)
    # THEN its time is no part of that in which clocks were watched
    assert ran == [4]
    # AND a recording of one stretch is watched too
    with tprofile.record():
        clock.sleep(3)
    assert ran == [4, 3]


def test_what_the_profiler_says_it_lost_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = torch.profiler.profile.stop_trace
    line = "WARNING:2026-12-01 12:00:00 1:1 CuptiActivityProfiler.cpp:9] "

    def losing(self: Any) -> None:
        stop(self)
        os.write(2, f"{line}Exceeded max GPU buffer count (5 > 4)\n{line}hello\n".encode())

    monkeypatch.setattr(torch.profiler.profile, "stop_trace", losing)
    noted = ("torch's profiler says: Exceeded max GPU buffer count (5 > 4)",)
    assert tprofile.run(step).summary.warnings[:1] == noted
    assert tprofile.run(step).summary.warnings[:1] == noted
    monkeypatch.undo()
    assert not [w for w in tprofile.run(step).summary.warnings if w.startswith("torch's profiler")]


def test_a_process_that_was_profiled_before_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tprofile.run(step).summary.earlier_profiles == 0
    monkeypatch.setattr(session._Profiler, "_cuda_started", 2)
    summary = (profile := tprofile.run(step)).summary
    assert summary.earlier_profiles == 2
    assert "per run, not profiled (after 2 profiles)" in str(profile)
    # AND where the user has CUPTI switched off after each, it has left nothing behind
    monkeypatch.setenv("TEARDOWN_CUPTI", "1")
    assert tprofile.run(step).summary.earlier_profiles == 0


def test_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    tprofile.run(step)
    with tprofile.record():
        step()
    with pytest.raises(OfTheUser):
        tprofile.run(Counter(2, throw(OfTheUser())), warmup=0, repeat=3)
    assert capfd.readouterr() == ("", "")


def test_what_others_write_meanwhile_survives(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = torch.profiler.profile.stop_trace

    def noisy(self: Any) -> None:
        os.write(2, b"CUPTI_ERROR_NOT_INITIALIZED\n")
        real(self)

    monkeypatch.setattr(torch.profiler.profile, "stop_trace", noisy)
    tprofile.run(lambda: os.write(2, b"mine\n"), warmup=0, repeat=2)
    assert capfd.readouterr() == ("", "mine\nmine\nCUPTI_ERROR_NOT_INITIALIZED\n")


def test_no_tensor_is_kept_alive() -> None:
    class Holder:
        def __init__(self) -> None:
            self.x = torch.ones(8, 8)

        def __call__(self, y: torch.Tensor) -> torch.Tensor:
            return self.x @ y

    fn, y = Holder(), torch.ones(8, 8)
    dead = [weakref.ref(fn), weakref.ref(fn.x), weakref.ref(y)]
    profile = tprofile.run(fn, (y,), warmup=1, repeat=1)
    str(profile)
    del fn, y
    gc.collect()
    assert [ref() for ref in dead] == [None, None, None]
    assert calls(profile) == 1


def test_stages_are_told_in_order() -> None:
    stages: list[str] = []
    recorded(Plan(warmup=2, repeat=2, device="cpu"), step, stage=stages.append)
    assert stages == [
        "warm-up 1 of 2",
        "warm-up 2 of 2",
        "starting the profiler",
        "profiler warm-up",
        "profiled run 1 of 2",
        "profiled run 2 of 2",
        "reading what was recorded",
    ]


def test_a_thread_that_is_not_the_main_one() -> None:
    profiles: list[Profile] = []
    thread = threading.Thread(target=lambda: profiles.append(tprofile.run(step)))
    thread.start()
    thread.join()
    assert calls(profiles[0]) == 3


# --- options of tprofile.run


@pytest.mark.parametrize(
    ("options", "value", "advice"),
    [
        ({"warmup": -1}, "-1", "whole number, 0 or more"),
        ({"warmup": 1.5}, "1.5", "whole number, 0 or more"),
        ({"warmup": True}, "True", "whole number, 0 or more"),
        ({"repeat": 0}, "0", "whole number, 1 or more"),
        ({"repeat": "3"}, "'3'", "whole number, 1 or more"),
        ({"max_seconds": 0}, "0", "seconds, more than 0"),
        ({"max_seconds": float("nan")}, "nan", "more than 0"),
        ({"max_seconds": float("inf")}, "inf", "more than 0"),
        ({"max_seconds": "2"}, "'2'", "more than 0"),
        ({"cpu": True, "cuda": True}, "cpu and cuda", "Give one"),
        ({"warm": 3}, "'warm'", "Options are warmup, repeat"),
        ({"each": "x = 1"}, "'x = 1'", "something to call"),
    ],
)
def test_wrong_options_of_run(options: dict[str, Any], value: str, advice: str) -> None:
    code = Counter()
    with pytest.raises(TprofileError) as caught:
        tprofile.run(code, **options)
    assert value in str(caught.value)
    assert advice in str(caught.value)
    assert code.n == 0


def test_run_needs_something_to_call() -> None:
    with pytest.raises(TprofileError, match=r"not Tensor\. Give the function itself"):
        tprofile.run(step())  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_where_there_is_none() -> None:
    code = Counter()
    with pytest.raises(TprofileError, match=r"CUDA cannot be profiled here.*cpu"):
        tprofile.run(code, cuda=True)
    assert code.n == 0


def test_last_is_the_newest_profile() -> None:
    first = tprofile.run(step, once=True)
    assert tprofile.last() is first
    second = tprofile.run(step, once=True)
    assert tprofile.last() is second


# --- record


def test_record() -> None:
    with tprofile.record() as r:
        step()
        step()
    assert calls(r.profile) == 2
    assert what_ran(r.profile) == "1 run, profiled, no warm-up"
    assert r.profile is tprofile.last()
    assert not set(r.profile.operators["name"]) & {marks.RUN, marks.SYNCHRONIZE}


@pytest.mark.parametrize("error", [OfTheUser("mine"), KeyboardInterrupt()])
def test_an_error_inside_record(error: BaseException) -> None:
    r = tprofile.record()

    def block() -> None:
        with r:
            step()
            raise error

    with pytest.raises(type(error)) as caught:
        block()
    assert caught.value is error
    assert calls(r.profile) == 1
    assert "stopped by " + type(error).__name__ in what_ran(r.profile)
    assert_next_profile_works()


def test_record_serves_one_block() -> None:
    r = tprofile.record()
    with pytest.raises(TprofileError, match="nothing is recorded yet"):
        _ = r.profile
    with r:
        with pytest.raises(TprofileError, match="the `with` block has not ended"):
            _ = r.profile
        with pytest.raises(TprofileError, match="Make a new one"):
            r.__enter__()
        step()
    with pytest.raises(TprofileError, match="Make a new one"), r:
        raise AssertionError("the block must not run")
    assert calls(r.profile) == 1


def test_record_interrupted_while_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.profiler.profile.stop_trace

    def interrupted(self: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        real(self)

    monkeypatch.setattr(torch.profiler.profile, "stop_trace", interrupted)
    with pytest.raises(KeyboardInterrupt), tprofile.record() as r:
        step()
    monkeypatch.undo()
    assert calls(r.profile) == 1
    assert_next_profile_works()


def test_a_profiler_inside_record_is_refused() -> None:
    with tprofile.record() as r:
        step()
        with pytest.raises(TprofileError, match="a torch profiler was started"):
            with_block()
    assert calls(r.profile) == 1
    assert_next_profile_works()


@pytest.mark.parametrize("name", ["each", "max_seconds", "once", "warm"])
def test_record_takes_no_options_of_many_runs(name: str) -> None:
    with pytest.raises(TprofileError, match=name):
        tprofile.record(**{name: 1})


def test_a_session_that_was_prepared_and_never_started_is_cleared_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # GIVEN what torch 2.11 does while such a session stands
    real, refused = torch.profiler.profile.prepare_trace, []

    def prepare(self: Any) -> None:
        if not refused:
            refused.append(self)
            real(self)
            raise RuntimeError("Can't disable Kineto profiler when it's not running")
        real(self)

    monkeypatch.setattr(torch.profiler.profile, "prepare_trace", prepare)
    # THEN the next profile clears it and records
    assert calls(tprofile.run(step, warmup=1, repeat=2)) == 2
    assert len(refused) == 1
