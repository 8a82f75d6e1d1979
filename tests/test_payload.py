"""What page and widget are given: equal to the frames, small whatever the trace, and honest."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cells import ROUGH, SMALL, SOURCE, SYNC, cell, given
from traces import PUBLIC, RECORDED, Event, call, note, op, profile, recorded, slice_, work

import tprofile
from tprofile import Finding, TprofileError
from tprofile.explaining import meaning
from tprofile.trace.marks import line as mark
from tprofile.views.figures import figures
from tprofile.views.pack import encode, size
from tprofile.views.payload import payload
from tprofile.views.tables import operator_table
from tprofile.views.words import device_label, visible

Payload = dict[str, Any]

PUBLIC_NAMES = sorted(p.name.removesuffix(".json.gz") for p in PUBLIC.glob("*.json.gz"))


def sound(one: tprofile.Profile, sort: str | None = None) -> Payload:
    """Return the payload, having asserted what holds of each."""
    found = payload(one, sort)
    assert json.loads(encode(found)) == found
    assert list(found) == [
        "id", "headline", "versions", "reason", "first", "details", "figures", "warnings", "device",
        "runs", "complete", "run_times_ns", "names", "findings", "lines", "modules",
        "tree", "operators", "kernels", "strip", "left_out",
    ]  # fmt: skip
    assert size(found) <= 130_000
    assert len(set(found["names"])) == len(found["names"])
    assert all(name == visible(name) for name in found["names"])
    assert re.fullmatch("[0-9a-f]{16}", found["id"])
    assert (found["findings"]["none"] is None) == bool(found["findings"]["of"])
    assert size(found["findings"]) <= 14_100
    used = set(found["operators"]["columns"]["name"])
    used |= {row["operator"] for row in found["findings"]["rows"]}
    for table, texts, most in (("lines", ("file", "function"), 24_000),
                               ("modules", ("module", "type"), 20_000),
                               ("tree", ("name",), 20_000)):  # fmt: skip
        if found[table] is not None:
            columns = {k: v for k, v in found[table]["columns"].items() if v is not None}
            assert len({len(v) for v in columns.values()}) == 1
            assert size(columns) <= most
            used |= {i for key in texts for i in columns.get(key, [])}
    for key in ("name", "operator", "device", "grid", "block"):
        used |= set(found["kernels"]["columns"].get(key, []))
    if found["strip"] is not None:
        spans = found["strip"]["spans"]
        used |= {*spans["name"], *spans["operator"]}
        assert len(spans["lane"]) <= 1200
        n = len(spans["lane"])
        assert {k: len(v) for k, v in spans.items() if v is not None and len(v) != n} == {}
    assert used - {None} == set(range(len(found["names"])))
    assert found["complete"] == one.complete
    for table in ("operators", "kernels"):
        columns = [v for v in found[table]["columns"].values() if v is not None]
        assert len({len(v) for v in columns}) == 1
        assert size(columns) <= 40_000
    return found


def bare(found: Payload) -> Payload:
    """Return a payload without what explains it, having asserted that each figure is explained."""
    tables = ("lines", "modules", "operators", "kernels", "tree")
    for table in tables:
        if found[table] is not None:
            found[table] = {k: v for k, v in found[table].items() if k != "heads"}
    for figure in found["figures"]:
        assert figure.pop("about")
    return found


def spelled(found: Payload, indices: list[int | None]) -> list[str | None]:
    return [None if i is None else found["names"][i] for i in indices]


def small() -> tprofile.Profile:
    """Return two runs of a named device, with an annotation of an operator's name."""
    events: list[Event] = []
    for i, at in enumerate((0, 100)):
        ext = 10 * i
        events += [
            note("tprofile::run", at, 40 + i, ext + 1),
            note("aten::a", at + 1, 30, ext + 2),
            op("aten::a", at + 2, 20, ext + 3), op("aten::b", at + 3, 10, ext + 4),
            op("aten::c", at + 25, 2, ext + 5),
            call("cudaLaunchKernel", at + 4, 3.5, ext + 1, ext + 4),
            work("k", at + 10, 6.125, ext + 1, ext + 4, grid=[1, 2, 3], block=[64, 1, 1],
                 **{"est. achieved occupancy %": 50}),
            work("Memset", at + 20, 1, 0, 0, cat="gpu_memset"),
        ]  # fmt: skip
    told = {"profiled": 2, "platform": "CUDA", "warmup_s": [1e-3, 3e-5], "notes": ["mind\nthis"]}
    return profile(*events, recorded=told, deviceProperties=[{"id": 0, "name": "Fast"}])


def test_the_whole_of_a_small_one() -> None:
    one = small()
    found = bare(sound(one))
    assert len(found.pop("id")) == 16
    assert found["headline"].pop("about") == meaning("python-bound")
    assert found.pop("versions") == f"tprofile {tprofile.__version__}"
    assert one.summary.reason is not None
    assert found == {
        "headline": {
            "lead": "Python-bound", "text": "the GPU works 7.12 µs of a 30.0 µs run",
            "tone": "wait",
        },
        "reason": one.summary.reason.replace("the GPU", "The GPU", 1),
        "first": None,
        "details": ["4 runs: 2 warm-up, 2 profiled · CUDA 0 (Fast)"],
        "figures": [
            {"key": "wall", "value": "30.0 µs", "label": "per run, not profiled"},
            {"key": "busy", "value": "23.8 %", "label": "CUDA 0 busy"},
            {"key": "launches", "value": "1", "label": "launch per run, median kernel 6.12 µs"},
            {"key": "overhead", "value": "1.35×", "label": "slower under the profiler"},
            {"key": "first", "value": "1.00 ms", "label": "first run, not profiled"},
        ],
        "warnings": [
            r"mind\nthis",
            "the wall is that of a single unprofiled run: its spread is unknown",
            "14 % of the device time has no recorded launch: it is in the kernels alone",
        ],
        "device": "CUDA",
        "runs": 2,
        "complete": True,
        "run_times_ns": {"1": [0, 40_000], "2": [100_000, 141_000]},
        "names": [
            "aten::a", "aten::b", "cudaLaunchKernel", "aten::c", "aten::a (annotation)",
            "k", "CUDA 0", "[1, 2, 3]", "[64, 1, 1]", "Memset",
        ],
        "findings": {
            "of": 0, "rows": [], "none": "Nothing found that holds this code back",
        },
        "lines": None,
        "modules": None,
        "operators": {
            "of": 5,
            "sort": "self_device_us",
            "columns": {
                "name": [1, 0, 4, 2, 3],
                "calls": [2, 2, 2, 2, 2],
                "self_cpu_us": [13, 20, 16, 7, 4],
                "cpu_us": [20, 40, 60, 7, 4],
                "self_device_us": [12.25, 0, 0, 0, 0],
                "device_us": [12.25, 12.25, 12.25, 0, 0],
                "spread": None,
                "self_bytes": None,
            },
        },
        "kernels": {
            "of": 2,
            "sort": "device_us",
            "columns": {
                "name": [5, 9], "operator": [1, None], "device": [6, 6], "stream": [7, 7],
                "calls": [2, 2], "device_us": [12.25, 2], "mean_us": [6.125, 1],
                "min_us": [6.125, 1], "median_us": [6.125, 1], "max_us": [6.125, 1],
                "grid": [7, None], "block": [8, None], "occupancy": [50, None], "spread": None,
            },
        },
        # Most time first among siblings, on the device and then on the CPU, as Profile.tree has it.
        "tree": {
            "of": 5,
            "sort": "device_us",
            "columns": {
                "name": [0, 0, 1, 2, 3], "calls": [2, 2, 2, 2, 2],
                "self_cpu_us": [16, 20, 13, 7, 4], "cpu_us": [60, 40, 20, 7, 4],
                "self_device_us": [0, 0, 12.25, 0, 0], "device_us": [12.25, 12.25, 12.25, 0, 0],
                "parent": [-1, 0, 1, 2, 0],
            },
        },
        "strip": {
            "run": 1, "of": 2, "wall_us": 40, "resolution_us": 0,
            "lanes": [
                {"kind": "cpu", "label": "CPU", "rows": 3, "streams": None},
                {"kind": "device", "label": "CUDA 0", "rows": 1, "streams": [7]},
            ],
            "spans": {
                "lane": [0, 0, 0, 0, 1, 1], "row": [0, 0, 1, 2, 0, 0], "kind": [0, 0, 1, 2, 8, 9],
                "start_us": [2, 25, 3, 4, 10, 20], "duration_us": [20, 2, 10, 3.5, 6.125, 1],
                "count": None, "busy_us": None,
                "name": [0, 3, 1, 2, 5, 9], "operator": [None, None, None, None, 1, None],
                "launch": [-1, -1, -1, -1, 3, -1], "line": None,
            },
        },
        "left_out": [],
    }  # fmt: skip


def test_without_a_device_its_columns_are_absent_rather_than_zero() -> None:
    found = bare(sound(profile(op("a", 0, 10))))
    assert found["headline"]["lead"] == "CPU only"
    assert found["operators"] == {
        "of": 1, "sort": "self_cpu_us",
        "columns": {"name": [0], "calls": [1], "self_cpu_us": [10], "cpu_us": [10],
                    "self_device_us": None, "device_us": None, "spread": None,
                    "self_bytes": None},
    }  # fmt: skip
    assert found["kernels"]["of"] == 0
    assert found["kernels"]["columns"].pop("spread") is None
    assert set(map(len, found["kernels"]["columns"].values())) == {0}
    assert "grid" not in found["kernels"]["columns"]


def test_a_device_without_operators_is_measured() -> None:
    found = sound(profile(work("k", 0, 5)))
    shares = [h["whole"] for h in found["operators"]["heads"] if h["kind"] == "share"]
    assert shares == [0, 5]
    assert found["operators"]["columns"]["self_device_us"] == []


def test_nothing() -> None:
    found = sound(profile())
    assert (found["runs"], found["names"], found["strip"]) == (1, [], None)
    assert found["operators"]["of"] == found["kernels"]["of"] == 0
    assert found["headline"] == {
        "lead": None,
        "text": "nothing was profiled",
        "tone": None,
        "about": None,
    }
    assert (found["reason"], found["first"]) == (None, None)
    assert found["findings"] == {"of": 0, "rows": [], "none": "Nothing was profiled"}


def test_each_has_an_id_of_its_own() -> None:
    one = small()
    assert payload(one)["id"] != payload(one)["id"]


def halves(frame: Any, what: str, runs: int) -> list[float]:
    """Return half the range of the runs over their median, where there are enough to tell."""
    rows = zip(*(frame[f"{what}_{end}_us"] for end in ("min", "median", "max")), strict=True)
    return [
        (most - least) / 2 / median if runs >= 3 and median > 0 else math.nan
        for least, median, most in rows
    ]


@pytest.mark.parametrize("name", [*RECORDED, *PUBLIC_NAMES])
def test_columns_are_the_frames(name: str) -> None:
    one = recorded(name) if name in RECORDED else tprofile.load(PUBLIC / f"{name}.json.gz")
    found = sound(one)
    assert [
        f for f in found["left_out"] if not f.startswith(("strip: neigh", "names: ", "modules: "))
    ] == []

    def same(values: list[Any], frame: list[Any]) -> bool:
        return len(values) == len(frame) and all(
            math.isnan(f) if v is None else abs(v - f) <= 5.0001e-4
            for v, f in zip(values, frame, strict=True)
        )

    table = operator_table(one, limit=None)
    columns = found["operators"]["columns"]
    shown = [visible(cells[0]) for cells in table.rows]
    names = spelled(found, columns["name"])
    assert [n if len(s) <= 6000 else s for n, s in zip(names, shown, strict=True)] == shown
    # What was launched outside all operators is shown as the time of the call that did it.
    frame = one.operators
    frame["self_device_us"] += frame["self_launched_us"]
    frame["device_us"] += frame["launched_us"]
    frame = frame.sort_values(found["operators"]["sort"], ascending=False, kind="stable")
    lead = "self_cpu" if one.kernels.empty else "self_device"
    spread = halves(frame, lead, len(one.runs))
    frame["spread"] = [
        math.nan if t > 0 else s for s, t in zip(spread, frame["self_launched_us"], strict=True)
    ]
    frame["self_bytes"] = frame.get(f"{lead}_bytes", math.nan)
    for key in set(columns) - {"name"}:
        if columns[key] is None:
            assert frame[key].isna().all()
        else:
            assert same(columns[key], frame[key].tolist()), key

    columns, frame = found["kernels"]["columns"], one.kernels
    frame["spread"] = halves(frame, "run", len(one.runs))
    untold = {"category", "run_min_us", "run_median_us", "run_max_us", "delay_us", "queued"}
    assert set(columns) == set(frame.columns) - untold
    for key in columns:
        if columns[key] is None:
            assert frame[key].isna().all()
        elif key == "device":
            labels = [device_label(one, i) for i in frame["device"]]
            assert spelled(found, columns[key]) == labels
        elif key in ("name", "operator", "grid", "block"):
            texts = [None if t is None else visible(t) for t in frame[key]]
            assert spelled(found, columns[key]) == texts, key
        else:
            assert same(columns[key], frame[key].tolist()), key

    strip, drawn = one.strip, found["strip"]
    assert strip is not None
    spans = drawn["spans"]
    if drawn["resolution_us"] == strip.resolution_us:
        for key in ("lane", "row", "kind", "launch"):
            assert spans[key] == getattr(strip, key).tolist()
        for key in ("start_us", "duration_us"):
            assert same(spans[key], getattr(strip, key).tolist())
        shown = [None if t is None else visible(t) for t in strip.name]
        assert max(len(t or "") for t in shown or [""]) < 6000
        assert spelled(found, spans["name"]) == shown
    events = spans["count"] or [1] * len(spans["lane"])
    assert sum(events) == len(strip.whole or strip)
    assert found["figures"] == [
        {**dataclasses.asdict(figure), "about": figure.about} for figure in figures(one)
    ]


SIZES = {"matmul_add_64": 8_400, "item_in_loop": 25_500, "mlp_train": 28_800,
         "resnet18_train": 66_000}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_a_usual_one_is_small(name: str) -> None:
    assert SIZES[name] * 0.8 < size(payload(recorded(name))) < SIZES[name]


def test_a_strip_of_many_spans_is_drawn_coarser() -> None:
    found = sound(recorded("resnet18_train"))
    strip = found["strip"]
    assert (strip["resolution_us"], len(strip["spans"]["lane"])) == (29.304, 674)
    assert sum(strip["spans"]["count"]) == 1712
    assert strip["spans"]["busy_us"] != strip["spans"]["duration_us"]
    # The chart itself says so
    assert found["left_out"] == []


@pytest.mark.parametrize("sort", ["name", "calls", "self_cpu_us", "cpu_us", "device_us"])
def test_sorted_by_a_column(sort: str) -> None:
    one = recorded("mlp_train")
    found = sound(one, sort)
    assert found["operators"]["sort"] == sort
    rows = operator_table(one, sort, None).rows
    assert spelled(found, found["operators"]["columns"]["name"]) == [cells[0] for cells in rows]


def allocating(device: bool = True) -> tprofile.Profile:
    """Return two runs in which `a` allocates on the CPU what `b` does on a device, twice that."""
    events: list[Event] = []
    for at in (0, 100):
        events += [note("tprofile::run", at, 40), op("a", at + 1, 5, at + 1),
                   op("b", at + 10, 20, at + 2), op("c", at + 31, 1, at + 3)]  # fmt: skip
        for i, (kind, index, nbytes) in enumerate([(0, -1, 2**20), (1, 0, 2**21), (1, 0, -512)]):
            told = {"Device Type": kind, "Device Id": index, "Bytes": nbytes}
            if kind:
                told |= {"Total Allocated": 2**22, "Total Reserved": 2**23}
            where = at + (2, 11, 31.5)[i]
            events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100,
                           "tid": 1, "ts": where, "s": "t", "args": told})  # fmt: skip
        if device:
            events.append(work("k", at + 12, 3, 0, at + 1))
    return profile(*events, recorded={"profiled": 2, "memory": True})


@pytest.mark.parametrize(
    ("sort", "device", "of", "names", "shown"),
    [
        (None, True, "CUDA", ["a", "b", "c"], [0, 2**22, -1024]),
        (None, False, "CPU", ["b", "a", "c"], [0, 2**21, 0]),
        ("self_device_bytes", True, "CUDA", ["b", "a", "c"], [2**22, 0, -1024]),
        ("self_device_bytes", False, "CUDA", ["b", "a", "c"], [2**22, 0, -1024]),
        ("self_cpu_bytes", True, "CPU", ["a", "b", "c"], [2**21, 0, 0]),
        ("self_cpu_bytes", False, "CPU", ["a", "b", "c"], [2**21, 0, 0]),
    ],
)
def test_bytes_are_shown_and_sorted_by(
    sort: str | None, device: bool, of: str, names: list[str], shown: list[int]
) -> None:
    one = allocating(device)
    found = sound(one, sort)
    table = found["operators"]
    (told,) = (head for head in table["heads"] if head["kind"] == "bytes")
    assert told["about"].startswith(f"Bytes of {of} memory that the operator itself allocated")
    assert spelled(found, table["columns"]["name"]) == names
    assert table["columns"]["self_bytes"] == shown
    lead = "self_device_us" if device else "self_cpu_us"
    assert table["sort"] == ("self_bytes" if sort else lead)
    # AND the text has the same, per run
    text = operator_table(one, sort)
    assert [cells[0] for cells in text.rows] == names
    assert text.heads[-1] == "self MiB"
    assert [cells[-1] for cells in text.rows] == [
        {0: "0", 2**21: "1.00", 2**22: "2.00", -1024: ">-0.01"}[n] for n in shown
    ]
    if sort:
        assert text.title == f"Operators, per run, by self {of} bytes"


@pytest.mark.parametrize("sort", ["self_device_bytes", "self_cpu_bytes"])
def test_bytes_that_were_not_recorded_are_nothing_to_sort_by(sort: str) -> None:
    for show in (payload, lambda one, sort: one.text(sort)):
        with pytest.raises(TprofileError, match=rf"'{sort}': memory was not recorded\. .*--memory"):
            show(small(), sort)


def test_a_wrong_sort_is_told_as_by_the_text() -> None:
    for show in (payload, lambda one, sort: one.text(sort)):
        with pytest.raises(TprofileError, match=r"sorted by 'colour'\. Choose one of name, calls,"):
            show(small(), "colour")


def test_lines_and_what_was_found_on_them() -> None:
    one = given(cell(), SYNC, SMALL, ROUGH, verdict="sync-bound", reason="the GPU is idle")
    found = bare(sound(one))
    assert found["headline"] == {
        "lead": "Sync-bound", "text": "the GPU works 21.0 µs of a 50.0 µs run", "tone": "wait",
        "about": meaning("sync-bound"),
    }  # fmt: skip
    assert found["reason"] == "The GPU is idle"
    assert found["first"] == [
        "most to gain: ", "3 waits for the GPU",
        " (line 6 · aten::item → cudaStreamSynchronize), up to 24.0 µs of each run",
    ]  # fmt: skip
    assert found["findings"] == {
        "of": 3,
        "rows": [
            {
                "kind": "sync", "tone": "wait", "title": "3 waits for the GPU",
                "where": SYNC.where, "gain": "up to 24.0 µs of each run",
                "evidence": SYNC.evidence, "advice": SYNC.advice,
                "more": 'tprofile.explain("sync")', "line": 6, "operator": 0,
            },
            {
                "kind": "small-kernels", "tone": "wait", "title": "The GPU runs 3 small kernels",
                "where": "aten::mm", "gain": "up to 9.00 µs of each run",
                "evidence": SMALL.evidence, "advice": SMALL.advice,
                "more": 'tprofile.explain("small-kernels")', "line": None, "operator": 1,
            },
            {
                "kind": "profiler-overhead", "tone": None, "title": "The profiler slows this code",
                "where": "", "gain": None, "evidence": ROUGH.evidence, "advice": "",
                "more": 'tprofile.explain("profiler-overhead")', "line": None, "operator": None,
            },
        ],
        "none": None,
    }  # fmt: skip
    # THEN a line that did not run has no figures, and figures that are 0 were measured
    assert found["lines"] == {
        "of": 7,
        "sort": "line",
        "columns": {
            "file": None, "short": None, "function": None,
            "line": [2, 3, 4, 5, 6, 7, 8],
            "source": ["total = 0.0", "", "for step in range(3):", "    y = x @ w",
                       "    total += y.sum().item()", "if total < 0:", '    print("never")'],
            "label": [None, None, None, None, "3 waits", None, None],
            "finding": [None, None, None, None, 0, None, None],
            "calls": [2, None, 2, 6, 6, 2, None],
            "cpu_us": [4, None, 24, 60, 96, 2, None],
            "device_us": [0, None, 0, 30, 12, 0, None],
            "backward_device_us": None,
            "launches": [0, None, 0, 6, 0, 0, None],
        },
    }  # fmt: skip
    # AND each bar knows its line
    spans = found["strip"]["spans"]
    assert spans["line"] == [5, 6] * 3 + [5, 6, 6] * 3 + [5, 6] * 3
    assert spelled(found, [0, 1]) == ["aten::item", "aten::mm"]
    assert found["left_out"] == []


def test_lines_of_one_line_are_no_table() -> None:
    one = profile(op(mark(2), 0, 10), op("a", 1, 5), recorded={"profiled": None, "source": "f()"})
    assert one.lines["line"].tolist() == [2]
    assert sound(one)["lines"] is None
    assert sound(one)["strip"]["spans"]["line"] == [2]


def test_several_findings_on_a_line() -> None:
    second = dataclasses.replace(SMALL, line=6, label="a label that is longer than its room")
    found = sound(given(cell(), second, SYNC, dataclasses.replace(ROUGH, line=6)))
    labels = dict(zip(*(found["lines"]["columns"][k] for k in ("line", "label")), strict=True))
    assert labels[6] == "a label that is longer … +2"
    assert found["lines"]["columns"]["finding"][4] == 0
    # AND one without a label has its title
    found = sound(given(cell(), dataclasses.replace(SMALL, line=3)))
    assert found["lines"]["columns"]["label"][1] == "the GPU runs 3 small ke…"


def test_lines_of_functions_and_other_files() -> None:
    marks = {
        3: mark(4, "inner"),  # the line of a loop, and a function in it
        3.5: mark(5, "forward", "/home/a/model.py"),
        4: mark(7, "forward", "/home/b/model.py"),
        4.5: mark(1, "load", r"C:\data\load data.py"),
    }
    found = sound(cell(lines=marks))
    columns = found["lines"]["columns"]
    n = 8
    assert columns["line"] == [2, 3, 4, 4, 5, 6, 7, 8, 5, 7, 1]
    assert spelled(found, columns["file"])[n:] == [
        "/home/a/model.py", "/home/b/model.py", r"C:\data\load data.py",
    ]  # fmt: skip
    assert [s and s.replace("\\", "/") for s in columns["short"]] == [None] * n + [
        "a/model.py", "b/model.py", "load data.py",
    ]  # fmt: skip
    assert spelled(found, columns["function"]) == [None] * 3 + ["inner"] + [None] * 4 + [
        "forward", "forward", "load",
    ]  # fmt: skip
    assert columns["source"][2:4] == ["for step in range(3):"] * 2
    # Their text was not recorded
    assert columns["source"][n:] == ["forward", "forward", "load"]


def test_long_cells_keep_what_costs_most() -> None:
    # GIVEN 3000 lines of 60 characters, of which every tenth ran, the later the longer
    source = "\n".join(f"x{i:04} = " + "µ" * 52 for i in range(3000))
    events = [op(mark(2 + 10 * i), 1000 * i, 1 + i) for i in range(300)]
    known = {"profiled": None, "source": source, "first_line": 2}
    one = profile(*events, recorded=known)
    found = sound(given(one, dataclasses.replace(SYNC, line=4)))
    lines = found["lines"]["columns"]["line"]
    assert 22_500 < size(found["lines"]["columns"]) <= 24_000
    assert (len(lines), found["lines"]["of"]) == (173, 3000)
    # THEN the line of the finding is there, and those with most time, in their order
    assert lines == [4, *(2 + 10 * i for i in range(128, 300))]
    assert found["left_out"] == [
        "lines: the 173 with most time of 3,000 are here; all are in Profile.lines"
    ]


def test_a_long_line_is_cut() -> None:
    one = cell(source=SOURCE.replace("total = 0.0", "total = " + "9" * 5000))
    (shown,) = [s for s in sound(one)["lines"]["columns"]["source"] if s.startswith("total = 9")]
    assert shown.endswith("… 4,628 characters left out … " + "9" * 190)


def test_many_long_findings_are_capped() -> None:
    long = Finding("sync", "t" * 5000, "e" * 5000, "a" * 5000, 1.0, "w" * 5000, 6, "l" * 5000)
    found = sound(given(cell(), *[long] * 40))
    assert (len(found["findings"]["rows"]), found["findings"]["of"]) == (4, 40)
    assert found["left_out"] == [
        "findings: the first 4 of 40 are here; all are in Profile.findings"
    ]
    assert len(found["first"][1]) < 1100


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (profile(work("k", 0, 5), op("a", 0, 6)), "Nothing found that holds this code back"),
        (
            profile(op("a", 0, 5)),
            "Findings are about the work of a GPU, and that is not in the record: no device work "
            "was recorded",
        ),
        (
            profile(work("k", 0, 5), work("k", 20, 5)),
            "Nothing was found, but not all that there may be can be told: the GPU is idle 60 % of "
            "a run, but no operators are in the record, so what the CPU did meanwhile is not known",
        ),
        (
            profile(
                note("tprofile::run", 0, 9), work("k", 0, 5),
                recorded={"profiled": 0, "stopped": {"by": "E", "during": "profiled run 1 of 3"}},
            ),
            "Nothing was found in the run that was stopped, up to there",
        ),
    ],
)  # fmt: skip
def test_what_is_said_where_nothing_was_found(one: tprofile.Profile, said: str) -> None:
    assert sound(given(one))["findings"] == {"of": 0, "rows": [], "none": said}


def modules(n: int, **columns: Any) -> pd.DataFrame:
    """Return a frame of modules, the later the longer."""
    return pd.DataFrame({
        "module": [f"net.{i}" for i in range(n)], "type": ["Linear"] * n, "calls": [2] * n,
        "cpu_us": [float(i) for i in range(n)], "device_us": [2.0 * i for i in range(n)],
        "self_device_us": [1.0] * n, "backward_device_us": [0.0] * n, "launches": [3.0] * n,
        "compiled": [i == 1 for i in range(n)], **columns,
    })  # fmt: skip


def test_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(frame: pd.DataFrame) -> Payload:
        monkeypatch.setattr(tprofile.Profile, "modules", property(lambda _: frame), raising=False)
        return sound(small())

    found = shown(modules(3))
    columns = found["modules"]["columns"]
    assert spelled(found, columns.pop("module")) == ["net.2", "net.1", "net.0"]
    assert spelled(found, columns.pop("type")) == ["Linear", "Linear, compiled", "Linear"]
    assert (found["modules"]["of"], found["modules"]["sort"]) == (3, "device_us")
    assert columns == {
        "calls": [2, 2, 2], "cpu_us": [2, 1, 0], "self_device_us": [1, 1, 1],
        "device_us": [4, 2, 0], "backward_device_us": None, "launches": [3, 3, 3],
    }  # fmt: skip
    # AND without a device there are no columns of one
    none = dict.fromkeys(
        ("device_us", "self_device_us", "backward_device_us", "launches"), [math.nan] * 3
    )
    table = shown(modules(3, **none))["modules"]
    assert table["sort"] == "cpu_us"
    assert [k for k, v in table["columns"].items() if v is None] == [
        "self_device_us", "device_us", "backward_device_us", "launches",
    ]  # fmt: skip
    # AND only as many as there is room for
    found = shown(modules(5000))
    assert 12_000 < size(found["modules"]) < 20_000
    kept = len(found["modules"]["columns"]["module"])
    assert found["left_out"] == [
        f"modules: the {kept} with most CUDA total of 5,000 are here; all are in Profile.modules"
    ]


def test_all_at_their_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN more of everything than there is room for
    frame = modules(900, module=[f"{i}" + CJK * 9 for i in range(900)])
    monkeypatch.setattr(tprofile.Profile, "modules", property(lambda _: frame), raising=False)
    events = [e for i in range(900) for e in (
        op(mark(2 + i), 20 * i, 19), op(f"{i}o" + CJK * 30, 20 * i + 1, 9, i + 1),
        work(f"{i}k" + CJK * 30, 20 * i + 3, 1 + i / 1000, 0, i + 1),
    )]  # fmt: skip
    known = {"profiled": None, "source": "\n" * 1 + "\n".join(["y = " + "µ" * 90] * 900),
             "notes": [CJK * 40] * 45}  # fmt: skip
    long = Finding("sync", "t" * 900, "e" * 900, "a" * 900, 1.0, "w" * 900, 6, "l" * 900)
    found = sound(given(profile(*events, recorded=known), *[long] * 40, reason=CJK * 300))
    assert 105_000 < size(found) < 130_000
    # THEN each has its share
    tables = ("lines", "modules", "tree", "operators", "kernels")
    assert {k: len(found[k]["columns"]["calls"]) for k in tables} == {
        "lines": 110, "modules": 47, "tree": 7, "operators": 17, "kernels": 10,
    }  # fmt: skip
    assert len(found["strip"]["spans"]["lane"]) >= 50
    assert [s.split(":")[0] for s in found["left_out"]] == [
        "warnings", "findings", "lines", "modules", "tree", "operators", "kernels",
    ]  # fmt: skip


CJK = "模型分析器操作符内核设备"


def many(n: int, length: int) -> tprofile.Profile:
    """Return n operators with a kernel each, whose names have this many characters."""
    events: list[Event] = []
    for i in range(n):
        name = f"{i:05}" + CJK * (length // len(CJK) + 1)
        events += [op("o" + name[: length - 1], 10 * i, 9, i + 1),
                   work("k" + name[: length - 1], 10 * i + 3, 1 + i / 1000, 0, i + 1)]  # fmt: skip
    return profile(*events)


def test_five_thousand_long_names_are_capped_by_bytes() -> None:
    found = sound(many(5000, 300))
    kept = len(found["operators"]["columns"]["name"])
    kernels = len(found["kernels"]["columns"]["name"])
    assert (kept, kernels) == (64, 42)
    # THEN those with the most time are kept, and it is said what was left out
    assert spelled(found, found["operators"]["columns"]["name"])[0][:6] == "o04999"
    assert found["left_out"][1:] == [
        "operators: the 64 with most self CUDA time of 5,000 are here; all are in "
        "Profile.operators",
        "kernels: the 42 with most CUDA time of 5,000 are here; all are in Profile.kernels",
    ]
    # AND the whole is that of all
    assert next(h["whole"] for h in found["operators"]["heads"] if "whole" in h) == 45_000
    by_name = sound(many(5000, 300), "name")
    assert by_name["left_out"][1] == (
        "operators: the first 43 by name of 5,000 are here; all are in Profile.operators"
    )


def test_many_short_names_fill_the_room() -> None:
    found = sound(many(5000, 12))
    names, before = found["names"], set[int]()
    for table in ("tree", "operators", "kernels"):
        columns = [v for v in found[table]["columns"].values() if v is not None]
        # With the names that no earlier table has.
        own = set(found[table]["columns"]["name"]) - before
        texts = sum(size(names[i]) + 1 for i in own)
        # The ids of the tree's nodes are only there while it is packed.
        least, most = (18_000, 20_000) if table == "tree" else (38_500, 40_000)
        assert least < size(columns) + texts <= most
        before |= own


def test_a_name_of_a_hundred_thousand_characters_is_cut_in_its_middle() -> None:
    found = sound(many(12, 100_000))
    for name in found["names"]:
        if name.startswith(("o", "k")):
            head, tail = name.split(" … 94,020 characters left out … ")
            assert (len(head), len(tail)) == (2990, 2990)
    assert [s.split(":")[0] for s in found["left_out"]] == [
        "tree", "operators", "kernels", "strip", "names",
    ]  # fmt: skip
    assert found["left_out"][-1] == "names: 6 of more than 6,000 characters are cut in their middle"


def test_a_strip_has_the_names_that_there_is_room_for() -> None:
    # GIVEN more kernels of long names than there is room for, the last devices' the longest
    events = [op("o" + CJK * 330, 0, 900)]
    for i in range(18):
        for n in range(8):
            cat = "kernel" if n % 2 else "gpu_memcpy"
            name = f"{i:02} {n} k" + CJK * 330
            events.append(work(name, 10, 100 + i, device=i, stream=n // 2, cat=cat))
    found = sound(profile(*events))
    strip = found["strip"]
    spans = strip["spans"]
    # THEN all of them are drawn, and those have names that the table has, or that are longest
    assert (len(spans["lane"]), strip["resolution_us"]) == (1 + 16 * 4 * 2, 0)
    named = [d for d, n in zip(spans["duration_us"], spans["name"], strict=True) if n is not None]
    assert sorted(named) == [115, 115, 900]
    assert found["left_out"] == [
        "kernels: the 3 with most CUDA time of 144 are here; all are in Profile.kernels",
        "strip: 2 more devices are not drawn",
        "strip: there was no room for 126 of the names",
    ]


@pytest.mark.parametrize("char", ["\U000e0001", "\u200b", '"', "\\", "\U0001f680", "\x00", " "])
@pytest.mark.parametrize("length", [3, 5_999, 6_000, 6_001, 20_000])
def test_names_of_any_kind_fit(char: str, length: int) -> None:
    # GIVEN such a name in every place there is
    name = char * length
    stuck = slice_("cpu_op", name, 0, 5, 100, name)
    found = sound(
        profile(
            op(name, 0, 10, 1), stuck, call(name, 2, 2, 7, 1),
            *(work(f"{name}{i}", 5, 3, 7, 1, device=i) for i in range(20)),
            slice_("kernel", name, 5, 3, name, name, device=name, stream=name),
            deviceProperties=[{"id": i, "name": name} for i in range(20)],
            recorded={"notes": [name] * 50, "platform": name},
        )
    )  # fmt: skip
    assert all(len(n) <= 6_070 for n in found["names"])
    assert all(len(figure["label"]) <= 250 for figure in found["figures"])
    assert len(found["device"]) <= 150


def test_escapes_may_take_the_place_of_more_than_is_said() -> None:
    one = profile(op("\x01" * 7_000, 0, 1), op("\x01" * 3_000, 0, 1))
    cut = {n.split(" … ")[1] for n in payload(one)["names"]}
    assert cut == {"more than 1,020 characters left out", "6,020 characters left out"}


def test_many_long_warnings_are_capped() -> None:
    found = sound(profile(op("a", 0, 1), recorded={"notes": [f"note {i}" for i in range(45)]}))
    assert found["warnings"] == [f"note {i}" for i in range(20)]
    assert found["left_out"] == ["warnings: the first 20 of 45 are here"]
    found = sound(profile(op("a", 0, 1), recorded={"notes": [CJK * 1000] * 45}))
    assert size(found["warnings"]) <= 12_000
    assert found["left_out"] == ["warnings: the first 4 of 45 are here"]
    assert (
        found["warnings"][0]
        == (CJK * 41)[:490] + " … 11,020 characters left out … " + ((CJK * 41)[-490:])
    )


def test_many_devices_are_capped() -> None:
    found = sound(profile(op("a", 0, 90, 1), *(work("k", 5, 3 + i, device=i) for i in range(99))))
    assert len(found["details"]) == 20
    assert "details: the first 20 of 100 are here" in found["left_out"]
    assert "strip: 83 more devices are not drawn" in found["left_out"]


def test_hostile_names_survive() -> None:
    one = recorded("hostile_names")
    found = sound(one)
    assert found["left_out"] == []
    shown = [visible(cells[0]) for cells in operator_table(one, limit=None).rows]
    names = spelled(found, found["operators"]["columns"]["name"])
    assert names == shown
    assert max(map(len, shown)) == 5000
    assert {"<script>alert(1)</script>", "</style><b>", "''", 'quote " inside'} < set(names)


def test_what_json_has_no_word_for_is_refused() -> None:
    assert encode({"µ": [1, 0.5, None, "名"]}) == '{"µ":[1,0.5,null,"名"]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"a": math.nan})


def test_runs_are_where_the_exported_file_has_them(tmp_path: Path) -> None:
    # GIVEN three runs, in a trace whose times are of the day, to the nanosecond
    steps = [
        note(f"ProfilerStep#{i}", f"171219549550{i}094.565", f"9{i}.007")  # type: ignore[arg-type]
        for i in (1, 2, 3)
    ]
    one = profile(*steps, op("a", "1712195495501100.001", 2))  # type: ignore[arg-type]
    times = sound(one)["run_times_ns"]
    file = json.loads(Path(one.export_trace(tmp_path / "t.json")).read_text(), parse_float=Decimal)
    written = [e for e in file["traceEvents"] if str(e.get("name")).startswith("ProfilerStep")]
    # THEN each is where the file has it, as numbers that a browser holds exactly
    assert times == {
        e["name"][-1]: [int(e["ts"] * 1000), int((e["ts"] + e["dur"]) * 1000)] for e in written
    }
    assert [end - start for start, end in times.values()] == [91_007, 92_007, 93_007]
    assert all(0 < time < 2**53 for both in times.values() for time in both)


def test_of_many_runs_the_drawn_one_is_placed_too() -> None:
    # GIVEN runs of which the median is none of the first hundred
    steps = [
        note(f"ProfilerStep#{i}", 10 * i, 5 if i == 151 else 1 + 8 * (i > 151))
        for i in range(1, 302)
    ]
    found = sound(profile(*steps, op("a", 1511, 0.5)))
    assert found["strip"]["run"] == 151
    assert list(found["run_times_ns"]) == [*map(str, range(1, 101)), "151"]
