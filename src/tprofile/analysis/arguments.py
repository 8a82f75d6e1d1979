"""Decode what was recorded beside an event: shapes of an operator, launch of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Raw, Struct

from ..intervals import Floats, Ints
from ..trace import Trace

_AT_ONCE = 4096
_NOTHING = Raw(b"null")


_Told = TypeVar("_Told")


class _Shapes(Struct, gc=False):
    dims: Raw = msgspec.field(name="Input Dims", default=_NOTHING)


class _Types(Struct, gc=False):
    types: list[str] = msgspec.field(name="Input type", default_factory=list)


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


class _Copied(Struct, gc=False):
    bytes: int | None = None


class Launch(Struct, frozen=True, gc=False):
    """How a kernel was launched; None where it was not recorded."""

    grid: list[int] | None = None
    block: list[int] | None = None
    occupancy: float | None = msgspec.field(name="est. achieved occupancy %", default=None)


def shapes(trace: Trace, rows: Iterable[int]) -> list[str]:
    """Return the input shapes of each event as torch writes them: `[[64, 64], []]`."""
    return _of_dims(trace, rows, lambda dims: str(dims or []))


def _of_dims(trace: Trace, rows: Iterable[int], tell: Callable[[Any], _Told]) -> list[_Told]:
    """Return what is told of each event's shapes, asked once for each distinct text of them."""
    decode = msgspec.json.Decoder(_Shapes).decode
    known: dict[bytes, _Told] = {}
    found = []
    for row in rows:
        raw = bytes(decode(trace.args(row)).dims)
        if raw not in known:
            known[raw] = tell(msgspec.json.decode(raw))
        found.append(known[raw])
    return found


def inputs(trace: Trace, rows: Iterable[int]) -> tuple[list[int], list[Inputs | None]]:
    """Return the distinct inputs, and which of them each event has; None where not recorded."""
    decode = msgspec.json.Decoder(list[_Inputs]).decode
    args = trace.source_args
    index: dict[bytes, int] = {}
    distinct: list[Inputs | None] = []
    codes = []
    sources = trace.source_row[np.fromiter(rows, np.int64)].tolist()
    for start in range(0, len(sources), _AT_ONCE):
        # One call for many is twice as fast.
        texts = b",".join(map(args, sources[start : start + _AT_ONCE]))
        for raw in decode(b"[%b]" % texts):
            # Each of them ends where its brackets do.
            key = b"".join((raw.dims, raw.types, raw.concrete, raw.strides))
            code = index.setdefault(key, len(distinct))
            if code == len(distinct):
                distinct.append(_decoded(raw.dims, raw.types, raw.concrete, raw.strides))
            codes.append(code)
    return codes, distinct


def _decoded(*members: Raw) -> Inputs | None:
    lists = msgspec.json.Decoder(list[Any] | None)
    try:
        values = [lists.decode(raw) for raw in members]
    except msgspec.DecodeError:
        return None
    if values[0] is None or values[1] is None:
        return None
    return Inputs(*(value or [] for value in values))


def sizes(trace: Trace, rows: Iterable[int]) -> Floats:
    """Return the bytes that each copy or set moved; NaN where they were not recorded."""
    told = (one.bytes for one in _each(trace, rows, _Copied()))
    return np.array([np.nan if n is None or n < 0 else n for n in told], np.float64)


def launches(trace: Trace, rows: Iterable[int]) -> list[Launch]:
    """Return how each kernel was launched."""
    return list(_each(trace, rows, Launch()))


def types(trace: Trace, rows: Iterable[int], most: int) -> list[tuple[str, ...]]:
    """Return the types of the first `most` inputs of each event, as torch names them."""
    return [tuple(one.types[:most]) for one in _each(trace, rows, _Types())]


def _each(trace: Trace, rows: Iterable[int], nothing: _Told) -> Iterator[_Told]:
    """Decode what each event has to say, as a `nothing` where that makes no sense."""
    decode = msgspec.json.Decoder(type(nothing)).decode
    for row in rows:
        try:
            yield decode(trace.args(row))
        except msgspec.ValidationError:
            yield nothing


def elements(trace: Trace, rows: Iterable[int]) -> Ints:
    """Return how many elements the largest input of each event has; -1 where that is not known."""

    def largest(dims: Any) -> int:
        return max((_size(shape) for shape in dims or [] if shape), default=-1)

    return np.array(_of_dims(trace, rows, largest), np.int64)


def _size(shape: Any) -> int:
    """Return the elements of a shape, or of the largest in a list of shapes."""
    if isinstance(shape, list) and shape and isinstance(shape[0], list):
        return max(map(_size, shape))
    return math.prod(shape) if all(isinstance(n, int) for n in shape) else -1
