"""A run with all that was recorded in it, as bytes that a browser reads without parsing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .drawing import lane_row
from .pack import Names, encode, number
from .words import device_label

if TYPE_CHECKING:
    from ..result import Profile

Array = NDArray[Any]


def timeline(profile: Profile, run: int) -> bytes:
    """Return a run, counted from 1: the length of a header, the header as JSON, and columns.

    The length is an unsigned number of four bytes. The header has what a strip has, but for its
    spans; the names that these have; `spans`, how many there are; `parts`, the lane, row and number
    of spans that follow in it; and `columns`, each with its key and its type, in the order in which
    they stand behind the header, all little-endian and each on a multiple of eight bytes. -1 stands
    for none.
    """
    shown = profile.timeline(run)
    strip, names = shown.strip, Names()
    columns: dict[str, Array] = {
        "start_us": strip.start_us.astype("<f8"),
        "duration_us": strip.duration_us.astype("<f8"),
        "name": _codes(strip.name, names),
        "operator": _codes(strip.operator, names),
        "launch": strip.launch.astype("<i4"),
        "forward": shown.forward.astype("<i4"),
        "line": strip.line.astype("<i4"),
        "kind": strip.kind.astype("<u1"),
    }
    if (strip.count > 1).any():
        columns["count"] = strip.count.astype("<u4")
        columns["busy_us"] = strip.busy_us.astype("<f8")
    memory = []
    for i, one in enumerate(shown.memory):
        memory.append(device_label(profile, one.device))
        columns[f"memory{i}_us"] = one.time_us.astype("<f8")
        columns[f"memory{i}_bytes"] = one.allocated_bytes.astype("<f8")
    header = {
        "run": strip.run,
        "of": strip.of,
        "wall_us": number(strip.wall_us),
        "resolution_us": number(strip.resolution_us),
        "more_devices": strip.more_devices,
        "lanes": [lane_row(profile, lane) for lane in strip.lanes],
        "parts": _parts(strip.lane, strip.row),
        "memory": memory,
        "names": names.shown,
        "columns": [[key, values.dtype.str[1:], len(values)] for key, values in columns.items()],
    }
    text = encode(header).encode()
    text += b" " * (-(len(text) + 4) % 8)
    pieces = [len(text).to_bytes(4, "little"), text]
    for values in columns.values():
        pieces += [values.tobytes(), b"\0" * (-values.nbytes % 8)]
    return b"".join(pieces)


def _codes(texts: Array, names: Names) -> Array:
    """Return the index of each name, -1 for none."""
    every = texts.tolist()
    index = {text: -1 if text is None else names.index(text) for text in dict.fromkeys(every)}
    return np.fromiter(map(index.__getitem__, every), "<i4", len(every))


def _parts(lane: Array, row: Array) -> list[list[int]]:
    """Return lane, row and length of each stretch of spans in one row."""
    first = np.flatnonzero(np.r_[True, (np.diff(lane) != 0) | (np.diff(row) != 0)][: len(lane)])
    length = np.diff(np.r_[first, len(lane)])
    return np.stack([lane[first], row[first], length], axis=1).tolist()
