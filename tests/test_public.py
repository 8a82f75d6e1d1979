"""Traces of other people's machines: B200, V100, A100, MI210 to MI300, Triton, vLLM."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from traces import PUBLIC, assert_same

import tprofile

NAMES = [
    "b200_eager", "compile_triton", "cpu_only", "mi210_gpu_only", "mi250_minitoy",
    "mi300_resnet_checkpoint", "ns_resolution", "triton_example", "vllm_decode_cuda_graph",
]  # fmt: skip
WORK = ("kernel", "gpu_memcpy", "gpu_memset")

pytestmark = pytest.mark.skipif(
    not PUBLIC.is_dir(), reason="the public traces are not part of the project"
)


@cache
def profile(name: str) -> tprofile.Profile:
    return tprofile.load(PUBLIC / f"{name}.json.gz")


@cache
def slices(name: str) -> list[dict]:
    """Return the slices of the file with exact times in nanoseconds, read without our reader."""
    text = gzip.decompress((PUBLIC / f"{name}.json.gz").read_bytes())
    events = json.loads(text, parse_float=Decimal, strict=False)["traceEvents"]
    found = [e for e in events if e.get("ph") == "X" and e.get("cat") != "Trace"]
    for e in found:
        e["start"] = int((Decimal(e["ts"]) * 1000).to_integral_value())
        e["duration"] = int((Decimal(e["dur"]) * 1000).to_integral_value())
    return found


def device_work(name: str) -> list[dict]:
    return [e for e in slices(name) if e.get("cat") in WORK and e["duration"] > 0]


def covered(spans: list[tuple[int, int]]) -> int:
    total, reach = 0, -(2**62)
    for start, end in sorted(spans):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


@pytest.mark.parametrize("name", NAMES)
def test_every_slice_is_an_event_with_its_exact_time(name: str) -> None:
    base = min(e["start"] for e in slices(name))
    wanted = sorted((e["name"], e["start"] - base, e["duration"]) for e in slices(name))
    trace = profile(name).trace
    ours = sorted(
        zip(
            trace.names[trace.name].tolist(),
            trace.start_ns.tolist(),
            trace.duration_ns.tolist(),
            strict=True,
        )
    )
    assert trace.base_ns == base
    assert ours == wanted


@pytest.mark.parametrize("name", NAMES)
def test_kernels_add_up_to_the_file(name: str) -> None:
    wanted: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for e in device_work(name):
        wanted[e["name"]][0] += 1
        wanted[e["name"]][1] += e["duration"]
    sums = profile(name).kernels.groupby("name")[["calls", "device_us"]].sum()
    ours = {n: [int(c), round(t * 1000)] for n, c, t in sums.itertuples()}
    assert ours == wanted


@pytest.mark.parametrize("name", NAMES)
def test_operators_own_no_device_time_twice(name: str) -> None:
    one = profile(name)
    if one.kernels.empty:
        assert one.operators["self_device_us"].isna().all()
        return
    has_operator = one.kernels["operator"].isin(
        one.operators.loc[~one.operators["category"].str.startswith("cuda"), "name"]
    )
    assert one.operators["self_device_us"].sum() == pytest.approx(
        one.kernels.loc[has_operator, "device_us"].sum(), abs=1e-3
    )


@pytest.mark.parametrize("name", NAMES)
def test_busy_is_the_union_of_work_by_run_and_device(name: str) -> None:
    # GIVEN all work, cut to the time of each run
    one = profile(name)
    events = one.events
    events = events[events["category"].isin(WORK) & (events["duration_us"] > 0)]
    runs = one._found.runs
    spans: dict[int, dict[int, list[tuple[int, int]]]] = {
        r: defaultdict(list) for r in one.runs["run"]
    }
    trace = one.trace
    for i, device in zip(events.index, events["device"], strict=True):
        start, end = int(trace.start_ns[i]), int(trace.end_ns[i])
        for run, opened, closed in zip(spans, runs.start_ns, runs.end_ns, strict=True):
            if start < closed and end > opened:
                spans[run][device].append((max(start, int(opened)), min(end, int(closed))))
    # THEN busy is what a naive union gives, to the nanosecond, and is not more than the sum
    for run, busy in zip(one.runs["run"], one.runs["device_busy_us"], strict=True):
        by_device = [covered(s) for s in spans[run].values()]
        if one.kernels.empty:
            assert busy != busy
        else:
            assert round(busy * 1000) == max(by_device, default=0)
    assert (one.devices["busy_fraction"].dropna() <= 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_export_loads_equal(name: str, tmp_path: Path) -> None:
    one = profile(name)
    assert_same(one, tprofile.load(one.export_trace(tmp_path / "t.json.gz")))


def test_hip_launches_are_joined_to_their_operators() -> None:
    # GIVEN a trace of an MI250, where each kernel's correlation is that of a launch
    one = profile("mi250_minitoy")
    events = one.events
    kernels = events[events["category"] == "kernel"]
    launches = events.loc[kernels["parent"]]
    # THEN each has its hipLaunchKernel, and the operator around it owns it
    assert set(launches["name"]) <= {"hipLaunchKernel", "hipExtModuleLaunchKernel"}
    assert (launches["correlation"].to_numpy() == kernels["correlation"].to_numpy()).all()
    assert one.kernels["operator"].notna().all()
    assert not one.kernels["operator"].str.startswith("hip").any()


def test_launches_without_operators_own_what_they_started() -> None:
    kernels = profile("mi210_gpu_only").kernels
    assert set(kernels["operator"]) <= {"hipLaunchKernel", "hipExtModuleLaunchKernel"}
    assert kernels["calls"].sum() == 562


def test_a_triton_kernel_belongs_to_its_operator() -> None:
    # GIVEN one kernel, launched by cuLaunchKernel with the External id of an operator
    kernel = next(e for e in slices("triton_example") if e["cat"] == "kernel")
    owner = next(
        e for e in slices("triton_example")
        if e["cat"] == "cpu_op" and e["args"]["External id"] == kernel["args"]["External id"]
    )  # fmt: skip
    kernels = profile("triton_example").kernels
    assert kernels[["name", "operator"]].to_numpy().tolist() == [[kernel["name"], owner["name"]]]


def test_kernels_of_a_graph_are_listed_under_its_launch() -> None:
    # GIVEN graph launches, each with a correlation that many kernels share
    events = slices("vllm_decode_cuda_graph")
    graphs = {e["args"]["correlation"] for e in events if "GraphLaunch" in e["name"]}
    wanted = sum(
        e["args"].get("correlation") in graphs for e in device_work("vllm_decode_cuda_graph")
    )
    kernels = profile("vllm_decode_cuda_graph").kernels
    under = kernels[kernels["operator"].astype(str).str.contains("GraphLaunch")]
    assert wanted > 400
    assert under["calls"].sum() == wanted
