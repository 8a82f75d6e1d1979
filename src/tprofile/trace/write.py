"""Write a Trace as a file that Kineto's readers know: valid JSON, whole or not at all."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..files import whole_file
from ..intervals import NONE
from .columns import INSTANT, Trace
from .overlap import split_lanes
from .recorded import encode

_CHUNK = 20_000
"""Events encoded at a time, so that a large trace is never in memory as one text."""

_LANE = 1_000_000_000
"""First number for lanes of our own: above any thread id that a system hands out."""


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
    header: dict[str, Any] = {"schemaVersion": 1, **trace.header, "displayTimeUnit": "ms"}
    if trace.epoch_ns:
        header["baseTimeNanoseconds"] = trace.epoch_ns
    # The key is there even when nothing was recorded: it says how to read lanes.
    header["tprofile"] = encode(trace.recorded.but(notes=[*trace.notes, *trace.recorded.notes]))
    yield json.dumps(header)[:-1].encode() + b',"traceEvents":[\n'
    places = _places(trace)
    told = set(trace.others)
    lines = itertools.chain(
        _slices(trace, places),
        _flows(trace, places),
        (line for line in _lane_names(trace, places) if line not in told),
        trace.others,
    )
    first = True
    while chunk := list(itertools.islice(lines, _CHUNK)):
        yield (b"" if first else b",\n") + b",\n".join(chunk)
        first = False
    yield b"\n]}\n"


@dataclass(frozen=True)
class _Places:
    """Where each event is drawn, as JSON."""

    pid: list[str]
    own: list[str]
    """The event's own thread or stream: text where the source had text."""
    tid: list[str]
    """The lane to draw it on: another where it would overlap a neighbour in part."""


def _places(trace: Trace) -> _Places:
    known = {n: json.dumps(text) for n, text in trace.lanes.items()}
    lane = np.where(trace.on_device, trace.stream, trace.thread)
    own = [known.get(t) or str(t) for t in lane.tolist()]
    # Viewers draw a lane as nested slices and drop what overlaps in part.
    timed = np.flatnonzero(~trace.category_is(INSTANT))
    extra = split_lanes(
        trace.process[timed], lane[timed], trace.start_ns[timed], trace.end_ns[timed]
    )
    tid = own.copy()
    for row, number in zip(timed[extra != NONE], extra[extra != NONE], strict=True):
        tid[row] = str(_LANE + number)
    return _Places([known.get(p) or str(p) for p in trace.process.tolist()], own, tid)


def _slices(trace: Trace, places: _Places) -> Iterator[bytes]:
    names = [json.dumps(name) for name in trace.names]
    kinds = [json.dumps(kind) for kind in trace.categories]
    instant = [kind == INSTANT for kind in trace.categories]
    columns = zip(
        trace.name.tolist(),
        trace.category.tolist(),
        (trace.start_ns + trace.base_ns).tolist(),
        trace.duration_ns.tolist(),
        places.pid,
        places.own,
        places.tid,
        strict=True,
    )
    for row, (name, kind, start, duration, pid, own, tid) in enumerate(columns):
        args = trace.args(row)
        # The reader takes what our files say of a lane in their arguments for the event's own, so
        # an argument that was called so before must not stand alone.
        if tid != own or b'"tid"' in args:
            args = _with_own_lane(args, own)
        phase = '"i","s":"t"' if instant[kind] else f'"X","dur":{_us(duration)}'
        yield (
            (
                f'{{"ph":{phase},"cat":{kinds[kind]},"name":{names[name]},'
                f'"pid":{pid},"tid":{tid},"ts":{_us(start)},"args":'
            ).encode()
            + args
            + b"}"
        )


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


def _flows(trace: Trace, places: _Places) -> Iterator[bytes]:
    """Draw an arrow from each launch to what it started."""
    on_device = trace.on_device & (trace.correlation != 0)
    drawn = np.isin(trace.correlation, np.unique(trace.correlation[on_device]))
    start = trace.start_ns + trace.base_ns
    for row in np.flatnonzero(drawn).tolist():
        end = '"f","bp":"e"' if on_device[row] else '"s"'
        yield (
            f'{{"ph":{end},"id":{trace.correlation[row]},"cat":"ac2g","name":"ac2g",'
            f'"pid":{places.pid[row]},"tid":{places.tid[row]},"ts":{_us(int(start[row]))}}}'
        ).encode()


def _lane_names(trace: Trace, places: _Places) -> Iterator[bytes]:
    """Name what the source did not name: every lane of a live trace, and lanes of our own."""
    named = bool(trace.others)
    device = trace.on_device.tolist()
    lanes = dict.fromkeys(zip(places.pid, places.own, places.tid, device, strict=True))
    for pid, own, tid, on_device in lanes:
        if tid != own or not named:
            label = f"{'stream' if on_device else 'thread'} {own}" + " (overlapping)" * (tid != own)
            yield _meta("thread_name", pid, tid, "name", label)
    if not named:
        processes = {pid: f"GPU {pid}" if on_device else "CPU" for pid, _, _, on_device in lanes}
        for pid, label in processes.items():
            yield _meta("process_name", pid, "0", "name", "python")
            yield _meta("process_labels", pid, "0", "labels", label)


def _meta(kind: str, pid: str, tid: str, key: str, value: str) -> bytes:
    return (
        f'{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},'
        f'"args":{{"{key}":{json.dumps(value)}}}}}'
    ).encode()
