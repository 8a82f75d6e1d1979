"""The two tables as rows of text, for terminal and page alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from ..errors import TprofileError
from ..units import DASH, bytes_unit, unit
from .words import count, device_label, device_word, percent

if TYPE_CHECKING:
    from ..result import Profile


BYTES = ("self_device_bytes", "self_cpu_bytes")
"""Columns of the operators that there are where memory was recorded."""


@dataclass(frozen=True)
class Table:
    """A title, heads, and rows of cells."""

    title: str
    heads: list[str]
    kinds: str
    """What each column holds, a letter for each: `n` names, cut in the middle where there is no
    room for them; `r` numbers; `l` short texts."""
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
    lead, told = "self_device_us" if device else "self_cpu_us", "self_cpu_bytes" in frame
    # All device work is the whole of which an operator has a part, whoever launched it.
    whole = {
        "self_cpu_us": frame["self_cpu_us"].sum(),
        "self_device_us": profile.kernels["device_us"].sum() if device else 0.0,
    }
    for head, column, share in wanted:
        fit = unit(frame[column] / runs)
        heads.append(f"{head} {fit.name}")
        columns.append([fit.number(v) for v in frame[column] / runs])
        # With bytes there is no room for all.
        if share and (column == lead or not told):
            heads.append("%")
            total = whole[column]
            columns.append([percent(v / total) if total else DASH for v in frame[column]])
        if column == lead and not device:
            _add_spread(frame, heads, columns)
    if told:
        _add_bytes(frame[bytes_column(frame, sort)], runs, heads, columns)
    title = f"Operators, per run, by {column_words(sort, word)}"
    return table(title, heads, "n", [operator_names(frame), *columns], limit)


def sorted_operators(
    profile: Profile, sort: str | None, by: str | None = None
) -> tuple[pd.DataFrame, str]:
    """Return the operators by a column, the largest first, and the column that `sort` stands for.

    `by` is what else tells rows apart, as for `Profile.operators_by`.

    None stands for self device time. Without a device, CPU times stand for those of the device.
    Device times are those that a person looks for: with what a call launched outside all operators.
    A column `spread` is added: how much the leading time, self device or else self CPU, differs
    from run to run, as half the range over the median; NaN for fewer than three runs.
    """
    frame = profile.operators if by is None else profile.operators_by(by)
    lead = "self_device" if has_device(frame) else "self_cpu"
    spread = _spread(frame, lead, profile)
    # What a call launched in each run is not known, only the sum.
    frame["spread"] = spread.where(~(frame["self_launched_us"] > 0))
    frame["self_device_us"] += frame["self_launched_us"]
    frame["device_us"] += frame["launched_us"]
    sort = sort or "self_device_us"
    if not has_device(frame):
        sort = {"self_device_us": "self_cpu_us", "device_us": "cpu_us"}.get(sort, sort)
    if sort in BYTES and sort not in frame:
        raise TprofileError(
            f"operators cannot be sorted by {sort!r}: memory was not recorded. Profile with "
            "`--memory`, or `memory=True`."
        )
    sortable = [c for c in frame.columns if c.endswith(("_us", "_bytes")) or c in ("calls", "name")]
    if sort not in sortable:
        raise TprofileError(
            f"operators cannot be sorted by {sort!r}. Choose one of {', '.join(sortable)}."
        )
    return frame.sort_values(sort, ascending=sort == "name", kind="stable"), sort


def sorted_kernels(profile: Profile) -> pd.DataFrame:
    """Return the kernels, the longest first, with a column `spread` as operators have it."""
    frame = profile.kernels
    return frame.assign(spread=_spread(frame, "run", profile))


def by_name(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels with one row for each name, whatever launched it wherever.

    What cannot be told of several rows together (medians, spreads) is NaN.
    """
    groups = kernels.groupby("name", sort=False)
    frame = groups.agg(
        calls=("calls", "sum"), device_us=("device_us", "sum"),
        min_us=("min_us", "min"), max_us=("max_us", "max"),
        median_us=("median_us", "first"), spread=("spread", "first"),
    ).reset_index()  # fmt: skip
    frame["mean_us"] = frame["device_us"] / frame["calls"]
    several = groups.size().to_numpy() > 1
    frame.loc[several, ["median_us", "spread"]] = float("nan")
    return frame.sort_values("device_us", ascending=False, kind="stable", ignore_index=True)


def sorted_modules(profile: Profile) -> tuple[pd.DataFrame, str]:
    """Return the modules, those with most device time first (CPU without a device), and by what."""
    frame = profile.modules
    sort = "device_us" if frame["device_us"].notna().any() else "cpu_us"
    return frame.sort_values(sort, ascending=False, kind="stable"), sort


def _spread(frame: pd.DataFrame, what: str, profile: Profile) -> pd.Series:
    median = frame[f"{what}_median_us"]
    half = (frame[f"{what}_max_us"] - frame[f"{what}_min_us"]) / 2
    told = (median > 0) & (len(profile.runs) >= 3)
    return (half / median).where(told)


def _add_spread(frame: pd.DataFrame, heads: list[str], columns: list[list[str]]) -> None:
    if frame["spread"].notna().any():
        heads.append("±%")
        columns.append([">999" if v >= 10 else percent(v) for v in frame["spread"]])


def _add_bytes(values: pd.Series, runs: int, heads: list[str], columns: list[list[str]]) -> None:
    fit = bytes_unit(values / runs)
    heads.append(f"self {fit.name}")
    columns.append([fit.number(v) for v in values / runs])


def bytes_column(frame: pd.DataFrame, sort: str) -> str:
    """Return which bytes of the operators are shown, where memory was recorded.

    Those of the device where there is device work, else of the CPU; or those that they are sorted
    by.
    """
    return sort if sort in BYTES else BYTES[0] if has_device(frame) else BYTES[1]


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
        "self_device_bytes": f"self {word} bytes",
        "self_cpu_bytes": "self CPU bytes",
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
    frame = sorted_kernels(profile)
    runs = max(len(profile.runs), 1)
    several = frame["device"].nunique() > 1
    total = frame["device_us"].sum()
    sums, means = unit(frame["device_us"] / runs), unit(frame["mean_us"])
    word = device_word(profile)
    heads = ["kernel", "operator", "calls", f"{word} {sums.name}", "%"]
    columns = [
        [f"{device_label(profile, d)}: {n}" if several else n
         for n, d in zip(frame["name"], frame["device"], strict=True)],
        [n if n is not None else DASH for n in frame["operator"]],
        _counts(frame["calls"] / runs),
        [sums.number(v) for v in frame["device_us"] / runs],
        [percent(v / total) for v in frame["device_us"]],
    ]  # fmt: skip
    _add_spread(frame, heads, columns)
    heads.append(f"mean {means.name}")
    columns.append([means.number(v) for v in frame["mean_us"]])
    return table("Kernels, copies and sets, per run", heads, "nn", columns, limit)


def _counts(values: pd.Series) -> list[str]:
    return [count(v) for v in values]


def table(
    title: str, heads: list[str], names: str, columns: list[list[str]], limit: int | None
) -> Table:
    """Return a table of names, and numbers after them."""
    rows = [list(cells) for cells in zip(*columns, strict=True)]
    shown = rows if limit is None else rows[:limit]
    return Table(title, heads, names.ljust(len(heads), "r"), shown, len(rows) - len(shown))


def shares(values: pd.Series) -> pd.Series:
    """Return values as parts of the largest."""
    most = values.max()
    return values / most if most > 0 else values * 0.0
