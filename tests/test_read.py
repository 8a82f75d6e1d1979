"""Reading files: well-formed, odd, broken, and no traces at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import PUBLIC, note, op, profile, slice_, text, work

import tprofile
from tprofile import TprofileError
from tprofile.trace.read import read
from tprofile.trace.recorded import Recorded


def one(**fields: Any) -> dict[str, Any]:
    return {**op("a", 1, 2, 3), **fields}


def test_columns_of_a_small_file() -> None:
    # GIVEN a file whose events are in no order
    trace = read(
        text(
            work("k", 30.5, 4.25, 9, 3, device=1, stream=2),
            op("b", 10.001, 5, 3, tid=8),
            op("a", 10.001, 9.999, 2, tid=8),
            baseTimeNanoseconds=1_000,
            traceName="x",
            recorded={"profiled": 1},
        )
    )
    # THEN rows are by start, the longer first, in whole nanoseconds from the first
    assert trace.names[trace.name].tolist() == ["a", "b", "k"]
    assert trace.start_ns.tolist() == [0, 0, 20_499]
    assert trace.duration_ns.tolist() == [9_999, 5_000, 4_250]
    assert (trace.base_ns, trace.epoch_ns) == (10_001, 1_000)
    # AND a host event has a thread, a device event a device and a stream
    assert trace.thread.tolist() == [8, 8, -1]
    assert trace.device.tolist() == [-1, -1, 1]
    assert trace.stream.tolist() == [-1, -1, 2]
    assert trace.process.tolist() == [100, 100, 1]
    assert trace.correlation.tolist() == [0, 0, 9]
    assert trace.external_id.tolist() == [2, 3, 3]
    assert trace.header == {"baseTimeNanoseconds": 1_000, "traceName": "x"}
    assert trace.recorded == Recorded(profiled=1)
    assert trace.notes == ()


@pytest.mark.parametrize("shape", ["object", "list", "bom", "gzip", "indented", "path", "string"])
def test_forms_of_a_file(shape: str, tmp_path: Path) -> None:
    event = op("名前 \U0001f680", 1, 2)
    plain = text(event)
    (tmp_path / "t.json").write_bytes(plain)
    source = {
        "object": plain,
        "list": json.dumps([event]).encode(),
        "bom": b"\xef\xbb\xbf" + plain,
        "gzip": gzip.compress(plain),
        "indented": json.dumps(json.loads(plain), indent=1, ensure_ascii=False).encode(),
        "path": tmp_path / "t.json",
        "string": str(tmp_path / "t.json"),
    }[shape]
    assert read(source).names.tolist() == ["名前 \U0001f680"]


def test_a_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    assert len(tprofile.load(profile(one()).export_trace("~/t.json")).events) == 1


@pytest.mark.parametrize(
    "us",
    [
        "0.001", "-5.123", "1764590000000000.123", "5247872766299.831", "2000000000000001.999",
        # Here a float64 times 1000 ends in a half, which may round to the wrong side.
        *(f"4398046511{104 + n}.{1 + 7 * n:03d}" for n in range(140)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("quoted", [False, True])
def test_times_are_exact(us: str, quoted: bool) -> None:
    whole, part = us.lstrip("-").split(".")
    wanted = (int(whole) * 1000 + int(part)) * (-1 if us.startswith("-") else 1)
    file = text(one(ts="TIME")).replace(b'"TIME"', f'"{us}"'.encode() if quoted else us.encode())
    assert read(file).base_ns == wanted


@given(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=4))
def test_any_times_are_exact(starts: list[int]) -> None:
    def us(ns: int) -> str:
        return f"{'-' * (ns < 0)}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"

    events = ",".join(f'{{"ph":"X","name":"n","ts":{us(s)},"dur":{us(7)}}}' for s in starts)
    trace = read(f"[{events}]".encode())
    kept = [s for s in starts if s or sorted(starts)[len(starts) // 2] < 10**15]
    assert [trace.base_ns + s for s in trace.start_ns.tolist()] == sorted(kept)


def test_times_are_exact_far_from_the_first() -> None:
    # GIVEN times at which a float64 times 1000 may round to the wrong side
    late = [4_398_046_511_104_000 + 1_001 * n for n in range(200)]
    events = [one(ts=1.5), *(one(ts=f"#{s // 1000}.{s % 1000:03d}#") for s in late)]
    trace = read(text(*events).replace(b'"#', b"").replace(b'#"', b""))
    assert trace.start_ns.tolist() == [0, *(s - 1_500 for s in late)]


def test_text_as_process_and_thread_keeps_its_name() -> None:
    trace = read(text(one(pid="Spans", tid="b"), one(pid="12", tid="a"), one(pid=-3, tid=-2)))
    named = {trace.lanes.get(t, t) for t in trace.thread.tolist()}
    assert named == {"a", "b", -2}
    assert {trace.lanes.get(p, p) for p in trace.process.tolist()} == {"Spans", 12, -3}


def test_ids_above_int64_stay_apart() -> None:
    ids = [2**63 + 1, 2**64 - 1, 7]
    trace = read(text(*(one(ts=i, args={"External id": x}) for i, x in enumerate(ids))))
    assert len(set(trace.external_id.tolist())) == 3
    assert trace.external_id[2] == 7


@pytest.mark.parametrize("value", [None, [1], "x", 5, True, [], {}])
def test_odd_arguments_are_no_obstacle(value: Any) -> None:
    # GIVEN arguments, and the ids in arguments, of a type that nobody expects
    ids = {"External id": value, "correlation": value}
    found = profile(one(args=value), one(args=ids, ts=5), one(ts=9))
    assert len(found.events) == 3
    assert found.operators_by("shape")["calls"].sum() == 3


def test_missing_fields_are_no_obstacle() -> None:
    found = tprofile.load(b'[{"ph":"X"},{"ph":"X","cat":null,"name":null,"args":{}},{}]')
    assert found.events["name"].tolist() == ["", ""]
    assert found.operators.empty


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"ts": 0}, False),
        ({"ts": "abc"}, False),
        ({"ts": "nan"}, False),
        ({"ts": 1e300}, False),
        ({"ts": None}, False),
        ({"dur": -1}, False),
        ({"dur": "Infinity"}, False),
        ({"dur": "abc"}, False),
        ({"dur": 0}, True),
        ({"dur": None}, True),
    ],
)
def test_events_without_a_time_are_left_out_and_counted(fields: dict, kept: bool) -> None:
    # GIVEN a clock that does not start at 0
    good = [one(ts=1.7e15 + i) for i in range(3)]
    found = profile(*good, {**one(ts=1.7e15 + 9), **fields})
    assert len(found.events) == 3 + kept
    lost = "1 events were left out: no time, start 0, or duration below 0"
    assert found.summary.warnings == (() if kept else (lost,))


def test_a_clock_that_starts_at_zero_keeps_its_first_event() -> None:
    assert profile(one(ts=0), one(ts=5)).events["start_us"].tolist() == [0, 5]


def kineto(*names: bytes) -> bytes:
    """Write events as Kineto does: names as they are, each event on lines of its own."""
    events = b",\n".join(
        b'  {\n    "ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1,\n'
        b'    "ts": 1.000, "dur": 2.000,\n    "args": {\n      "External id": 1\n    }\n  }' % n
        for n in names
    )
    return b'{\n  "traceEvents": [\n' + events + b"\n  ]\n}\n"


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b'say "hi"', 'say "hi"'),
        (b'"', '"'),
        (b'"}]', '"}]'),
        (b"\x01x", "\x01x"),
        (b"\x00", "\x00"),
        (b"\xffx", "\ufffdx"),
        (b'"\xff\x01"', '"\ufffd\x01"'),
    ],
)
def test_what_kineto_does_not_escape_is_repaired(raw: bytes, name: str) -> None:
    found = tprofile.load(kineto(raw, b"plain"))
    assert found.events["name"].tolist() == [name, "plain"]
    assert found.summary.warnings == (
        "the file was not valid JSON; unescaped text in it was repaired",
    )


@pytest.mark.parametrize("bad", [b"\x01", b"\xff", b"\xc3"])
def test_a_repair_swallows_no_event_of_a_file_on_one_line(bad: bytes) -> None:
    file = text(one(name="a@"), one(name="b"), {"ph": "M", "args": {"name": "x"}}, one(name="c"))
    names = tprofile.load(file.replace(b"@", bad)).events["name"]
    assert [n[0] for n in names] == ["a", "b", "c"]


def test_begin_and_end_events_are_told_of() -> None:
    found = profile(one(), one(ph="B"), one(ph="E"))
    assert found.summary.warnings == ("2 events written as separate begin and end were not read",)


def test_the_span_of_the_whole_trace_and_memory_instants() -> None:
    instant = {**slice_("cpu_instant_event", "[memory]", 2, 0, 1, 1), "ph": "i"}
    found = profile(slice_("Trace", "PyTorch Profiler (0)", 0, 99, 1, 1), instant, note("n", 1, 3))
    assert found.events["name"].tolist() == ["n", "[memory]"]
    assert found.operators["name"].tolist() == ["n"]


FULL = text(*(op(f"n{i}", i, 1) for i in range(50)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (FULL[:700], "cut short"),
        (gzip.compress(FULL)[:-30], "cannot be unpacked"),
        (b"\x1f\x8bnot gzip", "cannot be unpacked"),
        (b'{"a": 1}', "no key 'traceEvents'"),
        (b"[1, 2]", "got `int`"),
        (b"5", "is no trace"),
        (b"%PDF-1.7", "is no trace"),
        (b'{"traceEvents": null}', "got `null`"),
        (text(one(ts=True), one()), "got `bool`"),
        (b'[{"args":' + b"[" * 100_000, "is no trace"),
    ],
)
def test_what_is_no_trace_says_so_with_its_name(data: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    file.write_bytes(data)
    with pytest.raises(TprofileError) as caught:
        tprofile.load(file)
    message = str(caught.value)
    assert said in message
    assert repr(str(file)) in message
    # AND tells what to do
    assert any(hint in message for hint in ("again", "export_chrome_trace"))
    with pytest.raises(TprofileError, match="these bytes"):
        tprofile.load(data)


@pytest.mark.parametrize("path", ["absent.json", "", "nul\0.json"])
def test_files_that_cannot_be_read(path: str, tmp_path: Path) -> None:
    with pytest.raises(TprofileError, match=r"cannot read the trace '.*Give the path"):
        tprofile.load(f"{tmp_path}/{path}")


@pytest.mark.parametrize("source", [None, 5, object(), {}])
def test_what_cannot_be_loaded_at_all(source: Any) -> None:
    with pytest.raises(TprofileError, match=f"cannot load a {type(source).__name__}. Give"):
        tprofile.load(source)


@pytest.mark.parametrize("walls", [0, -1, [], [1, float("nan")], "x", [None], float("inf")])
def test_unprofiled_walls_must_be_times(walls: Any) -> None:
    with pytest.raises(TprofileError, match="unprofiled_s is"):
        tprofile.load(FULL, unprofiled_s=walls)


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public traces are not part of the project")
def test_the_file_is_read_and_not_changed() -> None:
    file = PUBLIC / "cpu_only.json.gz"
    before = file.read_bytes()
    tprofile.load(file)
    assert file.read_bytes() == before
