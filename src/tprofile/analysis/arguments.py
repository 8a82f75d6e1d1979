"""Decode what was recorded beside an event: shapes of an operator, launch of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from ..intervals import Floats
from ..trace import Trace

_NOTHING = Raw(b"null")


class _Shapes(Struct, gc=False):
    dims: Raw = msgspec.field(name="Input Dims", default=_NOTHING)


class _Types(Struct, gc=False):
    types: list[str] = msgspec.field(name="Input type", default_factory=list)


class _Copy(Struct, gc=False):
    size: int | None = msgspec.field(name="bytes", default=None)


class _Inputs(Struct, gc=False):
    dims: Raw = msgspec.field(name="Input Dims", default=_NOTHING)
    types: Raw = msgspec.field(name="Input type", default=_NOTHING)
    concrete: Raw = msgspec.field(name="Concrete Inputs", default=_NOTHING)
    strides: Raw = msgspec.field(name="Input Strides", default=_NOTHING)


class Inputs(Struct, frozen=True, gc=False):
    """What an operator was called with, a member per argument as torch writes it."""

    dims: list[Any]
    """Shape of a tensor; of a list of tensors a list of them, or empty."""
    types: list[Any]
    """Element type of a tensor in C++; `Scalar` or the like of what is none; empty for None."""
    concrete: list[Any]
    """Text of what is no tensor."""
    strides: list[Any]
    """Strides of a tensor; often not recorded."""


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


def inputs(trace: Trace, rows: Iterable[int]) -> tuple[list[int], list[Inputs | None]]:
    """Return the distinct inputs, and which of them each event has; None where not recorded."""
    decode = msgspec.json.Decoder(_Inputs).decode
    args = trace.args
    index: dict[tuple[bytes, ...], int] = {}
    codes = []
    for row in rows:
        raw = decode(args(row))
        key = (bytes(raw.dims), bytes(raw.types), bytes(raw.concrete), bytes(raw.strides))
        codes.append(index.setdefault(key, len(index)))
    return codes, [_decoded(*key) for key in index]


def _decoded(*members: bytes) -> Inputs | None:
    lists = msgspec.json.Decoder(list[Any] | None)
    try:
        values = [lists.decode(raw) for raw in members]
    except msgspec.DecodeError:
        return None
    if values[0] is None or values[1] is None:
        return None
    return Inputs(*(value or [] for value in values))


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


def types(trace: Trace, rows: Iterable[int], most: int) -> list[tuple[str, ...]]:
    """Return the types of the first `most` inputs of each event, as torch names them."""
    decode = msgspec.json.Decoder(_Types).decode
    found = []
    for row in rows:
        try:
            found.append(tuple(decode(trace.args(row)).types[:most]))
        except msgspec.ValidationError:
            found.append(())
    return found


def copied_bytes(trace: Trace, rows: Iterable[int]) -> Floats:
    """Return how many bytes each copy or set moved; NaN where that was not recorded."""
    decode = msgspec.json.Decoder(_Copy).decode
    found = []
    for row in rows:
        try:
            size = decode(trace.args(row)).size
        except msgspec.ValidationError:
            size = None
        found.append(float("nan") if size is None else float(size))
    return np.array(found, np.float64)
