"""Tables and names as plain values of few bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from .words import cut

NAME, LABEL = 6_000, 100
"""Characters of a name in a table, and of a label in the chart or of a figure."""


def encode(value: Any) -> str:
    """Return a payload, or a part of one, as compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def size(value: Any) -> int:
    """Return the bytes that a part takes."""
    return len(encode(value).encode())


class Names:
    """The names that are shown, each once, and the bytes that they take."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.bytes = 0
        self._index: dict[str, int] = {}
        self._cut: dict[str, str] = {}

    def index(self, name: object) -> int | None:
        """Return the index of a name, which is added if it is new; None for what is no name."""
        if not isinstance(name, str):
            return None
        if name not in self._cut:
            self._cut[name] = cut(name, NAME)
        shown = self._cut[name]
        if shown not in self._index:
            self._index[shown] = len(self.shown)
            self.shown.append(shown)
            self.bytes += size(shown) + 1
        return self._index[shown]

    def forget(self, n: int) -> None:
        """Keep only the first `n` names."""
        for shown in self.shown[n:]:
            del self._index[shown]
            self.bytes -= size(shown) + 1
        del self.shown[n:]

    @property
    def cut(self) -> int:
        """How many are not whole."""
        return sum(len(shown) > NAME for shown in self.shown)


def number(value: float) -> int | float | None:
    """Return a number as short as JSON allows, at most three decimals; None for NaN."""
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        return None
    rounded = round(float(value), 3)
    return int(rounded) if rounded.is_integer() else rounded


def table(
    of: int,
    sort: str,
    columns: dict[str, Iterable[Any] | None],
    texts: set[str],
    names: Names,
    room: int,
) -> dict[str, Any]:
    """Return as many of the rows, from the first, as there is room for in so many bytes.

    The columns in `texts` hold names, or tuples of them, which become indices; other texts stay as
    they are.
    """
    there = {key: values for key, values in columns.items() if values is not None}
    kept: dict[str, list[Any] | None] = {key: [] if key in there else None for key in columns}
    packed = {"of": of, "sort": sort, "columns": kept}
    room -= size(packed)
    rows: list[list[Any]] = []
    for cells in zip(*there.values(), strict=True):
        n, before = len(names.shown), names.bytes
        row = [
            _indices(cell, names) if key in texts
            else cell if cell is None or isinstance(cell, str) else number(cell)
            for key, cell in zip(there, cells, strict=True)
        ]  # fmt: skip
        room -= size(row) + names.bytes - before
        if room < 0:
            names.forget(n)
            break
        rows.append(row)
    kept.update({key: [row[i] for row in rows] for i, key in enumerate(there)})
    return packed


def _indices(cell: Any, names: Names) -> int | list[int | None] | None:
    return [names.index(one) for one in cell] if isinstance(cell, tuple) else names.index(cell)
