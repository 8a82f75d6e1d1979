"""A run with every call at its depth: on a trace drawn by hand, against walks, and as bytes.

`python tests/test_timeline.py` writes the run that the front end's tests read.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from traces import RECORDED, call, note, op, profile, recorded, work

import tprofile
from tprofile.analysis.strip import KINDS, Lane
from tprofile.analysis.timeline import Timeline
from tprofile.errors import TprofileError
from tprofile.trace import marks
from tprofile.views.pack import NAME
from tprofile.views.timeline import timeline as as_bytes
from tprofile.views.words import cut

FILE = Path(__file__).parents[1] / "src" / "frontend" / "test" / "run.cases.json"
RUN, SYNC = "tprofile::run", "tprofile::synchronize"
SOURCE = "for x in xs:\n    y = x @ w\n"


def change(ts: float, size: int, total: int) -> dict[str, Any]:
    args = {"Bytes": size, "Device Type": 1, "Device Id": 0, "Total Allocated": total}
    return {
        "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1,
        "ts": ts, "args": args,
    }  # fmt: skip


def two_runs() -> tprofile.Profile:
    """Return a cell of two lines, run twice; in the first run all there can be."""
    return profile(
        note(RUN, 100, 100, 1),
        op(marks.line(2), 102, 70, 2), op(marks.line(3), 104, 60, 3),
        op(marks.module("Linear", "net"), 105, 50, 4),
        note("block", 106, 40, 5), op("aten::linear", 108, 30, 6), op("aten::mm", 110, 20, 7),
        change(112, 512, 2048), call("cudaLaunchKernel", 115, 5, 9, 7), change(121, -512, 1536),
        op("aten::relu", 150, 4, 8, tid=2),
        work("gemm", 130, 25, 9, 7), work("Memcpy", 140, 30, 10, 0, cat="gpu_memcpy", stream=20),
        call("cudaStreamSynchronize", 160, 8, 11, 0),
        note(SYNC, 180, 19, 12),
        note(RUN, 300, 50, 20), op("aten::mm", 310, 5, 21),
        recorded={"profiled": 2, "source": SOURCE, "first_line": 2},
    )  # fmt: skip


def spans(found: Timeline) -> list[tuple[Any, ...]]:
    """Return lane, row, kind, start, duration and name of each span."""
    s = found.strip
    kinds = [KINDS[i] for i in s.kind.tolist()]
    columns = (s.lane, s.row, kinds, s.start_us, s.duration_us, s.name)
    return list(zip(*(c if isinstance(c, list) else c.tolist() for c in columns), strict=True))


def test_a_run_with_all_that_it_has() -> None:
    found = two_runs().timeline(1)
    assert (found.strip.run, found.strip.of, found.strip.wall_us) == (1, 2, 100)
    assert found.strip.lanes == (
        Lane("code", "lines", 2), Lane("code", "modules", 1), Lane("cpu", "CPU", 4),
        Lane("cpu", "thread 2", 1), Lane("device", "", 2, 0, (20, 7)),
    )  # fmt: skip
    assert spans(found) == [
        (0, 0, "line", 2, 70, "2  for x in xs:"),
        (0, 1, "line", 4, 60, "3  y = x @ w"),
        (1, 0, "module", 5, 50, "net"),
        (2, 0, "note", 6, 40, "block"),
        (2, 0, "wait", 60, 8, "cudaStreamSynchronize"),
        (2, 1, "operator", 8, 30, "aten::linear"),
        (2, 2, "inner", 10, 20, "aten::mm"),
        (2, 3, "call", 15, 5, "cudaLaunchKernel"),
        (3, 0, "operator", 50, 4, "aten::relu"),
        (4, 0, "copy", 40, 30, "Memcpy"),
        (4, 1, "kernel", 30, 25, "gemm"),
    ]
    assert found.strip.launch.tolist() == [-1] * 10 + [7]
    assert found.strip.operator.tolist()[9:] == [None, "aten::mm"]
    assert found.strip.line.tolist() == [2, 3, 3, 3, 3, 3, 3, 3, -1, -1, 3]
    (memory,) = found.memory
    assert memory.device == 0
    # What was there when the run began stands at its start.
    assert memory.time_us.tolist() == [0, 12, 21]
    assert memory.allocated_bytes.tolist() == [1536, 2048, 1536]


def test_another_run_is_drawn_from_its_own_start() -> None:
    found = two_runs().timeline(2)
    assert spans(found) == [(0, 0, "operator", 10, 5, "aten::mm")]
    (memory,) = found.memory
    assert (memory.time_us.tolist(), memory.allocated_bytes.tolist()) == ([0], [1536])


@pytest.mark.parametrize("run", [0, 3, -1, True, 1.0, "1", None, 10**30])
def test_there_are_only_the_runs_that_there_are(run: Any) -> None:
    with pytest.raises(TprofileError, match=r"no run .*: the profile has 2, counted from 1"):
        two_runs().timeline(run)


@pytest.mark.parametrize("name", RECORDED)
def test_every_event_of_a_run_is_there_within_what_is_around_it(name: str) -> None:
    one = recorded(name)
    found, events = one._found, one.events
    for run in one.runs["run"].tolist():
        strip = one.timeline(run).strip
        kinds = np.array(KINDS)[strip.kind]
        host = ~np.isin(kinds, ["line", "module", "kernel", "copy"])
        shown = found.counted & ~found.merged & (found.run == run - 1)
        shown &= (events["category"] != "overhead").to_numpy()
        assert sorted(strip.event[host].tolist()) == np.flatnonzero(shown).tolist()
        # THEN a span's parent, by a walk, is one row above it, in the same lane, around it
        span_of = {event: i for i, event in enumerate(strip.event.tolist())}
        for i in np.flatnonzero(host).tolist():
            above = int(found.parent[strip.event[i]])
            while above != -1 and not shown[above]:
                above = int(found.parent[above])
            assert strip.row[i] == (0 if above == -1 else strip.row[span_of[above]] + 1)
            if above != -1:
                j = span_of[above]
                assert strip.lane[i] == strip.lane[j]
                assert strip.start_us[i] >= strip.start_us[j]
        work = one.strip and np.flatnonzero(np.isin(kinds, ["kernel", "copy"]))
        assert work is not None
        first, length = found.runs.start_ns[run - 1], found.runs.end_ns[run - 1]
        own = np.flatnonzero(found.work)
        inside = (found.trace.start_ns[own] < length) & (found.trace.end_ns[own] > first)
        assert sorted(strip.event[work].tolist()) == own[inside].tolist()


def test_too_many_spans_are_drawn_together_and_that_is_told() -> None:
    from tprofile.analysis.timeline import timeline

    one = recorded("resnet18_train")
    whole = one.timeline(1).strip
    found = timeline(one._found, 1, most=500)
    assert len(found.strip) <= 500 < len(whole)
    assert found.strip.resolution_us > 0
    assert found.strip.count.sum() == len(whole)
    assert set(found.forward.tolist()) == {-1}


def test_work_of_a_backward_pass_has_the_operator_of_its_forward_pass() -> None:
    one = recorded("mlp_train_stack_mem")
    found = one.timeline(1)
    events = one.events
    ahead = events["forward"].to_numpy()[found.strip.event]
    there = found.forward >= 0
    assert there.sum() == 101
    assert found.strip.event[found.forward[there]].tolist() == ahead[there].tolist()


def read(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and columns, as the front end reads them."""
    length = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + length])
    columns, at = {}, 4 + length
    for key, kind, n in header["columns"]:
        assert at % 8 == 0
        columns[key] = np.frombuffer(data, np.dtype("<" + kind), n, at)
        at += -(-columns[key].nbytes // 8) * 8
    assert at == len(data)
    return header, columns


@pytest.mark.parametrize("name", RECORDED)
def test_bytes_say_the_same(name: str) -> None:
    one = recorded(name)
    found = one.timeline(1)
    header, columns = read(as_bytes(one, 1))
    strip = found.strip
    lanes = [lane for lane, _, n in header["parts"] for _ in range(n)]
    rows = [row for _, row, n in header["parts"] for _ in range(n)]
    assert (lanes, rows) == (strip.lane.tolist(), strip.row.tolist())
    for key in ("start_us", "duration_us", "kind", "launch", "line"):
        assert columns[key].tolist() == getattr(strip, key).tolist()
    names = [*header["names"], None]
    for key in ("name", "operator"):
        # A name that is empty is shown as quotes, as in the tables.
        shown = ["''" if name == "" else name for name in getattr(strip, key).tolist()]
        assert [names[i] for i in columns[key]] == shown
    assert columns["forward"].tolist() == found.forward.tolist()
    assert len(header["memory"]) == len(found.memory)


def test_a_name_is_cut_as_in_the_payload() -> None:
    long = "k" * 7000
    header, _ = read(as_bytes(profile(op("aten::mm", 0, 9, 1), op(long, 1, 5)), 1))
    assert cut(long, NAME) in header["names"]
    assert len(cut(long, NAME)) < len(long)


def cases() -> dict[str, Any]:
    """Return a run as bytes, and what is in it."""
    one = two_runs()
    found, data = one.timeline(1), as_bytes(one, 1)
    header, columns = read(data)
    strip = found.strip
    shown = ("lane", "row", "start_us", "duration_us", "kind", "launch", "line", "name", "operator")
    return {
        "base64": base64.b64encode(data).decode(),
        "wall_us": header["wall_us"],
        "lanes": header["lanes"],
        "spans": {
            **{key: getattr(strip, key).tolist() for key in shown},
            "forward": columns["forward"].tolist(),
        },
        "memory": {
            "time_us": found.memory[0].time_us.tolist(),
            "bytes": found.memory[0].allocated_bytes.tolist(),
        },
    }


def test_the_front_end_reads_what_is_written_now() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == cases()


if __name__ == "__main__":
    FILE.write_text(json.dumps(cases(), indent=1) + "\n", encoding="utf-8")
