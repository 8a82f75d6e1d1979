"""The two tables as rows of text, for terminal and page alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from ..errors import TprofileError
from .words import DASH, count, device_label, device_word, percent, unit

if TYPE_CHECKING:
    from ..result import Profile


@dataclass(frozen=True)
class Table:
    """A title, heads, and rows of cells. The first `names` columns are names, the rest numbers."""

    title: str
    heads: list[str]
    names: int
    rows: list[list[str]]
    left_out: int
    """Rows of the frame that the limit leaves out."""


def operator_table(profile: Profile, sort: str | None = None, limit: int | None = 15) -> Table:
    """Return operators per run, by self device time (self CPU without a device) or by `sort`."""
    frame, sort = sorted_operators(profile, sort)
    device = has_device(frame)
    runs = max(len(profile.runs), 1)
    word = device_word(profile)
    wanted = [("self CPU", "self_cpu_us", True), ("CPU total", "cpu_us", False)]
    if device:
        wanted += [(f"self {word}", "self_device_us", True), (f"{word} total", "device_us", False)]
    heads, columns = ["operator", "calls"], [_counts(frame["calls"] / runs)]
    # All device work is the whole of which an operator has a part, whoever launched it.
    whole = {
        "self_cpu_us": frame["self_cpu_us"].sum(),
        "self_device_us": profile.kernels["device_us"].sum() if device else 0.0,
    }
    for head, column, share in wanted:
        fit = unit(frame[column] / runs)
        heads.append(f"{head} {fit.name}")
        columns.append([fit.number(v) for v in frame[column] / runs])
        if share:
            heads.append("%")
            total = whole[column]
            columns.append([percent(v / total) if total else DASH for v in frame[column]])
    title = f"Operators, per run, by {column_words(sort, word)}"
    return _table(title, heads, 1, [operator_names(frame), *columns], limit)


def sorted_operators(profile: Profile, sort: str | None) -> tuple[pd.DataFrame, str]:
    """Return the operators by a column, the largest first, and the column that `sort` stands for.

    None stands for self device time. Without a device, CPU times stand for those of the device.
    """
    frame = profile.operators
    sort = sort or "self_device_us"
    if not has_device(frame):
        sort = {"self_device_us": "self_cpu_us", "device_us": "cpu_us"}.get(sort, sort)
    sortable = [c for c in frame.columns if c.endswith("_us") or c in ("calls", "name")]
    if sort not in sortable:
        raise TprofileError(
            f"operators cannot be sorted by {sort!r}. Choose one of {', '.join(sortable)}."
        )
    return frame.sort_values(sort, ascending=sort == "name", kind="stable"), sort


def has_device(operators: pd.DataFrame) -> bool:
    """Tell whether device work was recorded."""
    return bool(operators["self_device_us"].notna().any())


def column_words(column: str, word: str) -> str:
    """Return what a person calls a column of the operators, on devices that are called `word`."""
    return {
        "self_cpu_us": "self CPU time",
        "cpu_us": "CPU total",
        "self_device_us": f"self {word} time",
        "device_us": f"{word} total",
    }.get(column, column)


def operator_names(frame: pd.DataFrame) -> list[str]:
    """Return the names, with an annotation told from an operator of the same name."""
    twice = frame["name"].duplicated(keep=False) & (frame["category"] == "user_annotation")
    return [
        f"{name} (annotation)" if both else name
        for name, both in zip(frame["name"], twice, strict=True)
    ]


def kernel_table(profile: Profile, limit: int | None = 15) -> Table:
    """Return device work per run, the longest first."""
    frame = profile.kernels
    runs = max(len(profile.runs), 1)
    several = frame["device"].nunique() > 1
    total = frame["device_us"].sum()
    sums, means = unit(frame["device_us"] / runs), unit(frame["mean_us"])
    word = device_word(profile)
    heads = ["kernel", "operator", "calls", f"{word} {sums.name}", "%", f"mean {means.name}"]
    columns = [
        [f"{device_label(profile, d)}: {n}" if several else n
         for n, d in zip(frame["name"], frame["device"], strict=True)],
        [n if n is not None else DASH for n in frame["operator"]],
        _counts(frame["calls"] / runs),
        [sums.number(v) for v in frame["device_us"] / runs],
        [percent(v / total) for v in frame["device_us"]],
        [means.number(v) for v in frame["mean_us"]],
    ]  # fmt: skip
    return _table("Kernels, copies and sets, per run", heads, 2, columns, limit)


def _counts(values: pd.Series) -> list[str]:
    return [count(v) for v in values]


def _table(
    title: str, heads: list[str], names: int, columns: list[list[str]], limit: int | None
) -> Table:
    rows = [list(cells) for cells in zip(*columns, strict=True)]
    shown = rows if limit is None else rows[:limit]
    return Table(title, heads, names, shown, len(rows) - len(shown))
