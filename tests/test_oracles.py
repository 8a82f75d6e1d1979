"""The tables against torch's own, for the traces that were recorded beside it."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
from traces import DATA, RECORDED, lists_emptied, recorded

ORACLES = [name for name in RECORDED if (DATA / f"{name}.oracle.json").exists()]

NO_CPU_PARITY = {
    "two_threads",  # torch credits launches of threads that it does not record
    "hostile_names",  # the file is not what was in memory: Kineto changed the names
}

NEAR = 0.01
"""Microseconds. torch's figures are whole nanoseconds, so what differs, differs by more."""


def oracle(name: str) -> dict:
    return json.loads((DATA / f"{name}.oracle.json").read_text())


def device(row: dict, what: str) -> float:
    return row[f"device_{what}"] if f"device_{what}" in row else row[f"dev_{what}"]


def figures(row: dict, once: dict) -> dict[str, float]:
    cpu, dev = once.get(row["key"], (row["cpu_total"], device(row, "total")))
    return {
        "calls": row["count"], "self_cpu_us": row["cpu_self"], "cpu_us": cpu,
        "self_device_us": device(row, "self"), "device_us": dev,
    }  # fmt: skip


def keyed(rows: list[dict], *keys: str) -> dict[tuple, dict]:
    found = {tuple(r[k] for k in keys): r for r in rows}
    assert len(found) == len(rows)
    return found


def test_there_is_an_oracle_for_every_trace_but_the_cold_one() -> None:
    assert set(RECORDED) - set(ORACLES) == {"cold_matmul_add_64"}
    assert len(ORACLES) == 20


@pytest.mark.parametrize("name", [n for n in ORACLES if n not in NO_CPU_PARITY])
def test_operators_are_the_cpu_rows_of_key_averages(name: str) -> None:
    told = oracle(name)
    wanted = [r for r in told["key_averages"] if r["device_type"] == "CPU"]
    frame = recorded(name).operators
    frame["user_annotation"] = frame["category"] == "user_annotation"
    ours = keyed(frame.to_dict("records"), "name", "user_annotation")
    torchs = keyed(wanted, "key", "user_annotation")

    assert set(ours) == set(torchs)
    for key, row in torchs.items():
        expected = figures(row, told.get("once", {}))
        assert {k: ours[key][k] for k in expected} == pytest.approx(expected, rel=0, abs=NEAR), key


@pytest.mark.parametrize("name", ORACLES)
def test_kernels_are_the_device_rows_of_key_averages(name: str) -> None:
    torchs: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for r in oracle(name)["key_averages"]:
        if r["device_type"] != "CPU" and not r["user_annotation"]:
            torchs[r["key"]][0] += r["count"]
            torchs[r["key"]][1] += device(r, "self")
    ours = recorded(name).kernels.groupby("name")[["calls", "device_us"]].sum()

    assert set(ours.index) == set(torchs)
    assert torchs
    for kernel, (calls, time) in torchs.items():
        assert ours.loc[kernel, "calls"] == calls
        assert ours.loc[kernel, "device_us"] == pytest.approx(time, rel=0, abs=NEAR), kernel


@pytest.mark.parametrize("name", [n for n in ORACLES if n not in NO_CPU_PARITY])
def test_operators_by_shape_are_key_averages_by_shape(name: str) -> None:
    told = oracle(name)
    wanted: dict[tuple, dict[str, float]] = {}
    for r in told["key_averages_by_shape"]:
        if r["device_type"] == "CPU":
            wanted[r["key"], r["user_annotation"], r["shapes"]] = figures(r, told.get("once", {}))
    frame = recorded(name).operators_by("shape")
    frame["shape"] = frame["shape"].map(lists_emptied)
    frame["annotation"] = frame["category"] == "user_annotation"
    ours = frame.groupby(["name", "annotation", "shape"])[
        ["calls", "self_cpu_us", "cpu_us", "self_device_us", "device_us"]
    ].sum()

    assert set(ours.index) == set(wanted)
    for key, expected in wanted.items():
        # Inside itself with other shapes, a call is not inside the same row.
        if key[0] in told.get("once", {}) and len({k for k in wanted if k[0] == key[0]}) > 1:
            continue
        assert ours.loc[key].to_dict() == pytest.approx(expected, rel=0, abs=NEAR), key


def test_a_cold_trace_without_an_oracle_is_counted_by_hand() -> None:
    # GIVEN three steps of a matmul and an add, the first of which loads what it needs
    one = recorded("cold_matmul_add_64")
    calls = one.operators.set_index("name")["calls"]
    # THEN every call is in the table, the loading too
    assert {n: int(calls[n]) for n in calls.index if n.startswith(("aten::", "Prof", "mat"))} == {
        "aten::matmul": 3, "aten::mm": 3, "aten::add": 3, "ProfilerStep*": 3, "matmul_add": 3,
    }  # fmt: skip
    assert {n: int(calls[n]) for n in calls.index if "Loading" in n or "Buffer" in n} == {
        "Runtime Triggered Module Loading": 4,
        "Lazy Function Loading": 4,
        "Activity Buffer Request": 1,
    }
    assert calls["cudaOccupancyMaxActiveClusters"] == 47
    assert calls.sum() == 9 + 100 + 9 + 6
    # AND each kernel belongs to its operator, and three shadows of annotations to nobody
    kernels = one.kernels
    assert kernels[["operator", "calls"]].sort_values("operator").to_numpy().tolist() == [
        ["aten::add", 3], ["aten::mm", 3],
    ]  # fmt: skip
    assert one.runs["launches"].tolist() == [2, 2, 2]
