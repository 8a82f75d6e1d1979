"""What is said of a device's memory, against what torch itself says of it, to the byte."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from by_hand import hand_profiled

import tprofile
from tprofile.analysis import memory


def training_step() -> Callable[[], None]:
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(1000, 64)

    def step() -> None:
        optimizer.zero_grad()
        moved = data.cuda()
        with torch.profiler.record_function("forward"):
            loss = torch.nn.functional.mse_loss(model(moved), moved)
        loss.backward()
        optimizer.step()

    return step


def test_the_peak_of_each_run_is_that_of_torch(tmp_path: Path) -> None:
    # GIVEN runs of which each has a peak of its own, on top of what is there all along
    step, kept = training_step(), torch.ones(3_000_000, device="cuda")
    peaks: list[int] = []
    levels: list[list[int]] = []

    def run() -> None:
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.empty(1_000_000 * (1 + len(peaks)), device="cuda")
        peaks.append(torch.cuda.max_memory_allocated())
        levels.append([torch.cuda.memory_allocated(), torch.cuda.memory_reserved()])

    profile = tprofile.run(run, memory=True)
    assert kept.nbytes < peaks[-3] < peaks[-2] < peaks[-1]
    assert profile.runs["peak_device_bytes"].tolist() == peaks[-3:]
    assert profile.summary.peak_device_bytes == statistics.median(peaks[-3:])
    # AND the last change of a run leaves what torch says is there at its end
    last = profile.memory.query("run > 0").groupby("run")[["allocated_bytes", "reserved_bytes"]]
    assert last.last().to_numpy().tolist() == levels[-3:]
    assert set(profile.memory["device"]) == {torch.cuda.current_device()}
    # AND every change is explained, and kept in the file
    assert memory.warnings(profile._found) == []
    loaded = tprofile.load(profile.export_trace(tmp_path / "t.json.gz"))
    for frame in ("memory", "operators", "runs"):
        pd.testing.assert_frame_equal(
            getattr(loaded, frame), getattr(profile, frame), check_exact=True
        )
    assert loaded.summary == profile.summary


def test_a_run_that_begins_with_a_release_has_the_level_before_it() -> None:
    peaks: list[int] = []
    held: list[torch.Tensor] = []

    def run() -> None:
        torch.cuda.reset_peak_memory_stats()
        held.clear()
        torch.ones(10, device="cuda")
        peaks.append(torch.cuda.max_memory_allocated())

    profile = tprofile.run(
        run, each=lambda: held.append(torch.ones(5_000_000, device="cuda")), memory=True
    )
    assert min(peaks) > 20_000_000
    assert profile.runs["peak_device_bytes"].tolist() == peaks[-3:]


def test_bytes_of_operators_are_those_of_torch() -> None:
    profile = hand_profiled(training_step(), profile_memory=True)
    mine = tprofile.load(profile)
    # The profiler's own overhead is no operator, and allocates nothing.
    frame = mine.operators.query("category != 'overhead'")
    annotation = frame["category"] == "user_annotation"
    ours = {
        (name, is_annotation): [device, host]
        for name, is_annotation, device, host in zip(
            frame["name"],
            annotation,
            frame["self_device_bytes"],
            frame["self_cpu_bytes"],
            strict=True,
        )
    }
    theirs = {
        (row.key, row.is_user_annotation): [
            row.self_device_memory_usage,
            row.self_cpu_memory_usage,
        ]
        for row in profile.key_averages()
        if row.device_type == torch.autograd.DeviceType.CPU
    }
    assert ours == {key: theirs[key] for key in ours}
    assert ours["aten::addmm", False][0] > 0
    assert mine.operators["self_device_bytes"].sum() == frame["self_device_bytes"].sum()
    # AND what is released outside of all operators is torch's row of that name
    (outside,) = (row for row in profile.key_averages() if row.key == "[memory]")
    unowned = mine.memory[mine.memory["operator"].isna()]
    assert unowned["bytes"].sum() == outside.self_device_memory_usage < 0


def test_memory_and_file_give_the_same_changes(tmp_path: Path) -> None:
    # GIVEN one recording, read from memory and as torch itself writes it
    profile = hand_profiled(training_step(), profile_memory=True)
    live = tprofile.load(profile).memory
    profile.export_chrome_trace(path := str(tmp_path / "torch.json"))
    filed = tprofile.load(path).memory
    assert len(live) > 30
    assert live.notna()[["allocated_bytes", "reserved_bytes"]].all(axis=None)
    pd.testing.assert_frame_equal(
        live.drop(columns="time_us"), filed.drop(columns="time_us"), check_exact=True
    )


def test_an_allocation_that_fails_is_told() -> None:
    def run() -> None:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**46, device="cuda")
        torch.ones(10, device="cuda")

    profile = tprofile.run(run, memory=True)
    (told,) = memory.warnings(profile._found)
    # How large they were, only torch 2.13 and later tell.
    assert told.startswith("3 allocations failed for want of memory on device 0")
    assert profile.memory.query("run > 0")["bytes"].tolist() == [512, -512] * 3
