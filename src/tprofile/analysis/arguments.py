"""Decode what was recorded beside an event: shapes of an operator, launch of a kernel."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from ..trace import Trace

_NOTHING = Raw(b"null")


class _Shapes(Struct, gc=False):
    dims: Raw = msgspec.field(name="Input Dims", default=_NOTHING)


class Launch(Struct, frozen=True, gc=False):
    """How a kernel was launched; None where it was not recorded."""

    grid: list[int] | None = None
    block: list[int] | None = None
    occupancy: float | None = msgspec.field(name="est. achieved occupancy %", default=None)


def shapes(trace: Trace, rows: Iterable[int]) -> list[str]:
    """Return the input shapes of each event as torch writes them: `[[64, 64], []]`."""
    decode = msgspec.json.Decoder(_Shapes).decode
    text: dict[bytes, str] = {}
    found = []
    for row in rows:
        raw = bytes(decode(trace.args(row)).dims)
        if raw not in text:
            text[raw] = str(msgspec.json.decode(raw) or [])
        found.append(text[raw])
    return found


def launches(trace: Trace, rows: Iterable[int]) -> list[Launch]:
    """Return how each kernel was launched."""
    decode = msgspec.json.Decoder(Launch).decode
    found = []
    for row in rows:
        try:
            found.append(decode(trace.args(row)))
        except msgspec.ValidationError:
            found.append(Launch())
    return found
