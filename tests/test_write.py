"""Writing files: always valid, whole or not at all, and read back equal."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import RECORDED, assert_same, call, note, op, profile, recorded, slice_, text, work

import tprofile
from tprofile import TprofileError
from tprofile.trace import Trace
from tprofile.trace.build import build
from tprofile.trace.read import read
from tprofile.trace.recorded import Recorded, Stopped
from tprofile.trace.write import dump, write

HOSTILE = [
    "", " ", '"', "\\", '\\"', "\n", "\r\n", "\t", "\0", "\x01\x1f\x7f", "é", "名前", "\U0001f680",
    "</script><script>alert(1)</script>", "\u2028\u202e\u200d", '", "pid": 5', "x" * 20_000,
    "ProfilerStep#7", "[memory]", "C:\\", "\\\\", '"\\', "\ufeff", "{}", "]}",
]  # fmt: skip

int64 = st.integers(-(2**63), 2**63 - 1)
numbers = st.one_of(st.integers(-3, 40), int64)
names = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"])))
events = st.fixed_dictionaries(
    {
        "ph": st.just("X"),
        "cat": st.sampled_from(
            ["cpu_op", "kernel", "user_annotation", "cuda_runtime", "gpu_memcpy", "", "odd\n"]
        ),
        "name": names,
        "pid": st.one_of(numbers, names),
        "tid": st.one_of(numbers, names),
        "ts": st.integers(1, 60),
        "dur": st.integers(0, 30),
    },
    optional={
        "args": st.one_of(
            st.none(),
            st.lists(st.integers()),
            st.fixed_dictionaries(
                {},
                optional={
                    "External id": st.one_of(numbers, st.integers(2**63, 2**64), names),
                    "correlation": numbers,
                    "device": st.integers(0, 3),
                    "stream": st.one_of(st.integers(0, 3), st.just("7")),
                    "tid": st.one_of(numbers, names),
                    "Input Dims": st.just([[2, 3], []]),
                    "note": names,
                },
            ),
        )
    },
)


def written(trace: Trace) -> bytes:
    return b"".join(dump(trace))


def assert_equal(one: Trace, other: Trace) -> None:
    for column in (
        "start_ns", "duration_ns", "process", "thread", "device", "stream", "correlation",
        "external_id",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), column)
    assert one.names[one.name].tolist() == other.names[other.name].tolist()
    kinds = [[t.categories[c] for c in t.category] for t in (one, other)]
    assert kinds[0] == kinds[1]
    # What a float cannot hold beside nanoseconds is moved from the one into the other.
    assert (one.base_ns + one.epoch_ns, one.lanes, one.recorded) == (
        other.base_ns + other.epoch_ns, other.lanes, other.recorded,
    )  # fmt: skip


def strictly(data: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(data.decode(), parse_constant=refuse)


def assert_nested(file: dict[str, Any]) -> None:
    """Assert that slices of one lane overlap whole or not at all, as Perfetto asks."""
    lanes = defaultdict(list)
    for e in file["traceEvents"]:
        if e["ph"] == "X":
            start = round(e["ts"] * 1000)
            lanes[str(e["pid"]), str(e["tid"])].append((start, -start - round(e["dur"] * 1000)))
    for lane in lanes.values():
        stack: list[int] = []
        for start, minus_end in sorted(lane):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or -minus_end <= stack[-1]
            stack.append(-minus_end)


@given(st.lists(events, max_size=12))
def test_any_file_comes_back_equal(drawn: list[dict[str, Any]]) -> None:
    trace = read(json.dumps({"traceEvents": drawn}).encode())
    first = written(trace)
    again = read(first)
    assert_equal(trace, again)
    assert_nested(strictly(first))
    assert written(again) == first


class _Args:
    def __init__(self, texts: list[bytes]) -> None:
        self._texts = texts

    def args(self, row: int) -> bytes:
        return self._texts[row]


@given(
    st.lists(
        st.tuples(names, st.integers(-(2**59), 2**59), st.integers(0, 2**40), int64, int64),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 2**60),
)
def test_any_built_trace_comes_back_equal(rows: list[tuple], epoch: int) -> None:
    trace = build(
        names=[r[0] for r in rows],
        categories=["cpu_op"] * len(rows),
        start_ns=[r[1] if r[1] else 1 for r in rows],
        duration_ns=[r[2] for r in rows],
        process=[r[3] for r in rows],
        lane=[r[4] for r in rows],
        correlation=[0] * len(rows),
        external_id=[r[3] for r in rows],
        details=_Args([b'{"External id": %d}' % r[3] for r in rows]),
        epoch_ns=epoch,
        recorded=Recorded(notes=[rows[0][0]]),
    )
    first = written(trace)
    again = read(first)
    assert_equal(trace, again)
    assert_nested(strictly(first))
    assert written(again) == first


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traces_come_back_equal(name: str, tmp_path: Path) -> None:
    one = recorded(name)
    path = one.export_trace(tmp_path / "first.json")
    again = tprofile.load(path)
    # What was repaired is repaired for good, so the note about it goes.
    if name != "hostile_names":
        assert_same(one, again)
    file = strictly(Path(path).read_bytes())
    assert_nested(file)
    second = again.export_trace(tmp_path / "second.json")
    assert Path(second).read_bytes() == Path(path).read_bytes()


def test_the_text_of_a_small_file() -> None:
    # GIVEN a launch, and what it started
    one = profile(op("a", 1, 5.5, 3), call("go", 2, 1, 9, 3), work("k", 8, 4.001, 9, 3))
    file = strictly(written(one.trace.with_recorded(profiled=1)))
    told = file.pop("traceEvents")
    assert file == {"schemaVersion": 1, "displayTimeUnit": "ms", "tprofile": {"profiled": 1}}
    # THEN there are the slices, an arrow between the two, and names for each lane
    assert [(e["ph"], e["name"], e["pid"], e["tid"], e.get("ts"), e.get("dur")) for e in told] == [
        ("X", "a", 100, 1, 1, 5.5),
        ("X", "go", 100, 1, 2, 1),
        ("X", "k", 0, 7, 8, 4.001),
        ("s", "ac2g", 100, 1, 2, None),
        ("f", "ac2g", 0, 7, 8, None),
        ("M", "thread_name", 100, 1, None, None),
        ("M", "thread_name", 0, 7, None, None),
        ("M", "process_name", 100, 0, None, None),
        ("M", "process_labels", 100, 0, None, None),
        ("M", "process_name", 0, 0, None, None),
        ("M", "process_labels", 0, 0, None, None),
    ]
    assert told[3]["id"] == told[4]["id"] == 9
    assert [e["args"] for e in told[5:7]] == [{"name": "thread 1"}, {"name": "stream 7"}]


def test_overlapping_slices_get_a_lane_and_keep_their_thread(tmp_path: Path) -> None:
    # GIVEN two annotations that overlap in part, as those of awaiting tasks do, and one inside
    one = profile(note("a", 1, 10), note("b", 5, 10), op("in b", 6, 1), op("late", 11, 1))
    path = one.export_trace(tmp_path / "t.json")
    told = [e for e in json.loads(Path(path).read_text())["traceEvents"] if e["ph"] == "X"]
    # THEN what runs past its neighbour is drawn elsewhere, and says where it belongs
    assert [(e["name"], e["tid"], e["args"].get("tid")) for e in told] == [
        ("a", 1, None), ("b", 1_000_000_000, 1), ("in b", 1, None), ("late", 1, None),
    ]  # fmt: skip
    again = tprofile.load(path)
    assert again.events["thread"].tolist() == [1, 1, 1, 1]
    assert_same(one, again)


def test_lanes_of_our_own_are_apart() -> None:
    one = profile(*(note(n, 5 * i, 10, tid=t) for t in (1, 2) for i, n in enumerate("abc")))
    told = [e for e in strictly(written(one.trace))["traceEvents"] if e["ph"] == "X"]
    lanes = {(e["tid"], e["args"].get("tid", e["tid"])) for e in told if e["name"] == "b"}
    assert lanes == {(1_000_000_000, 1), (1_000_000_001, 2)}
    # AND what begins where its neighbour ends stays
    assert {e["tid"] for e in told if e["name"] == "c"} == {1, 2}


@pytest.mark.parametrize("correlation", [0, 7])
def test_no_arrow_where_no_launch_is_known(correlation: int) -> None:
    one = profile(op("a", 1, 5, 1), work("k", 9, 2, correlation, 1))
    assert {e["ph"] for e in strictly(written(one.trace))["traceEvents"]} == {"X", "M"}


def drawn(trace: Trace) -> list[tuple[Any, ...]]:
    """Return name, process, lane and own lane of each slice in the file."""
    events = [e for e in strictly(written(trace))["traceEvents"] if e["ph"] == "X"]
    return [(e["name"], e["pid"], e["tid"], e["args"].get("tid")) for e in events]


def test_numbers_that_perfetto_cannot_tell_apart_are_text() -> None:
    rows = [
        slice_("cpu_op", "a", 1, 9, 2**32 - 1, 2**32), slice_("cpu_op", "b", 2, 9, -5, -6),
        slice_("cpu_op", "c", 3, 9, 2**40, 7), slice_("cpu_op", "d", 4, 9, 2**40, 7),
    ]  # fmt: skip
    lane = {"ph": "M", "name": "thread_name", "pid": -5, "tid": -6, "args": {"name": "odd"}}
    one = profile(*rows, lane)
    assert drawn(one.trace) == [
        ("a", 2**32 - 1, "4294967296", None), ("b", "-5", "-6", None),
        ("c", "1099511627776", 7, None), ("d", "1099511627776", 1_000_000_000, 7),
    ]  # fmt: skip
    (named,) = [e for e in strictly(written(one.trace))["traceEvents"] if e["args"] == lane["args"]]
    assert (named["pid"], named["tid"]) == ("-5", "-6")
    again = read(written(one.trace))
    assert again.thread.tolist() == [2**32, -6, 7, 7]
    assert again.process.tolist() == [2**32 - 1, -5, 2**40, 2**40]
    # AND what is no row has its numbers again too
    assert json.loads(next(o for o in again.others if b"odd" in o)) == lane


def test_stream_0_is_not_the_stream_with_the_number_of_its_device() -> None:
    def lanes(*streams: tuple[int, int]) -> list[Any]:
        one = profile(
            *(work("k", 1 + i, 5, device=d, stream=s) for i, (d, s) in enumerate(streams))
        )
        assert read(written(one.trace)).stream.tolist() == [s for _, s in streams]
        return [tid for _, _, tid, _ in drawn(one.trace)]

    assert lanes((3, 0), (3, 3)) == ["0", 3]
    assert lanes((3, 0), (3, 7), (4, 3)) == [0, 7, 3]
    assert lanes((0, 0), (0, 1)) == [0, 1]


def test_lanes_of_our_own_have_unused_numbers() -> None:
    rows = [note("a", 1, 10), note("b", 5, 10), note("c", 1, 10, tid=1_000_000_000)]
    assert [tid for _, _, tid, _ in drawn(profile(*rows).trace)] == [
        1,
        1_000_000_000,
        1_000_000_001,
    ]


def test_unix_time_is_moved_to_the_base_of_the_file() -> None:
    # GIVEN times of which a float64 of microseconds holds no nanoseconds
    starts = [1_712_195_495_502_094_565, 1_712_195_495_502_094_898]
    raw = ",".join(f'{{"ph":"X","name":"n","ts":{s // 1000}.{s % 1000:03d},"dur":0.333}}'
                   for s in starts)  # fmt: skip
    mark = f'{{"ph":"i","s":"g","name":"m","ts":{starts[1] // 1000}.{starts[1] % 1000:03d}}}'
    one = read(f'{{"baseTimeNanoseconds":7,"traceEvents":[{raw},{mark}]}}'.encode())
    file = strictly(written(one))
    quarter = 7_889_238 * 10**9
    assert file["baseTimeNanoseconds"] == starts[0] // quarter * quarter + 7
    times = {e["name"]: round(e["ts"] * 1000) for e in file["traceEvents"] if "ts" in e}
    assert {n: t + file["baseTimeNanoseconds"] - 7 for n, t in times.items()} == {
        "n": starts[1], "m": starts[1],
    }  # fmt: skip
    again = read(written(one))
    assert (again.start_ns.tolist(), again.base_ns + again.epoch_ns) == ([0, 333], starts[0] + 7)
    assert written(again) == written(one)


def test_times_before_0_are_moved_too() -> None:
    file = strictly(written(profile(op("a", -9.5, 5), op("b", 3, 2)).trace))
    times = [e["ts"] for e in file["traceEvents"] if "ts" in e]
    assert times == [7_889_237_999_990.5, 7_889_238_000_003]
    assert file["baseTimeNanoseconds"] == -7_889_238 * 10**9


def test_text_is_written_as_perfetto_reads_it() -> None:
    names = ["\U0001f680", "C:\\", "\\\\", 'a\\"', "\\ud83d\\ude80", "名"]
    rows = [op(name, i, 1, note=name, **{name: i}) for i, name in enumerate(names)]
    lane = {
        "ph": "M",
        "name": "thread_name",
        "pid": 100,
        "tid": 1,
        "args": {"name": "\U0001f680\\"},
    }
    raw = written(profile(*rows, lane, note=names).trace)
    # THEN no character is escaped as two, and no text ends in a backslash that is written as two
    texts = re.findall(rb'"(?:[^"\\]|\\.)*"', raw)
    assert [t for t in texts if re.search(rb'[^\\](\\\\)*\\ud|\\\\"$', t)] == []
    file = strictly(raw)
    told = [(e["name"], e["args"]["note"], e["args"][e["name"]]) for e in file["traceEvents"][:6]]
    assert told == [(name, name, i) for i, name in enumerate(names)]
    assert file["note"] == names
    assert lane in file["traceEvents"]


def test_half_a_character_is_replaced() -> None:
    one = profile(op("a", 1, 2)).trace.with_recorded(
        stopped=Stopped(by="Bad\ud800Error\U0001f680", during="run 1 of 1")
    )
    assert read(written(one)).recorded.stopped == Stopped("Bad\ufffdError\U0001f680", "run 1 of 1")


def test_no_limit_of_time_is_no_number() -> None:
    one = profile(op("a", 1, 2)).trace.with_recorded(max_seconds=float("inf"), discarded=1)
    assert strictly(written(one))["tprofile"] == {"discarded": 1}


def test_an_argument_called_tid_is_no_thread(tmp_path: Path) -> None:
    one = profile(op("a", 1, 2, tid=4) | {"args": {"tid": 99}}, op("b", 5, 2, tid=4))
    assert one.events["thread"].tolist() == [4, 4]
    assert_same(one, tprofile.load(one.export_trace(tmp_path / "t.json")))


def test_a_device_without_a_valid_number_is_a_device_still(tmp_path: Path) -> None:
    one = profile(op("a", 1, 5, 1), work("k", 9, 2, 0, 1, device=-1, stream=3))
    assert one.kernels[["name", "operator", "stream"]].to_numpy().tolist() == [["k", "a", 3]]
    assert one.operators["name"].tolist() == ["a"]
    assert_same(one, tprofile.load(one.export_trace(tmp_path / "t.json")))


def test_other_events_and_header_are_kept(tmp_path: Path) -> None:
    mark = {"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 3, "s": "g"}
    lane = {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "main"}}
    flow = {"ph": "s", "id": 4, "cat": "fwdbwd", "name": "fwdbwd", "pid": 100, "tid": 1, "ts": 1}
    one = tprofile.load(text(op("a", 1, 2), mark, lane, flow, world={"rank": [1, None]}))
    file = json.loads(Path(one.export_trace(tmp_path / "t.json")).read_text())
    assert file["world"] == {"rank": [1, None]}
    assert [e for e in file["traceEvents"] if e["ph"] != "X"] == [mark, lane, flow]


def test_the_path_comes_back_and_gz_is_packed(tmp_path: Path) -> None:
    one = profile(op("a", 1, 2))
    plain, packed = tmp_path / "t.json", tmp_path / "t.json.gz"
    assert one.export_trace(str(plain)) == str(plain)
    assert one.export_trace(packed) == str(packed)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    # AND the same trace gives the same bytes
    before = packed.read_bytes()
    one.export_trace(packed)
    assert packed.read_bytes() == before


def test_a_file_that_exists_is_kept_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")
    with pytest.raises(TprofileError, match=r"t\.json' exists and overwrite is off"):
        profile(op("a", 1, 2)).export_trace(path, overwrite=False)
    assert path.read_text() == "old"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("end", ["json", "json.gz"])
def test_an_error_half_way_leaves_the_old_file(
    tmp_path: Path, error: type[BaseException], end: str
) -> None:
    class Failing:
        def args(self, row: int) -> bytes:
            if row == 1:
                raise error("half-way")
            return b"{}"

    trace = build(
        names=["a", "b"], categories=["cpu_op"] * 2, start_ns=[1, 2], duration_ns=[1, 1],
        process=[1, 1], lane=[1, 1], correlation=[0, 0], external_id=[0, 0], details=Failing(),
    )  # fmt: skip
    path = tmp_path / f"t.{end}"
    path.write_text("old")
    with pytest.raises(error):
        write(trace, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written() -> None:
    one = profile(op("a", 1, 2))
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(TprofileError, match=r"is a folder\. Give the name of a file"):
            one.export_trace(folder)
        with pytest.raises(TprofileError, match=r"cannot write .*Choose a folder that exists"):
            one.export_trace(f"{folder}/absent/t.json")
