"""A Profile as text of at most 100 columns, for terminals and issues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .startup import startup_sentences, startup_table
from .tables import Table, kernel_table, operator_table
from .words import LINE, answer, cut, fit, visible, width

if TYPE_CHECKING:
    from ..result import Profile

COLUMNS = 100


def text(profile: Profile, sort: str | None = None, limit: int | None = 15) -> str:
    """Return the figures and the tables, names cut in the middle where they do not fit."""
    lines = [*answer(profile), *startup_sentences(profile, beside_table=True)]
    blocks = ["\n".join(map(_wrapped, lines))]
    notes = [*profile.summary.warnings]
    if notes:
        blocks.append("\n".join(_wrapped(f"! {cut(note, LINE)}", "  ") for note in notes))
    if (startup := startup_table(profile)) is not None:
        table, remarks = startup
        blocks.append("\n".join([_drawn(table), *map(_wrapped, remarks)]))
    operators = operator_table(profile, sort, limit)
    if operators.rows:
        blocks.append(_drawn(operators))
    if len(profile.kernels):
        blocks.append(_drawn(kernel_table(profile, limit)))
    return "\n\n".join(blocks)


def _wrapped(line: str, indent: str = "") -> str:
    """Return the line broken at spaces; `textwrap` would count characters, not columns."""
    lines, last = [], ""
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


def _drawn(table: Table) -> str:
    numbers = range(table.names, len(table.heads))
    widths = {i: max(width(row[i]) for row in [table.heads, *table.rows]) for i in numbers}
    left = COLUMNS - sum(widths.values()) - 2 * (len(table.heads) - 1)
    # The first name gets two thirds: a kernel's is longer than its operator's.
    shares = [left] if table.names == 1 else [left - left // 3, left // 3]
    for i in range(table.names):
        longest = max(width(visible(row[i])) for row in [table.heads, *table.rows])
        widths[i] = min(shares[i], longest)

    def line(cells: list[str]) -> str:
        drawn = [
            fit(cell, widths[i]) if i < table.names else cell.rjust(widths[i])
            for i, cell in enumerate(cells)
        ]
        return "  ".join(drawn).rstrip()

    lines = [table.title, line(table.heads), *(line(row) for row in table.rows)]
    if table.left_out:
        lines.append(f"… and {table.left_out} more")
    return "\n".join(lines)
