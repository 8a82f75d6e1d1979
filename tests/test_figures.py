"""The sentence, the five figures, and why one of them is missing."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from cells import ROUGH, SMALL, SYNC, cell, given
from traces import DATA, RECORDED, call, note, op, profile, recorded, work

import tprofile
from tprofile.analysis.finding import KINDS
from tprofile.analysis.verdict import VERDICTS
from tprofile.views import findings
from tprofile.views.figures import TONES, Headline, answer, details, figures, headline, reason

RUN = "tprofile::run"
KEYS = ["wall", "busy", "launches", "overhead", "first"]


def told(one: tprofile.Profile) -> dict[str, tuple[str, str]]:
    found = figures(one)
    assert [figure.key for figure in found] == KEYS
    return {figure.key: (figure.value, figure.label) for figure in found}


def measured(*, busy: float = 590, devices: int = 1, **recorded_: Any) -> tprofile.Profile:
    """Return a profiled run of 2250 µs in which devices work, device 1 half as long as device 0."""
    events = [note(RUN, 0, 2250, 1), op("a", 1, 900, 2)]
    events += [work("k", 10, busy / (i + 1), 0, 2, device=i) for i in range(devices)]
    known = {"profiled": 1, "platform": "CUDA", "warmup_s": [0.182, 1.52e-3, 1.54e-3, 1.55e-3]}
    return profile(*events, recorded={**known, **recorded_})


def test_all_is_measured() -> None:
    one = measured()
    text = "the GPU works 0.59 ms of a 1.54 ms run"
    assert headline(one) == Headline("Python-bound", text, "wait")
    assert details(one) == ["5 runs: 4 warm-up, 1 profiled · CUDA 0"]
    assert told(one) == {
        "wall": ("1.54 ms", "per run, not profiled, ±1.0 %"),
        "busy": ("38.3 %", "CUDA 0 busy"),
        "launches": ("1", "launch per run, median kernel 590 µs"),
        "overhead": ("1.46×", "slower under the profiler"),
        "first": ("182 ms", "first run, not profiled"),
    }


def test_of_a_recorded_trace() -> None:
    one = recorded("item_in_loop")
    text = "the GPU works 0.59 ms of a 2.10 ms run"
    assert headline(one) == Headline("Sync-bound", text, "wait")
    assert reason(one) == one.summary.reason
    assert details(one) == ["3 runs, by the ProfilerStep marks of the trace · CUDA 0 (NVIDIA H200)"]
    assert told(one) == {
        "wall": ("2.10 ms", "per run, under the profiler"),
        "busy": ("28.2 %", "CUDA 0 busy"),
        "launches": ("90", "launches per run, median kernel 4.83 µs"),
        "overhead": ("–", "slower under the profiler: no unprofiled run"),
        "first": ("–", "first run: no warm-up was recorded"),
    }


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_trace_has_its_two_numbers(name: str) -> None:
    one = recorded(name)
    found = headline(one)
    if name == "two_threads":
        # What its threads did is not in the record.
        assert found == Headline("Cause unknown", "a run takes 1.11 ms")
        return
    assert found.lead is not None
    assert found.lead.lower() == one.summary.verdict
    assert found.tone == TONES[one.summary.verdict]
    assert found.text.startswith("the GPU works ")
    figure = told(one)
    assert found.text.endswith(f" of a {figure['wall'][0]} run")
    assert [figure[key][0] == "–" for key in KEYS] == [False] * 3 + [True] * 2


def test_of_several_devices_the_busiest() -> None:
    one = measured(devices=2)
    assert headline(one).text == "the busiest of 2 GPUs works 0.59 ms of a 1.54 ms run"
    assert told(one)["busy"] == ("38.3 %", "busiest of 2 GPUs busy")
    assert details(one)[1:] == [
        "CUDA 0 busy 590 µs of each run, 38.3 %", "CUDA 1 busy 295 µs of each run, 19.2 %",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("platform", "word"), [("CUDA", "GPU"), ("HIP", "GPU"), ("XPU", "XPU"), ("\u202eX", r"\u202eX")]
)
def test_what_a_person_calls_a_device(platform: str, word: str) -> None:
    one = measured(platform=platform, devices=3)
    assert headline(one).text.startswith(f"the busiest of 3 {word}s works ")
    assert told(one)["busy"][1] == f"busiest of 3 {word}s busy"
    assert told(measured(platform=platform))["busy"][1].endswith("X 0 busy") == (word[-1] == "X")


def test_a_device_that_is_busier_than_a_run_is_long() -> None:
    one = measured(busy=1600)
    assert headline(one).text == "the GPU works all of a 1.54 ms run"
    assert told(one)["busy"] == ("100.0 %", "CUDA 0 busy")


def test_copies_without_kernels() -> None:
    one = profile(op("a", 0, 9, 1), work("Memset", 3, 2, 0, 1, cat="gpu_memset"))
    assert told(one)["launches"] == ("0", "launches per run, no kernels")


@pytest.mark.parametrize(
    ("warmup_us", "figure"),
    [
        (1125, ("2.00×", "slower under the profiler")),
        (2250 / 1.006, ("1.01×", "slower under the profiler")),
        (2250 / 1.004, ("1.00×", "the unprofiled time, under the profiler")),
        (2250, ("1.00×", "the unprofiled time, under the profiler")),
        (2250 / 0.996, ("1.00×", "the unprofiled time, under the profiler")),
        (2500, ("0.90×", "of the unprofiled time, under the profiler")),
        (0, ("–", "slower under the profiler: the run was too short for the clock")),
    ],
)
def test_overhead(warmup_us: float, figure: tuple[str, str]) -> None:
    one = measured(warmup_s=[1.0, *[warmup_us / 1e6] * 2])
    assert told(one)["overhead"] == figure


def test_a_run_too_short_for_the_clock() -> None:
    one = measured(warmup_s=[0.0] * 4)
    one = given(one, verdict=None)
    assert headline(one) == Headline(None, "the GPU works 590 µs of each run")
    assert told(one) == {
        "wall": ("0.00 µs", "per run, not profiled"),
        "busy": ("–", "GPU busy: the run was too short for the clock"),
        "launches": ("1", "launch per run, median kernel 590 µs"),
        "overhead": ("–", "slower under the profiler: the run was too short for the clock"),
        "first": ("0.00 µs", "first run, not profiled"),
    }


def test_without_a_warm_up() -> None:
    one = measured(warmup_s=[])
    assert headline(one).text == "the GPU works 0.59 ms of a 2.25 ms run"
    figure = told(one)
    assert figure["wall"] == ("2.25 ms", "per run, under the profiler")
    assert figure["overhead"] == ("–", "slower under the profiler: no unprofiled run")
    assert figure["first"] == ("–", "first run: no warm-up")
    # One run alone is the first, and no wall.
    first = told(measured(warmup_s=[0.5]))
    assert first["first"] == ("500 ms", "first run, not profiled")
    assert first["overhead"] == ("–", "slower under the profiler: no unprofiled run but the first")


@pytest.mark.parametrize(
    ("recorded_", "why"),
    [
        ({"platform": "CPU", "cuda_available": False}, "torch sees no CUDA device here"),
        ({"platform": "CPU", "cuda_available": True}, "only the CPU was recorded"),
        ({}, "no device work was recorded"),
    ],
)
def test_cpu_only(recorded_: dict[str, Any], why: str) -> None:
    one = profile(note(RUN, 0, 1540, 1), op("a", 1, 9), recorded={"profiled": 1, **recorded_})
    assert headline(one) == Headline("CPU only", "a run takes 1.54 ms", "cpu")
    assert reason(one) == why
    assert details(one) == ["1 run, profiled, no warm-up"]
    # AND a text, which has the wall among its figures, says why in its place
    assert answer(one) == [f"CPU only: {why}"]
    assert told(one) == {
        "wall": ("1.54 ms", "per run, under the profiler"),
        "busy": ("–", f"GPU busy: {why}"),
        "launches": ("–", f"launches: {why}"),
        "overhead": ("–", "slower under the profiler: no unprofiled run"),
        "first": ("–", "first run: no warm-up"),
    }


def test_no_operator() -> None:
    one = profile(note(RUN, 0, 10), recorded={"profiled": 1})
    assert details(one) == ["1 run, profiled, no warm-up", "no torch operator was recorded"]


STOPPED = {
    "warmup_s": [3e-3, 2e-3], "profiled": 0, "platform": "CUDA",
    "stopped": {"by": "KeyboardInterrupt", "during": "profiled run 1 of 3"},
}  # fmt: skip


def test_stopped_in_the_only_run() -> None:
    one = profile(note(RUN, 0, 20, 1), op("a", 5, 10, 2), work("k", 6, 5, 0, 2), recorded=STOPPED)
    assert headline(one) == Headline("Stopped", "by KeyboardInterrupt in profiled run 1 of 3")
    assert reason(one) is None
    assert answer(given(one)) == ["Stopped by KeyboardInterrupt in profiled run 1 of 3"]
    assert details(one) == [
        "2 runs: 2 warm-up; stopped by KeyboardInterrupt in profiled run 1 of 3",
        "the tables are of the run that was stopped, up to there",
    ]
    # THEN what was measured before is a figure, and nothing per run
    assert told(one) == {
        "wall": ("2.00 ms", "per run, not profiled"),
        "busy": ("–", "GPU busy: the run was stopped"),
        "launches": ("–", "launches: the run was stopped"),
        "overhead": ("–", "slower under the profiler: the run was stopped"),
        "first": ("3.00 ms", "first run, not profiled"),
    }
    alone = profile(note(RUN, 0, 20, 1), work("k", 6, 5), recorded={**STOPPED, "warmup_s": []})
    assert told(alone)["wall"] == ("–", "time of a run: the run was stopped")


def test_stopped_after_a_run_that_counts() -> None:
    one = measured(stopped={"by": "ValueError", "during": "profiled run 2 of 3"})
    assert headline(one).lead == "Python-bound"
    assert "; stopped by ValueError in profiled run 2 of 3" in details(one)[0]


def test_stopped_by_nobody_knows_what() -> None:
    one = profile(note(RUN, 0, 20), op("a", 5, 10), recorded={"profiled": 0})
    assert headline(one) == Headline("Stopped", "before the first profiled run was over")


def test_stopped_ahead_of_all_that_is_profiled() -> None:
    one = profile(recorded={**STOPPED, "stopped": {"by": "E\n", "during": "warm-up run 3 of 4"}})
    assert headline(one) == Headline("Stopped", r"by E\n in warm-up run 3 of 4")
    assert told(one)["busy"] == ("–", "GPU busy: nothing was profiled")
    assert told(one)["first"] == ("3.00 ms", "first run, not profiled")


def test_nothing() -> None:
    one = profile()
    assert headline(one) == Headline(None, "nothing was profiled")
    assert details(one) == ["no runs: the trace is empty"]
    assert told(one) == {
        "wall": ("–", "time of a run: nothing was profiled"),
        "busy": ("–", "GPU busy: nothing was profiled"),
        "launches": ("–", "launches: nothing was profiled"),
        "overhead": ("–", "slower under the profiler: nothing was profiled"),
        "first": ("–", "first run: no warm-up was recorded"),
    }


def test_hidden_characters_of_a_trace_are_shown() -> None:
    one = profile(
        op("a", 0, 10, 1), work("k", 2, 3, 0, 1), deviceProperties=[{"id": 0, "name": "x\x1b[1m"}]
    )
    assert details(one)[0] == r"1 run: the whole trace · CUDA 0 (x\x1b[1m)"
    assert answer(given(one, verdict="sync-bound", reason="\x1b[1m"))[1] == r"\x1b[1m"


def test_a_small_part_keeps_its_own_unit() -> None:
    # In the unit of the wall it would have no digits left.
    assert headline(measured(busy=20)).text == "the GPU works 20.0 µs of a 1.54 ms run"
    assert headline(measured(busy=200)).text == "the GPU works 0.20 ms of a 1.54 ms run"


CONTAINED = "the tables contain the first run"


def test_what_start_up_cost() -> None:
    assert details(recorded("cold_matmul_add_64"))[1:] == [
        "first recorded run 181 ms, later ones 361 µs: start-up 180 ms, of it 107 ms unnamed "
        "inside operators (library handles, first use), 59.9 ms loading kernels, "
        "5.45 ms slow first runtime calls"
    ]
    compiled = tprofile.load(DATA / "startup" / "cold_compile.json.gz")
    assert details(compiled)[1:] == [
        "first run 17.2 s, later ones 46.1 µs to 112 µs: start-up 17.2 s, of it 17.2 s compilation",
        CONTAINED,
    ]


def cold(first: float, *events: dict[str, Any], runs: int = 2, **recorded_: Any) -> list[str]:
    """Return what is said of the start-up of a run of so many µs, and later ones of 100."""
    marks = [note(RUN, 5000 * i, 100 if i else first) for i in range(runs)]
    marks += [op("a", 5000 * i + 1, 2) for i in range(runs)]
    known = {"asked_warmup": 0, "profiled": runs, "platform": "CPU", **recorded_}
    one = profile(*marks, *events, recorded=known)
    return details(one)[1:]


def test_start_up_in_words() -> None:
    load = call("cuModuleLoad", 10, 40, 1)
    assert cold(150, load) == [
        "first run 150 µs, later ones 100 µs: start-up 50.0 µs, of it 40.0 µs loading kernels",
        CONTAINED,
    ]
    # A first run that was no longer than the others paid for it all the same.
    assert cold(90, load) == [
        "first run 90.0 µs, later ones 100 µs: start-up 40.0 µs, of it 40.0 µs loading kernels",
        CONTAINED,
    ]
    assert cold(150, load, runs=1) == ["only run 150 µs: start-up 40.0 µs loading kernels"]
    assert cold(150, runs=1) == []
    assert cold(110) == ["first run 110 µs, later ones 100 µs: no start-up to speak of", CONTAINED]
    assert cold(150, load, asked_warmup=3) == []
    stopped = {"by": "ValueError", "during": "profiled run 1 of 3"}
    assert cold(150, load, runs=1, profiled=0, stopped=stopped)[1:] == []


def test_start_up_that_nothing_explains() -> None:
    # GIVEN a device that was slow the first time, while we waited for it
    wait = op("tprofile::synchronize", 10, 480)
    assert cold(500, wait) == [
        "first run 500 µs, later ones 100 µs: what start-up cost is not in the trace",
        CONTAINED,
    ]


def starts(*walls: float, **recorded_: Any) -> tprofile.Profile:
    marks = [note(RUN, 5000 * i, wall) for i, wall in enumerate(walls)]
    ops = [op("a", 5000 * i + 1, 2) for i in range(len(walls))]
    known = {"asked_warmup": 0, "profiled": len(walls), "platform": "CPU", **recorded_}
    return profile(*marks, *ops, recorded=known)


def test_the_figures_of_a_cold_profile_are_of_the_runs_after_the_first() -> None:
    one = starts(900, 470, 458)
    assert headline(one) == Headline("CPU only", "a run takes 464 µs", "cpu")
    figure = told(one)
    assert figure["wall"] == ("464 µs", "per run after the first, under the profiler")
    assert figure["first"] == ("900 µs", "first run, profiled")
    assert figure["overhead"] == ("–", "slower under the profiler: no unprofiled run")
    assert details(one)[-1] == CONTAINED
    # BUT of a single run, or after a warm-up, as ever
    for other in (starts(900), starts(900, 470, 458, asked_warmup=3)):
        assert told(other)["wall"][1] == "per run, under the profiler"
        assert told(other)["first"] == ("–", "first run: no warm-up")
        assert CONTAINED not in details(other)
    # AND walls that were given are no runs after a first
    given = told(starts(900, 470, 458, unprofiled_s=[3e-4]))
    assert given["wall"] == ("300 µs", "per run, not profiled")


ALONE = "with memory, torch records the cell's own thread and those of autograd alone"


def test_what_memory_tells_and_what_it_costs() -> None:
    def said(*totals: int | None, memory: bool = True) -> list[str]:
        """Return what is said of allocations of 64 bytes on a device, with these totals after."""
        events = [note(RUN, 0, 100), op("a", 1, 90)]
        for i, total in enumerate(totals):
            args = {"Device Type": 1, "Device Id": 0, "Bytes": 64}
            args |= {} if total is None else {"Total Allocated": total, "Total Reserved": 4096}
            events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100,
                           "tid": 1, "ts": 5 + i, "s": "t", "args": args})  # fmt: skip
        one = profile(*events, recorded={"profiled": 1, "memory": memory or None})
        lines = details(one)
        assert lines[0] == "1 run, profiled, no warm-up"
        return lines[1:]

    assert said(2048) == ["at most 2.00 KiB of device memory allocated in a run", ALONE]
    assert said() == ["no device memory was allocated", ALONE]
    assert said(None) == ["the peak of device memory is not known", ALONE]
    # Another program's threads are not known.
    assert said(2048, memory=False) == ["at most 2.00 KiB of device memory allocated in a run"]
    assert said(memory=False) == []


def test_every_verdict_has_words_and_a_colour() -> None:
    assert set(TONES) == set(VERDICTS) - {"unknown"}
    for verdict in VERDICTS[:6]:
        found = headline(given(measured(), verdict=verdict))
        assert found == Headline(
            verdict.capitalize(), "the GPU works 0.59 ms of a 1.54 ms run", TONES[verdict]
        )
        assert found.sentence == f"{verdict.capitalize()}: {found.text}"
    # AND one that is not known has neither figures nor a colour
    unknown = given(measured(), verdict="unknown", reason="the record lacks work")
    assert headline(unknown) == Headline("Cause unknown", "a run takes 1.54 ms")
    assert answer(unknown) == ["Cause unknown: the record lacks work"]
    unseen = given(profile(op("a", 1, 9)), verdict="unknown", reason="it bears no times")
    assert headline(unseen).lead == "Device not seen"
    assert set(findings.TONES) < set(KINDS)
    assert set(findings.TONES.values()) == set(TONES.values())


def test_the_answer_says_why_and_what_to_look_at_first() -> None:
    one = given(cell(), SYNC, SMALL, verdict="sync-bound", reason="the GPU is idle 58 % of a run")
    assert answer(one) == [
        "Sync-bound: the GPU works 21.0 µs of a 50.0 µs run",
        "the GPU is idle 58 % of a run",
        "most to gain: 3 waits for the GPU (line 6 · aten::item → cudaStreamSynchronize), "
        "up to 24.0 µs of each run",
    ]
    assert answer(given(one, ROUGH))[2:] == ["found: the profiler slows this code"]
    assert answer(given(one))[2:] == []
    # AND a gain is told in the unit of the wall, of which it is a part
    assert findings.gain(measured(), SYNC) == "up to 24.0 µs of each run"
    large = given(measured(), wall_us=2e3)
    assert findings.gain(large, ROUGH) is None
    for gain_us, said in ((240.0, "0.24 ms"), (2400.0, "2.40 ms"), (0.5, "500 ns")):
        told = findings.gain(large, dataclasses.replace(SYNC, gain_us=gain_us))
        assert told == f"up to {said} of each run"
