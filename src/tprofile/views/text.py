"""A Profile as text of at most 100 columns, for terminals and issues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .figures import answer
from .findings import said
from .lines import line_table
from .startup import startup_sentences, startup_table
from .tables import Table, kernel_table, operator_table
from .words import COLUMNS, LINE, cut, fit, visible, what_was_run, width

if TYPE_CHECKING:
    from ..result import Profile


def text(profile: Profile, sort: str | None = None, limit: int | None = 15) -> str:
    """Return the answer, the figures and the tables, names cut where they do not fit."""
    startup = startup_sentences(profile, beside_table=True)
    lines = [cut(line, LINE) for line in answer(profile)]
    blocks = ["\n".join(map(wrapped, [*lines, *what_was_run(profile), *startup]))]
    notes = [*profile.summary.warnings]
    if notes:
        blocks.append("\n".join(wrapped(f"! {cut(note, LINE)}", "  ") for note in notes))
    if profile.findings:
        blocks.append(_findings(profile, limit))
    if (lines_ := line_table(profile, limit)) is not None:
        blocks.append(drawn(lines_))
    if (started := startup_table(profile)) is not None:
        table, remarks = started
        blocks.append("\n".join([drawn(table), *map(wrapped, remarks)]))
    operators = operator_table(profile, sort, limit)
    if operators.rows:
        blocks.append(drawn(operators))
    if len(profile.kernels):
        blocks.append(drawn(kernel_table(profile, limit)))
    return "\n\n".join(blocks)


def _findings(profile: Profile, limit: int | None) -> str:
    shown, below = said(profile, limit)
    lines = ["Findings"]
    for n, one in enumerate(shown, 1):
        lines.append(wrapped(f"{n}. {one.title}", "   "))
        lines += [wrapped(line, "   ", "   ") for line in one.lines]
    return "\n".join([*lines, *(wrapped(line, "  ") for line in below)])


def wrapped(line: str, indent: str = "", first: str = "") -> str:
    """Return the line broken at spaces; `textwrap` would count characters, not columns.

    `first` is what the first line begins with, `indent` what the others do.
    """
    lines, last = [], first
    for word in line.split():
        joined = f"{last} {word}" if last.strip() else last + word
        if width(joined) <= COLUMNS:
            last = joined
            continue
        if last.strip():
            lines.append(last)
            last = indent
        # One pass over a word, for some are megabytes.
        room = COLUMNS - width(last)
        for c in word:
            room -= width(c)
            if room < 0:
                lines.append(last)
                last, room = indent, COLUMNS - width(indent) - width(c)
            last += c
    return "\n".join([*lines, last])


def drawn(table: Table) -> str:
    """Return a table as lines of text, names cut to fit."""
    every = [table.heads, *table.rows]
    names = [i for i, kind in enumerate(table.kinds) if kind == "n"]
    widths = {
        i: max(width(row[i]) for row in every) for i in range(len(table.heads)) if i not in names
    }
    left = COLUMNS - sum(widths.values()) - 2 * (len(table.heads) - 1)
    # The first name gets two thirds: a kernel's is longer than its operator's.
    shares = [left] if len(names) == 1 else [left - left // 3, left // 3]
    for i, share in zip(names, shares[: len(names)], strict=True):
        widths[i] = min(share, max(width(visible(row[i])) for row in every))

    def line(cells: list[str]) -> str:
        set_ = {"n": fit, "r": _right, "l": _left}
        drawn = [
            set_[kind](cell, widths[i])
            for i, (kind, cell) in enumerate(zip(table.kinds, cells, strict=True))
        ]
        return "  ".join(drawn).rstrip()

    lines = [table.title, line(table.heads), *(line(row) for row in table.rows)]
    if table.left_out:
        lines.append(f"… and {table.left_out} more")
    return "\n".join(lines)


def _right(cell: str, columns: int) -> str:
    return " " * (columns - width(cell)) + cell


def _left(cell: str, columns: int) -> str:
    return cell + " " * (columns - width(cell))
