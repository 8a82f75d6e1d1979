"""Read a Kineto or Chrome trace file."""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeGuard

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct

from ..errors import TprofileError
from ..intervals import Ints
from .build import build, nanoseconds
from .collector import collector_paused
from .columns import ARROW, DEVICE_LANES, INSTANT, Trace
from .mend import fault, mends
from .recorded import decode
from .unpack import WRITTEN_BY, Source, shown, unpack

_EXACT_US = 2.0**43
"""Below this many microseconds a float64 still tells one nanosecond from the next."""

_EXACT_SPAN_US = 2.0**36
"""Below this many microseconds, such a float64 times 1000 still rounds to the right one."""

_NO_ARGS = Raw(b"{}")
_NULL = Raw(b"null")
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


class _Arrow(Struct, gc=False):
    number: Annotated[int, Meta(ge=0, le=2**63 - 1)] = msgspec.field(name=ARROW, default=0)


_ARROW_TEXT = f'"{ARROW}"'.encode()


class _FileDetails:
    """The arguments of a file's events: views of its text, nothing decoded."""

    def __init__(self, raws: list[Raw]) -> None:
        self._raws = raws

    def args(self, row: int) -> bytes:
        return bytes(self._raws[row])

    def arrows(self, rows: Ints) -> Ints:
        decode = msgspec.json.Decoder(_Arrow).decode
        texts = [bytes(self._raws[row]) for row in rows.tolist()]
        found = np.zeros(len(rows), np.int64)
        for i in [i for i, text in enumerate(texts) if _ARROW_TEXT in text]:
            with suppress(msgspec.ValidationError):
                found[i] = decode(texts[i]).number
        return found


def read(source: str | os.PathLike[str] | bytes) -> Trace:
    """Return the Trace in a file or its bytes: JSON, gzipped or not, as object or as list.

    What is almost JSON is mended, with a note. Raises TprofileError for what is no trace.
    """
    found = unpack(source)
    with collector_paused():
        header, body, events = _decode_mended(found)
        return _columns(header, body, events, found.notes)


_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_Decoded = tuple[dict[str, Any], bytes | Raw, list[_Event]]
"""Top-level keys of a file but its events; their text; and they themselves."""


def _decode_mended(source: Source) -> _Decoded:
    try:
        return _decode(source, source.text)
    except RecursionError as error:
        raise TprofileError(f"{source.what} {fault(source.text, error)}") from error
    except _NO_JSON as error:
        for text, done in mends(source.text):
            try:
                decoded = _decode(source, text)
            except _NO_JSON:
                continue
            said = [f"the file was not valid JSON; {one}" for one in done]
            source.notes += [one for one in said if one not in source.notes]
            return decoded
        raise TprofileError(f"{source.what} {fault(source.text, error)}") from error


def _decode(source: Source, text: bytes) -> _Decoded:
    if text.lstrip()[:1] == b"[":
        return {}, *_events(source, text, "it")
    keys = msgspec.json.decode(text, type=dict[str, Raw])
    if "traceEvents" not in keys:
        raise _another_kind(source, f"it is JSON of another kind, {_kind(text)}")
    body = keys.pop("traceEvents")
    header = {}
    for key, value in keys.items():
        try:
            header[key] = msgspec.json.decode(value)
        except msgspec.ValidationError:
            source.notes.append(f"{shown(key, 40)} holds a number too large, and was left out")
    return header, *_events(source, body, "its 'traceEvents'")


def _events(source: Source, body: bytes | Raw, what: str) -> tuple[bytes | Raw, list[_Event]]:
    """Return the events in a list, and the text of it, without entries that are none."""
    try:
        events = msgspec.json.decode(body, type=list[_Event])
    except msgspec.ValidationError as error:
        return _sound_events(source, body, what, error)
    if events and what == "it" and not any(e.ph for e in events):
        raise _another_kind(source, f"it is a list of {len(events)}, of which none is an event")
    return body, events


def _sound_events(
    source: Source, body: bytes | Raw, what: str, error: Exception
) -> tuple[bytes | Raw, list[_Event]]:
    try:
        raws = msgspec.json.decode(body, type=list[Raw])
    except msgspec.ValidationError:
        raise _another_kind(source, f"{what} is {_kind(body)} and no list of events") from error
    one = msgspec.json.Decoder(_Event).decode
    sound, events = [], []
    for raw in raws:
        try:
            events.append(one(raw))
        except msgspec.ValidationError:
            continue
        sound.append(bytes(raw))
    if not any(e.ph for e in events):
        raise _another_kind(
            source,
            f"{what} is a list of {len(raws)}, of which none can be read as an event ({error})",
        )
    source.notes.append(f"{len(raws) - len(sound)} entries are no events and were left out")
    return b"[" + b",".join(sound) + b"]", events


def _another_kind(source: Source, found: str) -> TprofileError:
    return TprofileError(f"{source.what} is no trace: {found}. {WRITTEN_BY}")


_KINDS = ((bool, "a truth value"), (int | float, "a number"), (str, "text"), (list, "a list"))


def _kind(text: bytes | Raw) -> str:
    """Say what a piece of JSON is."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.ValidationError:
        return "a number out of range"
    if value is None:
        return "null"
    if not isinstance(value, dict):
        return next(word for kind, word in _KINDS if isinstance(value, kind))
    keys = ", ".join(shown(key, 40) for key in list(value)[:8])
    more = f" and {len(value) - 8} more" if len(value) > 8 else ""
    return f"an object with the keys {keys}{more}" if keys else "an empty object"


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
    ids = _ids(raws)
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
        others=_others(body, events, notes),
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
    return nanoseconds(us)


def _ids(raws: list[Raw]) -> list[_Ids]:
    decode = msgspec.json.Decoder(_Ids).decode
    try:
        return [decode(raw) for raw in raws]
    except msgspec.DecodeError:
        return [_lenient_ids(raw) for raw in raws]


def _lenient_ids(raw: Raw) -> _Ids:
    """Decode ids out of arguments of which some have a type that nobody would expect."""
    names = {"external": "External id"} | {k: k for k in ("correlation", "device", "stream", "tid")}
    values = msgspec.json.decode(raw, type=dict[str, Raw])
    found = {}
    for field, key in names.items():
        with suppress(msgspec.ValidationError):
            found[field] = msgspec.json.decode(values.get(key, _NULL), type=int | float | str)
    return _Ids(**found)


def _integer(value: _Number) -> int:
    return _whole(value) or 0


def _whole(value: _Number) -> int | None:
    if isinstance(value, int):
        return value
    try:
        whole = int(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None
    # Text such as "007" or "1_000" is a name.
    return None if isinstance(value, str) and str(whole) != value else whole


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


def _others(body: bytes | Raw, events: list[_Event], notes: list[str]) -> list[bytes]:
    """Return what is not a row, as written; launch flows are left out: the writer draws them."""
    wanted = [
        i for i, e in enumerate(events)
        if not _is_row(e) and e.ph and not (e.ph in ("s", "f", "t") and e.cat == "ac2g")
    ]  # fmt: skip
    if lost := sum(not e.ph for e in events):
        notes.append(f"{lost} entries without a phase are no events and were left out")
    if not wanted:
        return []
    raws = msgspec.json.decode(body, type=list[Raw])
    for i in wanted:
        if isinstance(events[i].pid, str) or isinstance(events[i].tid, str):
            raws[i] = _numbered(events[i], raws[i])
    return [bytes(raws[i]) for i in wanted]


def _numbered(event: _Event, raw: Raw) -> Raw:
    """Return an event with numbers for text that is one, as rows have them."""
    ids = {"pid": event.pid, "tid": event.tid}
    texts = {key: _whole(value) for key, value in ids.items() if isinstance(value, str)}
    numbers = {key: value for key, value in texts.items() if value is not None}
    members = msgspec.json.decode(raw, type=dict[str, Raw])
    return Raw(msgspec.json.encode({**members, **numbers})) if numbers else raw
