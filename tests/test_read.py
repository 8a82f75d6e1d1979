"""Reading files: well-formed, odd, broken, and no traces at all."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import PUBLIC, assert_same, call, note, op, profile, slice_, text, work

import tprofile
from tprofile import TprofileError
from tprofile.trace.read import read
from tprofile.trace.recorded import Recorded
from tprofile.trace.write import dump


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


@pytest.mark.parametrize(
    "shape",
    [
        "object",
        "list",
        "bom",
        "gzip",
        "indented",
        "path",
        "string",
        "utf-16",
        "utf-16-le",
        "utf-32-be",
    ],
)
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
        # As a shell of Windows writes it.
        **{code: plain.decode().encode(code) for code in ("utf-16", "utf-16-le", "utf-32-be")},
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
    # AND text that is no plain number is a name
    texts = ["007", "1_000", " 12", "１２", "", "-0"]
    trace = read(text(*(one(tid=t) for t in texts)))
    assert sorted(trace.lanes[t] for t in trace.thread.tolist()) == sorted(texts)


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
    good = [one(ts=1.7e15 + 4 * i) for i in range(3)]
    found = profile(*good, {**one(ts=1.7e15 + 12), **fields})
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


EVENTS = [op(f"n{i}", i, 1) for i in range(50)]
FULL = text(*EVENTS)
LIST = json.dumps(EVENTS).encode()


def zipped(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr(name, FULL)
    return file.getvalue()


NO_TRACE = {
    "nothing": (b"", "is empty: no trace was written to it"),
    "blanks": (b" \n", "is empty: no trace was written to it"),
    "web page": (b"\n<!DOCTYPE html>\n", "is HTML or XML that begins with '<!DOCTYPE html>'"),
    "zip": (zipped("t.json"), "is packed with zip. Unpack it (unzip), or pack it with gzip"),
    "torch.save": (zipped("x/data.pkl"), "is no trace: it is what torch.save writes"),
    "bzip2": (bz2.compress(FULL), "is packed with bzip2. Unpack it (bunzip2)"),
    "xz": (lzma.compress(FULL), "is packed with xz. Unpack it (unxz)"),
    "zstd": (b"\x28\xb5\x2f\xfd\0", "is packed with zstd. Unpack it (zstd -d)"),
    "twice gzip": (gzip.compress(gzip.compress(FULL)), "is packed with gzip. Unpack it (gunzip)"),
    "page in gzip": (gzip.compress(b"<html>"), "is HTML or XML that begins with '<html>'"),
    "pickle": (pickle.dumps({"segments": []}), "is a Python pickle, such as torch.save and"),
    "database": (b"SQLite format 3\0\x10", "is an SQLite database, such as Nsight exports"),
    "binary": (bytes(range(200)), r"is binary data that begins with b'\x00\x01\x02"),
    "other text": (b"a\tb \xff" + b"9" * 99, r"is text that begins with 'a\tb " + "\ufffd99999"),
    "number": (b"5", "is text that begins with '5'"),
    "cut": (FULL[:3000], "is cut short: it ends after 26 whole events, at byte 3000"),
    "cut list": (LIST[:3000], "is cut short: it ends after 26 whole events, at byte 3000"),
    "cut between events": (FULL[:3100], "it ends after 27 whole events, at byte 3100"),
    "cut behind events": (FULL[:-1] + b', "x": "y', "is cut short: it ends after 50 whole events"),
    "cut at its end": (FULL[:-1], "is cut short: it ends after 50 whole events, at byte 5746"),
    "cut header": (b'{"schemaVersion": 1, "dev', "is cut short: it ends after 0 whole events, at"),
    "packed when cut": (gzip.compress(FULL[:3000]), "is cut short: it ends after 26 whole events"),
    "cut gzip": (gzip.compress(FULL)[:-8], "cannot be unpacked: it is cut short, after 5747 bytes"),
    "no gzip": (b"\x1f\x8bnot gzip", "cannot be unpacked: it is damaged (Error -3 while"),
    "gzip of another": (gzip.compress(FULL)[:-8] + b"12345678", "damaged (Error -3 while"),
    "text behind": (FULL + b"garbage", "has ended, at character 5747, with 'garbage'"),
    "two traces": (FULL + b"\n" + FULL, "has ended, at character 5747, with '{\"traceEvents\": [{"),
    "lines": (b'{"ph": "X"}\n{"ph": "X"}', "has ended, at character 11, with '{\"ph\": \"X\"}'"),
    "fault within": (FULL.replace(b'"n20"', b'"n20" oops'), "'}' (byte 2340), after 20 whole"),
    "notebook": (
        b'{"cells": [], "metadata": {}, "nbformat": 4}',
        "JSON of another kind, an object with the keys 'cells', 'metadata', 'nbformat'",
    ),
    "nothing in it": (b"{}", "JSON of another kind, an empty object"),
    "strange keys": (
        json.dumps({f"{i}\n{'x' * 99}": i for i in range(30)}).encode(),
        r"the keys '0\n" + "x" * 38 + "…', '1",
    ),
    "numbers": (b"[1, 2]", "it is a list of 2, of which none can be read as an event (Expected"),
    "records": (b'[{"a": 1}, {}]', "it is a list of 2, of which none is an event"),
    "null for events": (b'{"traceEvents": null}', "its 'traceEvents' is null and no list"),
    "number for events": (b'{"traceEvents": 5}', "its 'traceEvents' is a number and no list"),
    "object for events": (b'{"traceEvents": {"a": 1}}', "an object with the keys 'a' and no"),
    "time too large": (text(one(ts=1)).replace(b'"ts": 1', b'"ts": 1e999'), "(Number out of range"),
    "deep": (b'[{"args":' + b"[" * 100_000, "is nested too deep to be read as a trace"),
    "deep and whole": (b'{"x":' + b"[" * 9999 + b"]" * 9999 + b"}", "is nested too deep"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NO_TRACE)
def test_what_is_no_trace_says_so_with_its_name(kind: str, tmp_path: Path) -> None:
    data, said = NO_TRACE[kind]
    file = tmp_path / "odd\n.json"
    file.write_bytes(data)
    with pytest.raises(TprofileError) as caught:
        tprofile.load(file)
    message = str(caught.value)
    assert said in message
    assert message.startswith(repr(str(file)))
    # AND is short, on one line, and tells what to do
    assert len(message) < 1000
    assert "\n" not in message
    advice = ("again", "export_chrome_trace", "Unpack it", "Download", "Give one trace")
    assert any(hint in message for hint in advice)
    with pytest.raises(TprofileError, match="what these bytes hold"):
        tprofile.load(data)


MENDED = {
    "open list": (LIST[:-1], "its list of events has no end, so the last of them may be missing"),
    "open list, comma": (
        LIST[:-1] + b",\n",
        "its list of events has no end, so the last of them may be missing",
    ),
    "comma": (LIST[:-1] + b",\n]", "a comma after its last event was left out"),
    "comma in an object": (FULL[:-2] + b",]}", "a comma after its last event was left out"),
    "NaN": (
        FULL.replace(b'"External id": 0', b'"x": NaN, "y": -Infinity, "z": nan, "n": "a, NaN, b"'),
        "NaN and infinities in it were read as text",
    ),
    "half a pair": (FULL.replace(b'"n7"', rb'"\ud800"'), "lone surrogates in it were replaced"),
    "bad UTF-8": (
        FULL.replace(b'"External id": 0', b'"x": "\xff"'),
        "unescaped text in it was repaired",
    ),
}


@pytest.mark.parametrize("kind", MENDED)
def test_what_is_almost_a_trace_is_mended_with_a_note(kind: str) -> None:
    data, told = MENDED[kind]
    trace = read(data)
    assert len(trace) == 50
    assert trace.notes == (f"the file was not valid JSON; {told}",)
    # AND is valid from then on
    assert len(json.loads(b"".join(dump(trace)).decode())["traceEvents"]) > 50


def test_mending_changes_what_is_broken_alone() -> None:
    name = rb"\ud83d\ude80 \ud800\ud800\\ud800, NaN, x"
    trace = read(rb'[{"ph":"X","name":"%s","args":{"a":-inf,"b":[NaN]}}]' % name)
    assert trace.names.tolist() == ["\U0001f680 \ufffd\ufffd\\ud800, NaN, x"]
    assert json.loads(trace.args(0)) == {"a": "-inf", "b": ["NaN"]}


def test_a_time_that_is_no_number_is_none() -> None:
    trace = read(text(op("a", 5, 1), op("b", 7, 1)).replace(b'"dur": 1', b'"dur": NaN', 1))
    assert trace.names.tolist() == ["b"]
    assert trace.notes[1] == "1 events were left out: no time, start 0, or duration below 0"


def test_members_and_padding_of_gzip() -> None:
    halves = gzip.compress(FULL[:100]) + gzip.compress(FULL[100:])
    assert len(read(halves)) == 50
    assert read(halves + b"\0" * 512).notes == ()
    note = "7 bytes behind the end of the gzip file were left out"
    assert read(halves + b"garbage").notes == (note,)


def test_entries_that_are_no_events_are_left_out_and_counted() -> None:
    entries = [1, None, op("a", 1, 2), [], "x", one(ts=True), one(pid=[]), op("b", 5, 2), {}]
    trace = read(json.dumps({"traceEvents": entries}).encode())
    assert trace.names.tolist() == ["a", "b"]
    assert trace.notes == (
        "6 entries are no events and were left out",
        "1 entries without a phase are no events and were left out",
    )
    assert trace.others == ()


def test_a_key_that_comes_twice_counts_as_its_last() -> None:
    raw = b'{"traceEvents":[],"traceEvents":[{"ph":"X","name":"a","name":"b","ts":1,"ts":2}]}'
    trace = read(raw)
    assert (trace.names.tolist(), trace.base_ns) == (["b"], 2_000)


def test_a_number_too_large_costs_no_more_than_itself() -> None:
    args = b'{"a":1e999,"External id":[],"correlation":7}'
    trace = read(b'{"x":1e999,"y":2,"traceEvents":[{"ph":"X","args":%b}]}' % args)
    assert trace.header == {"y": 2}
    assert trace.notes == ("'x' holds a number too large, and was left out",)
    assert trace.correlation.tolist() == [7]


def test_folders_tell_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for count, said in enumerate(
        [
            "is a folder, and there is no .json or .json.gz file in it. Give the path of a trace.",
            "is a folder, and there is one .json or .json.gz file in it, 'a0.json': give its path.",
            "is a folder, and there are 2 .json or .json.gz files in it, the first of them "
            "'a0.json'. Give the path of one of them.",
        ]
    ):
        with pytest.raises(TprofileError) as caught:
            tprofile.load(tmp_path)
        assert str(caught.value) == f"{str(tmp_path)!r} {said}"
        (tmp_path / f"a{count}.json{'.gz' * count}").touch()


def test_text_of_a_trace_is_no_path() -> None:
    with pytest.raises(TprofileError, match="give that as bytes") as caught:
        tprofile.load(FULL.decode() * 50)
    assert len(str(caught.value)) < 700


def test_a_path_may_be_bytes_of_the_system(tmp_path: Path) -> None:
    class Place:
        def __fspath__(self) -> bytes:
            return os.fsencode(tmp_path / "t.json")

    (tmp_path / "t.json").write_bytes(FULL)
    assert len(tprofile.load(Place()).events) == 50


@pytest.mark.parametrize("path", ["absent.json", "x" * 9999, "nul\0.json"])
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


def test_work_that_overlaps_on_one_stream_counts_twice_and_is_busy_once() -> None:
    found = profile(op("o", 1, 3, 1), work("k", 5, 10, 0, 1), work("l", 9, 10, 0, 1))
    kernels = found.kernels[["name", "operator", "calls", "device_us"]]
    assert kernels.to_numpy().tolist() == [["k", "o", 1, 10], ["l", "o", 1, 10]]
    assert found.summary.device_busy_us == 14
    # AND both are drawn
    events = json.loads(b"".join(dump(found.trace)))["traceEvents"]
    drawn = [(e["name"], e["pid"], e["tid"]) for e in events if e.get("cat") == "kernel"]
    assert drawn == [("k", 0, 7), ("l", 0, 1_000_000_000)]


def test_work_without_a_time_is_in_no_figure() -> None:
    found = profile(
        op("o", 2e12, 9, 1),
        work("k", 2e12 + 1, 5, 0, 1), work("k", 2e12 + 2, 0, 0, 1), work("k", 0, 5, 0, 1),
    )  # fmt: skip
    assert found.kernels[["name", "calls", "device_us"]].to_numpy().tolist() == [["k", 1, 5]]
    assert found.summary.device_busy_us == 5
    assert set(found.summary.warnings) >= {
        "1 events were left out: no time, start 0, or duration below 0",
        "1 kernels, copies or sets were recorded without a duration and are in no figure",
    }


def test_nothing_is_below_zero_for_a_kernel_before_its_launch() -> None:
    found = profile(op("o", 10, 9, 1), call("cudaLaunchKernel", 12, 2, 8, 1), work("k", 3, 4, 8, 1))
    assert found.kernels[["operator", "device_us"]].to_numpy().tolist() == [["o", 4]]
    assert found.events["start_us"].tolist() == [0, 7, 9]
    # AND the launch is its parent still, though nothing says how long it waited
    assert found.events["parent"].tolist() == [2, -1, 1]
    strip = found.strip
    assert strip is not None
    assert strip.start_us.tolist() == [7, 9, 0]
    assert strip.duration_us.tolist() == [9, 2, 4]
    assert found.kernels["delay_us"].isna().all()
    known = found.kernels.drop(columns="delay_us")
    for frame in (found.runs, found.devices, found.operators, known):
        assert (frame.select_dtypes("number") >= 0).all(axis=None)


def test_a_graph_launch_owns_what_shares_its_correlation() -> None:
    launches = [call("cudaGraphLaunch", 1 + 200 * i, 5, 70 + i) for i in range(4)]
    nodes = [work(f"k{j % 3}", 10 + 200 * i + j, 1, 70 + i) for i in range(4) for j in range(90)]
    found = profile(*launches, *nodes)
    kernels = found.kernels[["name", "operator", "calls", "device_us"]]
    assert kernels.to_numpy().tolist() == [[f"k{j}", "cudaGraphLaunch", 120, 120] for j in range(3)]
    assert found.summary.launches == 4


@pytest.mark.parametrize(
    "name",
    [
        "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel", "cuLaunchKernel",
        "cuLaunchKernelEx", "cudaLaunchKernelExC",
    ],
)  # fmt: skip
@pytest.mark.parametrize("category", ["cuda_runtime", "cuda_driver"])
@pytest.mark.parametrize("ext", [0, 4])
def test_launches_of_any_name_join_the_operator_around_them(
    name: str, category: str, ext: int
) -> None:
    # GIVEN a Triton kernel whose launch, and work, bear the operator's id or none
    found = profile(
        op("outer", 1, 20, 3), op("triton_op", 2, 9, 4),
        {**call(name, 4, 2, 55, ext), "cat": category}, work("triton_poi_fused_0", 8, 3, 55, ext),
    )  # fmt: skip
    kernels = found.kernels[["name", "operator", "calls", "device_us"]]
    assert kernels.to_numpy().tolist() == [["triton_poi_fused_0", "triton_op", 1, 3]]
    assert found.summary.launches == 1


def test_one_number_of_a_stream_on_four_devices() -> None:
    found = profile(
        op("o", 0.5, 100, 1), *(work("k", 1 + i, 90, 0, 1, device=i, stream=7) for i in range(4))
    )
    devices = found.devices[["device", "busy_us", "busy_fraction"]]
    assert devices.to_numpy().tolist() == [[i, 90, 0.9] for i in range(4)]
    assert found.summary.device_busy_us == 90


def test_no_steps_make_one_run() -> None:
    found = profile(op("a", 1, 5), op("b", 9, 3))
    assert found.runs[["run", "wall_us"]].to_numpy().tolist() == [[1, 11]]
    assert str(found).splitlines()[1] == "1 run: the whole trace"


NOTHING = ["no runs: the trace is empty", "nothing was profiled"]


@pytest.mark.parametrize(
    ("events", "rows", "said"),
    [
        ([], (0, 0), NOTHING),
        ([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}], (0, 0), NOTHING),
        ([op("a", 1, 2)], (1, 0), ["CPU only: no device work was recorded"]),
        ([slice_("user", "a", 1, 2, "p", "t")], (1, 0), ["CPU only: no device work was recorded"]),
        ([op("a", 1, 9, 1), work("k", 2, 0, 0, 1)], (1, 0),
         ["the device work in the trace bears no times"]),
        ([work("k", 1, 5)], (0, 1),
         ["no torch operator was recorded", "CUDA 0 busy 5.00 µs of each run"]),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said(
    events: list[Any], rows: tuple[int, int], said: list[str], tmp_path: Path
) -> None:
    found = profile(*events)
    for line in said:
        assert line in str(found)
    assert (len(found.operators), len(found.kernels)) == rows
    assert_same(found, tprofile.load(found.export_trace(tmp_path / "t.json")))


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public traces are not part of the project")
def test_the_file_is_read_and_not_changed() -> None:
    file = PUBLIC / "cpu_only.json.gz"
    before = file.read_bytes()
    tprofile.load(file)
    assert file.read_bytes() == before
