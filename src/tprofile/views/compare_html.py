"""A Comparison as static HTML tables: nothing runs in them, so they show wherever HTML does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..units import DASH, unit
from .compare import figures, gain, kernel_table, labels, operator_table, warnings
from .compare_figures import details, title
from .compare_payload import LINES_BYTES
from .findings import Said
from .html import findings_html, lead, notes, table_html, whole
from .payload import lines_kept
from .tables import Table, table
from .words import LINE, cut, sentence

if TYPE_CHECKING:
    from ..analysis.finding import Finding
    from ..comparison import Comparison

MOST_BYTES = 30_000
"""Of the tables, which a notebook keeps beside the data of the live view."""


def compare_html(comparison: Comparison, limit: int | None = 15) -> str:
    """Return figures, findings and tables; every name in them is text, never markup.

    With fewer rows than `limit` where names are so long that they would take too many bytes.
    """
    shown = _html(comparison, limit)
    for fewer in (10, 5, 2, 1):
        if len(shown.encode()) <= MOST_BYTES:
            break
        shown = _html(comparison, min(limit or fewer, fewer))
    return shown


def _html(comparison: Comparison, limit: int | None) -> str:
    # The first of the findings is the answer.
    first, others = comparison.findings[:1], comparison.findings[1:]
    proof = [one.evidence for one in first]
    lines = [title(comparison), *proof, *details(comparison)]
    said = [_said(comparison, one) for one in others[:limit]]
    more = len(others) - len(said)
    left_out: list[str] = []
    parts = [
        *lead([cut(line, LINE) for line in lines]),
        *notes(lines_kept("warnings", warnings(comparison), LINES_BYTES, left_out)),
        *(f"<p>… {one}</p>" for one in left_out),
        table_html(figures(comparison)),
        *findings_html(said, [f"… and {more} more in Comparison.findings"] if more else []),
    ]
    if (became := _became(comparison, limit)) is not None:
        parts.append(table_html(became))
    tables = [operator_table(comparison, limit), kernel_table(comparison, limit)]
    return whole([*parts, *(table_html(_shortened(one)) for one in tables if one.rows)])


def _said(comparison: Comparison, one: Finding) -> Said:
    title = " · ".join(part for part in (sentence(one.title), gain(comparison, one)) if part)
    return Said(cut(title, LINE), [cut(line, LINE) for line in (one.evidence, f"→ {one.advice}")])


def _became(comparison: Comparison, limit: int | None) -> Table | None:
    frame = comparison.replaced
    if frame is None or not (frame["change"] != "same").any():
        return None
    frame = frame[frame["change"] != "same"]
    a, b = labels(comparison)
    fit = unit([*frame["device_us_a"], *frame["device_us_b"]])
    columns = [
        [_together(names) for names in frame["kernels_a"]],
        [name or DASH for name in frame["kernel_b"]],
        frame["change"].tolist(),
        [str(n) for n in frame["times"]],
        [fit.number(us) for us in frame["device_us_a"]],
        [fit.number(us) for us in frame["device_us_b"]],
    ]
    heads = [f"kernels of {a}", f"in {b}", "change", "times", f"{a} {fit.name}", f"{b} {fit.name}"]
    made = table(f"What became of the kernels of {a}, in one run", heads, "nnl", columns, limit)
    return _shortened(made)


def _together(names: tuple[str, ...]) -> str:
    if len(names) < 2:
        return "".join(names) or DASH
    return f"{len(names)} kernels: {' + '.join(names)}"


def _shortened(table: Table) -> Table:
    """Return a table with names that a page can hold by the dozen."""
    rows = [
        [cut(cell, LINE) if kind == "n" else cell
         for kind, cell in zip(table.kinds, row, strict=True)]
        for row in table.rows
    ]  # fmt: skip
    return Table(table.title, table.heads, table.kinds, rows, table.left_out)
