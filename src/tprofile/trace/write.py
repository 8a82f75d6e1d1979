"""Write a Trace as a file that Kineto's readers know: valid JSON, whole or not at all."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from ..files import whole_file
from ..intervals import Ints
from .columns import INSTANT, Trace
from .places import Places, placed, places
from .plain import as_json, plain
from .recorded import encode

_CHUNK = 20_000
"""Events encoded at a time, so that a large trace is never in memory as one text."""

_EXACT_NS = 2**43 * 1000
"""Before this time a float64 of microseconds, which viewers make of it, is exact to nanoseconds."""

_QUARTER_NS = 7_889_238 * 10**9
"""A quarter of a year, in multiples of which Kineto chooses the base of its times."""


def write(trace: Trace, path: str | os.PathLike[str], *, overwrite: bool = True) -> str:
    """Write the trace to `path` (gzipped if it ends in `.gz`) and return the path.

    The file appears when it is complete; an error leaves what was there before.
    """
    with whole_file(path, overwrite=overwrite) as file:
        if os.fspath(path).endswith(".gz"):
            # Level 1 is a fifth of the time of the default level for a tenth more bytes. The time
            # is left out, so that the same trace gives the same file.
            with gzip.GzipFile("", "wb", 1, file, mtime=0) as packed:
                packed.writelines(dump(trace))
        else:
            file.writelines(dump(trace))
    return os.path.expanduser(os.fspath(path))


def dump(trace: Trace) -> Iterator[bytes]:
    """Yield the file's text piece by piece."""
    shift = _shift(trace)
    header: dict[str, Any] = {"schemaVersion": 1, **trace.header, "displayTimeUnit": "ms"}
    if trace.epoch_ns or shift:
        header["baseTimeNanoseconds"] = trace.epoch_ns + shift
    # The key is there even when nothing was recorded: it says how to read lanes.
    recorded = trace.recorded.but(notes=[*trace.notes, *trace.recorded.notes])
    if recorded.max_seconds == math.inf:
        # JSON has no infinity, and no limit is what it means.
        recorded = recorded.but(max_seconds=None)
    header["tprofile"] = encode(recorded)
    yield as_json(header)[:-1] + b',"traceEvents":[\n'
    found = places(trace)
    others = [_fitted(line, found, shift) for line in trace.others]
    told = set(others)
    begin = trace.start_ns + offset_ns(trace)
    lines = itertools.chain(
        _slices(trace, found, begin),
        _flows(trace, found, begin),
        (line for line in _lane_names(trace, found) if line not in told),
        others,
    )
    first = True
    while chunk := list(itertools.islice(lines, _CHUNK)):
        yield (b"" if first else b",\n") + b",\n".join(chunk)
        first = False
    yield b"\n]}\n"


def offset_ns(trace: Trace) -> int:
    """Return what the times in the file are later by than those of the trace, in nanoseconds."""
    return trace.base_ns - _shift(trace)


def _shift(trace: Trace) -> int:
    """Return what to move from all times into the base of the file, in nanoseconds.

    Perfetto leaves out slices before 0, and those that it rounds into overlapping others.
    """
    if not len(trace) or (
        trace.base_ns >= 0 and trace.base_ns + int(trace.end_ns.max()) < _EXACT_NS
    ):
        return 0
    # A start of exactly 0 would be read as one that was lost.
    return (trace.base_ns - 1) // _QUARTER_NS * _QUARTER_NS


def _fitted(line: bytes, found: Places, shift: int) -> bytes:
    """Return an event that is no row as it fits to the rows as they are drawn."""
    line = plain(line)
    if not shift and not found.odd:
        return line
    try:
        event = placed(json.loads(line, parse_float=Decimal), found)
        if shift and "ts" in event:
            event["ts"] = (round(Decimal(str(event["ts"])) * 1000) - shift) / 1000
        return as_json(event)
    except (ArithmeticError, ValueError):
        # A number that is none: what it was meant to be is not known.
        return line


def _slices(trace: Trace, found: Places, begin: Ints) -> Iterator[bytes]:
    names = [as_json(name) for name in trace.names]
    kinds = [as_json(kind) for kind in trace.categories]
    instant = [kind == INSTANT for kind in trace.categories]
    columns = zip(
        trace.name.tolist(),
        trace.category.tolist(),
        begin.tolist(),
        trace.duration_ns.tolist(),
        found.pid,
        found.own,
        found.tid,
        strict=True,
    )
    for row, (name, kind, start, duration, pid, own, tid) in enumerate(columns):
        args = plain(trace.args(row))
        # The reader takes what our files say of a lane in their arguments for the event's own, so
        # an argument that was called so before must not stand alone.
        if tid != own or b'"tid"' in args:
            args = _with_own_lane(args, own)
        phase = b'"i","s":"t"' if instant[kind] else b'"X","dur":' + _us(duration).encode()
        place = f'"pid":{pid},"tid":{tid},"ts":{_us(start)},"args":'.encode()
        yield b'{"ph":%b,"cat":%b,"name":%b,%b%b}' % (phase, kinds[kind], names[name], place, args)


def _with_own_lane(args: bytes, own: str) -> bytes:
    note = f'"tid": {own}}}'.encode()
    members = args.strip()[:-1].rstrip()
    # A trace that was moved and written before has the note already.
    if args.endswith(note):
        return args
    return members + (b", " if members != b"{" else b"") + note


def _us(ns: int) -> str:
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _flows(trace: Trace, found: Places, begin: Ints) -> Iterator[bytes]:
    """Draw an arrow from each launch to what it started."""
    on_device = trace.on_device
    ids = trace.correlation
    pairs = np.intersect1d(ids[on_device], ids[~on_device])
    for row in np.flatnonzero(np.isin(ids, pairs[pairs != 0])).tolist():
        end = '"f","bp":"e"' if on_device[row] else '"s"'
        yield (
            f'{{"ph":{end},"id":{ids[row]},"cat":"ac2g","name":"ac2g",'
            f'"pid":{found.pid[row]},"tid":{found.tid[row]},"ts":{_us(int(begin[row]))}}}'
        ).encode()


def _lane_names(trace: Trace, found: Places) -> Iterator[bytes]:
    """Name what the source did not name: every lane of a live trace, and lanes of our own."""
    named = bool(trace.others)
    device = trace.on_device.tolist()
    lanes = dict.fromkeys(zip(found.pid, found.own, found.tid, device, strict=True))
    for pid, own, tid, on_device in lanes:
        if tid != own or not named:
            label = f"{'stream' if on_device else 'thread'} {json.loads(own)}"
            label += " (overlapping)" * (tid != own)
            yield _meta("thread_name", pid, tid, "name", label)
    if not named:
        processes = {pid: f"GPU {json.loads(pid)}" if dev else "CPU" for pid, _, _, dev in lanes}
        for pid, label in processes.items():
            yield _meta("process_name", pid, "0", "name", "python")
            yield _meta("process_labels", pid, "0", "labels", label)


def _meta(kind: str, pid: str, tid: str, key: str, value: str) -> bytes:
    place = f'"pid":{pid},"tid":{tid}'.encode()
    return b'{"ph":"M","name":"%b",%b,"args":{"%b":%b}}' % (
        kind.encode(), place, key.encode(), as_json(value),
    )  # fmt: skip
