"""A Profile as a static HTML table: nothing runs in it, so it shows wherever HTML does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from .figures import answer
from .findings import Said, said
from .lines import line_table
from .startup import startup_sentences
from .tables import Table, kernel_table, operator_table
from .words import LINE, cut, fit, visible, what_was_run

if TYPE_CHECKING:
    from ..result import Profile

_NAME = 60
"""Columns of a name; the whole name shows on hover."""

# Colours come from the notebook's theme, or from the browser's where there is no notebook.
_STYLE = """
.tp-plain{font:13px/1.45 var(--jp-ui-font-family,system-ui,sans-serif);
color:var(--jp-ui-font-color1,CanvasText);max-width:100%;margin-top:6px}
.tp-plain p{margin:0 0 2px}
.tp-plain .tp-what{font-weight:600}
.tp-plain .tp-note{border-left:3px solid var(--jp-warn-color1,#d4602a);padding-left:8px;
margin:6px 0}
.tp-plain div{overflow-x:auto;margin:10px 0}
.tp-plain table{border-collapse:collapse;font-variant-numeric:tabular-nums;border:0}
.tp-plain caption{text-align:left;font-weight:600;padding:0 0 4px;color:inherit}
.tp-plain th,.tp-plain td{padding:3px 10px 3px 0;text-align:right;white-space:nowrap;
border:0;border-bottom:1px solid var(--jp-border-color2,#8884);background:none;color:inherit}
.tp-plain table tbody tr:nth-child(n){background:none}
.tp-plain th{font-weight:500;color:var(--jp-ui-font-color2,inherit)}
.tp-plain td.tp-name{font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:12px}
"""


def html(profile: Profile, sort: str | None = None, limit: int | None = 15) -> str:
    """Return the figures and tables as HTML; every name in it is text, never markup."""
    lines = [cut(line, LINE) for line in answer(profile)]
    lines += [*what_was_run(profile), *startup_sentences(profile)]
    parts = lead(lines)
    parts += notes(profile.summary.warnings)
    shown, below = said(profile, limit)
    parts += findings_html(shown, below)
    if (lines_ := line_table(profile, limit)) is not None:
        parts.append(table_html(lines_))
    operators = operator_table(profile, sort, limit)
    if operators.rows:
        parts.append(table_html(operators))
    if len(profile.kernels):
        parts.append(table_html(kernel_table(profile, limit)))
    return whole(parts)


def whole(parts: Iterable[str]) -> str:
    """Return pieces of HTML as one, with their style."""
    return f'<div class="tp-plain"><style>{_STYLE}</style>{"".join(parts)}</div>'


def lead(lines: Sequence[str]) -> list[str]:
    """Return lines of which the first is the answer."""
    parts = [f'<p class="tp-what">{_text(lines[0])}</p>']
    return [*parts, *(f"<p>{_text(line)}</p>" for line in lines[1:])]


def notes(lines: Iterable[str]) -> list[str]:
    """Return what a reader must know to trust the figures."""
    return [f'<p class="tp-note">{escape(cut(line, LINE))}</p>' for line in lines]


def findings_html(shown: Iterable[Said], below: Iterable[str]) -> list[str]:
    """Return findings, and what is to be said below them."""
    parts = [piece for one in shown for piece in lead([one.title, *one.lines])]
    return [*parts, *(f"<p>{_text(line)}</p>" for line in below)]


def _text(name: str) -> str:
    return escape(visible(name))


def table_html(table: Table) -> str:
    """Return a table; names that are cut show whole on hover."""

    def cell(kind: str, i: int, value: str) -> str:
        if table.kinds[i] == "r":
            return f"<{kind}>{_text(value)}</{kind}>"
        if table.kinds[i] == "l":
            return f'<{kind} style="text-align:left">{_text(value) if value else ""}</{kind}>'
        # An untrusted notebook drops the style sheet and keeps this.
        left = 'class="tp-name" style="text-align:left"'
        shown = fit(value, _NAME).rstrip()
        return f'<{kind} {left} title="{_text(value)}">{escape(shown)}</{kind}>'

    def row(kind: str, cells: list[str]) -> str:
        return f"<tr>{''.join(cell(kind, i, c) for i, c in enumerate(cells))}</tr>"

    more = f"<p>… and {table.left_out} more</p>" if table.left_out else ""
    return (
        f"<div><table><caption>{_text(table.title)}</caption>"
        f"<thead>{row('th', table.heads)}</thead>"
        f"<tbody>{''.join(row('td', cells) for cells in table.rows)}</tbody></table>{more}</div>"
    )
