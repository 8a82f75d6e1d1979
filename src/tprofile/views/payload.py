"""What page and widget show, as one small JSON object: a capped copy of what a Profile tells."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from .figures import details, figures, headline
from .tables import (
    BYTES,
    bytes_column,
    column_words,
    operator_names,
    sorted_kernels,
    sorted_operators,
)
from .words import LINE, cut, device_label, device_word

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.strip import Strip
    from ..result import Profile

MOST_BYTES = 130_000
"""Of the whole: a notebook with a hundred profiles in it must still open at once."""

TABLE_BYTES = 40_000
"""Of each table, and of the strip, with the names that no earlier part has."""

NAME, LABEL = 6_000, 100
"""Characters of a name in a table, and of a label in the chart or of a figure."""

LINES, WARNINGS_BYTES, DETAILS_BYTES = 20, 12_000, 6_000
"""Warnings and details that are kept: these many, in these many bytes."""

_RESERVE = 3_000
"""Bytes for the sentences about what was left out, which come last."""


def payload(profile: Profile, sort: str | None = None) -> dict[str, Any]:
    """Return all that page and widget show, as plain values of at most 130,000 bytes of JSON.

    The tables are sums over the `runs`, the operators in the order of `sort` (a column, as for
    `Profile.text`). Times are microseconds with three decimals; None stands for what was not
    measured. Names in columns are indices into `names`. `left_out` says what did not fit. Raises
    TprofileError where there is no such column.
    """
    names, left_out = _Names(), list[str]()
    word = cut(device_word(profile), LABEL)
    operators, sort = sorted_operators(profile, sort)
    kernels = sorted_kernels(profile)
    work = kernels["device_us"].sum() if len(kernels) else math.nan
    result = {
        "id": uuid.uuid4().hex[:16],
        "headline": _headline(profile),
        "details": _lines("details", details(profile), DETAILS_BYTES, left_out),
        "figures": [
            {k: cut(v, LABEL) for k, v in asdict(figure).items()} for figure in figures(profile)
        ],
        "warnings": _lines("warnings", profile.summary.warnings, WARNINGS_BYTES, left_out),
        "device": word,
        "runs": max(len(profile.runs), 1),
        "complete": profile.complete,
        "names": names.shown,
        "whole": {
            "self_cpu_us": _number(operators["self_cpu_us"].sum()),
            "self_device_us": _number(work),
        },
        "operators": _operators(operators, sort, bool(len(kernels)), word, names, left_out),
        "kernels": _kernels(profile, kernels, word, names, left_out),
    }
    room = min(MOST_BYTES - _RESERVE - _bytes(result), TABLE_BYTES)
    result["strip"] = _strip(profile, room, names, left_out)
    if names.cut:
        left_out.append(
            f"names: {names.cut:,} of more than {NAME:,} characters are cut in their middle"
        )
    return {**result, "left_out": left_out}


def encode(payload: dict[str, Any]) -> str:
    """Return a payload as compact JSON."""
    return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _bytes(value: Any) -> int:
    return len(encode(value).encode())


class _Names:
    """The names that are shown, each once, and the bytes that they take."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.bytes = 0
        self._index: dict[str, int] = {}
        self._cut: dict[str, str] = {}

    def index(self, name: str | None) -> int | None:
        """Return the index of a name, which is added if it is new."""
        if name is None:
            return None
        if name not in self._cut:
            self._cut[name] = cut(name, NAME)
        shown = self._cut[name]
        if shown not in self._index:
            self._index[shown] = len(self.shown)
            self.shown.append(shown)
            self.bytes += _bytes(shown) + 1
        return self._index[shown]

    def forget(self, n: int) -> None:
        """Keep only the first `n` names."""
        for shown in self.shown[n:]:
            del self._index[shown]
            self.bytes -= _bytes(shown) + 1
        del self.shown[n:]

    @property
    def cut(self) -> int:
        """How many are not whole."""
        return sum(len(shown) > NAME for shown in self.shown)


def _number(value: float) -> int | float | None:
    """Return a number as short as JSON allows, at most three decimals; None for NaN."""
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        return None
    rounded = round(float(value), 3)
    return int(rounded) if rounded.is_integer() else rounded


def _headline(profile: Profile) -> dict[str, str | None]:
    found = headline(profile)
    return {"lead": found.lead, "text": cut(found.text, LINE)}


def _lines(what: str, lines: Sequence[str], room: int, left_out: list[str]) -> list[str]:
    kept = []
    for line in lines[:LINES]:
        shown = cut(line, LINE)
        room -= _bytes(shown) + 1
        if room < 0:
            break
        kept.append(shown)
    if len(kept) < len(lines):
        left_out.append(f"{what}: the first {len(kept)} of {len(lines):,} are here")
    return kept


def _operators(
    frame: pd.DataFrame, sort: str, device: bool, word: str, names: _Names, left_out: list[str]
) -> dict[str, Any]:
    columns: dict[str, Iterable[Any] | None] = {"name": operator_names(frame)}
    for key in ("calls", "self_cpu_us", "cpu_us", "self_device_us", "device_us"):
        columns[key] = frame[key].tolist() if device or "device" not in key else None
    columns["spread"] = _told(frame["spread"])
    shown = bytes_column(frame, sort)
    columns["self_bytes"] = frame[shown].tolist() if shown in frame else None
    by = "self_bytes" if sort in BYTES else sort
    table = _table(len(frame), by, columns, {"name"}, names)
    _say("operators", table, column_words(sort, word), left_out)
    of = None if shown not in frame else word if shown == BYTES[0] else "CPU"
    return {**table, "bytes_of": of}


def _kernels(
    profile: Profile, frame: pd.DataFrame, word: str, names: _Names, left_out: list[str]
) -> dict[str, Any]:
    label = cache(lambda device: device_label(profile, device))
    columns: dict[str, Iterable[Any] | None] = {
        key: frame[key].tolist() for key in _KERNEL_COLUMNS if key in frame
    }
    columns["device"] = (label(device) for device in frame["device"].tolist())
    columns["spread"] = _told(frame["spread"])
    texts = {"name", "operator", "device", "grid", "block"}
    table = _table(len(frame), "device_us", columns, texts, names)
    _say("kernels", table, f"{word} time", left_out)
    return table


def _told(values: pd.Series) -> list[float] | None:
    return values.tolist() if values.notna().any() else None


_KERNEL_COLUMNS = (
    "name", "operator", "device", "stream", "calls", "device_us", "mean_us", "min_us",
    "median_us", "max_us", "grid", "block", "occupancy",
)  # fmt: skip


def _table(
    of: int, sort: str, columns: dict[str, Iterable[Any] | None], texts: set[str], names: _Names
) -> dict[str, Any]:
    """Return as many of the rows, from the first, as there is room for."""
    there = {key: values for key, values in columns.items() if values is not None}
    kept: dict[str, list[Any] | None] = {key: [] if key in there else None for key in columns}
    table = {"of": of, "sort": sort, "columns": kept}
    room = TABLE_BYTES - _bytes(table)
    rows: list[list[Any]] = []
    for cells in zip(*there.values(), strict=True):
        n, before = len(names.shown), names.bytes
        row = [
            names.index(cell) if key in texts else _number(cell)
            for key, cell in zip(there, cells, strict=True)
        ]
        room -= _bytes(row) + names.bytes - before
        if room < 0:
            names.forget(n)
            break
        rows.append(row)
    kept.update({key: [row[i] for row in rows] for i, key in enumerate(there)})
    return table


def _say(what: str, table: dict[str, Any], by: str, left_out: list[str]) -> None:
    kept, of = len(table["columns"]["name"]), table["of"]
    if kept < of:
        those = f"the first {kept:,} by name" if by == "name" else f"the {kept:,} with most {by}"
        left_out.append(f"{what}: {those} of {of:,} are here; all are in Profile.{what}")


def _strip(
    profile: Profile, room: int, names: _Names, left_out: list[str]
) -> dict[str, Any] | None:
    strip = profile.strip
    if strip is None:
        return None
    lanes = [
        {
            "kind": lane.kind,
            "label": cut(lane.label or device_label(profile, lane.device), LABEL),
            "rows": lane.rows,
            "streams": list(lane.streams) if lane.kind == "device" else None,
        }
        for lane in strip.lanes
    ]
    drawn = _drawn(strip, lanes)
    while (size := _bytes(drawn)) > room and len(strip.at_most(len(strip) - 1)) < len(strip):
        strip = strip.at_most(len(strip) * 3 // 4)
        drawn = _drawn(strip, lanes)
    nameless = _name(strip, drawn["spans"], names, room - size)
    if strip.more_devices:
        left_out.append(f"strip: {strip.more_devices:,} more devices are not drawn")
    if nameless:
        left_out.append(f"strip: there was no room for {nameless:,} of the names")
    return drawn


def _drawn(strip: Strip, lanes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the strip as it is without names."""

    def numbers(values: Any) -> list[int | float | None]:
        return [_number(value) for value in values.tolist()]

    single = bool((strip.count == 1).all())
    return {
        "run": strip.run,
        "of": strip.of,
        "wall_us": _number(strip.wall_us),
        "resolution_us": _number(strip.resolution_us),
        "lanes": lanes,
        "spans": {
            "lane": strip.lane.tolist(),
            "row": strip.row.tolist(),
            "kind": strip.kind.tolist(),
            "start_us": numbers(strip.start_us),
            "duration_us": numbers(strip.duration_us),
            "count": None if single else strip.count.tolist(),
            "busy_us": None if single else numbers(strip.busy_us),
            "name": [None] * len(strip),
            "operator": [None] * len(strip),
            "launch": strip.launch.tolist(),
        },
    }


def _name(strip: Strip, spans: dict[str, list[Any]], names: _Names, room: int) -> int:
    """Fill in names, of the longest spans first, and return for how many there was no room."""
    refused: set[str] = set()
    for i in (-strip.duration_us).argsort(kind="stable").tolist():
        for key, name in (("name", strip.name[i]), ("operator", strip.operator[i])):
            if name in refused:
                continue
            n, before = len(names.shown), names.bytes
            index = names.index(name)
            if (took := names.bytes - before) > room:
                names.forget(n)
                refused.add(name)
                continue
            room -= took
            spans[key][i] = index
    return len(refused)
