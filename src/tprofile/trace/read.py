"""Read a Kineto or Chrome trace file."""

from __future__ import annotations

import decimal
import gzip
import math
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

import msgspec
from msgspec import Raw, Struct

from ..errors import TprofileError
from .build import build
from .collector import collector_paused
from .columns import DEVICE_LANES, INSTANT, Trace
from .recorded import decode

_EXACT_US = 2.0**43
"""Below this many microseconds a float64 still tells one nanosecond from the next."""

_EXACT_SPAN_US = 2.0**36
"""Below this many microseconds, such a float64 times 1000 still rounds to the right one."""

_LAST_US = 2**61 // 1000
"""No valid time is beyond it, so that the difference of two, in nanoseconds, fits in int64."""

_NO_ARGS = Raw(b"{}")
_Number = int | float | str | None


class _Event(Struct, gc=False):
    ph: str = ""
    cat: str | None = ""
    name: str | None = ""
    pid: int | float | str | None = 0
    tid: int | float | str | None = 0
    ts: float | str | None = 0.0
    dur: float | str | None = 0.0
    args: Raw = _NO_ARGS


class _Exact(Struct, gc=False):
    """The times of an event as they are written."""

    ts: Raw = Raw(b"0")
    dur: Raw = Raw(b"0")


class _Ids(Struct, gc=False):
    external: _Number = msgspec.field(name="External id", default=0)
    correlation: _Number = 0
    device: _Number = None
    stream: _Number = None
    tid: _Number = None


class _FileDetails:
    """The arguments of a file's events: views of its text, nothing decoded."""

    def __init__(self, raws: list[Raw]) -> None:
        self._raws = raws

    def args(self, row: int) -> bytes:
        return bytes(self._raws[row])


def read(source: str | os.PathLike[str] | bytes) -> Trace:
    """Return the Trace in a file or its bytes: JSON, gzipped or not, as object or as list.

    Strings that Kineto did not escape are repaired. Raises TprofileError for what is no trace.
    """
    if isinstance(source, bytes):
        return _parse(_unzip(source, "these bytes"), "these bytes")
    path = Path(source)
    try:
        data = path.expanduser().read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TprofileError(
            f"cannot read the trace {str(path)!r}: {reason}. "
            "Give the path of a .json or .json.gz file that torch.profiler or tprofile wrote."
        ) from error
    return _parse(_unzip(data, repr(str(path))), repr(str(path)))


def _unzip(data: bytes, what: str) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TprofileError(
            f"{what} is a gzip file that cannot be unpacked ({error}). "
            "It was probably cut short while it was written or copied: write or copy it again."
        ) from error


def _parse(text: bytes, what: str) -> Trace:
    notes: list[str] = []
    text = text.removeprefix(b"\xef\xbb\xbf")
    with collector_paused():
        try:
            header, body, events = _decode(text)
        except _NO_JSON as error:
            header, body, events = _repaired(text, what, error)
            notes.append("the file was not valid JSON; unescaped text in it was repaired")
        return _columns(header, body, events, notes)


_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_Decoded = tuple[dict[str, Any], bytes | Raw, list[_Event]]
"""Top-level keys of a file but its events; their text; and they themselves."""


def _repaired(text: bytes, what: str, error: Exception) -> _Decoded:
    """Decode what Kineto wrote without escapes; raise TprofileError where that is not the fault."""
    # JSON with values of the wrong kind is what its writer meant: there is nothing to repair.
    if not isinstance(error, msgspec.ValidationError | RecursionError):
        mended = text
        # Names last: to find one that has quotes in it takes a guess at where it ends.
        for mend in (_escape_bytes, _escape_names):
            mended = mend(mended)
            try:
                return _decode(mended)
            except _NO_JSON:
                continue
    raise _no_trace(what, text, error) from error


def _decode(text: bytes) -> _Decoded:
    if text.lstrip()[:1] == b"[":
        return {}, text, msgspec.json.decode(text, type=list[_Event])
    keys = msgspec.json.decode(text, type=dict[str, Raw])
    if "traceEvents" not in keys:
        raise msgspec.ValidationError("there is no key 'traceEvents'")
    body = keys.pop("traceEvents")
    events = msgspec.json.decode(body, type=list[_Event])
    return {key: msgspec.json.decode(value) for key, value in keys.items()}, body, events


def _no_trace(what: str, text: bytes, error: Exception) -> TprofileError:
    if not text.strip():
        return TprofileError(f"{what} is empty: no trace was written to it. Record it again.")
    return TprofileError(
        f"{what} is no trace that can be read: {error}. "
        "A trace is JSON with a list 'traceEvents' of events, as torch.profiler's "
        "export_chrome_trace and tprofile's export_trace write it; if this one was, "
        "it may have been cut short."
    )


_NAME_ON_ITS_LINE = re.compile(rb'("name": ")((?:(?!"name": ").)*?)(", "pid": )')
_BARE_QUOTE = re.compile(rb'(?<!\\)"')
_CONTROL = re.compile(rb"[\x00-\x09\x0b\x0c\x0e-\x1f]")


def _escape_bytes(text: bytes) -> bytes:
    """Escape controls and replace bad UTF-8, wherever they are."""
    text = _CONTROL.sub(lambda m: b" " if m[0] == b"\t" else b"\\u%04x" % m[0][0], text)
    return text.decode("utf-8", "replace").encode()


def _escape_names(text: bytes) -> bytes:
    """Escape quotes in names where Kineto's writer puts them."""

    def escape(match: re.Match[bytes]) -> bytes:
        return match[1] + _BARE_QUOTE.sub(rb"\"", match[2]) + match[3]

    return _NAME_ON_ITS_LINE.sub(escape, text)


def _columns(
    header: dict[str, Any], body: bytes | Raw, events: list[_Event], notes: list[str]
) -> Trace:
    ours = "tprofile" in header
    recorded, misread = decode(header.pop("tprofile", {}))
    if misread is not None:
        notes.append(misread)
    slices = [i for i, e in enumerate(events) if _is_row(e)]
    rows = [events[i] for i in slices]
    start, duration = _times(body, rows, slices)
    zero_is_lost = not _starts_at_zero(start)
    keep = [
        i
        for i, (s, d) in enumerate(zip(start, duration, strict=True))
        if s is not None and d is not None and d >= 0 and (s or not zero_is_lost)
    ]
    if len(keep) < len(rows):
        lost = len(rows) - len(keep)
        notes.append(f"{lost} events were left out: no time, start 0, or duration below 0")
    rows = [rows[i] for i in keep]
    # Whoever reads arguments may count on an object.
    raws = [r if bytes(memoryview(r)[:1]) == b"{" else _NO_ARGS for r in (e.args for e in rows)]
    decode_ids = msgspec.json.Decoder(_Ids).decode
    try:
        ids = [decode_ids(r) for r in raws]
    except msgspec.DecodeError:
        ids = [_lenient_ids(r) for r in raws]
    categories = [e.cat or "" for e in rows]
    on_device = [c in DEVICE_LANES for c in categories]
    zipped = list(zip(rows, ids, on_device, strict=True))
    process = [e.pid if not dev or i.device is None else i.device for e, i, dev in zipped]
    lane = [i.stream if dev and i.stream is not None else _tid(e, i, ours) for e, i, dev in zipped]
    lanes = _Lanes([*process, *lane])
    begun = sum(e.ph in ("B", "E") for e in events)
    if begun:
        notes.append(f"{begun} events written as separate begin and end were not read")
    return build(
        names=[e.name or "" for e in rows],
        categories=categories,
        start_ns=[start[i] or 0 for i in keep],
        duration_ns=[duration[i] or 0 for i in keep],
        process=[lanes.number(p) for p in process],
        lane=[lanes.number(t) for t in lane],
        correlation=[_integer(i.correlation) for i in ids],
        external_id=[_integer(i.external) for i in ids],
        details=_FileDetails(raws),
        epoch_ns=_integer(header.get("baseTimeNanoseconds")),
        lanes=lanes.names(),
        others=_others(body, events),
        header=header,
        recorded=recorded,
        notes=notes,
    )


def _is_row(event: _Event) -> bool:
    if event.ph == "X":
        return event.cat != "Trace"
    return event.ph == "i" and event.cat == INSTANT


def _starts_at_zero(start: list[int | None]) -> bool:
    """Tell a trace whose clock starts at 0 from events that lost their time in one with a clock."""
    known = sorted(s for s in start if s is not None)
    return not known or known[len(known) // 2] < 10**15


def _tid(event: _Event, ids: _Ids, ours: bool) -> _Number:
    # We write overlapping slices to lanes of their own and keep their thread beside them.
    return ids.tid if ours and ids.tid is not None else event.tid


def _times(
    body: bytes | Raw, rows: list[_Event], slices: list[int]
) -> tuple[list[int | None], list[int | None]]:
    """Return start and duration in whole nanoseconds, exactly as written; None for no such time."""
    ts = [e.ts for e in rows]
    dur = [e.dur if e.ph == "X" else 0.0 for e in rows]
    if _plain(ts) and _plain(dur):
        base = math.floor(min(ts, default=0))
        if max(ts, default=0) - base < _EXACT_SPAN_US and max(dur, default=0) < _EXACT_SPAN_US:
            return [base * 1000 + round((t - base) * 1000) for t in ts], [
                round(d * 1000) for d in dur
            ]
    exact = msgspec.json.decode(body, type=list[_Exact])
    return (
        [_nanoseconds(exact[i].ts) for i in slices],
        [_nanoseconds(exact[i].dur) if rows[k].ph == "X" else 0 for k, i in enumerate(slices)],
    )


def _plain(values: Sequence[_Number]) -> TypeGuard[list[float]]:
    return all(type(v) is float and -_EXACT_US < v < _EXACT_US for v in values)


def _nanoseconds(written: Raw) -> int | None:
    try:
        us = decimal.Decimal(bytes(written).decode().strip('"').replace("null", "0"))
    except ArithmeticError:
        return None
    return round(us * 1000) if us.is_finite() and abs(us) < _LAST_US else None


def _lenient_ids(raw: Raw) -> _Ids:
    """Decode ids out of arguments of which some have a type that nobody would expect."""
    try:
        values = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return _Ids()
    if not isinstance(values, dict):
        return _Ids()
    names = {"external": "External id"} | {k: k for k in ("correlation", "device", "stream", "tid")}
    found = {field: values.get(key) for field, key in names.items()}
    return _Ids(**{k: v for k, v in found.items() if isinstance(v, int | float | str)})


def _integer(value: _Number) -> int:
    return _whole(value) or 0


def _whole(value: _Number) -> int | None:
    if isinstance(value, int):
        return value
    try:
        return int(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None


_FIRST_TEXT = -(2**40)
"""Where numbers for text begin, downwards: no system numbers a process or a thread so."""


class _Lanes:
    """Numbers for processes and threads, which other writers may give as text."""

    def __init__(self, values: Sequence[_Number]) -> None:
        # Sorted, so that a file with the same events in another order gives the same numbers.
        texts = sorted({str(v) for v in values if _whole(v) is None})
        self._numbers = {text: _FIRST_TEXT - i for i, text in enumerate(texts)}

    def number(self, value: _Number) -> int:
        whole = _whole(value)
        return self._numbers[str(value)] if whole is None else whole

    def names(self) -> dict[int, str]:
        return {number: name for name, number in self._numbers.items()}


def _others(body: bytes | Raw, events: list[_Event]) -> list[bytes]:
    """Return what is not a row, as written; launch flows are left out: the writer draws them."""
    wanted = [
        i for i, e in enumerate(events)
        if not _is_row(e) and not (e.ph in ("s", "f", "t") and e.cat == "ac2g")
    ]  # fmt: skip
    if not wanted:
        return []
    raws = msgspec.json.decode(body, type=list[Raw])
    return [bytes(raws[i]) for i in wanted]
