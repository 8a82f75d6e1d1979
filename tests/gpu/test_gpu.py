"""What the recorder does on a real device: recording, attribution, and what it must not leave."""

from __future__ import annotations

import gc
import gzip
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from by_hand import hand_profiled

import tprofile
from tprofile.analysis.strip import KINDS
from tprofile.intervals import union
from tprofile.trace.live import _category

FRAMES = ("operators", "kernels", "runs", "devices", "events")


def matmul_add(n: int) -> Callable[[], torch.Tensor]:
    x, w, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    return lambda: torch.add(torch.matmul(x, w), b)


def training_step() -> Callable[[], None]:
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(32, 64)

    def step() -> None:
        optimizer.zero_grad()
        moved = data.cuda()
        with torch.profiler.record_function('fwd "quoted"\n\\ <b>名前</b>'):
            loss = torch.nn.functional.mse_loss(model(moved), moved)
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def test_busy_fraction_tells_overhead_bound_from_compute_bound() -> None:
    small = tprofile.run(matmul_add(64)).summary
    large = tprofile.run(matmul_add(4096)).summary
    # A single run of the large one also holds the way to its first kernel and back from its last.
    assert small.device_busy_fraction < 0.25
    assert large.device_busy_fraction > 0.5
    assert small.wall_source == large.wall_source == "unprofiled"
    assert small.launches == large.launches == 2
    assert small.device_names == (torch.cuda.get_device_name(0),)


def test_operators_and_kernels_of_the_seed_example() -> None:
    profile = tprofile.run(matmul_add(64))
    operators = profile.operators.set_index("name")
    # Neither our marks nor our synchronise are rows of the user's.
    assert not [n for n in operators.index if n.startswith("tprofile::")]
    assert "cudaDeviceSynchronize" not in operators.index
    assert operators.loc[["aten::matmul", "aten::mm", "aten::add"], "calls"].tolist() == [3, 3, 3]
    kernels = profile.kernels
    assert set(kernels["operator"]) == {"aten::mm", "aten::add"}
    assert kernels["calls"].sum() == 6
    assert kernels["grid"].notna().all()
    assert kernels["block"].notna().all()
    for name in ("aten::mm", "aten::add"):
        mine = kernels.loc[kernels["operator"] == name, "device_us"].sum()
        assert operators.loc[name, "self_device_us"] == pytest.approx(mine, abs=1e-6)
    assert operators.loc["aten::matmul", "self_device_us"] == 0
    assert operators.loc["aten::matmul", "device_us"] == operators.loc["aten::mm", "device_us"]


def test_cold_run_is_profiled_as_it_comes() -> None:
    profile = tprofile.run(matmul_add(192), warmup=0, repeat=1)
    assert profile.summary.wall_source == "profiled"
    assert profile.summary.first_run_us is None
    assert profile.kernels["calls"].sum() == 2


def test_frames_survive_the_file(tmp_path: Path) -> None:
    profile = tprofile.run(training_step())
    loaded = tprofile.load(profile.export_trace(tmp_path / "step.json.gz"))
    for frame in FRAMES:
        pd.testing.assert_frame_equal(
            getattr(loaded, frame), getattr(profile, frame), check_exact=True
        )
    pd.testing.assert_frame_equal(
        loaded.operators_by("shape"), profile.operators_by("shape"), check_exact=True
    )
    assert loaded.summary == profile.summary
    assert 'fwd "quoted"\n\\ <b>名前</b>' in loaded.operators["name"].tolist()


def test_tables_equal_those_of_torch() -> None:
    profile = hand_profiled(training_step(), record_shapes=True)
    mine = tprofile.load(profile)
    operators = mine.operators
    # torch counts kernels under the profiler's own overhead rows; those are not the user's.
    theirs = [
        row
        for row in profile.key_averages()
        if row.device_type == torch.autograd.DeviceType.CPU and row.key not in OVERHEAD
    ]
    assert len(theirs) == (operators["category"] != "overhead").sum()
    for row in theirs:
        annotation = operators["category"] == "user_annotation"
        (found,) = operators[
            (operators["name"] == row.key) & (annotation == row.is_user_annotation)
        ].to_dict("records")
        assert found["calls"] == row.count, row.key
        assert found["self_cpu_us"] == pytest.approx(row.self_cpu_time_total, abs=0.01), row.key
        assert found["self_device_us"] == pytest.approx(row.self_device_time_total, abs=0.01)
        if row.key not in inside_themselves(profile):
            assert found["cpu_us"] == pytest.approx(row.cpu_time_total, abs=0.01), row.key
            assert found["device_us"] == pytest.approx(device_total(profile, row.key), abs=0.01)
    work = {
        row.key: (row.count, row.self_device_time_total)
        for row in profile.key_averages()
        if row.device_type != torch.autograd.DeviceType.CPU and not row.is_user_annotation
    }
    kernels = mine.kernels.groupby("name")[["calls", "device_us"]].sum()
    assert set(kernels.index) == set(work)
    for name, (calls, time) in work.items():
        assert kernels.loc[name, "calls"] == calls
        assert kernels.loc[name, "device_us"] == pytest.approx(time, abs=0.01)


def device_total(profile: torch.profiler.profile, name: str) -> float:
    """Return the device time under torch's events of a name, without what overhead rows repeat."""

    def under(event: Any) -> float:
        if event.name in OVERHEAD:
            return 0.0
        return sum(k.duration for k in event.kernels) + sum(map(under, event.cpu_children))

    host = torch.autograd.DeviceType.CPU
    return sum(under(e) for e in profile.events() if e.name == name and e.device_type == host)


def inside_themselves(profile: torch.profiler.profile) -> set[str]:
    """Return names whose totals torch's table counts more than once."""
    found = set()
    for event in profile.events():
        above = event.cpu_parent
        while above is not None:
            if above.name == event.name:
                found.add(event.name)
            above = above.cpu_parent
    return found


OVERHEAD = {
    "Activity Buffer Request",
    "Lazy Function Loading",
    "Runtime Triggered Module Loading",
    "Command Buffer Full",
    "Instrumentation",
    "Resource",
}


def test_memory_and_file_give_the_same_categories(tmp_path: Path) -> None:
    # GIVEN one recording, read from memory and as torch itself writes it
    step = training_step()
    profile = hand_profiled(lambda: (step(), torch.zeros(8, device="cuda"))[1], record_shapes=True)
    live = tprofile.load(profile).events
    profile.export_chrome_trace(path := str(tmp_path / "torch.json"))
    filed = tprofile.load(path).events
    # THEN every event has the same category, place and ids; Kineto draws an annotation's shadow a
    # nanosecond wider, and does not write whose overhead it was
    columns = ["category", "duration_us", "thread", "device", "stream", "correlation"]
    apart = ["overhead", "gpu_user_annotation"]
    pd.testing.assert_frame_equal(
        live[~live["category"].isin(apart)][columns].reset_index(drop=True),
        filed[~filed["category"].isin(apart)][columns].reset_index(drop=True),
        check_exact=True,
    )
    assert live["category"].value_counts().to_dict() == filed["category"].value_counts().to_dict()
    assert {"kernel", "gpu_memcpy", "cuda_runtime", "cpu_op", "user_annotation"} <= set(
        live["category"]
    )
    assert _category("Memset (Device)", False, False, False, 0, 3) == "gpu_memset"


def test_nothing_of_the_user_is_kept_alive() -> None:
    step = matmul_add(512)
    # What other tests left behind is not to be let go in between.
    gc.collect()
    before = torch.cuda.memory_allocated()
    results: list[weakref.ref[torch.Tensor]] = []

    def run() -> None:
        made = step()
        results.append(weakref.ref(made))

    profile = tprofile.run(run)
    gc.collect()
    assert len(profile.kernels) > 0
    assert [ref() for ref in results] == [None] * 7
    assert torch.cuda.memory_allocated() == before


def test_cuda_graph_kernels_stand_under_their_launch() -> None:
    x = torch.randn(64, 64, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            torch.relu(x @ x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x
        for _ in range(10):
            y = torch.relu(y @ x)
    profile = tprofile.run(graph.replay)
    assert set(profile.kernels["operator"]) == {"cudaGraphLaunch"}
    assert profile.kernels["calls"].sum() == 3 * 20
    assert profile.runs["launches"].tolist() == [1, 1, 1]
    # THEN the call's row has the time, and no launch is in doubt
    operators = profile.operators.set_index("name")
    times = operators.loc["cudaGraphLaunch", ["self_launched_us", "launched_us"]].tolist()
    assert times == [pytest.approx(profile.kernels["device_us"].sum())] * 2
    assert not any("launch" in warning for warning in profile.summary.warnings)


def test_streams_count_once_in_busy_time() -> None:
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    streams = [torch.cuda.Stream() for _ in range(2)]

    def step() -> None:
        for stream in streams:
            with torch.cuda.stream(stream):
                x @ x

    profile = tprofile.run(step)
    run_us = profile.runs["device_busy_us"].sum()
    assert profile.kernels["stream"].nunique() == 2
    assert run_us <= profile.kernels["device_us"].sum()
    assert (profile.runs["device_busy_us"] <= profile.runs["wall_us"]).all()


def test_the_strip_is_of_the_run() -> None:
    profile = tprofile.run(training_step())
    strip = profile.strip
    assert strip is not None
    kinds = [KINDS[kind] for kind in strip.kind]
    device = np.isin(kinds, ["kernel", "copy"])
    # THEN the work of the device is that of the run, and each kernel comes after its launch
    row = profile.runs.iloc[strip.run - 1]
    assert strip.wall_us == row["wall_us"]
    covered = union(
        np.zeros(device.sum(), np.int64),
        np.rint(strip.start_us[device] * 1000).astype(np.int64),
        np.rint((strip.start_us + strip.duration_us)[device] * 1000).astype(np.int64),
        1,
    )
    assert covered[0] / 1000 == row["device_busy_us"]
    launch = strip.launch[device]
    assert (launch >= 0).all()
    # What copies a value to the host launches the copy, and waits for it in the same call.
    assert set(np.array(kinds)[launch].tolist()) <= {"call", "wait"}
    assert (strip.start_us[launch] <= strip.start_us[device]).all()
    # AND the backward pass has a lane of its own
    lanes = [lane.kind for lane in strip.lanes]
    assert lanes == ["cpu", "cpu", "device"]


def test_cpu_only_leaves_the_device_unmeasured() -> None:
    profile = tprofile.run(matmul_add(64), cpu=True)
    assert profile.summary.device_busy_us is None
    assert profile.operators["self_device_us"].isna().all()
    assert profile.summary.reason == "only the CPU was recorded"


def test_error_keeps_what_was_measured_and_the_next_profile_works() -> None:
    step = matmul_add(64)

    def fails() -> None:
        step()
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        tprofile.run(fails, once=True)
    partial = tprofile.last()
    assert partial is not None
    assert partial.kernels["calls"].sum() == 2
    assert tprofile.run(step).kernels["calls"].sum() == 6


def test_record_in_a_loop() -> None:
    step = training_step()
    step()
    calls = []
    for _ in range(3):
        with tprofile.record() as recorded:
            step()
        calls.append(recorded.profile.kernels["calls"].sum())
    assert calls[0] > 10
    assert calls == [calls[0]] * 3


def test_file_is_what_kineto_readers_expect(tmp_path: Path) -> None:
    path = tprofile.run(training_step()).export_trace(tmp_path / "t.json.gz")
    written = json.loads(gzip.decompress(Path(path).read_bytes()))
    assert written["deviceProperties"][0]["name"] == torch.cuda.get_device_name(0)
    kernels = [e for e in written["traceEvents"] if e.get("cat") == "kernel"]
    assert kernels
    for kernel in kernels:
        assert {"External id", "correlation", "stream", "device", "grid"} <= set(kernel["args"])
        assert kernel["pid"] == kernel["args"]["device"]
