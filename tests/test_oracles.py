"""The tables against torch's own, for the traces that were recorded beside it.

They are equal to the nanosecond but for what `DIFFERENT`, `RENAMED`, `SHADOWS` and `LISTS` say:
each difference is meant, and has its reason.

Of one more, no trace here has an oracle: torch 2.11 to 2.13 also credit overhead (a row such as
"Lazy Function Loading") with the kernels of the operator that it happened in.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from traces import DATA, RECORDED, lists_emptied, recorded

import tprofile

ORACLES = [name for name in RECORDED if (DATA / f"{name}.oracle.json").exists()]

NEAR = 0.01
"""Microseconds. torch's figures are whole nanoseconds, so what differs, differs by more."""

COLUMNS = ("calls", "self_cpu_us", "cpu_us", "self_device_us", "device_us")

ONCE = "a name inside itself: torch counts the inner time at every level, we count it once"
LANES = (
    "two threads launched that were not recorded: torch nests their calls in the thread that was, "
    "as if what ran there at that moment had made them"
)

DIFFERENT = {
    # (trace, row): (shape, {column: (torch's, ours)}, why). By shape the row differs in the same
    # figures, but for shape None: there the inner calls have shapes other than the outer ones.
    ("mlp_train", "aten::mse_loss_backward"): (
        None, {"cpu_us": (271.634, 223.142), "device_us": (13.404, 7.902)}, ONCE,
    ),
    ("mlp_train_stack_mem", "aten::mse_loss_backward"): (
        None, {"cpu_us": (438.322, 371.173), "device_us": (13.442, 7.905)}, ONCE,
    ),
    ("nested_annotations", "rec (annotation)"): (
        "[]", {"cpu_us": (2386.524, 819.634), "device_us": (282.291, 94.109)}, ONCE,
    ),
    # One of the hostile names is that of a step, inside a step.
    ("hostile_names", "ProfilerStep* (annotation)"): (
        "[]", {"cpu_us": (1855.456, 1744.129), "device_us": (161.667, 149.219)}, ONCE,
    ),
    ("two_threads", "ProfilerStep* (annotation)"): (
        "[]", {"self_cpu_us": (615.07, 1762.401)}, LANES,
    ),
    ("two_threads", "aten::matmul"): (
        "[[512, 512], [512, 512]]", {"self_cpu_us": (36.945, 50.98)}, LANES,
    ),
    ("two_threads", "aten::mm"): (
        "[[512, 512], [512, 512]]", {"self_cpu_us": (383.404, 509.666)}, LANES,
    ),
    ("two_threads", "cudaLaunchKernelExC"): (
        "[]",
        {
            "calls": (162, 180), "self_cpu_us": (2276.807, 3004.383),
            "cpu_us": (2875.279, 3004.383), "device_us": (87.424, 0),
        },
        LANES,
    ),
}  # fmt: skip
"""Every figure that is not torch's, and why."""

RENAMED = {
    ("hostile_names", "back\\slash"): "back/slash",
    ("hostile_names", "new\nline"): "newline",
    ("hostile_names", "tab\t"): "unknown",
    ("hostile_names", "名前 🚀"): "unknown",
}
"""Names that torch has in memory, and what Kineto writes for them: its file is all that we have."""

SHADOWS = {
    # trace: rows, µs in them, µs of all real work
    "big_gemm_bf16": (1, 18836.651, 18793.961),
    "compiled_frame_skipped": (1, 768.253, 133.664),
    "compiled_graph_breaks": (1, 869.914, 107.615),
    "cpu_preprocessing": (1, 1247.203, 145.823),
    "cuda_graph": (1, 702.207, 623.999),
    "h2d_pageable": (1, 113485.762, 112257.76),
    "hostile_names": (12, 149.219, 149.219),
    "item_in_loop": (1, 6373.559, 1779.348),
    "matmul_add_4096": (1, 8164.456, 8160.84),
    "matmul_add_64": (1, 73.919, 11.778),
    "mlp_train": (3, 2318.64, 1297.208),
    "mlp_train_stack_mem": (3, 3202.153, 1295.864),
    "nested_annotations": (1, 144.862, 94.109),
    "pointwise_chain": (1, 6958.723, 6877.959),
    "pointwise_compiled": (1, 163.103, 163.103),
    "pointwise_eager": (1, 458.176, 369.213),
    "resnet18_train": (2, 9464.013, 8592.001),
    "small_matmul_loop": (1, 5550.558, 574.836),
    "two_streams_h2d_item": (1, 4095.147, 2603.824),
    "two_threads": (1, 1523.009, 1121.284),
}
"""Device rows of annotations, from the first to the last kernel inside, idle time and all: torch
lists them among its kernels, we list none. Summed, its column is that much more than the work."""

LISTS = {"mlp_train": 9, "mlp_train_stack_mem": 9}
"""How many rows by shape are of operators that take a list of tensors: torch leaves out what is in
the list, we show it, and it is left out here to compare."""


def oracle(name: str) -> dict:
    return json.loads((DATA / f"{name}.oracle.json").read_text())


def device(row: dict, what: str) -> float:
    return row[f"device_{what}"] if f"device_{what}" in row else row[f"dev_{what}"]


def torchs(name: str, table: str) -> dict[str, dict[str, float]]:
    """Return the rows of one of torch's tables, under the names that its file has."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0))
    rows = oracle(name)["key_averages_by_shape" if table == "by shape" else "key_averages"]
    for row in rows:
        if (row["device_type"] == "CPU") == (table == "kernels"):
            continue
        # A shadow is a row of its own, as an annotation is apart from its namesake.
        kind = " (annotation)" if row["user_annotation"] else ""
        shape = f" {row['shapes']}" if table == "by shape" else ""
        key = RENAMED.get((name, row["key"]), row["key"]) + kind + shape
        figures = (row["count"], row["cpu_self"], row["cpu_total"], device(row, "self"),
                   device(row, "total"))  # fmt: skip
        for column, value in zip(COLUMNS, figures, strict=True):
            found[key][column] += value
    return found


def ours(one: tprofile.Profile, table: str) -> dict[str, dict[str, float]]:
    if table == "kernels":
        frame = one.kernels
        key, columns = frame["name"], ["calls", "device_us"]
    else:
        frame = one.operators_by("shape") if table == "by shape" else one.operators
        annotation = frame["category"] == "user_annotation"
        key, columns = frame["name"] + annotation.map({True: " (annotation)", False: ""}), COLUMNS
        if table == "by shape":
            key += " " + frame["shape"].map(lists_emptied)
    return frame.groupby(key)[list(columns)].sum().to_dict("index")


def differences(name: str, table: str) -> Iterator[tuple[str, str, float | None, float | None]]:
    """Yield row, column, torch's figure and ours wherever the two are not equal, or one is not."""
    theirs, mine = torchs(name, table), ours(recorded(name), table)
    columns = ("calls", "device_us") if table == "kernels" else COLUMNS
    for row in sorted({*theirs, *mine}):
        for column in columns:
            one, other = theirs.get(row, {}).get(column), mine.get(row, {}).get(column)
            if one is None or other is None or abs(one - other) > NEAR:
                yield row, column, one, other


def by_shape_too(row: str, shape: str | None) -> list[tuple[str, str]]:
    """Return tables and rows in which the figures of a row differ."""
    return [("operators", row)] + ([] if shape is None else [("by shape", f"{row} {shape}")])


def test_there_is_an_oracle_for_every_trace_but_the_cold_one() -> None:
    assert set(RECORDED) - set(ORACLES) == {"cold_matmul_add_64"}
    assert len(ORACLES) == 20
    # AND only that one has overhead, of which torch would have to be doubted
    assert [n for n in RECORDED if "overhead" in recorded(n).trace.categories] == [
        "cold_matmul_add_64"
    ]


@pytest.mark.parametrize("table", ["operators", "by shape"])
@pytest.mark.parametrize("name", ORACLES)
def test_operators_are_torchs_but_for_what_is_listed(name: str, table: str) -> None:
    listed = [
        (line, column, *figures)
        for (trace, row), (shape, columns, _) in DIFFERENT.items()
        for where, line in by_shape_too(row, shape)
        for column, figures in columns.items()
        if (trace, where) == (name, table)
    ]
    found = [
        (row, column, round(one, 3), round(other, 3))
        for row, column, one, other in differences(name, table)
        if one is not None and other is not None
    ]
    assert sorted(found) == sorted(listed)
    # AND no row is missing on either side
    assert torchs(name, table)
    assert set(torchs(name, table)) == set(ours(recorded(name), table))


@pytest.mark.parametrize("name", ORACLES)
def test_kernels_are_torchs_but_for_shadows(name: str) -> None:
    found = list(differences(name, "kernels"))
    annotations = {
        (RENAMED.get((name, r["key"]), r["key"]), device(r, "self"))
        for r in oracle(name)["key_averages"]
        if r["device_type"] != "CPU" and r["user_annotation"]
    }
    rows, shadow_us, work_us = SHADOWS[name]
    assert len(annotations) == rows
    assert sum(time for _, time in annotations) == pytest.approx(shadow_us, rel=0, abs=NEAR)
    assert recorded(name).kernels["device_us"].sum() == pytest.approx(work_us, rel=0, abs=NEAR)
    # THEN these, which we do not have, are all that differs
    assert {row for row, *_ in found} == {f"{row} (annotation)" for row, _ in annotations}
    assert all(other is None for *_, other in found)


def test_what_kineto_renamed() -> None:
    in_memory = {r["key"] for r in oracle("hostile_names")["key_averages"]}
    in_file = set(recorded("hostile_names").operators["name"])
    kernels = set(recorded("hostile_names").kernels["name"])
    assert in_memory - in_file - kernels == {name for _, name in RENAMED}
    assert in_file - in_memory == set(RENAMED.values())


@pytest.mark.parametrize("name", ORACLES)
def test_shapes_in_lists_are_ours_alone(name: str) -> None:
    shapes = recorded(name).operators_by("shape")["shape"]
    assert sum(lists_emptied(shape) != shape for shape in shapes) == LISTS.get(name, 0)
    theirs = [row["shapes"] for row in oracle(name)["key_averages_by_shape"]]
    assert [shape for shape in theirs if lists_emptied(shape) != shape] == []


def test_launches_of_other_threads_explain_what_differs_in_two_threads() -> None:
    # GIVEN the calls of all threads in the one that was recorded
    trace = recorded("two_threads").trace
    threads = np.unique(trace.thread[trace.category_is("cuda_runtime")])
    assert len(threads) == 3
    recorded_one = trace.thread[trace.category_is("cpu_op")][0]
    merged = dataclasses.replace(trace, thread=np.where(trace.on_device, -1, recorded_one))
    one = tprofile.Profile(merged)
    found, wanted = ours(one, "operators"), torchs("two_threads", "operators")
    # THEN calls are torch's, and so are self times, if what overlaps is taken off twice, as it does
    assert {row: found[row]["calls"] for row in found} == {
        row: wanted[row]["calls"] for row in wanted
    }
    events = one.events
    inside = events[events["device"] < 0].groupby("parent")["duration_us"].sum()
    host = events[(events["thread"] == recorded_one) & (events["category"] != "Trace")]
    own = host["duration_us"] - inside.reindex(host.index, fill_value=0)
    names = host["name"].str.replace(r"#\d+$", "*", regex=True)
    for name, row in wanted.items():
        total = own[names == name.removesuffix(" (annotation)")].sum()
        assert total == pytest.approx(row["self_cpu_us"], rel=0, abs=NEAR), name


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
