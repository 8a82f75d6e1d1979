"""What only a real device can show of figures that are, or are not, to be trusted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import tprofile

HOLD = """
import ctypes, json, torch, tprofile
x = torch.randn(64, 64, device="cuda")
torch.relu(x @ x)
torch.cuda.synchronize()
(path,) = {line.split()[-1] for line in open("/proc/self/maps") if "libcupti" in line}
lib = ctypes.CDLL(path)
kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
callback, subscriber = kind(lambda *told: None), ctypes.c_void_p()
assert lib.cuptiSubscribe(ctypes.byref(subscriber), callback, None) == 0
for _ in range(2):
    profile = tprofile.run(lambda: torch.relu(x @ x))
    summary = profile.summary
    print(json.dumps([summary.verdict, summary.reason, summary.device_busy_us, str(profile)]))
"""

USE = """
import sys, torch
held = torch.zeros(1 << 20, device="cuda")
print("ready", flush=True)
sys.stdin.read()
"""


def small() -> torch.Tensor:
    x = torch.randn(64, 64, device="cuda")
    return torch.relu(x @ x)


def test_cupti_held_by_another_is_told_and_never_a_zero() -> None:
    # GIVEN a process in which another tool has subscribed to CUPTI
    ran = subprocess.run(
        [sys.executable, "-c", HOLD], capture_output=True, text=True, timeout=100, check=True
    )
    # THEN both the first profile, in which torch complains, and the second say so
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    assert len(told) == 2
    for verdict, reason, busy, text in told:
        assert verdict == "unknown"
        assert reason.startswith("torch's profiler got nothing from CUDA: another profiler")
        assert "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" in reason
        assert busy is None
        assert "Device not seen: torch's profiler got nothing" in text


def test_work_of_other_threads_belongs_to_their_operators() -> None:
    def both() -> None:
        thread = threading.Thread(target=small)
        thread.start()
        small()
        thread.join()

    both()
    profile = tprofile.run(both)
    operators = profile.operators.set_index("name")
    assert operators.loc[["aten::mm", "aten::clamp_min"], "calls"].tolist() == [6, 6]
    assert profile.kernels["operator"].str.startswith("aten::").all()
    assert operators["launched_us"].sum() == 0
    assert operators["self_device_us"].sum() == pytest.approx(profile.kernels["device_us"].sum())


def test_a_graph_is_its_launchs(tmp_path: Path) -> None:
    x = torch.randn(64, 64, device="cuda")
    torch.relu(x @ x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.relu(x @ x)
    for _ in range(3):
        # Once more after each profile: none of them may cost the next one its kernels.
        profile = tprofile.run(graph.replay)
        operators = profile.operators.set_index("name")
        launched = operators.loc["cudaGraphLaunch", "self_launched_us"]
        assert profile.kernels["calls"].sum() == 6
        assert launched == pytest.approx(profile.kernels["device_us"].sum())
        assert operators["self_device_us"].sum() == 0

    # A capture in the profiled code launches nothing, and is missed by nobody.
    def captured() -> None:
        own = torch.cuda.CUDAGraph()
        with torch.cuda.graph(own):
            torch.relu(x @ x)
        own.replay()

    told = tprofile.run(captured).summary.warnings
    assert not [w for w in told if "without" in w]


def test_a_backward_pass_is_tied_to_its_forward() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda()
    data = torch.randn(32, 64, device="cuda")
    profile = tprofile.run(lambda: model(data).sum().backward(), repeat=2)
    events = profile.events
    names = events["name"].to_numpy()
    tied = events[events["forward"] >= 0]
    kernels = tied[tied["category"] == "kernel"]
    ties = set(zip(tied["name"], names[tied["forward"]], strict=True))
    assert {
        ("AddmmBackward0", "aten::addmm"),
        ("ReluBackward0", "aten::relu"),
        ("SumBackward0", "aten::sum"),
    } <= ties
    # What a node launches belongs to it, and nothing of a forward pass to another one.
    assert len(kernels) > 0
    assert {names[row] for row in kernels["forward"]} <= {name for _, name in ties}
    assert not [name for name, _ in ties if name in ("aten::addmm", "aten::linear")]


def test_profiles_of_this_process_are_counted() -> None:
    one = tprofile.run(small).summary.earlier_profiles
    assert one is not None
    assert tprofile.run(small).summary.earlier_profiles == one + 1
    assert tprofile.run(small, cpu=True).summary.earlier_profiles == one + 2


def test_torchs_own_profile_takes_nothing_from_the_next() -> None:
    for _ in range(2):
        with torch.profiler.profile():
            small()
            torch.cuda.synchronize()
        assert tprofile.run(small).kernels["calls"].sum() == 9


def test_another_process_on_the_device_is_named() -> None:
    pytest.importorskip("pynvml")
    alone = tprofile.run(small).summary.warnings
    assert not [w for w in alone if "other process" in w]
    with subprocess.Popen(
        [sys.executable, "-c", USE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        told = tprofile.run(small).summary.warnings
        other.communicate("")
    assert [w for w in told if "other process" in w] == [
        f"1 other process uses CUDA 0 (pid {other.pid}): what it does there is in no figure, and "
        "makes times longer"
    ]
    assert os.getpid() != other.pid


def test_clocks_held_down_by_the_power_limit_are_told() -> None:
    pytest.importorskip("pynvml")
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def heavy() -> None:
        for _ in range(300):
            x @ x

    told = [w for w in tprofile.run(heavy, repeat=1).summary.warnings if "held down" in w]
    # Which limit it meets is the machine's affair; that it meets none can be too.
    if not told:
        pytest.skip("this device keeps its clocks under full load")
    assert all(w.startswith("the clocks of CUDA 0 were held down by ") for w in told)


def test_every_launch_of_a_sound_recording_has_its_work() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda()
    data = torch.randn(32, 64)

    def step() -> None:
        model(data.cuda(non_blocking=True)).sum().backward()

    told = tprofile.run(step, warmup=5).summary.warnings
    assert not [w for w in told if "launch" in w or "overlap" in w]
