"""A Comparison as text: figures side by side, what they say, tables with differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from ..units import DASH, Unit, amount, duration, times, unit
from .pack import LABEL
from .tables import Table, table
from .text import drawn, wrapped
from .words import LINE, compared, count, cut, fit, sentence, visible, width

if TYPE_CHECKING:
    from ..analysis.finding import Finding
    from ..comparison import Comparison

_KERNELS = "Kernels, copies and sets, per run, by difference"
_HEAD, _OPERATOR = 10, 40
"""Columns of a label in the head of a table, and of the operator that launched a kernel."""


def text(comparison: Comparison, limit: int | None = 15) -> str:
    """Return all that a comparison tells. Names of kernels are whole, on lines of their own."""
    blocks = ["\n".join(wrapped(cut(visible(line), LINE)) for line in _lead(comparison))]
    blocks.append(drawn(figures(comparison)))
    if notes := warnings(comparison):
        blocks.append("\n".join(wrapped(f"! {cut(visible(one), LINE)}", "  ") for one in notes))
    blocks.append(_findings(comparison))
    blocks.append(_became(comparison, limit))
    operators = operator_table(comparison, limit)
    blocks.append(drawn(operators) if operators.rows else "")
    if len(comparison.kernels):
        blocks.append(_kernels(comparison, limit))
    return "\n\n".join(block for block in blocks if block)


def _lead(comparison: Comparison) -> list[str]:
    found = comparison.findings
    told = [sentence(found[0].title) if found else " and ".join(comparison.labels)]
    for own, put in zip(comparison.labels, _heads(comparison), strict=True):
        if visible(own) != put:
            told.append(f"{put} is {own}")
    return told


def _heads(comparison: Comparison) -> tuple[str, str]:
    """Return what the two are called in tables, where there is no room for long labels."""
    a, b = (visible(cut(one, LINE)) for one in comparison.labels)
    return (a, b) if max(width(a), width(b)) <= _HEAD else ("A", "B")


def labels(comparison: Comparison) -> tuple[str, str]:
    """Return what the two are called, as it can be shown."""
    a, b = (cut(one, LABEL) for one in comparison.labels)
    return ("A", "B") if a == b else (a, b)


def figures(comparison: Comparison) -> Table:
    """Return the figures of both, per run, and what B is of A."""
    told = comparison.summary
    a, b = _heads(comparison)
    rows = []
    for what, name, put in (
        ("wall of a run", "wall_us", duration),
        ("in a loop", "loop_us", duration),
        ("device busy", "device_busy_us", duration),
        ("launches", "launches", count),
        ("kernels", "kernels", count),
        ("peak device memory", "peak_device_bytes", amount),
        ("first run", "first_run_us", duration),
    ):
        before, after = getattr(told, f"{name}_a"), getattr(told, f"{name}_b")
        if before is None and after is None:
            continue
        ratio = f"{times(after / before)}×" if before and after is not None else DASH
        if name == "wall_us" and told.wall_ratio is None:
            ratio = DASH
        shown = [DASH if one is None else put(one) for one in (before, after)]
        rows.append([what, *shown, ratio])
    return Table("Per run", ["", a, b, f"{b} / {a}"], "lrrr", rows, 0)


def warnings(comparison: Comparison) -> list[str]:
    """Return what a reader must know to trust the figures: of the comparison, then of each."""
    own = [one.summary.warnings for one in (comparison.a, comparison.b)]
    both = [one for one in own[0] if one in own[1]]
    named = [
        f"{label}: {one}"
        for label, notes in zip(labels(comparison), own, strict=True)
        for one in notes
        if one not in both
    ]
    return [*comparison.summary.warnings, *both, *named]


def gain(comparison: Comparison, one: Finding) -> str | None:
    """Return how much less each run of B takes by what a finding tells of, or None."""
    if one.gain_us is None:
        return None
    what = "" if one.kind == "speed" else " of the device"
    return f"{compared(one.gain_us, comparison.summary.wall_us_a)} less{what} in each run"


def _findings(comparison: Comparison) -> str:
    if not comparison.findings:
        return ""
    lines = ["What it says"]
    for n, one in enumerate(comparison.findings, 1):
        parts = [one.title, gain(comparison, one)]
        title = " · ".join(cut(visible(part), LINE) for part in parts if part)
        lines.append(wrapped(f"{n}. {title}", "   "))
        lines += [
            wrapped(cut(visible(line), LINE), "   ", "   ")
            for line in (one.evidence, f"→ {one.advice}")
        ]
    return "\n".join(lines)


def _became(comparison: Comparison, limit: int | None) -> str:
    frame = comparison.replaced
    a, b = _heads(comparison)
    if frame is None:
        why = "there are too many" if comparison.a.complete and comparison.b.complete else (
            "a run was stopped by an error"
        )  # fmt: skip
        return f"What became of the kernels of {a} in {b} is not told: {why}"
    frame = frame[frame["change"] != "same"]
    if frame.empty:
        return ""
    scale = unit([*frame["device_us_a"], *frame["device_us_b"]])
    lines = [f"What became of the kernels of {a} in {b}, in one run"]
    for row in frame.head(limit or len(frame)).itertuples():
        often = f" · {row.times} times" if row.times > 1 else ""
        lines.append(
            f"{row.change}{often} · {scale.number(row.device_us_a)} → "
            f"{scale.number(row.device_us_b)} {scale.name}"
        )
        lines += [
            f"  - {f'{fit(operator, _OPERATOR).rstrip()} · ' if operator else ''}{_whole(name)}"
            for name, operator in zip(row.kernels_a, row.operators_a, strict=True)
        ]
        if row.kernel_b is not None:
            lines.append(f"  + {_whole(row.kernel_b)}")
    if limit is not None and len(frame) > limit:
        lines.append(f"… and {len(frame) - limit} more")
    return "\n".join(lines)


def _whole(name: str) -> str:
    """Return a name in full, unless it is one that no compiler writes."""
    return cut(visible(name), 10 * LINE)


def operators(comparison: Comparison) -> tuple[pd.DataFrame, str]:
    """Return the operators of both, and the column that leads: self device time, or else CPU time.

    Device time is as in a profile's own table: with what a row launched outside all operators, such
    as a graph.
    """
    frame = comparison.operators
    for side in "ab":
        frame[f"self_device_us_{side}"] += frame[f"self_launched_us_{side}"]
    device = frame[["self_device_us_a", "self_device_us_b"]].notna().any(axis=None)
    return frame, "self_device_us" if device else "self_cpu_us"


def operator_table(comparison: Comparison, limit: int | None) -> Table:
    """Return the operators of both, those that differ most first."""
    frame, lead = operators(comparison)
    frame = frame[(frame[f"{lead}_a"] > 0) | (frame[f"{lead}_b"] > 0)]
    heads, cells = _sides(comparison, frame, lead)
    what = "self device time" if lead == "self_device_us" else "self CPU time"
    title = f"Operators, per run, by difference in {what}"
    cells = [[str(name) for name in frame["name"]], *cells]
    return table(title, ["operator", *heads], "n", cells, limit)


def kernel_table(comparison: Comparison, limit: int | None) -> Table:
    """Return the kernels of both, those that differ most first."""
    frame = comparison.kernels
    heads, cells = _sides(comparison, frame, "device_us")
    cells = [[str(name) for name in frame["name"]], *cells]
    return table(_KERNELS, ["kernel", *heads], "n", cells, limit)


def _kernels(comparison: Comparison, limit: int | None) -> str:
    frame = comparison.kernels
    heads, cells = _sides(comparison, frame, "device_us")
    numbers = table(_KERNELS, heads, "", cells, limit)
    title, head, *lines = drawn(numbers).split("\n")
    # Behind the rows, one line on those that are left out.
    names = [f"  {_whole(name)}" for name in frame["name"][: len(numbers.rows)]]
    named = [line + name for line, name in zip(lines, names, strict=False)]
    return "\n".join([title, f"{head}  kernel", *named, *lines[len(names) :]])


def _sides(
    comparison: Comparison, frame: pd.DataFrame, column: str
) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells of the calls and times of both, the difference and the ratio."""
    runs = max(len(comparison.a.runs), 1)
    a, b = _heads(comparison)
    before, after = frame[f"{column}_a"] / runs, frame[f"{column}_b"] / runs
    scale = unit([*before, *after])
    heads = [f"calls {a}", b, f"{a} {scale.name}", f"{b} {scale.name}", "difference", "ratio"]
    return heads, [
        [DASH if n != n else count(n / runs) for n in frame["calls_a"]],
        [DASH if n != n else count(n / runs) for n in frame["calls_b"]],
        [scale.number(v) for v in before],
        [scale.number(v) for v in after],
        [_signed(scale, v) for v in frame["delta_us"] / runs],
        ["new" if not n else "gone" if not m else f"{times(r)}×" if r == r else DASH
         for n, m, r in zip(frame["calls_a"], frame["calls_b"], frame["ratio"], strict=True)],
    ]  # fmt: skip


def _signed(scale: Unit, value: float) -> str:
    told = scale.number(value)
    if value > 0:
        return f"<+{told[1:]}" if told.startswith("<") else f"+{told}"
    return told.replace("-", "−")
