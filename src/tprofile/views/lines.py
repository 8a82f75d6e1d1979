"""The lines of code, those that never ran too: what each took."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING

from ..units import DASH, unit
from .tables import Table
from .words import COLUMNS, beginning, count, cut, device_word, fit, visible, width

if TYPE_CHECKING:
    import pandas as pd

    from ..result import Profile

LABEL, FILE = 24, 30
"""Columns of what is said of a finding in the row of its line, and of a file's name in it."""

_TAB = 4

_LEAST = 40
"""Columns of a terminal that code gets, whatever else there is to say of it."""


def all_lines(profile: Profile) -> pd.DataFrame:
    """Return `Profile.lines` with a row for every line of the cell, in the order of the code.

    Lines that never ran, or are part of a function or a statement above, have NaN in all figures.
    `source` is as it can be shown, the function's name where the text is not known. Columns are
    added: `short` (the end of the file's path that tells it from the others, "" for the cell),
    `finding` (which of the findings is about the line, the first if several are, -1 for none),
    `findings` (how many are).
    """
    frame, texts = profile.lines, _texts(profile)
    own = frame["file"].isna()
    rows_of: dict[int, list[int]] = {}
    # A line can stand for itself and for a function in it: the former comes first.
    cell = frame[own].sort_values(["line", "function"], kind="stable", na_position="first")
    for row, number in zip(cell.index.tolist(), cell["line"].tolist(), strict=True):
        rows_of.setdefault(number, []).append(row)
    numbers = sorted({*texts, *rows_of})
    # A label that no row has stands for a line without figures.
    places = [(n, row) for n in numbers for row in rows_of.get(n, [-1 - n])]
    rest = frame[~own].sort_values(["file", "line"], kind="stable")
    every = frame.reindex([*(row for _, row in places), *rest.index])
    every.index = range(len(every))
    files = [*(None for _ in places), *rest["file"].tolist()]
    short = _short(files)
    on = _findings(profile, [n for n, _ in places]) + [[] for _ in rest.index]
    known = [*(texts.get(n) for n, _ in places), *(None for _ in rest.index)]
    columns = zip(known, every["source"], every["function"], strict=True)
    return every.assign(
        file=files,
        line=[*(n for n, _ in places), *rest["line"].tolist()],
        source=[_first(texts) for texts in columns],
        short=["" if file is None else fit(short[file], FILE).rstrip() for file in files],
        finding=[which[0] if which else -1 for which in on],
        findings=[len(which) for which in on],
    )


def _texts(profile: Profile) -> dict[int, str]:
    """Return the lines of the cell by number, without blank ones at its beginning and end."""
    if not (text := (profile.source or "").rstrip()):
        return {}
    first = text[: len(text) - len(text.lstrip())].count("\n")
    return {n: one for n, one in enumerate(text.split("\n"), 1) if n > first}


def _findings(profile: Profile, numbers: list[int]) -> list[list[int]]:
    """Return the findings on each line of the cell, in the first of its rows."""
    left: dict[int | None, list[int]] = {}
    for i, one in enumerate(profile.findings):
        left.setdefault(one.line, []).append(i)
    return [left.pop(n, []) for n in numbers]


def _first(texts: tuple[object, ...]) -> str:
    return next((source(text) for text in texts if isinstance(text, str)), "")


def source(text: object) -> str:
    """Return a line of code as it is shown: its indentation stays, tabs become blanks."""
    if not isinstance(text, str) or not text.strip():
        return ""
    return visible(text.rstrip().expandtabs(_TAB))


def _short(files: list[str | None]) -> dict[str, str]:
    """Return the end of each path that tells it from the others."""
    parts = {file: re.split(r"[/\\]", file) for file in files if file is not None}
    short, length = {file: file for file in parts}, 1
    left = list(parts)
    while left:
        ends = {file: os.path.join(*parts[file][-length:]) for file in left}
        often = Counter(ends.values())
        short.update({file: end for file, end in ends.items() if often[end] == 1})
        left = [file for file in left if often[ends[file]] > 1 and length < len(parts[file])]
        length += 1
    return short


def by_weight(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines with those first that there is most to say of: findings, then time."""
    time = "device_us" if has_device(lines) else "cpu_us"
    rank = lines.assign(_on=lines["finding"] >= 0, _blank=lines["source"] == "")
    return lines.loc[
        rank.sort_values(
            ["_on", time, "cpu_us", "_blank"], ascending=[False, False, False, True], kind="stable"
        ).index
    ]


def has_cell(lines: pd.DataFrame) -> bool:
    """Tell whether any are of the cell, whose order a reader knows; if none, by weight is best."""
    return bool((lines["short"] == "").any())


def has_device(lines: pd.DataFrame) -> bool:
    """Tell whether device work was recorded."""
    return bool(lines["device_us"].notna().any())


def has_backward(lines: pd.DataFrame) -> bool:
    """Tell whether any line has device work in its backward pass."""
    return bool((lines["backward_device_us"] > 0).any())


def label(profile: Profile, finding: int, several: int) -> str:
    """Return what is said of the findings in the row of their line."""
    if finding < 0:
        return ""
    first = profile.findings[finding]
    said = cut(first.label or first.title, 200)
    if width(said) > LABEL:
        said = beginning(said, LABEL - 1) + "…"
    return f"{said} +{several - 1}" if several > 1 else said


def worth_showing(profile: Profile) -> bool:
    """Tell whether more than one line of code ran: one alone is the whole."""
    return len(profile.lines) > 1


def line_table(profile: Profile, limit: int | None = 15) -> Table | None:
    """Return the lines per run; None where no more than one line of code ran."""
    if not worth_showing(profile):
        return None
    every = all_lines(profile)
    # What ran is told even where its text is not known; blank lines are not.
    told = every[(every["source"] != "") | every["calls"].notna()]
    shown = by_weight(told)[:limit]
    if has_cell(every):
        shown = shown.sort_index()
    runs, word = max(len(profile.runs), 1), device_word(profile)
    places = [
        f"{short}:{n}" if short else str(n)
        for short, n in zip(shown["short"], shown["line"], strict=True)
    ]
    labels = [
        label(profile, which, several)
        for which, several in zip(shown["finding"], shown["findings"], strict=True)
    ]
    columns = [
        ("line", "r", places),
        (
            "code" if shown["short"].any() else "cell",
            "n",
            [text or DASH for text in shown["source"]],
        ),
        ("calls", "r", _counts(shown["calls"] / runs)),
        _times("CPU", shown["cpu_us"] / runs),
    ]
    if has_device(every):
        columns.append(_times(word, shown["device_us"] / runs))
        if has_backward(every):
            columns.append(_times("backward", shown["backward_device_us"] / runs))
        columns.append(("launches", "r", _counts(shown["launches"] / runs)))
    columns.append(("", "l", labels))
    for head in ("launches", "calls"):
        if _room(columns) < min(_LEAST, max(map(width, shown["source"]))):
            # The code is what one looks for.
            columns = [column for column in columns if column[0] != head]
    heads, kinds, cells = zip(*columns, strict=True)
    rows = [list(row) for row in zip(*cells, strict=True)]
    left_out = len(told) - len(shown)
    title = "Lines, per run"
    if not profile.trace.recorded.stack and _has_functions(every):
        title += " (--stack tells those inside functions)"
    return Table(title, list(heads), "".join(kinds), rows, left_out)


def _has_functions(lines: pd.DataFrame) -> bool:
    """Tell whether the cell has a function whose own lines have no figures."""
    own = lines[lines["short"] == ""]
    heads = own["source"].str.match(r"\s*(async )?def ").to_numpy(bool)
    inside = (own["calls"].isna() & (own["source"] != "")).to_numpy()
    return bool((heads[:-1] & inside[1:]).any())


def _times(head: str, values: pd.Series[float]) -> tuple[str, str, list[str]]:
    fit = unit(values)
    return f"{head} {fit.name}", "r", [fit.number(us) for us in values]


def _room(columns: list[tuple[str, str, list[str]]]) -> int:
    """Return the columns of a terminal that are left for the code."""
    others = [(head, cells) for head, kind, cells in columns if kind != "n"]
    return COLUMNS - sum(2 + max(width(cell) for cell in [head, *cells]) for head, cells in others)


def _counts(values: pd.Series[float]) -> list[str]:
    return [DASH if value != value else count(value) for value in values]
